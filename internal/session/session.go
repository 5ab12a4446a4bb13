// Package session runs a compiled program for several goroutines. It checks the arguments of runs, shares the program's
// calls among the runs, returns results, and releases all memory after the last use. Package weir exports these types
// under its own names, with the documentation for users.
//
// Inputs and outputs are the model's, as users see them. Ports are the program's tensors for them: an input that is a
// sequence, an optional or of strings has several.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/tensor"
)

// Options are the settings of a session.
type Options struct {
	Calls  int          // the most runs that may be active, or have results that are not closed, at once
	Budget int64        // the most bytes that the program may take; 0: no limit
	Poison bool         // closes a call after its run, instead of keeping it for the next: see WEIR_DEBUG
	Logger *slog.Logger // nil: silent
	// Account, if not nil, is asked for what the session and its calls allocate; see weir.Account. It is not asked for
	// the program's fixed part.
	Account mem.Account
	// Recheck returns an error unless the conditions that are not proved for all dimensions are proved for these.
	Recheck func(dims []int64) error
	// Read maps all of the model's files until done is called; First writes the first value of a state into a tensor.
	Read  func() (done func(), err error)
	First func(input string, to *tensor.Tensor) error
	// InFile adds the model's file to an error.
	InFile func(err error) error
	// Torn returns the error of a run that failed with err after it had begun to write these states.
	Torn func(states []string, err error) error
	// End releases what the session's owner holds, after the executable is closed.
	End func() error
}

// Session is a program that is ready to run. Several goroutines may run it at the same time.
type Session struct {
	signature.Signature
	Counts Counts

	options  Options
	prog     *program.Program
	labels   *report.Labels
	engine   mem.Gate[*executor.Executable] // its code and weights, shut by Close; the last user releases all memory
	ledger   any                            // the owner of the program's blocks in the ledger
	made     origin                         // the stack of its compilation
	becomes  []int                          // by input port: the output port that replaces it; −1 if it is no state
	replaces []int                          // by output port: the input port that it replaces; −1 if there is none
	owns     []bool                         // by output port: whether its storage can lie in other memory
	own      []held                         // by input: the program's own tensor for a state; nil if there are none
	files    files                          // the files that runs read in place

	slots chan struct{} // one for each call that may be active
	mu    sync.Mutex
	idle  []*bound // calls that nobody uses, latest last
	held  []holder // open results and calls, oldest first

	closed chan struct{} // closed once all memory is released
	failed error         // the error of releasing the memory

	room  int64        // bytes that the budget leaves for sizes that data determine
	taken atomic.Int64 // bytes taken of room
}

// bound is a call with its dimensions' sizes, in the order of the program's dimensions.
type bound struct {
	call *executor.Call
	dims []int64
}

// New returns a session without a program. Start gives it the program; Reserve may be called before Start.
func New(o Options) *Session {
	return &Session{options: o, slots: make(chan struct{}, o.Calls), closed: make(chan struct{}), made: here()}
}

// Start gives the session its program. The session closes x when Close is called and the last run has ended; if Start
// returns an error, it has closed x.
func (s *Session) Start(p *program.Program, labels *report.Labels, x *executor.Executable) error {
	s.prog, s.labels, s.ledger = p, labels, x
	s.engine.Set(x, func() { s.end(x) })
	for i := range p.Outputs {
		s.owns = append(s.owns, x.Owns(i))
	}
	if err := s.makeOwn(); err != nil {
		x.Close()
		return err
	}
	s.setStates()
	return nil
}

// Enter returns the program's code and weights, which stay valid until Leave. It is ErrClosed after Close; then Leave
// must not be called.
func (s *Session) Enter() (*executor.Executable, error) {
	x, ok := s.engine.Enter()
	if !ok {
		return nil, diag.New(diag.ErrClosed, "the program is closed")
	}
	return x, nil
}

// Leave ends the use that Enter began.
func (s *Session) Leave() { s.engine.Leave() }

// Active returns the number of calls that are running, are bound to a Call, or have results that are not closed; and
// the most that there may be, Options.Calls.
func (s *Session) Active() (now, most int) { return len(s.slots), cap(s.slots) }

// Holdings returns the blocks of the program's calls, from the ledger. If the session is open, made has the frames of
// the user's code that compiled the program.
func (s *Session) Holdings() (list []mem.Holding, made []runtime.Frame, open bool) {
	if _, err := s.Enter(); err != nil {
		return mem.Holdings(s.ledger), nil, false
	}
	defer s.Leave()
	return mem.Holdings(s.ledger), mem.Users(s.made[:]), true
}

// Owns reports whether output port i has storage of its own, which the caller can provide or take.
func (s *Session) Owns(i int) bool { return s.owns[i] }

// NewValue returns the output port that replaces an input port; −1 if the input is no state.
func (s *Session) NewValue(port int) int { return s.becomes[port] }

// label returns the public name of a dimension of the program.
func (s *Session) label(dim int) string { return s.labels.Of[s.prog.Dims[dim].Name] }

