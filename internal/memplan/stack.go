package memplan

import "slices"

// stack is an order of the groups, and for each group the groups that it rests on, at every binding: the visible ones
// below it.
type stack struct {
	order []int     // lowest first
	align []int64   // by group
	below [][]int32 // by group: the groups it rests on
	// by group: another, earlier one at whose offset it lies, −1 for none; nil if there are none at all
	beside  []int32
	open    []int32        // the groups that are not covered completely
	highest map[int32]bool // the groups whose ends a formula of the height mentions; nil before there is one
}

// newStack finds, for every group of the order, the groups that it rests on. It leaves out a lower group that others
// hide at every point that the two share: the hiding groups end no lower, so the hidden one never decides an offset.
func newStack(l *lifetimes, order []int) *stack {
	s := &stack{order: order, align: l.align, below: make([][]int32, len(order))}
	top := make([]int32, len(l.step)) // by point: the group on top, plus one
	seen := make([]int32, len(order)) // by group: the last group, plus one, that found it
	for _, g := range order {
		for p := l.first[g]; p <= l.last[g]; p++ {
			if under := top[p] - 1; under >= 0 && seen[under] != int32(g)+1 {
				seen[under] = int32(g) + 1
				s.below[g] = append(s.below[g], under)
			}
			top[p] = int32(g) + 1
		}
	}
	clear(seen)
	for _, t := range top {
		if g := t - 1; g >= 0 && seen[g] == 0 {
			seen[g] = 1
			s.open = append(s.open, g)
		}
	}
	return s
}

// place computes every offset at one binding and returns the height.
func (s *stack) place(in *instance, offset []int64) int64 {
	height := int64(0)
	for _, g := range s.order {
		at := int64(0)
		if s.beside != nil && s.beside[g] >= 0 {
			at = offset[s.beside[g]]
		}
		for _, under := range s.below[g] {
			at = max(at, alignUp(offset[under]+in.size[under], s.align[g]))
		}
		offset[g] = at
		if in.size[g] > 0 {
			height = max(height, at+in.size[g])
		}
	}
	return height
}

// newShelves returns a stack in which shelves lie one above the other: a member of a shelf rests on every member of the
// shelf below it, whether or not the two are ever alive together, and all have the same alignment. Its formula is a sum
// of maxima, as short as the list of groups.
func newShelves(shelves [][]int, align []int64) *stack {
	greatest := int64(1)
	for _, a := range align {
		greatest = max(greatest, a)
	}
	s := &stack{align: slices.Repeat([]int64{greatest}, len(align)), below: make([][]int32, len(align)),
		beside: make([]int32, len(align))}
	var under []int32
	for _, shelf := range shelves {
		for i, g := range shelf {
			s.beside[g] = -1
			if i > 0 {
				s.beside[g] = int32(shelf[0])
			}
		}
		s.below[shelf[0]] = under
		s.order = append(s.order, shelf...)
		under = make([]int32, len(shelf))
		for i, g := range shelf {
			under[i] = int32(g)
		}
	}
	s.open = under
	return s
}
