package loop

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Bodies returns the statement lists directly inside s, in order.
func Bodies(s Stmt) []*[]Stmt {
	switch s := s.(type) {
	case *For:
		return []*[]Stmt{&s.Body}
	case *When:
		return []*[]Stmt{&s.Then, &s.Else}
	}
	return nil
}

// Walk calls visit for each statement, in order, an outer one before those inside it. If visit returns false, the
// statements inside are skipped.
func Walk(body []Stmt, visit func(Stmt) bool) {
	for _, s := range body {
		if !visit(s) {
			continue
		}
		switch s := s.(type) {
		case *For:
			Walk(s.Body, visit)
		case *When:
			Walk(s.Then, visit)
			Walk(s.Else, visit)
		}
	}
}

// Operands returns the expressions directly inside e, in their printed order; none is nil.
func Operands(e Expr) []Expr {
	list, n := operands(e)
	return list[:n:n]
}

// operands returns the same as Operands in an array, and their number, without an allocation.
func operands(e Expr) (list [3]Expr, n int) {
	switch e := e.(type) {
	case *Load:
		list[0], list[1] = e.Mask, e.Else
	case *Unary:
		list[0] = e.X
	case *Binary:
		list[0], list[1] = e.X, e.Y
	case *Select:
		list[0], list[1], list[2] = e.Cond, e.X, e.Y
	case *Cast:
		list[0] = e.X
	}
	return present(list)
}

// Values returns the expressions directly inside a statement, without those of inner statements; none is nil.
func Values(s Stmt) []Expr {
	list, n := values(s)
	return list[:n:n]
}

// values returns the same as Values in an array, and their number, without an allocation.
func values(s Stmt) (list [3]Expr, n int) {
	switch s := s.(type) {
	case *Let:
		list[0] = s.X
	case *Var:
		list[0] = s.X
	case *Set:
		list[0] = s.X
	case *Reduce:
		list[0] = s.X
	case *Check:
		list[0] = s.X
	case *Store:
		list[0], list[1] = s.X, s.Mask
	case *When:
		list[0] = s.Cond
	}
	return present(list)
}

// present moves the expressions that are not nil to the front, and counts them.
func present(list [3]Expr) (kept [3]Expr, n int) {
	for _, e := range list {
		if e != nil {
			kept[n] = e
			n++
		}
	}
	return kept, n
}

// WalkExpr calls visit for e and every expression inside it, outermost first.
func WalkExpr(e Expr, visit func(Expr)) {
	visit(e)
	inside, n := operands(e)
	for _, x := range inside[:n] {
		WalkExpr(x, visit)
	}
}

// WalkValues calls visit for every expression in body, at any depth.
func WalkValues(body []Stmt, visit func(Expr)) {
	Walk(body, func(s Stmt) bool {
		list, n := values(s)
		for _, e := range list[:n] {
			WalkExpr(e, visit)
		}
		return true
	})
}

// Integers returns the symbolic integers directly in a statement: extents, ranges, shapes and indices, but not those in
// its expressions (see IntegersOf) or in inner statements.
func Integers(s Stmt) []sym.Expr {
	switch s := s.(type) {
	case *For:
		return []sym.Expr{s.Extent}
	case *Check:
		return []sym.Expr{s.Min, s.Max}
	case *Store:
		return s.Index
	case *Local:
		return s.Shape
	case *Contract:
		list := []sym.Expr{s.M, s.N, s.K}
		for _, t := range []Tile{s.C, s.A, s.B} {
			list = append(append(append(list, t.Origin...), t.Row...), t.Col...)
		}
		return list
	}
	return nil
}

// IntegersOf returns the symbolic integers directly in an expression.
func IntegersOf(e Expr) []sym.Expr {
	switch e := e.(type) {
	case *Index:
		return []sym.Expr{e.X}
	case *Load:
		return e.Index
	}
	return nil
}

// Uses reports whether an integer in a body mentions a name.
func Uses(body []Stmt, name sym.Name) (uses bool) {
	WalkIntegers(body, func(x sym.Expr) { uses = uses || slices.Contains(x.Vars(), name) })
	return uses
}

