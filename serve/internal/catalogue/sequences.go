package catalogue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/ledger"
	"github.com/weirml/weir/serve/internal/oip"
)

// Sequences are the sequences of a version: requests of one correlation ID, which run one after the other in the order
// of their arrival, each with the states that the one before left. A step happens whole, or leaves the states as they
// were, or ends its sequence. Any goroutine may use it; nil is the sequences of a model that has none.
type Sequences struct {
	version  *Version
	buffers  *ledger.Buffers
	controls []control
	states   []state
	batched  bool
	idle     time.Duration
	most     int // requests that wait for one before them

	mu    sync.Mutex
	slots map[SequenceID]*slot
	stats SequenceStats
}

// SequenceID is a correlation ID: a text or, if that is empty, a number. Owners have IDs of their own.
type SequenceID struct {
	Owner  string
	Text   string
	Number int64
}

// String returns the ID as the client gave it.
func (i SequenceID) String() string {
	if i.Text != "" {
		return i.Text
	}
	return strconv.FormatInt(i.Number, 10)
}

// SequenceStats are the counters of sequences.
type SequenceStats struct {
	Alive         int
	Bytes         int64 // of the states of those
	Waiting       int   // requests that wait for one of their sequence
	Started, Idle uint64
}

// Stats returns the counters.
func (s *Sequences) Stats() SequenceStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// SequenceError reports a request that belongs to no sequence that is alive. Its text is Triton's.
type SequenceError struct{ text string }

// Error returns the text.
func (e *SequenceError) Error() string { return e.text }

// slot is what is known of an ID: a sequence that is alive, or requests that may start one.
type slot struct {
	id     SequenceID
	live   bool
	states []held
	busy   bool // a step is in progress; the slot is its own
	queue  []chan struct{}
	idle   *time.Timer
	rests  uint64 // how often the slot became idle
}

const (
	mostSequences = 1 << 14 // IDs of a version
	mostID        = 128     // bytes of an ID that is a text, as in Triton
)

// noWait is a context that has ended: nobody waits for the memory of states, since sequences hold it while they rest.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("sequences hold their states until they end"))
	return ctx
}()

// Step is a request's place in its sequence. One goroutine uses it; nil is a request of a model without sequences.
type Step struct {
	of         *Sequences
	slot       *slot
	start, end bool
	next       []held // by state: its next value, if that is a copy
	id         *weir.Tensor
	changed    bool // the run has changed states in place
	kept       bool // all states have their next values
}

// Enter waits until the requests of the same sequence that came before have ended. The caller calls Done afterwards,
// unless there is an error.
func (s *Sequences) Enter(ctx context.Context, id SequenceID, start, end bool) (*Step, error) {
	switch {
	case id.Text == "" && id.Number == 0:
		return nil, &SequenceError{fmt.Sprintf("inference request to model '%s' must specify a non-zero or non-empty "+
			"correlation ID", s.version.Model)}
	case len(id.Text) > mostID:
		return nil, &SequenceError{fmt.Sprintf("the correlation ID has %d bytes, and at most %d are possible", len(id.Text),
			mostID)}
	}
	step := &Step{of: s, start: start, end: end}
	s.mu.Lock()
	at := s.slots[id]
	switch {
	case at == nil && !start:
		s.mu.Unlock()
		return nil, s.unknown(id)
	case at == nil && len(s.slots) == mostSequences:
		s.mu.Unlock()
		return nil, fmt.Errorf("model %s has %d sequences: %w", s.version.Model, mostSequences, weir.ErrMemory)
	case at == nil:
		at = &slot{id: id}
		s.slots[id] = at
	}
	step.slot = at
	if at.busy {
		if err := s.wait(ctx, at); err != nil {
			return nil, err
		}
		s.mu.Lock()
	}
	at.busy = true
	if at.idle != nil {
		at.idle.Stop()
	}
	alive, old := at.live, []held(nil)
	if start && alive {
		old = s.end(at)
	}
	s.mu.Unlock()
	s.release(old)
	if !start {
		if alive {
			return step, nil
		}
		return nil, step.Done(s.unknown(id))
	}
	states, err := s.begin()
	if err != nil {
		return nil, step.Done(err)
	}
	s.mu.Lock()
	at.live, at.states = true, states
	s.stats.Alive++
	s.stats.Started++
	s.stats.Bytes += bytesOf(states)
	s.mu.Unlock()
	return step, nil
}

