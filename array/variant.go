package array

import (
	"errors"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// variant is a function compiled for inputs of some types and shapes. The first call traces and compiles it; others
// wait for that.
type variant struct {
	key     string
	trace   stage
	compile stage
	traced  *trace
	program *compiled
	given   int // the number of inputs that a call gives; the program's other inputs are captured arrays
	held    []*Array
	scope   *Scope // the borrower of held
	users   int    // the number of calls that compile or run it
	gone    bool   // it is no longer kept: the last user closes it
}

// lends reports whether a call in progress uses the variant's loans. The caller holds the lock.
func (v *variant) lends() bool { return v.program != nil && v.users > 0 }

// stage is work that is done once, by the first caller.
type stage struct {
	mu   sync.Mutex
	done bool
	err  error
}

// do runs f on the first call, and returns its error on all calls.
func (s *stage) do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.err, s.done = f(), true
	}
	return s.err
}

// mostVariants is the number of variants that a function without Options.Inputs keeps.
const mostVariants = 16

// enter begins a call: the variant that it returns stays compiled until leave.
func (c *Compiled) enter(in []*Array) (*variant, error) {
	v, specs, err := c.find(in)
	if err == nil {
		err = c.prepare(v, specs)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// find returns the variant for arrays of these types and shapes, and the specs to compile it for.
func (c *Compiled) find(in []*Array) (v *variant, specs []Spec, err error) {
	if c.options.Inputs == nil {
		if specs, err = specsOf(in); err != nil {
			return nil, nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return nil, nil, c.closed()
	}
	if c.options.Inputs != nil {
		v = c.made[0]
	} else {
		v = c.front(string((&operation{}).key(nil, in)))
	}
	v.users++
	return v, specs, nil
}

// front returns the variant of a key, new if there is none, and moves it to the front. The caller holds the lock.
func (c *Compiled) front(key string) *variant {
	i := slices.IndexFunc(c.made, func(v *variant) bool { return v.key == key })
	if i < 0 {
		i, c.made = len(c.made), append(c.made, &variant{key: key})
	}
	v := c.made[i]
	copy(c.made[1:i+1], c.made[:i])
	c.made[0] = v
	return v
}

// prepare compiles a variant if necessary, and counts the call as running. Close waits for the call only after the
// trace, because the traced function may itself call Close.
func (c *Compiled) prepare(v *variant, inputs []Spec) error {
	err := v.trace.do(func() error { return c.trace(v, inputs) })
	if err == nil {
		err = c.start()
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drop(v)
		v.release()
		c.idle.Broadcast()
		if c.shut { // the trace may have failed because Close's caller also closed arrays that the function reads
			err = c.closed()
		}
		return err
	}
	if err = v.compile.do(func() error { return c.compile(v) }); err != nil {
		c.mu.Lock()
		c.drop(v)
		c.mu.Unlock()
		c.leave(v)
	}
	return err
}

// trace traces the function.
func (c *Compiled) trace(v *variant, inputs []Spec) (err error) {
	defer recovered(&err, "tracing "+c.options.Name)
	if v.traced, err = traceOf(c.f, c.options.Name, inputs); err != nil {
		return err
	}
	v.given, v.held = len(inputs), v.traced.captured
	return v.traced.states(c.options.States, len(inputs))
}

// compile borrows the captured arrays, and compiles the function.
func (c *Compiled) compile(v *variant) (err error) {
	defer diag.Recover(&err, "compiling "+c.options.Name)
	v.scope = NewScope(c.options.Name)
	if err := v.scope.borrowAll(v.held); err != nil {
		v.scope.Close()
		return err
	}
	o := c.options.Compile
	o.Calls = max(1, o.Calls)
	p, err := compile(v.traced.b.Module, c.options.Name, o, false)
	if v.traced = nil; err != nil {
		v.scope.Close()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.program = p
	return nil
}

// start counts a call as running, until leave.
func (c *Compiled) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return c.closed()
	}
	c.running++
	return nil
}

// leave ends a call.
func (c *Compiled) leave(v *variant) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 {
		c.idle.Broadcast()
	}
	if n := len(c.made); n > mostVariants {
		err = c.drop(c.made[n-1])
	}
	return errors.Join(err, v.release())
}

// drop removes a variant from the kept ones, and closes it if it is unused. The caller holds the lock.
func (c *Compiled) drop(v *variant) error {
	i := slices.Index(c.made, v)
	if i < 0 {
		return nil
	}
	c.made = slices.Delete(c.made, i, i+1)
	if v.gone = true; v.users > 0 {
		return nil
	}
	return v.close()
}

// release ends a use. The caller holds the lock.
func (v *variant) release() error {
	if v.users--; v.gone && v.users == 0 {
		return v.close()
	}
	return nil
}

// close closes the program and ends the loans.
func (v *variant) close() (err error) {
	if v.program != nil {
		err = v.program.close()
	}
	return errors.Join(err, v.scope.Close())
}

// last returns the most recently used program; nil if there is none.
func (c *Compiled) last() *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.made {
		if v.program != nil {
			return v.program
		}
	}
	return nil
}

// results returns the number of results of a call, at least 1; 1 before it is known.
func (c *Compiled) results() int {
	if p := c.last(); p != nil {
		return max(1, len(p.outputs))
	}
	return 1
}

// closed returns the error of a closed function.
func (c *Compiled) closed() error { return diag.New(weir.ErrClosed, "%s is closed", c.options.Name) }