// WalkIntegers calls visit for every symbolic integer in body, at any depth, in statements and in expressions.
func WalkIntegers(body []Stmt, visit func(sym.Expr)) {
	each := func(list []sym.Expr) {
		for _, e := range list {
			visit(e)
		}
	}
	Walk(body, func(s Stmt) bool {
		switch s := s.(type) {
		case *For:
			visit(s.Extent)
		case *Check:
			visit(s.Min)
			visit(s.Max)
		default:
			each(Integers(s))
		}
		return true
	})
	WalkValues(body, func(e Expr) {
		switch e := e.(type) {
		case *Index:
			visit(e.X)
		case *Load:
			each(e.Index)
		}
	})
}

// Rewrite copies statements and expressions with changes; the original does not change. The zero value copies. The copy
// shares nothing with the original but symbolic integers, which are immutable.
type Rewrite struct {
	Integer func(sym.Expr) sym.Expr // for every symbolic integer
	Name    func(string) string     // for every name of a buffer or a scalar, where it is declared or used
	Bound   func(sym.Name) sym.Name // for every name that declares a symbolic integer
	Expr    func(Expr) Expr         // for every expression, after the expressions inside it
	Stmt    func(Stmt) []Stmt       // for every statement, after the statements inside it: returns its replacement
}

// Body returns a copy of a list of statements.
func (r *Rewrite) Body(body []Stmt) []Stmt {
	if body == nil {
		return nil
	}
	result := make([]Stmt, 0, len(body))
	for _, s := range body {
		c := r.statement(s)
		if r.Stmt == nil {
			result = append(result, c)
		} else {
			result = append(result, r.Stmt(c)...)
		}
	}
	return result
}

// statement returns a copy of one statement, before Stmt is applied to it.
func (r *Rewrite) statement(s Stmt) Stmt {
	switch s := s.(type) {
	case *For:
		return &For{Kind: s.Kind, Var: r.bound(s.Var), Extent: r.Int(s.Extent), Body: r.Body(s.Body)}
	case *Let:
		return &Let{Name: r.name(s.Name), X: r.Value(s.X)}
	case *Check:
		return &Check{Name: r.bound(s.Name), X: r.Value(s.X), Min: r.Int(s.Min), Max: r.Int(s.Max), What: s.What,
			Guard: s.Guard}
	case *Var:
		return &Var{Name: r.name(s.Name), X: r.Value(s.X)}
	case *Set:
		return &Set{Name: r.name(s.Name), X: r.Value(s.X)}
	case *Reduce:
		return &Reduce{Name: r.name(s.Name), Op: s.Op, X: r.Value(s.X)}
	case *Store:
		return &Store{To: r.name(s.To), Index: r.Ints(s.Index), X: r.Value(s.X), Mask: r.Value(s.Mask)}
	case *When:
		return &When{Cond: r.Value(s.Cond), Then: r.Body(s.Then), Else: r.Body(s.Else)}
	case *Local:
		return &Local{Name: r.name(s.Name), DType: s.DType, Shape: r.Ints(s.Shape), Space: s.Space}
	case *Contract:
		return &Contract{M: r.Int(s.M), N: r.Int(s.N), K: r.Int(s.K), C: r.Tile(s.C), A: r.Tile(s.A), B: r.Tile(s.B)}
	}
	panic("loop: a statement of a kind that Rewrite does not know")
}

// Value returns a copy of an expression; nil gives nil.
func (r *Rewrite) Value(e Expr) Expr {
	var c Expr
	switch e := e.(type) {
	case nil:
		return nil
	case *Const:
		c = &Const{Type: e.Type, Bits: e.Bits}
	case *Ref:
		c = &Ref{Name: r.name(e.Name), Type: e.Type}
	case *Index:
		c = &Index{X: r.Int(e.X)}
	case *Load:
		c = &Load{From: r.name(e.From), Index: r.Ints(e.Index), Type: e.Type, Mask: r.Value(e.Mask), Else: r.Value(e.Else)}
	case *Unary:
		c = &Unary{Op: e.Op, X: r.Value(e.X)}
	case *Binary:
		c = &Binary{Op: e.Op, X: r.Value(e.X), Y: r.Value(e.Y)}
	case *Select:
		c = &Select{Cond: r.Value(e.Cond), X: r.Value(e.X), Y: r.Value(e.Y)}
	case *Cast:
		c = &Cast{Type: e.Type, X: r.Value(e.X), Wrap: e.Wrap}
	default:
		panic("loop: an expression of a kind that Rewrite does not know")
	}
	if r.Expr != nil {
		return r.Expr(c)
	}
	return c
}

