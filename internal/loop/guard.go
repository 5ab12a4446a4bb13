package loop

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Prove verifies the kernels of a module and guards every access that it cannot prove to lie within its buffer: the
// access happens only if it lies inside, and a Check ends the run if it would lie outside. It returns the number of
// guarded accesses by kernel, in the module's order. Afterwards no access of any kernel is
// unproved, in kernels of any origin. An access that cannot be guarded is an error, a *VerifyError.
func Prove(m *Module) (guards []int, err error) {
	_, guards, err = verifyModule(m, func(v *moduleVerifier) {
		v.guards = true
		v.kernelsOnly()
	})
	return guards, err
}

// mostRounds limits how many times a kernel is guarded.
const mostRounds = 3

// guardAll guards the unproved accesses of distinct kernels and verifies the results. It returns their new bodies; nil
// for kernels without unproved accesses.
func (v *moduleVerifier) guardAll(unlike []*Kernel, unproved [][]Unproved, given []sym.Cond) [][]Stmt {
	bodies, errs := make([][]Stmt, len(unlike)), make([]error, len(unlike))
	concurrently(len(unlike), func(i int) {
		if len(unproved[i]) > 0 {
			bodies[i], errs[i] = v.guarded(unlike[i], unproved[i], given)
		}
	})
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
	return bodies
}

// guarded returns a kernel's body with guards, verified again.
func (v *moduleVerifier) guarded(was *Kernel, open []Unproved, given []sym.Cond) ([]Stmt, error) {
	k := *was
	// Inside a guard more is known, so further accesses may be proved: each round builds on the previous one.
	for range mostRounds {
		k.Body = guard(&k, open)
		var err error
		if open, err = VerifyGiven(&k, v.module.Dims, v.module.about(&k, given)); err != nil || len(open) == 0 {
			return k.Body, err
		}
	}
	return nil, &VerifyError{v.module.Name, fmt.Sprintf("@%s: %s, and this access cannot be guarded", k.Name, open[0])}
}

// accessesOf counts the accesses that are unproved on some axis.
func accessesOf(list []Unproved) int {
	met := map[any]bool{}
	for _, u := range list {
		met[u.of] = true
	}
	return len(met)
}

// Checks counts the Checks of a kernel's body: those that its author wrote, and those that Prove added.
func (k *Kernel) Checks() (written, guards int) {
	Walk(k.Body, func(s Stmt) bool {
		if c, ok := s.(*Check); ok {
			if c.Guard {
				guards++
			} else {
				written++
			}
		}
		return true
	})
	return written, guards
}

// guarder rewrites a kernel's body. It does not change the statements it reads: other kernels may share them.
type guarder struct {
	goals  map[any][]sym.Expr // by access: expressions that must be 0 or more
	taken  map[string]bool
	vector *strips // of the enclosing vector loop; nil outside of one
}

// strips records the violations in a vector loop: one variable for each buffer, tested by a Check after the loop. A
// Check inside would keep the loop from running in lanes.
type strips struct {
	buffers []string
	names   []string
}

// guard returns the kernel's body with the unproved accesses guarded.
func guard(k *Kernel, unproved []Unproved) []Stmt {
	g := &guarder{goals: map[any][]sym.Expr{}, taken: map[string]bool{}}
	for _, u := range unproved {
		for _, goal := range u.goals {
			if !slices.ContainsFunc(g.goals[u.of], goal.Equal) {
				g.goals[u.of] = append(g.goals[u.of], goal)
			}
		}
	}
	for _, name := range names(k.Body) {
		g.taken[name] = true
	}
	for _, name := range k.Dims {
		g.taken[name.Text()] = true
	}
	for _, p := range k.Params {
		g.taken[p.Name] = true
	}
	return g.body(k.Body)
}

// names returns all names that a body declares, as strings.
func names(body []Stmt) []string {
	var list []string
	for _, name := range integerNames(body) {
		list = append(list, name.Text())
	}
	Walk(body, func(s Stmt) bool {
		switch s := s.(type) {
		case *Let:
			list = append(list, s.Name)
		case *Var:
			list = append(list, s.Name)
		case *Local:
			list = append(list, s.Name)
		}
		return true
	})
	return list
}

// fresh returns a name that the kernel does not use.
func (g *guarder) fresh() string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("outside.%d", i); !g.taken[name] {
			g.taken[name] = true
			return name
		}
	}
}

// body returns a guarded copy of a list of statements.
func (g *guarder) body(list []Stmt) []Stmt {
	var out []Stmt
	for _, s := range list {
		out = append(out, g.statement(s)...)
	}
	return out
}

// violation is the condition on which an access to a buffer lies outside.
type violation struct {
	buffer string
	cond   Expr
}

