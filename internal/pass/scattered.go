package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// Scattered adds updates to what they are added to in the end: x − rate · (0 … with updates added at indices) is x with −rate · updates added at the indices, so that neither time nor memory is
// spent on what no index names. The results differ by the order of sums; a factor that is not finite changes what the indices name, and not what is 0 without them.
func Scattered(m *ir.Module) error { return apply(m, scattered) }

var scattered = []rule{
	{"sum with what is scattered", []string{"add", "sub"}, sumWithScattered},
}

func sumWithScattered(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	for i, v := range n.Inputs {
		onto := n.Inputs[1-i]
		if shape := n.Outputs[0].Type.Shape; n.Op.Name() == "sub" && i == 0 || !sameShape(r.Dims(), onto.Type.Shape, shape) || !sameShape(r.Dims(), v.Type.Shape, shape) {
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

// scaledScatter is a scatter that adds to zeros, and the nodes that scale its result by one number each, the last one first.
type scaledScatter struct {
	r     *rewriting
	node  *ir.Node
	scale []*ir.Node
	by    map[*ir.Node]int // which operand of a node of scale is scaled
}

// reads finds the scatter behind a value.
func (s *scaledScatter) reads(v *ir.Value) bool {
	for s.r.inside(v) {
		n := v.Node
		switch name := n.Op.Name(); {
		case name == "scatter_nd" || name == "scatter_elements":
			s.node = n
			return n.Attrs.String("reduction", "none") == "add" && isZeros(n.Inputs[0])
		case name == "neg":
			s.by[n] = 0
		case name == "mul" && s.isNumber(n.Inputs[1]) || name == "div" && v.Type.DType.IsFloat() && s.isNumber(n.Inputs[1]):
			s.by[n] = 0
		case name == "mul" && s.isNumber(n.Inputs[0]):
			s.by[n] = 1
		default:
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

// isZeros reports whether every element of v is a constant 0, or what is expanded from one.
func isZeros(v *ir.Value) bool {
	for e := producer(v, "expand"); e != nil; e = producer(v, "expand") {
		v = e.Inputs[0]
	}
	c, ok := uniform(v)
	return ok && c == 0
}
