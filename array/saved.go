package array

import (
	"fmt"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/pass"
)

// Saved holds the arrays that a call of Pair.Forward saved for the derivatives. They belong to a scope inside the
// call's scope, which is closed with it and which Dump shows. Backward uses them up; Close frees them without Backward.
//
// Inputs and results that Backward needs are lent to it: until Backward or Close they cannot be closed or moved. If
// their elements change, Backward is an error.
type Saved struct {
	of     *halves
	name   string
	made   site
	scope  *Scope
	arrays []*Array // the arrays that it owns
	lent   []*Array // by input of backward: the input or result of forward that it is, or nil
	before []*site  // by input of backward: the last change of lent before Forward returned
	like   []*Array // types and shapes of the results that have seeds
	shapes [][]int  // the inputs' shapes
	dtypes []weir.DType
	traced func(s *Scope, seeds []*Array) ([]*Array, error) // in a trace

	mu   sync.Mutex
	end  site   // the line that used or closed it
	how  string // "used", "closed" or "not computed"; "": none of these
	busy bool   // a call of Backward is reading it
}

// Forward computes the function's results, and saves the arrays that its derivatives need. Both belong to the scope. If
// the scope has an error, the results are without elements, and Backward fails.
func (p *Pair) Forward(s *Scope, in ...*Array) ([]*Array, *Saved) {
	v := &Saved{name: p.options.Name, made: here()}
	if s.stopped() {
		return s.none(p.count()), v.failed()
	}
	out, err := v.forward(p, s, in)
	if err != nil {
		s.failAt(p.options.Name, err)
		return s.none(p.count()), v.failed()
	}
	return out, v
}

// failed marks a Saved of a call that had an error.
func (v *Saved) failed() *Saved {
	v.how, v.end = "not computed", v.made
	return v
}

// count returns the number of results of a call, at least 1; 1 before it is known.
func (p *Pair) count() int {
	if h := p.last(); h != nil {
		return max(1, h.results)
	}
	return 1
}

// forward runs the forward program, and borrows the arrays that backward reads.
func (v *Saved) forward(p *Pair, s *Scope, in []*Array) (out []*Array, err error) {
	if s.trace != nil {
		return v.trace(p, s, in)
	}
	h, err := p.use(in)
	if err != nil {
		return nil, err
	}
	v.of = h
	v.scope = NewScope("saved by "+p.options.Name, In(s))
	v.scope.quiet = true
	v.scope.onClose = v.dropped
	defer func() {
		if err != nil {
			v.scope.Close()
		}
	}()
	tensors, err := tensorsOf(in, h.held)
	if err != nil {
		return nil, err
	}
	for _, a := range in {
		v.shapes, v.dtypes = append(v.shapes, a.shape), append(v.dtypes, a.dtype)
	}
	all, err := v.launch(h.forward, s, tensors, nil, h.results)
	if err != nil {
		return nil, err
	}
	out, v.arrays = all[:h.results], all[h.results:]
	for _, i := range h.seeds {
		v.like = append(v.like, &Array{dtype: out[i].dtype, shape: out[i].shape})
	}
	if err := v.borrow(in, out); err != nil {
		for _, a := range out {
			a.Close()
		}
		return nil, err
	}
	return out, nil
}

// launch runs one of the two programs. The first own results belong to s, the others to v's scope. Inputs marked as
// consumed are consumed, unless the run is refused.
func (v *Saved) launch(p *compiled, s *Scope, in []*weir.Tensor, consumed []bool, own int) (out []*Array, err error) {
	defer func() {
		if err != nil {
			for _, a := range out {
				a.Close()
			}
		}
	}()
	owner := func(i int) *Scope {
		if i < own {
			return s
		}
		return v.scope
	}
	arg := func(i int) weir.Arg {
		if consumed != nil && consumed[i] {
			return weir.Consume(in[i])
		}
		return in[i]
	}
	if p.dataDependent {
		return launchDataDependent(p, owner, arg)
	}
	c, err := p.take(in)
	if err != nil {
		return nil, err
	}
	defer p.give(c)
	for i, o := range p.outputs {
		a, err := owner(i).empty(o.dtype, c.of.shapes[i], false)
		if err != nil {
			return out, err
		}
		out = append(out, a)
	}
	return out, p.runWith(c, len(in), arg, out)
}

