package array

import (
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Index returns the elements of x that an index selects. The index has, for each of x's axes in turn, one of:
//
//	int       one element; negative numbers count from the end. The result does not have the axis
//	Slice     a range of elements: see Slice
//	All       the entire axis
//	*Array    of integers: the elements with these numbers; several arrays are broadcast and traversed together
//	*Array    of bools: the elements for which they are true; it covers as many axes as the array has
//
// NewAxis adds an axis. Ellipsis stands for all axes that are left, which are selected entirely; so are axes after the
// end of the index. The axes of arrays replace the first indexed axis, or come in front if a Slice stands between two
// arrays. Data decide how many elements bools select: in a trace that extent is named.
func (s *Scope) Index(x *Array, at ...any) *Array {
	if !s.ready("index", []*Array{x}) {
		return s.none(1)[0]
	}
	list, made, err := s.items(x, at)
	defer s.end(made)
	if err != nil {
		return s.refuse("index", err)
	}
	arrays := arraysIn(list)
	if s.movable(x) && len(arrays) == 0 {
		return s.window(x, list)
	}
	if s.movable(x) {
		if x, list, err = s.cutFirst(x, list); err != nil {
			return s.refuse("index", err)
		}
	}
	return s.op("index", itemsKey(list), func(b *ir.Builder, v []*ir.Value) *ir.Value {
		return indexValue(b, v[0], s.itemsOf(list, v[0].Type.Shape), v[1:])
	}, append([]*Array{x}, arrays...)...)
}

// cutFirst applies an index's numbers and slices immediately. The index that is left has arrays only, so that its code
// can be reused for all values of the numbers.
func (s *Scope) cutFirst(x *Array, list []item) (*Array, []item, error) {
	var parts, rest []item
	some := false
	for _, p := range list {
		rest = append(rest, p)
		if p.kind == fresh {
			continue
		}
		if p.kind == several || p.kind == span && p.span == All {
			p.kind, p.span = span, All
		} else {
			some = true
			rest[len(rest)-1].number, rest[len(rest)-1].span = 0, All
		}
		if p.kind == single { // its axis stays: beside arrays a number is one of them
			n, _ := p.begin.Const()
			p.kind, p.span = span, Slice(int(n), int(n)+1)
		}
		parts = append(parts, p)
	}
	if !some {
		return x, list, nil
	}
	for i := range parts {
		if err := s.resolve(x, &parts[i]); err != nil {
			return nil, nil, err
		}
	}
	y := s.window(x, parts)
	if s.failed() {
		return nil, nil, s.Err()
	}
	y.temp = true
	for i := range rest {
		if err := s.resolve(y, &rest[i]); err != nil {
			return nil, nil, err
		}
	}
	return y, rest, nil
}

// end closes arrays that an operation made for itself, outside a trace.
func (s *Scope) end(made []*Array) {
	for _, a := range made {
		if s.trace == nil {
			a.Close()
		}
	}
}

// target describes the memory positions of the elements that an index selects, in the order of the index's result. Each
// axis of the result has a stride, except the count axes from group on: their offsets are in a table.
type target struct {
	shape   []int
	strides []int
	begin   int
	group   int
	count   int   // the number of axes of the group
	table   []int // the group's offsets in row-major order; nil: there is no group
}

// window returns the elements of x at an index without arrays.
func (s *Scope) window(x *Array, list []item) *Array {
	t, err := targetOf(x, list)
	if err != nil {
		return s.refuse("index", err)
	}
	y, err := s.empty(x.dtype, t.shape, false)
	if err != nil {
		return s.refuse("index", err)
	}
	move(x.dtype.Size(), t.shape, y.tensor.Bytes(), lay{strides: stridesOf(t.shape)}, x.tensor.Bytes(),
		lay{t.strides, t.begin})
	return y
}

// stridesOf returns the strides of a shape in row-major order, in elements.
func stridesOf(shape []int) []int {
	out, step := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = step
		step *= shape[i]
	}
	return out
}

