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

// writer builds a module, one kernel at a time.
type writer struct {
	module *loop.Module
	count  int
}

// newWriter returns a writer of an empty module.
func newWriter() *writer {
	return &writer{module: &loop.Module{Name: "test", Dims: sym.NewDims()}}
}

// buffer adds a buffer without a producer.
func (w *writer) buffer(kind loop.BufferKind, dt dtype.DType, extents []sym.Expr) *loop.Buffer {
	w.count++
	b := &loop.Buffer{Name: fmt.Sprintf("b%d", w.count), Kind: kind, DType: dt, Shape: extents}
	w.module.Buffers = append(w.module.Buffers, b)
	return b
}

// launch adds a kernel that reads in and writes a new buffer.
func (w *writer) launch(name string, kind loop.BufferKind, dt dtype.DType, extents []sym.Expr, in []*loop.Buffer,
	write func(b *loop.Builder, in []*loop.Memory, out *loop.Memory)) *loop.Buffer {
	out := w.buffer(kind, dt, extents)
	b := loop.NewBuilder(fmt.Sprintf("%s_%d", name, w.count))
	var params []*loop.Memory
	for i, x := range in {
		params = append(params, b.Param(fmt.Sprintf("x%d", i), loop.Read, x.DType, x.Shape))
	}
	write(b, params, b.Param("y", loop.Write, dt, extents))
	b.Kernel.Dims = loop.FreeDims(b.Kernel)
	b.Kernel.Source = b.Kernel.Name
	w.module.Kernels = append(w.module.Kernels, b.Kernel)
	w.module.Body = append(w.module.Body, &loop.Launch{Kernel: b.Kernel,
		Args: append(append([]*loop.Buffer(nil), in...), out), Source: b.Kernel.Name})
	return out
}

// unary adds a map of one operand.
func (w *writer) unary(kind loop.BufferKind, op loop.UnaryOp, x *loop.Buffer) *loop.Buffer {
	return w.launch(op.String(), kind, x.DType, x.Shape, []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) { b.Store(out, i, loop.Apply(op, in[0].Load(i...))) })
		})
}

// binary adds a map of two operands; the second is broadcast along its axes of extent 1.
func (w *writer) binary(kind loop.BufferKind, op loop.BinaryOp, x, y *loop.Buffer) *loop.Buffer {
	return w.launch(op.String(), kind, x.DType, x.Shape, []*loop.Buffer{x, y},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) {
				j := append([]sym.Expr(nil), i...)
				for axis := range j {
					if isOne(y.Shape[axis]) && !isOne(x.Shape[axis]) {
						j[axis] = zero
					}
				}
				b.Store(out, i, loop.Apply2(op, in[0].Load(i...), in[1].Load(j...)))
			})
		})
}

// matmul adds the product of two matrices.
func (w *writer) matmul(kind loop.BufferKind, x, y *loop.Buffer) *loop.Buffer {
	m, k, n := x.Shape[0], x.Shape[1], y.Shape[1]
	return w.launch("matmul", kind, x.DType, shape(m, n), []*loop.Buffer{x, y},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			acc := b.Local("acc", dtype.F32, m, n)
			b.Nest(loop.Each, "z", acc.Shape, func(i []sym.Expr) { b.Store(acc, i, f32(0)) })
			b.Contract(m, n, k, acc.Tile(zeros(2), unit(2, 0), unit(2, 1)), in[0].Tile(zeros(2), unit(2, 0), unit(2, 1)),
				in[1].Tile(zeros(2), unit(2, 0), unit(2, 1)))
			b.Nest(loop.Each, "o", acc.Shape, func(i []sym.Expr) { b.Store(out, i, acc.Load(i...)) })
		})
}

