package weir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestStats counts runs, errors and waits.
func TestStats(t *testing.T) {
	p, _ := weirtest.PlanOf(t, "examples/digits/data/digits.onnx", weir.Dims{"batch": 1}, weir.Options{Threads: 1})
	x, err := weir.New(weir.F32, 1, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	in := weir.Inputs{"image": x}
	r, err := p.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Active != 1 || s.Calls != 1 || s.Runs != 1 || s.Busy <= 0 {
		t.Errorf("with an open result: %+v", s)
	}
	began := time.Now()
	soon, stop := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer stop()
	if _, err := p.Run(soon, in); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("all calls are taken: %v", err)
	}
	r.Close()
	if _, err := p.Run(context.Background(), weir.Inputs{}); err == nil {
		t.Error("a run without its input")
	}
	call, err := p.NewCall(weir.Dims{"batch": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(call.Bind("image", x), call.Run(context.Background()), call.Close()); err != nil {
		t.Fatal(err)
	}
	s := p.Stats()
	if s.Runs != 2 || s.Errors != 2 || s.Waits != 1 || s.Waited <= 0 || s.Waited > time.Since(began) || s.Active != 0 {
		t.Errorf("at the end: %+v", s)
	}
	p.Close()
	if s := p.Stats(); s.Bytes != 0 || s.Runs != 2 {
		t.Errorf("closed: %+v", s)
	}
}

// compiledHere takes the weights' memory on a line of its own.
func compiledHere(t *testing.T) *weir.Program {
	m, err := weir.Load("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 1, Target: weir.Portable})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// holdHere takes memory on lines of its own, which the profile names.
func holdHere(t *testing.T) (p *weir.Program, release func()) {
	p = compiledHere(t)
	x, err := weir.New(weir.F32, 64, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(context.Background(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	return p, func() { r.Close(); x.Close() }
}

// TestHeapProfile reads profiles with go tool pprof: each byte is under the user's line that holds it.
func TestHeapProfile(t *testing.T) {
	if runtime.GOOS == "js" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("go tool pprof is not run there")
	}
	p, release := holdHere(t)
	defer release()
	tool := func(write func(b *bytes.Buffer) error, args ...string) string {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "memory.pb.gz")
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", append(append([]string{"tool", "pprof"}, args...), file)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	own := func(b *bytes.Buffer) error { return p.WriteHeapProfile(b) }
	all := func(b *bytes.Buffer) error { return weir.WriteHeapProfile(b) }
	peak, err := p.Memory().Peak(1, weir.Dims{"batch": 64})
	if err != nil {
		t.Fatal(err)
	}
	weights, err := p.Memory().Weights.At(nil)
	if err != nil {
		t.Fatal(err)
	}
	top := strings.Join(strings.Fields(tool(own, "-top", "-unit=B", "-lines")), " ")
	for _, want := range []string{fmt.Sprintf("100%% of %dB total", peak), fmt.Sprintf(" %dB ", peak-weights),
		"weir_test.holdHere", "weir_test.compiledHere", "stats_test.go:", fmt.Sprintf(" %dB ", weights)} {
		if !strings.Contains(top, want) {
			t.Errorf("no %q in %s", want, top)
		}
	}
	tags := tool(own, "-tags")
	for _, kind := range []string{"arena", "weights", "outputs", "scratch"} {
		if !strings.Contains(tags, kind) {
			t.Errorf("no %s in\n%s", kind, tags)
		}
	}
	if strings.Contains(tags, "tensors") {
		t.Errorf("a tensor of the user's is held by the program:\n%s", tags)
	}
	if tags := tool(all, "-tags"); !strings.Contains(tags, "tensors") || !strings.Contains(tags, "arena") {
		t.Errorf("of the process:\n%s", tags)
	}
}
