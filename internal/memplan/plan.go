package memplan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Options restricts the search for a plan. The zero value is right for every user but tests.
type Options struct {
	Layouts int      // the most layouts that a solution may have; 0 means 4
	Without []string // stages of the search to leave out: greedy, fill, exact, local
	Work    int64    // the most steps, of a nanosecond or two, that the complete search takes; 0 means some 8 million
	Prefix  string   // of the names that Lets define; "" means "at."
}

// candidate is an order and its height at each sample.
type candidate struct {
	stack   *stack
	found   string
	heights []int64
	shelves [][]int  // the shelves that the stack was made of, or nil
	formula sym.Expr // once written
	written bool
}

// planner is one problem on its way to a solution.
type planner struct {
	*algebra
	problem   *Problem
	lifetimes *lifetimes
	instances []*instance // by sample
	list      []*candidate
	last      *candidate // the candidate whose formula is sure to be short enough
	least     int64      // of a problem without dimensions: no plan is lower
	options   Options
}

// newPlanner checks a problem and computes its groups, samples and lower bounds.
func newPlanner(p Problem, o Options) (*planner, error) {
	g, err := newGrouping(&p)
	if err != nil {
		return nil, err
	}
	list := make([]sym.Expr, len(g.groups))
	for i := range list {
		list[i] = g.groups[i].size
	}
	z, err := newSizes(list)
	if err != nil {
		return nil, err
	}
	pl := &planner{problem: &p, lifetimes: g.lifetimes(), options: o}
	if n := pl.lifetimes.alive(); n > mostAlive {
		return nil, diag.Inputf("%d buffers are alive at so many of %d steps that they are more than can be planned",
			len(p.Buffers), p.Steps)
	}
	bindings := z.samples(g.dims, func(binding []int64) bool {
		size := z.at(binding)
		return size != nil && pl.lifetimes.summable(size)
	})
	if bindings == nil {
		return nil, diag.Inputf("the sizes of %d buffers are negative, cannot be computed or add up to over %d bytes",
			len(p.Buffers), int64(limit))
	}
	for _, binding := range bindings {
		pl.instances = append(pl.instances, newInstance(pl.lifetimes, z.at(binding)))
	}
	pl.algebra = newAlgebra(g, z, bindings)
	return pl, nil
}

// Plan looks for a solution. The problem's buffers belong to the solution from then on: leave them as they are. The
// same problem has the same solution on every machine. Errors are of kind diag.ErrInput: an invalid lifetime,
// alignment, alias or size, or sizes too large to be added up.
func Plan(p Problem, o Options) (*Solution, error) {
	pl, err := newPlanner(p, o)
	if err != nil {
		return nil, err
	}
	pl.search()
	for {
		chosen := pl.choose()
		refused := false
		for _, c := range chosen {
			if !pl.write(c) {
				refused = true
				pl.list = slices.DeleteFunc(pl.list, func(other *candidate) bool { return other == c })
			}
		}
		if !refused {
			return pl.solution(chosen), nil
		}
	}
}

// write finds a candidate's formula. It returns false if that has too many terms; those of shelves never have.
func (pl *planner) write(c *candidate) bool {
	switch {
	case c.written:
	case c.shelves != nil:
		c.formula, c.written = pl.shelved(c.shelves, c.stack.align), true
	default:
		c.formula, c.written = pl.arena(c.stack)
	}
	return c.written
}

// Countable returns an error if Plan refuses the problem: for example, if sizes are negative, or their sum does not fit
// in 64 bits.
func Countable(p Problem) error {
	_, err := newPlanner(p, Options{})
	return err
}

// Naive returns the plan without any reuse: no two buffers share a byte, except aliases. Plan is compared with
// it.
func Naive(p Problem) (*Solution, error) {
	pl, err := newPlanner(p, Options{})
	if err != nil {
		return nil, err
	}
	shelves := make([][]int, len(pl.groups))
	for g := range shelves {
		shelves[g] = []int{g}
	}
	pl.consider(&candidate{stack: newShelves(shelves, pl.lifetimes.align), shelves: shelves, found: "naive"})
	pl.write(pl.list[0])
	return pl.solution(pl.list), nil
}

// Bump returns the plan of an allocator that puts each buffer, as it comes alive, above all that are alive then. Beside
// the errors of Plan it may return one of kind diag.ErrUnsupported: its formula may be too long to be written.
func Bump(p Problem) (*Solution, error) {
	pl, err := newPlanner(p, Options{})
	if err != nil {
		return nil, err
	}
	pl.consider(&candidate{stack: newStack(pl.lifetimes, pl.byStart()), found: "bump"})
	if !pl.write(pl.list[0]) {
		return nil, diag.Unsupportedf("the formula of a bump plan of %d buffers has more than %d terms", len(p.Buffers),
			widestFormula)
	}
	return pl.solution(pl.list), nil
}

