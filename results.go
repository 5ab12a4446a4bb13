package weir

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/tensor"
)

// Results are a run's outputs. They hold one of the program's calls until closed.
type Results struct {
	program *Program
	bound   *bound
	tensors []*Tensor   // nil for what is no tensor, or nothing
	lists   [][]*Tensor // of sequences
	ports   []*Tensor   // what they are made of
	names   []string
	closed  *atomic.Bool
	report  runtime.Cleanup

	mu     sync.Mutex
	left   int  // tensors that were neither closed nor consumed
	busy   int  // tensors that runs are consuming
	parted bool // the call was given back
}

// holder is an open result, and where it was made. It does not keep the result from being collected.
type holder struct {
	closed *atomic.Bool
	made   origin
}

// acquire takes a call for the given dimensions, waiting for one to be free.
func (p *Program) acquire(ctx context.Context, dims []int64) (*bound, error) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return nil, diag.New(ErrClosed, "the program is closed")
	}
	p.wait.Add(1)
	p.mu.Unlock()
	select {
	case p.slots <- struct{}{}:
	default:
		begin := time.Now()
		select {
		case p.slots <- struct{}{}:
			p.counts.waited(begin)
		case <-ctx.Done():
			p.counts.waited(begin)
			p.wait.Done()
			return nil, p.busy(ctx.Err())
		}
	}
	b, err := p.take(dims)
	if err != nil {
		<-p.slots
		p.wait.Done()
	}
	return b, err
}

// busy is the error of a run that waited in vain: it names a line that holds a call.
func (p *Program) busy(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	holder := "all of them are running"
	if len(p.held) > 0 {
		holder = "the oldest result not closed is from " + p.held[0].made.line()
	}
	return fmt.Errorf("%w: all %d calls are taken; %s", err, p.options.Calls, holder)
}

// take is an idle call for the same dimensions, or a new one in place of an idle one for others: the calls never hold more than
// was certified.
func (p *Program) take(dims []int64) (*bound, error) {
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
	call, err := p.bind(dims)
	if err != nil {
		return nil, err
	}
	return &bound{call: call, dims: dims}, nil
}

// bind takes the memory of a call for the given dimensions.
func (p *Program) bind(dims []int64) (*executor.Call, error) {
	if err := p.executable.Check(dims); err != nil { // what a text requires, before what is only not proved
		return nil, err
	}
	if err := p.compiled.Recheck(dims); err != nil {
		return nil, err
	}
	return p.executable.Bind(dims)
}

// release makes a call idle again.
func (p *Program) release(b *bound) {
	b.call.Inside()
	b.call.Unlend()
	if poisoned {
		b.call.Close()
	} else {
		p.mu.Lock()
		p.idle = append(p.idle, b)
		p.mu.Unlock()
	}
	<-p.slots
	p.wait.Done()
}

// results are the outputs that a call has. What lies in donated memory owns it from now on; what replaces a state is the caller's own tensor.
func (p *Program) results(b *bound, args *packing) (*Results, error) {
	count := len(p.gives)
	r := &Results{program: p, bound: b, closed: new(atomic.Bool), ports: make([]*Tensor, 0, len(p.compiled.Program.Outputs)),
		names: make([]string, 0, count), tensors: make([]*Tensor, 0, count), lists: make([][]*Tensor, 0, count)}
	for i, port := range p.compiled.Program.Outputs {
		t, err := outputOf(b.call, i, p.compiled.Program.Tensors[port.Tensor].DType, r.closed)
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
			r.ports[a.output].block, a.taken = a.block, false
		}
	}
	made := here()
	p.mu.Lock()
	p.held = append(p.held, holder{r.closed, made})
	p.mu.Unlock()
	if log := p.options.Logger; log != nil {
		bytes := 0
		for i, t := range r.ports {
			if p.replaces[i] < 0 {
				bytes += len(t.t.Bytes())
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

func outputOf(c *executor.Call, i int, dt DType, closed *atomic.Bool) (*Tensor, error) {
	shape, data, err := c.Output(i)
	if err != nil {
		return nil, err
	}
	t, err := tensor.Over(dt, slices.Clone(shape), data)
	if err != nil {
		return nil, err
	}
	return &Tensor{t: t, closed: closed}, nil
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
			parts[i] = r.ports[part].t
		}
		tensors, absent, err := unpack(e.Info, parts)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			list = append(list, &Tensor{t: t, port: -1, closed: r.closed})
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
			r.left++
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

// Get is the output of that name, or nil: where there is none, where it is an optional that has nothing, and where it is a sequence. It is dead after Close.
func (r *Results) Get(name string) *Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.tensors[i]
	}
	return nil
}

// At is the i-th output, nil where Get gives nil. It is dead after Close.
func (r *Results) At(i int) *Tensor { return r.tensors[i] }

// Sequence is the tensors of the sequence of that name. It is nil where there is none, and where it is an optional that has nothing; an empty sequence is not nil. The tensors are dead
// after Close.
func (r *Results) Sequence(name string) []*Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		return slices.Clone(r.lists[i])
	}
	return nil
}

// Close gives the run's memory back to the program, for the next run; what a run is consuming follows when it has read it. Closing twice is fine.
func (r *Results) Close() error {
	r.mu.Lock()
	r.closed.Store(true)
	return r.part()
}

// take parts a tensor from its results, for as long as it is in use; it reports false where it is dead already.
func (r *Results) take(t *Tensor) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.dead() {
		return false
	}
	t.gone.Store(true)
	r.left, r.busy = r.left-1, r.busy+1
	return true
}

// back undoes take.
func (r *Results) back(t *Tensor) {
	r.mu.Lock()
	t.gone.Store(false)
	r.left, r.busy = r.left+1, r.busy-1
	r.part()
}

// give ends the use of a tensor that was taken. With the last one, the results are closed.
func (r *Results) give() error {
	r.mu.Lock()
	if r.busy--; r.left == 0 {
		r.closed.Store(true)
	}
	return r.part()
}

// part gives the call back once the results are closed and nobody uses them, and unlocks.
func (r *Results) part() error {
	part := r.closed.Load() && r.busy == 0 && !r.parted
	r.parted = r.parted || part
	r.mu.Unlock()
	if !part {
		return nil
	}
	for i, t := range r.ports {
		if t.block != nil && r.program.replaces[i] < 0 && !t.gone.Load() {
			t.block.Close()
		}
	}
	r.report.Stop()
	p := r.program
	p.mu.Lock()
	p.held = slices.DeleteFunc(p.held, func(h holder) bool { return h.closed == r.closed })
	p.mu.Unlock()
	p.release(r.bound)
	return nil
}

// Close waits for running calls and open results, then gives all memory back. Later runs return ErrClosed.
func (p *Program) Close() error {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return nil
	}
	p.gone = true
	p.mu.Unlock()
	p.wait.Wait()
	var first error
	for _, b := range p.idle {
		if err := b.call.Close(); err != nil && first == nil {
			first = err
		}
	}
	p.idle = nil
	if err := p.executable.Close(); err != nil && first == nil {
		first = err
	}
	if err := p.model.release(p); err != nil && first == nil {
		first = err
	}
	return first
}
