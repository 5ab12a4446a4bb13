package kerneltest

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// machineCode fails the test unless a kernel has machine code, and, with inLanes, unless all of the code is as
// scheduled.
func (h Harness) machineCode(t *testing.T, k *loop.Kernel, inLanes bool) {
	t.Helper()
	code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
	if err != nil {
		t.Fatal(err)
	}
	left := append([]target.Left(nil), code.Left...)
	if inLanes {
		left = append(left, code.Slower...)
	}
	for _, l := range left {
		t.Errorf("@%s: %s\n%s", l.Kernel, l.Reason, k)
	}
}

// ConversionsInLanes checks that the conversions between all pairs of element types are machine code in lanes.
func (h Harness) ConversionsInLanes(t *testing.T) {
	for _, from := range ElementTypes {
		for _, to := range ElementTypes {
			b := loop.NewBuilder(fmt.Sprintf("%s_to_%s", from, to))
			n := []sym.Expr{sym.Const(96)}
			x, y := b.Param("x", loop.Read, from, n), b.Param("y", loop.Write, to, n)
			b.For(loop.Vector, "i", n[0], func(i sym.Expr) { b.Store(y, []sym.Expr{i}, loop.Convert(to, x.Load(i))) })
			h.machineCode(t, Finish(b), true)
		}
	}
}

// Packed moves rectangles of elements that share bytes, from and to the same type or another: rows that begin
// within a byte or not, in entire strips and parts of them, and rows of one repeated element. The elements around a
// rectangle stay as they are.
func (h Harness) Packed(t *testing.T) {
	h.Guarded = true
	r := rand.New(rand.NewSource(1))
	for _, dt := range []dtype.DType{dtype.I2, dtype.U2, dtype.I4, dtype.U4, dtype.F4E2M1} {
		for round := range 60 {
			rows, cols := 1+r.Int63n(5), 1+r.Int63n(70)
			before, width, other := r.Int63n(9), cols+r.Int63n(12), cols+r.Int63n(12)
			wide := round%3 == 1 // to elements that do not share bytes
			from, to := dt, dt
			if wide {
				to = dtype.I16
			} else if round%3 == 2 {
				from = dtype.F32
			}
			b := loop.NewBuilder("move")
			x := b.Param("x", loop.Read, from, Fixed(before+rows*width))
			y := b.Param("y", loop.Update, to, Fixed(before+rows*other))
			column := round%5 == 4
			b.For(loop.Parallel, "i", sym.Const(rows), func(i sym.Expr) {
				b.For(loop.Vector, "j", sym.Const(cols), func(j sym.Expr) {
					at := i.Mul(sym.Const(width)).Add(j)
					if column {
						at = i.Mul(sym.Const(width))
					}
					b.Store(y, []sym.Expr{sym.Const(before).Add(i.Mul(sym.Const(other))).Add(j)},
						loop.Convert(to, x.Load(sym.Const(before).Add(at))))
				})
			})
			k := Finish(b)
			h.machineCode(t, k, false)
			operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil)}
			Fill(r, operands[0])
			Fill(r, operands[1])
			h.Agree(t, k, nil, operands, 0, 0)
		}
	}
}

// NarrowSteps transposes matrices of narrow elements: lanes read or write elements a step apart, in entire strips
// and parts of them.
func (h Harness) NarrowSteps(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.F16, dtype.BF16, dtype.Bool} {
		for _, extent := range []int64{1, 7, 8, 16, 23, 37} {
			for _, writes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s of %d, written so: %v", dt, extent, writes), func(t *testing.T) {
					const across = 3
					long, wide := Fixed(extent, across), Fixed(across, extent)
					if !writes {
						long, wide = wide, long
					}
					b := loop.NewBuilder("turn")
					x, y := b.Param("x", loop.Read, dt, wide), b.Param("y", loop.Write, dt, long)
					b.For(loop.Parallel, "t", sym.Const(1), func(sym.Expr) {
						b.Each("i", sym.Const(across), func(i sym.Expr) {
							b.For(loop.Vector, "j", sym.Const(extent), func(j sym.Expr) {
								from, to := []sym.Expr{i, j}, []sym.Expr{j, i}
								if !writes {
									from, to = to, from
								}
								b.Store(y, to, x.Load(from...))
							})
						})
					})
					b.Finish()
					h.Agree(t, b.Kernel, nil, Operands(t, b.Kernel, nil, extent), 0, 0)
				})
			}
		}
	}
}

