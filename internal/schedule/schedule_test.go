package schedule

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// dim, shape and number are short names for tests.
func dim(name string) sym.Expr { return sym.Dim(name) }

func shape(extents ...sym.Expr) []sym.Expr { return extents }

func number(n int64) sym.Expr { return sym.Const(n) }

// sample is a kernel as lowering writes it; build adds it to a builder for the extents n, m and k.
type sample struct {
	name  string
	build func(b *loop.Builder, n, m, k sym.Expr)
}

// f32 returns a constant.
func f32(x float64) loop.Expr { return loop.Number(dtype.F32, x) }

// unit returns the steps of a tile that move by 1 along an axis.
func unit(rank, axis int) []sym.Expr {
	u := make([]sym.Expr, rank)
	for i := range u {
		u[i] = zero
	}
	u[axis] = one
	return u
}

// zeros returns rank zeros.
func zeros(rank int) []sym.Expr { return unit(rank+1, rank)[:rank] }

var samples = []sample{
	{"map", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m, k))
		bias := b.Param("bias", loop.Read, dtype.F32, shape(m, one))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, m, k))
		b.Nest(loop.Each, "i", y.Shape, func(i []sym.Expr) {
			v := b.Let("v", loop.Apply2(loop.Add, x.Load(i...), bias.Load(i[1], zero)))
			b.Store(y, i, loop.Apply2(loop.Mul, v, v))
		})
	}},
	{"transpose", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F16, shape(n, m, k))
		y := b.Param("y", loop.Write, dtype.F16, shape(k, n, m))
		b.Nest(loop.Each, "i", y.Shape, func(i []sym.Expr) { b.Store(y, i, x.Load(i[1], i[2], i[0])) })
	}},
	{"reduce_last", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m, k))
		y := b.Param("y", loop.Write, dtype.F32, shape(n))
		b.Nest(loop.Each, "i", y.Shape, func(i []sym.Expr) {
			s := b.Var("s", f32(0))
			b.Serial("j", m, func(j sym.Expr) {
				b.Serial("k", k, func(l sym.Expr) { b.Reduce(s, loop.Add, x.Load(i[0], j, l)) })
			})
			b.Store(y, i, s)
		})
	}},
	{"reduce_first", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m, k))
		y := b.Param("y", loop.Write, dtype.F32, shape(m, k))
		b.Nest(loop.Each, "i", y.Shape, func(i []sym.Expr) {
			s := b.Var("s", f32(0))
			b.Serial("j", n, func(j sym.Expr) { b.Reduce(s, loop.Add, x.Load(j, i[0], i[1])) })
			b.Store(y, i, s)
		})
	}},
	{"softmax", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m, k))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, m, k))
		b.Nest(loop.Each, "i", shape(n, m), func(i []sym.Expr) {
			top := b.Var("top", loop.Lowest(dtype.F32))
			b.Serial("a", k, func(a sym.Expr) { b.Reduce(top, loop.Max, x.Load(i[0], i[1], a)) })
			s := b.Var("s", f32(0))
			e := func(a sym.Expr) loop.Expr {
				return loop.Apply(loop.Exp, loop.Apply2(loop.Sub, x.Load(i[0], i[1], a), top))
			}
			b.Serial("c", k, func(a sym.Expr) { b.Reduce(s, loop.Add, e(a)) })
			b.Each("d", k, func(a sym.Expr) {
				b.Store(y, shape(i[0], i[1], a), loop.Apply2(loop.Div, e(a), s))
			})
		})
	}},
	{"cumsum", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, m))
		b.Each("i", m, func(i sym.Expr) {
			s := b.Var("s", f32(0))
			b.Serial("j", n, func(j sym.Expr) {
				b.Set(s, loop.Apply2(loop.Add, s, x.Load(j, i)))
				b.Store(y, shape(j, i), s)
			})
		})
	}},
	{"matmul", func(b *loop.Builder, n, m, k sym.Expr) {
		batch := number(3)
		x := b.Param("x", loop.Read, dtype.F32, shape(batch, n, k))
		w := b.Param("w", loop.Read, dtype.F32, shape(k, m))
		bias := b.Param("bias", loop.Read, dtype.F32, shape(m))
		y := b.Param("y", loop.Write, dtype.F32, shape(batch, n, m))
		b.Each("b", batch, func(at sym.Expr) {
			acc := b.Local("acc", dtype.F32, n, m)
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
			b.Contract(n, m, k, acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
				x.Tile(shape(at, zero, zero), unit(3, 1), unit(3, 2)), w.Tile(zeros(2), unit(2, 0), unit(2, 1)))
			b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) {
				b.Store(y, shape(at, i[0], i[1]), loop.Apply2(loop.Max, f32(0),
					loop.Apply2(loop.Add, acc.Load(i...), bias.Load(i[1]))))
			})
		})
	}},
	{"convolution", func(b *loop.Builder, n, m, k sym.Expr) {
		// One row of outputs at a time, without padding. The window is 2 × 1 with a stride of 2 along rows.
		in, out := number(1), number(70)
		x := b.Param("x", loop.Read, dtype.F32, shape(n, in, m.Mul(number(2)).Add(one), k.Add(one)))
		w := b.Param("w", loop.Read, dtype.F32, shape(number(2), one, out, in))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, out, m, k))
		b.Nest(loop.Each, "r", shape(n, m), func(r []sym.Expr) {
			acc := b.Local("acc", dtype.F32, out, k)
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0.5)) })
			b.Serial("h", number(2), func(h sym.Expr) {
				b.Serial("v", number(1), func(v sym.Expr) {
					b.Contract(out, k, in, acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
						w.Tile(shape(h, v, zero, zero), unit(4, 2), unit(4, 3)),
						x.Tile(shape(r[0], zero, r[1].Mul(number(2)).Add(h), v), unit(4, 1), unit(4, 3)))
				})
			})
			b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) {
				b.Store(y, shape(r[0], i[0], r[1], i[1]), acc.Load(i...))
			})
		})
	}},
	{"convolution_1d", func(b *loop.Builder, n, m, k sym.Expr) {
		// A convolution along one axis, the rows; each row has one column.
		out := number(5)
		x := b.Param("x", loop.Read, dtype.F32, shape(n, k, m.Mul(number(2)).Add(number(3)), one))
		w := b.Param("w", loop.Read, dtype.F32, shape(out, k, number(3)))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, out, m, one))
		b.Nest(loop.Each, "r", shape(n, m), func(r []sym.Expr) {
			acc := b.Local("acc", dtype.F32, out, one)
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
			b.Serial("h", number(3), func(h sym.Expr) {
				b.Contract(out, one, k, acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
					w.Tile(shape(zero, zero, h), unit(3, 0), unit(3, 1)),
					x.Tile(shape(r[0], zero, r[1].Mul(number(2)).Add(h), zero), unit(4, 1), unit(4, 3)))
			})
			b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) {
				b.Store(y, shape(r[0], i[0], r[1], i[1]), acc.Load(i...))
			})
		})
	}},
	{"padded", func(b *loop.Builder, n, m, k sym.Expr) {
		// A convolution of 3 × 3 with a border of 1, a row at a time, as lowering writes it.
		in, out := number(1), number(66)
		x := b.Param("x", loop.Read, dtype.F32, shape(n, in, m, k))
		w := b.Param("w", loop.Read, dtype.F32, shape(out, in, number(3), number(3)))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, out, m, k))
		b.Nest(loop.Each, "r", shape(n, m), func(r []sym.Expr) {
			acc := b.Local("acc", dtype.F32, out, k)
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
			b.Serial("h", number(3), func(h sym.Expr) {
				b.Serial("v", number(3), func(v sym.Expr) {
					row := r[1].Add(h).Sub(one)
					b.When(loop.Inside(row, zero, m), func() {
						first := one.Sub(v).Max(zero)
						count := k.Add(one).Sub(v).Min(k).Sub(first)
						b.Contract(out, count, in, acc.Tile(shape(zero, first), unit(2, 0), unit(2, 1)),
							w.Tile(shape(zero, zero, h, v), unit(4, 0), unit(4, 1)),
							x.Tile(shape(r[0], zero, row, first.Add(v).Sub(one)), unit(4, 1), unit(4, 3)))
					}, nil)
				})
			})
			b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) {
				b.Store(y, shape(r[0], i[0], r[1], i[1]), acc.Load(i...))
			})
		})
	}},
	{"pointwise", func(b *loop.Builder, n, m, k sym.Expr) {
		// A convolution of 1 × 1 over all positions at once.
		out := number(5)
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m.Mul(k)))
		w := b.Param("w", loop.Read, dtype.F32, shape(out, n))
		y := b.Param("y", loop.Write, dtype.F32, shape(out, m, k))
		acc := b.Local("acc", dtype.F32, out, m.Mul(k))
		b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
		b.Contract(out, m.Mul(k), n, acc.Tile(zeros(2), unit(2, 0), unit(2, 1)),
			w.Tile(zeros(2), unit(2, 0), unit(2, 1)), x.Tile(zeros(2), unit(2, 0), unit(2, 1)))
		b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) {
			b.Store(y, shape(i[0], i[1].FloorDiv(k), i[1].Mod(k)), acc.Load(i...))
		})
	}},
	{"pool", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m, k))
		y := b.Param("y", loop.Write, dtype.F32, shape(n, m, k))
		b.Nest(loop.Each, "i", y.Shape, func(i []sym.Expr) {
			s := b.Var("s", loop.Lowest(dtype.F32))
			b.Serial("h", number(3), func(h sym.Expr) {
				b.Serial("w", number(3), func(w sym.Expr) {
					p, q := i[1].Add(h).Sub(one), i[2].Add(w).Sub(one)
					mask := loop.Apply2(loop.And, loop.Inside(p, zero, m), loop.Inside(q, zero, k))
					b.Reduce(s, loop.Max, x.LoadIf(mask, loop.Lowest(dtype.F32), i[0], p, q))
				})
			})
			b.Store(y, i, s)
		})
	}},
	{"gather", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m))
		at := b.Param("at", loop.Read, dtype.I64, shape(k))
		y := b.Param("y", loop.Write, dtype.F32, shape(k, m))
		b.Each("i", k, func(i sym.Expr) {
			row := b.Check("row", at.Load(i), n.Neg(), n.Sub(one), "an index")
			b.Each("j", m, func(j sym.Expr) { b.Store(y, shape(i, j), x.Load(row.Mod(n), j)) })
		})
	}},
	{"concat", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.I8, shape(n, m))
		z := b.Param("z", loop.Read, dtype.I8, shape(k, m))
		y := b.Param("y", loop.Write, dtype.I8, shape(n.Add(k), m))
		b.Nest(loop.Each, "i", x.Shape, func(i []sym.Expr) { b.Store(y, i, x.Load(i...)) })
		b.Nest(loop.Each, "j", z.Shape, func(j []sym.Expr) { b.Store(y, shape(j[0].Add(n), j[1]), z.Load(j...)) })
	}},
	{"dependent", func(b *loop.Builder, n, m, k sym.Expr) {
		x := b.Param("x", loop.Read, dtype.F32, shape(n, m))
		y := b.Param("y", loop.Update, dtype.F32, shape(n, m))
		b.Nest(loop.Each, "i", y.Shape, func(i []sym.Expr) { b.Store(y, i, x.Load(i...)) })
		b.Nest(loop.Each, "j", y.Shape, func(j []sym.Expr) { b.Store(y, j, loop.Apply(loop.Neg, y.Load(j...))) })
	}},
}

