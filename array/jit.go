package array

import (
	"errors"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
)

// Options are the settings of Jit.
type Options struct {
	Name string // the function's name in errors
	// Inputs describe the function's inputs. Without them, the function is compiled for the types and shapes of each
	// call, unless an earlier call had the same; the most recently used programs are kept.
	Inputs []Spec
	// States are inputs that a call updates in place: an entry i: j means that input i becomes result j, which has the
	// same type and shape. A call does not return these results.
	States map[int]int
	// Compile has all other settings: threads, a budget, precision, ranges of named extents.
	Compile weir.Options
}

// Compiled is a function that was traced and compiled into one program. Any goroutine may call it, with a scope of its
// own. At most Options.Compile.Calls calls run at once; others wait.
type Compiled struct {
	f       Func
	options Options
	mu      sync.Mutex
	idle    *sync.Cond // no call runs
	running int        // calls
	made    []*variant // the most recently used first
	shut    bool
}

// Jit compiles a function of arrays into one program. Arrays of other scopes that the function reads are lent to the
// Compiled until it is closed. They may change between calls, for example as states of another function. Numbers and
// constants made inside the function are part of its code.
//
// With Options.Inputs, Jit compiles the function; otherwise its calls do.
func Jit(f Func, o Options) (*Compiled, error) {
	if o.Name == "" {
		o.Name = "function"
	}
	c := &Compiled{f: f, options: o}
	c.idle = sync.NewCond(&c.mu)
	if o.Inputs == nil {
		return c, nil
	}
	v := &variant{users: 1}
	c.made = []*variant{v}
	if err := c.prepare(v, o.Inputs); err != nil {
		return nil, err
	}
	return c, c.leave(v)
}

// traceOf traces a function.
func traceOf(f Func, name string, inputs []Spec) (*trace, error) {
	t := newTrace(name)
	s := NewScope(name)
	s.trace = t
	defer s.Close()
	if err := t.params(s, inputs); err != nil {
		return nil, err
	}
	if _, err := t.run(s, f); err != nil {
		return nil, err
	}
	return t, s.Close() // a scope that f left open is an error, as outside a trace
}

// states records the inputs that are states, with the results that are their new values.
func (t *trace) states(states map[int]int, inputs int) error {
	main := t.b.Module.Main
	for i := range inputs {
		out, ok := states[i]
		if !ok {
			continue
		}
		if out < 0 || out >= len(t.body.Results) {
			return diag.Inputf("state %d is to become result %d of %d", i, out, len(t.body.Results))
		}
		in, result := t.body.Params[i], t.body.Results[out]
		if in.Type.String() != result.Type.String() {
			return diag.Inputf("state %d is %v, and is to become result %d, which is %v", i, in.Type, out, result.Type).
				AtTensor(in.Name)
		}
		main.States = append(main.States, ir.State{In: in, Out: out})
	}
	if len(main.States) != len(states) {
		return diag.Inputf("states of inputs that the function does not have: %v", states)
	}
	return nil
}

// Program returns the compiled function as a program. Its NewCall binds inputs and outputs to tensors, so that a run
// allocates nothing. Without Options.Inputs it is the program of the last call, nil before the first. Close of the
// Compiled closes it.
func (c *Compiled) Program() *weir.Program {
	if p := c.last(); p != nil {
		return p.program
	}
	return nil
}

// Memory returns Program's certificate: nil before the function is compiled.
func (c *Compiled) Memory() *weir.Memory {
	if p := c.Program(); p != nil {
		return p.Memory()
	}
	return nil
}

// Close ends the loans of the arrays that the function reads, and frees its code and memory. It waits for calls that
// run. Later calls, and calls for which the function is still being traced, fail. Closing twice is harmless.
func (c *Compiled) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	for c.running > 0 || slices.ContainsFunc(c.made, (*variant).lends) {
		c.idle.Wait()
	}
	var errs []error
	for len(c.made) > 0 {
		errs = append(errs, c.drop(c.made[0]))
	}
	return errors.Join(errs...)
}

// Call runs the function; its results belong to the scope. States are updated in place. In a scope that traces, Call
// adds the function to the trace.
func (c *Compiled) Call(s *Scope, in ...*Array) []*Array {
	if s.stopped() {
		return s.none(c.results())
	}
	if s.trace != nil {
		return c.f(s, in...)
	}
	out, err := c.call(s, in)
	if err != nil {
		s.failAt(c.options.Name, err)
		return s.none(c.results())
	}
	return out
}

// call runs the function outside a trace.
func (c *Compiled) call(s *Scope, in []*Array) (out []*Array, err error) {
	v, err := c.enter(in)
	if err != nil {
		return nil, err
	}
	defer func() {
		if left := c.leave(v); err == nil {
			err = left
		}
	}()
	if len(in) != v.given {
		return nil, diag.Inputf("%d arrays are given, %s takes %d", len(in), c.options.Name, v.given)
	}
	tensors := make([]*weir.Tensor, 0, 8)
	for _, list := range [][]*Array{in, v.held} {
		for _, a := range list {
			t, err := a.elements()
			if err != nil {
				return nil, err
			}
			tensors = append(tensors, t)
		}
	}
	for i := range c.options.States {
		in[i].change()
	}
	return s.launch(v.program, tensors, nil)
}

// specsOf returns the types and shapes of arrays.
func specsOf(in []*Array) ([]Spec, error) {
	specs := make([]Spec, len(in))
	for i, a := range in {
		if _, err := a.elements(); err != nil {
			return nil, err
		}
		specs[i] = Spec{DType: a.dtype}
		for _, e := range a.shape {
			specs[i].Shape = append(specs[i].Shape, weir.Extent{Size: int64(e)})
		}
	}
	return specs, nil
}
