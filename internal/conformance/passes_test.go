package conformance

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

// with runs f with the passes that keep selects, and with expand, which lowering needs.
func with(keep func(name string) bool, f func()) {
	all := compiler.Passes
	defer func() { compiler.Passes = all }()
	compiler.Passes = all[:0:0]
	for _, p := range all {
		if p.Name == "expand" || keep(p.Name) {
			compiler.Passes = append(compiler.Passes, p)
		}
	}
	f()
}

// passNames returns the names of the passes that can be left out.
func passNames() []string {
	var names []string
	for _, p := range compiler.Passes {
		names = append(names, p.Name)
	}
	return names
}

// TestPassesOnAndOff compiles random models without one pass, with one pass alone, and with random sets of passes: the
// results are the reference's.
func TestPassesOnAndOff(t *testing.T) {
	count := weirtest.Trials(6, 1) * len(passNames())
	if n, err := strconv.Atoi(os.Getenv("WEIR_FUZZ_GRAPHS")); err == nil {
		count = n
	}
	names := passNames()
	for seed := range uint64(count) {
		name := names[seed%uint64(len(names))]
		m := conformancetest.Random(1000 + seed)
		r := rand.New(rand.NewPCG(seed, 1))
		some := map[string]bool{}
		for _, n := range names {
			some[n] = r.IntN(2) == 0
		}
		for form, keep := range map[string]func(string) bool{"without": func(p string) bool {
			return p != name
		}, "with only": func(p string) bool { return p == name },
			fmt.Sprintf("with %v and", some): func(p string) bool { return p == name || some[p] }} {
			with(keep, func() {
				if err := checkModel(t, m); err != nil && !errors.Is(err, weir.ErrUnsupported) {
					t.Errorf("%s %s: %v\n%s", form, name, err, m.Text())
				}
			})
		}
	}
}

// TestStepsOff compiles random models without one pass or step of the schedule, and without random sets of them: the
// results are the reference's.
func TestStepsOff(t *testing.T) {
	defer func() { compiler.Without = nil }()
	names := compiler.OptionalSteps()
	for seed := range uint64(weirtest.Trials(12, 2) * len(names)) {
		m, r := conformancetest.Random(5000+seed), rand.New(rand.NewPCG(seed, 2))
		some := []string{names[seed%uint64(len(names))]}
		if seed%2 == 0 {
			for _, n := range names {
				if r.IntN(3) == 0 {
					some = append(some, n)
				}
			}
		}
		compiler.Without = some
		// Without the passes that bound extents, an upper bound may be more than the machine has.
		if err := checkModel(t, m); err != nil && !errors.Is(err, weir.ErrUnsupported) && !errors.Is(err, weir.ErrMemory) {
			t.Errorf("without %v: %v\n%s", some, err, m.Text())
		}
	}
}

// TestSpelledOutOnAndOff evaluates the modules that the passes make of spelled-out models, without each pass in turn,
// and compares the results with those of the imported models, for several extents.
func TestSpelledOutOnAndOff(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(spelled)) {
		if testing.Short() && i%4 != 0 {
			continue
		}
		s := newSpelling(false)
		spelled[name](s)
		before := s.module(t)
		var args, want [][]*tensor.Tensor
		for _, size := range []int64{1, 3} {
			in := s.arguments(before, size)
			out, err := ir.Evaluate(before, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			args, want = append(args, in), append(want, out)
		}
		for _, without := range append([]string{""}, passNames()...) {
			with(func(p string) bool { return p != without }, func() {
				after := s.compiled(t).IR
				for i := range args {
					got, err := ir.Evaluate(after, args[i], nil)
					if err == nil {
						err = closeTo(got, want[i])
					}
					if err != nil {
						t.Errorf("%s without %q: %v", name, without, err)
					}
				}
			})
		}
	}
}

// TestSpelledOutKept makes every tensor of the spelled-out models an output: none is rewritten away, and all are equal
// to the imported model's.
func TestSpelledOutKept(t *testing.T) {
	for name, write := range spelled {
		s := newSpelling(false)
		write(s)
		var names []string
		for _, n := range s.graph.Node {
			names = append(names, n.Output...)
		}
		in := s.arguments(s.module(t), 3)
		want, err := ir.Evaluate(s.module(t, names...), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := compiler.Compile(s.module(t, names...), compiler.Options{Machine: compiler.Portable(2), Names: names})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ir.Evaluate(c.IR, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range names {
			if err := closeTo(got[i:i+1], want[i:i+1]); err != nil {
				t.Errorf("%s: %s: %v", name, n, err)
			}
			if c.Program.Outputs[i].Name != n {
				t.Errorf("%s: result %d is called %s, not %s", name, i, c.Program.Outputs[i].Name, n)
			}
		}
	}
}
