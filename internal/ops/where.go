package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator where.
func init() {
	define(&Def{Op: "where", Light: true, Elementwise: true, Broadcasts: true, Narrow: elementwiseNarrow,
		rows: elementwiseRows, Shape: whereShape, Mean: whereMean, Samples: whereSamples, Grad: whereGrad,
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				operand := func(i int) loop.Expr { return k.In[i].Load(broadcastIndex(at, k.In[i].Shape)...) }
				k.Store(k.Out[0], at, loop.Choose(operand(0), operand(1), operand(2)))
			})
		}}}})
}

// Where returns x where cond is true and y elsewhere, with broadcasting.
func Where(b *ir.Builder, cond, x, y *ir.Value) *ir.Value { return b.Op("where", nil, cond, x, y) }

// whereShape requires a condition of Bool and values of one type. Known elements are combined if few conditions are
// unknown.
func whereShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 3); err != nil {
		return err
	}
	cond, x, y := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	if cond.Type.DType != dtype.Bool || x.Type.DType != y.Type.DType {
		return fault(n, "a condition of type %s, values of types %s and %s", cond.Type.DType, x.Type.DType, y.Type.DType)
	}
	shape, err := broadcast(c, n, cond.Type.Shape, x.Type.Shape, y.Type.Shape)
	if err != nil {
		return err
	}
	v := n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape})
	sizes, static := constants(shape)
	if count, err := tensor.Count(sizes); !static || err != nil || count > ir.MaxKnown {
		return nil
	}
	var operands [3][]sym.Expr
	certain := true
	for i, in := range n.Inputs {
		if i > 0 && allAre(cond.Known, int64(i-1)) {
			continue // only the other operand is chosen
		}
		known, sure := c.Knows(in)
		if known == nil {
			return nil
		}
		operands[i], certain = known, certain && sure
	}
	if !fewChoices(operands[0]) {
		return nil
	}
	known := []sym.Expr{}
	tensor.Each(sizes, func(at []int64) {
		operand := func(i int) (e sym.Expr) {
			if operands[i] != nil {
				s, _ := constants(n.Inputs[i].Type.Shape)
				e = operands[i][broadcastFlat(at, s)]
			}
			return e
		}
		choice, yes, no := operand(0), operand(1), operand(2)
		switch truth, fixed := choice.Const(); {
		case !fixed:
			no = yes.Mul(choice).Add(no.Mul(one.Sub(choice)))
		case truth != 0:
			no = yes
		}
		known = append(known, no)
	})
	c.Learn(v, known, certain)
	return nil
}

// whereMean moves each element from the chosen operand.
func whereMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	flat := int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		from := in[2]
		if in[0].Int(broadcastFlat(at, in[0].Shape())) != 0 {
			from = in[1]
		}
		moveElement(out, flat, from, broadcastFlat(at, from.Shape()))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// whereGrad passes the derivative to the chosen operand and 0 to the other.
func whereGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	out := make([]*ir.Value, 3)
	if g.Wants(n.Inputs[1]) {
		out[1] = g.choose(n.Inputs[0], up[0], nil)
	}
	if g.Wants(n.Inputs[2]) {
		out[2] = g.choose(n.Inputs[0], nil, up[0])
	}
	return out
}