// Tile returns a copy of a tile.
func (r *Rewrite) Tile(t Tile) Tile {
	return Tile{Buffer: r.name(t.Buffer), Origin: r.Ints(t.Origin), Row: r.Ints(t.Row), Col: r.Ints(t.Col)}
}

// Int returns the replacement of a symbolic integer.
func (r *Rewrite) Int(e sym.Expr) sym.Expr {
	if r.Integer == nil {
		return e
	}
	return r.Integer(e)
}

// Ints applies Int to each of a list; nil gives nil.
func (r *Rewrite) Ints(list []sym.Expr) []sym.Expr {
	if list == nil {
		return nil
	}
	result := make([]sym.Expr, len(list))
	for i, e := range list {
		result[i] = r.Int(e)
	}
	return result
}

// name returns the replacement of the name of a buffer or a scalar.
func (r *Rewrite) name(name string) string {
	if r.Name == nil {
		return name
	}
	return r.Name(name)
}

// bound returns the replacement of a name that declares a symbolic integer.
func (r *Rewrite) bound(name sym.Name) sym.Name {
	if r.Bound == nil {
		return name
	}
	return r.Bound(name)
}

// Kernel returns a copy of a kernel. Dims do not change: if Integer changes them, set them by FreeDims.
func (r *Rewrite) Kernel(k *Kernel) *Kernel {
	c := &Kernel{Name: k.Name, Dims: slices.Clone(k.Dims), Source: k.Source, Work: r.Int(k.Work), Body: r.Body(k.Body),
		Meaning: r.meaning(k.Meaning)}
	for _, p := range k.Params {
		c.Params = append(c.Params, &Param{Name: r.name(p.Name), Access: p.Access, DType: p.DType, Shape: r.Ints(p.Shape),
			Strides: r.Ints(p.Strides)})
	}
	return c
}

// meaning returns a copy of a meaning.
func (r *Rewrite) meaning(m *Meaning) *Meaning {
	if m == nil {
		return nil
	}
	c := &Meaning{Op: m.Op, Attrs: maps.Clone(m.Attrs)}
	for name, v := range c.Attrs {
		switch v := v.(type) {
		case sym.Expr:
			c.Attrs[name] = r.Int(v)
		case []sym.Expr:
			c.Attrs[name] = r.Ints(v)
		}
	}
	return c
}

// Clone returns a deep copy; only symbolic integers, and attributes of other kinds, are shared.
func (k *Kernel) Clone() *Kernel { return (&Rewrite{}).Kernel(k) }

// Substitute returns a copy of body with names of symbolic integers replaced by their values. The names must not be
// declared in body.
func Substitute(body []Stmt, values map[sym.Name]sym.Expr) []Stmt {
	return (&Rewrite{Integer: substitution(values)}).Body(body)
}

// substitution returns the function that replaces names by values in a symbolic integer.
func substitution(values map[sym.Name]sym.Expr) func(sym.Expr) sym.Expr {
	lookup := func(name sym.Name) (sym.Expr, bool) {
		e, ok := values[name]
		return e, ok
	}
	return func(e sym.Expr) sym.Expr { return e.Subst(lookup) }
}

// Renaming returns a Rewrite that changes the names of symbolic integers in their declarations and uses.
func Renaming(names map[sym.Name]sym.Name) *Rewrite {
	values := make(map[sym.Name]sym.Expr, len(names))
	for from, to := range names {
		values[from] = sym.Var(to)
	}
	return &Rewrite{
		Integer: substitution(values),
		Bound: func(name sym.Name) sym.Name {
			if to, ok := names[name]; ok {
				return to
			}
			return name
		},
	}
}

// Rename returns a copy of body with names of symbolic integers changed in their declarations and uses.
func Rename(body []Stmt, names map[sym.Name]sym.Name) []Stmt { return Renaming(names).Body(body) }
