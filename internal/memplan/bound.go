package memplan

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// section is the lower bound of one point and one alignment: the rounded sizes of the groups alive there with that
// alignment or a greater one, less the greatest padding.
type section struct {
	align   int64
	tally   []tally // of the sizes, by ascending class
	rounded term    // sum of the rounded sizes
	classes []int   // classes whose padding is not proved zero
	value   []int64 // of the section, at the samples
	weight  float64 // its greatest share of the bound at a sample
}

// widestBound is the most sections that a formula of the bound may have.
const widestBound = 64

// bound returns the lower bound as a formula: the greatest of all sections that are not proved to be no greater than
// another. If too many remain, those that matter most at the samples are kept and complete is false: the formula is
// then a lower bound, and not always the best.
func (a *algebra) bound(l *lifetimes) (formula sym.Expr, complete bool) {
	var list []*section
	l.sweep(func(_ int, live []int) {
		for _, align := range l.grains(live) {
			list = append(list, a.section(live, align))
		}
	})
	highest := make([]int64, len(a.bindings))
	for _, s := range list {
		for i, v := range s.value {
			highest[i] = max(highest[i], v)
		}
	}
	for _, s := range list {
		for i, v := range s.value {
			s.weight = max(s.weight, float64(v)/float64(max(highest[i], 1)))
		}
	}
	slices.SortStableFunc(list, func(x, y *section) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), slices.Compare(y.value, x.value))
	})
	var kept []*section
	a.left += questions / 4
	a.work.left = max(a.work.left, formulaWork/4)
	complete = true
	for _, s := range list {
		if slices.ContainsFunc(kept, func(k *section) bool { return a.covers(k, s) }) {
			continue
		}
		if len(kept) == widestBound || a.work.empty() {
			complete = false
			break
		}
		kept = append(slices.DeleteFunc(kept, func(k *section) bool { return a.covers(s, k) }), s)
	}
	terms := make([]sym.Expr, len(kept))
	for i, s := range kept {
		terms[i] = a.expr(s.rounded.addends)
		if len(s.classes) > 0 {
			paddings := make([]sym.Expr, len(s.classes))
			for j, class := range s.classes {
				paddings[j] = a.pad(class, s.align).x.Sub(a.exprs[class])
			}
			terms[i] = terms[i].Sub(sym.MaxOf(paddings...))
		}
	}
	return maximum(terms), complete
}

// tally counts the sizes of a class.
type tally struct {
	class int
	n     int64
}

// includes reports whether x has at least as many of every class as y. Both are sorted.
func includes(x, y []tally) bool {
	i := 0
	for _, t := range y {
		for i < len(x) && x[i].class < t.class {
			i++
		}
		if i == len(x) || x[i].class != t.class || x[i].n < t.n {
			return false
		}
	}
	return true
}

// section returns the bound of the groups of live that are aligned to align or more.
func (a *algebra) section(live []int, align int64) *section {
	s := &section{align: align, rounded: term{value: make([]int64, len(a.bindings))},
		value: make([]int64, len(a.bindings))}
	classes := a.scratch[:0]
	for _, g := range live {
		if a.groups[g].align >= align {
			classes = append(classes, a.class[g])
		}
	}
	slices.Sort(classes)
	a.scratch = classes
	s.tally = make([]tally, 0, len(classes))
	for _, class := range classes {
		if n := len(s.tally); n > 0 && s.tally[n-1].class == class {
			s.tally[n-1].n++
		} else {
			s.tally = append(s.tally, tally{class, 1})
		}
	}
	padding := make([]int64, len(a.bindings))
	addends := make([]addend, 0, 2*len(s.tally))
	for _, t := range s.tally {
		rounded := a.pad(t.class, align)
		for _, p := range rounded.term.addends {
			addends = append(addends, addend{p.atom, t.n * p.count})
		}
		if rounded.even {
			continue
		}
		s.classes = append(s.classes, t.class)
		unrounded := a.pad(t.class, 1)
		for i := range padding {
			padding[i] = max(padding[i], rounded.term.value[i]-unrounded.term.value[i])
		}
	}
	s.rounded.addends = addends
	s.rounded = a.tidy(s.rounded)
	for i, v := range s.rounded.value {
		s.value[i] = v - padding[i]
	}
	return s
}

// covers reports whether section x is proved to be at least y for every binding.
func (a *algebra) covers(x, y *section) bool {
	a.work.spend(len(x.value))
	for i := range x.value {
		if x.value[i] < y.value[i] {
			return false
		}
	}
	// All groups of y are alive in x too: each further one adds at least its size.
	if x.align == y.align && includes(x.tally, y.tally) {
		return true
	}
	// At most align−1 bytes are taken off x, and none need be taken off y.
	taken := term{value: make([]int64, len(x.value))}
	if len(x.classes) > 0 {
		taken = a.term(sym.Const(x.align - 1))
	}
	return a.below(a.add(y.rounded, taken), x.rounded)
}
