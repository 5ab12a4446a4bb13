package ops

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator loop.
func init() {
	define(&Def{Op: "loop", OwnMemory: true, Grad: loopGrad, Shape: loopShape, Mean: loopMean})
}

// LoopLimit is the largest number of iterations of a loop whose trip count is not bounded.
const LoopLimit = 1 << 20

// LoopExtent is an axis of a carried value along which its extent may change from one iteration to the next.
type LoopExtent struct{ Value, Axis int }

// LoopBody makes a loop's region with its parameters: the iteration's number (i64, known as a dimension that the run
// binds), the condition (bool), and the carried values. An extent that varies is a dimension that the run binds when an
// iteration begins; LimitLoop says how large it becomes.
func LoopBody(b *ir.Builder, hint string, trip sym.Expr, carried []*ir.Value, varies ...LoopExtent) (*ir.Block,
	*ir.Builder) {
	body := &ir.Block{}
	in := b.In(body)
	i := in.Param(hint+".iteration", ir.Type{DType: dtype.I64})
	i.Known = []sym.Expr{b.Fresh(hint+".iteration", "the iteration of "+diag.Words(b.Source, "loop"), 0,
		trip.Sub(one).Max(sym.Const(0)))}
	in.Param(hint+".condition", ir.Type{DType: dtype.Bool})
	for k, v := range carried {
		t := v.Type
		t.Shape = slices.Clone(t.Shape)
		for _, x := range varies {
			if x.Value == k {
				t.Shape[x.Axis] = b.Fresh(v.Name, "an extent of "+v.Name+" in "+diag.Words(b.Source, "loop"), 0,
					sym.Const(sym.NoMax))
				name, _ := t.Shape[x.Axis].Name()
				b.Module.Limits[name] = sym.Var(sought(name))
			}
		}
		in.Param(v.Name, t)
	}
	return body, in
}

// Loop runs body while the condition (nil: true) holds, at most trip (nil: LoopLimit) times. The body yields the
// condition, the carried values, and slices that are stacked into scan outputs. The results are the carried values as
// they end, then the scan outputs. A carried value whose extents vary has dimensions of their own for the end.
func Loop(b *ir.Builder, body *ir.Block, trip, cond *ir.Value, carried ...*ir.Value) []*ir.Value {
	return b.NodeWith("loop", nil, []*ir.Block{body}, append([]*ir.Value{trip, cond}, carried...)...).Outputs
}

// LoopLaid is a Loop of trip iterations whose slices are not stacked but stored along their own first axis: the slice
// of scan output i at row at[i], a function of the iteration's number, with extent[i] rows. The slices cover all rows;
// where two overlap they are equal.
func LoopLaid(b *ir.Builder, body *ir.Block, trip *ir.Value, at, extent []sym.Expr, carried ...*ir.Value) []*ir.Value {
	return b.NodeWith("loop", ir.Attrs{"at": at, "extent": extent}, []*ir.Block{body},
		append([]*ir.Value{trip, nil}, carried...)...).Outputs
}

// LoopVaries returns the extents along which the body's results are not proved equal to its parameters.
func LoopVaries(c *ir.Inference, body *ir.Block, carried []*ir.Value) []LoopExtent {
	var out []LoopExtent
	for i, v := range carried {
		p, r := body.Params[2+i].Type.Shape, body.Results[1+i].Type.Shape
		for axis := range p {
			if axis < len(r) && !varies(c, v.Type.Shape[axis], p[axis]) && c.Dims().EQ(p[axis], r[axis]) != sym.Yes {
				out = append(out, LoopExtent{i, axis})
			}
		}
	}
	return out
}

// varies reports whether the extent of a body's parameter is a dimension that every iteration binds anew.
func varies(c *ir.Inference, begins, param sym.Expr) bool {
	name, ok := param.Name()
	_, decided := c.Module.Limits[name]
	return ok && decided && !begins.Equal(param)
}

