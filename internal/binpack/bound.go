package binpack

import "math/bits"

// amount is a sum of sizes as whole bins and a part of one that is less than the capacity. It does not overflow, even
// if the sizes are near the largest integers.
type amount struct {
	whole int
	part  uint64
}

// plus adds a size of at most the capacity, which is at most the largest int64.
func (a amount) plus(size, capacity uint64) amount {
	if a.part += size; a.part >= capacity && capacity > 0 {
		a.part -= capacity
		a.whole++
	}
	return a
}

// times adds a size several times.
func (a amount) times(size uint64, n int, capacity uint64) amount {
	if capacity == 0 {
		return a
	}
	high, low := bits.Mul64(size, uint64(n))
	// The quotient is at most n, since the size is at most the capacity.
	quotient, rest := bits.Div64(high, low, capacity)
	a.whole += int(quotient)
	return a.plus(rest, capacity)
}

// bins returns the number of bins that hold an amount, if items could be cut.
func (a amount) bins() int {
	if a.part > 0 {
		return a.whole + 1
	}
	return a.whole
}

// from returns b − a, and false if b is less.
func (a amount) from(b amount, capacity uint64) (amount, bool) {
	rest := amount{b.whole - a.whole, b.part}
	if rest.part < a.part {
		rest.whole--
		rest.part += capacity
	}
	rest.part -= a.part
	return rest, rest.whole >= 0
}

// lowerBound returns a number of bins that the items need: the best of the bounds here.
func lowerBound(kinds []kind, counts []int, capacity uint64) int {
	least := max(martelloToth(kinds, counts, capacity), separate(kinds, counts))
	if len(kinds) <= mostDualKinds {
		least = max(least, dual(kinds, counts, capacity))
	}
	return least
}

// separate returns the largest number of copies of an item, or 1 if there is an item.
func separate(kinds []kind, counts []int) (least int) {
	for i, k := range kinds {
		if counts[i] > 0 {
			least = max(least, 1)
		}
		if k.single {
			least = max(least, counts[i])
		}
	}
	return least
}

// martelloToth is the bound L2 of S. Martello and P. Toth, Lower bounds and reduction procedures for the bin packing
// problem, Discrete Applied Mathematics 28 (1990). For a threshold of at most half a bin, items larger than a bin
// without the threshold are alone in a bin, each other item larger than half has a bin, and the items from the
// threshold to a half fill what those leave, and further bins. The bound is the maximum over all thresholds.
//
// The kinds are sorted by size, the largest first. The time is linear in their number.
func martelloToth(kinds []kind, counts []int, capacity uint64) int {
	large := 0 // bins of items larger than half
	for large < len(kinds) && kinds[large].size > capacity-kinds[large].size {
		large++
	}
	ofLarge := 0
	for i := range large {
		ofLarge += counts[i]
	}
	best := ofLarge
	var medium, room amount // items from the threshold to a half; what is free beside larger ones
	at := large             // the items of kinds[at:large] leave room for the threshold
	for i := large; i < len(kinds); i++ {
		if counts[i] == 0 {
			continue
		}
		for at > 0 && capacity-kinds[at-1].size >= kinds[i].size {
			at--
			room = room.times(capacity-kinds[at].size, counts[at], capacity)
		}
		medium = medium.times(kinds[i].size, counts[i], capacity)
		if more, ok := room.from(medium, capacity); ok {
			best = max(best, ofLarge+more.bins())
		}
	}
	return best
}

// The dual functions that are tried, and the number of kinds up to which they are.
const (
	mostDual      = 24
	mostDualKinds = 400
)

// dual is the bound of S. P. Fekete and J. Schepers, New classes of fast lower bounds for bin packing problems,
// Mathematical Programming 91 (2001): a dual feasible function maps the sizes that fit a bin to numbers whose sum is at
// most 1, so that the sum over all items is a bound. For k from 1 on, the function maps a share x of a bin to
// floor((k+1)·x)/k, and to x if (k+1)·x is an integer. Before that, a threshold rounds shares above 1−threshold to 1,
// and those below it to 0.
func dual(kinds []kind, counts []int, capacity uint64) (best int) {
	if capacity == 0 {
		return 0
	}
	for k := uint64(1); k <= mostDual; k++ {
		unit := int64(k * (k + 1)) // the sums are in units of 1/(k·(k+1))
		values := make([]int64, len(kinds))
		for i, kind := range kinds {
			high, low := bits.Mul64(kind.size, k+1)
			floor, rest := bits.Div64(high, low, capacity)
			if rest == 0 {
				values[i] = int64(floor * k)
			} else {
				values[i] = int64(floor * (k + 1))
			}
		}
		for t := range kinds {
			threshold := kinds[t].size
			if counts[t] == 0 || threshold > capacity-threshold {
				continue
			}
			sum := int64(0)
			for i, kind := range kinds {
				switch {
				case kind.size < threshold:
				case kind.size > capacity-threshold:
					sum += int64(counts[i]) * unit
				default:
					sum += int64(counts[i]) * values[i]
				}
			}
			best = max(best, int((sum+unit-1)/unit))
		}
	}
	return best
}
