package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator integers.
func init() {
	define(&Def{Op: "integers", Linear: true, Recompute: Backward, Shape: integersShape, Mean: integersMean,
		Samples:   integersSamples,
		Lowerings: []Lowering{{Name: "stores", Build: integersStores}}})
}

// Integers returns a tensor whose elements are symbolic integers: shape arithmetic that a run needs as data.
func Integers(b *ir.Builder, t ir.Type, elements []sym.Expr) *ir.Value {
	return b.Op("integers", ir.Attrs{"dtype": t.DType, "shape": t.Shape, "elements": elements})
}

// integersShape checks the number of elements and infers a tensor of known integers.
func integersShape(c *ir.Inference, n *ir.Node) error {
	elements := n.Attrs.Exprs("elements")
	v := n.Result(0, ir.Type{DType: n.Attrs.DType("dtype"), Shape: n.Attrs.Exprs("shape")})
	if count, ok := product(v.Type.Shape).Const(); !ok || count != int64(len(elements)) {
		return fault(n, "%d elements for %s", len(elements), v.Type)
	}
	if !v.Type.DType.IsInt() && !truths(v.Type.DType) {
		return fault(n, "elements of type %s", v.Type.DType)
	}
	v.Known = elements
	return nil
}

// integersMean is the reference: it evaluates each element.
func integersMean(e *ir.Evaluation, n *ir.Node, _ []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	values, err := e.Ints(n.Attrs.Exprs("elements"))
	for i, v := range values {
		out.SetInt(int64(i), v)
	}
	return []*tensor.Tensor{out}, err
}

// integersStores lowers integers: one store for each element.
func integersStores(k *Nest, n *ir.Node) {
	out := k.Out[0]
	elements := n.Attrs.Exprs("elements")
	if len(elements) == 0 {
		return // of a shape that may have dimensions
	}
	shape, _ := constants(out.Shape)
	flat := 0
	tensor.Each(shape, func(at []int64) {
		k.Store(out, ir.Constants(at), loop.Convert(out.DType, loop.At(elements[flat])))
		flat++
	})
}
