package weir

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Results are a run's outputs. They hold one of the program's calls until closed.
type Results struct {
	program *Program
	use     mem.Gate[*bound] // shut by Close; the last one out gives the call back
	mu      sync.Mutex       // of tensors, lists and detached
	tensors []*Tensor        // nil for what is no tensor, or nothing
	lists   [][]*Tensor      // of sequences
	ports   []*Tensor        // what they are made of
	names   []string
	closed  *atomic.Bool // says so to the report
	report  runtime.Cleanup
	left    atomic.Int64 // tensors that were neither closed nor consumed
	// detached are the tensors that Detach made, and its call is given back; nil before.
	detached []*Tensor
}

// holder is an open result or call, and where it was made. It does not keep the result from being collected.
type holder struct {
	key  any
	what string
	made origin
}

// hold notes a holder of one of the program's calls, until drop.
func (p *Program) hold(h holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, h)
}

func (p *Program) drop(key any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(h holder) bool { return h.key == key })
}

// acquire takes a call for the given dimensions, waiting for one to be free.
func (p *Program) acquire(ctx context.Context, dims []int64) (b *bound, err error) {
	x, err := p.enter()
	if err != nil {
		return nil, err
	}
	select {
	case p.slots <- struct{}{}:
	default:
		begin := time.Now()
		select {
		case p.slots <- struct{}{}:
			p.counts.waited(begin)
		case <-ctx.Done():
			p.counts.waited(begin)
			p.engine.Leave()
			return nil, fmt.Errorf("%w: all %d calls are taken; %s", ctx.Err(), p.options.Calls, p.busy())
		}
	}
	defer func() {
		if b == nil { // a panic, too, gives the place back
			<-p.slots
			p.engine.Leave()
		}
	}()
	return p.take(x, dims)
}

// enter is the way into the program's code and weights: they are there until p.engine.Leave.
func (p *Program) enter() (*executor.Executable, error) {
	x, ok := p.engine.Enter()
	if !ok {
		return nil, diag.New(ErrClosed, "the program is closed")
	}
	return x, nil
}

// busy names a line that holds a call.
func (p *Program) busy() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) > 0 {
		return "the oldest " + p.held[0].what + " not closed is from " + p.held[0].made.line()
	}
	return "all of them are running"
}

// take is an idle call for the same dimensions, or a new one in place of an idle one for others: the calls never hold
// more than was certified.
func (p *Program) take(x *executor.Executable, dims []int64) (*bound, error) {
	p.mu.Lock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if b := p.idle[i]; slices.Equal(b.dims, dims) {
			p.idle = slices.Delete(p.idle, i, i+1)
			p.mu.Unlock()
			return b, nil
		}
	}
	var other *bound
	if len(p.idle) > 0 {
		other = p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	p.mu.Unlock()
	if other != nil {
		if err := other.call.Close(); err != nil {
			return nil, err
		}
	}
	call, err := p.bind(x, dims)
	if err != nil {
		return nil, err
	}
	return &bound{call: call, dims: dims}, nil
}

// bind takes the memory of a call for the given dimensions.
func (p *Program) bind(x *executor.Executable, dims []int64) (*executor.Call, error) {
	if err := x.Check(dims); err != nil { // what a text requires, before what is only not proved
		return nil, err
	}
	if err := p.compiled.Recheck(dims); err != nil {
		return nil, err
	}
	return x.Bind(dims)
}

// release makes a call idle again.
func (p *Program) release(b *bound) {
	defer func() { // after a panic, too
		<-p.slots
		p.engine.Leave()
	}()
	b.call.Inside()
	b.call.Unlend()
	if poisoned {
		b.call.Close()
	} else {
		p.mu.Lock()
		p.idle = append(p.idle, b)
		p.mu.Unlock()
	}
}

// results are the outputs that a call has. What lies in donated memory owns it from now on; what replaces a state is
// the caller's own tensor.
func (p *Program) results(b *bound, args *packing) (*Results, error) {
	count := len(p.gives)
	r := &Results{program: p, closed: new(atomic.Bool), ports: make([]*Tensor, 0, len(p.compiled.Program.Outputs)),
		names: make([]string, 0, count), tensors: make([]*Tensor, 0, count), lists: make([][]*Tensor, 0, count)}
	r.use.Set(b, func() { r.part(b) })
	for i, port := range p.compiled.Program.Outputs {
		t, err := outputOf(b.call, i, p.compiled.Program.Tensors[port.Tensor].DType, &r.use)
		if err != nil {
			return nil, err
		}
		t.port = i
		r.ports = append(r.ports, t)
	}
	for _, s := range args.states {
		r.ports[p.becomes[s.port]] = s.t
	}
	for _, e := range p.gives {
		if err := r.add(e); err != nil {
			return nil, err
		}
	}
	for _, a := range args.parted {
		if a.output >= 0 {
			r.ports[a.output].block, a.block = a.block, nil
		}
	}
	made := here()
	p.hold(holder{r.closed, "result", made})
	if log := p.options.Logger; log != nil {
		bytes := 0
		for i, t := range r.ports {
			if p.replaces[i] < 0 {
				size, _ := t.dtype.Bytes(int64(t.Len()))
				bytes += int(size)
			}
		}
		closed := r.closed
		r.report = runtime.AddCleanup(r, func(made origin) {
			defer func() { _ = recover() }() // of the user's logger, on a goroutine of Go's
			if !closed.Load() {
				log.Warn("results were never closed, and hold one of their program's calls", "line", made.line(), "bytes", bytes)
			}
		}, made)
	}
	return r, nil
}

