package convert

import (
	"reflect"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// The two branches of a choice by an extent mostly compute the same numbers: their tensors differ in axes of extent 1.
// Then the branch for any extent is computed instead of the choice, so that a run takes no branch, and the program's
// memory, code and weights are those of one variant.

// chosen returns the results of the branch that cond selects.
func (c *Call) chosen(cond *ir.Value, sides [2]*side) []*ir.Value {
	results := [2][]*ir.Value{sides[0].block.Results, sides[1].block.Results}
	out := make([]*ir.Value, len(results[0]))
	var left []int
	for k := range out {
		if out[k] = c.unchosen(cond, sides, results[0][k], results[1][k]); out[k] == nil {
			left = append(left, k)
		}
	}
	if len(left) == 0 {
		return out
	}
	for i, s := range sides {
		s.block.Results = nil
		for _, k := range left {
			s.block.Results = append(s.block.Results, results[i][k])
		}
	}
	for i, v := range ops.If(c.Builder, cond, sides[1].block, sides[0].block) {
		out[left[i]] = v
	}
	return out
}

// unchosen returns a result of a choice as a value that is computed without the choice; nil if there is none.
func (c *Call) unchosen(cond *ir.Value, sides [2]*side, x, y *ir.Value) *ir.Value {
	fact, ok := comparison(cond, true)
	general := sides[0]
	if _, _, fixed := fixes(fact); !fixed {
		x, y, general = y, x, sides[1]
		fact, ok = comparison(cond, false)
	}
	bind, fixed := binding(fact)
	if !ok || !fixed || len(cond.Known) != 1 {
		return nil
	}
	if x.Known != nil && len(x.Known) == len(y.Known) && x.Type.DType == dtype.I64 &&
		slices.EqualFunc(x.Type.Shape, y.Type.Shape, sym.Expr.Equal) && !c.decides(general, x.Known, y.Known) {
		truth, list := cond.Known[0], make([]sym.Expr, len(x.Known))
		if general == sides[1] {
			truth = sym.Const(1).Sub(truth)
		}
		for i, e := range x.Known {
			list[i] = e.Add(truth.Mul(y.Known[i].Sub(e)))
		}
		return ops.Integers(c.Builder, x.Type, list)
	}
	h := hoist{c: c, bind: bind, general: general.block, same: map[[2]*ir.Value]bool{}}
	special := sides[0]
	if general == sides[0] {
		special = sides[1]
	}
	h.special = special.block
	if !h.admits(general, special) {
		return nil
	}
	if !slices.EqualFunc(x.Type.Shape, y.Type.Shape, sym.Expr.Equal) || !h.equal(x, y) {
		return nil
	}
	h.move(x)
	return x
}

// decides reports whether expressions have dimensions that data decide in one of the branches.
func (c *Call) decides(s *side, lists ...[]sym.Expr) bool {
	return slices.ContainsFunc(slices.Concat(lists...), func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool {
			_, decided := c.Module.Limits[name]
			_, outside := s.limits[name]
			return decided && !outside
		})
	})
}

// hoist compares values of two branches: general, and special, in which bind gives a dimension its value.
type hoist struct {
	c                *Call
	bind             func(name sym.Name) (sym.Expr, bool)
	special, general *ir.Block
	same             map[[2]*ir.Value]bool
}

// admits reports whether the conditions of general hold in special, given those of special.
func (h *hoist) admits(general, special *side) bool {
	at := func(c sym.Cond) sym.Cond { return sym.Cond{A: c.A.Subst(h.bind), Rel: c.Rel, B: c.B.Subst(h.bind)} }
	for _, r := range general.requires[general.before:] {
		cond := at(r.Cond)
		if h.c.Dims().Prove(cond) != sym.Yes && !slices.ContainsFunc(special.requires, func(s ir.Require) bool {
			return at(s.Cond).String() == cond.String()
		}) {
			return false
		}
	}
	return true
}