// SetRoom sets the bytes that the budget leaves for sizes that data determine: Reserve takes them.
func (s *Session) SetRoom(bytes int64) { s.room = bytes }

// Reserve takes bytes from the budget's room, or returns them if bytes is negative. It is ErrBudget, and takes nothing,
// if the room is too small; without a budget it only counts.
func (s *Session) Reserve(bytes int64) error {
	if taken := s.taken.Add(bytes); s.options.Budget > 0 && bytes > 0 && taken > s.room {
		s.taken.Add(-bytes)
		return diag.New(diag.ErrBudget, "%d more bytes, and the budget of %d leaves %d", bytes, s.options.Budget,
			max(0, s.room-(taken-bytes)))
	}
	return nil
}

// Run runs the program once. If all calls are active or have open results, it waits until one ends, or until ctx ends.
func (s *Session) Run(ctx context.Context, in Arguments) (r *Results, err error) {
	defer s.Counts.Ended(&err)
	defer diag.Recover(&err, "running")
	args, dims, err := s.bindInputs(ctx, in)
	defer args.release()
	if err != nil {
		return nil, err
	}
	if err := args.part(s); err != nil {
		return nil, err
	}
	b, err := s.acquire(ctx, dims)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil { // a panic, too, gives the call back
			s.release(b)
		}
	}()
	if err := args.copyAll(s); err != nil {
		return nil, err
	}
	if err := args.place(b.call); err != nil {
		return nil, err
	}
	if err := s.Unchanged(); err != nil {
		return nil, err
	}
	if err := s.run(ctx, b.call, args.parts, args.states); err != nil {
		return nil, s.torn(err, b.call)
	}
	runtime.KeepAlive(in)
	r, err = s.results(b, args)
	b.call.Unlend()
	return r, err
}

// run passes the arguments to a call and runs it. The elements of states may stay on a device.
func (s *Session) run(ctx context.Context, c *executor.Call, args []*tensor.Tensor, states []state) (err error) {
	defer s.Counts.busy(time.Now())
	var held []lent
	defer func() { returnAll(held, c) }()
	stays := map[int]bool{}
	for _, u := range states {
		if held, stays[u.port], err = s.lendState(c, u.port, u.t, u.data.Bytes(), held); err != nil {
			return err
		}
	}
	for i, a := range args {
		if stays[i] {
			continue
		}
		data := a.Bytes()
		if err := c.Input(i, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return err
		}
	}
	return c.Run(ctx)
}

// Bind returns the sizes that arguments give the program's dimensions, by public name, without the dimensions that data
// determine.
func (s *Session) Bind(in Arguments) (d map[string]int64, err error) {
	defer diag.Recover(&err, "binding dimensions")
	args, values, err := s.bindInputs(mem.Now, in)
	defer args.release()
	if err != nil {
		return nil, err
	}
	d = map[string]int64{}
	for i, dim := range s.prog.Dims {
		if !dim.Data {
			d[s.label(i)] = values[i]
		}
	}
	return d, nil
}

// Prepare makes the first call, for these dimensions, so that the first run takes no longer than later ones. If memory
// is refused, it does nothing: the first run makes the call. So it does under an account, which is asked by runs.
func (s *Session) Prepare(dims []int64) {
	if s.options.Account != nil {
		return
	}
	if b, err := s.acquire(context.Background(), dims); err == nil {
		s.release(b)
	}
}

// holder is a record of an open Results or Call, with the stack that made it. Its key is not the Results, which Go's
// collector may therefore collect.
type holder struct {
	key  any    // identifies the holder for drop
	what string // "result" or "call"
	made origin
}

// hold adds a holder of one of the program's calls to the list that busy reads.
func (s *Session) hold(h holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, h)
}

// drop removes a holder by its key.
func (s *Session) drop(key any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = slices.DeleteFunc(s.held, func(h holder) bool { return h.key == key })
}

// acquire returns a call for the given dimensions, for use until release. It waits until a call is free and the account
// has granted its memory, or until ctx ends. If ctx is nil, it does not wait: if all calls are in use, the error is
// ErrTaken.
func (s *Session) acquire(ctx context.Context, dims []int64) (b *bound, err error) {
	x, err := s.Enter()
	if err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
	default:
		if ctx == nil {
			s.Leave()
			taken := diag.Inputf("all %d calls are taken; %s", cap(s.slots), s.busy()).
				WithFix("close a Results or a Call, or set Options.Calls to more")
			taken.Kind = diag.ErrTaken
			return nil, taken
		}
		begin := time.Now()
		select {
		case s.slots <- struct{}{}:
			s.Counts.waited(begin)
		case <-ctx.Done():
			s.Counts.waited(begin)
			s.Leave()
			return nil, fmt.Errorf("%w: all %d calls are taken; %s", ctx.Err(), cap(s.slots), s.busy())
		}
	}
	defer func() {
		if b == nil { // a panic, too, gives the slot back
			<-s.slots
			s.Leave()
		}
	}()
	if ctx == nil {
		ctx = mem.Now
	}
	return s.take(ctx, x, dims)
}

