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

// Results are the outputs of a run. They occupy one of the program's calls until closed.
type Results struct {
	program *Program
	use     mem.Gate[*bound] // shut by Close; the last one out gives the call back
	mu      sync.Mutex       // guards tensors, lists and detached
	tensors []*Tensor        // by output; nil for a sequence and for an optional without a value
	lists   [][]*Tensor      // by output: the tensors of a sequence
	ports   []*Tensor        // by the program's output port
	names   []string
	closed  *atomic.Bool    // read by the report
	report  runtime.Cleanup // logs a warning if results are collected that were never closed
	left    atomic.Int64    // tensors that were neither closed nor consumed
	// detached are the tensors made by Detach, after which the call is released; nil before.
	detached []*Tensor
}

// holder is an open result or call with the stack that made it. It does not keep the result from being collected.
type holder struct {
	key  any
	what string
	made origin
}

// hold adds a holder of one of the program's calls to the list that busy reads.
func (p *Program) hold(h holder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, h)
}

// drop removes a holder by its key.
func (p *Program) drop(key any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(h holder) bool { return h.key == key })
}

// acquire returns a call for the given dimensions. It waits until a call is free, or until ctx ends.
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

// enter returns the program's code and weights, which stay valid until p.engine.Leave.
func (p *Program) enter() (*executor.Executable, error) {
	x, ok := p.engine.Enter()
	if !ok {
		return nil, diag.New(ErrClosed, "the program is closed")
	}
	return x, nil
}

// busy names the source line of the oldest holder of a call, for errors.
func (p *Program) busy() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) > 0 {
		return "the oldest " + p.held[0].what + " not closed is from " + p.held[0].made.line()
	}
	return "all of them are running"
}

// take returns an idle call for the same dimensions. Without one it makes a new call, after it has closed an idle call
// for other dimensions: all calls together never hold more than the certificate says.
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

// bind allocates the memory of a call for the given dimensions.
func (p *Program) bind(x *executor.Executable, dims []int64) (*executor.Call, error) {
	if err := x.Check(dims); err != nil { // conditions that the program states come before those that are only unproved
		return nil, err
	}
	if err := p.compiled.Recheck(dims); err != nil {
		return nil, err
	}
	return x.Bind(dims)
}

// release makes a call idle again, or closes it if WEIR_DEBUG=poison is set.
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

// results makes the Results of a call. An output in donated memory owns that memory from now on; an output that
// replaces a state is the caller's own tensor.
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

// outputOf returns output port i of a call as a tensor.
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

// add unpacks one output from its ports.
func (r *Results) add(e edge) error {
	var one *Tensor
	var list []*Tensor
	state := false // a state belongs to the caller and outlives the results
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

// origin is a stack as program counters; it is symbolised only if someone reads it.
type origin [12]uintptr

// here returns the stack above its caller.
func here() (at origin) {
	runtime.Callers(3, at[:])
	return at
}

// line returns the innermost source line outside this package, as "file:line".
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

// Get returns the output with this name. It is nil if there is no such output, if the output is an optional without a
// value, or if it is a sequence. The tensor is invalid after Close.
func (r *Results) Get(name string) *Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.At(i)
	}
	return nil
}

// At returns the i-th output, or nil if Get would. The tensor is invalid after Close.
func (r *Results) At(i int) *Tensor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tensors[i]
}

// All iterates over the outputs by name, in the model's order: nil for an optional without a value, and the tensors of
// a sequence one after another. The tensors are invalid after Close.
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

// Sequence returns the tensors of the sequence with this name. It is nil if there is no such sequence, or if it is an
// optional without a value; an empty sequence is not nil. The tensors are invalid after Close.
func (r *Results) Sequence(name string) []*Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.lists[i])
	}
	return nil
}

// Close releases the run's memory for the next run. It does not wait for a run that consumes an output, nor for a copy
// that reads one: their memory is released when they end. Closing twice is allowed.
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

// lost counts a tensor that was closed or consumed. After the last one, it closes the results.
func (r *Results) lost() {
	if r.left.Add(-1) == 0 {
		r.Close()
	}
}

// part releases the call, once the results are closed and unused.
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

// Close waits for running calls and for open results and calls, then releases all memory. From the call of Close on,
// new runs return ErrClosed. Closing twice is allowed: the second call waits too. CloseContext limits the wait.
func (p *Program) Close() error { return p.CloseContext(context.Background()) }

// CloseContext is Close, but waits only until ctx ends. It then returns the error of ctx, with the source line of the
// oldest open result, and the program stays closed for new runs: the memory is released when the last result is closed
// or the last run ends. Call Close or CloseContext again to wait for that. If ctx has already ended, CloseContext
// closes what is unused and returns at once.
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

// end releases all memory, once the program is closed and unused.
func (p *Program) end(x *executor.Executable) {
	defer close(p.closed)
	var errs []error
	for _, b := range p.idle {
		errs = append(errs, b.call.Close())
	}
	p.idle = nil
	p.failed = errors.Join(append(errs, x.Close(), p.closeOwn(), p.leaveDevice(), p.model.files.Release(p))...)
}
