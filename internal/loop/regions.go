package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// axis is one axis of a buffer in a storage: its extent, and the step between neighbours, both in elements.
type axis struct{ extent, step sym.Expr }

// mergedAxes describes shape and strides by as few axes as possible: it drops axes with one element, and merges
// neighbours that are one axis in memory.
func mergedAxes(dims *sym.Dims, shape, strides []sym.Expr) []axis {
	var axes []axis // the innermost first
	for i := len(shape) - 1; i >= 0; i-- {
		if one, ok := shape[i].Const(); ok && one == 1 {
			continue
		}
		if last := len(axes) - 1; last >= 0 && dims.EQ(strides[i], axes[last].step.Mul(axes[last].extent)) == sym.Yes {
			axes[last].extent = axes[last].extent.Mul(shape[i])
			continue
		}
		axes = append(axes, axis{shape[i], strides[i]})
	}
	slices.Reverse(axes)
	return axes
}

// Regrouped returns the strides that give a buffer of shape to the same elements, in the same order, as strides give
// shape. It returns nil if no strides do, or if that cannot be proved.
func Regrouped(dims *sym.Dims, shape, strides, to []sym.Expr) []sym.Expr {
	axes := mergedAxes(dims, shape, strides)
	result := make([]sym.Expr, len(to))
	// next is the step of an axis with one element, within the used extent of the last merged axis.
	next, within := sym.Const(1), sym.Const(1)
	for i := len(to) - 1; i >= 0; i-- {
		if n, ok := to[i].Const(); ok && n == 1 {
			result[i] = next
			continue
		}
		if len(axes) == 0 {
			return nil
		}
		last := axes[len(axes)-1]
		result[i] = last.step.Mul(within)
		next = result[i].Mul(to[i])
		if within = within.Mul(to[i]); dims.EQ(within, last.extent) == sym.Yes {
			axes, within = axes[:len(axes)-1], sym.Const(1)
		}
	}
	if n, ok := within.Const(); len(axes) > 0 || !ok || n != 1 {
		return nil
	}
	return result
}

// region is the set of a storage's elements that a buffer in it has.
type region struct {
	offset sym.Expr
	axes   []axis
}

// regionOf returns the region of a buffer in its root's storage.
func regionOf(dims *sym.Dims, b *Buffer) region {
	// The order of elements does not matter here: the axes are sorted by step, widest first, as far as steps can be
	// compared.
	var shape, strides []sym.Expr
	for i, step := range stridesOf(b) {
		if n, ok := b.Shape[i].Const(); ok && n == 1 {
			continue
		}
		at := len(strides)
		for at > 0 && !strides[at-1].Equal(step) && dims.LE(strides[at-1], step) == sym.Yes {
			at--
		}
		shape, strides = slices.Insert(shape, at, b.Shape[i]), slices.Insert(strides, at, step)
	}
	r := region{axes: mergedAxes(dims, shape, strides)}
	for ; b.View != nil; b = b.View.Of {
		r.offset = r.offset.Add(b.View.Offset)
	}
	return r
}

// alike returns the axes of two regions, matched by step: if one region lacks an axis, that axis is added with extent
// 1.
func alike(dims *sym.Dims, a, b region) (x, y []axis, ok bool) {
	x, y = slices.Clone(a.axes), slices.Clone(b.axes)
	for i := 0; i < max(len(x), len(y)); i++ {
		same := i < len(x) && i < len(y) && dims.EQ(x[i].step, y[i].step) == sym.Yes
		switch {
		case same:
		case len(x) < len(y):
			x = slices.Insert(x, i, axis{sym.Const(1), y[i].step})
		case len(y) < len(x):
			y = slices.Insert(y, i, axis{sym.Const(1), x[i].step})
		default:
			return nil, nil, false
		}
	}
	return x, y, true
}

// united returns two regions as one; ok is false unless the second follows the first along one axis.
func united(dims *sym.Dims, a, b region) (region, bool) {
	x, y, ok := alike(dims, a, b)
	if !ok {
		return region{}, false
	}
	joined := -1
	for i := range x {
		follows := dims.EQ(a.offset.Add(x[i].extent.Mul(x[i].step)), b.offset) == sym.Yes
		if dims.EQ(x[i].extent, y[i].extent) != sym.Yes || follows && joined < 0 {
			if joined >= 0 || !follows {
				return region{}, false
			}
			joined = i
		}
	}
	if joined < 0 {
		// Both are columns of one element, side by side.
		if step, ok := b.offset.Sub(a.offset).Const(); !ok || step != 1 {
			return region{}, false
		}
		joined = len(x)
		x, y = append(x, axis{sym.Const(1), sym.Const(1)}), append(y, axis{sym.Const(1), sym.Const(1)})
	}
	x[joined].extent = dims.Simplify(x[joined].extent.Add(y[joined].extent))
	var shape, strides []sym.Expr
	for _, r := range x {
		shape, strides = append(shape, r.extent), append(strides, r.step)
	}
	return region{a.offset, mergedAxes(dims, shape, strides)}, true
}

// within reports whether region a is proved to lie in b: their extents may differ along one axis at most.
func (a region) within(dims *sym.Dims, b region) bool {
	x, y, ok := alike(dims, a, b)
	if !ok {
		return false
	}
	begin := a.offset.Sub(b.offset)
	differs := 0
	for i := range x {
		if dims.EQ(x[i].extent, y[i].extent) == sym.Yes {
			continue
		}
		differs++
		start := begin
		if n, ok := x[i].step.Const(); !ok || n != 1 {
			start = begin.FloorDiv(x[i].step)
		}
		if dims.EQ(start.Mul(x[i].step), begin) != sym.Yes || dims.LE(sym.Const(0), start) != sym.Yes ||
			dims.LE(start.Add(x[i].extent), y[i].extent) != sym.Yes {
			return false
		}
	}
	return differs == 1 || differs == 0 && dims.EQ(begin, sym.Const(0)) == sym.Yes
}

// regions are the written regions of a storage of which some elements are not written yet. Adjacent regions
// are merged.
type regions []region

// with returns the list with r added, merged with the regions next to it and without those inside it.
func (p regions) with(dims *sym.Dims, r region) regions {
	list := slices.Clone(p)
	for i := 0; i < len(list); i++ {
		union, ok := united(dims, list[i], r)
		if !ok {
			union, ok = united(dims, r, list[i])
		}
		if ok || list[i].within(dims, r) {
			if ok {
				r = union
			}
			list = slices.Delete(list, i, i+1)
			i = -1
		}
	}
	return append(list, r)
}