// tensorsOf returns the tensors of arrays.
func tensorsOf(lists ...[]*Array) (tensors []*weir.Tensor, err error) {
	for _, list := range lists {
		for _, a := range list {
			t, err := a.elements()
			if err != nil {
				return nil, err
			}
			tensors = append(tensors, t)
		}
	}
	return tensors, nil
}

// borrow borrows the inputs and results that backward reads.
func (v *Saved) borrow(in, out []*Array) error {
	h := v.of
	v.lent, v.before = make([]*Array, len(h.takes)), make([]*site, len(h.takes))
	seen := map[*Array]bool{}
	for i, t := range h.takes {
		switch {
		case t.From == pass.FromResult:
			v.lent[i] = out[t.Index]
		case t.From == pass.FromInput && t.Index < h.given:
			v.lent[i] = in[t.Index]
		case t.From == pass.FromInput:
			v.lent[i] = h.held[t.Index-h.given]
		default:
			continue
		}
		a := v.lent[i]
		a.lock.Lock()
		v.before[i] = a.changed
		a.lock.Unlock()
		if !seen[a] {
			seen[a] = true
			if err := v.scope.borrowAll([]*Array{a}); err != nil {
				return err
			}
		}
	}
	return nil
}

// String returns the function's name and the line of the call.
func (v *Saved) String() string { return fmt.Sprintf("what %s saved at %s", v.name, v.made.line()) }

// Bytes returns the size of the saved arrays, without those on loan; 0 after use or Close.
func (v *Saved) Bytes() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	var bytes int64
	if v.how == "" {
		for _, a := range v.arrays {
			bytes += a.bytes
		}
	}
	return bytes
}

// Close frees the saved arrays and ends the loans. It does nothing after Backward or another Close.
func (v *Saved) Close() error {
	if v == nil || !v.finish("closed", here()) || v.scope == nil {
		return nil
	}
	return v.scope.Close()
}

// finish records the end; it returns false if v has ended already.
func (v *Saved) finish(how string, at site) bool {
	v.mu.Lock()
	if v.how != "" {
		v.mu.Unlock()
		return false
	}
	v.how, v.end = how, at
	v.mu.Unlock()
	if v.of != nil {
		if err := v.of.done(); err != nil {
			v.scope.fail(err)
		}
	}
	return true
}

// dropped records that v's scope was closed.
func (v *Saved) dropped(at site) { v.finish("closed", at) }

// begin reserves v for a call of Backward; it returns an error if v has ended or another call has it.
func (v *Saved) begin() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.how != "":
		return diag.New(weir.ErrClosed, "%v was %s at %s", v, v.how, v.end.line()).
			WithFix("call Forward again for each call of Backward")
	case v.busy:
		return diag.Inputf("another goroutine is computing the derivatives from %v", v)
	}
	v.busy = true
	return nil
}

// Backward computes the derivatives by the inputs of the sum of the results times the seeds. It returns an array of the
// scope for each of the function's inputs, zeros for an input that is not a float. It takes a seed for each float among
// the results that Apart counts, of its type and shape; nil stands for zeros. If there is one such result, with one
// element, the seeds may be omitted, and its seed is 1.
//
// It frees each saved array after its last read. A second call is an ErrClosed that names both lines. A call that is
// refused frees nothing, and can be repeated.
func (v *Saved) Backward(s *Scope, seeds ...*Array) []*Array {
	n := max(1, len(v.shapes))
	if s.stopped() {
		return s.none(n)
	}
	if err := v.begin(); err != nil {
		s.failAt(v.name+", backward", err)
		return s.none(n)
	}
	out, err := v.backward(s, seeds)
	v.mu.Lock()
	v.busy = false
	v.mu.Unlock()
	if err != nil {
		s.failAt(v.name+", backward", err)
		return s.none(n)
	}
	return out
}

