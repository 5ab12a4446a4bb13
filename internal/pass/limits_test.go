package pass

import (
	"testing"
	"time"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// TestLongChains rewrites chains of thousands of nodes, which patterns could follow from each node to the end: the time
// must be in proportion to their length.
func TestLongChains(t *testing.T) {
	const length = 5000
	chains := map[string]func(b *ir.Builder, x *ir.Value) *ir.Value{
		"products": func(b *ir.Builder, x *ir.Value) *ir.Value {
			return ops.Binary(b, ops.Mul, x, ops.Scalar(b, dtype.F32, 1.5))
		},
		"sums": func(b *ir.Builder, x *ir.Value) *ir.Value {
			return ops.Binary(b, ops.Add, x, ops.Scalar(b, dtype.F32, 1.5))
		},
		"squares":    func(b *ir.Builder, x *ir.Value) *ir.Value { return ops.Binary(b, ops.Mul, x, x) },
		"transposes": func(b *ir.Builder, x *ir.Value) *ir.Value { return ops.Transpose(b, ops.Unary(b, ops.Exp, x), 1, 0) },
		"slices": func(b *ir.Builder, x *ir.Value) *ir.Value {
			return ops.SliceAxis(b, x, 0, sym.Const(0), x.Type.Shape[0])
		},
		"negations": func(b *ir.Builder, x *ir.Value) *ir.Value { return ops.Unary(b, ops.Neg, x) },
	}
	for name, add := range chains {
		body := &ir.Block{}
		m := &ir.Module{Name: "m", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
		m.Funcs = []*ir.Func{m.Main}
		b := ir.NewBuilder(ir.NewInference(m), body)
		x := b.Param("x", ir.Type{DType: dtype.F32, Shape: ir.Constants([]int64{4, 4})})
		for range length {
			x = add(b, x)
		}
		body.Results = []*ir.Value{x}
		begin := time.Now()
		for i, table := range tables {
			if err := apply(m, table); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Fatalf("%s: %v after table %d", name, took, i)
			}
		}
		if err := ir.Verify(m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}
