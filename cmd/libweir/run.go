//go:build cgo

package main

// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/dlpack"
	"github.com/weirml/weir/internal/diag"
)

// pollEvery is the interval between calls of a poll.
const pollEvery = 50 * time.Millisecond

// polling is a context that ends when a poll returns non-zero. Err calls the poll, if the caller is on the thread that
// made the context.
type polling struct {
	context.Context
	end   context.CancelFunc
	poll  C.weir_poll
	self  C.uint64_t
	asked atomic.Int64 // the last call of the poll, in nanoseconds since begin
	begin time.Time
}

// newPolling returns a context for the current thread's poll.
func newPolling(poll C.weir_poll) *polling {
	p := &polling{poll: poll, self: C.weir_bridge_self(), begin: time.Now()}
	p.Context, p.end = context.WithCancel(context.Background())
	return p
}

// Err returns the context's error, after it has called the poll if pollEvery has passed.
func (p *polling) Err() error {
	now := int64(time.Since(p.begin))
	if now-p.asked.Load() > int64(pollEvery) {
		p.asked.Store(now)
		p.ask()
	}
	return p.Context.Err()
}

// ask calls the poll.
func (p *polling) ask() {
	if C.weir_bridge_poll(p.poll, p.self) != 0 {
		p.end()
	}
}

// polled runs a long operation on another thread, and calls the poll on this one.
func polled(poll C.weir_poll, do func(context.Context) error) error {
	if poll == nil {
		return do(context.Background())
	}
	p := newPolling(poll)
	defer p.end()
	done := make(chan error, 1)
	diag.Go("calling", func() error { return do(p.Context) }, func(err error) { done <- err })
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			p.ask()
		}
	}
}

// enter waits for one of the program's slots, and calls the poll meanwhile.
func (p *program) enter(asked *polling) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	var tick <-chan time.Time
	if asked != nil {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case p.slots <- struct{}{}:
			return nil
		case <-tick:
			if err := asked.Err(); err != nil {
				return err
			}
		}
	}
}

// supplied holds the arguments of a run.
type supplied struct {
	in     weir.Inputs
	parted []*tensor
	taken  []*weir.Tensor // by argument; nil unless WEIR_TAKE
}

// suppliedPool keeps supplied structures for later runs.
var suppliedPool = sync.Pool{New: func() any { return &supplied{in: weir.Inputs{}} }}

// release ends the use of the arguments.
func (s *supplied) release() {
	for _, t := range s.parted {
		t.keep()
	}
	for _, t := range s.taken {
		if t != nil {
			t.Close() // does nothing if the run consumed it
		}
	}
	clear(s.in)
	clear(s.taken)
	clear(s.parted)
	s.parted, s.taken = s.parted[:0], s.taken[:0]
	suppliedPool.Put(s)
}