// loopShape checks trip count, condition and carried values and infers the final carried values and the stacked slices.
func loopShape(c *ir.Inference, n *ir.Node) error {
	if len(n.Regions) != 1 || len(n.Inputs) < 2 {
		return fault(n, "%d bodies and %d inputs", len(n.Regions), len(n.Inputs))
	}
	body, carried := n.Regions[0], len(n.Inputs)-2
	if len(body.Params) != 2+carried || len(body.Results) < 1+carried {
		return fault(n, "%d inputs, a body with %d parameters and %d results", len(n.Inputs), len(body.Params),
			len(body.Results))
	}
	for _, given := range []struct {
		what  string
		value *ir.Value
		want  dtype.DType
	}{{"the body's condition", body.Results[0], dtype.Bool}, {"the condition", n.Inputs[1], dtype.Bool},
		{"the trip count", n.Inputs[0], dtype.I64}} {
		if given.value == nil {
			continue
		}
		size, ok := product(given.value.Type.Shape).Const()
		if given.value.Type.DType != given.want || !ok || size != 1 {
			return fault(n, "%s is %s, it must be one %s", given.what, given.value.Type, given.want)
		}
	}
	if err := numberShape(c, n); err != nil {
		return err
	}
	next := 0
	for i, v := range n.Inputs[2:] {
		t, err := carriedType(c, n, i, v.Type, &next)
		if err != nil {
			return err
		}
		n.Result(i, t)
	}
	if next > 1 {
		endsTogether(c, n)
	}
	if len(body.Results) == 1+carried {
		return nil
	}
	if n.Attrs["at"] != nil {
		return laidShape(c, n)
	}
	count, err := loopCount(c, n)
	if err != nil {
		return err
	}
	inside, known := boundIn(c, n), len(NamesAttr(n, rows))
	next = 0
	var from []sym.Expr // the extents in the body of the dimensions of rows
	for i, v := range body.Results[1+carried:] {
		shape := []sym.Expr{count}
		for _, extent := range v.Type.Shape {
			if slices.ContainsFunc(extent.Vars(), func(name sym.Name) bool { return inside[name] }) {
				from = append(from, extent)
				extent = rowExtent(c, n, &next, extent)
			}
			shape = append(shape, extent)
		}
		n.Result(carried+i, ir.Type{DType: v.Type.DType, Shape: shape})
	}
	stackedTogether(c, n, NamesAttr(n, rows)[known:], from[min(known, len(from)):])
	return nil
}

// numberShape checks the first parameters of a loop's body: the iteration's number, which is not known or a data
// dimension, and the condition.
func numberShape(c *ir.Inference, n *ir.Node) error {
	number, cond := n.Regions[0].Params[0], n.Regions[0].Params[1]
	if number.Type.DType != dtype.I64 || len(number.Type.Shape) > 0 || cond.Type.DType != dtype.Bool ||
		len(cond.Type.Shape) > 0 {
		return fault(n, "a body that takes %s and %s, its first parameters must be i64[] and bool[]", number.Type, cond.Type)
	}
	if number.Known == nil {
		return nil
	}
	if len(number.Known) == 1 {
		name, ok := number.Known[0].Name()
		if _, decided := c.Module.Limits[name]; ok && decided {
			return nil
		}
	}
	return fault(n, "an iteration's number that is known as %v, it must be a dimension that data decide", number.Known)
}

// NumberLoops gives the iteration's number of each loop a dimension, if a text leaves it out. It returns an error if
// a loop has the dimension of a loop around it.
func NumberLoops(m *ir.Module) error {
	c, around := ir.NewInference(m), map[sym.Name]bool{}
	var walk func(b *ir.Block) error
	walk = func(b *ir.Block) error {
		for _, n := range b.Nodes {
			var own sym.Name
			if n.Op.Name() == "loop" {
				p := n.Regions[0].Params[0]
				if p.Known == nil {
					most := sym.Const(LoopLimit)
					if trip := n.Inputs[0]; trip != nil && len(trip.Known) == 1 {
						most = trip.Known[0].Sub(one).Max(sym.Const(0))
					}
					p.Known = []sym.Expr{c.Fresh(p.Name, "the iteration of "+diag.Words(n.Source, "loop"), 0, most)}
				}
				if own, _ = p.Known[0].Name(); around[own] {
					return fault(n, "its iteration's number is %s, as that of a loop around it", own)
				}
				around[own] = true
			}
			for _, r := range n.Regions {
				if err := walk(r); err != nil {
					return err
				}
			}
			delete(around, own)
		}
		return nil
	}
	for _, f := range m.Funcs {
		if err := walk(f.Body); err != nil {
			return err
		}
	}
	return nil
}

