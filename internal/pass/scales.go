package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Scales moves factors and summands of channels, which batch normalisation leaves after a convolution or a product with
// constant weights, into the weights and the bias. Types are f32 and f64, and no other node may read the weights. The
// results differ by the rounding of the weights.
func Scales(m *ir.Module) error { return apply(m, scales) }

var scales = []rule{
	{"factor into weights", []string{"mul", "div"}, factorIntoWeights},
	{"summand into bias", []string{"add", "sub"}, summandIntoBias},
	{"factor before summand", []string{"mul", "div"}, factorBeforeSummand},
	{"summands joined", []string{"add", "sub"}, summandsJoined},
}

// weighted is a convolution or a product with constant weights that no other node reads.
type weighted struct {
	node     *ir.Node
	channels int64
	axis     int // the channels' axis of the result
	along    int // the channels' axis of the weights
}

// weightedBy returns the node that computes v if it is a convolution or a product that Scales may change.
func (r *rewriting) weightedBy(v *ir.Value) (w weighted, ok bool) {
	if !r.inside(v) || v.Type.DType != dtype.F32 && v.Type.DType != dtype.F64 {
		return w, false
	}
	n := v.Node
	rank := len(v.Type.Shape)
	switch n.Op.Name() {
	case "convolution":
		w = weighted{node: n, axis: 1, along: 0}
		if len(n.Inputs) > 2 && n.Inputs[2] != nil && n.Inputs[2].Const == nil {
			return w, false
		}
	case "matmul":
		w = weighted{node: n, axis: rank - 1, along: len(n.Inputs[1].Type.Shape) - 1}
		if n.Attrs.Bool("transpose_b") {
			w.along--
		}
	default:
		return w, false
	}
	weights := n.Inputs[1]
	if weights.Const == nil || r.uses[weights] != 1 || weights.Type.DType != v.Type.DType ||
		n.Attrs.DType("dtype") != dtype.Invalid {
		return w, false
	}
	w.channels, ok = weights.Type.Shape[w.along].Const()
	return w, ok && w.channels > 1
}

// perChannel returns a constant's elements, one for each channel of a result of the given rank; nil if v is no such
// constant or an element is not finite.
func (w weighted) perChannel(v *ir.Value, rank int) []float64 {
	if v.Const == nil || v.Const.Len() != w.channels || len(v.Type.Shape) > rank {
		return nil
	}
	at := w.axis - rank + len(v.Type.Shape)
	if at < 0 || !v.Type.Shape[at].Equal(sym.Const(w.channels)) {
		return nil
	}
	out := make([]float64, w.channels)
	for i := range out {
		out[i] = v.Const.Float(int64(i))
		if math.IsNaN(out[i]) || math.IsInf(out[i], 0) {
			return nil
		}
	}
	return out
}

// operands returns the variable operand and the constant operand of a node; ok is false if both vary, or if the
// constant is first and the operator is not commutative.
func operands(n *ir.Node) (x, c *ir.Value, ok bool) {
	x, c = n.Inputs[0], n.Inputs[1]
	if x.Const != nil && ops.Of(n).Commutative {
		x, c = c, x
	}
	return x, c, x.Const == nil && c.Const != nil
}

// factorsOf returns the factors by which a product or quotient with the constant c scales channels; nil if there are
// none, or a divisor is 0.
func (w weighted) factorsOf(n *ir.Node, c *ir.Value) []float64 {
	factors := w.perChannel(c, len(n.Outputs[0].Type.Shape))
	if n.Op.Name() == "div" {
		for i, f := range factors {
			if f == 0 {
				return nil
			}
			factors[i] = 1 / f
		}
	}
	return factors
}

// factorIntoWeights multiplies the weights and the bias by the factors of channels.
func factorIntoWeights(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, c, ok := operands(n)
	if !ok {
		return nil
	}
	w, ok := r.weightedBy(x)
	if !ok {
		return nil
	}
	factors := w.factorsOf(n, c)
	if factors == nil {
		return nil
	}
	inputs := slices.Clone(w.node.Inputs)
	inputs[1] = scaled(b, inputs[1], w.along, factors)
	if len(inputs) > 2 && inputs[2] != nil {
		inputs[2] = scaled(b, inputs[2], 0, factors)
	}
	return b.Op(w.node.Op.Name(), w.node.Attrs, inputs...)
}

