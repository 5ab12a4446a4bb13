package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Rotary recognises rotary position embedding that a model spells out: pairs of elements, from the two halves of the
// last axis or neighbours in it, are rotated by angles. There is a cosine and a sine for each pair, or for each
// element, and then both elements of a pair have the same.
func Rotary(m *ir.Module) error { return apply(m, rotary) }

var rotary = []rule{
	{"rotary by halves", []string{"add"}, found(spread(as("turned", op("concat", op("neg", half(1)), half(0)))),
		turnedBy(false))},
	{"rotary by neighbours", []string{"add"},
		found(spread(op("reshape", as("turned", op("concat", op("reshape", op("neg", neighbour(1))),
			op("reshape", neighbour(0)))))), turnedBy(true))},
	{"rotary of halves", []string{"concat"}, found(as("turned", op("concat", real(half), imaginary(half))),
		turnedWith(false))},
	{"rotary of neighbours", []string{"reshape"},
		found(op("reshape", as("turned", op("concat", op("reshape", real(neighbour)), op("reshape", imaginary(neighbour))))),
			turnedWith(true))},
}

// spread matches x · C + turned · S. turned has the elements of each pair of x exchanged, and the first one negated.
func spread(turned pattern) pattern {
	return both("add", both("mul", the("x"), the("cos")), both("mul", turned, the("sin")))
}

// real matches the first elements of rotated pairs; element matches the first or second elements of x's pairs.
func real(element func(which int64) pattern) pattern {
	return op("sub", both("mul", element(0), the("cos")), both("mul", element(1), the("sin")))
}

// imaginary matches the second elements of rotated pairs.
func imaginary(element func(which int64) pattern) pattern {
	return both("add", both("mul", element(0), the("sin")), both("mul", element(1), the("cos")))
}

// half matches the first or second half of x along its last axis.
func half(which int64) pattern {
	return where(op("slice", the("x")), func(m *match, v *ir.Value) bool {
		x, n := m.value("x"), v.Node
		last := len(v.Type.Shape) - 1
		h := v.Type.Shape[last]
		d := m.r.Dims()
		return steps(n) && alike(d, n, last) && d.EQ(h.Mul(sym.Const(2)), x.Type.Shape[last]) == sym.Yes &&
			d.EQ(n.Attrs.Exprs("begin")[last], h.Mul(sym.Const(which))) == sym.Yes
	})
}

// neighbour matches every other element of x along its last axis, from the first or second on: by steps of 2, or as a
// column of pairs.
func neighbour(which int64) pattern {
	stepped := where(op("slice", the("x")), func(m *match, v *ir.Value) bool {
		n, last := v.Node, len(v.Type.Shape)-1
		step, begin := n.Attrs.Ints("step"), n.Attrs.Exprs("begin")[last]
		for i, s := range step {
			if s != map[bool]int64{true: 2, false: 1}[i == last] {
				return false
			}
		}
		d := m.r.Dims()
		return alike(d, n, last) && begin.Equal(sym.Const(which)) && d.EQ(v.Type.Shape[last].Mul(sym.Const(2)),
			m.value("x").Type.Shape[last]) == sym.Yes
	})
	column := where(op("reshape", op("slice", op("reshape", the("x")))), func(m *match, v *ir.Value) bool {
		x, slice := m.value("x"), v.Node.Inputs[0].Node
		pairs := slice.Inputs[0].Type.Shape
		last, d := len(x.Type.Shape)-1, m.r.Dims()
		paired := append(slices.Clone(x.Type.Shape[:last]), v.Type.Shape[len(v.Type.Shape)-1], sym.Const(2))
		return len(v.Type.Shape) == last+1 && sameShape(d, pairs, paired) && sameShape(d, v.Type.Shape, paired[:last+1]) &&
			steps(slice) && alike(d, slice, last+1) &&
			isOne(slice.Outputs[0].Type.Shape[last+1]) && slice.Attrs.Exprs("begin")[last+1].Equal(sym.Const(which))
	})
	return either(stepped, column)
}