// targetOf returns the positions of the elements at an index.
func targetOf(x *Array, list []item) (target, error) {
	var t target
	strides := stridesOf(x.shape)
	arrays := arraysIn(list)
	_, beside := meeting(list)
	group, axis := -1, 0
	for _, p := range list {
		step := 0
		switch {
		case p.kind == fresh:
			t.shape, t.strides = append(t.shape, 1), append(t.strides, 0)
			axis++
			continue
		case p.kind == several, p.kind == single && len(arrays) > 0:
			if group < 0 {
				group = axis
			}
			if p.kind == single {
				b, _ := p.begin.Const()
				t.begin += int(b) * strides[p.axis]
			}
			continue
		case p.kind == span:
			step = p.span.step
		}
		begin, _ := p.begin.Const()
		extent, _ := p.extent.Const()
		if extent > 0 {
			t.begin += int(begin) * strides[p.axis]
		}
		if p.kind == span {
			t.shape, t.strides = append(t.shape, int(extent)), append(t.strides, step*strides[p.axis])
			axis++
		}
	}
	if len(arrays) == 0 {
		return t, nil
	}
	if !beside {
		group = 0
	}
	shape, table, err := tableOf(x, list, strides)
	if err != nil {
		return t, err
	}
	t.group, t.count, t.table = group, len(shape), table
	t.shape = slices.Insert(t.shape, group, shape...)
	t.strides = slices.Insert(t.strides, group, make([]int, len(shape))...)
	return t, nil
}

// tableOf returns the broadcast shape of an index's arrays, and the offset that each tuple of their elements selects.
func tableOf(x *Array, list []item, strides []int) (shape, table []int, err error) {
	for _, a := range arraysIn(list) {
		if shape, err = broadcast(shape, a.shape); err != nil {
			return nil, nil, err
		}
	}
	count := 1
	for _, e := range shape {
		count *= e
	}
	table = make([]int, count)
	for _, p := range list {
		if p.kind != several {
			continue
		}
		from, n := readable(p.array), x.shape[p.axis]
		steps := broadcastStrides(p.array.shape, shape)
		i := 0
		walk(shape, steps, 0, func(at int) {
			k := from.Int(int64(at))
			if p.array.dtype.IsSigned() && k < 0 {
				k += int64(n)
			}
			if (k < 0 || k >= int64(n)) && err == nil {
				err = diag.Inputf("index %d of axis %d of %v", from.Int(int64(at)), p.axis, x)
			}
			table[i] += int(k) * strides[p.axis]
			i++
		})
	}
	return shape, table, err
}

// readable returns an array's elements as a tensor.
func readable(a *Array) *tensor.Tensor {
	sizes := make([]int64, len(a.shape))
	for i, e := range a.shape {
		sizes[i] = int64(e)
	}
	return tensor.Must(tensor.Over(a.dtype, sizes, a.tensor.Bytes()))
}

// broadcast returns the common shape that two shapes are broadcast to.
func broadcast(x, y []int) ([]int, error) {
	if len(x) < len(y) {
		x, y = y, x
	}
	out := slices.Clone(x)
	more := len(x) - len(y)
	for i, e := range y {
		switch at := &out[more+i]; {
		case *at == 1:
			*at = e
		case e != 1 && e != *at:
			return nil, diag.Inputf("shapes %v and %v cannot be broadcast", x, y)
		}
	}
	return out, nil
}

// broadcastStrides returns the strides of an array that is broadcast to a shape.
func broadcastStrides(from, shape []int) []int {
	out, strides := make([]int, len(shape)), stridesOf(from)
	more := len(shape) - len(from)
	for i, e := range from {
		if e != 1 {
			out[more+i] = strides[i]
		}
	}
	return out
}

// walk visits the positions begin + Σ index · stride of a shape, in row-major order.
func walk(shape, strides []int, begin int, visit func(at int)) {
	if len(shape) == 0 {
		visit(begin)
		return
	}
	for i := range shape[0] {
		walk(shape[1:], strides[1:], begin+i*strides[0], visit)
	}
}

// Assign writes value, broadcast and converted to x's type, to the elements of x at an index (see Index), and returns
// x. Outside a trace it changes x's elements in place: nobody else may be reading them. In a trace, x represents the
// new elements afterwards; an array of another scope, or in a loop's body or a branch an array from outside of it,
// cannot be assigned to. If an index selects an element twice, either value may remain.
func (s *Scope) Assign(x, value *Array, at ...any) *Array {
	return s.put("assign", x, value, at, false)
}

// AddAt is Assign, but adds value to the elements, once for each time that the index selects an element.
func (s *Scope) AddAt(x, value *Array, at ...any) *Array {
	return s.put("add_at", x, value, at, true)
}

