package memplan

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// The limits of a formula: terms of one offset while it is built, terms that a result may have, questions to the prover
// over an entire plan, and elementary steps of comparing terms.
const (
	widestOffset  = 96
	widestFormula = 48
	questions     = 3000
	formulaWork   = 16 << 20
)

// algebra builds formulas as maxima of terms. A term is a sum of atoms with integer counts, and an atom is a product of
// dimensions or, if a size is no polynomial, the size itself.
type algebra struct {
	*grouping
	*sizes
	bindings [][]int64
	known    *sym.Names
	spread   [][]int64 // witnesses: bindings beside the samples that only refute questions
	atoms    []atom
	index    map[string]int32
	proofs   map[string]bool
	shares   map[[2]int32]share // see covered
	full     []bool             // by class, see filled
	present  []*sym.Presence    // by class
	left     int                // questions
	work     meter              // of comparing terms
	key      []byte             // scratch, as the three that follow
	more     []addend
	less     []addend
	scratch  []int
	padded   map[int64][]*padded // by alignment and class, each once it is asked for
}

// padded is a size rounded up to an alignment.
type padded struct {
	x    sym.Expr
	even bool // the size is proved to be a multiple of the alignment
	term term // of x
}

type atom struct {
	x           sym.Expr
	value       []int64    // at the samples
	witness     sym.Values // at the witnesses, once a question mentions it
	notNegative bool
}

// term is a sum of atoms.
type term struct {
	addends []addend // by ascending atom, no count zero
	value   []int64  // at the samples
	top     int32    // of a height's terms: the group that ends there
}

type addend struct {
	atom  int32
	count int64
}

// newAlgebra returns an algebra whose only atom is 1.
func newAlgebra(g *grouping, z *sizes, bindings [][]int64) *algebra {
	a := &algebra{grouping: g, sizes: z, bindings: bindings, index: map[string]int32{}, proofs: map[string]bool{},
		shares: map[[2]int32]share{}, known: sym.NewNames(z.names), spread: g.dims.Spread(z.names), left: questions,
		work: meter{formulaWork}, padded: map[int64][]*padded{}}
	a.atom(sym.Const(1))
	return a
}

// atom returns the number of an atom, which is new if x has not been seen before.
func (a *algebra) atom(x sym.Expr) int32 {
	key := x.Key()
	if at, known := a.index[key]; known {
		return at
	}
	at := int32(len(a.atoms))
	a.index[key] = at
	// A value that cannot be computed counts as zero: values only save questions to the prover.
	n := atom{x: x, value: a.known.ValuesAt(x, a.bindings).At}
	lo, _ := a.dims.Bounds(x)
	n.notNegative = lo >= 0
	a.atoms = append(a.atoms, n)
	return at
}

// term reads an expression as a sum of atoms.
func (a *algebra) term(x sym.Expr) term {
	t := term{value: make([]int64, len(a.bindings))}
	a.split(x, sym.Const(1), &t.addends)
	return a.tidy(t)
}

// split appends the addends of x·factor, factor being a product of dimensions.
func (a *algebra) split(x, factor sym.Expr, addends *[]addend) {
	if c, ok := x.Const(); ok {
		if c != 0 {
			*addends = append(*addends, addend{a.atom(factor), c})
		}
		return
	}
	for _, name := range x.Vars() {
		if coefficient, rest, ok := x.Linear(name); ok {
			a.split(coefficient, factor.Mul(sym.Var(name)), addends)
			a.split(rest, factor, addends)
			return
		}
	}
	*addends = append(*addends, addend{a.atom(factor.Mul(x)), 1})
}

// tidy sorts a term's addends, joins equal atoms and computes its values.
func (a *algebra) tidy(t term) term {
	slices.SortFunc(t.addends, func(x, y addend) int { return cmp.Compare(x.atom, y.atom) })
	out := t.addends[:0]
	for _, p := range t.addends {
		if n := len(out); n > 0 && out[n-1].atom == p.atom {
			out[n-1].count += p.count
			continue
		}
		out = append(out, p)
	}
	t.addends = slices.DeleteFunc(out, func(p addend) bool { return p.count == 0 })
	for _, p := range t.addends {
		for i := range t.value {
			t.value[i] += p.count * a.atoms[p.atom].value[i]
		}
	}
	return t
}

