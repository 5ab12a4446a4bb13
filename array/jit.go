package array

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
)

// Options say how to compile a function.
type Options struct {
	Name string // of the function, for errors
	// Inputs are what the function is given. Without them, it is compiled anew for the types and shapes of each call that
	// differ from those of calls before; those used last stay compiled.
	Inputs []Spec
	// States are inputs that a call updates in place: input i becomes result j, of its type and shape. A call does not
	// return those results.
	States map[int]int
	// Compile says the rest: threads, a budget, precision, ranges of named extents.
	Compile weir.Options
}

// Compiled is a function that was traced and compiled as a whole. Any goroutine may call it, with a scope of its own; as many
// calls as Options.Compile.Calls says run at once, and others wait. Close comes after the last.
type Compiled struct {
	f       Func
	options Options
	mu      sync.Mutex
	made    []*variant // the one used last in front
	shut    bool
}

// variant is the function compiled for inputs of some types and shapes.
type variant struct {
	key     string
	program *compiled
	given   int // of the program's inputs, those that a call gives; the others are captured
	held    []*Array
	scope   *Scope // to which those are lent
}

// mostVariants is the number of types and shapes that a function without Options.Inputs stays compiled for.
const mostVariants = 16

// Jit compiles a function of arrays as a whole. Arrays of other scopes that it reads are lent to what it returns, until
// that is closed: they can change between calls, as states of another function do. Numbers and constants made inside the
// function are part of its code.
//
// With Options.Inputs it is compiled now, else by calls.
func Jit(f Func, o Options) (*Compiled, error) {
	if o.Name == "" {
		o.Name = "function"
	}
	c := &Compiled{f: f, options: o}
	if o.Inputs == nil {
		return c, nil
	}
	if _, err := c.compile("", o.Inputs); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// compile traces and compiles the function.
func (c *Compiled) compile(key string, inputs []Spec) (made *variant, err error) {
	defer diag.Recover(&err, "tracing "+c.options.Name)
	t, err := traceOf(c.f, c.options.Name, inputs)
	if err != nil {
		return nil, err
	}
	if err := t.states(c.options.States, len(inputs)); err != nil {
		return nil, err
	}
	v := &variant{key: key, given: len(inputs), held: t.captured, scope: NewScope(c.options.Name)}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	for _, a := range t.captured {
		l, err := a.lend(a.owner.Load(), v.scope)
		if err == nil {
			err = v.scope.borrow(l)
		}
		if err != nil {
			return nil, err
		}
	}
	o := c.options.Compile
	o.Calls = max(1, o.Calls)
	if v.program, err = compile(t.b.Module, c.options.Name, o); err != nil {
		return nil, err
	}
	c.made = slices.Insert(c.made, 0, v)
	if n := len(c.made); n > mostVariants {
		err = c.made[n-1].close()
		c.made = c.made[:n-1]
	}
	return v, err
}

// close gives the program back and ends the loans.
func (v *variant) close() (err error) {
	if v.program != nil {
		err = v.program.close()
	}
	return errors.Join(err, v.scope.Close())
}

// traceOf traces a function.
func traceOf(f Func, name string, inputs []Spec) (*trace, error) {
	t := newTrace(name)
	s := NewScope(name)
	s.trace = t
	defer s.Close()
	for i, in := range inputs {
		shape, err := t.exprs(in.Shape)
		if err != nil {
			return nil, diag.As(err, weir.ErrInput).AtTensor(in.Name)
		}
		if in.Name == "" {
			in.Name = fmt.Sprintf("x%d", i)
		}
		t.inputs = append(t.inputs, t.param(s, in.Name, in.DType, shape))
	}
	if _, err := t.run(s, f); err != nil {
		return nil, err
	}
	return t, nil
}

// states notes which inputs results are the new values of.
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
			return diag.Inputf("state %d is %v, and is to become result %d, which is %v", i, in.Type, out, result.Type).AtTensor(in.Name)
		}
		main.States = append(main.States, ir.State{In: in, Out: out})
	}
	if len(main.States) != len(states) {
		return diag.Inputf("states of inputs that the function does not have: %v", states)
	}
	return nil
}

// Program is the compiled function as a program: NewCall binds its inputs and outputs to tensors, so that a run allocates
// nothing. Of a function without Options.Inputs it is that of the last call, nil before the first. Close of the Compiled
// closes it.
func (c *Compiled) Program() *weir.Program {
	if len(c.made) == 0 {
		return nil
	}
	return c.made[0].program.program
}

// Memory is Program's certificate: nil before the function is compiled.
func (c *Compiled) Memory() *weir.Memory {
	if p := c.Program(); p != nil {
		return p.Memory()
	}
	return nil
}

// Close ends the loans of what the function reads, and gives its code and memory back.
func (c *Compiled) Close() error {
	if c == nil || c.shut {
		return nil
	}
	c.shut = true
	var errs []error
	for _, v := range c.made {
		errs = append(errs, v.close())
	}
	return errors.Join(errs...)
}

// Call runs the function; the results belong to the scope. States are updated in place. In a scope that traces, it adds
// the function to the trace.
func (c *Compiled) Call(s *Scope, in ...*Array) []*Array {
	if s.failed() {
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

func (c *Compiled) call(s *Scope, in []*Array) (out []*Array, err error) {
	if c.shut {
		return nil, diag.New(weir.ErrClosed, "%s is closed", c.options.Name)
	}
	v, err := c.variant(in)
	if err != nil {
		return nil, err
	}
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
	return s.launch(v.program, tensors)
}

// variant is the function compiled for arrays of these types and shapes.
func (c *Compiled) variant(in []*Array) (*variant, error) {
	if c.options.Inputs != nil {
		return c.made[0], nil
	}
	specs, err := specsOf(in)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := string((&operation{}).key(nil, in))
	for i, v := range c.made {
		if v.key == key {
			copy(c.made[1:i+1], c.made[:i])
			c.made[0] = v
			return v, nil
		}
	}
	return c.compile(key, specs)
}

// results is how many results a call has, at least one; 1 if that is not known yet.
func (c *Compiled) results() int {
	if len(c.made) == 0 {
		return 1
	}
	return max(1, len(c.made[0].program.outputs))
}

// specsOf are the types and shapes of arrays.
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
