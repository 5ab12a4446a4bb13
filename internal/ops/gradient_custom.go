package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators stop_gradient and custom_gradient.
func init() {
	define(&Def{Op: "stop_gradient", apart: apartBefore(0),
		Shape: stopShape, Mean: sameMean, Grad: none, Samples: stopSamples,
		Expand: func(_ *ir.Builder, n *ir.Node) []*ir.Value { return n.Inputs[:1] }})
	define(&Def{Op: "custom_gradient", Shape: customShape, Mean: sameMean, Grad: customGrad, Samples: customSamples,
		Expand: func(_ *ir.Builder, n *ir.Node) []*ir.Value { return Marked(n) }})
}

// Stop returns x; derivatives treat it as a constant.
func Stop(b *ir.Builder, x *ir.Value) *ir.Value { return b.Op("stop_gradient", nil, x) }

// Custom returns ys with derivatives by xs that back builds, instead of those of the nodes that computed ys. back
// receives the derivatives by ys and returns those by xs, nil for none. It may read any value in scope.
func Custom(b *ir.Builder, ys, xs []*ir.Value, back func(b *ir.Builder, up []*ir.Value) []*ir.Value) []*ir.Value {
	region := &ir.Block{}
	in, up := b.In(region), make([]*ir.Value, len(ys))
	for i, y := range ys {
		up[i] = in.Param(y.Name+".up", ir.Type{DType: y.Type.DType, Shape: y.Type.Shape})
	}
	region.Results = back(in, up)
	inputs := append(append([]*ir.Value{}, ys...), xs...)
	return b.NodeWith("custom_gradient", ir.Attrs{"results": int64(len(ys))}, []*ir.Block{region}, inputs...).Outputs
}

// Marked returns the inputs that equal the results of a node that only changes derivatives; nil for other nodes.
func Marked(n *ir.Node) []*ir.Value {
	switch n.Op.Name() {
	case "stop_gradient":
		return n.Inputs[:1]
	case "custom_gradient":
		return n.Inputs[:len(n.Outputs)]
	}
	return nil
}

// stopShape infers x's type and known elements.
func stopShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	n.Result(0, n.Inputs[0].Type).Known = n.Inputs[0].Known
	return nil
}

// sameMean returns the first inputs as the results.
func sameMean(_ *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return in[:len(n.Outputs)], nil
}

// customShape checks the region's parameters against the results and its results against the inputs, and infers the
// types of the first inputs.
func customShape(c *ir.Inference, n *ir.Node) error {
	results := n.Attrs.Int("results", 0)
	if results < 1 || results > int64(len(n.Inputs)) || len(n.Regions) != 1 {
		return fault(n, "%d results of %d inputs, with %d regions", results, len(n.Inputs), len(n.Regions))
	}
	if err := arity(n, len(n.Inputs), len(n.Inputs)); err != nil {
		return err
	}
	region := n.Regions[0]
	ys, xs := n.Inputs[:results], n.Inputs[results:]
	if len(region.Params) != len(ys) || len(region.Results) != len(xs) {
		return fault(n, "%d derivatives by %d results give %d by %d inputs", len(region.Params), len(ys), len(region.Results),
			len(xs))
	}
	for i, y := range ys {
		if p := region.Params[i]; !sameType(c, p.Type, y.Type) {
			return fault(n, "a derivative of type %s by a result of type %s", p.Type, y.Type)
		}
		n.Result(i, y.Type).Known = y.Known
	}
	for i, x := range xs {
		if d := region.Results[i]; d != nil && !sameType(c, d.Type, x.Type) {
			return fault(n, "a derivative of type %s by an input of type %s", d.Type, x.Type)
		}
	}
	return nil
}

// customGrad copies the region to the position at which the derivative is taken.
func customGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	results := len(n.Outputs)
	args := make([]*ir.Value, results)
	for i, u := range up {
		if args[i] = u; u == nil {
			args[i] = g.fill(n.Outputs[i], 0)
		}
	}
	return append(make([]*ir.Value, results), inlined(g.Builder, n.Regions[0], args)...)
}

// inlined copies a block's nodes, with args for its parameters, and returns the copies of its results.
func inlined(b *ir.Builder, block *ir.Block, args []*ir.Value) []*ir.Value {
	c := &copying{values: map[*ir.Value]*ir.Value{}, dims: map[sym.Name]sym.Expr{}}
	return c.block(b, block, args)
}

// copying copies nodes: it maps their values, and the dimensions that they decide, to those of the copies.
type copying struct {
	values map[*ir.Value]*ir.Value
	dims   map[sym.Name]sym.Expr
}

// block is inlined with the mapping of c.
func (c *copying) block(b *ir.Builder, block *ir.Block, args []*ir.Value) []*ir.Value {
	for i, p := range block.Params {
		c.values[p] = args[i]
	}
	c.nodes(b, block)
	return c.list(block.Results)
}

// list maps values; values from outside stay as they are.
func (c *copying) list(from []*ir.Value) []*ir.Value {
	to := make([]*ir.Value, len(from))
	for i, v := range from {
		if to[i] = v; c.values[v] != nil {
			to[i] = c.values[v]
		}
	}
	return to
}

// expr maps the dimensions of an expression.
func (c *copying) expr(e sym.Expr) sym.Expr {
	return e.Subst(func(name sym.Name) (sym.Expr, bool) { x, ok := c.dims[name]; return x, ok })
}

