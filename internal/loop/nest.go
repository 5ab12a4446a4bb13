package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Nest is parallel loops, each directly inside the one before, and the body of the innermost. Their iterations together are tiles. Without
// loops the body is one tile.
type Nest struct {
	Loops []*For
	Body  []Stmt
}

// Nests takes a kernel apart: into its parallel nests where it consists of nothing else, otherwise it is one nest without loops. The extents of
// a nest's loops are over dimensions only.
func Nests(k *Kernel) []Nest {
	var nests []Nest
	for _, s := range k.Body {
		f, ok := s.(*For)
		if !ok || f.Kind != Parallel {
			return []Nest{{Body: k.Body}}
		}
		n := Nest{Loops: []*For{f}, Body: f.Body}
		for {
			inner, ok := Only(n.Body)
			if !ok || inner.Kind != Parallel || slices.ContainsFunc(inner.Extent.Vars(), func(name string) bool { return !slices.Contains(k.Dims, name) }) {
				break
			}
			n.Loops, n.Body = append(n.Loops, inner), inner.Body
		}
		nests = append(nests, n)
	}
	return nests
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