// backward runs the backward program, or adds it to the trace.
func (v *Saved) backward(s *Scope, seeds []*Array) ([]*Array, error) {
	if v.traced != nil {
		out, err := v.traced(s, seeds)
		if err == nil {
			v.finish("used", here())
		}
		return out, err
	}
	if s.trace != nil {
		return nil, diag.Inputf("%v is no part of the trace", v).WithFix("call Forward in the function too")
	}
	in := NewScope("seeds", In(s))
	defer in.Close()
	seeds, err := v.seeds(in, seeds)
	if err != nil {
		return nil, err
	}
	tensors, consumed, err := v.operands(seeds)
	if err != nil {
		return nil, err
	}
	out, err := v.launch(v.of.backward, s, tensors, consumed, len(v.of.backward.outputs))
	if err != nil && !v.eaten() {
		return nil, err
	}
	v.finish("used", here())
	if failed := v.scope.Close(); err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return v.withZeros(s, out), s.Err()
}

// eaten reports whether a failed run has consumed some of the saved arrays.
func (v *Saved) eaten() bool {
	for _, a := range v.arrays {
		if a.bytes > 0 && a.tensor.Bytes() == nil {
			return true
		}
	}
	return false
}

// operands returns backward's arguments, and marks those that it consumes.
func (v *Saved) operands(seeds []*Array) (tensors []*weir.Tensor, consumed []bool, err error) {
	for i, t := range v.of.takes {
		a := v.lent[i]
		switch t.From {
		case pass.FromSaved:
			a = v.arrays[t.Index]
		case pass.FromSeed:
			a = seeds[t.Index]
		default:
			a.lock.Lock()
			changed := a.changed
			a.lock.Unlock()
			if changed != v.before[i] {
				return nil, nil, diag.Inputf("%v was changed at %s, after %v", a, changed.line(), v).
					WithFix("change it after Backward, or a copy of it")
			}
		}
		e, err := a.elements()
		if err != nil {
			return nil, nil, err
		}
		tensors, consumed = append(tensors, e), append(consumed, t.From == pass.FromSaved && a.bytes > 0)
	}
	return tensors, consumed, nil
}

// seeds returns backward's seeds, with ones or zeros for omitted ones.
func (v *Saved) seeds(s *Scope, given []*Array) ([]*Array, error) {
	if len(given) == 0 {
		if len(v.like) != 1 || v.like[0].Len() != 1 {
			return nil, diag.Inputf("seeds for %d results are needed: only one float needs none", len(v.like))
		}
		return []*Array{s.Ones(v.like[0].dtype, v.like[0].shape...)}, s.Err()
	}
	if len(given) != len(v.like) {
		return nil, diag.Inputf("there are %d seeds for %d results", len(given), len(v.like))
	}
	out := make([]*Array, len(given))
	for i, a := range given {
		if out[i] = a; a == nil {
			out[i] = s.Zeros(v.like[i].dtype, v.like[i].shape...)
		} else if a.dead(s, "a seed") {
			return nil, s.Err()
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	return out, alike("seed", out, v.like)
}

// withZeros inserts zeros for the inputs that are not floats.
func (v *Saved) withZeros(s *Scope, out []*Array) (all []*Array) {
	for i, float := range v.of.floats {
		if float {
			all, out = append(all, out[0]), out[1:]
		} else {
			all = append(all, s.Zeros(v.dtypes[i], v.shapes[i]...))
		}
	}
	return all
}

// trace adds the function to a trace; Backward adds its derivatives.
func (v *Saved) trace(p *Pair, s *Scope, in []*Array) ([]*Array, error) {
	own, begins := s.arguments(in)
	if s.failed() {
		return nil, s.Err()
	}
	out := p.f(s, own...)
	if s.failed() {
		return nil, s.Err()
	}
	n := p.results
	if n == 0 {
		n = len(out)
	}
	var ys []*Array
	for _, y := range out[:min(n, len(out))] {
		if y.dead(s, "a result") {
			return nil, s.Err()
		}
		if y.dtype.IsFloat() {
			ys = append(ys, y)
		}
	}
	v.like, v.shapes = ys, make([][]int, len(in))
	v.traced = func(to *Scope, seeds []*Array) ([]*Array, error) {
		if to.trace != s.trace {
			return nil, diag.Inputf("%v stands for what another trace computes", v)
		}
		return v.pullback(to, ys, seeds, own, begins)
	}
	return out, nil
}

// pullback builds the derivatives in a trace.
func (v *Saved) pullback(s *Scope, ys, seeds, own []*Array, begins []*ir.Value) ([]*Array, error) {
	seeds, err := v.seeds(s, seeds)
	if err != nil {
		return nil, err
	}
	return s.trace.pullback(s, ys, seeds, own, begins)
}
