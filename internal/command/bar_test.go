package command

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// drawing is a terminal for tests.
type drawing struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (s *drawing) Write(p []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.Write(p)
}

// TestBar compares the lines that a terminal shows of steps and times.
func TestBar(t *testing.T) {
	begun := time.Now()
	for _, row := range []struct {
		b     *bar
		after time.Duration
		want  string
	}{
		{&bar{what: "compiling m.onnx"}, 0, "compiling m.onnx"},
		{&bar{what: "compiling m.onnx"}, 2900 * time.Millisecond, "compiling m.onnx, 2s"},
		{&bar{what: "testing", total: 40}, 0, "testing [>                   ] 0 of 40"},
		{&bar{what: "testing", total: 40, done: 20}, time.Minute, "testing [==========>         ] 20 of 40, 1m0s"},
		{&bar{what: "testing", total: 40, done: 39}, 0, "testing [===================>] 39 of 40"},
		{&bar{what: "testing", total: 40, done: 40}, 0, "testing [====================] 40 of 40"},
		{&bar{what: "compiling m.onnx", total: 72, done: 36, part: "fuse"}, time.Second,
			"compiling m.onnx [==========>         ] 36 of 72, 1s, fuse"},
		{&bar{what: "compiling m.onnx", total: 72, done: 36, part: strings.Repeat("ä", 80)}, 0,
			"compiling m.onnx [==========>         ] 36 of 72, " + strings.Repeat("ä", 28) + "…"},
	} {
		row.b.begun = begun
		if got := row.b.line(begun.Add(row.after)); got != row.want || len([]rune(got)) > lineColumns {
			t.Errorf("drawn\n%s, want\n%s", got, row.want)
		}
	}
}

// TestProgressOfCompiling compiles on a terminal: the bar begins at once, advances from stage to stage, and is erased
// at the end. With --json, --quiet or --verbose, and without a terminal, there is none.
func TestProgressOfCompiling(t *testing.T) {
	compiled := func(c *cli) {
		t.Helper()
		f := &modelFlags{c: c, calls: 1, precision: "f32", cache: "f32"}
		l, _, err := f.compile(t.Context(), models+"attention_two_dims/model.onnx", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	var shown drawing
	compiled(&cli{terminal: &shown})
	lines := strings.Split(shown.text.String(), "\r")
	if len(lines) < 3 || lines[0] != "" || lines[1] != "compiling model.onnx\x1b[K" || lines[len(lines)-1] != "\x1b[K" {
		t.Errorf("drawn %q", lines)
	}
	for _, c := range []*cli{{json: true}, {quiet: true}, {verbose: true}} {
		var none drawing
		c.terminal = &none
		compiled(c)
		if none.text.Len() > 0 {
			t.Errorf("%+v: drawn %q", *c, none.text.String())
		}
	}
	compiled(&cli{})
}

// TestProgressOfStages follows the stages that the compiler reports: each step has the same total, a higher number than
// the one before, and the last stage is the last step.
func TestProgressOfStages(t *testing.T) {
	r := weirRun(t, "check", models+"attention_two_dims/model.onnx", "--verbose")
	last, stages := 0, map[string]bool{}
	for _, m := range regexp.MustCompile(`msg=compiling stage=(\S+) step=(\d+) steps=(\d+)`).FindAllStringSubmatch(r.err,
		-1) {
		step, _ := strconv.Atoi(m[2])
		steps, _ := strconv.Atoi(m[3])
		if step <= last || step > steps {
			t.Errorf("%s is step %d of %d, after step %d", m[1], step, steps, last)
		}
		last, stages[m[1]] = step, true
		if (m[1] == "plan") != (step == steps) {
			t.Errorf("%s is step %d of %d", m[1], step, steps)
		}
	}
	for _, stage := range []string{"verify", "fold", "lower", "schedule", "fuse", "kernels", "outside", "code", "plan"} {
		if !stages[stage] {
			t.Errorf("stage %s is not reported in\n%s", stage, r.err)
		}
	}
}

// TestOnTerminal: a file and a pipe are not terminals.
func TestOnTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, f := range []*os.File{f, r, w} {
		if onTerminal(f) {
			t.Error(fmt.Sprintf("%s is a terminal", f.Name()))
		}
	}
}
