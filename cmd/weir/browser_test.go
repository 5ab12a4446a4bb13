package main

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/planpage"
)

// browser is a headless Chromium, controlled over a pipe in its debugging protocol.
type browser struct {
	t       *testing.T
	in      io.Writer
	answers chan message
	session string
	id      int
	faults  []string // the errors on the pages' console
	loaded  bool
}

// message is a message of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// newBrowser starts WEIR_CHROMIUM, or a Chromium in the path; if there is none, the test is skipped.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := os.Getenv("WEIR_CHROMIUM")
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("there is no Chromium: set WEIR_CHROMIUM to one, or install chromium-headless-shell")
	}
	toBrowser, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// the browser's processes may still write after the test's own folder must be empty
	profile, err := os.MkdirTemp("", "weir-browser-*")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
		"--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	if err := cmd.Start(); err != nil {
		t.Skipf("%s does not start: %v", path, err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b := &browser{t: t, in: in, answers: make(chan message, 1000)}
	go func() {
		defer close(b.answers)
		for r := bufio.NewReaderSize(out, 1<<20); ; {
			text, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(text[:len(text)-1], &m) == nil {
				b.answers <- m
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(profile)
		in.Close()
		out.Close()
	})
	var target struct {
		ID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session)
	b.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1300, "height": 1000, "deviceScaleFactor": 1,
		"mobile": false}, nil)
	return b
}

// next returns the next message, and records events.
func (b *browser) next() message {
	b.t.Helper()
	select {
	case m, ok := <-b.answers:
		if !ok {
			b.t.Fatal("the browser ended")
		}
		text, _ := json.Marshal(m.Params)
		switch {
		case m.Method == "Page.loadEventFired":
			b.loaded = true
		case m.Method == "Runtime.exceptionThrown", m.Method == "Log.entryAdded" &&
			strings.Contains(string(text), `"level":"error"`), m.Method == "Runtime.consoleAPICalled" &&
			strings.Contains(string(text), `"type":"error"`), m.Method == "Page.javascriptDialogOpening":
			b.faults = append(b.faults, m.Method+" "+string(text))
		}
		return m
	case <-time.After(30 * time.Second):
		b.t.Fatal("the browser does not answer")
	}
	return message{}
}