// statement returns a statement with its accesses guarded, after the statements that detect violations.
func (g *guarder) statement(s Stmt) []Stmt {
	var found []violation
	expr := func(e, where Expr) Expr { return g.expr(e, where, &found) }
	switch was := s.(type) {
	case *For:
		return g.loop(was)
	case *Let:
		s = &Let{was.Name, expr(was.X, nil)}
	case *Var:
		s = &Var{was.Name, expr(was.X, nil)}
	case *Set:
		s = &Set{was.Name, expr(was.X, nil)}
	case *Reduce:
		s = &Reduce{was.Name, was.Op, expr(was.X, nil)}
	case *Check:
		s = &Check{was.Name, expr(was.X, nil), was.Min, was.Max, was.What, was.Guard}
	case *Store:
		mask := expr(was.Mask, nil)
		x := expr(was.X, mask)
		s = &Store{was.To, was.Index, x, g.inside(was, was.To, mask, mask, &found)}
	case *When:
		s = &When{expr(was.Cond, nil), g.body(was.Then), g.body(was.Else)}
	case *Contract:
		some := conjunction(atLeast(was.M.Sub(sym.Const(1))), atLeast(was.N.Sub(sym.Const(1))),
			atLeast(was.K.Sub(sym.Const(1))))
		if inside := g.inside(was, was.C.Buffer, nil, some, &found); inside != nil {
			s = &When{Cond: inside, Then: []Stmt{was}}
		}
	}
	return append(g.checks(found), s)
}

// checks ends the run if one of the violations holds; in a vector loop, it records them for the Check after the loop.
func (g *guarder) checks(found []violation) []Stmt {
	var out []Stmt
	for _, v := range found {
		if g.vector == nil {
			out = append(out, checkOf(g.fresh(), v.buffer, &Cast{Type: dtype.I64, X: v.cond}))
			continue
		}
		out = append(out, &Reduce{Name: g.noted(v.buffer), Op: Or, X: v.cond})
	}
	return out
}

// checkOf returns the Check that the number of accesses outside a buffer is 0.
func checkOf(name, buffer string, count Expr) *Check {
	what := "the number of accesses outside %" + buffer
	return &Check{Name: sym.Bound(name), X: count, Min: sym.Const(0), Max: sym.Const(0), What: what, Guard: true}
}

// noted returns the variable that records accesses outside a buffer.
func (g *guarder) noted(buffer string) string {
	if at := slices.Index(g.vector.buffers, buffer); at >= 0 {
		return g.vector.names[at]
	}
	name := g.fresh()
	g.vector.buffers, g.vector.names = append(g.vector.buffers, buffer), append(g.vector.names, name)
	return name
}

// loop returns a guarded copy of a loop. A vector loop is surrounded by the variables and Checks of its violations.
func (g *guarder) loop(s *For) []Stmt {
	again := *s
	if s.Kind != Vector || g.vector != nil {
		again.Body = g.body(s.Body)
		if s.Kind != Vector && g.vector != nil && notes(again.Body, g.vector.names) {
			again.Kind = Serial // each iteration of an independent loop has its own scalars
		}
		return []Stmt{&again}
	}
	g.vector = &strips{}
	again.Body = g.body(s.Body)
	noted := g.vector
	g.vector = nil
	var before, after []Stmt
	for i, name := range noted.names {
		before = append(before, &Var{name, &Const{Type: dtype.Bool}})
		after = append(after, checkOf(g.fresh(), noted.buffers[i], &Cast{Type: dtype.I64, X: &Ref{name, dtype.Bool}}))
	}
	return slices.Concat(before, []Stmt{&again}, after)
}

// notes reports whether statements reduce into one of the variables.
func notes(body []Stmt, names []string) (found bool) {
	Walk(body, func(s Stmt) bool {
		if r, ok := s.(*Reduce); ok && slices.Contains(names, r.Name) {
			found = true
		}
		return !found
	})
	return found
}

// expr returns an expression with its loads guarded. where is the condition on which its value is used; nil: always.
func (g *guarder) expr(e, where Expr, found *[]violation) Expr {
	switch e := e.(type) {
	case nil:
		return nil
	case *Load:
		mask := g.expr(e.Mask, where, found)
		otherwise := e.Else
		if otherwise != nil {
			otherwise = g.expr(otherwise, conjunction(where, &Unary{Not, mask}), found)
		}
		inside := g.inside(e, e.From, mask, conjunction(where, mask), found)
		if inside != nil && otherwise == nil {
			otherwise = &Const{Type: e.Type}
		}
		return &Load{e.From, e.Index, e.Type, inside, otherwise}
	case *Unary:
		return &Unary{e.Op, g.expr(e.X, where, found)}
	case *Binary:
		return &Binary{e.Op, g.expr(e.X, where, found), g.expr(e.Y, where, found)}
	case *Select:
		return &Select{g.expr(e.Cond, where, found), g.expr(e.X, where, found), g.expr(e.Y, where, found)}
	case *Cast:
		return &Cast{e.Type, g.expr(e.X, where, found), e.Wrap}
	}
	return e
}

// inside returns the mask of an access: its own, and that the access lies inside if that is not proved. If the access
// is guarded, a violation is added: the condition where holds and the access lies outside.
func (g *guarder) inside(access any, buffer string, mask, where Expr, found *[]violation) Expr {
	goals := g.goals[access]
	if len(goals) == 0 {
		return mask
	}
	var inside Expr
	for _, goal := range goals {
		inside = conjunction(inside, atLeast(goal))
	}
	*found = append(*found, violation{buffer, conjunction(where, &Unary{Not, inside})})
	return conjunction(mask, inside)
}

// atLeast returns the expression x ≥ 0.
func atLeast(x sym.Expr) Expr { return &Binary{Ge, &Index{x}, &Index{sym.Const(0)}} }

// conjunction returns the conjunction of the conditions that are not nil; nil if all of them are.
func conjunction(list ...Expr) (all Expr) {
	for _, e := range list {
		switch {
		case all == nil:
			all = e
		case e != nil:
			all = &Binary{And, all, e}
		}
	}
	return all
}
