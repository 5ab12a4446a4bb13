package array

import (
	"fmt"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/pass"
)

// Saved is what a call of Pair.Forward saved for the derivatives. It belongs to the scope of the call, as a scope
// inside of it that is closed with it: Dump shows there what it holds. Backward uses it up; Close gives it back without
// that.
//
// Inputs and results that Backward needs are on loan to it until then: they cannot be closed or moved, and if their
// elements are changed, Backward is refused.
type Saved struct {
	of     *halves
	name   string
	made   site
	scope  *Scope
	arrays []*Array // that it owns
	lent   []*Array // by input of backward; nil if it is no input or result of forward
	before []*site  // where those had been changed when forward had run
	like   []*Array // results that seeds are for: their types and shapes
	shapes [][]int  // of the inputs
	dtypes []weir.DType
	traced func(s *Scope, seeds []*Array) ([]*Array, error) // in a trace

	mu   sync.Mutex
	end  site   // where it was used or closed
	how  string // which of these; "": neither
	busy bool   // a call of Backward is reading it
}

// Forward computes the function's results, and saves what its derivatives need. The results, and what is saved, belong
// to the scope. After an error of the scope the results are without elements, and so is what is saved.
func (p *Pair) Forward(s *Scope, in ...*Array) ([]*Array, *Saved) {
	v := &Saved{name: p.options.Name, made: here()}
	if s.failed() {
		return s.none(p.count()), v.failed()
	}
	out, err := v.forward(p, s, in)
	if err != nil {
		s.failAt(p.options.Name, err)
		return s.none(p.count()), v.failed()
	}
	return out, v
}

// failed is what a call saved that had an error: nothing.
func (v *Saved) failed() *Saved {
	v.how, v.end = "not computed", v.made
	return v
}

// count is how many results a call has, at least one; 1 if that is not known yet.
func (p *Pair) count() int {
	if h := p.last(); h != nil {
		return max(1, h.results)
	}
	return 1
}

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

// launch runs a half on its inputs, of which it consumes some. The results up to a number are a scope's, the others
// this one's. Arguments that are refused are not consumed.
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
	if p.late {
		return launchLate(p, owner, arg)
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

// tensorsOf are the tensors of arrays.
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

// borrow has the inputs and results lent that backward reads.
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

// String says which function saved it, and where.
func (v *Saved) String() string { return fmt.Sprintf("what %s saved at %s", v.name, v.made.line()) }

// Bytes is what it holds, without what it is lent; 0 once it is used or closed.
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

// Close gives back what was saved, and ends the loans. Closing twice is fine, and so is closing what Backward has used.
func (v *Saved) Close() error {
	if v == nil || !v.finish("closed", here()) || v.scope == nil {
		return nil
	}
	return v.scope.Close()
}

// finish notes how it ended; it reports false if it has ended already.
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

// dropped notes that its scope is closed, by whatever.
func (v *Saved) dropped(at site) { v.finish("closed", at) }

// begin takes it for one call of Backward.
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

// Backward computes the derivatives by the inputs of the sum of the results' elements times the seeds': as many arrays
// as the function has inputs, which belong to the scope. Inputs that are not floats have zeros. It takes a seed for
// each result that is a float, of those that Apart counts, of its type and shape, nil for zeros; without seeds there is
// one such result, with one element, and its seed is 1.
//
// It uses up what was saved, each array's memory when it is read for the last time: a second call is an ErrClosed that
// names both places. A call that is refused uses nothing up, and can be made again.
func (v *Saved) Backward(s *Scope, seeds ...*Array) []*Array {
	n := max(1, len(v.shapes))
	if s.failed() {
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
	return v.whole(s, out), s.Err()
}

// eaten reports whether a run that failed has used up some of what was saved.
func (v *Saved) eaten() bool {
	for _, a := range v.arrays {
		if a.bytes > 0 && a.tensor.Bytes() == nil {
			return true
		}
	}
	return false
}

// operands are what backward reads, and which of that it consumes.
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

// seeds are the seeds that backward takes: those given, and zeros and ones for those that are not.
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

// whole adds zeros for the inputs that are not floats.
func (v *Saved) whole(s *Scope, out []*Array) (all []*Array) {
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

func (v *Saved) pullback(s *Scope, ys, seeds, own []*Array, begins []*ir.Value) ([]*Array, error) {
	seeds, err := v.seeds(s, seeds)
	if err != nil {
		return nil, err
	}
	return s.trace.pullback(s, ys, seeds, own, begins)
}
