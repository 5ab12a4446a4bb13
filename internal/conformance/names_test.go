package conformance

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// namedModels are models over two dimensions, n and m, whose inputs x and y are f32[n, 5] and f32[m].
var namedModels = map[string]func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value{
	"padded by a shape": func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value {
		zero := sym.Const(0)
		v := ops.Pad(b, x, nil, "constant", []sym.Expr{m, zero}, []sym.Expr{n, sym.Const(2)})
		return []*ir.Value{ops.Unary(b, loop.Exp, v), ops.Reduce(b, "reduce_sum", y, true, 0)}
	},
	"centred": func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value {
		v := ops.Binary(b, loop.Sub, x, ops.Reduce(b, "reduce_mean", x, true, 1))
		w := ops.Concat(b, 0, v, ops.Transpose(b, ops.Transpose(b, x, 1, 0), 1, 0))
		return []*ir.Value{ops.Softmax(b, w, 0), ops.Unary(b, loop.Neg, y)}
	},
	"centred, then padded": func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value {
		v := ops.Binary(b, loop.Sub, x, ops.Reduce(b, "reduce_mean", x, true, 1))
		return []*ir.Value{ops.Pad(b, v, nil, "constant", ints(2, 0), ints(1, 3)),
			ops.Pad(b, y, nil, "constant", ints(3), ints(3))}
	},
	"a product": func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value {
		v := ops.MatMul(b, x, x, false, true)
		return []*ir.Value{ops.Softmax(b, v, 1), ops.CumSum(b, y, 0, false, false)}
	},
	"what data decide": func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value {
		return []*ir.Value{ops.NonZero(b, x), ops.NonZero(b, y), ops.Unary(b, loop.Exp, x)}
	},
}

func ints(list ...int64) []sym.Expr { return ir.Constants(list) }

// madeNames matches names in texts of the compiler's own, and users' names that look like them.
var madeNames = regexp.MustCompile(
	`[?$&!]("(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_.]*)|[%@]("(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_.]*)`)

// oddNames are names of dimensions that a file may have.
var oddNames = []string{"", " ", "i0_1#", "i0#", "c1", "t", "a\nb", "a\x00b", `"`, "%x", "$i0", "?n", "&arena.0",
	"!sought", "n m", "max", "ceildiv", "inf", "x.0", "step", "ñ", "m\u0430x", "1", "-1"}

// namedTrial returns a model whose dimensions have the given names, and arguments for it.
func namedTrial(build func(b *ir.Builder, n, m sym.Expr, x, y *ir.Value) []*ir.Value, first, second string) *trial {
	r := rand.New(rand.NewPCG(3, 4))
	draw := func(shape ...int64) *tensor.Tensor {
		t := tensor.Must(tensor.New(dtype.F32, shape...))
		for i := range t.Len() {
			t.SetFloat(i, float64(r.IntN(7)-3)/2)
		}
		return t
	}
	t := &trial{args: []*tensor.Tensor{draw(7, 5), draw(3)}}
	t.build = func() (m *ir.Module, err error) {
		defer ir.Catch(&err)
		body := &ir.Block{}
		m = &ir.Module{Name: "named", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
		m.Funcs = []*ir.Func{m.Main}
		b := ir.NewBuilder(ir.NewInference(m), body)
		for _, name := range []string{first, second} {
			m.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 16})
		}
		x := b.Param("x", ir.Type{DType: dtype.F32, Shape: []sym.Expr{sym.Dim(first), sym.Const(5)}})
		y := b.Param("y", ir.Type{DType: dtype.F32, Shape: []sym.Expr{sym.Dim(second)}})
		body.Results = build(b, sym.Dim(first), sym.Dim(second), x, y)
		return m, nil
	}
	return t
}

// TestNames gives the dimensions of a model every name that the compiler makes in any stage of it, and odd names: the
// results are the same, to the bit, and so is the memory.
func TestNames(t *testing.T) {
	ctx := context.Background()
	for model, build := range namedModels {
		plain := namedTrial(build, "n", "m")
		want, err := plain.compiled(ctx, configuration{})
		if err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		names, peak := harvest(t, plain)
		for i, name := range names {
			other := names[(i+1)%len(names)]
			x := namedTrial(build, name, other)
			how := configurations[[]int{0, 2, 5, 7}[i%4]]
			got, err := x.compiled(ctx, how)
			if err != nil {
				t.Errorf("%s, dimensions %q and %q, %s: %v", model, name, other, how.name, err)
				continue
			}
			for k := range want {
				exact := how.name != "portable" && !slices.Equal(got[k].Bytes(), want[k].Bytes())
				if exact || tensor.Compare(got[k], want[k], 1e-5, 1e-5) != nil {
					t.Errorf("%s, dimensions %q and %q, %s: result %d differs", model, name, other, how.name, k)
				}
			}
			if _, now := harvest(t, x); now != peak {
				t.Errorf("%s, dimensions %q and %q: %d bytes, not %d", model, name, other, now, peak)
			}
		}
	}
}

// harvest compiles a model, and returns the names in the texts of all stages, odd names, and the model's peak for the
// arguments.
func harvest(t *testing.T, x *trial) (names []string, peak int64) {
	t.Helper()
	m, err := x.build()
	if err != nil {
		t.Fatal(err)
	}
	sizes := x.sizes(m)
	found := map[string]bool{}
	for _, name := range oddNames {
		found[name] = true
	}
	machine, err := compiler.Machine("", 2, false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiler.Compile(m, compiler.Options{Machine: machine, After: func(_, text string) {
		for _, spelled := range madeNames.FindAllString(text, -1) {
			name := spelled[1:]
			if unquoted, err := strconv.Unquote(name); err == nil {
				name = unquoted
			}
			found[name] = true
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer release(c)
	total := sym.AtLimits(sym.Sum(c.Arena.Arena, c.Outputs, c.Scratch), c.Loop.Limits)
	peak, err = total.Eval(func(name sym.Name) (int64, bool) { v, ok := sizes[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, peak
}
