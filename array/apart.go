package array

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/pass"
)

// Pair is a function compiled as two programs: Forward computes its results and saves what the derivatives need, and
// Backward of what was saved computes the derivatives. Any goroutine may call both, with a scope of its own. Close
// comes after the last.
type Pair struct {
	f       Func
	results int
	options Options
	mu      sync.Mutex
	made    []*halves // the one used last in front
	shut    bool
}

// halves are a function's two programs for inputs of some types and shapes.
type halves struct {
	key      string
	pair     *Pair
	forward  *compiled
	backward *compiled
	given    int      // of forward's inputs, those that a call gives; the others are captured
	results  int      // of forward's outputs, those that are not saved
	saved    []string // the other outputs
	takes    []pass.Taken
	seeds    []int  // the results that Backward is given seeds for: those that are floats
	floats   []bool // by input that is given: Backward computes its derivative
	held     []*Array
	scope    *Scope // to which those are lent
	ready    stage  // the rest is there
	names    *ir.Builder
	users    int  // calls, and what is saved and not used
	gone     bool // the last user closes it
}

// Apart compiles a function of arrays as two programs, forward and backward. Backward takes a seed for each of the
// first results, so many as results says (0: all), and multiplies them with the Jacobian, as VJP does; further results
// are only computed. What forward saves is the least in bytes from which backward can compute the derivatives without
// doing again what is not cheap; inputs and results that it needs are lent, not copied.
//
// Options are those of Jit, without States. Arrays of other scopes that f reads are lent to the Pair until it is
// closed, and have no derivatives.
func Apart(f Func, results int, o Options) (*Pair, error) {
	if o.Name == "" {
		o.Name = "function"
	}
	p := &Pair{f: f, results: results, options: o}
	if len(o.States) > 0 {
		return nil, diag.Inputf("%s has states, which backward would find changed", o.Name).
			WithFix("return their new values as results")
	}
	if o.Inputs == nil {
		return p, nil
	}
	h := &halves{pair: p}
	p.made = []*halves{h}
	if err := h.ready.do(func() error { return h.compile(o.Inputs) }); err != nil {
		return nil, err
	}
	return p, nil
}

