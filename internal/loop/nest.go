package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Nest is parallel loops, each directly inside the one before, and the body of the innermost. Their iterations together
// are tiles. Without loops the body is one tile.
type Nest struct {
	Loops []*For
	Body  []Stmt
}

// Nests takes a kernel apart: into its parallel nests where it consists of nothing else, which are independent of one
// another; otherwise it is one nest without loops (a course is for those that know of it). The extents of a nest's
// loops are over dimensions only.
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

// Course is a kernel of parallel nests that run one after another, each once the one before it has ended: some of them,
// then those of a serial loop in each of its steps, then the rest. What is parallel in one is so in each step alike:
// its extents are over dimensions only.
type Course struct {
	Before, Each, After []Nest
	Steps               *For
}

// CourseOf takes apart a kernel that consists of parallel nests, and one serial loop of parallel nests among them.
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

// nest takes a parallel loop and the parallel loops inside it apart.
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

// overDims reports whether an integer depends on the kernel's dimensions only.
func (k *Kernel) overDims(e sym.Expr) bool {
	return !slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return !slices.Contains(k.Dims, name) })
}

// Tiles is the number of a nest's tiles, over dimensions.
func (n *Nest) Tiles() sym.Expr {
	count := sym.Const(1)
	for _, l := range n.Loops {
		count = count.Mul(l.Extent.Max(sym.Const(0)))
	}
	return count
}

// Only returns the loop that a body consists of.
func Only(body []Stmt) (*For, bool) {
	if len(body) != 1 {
		return nil, false
	}
	f, ok := body[0].(*For)
	return f, ok
}