// take takes ownership of the arguments that the caller gives away. It continues after an error, which it returns, so
// that each deleter is called.
func (s *supplied) take(args []C.weir_argument) (failed error) {
	for i := range args {
		var t *weir.Tensor
		if a := &args[i]; a.how == C.WEIR_TAKE && a.tensor == 0 && a.lent != nil {
			managed := (*C.weir_dl_versioned)(unsafe.Pointer(a.lent))
			free := func() { C.weir_bridge_delete_versioned(managed) }
			var err error
			if t, err = (*dlpack.Versioned)(unsafe.Pointer(managed)).Import(free, dlpack.IfNeeded); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		s.taken = append(s.taken, t)
	}
	return failed
}

// add supplies an input.
func (s *supplied) add(i int, info *weir.Info, a *C.weir_argument) error {
	if a.how == C.WEIR_ABSENT && info.Initial {
		return nil // the program has an initial tensor
	}
	if t := s.taken[i]; t != nil {
		s.in[info.Name] = weir.Consume(t)
		return nil
	}
	arg, err := s.argument(a)
	if err != nil {
		var e *weir.Error
		if errors.As(err, &e) && e.Tensor == "" {
			at := *e
			at.Tensor = info.Name
			return &at
		}
		return err
	}
	s.in[info.Name] = arg
	return nil
}

// argument converts an argument for weir.Program.Run.
func (s *supplied) argument(a *C.weir_argument) (weir.Arg, error) {
	switch {
	case a.how < C.WEIR_LEND || a.how > C.WEIR_TAKE:
		return nil, fault(weir.ErrInput, "", "it is given in way %d; weir.h lists %d to %d", a.how, C.WEIR_LEND, C.WEIR_TAKE)
	case a.how == C.WEIR_ABSENT:
		return weir.Absent, nil
	case a.tensor != 0:
		return s.owned(a)
	case a.lent == nil:
		return nil, fault(weir.ErrInput, "", "no value is given for it")
	}
	lent := (*dlpack.Tensor)(unsafe.Pointer(a.lent))
	switch a.how {
	case C.WEIR_LEND:
		return lent.Lend()
	case C.WEIR_UPDATE:
		t, err := lent.Borrow(dlpack.Never, weir.ReadWrite) // a copy would get the new value
		if err != nil {
			return nil, err
		}
		return weir.Update(t), nil
	}
	return nil, fault(weir.ErrInput, "give it by weir_take first",
		"memory that its owner keeps is given to a run for good")
}

// owned returns an argument that is a handle.
func (s *supplied) owned(a *C.weir_argument) (weir.Arg, error) {
	if l, err := find[*list](a.tensor, "list"); err == nil {
		var tensors []*weir.Tensor
		for _, t := range l.items {
			tensors = append(tensors, t.Tensor)
		}
		return weir.Sequence(tensors...), nil
	}
	t, err := find[*tensor](a.tensor, "tensor or list")
	if err != nil {
		return nil, err
	}
	switch a.how {
	case C.WEIR_LEND:
		return t.Tensor, nil
	case C.WEIR_UPDATE:
		return weir.Update(t.Tensor), nil
	}
	if err := t.part(); err != nil {
		return nil, err
	}
	if s.parted = append(s.parted, t); a.how == C.WEIR_CONSUME {
		return weir.Consume(t.Tensor), nil
	}
	return weir.Donate(t.Tensor), nil
}

// goRun implements weir_run.
//
//export goRun
func goRun(handle C.uint64_t, arguments *C.weir_argument, count C.int32_t, poll C.weir_poll, outputs *C.uint64_t,
	room C.int32_t) *C.char {
	return edge(func() error {
		args, err := listOf(arguments, count)
		if err != nil {
			return err
		}
		to, err := listOf(outputs, room)
		if err != nil {
			return err
		}
		return run(handle, args, poll, len(to), func(p *program, r *weir.Results) error {
			p.give(r, to)
			return nil
		})
	})
}

// goRunGiving implements weir_run_giving.
//
//export goRunGiving
func goRunGiving(handle C.uint64_t, arguments *C.weir_argument, count C.int32_t, poll C.weir_poll,
	managed *unsafe.Pointer, room C.int32_t) *C.char {
	return edge(func() error {
		args, err := listOf(arguments, count)
		if err != nil {
			return err
		}
		to, err := listOf(managed, room)
		if err != nil {
			return err
		}
		return run(handle, args, poll, len(to), func(p *program, r *weir.Results) error { return p.export(r, to) })
	})
}

// run runs a program, and passes its detached results to give, which takes ownership of them.
func run(handle C.uint64_t, args []C.weir_argument, poll C.weir_poll, room int,
	give func(*program, *weir.Results) error) error {
	given := suppliedPool.Get().(*supplied)
	defer given.release()
	if err := given.take(args); err != nil {
		return err
	}
	p, err := find[*program](handle, "program")
	if err != nil {
		return err
	}
	if len(args) != len(p.inputs) || room != len(p.outputs) {
		return fault(weir.ErrInput, "", "%d arguments and room for %d outputs; the program has %d inputs and %d outputs",
			len(args), room, len(p.inputs), len(p.outputs))
	}
	for i := range args {
		if err := given.add(i, &p.inputs[i], &args[i]); err != nil {
			return err
		}
	}
	ctx, asked := context.Background(), (*polling)(nil)
	if poll != nil {
		asked = newPolling(poll)
		defer asked.end()
		ctx = asked
	}
	if err := p.enter(asked); err != nil {
		return err
	}
	defer func() { <-p.slots }()
	r, err := p.Run(ctx, given.in)
	if err != nil {
		return err
	}
	if err := r.Detach(); err != nil {
		return errors.Join(err, r.Close())
	}
	return give(p, r)
}

// export writes each of a run's outputs as a DLPack structure that owns it; nil for a state's, which the caller has. An
// output that has no such structure is an error, and all outputs are then closed.
func (p *program) export(r *weir.Results, to []unsafe.Pointer) (err error) {
	clear(to)
	for i := range to {
		if r.Sequence(p.outputs[i].Name) != nil {
			err = fault(weir.ErrUnsupported, "run it by weir_run", "output %s is no tensor", p.outputs[i].Name)
			break
		}
		if t := r.At(i); t != nil && !p.states[i] {
			if to[i], err = structure(heldBy(t), true, 0); err != nil {
				break
			}
			exported.Add(1)
		}
	}
	if err == nil {
		return nil
	}
	for i := range to {
		if m := (*C.weir_dl_versioned)(to[i]); m != nil {
			C.weir_bridge_delete_versioned(m)
			to[i] = nil
		} else if t := r.At(i); t != nil && !p.states[i] {
			err = errors.Join(err, t.Close())
		}
		for _, t := range r.Sequence(p.outputs[i].Name) {
			err = errors.Join(err, t.Close())
		}
	}
	return err
}

// give makes handles of a run's outputs; 0 for a state's, which the caller has.
func (p *program) give(r *weir.Results, to []C.uint64_t) {
	for i := range to {
		to[i] = 0
		if items := r.Sequence(p.outputs[i].Name); items != nil {
			l := &list{}
			for _, t := range items {
				l.items = append(l.items, heldBy(t))
			}
			to[i] = add(l)
			continue
		}
		if p.states[i] {
			continue // the caller has it
		}
		if t := r.At(i); t != nil {
			to[i] = addTensor(t)
		}
	}
}
