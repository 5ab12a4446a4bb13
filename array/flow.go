package array

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Bodies of loops and branches compute in scopes of their own, which close the arrays that the bodies make and do not
// return. Outside a trace the bodies run as Go code. In a trace each is traced once, and becomes part of the program.

// While repeats body while cond returns true, one bool. Both receive the state, arrays whose types and shapes stay the
// same; body returns the next state. The result is the final state. A compiled loop fails after 2²⁰ iterations.
func (s *Scope) While(cond func(s *Scope, state ...*Array) *Array, body Func, state ...*Array) []*Array {
	return s.repeat("while", turns{cond: cond, body: func(s *Scope, _ *Array, state []*Array) []*Array {
		return body(s, state...)
	}}, state)
}

// For repeats body n times; n may be a named extent. body receives the iteration's number, an i64 from 0 on, and the
// state, arrays whose types and shapes stay the same, and returns the next state. The result is the final state.
func (s *Scope) For(n int, body func(s *Scope, i *Array, state ...*Array) []*Array, state ...*Array) []*Array {
	return s.repeat("for", turns{most: n, counted: true, body: func(s *Scope, i *Array, state []*Array) []*Array {
		return body(s, i, state...)
	}}, state)
}

// turns is a loop of While or For.
type turns struct {
	cond    func(s *Scope, state ...*Array) *Array // nil: true
	body    func(s *Scope, i *Array, state []*Array) []*Array
	most    int
	counted bool
}

// repeat runs a loop, or adds it to the trace.
func (s *Scope) repeat(name string, l turns, state []*Array) []*Array {
	if !s.ready(name, state) {
		return s.none(len(state))
	}
	for _, a := range state {
		if a.weak {
			s.failAt(name, diag.Inputf("a number is no state: its type is not known").WithFix("use Full, or Scalar"))
			return s.none(len(state))
		}
	}
	var out []*Array
	var err error
	if s.trace != nil {
		out, err = s.loopTraced(name, l, state)
	} else {
		out, err = s.loopEager(name, l, state)
	}
	if err != nil {
		s.failAt(name, err)
		return s.none(len(state))
	}
	return out
}

// within runs f in a scope inside, and moves the arrays that it returns to s. Numbers among them become arrays of the
// types of like.
func (s *Scope) within(name string, like []*Array, f func(s *Scope) []*Array) ([]*Array, error) {
	inner := NewScope(name, In(s))
	out := append([]*Array(nil), f(inner)...)
	for i, a := range out {
		if inner.failed() || a.dead(inner, name) {
			break
		}
		if a.weak {
			dt := weir.F32
			if i < len(like) {
				dt = like[i].dtype
			}
			out[i] = inner.constant(dt, a.number)
		}
		inner.Return(out[i])
	}
	err := inner.Err()
	if closed := inner.Close(); err == nil {
		err = closed
	}
	return out, err
}

// sameTypes returns an error unless the state keeps its types and shapes.
func sameTypes(before, after []*Array) error {
	if len(before) != len(after) {
		return diag.Inputf("a body returns %d arrays for a state of %d", len(after), len(before))
	}
	for i, a := range before {
		if a.String() != after[i].String() {
			return diag.Inputf("state %d is %v, and the body makes it %v: it keeps its type and shape", i, a, after[i])
		}
	}
	return nil
}

// loopEager runs a loop outside a trace.
func (s *Scope) loopEager(name string, l turns, state []*Array) ([]*Array, error) {
	given, now := state, state
	for i := 0; !l.counted || i < l.most; i++ {
		goes, wrong := true, error(nil)
		next, err := s.within(name, now, func(s *Scope) []*Array {
			if l.cond != nil {
				if goes, wrong = truthOf(l.cond(s, now...)); !goes {
					return nil
				}
			}
			var turn *Array
			if l.counted {
				turn = Scalar(s, int64(i))
			}
			return l.body(s, turn, now)
		})
		if err == nil {
			err = wrong
		}
		if err == nil && goes {
			err = sameTypes(now, next)
		}
		if err != nil {
			return nil, err
		}
		if !goes {
			break
		}
		now = replace(given, now, next)
	}
	return s.owned(given, now), s.Err()
}

