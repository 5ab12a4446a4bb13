package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// cumulation combines each element with all elements before it along an axis.
type cumulation struct {
	name    string
	combine loop.BinaryOp
	first   float64
	grad    func(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value
	own     Def // properties of this operator alone
}

// init defines the operators cumsum and cumprod.
func init() {
	for _, f := range []cumulation{{"cumsum", loop.Add, 0, cumsumGrad, Def{Linear: true, Last: axisLast}},
		{"cumprod", loop.Mul, 1, cumprodGrad, Def{}}} {
		define(&Def{Op: f.name, apart: apartBeside(0),
			Linear: f.own.Linear, Last: f.own.Last, Shape: cumulateShape, Grad: f.grad, Mean: f.mean,
			Lowerings: []Lowering{{Name: "serial", Build: f.serial}}, Samples: cumulateSamples})
	}
}

// CumSum adds to each element all elements before it along an axis, or with reverse all after it; with exclusive the
// sum leaves out the element itself.
func CumSum(b *ir.Builder, x *ir.Value, axis int64, exclusive, reverse bool) *ir.Value {
	return b.Op("cumsum", ir.Attrs{"axis": axis, "exclusive": exclusive, "reverse": reverse}, x)
}

// CumProd multiplies where CumSum adds.
func CumProd(b *ir.Builder, x *ir.Value, axis int64, exclusive, reverse bool) *ir.Value {
	return b.Op("cumprod", ir.Attrs{"axis": axis, "exclusive": exclusive, "reverse": reverse}, x)
}

// cumulateShape checks the axis and infers x's type.
func cumulateShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !numbers(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	if _, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape)); err != nil {
		return err
	}
	n.Result(0, x)
	return nil
}

// along returns the position of step s of a walk along an extent.
func along(n *ir.Node, s, extent sym.Expr) sym.Expr {
	if n.Attrs.Bool("reverse") {
		return extent.Sub(one).Sub(s)
	}
	return s
}

// mean is the reference: it walks each row and combines in the wider type.
func (f cumulation) mean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), x.Rank())
	if err != nil {
		return nil, err
	}
	wide, strides := wider(x.DType()), tensor.Strides(x.Shape())
	rows := append([]int64{}, x.Shape()...)
	rows[axis] = min(rows[axis], 1)
	tensor.Each(rows, func(at []int64) {
		total := loop.Number(wide, f.first).Bits
		for s := range x.Shape()[axis] {
			p := s
			if n.Attrs.Bool("reverse") {
				p = x.Shape()[axis] - 1 - s
			}
			i := tensor.Offset(strides, at) + p*strides[axis]
			next := loop.EvalBinary(f.combine, wide, total, loop.EvalCast(wide, x.DType(), false, bitsOf(x, i)))
			if n.Attrs.Bool("exclusive") {
				setBits(out, i, loop.EvalCast(x.DType(), wide, false, total))
			} else {
				setBits(out, i, loop.EvalCast(x.DType(), wide, false, next))
			}
			total = next
		}
	})
	return []*tensor.Tensor{out}, nil
}

// serial lowers the cumulation: each iteration walks one row and stores the total so far, before or after combining the
// element.
func (f cumulation) serial(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	dt := computing(x.DType)
	rows := append(append([]sym.Expr{}, x.Shape[:axis]...), x.Shape[axis+1:]...)
	k.Nest(loop.Each, "i", rows, func(row []sym.Expr) {
		total := k.Var("total", loop.Number(dt, f.first))
		k.Serial("s", x.Shape[axis], func(s sym.Expr) {
			at := append(append(append([]sym.Expr{}, row[:axis]...), along(n, s, x.Shape[axis])), row[axis:]...)
			next := loop.Apply2(f.combine, total, loop.Convert(dt, x.Load(at...)))
			if n.Attrs.Bool("exclusive") {
				k.Store(out, at, loop.Convert(out.DType, total))
				k.Set(total, next)
			} else {
				k.Set(total, next)
				k.Store(out, at, loop.Convert(out.DType, total))
			}
		})
	})
}
