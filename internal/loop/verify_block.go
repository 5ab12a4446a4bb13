package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// token checks the declaration of barriers: it belongs to a block.
func (v *verifier) token(s *Token) {
	if !v.inBlock() || v.role != nil {
		v.fail("token %%%s is declared outside a block, or in a role", s.Name)
	}
	v.integers([]sym.Expr{s.Count, s.Arrivals}, dimName)
	v.declare(percent(s.Name), &declared{kind: tokenName, shape: []sym.Expr{s.Count}})
}

func (v *verifier) inBlock() bool {
	return slices.ContainsFunc(v.loops, func(l *For) bool { return l.Kind == Block })
}

func (v *verifier) roles(s *Roles) {
	if !v.inBlock() || v.role != nil {
		v.fail("roles outside a block, or in a role")
	}
	for _, r := range s.List {
		v.integers([]sym.Expr{r.Count}, dimName)
		if r.Threads < 1 || r.Registers < 0 {
			v.fail("role %s has %d threads of %d registers", r.Name, r.Threads, r.Registers)
		}
		outer := len(v.order)
		v.declare(r.Var, &declared{kind: loopName})
		mark := v.known.mark()
		v.known.loop(r.Var, r.Count)
		v.role = r
		v.body(r.Body)
		v.role = nil
		v.known.reset(mark)
		v.leave(outer)
	}
}

// inRole checks that a statement stands in a role and names a barrier of a token.
func (v *verifier) inRole(what, token string, at sym.Expr) {
	if v.role == nil {
		v.fail("%s outside a role", what)
	}
	if token == "" {
		return
	}
	d := v.lookup(percent(token), tokenName)
	v.access(d, token, d, []sym.Expr{at})
}

func (v *verifier) bulkCopy(s *BulkCopy) {
	v.inRole("a bulk copy", s.Token, s.At)
	to, from := v.lookup(percent(s.To), bufferName), v.lookup(percent(s.From), bufferName)
	if to.space != Shared || from.mode != Read {
		v.fail("a bulk copy from %%%s to %%%s, want one from a parameter that is read to a shared local", s.From, s.To)
	}
	if to.dt != from.dt || len(s.ToIndex) != len(to.shape) || len(s.FromIndex) != len(from.shape) || len(s.Box) > len(to.shape) || len(s.Box) > len(from.shape) {
		v.fail("a bulk copy of a box of %d axes from %%%s of %s with %d axes to %%%s of %s with %d", len(s.Box), s.From, from.dt, len(from.shape), s.To, to.dt, len(to.shape))
	}
	v.integers(slices.Concat(s.ToIndex, s.FromIndex))
	v.integers(s.Box, dimName)
	for axis, at := range s.ToIndex {
		last := at
		if i := axis - (len(to.shape) - len(s.Box)); i >= 0 {
			last = at.Add(s.Box[i]).Sub(sym.Const(1))
		}
		v.inside(s, s.To, axis, at, last, to.shape[axis])
	}
}