// softmax adds a softmax along the last axis of a matrix.
func (w *writer) softmax(kind loop.BufferKind, x *loop.Buffer) *loop.Buffer {
	return w.launch("softmax", kind, x.DType, x.Shape, []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Each("i", x.Shape[0], func(i sym.Expr) {
				top := b.Var("top", loop.Lowest(dtype.F32))
				b.Serial("a", x.Shape[1], func(a sym.Expr) { b.Reduce(top, loop.Max, in[0].Load(i, a)) })
				s := b.Var("s", f32(0))
				b.Serial("c", x.Shape[1], func(a sym.Expr) {
					b.Reduce(s, loop.Add, loop.Apply(loop.Exp, loop.Apply2(loop.Sub, in[0].Load(i, a), top)))
				})
				b.Each("d", x.Shape[1], func(a sym.Expr) {
					b.Store(out, shape(i, a), loop.Apply2(loop.Div, loop.Apply(loop.Exp, loop.Apply2(loop.Sub, in[0].Load(i, a), top)),
						s))
				})
			})
		})
}

// sum adds a sum along the last axis of a matrix, which remains with extent 1.
func (w *writer) sum(kind loop.BufferKind, x *loop.Buffer) *loop.Buffer {
	return w.launch("sum", kind, x.DType, shape(x.Shape[0], one), []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Each("i", x.Shape[0], func(i sym.Expr) {
				s := b.Var("s", f32(0))
				b.Serial("a", x.Shape[1], func(a sym.Expr) { b.Reduce(s, loop.Add, in[0].Load(i, a)) })
				b.Store(out, shape(i, zero), s)
			})
		})
}

// shift adds a map that reads the left neighbour of each element, or 0.25 beyond the edge.
func (w *writer) shift(kind loop.BufferKind, x *loop.Buffer) *loop.Buffer {
	return w.launch("shift", kind, x.DType, x.Shape, []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) {
				at := i[1].Sub(one)
				b.Store(out, i, in[0].LoadIf(loop.Inside(at, zero, x.Shape[1]), f32(0.25), i[0], at))
			})
		})
}

// smooth adds the largest of each three neighbours: it reads each element three times.
func (w *writer) smooth(kind loop.BufferKind, x *loop.Buffer) *loop.Buffer {
	return w.launch("smooth", kind, x.DType, x.Shape, []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) {
				s := b.Var("s", loop.Lowest(dtype.F32))
				b.Serial("a", sym.Const(3), func(a sym.Expr) {
					at := i[1].Add(a).Sub(one)
					b.Reduce(s, loop.Max, in[0].LoadIf(loop.Inside(at, zero, x.Shape[1]), loop.Lowest(dtype.F32), i[0], at))
				})
				b.Store(out, i, s)
			})
		})
}

// transpose adds the transpose of a matrix.
func (w *writer) transpose(kind loop.BufferKind, x *loop.Buffer) *loop.Buffer {
	return w.launch("transpose", kind, x.DType, shape(x.Shape[1], x.Shape[0]), []*loop.Buffer{x},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) { b.Store(out, i, in[0].Load(i[1], i[0])) })
		})
}

// rows adds a gather of rows by indices, which it checks.
func (w *writer) rows(kind loop.BufferKind, x, at *loop.Buffer) *loop.Buffer {
	return w.launch("rows", kind, x.DType, shape(at.Shape[0], x.Shape[1]), []*loop.Buffer{x, at},
		func(b *loop.Builder, in []*loop.Memory, out *loop.Memory) {
			b.Nest(loop.Each, "i", out.Shape, func(i []sym.Expr) {
				row := b.Check("row", in[1].Load(i[0]), zero, x.Shape[0].Sub(one), "a row")
				b.Store(out, i, in[0].Load(row, i[1]))
			})
		})
}

