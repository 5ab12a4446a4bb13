package amd64

import (
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestDotSums sums products of bytes in lanes, in entire vectors and parts of them. One operand is a word that is the
// same in all lanes. The bytes include extremes: the sum of two products must not saturate.
func TestDotSums(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		h.Guarded = true
		r := rand.New(rand.NewSource(2))
		for _, n := range []int64{1, 15, 16, 39} {
			b := loop.NewBuilder("dots")
			x, y := b.Param("x", loop.Read, dtype.I32, kerneltest.Fixed(5, n)),
				b.Param("y", loop.Read, dtype.I32, kerneltest.Fixed(5))
			z := b.Param("z", loop.Write, dtype.I32, kerneltest.Fixed(n))
			b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
				sum := b.Var("sum", loop.Integer(dtype.I32, 7))
				b.Serial("k", sym.Const(5), func(k sym.Expr) {
					b.Reduce(sum, loop.Add, loop.Apply2(loop.Dot, x.Load(k, i), y.Load(k)))
				})
				b.Store(z, []sym.Expr{i}, sum)
			})
			k := kerneltest.Finish(b)
			machineCode(t, h, k, true)
			operands := []*tensor.Tensor{kerneltest.Operand(t, k.Params[0], nil), kerneltest.Operand(t, k.Params[1], nil),
				kerneltest.Operand(t, k.Params[2], nil)}
			for _, o := range operands[:2] {
				for i := range o.Bytes() {
					o.Bytes()[i] = []byte{0, 127, 128, 255, byte(r.Intn(256))}[r.Intn(5)]
				}
			}
			h.Agree(t, k, nil, operands, 0, 0)
		}
	})
}

// TestElementsApart reads elements that lie a small step apart; the last one is the last of its buffer.
func TestElementsApart(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		h.Guarded = true
		r := rand.New(rand.NewSource(3))
		for _, dt := range []dtype.DType{dtype.F32, dtype.I32} {
			for step := int64(1); step <= 6; step++ {
				for _, n := range []int64{3, 16, 32, 45, 64} {
					b := loop.NewBuilder("apart")
					x, z := b.Param("x", loop.Read, dt, kerneltest.Fixed(step*(n-1)+1)),
						b.Param("z", loop.Write, dt, kerneltest.Fixed(n))
					b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
						b.Store(z, []sym.Expr{i}, x.Load(i.Mul(sym.Const(step))))
					})
					k := kerneltest.Finish(b)
					machineCode(t, h, k, true)
					operands := []*tensor.Tensor{kerneltest.Operand(t, k.Params[0], nil), kerneltest.Operand(t, k.Params[1], nil)}
					kerneltest.Fill(r, operands[0])
					h.Agree(t, k, nil, operands, 0, 0)
				}
			}
		}
	})
}

// TestBroadcastOperands sums rows after an operation with an element that is the same in all lanes: a sum, difference,
// product or quotient, with the element on either side.
func TestBroadcastOperands(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		r := rand.New(rand.NewSource(4))
		for _, op := range []loop.BinaryOp{loop.Add, loop.Sub, loop.Mul, loop.Div} {
			for _, left := range []bool{false, true} {
				b := loop.NewBuilder("rows")
				x, y := b.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(6, 37)),
					b.Param("y", loop.Read, dtype.F32, kerneltest.Fixed(6))
				z := b.Param("z", loop.Write, dtype.F32, kerneltest.Fixed(37))
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
				k := kerneltest.Finish(b)
				machineCode(t, h, k, true)
				operands := []*tensor.Tensor{kerneltest.Operand(t, k.Params[0], nil), kerneltest.Operand(t, k.Params[1], nil),
					kerneltest.Operand(t, k.Params[2], nil)}
				kerneltest.Fill(r, operands[0])
				kerneltest.Fill(r, operands[1])
				h.Agree(t, k, nil, operands, 1e-5, 0)
			}
		}
	})
}
