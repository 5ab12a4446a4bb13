package ops

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator if.
func init() {
	define(&Def{Op: "if", Chooses: true, Grad: ifGrad, Shape: ifShape, Mean: ifMean})
}

// If runs one of two regions, chosen by a bool of one element. The regions have no parameters and equally many results
// of equal types and ranks. An extent on which they differ becomes a dimension that data decide.
func If(b *ir.Builder, cond *ir.Value, then, otherwise *ir.Block) []*ir.Value {
	return b.NodeWith("if", nil, []*ir.Block{then, otherwise}, cond).Outputs
}

// ifShape checks the condition and that both branches have results of equal types and ranks; an extent that differs
// becomes a fresh dimension.
func ifShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	if n.Inputs[0].Type.DType != dtype.Bool {
		return fault(n, "a condition of type %s", n.Inputs[0].Type.DType)
	}
	if size, ok := product(n.Inputs[0].Type.Shape).Const(); !ok || size != 1 {
		return fault(n, "a condition of shape %s, it must have one element", n.Inputs[0].Type)
	}
	if len(n.Regions) != 2 || len(n.Regions[0].Params)+len(n.Regions[1].Params) > 0 {
		return fault(n, "%d branches, it must have two without parameters", len(n.Regions))
	}
	then, otherwise := n.Regions[0], n.Regions[1]
	if len(then.Results) != len(otherwise.Results) {
		return fault(n, "branches with %d and %d results", len(then.Results), len(otherwise.Results))
	}
	var decided []sym.Name
	var cases [2][]sym.Expr
	for i, x := range then.Results {
		y := otherwise.Results[i]
		if x.Type.DType == y.Type.DType && len(x.Type.Shape) != len(y.Type.Shape) {
			return diag.Unsupportedf("result %d is %s in one branch and %s in the other; their ranks must be the same", i,
				x.Type, y.Type).AtNode(n.Source, "if")
		}
		if x.Type.DType != y.Type.DType {
			return fault(n, "result %d is %s in one branch and %s in the other", i, x.Type, y.Type)
		}
		shape := make([]sym.Expr, len(x.Type.Shape))
		for axis, extent := range x.Type.Shape {
			shape[axis] = extent
			if other := y.Type.Shape[axis]; c.Dims().EQ(extent, other) != sym.Yes {
				shape[axis] = c.Fresh(x.Name, fmt.Sprintf("extent %d of %s, by the branch that %s takes", axis, x.Name,
					diag.Words(n.Source, "if")), 0, exported(c, extent.Max(other)))
				name, _ := shape[axis].Name()
				decided, cases[0], cases[1] = append(decided, name), append(cases[0], extent), append(cases[1], other)
			}
		}
		n.Result(i, ir.Type{DType: x.Type.DType, Shape: shape})
	}
	fresh := len(decided)
	for _, v := range n.Outputs {
		for _, extent := range v.Type.Shape { // an equal extent may be decided together with those that differ
			name, ok := extent.Name()
			if _, data := c.Module.Limits[name]; ok && data && fresh > 0 && !slices.Contains(decided, name) {
				decided, cases[0], cases[1] = append(decided, name), append(cases[0], extent), append(cases[1], extent)
			}
		}
	}
	if len(decided) > 1 {
		c.Choose(decided, "the results of "+diag.Words(n.Source, "if")+" are those of one of its branches", cases[:]...)
	}
	return nil
}

// exported returns the limit of an extent for use outside its region; Unlimited if it depends on a dimension without a
// limit, which the region alone may bind.
func exported(c *ir.Inference, limit sym.Expr) sym.Expr {
	limit = sym.AtLimits(limit, c.Module.Limits)
	if slices.ContainsFunc(limit.Vars(), func(name sym.Name) bool { return sym.IsUnlimited(c.Module.Limits[name]) }) {
		return sym.Unlimited
	}
	return limit
}

// ifMean runs the branch that the condition selects.
func ifMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if in[0].Int(0) != 0 {
		return e.Run(n.Regions[0], nil)
	}
	return e.Run(n.Regions[1], nil)
}
