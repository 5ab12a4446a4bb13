package array

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Span is a range of elements of an axis, made by Slice.
type Span struct{ begin, end, step int }

// Slice selects the elements of an axis from begin up to but excluding end, every step-th; the default step is 1. A
// negative begin or end counts from the end of the axis; both may lie outside of it. With a negative step the order is
// reversed: begin is the first and highest index, and end lies below the last: Slice(End, Begin, -1) is the entire axis
// backwards.
func Slice(begin, end int, step ...int) Span {
	p := Span{begin, end, 1}
	if len(step) > 0 {
		p.step = step[0]
	}
	return p
}

// Begin and End are the ends of an axis of any extent, in a Slice.
const (
	Begin = math.MinInt
	End   = math.MaxInt
)

// All selects an entire axis.
var All = Slice(Begin, End)

// marker is NewAxis or Ellipsis.
type marker int

// The markers that an index may contain.
const (
	// NewAxis adds an axis of extent 1.
	NewAxis marker = iota
	// Ellipsis selects all axes that are left entirely.
	Ellipsis
)

// item is one entry of an index, with the array's axis that it applies to.
type item struct {
	kind   itemKind
	axis   int
	number int      // single
	span   Span     // span
	begin  sym.Expr // single and span: the first selected element
	extent sym.Expr
	array  *Array // several
}

// itemKind is the kind of an entry: an integer, a Slice, NewAxis or an array.
type itemKind int

const (
	single itemKind = iota
	span
	fresh
	several
)

// items reads an index of x. Masks are replaced by arrays of the positions where they are true; made lists these, for
// the caller to close.
func (s *Scope) items(x *Array, at []any) (list []item, made []*Array, err error) {
	used, dots := 0, -1
	for i, p := range at {
		switch p := p.(type) {
		case int, Span:
			used++
		case marker:
			if p == Ellipsis && dots >= 0 {
				return nil, nil, diag.Inputf("an index with two ellipses")
			} else if p == Ellipsis {
				dots = i
			}
		case *Array:
			if p.dead(s, "index") {
				return nil, nil, s.Err()
			}
			if used++; p.dtype == weir.Bool && !p.weak {
				used += len(p.shape) - 1
			}
		default:
			return nil, nil, diag.Inputf("an index of type %T", p).
				WithFix("int, Slice, All, NewAxis, Ellipsis and *Array index an axis")
		}
	}
	if used > len(x.shape) {
		return nil, nil, diag.Inputf("an index of %d axes for %v", used, x)
	}
	if dots < 0 {
		at = append(at[:len(at):len(at)], Ellipsis)
	}
	axis := 0
	for _, p := range at {
		switch p := p.(type) {
		case int:
			list = append(list, item{kind: single, axis: axis, number: p})
			axis++
		case Span:
			list = append(list, item{kind: span, axis: axis, span: p})
			axis++
		case marker:
			if p == NewAxis {
				list = append(list, item{kind: fresh})
				continue
			}
			for range len(x.shape) - used {
				list = append(list, item{kind: span, axis: axis, span: All})
				axis++
			}
		case *Array:
			arrays, err := s.positions(x, p, axis)
			if err != nil {
				return nil, made, err
			}
			if p.dtype == weir.Bool {
				made = append(made, arrays...)
			}
			for _, a := range arrays {
				list = append(list, item{kind: several, axis: axis, array: a})
				axis++
			}
		}
	}
	for i := range list {
		if err := s.resolve(x, &list[i]); err != nil {
			return nil, made, err
		}
	}
	return list, made, nil
}

// positions returns the arrays of integers for an array of an index: for a mask, one for each of its axes.
func (s *Scope) positions(x, p *Array, axis int) ([]*Array, error) {
	if p.weak || p.dtype != weir.Bool {
		if p.weak || !p.dtype.IsInt() {
			return nil, wrongType(p, "integers or bools")
		}
		return []*Array{p}, nil
	}
	for i, e := range p.shape {
		if e != x.shape[axis+i] {
			return nil, diag.Inputf("a mask %v for axis %d of %v", p, axis, x)
		}
	}
	list := s.Nonzero(p)
	if s.failed() {
		return nil, s.Err()
	}
	return list, nil
}

