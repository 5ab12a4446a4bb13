package ops

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Gradient is, for each of xs, the derivative of the sum of y's elements by each of its own: y is a function of xs through nodes of the builder's block, and xs do not depend on
// one another in it. A node whose operator has no row in derivatives is not supported.
func Gradient(b *ir.Builder, y *ir.Value, xs []*ir.Value) []*ir.Value {
	g := &differentiation{Builder: b, along: map[*ir.Value]*ir.Value{}, depends: map[*ir.Value]bool{}}
	if !y.Type.DType.IsFloat() {
		b.Failf("the derivative of %s", y.Type)
	}
	for _, x := range xs {
		if !x.Type.DType.IsFloat() {
			b.Failf("the derivative by %s", x.Type)
		}
		g.depends[x] = true
	}
	nodes := b.Block.Nodes
	for _, n := range nodes {
		if g.reads(n) {
			for _, out := range n.Outputs {
				g.depends[out] = true
			}
		}
	}
	if g.depends[y] {
		g.along[y] = g.whole(y, 1)
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		g.node(nodes[i], xs)
	}
	out := make([]*ir.Value, len(xs))
	for i, x := range xs {
		if out[i] = g.along[x]; out[i] == nil {
			out[i] = g.whole(x, 0)
		}
	}
	return out
}

// reads reports whether a node, or one of its regions, reads what depends on xs.
func (g *differentiation) reads(n *ir.Node) bool {
	depends := func(v *ir.Value) bool { return v != nil && g.depends[v] }
	return slices.ContainsFunc(n.Inputs, depends) || slices.ContainsFunc(n.Regions, func(r *ir.Block) bool {
		return slices.ContainsFunc(r.Nodes, g.reads) || slices.ContainsFunc(r.Results, depends)
	})
}

// differentiation goes from a result back to what it depends on: along is the derivative by each value so far.
type differentiation struct {
	*ir.Builder
	along   map[*ir.Value]*ir.Value
	depends map[*ir.Value]bool
}

// node passes the derivative by a node's result on to its operands; what is differentiated by is not looked through.
func (g *differentiation) node(n *ir.Node, xs []*ir.Value) {
	reached := func(v *ir.Value) bool { return g.along[v] != nil && !slices.Contains(xs, v) }
	if !slices.ContainsFunc(n.Outputs, reached) {
		return
	}
	up, rule := g.along[n.Outputs[0]], derivatives[n.Op.Name()]
	if rule == nil || len(n.Outputs) > 1 {
		g.Fail(diag.Unsupportedf("the derivative of %s", n.Op.Name()).AtNode(n.Source, n.Op.Name()))
	}
	for i, x := range n.Inputs {
		if x == nil || !g.depends[x] || !x.Type.DType.IsFloat() {
			continue
		}
		d := g.narrowed(rule(g, n, up, i), x)
		if before := g.along[x]; before != nil {
			d = g.op(loop.Add, before, d)
		}
		g.along[x] = d
	}
}

// derivatives take the derivative by a node's result to that by its i-th input, before what was repeated is summed.
var derivatives map[string]func(g *differentiation, n *ir.Node, up *ir.Value, i int) *ir.Value

func init() {
	derivatives = map[string]func(g *differentiation, n *ir.Node, up *ir.Value, i int) *ir.Value{
		"add": func(_ *differentiation, _ *ir.Node, up *ir.Value, _ int) *ir.Value { return up },
		"sub": func(g *differentiation, _ *ir.Node, up *ir.Value, i int) *ir.Value {
			if i == 1 {
				return g.f(loop.Neg, up)
			}
			return up
		},
		"mul": func(g *differentiation, n *ir.Node, up *ir.Value, i int) *ir.Value {
			return g.op(loop.Mul, up, n.Inputs[1-i])
		},
		"div": func(g *differentiation, n *ir.Node, up *ir.Value, i int) *ir.Value {
			d := g.op(loop.Div, up, n.Inputs[1])
			if i == 1 {
				d = g.f(loop.Neg, g.op(loop.Mul, d, n.Outputs[0]))
			}
			return d
		},
		"matmul":  matmulDerivative,
		"reshape": func(g *differentiation, n *ir.Node, up *ir.Value, _ int) *ir.Value { return g.shaped(up, n) },
		"expand":  func(_ *differentiation, _ *ir.Node, up *ir.Value, _ int) *ir.Value { return up },
		"cast": func(g *differentiation, n *ir.Node, up *ir.Value, _ int) *ir.Value {
			return Cast(g.Builder, up, n.Inputs[0].Type.DType)
		},
		"transpose":  transposeDerivative,
		"reduce_sum": sumDerivative,
	}
	for name, d := range slopes {
		derivatives[name] = func(g *differentiation, n *ir.Node, up *ir.Value, _ int) *ir.Value {
			return g.op(loop.Mul, up, d(g, n.Inputs[0], n.Outputs[0]))
		}
	}
}