// add returns the sum of two terms.
func (a *algebra) add(x, y term) term {
	t := term{addends: make([]addend, 0, len(x.addends)+len(y.addends)), value: make([]int64, len(x.value))}
	i, j := 0, 0
	for i < len(x.addends) || j < len(y.addends) {
		switch {
		case j == len(y.addends) || i < len(x.addends) && x.addends[i].atom < y.addends[j].atom:
			t.addends = append(t.addends, x.addends[i])
			i++
		case i == len(x.addends) || y.addends[j].atom < x.addends[i].atom:
			t.addends = append(t.addends, y.addends[j])
			j++
		default:
			if sum := x.addends[i].count + y.addends[j].count; sum != 0 {
				t.addends = append(t.addends, addend{x.addends[i].atom, sum})
			}
			i, j = i+1, j+1
		}
	}
	for k := range t.value {
		t.value[k] = x.value[k] + y.value[k]
	}
	return t
}

// expr returns the term as an expression.
func (a *algebra) expr(addends []addend) sym.Expr {
	list := make([]sym.Expr, len(addends))
	for i, p := range addends {
		list[i] = a.atoms[p.atom].x.Mul(sym.Const(p.count))
	}
	return sym.Sum(list...)
}

// pad returns a size, given by its class, rounded up to align; 1 leaves it as it is.
func (a *algebra) pad(class int, align int64) *padded {
	list := a.padded[align]
	if list == nil {
		list = make([]*padded, len(a.exprs))
		a.padded[align] = list
	}
	if list[class] == nil {
		x := a.round(a.exprs[class], align)
		list[class] = &padded{x, x.Equal(a.exprs[class]), a.term(x)}
	}
	return list[class]
}

// filled reports whether a size, given by its class, is proved at least 1.
func (a *algebra) filled(class int) bool {
	if a.full == nil {
		a.full = make([]bool, len(a.exprs))
		for i, x := range a.exprs {
			a.full[i] = a.dims.LE(sym.Const(1), x) == sym.Yes
		}
	}
	return a.full[class]
}

// presence says whether a size, given by its class, is 1 or more.
func (a *algebra) presence(class int) sym.Presence {
	if a.present == nil {
		a.present = make([]*sym.Presence, len(a.exprs))
	}
	if a.present[class] == nil {
		p := a.dims.Presence(a.exprs[class])
		a.present[class] = &p
	}
	return *a.present[class]
}

// where returns a term that is t if a size is 1 or more, and 0 if it is 0.
func (a *algebra) where(present sym.Presence, t term) term {
	out := term{addends: make([]addend, 0, len(t.addends)), value: make([]int64, len(t.value))}
	for _, p := range t.addends {
		out.addends = append(out.addends, addend{a.atom(present.Times(a.atoms[p.atom].x)), p.count})
	}
	return a.tidy(out)
}

// below reports whether x ≤ y is proved for every binding.
func (a *algebra) below(x, y term) bool {
	a.work.spend(len(x.value))
	for i := range x.value {
		if x.value[i] > y.value[i] {
			return false
		}
	}
	// Only the difference matters: more holds the atoms of which x has more, less those of which y has more.
	a.work.spend(16 * (len(x.addends) + len(y.addends)))
	more, less := a.more[:0], a.less[:0]
	i, j := 0, 0
	for i < len(x.addends) || j < len(y.addends) {
		p := addend{math.MaxInt32, 0}
		if i < len(x.addends) {
			p = x.addends[i]
		}
		switch {
		case j == len(y.addends) || p.atom < y.addends[j].atom:
			i++
		case p.atom > y.addends[j].atom:
			p = addend{y.addends[j].atom, -y.addends[j].count}
			j++
		default:
			p.count -= y.addends[j].count
			i, j = i+1, j+1
		}
		if p.count > 0 {
			more = append(more, p)
		} else if p.count < 0 {
			less = append(less, addend{p.atom, -p.count})
		}
	}
	a.more, a.less = more, less
	if len(more) == 0 && !slices.ContainsFunc(less, func(p addend) bool { return !a.atoms[p.atom].notNegative }) {
		return true
	}
	return a.covered(more, less) || a.ask(more, less)
}

