package memplan

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// DefaultAlign is the alignment, in bytes, of a buffer that asks for none: a cache line.
const DefaultAlign = 64

// Problem is the input of Plan. The numbering of steps expresses branches and loops: the steps of the two branches of
// an if follow each other, so that a buffer alive in one branch only never meets a buffer alive in the other only; the
// steps of a loop's body are listed once, and a value carried between iterations is alive over all of them.
type Problem struct {
	Dims    *sym.Dims // the dimensions' ranges; nil if there are none. Formulas hold within them
	Buffers []Buffer
	Steps   int // step numbers are 0 to Steps−1
}

// Buffer is a range of bytes that must not be shared with another while it is alive.
type Buffer struct {
	Name  string
	Size  sym.Expr // bytes, not rounded, never negative
	Align int64    // a power of two, in bytes; 0 means DefaultAlign or, of an alias, none of its own
	First int      // the first step it is alive in
	Last  int      // the last step it is alive in; First ≤ Last
	Alias *Alias   // not nil: it has no bytes of its own
}

// Alias says that a buffer lies inside another, by proof of the caller's: a view, a slice that a producer writes of a
// whole, a result computed in place of an operand. All that are joined by aliases are placed as one, as long as their
// extents together, and alive from the first step of any of them to the last.
type Alias struct {
	Of     int      // index of the other buffer, which may be an alias too
	Offset sym.Expr // bytes from the other's first byte, provably not negative
}

// At returns the problem at one binding of the dimensions: every size a number. The error is of sizes that have no
// value there.
func (p Problem) At(lookup func(name sym.Name) (int64, bool)) (Problem, error) {
	at := Problem{Buffers: slices.Clone(p.Buffers), Steps: p.Steps}
	for i := range at.Buffers {
		b := &at.Buffers[i]
		size, err := b.Size.Eval(lookup)
		if err != nil || size < 0 {
			return at, diag.Inputf("the size of %s, %s, has no value: %v", b.Name, b.Size, err)
		}
		b.Size = sym.Const(size)
		if b.Alias == nil {
			continue
		}
		offset, err := b.Alias.Offset.Eval(lookup)
		if err != nil {
			return at, err
		}
		b.Alias = &Alias{b.Alias.Of, sym.Const(offset)}
	}
	return at, nil
}

// group is a set of buffers that are placed together.
type group struct {
	root    int // the buffer at its first byte
	members []int
	size    sym.Expr
	align   int64
	first   int
	last    int
}

// grouping is a checked problem as groups.
type grouping struct {
	dims     *sym.Dims
	groups   []group
	of       []int      // by buffer: its group
	relative []sym.Expr // by buffer: bytes from the group's first byte
}

// input returns an error in the problem, at a buffer.
func input(b *Buffer, format string, args ...any) error {
	return diag.Inputf(format, args...).AtTensor(b.Name)
}