// Moves moves and fills rows of narrow elements, beside pages that fault. Many lengths are near multiples of a
// register's.
func (h Harness) Moves(t *testing.T) {
	h.Guarded = true
	r := rand.New(rand.NewSource(1))
	for _, dt := range []dtype.DType{dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.F16, dtype.BF16, dtype.Bool} {
		for _, n := range []int64{1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 200, 333} {
			for form := range 6 {
				t.Run(fmt.Sprintf("%s/%d/%d", dt, n, form), func(t *testing.T) {
					k, dims := moveKernel(dt, n, form)
					list := []*tensor.Tensor{Operand(t, k.Params[0], dims), Operand(t, k.Params[1], dims)}
					for i := range list[0].Bytes() {
						if list[0].Bytes()[i] = byte(r.Uint32()); dt == dtype.Bool {
							list[0].Bytes()[i] &= 1
						} else if dt.IsFloat() {
							list[0].Bytes()[i] &= 0xbf // no NaN, whose bits may change
						}
					}
					h.Agree(t, k, dims, list, 0, 0)
				})
			}
		}
	}
}

// moveKernel returns a kernel that fills the first n+3 elements of three rows with ones, and moves n elements to the
// rest. By form/2, these come from the same offset in x, from offset 1, or from every second element. In odd forms n is
// a dimension.
func moveKernel(dt dtype.DType, n int64, form int) (*loop.Kernel, map[sym.Name]int64) {
	dims, count := map[sym.Name]int64{}, sym.Const(n)
	if form%2 == 1 {
		count = sym.Dim("n")
		dims[sym.User("n")] = n
	}
	b := loop.NewBuilder("move")
	wide := count.Mul(sym.Const(2)).Add(sym.Const(3))
	x, y := b.Param("x", loop.Read, dt, []sym.Expr{sym.Const(3), wide}),
		b.Param("y", loop.Write, dt, []sym.Expr{sym.Const(3), wide})
	b.For(loop.Parallel, "r", sym.Const(3), func(row sym.Expr) {
		fill := func(first, count sym.Expr, value func(i sym.Expr) loop.Expr) {
			b.For(loop.Vector, "i", count, func(i sym.Expr) { b.Store(y, []sym.Expr{row, first.Add(i)}, value(i)) })
		}
		fill(sym.Const(0), count.Add(sym.Const(3)), func(sym.Expr) loop.Expr {
			if dt.IsFloat() {
				return loop.Number(dt, 1)
			}
			return loop.Integer(dt, 1)
		})
		fill(count.Add(sym.Const(3)), count, func(i sym.Expr) loop.Expr {
			switch form / 2 {
			case 0:
				return x.Load(row, i.Add(count).Add(sym.Const(3)))
			case 1:
				return x.Load(row, i.Add(sym.Const(1)))
			}
			return x.Load(row, i.Mul(sym.Const(2)))
		})
	})
	return Finish(b), dims
}

// SumsAlong writes the sums of a square matrix of f32 along its last or its first axis: each is one loop.
func SumsAlong(b *loop.Builder, n int64, last bool) {
	x, z := b.Param("x", loop.Read, dtype.F32, Fixed(n, n)), b.Param("z", loop.Write, dtype.F32, Fixed(n))
	b.Each("i", sym.Const(n), func(i sym.Expr) {
		s := b.Var("s", loop.Number(dtype.F32, 0))
		b.Serial("a", sym.Const(n), func(a sym.Expr) {
			if last {
				b.Reduce(s, loop.Add, x.Load(i, a))
			} else {
				b.Reduce(s, loop.Add, x.Load(a, i))
			}
		})
		b.Store(z, []sym.Expr{i}, s)
	})
}

// DotSums sums products of bytes in lanes, in entire vectors and parts of them. One operand is a word that is the
// same in all lanes. The bytes include extremes: the sum of two products must not saturate.
func (h Harness) DotSums(t *testing.T) {
	h.Guarded = true
	r := rand.New(rand.NewSource(2))
	for _, n := range []int64{1, 15, 16, 39} {
		b := loop.NewBuilder("dots")
		x, y := b.Param("x", loop.Read, dtype.I32, Fixed(5, n)),
			b.Param("y", loop.Read, dtype.I32, Fixed(5))
		z := b.Param("z", loop.Write, dtype.I32, Fixed(n))
		b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
			sum := b.Var("sum", loop.Integer(dtype.I32, 7))
			b.Serial("k", sym.Const(5), func(k sym.Expr) {
				b.Reduce(sum, loop.Add, loop.Apply2(loop.Dot, x.Load(k, i), y.Load(k)))
			})
			b.Store(z, []sym.Expr{i}, sum)
		})
		k := Finish(b)
		h.machineCode(t, k, true)
		operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil),
			Operand(t, k.Params[2], nil)}
		for _, o := range operands[:2] {
			for i := range o.Bytes() {
				o.Bytes()[i] = []byte{0, 127, 128, 255, byte(r.Intn(256))}[r.Intn(5)]
			}
		}
		h.Agree(t, k, nil, operands, 0, 0)
	}
}

