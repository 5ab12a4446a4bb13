package ownership

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// lives has one value of every type that can be closed.
type lives struct {
	model   *weir.Model
	program *weir.Program
	memory  *weir.Memory
	call    *weir.Call
	results *weir.Results
	x       *weir.Tensor // an input, also bound to the call
	place   *weir.Tensor // bound to the call's output
	scores  *weir.Tensor // an output of the results
	own     *weir.Tensor // consumed by its first user
	dims    weir.Dims
	in      weir.Inputs
	ended   context.Context
}

// newLives loads and compiles the model at path, and makes its call, results and tensors.
func newLives(t *testing.T, path string, o weir.Options) *lives {
	t.Helper()
	w := &lives{dims: weir.Dims{"batch": 3}}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var err error
	w.model, err = weir.Load(path)
	must(err)
	w.program, err = weir.Compile(t.Context(), w.model, o)
	must(err)
	w.memory = w.program.Memory()
	w.x, err = weir.New(weir.F32, 3, 1, 8, 8)
	must(err)
	w.own, err = weir.New(weir.F32, 3, 1, 8, 8)
	must(err)
	w.place, err = weir.New(weir.F32, 3, 10)
	must(err)
	w.in = weir.Inputs{"image": w.x}
	w.call, err = w.program.NewCall(w.dims)
	must(err)
	must(w.call.Bind("image", w.x))
	must(w.call.Bind("scores", w.place))
	w.results, err = w.program.Run(t.Context(), w.in)
	must(err)
	w.scores = w.results.At(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.ended = ctx
	return w
}

// end closes everything; the test may have closed some of it.
func (w *lives) end(t *testing.T) {
	t.Helper()
	for _, c := range []io.Closer{w.results, w.call, w.program, w.model, w.x, w.own, w.place} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// closers are the methods that close, by name. After them, others return ErrClosed.
var closers = map[string]func(w *lives) error{
	"Program.Close":        func(w *lives) error { return w.program.Close() },
	"Program.CloseContext": func(w *lives) error { return allow(w.program.CloseContext(w.ended), context.Canceled) },
	"Model.Close":          func(w *lives) error { return w.model.Close() },
	"Call.Close":           func(w *lives) error { return w.call.Close() },
	"Results.Close":        func(w *lives) error { return w.results.Close() },
	"Tensor.Close": func(w *lives) error {
		return errors.Join(w.x.Close(), w.scores.Close(), w.place.Close(), w.own.Close())
	},
}

// allow returns nil if err is of one of the kinds, and err otherwise.
func allow(err error, kinds ...error) error {
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return nil
	}
	return err
}

// consumed runs the program on a tensor that it consumes, unless the tensor is consumed already.
func (w *lives) consumed(ctx context.Context) error {
	r, err := w.program.Run(ctx, weir.Inputs{"image": weir.Consume(w.own)})
	if err != nil {
		return err
	}
	return r.Close()
}

// uses are all other methods, and the functions that take a value that can be closed. A method that is missing here
// fails TestClosedBesideUse.
var uses = map[string]func(ctx context.Context, w *lives) error{
	"Compile": func(ctx context.Context, w *lives) error {
		p, err := weir.Compile(ctx, w.model, weir.Options{Target: weir.Portable, Threads: 1})
		if err != nil {
			return err
		}
		return p.Close()
	},
	"Consume": func(ctx context.Context, w *lives) error { return w.consumed(ctx) },
	"Copy":    func(_ context.Context, w *lives) error { _, err := weir.Copy[float32](w.scores); return err },
	"View":    func(_ context.Context, w *lives) error { _, err := weir.View[float32](w.x); return err },

	"Call.Bind": func(_ context.Context, w *lives) error {
		return errors.Join(w.call.Bind("image", w.x), w.call.Bind("scores", w.place))
	},
	"Call.Input": func(_ context.Context, w *lives) error { w.call.Input("image"); return nil },
	"Call.Output": func(_ context.Context, w *lives) error {
		if y := w.call.Output("scores"); y != nil {
			_, err := weir.Copy[float32](y)
			return err
		}
		return nil
	},
	"Call.Run": func(ctx context.Context, w *lives) error { return w.call.Run(ctx) },

	"Memory.Asked":      func(_ context.Context, w *lives) error { _, err := w.memory.Asked(1, w.dims); return err },
	"Memory.Call":       func(_ context.Context, w *lives) error { _, err := w.memory.Call(w.dims); return err },
	"Memory.Copies":     func(_ context.Context, w *lives) error { _, err := w.memory.Copies(); return err },
	"Program.Laid":      func(_ context.Context, w *lives) error { w.program.Laid(); return nil },
	"Memory.PageFolder": func(_ context.Context, w *lives) error { w.memory.PageFolder(); return nil },
	"Memory.Limit":      func(_ context.Context, w *lives) error { _, err := w.memory.Limit(1); return err },
	"Memory.LimitAt":    func(_ context.Context, w *lives) error { _, err := w.memory.LimitAt(1, w.dims); return err },
	"Memory.Donating":   func(_ context.Context, w *lives) error { _, err := w.memory.Donating("image"); return err },
	"Memory.Formula":    func(_ context.Context, w *lives) error { _ = w.memory.Formula(2).String(); return nil },
	"Memory.Of":         func(_ context.Context, w *lives) error { _, err := w.memory.Of("scores"); return err },
	"Memory.Binding":    func(_ context.Context, w *lives) error { _, err := w.memory.Binding("scores"); return err },
	"Memory.LargestStep": func(_ context.Context, w *lives) error {
		_, _, err := w.memory.LargestStep(w.dims)
		return err
	},
	"Memory.Max":    func(_ context.Context, w *lives) error { _, err := w.memory.Max(1); return err },
	"Memory.Peak":   func(_ context.Context, w *lives) error { _, err := w.memory.Peak(1, w.dims); return err },
	"Memory.PeakAt": func(_ context.Context, w *lives) error { _, _, err := w.memory.PeakAt(w.dims); return err },
	"Memory.PeakWith": func(_ context.Context, w *lives) error {
		_, err := w.memory.PeakWith(1, w.dims, weir.Measurement{})
		return err
	},
	"Memory.String": func(_ context.Context, w *lives) error { _ = w.memory.String(); return nil },

	"Model.Compare": func(ctx context.Context, w *lives) error {
		d, err := w.model.Compare(ctx, w.in, 1e-3, 1e-3)
		if d != nil {
			return errors.New(d.String())
		}
		return err
	},
	"Model.Describe": func(_ context.Context, w *lives) error { w.model.Describe(); return nil },
	"Model.Inputs":   func(_ context.Context, w *lives) error { w.model.Inputs(); return nil },
	"Model.Metadata": func(_ context.Context, w *lives) error { w.model.Metadata(); return nil },
	"Model.Outputs":  func(_ context.Context, w *lives) error { w.model.Outputs(); return nil },

	"Program.Bind": func(_ context.Context, w *lives) error { _, err := w.program.Bind(w.in); return err },
	"Program.CPU":  func(_ context.Context, w *lives) error { w.program.CPU(); return nil },
	"Program.Compare": func(ctx context.Context, w *lives) error {
		_, err := w.program.Compare(ctx, w.in, 1e-3, 1e-3)
		return err
	},
	"Program.Decided": func(_ context.Context, w *lives) error { w.program.Decided(); return nil },
	"Program.Dims":    func(_ context.Context, w *lives) error { w.program.Dims(); return nil },
	"Program.Initial": func(_ context.Context, w *lives) error { // the digits model does not have a state
		_, err := w.program.Initial("image")
		return allow(err, weir.ErrInput)
	},
	"Program.Inputs":     func(_ context.Context, w *lives) error { w.program.Inputs(); return nil },
	"Program.ValueRange": func(_ context.Context, w *lives) error { w.program.ValueRange("image", w.dims); return nil },
	"Program.Measure":    func(ctx context.Context, w *lives) error { _, err := w.program.Measure(ctx, w.in); return err },
	"Program.Memory":     func(_ context.Context, w *lives) error { _ = w.program.Memory().String(); return nil },
	"Program.NewCall": func(_ context.Context, w *lives) error {
		c, err := w.program.NewCall(w.dims)
		if err != nil {
			return allow(err, context.Canceled) // all calls are in use
		}
		return c.Close()
	},
	"Program.Observe":    func(ctx context.Context, w *lives) error { _, err := w.program.Observe(ctx, w.in); return err },
	"Program.Rows":       func(_ context.Context, w *lives) error { return w.program.Rows("batch") },
	"Program.Trim":       func(_ context.Context, w *lives) error { _, err := w.program.Trim(); return err },
	"Program.Operations": func(_ context.Context, w *lives) error { _ = w.program.Operations().String(); return nil },
	"Program.Outputs":    func(_ context.Context, w *lives) error { w.program.Outputs(); return nil },
	"Program.Plan":       func(_ context.Context, w *lives) error { _, err := w.program.Plan(w.dims); return err },
	"Program.Profile": func(ctx context.Context, w *lives) error {
		_, err := w.program.Profile(ctx, w.in, 1)
		return err
	},
	"Program.Proved":  func(_ context.Context, w *lives) error { w.program.Proved(); return nil },
	"Program.Check":   func(_ context.Context, w *lives) error { return w.program.Check(weir.Dims{"batch": 1}) },
	"Program.Checks":  func(_ context.Context, w *lives) error { w.program.Checks(); return nil },
	"Program.Kernels": func(_ context.Context, w *lives) error { w.program.Kernels(); return nil },
	"Program.OnHost":  func(_ context.Context, w *lives) error { w.program.OnHost(); return nil },
	"Program.DeviceKernels": func(_ context.Context, w *lives) error {
		w.program.DeviceKernels()
		return nil
	},
	"Program.Requires": func(_ context.Context, w *lives) error { w.program.Requires(); return nil },
	"Program.Run": func(ctx context.Context, w *lives) error {
		r, err := w.program.Run(ctx, w.in)
		if err != nil {
			return err
		}
		_, err = weir.Copy[float32](r.At(0))
		return errors.Join(err, r.Close())
	},
	"Program.Savings": func(_ context.Context, w *lives) error { w.program.Savings(); return nil },
	"Program.States":  func(_ context.Context, w *lives) error { w.program.States(); return nil },
	"Program.Stats":   func(_ context.Context, w *lives) error { w.program.Stats(); return nil },
	"Program.Target":  func(_ context.Context, w *lives) error { w.program.Target(); return nil },
	"Program.Tuned":   func(_ context.Context, w *lives) error { w.program.Tuned(); return nil },
	"Program.WriteHeapProfile": func(_ context.Context, w *lives) error {
		return w.program.WriteHeapProfile(io.Discard)
	},
	"Program.WriteTo": func(_ context.Context, w *lives) error {
		_, err := w.program.WriteTo(new(bytes.Buffer))
		return err
	},

	"Results.All": func(_ context.Context, w *lives) error {
		for range w.results.All() {
		}
		return nil
	},
	"Results.At":       func(_ context.Context, w *lives) error { w.results.At(0); return nil },
	"Results.Detach":   func(_ context.Context, w *lives) error { return allow(w.results.Detach(), weir.ErrInput) },
	"Results.Get":      func(_ context.Context, w *lives) error { w.results.Get("scores"); return nil },
	"Results.Sequence": func(_ context.Context, w *lives) error { w.results.Sequence("scores"); return nil },

	"Tensor.Bytes":  func(_ context.Context, w *lives) error { w.scores.Bytes(); return nil },
	"Tensor.DType":  func(_ context.Context, w *lives) error { w.x.DType(); return nil },
	"Tensor.Floats": func(_ context.Context, w *lives) error { _, err := w.scores.Floats(); return err },
	"Tensor.SetFloats": func(_ context.Context, w *lives) error {
		return w.place.SetFloats(make([]float32, w.place.Len()))
	},
	"Tensor.Fixed":  func(_ context.Context, w *lives) error { w.x.Fixed(); return nil },
	"Tensor.Len":    func(_ context.Context, w *lives) error { w.x.Len(); return nil },
	"Tensor.Shape":  func(_ context.Context, w *lives) error { w.scores.Shape(); return nil },
	"Tensor.String": func(_ context.Context, w *lives) error { _ = w.scores.String(); return nil },
}

// TestEveryMethod: each exported method of the types that can be closed has a case in the tests below.
func TestEveryMethod(t *testing.T) {
	known := map[string]bool{}
	for _, value := range []any{&weir.Program{}, &weir.Model{}, &weir.Call{}, &weir.Results{}, &weir.Tensor{},
		&weir.Memory{}} {
		kind := reflect.TypeOf(value)
		for i := range kind.NumMethod() {
			name := kind.Elem().Name() + "." + kind.Method(i).Name
			known[name] = true
			if uses[name] == nil && closers[name] == nil {
				t.Errorf("no case says what %s does beside Close", name)
			}
		}
	}
	for name := range uses {
		if strings.Contains(name, ".") && !known[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// TestClosedBesideUse runs every exported method beside every closing one: whichever comes first, the method returns
// its result, ErrClosed or another of the user's errors. Nothing touches released memory, and in the end all memory is
// released.
func TestClosedBesideUse(t *testing.T) {
	path, before := weirtest.DigitsFile(t), weir.Usage().Current
	names := slices.Sorted(maps.Keys(uses))
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for _, target := range []weir.Target{weir.Portable, weir.Best} {
		for closer, close := range closers {
			for round := range rounds {
				random := rand.New(rand.NewPCG(uint64(round), 5))
				w := newLives(t, path, weir.Options{Target: target, Calls: 3, Threads: 2})
				var done atomic.Int64
				var all sync.WaitGroup
				at := random.Int64N(int64(len(names)))
				for _, i := range random.Perm(len(names)) {
					all.Go(func() {
						err := uses[names[i]](t.Context(), w)
						if err = allow(err, weir.ErrClosed, weir.ErrInput); err != nil {
							t.Errorf("%s beside %s: %v", names[i], closer, err)
						}
						if done.Add(1) == at+1 && closer != "Program.Close" {
							if err := close(w); err != nil {
								t.Errorf("%s: %v", closer, err)
							}
						}
					})
				}
				if closer == "Program.Close" { // it waits for the results that the end below closes
					all.Go(func() {
						if err := close(w); err != nil {
							t.Error(err)
						}
					})
					w.results.Close()
					w.call.Close()
				}
				all.Wait()
				w.end(t)
			}
		}
	}
	weir.Trim()
	if after := weir.Usage().Current; after != before {
		t.Errorf("%d bytes are left, %d were held before", after, before)
	}
}

// TestAfterClose: after everything is closed, each method returns ErrClosed, or facts that need no memory.
func TestAfterClose(t *testing.T) {
	w := newLives(t, weirtest.DigitsFile(t), weir.Options{Calls: 3, Threads: 2})
	w.end(t)
	w.end(t)
	for name, use := range uses {
		if err := allow(use(t.Context(), w), weir.ErrClosed, weir.ErrInput); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.scores.Bytes() != nil || w.call.Output("scores") != nil || len(w.program.Inputs()) != 1 ||
		w.memory.String() == "" {
		t.Error("what is told of a closed program is wrong")
	}
}

// TestCloseContext closes a program whose result is open: Close ends with the context's error and the result's line.
// The program is then closed for all, and its memory is released with the result.
func TestCloseContext(t *testing.T) {
	before := weir.Usage().Current
	for holder, hold := range map[string]func(w *lives) io.Closer{
		"result": func(w *lives) io.Closer { w.call.Close(); return w.results },
		"call":   func(w *lives) io.Closer { w.results.Close(); return w.call },
	} {
		w := newLives(t, weirtest.DigitsFile(t), weir.Options{Calls: 3})
		open := hold(w)
		for range 2 {
			err := w.program.CloseContext(w.ended)
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(),
				"the oldest "+holder+" not closed is from ") || !strings.Contains(err.Error(), "lifetimes_test.go:") {
				t.Errorf("with an open %s: %v", holder, err)
			}
		}
		if _, err := w.program.Run(t.Context(), w.in); !errors.Is(err, weir.ErrClosed) {
			t.Errorf("a run of a closing program: %v", err)
		}
		if holder == "result" {
			if data, err := weir.Copy[float32](w.scores); err != nil || len(data) != 30 {
				t.Errorf("a result of a closing program: %d, %v", len(data), err)
			}
		} else if err := w.call.Run(t.Context()); err != nil {
			t.Errorf("a call of a closing program: %v", err)
		}
		if weir.Usage().Arenas == 0 {
			t.Error("the memory is gone while it is in use")
		}
		if err := open.Close(); err != nil {
			t.Error(err)
		}
		if err := w.program.CloseContext(w.ended); err != nil {
			t.Errorf("with nothing open any more: %v", err)
		}
		w.end(t)
	}
	weir.Trim()
	if after := weir.Usage().Current; after != before {
		t.Errorf("%d bytes are left, %d were held before", after, before)
	}
}

// aliasOf returns another tensor over the same memory.
func aliasOf[T weir.Element](t *testing.T, x *weir.Tensor) *weir.Tensor {
	view, err := weir.View[T](x)
	if err != nil {
		t.Error(err)
		return x
	}
	y, err := weir.FromSlice(view, x.Shape()...)
	if err != nil {
		t.Error(err)
		return x
	}
	return y
}

// TestStatesOfOneMemory: of several runs at once that update the same memory, by different tensors, all but one are
// refused.
func TestStatesOfOneMemory(t *testing.T) {
	states, _ := training(t)
	p := weirtest.MustCompileText(t, states, weir.Options{Calls: 2, Dims: map[string]weir.Range{}})
	random := rand.New(rand.NewPCG(1, 1))
	dims := weir.Dims{}
	for _, d := range p.Dims() {
		dims[d.Name] = max(d.Min, min(d.Max, 3))
	}
	list := weirtest.Tensors(t, p, dims, random)
	in := weirtest.Arguments(p, list)
	var all sync.WaitGroup
	var ran, refused atomic.Int64
	for range 4 {
		all.Go(func() {
			for range 20 {
				other := maps.Clone(in)
				for _, info := range p.Inputs() {
					if info.State != "" { // another tensor over the same memory
						again := aliasOf[float32]
						if info.DType == weir.I64 {
							again = aliasOf[int64]
						}
						other[info.Name] = weir.Update(again(t, list[info.Name]))
					}
				}
				r, err := p.Run(t.Context(), other)
				switch {
				case err == nil:
					ran.Add(1)
					r.Close()
				case errors.Is(err, weir.ErrInput) && strings.Contains(err.Error(), "another run is updating"):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if ran.Load() == 0 || ran.Load()+refused.Load() != 80 {
		t.Errorf("%d ran, %d were refused", ran.Load(), refused.Load())
	}
}

// TestClosedPlace: a call whose bound output is closed is refused before anything is written.
func TestClosedPlace(t *testing.T) {
	w := newLives(t, weirtest.DigitsFile(t), weir.Options{Calls: 2})
	defer w.end(t)
	w.place.Close()
	if err := w.call.Run(t.Context()); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a run into a closed tensor: %v", err)
	}
}

// overdue is a context whose deadline is over and whose timer has not yet ended it.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestOverdue runs a model after its deadline and before the timer has ended the context, as happens while all
// processors compute.
func TestOverdue(t *testing.T) {
	const source = "weir 1\nir @m {\ndim n in [0, inf]\nmain @main(%x: f32[n]) {\n  %y: f32[n] = exp(%x)\n  %z: f32[1] " +
		"= reduce_sum(%y) {axes = ints [0], keep = bool true}\n  return %z\n}\n}"
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
	defer m.Close()
	for _, target := range []weir.Target{weir.CPU, weir.Portable} {
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Target: target}))
		defer p.Close()
		x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(make([]float32, 1<<22), 1<<22))
		defer x.Close()
		if _, err := p.Run(overdue{t.Context()}, weir.Inputs{"x": x}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", target, err)
		}
		weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": x})).Close()
	}
}
