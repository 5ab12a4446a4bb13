package validator

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Plan is a problem and its claimed solution.
type Plan struct {
	Dims    *sym.Dims // the dimensions' ranges; nil if there are none
	Buffers []Buffer
	Offsets []sym.Expr // by buffer: bytes from the arena's start, over the dimensions and the Lets' names
	Layouts []Layout   // the first whose conditions all hold is used
	Height  sym.Expr   // the arena in bytes, over the same names
	Arena   sym.Expr   // the arena in bytes, over the dimensions alone
	Bound   sym.Expr   // the lower bound in bytes, over the dimensions alone
	Weak    bool       // the lower bound may be less than the needed bytes, never more
}

// Buffer is a range of bytes, alive from step First to step Last, both included.
type Buffer struct {
	Name        string
	Size        sym.Expr // bytes
	Align       int64    // bytes, a power of two; 0 means 64 or, of an alias, no demand
	First, Last int
	AliasOf     int      // index of the buffer that it must lie inside, −1 for none
	AliasOffset sym.Expr // bytes from that buffer's first
}

// Layout is a list of definitions, each over dimensions and earlier names, and the conditions under which they hold.
type Layout struct {
	When  []sym.Cond
	Lets  []Let
	Arena sym.Expr // this layout's arena, over the dimensions alone
}

// Let names an integer. Of is optional: expressions whose maximum X is said to be, which spares Prove looking for them
// in X.
type Let struct {
	Name sym.Name
	X    sym.Expr
	Of   []sym.Expr
}

// Rule is a rule that a plan must keep.
type Rule string

// The rules.
const (
	Value   Rule = "value"   // an expression cannot be computed, or a size is negative
	Bounds  Rule = "bounds"  // a buffer lies outside the arena
	Align   Rule = "align"   // an offset is not a multiple of the alignment
	Alias   Rule = "alias"   // an alias has the wrong offset
	Overlap Rule = "overlap" // two buffers alive together share a byte
	Arena   Rule = "arena"   // the arena is not the end of the highest byte used, or its formulas differ
	Bound   Rule = "bound"   // the lower bound is not the one recomputed here
	Choice  Rule = "choice"  // no layout's conditions hold, or another layout is lower than the one that is chosen
)

// Fault is a broken rule, with the buffers and the detail.
type Fault struct {
	Rule    Rule
	Buffers []string
	Detail  string
}

// Error returns the rule, the buffers and the detail on one line.
func (f *Fault) Error() string {
	text := "memory plan: " + string(f.Rule)
	for _, b := range f.Buffers {
		text += fmt.Sprintf(" %q", b)
	}
	return text + ": " + f.Detail
}

// fault returns a Fault.
func fault(rule Rule, detail string, buffers ...string) error {
	return &Fault{rule, buffers, detail}
}

// family is a buffer that is not an alias, with all its aliases: at one binding a rectangle of steps and bytes.
type family struct {
	root        int
	first, last int
	begin, end  int64
	align       int64
}

// Check checks the plan at one binding of the dimensions: every layout, and which of them is chosen. It returns a
// *Fault for the first rule found broken.
func Check(p *Plan, value func(name sym.Name) (int64, bool)) error {
	if len(p.Offsets) != len(p.Buffers) || len(p.Layouts) == 0 {
		return fault(Value, fmt.Sprintf("%d offsets for %d buffers, %d layouts", len(p.Offsets), len(p.Buffers),
			len(p.Layouts)))
	}
	roots, err := findRoots(p)
	if err != nil {
		return err
	}
	chosen, least := int64(-1), int64(math.MaxInt64)
	for i := range p.Layouts {
		l := &p.Layouts[i]
		height, err := checkLayout(p, l, roots, value)
		if err != nil {
			return err
		}
		holds := true
		for _, c := range l.When {
			ok, err := c.Eval(value)
			if err != nil {
				return fault(Choice, fmt.Sprintf("condition %s of layout %d: %v", c, i, err))
			}
			holds = holds && ok
		}
		if holds && chosen < 0 {
			chosen = height
		}
		least = min(least, height)
	}
	arena, err := p.Arena.Eval(value)
	switch {
	case err != nil:
		return fault(Value, fmt.Sprintf("the arena's formula: %v", err))
	case chosen < 0:
		return fault(Choice, "no layout's conditions hold")
	case chosen != least:
		return fault(Choice, fmt.Sprintf("the layout chosen has %d bytes, another %d", chosen, least))
	case arena != chosen:
		return fault(Arena, fmt.Sprintf("the formula gives %d bytes, the highest byte used ends at %d", arena, chosen))
	}
	return nil
}

// findRoots follows aliases to the buffers that are not aliases.
func findRoots(p *Plan) ([]int, error) {
	roots := make([]int, len(p.Buffers))
	for i, b := range p.Buffers {
		if b.First > b.Last {
			return nil, fault(Value, fmt.Sprintf("alive from step %d to %d", b.First, b.Last), b.Name)
		}
		at := i
		for hops := 0; p.Buffers[at].AliasOf >= 0; hops++ {
			if at = p.Buffers[at].AliasOf; at >= len(p.Buffers) || hops > len(p.Buffers) {
				return nil, fault(Alias, "an alias of an unknown buffer, or of itself", b.Name)
			}
		}
		roots[i] = at
	}
	return roots, nil
}

