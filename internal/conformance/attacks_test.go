package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// spent runs f, and returns "" if it kept within the limits of time and memory, or the excess.
func spent(f func()) string {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	mem.ResetPeaks()
	held := weir.Usage().Current
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	now := weir.Usage()
	switch {
	case took > mostTime:
		return fmt.Sprintf("took %v", took)
	case after.TotalAlloc-before.TotalAlloc > mostBytes:
		return fmt.Sprintf("allocated %d bytes", after.TotalAlloc-before.TotalAlloc)
	case now.Peak-held > mostBytes:
		return fmt.Sprintf("mapped %d bytes", now.Peak-held)
	case now.Current != held:
		return fmt.Sprintf("%d bytes are held after it", now.Current-held)
	}
	return ""
}

// endings are the ways in which an attack may end.
var endings = []string{"runs", "input", "unsupported", "budget", "memory", "context"}

// TestAttacks loads and runs models that are meant to do harm: each ends in a typed error, runs, or is stopped by its
// context, within a second and 64 MiB. testdata/attacks.txt holds the lines.
func TestAttacks(t *testing.T) {
	rows := newTable()
	add := func(field, attack string, f func() string) {
		line, fault := "", ""
		for range 3 { // a busy machine may make anything slow once
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				fault = spent(func() { line = f() })
			}()
			select {
			case <-ended:
			case <-time.After(20 * mostTime):
				t.Fatalf("%s: %s: no end in sight", field, attack)
			}
			if !strings.HasPrefix(fault, "took") {
				break
			}
		}
		if fault != "" {
			t.Errorf("%s: %s: %s: %.300s", field, attack, fault, line)
		}
		kind, _, _ := strings.Cut(line, ":")
		if !slices.Contains(endings, kind) || strings.ContainsAny(line, "\n\r\x1b") {
			t.Errorf("%s: %s: %.600s", field, attack, line)
		}
		rows.add(field, attack, peaks.ReplaceAllString(line, "$1 … bytes:"))
	}
	for _, a := range attacks {
		data := a.build().Marshal()
		add(a.field, a.attack, func() string { return outcome(t, fstest.MapFS{"model.onnx": {Data: data}}) })
	}
	for _, depth := range []int{100, 100_000} {
		data := nested(depth)
		add("nesting", fmt.Sprintf("%d messages", depth), func() string {
			return outcome(t, fstest.MapFS{"model.onnx": {Data: data}})
		})
	}
	for _, a := range foreignFiles {
		path := a.place(t)
		add("external_data", a.attack, func() string { return ending(guard(func() error { return loadAndRun(t, path) })) })
	}
	for _, a := range wrongValues {
		add("values of "+a.node.OpType, a.what, func() string { return a.run(t) })
	}
	var text strings.Builder
	rows.print(&text)
	compareGolden(t, filepath.Join("testdata", "attacks.txt"), text.String())
}

// compareGolden compares a string with a file, or writes the file under -rewrite.
func compareGolden(t *testing.T, path, text string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, old := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range got {
		if i >= len(old) || got[i] != old[i] {
			t.Fatalf("line %d of %s is\n%s\nrun with -rewrite and read the difference", i+1, path, got[i])
		}
	}
	if len(got) != len(old) {
		t.Fatalf("%s has lines of cases that are gone", path)
	}
}

// guard turns a panic that crosses the API into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("PANIC %v", p)
		}
	}()
	return f()
}

// noMemory is the ending of a run that needs more memory than the machine has.
const noMemory = "memory: more than the machine has"

// said matches a node with its operator, or a node alone, in an error's sentence.
var said = regexp.MustCompile(`(?:^|: )node (\S+?)(?: \((\S+)\))?: |(?:read by|from) (\S+) \(([\w.:]+)\)`)

// unnamed returns the node or operator that an error's sentence names and its JSON does not; "" if there is none.
func unnamed(e *weir.Error) string {
	var keys struct{ Node, Op string }
	if text, err := json.Marshal(e); err != nil || json.Unmarshal(text, &keys) != nil {
		return "all"
	}
	parts := said.FindStringSubmatch(e.Error())
	switch {
	case parts == nil:
		return ""
	case parts[1]+parts[3] != "" && keys.Node == "":
		return "the node"
	case parts[2]+parts[4] != "" && keys.Op == "":
		return "the operator"
	}
	return ""
}

// ending returns the outcome in one line.
func ending(err error) string {
	var e *weir.Error
	switch {
	case err == nil:
		return "runs"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "context: " + err.Error()
	case !errors.As(err, &e):
		return "UNTYPED " + err.Error()
	case errors.Is(err, weir.ErrInternal), errors.Is(err, weir.ErrClosed):
		return strings.ToUpper(diag.KindName(err)) + ": " + err.Error()
	}
	if errors.Is(err, weir.ErrMemory) {
		return noMemory // the missing bytes depend on the machine
	}
	text := err.Error()
	if lack := unnamed(e); lack != "" {
		return "UNNAMED " + lack + " in the JSON of " + text
	}
	if _, after, ok := strings.Cut(text, "model.onnx: "); ok {
		text = after
	}
	return diag.KindName(err) + ": " + text
}

// peaks matches formulas of memory, which include the code for the processor.
var peaks = regexp.MustCompile(`^(input:) .* bytes:`)

// loadAndRun runs the model at path on zeros, and returns the first error.
func loadAndRun(t *testing.T, path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer p.Close()
	return runOnZeros(t, p)
}
