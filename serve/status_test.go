package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/browsertest"
	"github.com/weirml/weir/serve"
)

// hostileModel is a folder's name that would be a script in a page that did not escape it.
const hostileModel = `<script>window.hacked=1<|script><img src=x onerror=window.hacked=1>`

// TestStatus: the status has the models with their states, what they hold, the ledger and the errors; numbers agree.
func TestStatus(t *testing.T) {
	dir := folder(t, map[string]string{"digits.onnx": digits})
	write(t, dir+"/broken.onnx", []byte("no model"))
	_, h := start(t, serve.Options{Folder: dir})
	ask(t, h.URL, "digits", 2)
	post(t, h.URL+"/v2/models/digits/infer", nil, []byte(`{}`))
	code, body := get(t, h.URL+"/v2/weir/status")
	var s struct {
		Server struct{ Ready bool }
		Ledger struct {
			Limit, Held, Peak int64
			Accounts          []struct {
				Kind, Account string
				Bytes         int64
			}
		}
		Models []struct {
			Name, Version, State, Reason, Certificate string
			Fixed                                     int64 `json:"fixed_bytes"`
			Success, Failed, Rows, Runs               int
		}
		Errors []struct{ Model, Kind, Error string }
	}
	if err := json.Unmarshal(body, &s); err != nil || code != 200 {
		t.Fatalf("status %d, %v: %s", code, err, body)
	}
	if len(s.Models) != 2 || s.Models[0].State != "UNAVAILABLE" || s.Models[0].Reason == "" {
		t.Fatalf("the models are %+v", s.Models)
	}
	m := s.Models[1]
	if m.Name != "digits" || m.Version != "1" || m.State != "READY" || !strings.Contains(m.Certificate, "batch") ||
		m.Success != 1 || m.Failed != 1 || m.Rows != 2 || m.Runs != 1 {
		t.Errorf("the model is %+v", m)
	}
	sum, fixed := int64(0), int64(0)
	for _, a := range s.Ledger.Accounts {
		sum += a.Bytes
		if a.Kind == "model" {
			fixed += a.Bytes
		}
	}
	if sum != s.Ledger.Held || s.Ledger.Peak < sum || s.Ledger.Limit != 1<<30 || fixed != m.Fixed || fixed == 0 {
		t.Errorf("the accounts have %d bytes, %d of models (%d): %+v", sum, fixed, m.Fixed, s.Ledger)
	}
	if len(s.Errors) != 1 || s.Errors[0].Model != "digits" || s.Errors[0].Kind != "input" || !s.Server.Ready {
		t.Errorf("the errors are %+v", s.Errors)
	}
}

// TestStatusNeedsToken: without a token the page has no data, and asks for one.
func TestStatusNeedsToken(t *testing.T) {
	_, h := start(t, serve.Options{Folder: folder(t, map[string]string{"secret.onnx": digits}), Tokens: []string{"abc"}})
	for _, path := range []string{"/", "/v2/weir/status", "/metrics"} {
		for token, want := range map[string]int{"": 401, "abd": 401, "abc": 200} {
			r, err := http.NewRequest("GET", h.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			a, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body := make([]byte, 1<<20)
			n, _ := a.Body.Read(body)
			a.Body.Close()
			if a.StatusCode != want || strings.Contains(string(body[:n]), "secret") && want == 401 {
				t.Errorf("%s with token %q: status %d, %s", path, token, a.StatusCode, body[:n])
			}
			if path == "/" && !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("the page's policy is %q", a.Header.Get("Content-Security-Policy"))
			}
		}
	}
}