// owned returns arrays of s: it copies those that are among the given arrays or belong to another scope.
func (s *Scope) owned(given, list []*Array) []*Array {
	out := make([]*Array, len(list))
	for i, a := range list {
		if out[i] = a; contains(given, a) || a.owner.Load() != s {
			out[i] = s.copied(a)
		}
	}
	return out
}

// truthOf returns the element of an array of one bool.
func truthOf(a *Array) (bool, error) {
	list, err := View[bool](a)
	if err == nil && len(list) != 1 {
		err = diag.Inputf("a condition %v; it is one bool", a)
	}
	return err == nil && list[0], err
}

// replace closes the arrays of the old state that are neither in the next one nor given, and returns the next one.
func replace(given, old, next []*Array) []*Array {
	for _, a := range old {
		if !contains(given, a) && !contains(next, a) {
			a.Close()
		}
	}
	return next
}

// contains reports whether a list has an array.
func contains(list []*Array, a *Array) bool {
	for _, b := range list {
		if a == b {
			return true
		}
	}
	return false
}

// copied returns a new array with a's elements.
func (s *Scope) copied(a *Array) *Array { return s.withShape("copy", a, a.shape) }

// region builds a block by running f in a scope inside; f's results become the block's results.
func (s *Scope) region(name string, into *ir.Builder, like []*Array, f func(s *Scope) []*Array) (out []*Array,
	err error) {
	t := s.trace
	outer := t.b
	t.b = into
	defer func() { t.b = outer }()
	defer ir.Catch(&err)
	inner := NewScope(name, In(s))
	defer inner.Close()
	for i, a := range f(inner) {
		if inner.failed() || a.dead(inner, name) {
			return nil, inner.Err()
		}
		if a.weak && i < len(like) {
			a = inner.constant(like[i].dtype, a.number)
		}
		v := t.number(a)
		if v.Node == nil || !has(into.Block, v.Node) {
			v = same(into, v)
		}
		into.Block.Results = append(into.Block.Results, v)
		out = append(out, a)
	}
	return out, inner.Close()
}

// has reports whether a node is directly in a block.
func has(block *ir.Block, n *ir.Node) bool {
	for i := len(block.Nodes) - 1; i >= 0; i-- {
		if block.Nodes[i] == n {
			return true
		}
	}
	return false
}

// valuesOf returns the values of arrays.
func (t *trace) valuesOf(list []*Array) []*ir.Value {
	out := make([]*ir.Value, len(list))
	for i, a := range list {
		out[i] = t.operand(a)
	}
	return out
}

// arrays returns arrays that represent values.
func (t *trace) arrays(s *Scope, list []*ir.Value) []*Array {
	out := make([]*Array, len(list))
	for i, v := range list {
		out[i] = t.array(s, v)
	}
	return out
}

// loopTraced adds a loop to the trace.
func (s *Scope) loopTraced(name string, l turns, state []*Array) (out []*Array, err error) {
	defer ir.Catch(&err)
	t := s.trace
	limit := sym.Const(ops.LoopLimit)
	var trip, begins *ir.Value
	if l.counted {
		list, err := s.extents([]int{l.most})
		if err != nil {
			return nil, err
		}
		limit = list[0]
		trip = ops.Reshape(t.b, ops.Integers(t.b, ir.Type{DType: weir.I64, Shape: []sym.Expr{one}}, list))
	}
	if l.cond != nil {
		first, err := s.within(name, nil, func(s *Scope) []*Array { return []*Array{oneBool(s, l.cond(s, state...))} })
		if err != nil {
			return nil, err
		}
		begins = t.operand(first[0])
	}
	t.b.Source = name
	carried := t.valuesOf(state)
	block, into := ops.LoopBody(t.b, name, limit, carried)
	after, err := s.region(name, into, append([]*Array{{dtype: weir.Bool}}, state...), func(s *Scope) []*Array {
		next := l.body(s, t.array(s, block.Params[0]), t.arrays(s, block.Params[2:]))
		goes := s.constant(weir.Bool, 1)
		if l.cond != nil && !s.failed() {
			goes = oneBool(s, l.cond(s, next...))
		}
		return append([]*Array{goes}, next...)
	})
	if err == nil {
		err = sameTypes(state, after[1:])
	}
	if err != nil {
		return nil, err
	}
	return t.arrays(s, ops.Loop(t.b, block, trip, begins, carried...)), nil
}

