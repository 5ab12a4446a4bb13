package kerneltest

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// author writes random kernels. Every parameter except results has one axis of sourceSize elements, and all indices are
// below that.
type author struct {
	*rand.Rand
	*loop.Builder
	sources  map[dtype.DType]*loop.Memory
	loops    []sym.Expr // variables in scope, each with an extent of at most 40
	lanes    bool       // inside a vector loop
	checked  []sym.Expr // checked values, below 100
	values   []*loop.Ref
	types    []dtype.DType
	discrete bool // results must be equal to the bit: no functions whose last bits may differ
}

const sourceSize = 4000

// source returns the source of a type, and declares it if it is new.
func (a *author) source(dt dtype.DType) *loop.Memory {
	if a.sources[dt] == nil {
		a.sources[dt] = a.Param("s_"+dt.String(), loop.Read, dt, Fixed(sourceSize))
	}
	return a.sources[dt]
}

// index returns an index of a source: linear in loop variables, backward, with checked values, or with quotients.
func (a *author) index() sym.Expr {
	e := sym.Const(int64(1000 + a.Intn(500)))
	for _, v := range a.loops {
		switch a.Intn(6) {
		case 0:
		case 1:
			e = e.Add(v.Mul(sym.Const(int64(2 + a.Intn(5)))))
		case 2:
			e = e.Sub(v.Mul(sym.Const(int64(1 + a.Intn(5)))))
		case 3:
			if a.Intn(4) == 0 {
				e = e.Add(v.FloorDiv(sym.Const(3)).Mul(sym.Const(7))).Add(v.Mod(sym.Const(4)))
			} else {
				e = e.Add(v)
			}
		default:
			e = e.Add(v)
		}
	}
	if len(a.checked) > 0 && a.Intn(3) == 0 {
		e = e.Add(a.checked[a.Intn(len(a.checked))].Mul(sym.Const(int64(1 + a.Intn(2)))))
	}
	return e
}

// integer returns an integer over loop variables.
func (a *author) integer() sym.Expr {
	if len(a.loops) == 0 {
		return sym.Const(3)
	}
	e := a.loops[a.Intn(len(a.loops))].Mul(sym.Const(int64(a.Intn(5) - 2))).Add(sym.Const(int64(a.Intn(30))))
	if a.Intn(3) == 0 {
		e = e.Add(a.loops[a.Intn(len(a.loops))])
	}
	return e
}

// condition returns a bool.
func (a *author) condition(depth int) loop.Expr {
	switch a.Intn(5) {
	case 0, 1:
		op := []loop.BinaryOp{loop.Lt, loop.Le, loop.Gt, loop.Ge, loop.Eq, loop.Ne}[a.Intn(6)]
		return loop.Apply2(op, loop.At(a.integer()), loop.At(a.integer()))
	case 2:
		return loop.Apply2(loop.And, a.condition(depth-1), a.condition(depth-1))
	case 3:
		if depth > 0 {
			return loop.Apply2([]loop.BinaryOp{loop.Or, loop.Xor, loop.And}[a.Intn(3)], a.condition(depth-1),
				a.condition(depth-1))
		}
	}
	return a.expr(dtype.Bool, depth-1)
}