// equal reports whether x, in general, has the elements of y, in special, whenever special is taken. Their shapes may
// differ in axes of extent 1.
func (h *hoist) equal(x, y *ir.Value) bool {
	x, y = viewed(x), viewed(y)
	if x == y {
		return !within(h.general, x) && !within(h.special, x)
	}
	key := [2]*ir.Value{x, y}
	same, done := h.same[key]
	if !done {
		h.same[key] = false
		same = h.compare(x, y)
		h.same[key] = same
	}
	return same
}

// compare is equal for values that are no views.
func (h *hoist) compare(x, y *ir.Value) bool {
	if x.Type.DType != y.Type.DType || !slices.EqualFunc(h.wide(x), h.wide(y), sym.Expr.Equal) {
		return false
	}
	if x.Const != nil && y.Const != nil {
		return x.Const.DType() == y.Const.DType() && slices.Equal(x.Const.Bytes(), y.Const.Bytes()) &&
			x.Const.DType() != dtype.String
	}
	m, n := x.Node, y.Node
	if m == nil || n == nil || m.Op.Name() != n.Op.Name() || len(m.Inputs) != len(n.Inputs) || len(m.Regions) > 0 ||
		slices.Index(m.Outputs, x) != slices.Index(n.Outputs, y) || ops.Of(m).Op == "" || stateful(m) {
		return false
	}
	exact, axes := true, alongAxes(m.Op.Name()) || m.Op.Name() == "slice"
	for i, a := range m.Inputs {
		b := n.Inputs[i]
		if (a == nil) != (b == nil) {
			return false
		}
		if a == nil {
			continue
		}
		if !h.equal(a, b) {
			return false
		}
		exact = exact && slices.EqualFunc(h.bound(a.Type.Shape), h.bound(b.Type.Shape), sym.Expr.Equal)
		axes = axes && slices.EqualFunc(h.wide(a), h.wide(b), sym.Expr.Equal)
	}
	switch {
	case exact:
		return h.attributes(m.Attrs, n.Attrs)
	case ops.Elementwise(m) || m.Op.Name() == "expand":
		return h.aligned(x, y) && h.attributes(others(m.Attrs, "shape"), others(n.Attrs, "shape"))
	case axes && m.Op.Name() == "slice":
		return h.attributes(h.sections(m), h.sections(n))
	case axes && len(m.Inputs) > 0:
		return h.along(m) != nil && slices.Equal(h.along(m), h.along(n)) &&
			h.attributes(others(m.Attrs, "axis", "axes"), others(n.Attrs, "axis", "axes"))
	}
	return false
}

// stateful reports whether an operator draws random numbers: two of them are not one.
func stateful(n *ir.Node) bool { return strings.HasPrefix(n.Op.Name(), "random") }

// alongAxes reports whether an operator works along the axes of its attribute axis or axes, and on each vector, or
// matrix, of them alone.
func alongAxes(op string) bool {
	return strings.HasPrefix(op, "reduce_") || slices.Contains([]string{"softmax", "log_softmax", "concat", "normalize",
		"gather", "cumsum"}, op)
}

// others returns the attributes other than the named ones.
func others(a ir.Attrs, without ...string) ir.Attrs {
	out := ir.Attrs{}
	for name, value := range a {
		if !slices.Contains(without, name) {
			out[name] = value
		}
	}
	return out
}

// sections returns the attributes of a slice for the axes whose extent in special is not 1.
func (h *hoist) sections(n *ir.Node) ir.Attrs {
	var begin, extent []sym.Expr
	var step []int64
	a := n.Attrs
	for axis, e := range h.bound(n.Inputs[0].Type.Shape) {
		first, size := a.Exprs("begin")[axis], a.Exprs("extent")[axis]
		if e.Equal(sym.Const(1)) && first.Subst(h.bind).Equal(sym.Const(0)) && size.Subst(h.bind).Equal(e) {
			continue
		}
		begin, extent, step = append(begin, first), append(extent, size), append(step, a.Ints("step")[axis])
	}
	return ir.Attrs{"begin": begin, "extent": extent, "step": step}
}