// scaled returns a constant times a factor for each index of an axis.
func scaled(b *ir.Builder, v *ir.Value, axis int, factors []float64) *ir.Value {
	from := v.Const
	t, err := tensor.Deferred(from.DType(), from.Shape(), from, from.Major(),
		func(to *tensor.Tensor, along int, begin, end int64) {
			from.Fill(to, along, begin, end)
			inner, factors := int64(1), factors
			for _, extent := range from.Shape()[axis+1:] {
				inner *= extent
			}
			if along == axis {
				factors = factors[begin:end]
			} else if along > axis {
				inner = inner / from.Shape()[along] * (end - begin)
			}
			if y, err := tensor.Data[float32](to); err == nil {
				for i := range y {
					y[i] = float32(float64(y[i]) * factors[int64(i)/inner%int64(len(factors))])
				}
				return
			}
			for i := range to.Len() {
				to.SetFloat(i, to.Float(i)*factors[i/inner%int64(len(factors))])
			}
		})
	if err != nil {
		b.Fail(err)
	}
	settled(t)
	return b.Constant(v.Name, t)
}

// summandIntoBias adds the summands of channels to the bias.
func summandIntoBias(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, c, ok := operands(n)
	if !ok {
		return nil
	}
	w, ok := r.weightedBy(x)
	if !ok || w.node.Op.Name() != "convolution" {
		return nil
	}
	summands := w.perChannel(c, len(n.Outputs[0].Type.Shape))
	if summands == nil {
		return nil
	}
	bias := tensor.Must(tensor.New(x.Type.DType, w.channels))
	for i, s := range summands {
		if n.Op.Name() == "sub" {
			s = -s
		}
		if len(w.node.Inputs) > 2 && w.node.Inputs[2] != nil {
			s += w.node.Inputs[2].Const.Float(int64(i))
		}
		bias.SetFloat(int64(i), s)
	}
	return b.Op("convolution", w.node.Attrs, w.node.Inputs[0], w.node.Inputs[1], b.Constant(c.Name, bias))
}

// onSum matches a node that combines a constant, outer, with a sum: inner is the sum's node, whose operands are a
// constant c and the result x of w. inner is nil if the node does not match.
func (r *rewriting) onSum(n *ir.Node) (inner *ir.Node, w weighted, x, c, outer *ir.Value) {
	v, outer, ok := operands(n)
	if !ok || !r.inside(v) || producer(v, "add") == nil && producer(v, "sub") == nil {
		return nil, w, nil, nil, nil
	}
	if x, c, ok = operands(v.Node); !ok {
		return nil, w, nil, nil, nil
	}
	if w, ok = r.weightedBy(x); !ok {
		return nil, w, nil, nil, nil
	}
	return v.Node, w, x, c, outer
}

// factorBeforeSummand builds (x + c) · f as x · f + c · f; the factor then moves into x's weights.
func factorBeforeSummand(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner, w, x, c, f := r.onSum(n)
	rank := len(n.Outputs[0].Type.Shape)
	if inner == nil || w.factorsOf(n, f) == nil || w.perChannel(c, rank) == nil {
		return nil
	}
	return b.Op(inner.Op.Name(), nil, b.Op(n.Op.Name(), nil, x, f),
		w.channelwise(b, c, rank, w.factorsOf(n, f), func(c, f float64) float64 {
			return c * f
		}))
}

// summandsJoined builds (x + c) + d as x + (c + d).
func summandsJoined(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner, w, x, c, d := r.onSum(n)
	rank := len(n.Outputs[0].Type.Shape)
	if inner == nil || w.perChannel(c, rank) == nil || w.perChannel(d, rank) == nil {
		return nil
	}
	sign := map[bool]float64{true: 1, false: -1}[inner.Op.Name() == n.Op.Name()]
	return b.Op(inner.Op.Name(), nil, x, w.channelwise(b, c, rank, w.perChannel(d, rank), func(c, d float64) float64 {
		return c + sign*d
	}))
}

// channelwise returns a constant of f applied to the elements of c, one for each channel, and others.
func (w weighted) channelwise(b *ir.Builder, c *ir.Value, rank int, others []float64,
	f func(c, d float64) float64) *ir.Value {
	t := tensor.Must(tensor.New(c.Type.DType, c.Const.Shape()...))
	for i, x := range w.perChannel(c, rank) {
		t.SetFloat(int64(i), f(x, others[i]))
	}
	return b.Constant(c.Name, t)
}
