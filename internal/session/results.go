package session

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/tensor"
)

// Results are the outputs of a run, as weir.Results. They occupy one of the session's calls until closed.
type Results struct {
	session *Session
	use     mem.Gate[*bound] // shut by Close; the last user gives the call back
	mu      sync.Mutex       // guards tensors, lists and detached
	tensors []*Tensor        // by output; nil for a sequence and for an optional without a value
	lists   [][]*Tensor      // by output: the tensors of a sequence
	ports   []*Tensor        // by the program's output port
	names   []string         // by output
	closed  *atomic.Bool     // read by report; also the key of the results' holder
	report  runtime.Cleanup  // logs a warning if results are collected that were never closed
	left    atomic.Int64     // the number of tensors that were neither closed nor given away
	// detached are the tensors made by Detach, after which the call is released; nil before.
	detached []*Tensor
}

// results makes the Results of a call. An output in donated memory owns that memory from now on; an output that
// replaces a state is the caller's own tensor.
func (s *Session) results(b *bound, args *packing) (*Results, error) {
	count := len(s.Outputs)
	r := &Results{session: s, closed: new(atomic.Bool), ports: make([]*Tensor, 0, len(s.prog.Outputs)),
		names: make([]string, 0, count), tensors: make([]*Tensor, 0, count), lists: make([][]*Tensor, 0, count)}
	r.use.Set(b, func() { r.part(b) })
	for i, port := range s.prog.Outputs {
		if s.replaces[i] >= 0 {
			r.ports = append(r.ports, nil) // set below
			continue
		}
		t, err := outputOf(b.call, i, s.prog.Tensors[port.Tensor].DType, &r.use)
		if err != nil {
			return nil, err
		}
		t.port = i
		r.ports = append(r.ports, t)
	}
	for _, u := range args.states {
		r.ports[s.becomes[u.port]] = u.t
	}
	for _, e := range s.Outputs {
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
	s.hold(holder{r.closed, "result", made})
	if log := s.options.Logger; log != nil {
		bytes := 0
		for i, t := range r.ports {
			if s.replaces[i] < 0 {
				count, _ := tensor.Count(t.shape)
				size, _ := t.dtype.Bytes(count)
				bytes += int(size)
			}
		}
		closed := r.closed
		r.report = runtime.AddCleanup(r, func(made origin) {
			defer func() { _ = recover() }() // the user's logger may panic, on a goroutine of the Go runtime
			if !closed.Load() {
				log.Warn("results were never closed, and hold one of their program's calls", "line", made.line(), "bytes", bytes)
			}
		}, made)
	}
	return r, nil
}

// outputOf returns output port i of a call as a tensor in the call's memory, guarded by the gate within.
func outputOf(c *executor.Call, i int, dt dtype.DType, within *mem.Gate[*bound]) (*Tensor, error) {
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

// add appends one output to the results, unpacked from its ports.
func (r *Results) add(e signature.Edge) error {
	var one *Tensor
	var list []*Tensor
	state := false // a state belongs to the caller and outlives the results
	if e.Info.Simple() {
		one, state = r.ports[e.Parts[0]], r.session.replaces[e.Parts[0]] >= 0
	} else {
		parts := make([]*tensor.Tensor, len(e.Parts))
		for i, part := range e.Parts {
			t, ok := r.ports[part].enter()
			if !ok {
				return diag.New(diag.ErrClosed, "a state was closed while it was updated").AtTensor(e.Info.Name)
			}
			defer r.ports[part].Leave()
			parts[i] = t
		}
		tensors, absent, err := e.Info.Form().Unpack(parts)
		if err != nil {
			return err
		}
		for _, t := range tensors {
			list = append(list, newTensor(t, nil, &r.use))
		}
		switch {
		case absent:
		case !e.Info.Form().Sequence():
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

// Get returns the output with this name, as weir.Results.Get does.
func (r *Results) Get(name string) *Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.At(i)
	}
	return nil
}

// At returns the i-th output, as weir.Results.At does.
func (r *Results) At(i int) *Tensor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tensors[i]
}

// Names returns the outputs' names, in the model's order; the slice must not be changed.
func (r *Results) Names() []string { return r.names }

// List returns the tensors of the i-th output: those of a sequence, which may be none, or one, which is nil for an
// optional without a value.
func (r *Results) List(i int) []*Tensor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list := r.lists[i]; list != nil {
		return slices.Clone(list)
	}
	return []*Tensor{r.tensors[i]}
}

// Sequence returns the tensors of a sequence, as weir.Results.Sequence does. The slice is the caller's.
func (r *Results) Sequence(name string) []*Tensor {
	if i := slices.Index(r.names, name); i >= 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Clone(r.lists[i])
	}
	return nil
}

// Close releases the run's memory for the next run, as weir.Results.Close does.
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

// lost counts a tensor that was closed. After the last tensor it closes the results.
func (r *Results) lost() {
	if r.left.Add(-1) == 0 {
		r.Close()
	}
}

// part releases the call, once the results are closed and unused.
func (r *Results) part(b *bound) {
	for i, t := range r.ports {
		if r.session.replaces[i] < 0 {
			t.data.Shut() // if the output lies in donated memory, its last user releases the memory
		}
	}
	r.report.Stop()
	r.session.drop(r.closed)
	r.session.release(b)
}