// newGrouping checks a problem and joins aliases. Errors are of kind diag.ErrInput.
func newGrouping(p *Problem) (*grouping, error) {
	g := &grouping{dims: p.Dims, of: make([]int, len(p.Buffers)), relative: make([]sym.Expr, len(p.Buffers))}
	if g.dims == nil {
		g.dims = sym.NewDims()
	}
	if len(p.Buffers) > math.MaxInt32/4 {
		return nil, diag.Inputf("%d buffers are more than can be planned", len(p.Buffers))
	}
	for i := range p.Buffers {
		if err := g.check(p, &p.Buffers[i]); err != nil {
			return nil, err
		}
		g.of[i] = -1
	}
	for i := range p.Buffers {
		if err := g.join(p, i); err != nil {
			return nil, err
		}
	}
	for i := range g.groups {
		if err := g.measure(p, i); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// check returns an error if a buffer's lifetime, alignment, size or alias is invalid.
func (g *grouping) check(p *Problem, b *Buffer) error {
	if b.First < 0 || b.First > b.Last || b.Last >= p.Steps {
		return input(b, "alive from step %d to step %d of %d", b.First, b.Last, p.Steps)
	}
	if b.Align < 0 || b.Align&(b.Align-1) != 0 {
		return input(b, "an alignment of %d bytes, which is not a power of two", b.Align)
	}
	for _, name := range b.Size.Vars() {
		if _, known := g.dims.Get(name); !known {
			return diag.Inputf("size %s mentions a dimension without a range", b.Size).AtTensor(b.Name)
		}
	}
	if _, hi := g.dims.Bounds(b.Size); hi < 0 {
		return input(b, "size %s is negative", b.Size)
	}
	if b.Alias != nil {
		if b.Alias.Of < 0 || b.Alias.Of >= len(p.Buffers) {
			return input(b, "an alias of buffer %d of %d", b.Alias.Of, len(p.Buffers))
		}
		if lo, _ := g.dims.Bounds(b.Alias.Offset); lo < 0 && g.dims.LE(sym.Const(0), b.Alias.Offset) != sym.Yes {
			return input(b, "its offset %s in %s may be negative", b.Alias.Offset, p.Buffers[b.Alias.Of].Name)
		}
	}
	return nil
}

// join finds the group of a buffer: it follows aliases to the buffer that has bytes of its own.
func (g *grouping) join(p *Problem, buffer int) error {
	var way []int
	at := buffer
	for g.of[at] < 0 && p.Buffers[at].Alias != nil {
		if way = append(way, at); len(way) > len(p.Buffers) {
			return input(&p.Buffers[buffer], "it is an alias of itself")
		}
		at = p.Buffers[at].Alias.Of
	}
	if g.of[at] < 0 {
		g.of[at] = len(g.groups)
		g.groups = append(g.groups, group{root: at, members: []int{at}, align: p.Buffers[at].Align})
	}
	mine := &g.groups[g.of[at]]
	for i := len(way) - 1; i >= 0; i-- {
		b := way[i]
		g.of[b] = g.of[at]
		alias := p.Buffers[b].Alias
		g.relative[b] = g.dims.Simplify(g.relative[alias.Of].Add(alias.Offset))
		mine.members = append(mine.members, b)
	}
	return nil
}

// measure computes a group's extent, alignment and lifetime from its members.
func (g *grouping) measure(p *Problem, at int) error {
	mine := &g.groups[at]
	root := &p.Buffers[mine.root]
	if mine.align = root.Align; mine.align == 0 {
		mine.align = DefaultAlign
	}
	mine.first, mine.last = root.First, root.Last
	ends := make([]sym.Expr, 0, len(mine.members))
	for _, m := range mine.members {
		b := &p.Buffers[m]
		mine.first, mine.last = min(mine.first, b.First), max(mine.last, b.Last)
		mine.align = max(mine.align, b.Align)
		ends = append(ends, g.relative[m].Add(b.Size))
		if b.Align > 1 && !g.multiple(g.relative[m], b.Align) {
			return diag.Inputf("it lies %s bytes into %s, which is not proved a multiple of its alignment %d", g.relative[m],
				root.Name, b.Align).AtTensor(b.Name)
		}
	}
	mine.size = g.dims.Simplify(sym.MaxOf(ends...))
	return nil
}

// multiple reports whether x is proved a multiple of align.
func (g *grouping) multiple(x sym.Expr, align int64) bool {
	rest, ok := g.dims.Simplify(x.Mod(sym.Const(align))).Const()
	return ok && rest == 0
}

// round returns x rounded up to a multiple of align.
func (g *grouping) round(x sym.Expr, align int64) sym.Expr {
	if g.multiple(x, align) {
		return x
	}
	return g.dims.Simplify(x.CeilDiv(sym.Const(align)).Mul(sym.Const(align)))
}

// lifetimes returns the groups' live ranges, compressed.
func (g *grouping) lifetimes() *lifetimes {
	n := len(g.groups)
	first, last, align := make([]int, n), make([]int, n), make([]int64, n)
	for i, m := range g.groups {
		first[i], last[i], align[i] = m.first, m.last, m.align
	}
	return newLifetimes(first, last, align)
}

// String returns the group's root, its number of aliases and its live range, for tests.
func (g group) String() string {
	return fmt.Sprintf("%d+%d [%d %d]", g.root, len(g.members)-1, g.first, g.last)
}