// machine is a processor without a register tile, with usual limits.
var machine = target.Machine{Name: "portable", Limits: target.Limits{Scratch: 4 << 20, Operands: 48, Values: 96,
	L1: 32 << 10, L2: 512 << 10}}

// variants returns options that leave out all combinations of the first groups of steps; steps is the number of groups.
func variants(steps int) []Options {
	var list []Options
	for bits := range 1 << steps {
		on := func(i int) bool { return bits>>i&1 != 0 }
		var o Options
		for i, names := range [][]string{{"contractions", "cut-contractions"}, {"rejoin", "flatten"},
			{"vectors", "lanes", "transpositions"}, {"tiles"}, {"constants", "inline", "functions-once"},
			{"epilogue", "finish"}} {
			if on(i) {
				o.Without = append(o.Without, names...)
			}
		}
		list = append(list, o)
	}
	return list
}

// evaluate returns the values of expressions for some dimensions.
func evaluate(t testing.TB, list []sym.Expr, dims map[sym.Name]int64) []int64 {
	t.Helper()
	values := make([]int64, len(list))
	for i, e := range list {
		v, err := e.Eval(func(name sym.Name) (int64, bool) { v, ok := dims[name]; return v, ok })
		if err != nil {
			t.Fatal(err)
		}
		values[i] = v
	}
	return values
}