// unknown returns the error of a request whose sequence has not started, or has ended.
func (s *Sequences) unknown(id SequenceID) error {
	return &SequenceError{fmt.Sprintf("inference request for sequence %s to model '%s' must specify the START flag on "+
		"the first request of the sequence", id, s.version.Model)}
}

// wait waits for the turn of a request, under the lock, which it releases.
func (s *Sequences) wait(ctx context.Context, at *slot) error {
	if s.stats.Waiting >= s.most {
		defer s.mu.Unlock()
		return &FullError{s.version.Model, s.stats.Waiting}
	}
	ready := make(chan struct{})
	at.queue = append(at.queue, ready)
	s.stats.Waiting++
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(at.queue, ready); i >= 0 {
		at.queue = slices.Delete(at.queue, i, i+1)
		s.stats.Waiting--
	} else { // its turn came at the same time
		s.pass(at)
	}
	return context.Cause(ctx)
}

// pass gives a slot to the next request, under the lock. Without one the sequence rests, or its ID is forgotten.
func (s *Sequences) pass(at *slot) {
	if len(at.queue) > 0 {
		close(at.queue[0])
		at.queue = at.queue[1:]
		s.stats.Waiting--
		return
	}
	at.busy = false
	if !at.live {
		delete(s.slots, at.id)
		return
	}
	at.rests++
	rest := at.rests
	at.idle = time.AfterFunc(s.idle, func() { s.expire(at, rest) })
}

// expire ends a sequence that has rested since it became idle for the given time.
func (s *Sequences) expire(at *slot, rest uint64) {
	s.mu.Lock()
	if at.busy || !at.live || at.rests != rest {
		s.mu.Unlock()
		return
	}
	delete(s.slots, at.id)
	s.stats.Idle++
	old := s.end(at)
	s.mu.Unlock()
	s.release(old)
}

// end ends a slot's sequence, under the lock, and returns its states, which the caller releases.
func (s *Sequences) end(at *slot) []held {
	states := at.states
	at.live, at.states = false, nil
	s.stats.Alive--
	s.stats.Bytes -= bytesOf(states)
	return states
}

// release gives the memory of states back, and that of free buffers if no sequence is alive. It is called without the
// lock: others may wait for the memory.
func (s *Sequences) release(old []held) {
	free(old)
	if len(old) > 0 && s.Stats().Alive == 0 {
		s.buffers.Release()
	}
}

// close ends all sequences. No request is in progress.
func (s *Sequences) close() {
	if s == nil {
		return
	}
	var old []held
	s.mu.Lock()
	for id, at := range s.slots {
		if at.idle != nil {
			at.idle.Stop()
		}
		if at.live {
			old = append(old, s.end(at)...)
		}
		delete(s.slots, id)
	}
	s.mu.Unlock()
	for _, st := range s.states {
		old = append(old, held{buffer: st.first})
	}
	s.states = nil
	s.release(old)
}

// bytesOf returns the bytes of states.
func bytesOf(list []held) (sum int64) {
	for _, h := range list {
		if h.buffer != nil {
			sum += int64(len(h.buffer.Bytes()))
		}
	}
	return sum
}

// alone returns the only step of a sequence that no client can name.
func (s *Sequences) alone(ctx context.Context) (*Step, error) {
	if s == nil {
		return nil, nil
	}
	return s.Enter(ctx, SequenceID{Owner: "the server", Number: 1}, true, true)
}

// CheckRows returns an error if a request has several rows: a sequence is one row of the model.
func (s *Step) CheckRows(r *oip.Request) error {
	if s == nil || !s.of.batched {
		return nil
	}
	for _, t := range r.Inputs {
		if len(t.Shape) > 0 && t.Shape[0] != 1 {
			return &SequenceError{fmt.Sprintf("inference request to model '%s' must specify batch-size 1 due to requirements "+
				"of sequence batcher: input %q has the shape %v", s.of.version.Model, t.Name, t.Shape)}
		}
	}
	return nil
}

// Arguments adds the inputs that the server fills.
func (s *Step) Arguments(in weir.Inputs) error {
	if s == nil {
		return nil
	}
	for _, c := range s.of.controls {
		t, err := s.control(&c)
		if err != nil {
			return err
		}
		in[c.name] = t
	}
	for i, st := range s.of.states {
		t := s.slot.states[i].tensor
		if in[st.input] = t; st.inPlace {
			in[st.input] = weir.Update(t)
		}
	}
	return nil
}

