package ops

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Gradient returns, for each of xs, the derivative of the sum of y's elements by its elements: VJP of one output.
func Gradient(b *ir.Builder, y *ir.Value, xs []*ir.Value) []*ir.Value {
	return VJP(b, []*ir.Value{y}, nil, xs)
}

// VJP returns, for each of xs, the derivative of the sum over i of ys[i]·seeds[i] by its elements. A seed that is nil,
// or missing at the end, is ones. The ys are functions of xs through nodes of the builder's block; paths end at the
// first of xs that they meet. An x on which no y depends has zeros. The results are linear in the seeds, and ordinary
// nodes, which can be differentiated again.
func VJP(b *ir.Builder, ys, seeds, xs []*ir.Value) []*ir.Value {
	defer func(source string) { b.Source = source }(b.Source)
	g := newGradients(b, xs)
	nodes := b.Block.Nodes
	g.mark(nodes)
	for i, y := range ys {
		g.seed(y, present(seeds, i))
	}
	g.back(nodes)
	out := make([]*ir.Value, len(xs))
	for i, x := range xs {
		if out[i] = g.along[x]; out[i] == nil {
			out[i] = g.fill(x, 0)
		}
	}
	return out
}

// Gradients visits nodes from results back to xs and builds derivatives; an operator's Grad builds with it.
type Gradients struct {
	*ir.Builder
	along   map[*ir.Value]*ir.Value // the derivative by each value, so far
	depends map[*ir.Value]bool      // the values that depend on xs
	xs      map[*ir.Value]bool
}

// newGradients starts the derivatives by xs, which must be floats.
func newGradients(b *ir.Builder, xs []*ir.Value) *Gradients {
	g := &Gradients{Builder: b, along: map[*ir.Value]*ir.Value{}, depends: map[*ir.Value]bool{}, xs: map[*ir.Value]bool{}}
	for _, x := range xs {
		if !x.Type.DType.IsFloat() {
			b.Failf("the derivative by %s", x.Type)
		}
		g.depends[x], g.xs[x] = true, true
	}
	return g
}

// seed adds the derivative by a result y from which the visit starts; nil stands for ones.
func (g *Gradients) seed(y, seed *ir.Value) {
	switch {
	case !y.Type.DType.IsFloat():
		g.Failf("the derivative of %s", y.Type)
	case seed == nil && g.depends[y]:
		seed = g.fill(y, 1)
	case seed != nil && !sameType(g.Inference, seed.Type, y.Type):
		g.Failf("a seed of type %s for %s", seed.Type, y.Type)
	}
	g.add(y, seed)
}

// mark records the results of nodes that depend on xs.
func (g *Gradients) mark(nodes []*ir.Node) {
	for _, n := range nodes {
		if g.reads(n) {
			for _, out := range n.Outputs {
				g.depends[out] = true
			}
		}
	}
}

// reads reports whether a node, or one of its regions, reads a value that depends on xs.
func (g *Gradients) reads(n *ir.Node) bool {
	return slices.ContainsFunc(n.Inputs, g.Wants) || slices.ContainsFunc(n.Regions, func(r *ir.Block) bool {
		return slices.ContainsFunc(r.Nodes, g.reads) || slices.ContainsFunc(r.Results, g.Wants)
	})
}

// Wants reports whether the derivative by a value is needed: whether it is a float that depends on xs.
func (g *Gradients) Wants(v *ir.Value) bool {
	return v != nil && g.depends[v] && v.Type.DType.IsFloat()
}

// back passes derivatives on through nodes, the last first.
func (g *Gradients) back(nodes []*ir.Node) {
	for _, n := range slices.Backward(nodes) {
		g.node(n)
	}
}

// node passes the derivatives by a node's results on to its inputs; it stops at xs.
func (g *Gradients) node(n *ir.Node) {
	up, reached := make([]*ir.Value, len(n.Outputs)), false
	for i, out := range n.Outputs {
		if up[i] = g.along[out]; up[i] == nil || g.xs[out] {
			up[i] = nil
			continue
		}
		reached = true
	}
	if !reached {
		return
	}
	if n.Source != "" {
		g.Source = n.Source
	}
	def := Of(n)
	if def.Grad != nil {
		if derivatives := def.Grad(g, n, up); derivatives != nil {
			for i, d := range derivatives {
				g.add(n.Inputs[i], d)
			}
			return
		}
	}
	if def.Expand == nil || !g.through(up, func() []*ir.Value { return def.Expand(g.Builder, n) }) {
		g.refuse(n)
	}
}

// refuse fails with the reason why the operator has no derivative.
func (g *Gradients) refuse(n *ir.Node) {
	e := diag.Unsupportedf("the derivative of %s", n.Op.Name())
	if why := Of(n).NoGrad; why != "" {
		e = diag.Unsupportedf("the derivative of %s: %s", n.Op.Name(), why)
	}
	g.Fail(e.AtNode(n.Source, n.Op.Name()))
}

