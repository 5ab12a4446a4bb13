package live

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// AlignUp rounds a number of bytes up to a multiple of memplan.DefaultAlign: the alignment of buffers in the arena, of
// packed weights, and of an artefact's parts.
func AlignUp(n int64) int64 {
	return (n + memplan.DefaultAlign - 1) / memplan.DefaultAlign * memplan.DefaultAlign
}

// BytesOf is the size of so many elements of b's type.
func BytesOf(b *loop.Buffer, elements sym.Expr) sym.Expr {
	bits := int64(b.DType.Bits())
	if bits%8 == 0 {
		return elements.Mul(sym.Const(bits / 8))
	}
	return elements.Mul(sym.Const(bits)).CeilDiv(sym.Const(8))
}

// ScratchOf is the most that any kernel wants of a worker's scratch: at the limits of what data decide. A kernel
// without tiles is not run, and wants none.
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

// runs is 1 if a kernel of so many tiles has some, and 0 if it has none: a product of min(1, d) for dimensions that
// decide it by themselves, else of the number of tiles. Tiles whose number data decide, within a limit, count as if
// there were some unless a dimension is 0: at the limit there may be fewer.
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

// Late reports whether nothing bounds a root buffer's size before the run has decided it.
func Late(m *loop.Module, b *loop.Buffer) bool {
	if b.View != nil || b.Kind == loop.Input || b.Kind == loop.Weight {
		return false
	}
	_, err := AtLimits(m, b)
	return err != nil
}

// AtLimits is a buffer's size in bytes over the inputs' dimensions: what data decide is taken at its limit.
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

// mostAtLimit is the largest size, in bytes, that is planned for because data might decide it.
const mostAtLimit = 1 << 38

func unbounded(b *loop.Buffer, size sym.Expr) error {
	return diag.Unsupportedf("the data decide the size of %s, %s bytes, and nothing bounds it", b.Name, size).
		AtTensor(b.Source).WithFix("declare a range for the dimension")
}

// monotone reports whether a size grows with each dimension that data decide.
func monotone(m *loop.Module, size sym.Expr) bool {
	for _, name := range size.Vars() {
		if limit, data := m.Limits[name]; !data || sym.IsUnlimited(limit) {
			continue
		}
		coef, _, linear := size.Linear(name)
		if !linear || m.Dims.LE(sym.Const(0), coef) != sym.Yes {
			return false
		}
	}
	return true
}

// AtMost is a size with what a run decides at its limits, where that is proved to be no less.
func AtMost(m *loop.Module, size sym.Expr) (limit sym.Expr, ok bool) {
	limit = sym.AtLimits(size, m.Limits)
	return limit, size.Equal(limit) || m.Dims.LE(size, limit) == sym.Yes || monotone(m, size)
}

// Largest is no less than a size, whatever the run decides: the size where that is at its least, or a number; the size
// itself where neither is proved, so that the run has to see.
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
