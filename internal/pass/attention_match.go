package pass

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// scores is the state of a match that goes from a softmax back to the product of queries and keys.
type scores struct {
	r             *rewriting
	b             *ir.Builder
	scale         float64
	cap           float64
	softmax       dtype.DType
	keep          []*ir.Value // masks of bools
	drop          []bool      // by mask: it is true for the keys that are hidden
	bias          []*ir.Value // masks that are added
	causal        bool
	past          sym.Expr
	fill          float64
	filled        bool
	blank         bool // weights that are NaN become 0
	queries, keys sym.Expr
	product       *ir.Node
	joined        *ir.Node // the reshape of the product if heads were joined for it
}

// weights follows v, which must be a softmax along the last axis, back to the scores; false if it does not match.
func (s *scores) weights(v *ir.Value) bool {
	dt := v.Type.DType
	if c := producer(v, "cast"); c != nil && s.r.inside(v) {
		v = c.Inputs[0]
	}
	uses := 1
	if w := s.blanked(v); w != nil {
		v, s.blank, uses = w, true, 2
	}
	n := producer(v, "softmax")
	rank := int64(len(v.Type.Shape))
	if n == nil || s.r.uses[v] != uses || s.r.owner[n] != s.r.block || rank < 3 {
		return false
	}
	if axis := n.Attrs.Int("axis", -1); axis != -1 && axis != rank-1 {
		return false
	}
	s.queries, s.keys = v.Type.Shape[rank-2], v.Type.Shape[rank-1]
	x := n.Inputs[0]
	if v.Type.DType != dt {
		c := producer(x, "cast")
		if c == nil || !s.r.inside(x) || c.Inputs[0].Type.DType != dt {
			return false
		}
		s.softmax, x = v.Type.DType, c.Inputs[0]
	}
	return s.follow(x, 0)
}

// blanked returns the weights that v is a copy of with 0 instead of NaN; nil if v is something else.
func (s *scores) blanked(v *ir.Value) *ir.Value {
	n := producer(v, "where")
	if n == nil || !s.r.inside(v) {
		return nil
	}
	test := producer(n.Inputs[0], "isnan")
	if zero, ok := uniform(n.Inputs[1]); test == nil || !s.r.inside(n.Inputs[0]) || !ok || zero != 0 ||
		test.Inputs[0] != n.Inputs[2] {
		return nil
	}
	return n.Inputs[2]
}

// masksMost is the largest number of masks in a row.
const masksMost = 4

// follow goes from the scores back through masks and scales to the product; false if it does not match.
func (s *scores) follow(v *ir.Value, depth int) bool {
	if !s.r.inside(v) || depth > 2*masksMost+4 {
		return false
	}
	n := v.Node
	switch n.Op.Name() {
	case "matmul":
		s.product = n
		return n.Attrs.DType("dtype") == dtype.Invalid
	case "reshape":
		if s.joined != nil || producer(n.Inputs[0], "matmul") == nil {
			return false
		}
		s.joined = n
		return s.follow(n.Inputs[0], depth+1)
	case "mul":
		for i, in := range n.Inputs {
			if x, ok := uniform(in); ok && x != 0 {
				return s.scaled(n.Inputs[1-i], x, depth+1)
			}
		}
	case "div":
		if x, ok := uniform(n.Inputs[1]); ok && x != 0 {
			return s.scaled(n.Inputs[0], 1/x, depth+1)
		}
	case "scaled_tanh":
		alpha, beta := n.Attrs.Float("alpha", 1), n.Attrs.Float("beta", 1)
		if s.cap != 0 || s.scale != 1 || alpha <= 0 || !near(v.Type.DType, alpha*beta, 1) {
			return false
		}
		s.cap = alpha
		return s.follow(n.Inputs[0], depth+1)
	case "add":
		if s.masked() {
			return false
		}
		for i, in := range n.Inputs {
			before := *s
			if s.leads(in, 0) && s.add(n.Inputs[1-i]) && s.follow(in, depth+1) {
				return true
			}
			*s = before
		}
	case "where":
		for i := 1; i <= 2; i++ {
			before := *s
			if fill, ok := s.filling(n.Inputs[3-i]); ok && !s.masked() && s.leads(n.Inputs[i], 0) &&
				s.choose(n.Inputs[0], i == 2, fill) && s.follow(n.Inputs[i], depth+1) {
				return true
			}
			*s = before
		}
	}
	return false
}

// scaled notes the factor x of the scores v, as a scale or as their cap, and follows v.
func (s *scores) scaled(v *ir.Value, x float64, depth int) bool {
	caps := producer(v, "tanh")
	if caps != nil && s.cap == 0 && s.r.inside(v) && x > 0 && s.scale == 1 {
		s.cap, v = x, caps.Inputs[0]
	}
	s.scale *= x
	return s.follow(v, depth)
}

// operand returns an operand of a product without its scale, with its last two axes swapped if swap is true.
func (s *scores) operand(v *ir.Value, swap bool) *ir.Value {
	v = s.peel(v)
	if !swap {
		return v
	}
	perm := make([]int64, len(v.Type.Shape))
	for i := range perm {
		perm[i] = int64(i)
	}
	last := len(perm) - 1
	perm[last-1], perm[last] = int64(last), int64(last-1)
	if t := producer(v, "transpose"); t != nil {
		return turned(s.b, t.Inputs[0], composed(perm, permutation(t)))
	}
	return ops.Transpose(s.b, v, perm...)
}

// peel removes a scale from queries or keys, and multiplies s.scale by it.
func (s *scores) peel(v *ir.Value) *ir.Value {
	if !s.r.inside(v) {
		return v
	}
	n := v.Node
	for i, in := range n.Inputs {
		x, ok := uniform(in)
		if ok && x != 0 && n.Op.Name() == "mul" {
			s.scale *= x
			return s.peel(n.Inputs[1-i])
		}
		if ok && x != 0 && n.Op.Name() == "div" && i == 1 {
			s.scale /= x
			return s.peel(n.Inputs[0])
		}
	}
	return v
}
