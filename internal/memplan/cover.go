package memplan

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// share says that few × one atom is at most many × another at every binding. It is zero if no such numbers are known.
type share struct{ few, many int64 }

// mostShare is the largest number of a share.
const mostShare = 1 << 20

// covered reports whether a sum x is at most a sum y because y's atoms cover x's one by one: from the greatest on, each
// atom of x uses up what it needs of the atoms that are no smaller. The sums of a plan have few atoms, so which of them
// cover which is asked once for all sums.
func (a *algebra) covered(x, y []addend) bool {
	a.work.spend(16 * len(x) * len(y))
	if slices.ContainsFunc(y, func(p addend) bool { return !a.atoms[p.atom].notNegative }) {
		return false
	}
	x, y = slices.Clone(x), slices.Clone(y)
	slices.SortStableFunc(x, func(p, q addend) int {
		return slices.Compare(a.atoms[q.atom].value, a.atoms[p.atom].value)
	})
	for _, p := range x {
		for i := range y {
			s := a.share(p.atom, y[i].atom)
			if s.few == 0 {
				continue
			}
			parts := min(y[i].count/s.many, (p.count+s.few-1)/s.few)
			y[i].count -= parts * s.many
			if p.count -= parts * s.few; p.count <= 0 {
				break
			}
		}
		if p.count > 0 {
			return false
		}
	}
	return true
}

// share returns how much of one atom another covers.
func (a *algebra) share(small, large int32) share {
	at := [2]int32{small, large}
	s, known := a.shares[at]
	if known {
		return s
	}
	if s = a.ratio(small, large); s.few > 0 {
		if a.left == 0 {
			return share{}
		}
		a.left--
		a.work.spend(2048)
		few, many := a.atoms[small].x.Mul(sym.Const(s.few)), a.atoms[large].x.Mul(sym.Const(s.many))
		if a.dims.LE(few, many) != sym.Yes {
			s = share{}
		}
	}
	a.shares[at] = s
	return s
}

// ratio returns the greatest share that no witness refutes.
func (a *algebra) ratio(small, large int32) share {
	least := math.Inf(1)
	for i := range a.spread {
		x, ok := a.sumAt([]addend{{small, 1}}, i)
		y, alsoOK := a.sumAt([]addend{{large, 1}}, i)
		if ok && alsoOK && x > 0 {
			least = min(least, y/x)
		}
	}
	switch {
	case least >= 1:
		return share{int64(min(least, mostShare)), 1}
	case least*mostShare >= 1:
		return share{1, int64(math.Ceil(1 / least))}
	}
	return share{}
}
