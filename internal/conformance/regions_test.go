package conformance

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

// wrapping copies the nodes of a function into regions, so that several regions read the values around them.
type wrapping struct {
	name  string
	outer func(nodes int) int // the number of nodes that stay outside
	own   bool                // each region has constants of its own
	build func(w *wrapped) []*ir.Value
}

// wrappings are the ways in which regions read values around them.
var wrappings = []wrapping{
	{name: "both branches", build: func(w *wrapped) []*ir.Value { return w.branch(w.build, w.body, w.body) }},
	{name: "both branches, own constants", own: true, build: func(w *wrapped) []*ir.Value {
		return w.branch(w.build, w.body, w.body)
	}},
	{name: "both branches, begun before", outer: func(nodes int) int {
		return (nodes + 1) / 2
	}, build: func(w *wrapped) []*ir.Value {
		return w.branch(w.build, w.body, w.body)
	}},
	{name: "nested branches", build: func(w *wrapped) []*ir.Value {
		return w.branch(w.build, func(b *ir.Builder) []*ir.Value { return w.branch(b, w.body, w.body) }, w.body)
	}},
	{name: "loop", build: func(w *wrapped) []*ir.Value { return w.loop(w.build) }},
	{name: "loop with branches, begun before", outer: func(nodes int) int {
		return nodes / 2
	}, build: func(w *wrapped) []*ir.Value {
		inner := w.body
		w.body = func(b *ir.Builder) []*ir.Value { return w.branch(b, inner, inner) }
		return append(w.loop(w.build), inner(w.build)...)
	}},
}

// wrapped is a module under construction, whose regions hold copies of another's main function.
type wrapped struct {
	build  *ir.Builder
	conds  []*ir.Value // conditions, of which each branch reads the next in turn
	next   int
	copies int
	body   func(b *ir.Builder) []*ir.Value
}

// wrap builds the module. It reports false if the function cannot be copied, since it decides dimensions or has states.
func (how wrapping) wrap(m *ir.Module) (out *ir.Module, ok bool, err error) {
	f := m.Main
	if len(m.Limits) > 0 || len(f.States) > 0 || len(m.Funcs) > 1 || len(f.Body.Statements) > 0 {
		return nil, false, nil
	}
	defer ir.Catch(&err)
	main := &ir.Func{Name: "main", Body: &ir.Block{}}
	out = &ir.Module{Name: "wrapped", Dims: m.Dims.Clone(), Requires: m.Requires, Main: main, Funcs: []*ir.Func{main}}
	w := &wrapped{build: ir.NewBuilder(ir.NewInference(out), main.Body)}
	around := map[*ir.Value]*ir.Value{}
	for _, p := range f.Body.Params {
		if p.Bound {
			return nil, false, nil
		}
		around[p] = w.build.Param(p.Name, p.Type)
		around[p].Known = p.Known
	}
	for i := range 2 {
		w.conds = append(w.conds, w.build.Param(fmt.Sprintf("cond%d", i),
			ir.Type{DType: dtype.Bool, Shape: []sym.Expr{sym.Const(1)}}))
	}
	if !how.own {
		for _, c := range f.Body.Consts {
			around[c] = w.build.Constant(c.Name, c.Const)
		}
	}
	begun := 0
	if how.outer != nil {
		begun = how.outer(len(f.Body.Nodes))
	}
	w.copy(w.build, f.Body.Nodes[:begun], around, "")
	w.body = func(b *ir.Builder) []*ir.Value {
		w.copies++
		inside := map[*ir.Value]*ir.Value{}
		for from, to := range around {
			inside[from] = to
		}
		if how.own {
			for _, c := range f.Body.Consts {
				inside[c] = b.Constant(c.Name, c.Const)
			}
		}
		w.copy(b, f.Body.Nodes[begun:], inside, fmt.Sprintf(".copy%d", w.copies))
		var results []*ir.Value
		for _, r := range f.Body.Results {
			results = append(results, inside[r])
		}
		return results
	}
	main.Body.Results = how.build(w)
	return out, true, ir.Verify(out)
}

// copy builds nodes again, with the operands in at, and adds their results to at.
func (w *wrapped) copy(b *ir.Builder, nodes []*ir.Node, at map[*ir.Value]*ir.Value, suffix string) {
	for _, n := range nodes {
		if len(n.Regions) > 0 {
			b.Failf("a node with regions")
		}
		in := make([]*ir.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				in[i] = at[v]
			}
		}
		source := b.Source
		b.Source = n.Source
		made := b.Node(n.Op.Name(), n.Attrs, in...)
		b.Source = source
		for i, v := range made.Outputs {
			v.Name = b.Name(n.Outputs[i].Name + suffix)
			at[n.Outputs[i]] = v
		}
	}
}

// branch adds an If on the next condition.
func (w *wrapped) branch(b *ir.Builder, then, otherwise func(b *ir.Builder) []*ir.Value) []*ir.Value {
	cond := w.conds[w.next%len(w.conds)]
	w.next++
	regions := []*ir.Block{{}, {}}
	for i, make := range []func(b *ir.Builder) []*ir.Value{then, otherwise} {
		regions[i].Results = make(b.In(regions[i]))
	}
	return ops.If(b, cond, regions[0], regions[1])
}

