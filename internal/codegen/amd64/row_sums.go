package amd64

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Sums along rows, as in a matrix times a vector: a loop over rows, for each of which a vector loop adds up products
// and an expression of the sum is stored. As many rows as there are lanes are done at once: each has a vector of
// partial sums, and all of these are added across together, in three instructions per row instead of nine; the
// expressions of the sums are then computed in lanes.

// rowSumOf returns the vector loop of a loop over rows whose body has, besides, only the sum's variable and a store to
// consecutive elements; nil for other loops.
func rowSumOf(s *loop.For) *loop.For {
	if s.Kind != loop.Each || len(s.Body) != 3 {
		return nil
	}
	v, isVar := s.Body[0].(*loop.Var)
	inner, isLoop := s.Body[1].(*loop.For)
	last, isStore := s.Body[2].(*loop.Store)
	if !isVar || !isLoop || !isStore || inner.Kind != loop.Vector || len(inner.Body) != 1 || v.X.DType() != dtype.F32 {
		return nil
	}
	sum, is := inner.Body[0].(*loop.Reduce)
	if !is || sum.Name != v.Name || sum.Op != loop.Add || !ofMemory(sum.X) || last.Mask != nil {
		return nil
	}
	for axis, index := range last.Index {
		step, _, ok := index.Linear(s.Var)
		if n, known := step.Const(); !ok || !known || axis == len(last.Index)-1 && n != 1 || axis < len(last.Index)-1 &&
			n != 0 {
			return nil
		}
	}
	return inner
}

// ofMemory reports whether an expression is a product, and depends on memory alone.
func ofMemory(x loop.Expr) bool {
	product, is := x.(*loop.Binary)
	is = is && product.Op == loop.Mul
	loop.WalkExpr(x, func(x loop.Expr) {
		switch x := x.(type) {
		case *loop.Load:
			is = is && x.Mask == nil
		case *loop.Const, *loop.Cast, *loop.Binary:
		default:
			is = false
		}
	})
	return is
}

// rowsOfSums emits a loop over rows with as many rows at once as there are lanes; false if it cannot be done so.
func (e *emitter) rowsOfSums(s *loop.For) bool {
	inner := rowSumOf(s)
	if inner == nil || e.vector != nil {
		return false
	}
	if n, fixed := e.resolve(s.Extent).Const(); fixed && n < int64(e.isa.lanes) {
		return false
	}
	saved := e.snapshot()
	e.rows = inner
	reason := attempt(func() {
		e.vectorLoop(&loop.For{Kind: loop.Vector, Var: s.Var, Extent: s.Extent, Body: s.Body}, 0, e.resolve(s.Extent))
	})
	if e.rows = nil; reason != "" {
		e.collect = nil
		e.restore(saved)
	}
	return reason == ""
}

// sumsAlong adds the sums of a vector loop along the rows to a variable whose lanes are rows.
func (e *emitter) sumsAlong(s *loop.For) {
	outer, sum := e.vector, s.Body[0].(*loop.Reduce)
	if n, fixed := e.resolve(s.Extent).Const(); fixed && n <= 0 {
		return
	}
	if outer.tail != asm.NoReg {
		refuse("rows that are fewer than lanes")
	}
	var fours []asm.Reg
	for first := 0; first < e.isa.lanes; first += 4 {
		e.vector = nil
		fours = append(fours, e.fourAcross(e.fourSums(s, sum, outer.original, int64(first))))
	}
	e.vector = outer
	b := e.bound[sum.Name]
	e.set(b, value{dtype: dtype.F32, lo: e.add(b.lo, e.quartersAcross(fours))})
}

// fourSums returns the partial sums, in lanes, of four rows from first on.
func (e *emitter) fourSums(s *loop.For, sum *loop.Reduce, rows sym.Name, first int64) (sums [4]asm.Reg) {
	f := &loop.For{Kind: loop.Vector, Var: s.Var, Extent: s.Extent}
	zero := e.constant(&loop.Const{Type: dtype.F32})
	outer := e.bound
	e.bound = map[string]binding{}
	for i := range sums {
		row := map[sym.Name]sym.Expr{rows: sym.Var(rows).Add(sym.Const(first + int64(i)))}
		one := *loop.Substitute([]loop.Stmt{sum}, row)[0].(*loop.Reduce)
		one.Name = fmt.Sprintf("%s#%d", sum.Name, i)
		e.bound[one.Name] = binding{value: zero, depth: e.here.depth, mutable: true}
		f.Body = append(f.Body, &one)
	}
	e.collect = func(list []reduction) {
		for i, r := range list {
			sums[i] = r.lanes[0].lo
		}
	}
	e.vectorLoop(f, 0, e.resolve(s.Extent))
	e.collect, e.bound = nil, outer
	return sums
}

// fourAcross adds up four vectors within each 128 bits: lane i of each 128 bits of the result has the sum of vector
// i's.
func (e *emitter) fourAcross(x [4]asm.Reg) asm.Reg {
	pairs := func(low, high asm.Op, x, y asm.Reg) asm.Reg { return e.add(e.three(low, x, y), e.three(high, x, y)) }
	return pairs(asm.VUNPCKLPD, asm.VUNPCKHPD, pairs(asm.VUNPCKLPS, asm.VUNPCKHPS, x[0], x[1]),
		pairs(asm.VUNPCKLPS, asm.VUNPCKHPS, x[2], x[3]))
}

// quartersAcross adds up the quarters, or halves, of each vector, and puts the sums side by side.
func (e *emitter) quartersAcross(x []asm.Reg) asm.Reg {
	pairs := func(op asm.Op, low, high int64, x, y asm.Reg) asm.Reg {
		return e.add(e.vectorOf(op, low, x, y), e.vectorOf(op, high, x, y))
	}
	if len(x) == 2 {
		return pairs(asm.VPERM2F128, 0x20, 0x31, x[0], x[1])
	}
	return pairs(asm.VSHUFF64X2, 0x88, 0xdd, pairs(asm.VSHUFF64X2, 0x88, 0xdd, x[0], x[1]),
		pairs(asm.VSHUFF64X2, 0x88, 0xdd, x[2], x[3]))
}