// resolve checks an entry against x's shape, and finds the elements that it selects.
func (s *Scope) resolve(x *Array, p *item) error {
	if p.kind == fresh || p.kind == several {
		return nil
	}
	extents, err := s.extents(x.shape[p.axis : p.axis+1])
	if err != nil {
		return err
	}
	n, known := extents[0].Const()
	if p.kind == single && known && (int64(p.number) >= n || int64(p.number) < -n) {
		return diag.Inputf("index %d of axis %d of %v", p.number, p.axis, x)
	}
	if p.kind == span && p.span.step == 0 {
		return diag.Inputf("a slice in steps of 0")
	}
	s.elements(p, extents[0])
	return nil
}

// elements sets the elements that an entry selects from an axis.
func (s *Scope) elements(p *item, extent sym.Expr) {
	switch p.kind {
	case single:
		p.begin, p.extent = sym.Const(int64(p.number)), one
		if p.number < 0 {
			p.begin = p.begin.Add(extent)
		}
	case span:
		p.begin, p.extent = s.cut(p.span, extent)
	}
}

// itemsOf returns an index's entries for an array of another shape.
func (s *Scope) itemsOf(list []item, shape []sym.Expr) []item {
	out := append([]item(nil), list...)
	for i := range out {
		if out[i].kind != fresh {
			s.elements(&out[i], shape[out[i].axis])
		}
	}
	return out
}

// cut returns the first element and the number of elements that a Slice selects.
func (s *Scope) cut(p Span, extent sym.Expr) (begin, length sym.Expr) {
	low, high, step := sym.Const(0), extent, int64(p.step)
	if step < 0 {
		low, high = sym.Const(-1), extent.Sub(one)
	}
	at := func(i int) sym.Expr {
		switch {
		case i == Begin:
			return low
		case i == End:
			return high
		}
		e := sym.Const(int64(i))
		if s.trace != nil && i < 0 {
			if named, ok := s.trace.expr(i); ok {
				return named.Max(low).Min(high)
			}
		}
		if i < 0 {
			e = e.Add(extent)
		}
		return e.Max(low).Min(high)
	}
	begin = at(p.begin)
	way := at(p.end).Sub(begin)
	if step < 0 {
		way, step = way.Neg(), -step
	}
	return begin, way.CeilDiv(sym.Const(step)).Max(sym.Const(0))
}

// itemsKey returns the numbers of an index that determine its code; its arrays are operands.
func itemsKey(list []item) []int {
	var out []int
	for _, p := range list {
		out = append(out, int(p.kind), p.axis, p.number, p.span.begin, p.span.end, p.span.step)
	}
	return out
}

// arraysIn returns the arrays of an index.
func arraysIn(list []item) []*Array {
	var out []*Array
	for _, p := range list {
		if p.kind == several {
			out = append(out, p.array)
		}
	}
	return out
}

// indexValue builds Index; v are the values of the index's arrays.
func indexValue(b *ir.Builder, x *ir.Value, list []item, v []*ir.Value) *ir.Value {
	x = cutItems(b, x, list)
	if len(v) == 0 {
		return shaped(b, x, list, nil, 0)
	}
	// If an index has arrays, an integer counts as an array.
	var axes []int64
	var indices []*ir.Value
	for _, p := range list {
		switch p.kind {
		case several:
			axes, indices, v = append(axes, int64(p.axis)), append(indices, wideIndex(b, v[0])), v[1:]
		case single:
			axes, indices = append(axes, int64(p.axis)), append(indices, ops.Scalar(b, weir.I64, 0))
		}
	}
	first, beside := meeting(list)
	y, count := gathered(b, x, axes, indices)
	if !beside {
		first = 0
	} else if first > 0 { // the gathered axes come after those in front of the first array
		perm := make([]int64, 0, len(y.Type.Shape))
		for i := range first {
			perm = append(perm, int64(count+i))
		}
		for i := range count {
			perm = append(perm, int64(i))
		}
		for i := count + first; i < len(y.Type.Shape); i++ {
			perm = append(perm, int64(i))
		}
		y = ops.Transpose(b, y, perm...)
	}
	return shaped(b, y, list, y.Type.Shape[first:first+count], first)
}