// loop stacks the results of two iterations.
func (w *wrapped) loop(b *ir.Builder) []*ir.Value {
	trip, yes := b.Constant("trip", tensor.Scalar(int64(2))), b.Constant("yes", tensor.Scalar(true))
	body, in := ops.LoopBody(b, "loop", sym.Const(2), nil)
	body.Results = append([]*ir.Value{yes}, w.body(in)...)
	return ops.Loop(b, body, trip, yes)
}

// regionArguments draws arguments for a module. All its dimensions are size or, if their bounds exclude it, the nearest
// number within them.
func regionArguments(m *ir.Module, r *rand.Rand, size int64, conds int64) []*tensor.Tensor {
	var args []*tensor.Tensor
	for _, p := range m.Main.Body.Params {
		var shape []int64
		for _, e := range p.Type.Shape {
			extent, _ := e.Eval(func(name sym.Name) (int64, bool) {
				d, ok := m.Dims.Get(name)
				return min(max(size, d.Min), d.Max), ok
			})
			shape = append(shape, extent)
		}
		x := tensor.Must(tensor.New(p.Type.DType, shape...))
		for i := range x.Len() {
			switch {
			case strings.HasPrefix(p.Name, "cond"):
				x.SetInt(i, conds>>(p.Name[4]-'0')&1)
			case p.Type.DType.IsFloat():
				x.SetFloat(i, r.NormFloat64())
			case p.Type.DType == dtype.Bool:
				x.SetInt(i, r.Int63n(2))
			default:
				x.SetInt(i, r.Int63n(3))
			}
		}
		args = append(args, x)
	}
	return args
}

// passCases returns the modules of the cases in which a rule of a pass fires.
func passCases(t *testing.T) map[string]func() *ir.Module {
	cases := map[string]func() *ir.Module{}
	files, _ := filepath.Glob("../pass/testdata/*.txt")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range strings.Split("\n"+string(data), "\n== ")[1:] {
			head, body, _ := strings.Cut(one, "\n")
			source, _, _ := strings.Cut(body, "\n--\n")
			cases[fmt.Sprintf("%s %d: %s", filepath.Base(file), i, head)] = func() *ir.Module {
				m, err := ir.Parse("weir 1\nir @m {\n"+source+"\n}", ir.ParseOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
	}
	if len(cases) < 100 {
		t.Fatalf("%d cases in ../pass/testdata", len(cases))
	}
	return cases
}

// regionPasses is the number of modules of which each pass gets one by itself.
const regionPasses = 6

// TestRegions copies the cases in which rules of passes fire into both branches of an If, into nested ones and into a
// loop, with constants and values around them that all regions read. Each pass by itself, on every sixth module, and
// all passes leave a valid module with the same results.
func TestRegions(t *testing.T) {
	count := 0
	cases := passCases(t)
	for _, name := range weirtest.Part(slices.Sorted(maps.Keys(cases)), 4) {
		parse := cases[name]
		for _, how := range wrappings {
			wrap := func() *ir.Module {
				m, ok, err := how.wrap(parse())
				if err != nil || !ok {
					return nil
				}
				return m
			}
			before := wrap()
			if before == nil {
				continue
			}
			count++
			var args, want [][]*tensor.Tensor
			for _, size := range []int64{1, 3} {
				in := regionArguments(before, rand.New(rand.NewSource(size)), size, size)
				out, err := ir.Evaluate(before, in, nil)
				if err != nil { // the case does not accept the arguments
					continue
				}
				args, want = append(args, in), append(want, out)
			}
			compare := func(what string, after *ir.Module) {
				if err := ir.Verify(after); err != nil {
					t.Errorf("%s, %s, after %s: %v", name, how.name, what, err)
					return
				}
				for i := range args {
					got, err := ir.Evaluate(after, args[i], nil)
					for j := 0; err == nil && j < len(got); j++ {
						tolerance := map[dtype.DType]float64{dtype.F16: 4e-3, dtype.BF16: 3e-2}[got[j].DType()]
						err = tensor.Compare(got[j], want[i][j], max(tolerance, 1e-4), max(tolerance, 1e-4))
					}
					if err != nil {
						t.Errorf("%s, %s, after %s: %v\n%s", name, how.name, what, err, after)
					}
				}
			}
			for i, p := range compiler.Passes {
				if compiler.OnRequest(p.Name) || (i+count)%regionPasses != 0 {
					continue
				}
				after := wrap()
				if err := p.RunFor(compiler.Portable(2), after); err != nil {
					t.Errorf("%s, %s, %s: %v", name, how.name, p.Name, err)
					continue
				}
				if err := pass.Dead(after); err != nil {
					t.Errorf("%s, %s, %s: %v", name, how.name, p.Name, err)
				}
				compare(p.Name, after)
			}
			c, err := compiler.Compile(wrap(), compiler.Options{Machine: compiler.Portable(2)})
			if err != nil {
				t.Errorf("%s, %s: %v", name, how.name, err)
				continue
			}
			compare("all passes", c.IR)
		}
	}
	if count < weirtest.Trials(400, 100) {
		t.Errorf("only %d modules", count)
	}
	t.Logf("%d modules", count)
}
