package probe

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// TestProbe fails for figures that no machine has: if the probe measured nothing, or the compiler removed its work.
func TestProbe(t *testing.T) {
	for _, k := range kinds() {
		one := k.Arithmetic(1)
		if one < 0.01 || one > 2000 {
			t.Errorf("%s: %g GFLOP/s", k.Name, one)
		}
		for _, bytes := range []int64{1, 16 << 10, 4 << 20} {
			rate, err := k.Read(bytes, 1)
			if err != nil || rate < 0.01 || rate > 5000 {
				t.Errorf("%s: %g GB/s of %d bytes, %v", k.Name, rate, bytes, err)
			}
		}
		t.Logf("%s: %.1f GFLOP/s", k.Name, one)
	}
	if _, ok := Named("portable"); !ok {
		t.Error("no plain Go")
	}
	if k, ok := Named("another"); ok {
		t.Error("there is", k.Name)
	}
}

// TestRefused shows that a probe that gets no memory returns an error and keeps nothing.
func TestRefused(t *testing.T) {
	k := Best()
	before := mem.Usage()
	faults := mem.Fail(1, 1)
	_, err := k.Read(1<<16, 2)
	faults.Restore()
	if !errors.Is(err, diag.ErrMemory) {
		t.Errorf("a refused probe: %v", err)
	}
	if _, err := k.Read(1<<16, 2); err != nil {
		t.Error(err)
	}
	if now := mem.Usage(); now.Current != before.Current || now.Blocks != before.Blocks {
		t.Errorf("there is %+v, there was %+v", now, before)
	}
}

// TestLevels: each level of an architecture has the kind of its floats, and a kind's name is also its level's.
func TestLevels(t *testing.T) {
	for _, k := range kinds() {
		for _, name := range append(k.more, k.Name) {
			if have, ok := Named(name); !ok || have.Name != k.Name {
				t.Errorf("%s is measured as %q", name, have.Name)
			}
			if !slices.Contains(target.Levels(), name) {
				t.Errorf("there is no level %s", name)
			}
		}
	}
	if m := target.Host(1); m.CPU != target.PortableName {
		if _, ok := Named(m.CPU); !ok {
			t.Errorf("there is no kind for the host's level %s", m.CPU)
		}
	}
}

// TestVectorsAreFaster compares AVX2 with scalar code: it must be at least twice as fast.
func TestVectorsAreFaster(t *testing.T) {
	k, ok := Named("avx2")
	if !ok {
		t.Skip("no AVX2 on this machine")
	}
	if vector, scalar := k.Arithmetic(1), portable.Arithmetic(1); vector < 2*scalar {
		t.Errorf("%g GFLOP/s in AVX2, %g in plain Go", vector, scalar)
	}
}

// BenchmarkProbe reports all figures of this machine.
func BenchmarkProbe(b *testing.B) {
	n := runtime.GOMAXPROCS(0)
	for _, k := range kinds() {
		b.ReportMetric(k.Arithmetic(1), k.Name+"/1/GFLOP/s")
		b.ReportMetric(k.Arithmetic(n), k.Name+"/all/GFLOP/s")
		for name, bytes := range map[string]int64{"16K": 16 << 10, "256K": 256 << 10, "4M": 4 << 20, "128M": 128 << 20} {
			rate, err := k.Read(bytes, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(rate, k.Name+"/"+name+"/GB/s")
		}
	}
}