// exprs maps the dimensions of a list; nil stays nil.
func (c *copying) exprs(list []sym.Expr) []sym.Expr {
	if list == nil {
		return nil
	}
	out := make([]sym.Expr, len(list))
	for i, e := range list {
		out[i] = c.expr(e)
	}
	return out
}

// nodes appends copies of a block's constants and nodes.
func (c *copying) nodes(b *ir.Builder, block *ir.Block) {
	for _, v := range block.Consts {
		c.values[v] = b.Constant(v.Name, v.Const)
	}
	for _, n := range block.Nodes {
		regions := make([]*ir.Block, len(n.Regions))
		for i, r := range n.Regions {
			regions[i] = c.region(b, n, r)
		}
		b.Source = n.Source
		to := b.NodeWith(n.Op.Name(), c.attrs(b, n), regions, c.list(n.Inputs)...)
		for i, v := range n.Outputs {
			c.same(v, to.Outputs[i])
		}
	}
}

// same maps a value to another, and the dimensions that from decides to those of to.
func (c *copying) same(from, to *ir.Value) {
	c.values[from] = to
	for i, e := range from.Type.Shape {
		if name, ok := e.Name(); ok && !e.Equal(to.Type.Shape[i]) {
			c.dims[name] = to.Type.Shape[i]
		}
	}
	for i, e := range from.Known {
		if name, ok := e.Name(); ok && from.Bound && i < len(to.Known) {
			c.dims[name] = to.Known[i]
		}
	}
}

// region copies a node's region, with parameters of its own.
func (c *copying) region(b *ir.Builder, n *ir.Node, from *ir.Block) *ir.Block {
	to := &ir.Block{}
	in := b.In(to)
	for i, p := range from.Params {
		t := p.Type
		t.Shape = make([]sym.Expr, len(p.Type.Shape))
		for axis, e := range p.Type.Shape {
			t.Shape[axis] = c.expr(c.own(b, n, i, axis, e))
		}
		v := in.Param(p.Name, t)
		v.Known, v.Bound = c.exprs(p.Known), p.Bound
		if i == 0 && n.Op.Name() == "loop" {
			v.Known = []sym.Expr{c.fresh(b, p.Known[0])}
		}
		c.values[p] = v
	}
	c.nodes(in, from)
	to.Results = c.list(from.Results)
	return to
}

// own returns the extent of a region's parameter; it fails if the extent varies from one iteration of a loop to the
// next.
func (c *copying) own(b *ir.Builder, n *ir.Node, i, axis int, e sym.Expr) sym.Expr {
	if n.Op.Name() == "loop" && i > 1 && varies(b.Inference, n.Inputs[i].Type.Shape[axis], e) {
		b.Fail(diag.Unsupportedf("the derivative of a loop whose carried values change their shape").AtNode(n.Source, "loop"))
	}
	return e
}

// fresh returns a new dimension with the limits of one that a loop decides.
func (c *copying) fresh(b *ir.Builder, e sym.Expr) sym.Expr {
	name, ok := e.Name()
	if !ok {
		return c.expr(e)
	}
	r, _ := b.Dims().Get(name)
	to := b.Fresh(name.Text(), b.Module.Origins[name], r.Min, c.expr(b.Module.Limits[name]))
	c.dims[name] = to
	return to
}

// attrs maps a node's attributes, leaving out the dimensions that the node decides.
func (c *copying) attrs(b *ir.Builder, n *ir.Node) ir.Attrs {
	attrs := ir.Attrs{}
	for name, a := range n.Attrs {
		switch a := a.(type) {
		case sym.Expr:
			attrs[name] = c.expr(a)
		case []sym.Expr:
			attrs[name] = c.exprs(a)
		default:
			if !decides(b.Module, a) {
				attrs[name] = a
			}
		}
	}
	return attrs
}

// decides reports whether an attribute names dimensions that a node decides.
func decides(m *ir.Module, attr any) bool {
	list, _ := attr.([]string)
	if one, ok := attr.(string); ok {
		list = []string{one}
	}
	return slices.ContainsFunc(list, func(spelled string) bool {
		name, ok := sym.ParseName(spelled)
		_, decided := m.Limits[name]
		return ok && decided
	})
}

// stopSamples returns tensors of three types.
func stopSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, dt := range []dtype.DType{dtype.F32, dtype.I64, dtype.Bool} {
		out = append(out, Sample{Attrs: ir.Attrs{}, Inputs: []*tensor.Tensor{sampleOf(r, dt, 2, 3)}})
	}
	return out
}

// customSamples are sums of two values whose given derivatives are twice and three times as large.
func customSamples(r *rand.Rand) []Sample {
	t := ir.Type{DType: dtype.F64, Shape: ir.Constants([]int64{1})}
	region := func(b *ir.Builder) []*ir.Block {
		body := &ir.Block{}
		in := b.In(body)
		up := in.Param("up", t)
		body.Results = []*ir.Value{Binary(in, Mul, up, Scalar(in, dtype.F64, 2)),
			Binary(in, Mul, up, Scalar(in, dtype.F64, 3))}
		return []*ir.Block{body}
	}
	x := func() *tensor.Tensor { return sampleNormal(r, dtype.F64, 1) }
	return []Sample{{Attrs: ir.Attrs{"results": int64(1)}, Inputs: []*tensor.Tensor{x(), x(), x()}, Regions: region}}
}
