package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// stretch is one axis of what lies in a storage: so many elements, so many elements apart.
type stretch struct{ extent, step sym.Expr }

// runsOf is shape and strides with as few axes as say the same: axes of one element are left out, and neighbours that
// lie in memory as one axis are one.
func runsOf(dims *sym.Dims, shape, strides []sym.Expr) []stretch {
	var runs []stretch // the innermost first
	for i := len(shape) - 1; i >= 0; i-- {
		if one, ok := shape[i].Const(); ok && one == 1 {
			continue
		}
		if last := len(runs) - 1; last >= 0 && dims.EQ(strides[i], runs[last].step.Mul(runs[last].extent)) == sym.Yes {
			runs[last].extent = runs[last].extent.Mul(shape[i])
			continue
		}
		runs = append(runs, stretch{shape[i], strides[i]})
	}
	slices.Reverse(runs)
	return runs
}

// Regrouped is the strides of a buffer of shape to whose elements, in order, are those that lie at strides along shape.
// It is nil if no strides give them, or none that can be proved to.
func Regrouped(dims *sym.Dims, shape, strides, to []sym.Expr) []sym.Expr {
	runs := runsOf(dims, shape, strides)
	result := make([]sym.Expr, len(to))
	next, within := sym.Const(1), sym.Const(1) // the step of an axis of one element; how much of the last run is used
	for i := len(to) - 1; i >= 0; i-- {
		if n, ok := to[i].Const(); ok && n == 1 {
			result[i] = next
			continue
		}
		if len(runs) == 0 {
			return nil
		}
		last := runs[len(runs)-1]
		result[i] = last.step.Mul(within)
		next = result[i].Mul(to[i])
		if within = within.Mul(to[i]); dims.EQ(within, last.extent) == sym.Yes {
			runs, within = runs[:len(runs)-1], sym.Const(1)
		}
	}
	if n, ok := within.Const(); len(runs) > 0 || !ok || n != 1 {
		return nil
	}
	return result
}

// region is the elements of a storage that a buffer in it has.
type region struct {
	offset sym.Expr
	runs   []stretch
}

// regionOf is where a buffer's elements lie in its root's storage.
func regionOf(dims *sym.Dims, b *Buffer) region {
	// In which order elements are counted does not matter: the widest steps come first, as far as they can be told apart.
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
	r := region{runs: runsOf(dims, shape, strides)}
	for ; b.View != nil; b = b.View.Of {
		r.offset = r.offset.Add(b.View.Offset)
	}
	return r
}

// alike are the runs of two regions, axis by axis: one that the first lacks is of one element there.
func alike(dims *sym.Dims, a, b region) (x, y []stretch, ok bool) {
	x, y = slices.Clone(a.runs), slices.Clone(b.runs)
	for i := 0; i < max(len(x), len(y)); i++ {
		same := i < len(x) && i < len(y) && dims.EQ(x[i].step, y[i].step) == sym.Yes
		switch {
		case same:
		case len(x) < len(y):
			x = slices.Insert(x, i, stretch{sym.Const(1), y[i].step})
		case len(y) < len(x):
			y = slices.Insert(y, i, stretch{sym.Const(1), x[i].step})
		default:
			return nil, nil, false
		}
	}
	return x, y, true
}

// united is two regions as one, where the second follows the first along one axis.
func united(dims *sym.Dims, a, b region) (region, bool) {
	x, y, ok := alike(dims, a, b)
	if !ok {
		return region{}, false
	}
	axis := -1
	for i := range x {
		follows := dims.EQ(a.offset.Add(x[i].extent.Mul(x[i].step)), b.offset) == sym.Yes
		if dims.EQ(x[i].extent, y[i].extent) != sym.Yes || follows && axis < 0 {
			if axis >= 0 || !follows {
				return region{}, false
			}
			axis = i
		}
	}
	if axis < 0 {
		// Columns of one element, side by side.
		if step, ok := b.offset.Sub(a.offset).Const(); !ok || step != 1 {
			return region{}, false
		}
		axis = len(x)
		x, y = append(x, stretch{sym.Const(1), sym.Const(1)}), append(y, stretch{sym.Const(1), sym.Const(1)})
	}
	x[axis].extent = dims.Simplify(x[axis].extent.Add(y[axis].extent))
	var shape, strides []sym.Expr
	for _, r := range x {
		shape, strides = append(shape, r.extent), append(strides, r.step)
	}
	return region{a.offset, runsOf(dims, shape, strides)}, true
}

// within reports whether a region is proved to lie in another: the same along all axes but one, at most.
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

// parts are the regions of a storage that were written, while they are not the whole: those that follow one another are
// one.
type parts []region

func (p parts) with(dims *sym.Dims, r region) parts {
	list := slices.Clone(p)
	for i := 0; i < len(list); i++ {
		whole, ok := united(dims, list[i], r)
		if !ok {
			whole, ok = united(dims, r, list[i])
		}
		if ok || list[i].within(dims, r) {
			if ok {
				r = whole
			}
			list = slices.Delete(list, i, i+1)
			i = -1
		}
	}
	return append(list, r)
}
