package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Transposes, for machines that run blocks of threads: maps that store along one axis what they read along another.
// Whichever of the two neighbouring threads follow, the other is read, or written, an element at a time from lines far
// apart. A block brings a square tile to shared memory along the one, and takes it from there along the other:
//
//	each i … { each j … { y[i, j] = f(x[j, i]) } }

// turnedSide is the side of a tile, at most. A row of it has an element more than it needs: else the elements of a
// column lie in one bank of shared memory.
const turnedSide = 32

// blockTurned makes a map of a transpose one for blocks of threads; nil if it is none, or reads are as fast in any
// order.
func (s *scheduler) blockTurned(k *loop.Kernel) *loop.Kernel {
	loops, body := outerLoops(k.Body)
	if s.machine.Has(target.CachedReads) || len(loops) < 2 || !straight(body) {
		return nil
	}
	w := &turnedWriter{scheduler: s, names: s.newNamer(k), body: body}
	if !w.match(loops) {
		return nil
	}
	for w.side = turnedSide; w.side >= 4; w.side /= 2 {
		if next := s.ifFits(k, w.block(loops)); next != nil {
			return next
		}
	}
	return nil
}

// straight reports whether statements name values and store, and nothing else: all that they read may be read at once.
func straight(body []loop.Stmt) bool {
	return !slices.ContainsFunc(body, func(s loop.Stmt) bool {
		switch s.(type) {
		case *loop.Let, *loop.Store:
			return false
		}
		return true
	})
}

// turnedWriter writes such a kernel.
type turnedWriter struct {
	*scheduler
	names        *namer
	body         []loop.Stmt
	load         *loop.Load // the one along the other axis
	read, stored *loop.For  // the axis along which it reads, and that of the store
	side         int64
}

// match finds the load and the two axes. The load mentions no value with a name.
func (w *turnedWriter) match(loops []*loop.For) bool {
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
	return w.load != nil && w.guess(w.read.Extent) >= turnedSide/2 && w.guess(w.stored.Extent) >= turnedSide/2
}

// block is the loops over blocks, and what one does.
func (w *turnedWriter) block(loops []*loop.For) []loop.Stmt {
	side := sym.Const(w.side)
	tile := &loop.Local{Name: w.names.name("tile"), DType: w.load.Type, Shape: []sym.Expr{side, sym.Const(w.side + 1)},
		Space: loop.Shared}
	down, right := w.names.bound("bi"), w.names.bound("bj")
	place := func(stored, read sym.Expr) map[sym.Name]sym.Expr {
		return map[sym.Name]sym.Expr{w.stored.Var: sym.Var(down).Mul(side).Add(stored),
			w.read.Var: sym.Var(right).Mul(side).Add(read)}
	}
	all := func(do func(along, across sym.Expr) []loop.Stmt) loop.Stmt {
		e := w.names.bound("e")
		at := sym.Var(e)
		return &loop.For{Kind: loop.Thread, Var: e, Extent: side.Mul(side), Body: do(at.Mod(side), at.FloorDiv(side))}
	}
	fetch := all(func(read, stored sym.Expr) []loop.Stmt {
		values := place(stored, read)
		for _, f := range []*loop.For{w.stored, w.read} {
			values[f.Var] = inRange(values[f.Var], f.Extent, w.scheduler, w.side)
		}
		return []loop.Stmt{&loop.Store{To: tile.Name, Index: []sym.Expr{stored, read}, X: withIntegers(w.load, values)}}
	})
	finish := all(func(stored, read sym.Expr) []loop.Stmt {
		values := place(stored, read)
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
