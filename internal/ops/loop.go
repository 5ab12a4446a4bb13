package ops

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	define(&Def{Op: "loop", Shape: loopShape, Mean: loopMean})
}

// LoopLimit is the most iterations that a loop may make whose trip count nothing bounds.
const LoopLimit = 1 << 20

// LoopBody makes a loop's region with its parameters: the iteration's number (i64, known as a dimension that the run binds), the condition
// (bool), and the carried values.
func LoopBody(b *ir.Builder, hint string, trip sym.Expr, carried []*ir.Value) (*ir.Block, *ir.Builder) {
	body := &ir.Block{}
	in := b.In(body)
	i := in.Param(hint+".iteration", ir.Type{DType: dtype.I64})
	i.Known = []sym.Expr{b.Fresh(hint+".iteration", 0, trip.Sub(one).Max(sym.Const(0)))}
	in.Param(hint+".condition", ir.Type{DType: dtype.Bool})
	for _, v := range carried {
		in.Param(v.Name, v.Type)
	}
	return body, in
}

// Loop runs body while the condition (nil: true) holds, at most trip (nil: LoopLimit) times. The body yields the condition, the carried values, and
// slices that are stacked into scan outputs. The results are the carried values as they end, then the scan outputs.
func Loop(b *ir.Builder, body *ir.Block, trip, cond *ir.Value, carried ...*ir.Value) []*ir.Value {
	return b.NodeWith("loop", nil, []*ir.Block{body}, append([]*ir.Value{trip, cond}, carried...)...).Outputs
}

func loopShape(c *ir.Inference, n *ir.Node) error {
	body, carried := n.Regions[0], len(n.Inputs)-2
	if carried < 0 || len(body.Params) != 2+carried || len(body.Results) < 1+carried {
		return fault(n, "%d inputs, a body with %d parameters and %d results", len(n.Inputs), len(body.Params), len(body.Results))
	}
	for _, given := range []struct {
		what  string
		value *ir.Value
		want  dtype.DType
	}{{"the body's condition", body.Results[0], dtype.Bool}, {"the condition", n.Inputs[1], dtype.Bool}, {"the trip count", n.Inputs[0], dtype.I64}} {
		if given.value == nil {
			continue
		}
		size, ok := product(given.value.Type.Shape).Const()
		if given.value.Type.DType != given.want || !ok || size != 1 {
			return fault(n, "%s is %s, it must be one %s", given.what, given.value.Type, given.want)
		}
	}
	for i, v := range n.Inputs[2:] {
		p, r := body.Params[2+i].Type, body.Results[1+i].Type
		if !sameType(c, v.Type, p) || !sameType(c, p, r) {
			return diag.Unsupportedf("carried value %d begins as %s and goes on as %s; its shape must stay the same", i, v.Type, r).AtNode(n.Source, "loop")
		}
		n.Result(i, v.Type)
	}
	if len(body.Results) == 1+carried {
		return nil
	}
	count, err := loopCount(c, n)
	if err != nil {
		return err
	}
	for i, v := range body.Results[1+carried:] {
		n.Result(carried+i, ir.Type{DType: v.Type.DType, Shape: append([]sym.Expr{count}, v.Type.Shape...)})
	}
	return nil
}

// loopCount is the number of iterations: the trip count where the condition is true for ever, else a dimension that the run decides.
func loopCount(c *ir.Inference, n *ir.Node) (sym.Expr, error) {
	if name := n.Attrs.String("count", ""); name != "" {
		return sym.Var(name), nil
	}
	limit := sym.Const(LoopLimit)
	if trip := n.Inputs[0]; trip != nil {
		known, err := c.Elements(trip, 0, LoopLimit)
		if err != nil {
			return limit, err
		}
		limit = c.Dims().Simplify(known[0].Max(sym.Const(0)))
		if isTrue(n.Regions[0].Results[0]) && (n.Inputs[1] == nil || isTrue(n.Inputs[1])) {
			return limit, nil
		}
	}
	count := c.Fresh(n.Op.Name()+".count", 0, limit)
	name, _ := count.Name()
	n.Attrs["count"] = name
	return count, nil
}

// isTrue reports whether a condition is known to hold.
func isTrue(v *ir.Value) bool {
	return v.Const != nil && v.Const.DType() == dtype.Bool && v.Const.Len() == 1 && v.Const.Int(0) != 0
}

// sameType reports whether two types are the same for every binding.
func sameType(c *ir.Inference, a, b ir.Type) bool {
	if a.DType != b.DType || len(a.Shape) != len(b.Shape) {
		return false
	}
	for i := range a.Shape {
		if c.Dims().EQ(a.Shape[i], b.Shape[i]) != sym.Yes {
			return false
		}
	}
	return true
}

func loopMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	body := n.Regions[0]
	trip, cond := int64(LoopLimit), true
	if in[0] != nil {
		trip = in[0].Int(0)
	}
	if in[1] != nil {
		cond = in[1].Int(0) != 0
	}
	state := append([]*tensor.Tensor{}, in[2:]...)
	slices := make([][]*tensor.Tensor, len(body.Results)-1-len(state))
	count := int64(0)
	for ; count < trip && cond; count++ {
		if name, ok := body.Params[0].Known[0].Name(); ok {
			e.Dims[name] = count
		}
		flag, err := tensor.New(dtype.Bool)
		if err != nil {
			return nil, err
		}
		flag.SetInt(0, 1)
		results, err := e.Run(body, append([]*tensor.Tensor{tensor.Scalar(count), flag}, state...))
		if err != nil {
			return nil, err
		}
		cond = results[0].Int(0) != 0
		copy(state, results[1:])
		for i := range slices {
			slices[i] = append(slices[i], results[1+len(state)+i].Clone())
		}
	}
	if name := n.Attrs.String("count", ""); name != "" {
		e.Dims[name] = count
	}
	carried := len(state)
	for i, list := range slices {
		t, err := result(e, n, carried+i)
		if err != nil {
			return nil, err
		}
		flat := int64(0)
		for _, slice := range list {
			for j := int64(0); j < slice.Len(); j++ {
				moveElement(t, flat, slice, j)
				flat++
			}
		}
		state = append(state, t)
	}
	return state, nil
}