// put is Assign, or AddAt if add is true.
func (s *Scope) put(name string, x, value *Array, at []any, add bool) *Array {
	if !s.ready(name, []*Array{x, value}) {
		return s.none(1)[0]
	}
	list, made, err := s.items(x, at)
	defer s.end(made)
	switch {
	case err != nil:
	case x.weak || x.dtype.IsSubByte() || add && x.dtype == weir.Bool:
		err = diag.Inputf("%v cannot be changed", x)
	case s.trace == nil:
		x.change()
		err = s.putEager(x, value, list, add)
	default:
		err = s.putTraced(name, x, value, list, add)
	}
	if err != nil {
		return s.refuse(name, err)
	}
	return x
}

// putEager writes into x's elements immediately.
func (s *Scope) putEager(x, value *Array, list []item, add bool) error {
	t, err := targetOf(x, list)
	if err != nil {
		return err
	}
	given := value.shape
	for len(given) > len(t.shape) && given[0] == 1 {
		given = given[1:]
	}
	shape, err := broadcast(t.shape, given)
	if err != nil || !slices.Equal(shape, t.shape) {
		return diag.Inputf("%v for a part of shape %v of %v", value, t.shape, x)
	}
	own := value
	switch {
	case value.weak:
		own = s.constant(x.dtype, value.number)
	case value.dtype != x.dtype || overlaps(x, value):
		own = s.Cast(value, x.dtype)
		if own == value || overlaps(x, own) {
			own = s.copied(value)
		}
	}
	if own != value {
		defer own.Close()
	}
	if _, err := own.elements(); err != nil {
		return err
	}
	source := broadcastStrides(given, t.shape)
	if n := x.dtype.Size(); !add && slices.Contains([]int{1, 2, 4, 8, 16}, n) {
		inner := t.shape[t.inside():]
		t.pairs(source, mover(n, inner, x.tensor.Bytes(), t.strides[t.inside():], own.tensor.Bytes(), source[t.inside():]))
		return nil
	}
	t.pairs(source, adder(x.dtype, t.shape[t.inside():], x.tensor.Bytes(), t.strides[t.inside():], own.tensor.Bytes(),
		source[t.inside():]))
	return nil
}

// inside returns the first of the axes that are traversed for each element of the table; 0 if there is no table.
func (t target) inside() int {
	if t.table == nil {
		return 0
	}
	return t.group + t.count
}

// pairs visits the beginning of each block of the inside axes, with the beginning of the same block in an array of
// other strides.
func (t target) pairs(source []int, visit func(to, from int)) {
	if t.table == nil {
		visit(t.begin, 0)
		return
	}
	var outer, inner []int
	walk(t.shape[:t.group], source[:t.group], 0, func(at int) { outer = append(outer, at) })
	walk(t.shape[t.group:t.inside()], source[t.group:t.inside()], 0, func(at int) { inner = append(inner, at) })
	i := 0
	walk(t.shape[:t.group], t.strides[:t.group], t.begin, func(to int) {
		for k, offset := range t.table {
			visit(to+offset, outer[i]+inner[k])
		}
		i++
	})
}

// overlaps reports whether arrays share elements.
func overlaps(x, y *Array) bool {
	p, q := x.tensor.Bytes(), y.tensor.Bytes()
	return len(p) > 0 && len(q) > 0 && &p[0] == &q[0]
}

// putTraced makes x represent its elements with those at an index replaced.
func (s *Scope) putTraced(name string, x, value *Array, list []item, add bool) error {
	t := s.trace
	if x.of != t || !defines(t.b.Block, x.value) {
		return diag.Inputf("%v belongs to a scope outside", x).WithFix("give it to the function, or to the loop as its state")
	}
	y := s.op(name, nil, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		update := ops.Cast(b, v[1], v[0].Type.DType)
		return putValue(b, v[0], update, list, v[2:], add)
	}, append([]*Array{x, value}, arraysIn(list)...)...)
	if s.failed() {
		return s.Err()
	}
	x.value = y.value
	return nil
}

// putValue returns x with update at an index, or added there.
func putValue(b *ir.Builder, x, update *ir.Value, list []item, v []*ir.Value, add bool) *ir.Value {
	reduction := "none"
	if add {
		reduction = "add"
	}
	if y := putRows(b, x, update, list, v, reduction); y != nil {
		return y
	}
	if wide(x, list, v) {
		return putBox(b, x, update, list, add)
	}
	shape := x.Type.Shape
	count := extentsProduct(shape)
	numbers := ops.Reshape(b, ops.Counting(b, weir.I64, count), shape...)
	at := indexValue(b, numbers, list, v)
	n := extentsProduct(at.Type.Shape)
	update = ops.Reshape(b, spread(b, update, at.Type.Shape), n)
	flat := ops.ScatterND(b, ops.Reshape(b, x, count), ops.Reshape(b, at, n, one), update, reduction)
	return ops.Reshape(b, flat, shape...)
}

