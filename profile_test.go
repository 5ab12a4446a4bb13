package weir_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestProfile: a profile has each launch once, with a time; after the profile, launches have no time.
func TestProfile(t *testing.T) {
	p := weirtest.CompileDigits(t, weir.Options{Threads: 1})
	defer p.Close()
	in := weir.Inputs{"image": weirtest.Picture(t, 3)}
	list, err := p.Profile(t.Context(), in, 3)
	if err != nil {
		t.Fatal(err)
	}
	total, operations := time.Duration(0), int64(0)
	for _, k := range list {
		if k.Count != 1 || k.Time <= 0 || k.Kernel == "" || k.Backend == "" || k.Bytes <= 0 {
			t.Errorf("%+v", k)
		}
		if nodes := strings.Split(k.Nodes, ", "); len(nodes) > 1 && nodes[0] == nodes[1] {
			t.Errorf("%s names a node twice", k.Nodes)
		}
		total += k.Time
		operations += k.Operations
	}
	dims, err := p.Bind(in)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := p.Operations().At(dims); err != nil || operations != want {
		t.Errorf("%d operations in the launches, %d in the program, %v", operations, want, err)
	}
	begin := time.Now()
	if _, err := p.Profile(t.Context(), in, 1); err != nil || total > 3*time.Since(begin)+time.Second {
		t.Errorf("launches of %v in all, %v", total, err)
	}
	if _, err := p.Profile(t.Context(), nil, 1); err == nil {
		t.Error("a profile without inputs")
	}
}

// TestAlone: with several threads, each launch has tiles, or a reason why one worker computes it; with one, none has.
func TestAlone(t *testing.T) {
	for _, threads := range []int{1, 2} {
		p := weirtest.CompileDigits(t, weir.Options{Threads: threads})
		t.Cleanup(func() { p.Close() })
		list, err := p.Profile(t.Context(), weir.Inputs{"image": weirtest.Picture(t, 3)}, 3)
		if err != nil {
			t.Fatal(err)
		}
		alone := 0
		for _, k := range list {
			if k.Alone != "" {
				alone++
			}
			if k.Tiles < 1 || threads > 1 && k.Tiles == 1 && k.Alone != "one tile" || k.Alone == "one tile" && k.Tiles != 1 {
				t.Errorf("%d threads: %+v", threads, k)
			}
		}
		if threads == 1 && alone > 0 || threads > 1 && alone == 0 { // some launches of one picture are very short
			t.Errorf("%d threads: one worker computes %d of %d launches alone", threads, alone, len(list))
		}
	}
}

// TestKernels: each launch that is not machine code has a reason.
func TestKernels(t *testing.T) {
	for _, o := range []weir.Options{{}, {CPU: "portable"}, {Target: weir.Reference}} {
		p := weirtest.CompileDigits(t, o)
		t.Cleanup(func() { p.Close() })
		list := p.Kernels()
		if len(list) == 0 {
			t.Error("no kernels")
		}
		for _, k := range list {
			if k.Backend == "" || k.Kernel == "" || k.Backend != "amd64" && (len(k.Why) == 0 || k.Why[0] == "") {
				t.Errorf("%+v: %+v", o, k)
			}
		}
	}
}

// TestProbe measures this machine: its rates are positive.
func TestProbe(t *testing.T) {
	peak, err := weir.Probe("portable", 2)
	if err != nil || peak.Core <= 0 || peak.All <= 0 || len(peak.Memory) != 4 || peak.ReadAll(1) != peak.Memory[0].All ||
		peak.ReadAll(1<<50) != peak.Memory[3].All {
		t.Errorf("%+v, %v", peak, err)
	}
	if _, err := weir.Probe("abacus", 1); err == nil {
		t.Error("an abacus was measured")
	}
}

// TestDelays: each kernel of the test models says what its estimated time consists of, and each other launch why it is
// none.
func TestDelays(t *testing.T) {
	files, err := filepath.Glob("testdata/onnx/*/model.onnx")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	kernels := 0
	for _, file := range append(files, "examples/digits/data/digits.onnx") {
		m, err := weir.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range p.Kernels() {
			switch {
			case k.Backend == "host" && k.Kernel != "copy":
				if len(k.Why) == 0 {
					t.Errorf("%s: host operator %s has no reason", file, k.Kernel)
				}
			case k.Backend != "host":
				if kernels++; len(k.Delays) == 0 {
					t.Errorf("%s: kernel %s has no reason", file, k.Kernel)
				}
			}
		}
		if err := errors.Join(p.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
	if kernels < 100 {
		t.Errorf("only %d kernels", kernels)
	}
}
