package memplan

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// Solution says where every buffer of a problem lies, for every binding of the dimensions within their ranges.
type Solution struct {
	// by buffer: bytes from the arena's start, over the dimensions and the names that every layout's Lets define
	Offsets []sym.Expr
	Layouts []Layout // at least one; the first whose conditions all hold is the one
	Height  sym.Expr // the arena in bytes, over the same names: the short form of Arena
	Arena   sym.Expr // the arena in bytes, over the dimensions alone: the end of the highest byte used, not rounded
	Bound   sym.Expr // no solution of the problem has a smaller arena
	// likewise: Bound, or more if no size mentions a dimension and the search refuted all lower heights
	Least  sym.Expr
	Proven bool // Arena equals Least for every binding

	// BoundComplete is false if the full formula of the lower bound has too many terms: Bound is then weaker at some
	// bindings than the certificate's.
	BoundComplete bool

	*planner
}

// Layout is one order, and the offsets that follow from it.
type Layout struct {
	When []sym.Cond // over the dimensions alone; empty in the last layout
	// straight-line definitions, each over dimensions and earlier names; the same names in every layout; none if all is
	// constant
	Lets  []Let
	Arena sym.Expr // this layout's arena, over the dimensions alone
	Order []int    // the buffers that are not aliases, lowest first
	Found string   // the heuristic that found it
	stack *stack
}

// Let names an integer, and says which terms it is the maximum of.
type Let struct {
	Name sym.Name
	X    sym.Expr
	Of   []sym.Expr // X is their maximum
}

// Certificate holds a solution's numbers at one binding.
type Certificate struct {
	Arena  int64   // bytes
	Bound  int64   // bytes; Arena = Bound means that no plan of this problem is better
	Gap    float64 // (Arena − Bound) / Bound, 0 if both are 0
	Layout int     // index of the layout used
	Step   int     // the first step at which Bound is reached
	Live   int64   // sum of the sizes alive at Step, in bytes: Bound less paddings that alignment forces
	Alive  []Alive // the buffers alive at Step, largest first
}

// Alive is a buffer alive at the peak. Of aliases alive together the one that reaches farthest stands for all, and
// Bytes is the extent that they hold.
type Alive struct {
	Buffer int
	Name   string
	Offset int64
	Bytes  int64
}

// Evaluator computes a solution's numbers without allocating. It is for one goroutine; Clone makes one for another.
type Evaluator struct {
	s        *Solution
	names    []sym.Name
	low      []int64
	high     []int64
	codes    []*sym.Code // by class of sizes
	relative []*sym.Code // by buffer, nil for zero
	distinct []int64     // sizes by class
	size     []int64     // by group
	offset   [][]int64   // by layout, by group
}

// Evaluator prepares the solution for evaluation with the dimensions in the given order, which must name all that sizes
// mention.
func (s *Solution) Evaluator(names []sym.Name) (*Evaluator, error) {
	e := &Evaluator{s: s, names: names, distinct: make([]int64, len(s.exprs)), size: make([]int64, len(s.groups))}
	for _, name := range names {
		r, known := s.dims.Get(name)
		if !known {
			r = sym.Range{Min: math.MinInt64, Max: math.MaxInt64}
		}
		e.low, e.high = append(e.low, r.Min), append(e.high, r.Max)
	}
	for _, x := range s.exprs {
		code, err := x.Compile(names)
		if err != nil {
			return nil, diag.Inputf("size %s: %v", x, err)
		}
		e.codes = append(e.codes, code)
	}
	for _, x := range s.relative {
		var code *sym.Code
		if c, ok := x.Const(); !ok || c != 0 {
			var err error
			if code, err = x.Compile(names); err != nil {
				return nil, diag.Inputf("alias offset %s: %v", x, err)
			}
		}
		e.relative = append(e.relative, code)
	}
	for range s.Layouts {
		e.offset = append(e.offset, make([]int64, len(s.groups)))
	}
	return e, nil
}

// Clone returns an evaluator for another goroutine.
func (e *Evaluator) Clone() *Evaluator {
	c := *e
	c.distinct, c.size, c.offset = slices.Clone(e.distinct), slices.Clone(e.size), make([][]int64, len(e.offset))
	for i := range c.offset {
		c.offset[i] = slices.Clone(e.offset[i])
	}
	return &c
}