// random returns a random module over matrices with extents n and 1. With static, n is 9.
func random(r *rand.Rand, static bool) *loop.Module {
	w := newWriter()
	n := dim("n")
	if static {
		n = number(9)
	} else {
		w.module.Dims.Set(sym.User("n"), sym.Range{Min: 0, Max: 4096})
	}
	square := shape(n, n)
	at := w.buffer(loop.Input, dtype.I64, shape(n))
	values := []*loop.Buffer{w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)}
	columns := []*loop.Buffer{w.buffer(loop.Input, dtype.F32, shape(n, one)),
		w.buffer(loop.Input, dtype.F32, shape(one, n))}
	length := 2 + r.Intn(9)
	for i := range length {
		kind := loop.Temp
		if i == length-1 || r.Intn(8) == 0 {
			kind = loop.Output
		}
		pick := func() *loop.Buffer {
			if r.Intn(2) == 0 {
				return values[len(values)-1]
			}
			return values[r.Intn(len(values))]
		}
		x := pick()
		var y *loop.Buffer
		switch r.Intn(13) {
		case 0, 1:
			y = w.unary(kind, []loop.UnaryOp{loop.Neg, loop.Tanh, loop.Sigmoid, loop.Abs}[r.Intn(4)], x)
		case 2, 3, 4:
			y = w.binary(kind, []loop.BinaryOp{loop.Add, loop.Mul, loop.Max}[r.Intn(3)], x, pick())
		case 5, 6:
			y = w.binary(kind, loop.Add, x, columns[r.Intn(len(columns))])
		case 7:
			y = w.matmul(kind, x, pick())
		case 8:
			y = w.softmax(kind, x)
		case 9:
			columns = append(columns, w.sum(kind, x))
			continue
		case 10:
			y = w.shift(kind, x)
		case 11:
			y = w.smooth(kind, x)
		case 12:
			if r.Intn(2) == 0 {
				y = w.transpose(kind, x)
			} else {
				y = w.rows(kind, x, at)
			}
		}
		values = append(values, y)
	}
	return w.module
}

// clone returns a copy of a module that has only launches; it shares the buffers.
func clone(m *loop.Module) *loop.Module {
	c := &loop.Module{Name: m.Name, Dims: m.Dims.Clone(), Buffers: append([]*loop.Buffer(nil), m.Buffers...)}
	for _, step := range m.Body {
		l := step.(*loop.Launch)
		k := l.Kernel.Clone()
		c.Kernels = append(c.Kernels, k)
		c.Body = append(c.Body, &loop.Launch{Kernel: k, Args: append([]*loop.Buffer(nil), l.Args...), Source: l.Source})
	}
	return c
}

// inputs returns random tensors for a module's inputs, with n for each dimension and integers below n.
func inputs(r *rand.Rand, m *loop.Module, n int64) map[string]*tensor.Tensor {
	list := map[string]*tensor.Tensor{}
	for _, b := range m.Buffers {
		if b.Kind != loop.Input {
			continue
		}
		extents := make([]int64, len(b.Shape))
		for i, e := range b.Shape {
			extents[i], _ = e.Eval(func(sym.Name) (int64, bool) { return n, true })
		}
		x := tensor.Must(tensor.New(b.DType, extents...))
		for i := range x.Len() {
			if b.DType.IsInt() {
				x.SetInt(i, r.Int63n(n))
			} else {
				x.SetFloat(i, r.NormFloat64())
			}
		}
		list[b.Name] = x
	}
	return list
}

// same runs a module and its schedule, compares the outputs, and returns the schedule.
func same(t *testing.T, m *loop.Module, o Options, in map[string]*tensor.Tensor) *loop.Module {
	t.Helper()
	return sameOn(t, m, machine, o, in)
}

// sameOn is same for another machine.
func sameOn(t *testing.T, m *loop.Module, machine target.Machine, o Options,
	in map[string]*tensor.Tensor) *loop.Module {
	t.Helper()
	want, wantErr := (&loop.Runner{}).Run(m, in)
	scheduled := clone(m)
	if err := RunWith(scheduled, machine, o); err != nil {
		t.Fatal(err)
	}
	for _, k := range scheduled.Kernels {
		if _, err := loop.Verify(k, scheduled.Dims); err != nil {
			t.Fatalf("%+v: %v\n%s", o, err, k)
		}
	}
	got, gotErr := (&loop.Runner{}).Run(scheduled, in)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("%+v: error %v, want %v", o, gotErr, wantErr)
	}
	for name, x := range want {
		if err := tensor.Compare(got[name], x, 1e-4, 1e-4); err != nil {
			for _, k := range scheduled.Kernels {
				t.Log(k)
			}
			t.Fatalf("%+v: %s: %v", o, name, err)
		}
	}
	return scheduled
}

