package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file holds the functions that the recipes for blocks of threads (block_*.go) share.

// outerLoops returns the independent loops around a body, each alone in the previous one, and the innermost body.
func outerLoops(body []loop.Stmt) (loops []*loop.For, inner []loop.Stmt) {
	for {
		f, ok := loop.Only(body)
		if !ok || f.Kind != loop.Each || !freeOf(f.Extent, loops) {
			return loops, body
		}
		loops, body = append(loops, f), f.Body
	}
}

// inBlocks returns a body inside Block loops, one for each of the loops.
func inBlocks(loops []*loop.For, body []loop.Stmt) []loop.Stmt {
	for _, f := range slices.Backward(loops) {
		body = []loop.Stmt{&loop.For{Kind: loop.Block, Var: f.Var, Extent: f.Extent, Body: body}}
	}
	return body
}

// ifFits returns a kernel with another body; nil if that exceeds the machine.
func (s *scheduler) ifFits(k *loop.Kernel, body []loop.Stmt) *loop.Kernel {
	next := k.Clone()
	next.Body = body
	if next.Dims = dimsOf(next, k); !s.fits(next) {
		return nil
	}
	return next
}

// below returns x < y as a bool value.
func below(x, y sym.Expr) loop.Expr { return loop.Apply2(loop.Lt, loop.At(x), loop.At(y)) }

// ifBelow returns statements that run if x < y.
func ifBelow(x, y sym.Expr, body []loop.Stmt) []loop.Stmt {
	return []loop.Stmt{&loop.When{Cond: below(x, y), Then: body}}
}

// store returns a store to an element of a local.
func store(to *loop.Local, x loop.Expr, index ...sym.Expr) *loop.Store {
	return &loop.Store{To: to.Name, Index: index, X: x}
}

// load returns a load of an element of a local.
func load(from *loop.Local, index ...sym.Expr) *loop.Load {
	return &loop.Load{From: from.Name, Index: index, Type: from.DType}
}

// contractOwn returns a Contract that adds the products of a thread's elements of two operands for one step.
func contractOwn(sums, a, b *loop.Local, thread sym.Expr) *loop.Contract {
	origin, own := []sym.Expr{thread, zero}, []sym.Expr{zero, one}
	return &loop.Contract{M: sums.Shape[1], N: sums.Shape[2], K: one,
		C: loop.Tile{Buffer: sums.Name, Origin: []sym.Expr{thread, zero, zero}, Row: []sym.Expr{zero, one, zero},
			Col: []sym.Expr{zero, zero, one}},
		A: loop.Tile{Buffer: a.Name, Origin: origin, Row: own, Col: []sym.Expr{zero, zero}},
		B: loop.Tile{Buffer: b.Name, Origin: origin, Row: []sym.Expr{zero, zero}, Col: own}}
}