// control returns the value of a control.
func (s *Step) control(c *control) (t *weir.Tensor, err error) {
	which := 0
	switch {
	case c.of == oip.ModelSequenceBatching_Control_CONTROL_SEQUENCE_READY,
		c.of == oip.ModelSequenceBatching_Control_CONTROL_SEQUENCE_START && s.start,
		c.of == oip.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END && s.end:
		which = 1
	case c.of == oip.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID:
		s.id, err = c.number(s.slot.id)
		return s.id, err
	}
	return c.values[which], nil
}

// number returns a correlation ID as the model has it.
func (c *control) number(id SequenceID) (*weir.Tensor, error) {
	n := id.Number
	fits := id.Text == ""
	switch c.dt {
	case weir.StringType:
		return weir.FromSlice([]string{id.String()}, c.shape...)
	case weir.U64:
		fits = fits && n >= 0
	case weir.I32:
		fits = fits && n == int64(int32(n))
	case weir.U32:
		fits = fits && n >= 0 && n <= math.MaxUint32
	}
	if !fits {
		return nil, &SequenceError{fmt.Sprintf("correlation ID %q is no %s, which the model's input %q is", id,
			oip.Name(c.dt), c.name)}
	}
	switch c.dt {
	case weir.U64:
		return weir.FromSlice([]uint64{uint64(n)}, c.shape...)
	case weir.I32:
		return weir.FromSlice([]int32{int32(n)}, c.shape...)
	case weir.U32:
		return weir.FromSlice([]uint32{uint32(n)}, c.shape...)
	}
	return weir.FromSlice([]int64{n}, c.shape...)
}

// Begin takes the memory of the next states as far as their sizes are known, before the run.
func (s *Step) Begin(dims weir.Dims) error {
	if s == nil {
		return nil
	}
	s.next = make([]held, len(s.of.states))
	for i, st := range s.of.states {
		bytes, ok := s.of.version.OutputBytes(st.at, dims)
		if st.inPlace || s.end || !ok || bytes <= 0 {
			continue
		}
		var err error
		if s.next[i].buffer, err = s.of.buffers.Get(noWait, bytes); err != nil {
			return err
		}
	}
	return nil
}

// Ran tells how the run ended.
func (s *Step) Ran(err error) {
	if s == nil {
		return
	}
	_, begun := errors.AsType[*weir.StateError](err)
	s.changed = (err == nil || begun) &&
		slices.ContainsFunc(s.of.states, func(st state) bool { return st.inPlace })
}

// Keep makes the outputs of a run the states of the next step.
func (s *Step) Keep(out weir.Outputs) error {
	if s == nil {
		return nil
	}
	if s.next == nil {
		s.next = make([]held, len(s.of.states))
	}
	for i, st := range s.of.states {
		if st.inPlace || s.end {
			continue
		}
		t := out.Get(st.output)
		if t == nil {
			return fmt.Errorf("output %q, which is a state, has no value", st.output)
		}
		data, next := t.Bytes(), &s.next[i]
		if next.buffer != nil && len(next.buffer.Bytes()) != len(data) {
			next.buffer.Close()
			next.buffer = nil
		}
		var err error
		if next.buffer == nil {
			*next, err = s.of.hold(st.dt, int64(len(data)), t.Shape())
		} else {
			err = next.over(st.dt, t.Shape())
		}
		if err != nil {
			return err
		}
		if next.buffer != nil {
			copy(next.buffer.Bytes(), data)
		}
	}
	s.kept = true
	return nil
}

// Done ends the step: with an error it leaves the states as they were, or ends the sequence if they may have changed or
// never were. It returns the error, and says that the sequence has ended.
func (s *Step) Done(err error) error {
	if s == nil {
		return err
	}
	q, at := s.of, s.slot
	q.mu.Lock()
	failed := err != nil || !s.kept
	if at.live && !failed {
		q.stats.Bytes -= bytesOf(at.states)
		for i := range q.states {
			if !q.states[i].inPlace && !s.end {
				at.states[i], s.next[i] = s.next[i], at.states[i]
			}
		}
		q.stats.Bytes += bytesOf(at.states)
	}
	old := s.next
	if ended := s.end && !failed || failed && (s.start || s.changed); at.live && ended {
		old = append(old, q.end(at)...)
		if failed && !s.start {
			err = fmt.Errorf("%w; sequence %s has ended, since its states have changed", err, at.id)
		}
	}
	q.mu.Unlock()
	q.release(old)
	if s.id != nil {
		s.id.Close()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pass(at)
	return err
}