// call sends a command, and decodes its result.
func (b *browser) call(method string, params any, result any) {
	b.t.Helper()
	b.id++
	id := b.id
	text, err := json.Marshal(message{ID: id, Method: method, Session: b.session, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if m.ID != id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// open loads a page and waits until it is drawn.
func (b *browser) open(file string) {
	b.t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.loaded = false
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	for !b.loaded {
		b.next()
	}
	b.settle()
}

// settle waits until the requested changes are drawn.
func (b *browser) settle() {
	b.eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`)
}

// eval returns the value of an expression as a string.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.Exception != nil {
		b.t.Fatalf("%s: %s", expression, r.Exception)
	}
	return fmt.Sprint(r.Result.Value)
}

// mouse sends an event of the mouse at a position.
func (b *browser) mouse(kind string, x, y float64, more map[string]any) {
	params := map[string]any{"type": kind, "x": x, "y": y}
	for k, v := range more {
		params[k] = v
	}
	b.call("Input.dispatchMouseEvent", params, nil)
	b.settle()
}

// key presses and releases a key.
func (b *browser) key(key string) {
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key,
		"text": map[bool]string{true: key}[len(key) == 1]}, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
	b.settle()
}

// shot saves a picture of the page into the folder WEIR_SHOTS, if it is set.
func (b *browser) shot(name string) {
	dir := os.Getenv("WEIR_SHOTS")
	if dir == "" {
		return
	}
	var r struct {
		Data string `json:"data"`
	}
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o666)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// TestPageInBrowser opens pages in Chromium: there are no errors, the plan's contents are drawn, and mouse and keys
// work.
func TestPageInBrowser(t *testing.T) {
	b := newBrowser(t)
	dir := t.TempDir()
	page := func(name string, args ...string) string {
		file := filepath.Join(dir, name+".html")
		if r := weirRun(t, append(append([]string{"plan"}, args...), "--html", file)...); r.code != 0 {
			t.Fatalf("%v: %d %s", args, r.code, r.err)
		}
		return file
	}
	const canvas = `document.querySelector("canvas.map")`
	for name, args := range map[string][]string{
		"digits": {digits, "--dim", "batch=64", "--actual"},
		"free":   {digits},
		"budget": {models + "training_step/model.onnx", "--dim", "n=4096", "--budget", "1800KiB"},
		"loop":   {models + "loop_nested/model.onnx"},
		"cache":  {models + "kv_cache/model.onnx", "--calls", "3"},
		"diff":   {digits, "--diff", models + "two_dims/model.onnx", "--dim", "batch=64"},
		"table":  {"../../internal/memplan/testdata/minimalloc/A.1048576.csv"},
		"text":   {"../../testdata/memory/checked/two_dims.weir"},
	} {
		file := page(name, args...)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b.open(file)
		b.shot(name)
		want := 0
		for _, u := range dataOf(t, text).Plans[0].Plan.Buffers {
			if u.Bytes > 0 {
				want++
			}
		}
		if got := b.eval(canvas + ".dataset.drawn"); got != fmt.Sprint(want) {
			t.Errorf("%s: %s rectangles are drawn, the plan has %d buffers", name, got, want)
		}
		colors := b.eval(`(() => { const c = ` + canvas +
			`, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return s.size > 4; })()`)
		if colors != "true" {
			t.Errorf("%s: the canvas is nearly empty", name)
		}
		if got, want := b.eval(`document.querySelectorAll(".conditions tr").length`),
			map[string]string{"text": "1"}[name]; got != cmp.Or(want, "0") {
			t.Errorf("%s: %s conditions are shown", name, got)
		}
		b.legible(name, canvas)
		b.laidOut(name)
	}
	b.open(filepath.Join(dir, "digits.html"))
	b.touch(canvas)
	b.shot("touched")
	b.open(func() string {
		file := filepath.Join(dir, "hostile.html")
		if err := os.WriteFile(file, hostilePage(t), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}())
	if n := b.eval(`document.querySelectorAll("img, svg, script:not([type]), iframe").length`); n != "1" {
		t.Errorf("%s elements came out of names, or none is the page's own script", n)
	}
	b.open(manyBuffers(t, dir))
	if got := b.eval(canvas + ".dataset.drawn"); got != "5000" {
		t.Errorf("%s of 5000 rectangles are drawn", got)
	}
	b.shot("many")
	b.laidOut("many")
	begin := time.Now()
	for range 10 {
		b.eval(canvas + `.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}))`)
		b.settle()
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("ten steps of zoom over 5000 buffers take %v", took)
	} else {
		t.Logf("ten steps of zoom over 5000 buffers: %v", took)
	}
	if len(b.faults) > 0 {
		t.Errorf("the console has errors:\n%s", strings.Join(b.faults, "\n"))
	}
}

// window sets the size of the window.
func (b *browser) window(width, height int) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": false}, nil)
	b.settle()
}

// laidOut checks the first screen of a page in windows of a desktop's and of a telephone's size: the chart with its
// axis is visible, no line crosses a label and no label covers another, each colour has one meaning, and the drawing
// has a description for readers who do not see it.
func (b *browser) laidOut(name string) {
	t := b.t
	t.Helper()
	defer b.window(1300, 1000)
	for _, size := range [][2]int{{1400, 900}, {390, 844}} {
		b.window(size[0], size[1])
		b.eval("scrollTo(0, 0)")
		b.shot(fmt.Sprintf("%s-%d", name, size[0]))
		var seen struct {
			Top, Bottom, Right, Wide float64
		}
		b.read(`(() => { const m = document.querySelector("canvas.map").getBoundingClientRect(), l = document.querySelector("canvas.live").getBoundingClientRect();
			return {Top: m.top, Bottom: l.bottom, Right: Math.max(m.right, l.right), Wide: document.documentElement.scrollWidth}; })()`, &seen)
		most := map[int]float64{1400: 250, 390: 450}[size[0]]
		if name == "diff" {
			most = map[int]float64{1400: 320, 390: 700}[size[0]] // two sums stand above two charts
		}
		if seen.Top > most || seen.Right > float64(size[0]) || seen.Wide > float64(size[0]) || name != "diff" &&
			seen.Bottom > float64(size[1]) {
			t.Errorf("%s in %v: the chart is at %+v, at most %v from the top is wanted, and its axis in the window", name, size,
				seen, most)
		}
		for _, canvas := range []string{"canvas.map", "canvas.live"} {
			b.uncrossed(fmt.Sprint(name, " in ", size, ", ", canvas), canvas)
		}
	}
	var colors []struct{ Color, Meaning string }
	b.read(`[...document.querySelectorAll(".dot, .stroke.peak, .stroke.bound")].map(e => { const s = getComputedStyle(e);
		return {Color: e.className === "dot" ? s.backgroundColor : s.borderTopColor, Meaning: e.parentElement.textContent.replace(/ [0-9.]+ [KMGTP]?i?B$/, "")}; })`, &colors)
	means := map[string]string{}
	for _, c := range colors {
		if other, taken := means[c.Color]; taken && other != c.Meaning {
			t.Errorf("%s: %s is the colour of %q and of %q", name, c.Color, other, c.Meaning)
		}
		means[c.Color] = c.Meaning
	}
	if len(means) < 4 {
		t.Errorf("%s: the legends have %d colours", name, len(means))
	}
	if said := b.eval(`document.querySelector("canvas.map").getAttribute("aria-label") + document.querySelector("canvas.live").getAttribute("aria-label")`); strings.Count(said, " in ") < 2 || !strings.Contains(said, "the arena takes") {
		t.Errorf("%s: a screen reader is told %q", name, said)
	}
	if n := b.eval(`[...document.querySelectorAll("button, input, select, canvas.map, summary")].filter(e => e.tabIndex < 0 || !(e.getAttribute("aria-label") || e.textContent.trim())).length`); n != "0" {
		t.Errorf("%s: %s controls have no name, or cannot be reached with the keyboard", name, n)
	}
}

// uncrossed checks that all labels on a canvas lie inside it, that none covers another, and that no line crosses one.
func (b *browser) uncrossed(name, canvas string) {
	t := b.t
	t.Helper()
	var drawn struct {
		Written, Lines [][4]float64 // left, top, width, height; from and to
		Wide, High     float64
	}
	b.read(`(c => ({Written: JSON.parse(c.dataset.written), Lines: JSON.parse(c.dataset.lines), Wide: c.clientWidth, High: c.clientHeight}))(document.querySelector("`+canvas+`"))`, &drawn)
	if len(drawn.Written) == 0 || len(drawn.Lines) == 0 {
		t.Errorf("%s: %d texts, %d lines", name, len(drawn.Written), len(drawn.Lines))
	}
	meet := func(a, c [4]float64) bool {
		return a[0] < c[0]+c[2] && c[0] < a[0]+a[2] && a[1] < c[1]+c[3] && c[1] < a[1]+a[3]
	}
	for i, w := range drawn.Written {
		if w[0] < 0 || w[1] < 0 || w[0]+w[2] > drawn.Wide || w[1]+w[3] > drawn.High {
			t.Errorf("%s: a text at %v leaves the canvas of %v × %v", name, w, drawn.Wide, drawn.High)
		}
		for _, other := range drawn.Written[:i] {
			if meet(w, other) {
				t.Errorf("%s: a text at %v covers one at %v", name, w, other)
			}
		}
		for _, l := range drawn.Lines {
			if meet(w, [4]float64{min(l[0], l[2]), min(l[1], l[3]), max(l[0], l[2]) - min(l[0], l[2]),
				max(l[1], l[3]) - min(l[1], l[3])}) {
				t.Errorf("%s: a line from %v to %v crosses a text at %v", name, l[:2], l[2:], w)
			}
		}
	}
}

// read decodes the value of an expression into a variable.
func (b *browser) read(expression string, into any) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.eval("JSON.stringify("+expression+")")), into); err != nil {
		b.t.Fatal(err)
	}
}

// legible checks that names are legible on the colours of their rectangles, in light and dark mode: a contrast of at
// least 4, as WCAG defines it.
func (b *browser) legible(name, canvas string) {
	b.t.Helper()
	for range 2 {
		b.eval(`document.getElementById("theme").onclick()`)
		b.settle()
		pairs := strings.Split(b.eval(canvas+".dataset.inks"), ",")
		for _, pair := range pairs {
			paper, ink, _ := strings.Cut(pair, " ")
			x, y := brightness(b.t, paper), brightness(b.t, ink)
			if contrast := (max(x, y) + 0.05) / (min(x, y) + 0.05); contrast < 4 {
				b.t.Errorf("%s: names in %s on %s have a contrast of %.1f", name, ink, paper, contrast)
			}
		}
	}
}

// brightness returns the brightness of a colour, #rrggbb or #rgb, from 0 to 1.
func brightness(t *testing.T, color string) (sum float64) {
	t.Helper()
	digits := strings.TrimPrefix(color, "#")
	if len(digits) == 3 {
		digits = digits[:1] + digits[:1] + digits[1:2] + digits[1:2] + digits[2:] + digits[2:]
	}
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != 3 {
		t.Fatalf("%q is no colour", color)
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(bytes[i]) / 255
		if c <= 0.03928 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// manyBuffers writes the page of an artificial plan with 5,000 buffers.
func manyBuffers(t *testing.T, dir string) string {
	p := &weir.Plan{Dims: weir.Dims{}, Calls: 1, Workers: 1, Arena: 64 << 20, Peak: 64 << 20, LowerBound: 60 << 20,
		Least: 60 << 20, PeakStep: 700, Storages: []weir.PlanStorage{{Name: "arena", Kind: "arena", Bytes: 64 << 20}}}
	for i := range 1500 {
		p.Steps = append(p.Steps, weir.PlanStep{Kind: "launch", Nodes: fmt.Sprintf("node_%d", i),
			Live: int64(30<<20 + i*7919%(30<<20))})
	}
	for i := range 5000 {
		first := i * 1490 / 5000
		p.Buffers = append(p.Buffers, weir.PlanBuffer{Name: fmt.Sprintf("b%d", i), DType: "f32", Shape: []int64{4},
			Offset: int64(i%40) << 20, Bytes: int64(1+i%16) << 16, First: first, Last: first + i%9, Reached: -1})
	}
	file := filepath.Join(dir, "many.html")
	if err := writePageTo(file, "many",
		planpage.Data{Plans: []planpage.Plan{{Name: "many", Plan: p, Formulas: map[string]string{}}}}); err != nil {
		t.Fatal(err)
	}
	return file
}

// touch uses a page by mouse and keys, as a user would.
func (b *browser) touch(canvas string) {
	t := b.t
	t.Helper()
	b.eval(canvas + `.scrollIntoView({block: "center"})`)
	b.settle()
	var box [4]float64
	if err := json.Unmarshal([]byte(b.eval(`(r => JSON.stringify([r.left, r.top, r.width, r.height]))(`+canvas+
		`.getBoundingClientRect())`)), &box); err != nil {
		t.Fatal(err)
	}
	hidden := func() string { return b.eval(`document.getElementById("tip").hidden`) }
	span := func() string { return b.eval(`(d => (d.x1 - d.x0) + " " + (d.y1 - d.y0))(` + canvas + `.dataset)`) }
	if hidden() != "true" {
		t.Error("there is a tooltip before there is a mouse")
	}
	found := ""
	for i := 0; i < 40 && found == ""; i++ { // some position along the bottom has a buffer
		b.mouse("mouseMoved", box[0]+80+(box[2]-100)*float64(i)/40, box[1]+box[3]-30, nil)
		if hidden() == "false" {
			found = b.eval(`document.getElementById("tip").textContent`)
		}
	}
	if !strings.Contains(found, "relu") || !strings.Contains(found, "at byte") || !strings.Contains(found, "from step") ||
		!strings.Contains(found, "reached to byte") {
		t.Errorf("the tooltip says %q", found)
	}
	whole := span()
	b.mouse("mouseWheel", box[0]+box[2]/2, box[1]+box[3]/2, map[string]any{"deltaX": 0, "deltaY": -300})
	zoomed := span()
	if zoomed == whole {
		t.Errorf("the wheel does not zoom: %s", whole)
	}
	b.eval(canvas + ".focus()")
	b.key("0")
	if span() != whole {
		t.Errorf("0 shows %s, all is %s", span(), whole)
	}
	b.key("+")
	if span() == whole {
		t.Error("+ does not zoom")
	}
	b.key("ArrowRight")
	if b.eval(canvas+".dataset.chosen") == "-1" || b.eval(`document.querySelector("[aria-live]").textContent`) == "" {
		t.Error("an arrow chooses no buffer")
	}
	if n := b.eval(`document.querySelectorAll("table.alive tbody tr").length`); n != "2" {
		t.Errorf("%s tensors are said to be alive at the peak, there are 2", n)
	}
	b.eval(`(s => { s.value = "relu_1"; s.oninput(); document.querySelector("details.buffers").open = true; })(document.querySelector("input"))`)
	if n := b.eval(`document.querySelectorAll("details.buffers tbody tr").length`); n != "1" {
		t.Errorf("a search lists %s buffers, one has the name", n)
	}
	light := b.eval(`getComputedStyle(document.body).backgroundColor`)
	b.eval(`document.getElementById("theme").onclick()`)
	if b.eval(`getComputedStyle(document.body).backgroundColor`) == light {
		t.Error("the theme does not change")
	}
}
