package command

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/browsertest"
	"github.com/weirml/weir/internal/planpage"
)

// browser is a browser that looks at a plan's page.
type browser struct {
	*browsertest.Browser
	t *testing.T
}

// open loads a page's file.
func (b *browser) open(file string) {
	b.t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Open("file://" + path)
}

// TestPageInBrowser opens pages in Chromium: there are no errors, the plan's contents are drawn, and mouse and keys
// work.
func TestPageInBrowser(t *testing.T) {
	b := &browser{browsertest.New(t), t}
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
		b.Shot(name)
		want := 0
		for _, u := range dataOf(t, text).Plans[0].Plan.Buffers {
			if u.Bytes > 0 {
				want++
			}
		}
		if got := b.Eval(canvas + ".dataset.drawn"); got != fmt.Sprint(want) {
			t.Errorf("%s: %s rectangles are drawn, the plan has %d buffers", name, got, want)
		}
		colors := b.Eval(`(() => { const c = ` + canvas +
			`, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i+1] << 8 | d[i+2]); return s.size > 4; })()`)
		if colors != "true" {
			t.Errorf("%s: the canvas is nearly empty", name)
		}
		if got, want := b.Eval(`document.querySelectorAll(".conditions tr").length`),
			map[string]string{"text": "1"}[name]; got != cmp.Or(want, "0") {
			t.Errorf("%s: %s conditions are shown", name, got)
		}
		b.legible(name, canvas)
		b.laidOut(name)
	}
	b.open(filepath.Join(dir, "digits.html"))
	b.touch(canvas)
	b.Shot("touched")
	b.open(func() string {
		file := filepath.Join(dir, "hostile.html")
		if err := os.WriteFile(file, hostilePage(t), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}())
	if n := b.Eval(`document.querySelectorAll("img, svg, script:not([type]), iframe").length`); n != "1" {
		t.Errorf("%s elements came out of names, or none is the page's own script", n)
	}
	b.open(manyBuffers(t, dir))
	if got := b.Eval(canvas + ".dataset.drawn"); got != "5000" {
		t.Errorf("%s of 5000 rectangles are drawn", got)
	}
	b.Shot("many")
	b.laidOut("many")
	begin := time.Now()
	for range 10 {
		b.Eval(canvas + `.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}))`)
		b.Settle()
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("ten steps of zoom over 5000 buffers take %v", took)
	} else {
		t.Logf("ten steps of zoom over 5000 buffers: %v", took)
	}
	if len(b.Faults) > 0 {
		t.Errorf("the console has errors:\n%s", strings.Join(b.Faults, "\n"))
	}
}

// laidOut checks the first screen of a page in windows of a desktop's and of a telephone's size: the chart with its
// axis is visible, no line crosses a label and no label covers another, each colour has one meaning, and the drawing
// has a description for readers who do not see it.
func (b *browser) laidOut(name string) {
	t := b.t
	t.Helper()
	defer b.Window(1300, 1000)
	for _, size := range [][2]int{{1400, 900}, {390, 844}} {
		b.Window(size[0], size[1])
		b.Eval("scrollTo(0, 0)")
		b.Shot(fmt.Sprintf("%s-%d", name, size[0]))
		var seen struct {
			Top, Bottom, Right, Wide float64
		}
		b.Read(`(() => { const m = document.querySelector("canvas.map").getBoundingClientRect(), l = document.querySelector("canvas.live").getBoundingClientRect();
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
	b.Read(`[...document.querySelectorAll(".dot, .stroke.peak, .stroke.bound")].map(e => { const s = getComputedStyle(e);
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
	if said := b.Eval(`document.querySelector("canvas.map").getAttribute("aria-label") + document.querySelector("canvas.live").getAttribute("aria-label")`); strings.Count(said, " in ") < 2 || !strings.Contains(said, "the arena takes") {
		t.Errorf("%s: a screen reader is told %q", name, said)
	}
	if n := b.Eval(`[...document.querySelectorAll("button, input, select, canvas.map, summary")].filter(e => e.tabIndex < 0 || !(e.getAttribute("aria-label") || e.textContent.trim())).length`); n != "0" {
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
	b.Read(`(c => ({Written: JSON.parse(c.dataset.written), Lines: JSON.parse(c.dataset.lines), Wide: c.clientWidth, High: c.clientHeight}))(document.querySelector("`+canvas+`"))`, &drawn)
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

// legible checks that names are legible on the colours of their rectangles, in light and dark mode: a contrast of at
// least 4, as WCAG defines it.
func (b *browser) legible(name, canvas string) {
	b.t.Helper()
	for range 2 {
		b.Eval(`document.getElementById("theme").onclick()`)
		b.Settle()
		pairs := strings.Split(b.Eval(canvas+".dataset.inks"), ",")
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
	b.Eval(canvas + `.scrollIntoView({block: "center"})`)
	b.Settle()
	var box [4]float64
	if err := json.Unmarshal([]byte(b.Eval(`(r => JSON.stringify([r.left, r.top, r.width, r.height]))(`+canvas+
		`.getBoundingClientRect())`)), &box); err != nil {
		t.Fatal(err)
	}
	hidden := func() string { return b.Eval(`document.getElementById("tip").hidden`) }
	span := func() string { return b.Eval(`(d => (d.x1 - d.x0) + " " + (d.y1 - d.y0))(` + canvas + `.dataset)`) }
	if hidden() != "true" {
		t.Error("there is a tooltip before there is a mouse")
	}
	found := ""
	for i := 0; i < 40 && found == ""; i++ { // some position along the bottom has a buffer
		b.Mouse("mouseMoved", box[0]+80+(box[2]-100)*float64(i)/40, box[1]+box[3]-30, nil)
		if hidden() == "false" {
			found = b.Eval(`document.getElementById("tip").textContent`)
		}
	}
	if !strings.Contains(found, "relu") || !strings.Contains(found, "at byte") || !strings.Contains(found, "from step") ||
		!strings.Contains(found, "reached to byte") {
		t.Errorf("the tooltip says %q", found)
	}
	whole := span()
	b.Mouse("mouseWheel", box[0]+box[2]/2, box[1]+box[3]/2, map[string]any{"deltaX": 0, "deltaY": -300})
	zoomed := span()
	if zoomed == whole {
		t.Errorf("the wheel does not zoom: %s", whole)
	}
	b.Eval(canvas + ".focus()")
	b.Key("0")
	if span() != whole {
		t.Errorf("0 shows %s, all is %s", span(), whole)
	}
	b.Key("+")
	if span() == whole {
		t.Error("+ does not zoom")
	}
	b.Key("ArrowRight")
	if b.Eval(canvas+".dataset.chosen") == "-1" || b.Eval(`document.querySelector("[aria-live]").textContent`) == "" {
		t.Error("an arrow chooses no buffer")
	}
	if n := b.Eval(`document.querySelectorAll("table.alive tbody tr").length`); n != "2" {
		t.Errorf("%s tensors are said to be alive at the peak, there are 2", n)
	}
	b.Eval(`(s => { s.value = "relu_1"; s.oninput(); document.querySelector("details.buffers").open = true; })(document.querySelector("input"))`)
	if n := b.Eval(`document.querySelectorAll("details.buffers tbody tr").length`); n != "1" {
		t.Errorf("a search lists %s buffers, one has the name", n)
	}
	light := b.Eval(`getComputedStyle(document.body).backgroundColor`)
	b.Eval(`document.getElementById("theme").onclick()`)
	if b.Eval(`getComputedStyle(document.body).backgroundColor`) == light {
		t.Error("the theme does not change")
	}
}
