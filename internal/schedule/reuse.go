package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// keepInLanes moves a vector loop outside of the each-loop around it, if its body sums products with a factor that each
// lane reads again in every iteration of that loop, such as a depthwise convolution's weights along a row of pixels:
// that factor is then read once and stays in registers. The other factor is walked with a stride, which pays only if
// the second-level cache holds it; from memory, contiguous cache lines are faster.
func keepInLanes(s *scheduler, k *loop.Kernel) bool {
	if s.machine.Name != target.AMD64Name {
		return false
	}
	changed := false
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		f, ok := stmt.(*loop.For)
		if !ok || f.Kind != loop.Each {
			return []loop.Stmt{stmt}
		}
		v, ok := loop.Only(f.Body)
		if !ok || v.Kind != loop.Vector || mentions(v.Extent, f.Var) || !readsAgain(v, f.Var) || !s.near(k, v, f.Var) {
			return []loop.Stmt{stmt}
		}
		if inner, ok := loop.Only(v.Body); ok && inner.Kind == loop.Each {
			return []loop.Stmt{stmt} // one loop is enough; loops further out become tiles
		}
		if n, ok := f.Extent.Const(); !ok || n < 4 {
			return []loop.Stmt{stmt}
		}
		changed = true
		inner := &loop.For{Kind: loop.Each, Var: f.Var, Extent: f.Extent, Body: v.Body}
		return []loop.Stmt{&loop.For{Kind: loop.Vector, Var: v.Var, Extent: v.Extent, Body: []loop.Stmt{inner}}}
	}}
	k.Body = r.Body(k.Body)
	return changed
}

// readsAgain reports whether the sums in a vector loop's body have a factor that varies by lane, has no mask, and does
// not depend on the variable.
func readsAgain(v *loop.For, variable sym.Name) bool {
	found := false
	loop.Walk(v.Body, func(stmt loop.Stmt) bool {
		sum, ok := stmt.(*loop.Reduce)
		if !ok || sum.Op != loop.Add {
			return true
		}
		product, ok := sum.X.(*loop.Binary)
		if !ok || product.Op != loop.Mul {
			return true
		}
		for _, x := range []loop.Expr{product.X, product.Y} {
			load, ok := x.(*loop.Load)
			if ok && load.Mask == nil && anyMentions(load.Index, v.Var) && !anyMentions(load.Index, variable) {
				found = true
			}
		}
		return true
	})
	return found
}

// near reports whether the second-level cache holds the parameters that the loop's variable walks.
func (s *scheduler) near(k *loop.Kernel, v *loop.For, variable sym.Name) bool {
	total := int64(0)
	for _, p := range k.Params {
		walked := false
		for _, a := range loop.Accesses(v.Body) {
			walked = walked || a.Buffer == p.Name && anyMentions(a.Index, variable)
		}
		if bytes, ok := loop.Bytes(p.DType, p.Shape).Const(); walked && p.Access == loop.Read {
			if !ok {
				return false
			}
			total += bytes
		}
	}
	return total <= s.machine.Limits.L2*3/4
}
