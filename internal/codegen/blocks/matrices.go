package blocks

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// A Contract outside Thread loops, of shared memory alone, is computed by all threads of a block together, if the
// machine has cooperative matrices for it: see target.Machine.MatrixFor. Each subgroup has a rectangle of the sums. It
// loads the sums into matrices, adds the products to them, and stores them. If a serial loop contains such Contracts,
// and does not touch their sums otherwise, the sums are loaded before the loop and stored after it.

// matrixProduct is a Contract that the subgroups of a block compute together.
type matrixProduct struct {
	target.Matrix
	*loop.Contract
	down, across int64 // the grid of subgroups
}

// threads returns the number of threads of a block that computes the product.
func (p *matrixProduct) threads(machine target.Machine) int64 {
	return p.down * p.across * machine.Limits.Subgroup
}

// same reports whether two products have the same sums, in the same matrices.
func (p *matrixProduct) same(q *matrixProduct) bool {
	return p.Matrix == q.Matrix && p.M.Equal(q.M) && p.N.Equal(q.N) && p.C.Buffer == q.C.Buffer &&
		equal(p.C.Origin, q.C.Origin) && equal(p.C.Row, q.C.Row) && equal(p.C.Col, q.C.Col)
}

// equal reports whether indices are the same expressions.
func equal(a, b []sym.Expr) bool { return slices.EqualFunc(a, b, sym.Expr.Equal) }

// matrixProductOf returns a Contract as a product of matrices, with the shared locals that are declared around it; nil
// if a thread must compute it.
func (w *Writer) matrixProductOf(s *loop.Contract, shared map[string]*loop.Local) *matrixProduct {
	a, b, c := shared[s.A.Buffer], shared[s.B.Buffer], shared[s.C.Buffer]
	if a == nil || b == nil || c == nil || a.DType != b.DType || c.DType != sumsOf(a.DType) || c == a || c == b {
		return nil
	}
	var sizes [3]int64
	for i, e := range []sym.Expr{s.M, s.N, s.K} {
		n, fixed := e.Const()
		if !fixed {
			return nil
		}
		sizes[i] = n
	}
	for _, t := range []struct {
		of  *loop.Local
		geo *loop.Tile
	}{{a, &s.A}, {b, &s.B}, {c, &s.C}} {
		if _, ok := linesOf(t.of, t.geo); !ok {
			return nil
		}
	}
	p := &matrixProduct{Contract: s}
	var ok bool
	if p.Matrix, p.down, p.across, ok = w.machine.MatrixFor(a.DType, sizes[0], sizes[1], sizes[2]); !ok {
		return nil
	}
	return p
}

// sumsOf returns the type of the sums of matrices with elements of a type.
func sumsOf(dt dtype.DType) dtype.DType {
	if dt.IsInt() {
		return dtype.I32
	}
	return dtype.F32
}

// Lines says how the elements of a matrix lie in memory: its rows, or else its columns, are contiguous, and begin
// Stride elements apart.
type Lines struct {
	Columns bool
	Stride  int64
}

// linesOf returns how the elements of a tile lie in a local; false if neither its rows nor its columns are contiguous.
func linesOf(l *loop.Local, t *loop.Tile) (lines Lines, ok bool) {
	strides := loop.RowMajor(l.Shape)
	row, fixedRow := loop.Offset(t.Row, l.Shape, strides).Const()
	column, fixedColumn := loop.Offset(t.Col, l.Shape, strides).Const()
	switch {
	case !fixedRow || !fixedColumn:
		return lines, false
	case column == 1:
		return Lines{Stride: row}, row > 0
	}
	return Lines{true, column}, row == 1 && column > 0
}

// matrixProducts visits the Contracts of a block's body that its subgroups compute together. shared has the shared
// locals that are declared before the body.
func (w *Writer) matrixProducts(body []loop.Stmt, shared map[string]*loop.Local, visit func(p *matrixProduct)) {
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Local:
			if s.Space == loop.Shared {
				shared[s.Name] = s
			}
		case *loop.For:
			if s.Kind != loop.Thread {
				w.matrixProducts(s.Body, shared, visit)
			}
		case *loop.When:
			w.matrixProducts(s.Then, shared, visit)
			w.matrixProducts(s.Else, shared, visit)
		case *loop.Contract:
			if p := w.matrixProductOf(s, shared); p != nil {
				visit(p)
			}
		}
	}
}

// Cooperates reports whether the kernel uses cooperative matrices.
func (w *Writer) Cooperates() (does bool) {
	if w.machine.HasMatrices() {
		w.matrixProducts(w.kernel.Body, map[string]*loop.Local{}, func(*matrixProduct) { does = true })
	}
	return does
}

// findMatrices sets the products of matrices of a block's body, and returns the number of threads of the block; 0 if
// there are none. Products for which another number is best are computed by one thread.
func (w *Writer) findMatrices(body []loop.Stmt) (threads int64) {
	w.products = map[*loop.Contract]*matrixProduct{}
	w.matrixProducts(body, map[string]*loop.Local{}, func(p *matrixProduct) {
		if threads == 0 {
			threads = p.threads(w.machine)
		}
		if p.threads(w.machine) == threads {
			w.products[p.Contract] = p
		}
	})
	return threads
}

// matrixSums is the sums of a product that a subgroup holds: variables for matrices, row by row.
type matrixSums struct {
	*matrixProduct
	high, wide  int64    // rows and columns of matrices
	row, column sym.Name // of the first matrix, in matrices
	list        []ID
}

