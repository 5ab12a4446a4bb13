package pass

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// foldedModule builds a module whose only result is the value that build returns, and folds it.
func foldedModule(t *testing.T, build func(b *ir.Builder) *ir.Value) *ir.Module {
	t.Helper()
	body := &ir.Block{}
	m := &ir.Module{Name: "m", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	b := ir.NewBuilder(ir.NewInference(m), body)
	body.Results = []*ir.Value{build(b)}
	if err := Fold(m); err != nil {
		t.Fatal(err)
	}
	if err := ir.Verify(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestFoldLimits folds nodes whose constants would grow without end, or would take long to compute: Fold leaves them to
// the run.
func TestFoldLimits(t *testing.T) {
	constant := func(b *ir.Builder, shape ...int64) *ir.Value {
		return b.Constant("c", tensor.Must(tensor.New(dtype.F32, shape...)))
	}
	for name, c := range map[string]struct {
		build func(b *ir.Builder) *ir.Value
		most  int64 // bytes of constants afterwards
	}{
		"a constant joined with itself": {func(b *ir.Builder) *ir.Value {
			x := constant(b, 256)
			for range 30 {
				x = ops.Concat(b, 0, x, x)
			}
			return x
		}, 1 << 20},
		"a constant joined with another of its size": {func(b *ir.Builder) *ir.Value {
			x := constant(b, 256)
			for range 30 {
				x = ops.Concat(b, 0, ops.Unary(b, ops.Neg, x), ops.Unary(b, ops.Abs, x))
			}
			return x
		}, foldBytes + 1<<20},
		"products": {func(b *ir.Builder) *ir.Value {
			x := constant(b, 512, 512)
			for range 20 {
				x = ops.MatMul(b, x, constant(b, 512, 512), false, false)
			}
			return x
		}, 21 << 20},
		"an operator that is not linear": {func(b *ir.Builder) *ir.Value {
			x := constant(b, 8192)
			for range 20 {
				x = b.Node("topk", ir.Attrs{"axis": int64(0), "k": sym.Const(8192), "largest": true}, x).Outputs[0]
			}
			return x
		}, 1 << 20},
	} {
		m := foldedModule(t, c.build)
		total := int64(0)
		for _, v := range m.Main.Body.Consts {
			total += int64(len(v.Const.Bytes()))
		}
		if total > c.most || len(m.Main.Body.Nodes) == 0 {
			t.Errorf("%s: %d bytes of constants, %d nodes left", name, total, len(m.Main.Body.Nodes))
		}
	}
}
