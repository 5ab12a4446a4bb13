package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// mostShared is the number of expressions of a body that are remembered at most.
const mostShared = 64

// functionsOnce computes an expression with an expensive function once if a body contains it several times, as a
// gradient and its value do that are joined into one kernel.
func functionsOnce(s *scheduler, k *loop.Kernel) bool {
	names := s.newNamer(k)
	changed := false
	var visit func(body []loop.Stmt) []loop.Stmt
	visit = func(body []loop.Stmt) []loop.Stmt {
		for _, stmt := range body {
			for _, inner := range loop.Bodies(stmt) {
				*inner = visit(*inner)
			}
		}
		o := &once{names: names}
		for _, stmt := range body {
			o.statement(stmt)
		}
		changed = changed || o.shared
		return o.result
	}
	k.Body = visit(k.Body)
	return changed
}

// once is the state for one body.
type once struct {
	names  *namer
	seen   []*seenFunction
	result []loop.Stmt
	shared bool
}

// seenFunction is an expression in an earlier statement, and its name if it occurred again.
type seenFunction struct {
	x    loop.Expr
	put  func(x loop.Expr) // replaces the expression in its statement
	stmt loop.Stmt         // the statement
	name string
}

// statement appends a statement to the result.
func (o *once) statement(s loop.Stmt) {
	o.result = append(o.result, s)
	field, simple := valueField(s)
	if !simple {
		o.seen = nil
		return
	}
	if field != nil {
		o.expression(*field, func(x loop.Expr) { *field = x }, s)
	}
	switch s := s.(type) {
	case *loop.Store:
		o.forget(func(x loop.Expr) bool { l, ok := x.(*loop.Load); return ok && l.From == s.To })
	case *loop.Set:
		o.forget(refersTo(s.Name))
	case *loop.Reduce:
		o.forget(refersTo(s.Name))
	}
}

// refersTo returns a test for references to a name.
func refersTo(name string) func(x loop.Expr) bool {
	return func(x loop.Expr) bool { r, ok := x.(*loop.Ref); return ok && r.Name == name }
}

// valueField returns the field that holds a statement's value; simple is false for statements with bodies, and for
// other statements that are not simple assignments. A masked store has no such field, since its value is computed only
// if the mask holds.
func valueField(s loop.Stmt) (field *loop.Expr, simple bool) {
	switch s := s.(type) {
	case *loop.Let:
		return &s.X, true
	case *loop.Var:
		return &s.X, true
	case *loop.Set:
		return &s.X, true
	case *loop.Reduce:
		return &s.X, true
	case *loop.Store:
		if s.Mask != nil {
			return nil, true
		}
		return &s.X, true
	}
	return nil, false
}

// forget drops the expressions that contain a matching one.
func (o *once) forget(found func(x loop.Expr) bool) {
	o.seen = slices.DeleteFunc(o.seen, func(f *seenFunction) (gone bool) {
		loop.WalkExpr(f.x, func(x loop.Expr) { gone = gone || found(x) })
		return gone
	})
}

// expression looks for an expression among the earlier ones, the largest first; put replaces it in its statement.
func (o *once) expression(x loop.Expr, put func(x loop.Expr), stmt loop.Stmt) {
	costs := false
	loop.WalkExpr(x, func(x loop.Expr) {
		u, ok := x.(*loop.Unary)
		costs = costs || ok && expensive[u.Op] && u.DType().IsFloat()
	})
	if !costs {
		return
	}
	for _, f := range o.seen {
		if loop.Same(f.x, x) {
			put(o.ref(f))
			return
		}
	}
	if len(o.seen) < mostShared {
		o.seen = append(o.seen, &seenFunction{x: x, put: put, stmt: stmt})
	}
	switch x := x.(type) {
	case *loop.Unary:
		o.expression(x.X, func(y loop.Expr) { x.X = y }, stmt)
	case *loop.Binary:
		o.expression(x.X, func(y loop.Expr) { x.X = y }, stmt)
		o.expression(x.Y, func(y loop.Expr) { x.Y = y }, stmt)
	case *loop.Select:
		o.expression(x.Cond, func(y loop.Expr) { x.Cond = y }, stmt)
		o.expression(x.X, func(y loop.Expr) { x.X = y }, stmt)
		o.expression(x.Y, func(y loop.Expr) { x.Y = y }, stmt)
	case *loop.Cast:
		o.expression(x.X, func(y loop.Expr) { x.X = y }, stmt)
	}
}

// ref names an expression, before the statement that contained it first.
func (o *once) ref(f *seenFunction) loop.Expr {
	if f.name == "" {
		f.name, o.shared = o.names.name("once"), true
		let := &loop.Let{Name: f.name, X: f.x}
		at := slices.Index(o.result, f.stmt)
		o.result = slices.Insert(o.result, at, loop.Stmt(let))
		f.put(&loop.Ref{Name: f.name, Type: f.x.DType()})
		loop.WalkExpr(f.x, func(x loop.Expr) {
			for _, g := range o.seen {
				if g.x == x {
					g.stmt = let
				}
			}
		})
		f.put = func(x loop.Expr) { let.X = x }
	}
	return &loop.Ref{Name: f.name, Type: f.x.DType()}
}