// ask asks the prover for x ≤ y, unless the answer is known or no questions are left.
func (a *algebra) ask(x, y []addend) bool {
	a.key = encode(encode(a.key[:0], x), y)
	yes, known := a.proofs[string(a.key)]
	if !known && a.left > 0 && !a.refuted(x, y) {
		a.left--
		a.work.spend(1024 * (len(x) + len(y)))
		yes = a.dims.LE(a.expr(x), a.expr(y)) == sym.Yes
		a.proofs[string(a.key)] = yes
	}
	return yes
}

// refuted reports whether x > y at one of the witnesses.
func (a *algebra) refuted(x, y []addend) bool {
	for i := range a.spread {
		more, ok := a.sumAt(x, i)
		less, alsoOK := a.sumAt(y, i)
		if ok && alsoOK && more > less {
			return true
		}
	}
	return false
}

// sumAt returns a sum at a witness. ok is false if it has no value there, or one that is not exact.
func (a *algebra) sumAt(addends []addend, at int) (sum float64, ok bool) {
	const mostExact = 1 << 53 // below it, float64 sums of integers are exact
	size := 0.0
	for _, p := range addends {
		n := &a.atoms[p.atom]
		if n.witness.At == nil {
			n.witness = a.known.ValuesAt(n.x, a.spread)
		}
		v := float64(p.count) * float64(n.witness.At[at])
		if sum, size = sum+v, size+math.Abs(v); !n.witness.Has[at] || size >= mostExact {
			return 0, false
		}
	}
	return sum, true
}

// encode appends a sum to a key: its length, then atoms and counts.
func encode(key []byte, addends []addend) []byte {
	key = binary.AppendUvarint(key, uint64(len(addends)))
	for _, p := range addends {
		key = binary.AppendVarint(binary.AppendUvarint(key, uint64(p.atom)), p.count)
	}
	return key
}

// prune drops the terms that are proved to be no greater than another one. The rest is sorted, greatest at the first
// sample first.
func (a *algebra) prune(list []term) []term {
	if len(list) < 2 {
		return list
	}
	slices.SortStableFunc(list, func(x, y term) int { return slices.Compare(y.value, x.value) })
	var kept []term
	for _, t := range list {
		if slices.ContainsFunc(kept, func(k term) bool { return a.below(t, k) }) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(k term) bool { return a.below(k, t) })
		kept = append(kept, t)
	}
	return kept
}

// offsets computes every group's offset in a stack as a maximum of terms, or nil if one has too many.
func (a *algebra) offsets(s *stack) [][]term {
	out := make([][]term, len(s.order))
	for _, g := range s.order {
		align := s.align[g]
		list := []term{}
		for _, under := range s.below[g] {
			for _, t := range out[under] {
				if s.align[under] >= align {
					t = a.add(t, a.pad(a.class[under], align).term)
				} else {
					t = a.term(a.round(a.expr(a.add(t, a.pad(a.class[under], 1).term).addends), align))
				}
				list = append(list, t)
			}
			if len(list) > 2*widestOffset {
				list = a.prune(list)
			}
		}
		if len(list) == 0 {
			list = append(list, a.term(sym.Const(0)))
		}
		if out[g] = a.prune(list); len(out[g]) > widestOffset || a.work.empty() {
			return nil
		}
	}
	return out
}

