package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Scattered adds updates directly to the tensor that a scatter's result is added to: x − rate · (zeros with updates
// added at indices) becomes x with −rate · updates added at the indices, so that elements which no index names take
// neither time nor memory. The results differ by the order of sums. A factor that is not finite changes only the
// elements that indices name.
func Scattered(m *ir.Module) error { return apply(m, scattered) }

var scattered = []rule{
	{"sum with what is scattered", []string{"add", "sub"}, sumWithScattered},
	{"choice between what is scattered and what it is added to", []string{"where"}, chosenScatter},
}

// chosenScatter chooses between the updates and 0, instead of between the tensor with and without the updates: where(c,
// scatter(x, at, u), x) becomes scatter(x, at, where(c, u, 0)). An element −0 that an index names becomes 0 if c is
// false.
func chosenScatter(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	c, v, other := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	if len(c.Type.Shape) != 0 || !r.inside(v) {
		return nil
	}
	s := v.Node
	if !ops.Of(s).Scatter || s.Attrs.String("reduction", "none") != "add" || s.Inputs[0] != other {
		return nil
	}
	updates := s.Inputs[2]
	zero := ops.Scalar(b, updates.Type.DType, 0)
	return b.Op(s.Op.Name(), s.Attrs, other, s.Inputs[1], b.Op("where", nil, c, updates, zero))
}

// sumWithScattered adds scaled updates directly to the tensor that the scattered zeros are added to.
func sumWithScattered(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	for i, v := range n.Inputs {
		onto := n.Inputs[1-i]
		if shape := n.Outputs[0].Type.Shape; n.Op.Name() == "sub" && i == 0 || !sameShape(r.Dims(), onto.Type.Shape, shape) ||
			!sameShape(r.Dims(), v.Type.Shape, shape) {
			continue
		}
		s := scaledScatter{r: r, by: map[*ir.Node]int{}}
		if !s.reads(v) {
			continue
		}
		updates := s.factors(b)
		if n.Op.Name() == "sub" {
			updates = b.Op("neg", nil, updates)
		}
		return b.Op(s.node.Op.Name(), s.node.Attrs, onto, s.node.Inputs[1], updates)
	}
	return nil
}

// scaledScatter is a scatter that adds to zeros, and the nodes that scale its result by one number each, in reverse
// order.
type scaledScatter struct {
	r     *rewriting
	node  *ir.Node
	scale []*ir.Node
	by    map[*ir.Node]int // by node of scale: the index of the operand that it scales
}

// reads finds the scatter that leads to v through scales; false if there is none.
func (s *scaledScatter) reads(v *ir.Value) bool {
	for s.r.inside(v) {
		n := v.Node
		if ops.Of(n).Scatter {
			s.node = n
			return n.Attrs.String("reduction", "none") == "add" && isZeros(n.Inputs[0])
		}
		scaled := false
		switch s.by[n] = 0; n.Op.Name() {
		case "neg":
			scaled = true
		case "div":
			scaled = v.Type.DType.IsFloat() && s.isNumber(n.Inputs[1])
		case "mul":
			if scaled = s.isNumber(n.Inputs[1]); !scaled {
				s.by[n], scaled = 1, s.isNumber(n.Inputs[0])
			}
		}
		if !scaled {
			return false
		}
		s.scale = append(s.scale, n)
		v = n.Inputs[s.by[n]]
	}
	return false
}

// isNumber reports whether v is one number.
func (s *scaledScatter) isNumber(v *ir.Value) bool { return len(v.Type.Shape) == 0 }

// factors scales the updates as the scatter's result was.
func (s *scaledScatter) factors(b *ir.Builder) *ir.Value {
	updates := s.node.Inputs[2]
	for _, n := range slices.Backward(s.scale) {
		inputs := slices.Clone(n.Inputs)
		inputs[s.by[n]] = updates
		updates = b.Op(n.Op.Name(), n.Attrs, inputs...)
	}
	return updates
}

// isZeros reports whether every element of v is 0: v is a constant, or expands one.
func isZeros(v *ir.Value) bool {
	for e := producer(v, "expand"); e != nil; e = producer(v, "expand") {
		v = e.Inputs[0]
	}
	c, ok := uniform(v)
	return ok && c == 0
}