// oneBool returns a condition as a bool of rank 0.
func oneBool(s *Scope, a *Array) *Array {
	if s.failed() || a.dead(s, "a condition") {
		return s.none(1)[0]
	}
	if a.dtype != weir.Bool || a.Len() != 1 {
		return s.refuse("a condition", diag.Inputf("%v; it is one bool", a))
	}
	return s.Reshape(a)
}

// Cond returns the results of then if pred, one bool, is true, else the results of otherwise. Both receive the
// operands, and must return the same number of arrays, of equal types and ranks. If an extent differs between them,
// data decide it.
func (s *Scope) Cond(pred *Array, then, otherwise Func, operands ...*Array) []*Array {
	if !s.ready("cond", append([]*Array{pred}, operands...)) {
		return s.none(1)
	}
	var out []*Array
	var err error
	if s.trace != nil {
		out, err = s.branchTraced(pred, then, otherwise, operands)
	} else {
		out, err = s.branchEager(pred, then, otherwise, operands)
	}
	if err != nil {
		s.failAt("cond", err)
		return s.none(max(1, len(out)))
	}
	return out
}

// branchEager runs one of the branches outside a trace.
func (s *Scope) branchEager(pred *Array, then, otherwise Func, operands []*Array) ([]*Array, error) {
	yes, err := truthOf(pred)
	if err != nil {
		return nil, err
	}
	if !yes {
		then = otherwise
	}
	out, err := s.within("cond", nil, func(s *Scope) []*Array { return then(s, operands...) })
	for i, a := range out {
		if err == nil && a.owner.Load() != s {
			out[i] = s.copied(a)
		}
	}
	return out, err
}

// branchTraced adds both branches to the trace.
func (s *Scope) branchTraced(pred *Array, then, otherwise Func, operands []*Array) (out []*Array, err error) {
	defer ir.Catch(&err)
	t := s.trace
	cond := oneBool(s, pred)
	if s.failed() {
		return nil, s.Err()
	}
	var blocks []*ir.Block
	var results [][]*Array
	for _, f := range []Func{then, otherwise} {
		block := &ir.Block{}
		list, err := s.region("cond", t.b.In(block), nil, func(s *Scope) []*Array { return f(s, operands...) })
		if err != nil {
			return nil, err
		}
		blocks, results = append(blocks, block), append(results, list)
	}
	if len(results[0]) != len(results[1]) {
		return nil, diag.Inputf("one branch returns %d arrays, the other %d", len(results[0]), len(results[1]))
	}
	t.b.Source = "cond"
	return t.arrays(s, ops.If(t.b, t.operand(cond), blocks[0], blocks[1])), nil
}

// Scan runs body once for each index along the first axis of xs, whose extents must be equal. body receives the state
// and the slices of xs at the index. It returns the next state, whose types and shapes stay the same, and further
// arrays. The results are the final state, and the further arrays stacked along a new first axis.
func (s *Scope) Scan(body func(s *Scope, state, x []*Array) (next, y []*Array), state, xs []*Array) (end, ys []*Array) {
	all := append(append([]*Array(nil), state...), xs...)
	if !s.ready("scan", all) {
		return s.none(len(state)), nil
	}
	err := scannable(state, xs)
	switch {
	case err != nil:
	case s.trace != nil:
		end, ys, err = s.scanTraced(body, state, xs)
	case xs[0].shape[0] == 0: // body does not run: its trace determines the results' types
		out := s.traced(func(s *Scope, in ...*Array) []*Array {
			end, ys := s.Scan(body, in[:len(state)], in[len(state):])
			return append(end, ys...)
		}, all)
		if len(out) >= len(state) {
			return out[:len(state)], out[len(state):]
		}
	default:
		end, ys, err = s.scanEager(body, state, xs)
	}
	if err != nil {
		s.failAt("scan", err)
		return s.none(len(state)), nil
	}
	return end, ys
}