// TestRandomModules compares random modules with their schedules, with random combinations of steps left out.
func TestRandomModules(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	before, after := 0, 0
	for range 150 {
		m := random(r, r.Intn(2) == 0)
		in := inputs(r, m, 9)
		if r.Intn(10) == 0 {
			in[m.Buffers[0].Name].SetInt(r.Int63n(9), 9) // the index of no row
		}
		all := variants(6)
		o := all[r.Intn(len(all))]
		if r.Intn(2) == 0 {
			o = Options{}
		}
		scheduled := same(t, m, o, in)
		before += len(m.Body)
		after += len(scheduled.Body)
	}
	if after*10 > before*8 {
		t.Errorf("%d launches became %d: fusion does nothing", before, after)
	}
}

// TestFusion: typical sequences of kernels become the wanted number of kernels.
func TestFusion(t *testing.T) {
	n := number(9)
	square := shape(n, n)
	for _, c := range []struct {
		name    string
		kernels int
		build   func(w *writer)
	}{
		{"a chain is one pass", 1, func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)
			w.unary(loop.Output, loop.Tanh, w.binary(loop.Temp, loop.Add, w.unary(loop.Temp, loop.Neg, x), y))
		}},
		{"bias and activation join the product", 1, func(w *writer) {
			x, y, bias := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square),
				w.buffer(loop.Input, dtype.F32, shape(one, n))
			w.unary(loop.Output, loop.Sigmoid, w.binary(loop.Temp, loop.Add, w.matmul(loop.Temp, x, y), bias))
		}},
		{"a residual joins the later product", 2, func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)
			w.binary(loop.Output, loop.Add, w.matmul(loop.Temp, x, y), w.matmul(loop.Temp, y, x))
		}},
		{"a bound that is a constant joins as a number", 1, func(w *writer) {
			x, most := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Weight, dtype.F32, shape(one, one))
			most.Data = tensor.Must(tensor.FromSlice([]float32{0.5}, 1, 1))
			w.binary(loop.Output, loop.Min, w.matmul(loop.Temp, x, x), most)
		}},
		{"an output stays", 1, func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)
			w.unary(loop.Output, loop.Neg, w.matmul(loop.Output, x, y))
		}},
		{"a reader of two results of a product joins it", 1, func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)
			g := w.matmul(loop.Temp, x, y)
			w.binary(loop.Output, loop.Div, w.binary(loop.Output, loop.Mul, g, x), w.binary(loop.Output, loop.Max, g, y))
		}},
		{"a transposition joins the product", 1, func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)
			w.transpose(loop.Output, w.matmul(loop.Temp, x, y))
		}},
		{"a map goes into the reduction that reads it", 1, func(w *writer) {
			x := w.buffer(loop.Input, dtype.F32, square)
			w.sum(loop.Output, w.unary(loop.Temp, loop.Exp, x))
		}},
		{"an expensive map is not computed three times", 2, func(w *writer) {
			x := w.buffer(loop.Input, dtype.F32, square)
			w.smooth(loop.Output, w.unary(loop.Temp, loop.Tanh, x))
		}},
		{"a much later reader of a product that stays in memory does not join it", farEpilogue + 3, func(w *writer) {
			x, y := w.buffer(loop.Input, dtype.F32, square), w.buffer(loop.Input, dtype.F32, square)
			g := w.matmul(loop.Temp, x, y)
			z := g
			for range farEpilogue {
				z = w.matmul(loop.Temp, z, y)
			}
			t := w.unary(loop.Temp, loop.Tanh, g)
			w.binary(loop.Output, loop.Add, w.matmul(loop.Temp, z, t), g)
		}},
		{"a reduction's result is not computed for each element", 2, func(w *writer) {
			x := w.buffer(loop.Input, dtype.F32, square)
			w.binary(loop.Output, loop.Add, x, w.sum(loop.Temp, x))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWriter()
			c.build(w)
			in := inputs(rand.New(rand.NewSource(1)), w.module, 9)
			scheduled := same(t, w.module, Options{}, in)
			if c.name == "a bound that is a constant joins as a number" && len(scheduled.Kernels[0].Params) != 3 {
				t.Errorf("the constant is still read from memory:\n%s", scheduled.Kernels[0])
			}
			if len(scheduled.Kernels) != c.kernels {
				t.Errorf("%d kernels, want %d", len(scheduled.Kernels), c.kernels)
				for _, k := range scheduled.Kernels {
					t.Log(k)
				}
			}
		})
	}
}