// expr returns an expression of a type and a depth.
func (a *author) expr(dt dtype.DType, depth int) loop.Expr {
	if depth <= 0 {
		return a.leaf(dt, depth)
	}
	for range 10 {
		switch a.Intn(7) {
		case 0:
			op := loop.UnaryOp(a.Intn(int(loop.IsInf) + 1))
			if op.Accepts(dt) && !op.Test() && (!a.discrete || op <= loop.Sqrt) {
				return loop.Apply(op, a.expr(dt, depth-1))
			}
		case 1, 2:
			op := []loop.BinaryOp{loop.Add, loop.Sub, loop.Mul, loop.Div, loop.Min, loop.Max, loop.And, loop.Or, loop.Xor,
				loop.Shl, loop.FloorMod}[a.Intn(11)]
			if op.Accepts(dt) && (!a.discrete || op != loop.FloorMod || dt.IsInt()) {
				return loop.Apply2(op, a.expr(dt, depth-1), a.expr(dt, depth-1))
			}
		case 3:
			return loop.Choose(a.condition(depth-1), a.expr(dt, depth-1), a.expr(dt, depth-1))
		case 4:
			return loop.Convert(dt, a.expr(a.types[a.Intn(len(a.types))], depth-1))
		case 5:
			if dt == dtype.Bool {
				return a.condition(depth - 1)
			}
		default:
			return a.leaf(dt, depth)
		}
	}
	return a.leaf(dt, depth)
}

// leaf returns a constant, an integer, a named value or a load.
func (a *author) leaf(dt dtype.DType, depth int) loop.Expr {
	switch a.Intn(8) {
	case 0:
		return loop.Number(dt, float64(a.Intn(4)))
	case 1:
		if dt == dtype.I64 {
			return loop.At(a.integer())
		}
	case 2, 3:
		for range 3 {
			if len(a.values) > 0 {
				if v := a.values[a.Intn(len(a.values))]; v.Type == dt {
					return v
				}
			}
		}
	case 4:
		if depth >= 0 {
			return a.source(dt).LoadIf(a.condition(0), a.expr(dt, depth-1), a.index())
		}
	}
	return a.source(dt).Load(a.index())
}

// scope calls write, and then forgets the names that it declared.
func (a *author) scope(write func()) {
	loops, checked, values := len(a.loops), len(a.checked), len(a.values)
	write()
	a.loops, a.checked, a.values = a.loops[:loops], a.checked[:checked], a.values[:values]
}

// loop writes a loop, whose body is a scope.
func (a *author) loop(kind loop.LoopKind, extent sym.Expr, write func(i sym.Expr)) {
	a.For(kind, "i", extent, func(i sym.Expr) {
		a.scope(func() {
			a.loops = append(a.loops, i)
			write(i)
		})
	})
}

func (a *author) pick() dtype.DType { return a.types[a.Intn(len(a.types))] }

// statements writes some statements; results are stored at index of new parameters of the given shape.
func (a *author) statements(index, extents []sym.Expr) {
	for range 1 + a.Intn(3) {
		switch a.Intn(5) {
		case 0:
			a.values = append(a.values, a.Let("v", a.expr(a.pick(), 2)))
		case 1:
			i := loop.Convert(dtype.I64, loop.Apply2(loop.And, a.source(dtype.U8).Load(a.index()), loop.Number(dtype.U8, 63)))
			a.checked = append(a.checked, a.Check("c", i, n0, sym.Const(99), "a value"))
		case 2:
			v := a.Var("w", a.expr(a.pick(), 1))
			a.loop(loop.Serial, sym.Const(int64(a.Intn(4))), func(sym.Expr) {
				for _, op := range []loop.BinaryOp{loop.Add, loop.Max, loop.Xor, loop.Mul} {
					if op.Accepts(v.Type) && a.Intn(2) == 0 {
						a.Reduce(v, op, a.expr(v.Type, 2))
						break
					}
				}
				if a.Intn(2) == 0 {
					a.Set(v, loop.Choose(a.condition(1), v, a.expr(v.Type, 1)))
				}
			})
			a.values = append(a.values, v)
		default:
			dt := a.pick()
			out := a.Param("out", loop.Update, dt, extents)
			var mask loop.Expr
			if a.Intn(3) == 0 {
				mask = a.condition(1)
			}
			a.StoreIf(mask, out, index, a.expr(dt, 3))
		}
	}
}

