package ops

import (
	"github.com/weirml/weir/internal/dtype"
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

// largestIndex is the largest magnitude up to which the numbers of a kernel are exact, and longest the largest extent
// for which an element is written as one: see loop.Width.
const (
	largestIndex = 1 << 60
	longest      = 1 << 31
)

// integer returns a symbolic integer as an i64 value. If numbers on the way may be large, it is computed as data: the
// numbers of a kernel are limited, while sums and products of data may leave 64 bits and come back.
func (k *Nest) integer(e sym.Expr) loop.Expr {
	m := sym.NewMeasure()
	for _, name := range e.Vars() {
		if r, ok := k.D.Get(name); ok && r.Min >= 0 {
			m.Set(name, sym.Range{Min: r.Min, Max: max(r.Min, min(r.Max, longest))})
		}
	}
	if _, size := m.Of(e); size <= largestIndex {
		return loop.At(e)
	}
	number, terms := e.Terms()
	var total loop.Expr = loop.Integer(dtype.I64, number)
	for _, t := range terms {
		var product loop.Expr = loop.Integer(dtype.I64, t.Coef)
		for i, f := range t.Factors {
			if x := k.factor(f); i == 0 && t.Coef == 1 {
				product = x
			} else {
				product = loop.Apply2(loop.Mul, product, x)
			}
		}
		total = loop.Apply2(loop.Add, total, product)
	}
	return total
}

// factor is integer for a factor of a product.
func (k *Nest) factor(f sym.Factor) loop.Expr {
	combine, ok := map[sym.FactorKind]loop.BinaryOp{sym.Least: loop.Min, sym.Greatest: loop.Max,
		sym.Remainder: loop.FloorMod, sym.FloorQuotient: loop.Div,
		sym.FactorProduct: loop.Mul, sym.FactorSum: loop.Add}[f.Kind]
	if !ok {
		return loop.At(f.Expr())
	}
	x := k.integer(f.Args[0])
	for _, arg := range f.Args[1:] {
		y := k.integer(arg)
		if f.Kind == sym.FloorQuotient {
			x = loop.Apply2(loop.Sub, x, loop.Apply2(loop.FloorMod, x, y))
		}
		x = loop.Apply2(combine, x, y)
	}
	return x
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
		k.Store(out, ir.Constants(at), loop.Convert(out.DType, k.integer(elements[flat])))
		flat++
	})
}
