package ops

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// captured returns the values that regions read from outside and whose derivatives are needed, in order.
func (g *Gradients) captured(regions []*ir.Block) []*ir.Value {
	var out []*ir.Value
	seen := map[*ir.Value]bool{}
	see := func(list []*ir.Value) {
		for _, v := range list {
			if !seen[v] && g.Wants(v) {
				out = append(out, v)
			}
			seen[v] = true
		}
	}
	var walk func(b *ir.Block)
	walk = func(b *ir.Block) {
		for _, v := range slices.Concat(b.Params, b.Consts) {
			seen[v] = true
		}
		for _, n := range b.Nodes {
			for _, r := range n.Regions {
				walk(r)
			}
			see(n.Inputs)
			for _, v := range n.Outputs {
				seen[v] = true
			}
		}
		see(b.Results)
	}
	for _, r := range regions {
		walk(r)
	}
	return out
}

// ifGrad builds an If of the same condition, whose branches compute the node's branches again and differentiate them.
func ifGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	xs := g.captured(n.Regions)
	branches := make([]*ir.Block, len(n.Regions))
	for i, region := range n.Regions {
		branches[i] = &ir.Block{}
		in := g.In(branches[i])
		ys, ups := reached(inlined(in, region, nil), up)
		for k, y := range ys {
			if !sameType(g.Inference, y.Type, ups[k].Type) {
				g.Fail(diag.Unsupportedf("the derivative of an if whose branches differ in shape").AtNode(n.Source, "if"))
			}
		}
		branches[i].Results = VJP(in, ys, ups, xs)
	}
	if len(xs) > 0 {
		for i, d := range If(g.Builder, n.Inputs[0], branches[0], branches[1]) {
			g.add(xs[i], d)
		}
	}
	return []*ir.Value{nil}
}

// reached returns the values that have a derivative, and these derivatives.
func reached(ys, up []*ir.Value) (some, ups []*ir.Value) {
	for i, u := range up {
		if u != nil {
			some, ups = append(some, ys[i]), append(ups, u)
		}
	}
	return some, ups
}

// iterated is the gradient of a loop or scan: it visits the iterations from the last to the first. The loop itself
// stacks its carried values at the start of each iteration, from which the gradient computes the iteration again.
type iterated struct {
	*Gradients
	node     *ir.Node
	body     *ir.Block
	states   []*ir.Value // the body's parameters that are carried
	captured []*ir.Value
	stacks   []*ir.Value // the states at the beginning of each iteration
	floats   []int       // the indices of the states that are floats
}

// newIterated lets the node stack its states, as further outputs.
func (g *Gradients) newIterated(n *ir.Node, states []*ir.Value) *iterated {
	t := &iterated{Gradients: g, node: n, body: n.Regions[0], states: states, captured: g.captured(n.Regions)}
	before := len(n.Outputs)
	t.body.Results = append(t.body.Results, states...)
	if err := Of(n).Infer(g.Inference, n); err != nil {
		g.Fail(err)
	}
	for i, v := range n.Outputs[before:] {
		v.Node, v.Index, v.Name = n, before+i, g.Name(states[i].Name+".saved")
	}
	t.stacks = n.Outputs[before:]
	for i, s := range states {
		if s.Type.DType.IsFloat() {
			t.floats = append(t.floats, i)
		}
	}
	return t
}

// begin returns the initial derivatives: by the final carried values and, for captured values, 0.
func (t *iterated) begin(up []*ir.Value) []*ir.Value {
	var out []*ir.Value
	for _, i := range t.floats {
		if up[i] == nil {
			up[i] = t.fill(t.node.Outputs[i], 0)
		}
		out = append(out, up[i])
	}
	for _, x := range t.captured {
		out = append(out, t.fill(x, 0))
	}
	return out
}

// step differentiates one iteration: results and up are the body's results and the derivatives by them, states the
// values at its start, taken its other inputs, and sums the derivatives by captured values so far, to which it adds.
func (t *iterated) step(in *ir.Builder, results, up, states, taken, sums []*ir.Value) (byStates, bySlices,
	bySums []*ir.Value) {
	var xs []*ir.Value
	for _, i := range t.floats {
		xs = append(xs, states[i])
	}
	xs = append(append(xs, taken...), t.captured...)
	ys, ups := reached(results, up)
	d := VJP(in, ys, ups, xs)
	byStates, bySlices = d[:len(t.floats)], d[len(t.floats):len(t.floats)+len(taken)]
	for i, by := range d[len(t.floats)+len(taken):] {
		bySums = append(bySums, Binary(in, Add, sums[i], by))
	}
	return byStates, bySlices, bySums
}

// end adds the derivatives by the captured values and by the initial states.
func (t *iterated) end(results []*ir.Value, begins []*ir.Value) {
	for k, i := range t.floats {
		t.add(begins[i], results[k])
	}
	for k, x := range t.captured {
		t.add(x, results[len(t.floats)+k])
	}
}