// operands returns tensors with small random values for a kernel's parameters.
func operands(t testing.TB, k *loop.Kernel, dims map[sym.Name]int64, seed int64) []*tensor.Tensor {
	t.Helper()
	r := rand.New(rand.NewSource(seed))
	list := make([]*tensor.Tensor, len(k.Params))
	for i, p := range k.Params {
		x, err := tensor.New(p.DType, evaluate(t, p.Shape, dims)...)
		if err != nil {
			t.Fatal(err)
		}
		for j := range x.Len() {
			if p.DType.IsInt() {
				x.SetInt(j, r.Int63n(max(2*dims[sym.User("n")], 1))-dims[sym.User("n")])
			} else {
				x.SetFloat(j, r.NormFloat64())
			}
		}
		list[i] = x
	}
	return list
}

// interpret runs a kernel on tensors in the interpreter.
func interpret(k *loop.Kernel, list []*tensor.Tensor, dims map[sym.Name]int64) error {
	data := make([]loop.Data, len(list))
	for i, x := range list {
		data[i] = loop.Data{DType: x.DType(), Bytes: x.Bytes()}
	}
	return loop.Interpret(k, data, dims)
}

// TestKernels schedules each sample with all combinations of steps left out, and compares the interpreted results.
func TestKernels(t *testing.T) {
	for _, sample := range samples {
		for _, static := range []bool{false, true} {
			for _, dims := range []map[sym.Name]int64{{sym.User("n"): 1, sym.User("m"): 130, sym.User("k"): 5},
				{sym.User("n"): 66, sym.User("m"): 1, sym.User("k"): 5}, {sym.User("n"): 2, sym.User("m"): 3, sym.User("k"): 0},
				{sym.User("n"): 1, sym.User("m"): 3, sym.User("k"): 140}} {
				t.Run(fmt.Sprintf("%s/%v/%v", sample.name, static, dims), func(t *testing.T) {
					ranges := sym.NewDims()
					extent := func(name string) sym.Expr {
						if static {
							return number(dims[sym.User(name)])
						}
						ranges.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 20})
						return dim(name)
					}
					b := loop.NewBuilder(sample.name)
					sample.build(b, extent("n"), extent("m"), extent("k"))
					k := b.Kernel
					k.Dims = loop.FreeDims(k)
					want := operands(t, k, dims, 1)
					before := operands(t, k, dims, 1)
					if err := interpret(k, want, dims); err != nil {
						t.Fatal(err)
					}
					seen := map[string]bool{}
					for _, o := range variants(4) {
						s := &scheduler{module: &loop.Module{}, machine: machine, options: o, dims: ranges}
						scheduled := s.kernel(k)
						text := scheduled.String()
						if seen[text] {
							continue
						}
						seen[text] = true
						if _, err := loop.Verify(scheduled, ranges); err != nil {
							t.Fatalf("%+v: %v\n%s", o, err, text)
						}
						got := make([]*tensor.Tensor, len(before))
						for i := range before {
							got[i] = before[i].Clone()
						}
						if err := interpret(scheduled, got, dims); err != nil {
							t.Fatalf("%+v: %v\n%s", o, err, text)
						}
						for i := range want {
							if err := tensor.Compare(got[i], want[i], 1e-5, 1e-5); err != nil {
								t.Fatalf("%+v: %s: %v\n%s", o, k.Params[i].Name, err, text)
							}
						}
					}
				})
			}
		}
	}
}