func outputOf(c *executor.Call, i int, dt DType, within *mem.Gate[*bound]) (*Tensor, error) {
	shape, data, err := c.Output(i)
	if err != nil {
		return nil, err
	}
	t, err := tensor.Over(dt, slices.Clone(shape), data)
	if err != nil {
		return nil, err
	}
	return newTensor(t, nil, within), nil
}

// add unpacks an output.
func (r *Results) add(e edge) error {
	var one *Tensor
	var list []*Tensor
	state := false // its caller's, whatever becomes of the results
	if e.Info.simple() {
		one, state = r.ports[e.Parts[0]], r.program.replaces[e.Parts[0]] >= 0
	} else {
		parts := make([]*tensor.Tensor, len(e.Parts))
		for i, part := range e.Parts {
			t, ok := r.ports[part].enter()
			if !ok {
				return diag.New(ErrClosed, "a state was closed while it was updated").AtTensor(e.Info.Name)
			}
			defer r.ports[part].leave()
			parts[i] = t
		}
		tensors, absent, err := e.Info.form().Unpack(parts)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			list = append(list, newTensor(t, nil, &r.use))
		}
		switch {
		case absent:
		case !e.Info.Kind.sequence():
			one, list = list[0], nil
		case list == nil:
			list = []*Tensor{}
		}
	}
	for _, t := range append(list, one) {
		if t != nil && !state {
			t.of = r
			r.left.Add(1)
		}
	}
	r.names, r.tensors, r.lists = append(r.names, e.Info.Name), append(r.tensors, one), append(r.lists, list)
	return nil
}

// origin is a stack, as addresses: it is made into text only where somebody reads it.
type origin [12]uintptr

// here is the stack above its caller.
func here() (at origin) {
	runtime.Callers(3, at[:])
	return at
}

// line is the line outside this package that called into it.
func (o origin) line() string {
	frames := runtime.CallersFrames(o[:])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "github.com/weirml/weir.") || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "?"
		}
	}
}

// Get is the output of that name, or nil: if there is none, where it is an optional that has nothing, and where it is a
// sequence. It is dead after Close.
func (r *Results) Get(name string) *Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.At(i)
	}
	return nil
}

// At is the i-th output, nil if Get gives nil. It is dead after Close.
func (r *Results) At(i int) *Tensor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tensors[i]
}

// All goes through the outputs in the model's order, by name: nil for an optional that has nothing, and the tensors of
// a sequence one after another. They are dead after Close.
func (r *Results) All() iter.Seq2[string, *Tensor] {
	return func(yield func(string, *Tensor) bool) {
		for i, name := range r.names {
			r.mu.Lock()
			list := slices.Clone(r.lists[i])
			if list == nil {
				list = []*Tensor{r.tensors[i]}
			}
			r.mu.Unlock()
			for _, t := range list {
				if !yield(name, t) {
					return
				}
			}
		}
	}
}

// Sequence is the tensors of the sequence of that name. It is nil if there is none, and where it is an optional that
// has nothing; an empty sequence is not nil. The tensors are dead after Close.
func (r *Results) Sequence(name string) []*Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.lists[i])
	}
	return nil
}

// Close gives the run's memory back to the program, for the next run. What a run is consuming, or somebody is copying,
// follows when it has been read: Close does not wait for that. Closing twice is fine.
func (r *Results) Close() error {
	r.mu.Lock()
	detached := r.detached
	r.mu.Unlock()
	if detached != nil {
		return closeAll(detached)
	}
	r.closed.Store(true)
	r.use.Shut()
	return nil
}

// lost notes that a tensor is closed, or consumed. With the last one, the results are closed.
func (r *Results) lost() {
	if r.left.Add(-1) == 0 {
		r.Close()
	}
}

// part gives the call back: the results are closed, and nobody uses them.
func (r *Results) part(b *bound) {
	for i, t := range r.ports {
		if r.program.replaces[i] < 0 {
			t.data.Shut() // which closes what was donated for it
		}
	}
	r.report.Stop()
	r.program.drop(r.closed)
	r.program.release(b)
}

// Close waits for running calls, and for results and calls that are not closed, then gives all memory back. Later runs
// return ErrClosed, while it waits too. Closing twice is fine: the second waits as the first does. See CloseContext,
// which need not wait.
func (p *Program) Close() error { return p.CloseContext(context.Background()) }

// CloseContext is Close, but waits no longer than ctx. If ctx ends first, its error, with the line of the oldest
// result that is not closed, is returned, and the program goes on closing: nothing can be run any more, and whoever
// closes the last result, or ends the last run, gives the program's memory back with it. Close and CloseContext may
// then be called again, to wait for that. With a context that has ended CloseContext closes what it can and returns at
// once.
func (p *Program) CloseContext(ctx context.Context) error {
	p.engine.Shut()
	select {
	case <-p.closed:
		return p.failed
	default:
	}
	select {
	case <-p.closed:
		return p.failed
	case <-ctx.Done():
		return fmt.Errorf("%w: the program is closed, but its memory is in use; %s", ctx.Err(), p.busy())
	}
}

// end gives all memory back, when the program is closed and nobody uses it.
func (p *Program) end(x *executor.Executable) {
	defer close(p.closed)
	var errs []error
	for _, b := range p.idle {
		errs = append(errs, b.call.Close())
	}
	p.idle = nil
	p.failed = errors.Join(append(errs, x.Close(), p.closeOwn(), p.leaveDevice(), p.model.files.Release(p))...)
}