// scannable returns an error if the operands cannot be scanned.
func scannable(state, xs []*Array) error {
	if len(xs) == 0 {
		return diag.Inputf("no arrays to walk along").WithFix("use For")
	}
	for _, a := range append(append([]*Array(nil), state...), xs...) {
		if a.weak {
			return diag.Inputf("a number among the operands: its type is not known").WithFix("use Full, or Scalar")
		}
	}
	for _, a := range xs {
		if len(a.shape) == 0 || a.shape[0] != xs[0].Dim(0) {
			return diag.Inputf("%v and %v do not have the same first axis", xs[0], a)
		}
	}
	return nil
}

// scanEager runs a scan outside a trace.
func (s *Scope) scanEager(body func(s *Scope, state, x []*Array) (next, y []*Array), state, xs []*Array) (end,
	ys []*Array, err error) {
	given, now := state, state
	n := xs[0].shape[0]
	for i := range n {
		count := 0
		out, err := s.within("scan", now, func(s *Scope) []*Array {
			slices := make([]*Array, len(xs))
			for k, x := range xs {
				slices[k] = s.row(x, i)
			}
			next, y := body(s, now, slices)
			count = len(next)
			return append(append([]*Array(nil), next...), y...)
		})
		if err == nil {
			err = sameTypes(now, out[:count])
		}
		if err == nil {
			ys, err = s.stacked(ys, out[count:], i, n)
		}
		if err != nil {
			return nil, nil, err
		}
		now = replace(given, now, out[:count])
	}
	return s.owned(given, now), ys, s.Err()
}

// row returns the slice of x at index i of its first axis.
func (s *Scope) row(x *Array, i int) *Array {
	y, err := s.empty(x.dtype, x.shape[1:], false)
	if err != nil {
		return s.refuse("scan", err)
	}
	n := len(y.tensor.Bytes())
	copy(y.tensor.Bytes(), x.tensor.Bytes()[i*n:])
	return y
}

// stacked writes the slices of iteration i into the stacks of all n, which the first iteration makes.
func (s *Scope) stacked(ys, slices []*Array, i, n int) ([]*Array, error) {
	if i == 0 {
		for _, y := range slices {
			stack, err := s.empty(y.dtype, append([]int{n}, y.shape...), false)
			if err != nil {
				return nil, err
			}
			ys = append(ys, stack)
		}
	}
	if len(slices) != len(ys) {
		return nil, diag.Inputf("the body returns %d further arrays, before it was %d", len(slices), len(ys))
	}
	for k, y := range slices {
		if len(y.shape)+1 != len(ys[k].shape) || y.dtype != ys[k].dtype || y.Len()*n != ys[k].Len() {
			return nil, diag.Inputf("the body returns %v, before its results made %v", y, ys[k])
		}
		copy(ys[k].tensor.Bytes()[i*len(y.tensor.Bytes()):], y.tensor.Bytes())
		if y.owner.Load() == s && !contains(ys, y) {
			y.Close()
		}
	}
	return ys, nil
}

// scanTraced adds a scan to the trace.
func (s *Scope) scanTraced(body func(s *Scope, state, x []*Array) (next, y []*Array), state, xs []*Array) (end,
	ys []*Array, err error) {
	defer ir.Catch(&err)
	t := s.trace
	states, scanned := t.valuesOf(state), t.valuesOf(xs)
	block := &ir.Block{}
	into := t.b.In(block)
	for _, v := range states {
		into.Param(v.Name, v.Type)
	}
	for _, v := range scanned {
		into.Param(v.Name, ir.Type{DType: v.Type.DType, Shape: v.Type.Shape[1:]})
	}
	count := 0
	out, err := s.region("scan", into, state, func(s *Scope) []*Array {
		next, y := body(s, t.arrays(s, block.Params[:len(state)]), t.arrays(s, block.Params[len(state):]))
		count = len(next)
		return append(append([]*Array(nil), next...), y...)
	})
	if err == nil {
		err = sameTypes(state, out[:min(count, len(out))])
	}
	if err != nil {
		return nil, nil, err
	}
	t.b.Source = "scan"
	results := t.arrays(s, ops.Scan(t.b, block, ops.ScanOver{}, states, scanned))
	return results[:count], results[count:], nil
}
