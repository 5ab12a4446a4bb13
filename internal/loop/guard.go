package loop

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Prove verifies the kernels of a module, and gives every access that is not proved to lie within its buffer a check in
// the code: the access happens only if it lies inside, and a Check ends the run where it would have lain outside. It
// returns how many accesses it guarded, by kernel in the module's order. After it no access of a kernel is unproved,
// whoever wrote the kernel; one that cannot be guarded is an error, which is a *VerifyError.
func Prove(m *Module) (guards []int, err error) {
	_, guards, err = verifyModule(m, func(v *moduleVerifier) {
		v.guards = true
		v.kernelsOnly()
	})
	return guards, err
}

// mostRounds is how often a kernel is guarded.
const mostRounds = 3

// guardAll guards what is unproved of kernels that are unlike, and verifies those again. It returns their new bodies,
// nil for those that stay.
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

// guarded is a kernel's body with guards, verified again.
func (v *moduleVerifier) guarded(was *Kernel, open []Unproved, given []sym.Cond) ([]Stmt, error) {
	k := *was
	// What is known where an access lies inside may tell more of where it lies: the next round has that in it.
	for range mostRounds {
		k.Body = guard(&k, open)
		var err error
		if open, err = VerifyGiven(&k, v.module.Dims, v.module.about(&k, given)); err != nil || len(open) == 0 {
			return k.Body, err
		}
	}
	return nil, &VerifyError{v.module.Name, fmt.Sprintf("@%s: %s, and that cannot be guarded", k.Name, open[0])}
}

// accessesOf counts the accesses that some axis of is unproved.
func accessesOf(list []Unproved) int {
	met := map[any]bool{}
	for _, u := range list {
		met[u.of] = true
	}
	return len(met)
}

// Checks counts the Checks of a kernel's body: those of values that it was written to check, and those that Prove put
// there.
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

// guarder rewrites a kernel's body. What it is made of is not changed: other kernels may share it.
type guarder struct {
	goals  map[any][]sym.Expr // by access: what must be 0 or more
	taken  map[string]bool
	vector *strips // of the vector loop around; nil outside of one
}

// strips are what a vector loop finds outside, one variable for each buffer, which a Check after the loop looks at: a
// Check inside would keep the loop from being done in lanes.
type strips struct {
	buffers []string
	names   []string
}

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

// names returns the texts of all names that a body declares.
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

// fresh is a name that the kernel does not have.
func (g *guarder) fresh() string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("outside.%d", i); !g.taken[name] {
			g.taken[name] = true
			return name
		}
	}
}

func (g *guarder) body(list []Stmt) []Stmt {
	var out []Stmt
	for _, s := range list {
		out = append(out, g.statement(s)...)
	}
	return out
}

// violation is where an access of a buffer would lie outside.
type violation struct {
	buffer string
	cond   Expr
}

// statement is a statement with its accesses guarded, behind what finds out whether one would lie outside.
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

// checks ends the run where one of the violations holds, or notes it for the end of the vector loop.
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

func checkOf(name, buffer string, count Expr) *Check {
	what := "the number of accesses outside %" + buffer
	return &Check{Name: sym.Bound(name), X: count, Min: sym.Const(0), Max: sym.Const(0), What: what, Guard: true}
}

// noted is the variable that notes accesses outside a buffer.
func (g *guarder) noted(buffer string) string {
	if at := slices.Index(g.vector.buffers, buffer); at >= 0 {
		return g.vector.names[at]
	}
	name := g.fresh()
	g.vector.buffers, g.vector.names = append(g.vector.buffers, buffer), append(g.vector.names, name)
	return name
}

func (g *guarder) loop(s *For) []Stmt {
	again := *s
	if s.Kind != Vector || g.vector != nil {
		again.Body = g.body(s.Body)
		if s.Kind != Vector && g.vector != nil && notes(again.Body, g.vector.names) {
			again.Kind = Serial // each iteration of an independent loop has scalars of its own
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

// notes reports whether statements combine one of the variables with a value.
func notes(body []Stmt, names []string) (found bool) {
	Walk(body, func(s Stmt) bool {
		if r, ok := s.(*Reduce); ok && slices.Contains(names, r.Name) {
			found = true
		}
		return !found
	})
	return found
}

// expr is an expression with its loads guarded. where is what holds where its value is used; nil: everywhere.
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

// inside is the mask of an access: its own, and that it lies inside if that is not proved. A violation is noted
// where where holds and it lies outside.
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

// atLeast is whether an integer is 0 or more.
func atLeast(x sym.Expr) Expr { return &Binary{Ge, &Index{x}, &Index{sym.Const(0)}} }

// conjunction is whether all conditions hold that are not nil; nil if there is none.
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
