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

// Pair is a function compiled as two programs: Forward computes its results and saves the arrays that the derivatives
// need, and Backward computes the derivatives from them. Any goroutine may call both, with a scope of its own. Close it
// after the last call.
type Pair struct {
	f       Func
	results int
	options Options
	mu      sync.Mutex
	made    []*halves // the most recently used first
	shut    bool
}

// halves are a function's two programs for inputs of some types and shapes.
type halves struct {
	key      string
	pair     *Pair
	forward  *compiled
	backward *compiled
	given    int      // the number of inputs that a call gives; forward's other inputs are captured arrays
	results  int      // the number of the function's results, forward's first outputs
	saved    []string // the names of forward's other outputs
	takes    []pass.Taken
	seeds    []int  // the results that have seeds: floats
	floats   []bool // by given input: whether it is a float, and so has a derivative
	held     []*Array
	scope    *Scope // the borrower of held
	ready    stage  // compiles the halves
	names    *ir.Builder
	users    int  // the number of calls, and of Saved that are not used
	gone     bool // the last user closes it
}

// Apart compiles a function of arrays as two programs, forward and backward. Backward takes a seed for each of the
// first results, whose number is results (0: all), and computes vector–Jacobian products, as VJP does; further results
// have no derivatives. Forward saves the fewest bytes from which backward can compute the derivatives by repeating only
// cheap operations; inputs and results that backward needs are lent, not copied.
//
// The options are those of Jit, without States. Arrays of other scopes that f reads are lent to the Pair until it is
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

// compile traces the function, divides it into halves and compiles them.
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

// closed returns the error of a closed Pair.
func (p *Pair) closed() error { return diag.New(weir.ErrClosed, "%s is closed", p.options.Name) }

// trace traces the function with its derivatives, and divides it.
func (h *halves) trace(p *Pair, inputs []Spec) (parts *pass.Divided, err error) {
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

// derive adds seeds and derivatives to the trace. The trace's results are the function's, followed by the derivatives
// by its float inputs.
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
func (h *halves) programs(parts *pass.Divided) (forward, backward *compiled, err error) {
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
	if forward, err = compile(parts.Forward, o.Name, o.Compile, false); err == nil {
		backward, err = compile(parts.Backward, o.Name+", backward", o.Compile, false)
	}
	return forward, backward, err
}

// close closes the programs and ends the loans.
func (h *halves) close() error {
	var errs []error
	for _, c := range []*compiled{h.forward, h.backward} {
		if c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(append(errs, h.scope.Close())...)
}

// retire closes the halves after their last use. The caller holds the pair's lock.
func (h *halves) retire() error {
	if h.gone = true; h.users > 0 {
		return nil
	}
	return h.close()
}

// done ends a use. Halves that failed to compile are removed.
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

// use returns the halves for arrays of these types and shapes, compiled; done ends the use.
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

// find returns the halves for arrays of these types and shapes, which may not be compiled yet.
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

// last returns the most recently used halves; nil if there are none.
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

// Programs returns forward and backward, for the types and shapes used last; nil before the first call. Close of the
// Pair closes them.
func (p *Pair) Programs() (forward, backward *weir.Program) {
	if h := p.last(); h != nil {
		return h.forward.program, h.backward.program
	}
	return nil, nil
}

// Memory returns the certificates of Programs. Saved arrays are outputs of forward: see Saves. They are inputs of
// backward, which its certificate does not include; backward frees each after its last read.
func (p *Pair) Memory() (forward, backward *weir.Memory) {
	f, b := p.Programs()
	if f == nil {
		return nil, nil
	}
	return f.Memory(), b.Memory()
}

// Saves returns the names of the outputs that a call of Forward saves, and their total size as a formula in the named
// extents. Results and inputs on loan are not included.
func (p *Pair) Saves() (names []string, bytes weir.Size) {
	h := p.last()
	if h == nil {
		return nil, weir.Size{}
	}
	bytes, _ = h.forward.program.Memory().Of(h.saved...)
	return slices.Clone(h.saved), bytes
}

// Close ends the loans of the arrays that the function reads, and frees both programs. Afterwards a Saved can only be
// closed.
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