// byStart lists the groups in the order in which they come alive.
func (pl *planner) byStart() []int {
	list := make([]int, len(pl.groups))
	for g := range list {
		list[g] = g
	}
	slices.SortStableFunc(list, func(a, b int) int { return pl.groups[a].first - pl.groups[b].first })
	return list
}

// The work of one plan, in elementary steps: some milliseconds for each stage, shared by the samples.
const (
	greedyWork = 6 << 20
	localWork  = 3 << 20
	exactWork  = 8 << 20
)

// search fills the list of candidates: the order of the starts, shelves and the order that they settle into and, for
// each sample, an order found for it, unless a known one reaches the bound there.
func (pl *planner) search() {
	pl.consider(&candidate{stack: newStack(pl.lifetimes, pl.byStart()), found: "start"})
	if shelves := pl.colour(); len(shelves) > 0 && len(pl.names) > 0 {
		c := &candidate{stack: newShelves(shelves, pl.lifetimes.align), shelves: shelves, found: "shelves"}
		pl.consider(&candidate{stack: newStack(pl.lifetimes, c.stack.order), found: "settled"})
		pl.consider(c)
		pl.last = c
	}
	left := effort{greedyWork, localWork, cmp.Or(pl.options.Work, exactWork)}
	for at, in := range pl.instances {
		near := in.bound // a placement this low is good enough
		if at > 0 {
			near += in.bound / 1024
		}
		reached := func(c *candidate) bool { return c.heights[at] <= near }
		if slices.ContainsFunc(pl.list, reached) {
			continue
		}
		share := left
		if len(pl.instances) > 1 {
			share = effort{left.greedy / 3, left.local / 3, left.exact / 3}
		}
		left = effort{left.greedy - share.greedy, left.local - share.local, left.exact - share.exact}
		f := solve(in, share, pl.options.Without)
		pl.least = f.least
		pl.consider(&candidate{stack: newStack(pl.lifetimes, f.order), found: f.by})
	}
}

// consider adds a candidate, unless it does no better than another at any sample.
func (pl *planner) consider(c *candidate) {
	c.heights = make([]int64, len(pl.instances))
	offset := make([]int64, len(pl.groups))
	for i, in := range pl.instances {
		c.heights[i] = c.stack.place(in, offset)
	}
	worse := func(a, b *candidate) bool {
		for i := range a.heights {
			if a.heights[i] < b.heights[i] {
				return false
			}
		}
		return true
	}
	if slices.ContainsFunc(pl.list, func(other *candidate) bool { return worse(c, other) }) {
		return
	}
	pl.list = slices.DeleteFunc(pl.list, func(other *candidate) bool { return worse(other, c) })
	pl.list = append(pl.list, c)
}

// worth is the share of the arena that a further layout must save at some sample.
const worth = 0.01

// choose picks the candidate with the best worst ratio of its height to the bound, and adds others while each makes the
// worst ratio to the lowest height known noticeably better.
func (pl *planner) choose() []*candidate {
	lowest := slices.Repeat([]int64{math.MaxInt64}, len(pl.instances))
	for _, c := range pl.list {
		for i, h := range c.heights {
			lowest[i] = min(lowest[i], h)
		}
	}
	bounds := make([]int64, len(pl.instances))
	for i, in := range pl.instances {
		bounds[i] = in.bound
	}
	most := pl.options.Layouts
	if most <= 0 {
		most = 4
	}
	if len(pl.list) == 0 {
		return []*candidate{pl.last} // its formula can be written even if no other can
	}
	var chosen []*candidate
	best := slices.Repeat([]int64{math.MaxInt64}, len(pl.instances)) // height of the chosen, by sample
	against := bounds
	for len(chosen) < most {
		at, least := -1, [2]float64{math.Inf(1), math.Inf(1)}
		for i, c := range pl.list {
			if r := ratios(best, c.heights, against); slices.Compare(r[:], least[:]) < 0 {
				at, least = i, r
			}
		}
		if len(chosen) > 0 {
			if now := ratios(best, best, lowest); at < 0 || least[0] > now[0]-worth {
				break
			}
		}
		chosen = append(chosen, pl.list[at])
		for i, h := range pl.list[at].heights {
			best[i] = min(best[i], h)
		}
		against = lowest
	}
	return chosen
}

// ratios returns the greatest and the mean ratio of the lower of two heights to a third.
func ratios(a, b, to []int64) [2]float64 {
	worst, sum := 0.0, 0.0
	for i := range to {
		r := float64(min(a[i], b[i])) / float64(max(to[i], 1))
		worst = max(worst, r)
		sum += r
	}
	return [2]float64{worst, sum / float64(len(to))}
}