// through differentiates other nodes in place of one: build returns values equal to its results, or nil, on which
// through returns false.
func (g *Gradients) through(up []*ir.Value, build func() []*ir.Value) bool {
	before := len(g.Block.Nodes)
	results := build()
	if results == nil {
		return false
	}
	made := slices.Clone(g.Block.Nodes[before:])
	g.mark(made)
	for i, u := range up {
		g.add(results[i], u)
	}
	g.back(made)
	return true
}

// none is the Grad of an operator whose derivative by each input is 0 or does not exist.
func none(_ *Gradients, n *ir.Node, _ []*ir.Value) []*ir.Value {
	return make([]*ir.Value, len(n.Inputs))
}

// add adds d to the derivative by x, if d is not nil and the derivative is needed, summed over the axes along which x
// was broadcast.
func (g *Gradients) add(x, d *ir.Value) {
	if d == nil || !g.Wants(x) {
		return
	}
	d = g.narrowed(d, x)
	if before := g.along[x]; before != nil {
		d = g.op(loop.Add, before, d)
	}
	g.along[x] = d
}

// f applies a function of one element.
func (g *Gradients) f(f loop.UnaryOp, x *ir.Value) *ir.Value { return Unary(g.Builder, f, x) }

// op applies a function of two elements, with broadcasting.
func (g *Gradients) op(f loop.BinaryOp, x, y *ir.Value) *ir.Value {
	return Binary(g.Builder, f, x, y)
}

func (g *Gradients) neg(x *ir.Value) *ir.Value     { return g.f(loop.Neg, x) }
func (g *Gradients) plus(x, y *ir.Value) *ir.Value { return g.op(loop.Add, x, y) }
func (g *Gradients) sub(x, y *ir.Value) *ir.Value  { return g.op(loop.Sub, x, y) }
func (g *Gradients) mul(x, y *ir.Value) *ir.Value  { return g.op(loop.Mul, x, y) }
func (g *Gradients) div(x, y *ir.Value) *ir.Value  { return g.op(loop.Div, x, y) }

// times returns x times a number; above returns x plus a number.
func (g *Gradients) times(x *ir.Value, by float64) *ir.Value { return g.mul(x, g.number(x, by)) }
func (g *Gradients) above(x *ir.Value, by float64) *ir.Value { return g.plus(x, g.number(x, by)) }

// from returns a number less x.
func (g *Gradients) from(by float64, x *ir.Value) *ir.Value { return g.sub(g.number(x, by), x) }

// choose returns x if the condition is true and y elsewhere, element by element; nil stands for 0.
func (g *Gradients) choose(cond, x, y *ir.Value) *ir.Value {
	if x == nil {
		x = g.number(y, 0)
	}
	if y == nil {
		y = g.number(x, 0)
	}
	return Where(g.Builder, cond, x, y)
}

// number returns a scalar constant of like's type.
func (g *Gradients) number(like *ir.Value, x float64) *ir.Value {
	return Scalar(g.Builder, like.Type.DType, x)
}

// count returns a number of elements, the product of extents, as a scalar of like's type.
func (g *Gradients) count(like *ir.Value, extents ...sym.Expr) *ir.Value {
	total := product(extents)
	if fixed, ok := total.Const(); ok {
		return g.number(like, float64(fixed))
	}
	return Cast(g.Builder, Integers(g.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{total}), like.Type.DType)
}

// fill returns a tensor of like's type and shape whose elements all are x.
func (g *Gradients) fill(like *ir.Value, x float64) *ir.Value {
	t := tensor.Must(tensor.New(like.Type.DType))
	t.SetFloat(0, x)
	return Fill(g.Builder, t, like.Type.Shape...)
}

// sum adds up along axes, which keep an extent of 1.
func (g *Gradients) sum(x *ir.Value, axes ...int64) *ir.Value {
	return ReduceSum(g.Builder, x, true, axes...)
}

// narrowed sums a derivative over the axes along which x was broadcast.
func (g *Gradients) narrowed(d, x *ir.Value) *ir.Value {
	from, to := Settled(g.Dims(), d.Type.Shape), Settled(g.Dims(), x.Type.Shape)
	var axes []int64
	for i, extent := range from {
		at := i - len(from) + len(to)
		if at < 0 || isOne(to[at]) && !isOne(extent) {
			axes = append(axes, int64(i))
		}
	}
	if axes != nil {
		d = Reshape(g.Builder, g.sum(d, axes...), x.Type.Shape...)
	}
	if !slices.EqualFunc(from, to, sym.Expr.Equal) && axes == nil {
		return g.widened(d, x)
	}
	return d
}

// widened expands a derivative to the shape of x.
func (g *Gradients) widened(d, x *ir.Value) *ir.Value {
	if slices.EqualFunc(d.Type.Shape, x.Type.Shape, func(a, b sym.Expr) bool { return g.Dims().EQ(a, b) == sym.Yes }) {
		return d
	}
	return Expand(g.Builder, d, x.Type.Shape...)
}