// arena returns the height of a stack as a formula. ok is false if it has too many terms to be written.
func (a *algebra) arena(s *stack) (formula sym.Expr, ok bool) {
	offsets := a.offsets(s)
	if offsets == nil {
		return sym.Expr{}, false
	}
	var list []term
	a.tops(s, func(g int32, counts bool) {
		if counts {
			for _, t := range offsets[g] {
				end := a.add(t, a.pad(a.class[g], 1).term)
				end.top = g
				list = append(list, end)
			}
			return
		}
		// An empty group must not count the padding beneath it as used.
		present := a.presence(a.class[g])
		for _, t := range offsets[g] {
			end := a.where(present, a.add(t, a.pad(a.class[g], 1).term))
			end.top = g
			list = append(list, end)
		}
	})
	list = a.prune(list)
	if len(list) > widestFormula || a.work.empty() {
		return sym.Expr{}, false
	}
	terms := make([]sym.Expr, len(list))
	s.highest = map[int32]bool{}
	for i, t := range list {
		terms[i] = a.expr(t.addends)
		s.highest[t.top] = true
	}
	return maximum(terms), true
}

// tops visits the groups whose ends decide the height. counts is false for a group that may be empty and may then lie
// above the last used byte, on padding; the groups that it rests on are visited too.
func (a *algebra) tops(s *stack, visit func(g int32, counts bool)) {
	loose := make([]bool, len(s.order)) // its offset may lie above the last byte used beneath it
	maybe := make([]bool, len(s.order)) // it may be empty
	for _, g := range s.order {
		maybe[g] = !a.filled(a.class[g])
		if s.beside != nil && s.beside[g] >= 0 {
			loose[g] = loose[s.beside[g]]
		}
		for _, under := range s.below[g] {
			padded := s.align[under] < s.align[g] || !a.pad(a.class[under], s.align[g]).even
			loose[g] = loose[g] || padded || maybe[under] && loose[under]
		}
	}
	seen := make([]bool, len(s.order))
	queue := slices.Clone(s.open)
	for i := 0; i < len(queue); i++ {
		g := queue[i]
		if seen[g] {
			continue
		}
		seen[g] = true
		counts := !maybe[g] || !loose[g]
		visit(g, counts)
		if !counts {
			queue = append(queue, s.below[g]...)
		}
	}
}

// shelved returns the height of shelves stacked one above the other, as a sum of maxima. Every group's offset is the
// sum of the heights of the shelves below its own.
func (a *algebra) shelved(shelves [][]int, aligns []int64) sym.Expr {
	var tops []sym.Expr
	floor := sym.Const(0)
	for _, shelf := range shelves {
		var ends, rounded []sym.Expr
		for _, g := range shelf {
			rounded = append(rounded, a.pad(a.class[g], aligns[g]).x)
			if a.filled(a.class[g]) {
				ends = append(ends, a.groups[g].size)
			}
		}
		if len(ends) > 0 {
			tops = append(tops[:0], floor.Add(a.greatest(ends))) // it ends above all lower groups
		}
		for _, g := range shelf {
			if !a.filled(a.class[g]) {
				tops = append(tops, a.presence(a.class[g]).Times(floor.Add(a.groups[g].size))) // 0, if it is empty
			}
		}
		floor = floor.Add(a.greatest(rounded))
	}
	return maximum(tops)
}

// greatest returns the maximum of a list, without the members proved to be no greater than another.
func (a *algebra) greatest(list []sym.Expr) sym.Expr {
	terms := make([]term, len(list))
	for i, x := range list {
		terms[i] = a.term(x)
	}
	terms = a.prune(terms)
	out := make([]sym.Expr, len(terms))
	for i, t := range terms {
		out[i] = a.expr(t.addends)
	}
	return sym.MaxOf(out...)
}

// maximum returns the greatest of expressions that are never negative, 0 of none.
func maximum(list []sym.Expr) sym.Expr {
	if len(list) == 0 {
		return sym.Const(0)
	}
	return sym.MaxOf(list...)
}
