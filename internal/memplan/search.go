package memplan

import (
	"math/rand/v2"
	"slices"
)

// finding is the best known placement of an instance.
type finding struct {
	order  []int
	height int64
	by     string // the stage that found it
	least  int64  // none is lower
}

// offer keeps a placement that is lower than the best known one. Offsets are read as an order and settled downward
// first, since an order is all that a solution keeps.
func (f *finding) offer(in *instance, offset []int64, by string) {
	if offset == nil {
		return
	}
	s := newStack(in.lifetimes, in.orderOf(offset))
	if height := s.place(in, make([]int64, len(offset))); f.order == nil || height < f.height {
		f.order, f.height, f.by = s.order, height, by
	}
}

// stage is one part of the search for a good order. It may stop whenever the bound is reached or the work allowed is
// done.
type stage struct {
	name string
	run  func(in *instance, f *finding, m *meter)
}

// stages run in this order, until the best placement is proved to be optimal.
var stages = []stage{
	{"greedy", greedy},
	{"fill", fills},
	{"exact", search},
	{"local", local},
}

// effort is the work that one instance may take, in elementary steps of about a nanosecond or two.
type effort struct{ greedy, local, exact int64 }

// solve finds an order for one instance. The same instance gets the same order on every machine and every run.
func solve(in *instance, work effort, without []string) *finding {
	f := &finding{least: in.bound}
	f.offer(in, bump(in), "start")
	for _, s := range stages {
		if slices.Contains(without, s.name) {
			continue
		}
		m := &meter{left: work.greedy}
		switch s.name {
		case "local":
			m.left = work.local
		case "exact":
			m.left = work.exact
		}
		s.run(in, f, m)
		if f.height == f.least {
			break
		}
	}
	return f
}

// bump places groups in the order in which they come alive, each above all groups that are alive.
func bump(in *instance) []int64 {
	list := in.list(priority{key: func(in *instance, g int) float64 { return -float64(in.first[g]) }})
	offset := make([]int64, len(list))
	newStack(in.lifetimes, list).place(in, offset)
	return offset
}

// greedy tries every priority with first fit and with best fit.
func greedy(in *instance, f *finding, m *meter) {
	p := newPlacer(in, m)
	for _, order := range priorities {
		list := in.list(order)
		for _, best := range []bool{false, true} {
			if m.empty() {
				return
			}
			p.fit(list, best)
			f.offer(in, p.offset, order.name)
			m.left -= in.alive() + 64*int64(len(list)) // for sorting
			if f.height == in.bound {
				return
			}
		}
	}
}

// fills tries the placements from the bottom up.
func fills(in *instance, f *finding, m *meter) {
	for _, t := range tastes {
		f.offer(in, fill(in, t, m), t.name)
		if f.height == in.bound || m.empty() {
			return
		}
	}
}

// core is the most groups that local moves around. The others are the smallest: they are placed after these, and seldom
// matter.
const core = 300

// local improves a list of the first-fit placement: a group on the way to the peak is moved forward, and the new list
// is kept when it is no worse. The sequence of moves is fixed by the instance alone.
func local(in *instance, f *finding, m *meter) {
	large := slices.Clone(f.order)
	bySize := in.list(priorities[0])
	last := bySize[min(core, len(bySize))-1]
	small := slices.DeleteFunc(slices.Clone(bySize), func(g int) bool { return in.matters(g, last) })
	large = slices.DeleteFunc(large, func(g int) bool { return !in.matters(g, last) })
	if len(large) < 2 {
		return
	}
	random := rand.New(rand.NewPCG(uint64(len(f.order)), uint64(in.bound)))
	p := newPlacer(in, m)
	current := slices.Clone(large)
	height := p.fit(current, false)
	lowest := height
	var chain []int
	list := make([]int, 0, len(current))
	for !m.empty() && f.height > f.least {
		chain = peakChain(in, p.offset, current, height, chain[:0])
		m.spend(4 * len(chain) * len(current))
		list = append(list[:0], current...)
		for range 1 + random.IntN(2) {
			g := chain[random.IntN(len(chain))]
			from := slices.Index(list, g)
			to := random.IntN(from + 1)
			if from == 0 {
				to = random.IntN(len(list))
			}
			list = slices.Delete(list, from, from+1)
			list = slices.Insert(list, to, g)
		}
		m.spend(8 * len(list))
		h := p.fit(list, false)
		if h > height {
			p.fit(current, false) // the chain is read off the offsets of the list that is kept
			continue
		}
		current, list, height = list, current, h
		if h < lowest {
			lowest = h
			p.fit(slices.Concat(current, small), false)
			f.offer(in, p.offset, "local")
			p.fit(current, false)
		}
	}
}

// matters reports whether g is one of the groups that local moves, last being the smallest of those that may be.
func (in *instance) matters(g, last int) bool {
	return in.size[g] >= in.size[last] && in.size[g] > in.bound/1024
}

// peakChain appends the groups of the list that end at the height and, downward, those that hold them up.
func peakChain(in *instance, offset []int64, list []int, height int64, chain []int) []int {
	for _, g := range list {
		if in.size[g] > 0 && offset[g]+in.size[g] == height {
			chain = append(chain, g)
		}
	}
	for i := 0; i < len(chain); i++ {
		g := chain[i]
		if offset[g] == 0 {
			continue
		}
		for _, under := range list {
			if offset[under] < offset[g] && in.size[under] > 0 && in.overlap(g, under) &&
				alignUp(offset[under]+in.size[under], in.align[g]) == offset[g] && !slices.Contains(chain, under) {
				chain = append(chain, under)
			}
		}
	}
	return chain
}