// TestPageInBrowser opens the status page in Chromium: it shows what the status tells, names and errors are text, it
// asks for a token, and draws itself again.
func TestPageInBrowser(t *testing.T) {
	b := browsertest.New(t)
	name := strings.ReplaceAll(hostileModel, "|", "\\")
	dir := folder(t, map[string]string{name + "/1/model.onnx": digits, "digits.onnx": digits})
	write(t, dir+"/broken.onnx", []byte("no model"))
	statefulModel(t, dir, "controlled", time.Minute, "(%x: T[1]) {\n    %y: T[1] = abs(%x)\n    return %y", "f32", "")
	_, h := start(t, serve.Options{Folder: dir, Limit: 64 << 20, Tokens: []string{"abc"}})
	send := func(input string) {
		r, err := http.NewRequest("POST", h.URL+"/v2/models/digits/infer", strings.NewReader(
			`{"inputs":[{"name":"`+input+`","shape":[1,1,8,8],"datatype":"FP32","data":[`+strings.Repeat("1,", 63)+`1]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer abc")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
	}
	send("image")
	send("<img src=x onerror=window.hacked=1>")
	until := func(expression string) {
		t.Helper()
		for give := time.Now().Add(10 * time.Second); b.Eval(expression) != "true"; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(give) {
				t.Fatalf("%s does not become true; the page is:\n%s", expression, b.Eval("document.body.innerText"))
			}
		}
	}
	b.Open(h.URL + "/")
	until(`!document.getElementById("ask").hidden && document.getElementById("all").hidden`)
	b.Faults = nil // the browser reports the answers without a token
	b.Eval(`document.getElementById("token").value = "abc"; document.querySelector("#ask button").click()`)
	until(`document.body.dataset.drawn >= 1`)
	text := b.Eval("document.body.innerText")
	for _, want := range []string{name, "READY", "UNAVAILABLE", "broken", "batch", "of 64.0 MiB are held",
		"sequences: 0, 0 B", "states of sequences",
		"no input \"<img src=x"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
	if got := b.Eval(`[window.hacked, document.querySelectorAll("img, script").length].join()`); got != ",1" {
		t.Errorf("a name became code: %s", got)
	}
	if n := b.Eval(`document.querySelectorAll("#models tr").length`); n != "4" {
		t.Errorf("%s models are shown", n)
	}
	var bar struct{ Parts, Peak float64 }
	b.Read(`(() => { const bar = document.getElementById("bar"), box = bar.getBoundingClientRect();
		const share = x => x / box.width, rect = e => e.getBoundingClientRect();
		return {Parts: share([...bar.querySelectorAll("span")].reduce((sum, e) => sum + rect(e).width, 0)),
			Peak: share(rect(bar.querySelector("i")).left - box.left)}; })()`, &bar)
	var ledger struct{ Held, Peak float64 }
	if err := json.Unmarshal([]byte(b.Eval(`fetch("v2/weir/status", {headers: {Authorization: "Bearer abc"}})
		.then(a => a.json()).then(s => JSON.stringify(s.ledger))`)), &ledger); err != nil {
		t.Fatal(err)
	}
	if held := ledger.Held / (64 << 20); bar.Parts < held-0.02 || bar.Parts > held+0.02 || bar.Peak < bar.Parts-0.02 {
		t.Errorf("the bar has %.3f of its width, and %.3f of the limit is held; its peak is at %.3f", bar.Parts, held,
			bar.Peak)
	}
	b.Shot("status")
	for _, size := range [][2]int{{1400, 900}, {390, 844}} {
		b.Window(size[0], size[1])
		if b.Eval("document.documentElement.scrollWidth <= innerWidth") != "true" {
			t.Errorf("in %v the page is wider than its window", size)
		}
		b.Shot(fmt.Sprint("status-", size[0]))
	}
	drawn := b.Eval("document.body.dataset.drawn")
	send("image")
	until(`document.body.dataset.drawn > ` + drawn)
	if got := b.Eval(`[...document.querySelectorAll("#models tr")].find(r => r.cells[0].textContent === "digits")
		.cells[6].textContent`); got != "2" {
		t.Errorf("after another request the page has %s requests", got)
	}
	if len(b.Faults) > 0 {
		t.Errorf("the console has errors:\n%s", strings.Join(b.Faults, "\n"))
	}
}