// TestAlike schedules a module with equal kernels: the copies of the first kernel's schedule are what each kernel's own
// schedule is, with names and sources of their own.
func TestAlike(t *testing.T) {
	build := func() *loop.Module {
		w := newWriter()
		x := w.buffer(loop.Input, dtype.F32, constants([]int64{24, 64}))
		for range 3 {
			weights := w.buffer(loop.Input, dtype.F32, constants([]int64{64, 64}))
			x = w.unary(loop.Temp, loop.Tanh, w.matmul(loop.Temp, x, weights))
		}
		w.unary(loop.Output, loop.Exp, x)
		return w.module
	}
	machine, err := target.For("avx512", 1)
	if err != nil {
		t.Fatal(err)
	}
	together, apart := build(), build()
	if err := RunWith(together, machine, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := RunWith(apart, machine, Options{After: func(string, func() string) {}}); err != nil {
		t.Fatal(err)
	}
	if together.String() != apart.String() {
		t.Errorf("together:\n%s\napart:\n%s", together, apart)
	}
	unlike, _ := loop.Distinct(together.Kernels)
	if len(unlike) == len(together.Kernels) {
		t.Errorf("%d kernels, all different", len(unlike))
	}
	bodies, sources := map[*loop.Stmt]bool{}, map[string]bool{}
	for _, k := range together.Kernels {
		bodies[&k.Body[0]], sources[k.Source] = true, true
	}
	if len(bodies) < len(together.Kernels) || len(sources) < len(together.Kernels) {
		t.Errorf("%d kernels have %d bodies and %d sources", len(together.Kernels), len(bodies), len(sources))
	}
}