// write returns a kernel of one to three nested loops.
func (a *author) write() *loop.Kernel {
	n := sym.Dim("n")
	extents := []sym.Expr{}
	index := []sym.Expr{}
	var descend func(depth int)
	descend = func(depth int) {
		extent := sym.Const(int64(a.Intn(4)))
		if a.Intn(3) == 0 {
			extent = n
		}
		kind := []loop.LoopKind{loop.Each, loop.Parallel, loop.Each}[a.Intn(3)]
		last := depth == 0
		if last {
			extent = n
			if a.Intn(4) > 0 {
				kind = loop.Vector
			}
		}
		extents = append(extents, extent)
		a.loop(kind, extent, func(i sym.Expr) {
			index = append(index, i)
			if last {
				at, shape := append([]sym.Expr(nil), index...), append([]sym.Expr(nil), extents...)
				if a.Intn(3) == 0 { // strided stores
					for i, j := range a.Perm(len(at)) {
						at[i], shape[i] = index[j], extents[j]
					}
				}
				a.statements(at, shape)
				return
			}
			if a.Intn(3) == 0 {
				a.values = append(a.values, a.Let("u", a.expr(a.pick(), 2)))
			}
			if a.Intn(4) == 0 {
				// Lanes combined with a value from outside: integers, whose sums do not depend on the order.
				dt := []dtype.DType{dtype.I32, dtype.I64}[a.Intn(2)]
				total := a.Var("total", loop.Number(dt, 0))
				a.loop(loop.Vector, n, func(sym.Expr) {
					a.Reduce(total, []loop.BinaryOp{loop.Add, loop.Max, loop.Min, loop.Xor}[a.Intn(4)], a.expr(dt, 2))
				})
				a.values = append(a.values, total)
			}
			descend(depth - 1)
		})
		index, extents = index[:len(index)-1], extents[:len(extents)-1]
	}
	descend(a.Intn(3))
	return Finish(a.Builder)
}

// newAuthor returns the author of a seed.
func newAuthor(seed int64) *author {
	r := rand.New(rand.NewSource(seed))
	a := &author{Rand: r, Builder: loop.NewBuilder(fmt.Sprintf("random%d", seed)), sources: map[dtype.DType]*loop.Memory{},
		discrete: true}
	a.types = []dtype.DType{dtype.I32, dtype.Bool, dtype.I64}
	for range 2 {
		a.types = append(a.types, ElementTypes[r.Intn(len(ElementTypes))])
	}
	return a
}

// Random compares the kernel of a seed, as it is or scheduled, with the interpreter.
func (h Harness) Random(t testing.TB, seed int64, scheduled bool) {
	t.Helper()
	a := newAuthor(seed)
	k := a.write()
	if len(k.Params) == 0 {
		return
	}
	dims := map[sym.Name]int64{sym.User("n"): []int64{0, 1, 2, 7, 16, 33, 40}[a.Intn(7)]}
	operands := make([]*tensor.Tensor, len(k.Params))
	for i, p := range k.Params {
		operands[i] = Operand(t, p, dims)
		Fill(a.Rand, operands[i])
	}
	if scheduled {
		before := make([]*tensor.Tensor, len(operands))
		for i, x := range operands {
			before[i] = x.Clone()
		}
		m := &loop.Module{Dims: sym.NewDims(), Kernels: []*loop.Kernel{k.Clone()}}
		m.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 40})
		if err := schedule.RunWith(m, h.Machine, schedule.Options{Without: schedule.Simplest}); err != nil {
			t.Fatal(err)
		}
		if err := h.Execute(t, m.Kernels[0], before, dims, 1+a.Int63n(3)); err != nil {
			t.Fatal(err)
		}
		h.Agree(t, k, dims, operands, 0, 0)
		for i, x := range operands {
			if err := tensor.Compare(before[i], x, 0, 0); err != nil {
				t.Fatalf("seed %d, dims %v: %s: %v\n%s\n%s", seed, dims, k.Params[i].Name, err, k, m.Kernels[0])
			}
		}
		return
	}
	h.Agree(t, k, dims, operands, 0, a.Int63n(3))
}