// alike reports whether a slice takes all elements along every axis except but.
func alike(d *sym.Dims, n *ir.Node, but int) bool {
	for i, begin := range n.Attrs.Exprs("begin") {
		if i != but && (!begin.Equal(sym.Const(0)) || d.EQ(n.Outputs[0].Type.Shape[i],
			n.Inputs[0].Type.Shape[i]) != sym.Yes) {
			return false
		}
	}
	return true
}

// joins reports whether the matched concatenation joins the elements of x's pairs in their order: halves along the last
// axis, or neighbours along a new axis after it.
func joins(m *match, interleaved bool) bool {
	n, x := m.value("turned").Node, m.value("x")
	rank := len(x.Type.Shape)
	axis, want := int(n.Attrs.Int("axis", 0)), rank-1
	if interleaved {
		want = rank
		if len(n.Outputs[0].Type.Shape) != rank+1 || !isOne(n.Inputs[0].Type.Shape[rank]) ||
			!isOne(n.Inputs[1].Type.Shape[rank]) {
			return false
		}
	}
	if axis < 0 {
		axis += len(n.Outputs[0].Type.Shape)
	}
	return axis == want
}

// turnedWith builds the rotation by cosines and sines of the pairs.
func turnedWith(interleaved bool) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value {
		if !joins(m, interleaved) {
			return nil
		}
		return ops.RotateNode(b, m.value("x"), m.value("cos"), m.value("sin"), interleaved)
	}
}

// turnedBy builds the rotation by cosines and sines of the elements; nil unless both elements of each pair have the
// same.
func turnedBy(interleaved bool) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value {
		if !joins(m, interleaved) {
			return nil
		}
		h := &halving{Builder: b, r: m.r, once: (*halving).halves, found: map[*ir.Value]*ir.Value{}}
		if interleaved {
			h.once = (*halving).neighbours
		}
		cos, sin := h.of(m.value("cos"), 0), h.of(m.value("sin"), 0)
		if cos == nil || sin == nil {
			return nil
		}
		return ops.RotateNode(b, m.value("x"), cos, sin, interleaved)
	}
}

// halvedDeepest is the longest chain of operations that is followed back to the node that doubles the elements.
const halvedDeepest = 12

// halving computes values again with half as many elements, from the values before they were doubled.
type halving struct {
	*ir.Builder
	r     *rewriting
	once  func(h *halving, v *ir.Value) *ir.Value // the value that v doubles; nil if v doubles none
	found map[*ir.Value]*ir.Value
}

// of returns v with one element of each pair of its last axis; nil if the two elements are not certain to be equal.
func (h *halving) of(v *ir.Value, depth int) *ir.Value {
	if x, seen := h.found[v]; seen {
		return x
	}
	x := h.once(h, v)
	if x == nil {
		x = h.follow(v, depth)
	}
	h.found[v] = x
	return x
}

// follow is of for a value that is computed from doubled values.
func (h *halving) follow(v *ir.Value, depth int) *ir.Value {
	b := h.Builder
	rank := len(v.Type.Shape)
	if v.Const != nil || v.Node == nil || depth > halvedDeepest || rank == 0 || len(v.Node.Outputs) != 1 {
		return nil
	}
	n := v.Node
	last := v.Type.Shape[rank-1]
	smaller := last.FloorDiv(sym.Const(2))
	follow := func(x *ir.Value) *ir.Value { return h.of(x, depth+1) }
	switch name := n.Op.Name(); {
	case ops.Elementwise(n):
		in := make([]*ir.Value, len(n.Inputs))
		for i, x := range n.Inputs {
			if k := len(x.Type.Shape); k == 0 || isOne(x.Type.Shape[k-1]) {
				in[i] = x
			} else if in[i] = follow(x); in[i] == nil {
				return nil
			}
		}
		return b.Op(name, n.Attrs, in...)
	case name == "reshape":
		x := n.Inputs[0]
		if k := len(x.Type.Shape); k == 0 || b.Dims().EQ(x.Type.Shape[k-1], last) != sym.Yes {
			return nil
		}
		if x = follow(x); x != nil {
			return ops.Reshape(b, x, append(slices.Clone(v.Type.Shape[:rank-1]), smaller)...)
		}
	case name == "transpose" && permutation(n)[rank-1] == int64(rank-1):
		if x := follow(n.Inputs[0]); x != nil {
			return ops.Transpose(b, x, permutation(n)...)
		}
	case name == "gather" && n.Attrs.Int("axis", 0) == 0 && len(n.Inputs[0].Type.Shape) > 1:
		if x := follow(n.Inputs[0]); x != nil {
			return b.Op(name, n.Attrs, x, n.Inputs[1])
		}
	case name == "slice" && steps(n) && n.Attrs.Exprs("begin")[rank-1].Equal(sym.Const(0)) &&
		b.Dims().EQ(n.Inputs[0].Type.Shape[rank-1], last) == sym.Yes:
		if x := follow(n.Inputs[0]); x != nil {
			return ops.Slice(b, x, n.Attrs.Exprs("begin"), append(slices.Clone(v.Type.Shape[:rank-1]), smaller),
				n.Attrs.Ints("step"))
		}
	}
	return nil
}