// busy describes why no call is free, for errors: it names the source line of the oldest open Results or Call.
func (s *Session) busy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		return "the oldest " + s.held[0].what + " not closed is from " + s.held[0].made.line()
	}
	return "all of them are running"
}

// take returns an idle call for the same dimensions. Without one it makes a new call, after it has closed an idle call
// for other dimensions: all calls together never hold more than the certificate says. Under an account, which knows
// what each call holds, it binds the idle call to these dimensions instead if its memory suffices. The account is asked
// with ctx, while no lock is held.
func (s *Session) take(ctx context.Context, x *executor.Executable, dims []int64) (*bound, error) {
	s.mu.Lock()
	for i := len(s.idle) - 1; i >= 0; i-- {
		if b := s.idle[i]; slices.Equal(b.dims, dims) {
			s.idle = slices.Delete(s.idle, i, i+1)
			s.mu.Unlock()
			return b, nil
		}
	}
	var other *bound
	if len(s.idle) > 0 {
		other = s.idle[0]
		s.idle = slices.Delete(s.idle, 0, 1)
	}
	s.mu.Unlock()
	if other != nil && s.options.Account != nil {
		again, err := s.rebind(ctx, x, other, dims)
		switch {
		case err != nil:
			return nil, err
		case again:
			return other, nil
		}
	}
	if other != nil {
		if err := other.call.Close(); err != nil {
			return nil, err
		}
	}
	call, err := s.bind(ctx, x, dims)
	if err != nil {
		return nil, err
	}
	return &bound{call: call, dims: dims}, nil
}

// rebind binds a call that nobody uses to other dimensions, if its memory suffices. After an error the call is closed.
func (s *Session) rebind(ctx context.Context, x *executor.Executable, b *bound, dims []int64) (ok bool, err error) {
	kept := false
	defer func() {
		if !kept { // after a panic, too
			b.call.Close()
		}
	}()
	if err := x.Check(dims); err != nil {
		return false, err
	}
	if err := s.options.Recheck(dims); err != nil {
		return false, err
	}
	if ok, err = b.call.Rebind(ctx, dims); err != nil {
		return false, err
	}
	if kept = true; ok {
		b.dims = dims
	}
	return ok, nil
}

// bind allocates the memory of a call for the given dimensions.
func (s *Session) bind(ctx context.Context, x *executor.Executable, dims []int64) (*executor.Call, error) {
	if err := x.Check(dims); err != nil { // before Recheck: this error names a condition of the model
		return nil, err
	}
	if err := s.options.Recheck(dims); err != nil {
		return nil, err
	}
	return x.Bind(ctx, dims)
}

// release makes a call idle again, or closes it if Options.Poison is set. It frees the slot that acquire took.
func (s *Session) release(b *bound) {
	defer func() { // after a panic, too
		<-s.slots
		s.Leave()
	}()
	b.call.Inside()
	b.call.Unlend()
	if s.options.Poison {
		b.call.Close()
	} else {
		s.mu.Lock()
		s.idle = append(s.idle, b)
		s.mu.Unlock()
	}
}

// Taken returns the bytes that Reserve has taken, less the returned ones.
func (s *Session) Taken() int64 { return s.taken.Load() }

// CloseIdle releases the memory of the calls that nobody uses, and returns the bytes of its pages.
func (s *Session) CloseIdle() (bytes int64, err error) {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	var errs []error
	for _, b := range idle {
		bytes += b.call.HeldPages()
		errs = append(errs, b.call.Close())
	}
	return bytes, errors.Join(errs...)
}

// Close waits for running calls and for open results and calls, until ctx ends, and then releases all memory. It is
// weir.Program.CloseContext.
func (s *Session) Close(ctx context.Context) error {
	s.engine.Shut()
	select {
	case <-s.closed:
		return s.failed
	default:
	}
	select {
	case <-s.closed:
		return s.failed
	case <-ctx.Done():
		return fmt.Errorf("%w: the program is closed, but its memory is in use; %s", ctx.Err(), s.busy())
	}
}

// end releases all memory, once the program is closed and unused.
func (s *Session) end(x *executor.Executable) {
	defer close(s.closed)
	_, err := s.CloseIdle()
	s.failed = errors.Join(err, x.Close(), s.CloseOwn(), s.options.End())
}

// origin is a stack as program counters; it is symbolised only if someone reads it.
type origin [12]uintptr

// here returns the stack above its caller.
func here() (at origin) {
	runtime.Callers(3, at[:])
	return at
}

// line returns the innermost source line outside the package weir and this one, as "file:line".
func (o origin) line() string {
	frames := runtime.CallersFrames(o[:])
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, "github.com/weirml/weir.") ||
			strings.HasPrefix(f.Function, "github.com/weirml/weir/internal/session.")
		if !inside || strings.HasSuffix(f.File, "_test.go") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "?"
		}
	}
}