// checkLayout checks one layout and returns the end of the highest byte that it uses.
func checkLayout(p *Plan, l *Layout, roots []int, value func(sym.Name) (int64, bool)) (int64, error) {
	defined := map[sym.Name]int64{}
	lookup := func(name sym.Name) (int64, bool) {
		if v, ok := defined[name]; ok {
			return v, true
		}
		return value(name)
	}
	for _, let := range l.Lets {
		v, err := let.X.Eval(lookup)
		if err != nil {
			return 0, fault(Value, fmt.Sprintf("%s = %s: %v", let.Name, let.X, err))
		}
		defined[let.Name] = v
	}
	families, err := rectangles(p, roots, lookup)
	if err != nil {
		return 0, err
	}
	used := int64(0)
	for _, f := range families {
		if f.end > f.begin {
			used = max(used, f.end)
		}
	}
	height, err := p.Height.Eval(lookup)
	if err != nil {
		return 0, fault(Value, fmt.Sprintf("the height %s: %v", p.Height, err))
	}
	formula, err := l.Arena.Eval(value)
	if err != nil {
		return 0, fault(Value, fmt.Sprintf("a layout's arena: %v", err))
	}
	for _, f := range families {
		if f.begin < 0 || f.end > height && f.end > f.begin {
			return 0, fault(Bounds, fmt.Sprintf("bytes %d to %d of an arena of %d", f.begin, f.end, height),
				p.Buffers[f.root].Name)
		}
	}
	if len(l.Lets) > 0 && height != used || formula != used {
		return 0, fault(Arena, fmt.Sprintf("%d by its definition, %d by its formula, and the highest byte used ends at %d",
			height, formula, used))
	}
	bound, err := sweep(p, families)
	if err != nil {
		return 0, err
	}
	claimed, err := p.Bound.Eval(value)
	if err != nil {
		return 0, fault(Value, fmt.Sprintf("the lower bound's formula: %v", err))
	}
	if claimed > bound || claimed != bound && !p.Weak || bound > used {
		return 0, fault(Bound, fmt.Sprintf("%d bytes are claimed, %d found, %d used", claimed, bound, used))
	}
	return used, nil
}

// rectangles computes every family's rectangle, and checks sizes, alignments and aliases on the way.
func rectangles(p *Plan, roots []int, lookup func(sym.Name) (int64, bool)) ([]family, error) {
	index := map[int]int{}
	var families []family
	offsets := make([]int64, len(p.Buffers))
	for i := range p.Buffers {
		b := &p.Buffers[i]
		size, err := b.Size.Eval(lookup)
		if err != nil || size < 0 {
			return nil, fault(Value, fmt.Sprintf("size %s is %d (%v)", b.Size, size, err), b.Name)
		}
		if offsets[i], err = p.Offsets[i].Eval(lookup); err != nil || offsets[i] > math.MaxInt64-size {
			return nil, fault(Value, fmt.Sprintf("offset %s is %d, size %d (%v)", p.Offsets[i], offsets[i], size, err), b.Name)
		}
		align := b.Align
		if align == 0 && b.AliasOf < 0 {
			align = 64
		}
		if align > 1 && offsets[i]%align != 0 {
			return nil, fault(Align, fmt.Sprintf("offset %d is not a multiple of %d", offsets[i], align), b.Name)
		}
		at, known := index[roots[i]]
		if !known {
			at = len(families)
			index[roots[i]] = at
			families = append(families, family{roots[i], b.First, b.Last, offsets[i], offsets[i] + size, max(align, 1)})
		}
		f := &families[at]
		f.first, f.last, f.align = min(f.first, b.First), max(f.last, b.Last), max(f.align, align)
		f.begin, f.end = min(f.begin, offsets[i]), max(f.end, offsets[i]+size)
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.AliasOf < 0 {
			continue
		}
		distance, err := b.AliasOffset.Eval(lookup)
		if err != nil || distance < 0 || offsets[i]-offsets[b.AliasOf] != distance {
			return nil, fault(Alias, fmt.Sprintf("at %d and %d; the distance must be %d (%v)", offsets[i], offsets[b.AliasOf],
				distance, err), b.Name, p.Buffers[b.AliasOf].Name)
		}
	}
	return families, nil
}

// sweep walks over the steps with the families alive, lowest first. Each that comes alive must be disjoint from its
// neighbours. It returns the lower bound, the greatest number of bytes needed at a step.
func sweep(p *Plan, families []family) (bound int64, err error) {
	slices.SortFunc(families, func(a, b family) int { return cmp.Or(a.first-b.first, a.root-b.root) })
	var alive []*family
	for i := 0; i < len(families); {
		step := families[i].first
		alive = slices.DeleteFunc(alive, func(f *family) bool { return f.last < step })
		for ; i < len(families) && families[i].first == step; i++ {
			f := &families[i]
			at, _ := slices.BinarySearchFunc(alive, f, func(a, b *family) int {
				return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
			})
			alive = slices.Insert(alive, at, f)
		}
		highest := &family{}
		for _, f := range alive {
			if f.begin == f.end {
				continue
			}
			if f.begin < highest.end {
				return 0, fault(Overlap, fmt.Sprintf("bytes %d to %d and %d to %d at step %d", highest.begin, highest.end, f.begin,
					f.end, step),
					p.Buffers[highest.root].Name, p.Buffers[f.root].Name)
			}
			highest = f
		}
		bound = max(bound, needed(alive))
	}
	return bound, nil
}

// needed returns the least number of bytes that families alive together can take: those aligned to at least A take
// their sizes rounded up to A, but for the greatest rounding, since the topmost need not be rounded. The alignment that
// asks for most decides.
func needed(alive []*family) int64 {
	most := int64(0)
	for i, by := range alive {
		if slices.ContainsFunc(alive[:i], func(f *family) bool { return f.align == by.align }) {
			continue
		}
		sum, saved := int64(0), int64(0)
		for _, f := range alive {
			if f.align < by.align {
				continue
			}
			size := f.end - f.begin
			excess := (by.align - size%by.align) % by.align
			sum, saved = sum+size+excess, max(saved, excess)
		}
		most = max(most, sum-saved)
	}
	return most
}
