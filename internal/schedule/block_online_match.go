package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file recognises the kernels of block_online.go.

// lowest is a lower bound of all scores.
var lowest = loop.Number(dtype.F32, math.Inf(-1))

// online holds the components of such a kernel.
type online struct {
	*product // of rows and keys
	keys     *loop.For
	seen     sym.Expr // number of keys that a row visits, if it depends on the row
	sums     string   // the local
	size     int64    // elements of the local
	scores   []loop.Stmt
	score    string
	top      string
	total    string
	greatest string
	least    *loop.Let
	shrink   *loop.Let
	weight   *loop.Let
	values   *product // of weights and values, with their named values
	elements *loop.For
	ended    []loop.Stmt // the statements after the keys
}

// matchOnline returns the components of a kernel; nil if it has another form.
func matchOnline(k *loop.Kernel) *online {
	o := &online{product: &product{}}
	var body []loop.Stmt
	o.loops, body = outerLoops(k.Body)
	at := slices.IndexFunc(body, func(s loop.Stmt) bool { f, is := s.(*loop.For); return is && f.Kind == loop.Serial })
	if len(o.loops) == 0 || at < 0 {
		return nil
	}
	o.keys = body[at].(*loop.For)
	if o.ended = body[at+1:]; !o.matchBegin(body[:at]) || !o.matchKeys(o.keys.Body) || !o.matchEnd() || !o.matchSeen() {
		return nil
	}
	o.loops = append(slices.Clone(o.loops), o.keys)
	if o.sort(); len(o.rows) == 0 || len(o.columns) != 1 || o.columns[0] != o.keys {
		return nil
	}
	mentioned := o.values.mentioned(o.values.b)
	if slices.ContainsFunc(o.rows, func(f *loop.For) bool { return mentioned[f.Var] }) {
		return nil
	}
	return o
}

// matchSeen finds the number of keys for all rows together, if each row visits at least as many as those before it.
func (o *online) matchSeen() bool {
	extent := o.keys.Extent
	if freeOf(extent, o.loops) {
		return true
	}
	o.seen = extent
	values := map[sym.Name]sym.Expr{}
	for _, f := range o.loops {
		if !mentions(extent, f.Var) {
			continue
		}
		if !rises(extent, f.Var) {
			return false
		}
		values[f.Var] = f.Extent.Sub(one)
	}
	most := extent.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := values[name]; return v, ok }).Max(zero)
	o.keys = &loop.For{Kind: o.keys.Kind, Var: o.keys.Var, Extent: most, Body: o.keys.Body}
	return freeOf(most, o.loops)
}

// rises reports whether an extent, the least or greatest of sums, is proved not to fall when a variable rises.
func rises(extent sym.Expr, by sym.Name) bool {
	for _, args := range [][]sym.Expr{extent.MinArgs(), extent.MaxArgs()} {
		if len(args) > 1 {
			return !slices.ContainsFunc(args, func(e sym.Expr) bool { return !rises(e, by) })
		}
	}
	step, rest, ok := extent.Linear(by)
	if !ok {
		return false
	}
	n, fixed := step.Const()
	return fixed && n >= 0 && !mentions(rest, by)
}

// matchBegin finds the local of sums, which begin as 0, and the two values that are carried from key to key.
func (o *online) matchBegin(body []loop.Stmt) bool {
	cleared := false
	for _, s := range body {
		switch s := s.(type) {
		case *loop.Local:
			if len(s.Shape) != 1 || s.DType != dtype.F32 || o.sums != "" {
				return false
			}
			o.sums = s.Name
			o.size, _ = s.Shape[0].Const()
		case *loop.Var:
			switch begin, ok := s.X.(*loop.Const); {
			case !ok || s.X.DType() != dtype.F32:
				return false
			case begin.Bits == lowest.Bits && o.top == "":
				o.top = s.Name
			case begin.Bits == 0 && o.total == "":
				o.total = s.Name
			default:
				return false
			}
		case *loop.For:
			store := o.storeOf(s)
			if store == nil || len(s.Body) != 1 {
				return false
			}
			zero, ok := store.X.(*loop.Const)
			cleared = ok && zero.Bits == 0
		default:
			return false
		}
	}
	return cleared && o.size > 0 && o.top != "" && o.total != ""
}

// storeOf returns the store at the end of a loop over all sums, to the loop's own sum; nil if it has another end.
func (o *online) storeOf(f *loop.For) *loop.Store {
	extent, fixed := f.Extent.Const()
	store, ok := f.Body[len(f.Body)-1].(*loop.Store)
	if !ok || !fixed || extent != o.size || f.Kind != loop.Each || store.To != o.sums || store.Mask != nil ||
		!isVar(store.Index[0], f.Var) {
		return nil
	}
	return store
}