// held returns the product whose sums the subgroups hold during a serial loop; nil if there is none.
func (w *Writer) held(s *loop.For) (sums *matrixProduct) {
	for _, s := range s.Body {
		c, is := s.(*loop.Contract)
		if !is {
			continue
		}
		p := w.products[c]
		if p == nil || sums != nil && !sums.same(p) {
			return nil
		}
		sums = p
	}
	if sums == nil || mentionsLoop(sums.C.Origin, s.Var) {
		return nil
	}
	for _, s := range s.Body {
		if _, is := s.(*loop.Contract); is {
			continue
		}
		if reads, writes := touches([]loop.Stmt{s}); has(reads, sums.C.Buffer) || has(writes, sums.C.Buffer) {
			return nil
		}
	}
	return sums
}

// has reports whether a set has a name.
func has(set map[string]bool, name string) bool { _, is := set[name]; return is }

// mentionsLoop reports whether an index depends on a loop's variable.
func mentionsLoop(index []sym.Expr, name sym.Name) bool {
	return slices.ContainsFunc(index, func(e sym.Expr) bool { return slices.Contains(e.Vars(), name) })
}

// loadSums writes the loads of a product's sums.
func (w *Writer) loadSums(p *matrixProduct) *matrixSums {
	rows, _ := p.M.Const()
	columns, _ := p.N.Const()
	sums := &matrixSums{matrixProduct: p, high: rows / p.Rows / p.down, wide: columns / p.Columns / p.across,
		row: sym.Bound(w.kernel.Name + " matrix row"), column: sym.Bound(w.kernel.Name + " matrix column")}
	for _, l := range []struct {
		name sym.Name
		most int64
	}{{sums.row, rows/p.Rows - sums.high}, {sums.column, columns/p.Columns - sums.wide}} {
		w.ranges.Set(l.name, sym.Range{Max: l.most})
	}
	group := Integer{w.Subgroup(), false}
	w.bind(sums.row, w.Product(w.quotient(group, w.Constant(p.across)), w.Constant(sums.high)))
	w.bind(sums.column, w.Product(w.remainder(group, w.Constant(p.across)), w.Constant(sums.wide)))
	w.meet(map[string]bool{p.C.Buffer: true}, nil)
	typ := w.MatrixType(MatrixSums, p.Matrix)
	sums.each(func(row, column sym.Expr) {
		x := w.Variable(typ)
		w.Set(x, w.loadMatrix(MatrixSums, p.Matrix, &p.C, row.Mul(sym.Const(p.Rows)), column.Mul(sym.Const(p.Columns))))
		sums.list = append(sums.list, x)
	})
	return sums
}

// each calls do for each matrix of the sums, with its row and column in matrices.
func (s *matrixSums) each(do func(row, column sym.Expr)) {
	for i := range s.high {
		for j := range s.wide {
			do(sym.Var(s.row).Add(sym.Const(i)), sym.Var(s.column).Add(sym.Const(j)))
		}
	}
}

// storeSums writes the stores of the sums.
func (w *Writer) storeSums(s *matrixSums) {
	w.meet(nil, map[string]bool{s.C.Buffer: true})
	typ := w.MatrixType(MatrixSums, s.Matrix)
	list := s.list
	s.each(func(row, column sym.Expr) {
		m, at, lines := w.placeOf(&s.C, row.Mul(sym.Const(s.Rows)), column.Mul(sym.Const(s.Columns)))
		w.StoreMatrix(m, at, lines, w.Get(list[0], typ))
		list = list[1:]
	})
}

// addProducts writes the additions of a product to its sums.
func (w *Writer) addProducts(s *matrixSums, p *matrixProduct) {
	w.meet(map[string]bool{p.A.Buffer: true, p.B.Buffer: true}, nil)
	steps, _ := p.K.Const()
	typ := w.MatrixType(MatrixSums, s.Matrix)
	for step := int64(0); step < steps; step += s.Steps {
		var left, right []ID
		for i := range s.high {
			row := sym.Var(s.row).Add(sym.Const(i)).Mul(sym.Const(s.Rows))
			left = append(left, w.loadMatrix(MatrixLeft, s.Matrix, &p.A, row, sym.Const(step)))
		}
		for j := range s.wide {
			column := sym.Var(s.column).Add(sym.Const(j)).Mul(sym.Const(s.Columns))
			right = append(right, w.loadMatrix(MatrixRight, s.Matrix, &p.B, sym.Const(step), column))
		}
		for i, x := range s.list {
			at := int64(i)
			w.Set(x, w.MultiplyMatrices(s.Matrix, left[at/s.wide], right[at%s.wide], w.Get(x, typ)))
		}
	}
}

// loadMatrix loads the matrix whose first element is at a row and a column of a tile.
func (w *Writer) loadMatrix(use MatrixUse, x target.Matrix, t *loop.Tile, row, column sym.Expr) ID {
	m, at, lines := w.placeOf(t, row, column)
	return w.LoadMatrix(use, x, m, at, lines)
}

// placeOf returns the memory of a tile, the offset of its element at a row and a column, and how its elements lie.
func (w *Writer) placeOf(t *loop.Tile, row, column sym.Expr) (m *Memory, at sym.Expr, lines Lines) {
	m = w.memory(t.Buffer)
	lines, _ = linesOf(&loop.Local{Shape: m.Shape}, t)
	return m, w.tileOffset(t, row, column), lines
}
