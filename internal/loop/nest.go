package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Nest is parallel loops, each directly inside the previous one, and the body of the innermost. Each combination of
// iterations is a tile. Without loops, the body is one tile.
type Nest struct {
	Loops []*For
	Body  []Stmt
}

// Nests returns the parallel nests of a kernel that consists of nothing else; they are independent. Any other kernel, a
// course included, is one nest without loops. The extents of a nest's loops depend on dimensions only.
func Nests(k *Kernel) []Nest {
	var nests []Nest
	for _, s := range k.Body {
		f, ok := s.(*For)
		if !ok || f.Kind != Parallel {
			return []Nest{{Body: k.Body}}
		}
		nests = append(nests, k.nest(f))
	}
	return nests
}

// Course is a kernel of parallel nests that run one after another: those of Before, then those of Each in every
// iteration of the serial loop Steps, then those of After. Each nest starts after the previous one has ended. A nest of
// Each has the same extents in every iteration: they depend on dimensions only.
type Course struct {
	Before, Each, After []Nest
	Steps               *For
}

// CourseOf returns the course of a kernel that consists of parallel nests and one serial loop of parallel nests; ok is
// false for other kernels.
func CourseOf(k *Kernel) (c Course, ok bool) {
	for _, s := range k.Body {
		f, loops := s.(*For)
		switch {
		case !loops:
			return Course{}, false
		case f.Kind == Parallel && c.Steps == nil:
			c.Before = append(c.Before, k.nest(f))
		case f.Kind == Parallel:
			c.After = append(c.After, k.nest(f))
		case f.Kind != Serial || c.Steps != nil:
			return Course{}, false
		default:
			c.Steps = f
			for _, s := range f.Body {
				inner, ok := s.(*For)
				if !ok || inner.Kind != Parallel || !k.overDims(inner.Extent) {
					return Course{}, false
				}
				c.Each = append(c.Each, k.nest(inner))
			}
		}
	}
	return c, len(c.Each) > 0
}

// nest returns the nest of a parallel loop and the parallel loops directly inside it.
func (k *Kernel) nest(f *For) Nest {
	n := Nest{Loops: []*For{f}, Body: f.Body}
	for {
		inner, ok := Only(n.Body)
		if !ok || inner.Kind != Parallel || !k.overDims(inner.Extent) {
			return n
		}
		n.Loops, n.Body = append(n.Loops, inner), inner.Body
	}
}

// overDims reports whether a symbolic integer depends on the kernel's dimensions only.
func (k *Kernel) overDims(e sym.Expr) bool {
	return !slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return !slices.Contains(k.Dims, name) })
}

// Tiles returns the number of a nest's tiles, over dimensions.
func (n *Nest) Tiles() sym.Expr {
	count := sym.Const(1)
	for _, l := range n.Loops {
		count = count.Mul(l.Extent.Max(sym.Const(0)))
	}
	return count
}

// Only returns the loop if the body consists of exactly one.
func Only(body []Stmt) (*For, bool) {
	if len(body) != 1 {
		return nil, false
	}
	f, ok := body[0].(*For)
	return f, ok
}

// Hollow returns the extents of the loops that alone make up a loop's body, each in the other, as far as they do not
// depend on their variables: if one of them is 0, the loop does nothing, however often it turns. It returns nil for a
// loop of few turns; most bounds an extent from above, and least from below.
func Hollow(s *For, least, most func(sym.Expr) int64) (extents []sym.Expr) {
	if most(s.Extent) <= fewTurns {
		return nil
	}
	outer := map[sym.Name]bool{s.Var: true}
	for inner, ok := Only(s.Body); ok; inner, ok = Only(inner.Body) {
		if slices.ContainsFunc(inner.Extent.Vars(), func(n sym.Name) bool { return outer[n] }) {
			break
		}
		if least(inner.Extent) <= 0 {
			extents = append(extents, inner.Extent)
		}
		outer[inner.Var] = true
	}
	return extents
}

// fewTurns is the largest number of turns of a loop that take no time if they do nothing.
const fewTurns = 1 << 16
