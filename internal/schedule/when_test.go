package schedule

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestWhen schedules random modules and the samples with and without the quick tests of steps, and compares the texts.
func TestWhen(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	var modules []*loop.Module
	for range 60 {
		modules = append(modules, random(r, r.Intn(2) == 0))
	}
	for _, sample := range samples {
		b, ranges := loop.NewBuilder(sample.name), sym.NewDims()
		extent := func(name string) sym.Expr {
			ranges.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 20})
			return dim(name)
		}
		sample.build(b, extent("n"), extent("m"), extent("k"))
		b.Kernel.Dims = loop.FreeDims(b.Kernel)
		m := &loop.Module{Name: "test", Dims: ranges, Kernels: []*loop.Kernel{b.Kernel}}
		l := &loop.Launch{Kernel: b.Kernel}
		for _, p := range b.Kernel.Params {
			kind := loop.Output
			if p.Access == loop.Read {
				kind = loop.Input
			}
			l.Args = append(l.Args, &loop.Buffer{Name: p.Name, Kind: kind, DType: p.DType, Shape: p.Shape})
		}
		m.Buffers, m.Body = slices.Clone(l.Args), []loop.Step{l}
		modules = append(modules, m)
	}
	quick, tried, skipped := slices.Clone(steps), map[string]int{}, map[string]int{}
	defer func() { steps = quick }()
	for _, level := range []string{"avx2", "portable"} {
		machine, err := target.Assumed(level, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range modules {
			var texts [2]string
			for i := range texts {
				steps = slices.Clone(quick)
				for at := range steps {
					if test, name := quick[at].when, quick[at].name; i == 1 {
						steps[at].when = nil
					} else if test != nil {
						steps[at].when = func(s *scheduler, k *loop.Kernel) bool {
							is := test(s, k)
							tried[name]++
							if !is {
								skipped[name]++
							}
							return is
						}
					}
				}
				c := clone(m)
				if err := Run(c, machine); err != nil {
					t.Fatal(err)
				}
				texts[i] = c.String()
			}
			if texts[0] != texts[1] {
				t.Fatalf("with quick tests:\n%s\nwithout:\n%s", texts[0], texts[1])
			}
		}
	}
	for _, step := range quick {
		if step.when != nil && skipped[step.name] == 0 {
			t.Errorf("the test of step %s is true of all %d kernels", step.name, tried[step.name])
		}
	}
}
