package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Transposes, for machines that run blocks of threads: maps whose loads are contiguous along another axis than their
// stores:
//
//	each i … { each j … { y[i, j] = f(x[j, i]) } }
//
// If neighbouring threads follow the one axis, their accesses along the other are far apart. A block therefore loads a
// square tile into shared memory with threads along the axis of the loads, and reads it from there with threads along
// the axis of the stores.

// transposeSide is the largest side of a tile. Its rows have one element of padding: without it, the elements of a
// column would be in one bank of shared memory.
const transposeSide = 32

// blockTranspose rewrites a map of a transpose for blocks of threads; nil for other kernels, or if the machine reads
// equally fast in any order.
func (s *scheduler) blockTranspose(k *loop.Kernel) *loop.Kernel {
	loops, body := outerLoops(k.Body)
	if s.machine.Has(target.CachedReads) || len(loops) < 2 || !straight(body) {
		return nil
	}
	w := &transposeWriter{scheduler: s, names: s.newNamer(k), body: body}
	if !w.match(loops) {
		return nil
	}
	for w.side = transposeSide; w.side >= 4; w.side /= 2 {
		if next := s.ifFits(k, w.block(loops)); next != nil {
			return next
		}
	}
	return nil
}

// straight reports whether all statements are named values and stores, so that their loads may run before all of them.
func straight(body []loop.Stmt) bool {
	return !slices.ContainsFunc(body, func(s loop.Stmt) bool {
		switch s.(type) {
		case *loop.Let, *loop.Store:
			return false
		}
		return true
	})
}

// transposeWriter writes the kernel of a transpose.
type transposeWriter struct {
	*scheduler
	names        *namer
	body         []loop.Stmt
	load         *loop.Load // the load that is contiguous along another axis than the store
	read, stored *loop.For  // the loops along which the load and the store are contiguous
	side         int64
}

// match finds the load and the two loops. It reports whether they exist and are long enough for a tile.
func (w *transposeWriter) match(loops []*loop.For) bool {
	along := func(index []sym.Expr) *loop.For {
		if len(index) == 0 {
			return nil
		}
		for _, f := range loops {
			if isVar(index[len(index)-1], f.Var) {
				return f
			}
		}
		return nil
	}
	stores := 0
	for _, s := range w.body {
		if store, ok := s.(*loop.Store); ok {
			w.stored = along(store.Index)
			stores++
		}
	}
	if stores != 1 || w.stored == nil {
		return false
	}
	loop.WalkValues(w.body, func(e loop.Expr) {
		loop.WalkExpr(e, func(x loop.Expr) {
			l, ok := x.(*loop.Load)
			if ok && w.load == nil && l.Mask == nil && l.Type.Bits() >= 8 {
				if f := along(l.Index); f != nil && f != w.stored && anyMentions(l.Index[:len(l.Index)-1], w.stored.Var) {
					w.load, w.read = l, f
				}
			}
		})
	})
	return w.load != nil && w.guess(w.read.Extent) >= transposeSide/2 && w.guess(w.stored.Extent) >= transposeSide/2
}

// block returns the loops over blocks and their body.
func (w *transposeWriter) block(loops []*loop.For) []loop.Stmt {
	side := sym.Const(w.side)
	tile := &loop.Local{Name: w.names.name("tile"), DType: w.load.Type, Shape: []sym.Expr{side, sym.Const(w.side + 1)},
		Space: loop.Shared}
	down, right := w.names.bound("bi"), w.names.bound("bj")
	variables := func(stored, read sym.Expr) map[sym.Name]sym.Expr {
		return map[sym.Name]sym.Expr{w.stored.Var: sym.Var(down).Mul(side).Add(stored),
			w.read.Var: sym.Var(right).Mul(side).Add(read)}
	}
	elements := func(do func(along, across sym.Expr) []loop.Stmt) loop.Stmt {
		e := w.names.bound("e")
		at := sym.Var(e)
		return &loop.For{Kind: loop.Thread, Var: e, Extent: side.Mul(side), Body: do(at.Mod(side), at.FloorDiv(side))}
	}
	fetch := elements(func(read, stored sym.Expr) []loop.Stmt {
		values := variables(stored, read)
		for _, f := range []*loop.For{w.stored, w.read} {
			values[f.Var] = inRange(values[f.Var], f.Extent, w.scheduler, w.side)
		}
		return []loop.Stmt{&loop.Store{To: tile.Name, Index: []sym.Expr{stored, read}, X: withIntegers(w.load, values)}}
	})
	finish := elements(func(stored, read sym.Expr) []loop.Stmt {
		values := variables(stored, read)
		fetched := &loop.Load{From: tile.Name, Index: []sym.Expr{stored, read}, Type: w.load.Type}
		taken := (&loop.Rewrite{Expr: func(e loop.Expr) loop.Expr {
			if l, is := e.(*loop.Load); is && l.From == w.load.From && slices.EqualFunc(l.Index, w.load.Index, sym.Expr.Equal) &&
				l.Mask == nil {
				return fetched
			}
			return e
		}}).Body(w.body)
		body := loop.Substitute(taken, values)
		for _, f := range []*loop.For{w.stored, w.read} {
			if !w.equal(f.Extent.Mod(side), zero) {
				body = ifBelow(values[f.Var], f.Extent, body)
			}
		}
		return body
	})
	body := []loop.Stmt{tile, fetch, finish}
	body = []loop.Stmt{&loop.For{Kind: loop.Block, Var: right, Extent: w.read.Extent.CeilDiv(side), Body: body}}
	body = []loop.Stmt{&loop.For{Kind: loop.Block, Var: down, Extent: w.stored.Extent.CeilDiv(side), Body: body}}
	var others []*loop.For
	for _, f := range loops {
		if f != w.stored && f != w.read {
			others = append(others, f)
		}
	}
	return inBlocks(others, body)
}