// matchKeys finds the statements for one key.
func (o *online) matchKeys(body []loop.Stmt) bool {
	if len(body) < 10 {
		return false
	}
	begin, ok := body[0].(*loop.Var)
	steps, also := body[1].(*loop.For)
	last := body[len(body)-3:]
	total, sets := last[0].(*loop.Set)
	top, more := last[1].(*loop.Set)
	elements, loops := last[2].(*loop.For)
	if !ok || !also || !sets || !more || !loops || steps.Kind != loop.Serial ||
		!freeOf(steps.Extent, append(slices.Clone(o.loops), o.keys)) {
		return false
	}
	o.before, o.steps, o.elements = body[:1], []*loop.For{steps}, elements
	if !o.matchSum(steps.Body) || o.begin != begin || o.sum != dtype.F32 || !o.closed() {
		return false
	}
	var lets []*loop.Let
	for _, s := range body[2 : len(body)-3] {
		let, ok := s.(*loop.Let)
		if !ok {
			return false
		}
		lets = append(lets, let)
	}
	first := len(lets) - 4
	if first < 1 {
		return false
	}
	ref := func(name string) loop.Expr { return &loop.Ref{Name: name, Type: dtype.F32} }
	o.scores, o.score, o.greatest = body[2:2+first], lets[first-1].Name, lets[first].Name
	o.least, o.shrink, o.weight = lets[first+1], lets[first+2], lets[first+3]
	shrink, weight := ref(o.shrink.Name), ref(o.weight.Name)
	return loop.Same(lets[first].X, loop.Apply2(loop.Max, ref(o.top), ref(o.score))) &&
		loop.Same(o.weight.X, renamed(o.shrink.X, map[string]string{o.top: o.score})) &&
		only(o.least.X, o.greatest) && only(o.shrink.X, o.top, o.least.Name) &&
		total.Name == o.total && loop.Same(total.X, loop.Apply2(loop.Add, loop.Apply2(loop.Mul, ref(o.total), shrink),
		weight)) &&
		top.Name == o.top && loop.Same(top.X, ref(o.greatest)) &&
		o.matchScores() && o.matchValues(shrink, weight)
}

// only reports whether a value depends on nothing but some named values.
func only(e loop.Expr, names ...string) bool {
	ok := len(loop.IntegersOf(e)) == 0
	loop.WalkExpr(e, func(x loop.Expr) {
		switch x := x.(type) {
		case *loop.Ref:
			ok = ok && slices.Contains(names, x.Name)
		case *loop.Load:
			ok = false
		}
	})
	return ok
}

// renamed returns a value with other names.
func renamed(e loop.Expr, names map[string]string) loop.Expr {
	return (&loop.Rewrite{Name: func(name string) string {
		if to, ok := names[name]; ok {
			return to
		}
		return name
	}}).Value(e)
}

// matchScores checks that scores are computed from a product and from values that do not depend on the key.
func (o *online) matchScores() bool {
	known := []string{o.begin.Name}
	for _, s := range o.scores {
		let := s.(*loop.Let)
		if !refersOnly(let.X, known) {
			return false
		}
		known = append(known, let.Name)
	}
	return true
}

// refersOnly reports whether the named values in an expression are among names.
func refersOnly(e loop.Expr, names []string) bool {
	ok := true
	loop.WalkExpr(e, func(x loop.Expr) {
		if r, is := x.(*loop.Ref); is {
			ok = ok && slices.Contains(names, r.Name)
		}
	})
	return ok
}

// matchValues finds the weighted values.
func (o *online) matchValues(shrink, weight loop.Expr) bool {
	store := o.storeOf(o.elements)
	if store == nil {
		return false
	}
	sum, ok := store.X.(*loop.Binary)
	if !ok || sum.Op != loop.Add {
		return false
	}
	held := &loop.Load{From: o.sums, Index: store.Index, Type: dtype.F32}
	times, ok := sum.Y.(*loop.Binary)
	if !ok || times.Op != loop.Mul || !loop.Same(times.X, weight) ||
		!loop.Same(sum.X, loop.Apply2(loop.Mul, held, shrink)) {
		return false
	}
	o.values = &product{a: weight, b: times.Y}
	for _, s := range o.elements.Body[:len(o.elements.Body)-1] {
		if _, ok := s.(*loop.Let); !ok {
			return false
		}
		o.values.lets = append(o.values.lets, s)
	}
	return (&product{a: times.Y, b: times.Y, lets: o.values.lets}).closed() && !reads(o.values.b, o.sums)
}

// reads reports whether an expression loads from a buffer.
func reads(e loop.Expr, buffer string) (found bool) {
	loop.WalkExpr(e, func(x loop.Expr) {
		l, ok := x.(*loop.Load)
		found = found || ok && l.From == buffer
	})
	return found
}

// matchEnd checks that the statements after the keys are named values and one loop over the sums that stores.
func (o *online) matchEnd() bool {
	last := len(o.ended) - 1
	if last < 0 {
		return false
	}
	known := []string{o.total}
	for _, s := range o.ended[:last] {
		let, ok := s.(*loop.Let)
		if !ok || !refersOnly(let.X, known) || reads(let.X, o.sums) {
			return false
		}
		known = append(known, let.Name)
	}
	f, ok := o.ended[last].(*loop.For)
	if !ok || f.Kind != loop.Each {
		return false
	}
	if extent, fixed := f.Extent.Const(); !fixed || extent != o.size {
		return false
	}
	for _, s := range f.Body {
		switch s := s.(type) {
		case *loop.Let:
			known = append(known, s.Name)
		case *loop.Store:
			ok = ok && s.To != o.sums
		default:
			return false
		}
		for _, e := range loop.Values(s) {
			ok = ok && refersOnly(e, known)
			loop.WalkExpr(e, func(x loop.Expr) {
				if l, is := x.(*loop.Load); is && l.From == o.sums {
					ok = ok && isVar(l.Index[0], f.Var)
				}
			})
		}
	}
	return ok
}