// SmallSums sums products of bytes and words in lanes, whose conversions have names or not. The elements include
// extremes, and the sums wrap.
func (h Harness) SmallSums(t *testing.T) {
	h.Guarded = true
	r := rand.New(rand.NewSource(2))
	types := []dtype.DType{dtype.U8, dtype.I8, dtype.I16, dtype.U16}
	for i := range 2 * len(types) * len(types) {
		left, right, named := types[i%len(types)], types[i/len(types)%len(types)], i >= len(types)*len(types)
		n := []int64{1, 15, 16, 39}[r.Intn(4)]
		b := loop.NewBuilder("small")
		x, y := b.Param("x", loop.Read, left, Fixed(5, n)), b.Param("y", loop.Read, right, Fixed(5, n))
		z := b.Param("z", loop.Write, dtype.I32, Fixed(n))
		name := func(hint string, x loop.Expr) loop.Expr {
			if x = loop.Convert(dtype.I32, x); named {
				x = b.Let(hint, x)
			}
			return x
		}
		b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
			sum, twice := b.Var("sum", loop.Integer(dtype.I32, math.MaxInt32-1)), b.Var("twice", loop.Integer(dtype.I32, 0))
			b.Serial("k", sym.Const(5), func(k sym.Expr) {
				v, w := name("v", x.Load(k, i)), name("w", y.Load(k, i))
				b.Reduce(sum, loop.Add, loop.Apply2(loop.Mul, v, w))
				b.Reduce(twice, loop.Max, loop.Apply2(loop.Mul, w, v))
			})
			b.Store(z, []sym.Expr{i}, loop.Apply2(loop.Xor, sum, twice))
		})
		k := Finish(b)
		h.machineCode(t, k, true)
		operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil),
			Operand(t, k.Params[2], nil)}
		for _, o := range operands[:2] {
			for i := range o.Len() {
				o.SetInt(i, []int64{0, 127, -128, 255, -1, math.MaxInt16, math.MinInt16, int64(r.Intn(1 << 16))}[r.Intn(8)])
			}
		}
		h.Agree(t, k, nil, operands, 0, 0)
	}
}

// ElementsApart reads elements that lie a small step apart; the last one is the last of its buffer.
func (h Harness) ElementsApart(t *testing.T) {
	h.Guarded = true
	r := rand.New(rand.NewSource(3))
	for _, dt := range []dtype.DType{dtype.F32, dtype.I32} {
		for step := int64(1); step <= 6; step++ {
			for _, n := range []int64{3, 16, 32, 45, 64} {
				b := loop.NewBuilder("apart")
				x, z := b.Param("x", loop.Read, dt, Fixed(step*(n-1)+1)),
					b.Param("z", loop.Write, dt, Fixed(n))
				b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
					b.Store(z, []sym.Expr{i}, x.Load(i.Mul(sym.Const(step))))
				})
				k := Finish(b)
				h.machineCode(t, k, true)
				operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil)}
				Fill(r, operands[0])
				h.Agree(t, k, nil, operands, 0, 0)
			}
		}
	}
}

// BroadcastOperands sums rows after an operation with an element that is the same in all lanes: a sum, difference,
// product or quotient, with the element on either side.
func (h Harness) BroadcastOperands(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	for _, op := range []loop.BinaryOp{loop.Add, loop.Sub, loop.Mul, loop.Div} {
		for _, left := range []bool{false, true} {
			b := loop.NewBuilder("rows")
			x, y := b.Param("x", loop.Read, dtype.F32, Fixed(6, 37)),
				b.Param("y", loop.Read, dtype.F32, Fixed(6))
			z := b.Param("z", loop.Write, dtype.F32, Fixed(37))
			b.For(loop.Vector, "i", sym.Const(37), func(i sym.Expr) {
				sum := b.Var("sum", loop.Number(dtype.F32, 0))
				b.Serial("k", sym.Const(6), func(k sym.Expr) {
					v := loop.Apply2(op, x.Load(k, i), y.Load(k))
					if left {
						v = loop.Apply2(op, y.Load(k), x.Load(k, i))
					}
					b.Reduce(sum, loop.Add, v)
				})
				b.Store(z, []sym.Expr{i}, sum)
			})
			k := Finish(b)
			h.machineCode(t, k, true)
			operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil),
				Operand(t, k.Params[2], nil)}
			Fill(r, operands[0])
			Fill(r, operands[1])
			h.Agree(t, k, nil, operands, 1e-5, 0)
		}
	}
}