// colour spreads the groups over shelves, largest first, each onto the first shelf with nothing alive together with it.
func (pl *planner) colour() [][]int {
	in := pl.instances[0]
	var shelves [][]int
	var busy [][]bool
	for _, g := range in.list(priorities[0]) {
		at := slices.IndexFunc(busy, func(points []bool) bool {
			return !slices.Contains(points[in.first[g]:in.last[g]+1], true)
		})
		if at < 0 {
			at = len(shelves)
			shelves, busy = append(shelves, nil), append(busy, make([]bool, len(in.step)))
		}
		shelves[at] = append(shelves[at], g)
		for p := in.first[g]; p <= in.last[g]; p++ {
			busy[at][p] = true
		}
	}
	return shelves
}

// solution writes the chosen candidates down.
func (pl *planner) solution(chosen []*candidate) *Solution {
	s := &Solution{planner: pl, Offsets: make([]sym.Expr, len(pl.problem.Buffers))}
	if s.Bound, s.BoundComplete = sym.Const(pl.instances[0].bound), true; len(pl.names) > 0 {
		s.Bound, s.BoundComplete = pl.bound(pl.lifetimes)
	}
	prefix := pl.prefix()
	fixed := len(chosen) == 1 && len(pl.names) == 0
	at := make([]sym.Expr, len(pl.groups))
	for g := range at {
		at[g] = sym.Var(sym.Planned(fmt.Sprint(prefix, pl.groups[g].root)))
	}
	var arenas []sym.Expr
	for k, c := range chosen {
		l := Layout{Arena: c.formula, Found: c.found, stack: c.stack}
		for _, g := range c.stack.order {
			l.Order = append(l.Order, pl.groups[g].root)
		}
		for _, other := range chosen[k+1:] {
			l.When = append(l.When, sym.Cond{A: c.formula, Rel: sym.LE, B: other.formula})
		}
		if !fixed {
			l.Lets = pl.lets(c, at, prefix)
		}
		s.Layouts = append(s.Layouts, l)
		arenas = append(arenas, c.formula)
	}
	if fixed {
		offset := make([]int64, len(at))
		chosen[0].stack.place(pl.instances[0], offset)
		for g := range at {
			at[g] = sym.Const(offset[g])
		}
	}
	for b := range s.Offsets {
		s.Offsets[b] = at[pl.of[b]].Add(pl.relative[b])
	}
	s.Arena = sym.MinOf(arenas...)
	s.Height = s.Arena
	if !fixed {
		s.Height = sym.Var(sym.Planned(prefix + "arena"))
	}
	s.Least = s.Bound
	if len(pl.names) == 0 {
		s.Least = sym.Const(max(pl.least, pl.instances[0].bound))
	}
	s.Proven = pl.dims.LE(s.Arena, s.Least) == sym.Yes // the other direction holds for every plan
	// The search's own data are released.
	pl.list, pl.last, pl.instances, pl.atoms, pl.index, pl.proofs, pl.shares, pl.padded, pl.lifetimes.near = nil, nil, nil,
		nil, nil, nil, nil, nil, nil
	return s
}

// prefix returns the beginning of the plan's names.
func (pl *planner) prefix() string {
	if pl.options.Prefix == "" {
		return "at."
	}
	return pl.options.Prefix
}

// mostTops is how many ends a height may mention before those proved superfluous are left out. If there are
// few, all are kept: a reader then sees that nothing ends above the height.
const mostTops = 256

// lets defines the offsets of the groups, from the bottom up, and the height.
func (pl *planner) lets(c *candidate, at []sym.Expr, prefix string) []Let {
	var list []Let
	s := c.stack
	for _, g := range s.order {
		rests := []sym.Expr{sym.Const(0)}
		if s.beside != nil && s.beside[g] >= 0 {
			rests = append(rests, at[s.beside[g]])
		}
		for _, under := range s.below[g] {
			size := pl.groups[under].size
			if s.align[under] >= s.align[g] {
				rests = append(rests, at[under].Add(pl.pad(pl.class[under], s.align[g]).x))
			} else {
				align := sym.Const(s.align[g])
				rests = append(rests, at[under].Add(size).CeilDiv(align).Mul(align))
			}
		}
		if len(rests) > 1 {
			rests = rests[1:] // offsets are never negative
		}
		name, _ := at[g].Name()
		list = append(list, Let{name, sym.MaxOf(rests...), rests})
	}
	tops := []sym.Expr{sym.Const(0)}
	pl.tops(s, func(g int32, counts bool) {
		if len(s.open) > mostTops && s.highest != nil && !s.highest[g] {
			return // its end is proved to be no higher than another's
		}
		top := at[g].Add(pl.groups[g].size)
		if !counts {
			top = pl.groups[g].size.Min(sym.Const(1)).Mul(top)
		}
		tops = append(tops, top)
	})
	if len(tops) > 1 {
		tops = tops[1:]
	}
	return append(list, Let{sym.Planned(prefix + "arena"), sym.MaxOf(tops...), tops})
}