// laidShape is the shape rule of a loop whose slices are laid along their first axis.
func laidShape(c *ir.Inference, n *ir.Node) error {
	carried := len(n.Inputs) - 2
	slices, at, extent := n.Regions[0].Results[1+carried:], n.Attrs.Exprs("at"), n.Attrs.Exprs("extent")
	trips, exact, err := loopTrips(c, n)
	if err != nil {
		return err
	}
	known := n.Regions[0].Params[0].Known
	if len(known) == 0 {
		return fault(n, "slices that are laid by the iteration's number, which is no dimension")
	}
	iteration, named := known[0].Name()
	if !named || !exact || len(at) != len(slices) || len(extent) != len(slices) {
		return fault(n, "%d slices with %d positions and %d extents, in a loop whose condition must always hold", len(slices),
			len(at), len(extent))
	}
	for i, v := range slices {
		if len(v.Type.Shape) == 0 {
			return fault(n, "slice %d has no axis to be laid along", i)
		}
		if n.Line != 0 { // the compiler's own are right
			number := func(is sym.Expr) sym.Expr {
				return at[i].Subst(func(name sym.Name) (sym.Expr, bool) { return is, name == iteration })
			}
			rows, now := v.Type.Shape[0], sym.Var(iteration)
			for _, is := range []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: at[i]},
				{A: at[i].Add(rows), Rel: sym.LE, B: extent[i]}, {A: number(sym.Const(0)), Rel: sym.EQ, B: sym.Const(0)},
				{A: number(now.Add(one).Min(trips.Sub(one))), Rel: sym.LE, B: at[i].Add(rows)},
				{A: number(trips.Sub(one)).Add(rows), Rel: sym.EQ, B: extent[i]}} {
				if err := c.Require(n, is, "slices are laid side by side"); err != nil {
					return err
				}
			}
		}
		n.Result(carried+i, ir.Type{DType: v.Type.DType, Shape: append([]sym.Expr{extent[i]}, v.Type.Shape[1:]...)})
	}
	return nil
}

// rows names the attribute with the dimensions, in order, of scan outputs whose slices' extents are found in the body,
// equal in every iteration.
const rows = "rows"

// rowExtent returns the next dimension of rows, for an extent that the body finds.
func rowExtent(c *ir.Inference, n *ir.Node, next *int, extent sym.Expr) sym.Expr {
	names := NamesAttr(n, rows)
	if *next == len(names) {
		l := limiting{c: c, dims: c.Dims().Clone()}
		l.dims.Set(step, sym.Range{Min: 0, Max: sym.NoMax})
		most, ok := l.atMost(extent)
		if _, hi := c.Dims().Bounds(extent); !ok {
			most = sym.Const(hi)
		}
		made, _ := c.Fresh(n.Op.Name()+".row", "an extent of what "+diag.Words(n.Source, n.Op.Name())+" stacks", 0, most).
			Name()
		names = append(names, made)
		setNames(n, rows, names)
	}
	*next++
	return sym.Var(names[*next-1])
}

// boundIn returns the dimensions that the body of a loop binds.
func boundIn(c *ir.Inference, n *ir.Node) map[sym.Name]bool {
	out := map[sym.Name]bool{}
	add := func(list ...sym.Expr) {
		for _, e := range list {
			name, ok := e.Name()
			if _, decided := c.Module.Limits[name]; ok && decided {
				out[name] = true
			}
		}
	}
	var region func(n *ir.Node, r *ir.Block)
	node := func(n *ir.Node) {
		given := map[sym.Name]bool{}
		give := func(list []*ir.Value) {
			for _, v := range list {
				for axis := 0; v != nil && axis < len(v.Type.Shape); axis++ {
					for _, name := range v.Type.Shape[axis].Vars() {
						given[name] = true
					}
				}
			}
		}
		give(n.Inputs)
		for _, r := range n.Regions {
			region(n, r)
			give(r.Results)
		}
		for _, v := range n.Outputs {
			if v.Bound {
				add(v.Known...)
			}
			for _, e := range v.Type.Shape {
				if name, ok := e.Name(); ok && !given[name] {
					add(e)
				}
			}
		}
	}
	region = func(n *ir.Node, r *ir.Block) {
		for i, p := range r.Params {
			if p.Bound || i == 0 && n.Op.Name() == "loop" {
				add(p.Known...)
			}
			for axis, e := range p.Type.Shape {
				if n.Op.Name() == "loop" && i > 1 && varies(c, n.Inputs[i].Type.Shape[axis], e) {
					add(e)
				}
			}
		}
		for _, inner := range r.Nodes {
			node(inner)
		}
	}
	region(n, n.Regions[0])
	return out
}

