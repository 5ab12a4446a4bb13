package schedule

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text/goldentest"
)

// stays is the result of a case that its step does not change.
const stays = "stays"

// blockRecipes are the recipes for blocks of threads, by their names in cases.
var blockRecipes = map[string]func(s *scheduler, k *loop.Kernel) *loop.Kernel{
	"block-online": (*scheduler).blockOnline, "block-direct": (*scheduler).blockDirect,
	"block-product": (*scheduler).blockProduct,
	"block-slices":  (*scheduler).blockSlices, "block-columns": (*scheduler).blockColumns,
	"block-rows": (*scheduler).blockRows,
	"block-body": (*scheduler).blockBody, "block-transpose": (*scheduler).blockTranspose,
}

// TestText runs the cases of testdata/*.txt: a line "== STEP on MACHINE: title", the declarations of a module, a line
// "--", and the module after that one step, or "stays". STEP is a step of the table, optionally "without COMPONENT", or
// a block recipe; MACHINE is a level of processor, optionally "with N threads", or a device's limits. A case of one
// kernel stands for the module that launches it once, and only the kernel is shown if nothing else changes. Both
// modules must compute the same.
func TestText(t *testing.T) { goldentest.Run(t, *rewriteTexts, runCase) }

// runCase returns the expected part of a case as its step computes it.
func runCase(t *testing.T, head, source string) string {
	t.Helper()
	what, _, titled := strings.Cut(head, ": ")
	step, on, split := strings.Cut(what, " on ")
	if !titled || !split {
		t.Fatalf("%s: it does not begin with STEP on MACHINE: ", head)
	}
	machine, err := machineNamed(on)
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	before, after := parsedCase(t, head, source), parsedCase(t, head, source)
	o := Options{}
	if name, without, ok := strings.Cut(step, " without "); ok {
		step, o.Without = name, []string{without}
	}
	runStep(t, step, after, machine, o)
	if _, err := loop.VerifyModule(after); err != nil {
		t.Fatalf("%s: the result: %v\n%s", head, err, after)
	}
	for seed := range int64(3) {
		sameModules(t, head, before, after, seed)
	}
	text := after.String()
	if text == before.String() {
		return stays
	}
	if wrapped(source) && text[:strings.Index(text, "  kernel")] == before.String()[:strings.Index(before.String(),
		"  kernel")] &&
		len(after.Kernels) == 1 {
		return after.Kernels[0].String()
	}
	return strings.TrimSuffix(strings.TrimPrefix(text, "weir 1\nloop @m {\n"), "}\n")
}

// machineNamed returns the machine that a case names: a level of processor with a number of threads, or a device by its
// limits (see target.ParseLimits).
func machineNamed(name string) (target.Machine, error) {
	level, rest, _ := strings.Cut(name, " with ")
	if profile, _, _ := strings.Cut(level, ","); slices.Contains(target.Profiles(), profile) {
		return target.ParseLimits(level)
	}
	threads := 1
	if rest != "" {
		if _, err := fmt.Sscanf(rest, "%d threads", &threads); err != nil {
			return target.Machine{}, err
		}
	}
	return target.Assumed(level, threads)
}

// wrapped reports whether a case's source is a single kernel after the dimensions, not a module's declarations.
func wrapped(source string) bool { return !strings.Contains(source, "body {") }

// parsedCase reads a case's declarations as a module.
func parsedCase(t *testing.T, head, source string) *loop.Module {
	t.Helper()
	if wrapped(source) {
		dims, kernel, _ := strings.Cut("\n"+source, "\nkernel ")
		k, err := loop.ParseKernel("kernel " + kernel)
		if err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		buffers, args := "", []string{}
		for _, p := range k.Params {
			kind := "input"
			if p.Access == loop.Write {
				kind = "output"
			}
			extents := make([]string, len(p.Shape))
			for i, e := range p.Shape {
				extents[i] = e.String()
			}
			buffers += fmt.Sprintf("buffer %%%s: %s[%s] %s\n", p.Name, p.DType, strings.Join(extents, ", "), kind)
			args = append(args, "%"+p.Name)
		}
		source = fmt.Sprintf("%s\n%skernel %s\nbody { launch @%s(%s) }", dims, buffers, kernel, k.Name,
			strings.Join(args, ", "))
	}
	m, err := loop.Parse("weir 1\nloop @m {\n"+source+"\n}", loop.ParseOptions{})
	if err == nil {
		_, err = loop.VerifyModule(m)
	}
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	return m
}

// runStep runs one step of the table, or one block recipe, on a module.
func runStep(t *testing.T, name string, m *loop.Module, machine target.Machine, o Options) {
	t.Helper()
	s := &scheduler{module: m, machine: machine, options: o, dims: m.Dims}
	i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
	recipe := blockRecipes[name]
	if i < 0 && recipe == nil {
		t.Fatalf("there is no step %s", name)
	}
	if i >= 0 && steps[i].module != nil {
		if err := steps[i].module(s); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, k := range m.Kernels {
		s.free = k.Dims
		next := k
		if recipe == nil {
			next = s.stepped(k, steps[i])
		} else if made := recipe(s, k); made != nil {
			next = made
		}
		*k = *next
	}
}

// sameModules interprets two modules on random inputs, and compares the outputs. Free dimensions are 1 + 2 × seed; it
// does nothing if that is below a dimension's least value.
func sameModules(t *testing.T, head string, before, after *loop.Module, seed int64) {
	t.Helper()
	r := rand.New(rand.NewSource(seed))
	in := inputs(r, before, 1+seed*2)
	for _, b := range before.Buffers {
		for _, e := range b.Shape {
			if name, ok := e.Name(); ok && b.Kind == loop.Input {
				if d, known := before.Dims.Get(name); known && d.Min > 1+seed*2 {
					return
				}
			}
		}
	}
	want, err := (&loop.Runner{}).Run(before, in)
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	got, err := (&loop.Runner{}).Run(after, in)
	if err != nil {
		t.Fatalf("%s: the result: %v\n%s", head, err, after)
	}
	same := 0
	for name, x := range want {
		if err := tensor.Compare(got[name], x, 1e-4, 1e-4); err != nil {
			t.Errorf("%s: %s: %v\n%s", head, name, err, after)
		}
		same++
	}
	if same == 0 {
		t.Errorf("%s: it has no outputs", head)
	}
}

// TestCases: testdata has, for each step of the table and each block recipe, a case that it changes and one that it
// leaves as it is, and for each component of a step a case without it.
func TestCases(t *testing.T) {
	var names, components []string
	without := map[string]bool{}
	for _, s := range steps {
		names = append(names, s.name)
		components = append(components, s.components...)
	}
	for name := range blockRecipes {
		names = append(names, name)
	}
	files, _ := filepath.Glob("testdata/*.txt")
	fires, near := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range strings.Split("\n"+string(data), "\n== ")[1:] {
			name, _, _ := strings.Cut(one, " on ")
			if _, component, ok := strings.Cut(name, " without "); ok {
				without[component] = true
				continue
			}
			if _, result, _ := strings.Cut(one, "\n--\n"); strings.TrimSpace(result) == stays {
				near[name] = true
			} else {
				fires[name] = true
			}
		}
	}
	for _, name := range names {
		if !fires[name] {
			t.Errorf("no case in testdata is changed by %s", name)
		}
		if !near[name] {
			t.Errorf("no case in testdata is left as it is by %s", name)
		}
	}
	for _, component := range components {
		if !without[component] {
			t.Errorf("no case in testdata is without %s", component)
		}
	}
}
