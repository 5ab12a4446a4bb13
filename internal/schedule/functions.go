package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// mostShared is how many expressions of a body are remembered.
const mostShared = 64

// functionsOnce computes an expression with a function of many instructions once if a body has it several times, as
// where a derivative and the value that it belongs to are put together from the same parts.
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

// once is the work on one body.
type once struct {
	names  *namer
	seen   []*seenFunction
	result []loop.Stmt
	shared bool
}

// seenFunction is an expression of a statement that is written, and the name that it has if there is another.
type seenFunction struct {
	x     loop.Expr
	put   func(x loop.Expr) // replaces it where it stands
	place loop.Stmt         // the statement
	name  string
}

// statement appends a statement.
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

func refersTo(name string) func(x loop.Expr) bool {
	return func(x loop.Expr) bool { r, ok := x.(*loop.Ref); return ok && r.Name == name }
}

// valueField is where a statement has its value; simple is false for statements that others stand in, or that wait for
// others. The value of a masked store is computed only where the mask holds: it is left alone.
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

// forget drops the expressions in which something is found.
func (o *once) forget(found func(x loop.Expr) bool) {
	o.seen = slices.DeleteFunc(o.seen, func(f *seenFunction) (gone bool) {
		loop.WalkExpr(f.x, func(x loop.Expr) { gone = gone || found(x) })
		return gone
	})
}

// expression looks for an expression among those before it, the largest first; put replaces it where it stands.
func (o *once) expression(x loop.Expr, put func(x loop.Expr), place loop.Stmt) {
	costs := false
	loop.WalkExpr(x, func(x loop.Expr) {
		u, ok := x.(*loop.Unary)
		costs = costs || ok && dear[u.Op] && u.DType().IsFloat()
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
		o.seen = append(o.seen, &seenFunction{x: x, put: put, place: place})
	}
	switch x := x.(type) {
	case *loop.Unary:
		o.expression(x.X, func(y loop.Expr) { x.X = y }, place)
	case *loop.Binary:
		o.expression(x.X, func(y loop.Expr) { x.X = y }, place)
		o.expression(x.Y, func(y loop.Expr) { x.Y = y }, place)
	case *loop.Select:
		o.expression(x.Cond, func(y loop.Expr) { x.Cond = y }, place)
		o.expression(x.X, func(y loop.Expr) { x.X = y }, place)
		o.expression(x.Y, func(y loop.Expr) { x.Y = y }, place)
	case *loop.Cast:
		o.expression(x.X, func(y loop.Expr) { x.X = y }, place)
	}
}

// ref names an expression, in front of the statement in which it was seen first.
func (o *once) ref(f *seenFunction) loop.Expr {
	if f.name == "" {
		f.name, o.shared = o.names.name("once"), true
		let := &loop.Let{Name: f.name, X: f.x}
		at := slices.Index(o.result, f.place)
		o.result = slices.Insert(o.result, at, loop.Stmt(let))
		f.put(&loop.Ref{Name: f.name, Type: f.x.DType()})
		loop.WalkExpr(f.x, func(x loop.Expr) {
			for _, g := range o.seen {
				if g.x == x {
					g.place = let
				}
			}
		})
		f.put = func(x loop.Expr) { let.X = x }
	}
	return &loop.Ref{Name: f.name, Type: f.x.DType()}
}
