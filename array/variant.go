package array

import (
	"errors"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// variant is a function compiled for inputs of some types and shapes. The call that comes first traces and compiles it;
// others wait for that.
type variant struct {
	key     string
	trace   stage
	compile stage
	traced  *trace
	program *compiled
	given   int // of the program's inputs, those that a call gives; the others are captured
	held    []*Array
	scope   *Scope // to which those are lent
	users   int    // calls that compile or run it
	gone    bool   // it is no longer kept: the last of them closes it
}

// lends reports whether a call that is to begin, or to find the function closed, keeps what the variant borrowed, for
// who holds the lock.
func (v *variant) lends() bool { return v.program != nil && v.users > 0 }

// stage is what is done once, by who comes first.
type stage struct {
	mu   sync.Mutex
	done bool
	err  error
}

func (s *stage) do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.err, s.done = f(), true
	}
	return s.err
}

// mostVariants is the number of types and shapes that a function without Options.Inputs stays compiled for.
const mostVariants = 16

// enter begins a call: what it returns stays compiled until leave.
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

// find is the variant for arrays of these types and shapes, and what to compile it for.
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

// front puts the variant of a key in front of the others, for who holds the lock.
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

// prepare has a variant compiled, and counts a call that runs. Close waits for it from then on that arrays are lent to
// the function: not while the function is traced, which may call Close itself.
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
		if c.shut { // then what it reads may be closed too, which the trace found
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

// compile borrows what the function reads, and compiles it.
func (c *Compiled) compile(v *variant) (err error) {
	defer diag.Recover(&err, "compiling "+c.options.Name)
	v.scope = NewScope(c.options.Name)
	if err := v.scope.borrowAll(v.held); err != nil {
		v.scope.Close()
		return err
	}
	o := c.options.Compile
	o.Calls = max(1, o.Calls)
	p, err := compile(v.traced.b.Module, c.options.Name, o)
	if v.traced = nil; err != nil {
		v.scope.Close()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.program = p
	return nil
}

// start counts a call that runs, until leave.
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

// drop keeps a variant no longer, for who holds the lock.
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

// release ends a use, for who holds the lock.
func (v *variant) release() error {
	if v.users--; v.gone && v.users == 0 {
		return v.close()
	}
	return nil
}

// close gives the program back and ends the loans.
func (v *variant) close() (err error) {
	if v.program != nil {
		err = v.program.close()
	}
	return errors.Join(err, v.scope.Close())
}

// last is the program used last; nil if there is none.
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

// results is how many results a call has, at least one; 1 if that is not known yet.
func (c *Compiled) results() int {
	if p := c.last(); p != nil {
		return max(1, len(p.outputs))
	}
	return 1
}

func (c *Compiled) closed() error { return diag.New(weir.ErrClosed, "%s is closed", c.options.Name) }
