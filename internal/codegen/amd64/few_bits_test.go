package amd64

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// machineCode fails the test unless a kernel has machine code, and, with inLanes, unless all of the code is as
// scheduled.
func machineCode(t *testing.T, h kerneltest.Harness, k *loop.Kernel, inLanes bool) {
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

// TestCodedInLanes checks that the conversions between all pairs of element types are machine code in lanes.
func TestCodedInLanes(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for _, from := range kerneltest.ElementTypes {
			for _, to := range kerneltest.ElementTypes {
				b := loop.NewBuilder(fmt.Sprintf("%s_to_%s", from, to))
				n := []sym.Expr{sym.Const(96)}
				x, y := b.Param("x", loop.Read, from, n), b.Param("y", loop.Write, to, n)
				b.For(loop.Vector, "i", n[0], func(i sym.Expr) { b.Store(y, []sym.Expr{i}, loop.Convert(to, x.Load(i))) })
				machineCode(t, h, kerneltest.Finish(b), true)
			}
		}
	})
}

// TestPacked moves rectangles of elements that share bytes, from and to the same type or another: rows that begin
// within a byte or not, in entire strips and parts of them, and rows of one repeated element. The elements around a
// rectangle stay as they are.
func TestPacked(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
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
				x := b.Param("x", loop.Read, from, kerneltest.Fixed(before+rows*width))
				y := b.Param("y", loop.Update, to, kerneltest.Fixed(before+rows*other))
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
				k := kerneltest.Finish(b)
				machineCode(t, h, k, false)
				operands := []*tensor.Tensor{kerneltest.Operand(t, k.Params[0], nil), kerneltest.Operand(t, k.Params[1], nil)}
				kerneltest.Fill(r, operands[0])
				kerneltest.Fill(r, operands[1])
				h.Agree(t, k, nil, operands, 0, 0)
			}
		}
	})
}
