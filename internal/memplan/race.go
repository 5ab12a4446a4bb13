package memplan

import (
	"cmp"
	"slices"
)

// choice compares the points of valleys by three numbers: the first one in the order of the first number, of the second
// of those equal, and so on.
type choice func(x *searcher, p int32, floor, cases, slack int64) (first, cases2, weight int64)

// strategy decides which point a search branches at first, and which case it tries first.
type strategy struct {
	name   string
	choice choice
	order  func(u *units, crowd []int64, g int) [2]float64 // greater comes first
}

// fewest prefers the point with the fewest cases.
func fewest(_ *searcher, _ int32, _, cases, _ int64) (int64, int64, int64) { return 0, cases, 1 }

// weighed prefers points with few cases at which the search has failed often.
func weighed(x *searcher, p int32, _, cases, _ int64) (int64, int64, int64) {
	return 0, cases, x.weight[p]
}

// lowest prefers the lowest floor and, of those equal, the least slack.
func lowest(_ *searcher, _ int32, floor, _, _ int64) (int64, int64, int64) { return floor, 0, 1 }

// lowestFewest prefers the lowest floor and, of those equal, the fewest cases.
func lowestFewest(_ *searcher, _ int32, floor, cases, _ int64) (int64, int64, int64) {
	return floor, cases, 1
}

// tightest prefers the least slack and then the fewest cases.
func tightest(_ *searcher, _ int32, _, cases, slack int64) (int64, int64, int64) {
	return slack, cases, 1
}

// byLength puts the longest-lived group first, the larger one of equals.
func byLength(u *units, _ []int64, g int) [2]float64 {
	return [2]float64{u.length(g), float64(u.size[g])}
}

// byArea puts the group with the greatest product of size and lifetime first.
func byArea(u *units, _ []int64, g int) [2]float64 {
	return [2]float64{u.length(g) * float64(u.size[g])}
}

// bySize puts the largest group first.
func bySize(u *units, _ []int64, g int) [2]float64 {
	return [2]float64{float64(u.size[g]), u.length(g)}
}

func byLongArea(u *units, _ []int64, g int) [2]float64 {
	return [2]float64{u.length(g) * u.length(g) * float64(u.size[g])}
}

func byCrowd(u *units, crowd []int64, g int) [2]float64 {
	return [2]float64{float64(crowd[g]), u.length(g) * float64(u.size[g])}
}

// length returns the number of points at which a group is alive.
func (u *units) length(g int) float64 { return float64(u.last[g] - u.first[g] + 1) }

// strategies take turns, each with twice the work of its last turn.
var strategies = []strategy{
	{"weighed, longest", weighed, byLength},
	{"weighed, crowded", weighed, byCrowd},
	{"tightest, longest", tightest, byLongArea},
	{"lowest, longest", lowest, byLength},
	{"weighed, largest", weighed, bySize},
	{"fewest, longest", fewest, byLongArea},
	{"weighed, area", weighed, byArea},
	{"lowest fewest, largest", lowestFewest, bySize},
}

// choose finds the point to branch at: in a valley of the floors, and the best by the strategy.
func (x *searcher) choose(a, b int32, top int64) int32 {
	best := int32(-1)
	var least [4]int64
	for p := a; p <= b; {
		floor, q := x.floor(p), p
		for q < b && x.floor(q+1) == floor {
			q++
		}
		if (p == a || x.floor(p-1) > floor) && (q == b || x.floor(q+1) > floor) {
			for k := p; k <= q; k++ {
				slack, cases := top-x.end[k], int64(0)
				if slack > 0 {
					cases++ // nothing lies there
				}
				for _, g := range x.list[k] {
					if x.low[g] != floor {
						break
					}
					cases++
				}
				x.meter.spend(int(cases))
				first, second, weight := x.choice(x, k, floor, cases, slack)
				if best < 0 || cmp.Or(cmp.Compare(first, least[0]), cmp.Compare(second*least[2], least[1]*weight),
					cmp.Compare(slack, least[3])) < 0 {
					best, least = k, [4]int64{first, second, weight, slack}
				}
			}
		}
		p = q + 1
	}
	return best
}

// prefer sets the order in which points and cases are tried.
func (x *searcher) prefer(s *strategy) {
	x.choice = s.choice
	crowd := make([]int64, len(x.group))
	for g := range crowd {
		for p := x.first[g]; p <= x.last[g]; p++ {
			crowd[g] = max(crowd[g], x.total[p])
		}
	}
	key := make([][2]float64, len(x.group))
	order := make([]int, len(x.group))
	for g := range order {
		order[g], key[g] = g, s.order(x.units, crowd, g)
	}
	slices.SortStableFunc(order, func(g, h int) int { return slices.Compare(key[h][:], key[g][:]) })
	for i, g := range order {
		x.rank[g] = int32(i)
	}
}

// leastTurn is the least work of a strategy's first turn.
const leastTurn = 1 << 20

// firstTurn returns the work of a strategy's first turn: enough to place every group a few times over.
func (x *searcher) firstTurn() int64 {
	return max(leastTurn, int64(len(x.group))*int64(x.places+4*x.points))
}

// paddingWork is the work spent on the last few bytes.
const paddingWork = 1 << 20

// race lets the strategies take turns under one ceiling, in bytes, until one of them decides it or the work is done.
// They share refuted states, and nothing else.
func (x *searcher) race(ceiling int64, m *meter) (v verdict, by string) {
	for turn := x.firstTurn(); ; turn *= 2 {
		for i := range strategies {
			x.prefer(&strategies[i])
			share := &meter{min(turn, m.left)}
			m.left -= share.left
			v = x.run(ceiling, share)
			m.left += share.left
			if v != stopped || m.empty() || x.tooDeep {
				return v, strategies[i].name
			}
		}
	}
}

// search is the stage of complete search: under the bound first, with half of the work, and then under heights between
// the greatest that was refuted or given up and the lowest that is known.
func search(in *instance, f *finding, m *meter) {
	if m.left -= in.alive() + 2*in.pairs(); m.empty() {
		return // the preparation takes more than is left
	}
	u := newUnits(in)
	if u == nil {
		return
	}
	if f.height-f.least < u.unit {
		m.left = min(m.left, paddingWork) // only the topmost group could still make a difference, of less than a unit
	}
	x := newSearcher(u, &nogoods{})
	offset := make([]int64, len(in.size))
	try := func(ceiling, work int64) verdict {
		share := &meter{min(work, m.left)}
		m.left -= share.left
		v, by := x.race(ceiling, share)
		m.left += share.left
		if v == found {
			x.write(offset)
			f.offer(in, offset, "exact, "+by)
		}
		return v
	}
	middle, work := f.least, m.left/2
	for low := f.least; low < f.height && !m.empty(); {
		switch try(middle, work) {
		case refuted:
			f.least = u.next(middle, f.height)
			low = max(low, f.least)
		case stopped:
			if low = middle + 1; f.height-low < u.unit {
				return // they differ by less than a unit
			}
		}
		middle, work = low+(f.height-low)/2, m.left/4+leastTurn
	}
}

// write reads the offsets of a placement, in bytes.
func (x *searcher) write(offset []int64) {
	clear(offset)
	for i, g := range x.group {
		offset[g] = x.offset[i] * x.unit
	}
}