// slopes are the derivatives of functions of one element, by their argument x and result y.
var slopes = map[string]func(g *differentiation, x, y *ir.Value) *ir.Value{
	"neg":        func(g *differentiation, _, y *ir.Value) *ir.Value { return g.number(y, -1) },
	"abs":        func(g *differentiation, x, _ *ir.Value) *ir.Value { return g.f(loop.Sign, x) },
	"exp":        func(_ *differentiation, _, y *ir.Value) *ir.Value { return y },
	"log":        func(g *differentiation, x, _ *ir.Value) *ir.Value { return g.f(loop.Reciprocal, x) },
	"sqrt":       func(g *differentiation, _, y *ir.Value) *ir.Value { return g.op(loop.Div, g.number(y, 0.5), y) },
	"reciprocal": func(g *differentiation, _, y *ir.Value) *ir.Value { return g.f(loop.Neg, g.op(loop.Mul, y, y)) },
	"sin":        func(g *differentiation, x, _ *ir.Value) *ir.Value { return g.f(loop.Cos, x) },
	"cos":        func(g *differentiation, x, _ *ir.Value) *ir.Value { return g.f(loop.Neg, g.f(loop.Sin, x)) },
	"tanh": func(g *differentiation, _, y *ir.Value) *ir.Value {
		return g.op(loop.Sub, g.number(y, 1), g.op(loop.Mul, y, y))
	},
	"sigmoid": func(g *differentiation, _, y *ir.Value) *ir.Value {
		return g.op(loop.Mul, y, g.op(loop.Sub, g.number(y, 1), y))
	},
	"erf": func(g *differentiation, x, y *ir.Value) *ir.Value {
		return g.op(loop.Mul, g.number(y, 2/math.Sqrt(math.Pi)), g.f(loop.Exp, g.f(loop.Neg, g.op(loop.Mul, x, x))))
	},
}

func (g *differentiation) f(f loop.UnaryOp, x *ir.Value) *ir.Value { return Unary(g.Builder, f, x) }

func (g *differentiation) op(f loop.BinaryOp, x, y *ir.Value) *ir.Value {
	return Binary(g.Builder, f, x, y)
}

// number is a scalar of a value's type.
func (g *differentiation) number(like *ir.Value, x float64) *ir.Value {
	return Scalar(g.Builder, like.Type.DType, x)
}

// whole is a tensor of a value's type whose every element is x.
func (g *differentiation) whole(like *ir.Value, x float64) *ir.Value {
	t := tensor.Must(tensor.New(like.Type.DType))
	t.SetFloat(0, x)
	return Fill(g.Builder, t, like.Type.Shape...)
}

// shaped is a derivative under the shape of a node's first input.
func (g *differentiation) shaped(up *ir.Value, n *ir.Node) *ir.Value {
	return Reshape(g.Builder, up, n.Inputs[0].Type.Shape...)
}

// narrowed sums a derivative over the axes along which x was repeated.
func (g *differentiation) narrowed(d, x *ir.Value) *ir.Value {
	from, to := d.Type.Shape, x.Type.Shape
	var axes []int64
	for i, extent := range from {
		at := i - len(from) + len(to)
		if at < 0 || isOne(to[at]) && !isOne(extent) {
			axes = append(axes, int64(i))
		}
	}
	if axes == nil {
		return d
	}
	return Reshape(g.Builder, ReduceSum(g.Builder, d, true, axes...), to...)
}

// matmulDerivative: of X·Y, by X it is U·Yᵀ and by Y it is Xᵀ·U; an operand that is stored transposed has the transposed derivative.
func matmulDerivative(g *differentiation, n *ir.Node, up *ir.Value, i int) *ir.Value {
	other, turnedX, turnedY := n.Inputs[1-i], n.Attrs.Bool("transpose_a"), n.Attrs.Bool("transpose_b")
	switch {
	case i == 0 && turnedX:
		return MatMul(g.Builder, other, up, turnedY, true)
	case i == 0:
		return MatMul(g.Builder, up, other, false, !turnedY)
	case turnedY:
		return MatMul(g.Builder, up, other, true, turnedX)
	}
	return MatMul(g.Builder, other, up, !turnedX, false)
}

func transposeDerivative(g *differentiation, n *ir.Node, up *ir.Value, _ int) *ir.Value {
	perm := n.Attrs.Ints("perm")
	back := make([]int64, len(perm))
	for to, from := range perm {
		back[from] = int64(to)
	}
	return Transpose(g.Builder, up, back...)
}

// sumDerivative repeats the derivative along the axes that were summed.
func sumDerivative(g *differentiation, n *ir.Node, up *ir.Value, _ int) *ir.Value {
	shape := n.Inputs[0].Type.Shape
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(shape))
	if err != nil {
		g.Fail(err)
	}
	single := append([]sym.Expr{}, shape...)
	for _, axis := range axes {
		single[axis] = one
	}
	return Expand(g.Builder, Reshape(g.Builder, up, single...), shape...)
}
