package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Operands whose steps of a sum lie far apart, as both are in the derivative by a weight, are copied to where the steps lie side by side: each step of them is in another page, and all in the
// same few sets of the caches.
const (
	farBytes  = 1024    // from step to step
	farSpan   = 1 << 18 // from the first step to the last
	farRows   = 48      // that read a panel, for a copy of it to be worth its time
	setRows   = 12      // the same, where all steps of the panel lie in a few sets of the caches
	setBytes  = 512     // which they do if they are a multiple of so many bytes apart
	farPanels = 4       // that read a copy of rows
)

// far reports whether the steps of a sum lie far apart in an operand.
func (s *scheduler) far(c *loop.Contract, step []sym.Expr, b *loop.Param) bool {
	bytes := s.stepBytes(step, b)
	return bytes >= farBytes && bytes*s.guess(c.K) >= farSpan
}

// farPanel reports whether a panel of a right operand whose columns lie side by side is worth a copy.
func (s *scheduler) farPanel(c *loop.Contract, b *loop.Param) bool {
	return s.most(c.M) >= s.leastFarRows(c, b) && s.far(c, c.B.Row, b)
}

// leastFarRows is how many rows must read a panel of a right operand for a copy of it to be worth its time.
func (s *scheduler) leastFarRows(c *loop.Contract, b *loop.Param) int64 {
	if math.Mod(s.stepBytes(c.B.Row, b), setBytes) == 0 {
		return setRows
	}
	return farRows
}

// gatherRows copies rows of a left operand that is stored transposed, and whose steps lie far apart, into a local that several panels are multiplied with.
func (s *scheduler) gatherRows(k *loop.Kernel, names *namer) {
	next := k.Clone()
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		if f, ok := stmt.(*loop.For); ok {
			if c := s.overPanels(next, f); c != nil {
				return []loop.Stmt{s.withRows(next, f, c, names)}
			}
		}
		return []loop.Stmt{stmt}
	}}
	next.Body = r.Body(next.Body)
	if s.commits(next, k) {
		k.Body = next.Body
	}
}

// overPanels is the only contraction in a loop over panels, if its left operand is the same for all of them and worth a copy; nil otherwise.
func (s *scheduler) overPanels(k *loop.Kernel, f *loop.For) (c *loop.Contract) {
	if f.Kind != loop.Each && f.Kind != loop.Parallel || s.guess(f.Extent) < 2 {
		return nil
	}
	for _, stmt := range f.Body {
		if found, ok := stmt.(*loop.Contract); ok && c == nil {
			c = found
		} else if ok {
			return nil
		}
	}
	if c == nil {
		return nil
	}
	a := bufferOf(k, c.A.Buffer)
	inside := append(bound(f.Body), f.Var)
	moves := func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return slices.Contains(inside, name) })
	}
	if a == nil || a.Access != loop.Read || slices.ContainsFunc(c.A.Origin, moves) || moves(c.M) || !s.overDims(k, c.K) {
		return nil
	}
	if !isOne(loop.Offset(c.A.Row, a.Shape, a.Strides)) || !s.far(c, c.A.Col, a) {
		return nil
	}
	_, rows := s.dims.Bounds(c.M)
	_, steps := s.dims.Bounds(c.K)
	if rows <= 0 || steps <= 0 || a.DType.Bits() < 8 || steps > int64(s.machine.Limits.L2/2)/int64(a.DType.Bits()/8)/rows {
		return nil
	}
	return c
}

// withRows is a loop over panels, some of them at a time, each after a copy of the rows.
func (s *scheduler) withRows(k *loop.Kernel, f *loop.For, c *loop.Contract, names *namer) loop.Stmt {
	a := bufferOf(k, c.A.Buffer)
	_, most := s.dims.Bounds(c.M)
	shape := [2]sym.Expr{c.K, sym.Const(most)}
	fill := nearby(a, &c.A, &c.A.Col, &c.A.Row, [2]sym.Expr{c.K, c.M}, shape, "rows", names)
	panels := int64(farPanels)
	for panels > 2 && s.guess(f.Extent) <= float64(panels) {
		panels /= 2
	}
	kind := f.Kind
	f.Kind = loop.Each
	cut := s.coster(k).cutInto(f, sym.Const(panels), names)
	cut.Kind = kind
	cut.Body = append(fill, cut.Body...)
	return cut
}
