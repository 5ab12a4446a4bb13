package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// rowsTogether is the number of columns below which a contraction for each row is too narrow to pay for packing its
// left operand.
const rowsTogether = 160

// gatherRows moves an each-loop around a narrow contraction (one output row of a convolution, say) inside, if the left
// operand does not depend on the loop: the local gets an axis for the loop, and the loop moves into each statement of
// its body, so that consecutive contractions have the same left operand. The number of rows that stay together is
// decided when locals are cut.
//
//	each r { local acc; each … acc = …; serial h { contract acc += w[h] * x[r + h] }; each … store }
//
// becomes
//
//	local acc of rows; each r { each … }; serial h { each r { contract … } }; each r { each … store }
func gatherRows(s *scheduler, k *loop.Kernel) bool {
	changed := false
	names := s.newNamer(k)
	r := &loop.Rewrite{Stmt: func(c loop.Stmt) []loop.Stmt {
		if f, ok := c.(*loop.For); ok {
			if body := s.rows(f, names); body != nil {
				changed = true
				// A loop with one iteration gives the statements a body of their own, which limits the local's scope.
				return []loop.Stmt{&loop.For{Kind: loop.Each, Var: names.bound("rows"), Extent: one, Body: body}}
			}
		}
		return []loop.Stmt{c}
	}}
	k.Body = r.Body(k.Body)
	return changed
}

// rows returns the loop moved inside; nil if that is impossible.
func (s *scheduler) rows(f *loop.For, names *namer) []loop.Stmt {
	if f.Kind != loop.Each || len(f.Body) < 3 || isOne(f.Extent) {
		return nil
	}
	l, ok := f.Body[0].(*loop.Local)
	if !ok || len(l.Shape) != 2 || anyMentions(l.Shape, f.Var) || s.guess(l.Shape[1]) >= rowsTogether ||
		!s.repeated(f, l) {
		return nil
	}
	local := &loop.Local{Name: l.Name, DType: l.DType, Shape: append([]sym.Expr{f.Extent}, l.Shape...)}
	result := []loop.Stmt{local}
	for _, stmt := range f.Body[1:] {
		inside := s.perRow(stmt, f, names)
		if inside == nil {
			return nil
		}
		result = append(result, inside)
	}
	for i, stmt := range result[1:] {
		result[1+i] = widened(stmt, l.Name, f.Var, names)
	}
	return (&loop.Rewrite{Stmt: columnsOfRows}).Body(result)
}

// columnsOfRows turns a loop over contractions with a single column each into one contraction, if the loop moves the
// column by a fixed step: its iterations become the columns. Convolutions along one axis have this form.
func columnsOfRows(stmt loop.Stmt) []loop.Stmt {
	same := []loop.Stmt{stmt}
	f, ok := stmt.(*loop.For)
	if !ok || f.Kind != loop.Each || len(f.Body) != 1 {
		return same
	}
	c, ok := f.Body[0].(*loop.Contract)
	if !ok || !isOne(c.N) || !isVar(c.C.Origin[0], f.Var) {
		return same
	}
	step := make([]sym.Expr, len(c.B.Origin))
	origin := make([]sym.Expr, len(c.B.Origin))
	for i, e := range c.B.Origin {
		if step[i], origin[i], ok = e.Linear(f.Var); !ok || mentions(step[i], f.Var) {
			return same
		}
	}
	for _, list := range [][]sym.Expr{c.A.Origin, c.A.Row, c.A.Col, c.B.Row, c.C.Origin[1:], c.C.Row, {c.M, c.K}} {
		if anyMentions(list, f.Var) {
			return same
		}
	}
	to := loop.Tile{Buffer: c.C.Buffer, Origin: append([]sym.Expr{zero}, c.C.Origin[1:]...), Row: c.C.Row,
		Col: make([]sym.Expr, len(c.C.Col))}
	for i := range to.Col {
		to.Col[i] = zero
	}
	to.Col[0] = one
	return []loop.Stmt{&loop.Contract{M: c.M, N: f.Extent, K: c.K, C: to, A: c.A,
		B: loop.Tile{Buffer: c.B.Buffer, Origin: origin, Row: c.B.Row, Col: step}}}
}

// repeated reports whether the loop's contractions into the local are inside serial loops, with left operands that do
// not depend on the loop.
func (s *scheduler) repeated(f *loop.For, l *loop.Local) bool {
	found, good := false, true
	for _, a := range loop.Accesses(f.Body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok {
			continue
		}
		found = true
		for _, list := range [][]sym.Expr{c.A.Origin, c.A.Row, c.A.Col, {c.M, c.K}} {
			good = good && !anyMentions(list, f.Var)
		}
		good = good && c.C.Buffer == l.Name && !anyMentions(c.C.Origin, f.Var)
	}
	return found && good
}

// perRow returns one statement of the loop's body with the loop inside it: around a Contract, a branch or a nest of
// each-loops, inside serial loops; nil for other statements.
func (s *scheduler) perRow(stmt loop.Stmt, f *loop.For, names *namer) loop.Stmt {
	if inner, ok := stmt.(*loop.For); ok && inner.Kind == loop.Serial {
		if mentions(inner.Extent, f.Var) || len(inner.Body) != 1 {
			return nil
		}
		inside := s.perRow(inner.Body[0], f, names)
		if inside == nil {
			return nil
		}
		return &loop.For{Kind: loop.Serial, Var: inner.Var, Extent: inner.Extent, Body: []loop.Stmt{inside}}
	}
	switch stmt.(type) {
	case *loop.For, *loop.Contract, *loop.When:
	default:
		return nil
	}
	return &loop.For{Kind: loop.Each, Var: f.Var, Extent: f.Extent, Body: []loop.Stmt{stmt}}
}

// widened returns a statement in which the local has an additional first axis for the loop, and the loop has its own
// variable.
func widened(stmt loop.Stmt, local string, variable sym.Name, names *namer) loop.Stmt {
	own := names.bound(variable.Text())
	row := sym.Var(variable)
	r := &loop.Rewrite{
		Expr: func(e loop.Expr) loop.Expr {
			if l, ok := e.(*loop.Load); ok && l.From == local {
				l.Index = append([]sym.Expr{row}, l.Index...)
			}
			return e
		},
		Stmt: func(c loop.Stmt) []loop.Stmt {
			switch c := c.(type) {
			case *loop.Store:
				if c.To == local {
					c.Index = append([]sym.Expr{row}, c.Index...)
				}
			case *loop.Contract:
				c.C.Origin = append([]sym.Expr{row}, c.C.Origin...)
				c.C.Row = append([]sym.Expr{zero}, c.C.Row...)
				c.C.Col = append([]sym.Expr{zero}, c.C.Col...)
			}
			return []loop.Stmt{c}
		},
	}
	return loop.Rename(r.Body([]loop.Stmt{stmt}), map[sym.Name]sym.Name{variable: own})[0]
}