// wide reports whether an index is a box of at least an eighth of x's elements: writing all of x in one loop is then
// faster than computing the position of each element.
func wide(x *ir.Value, list []item, arrays []*ir.Value) bool {
	share := 1.0
	for _, p := range list {
		if p.kind == fresh {
			continue
		}
		full, extent := x.Type.Shape[p.axis], p.extent
		n, known := full.Const()
		e, fixed := extent.Const()
		switch _, near := full.Sub(extent).Const(); {
		case p.kind == span && p.span.step != 1:
			return false
		case known && fixed && n > 0:
			share *= float64(e) / float64(n)
		case !near:
			return false
		}
	}
	return len(arrays) == 0 && share >= 0.125 && share <= 1
}

// putBox is putValue for a box of x's elements.
func putBox(b *ir.Builder, x, update *ir.Value, list []item, add bool) *ir.Value {
	c, shape := calc{b}, x.Type.Shape
	begin, extents, end := make([]sym.Expr, len(shape)), slices.Clone(shape), make([]sym.Expr, len(shape))
	var result []sym.Expr
	for _, p := range list {
		switch p.kind {
		case fresh:
			result = append(result, one)
			continue
		case span:
			result = append(result, b.Dims().Simplify(p.extent))
		}
		begin[p.axis], extents[p.axis] = b.Dims().Simplify(p.begin), b.Dims().Simplify(p.extent)
	}
	var inside *ir.Value
	for i := range shape {
		if end[i] = b.Dims().Simplify(shape[i].Sub(begin[i]).Sub(extents[i])); extents[i].Equal(shape[i]) {
			continue
		}
		at := ops.Reshape(b, ops.Counting(b, weir.I64, shape[i]),
			append([]sym.Expr{shape[i]}, slices.Repeat([]sym.Expr{one}, len(shape)-1-i)...)...)
		first := ops.Integers(b, ir.Type{DType: weir.I64}, []sym.Expr{begin[i]})
		last := ops.Integers(b, ir.Type{DType: weir.I64}, []sym.Expr{begin[i].Add(extents[i])})
		within := c.g(ops.And, c.g(ops.Ge, at, first), c.g(ops.Lt, at, last))
		if inside == nil {
			inside = within
		} else {
			inside = c.g(ops.And, inside, within)
		}
	}
	y := ops.Reshape(b, spread(b, update, result), extents...)
	y = ops.Pad(b, y, nil, "constant", begin, end)
	if add {
		y = c.add(x, y)
	}
	if inside == nil {
		return y
	}
	return c.where(inside, y, x)
}

// spread broadcasts update to a shape.
func spread(b *ir.Builder, update *ir.Value, shape []sym.Expr) *ir.Value {
	for len(update.Type.Shape) > len(shape) { // leading extents of 1 are dropped
		update = ops.Reshape(b, update, update.Type.Shape[1:]...)
	}
	return ops.Expand(b, update, shape...)
}

// putRows is putValue if arrays index the first axes and all others are selected entirely: it scatters rows. It returns
// nil otherwise.
func putRows(b *ir.Builder, x, update *ir.Value, list []item, v []*ir.Value, reduction string) *ir.Value {
	arrays := 0
	for i, p := range list {
		switch {
		case p.kind == several && arrays == i:
			arrays++
		case p.kind != span || p.span != All || arrays == 0:
			return nil
		}
	}
	if arrays == 0 {
		return nil
	}
	indices := make([]*ir.Value, arrays)
	for i := range indices {
		indices[i] = wideIndex(b, v[i])
	}
	tuples := tupled(b, indices)
	shape := append(append([]sym.Expr(nil), tuples.Type.Shape[:len(tuples.Type.Shape)-1]...), x.Type.Shape[arrays:]...)
	return ops.ScatterND(b, x, tuples, spread(b, update, shape), reduction)
}

// defines reports whether a block defines a value.
func defines(block *ir.Block, v *ir.Value) bool {
	return v.Node != nil && has(block, v.Node) || slices.Contains(block.Params, v) || slices.Contains(block.Consts, v)
}
