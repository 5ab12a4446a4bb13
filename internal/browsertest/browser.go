// Package browsertest controls a headless Chromium, for tests of pages.
package browsertest

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Browser is a headless Chromium, controlled over a pipe in its debugging protocol.
type Browser struct {
	t       testing.TB
	in      io.Writer
	answers chan message
	session string
	id      int
	Faults  []string // the errors on the pages' console
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

// New starts WEIR_CHROMIUM, or a Chromium in the path; if there is none, the test is skipped.
func New(t testing.TB) *Browser {
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
	b := &Browser{t: t, in: in, answers: make(chan message, 1000)}
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
	t.Cleanup(func() { b.end(cmd, profile, in, out) })
	var target struct {
		ID string `json:"targetId"`
	}
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	b.Call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session)
	b.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.Call(domain+".enable", nil, nil)
	}
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1300, "height": 1000, "deviceScaleFactor": 1,
		"mobile": false}, nil)
	return b
}

// end asks the browser to end, and removes its profile. The browser's processes outlive the first of them, and write
// until they have ended: the profile cannot be the test's own folder, and is removed until it stays away.
func (b *Browser) end(cmd *exec.Cmd, profile string, pipes ...io.Closer) {
	late := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
	b.in.Write([]byte(`{"id":1000000,"method":"Browser.close"}` + "\x00"))
	for range b.answers { // until the pipe's other end is closed
	}
	cmd.Wait()
	late.Stop()
	for _, p := range pipes {
		p.Close()
	}
	for give := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := os.RemoveAll(profile)
		time.Sleep(50 * time.Millisecond)
		if _, gone := os.Stat(profile); err == nil && os.IsNotExist(gone) {
			return
		}
		if time.Now().After(give) {
			b.t.Errorf("the browser's profile stays: %s, %v", profile, err)
			return
		}
	}
}

// next returns the next message, and records events.
func (b *Browser) next() message {
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
			b.Faults = append(b.Faults, m.Method+" "+string(text))
		}
		return m
	case <-time.After(30 * time.Second):
		b.t.Fatal("the browser does not answer")
	}
	return message{}
}

// Call sends a command, and decodes its result.
func (b *Browser) Call(method string, params any, result any) {
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

// Open loads the page of an address and waits until it is drawn.
func (b *Browser) Open(url string) {
	b.t.Helper()
	b.loaded = false
	b.Call("Page.navigate", map[string]any{"url": url}, nil)
	for !b.loaded {
		b.next()
	}
	b.Settle()
}

// Settle waits until the requested changes are drawn.
func (b *Browser) Settle() {
	b.Eval(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`)
}

// Eval returns the value of an expression as a string.
func (b *Browser) Eval(expression string) string {
	b.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.Exception != nil {
		b.t.Fatalf("%s: %s", expression, r.Exception)
	}
	return fmt.Sprint(r.Result.Value)
}

// Mouse sends an event of the mouse at a position.
func (b *Browser) Mouse(kind string, x, y float64, more map[string]any) {
	params := map[string]any{"type": kind, "x": x, "y": y}
	for k, v := range more {
		params[k] = v
	}
	b.Call("Input.dispatchMouseEvent", params, nil)
	b.Settle()
}

// Key presses and releases a key.
func (b *Browser) Key(key string) {
	b.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": key,
		"text": map[bool]string{true: key}[len(key) == 1]}, nil)
	b.Call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil)
	b.Settle()
}

// Shot saves a picture of the page into the folder WEIR_SHOTS, if it is set.
func (b *Browser) Shot(name string) {
	dir := os.Getenv("WEIR_SHOTS")
	if dir == "" {
		return
	}
	var r struct {
		Data string `json:"data"`
	}
	b.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), data, 0o666)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// Window sets the size of the window.
func (b *Browser) Window(width, height int) {
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1,
		"mobile": false}, nil)
	b.Settle()
}

// Read decodes the value of an expression into a variable.
func (b *Browser) Read(expression string, into any) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.Eval("JSON.stringify("+expression+")")), into); err != nil {
		b.t.Fatal(err)
	}
}
