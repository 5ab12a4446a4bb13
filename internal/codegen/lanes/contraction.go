package lanes

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// group emits a contraction group at the head of a body, and returns the number of its statements; 0 if there is none.
// A group is a local, a nest that writes it, and contractions into it, each inside serial loops or none. Its sums stay
// in registers, one tile of rows after the other. If one nest follows that computes simple expressions of the sums, it
// is done in the registers too, and the local is never written.
func (e *Emitter) group(list []loop.Stmt) int {
	if e.Strip != nil {
		return 0
	}
	g := groupOf(list)
	if g == nil || e.SumsOf(g.local.DType) == nil {
		return 0
	}
	rest := list[2+len(g.terms):]
	for _, direct := range []bool{true, false} {
		if direct && (len(rest) != 1 || !g.takesLast(rest[0])) {
			continue
		}
		saved := e.snapshot()
		reason := attempt(func() { e.contractions(g, direct) })
		if reason == "" {
			if direct {
				return len(list)
			}
			return 2 + len(g.terms)
		}
		e.restore(saved)
		e.Kernel.Note("the sums in %%%s do not stay in registers: %s", g.local.Name, reason)
	}
	return 0
}

// contractionGroup is the parts of a group. The local's row axis is that of the contractions' rows; its other axes,
// besides the column axis, have one element.
type contractionGroup struct {
	local       *loop.Local
	rows, cols  sym.Expr
	row, column int // axes
	first, last nestOfSums
	terms       []contraction
}

// contraction is a product inside serial loops.
type contraction struct {
	serial  []*loop.For
	product *loop.Contract
}

// nestOfSums is a nest of at most two loops over the rows and the columns, by their variables (empty if the axis has
// one element), and its statements.
type nestOfSums struct {
	row, column sym.Name
	body        []loop.Stmt
}

// groupOf returns the contractions into one local that begin a body, with the local; nil if the body has another form.
func groupOf(list []loop.Stmt) *contractionGroup {
	l, ok := list[0].(*loop.Local)
	if !ok || len(list) < 3 || l.Space != 0 || len(l.Shape) < 2 {
		return nil
	}
	g := &contractionGroup{local: l}
	for _, s := range list[2:] {
		t := contraction{}
		for {
			f, ok := s.(*loop.For)
			if !ok || f.Kind != loop.Serial || len(f.Body) != 1 {
				break
			}
			t.serial = append(t.serial, f)
			s = f.Body[0]
		}
		c, ok := s.(*loop.Contract)
		if !ok || c.C.Buffer != l.Name || !g.fits(c) || variesIn(t.serial, c.K) {
			break
		}
		t.product = c
		g.terms = append(g.terms, t)
	}
	if len(g.terms) == 0 {
		return nil
	}
	if g.first, ok = g.nest(list[1]); !ok || len(g.first.body) != 1 {
		return nil
	}
	s, ok := g.first.body[0].(*loop.Store)
	if !ok || s.To != l.Name || s.Mask != nil || !g.at(s.Index, g.first) {
		return nil
	}
	return g
}

// variesIn reports whether an expression mentions a loop's variable: a sum with more steps in one iteration than in
// another, such as in the last block, is not a sum of one loop.
func variesIn(loops []*loop.For, x sym.Expr) bool {
	return slices.ContainsFunc(x.Vars(), func(name sym.Name) bool {
		return slices.ContainsFunc(loops, func(f *loop.For) bool { return f.Var == name })
	})
}

// fits reports whether a contraction adds to all elements of the local that the group's other contractions add to.
func (g *contractionGroup) fits(c *loop.Contract) bool {
	row, column := unitAxis(c.C.Row), unitAxis(c.C.Col)
	if row < 0 || column < 0 || row == column || slices.ContainsFunc(c.C.Origin, func(x sym.Expr) bool {
		return !IsZero(x)
	}) {
		return false
	}
	if len(g.terms) == 0 {
		g.rows, g.cols, g.row, g.column = c.M, c.N, row, column
		for axis, x := range g.local.Shape {
			if n, ok := x.Const(); axis != row && axis != column && (!ok || n != 1) {
				return false
			}
		}
		return true
	}
	return g.rows.Equal(c.M) && g.cols.Equal(c.N) && g.row == row && g.column == column
}

// unitAxis returns the axis along which a tile steps by 1; −1 if it steps otherwise.
func unitAxis(steps []sym.Expr) int {
	axis := -1
	for i, x := range steps {
		n, ok := x.Const()
		switch {
		case ok && n == 0:
		case ok && n == 1 && axis < 0:
			axis = i
		default:
			return -1
		}
	}
	return axis
}

// nest reads a nest over the rows and columns; ok is false for other statements.
func (g *contractionGroup) nest(s loop.Stmt) (n nestOfSums, ok bool) {
	n.body = []loop.Stmt{s}
	for {
		f, ok := loop.Only(n.body)
		if !ok {
			break
		}
		switch {
		case n.column.None() && f.Extent.Equal(g.cols) && f.Kind == loop.Vector:
			n.column = f.Var
		case n.row.None() && n.column.None() && f.Extent.Equal(g.rows) && f.Kind == loop.Each:
			n.row = f.Var
		default:
			return n, false
		}
		n.body = f.Body
	}
	return n, (!n.row.None() || isOne(g.rows)) && (!n.column.None() || isOne(g.cols))
}

// isOne reports whether an integer is the constant 1.
func isOne(x sym.Expr) bool { v, ok := x.Const(); return ok && v == 1 }

// at reports whether an index is the local's element at a nest's own row and column.
func (g *contractionGroup) at(index []sym.Expr, n nestOfSums) bool {
	is := func(x sym.Expr, variable sym.Name) bool {
		if variable.None() {
			return IsZero(x)
		}
		name, ok := x.Name()
		return ok && name == variable
	}
	for axis, x := range index {
		variable := sym.Name{}
		switch axis {
		case g.row:
			variable = n.row
		case g.column:
			variable = n.column
		}
		if !is(x, variable) {
			return false
		}
	}
	return true
}

// takesLast reports whether a nest only reads the local's element of its own iteration; it then becomes the group's
// last nest.
func (g *contractionGroup) takesLast(s loop.Stmt) bool {
	n, ok := g.nest(s)
	if !ok {
		return false
	}
	for _, a := range loop.Accesses(n.body) {
		if a.Buffer == g.local.Name && (a.Write || a.Tile != nil || a.Mask != nil || !g.at(a.Index, n)) {
			return false
		}
	}
	for _, s := range n.body {
		switch s.(type) {
		case *loop.Let, *loop.Store:
		default:
			return false
		}
	}
	g.last = n
	return true
}

// UnitIndex returns an index that is 1 along an axis and 0 along all others.
func UnitIndex(rank, axis int) []sym.Expr {
	index := make([]sym.Expr, rank)
	for i := range index {
		index[i] = sym.Const(0)
	}
	index[axis] = sym.Const(1)
	return index
}
