package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator divisor.
func init() {
	define(&Def{Op: "divisor", Light: true, Elementwise: true, NoGrad: "of integers", Shape: divisorShape,
		Mean: divisorMean, Samples: divisorSamples,
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, _ *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				y := k.In[0].Load(at...)
				zero := loop.Apply2(loop.Eq, y, loop.Integer(y.DType(), 0))
				k.Check("p", loop.Choose(zero, loop.Integer(dtype.I64, 0), loop.Integer(dtype.I64, 1)), one, one, divides)
				k.Store(k.Out[0], at, y)
			})
		}}}})
}

// Divisor returns y, integers by which others are divided: a run in which one of them is 0 ends with an error. Div and
// the remainders alone give 0 for a divisor of 0.
func Divisor(b *ir.Builder, y *ir.Value) *ir.Value { return b.Op("divisor", nil, y) }

// divides names a divisor of 0 in a run's error.
const divides = "an integer is divided by 0: the divisor's magnitude, up to 1,"

// divisorShape infers the operand's shape.
func divisorShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	y := n.Inputs[0]
	if !integers(y.Type.DType) {
		return fault(n, "a divisor of type %s", y.Type.DType)
	}
	n.Result(0, y.Type)
	return nil
}

// divisorMean is the reference.
func divisorMean(_ *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	for i := range in[0].Len() {
		if in[0].Int(i) == 0 {
			return nil, diag.Inputf("an integer is divided by 0").AtNode(n.Source, n.Op.Name())
		}
	}
	return in, nil
}

// divisorSamples returns integers of each type without a 0.
func divisorSamples(r *rand.Rand) (list []Sample) {
	for _, dt := range integerTypes {
		for _, shape := range [][]int64{{}, {5}, {3, 0}, {2, 3, 4}} {
			y := sampleOf(r, dt, shape...)
			for i := range y.Len() {
				if y.Int(i) == 0 {
					y.SetInt(i, 1)
				}
			}
			list = append(list, Sample{Inputs: []*tensor.Tensor{y}})
		}
	}
	return list
}