// halves returns the value that both halves of v's last axis hold; nil if v is something else.
func (h *halving) halves(v *ir.Value) *ir.Value {
	b, rank := h.Builder, len(v.Type.Shape)
	if n := producer(v, "concat"); n != nil && len(n.Inputs) == 2 && n.Inputs[0] == n.Inputs[1] {
		if axis := n.Attrs.Int("axis", 0); axis == int64(rank-1) || axis == -1 {
			return n.Inputs[0]
		}
	}
	if size := doubled(v); size > 0 && h.twins("twin halves", v, size, func(i, h int64) int64 {
		return i%h + i/h*2*h
	}, func(i, h int64) int64 { return i%h + i/h*2*h + h }) {
		return ops.SliceAxis(b, v, rank-1, sym.Const(0), sym.Const(size/2))
	}
	return nil
}

// neighbours returns the value whose every element v has twice, side by side; nil if v is something else.
func (h *halving) neighbours(v *ir.Value) *ir.Value {
	b, rank := h.Builder, len(v.Type.Shape)
	if n := producer(v, "reshape"); n != nil {
		e := producer(n.Inputs[0], "expand")
		if e == nil || len(e.Outputs[0].Type.Shape) != rank+1 || len(e.Inputs[0].Type.Shape) != rank+1 ||
			!isOne(e.Inputs[0].Type.Shape[rank]) {
			return nil
		}
		from, to := e.Inputs[0].Type.Shape, e.Outputs[0].Type.Shape
		if !to[rank].Equal(sym.Const(2)) || !sameShape(b.Dims(), from[:rank], to[:rank]) ||
			!sameShape(b.Dims(), to[:rank-1], v.Type.Shape[:rank-1]) {
			return nil
		}
		return ops.Reshape(b, e.Inputs[0], from[:rank]...)
	}
	if size := doubled(v); size > 0 && h.twins("twin neighbours", v, size, func(i, _ int64) int64 {
		return 2 * i
	}, func(i, _ int64) int64 { return 2*i + 1 }) {
		step := slices.Repeat([]int64{1}, rank)
		step[rank-1] = 2
		return ops.Slice(b, v, make([]sym.Expr, rank), append(slices.Clone(v.Type.Shape[:rank-1]), sym.Const(size/2)), step)
	}
	return nil
}

// doubled returns the extent of a constant's last axis if it is even; 0 otherwise, and if v is no constant of floats.
func doubled(v *ir.Value) int64 {
	if v.Const == nil || v.Const.Rank() == 0 || v.Const.Len() == 0 || !v.Type.DType.IsFloat() || v.Const.Len() > 1<<24 {
		return 0
	}
	size := v.Const.Shape()[v.Const.Rank()-1]
	if size%2 != 0 {
		return 0
	}
	return size
}

// twins reports whether the two elements of each pair of a constant are equal; first and second return the flat indices
// of the i-th pair, with h pairs in a row.
func (h *halving) twins(what string, v *ir.Value, size int64, first, second func(i, h int64) int64) bool {
	_, same := h.r.about(what, v, func() (sym.Expr, bool) {
		for i := range v.Const.Len() / 2 {
			if v.Const.Float(first(i, size/2)) != v.Const.Float(second(i, size/2)) {
				return sym.Expr{}, false
			}
		}
		return sym.Expr{}, true
	})
	return same
}
