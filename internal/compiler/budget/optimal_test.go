package budget_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// chains returns the ir text of a random net: each layer multiplies an earlier result by a matrix and adds another.
func chains(r *rand.Rand, layers int) string {
	var b strings.Builder
	b.WriteString("weir 1\nir @net {\n  main @main(%v0: f32[64, 8], %w: f32[8, 8]) {\n")
	for i := range layers {
		fmt.Fprintf(&b, "    %%m%d: f32[64, 8] = matmul(%%v%d, %%w)\n    %%v%d: f32[64, 8] = add(%%m%d, %%v%d)\n", i,
			max(0, i-r.IntN(3)), i+1, i, r.IntN(i+1))
	}
	fmt.Fprintf(&b, "    return %%v%d\n  }\n}\n", layers)
	return b.String()
}

// compiled adapts a Compiled to budget.Compilation, without making kernels again.
type compiled struct{ *compiler.Compiled }

func (c compiled) Loop() *loop.Module { return c.Compiled.Loop }
func (c compiled) Code() *target.Code { return c.Compiled.Code }
func (c compiled) Remake() error      { panic("not here") }
func (c compiled) Regenerate() error  { panic("not here") }
func (c compiled) Allowed() bool      { return true }

// interpreter interprets a program without host operators.
func interpreter(c *compiler.Compiled) *program.Interpreter {
	kernels := map[string]*loop.Kernel{}
	for _, k := range c.Loop.Kernels {
		kernels[k.Name] = k
	}
	return &program.Interpreter{Kernel: func(name string, operands []program.Operand, dims []int64) error {
		values := map[sym.Name]int64{}
		for i, n := range kernels[name].Dims {
			values[n] = dims[i]
		}
		var data []loop.Data
		for _, o := range operands {
			data = append(data, loop.Data{DType: o.DType, Bytes: o.Data})
		}
		return loop.Interpret(kernels[name], data, values)
	}}
}

// TestBudgetOptimal checks that in small graphs the greedy choice of recomputed results never costs less than the
// optimal one, and sometimes costs more.
func TestBudgetOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	cost := func(saved []budget.Saving) (sum float64) {
		for _, s := range saved {
			sum += s.Seconds()
		}
		return sum
	}
	fits, better := 0, 0
	for range 40 {
		text := chains(r, 6+r.IntN(10))
		read := func() *ir.Module {
			m, err := ir.Parse(text, ir.ParseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		c, err := compiler.Compile(read(), compiler.Options{Machine: compiler.Portable(1)})
		if err != nil {
			t.Fatal(err)
		}
		arena, _ := c.Arena.Arena.Const()
		body, buffers := c.Loop.Body, c.Loop.Buffers
		for target := arena - 1; target > arena/3; target -= 1024 {
			found := map[int]float64{}
			for _, optimal := range []int{0, budget.MostChoices} {
				c.Loop.Body, c.Loop.Buffers = body, buffers
				s := budget.NewSqueezer(compiled{Compiled: c}, target, optimal)
				if optimal > 0 {
					if s.Optimal(body, target) != nil {
						found[1] = cost(s.Done())
					}
					continue
				}
				at := body
				for next := at; next != nil; next = s.Recompute(at, target) {
					at = next
				}
				if s.Live(at) <= target {
					found[0] = cost(s.Done())
				}
			}
			c.Loop.Body, c.Loop.Buffers = body, buffers
			greedy, one := found[0]
			optimal, other := found[1]
			if one && !other {
				t.Fatalf("one after the other keeps within %d, no choice does:\n%s", target, text)
			}
			if one && optimal > greedy*(1+1e-9) {
				t.Fatalf("within %d one after the other costs %g, the best choice %g:\n%s", target, greedy, optimal, text)
			}
			if other {
				fits++
			}
			if other && (!one || optimal < greedy*(1-1e-9)) {
				better++
			}
		}
		// The program within a smaller budget computes the same results.
		inputs := []*tensor.Tensor{tensor.Must(tensor.New(c.IR.Main.Body.Params[0].Type.DType, 64, 8)),
			tensor.Must(tensor.New(c.IR.Main.Body.Params[1].Type.DType, 8, 8))}
		for _, x := range inputs {
			for i := range x.Len() {
				x.SetFloat(i, r.NormFloat64()/3)
			}
		}
		want, err := ir.Evaluate(read(), inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		tight, err := compiler.Compile(read(), compiler.Options{Machine: compiler.Portable(1),
			Budget: &budget.Budget{Bytes: c.Code.Bytes + 64*8*4 + arena*2/3, Calls: 1, Workers: 0}})
		if err != nil {
			continue // the budget is too small
		}
		got, err := interpreter(tight).Run(tight.Program, inputs)
		if err != nil {
			t.Fatalf("%v\n%s", err, tight.Program)
		}
		if err := tensor.Compare(got[0], want[0], 1e-5, 1e-5); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d fit, the best choice is better at %d", fits, better)
	if fits == 0 || better == 0 {
		t.Errorf("%d fit, the best choice is better at %d: the nets show nothing", fits, better)
	}
}