// Eval computes the arena in bytes, the index of the layout used and, if offsets is not nil, every buffer's offset.
// Values are those of the evaluator's names, in their order. Errors are of kind diag.ErrInput: a value outside its
// range, a size that is negative or overflows.
func (e *Evaluator) Eval(values, offsets []int64) (arena int64, layout int, err error) {
	if len(values) != len(e.names) {
		return 0, 0, diag.Inputf("%d values for %d dimensions", len(values), len(e.names))
	}
	for i, v := range values {
		if v < e.low[i] || v > e.high[i] {
			outside := diag.Inputf("%s = %d is outside %d to %d", e.names[i], v, e.low[i], e.high[i])
			outside.Dim = e.names[i].Text()
			return 0, 0, outside
		}
	}
	for i, code := range e.codes {
		if e.distinct[i], err = code.Eval(values); err != nil {
			return 0, 0, diag.Inputf("size %s: %v", e.s.exprs[i], err)
		}
		if e.distinct[i] < 0 {
			return 0, 0, diag.Inputf("size %s is %d", e.s.exprs[i], e.distinct[i])
		}
	}
	for g, class := range e.s.class {
		e.size[g] = e.distinct[class]
	}
	for k := range e.s.Layouts {
		h, ok := e.s.Layouts[k].stack.checked(e.size, e.offset[k])
		if !ok {
			return 0, 0, diag.Inputf("the offsets overflow 64 bits")
		}
		if k == 0 || h < arena {
			arena, layout = h, k
		}
	}
	for b := range offsets {
		offsets[b] = e.offset[layout][e.s.of[b]]
		if code := e.relative[b]; code != nil {
			r, err := code.Eval(values)
			if err != nil {
				return 0, 0, diag.Inputf("alias offset %s: %v", e.s.relative[b], err)
			}
			offsets[b] += r
		}
	}
	return arena, layout, nil
}

// checked is place for sizes that may overflow and are not negative; ok is false on overflow.
func (s *stack) checked(size, offset []int64) (height int64, ok bool) {
	for _, g := range s.order {
		at, align := int64(0), s.align[g]
		if s.beside != nil && s.beside[g] >= 0 {
			at = offset[s.beside[g]]
		}
		for _, under := range s.below[g] {
			end := offset[under] + size[under]
			if end < 0 || end > math.MaxInt64-align {
				return 0, false
			}
			at = max(at, alignUp(end, align))
		}
		offset[g] = at
		if size[g] > 0 {
			if at > math.MaxInt64-size[g] {
				return 0, false
			}
			height = max(height, at+size[g])
		}
	}
	return height, true
}

// Certify computes the certificate of one binding. Errors are those of Eval.
func (s *Solution) Certify(value func(name sym.Name) (int64, bool)) (*Certificate, error) {
	names := slices.Clone(s.names)
	for _, x := range s.relative {
		names = append(names, x.Vars()...)
	}
	slices.SortFunc(names, sym.Name.Compare)
	names = slices.Compact(names)
	values := make([]int64, len(names))
	for i, name := range names {
		v, known := value(name)
		if !known {
			missing := diag.Inputf("dimension %s has no value", name)
			missing.Dim = name.Text()
			return nil, missing
		}
		values[i] = v
	}
	e, err := s.Evaluator(names)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(s.Offsets))
	c := &Certificate{}
	if c.Arena, c.Layout, err = e.Eval(values, offsets); err != nil {
		return nil, err
	}
	in := newInstance(s.lifetimes, e.size)
	if in == nil {
		return nil, diag.Inputf("the sizes add up to over %d bytes", int64(limit))
	}
	c.Bound = in.bound
	if c.Bound > 0 {
		c.Gap = float64(c.Arena-c.Bound) / float64(c.Bound)
	}
	if len(in.step) == 0 {
		return c, nil
	}
	c.Step = in.step[in.peak]
	for g := range in.size {
		if in.first[g] > in.peak || in.last[g] < in.peak {
			continue
		}
		c.Live += in.size[g]
		c.Alive = append(c.Alive, s.standFor(g, c.Step, in.size[g], e.offset[c.Layout][g]))
	}
	slices.SortStableFunc(c.Alive, func(a, b Alive) int { return compare(b.Bytes, a.Bytes) })
	return c, nil
}

// standFor names the member of a group that is alive at a step: the last that is, since later ones are made of earlier
// ones; the first of all where none is.
func (s *Solution) standFor(g, step int, bytes, offset int64) Alive {
	b := s.groups[g].root
	for _, m := range s.groups[g].members {
		buffer := &s.problem.Buffers[m]
		root := &s.problem.Buffers[b]
		if buffer.First <= step && step <= buffer.Last && (root.First > step || step > root.Last) {
			b = m
		}
	}
	return Alive{Buffer: b, Name: s.problem.Buffers[b].Name, Offset: offset, Bytes: bytes}
}
