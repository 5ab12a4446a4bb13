package live

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// AlignUp rounds a number of bytes up to a multiple of memplan.DefaultAlign: the alignment of buffers in the arena, of
// packed weights, and of an artefact's weights.
func AlignUp(n int64) int64 {
	return (n + memplan.DefaultAlign - 1) / memplan.DefaultAlign * memplan.DefaultAlign
}

// BytesOf returns the size in bytes of a number of elements of b's type.
func BytesOf(b *loop.Buffer, elements sym.Expr) sym.Expr {
	bits := int64(b.DType.Bits())
	if bits%8 == 0 {
		return elements.Mul(sym.Const(bits / 8))
	}
	return elements.Mul(sym.Const(bits)).CeilDiv(sym.Const(8))
}

// ScratchOf returns the most bytes of scratch that any of the kernels needs per worker, with data dimensions at their
// limits. A kernel without tiles needs none.
func ScratchOf(m *loop.Module, kernels []target.Kernel) sym.Expr {
	var order []string
	groups := map[string][]sym.Expr{}
	factors := map[string]sym.Expr{}
	for _, k := range kernels {
		scratch := k.ScratchFormula()
		if n, ok := scratch.Const(); ok && n == 0 {
			continue
		}
		factor := runs(m, k.TilesFormula())
		key := factor.String()
		if factors[key] = factor; groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], scratch)
	}
	all := []sym.Expr{sym.Const(0)}
	for _, key := range order {
		all = append(all, sym.AtLimits(sym.MaxOf(groups[key]...).Mul(factors[key]), m.Limits))
	}
	return m.Dims.Simplify(sym.MaxOf(all...))
}

// runs returns an expression that is 1 if a kernel with this number of tiles runs, and 0 if it has none: a product of
// min(1, d) over the dimensions that can make the number of tiles 0, or min(1, tiles) if these do not determine it. A
// number of tiles that data decide counts as positive unless a dimension is 0, because it may be 0 at the limits only.
func runs(m *loop.Module, tiles sym.Expr) sym.Expr {
	lo, hi := m.Dims.Bounds(tiles)
	switch {
	case hi <= 0:
		return sym.Const(0)
	case lo >= 1:
		return sym.Const(1)
	}
	factor := sym.Const(1)
	some := m.Dims.Clone()
	limited := false
	for _, name := range tiles.Vars() {
		limit, ok := m.Limits[name]
		limited = limited || ok && !sym.IsUnlimited(limit)
		r, _ := m.Dims.Get(name)
		none := tiles.Subst(func(other sym.Name) (sym.Expr, bool) { return sym.Const(0), other == name })
		if _, most := m.Dims.Bounds(none); r.Min <= 0 && most <= 0 {
			factor = factor.Mul(sym.Var(name).Max(sym.Const(0)).Min(sym.Const(1)))
			some.Set(name, sym.Range{Min: 1, Max: max(r.Max, 1)})
		}
	}
	if least, _ := some.Bounds(tiles); least < 1 && !limited {
		factor = tiles.Max(sym.Const(0)).Min(sym.Const(1))
	}
	return m.Dims.Simplify(factor)
}

// Late reports whether a root buffer's size has no bound before the run has decided it.
func Late(m *loop.Module, b *loop.Buffer) bool {
	if b.View != nil || b.Kind == loop.Input || b.Kind == loop.Weight {
		return false
	}
	_, err := AtLimits(m, b)
	return err != nil
}

// AtLimits returns a buffer's size in bytes over the inputs' dimensions, with data dimensions at their limits. It
// returns an error if the size has no bound, or one above mostAtLimit.
func AtLimits(m *loop.Module, b *loop.Buffer) (sym.Expr, error) {
	size := BytesOf(b, sym.Product(b.Shape...))
	limit, most := AtMost(m, size)
	for _, name := range limit.Vars() {
		if _, data := m.Limits[name]; data {
			return size, unbounded(b, size)
		}
	}
	if size.Equal(limit) {
		return size, nil
	}
	if lo, _ := m.Dims.Bounds(limit); lo > mostAtLimit {
		return size, unbounded(b, size)
	}
	if most {
		return limit, nil
	}
	if limit = Largest(m, size); limit.Equal(size) {
		return size, unbounded(b, size)
	}
	return limit, nil
}

// mostAtLimit is the largest size in bytes that is planned for a buffer whose size data decide.
const mostAtLimit = 1 << 38

// unbounded returns the error of a buffer whose size has no bound.
func unbounded(b *loop.Buffer, size sym.Expr) error {
	return diag.Unsupportedf("the data decide the size of %s, %s bytes, and nothing bounds it", b.Name, size).
		AtTensor(b.Source).WithFix("declare a range for the dimension")
}

// AtMost returns a size with data dimensions at their limits; ok is whether this is proved to be an upper bound.
func AtMost(m *loop.Module, size sym.Expr) (limit sym.Expr, ok bool) {
	if limit, ok = m.Decided().Largest(size, m.Dims); ok {
		return limit, true
	}
	limit = sym.AtLimits(size, m.Limits)
	return limit, m.Dims.LE(size, limit) == sym.Yes
}

// Largest returns an upper bound of a size for all values of the data dimensions: the size with these at their minima,
// if that is proved to be a bound, else a constant; the size itself if no bound is proved.
func Largest(m *loop.Module, size sym.Expr) sym.Expr {
	least := size.Subst(func(name sym.Name) (sym.Expr, bool) {
		r, _ := m.Dims.Get(name)
		_, decided := m.Limits[name]
		return sym.Const(r.Min), decided
	})
	if m.Dims.LE(size, least) == sym.Yes {
		return least
	}
	if _, most := m.Dims.Bounds(size); most <= mostAtLimit {
		return sym.Const(most)
	}
	return size
}