// cutItems selects the elements that the integers and Slices of an index select.
func cutItems(b *ir.Builder, x *ir.Value, list []item) *ir.Value {
	begin, extent, step := make([]sym.Expr, len(x.Type.Shape)), append([]sym.Expr(nil), x.Type.Shape...),
		make([]int64, len(x.Type.Shape))
	all := true
	for i := range step {
		step[i] = 1
	}
	for _, p := range list {
		if p.kind != single && p.kind != span || p.kind == span && p.span == All {
			continue
		}
		if p.kind == single {
			for _, cond := range []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: p.begin},
				{A: p.begin.Add(one), Rel: sym.LE, B: x.Type.Shape[p.axis]}} {
				if err := b.RequireOf(b.Source, "index", 0, cond, "an index lies within its axis"); err != nil {
					b.Fail(err)
				}
			}
		}
		all = false
		begin[p.axis], extent[p.axis] = b.Dims().Simplify(p.begin), b.Dims().Simplify(p.extent)
		if p.kind == span {
			step[p.axis] = int64(p.span.step)
		}
		if n, known := extent[p.axis].Const(); known && n == 0 {
			begin[p.axis], step[p.axis] = sym.Const(0), 1
		}
	}
	if all {
		return x
	}
	return ops.Slice(b, x, begin, extent, step)
}

// meeting returns the number of axes of the result in front of the first array, and whether arrays and integers are
// adjacent in the index.
func meeting(list []item) (first int, beside bool) {
	began, ended := false, false
	beside = true
	for _, p := range list {
		if p.kind == several || p.kind == single {
			beside = beside && !ended
			began = true
			continue
		}
		ended = began
		if !began && p.kind == span {
			first++
		}
	}
	return first, beside
}

// gathered selects the elements at tuples of positions along axes. The result has the positions' axes, count of them,
// followed by the other axes.
func gathered(b *ir.Builder, x *ir.Value, axes []int64, indices []*ir.Value) (y *ir.Value, count int) {
	perm, rank := append([]int64(nil), axes...), len(x.Type.Shape)
	for i := range rank {
		if !containsAxis(axes, int64(i)) {
			perm = append(perm, int64(i))
		}
	}
	x = ops.Transpose(b, x, perm...)
	if len(indices) == 1 {
		return ops.Gather(b, x, indices[0], 0), len(indices[0].Type.Shape)
	}
	tuples := tupled(b, indices)
	return ops.GatherND(b, x, tuples, 0), len(tuples.Type.Shape) - 1
}

// containsAxis reports whether a list has an axis.
func containsAxis(axes []int64, axis int64) bool {
	for _, a := range axes {
		if a == axis {
			return true
		}
	}
	return false
}

// tupled broadcasts positions and joins them along a new last axis.
func tupled(b *ir.Builder, indices []*ir.Value) *ir.Value {
	var out []*ir.Value
	for _, v := range indices {
		for _, other := range indices {
			v = ops.Expand(b, v, other.Type.Shape...)
		}
		out = append(out, ops.Reshape(b, v, append(append([]sym.Expr(nil), v.Type.Shape...), one)...))
	}
	return ops.Concat(b, int64(len(out[0].Type.Shape)-1), joint(b, out)...)
}

// shaped gives the selected elements the shape of Index's result: without the axes of integers, with new axes. taken
// are the arrays' axes, which y has from first on.
func shaped(b *ir.Builder, y *ir.Value, list []item, taken []sym.Expr, first int) *ir.Value {
	var shape []sym.Expr
	arrays := len(arraysIn(list)) > 0
	_, beside := meeting(list)
	rest := append(append([]sym.Expr(nil), y.Type.Shape[:first]...), y.Type.Shape[first+len(taken):]...)
	put := false
	if arrays && !beside {
		shape, put = append(shape, taken...), true
	}
	for _, p := range list {
		switch p.kind {
		case fresh:
			shape = append(shape, one)
		case span:
			shape, rest = append(shape, rest[0]), rest[1:]
		case single:
			if !arrays {
				rest = rest[1:]
				continue
			}
			if !put {
				shape, put = append(shape, taken...), true
			}
		case several:
			if !put {
				shape, put = append(shape, taken...), true
			}
		}
	}
	return ops.Reshape(b, y, shape...)
}
