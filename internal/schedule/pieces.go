package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// piece is one nest of a kernel whose nests write disjoint boxes of its only result: the offset and the extents of the
// box along the result's axes.
type piece struct {
	nest           loop.Stmt
	begin, extents []sym.Expr
	source         int   // the parameter copied into the box, each element once; −1 if the nest does anything else
	axes           []int // for each axis of the source, the result's axis that it runs along; −1 for one element
}

// pieces returns the pieces of a kernel that only writes boxes of one result; nil if it does more, or copies nothing.
func (s *scheduler) pieces(k *loop.Kernel) (out int, list []*piece) {
	out = -1
	for i, p := range k.Params {
		if p.Access == loop.Read {
			continue
		}
		if out >= 0 || p.Access != loop.Write {
			return -1, nil
		}
		out = i
	}
	if out < 0 || k.Params[out].DType.Bits()%8 != 0 || neverRuns(k) {
		return -1, nil
	}
	moves := false
	for _, stmt := range k.Body {
		p := s.piece(k, out, stmt)
		if p == nil {
			return -1, nil
		}
		moves = moves || p.source >= 0
		list = append(list, p)
	}
	if !moves || !s.consecutive(list) {
		return -1, nil
	}
	return out, list
}

// piece returns a nest as a box of the result; nil for other nests.
func (s *scheduler) piece(k *loop.Kernel, out int, nest loop.Stmt) *piece {
	to := k.Params[out]
	p := &piece{nest: nest, source: -1}
	var store *loop.Store
	loops := map[sym.Name]*loop.For{}
	for a := range loop.EachAccess([]loop.Stmt{nest}) {
		if a.Buffer != to.Name {
			continue
		}
		found, ok := a.Stmt.(*loop.Store)
		if !ok || !a.Write || a.Mask != nil || store != nil {
			return nil
		}
		store = found
		for _, f := range a.Loops {
			if f.Kind != loop.Each {
				return nil
			}
			loops[f.Var] = f
		}
	}
	if store == nil {
		return nil
	}
	axisOf := map[sym.Name]int{}
	for axis, e := range store.Index {
		begin, extent := e, one
		for _, name := range e.Vars() {
			if f := loops[name]; f != nil {
				factor, rest, linear := e.Linear(name)
				if _, again := axisOf[name]; again || !linear || !isOne(factor) || !s.overDimensions(f.Extent) {
					return nil
				}
				axisOf[name] = axis
				begin, extent = rest, f.Extent
			}
		}
		if !s.overDimensions(begin) {
			return nil
		}
		p.begin, p.extents = append(p.begin, begin), append(p.extents, extent)
	}
	if len(axisOf) != len(loops) {
		return nil
	}
	p.source, p.axes = s.copiedEntirely(k, nest, store, loops, axisOf)
	return p
}

// overDimensions reports whether an expression contains only the module's dimensions.
func (s *scheduler) overDimensions(e sym.Expr) bool {
	return !slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, ok := s.dims.Get(name); return !ok })
}

// copiedEntirely returns the index of the parameter of which a nest copies every element once, and for each of its axes
// the result's axis; −1 for other nests.
func (s *scheduler) copiedEntirely(k *loop.Kernel, nest loop.Stmt, store *loop.Store, loops map[sym.Name]*loop.For,
	axisOf map[sym.Name]int) (int, []int) {
	load, ok := store.X.(*loop.Load)
	if !ok || load.Mask != nil {
		return -1, nil
	}
	for body := []loop.Stmt{nest}; ; {
		if len(body) != 1 {
			return -1, nil
		}
		f, ok := body[0].(*loop.For)
		if !ok {
			break // it is the store
		}
		body = f.Body
	}
	source := slices.IndexFunc(k.Params, func(p *loop.Param) bool { return p.Name == load.From })
	if source < 0 {
		return -1, nil
	}
	from, used := k.Params[source], map[sym.Name]bool{}
	var axes []int
	for axis, e := range load.Index {
		if isZero(e) && isOne(from.Shape[axis]) {
			axes = append(axes, -1)
			continue
		}
		name, ok := e.Name()
		if !ok || loops[name] == nil || used[name] || !s.equal(loops[name].Extent, from.Shape[axis]) {
			return -1, nil
		}
		used[name] = true
		axes = append(axes, axisOf[name])
	}
	if len(used) != len(loops) {
		return -1, nil
	}
	return source, axes
}

// consecutive reports whether boxes follow each other along one axis.
func (s *scheduler) consecutive(list []*piece) bool {
	for axis := range list[0].begin {
		disjoint := true
		for i, p := range list[:len(list)-1] {
			disjoint = disjoint && s.dims.LE(p.begin[axis].Add(p.extents[axis]), list[i+1].begin[axis]) == sym.Yes
		}
		if disjoint {
			return true
		}
	}
	return len(list) == 1
}

// layout says at which offset in the storage of a root, and with which strides, the elements of a buffer lie.
type layout struct {
	root    *loop.Buffer
	offset  sym.Expr
	strides []sym.Expr
}

// layoutOf returns the layout of a buffer.
func layoutOf(b *loop.Buffer) layout {
	at := layout{root: b.Root(), strides: loop.RowMajor(b.Shape)}
	if b.View != nil && b.View.Strides != nil {
		at.strides = b.View.Strides
	}
	for ; b.View != nil; b = b.View.Of {
		at.offset = at.offset.Add(b.View.Offset)
	}
	return at
}

// box returns the layout of a piece of a result, along the result's axes.
func (at layout) box(p *piece) layout {
	for axis, begin := range p.begin {
		at.offset = at.offset.Add(begin.Mul(at.strides[axis]))
	}
	return at
}

// under returns the strides of a layout for another shape; ok is false if there are none.
func (s *scheduler) under(at layout, shape, to []sym.Expr) (layout, bool) {
	at.strides = loop.Regrouped(s.dims, shape, at.strides, to)
	return at, at.strides != nil
}

// along returns a layout of a result's box as one with the axes of the source that is copied there.
func (at layout) along(p *piece, shape []sym.Expr) layout {
	strides, next := make([]sym.Expr, len(p.axes)), one
	for axis := len(p.axes) - 1; axis >= 0; axis-- {
		if p.axes[axis] >= 0 {
			next = at.strides[p.axes[axis]]
		}
		strides[axis], next = next, next.Mul(shape[axis])
	}
	at.strides = strides
	return at
}

// sameLayout reports whether two layouts of a shape are the same.
func (s *scheduler) sameLayout(a, b layout, shape []sym.Expr) bool {
	if a.root != b.root || !s.equal(a.offset, b.offset) {
		return false
	}
	for i := range shape {
		if !isOne(shape[i]) && !s.equal(a.strides[i], b.strides[i]) {
			return false
		}
	}
	return true
}
