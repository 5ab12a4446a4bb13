package memplan

import (
	"cmp"
	"math"
	"slices"
)

// The largest instance that is searched completely: the search's memory is in proportion to these.
const (
	mostGroups = 1 << 13 // groups
	mostPairs  = 1 << 21 // of groups alive together
	mostPoints = 1 << 20 // points of all groups
)

// units is an instance as the complete search reads it: without empty groups, the others in the order of
// their first points, and sizes counted in a unit that every offset worth looking at is a multiple of.
type units struct {
	points      int
	places      int   // points of all groups
	group       []int // of the instance
	first, last []int32
	size        []int64 // rounded up to a unit
	align       []int64 // 1, or a power of two
	spare       []int64 // bytes that the rounding added, less than a unit
	pairs       []int32 // the groups alive together with each group, group after group
	from        []int32 // by group, and one more: the index in pairs at which its own begin
	total       []int64 // by point: the sizes of what is alive there
	unit        int64   // bytes
	coarsest    int64   // the greatest alignment
	padded      bool    // a spare is not zero
}

// newUnits returns nil if there is nothing to search, or too much.
func newUnits(in *instance) *units {
	u := &units{points: len(in.step), unit: math.MaxInt64, coarsest: 1}
	step := int64(0) // the greatest common divisor of all sizes
	greatest := int64(1)
	for g, s := range in.size {
		if s == 0 {
			continue
		}
		u.group = append(u.group, g)
		step = divisor(step, s)
		u.unit, greatest = min(u.unit, in.align[g]), max(greatest, in.align[g])
		if u.places += in.length(g); len(u.group) > mostGroups || u.places > mostPoints {
			return nil
		}
	}
	if len(u.group) == 0 {
		return nil
	}
	if step%greatest == 0 {
		u.unit = step // all sums of sizes are aligned
	}
	slices.SortStableFunc(u.group, func(a, b int) int {
		return cmp.Or(in.first[a]-in.first[b], in.last[a]-in.last[b], compare(in.size[b], in.size[a]))
	})
	if !u.room(in) {
		return nil
	}
	end := slices.Clone(u.from) // by group: the end of its pairs written so far
	u.total = make([]int64, u.points)
	for i, g := range u.group {
		rounded := alignUp(in.size[g], u.unit)
		if step%greatest == 0 {
			rounded = in.size[g]
		}
		u.first, u.last = append(u.first, int32(in.first[g])), append(u.last, int32(in.last[g]))
		u.size = append(u.size, rounded/u.unit)
		u.spare = append(u.spare, rounded-in.size[g])
		u.padded = u.padded || rounded > in.size[g]
		u.align = append(u.align, max(1, in.align[g]/u.unit))
		if step%greatest == 0 {
			u.align[i] = 1
		}
		u.coarsest = max(u.coarsest, u.align[i])
		for p := u.first[i]; p <= u.last[i]; p++ {
			u.total[p] += u.size[i]
		}
		for j := i + 1; j < len(u.group) && in.first[u.group[j]] <= in.last[g]; j++ {
			u.pairs[end[i]], u.pairs[end[j]] = int32(j), int32(i)
			end[i]++
			end[j]++
		}
	}
	return u
}

// near lists the groups alive together with g.
func (u *units) near(g int32) []int32 { return u.pairs[u.from[g]:u.from[g+1]] }

// room makes room for the pairs of groups alive together. It returns false if they are too many.
func (u *units) room(in *instance) bool {
	// by point: the groups that began before it, and that ended before it
	began, ended := make([]int, u.points+1), make([]int, u.points+1)
	for _, g := range u.group {
		began[in.first[g]+1]++
		ended[in.last[g]+1]++
	}
	for p := range u.points {
		began[p+1] += began[p]
		ended[p+1] += ended[p]
	}
	u.from = make([]int32, 1, len(u.group)+1)
	all := 0
	for _, g := range u.group {
		if all += began[in.last[g]+1] - ended[in.first[g]] - 1; all > 2*mostPairs {
			return false
		}
		u.from = append(u.from, int32(all))
	}
	u.pairs = make([]int32, all)
	return true
}

// divisor returns the greatest common divisor of a and b.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// above returns the number of units that a group may reach above a ceiling of so many bytes, rounded down to units: one
// where its last unit is not full.
func (u *units) above(g int, height int64) int64 {
	if rest := height % u.unit; u.spare[g] > 0 && rest+u.spare[g] >= u.unit {
		return 1
	}
	return 0
}

// mostReach is the most units of height for which attainable heights are computed.
const mostReach = 1 << 16

// next returns the least height, in bytes, above a refuted one that a placement can have; most is a height that one
// has.
func (u *units) next(height, most int64) int64 {
	if height >= most {
		return most
	}
	if u.coarsest > 1 || most/u.unit > mostReach {
		least := int64(math.MaxInt64)
		for _, s := range u.spare {
			least = min(least, (height+s)/u.unit*u.unit+u.unit-s)
		}
		return min(least, most)
	}
	// The ends of groups are sums of sizes, the last of which need not be rounded.
	reach := make([]bool, most/u.unit+2)
	reach[0] = true
	for _, s := range u.size {
		for at := int64(len(reach)) - 1; at >= s; at-- {
			reach[at] = reach[at] || reach[at-s]
		}
	}
	least := most
	for _, s := range u.spare {
		for at := (height+s)/u.unit + 1; at < int64(len(reach)) && at*u.unit-s < least; at++ {
			if reach[at] {
				least = at*u.unit - s
			}
		}
	}
	return least
}