// along returns the axes along which an operator works, counted without axes of extent 1; nil if one of them has
// extent 1.
func (h *hoist) along(n *ir.Node) []int64 {
	axes := n.Attrs.Ints("axes")
	if _, one := n.Attrs["axis"]; one {
		axes = []int64{n.Attrs.Int("axis", 0)}
	}
	shape := h.bound(n.Inputs[0].Type.Shape)
	var out []int64
	for _, axis := range axes {
		if axis < 0 || axis >= int64(len(shape)) || shape[axis].Equal(sym.Const(1)) {
			return nil
		}
		at := int64(0)
		for _, e := range shape[:axis] {
			if !e.Equal(sym.Const(1)) {
				at++
			}
		}
		out = append(out, at)
	}
	return out
}

// bound returns a shape in special.
func (h *hoist) bound(shape []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(shape))
	for i, e := range shape {
		out[i] = e.Subst(h.bind)
	}
	return out
}

// wide returns the extents of a value in special that are not 1.
func (h *hoist) wide(v *ir.Value) []sym.Expr {
	return slices.DeleteFunc(h.bound(v.Type.Shape), func(e sym.Expr) bool { return e.Equal(sym.Const(1)) })
}

// aligned reports whether the operands of two elementwise operators are repeated alike along the axes of their results
// that are not 1.
func (h *hoist) aligned(x, y *ir.Value) bool {
	columns := func(v *ir.Value) (out []sym.Expr) {
		shape := h.bound(v.Type.Shape)
		for i, e := range shape {
			if e.Equal(sym.Const(1)) {
				continue
			}
			for _, in := range v.Node.Inputs {
				if in == nil {
					continue
				}
				extent := sym.Const(1)
				if at := i - len(shape) + len(in.Type.Shape); at >= 0 {
					extent = in.Type.Shape[at].Subst(h.bind)
				}
				out = append(out, extent)
			}
		}
		return out
	}
	return slices.EqualFunc(columns(x), columns(y), sym.Expr.Equal)
}

// attributes reports whether attributes are equal in special.
func (h *hoist) attributes(a, b ir.Attrs) bool {
	if len(a) != len(b) {
		return false
	}
	for name, x := range a {
		y, has := b[name]
		if !has {
			return false
		}
		switch v := x.(type) {
		case sym.Expr:
			w, is := y.(sym.Expr)
			if !is || !v.Subst(h.bind).Equal(w.Subst(h.bind)) {
				return false
			}
		case []sym.Expr:
			w, is := y.([]sym.Expr)
			if !is || !slices.EqualFunc(h.bound(v), h.bound(w), sym.Expr.Equal) {
				return false
			}
		case *tensor.Tensor:
			if w, is := y.(*tensor.Tensor); !is || v != w {
				return false
			}
		default:
			if !reflect.DeepEqual(x, y) {
				return false
			}
		}
	}
	return true
}

// move moves the nodes and constants that compute a value out of the general branch.
func (h *hoist) move(v *ir.Value) {
	if !within(h.general, v) {
		return
	}
	outer := h.c.Builder.Block
	if at := slices.Index(h.general.Consts, v); at >= 0 {
		h.general.Consts = slices.Delete(h.general.Consts, at, at+1)
		outer.Consts = append(outer.Consts, v)
		return
	}
	n := v.Node
	for _, in := range n.Inputs {
		if in != nil {
			h.move(in)
		}
	}
	at := slices.Index(h.general.Nodes, n)
	h.general.Nodes = slices.Delete(h.general.Nodes, at, at+1)
	outer.Nodes = append(outer.Nodes, n)
}

// viewed returns the value whose elements v has under another shape.
func viewed(v *ir.Value) *ir.Value {
	for v.Node != nil && (v.Node.Op.Name() == "reshape" || v.Node.Op.Name() == "concat" && len(v.Node.Inputs) == 1) {
		v = v.Node.Inputs[0]
	}
	return v
}

// within reports whether a block has or computes a value.
func within(b *ir.Block, v *ir.Value) bool {
	return slices.Contains(b.Params, v) || slices.Contains(b.Consts, v) ||
		v.Node != nil && slices.Contains(b.Nodes, v.Node)
}