// ends names the attribute with the dimensions that a loop binds when it ends: the extents of its results, in order,
// that vary.
const ends = "ends"

// carriedType returns the type of a carried value after the loop.
func carriedType(c *ir.Inference, n *ir.Node, i int, begins ir.Type, next *int) (t ir.Type, err error) {
	body := n.Regions[0]
	p, r := body.Params[2+i].Type, body.Results[1+i].Type
	if begins.DType != p.DType || p.DType != r.DType || len(begins.Shape) != len(p.Shape) || len(p.Shape) != len(r.Shape) {
		return p, diag.Unsupportedf("carried value %d begins as %s and goes on as %s; its rank must stay the same", i, begins,
			r).AtNode(n.Source, "loop")
	}
	shape := slices.Clone(begins.Shape)
	for axis, extent := range p.Shape {
		if varies(c, begins.Shape[axis], extent) {
			if shape[axis], err = grown(c, n, begins.Shape[axis], extent, r.Shape[axis]); err != nil {
				return p, err
			}
			if shape[axis].Equal(extent) {
				shape[axis] = endOf(c, n, next, extent)
			}
			continue
		}
		if c.Dims().EQ(begins.Shape[axis], extent) != sym.Yes || c.Dims().EQ(extent, r.Shape[axis]) != sym.Yes {
			return p, diag.Unsupportedf("carried value %d begins as %s, comes as %s and goes on as %s", i, begins, p, r).
				AtNode(n.Source, "loop")
		}
	}
	return ir.Type{DType: begins.DType, Shape: shape}, nil
}

// endOf returns the dimension of the next varying extent after the loop. It is created the first time that the shape
// rule runs.
func endOf(c *ir.Inference, n *ir.Node, next *int, param sym.Expr) sym.Expr {
	names := NamesAttr(n, ends)
	if *next == len(names) {
		name, _ := param.Name()
		made, _ := c.Fresh(name.Text()+".end", c.Module.Origins[name]+", at its end", 0, sym.Const(0)).Name()
		r, _ := c.Dims().Get(name)
		c.Dims().Set(made, r)
		c.Module.Limits[made] = c.Module.Limits[name]
		names = append(names, made)
		setNames(n, ends, names)
	}
	*next++
	return sym.Var(names[*next-1])
}

// endsTogether adds, for the dimensions after the loop, the choices that hold for their counterparts in its body.
func endsTogether(c *ir.Inference, n *ir.Node) {
	to := map[sym.Name]sym.Name{}
	for i, v := range n.Outputs[:len(n.Inputs)-2] {
		for axis, extent := range v.Type.Shape {
			end, ok := extent.Name()
			if inside, named := n.Regions[0].Params[2+i].Type.Shape[axis].Name(); ok && named && end != inside {
				to[inside] = end
			}
		}
	}
	for _, choice := range c.Module.Choices {
		if choice, ok := choice.Renamed(to); ok {
			c.AddChoice(choice)
		}
	}
}

// loopCount returns the number of iterations: the trip count if the condition always holds, else a dimension that the
// run decides.
func loopCount(c *ir.Inference, n *ir.Node) (sym.Expr, error) {
	if name, ok := nameAttr(n, "count"); ok {
		return sym.Var(name), nil
	}
	limit, exact, err := loopTrips(c, n)
	if err != nil || exact {
		return limit, err
	}
	if most, ok := countedTrips(c, n); ok {
		if fixed, number := limit.Const(); number && fixed >= LoopLimit {
			limit = most
		} else {
			limit = limit.Min(most)
		}
	}
	count := c.Fresh(n.Op.Name()+".count", "how often "+diag.Words(n.Source, n.Op.Name())+" runs", 0, limit)
	name, _ := count.Name()
	n.Attrs["count"] = name.String()
	return count, nil
}

