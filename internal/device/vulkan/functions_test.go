//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"math"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestFunctions: the errors of the functions of f32 on the device are at most a quarter ulp above those of package
// mathematics, since a fused product and sum without an instruction is slightly less accurate. Subnormal numbers may
// become 0, unless the device keeps them.
func TestFunctions(t *testing.T) {
	h := harness(t, map[string]int{})
	var xs []float32
	mathematics.Arguments(func(x uint32) {
		if v := math.Float32frombits(x); h.Machine.Has(target.KeepsSubnormal) || !(math.Abs(float64(v)) < 0x1p-126) {
			xs = append(xs, v)
		}
	})
	ops := map[string]loop.UnaryOp{}
	for op := loop.Neg; op <= loop.IsInf; op++ {
		ops[op.String()] = op
	}
	n := int64(len(xs))
	for _, s := range mathematics.Samples() {
		op, known := ops[s.Name]
		if !known {
			continue // a power
		}
		t.Run(s.Name, func(t *testing.T) {
			b := loop.NewBuilder("function")
			x, y := b.Param("x", loop.Read, dtype.F32, kerneltest.Fixed(n)),
				b.Param("y", loop.Write, dtype.F32, kerneltest.Fixed(n))
			b.For(loop.Each, "i", sym.Const(n), func(i sym.Expr) { b.Store(y, []sym.Expr{i}, loop.Apply(op, x.Load(i))) })
			k := kerneltest.Finish(b)
			operands := []*tensor.Tensor{kerneltest.Operand(t, k.Params[0], nil), kerneltest.Operand(t, k.Params[1], nil)}
			for i, v := range xs {
				operands[0].SetFloat(int64(i), float64(v))
			}
			if err := h.Execute(t, k, operands, nil, 0); err != nil {
				t.Fatal(err)
			}
			worst, at, got := 0.0, float32(0), 0.0
			for i, v := range xs {
				y, want := operands[1].Float(int64(i)), s.Reference(float64(v))
				if !h.Machine.Has(target.KeepsSubnormal) && math.Abs(want) < 0x1p-125 && math.Abs(y) < 0x1p-125 {
					continue
				}
				if e := mathematics.Ulps(float32(y), want); e > worst {
					worst, at, got = e, v, y
				}
			}
			if t.Logf("%.3f ulp at %g", worst, at); worst > s.Ulp+0.25 {
				t.Errorf("%s(%g) = %g, want %g", s.Name, at, got, s.Reference(float64(at)))
			}
		})
	}
}