// compile traces, divides and compiles the function.
func (h *halves) compile(inputs []Spec) (err error) {
	p := h.pair
	defer diag.Recover(&err, "compiling "+p.options.Name)
	h.given, h.scope = len(inputs), NewScope(p.options.Name)
	parts, err := h.trace(p, inputs)
	if err == nil {
		err = h.scope.borrowAll(h.held)
	}
	var forward, backward *compiled
	if err == nil {
		forward, backward, err = h.programs(parts)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.forward, h.backward = forward, backward; err == nil && p.shut {
		err = p.closed()
	}
	if err != nil {
		err = errors.Join(err, h.close())
		h.forward, h.backward = nil, nil
	}
	return err
}

func (p *Pair) closed() error { return diag.New(weir.ErrClosed, "%s is closed", p.options.Name) }

// trace traces the function with its derivatives, and divides it.
func (h *halves) trace(p *Pair, inputs []Spec) (parts *pass.Apart, err error) {
	defer ir.Catch(&err)
	t := newTrace(p.options.Name)
	s := NewScope(p.options.Name)
	s.trace = t
	defer s.Close()
	if err := t.params(s, inputs); err != nil {
		return nil, err
	}
	own, begins := s.arguments(t.inputs)
	if s.failed() {
		return nil, s.Err()
	}
	out := p.f(s, own...)
	if err := s.Err(); err != nil {
		return nil, err
	}
	seeds, err := h.derive(p, s, out, own, begins)
	if err != nil {
		return nil, err
	}
	h.held, h.results, h.names = t.captured, len(out), t.b
	return pass.Divide(t.b, len(out), seeds)
}

// derive adds seeds and derivatives to the trace: its results are the function's, and the derivatives by its inputs of
// float types.
func (h *halves) derive(p *Pair, s *Scope, out, own []*Array, begins []*ir.Value) (seeds []*ir.Value, err error) {
	defer ir.Catch(&err)
	t := s.trace
	if p.results < 0 || p.results > len(out) {
		return nil, diag.Inputf("seeds for %d results of %d", p.results, len(out))
	}
	var ys, xs []*ir.Value
	for i, y := range out {
		if y.dead(s, "a result") {
			return nil, s.Err()
		}
		v := t.number(y)
		if t.body.Results = append(t.body.Results, v); v.Type.DType.IsFloat() && (p.results == 0 || i < p.results) {
			h.seeds, ys = append(h.seeds, i), append(ys, v)
		}
	}
	if len(ys) == 0 {
		return nil, diag.Inputf("no result has a derivative: there are %d, of which seeds are given for %d, and they must "+
			"be floats", len(out), p.results)
	}
	for i, y := range ys {
		seeds = append(seeds, t.param(s, fmt.Sprintf("seed%d", h.seeds[i]), y.Type.DType, y.Type.Shape).value)
	}
	for i, a := range own {
		h.floats = append(h.floats, a.dtype.IsFloat())
		if a.dtype.IsFloat() {
			xs = append(xs, begins[i])
		}
	}
	t.b.Source = "gradient"
	t.body.Results = append(t.body.Results, ops.VJP(t.b, ys, seeds, xs)...)
	return seeds, nil
}

// programs compiles the halves.
func (h *halves) programs(parts *pass.Apart) (forward, backward *compiled, err error) {
	o := h.pair.options
	o.Compile.Calls = max(1, o.Compile.Calls)
	for i, v := range parts.Forward.Main.Body.Results {
		if i >= h.results {
			h.saved = append(h.saved, v.Name)
		} else {
			v.Name = h.names.Name(fmt.Sprintf("y%d", i))
		}
	}
	i := 0
	for k, float := range h.floats {
		if float {
			parts.Backward.Main.Body.Results[i].Name = h.names.Name(fmt.Sprintf("d%d", k))
			i++
		}
	}
	h.takes, h.names = parts.Takes, nil
	if forward, err = compile(parts.Forward, o.Name, o.Compile); err == nil {
		backward, err = compile(parts.Backward, o.Name+", backward", o.Compile)
	}
	return forward, backward, err
}

// close gives the programs back and ends the loans.
func (h *halves) close() error {
	var errs []error
	for _, c := range []*compiled{h.forward, h.backward} {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(append(errs, h.scope.Close())...)
}

// retire closes the halves when the last user is done. The pair's lock is held.
func (h *halves) retire() error {
	if h.gone = true; h.users > 0 {
		return nil
	}
	return h.close()
}

// done ends a use. Halves that could not be compiled are not kept.
func (h *halves) done() error {
	p := h.pair
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.backward == nil {
		p.made = slices.DeleteFunc(p.made, func(other *halves) bool { return other == h })
	}
	if h.users--; h.gone && h.users == 0 {
		return h.close()
	}
	return nil
}

// use finds or compiles the halves for arrays of these types and shapes; done ends the use.
func (p *Pair) use(in []*Array) (*halves, error) {
	specs, err := specsOf(in)
	if err != nil {
		return nil, err
	}
	h, err := p.find(in)
	if err != nil {
		return nil, err
	}
	if p.options.Inputs == nil {
		err = h.ready.do(func() error { return h.compile(specs) })
	}
	if err == nil && len(in) != h.given {
		err = diag.Inputf("%d arrays are given, %s takes %d", len(in), p.options.Name, h.given)
	}
	if err != nil {
		return nil, errors.Join(err, h.done())
	}
	return h, nil
}

// find is the halves for arrays of these types and shapes, which may not be compiled yet.
func (p *Pair) find(in []*Array) (h *halves, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.shut:
		return nil, p.closed()
	case p.options.Inputs != nil:
		h = p.made[0]
	default:
		key := string((&operation{}).key(nil, in))
		i := slices.IndexFunc(p.made, func(h *halves) bool { return h.key == key })
		if i < 0 {
			i, p.made = len(p.made), append(p.made, &halves{key: key, pair: p})
		}
		h = p.made[i]
		copy(p.made[1:i+1], p.made[:i])
		p.made[0] = h
	}
	if h.users++; len(p.made) > mostVariants {
		old := p.made[mostVariants]
		p.made = p.made[:mostVariants]
		err = old.retire()
	}
	return h, err
}

// last is the halves used last; nil if there are none.
func (p *Pair) last() *halves {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.made {
		if h.backward != nil {
			return h
		}
	}
	return nil
}

// Programs are forward and backward as programs, of the types and shapes used last; nil before there are any. Close of
// the Pair closes them.
func (p *Pair) Programs() (forward, backward *weir.Program) {
	if h := p.last(); h != nil {
		return h.forward.program, h.backward.program
	}
	return nil, nil
}

// Memory is the certificates of Programs. What is saved is among Forward's outputs: see Saves. Backward's inputs are no
// part of its own; it gives back what was saved as it reads it for the last time.
func (p *Pair) Memory() (forward, backward *weir.Memory) {
	f, b := p.Programs()
	if f == nil {
		return nil, nil
	}
	return f.Memory(), b.Memory()
}

// Saves is what a call of Forward saves, beside results and inputs that it is lent: the names of Forward's outputs, and
// their bytes as a formula over the named extents.
func (p *Pair) Saves() (names []string, bytes weir.Size) {
	h := p.last()
	if h == nil {
		return nil, weir.Size{}
	}
	bytes, _ = h.forward.program.Memory().Of(h.saved...)
	return slices.Clone(h.saved), bytes
}

// Close ends the loans of what the function reads, and gives both programs' code and memory back. What is saved can
// only be closed then.
func (p *Pair) Close() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	var made []*halves
	for _, h := range p.made {
		if h.backward != nil { // others close what they are compiling themselves
			made = append(made, h)
		}
	}
	p.made, p.shut = nil, true
	p.mu.Unlock()
	var errs []error
	for _, h := range made {
		errs = append(errs, h.close())
	}
	return errors.Join(errs...)
}