// loopTrips returns the largest number of iterations of a loop; exact reports whether it always makes that many,
// because its condition stays true.
func loopTrips(c *ir.Inference, n *ir.Node) (most sym.Expr, exact bool, err error) {
	trip, body := n.Inputs[0], n.Regions[0]
	if trip == nil {
		return sym.Const(LoopLimit), false, nil
	}
	known, err := c.Elements(trip, diag.Words(n.Source, n.Op.Name()), 0, LoopLimit)
	if err != nil {
		return most, false, err
	}
	goes := isTrue(body.Results[0]) || body.Results[0] == body.Params[1]
	return c.Dims().Simplify(known[0].Max(sym.Const(0))), goes && (n.Inputs[1] == nil || isTrue(n.Inputs[1])), nil
}

// grown returns a varying extent after the loop, if it grows equally in each of a known number of iterations; else
// param.
func grown(c *ir.Inference, n *ir.Node, begins, param, becomes sym.Expr) (sym.Expr, error) {
	by := becomes.Sub(param)
	inside := boundIn(c, n)
	if slices.ContainsFunc(by.Vars(), func(name sym.Name) bool { return inside[name] }) {
		return param, nil
	}
	count, exact, err := loopTrips(c, n)
	if err != nil || !exact {
		return param, err
	}
	return c.Dims().Simplify(begins.Add(count.Mul(by))), nil
}

// isTrue reports whether a condition is known to hold.
func isTrue(v *ir.Value) bool {
	return v.Const != nil && v.Const.DType() == dtype.Bool && v.Const.Len() == 1 && v.Const.Int(0) != 0
}

// sameType reports whether two types are equal for all values of the dimensions.
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

// numbered gives the dimension of an iteration's number its value, if the body has one.
func numbered(e *ir.Evaluation, body *ir.Block, iteration int64) error {
	if len(body.Params[0].Known) != 1 {
		return nil
	}
	name, ok := body.Params[0].Known[0].Name()
	if !ok {
		return nil
	}
	return e.Decide(name, iteration)
}

// loopMean is the reference: it runs the body until the condition or the trip count ends the loop.
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
	stacks := make([][]*tensor.Tensor, len(body.Results)-1-len(state))
	var laid [][]int64 // by iteration and slice: the first row that it is stored in
	count := int64(0)
	for ; count < trip && cond; count++ {
		if err := numbered(e, body, count); err != nil {
			return nil, err
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
		for i := range stacks {
			stacks[i] = append(stacks[i], results[1+len(state)+i].Clone())
		}
		if starts := n.Attrs.Exprs("at"); starts != nil {
			at, err := e.Ints(starts)
			if err != nil {
				return nil, err
			}
			laid = append(laid, at)
		}
	}
	if name, ok := nameAttr(n, "count"); ok {
		if err := e.Decide(name, count); err != nil {
			return nil, err
		}
	}
	carried := len(state)
	names := NamesAttr(n, rows)
	for i, t := range state {
		for axis, extent := range n.Outputs[i].Type.Shape {
			if name, ok := extent.Name(); ok {
				e.Dims[name] = t.Shape()[axis]
			}
		}
	}
	for i, list := range stacks {
		for _, slice := range list {
			if !slices.Equal(slice.Shape(), list[0].Shape()) {
				return nil, fault(n, "the slices of scan output %d have shapes %v and %v", i, list[0].Shape(), slice.Shape())
			}
		}
		for axis, extent := range n.Outputs[carried+i].Type.Shape[1:] {
			if name, ok := extent.Name(); ok && slices.Contains(names, name) {
				if e.Dims[name] = 0; len(list) > 0 {
					e.Dims[name] = list[0].Shape()[axis]
				}
			}
		}
		t, err := result(e, n, carried+i)
		if err != nil {
			return nil, err
		}
		flat := int64(0)
		for count, slice := range list {
			if laid != nil {
				flat = laid[count][i] * slice.Len() / max(slice.Shape()[0], 1)
			}
			for j := int64(0); j < slice.Len(); j++ {
				moveElement(t, flat, slice, j)
				flat++
			}
		}
		state = append(state, t)
	}
	return state, nil
}