// loopGrad builds a loop of as many iterations as the node's loop makes.
func loopGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	body := n.Regions[0]
	carried := len(n.Inputs) - 2
	for i, p := range body.Params[2:] {
		for axis, extent := range p.Type.Shape {
			if varies(g.Inference, n.Inputs[2+i].Type.Shape[axis], extent) {
				g.Fail(diag.Unsupportedf("the derivative of a loop whose carried values change their shape").AtNode(n.Source,
					"loop"))
			}
		}
	}
	if n.Attrs["at"] != nil {
		g.refuse(n)
	}
	scans := len(n.Outputs) - carried
	t := g.newIterated(n, body.Params[2:])
	begins := t.begin(up)
	if len(begins) == 0 {
		return make([]*ir.Value, len(n.Inputs))
	}
	count := n.Outputs[len(n.Outputs)-1].Type.Shape[0]
	back, in := LoopBody(g.Builder, "back", count, begins)
	at := Integers(in, ir.Type{DType: dtype.I64}, []sym.Expr{count.Sub(one).Sub(back.Params[0].Known[0])})
	args := []*ir.Value{at, in.Constant("on", truthTensor(true))}
	for _, stack := range t.stacks {
		args = append(args, Gather(in, stack, at, 0))
	}
	c := &copying{values: map[*ir.Value]*ir.Value{}, dims: map[sym.Name]sym.Expr{}}
	if name, ok := body.Params[0].Known[0].Name(); ok {
		c.dims[name] = at.Known[0]
	}
	results := c.block(in, body, args)[1 : 1+carried+scans]
	ups := make([]*ir.Value, len(results))
	for k, i := range t.floats {
		ups[i] = back.Params[2+k]
	}
	for i, u := range up[carried : carried+scans] {
		if u != nil {
			ups[carried+i] = Gather(in, u, at, 0)
		}
	}
	byStates, _, sums := t.step(in, results, ups, args[2:], nil, back.Params[2+len(t.floats):])
	back.Results = slices.Concat([]*ir.Value{in.Constant("on", truthTensor(true))}, byStates, sums)
	t.end(Loop(g.Builder, back, g.integer(count), nil, begins...), n.Inputs[2:])
	return make([]*ir.Value, len(n.Inputs))
}

// scanGrad builds a scan in the other direction.
func scanGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	body, states, _, err := scanRegion(n)
	if err != nil {
		g.Fail(err)
	}
	outputs, scanned := len(n.Outputs), n.Inputs[states:]
	t := g.newIterated(n, body.Params[:states])
	back := &ir.Block{}
	in := g.In(back)
	begins := t.begin(up)
	for _, v := range begins {
		in.Param("by", v.Type)
	}
	walks := &walked{iterated: t, back: in}
	args := make([]*ir.Value, len(n.Inputs))
	for i, stack := range t.stacks {
		args[i] = walks.param(stack, t.states[i].Type, walk{reversed: true})
	}
	for i, x := range scanned {
		args[states+i] = walks.param(x, body.Params[states+i].Type, walks.other("input", i, x))
	}
	ups := make([]*ir.Value, outputs)
	for k, i := range t.floats {
		ups[i] = back.Params[k]
	}
	for i := states; i < outputs; i++ {
		if up[i] != nil {
			ups[i] = walks.param(up[i], body.Results[i].Type, walks.other("output", i-states, up[i]))
		}
	}
	results := inlined(in, body, args)[:outputs]
	var by, xs []*ir.Value
	over := walks.over
	for i, x := range scanned {
		if g.Wants(x) {
			w := walks.other("input", i, x)
			by, xs = append(by, args[states+i]), append(xs, x)
			over.OutputAxes, over.OutputReverse = append(over.OutputAxes, int64(w.axis)),
				append(over.OutputReverse, oneIf(w.reversed))
		}
	}
	byStates, bySlices, sums := t.step(in, results, ups, args, by, back.Params[len(t.floats):])
	back.Results = slices.Concat(byStates, sums, bySlices)
	out := Scan(g.Builder, back, over, begins, walks.scanned)
	t.end(out, n.Inputs)
	for i, x := range xs {
		g.add(x, out[len(begins)+i])
	}
	return make([]*ir.Value, len(n.Inputs))
}

// walked is the gradient of a scan.
type walked struct {
	*iterated
	back    *ir.Builder
	scanned []*ir.Value
	over    ScanOver
}

// other returns the walk of the i-th input or output in the other direction.
func (w *walked) other(which string, i int, v *ir.Value) walk {
	k, err := walkOf(w.node, which, i, len(v.Type.Shape))
	if err != nil {
		w.Fail(err)
	}
	k.reversed = !k.reversed
	return k
}

// param adds a parameter of the body for the slices of a value.
func (w *walked) param(of *ir.Value, t ir.Type, how walk) *ir.Value {
	w.scanned = append(w.scanned, of)
	w.over.InputAxes = append(w.over.InputAxes, int64(how.axis))
	w.over.InputReversed = append(w.over.InputReversed, oneIf(how.reversed))
	return w.back.Param(of.Name+".slice", ir.Type{DType: t.DType, Shape: t.Shape})
}

// oneIf returns 1 if yes, else 0.
func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
