package lanes

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/regalloc"
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
func (e *Emitter) rowsOfSums(s *loop.For) bool {
	inner := rowSumOf(s)
	if inner == nil || e.Strip != nil {
		return false
	}
	if n, fixed := e.Resolve(s.Extent).Const(); fixed && n < int64(e.lanes) {
		return false
	}
	saved := e.snapshot()
	e.rows = inner
	reason := attempt(func() {
		e.vectorLoop(&loop.For{Kind: loop.Vector, Var: s.Var, Extent: s.Extent, Body: s.Body}, 0, e.Resolve(s.Extent))
	})
	if e.rows = nil; reason != "" {
		e.Collect = nil
		e.restore(saved)
	}
	return reason == ""
}

// sumsAlong adds the sums of a vector loop along the rows to a variable whose lanes are rows.
func (e *Emitter) sumsAlong(s *loop.For) {
	outer, sum := e.Strip, s.Body[0].(*loop.Reduce)
	if n, fixed := e.Resolve(s.Extent).Const(); fixed && n <= 0 {
		return
	}
	if outer.tail != regalloc.NoReg {
		Refuse("rows that are fewer than lanes")
	}
	var fours []regalloc.Reg
	for first := 0; first < e.lanes; first += 4 {
		e.Strip = nil
		fours = append(fours, e.FourAcross(e.fourSums(s, sum, outer.original, int64(first))))
	}
	e.Strip = outer
	b := e.bound[sum.Name]
	e.set(b, e.Combine(loop.Add, b.Value, Value{DType: dtype.F32, Lo: e.QuartersAcross(fours)}))
}

// fourSums returns the partial sums, in lanes, of four rows from first on.
func (e *Emitter) fourSums(s *loop.For, sum *loop.Reduce, rows sym.Name, first int64) (sums [4]regalloc.Reg) {
	f := &loop.For{Kind: loop.Vector, Var: s.Var, Extent: s.Extent}
	zero := e.Constant(&loop.Const{Type: dtype.F32})
	outer := e.bound
	e.bound = map[string]binding{}
	for i := range sums {
		row := map[sym.Name]sym.Expr{rows: sym.Var(rows).Add(sym.Const(first + int64(i)))}
		one := *loop.Substitute([]loop.Stmt{sum}, row)[0].(*loop.Reduce)
		one.Name = fmt.Sprintf("%s#%d", sum.Name, i)
		e.bound[one.Name] = binding{Value: zero, depth: e.here.Depth, mutable: true}
		f.Body = append(f.Body, &one)
	}
	e.Collect = func(list []reduction) {
		for i, r := range list {
			sums[i] = r.lanes[0].Lo
		}
	}
	e.vectorLoop(f, 0, e.Resolve(s.Extent))
	e.Collect, e.bound = nil, outer
	return sums
}
