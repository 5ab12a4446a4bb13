package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// purse is an account that compares its balance with what the process holds.
type purse struct {
	base    int64 // held by others
	balance atomic.Int64
	takes   atomic.Int64
	refuse  atomic.Int64 // refuses the Take after so many, if it is not 0
	mu      sync.Mutex
	faults  []string
}

var errPurse = errors.New("the purse is shut")

func (p *purse) Take(_ context.Context, bytes int64) error {
	p.look()
	if bytes <= 0 {
		p.fault("Take(%d)", bytes)
	}
	if n := p.takes.Add(1); n == p.refuse.Load() {
		return errPurse
	}
	p.balance.Add(bytes)
	return nil
}

func (p *purse) Give(bytes int64) {
	if bytes <= 0 {
		p.fault("Give(%d)", bytes)
	}
	if left := p.balance.Add(-bytes); left < 0 {
		p.fault("the balance is %d", left)
	}
	p.look()
}

func (p *purse) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// held returns what the process holds beside others and arguments.
func (p *purse) held() int64 { return mem.Usage().Held - p.base }

// look records a fault if more is held than was granted. A grant and a return meanwhile may hide the balance at the
// moment at which the ledger was read, so it looks again.
func (p *purse) look() {
	var before, held, after int64
	for range 3 {
		before = p.balance.Load()
		held = p.held()
		if after = p.balance.Load(); held <= max(before, after) {
			return
		}
	}
	p.fault("%d bytes are held, %d granted", held, after)
}

// quiet checks that as many bytes are granted as are held.
func (p *purse) quiet(t *testing.T, when string) {
	t.Helper()
	if held, granted := p.held(), p.balance.Load(); held != granted {
		t.Errorf("%s: %d bytes are held, %d granted", when, held, granted)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		t.Errorf("%s: %s", when, f)
	}
	p.faults = nil
}

// sampled looks at the purse until stop is called.
func (p *purse) sampled() (stop func()) {
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				p.look()
				time.Sleep(20 * time.Microsecond)
			}
		}
	}()
	return func() { close(end); <-ended }
}

// accounted are models of every kind of memory.
func accounted(t *testing.T) []limited {
	list := limitedModels(t)
	digits, stored := "examples/digits/data/digits.onnx", list[slices.IndexFunc(list, func(l limited) bool {
		return l.name == "artefact"
	})].path
	one := map[string]weir.Range{"batch": {Min: 1, Max: 1}}
	list = append(list, limited{"private", digits, weir.Options{Private: true, Dims: one}},
		limited{"private artefact", stored, weir.Options{Private: true, Dims: one}},
		limited{"portable artefact", stored, weir.Options{CPU: "portable", Dims: one}},
		limited{"states of its own", "testdata/torch/states.pt2", weir.Options{}})
	for _, name := range []string{"texts", "sequences", "nonzero_use", "loop_growing_data", "compress_unique", "two_dims",
		"attention_two_dims", "optionals", "resize_kinds", "image_rows", "sequences_looped", "kv_cache"} {
		list = append(list, limited{name, "testdata/onnx/" + name + "/model.onnx", weir.Options{}})
	}
	return list
}

// given returns arguments for a program: the stored ones, or zeros with the dimensions at v, as far as they allow it.
func (l *limited) given(t *testing.T, p *weir.Program, v int64) weir.Inputs {
	in, folder := weir.Inputs{}, filepath.Join(filepath.Dir(l.path), "test_data_set_0")
	sizes := map[string]int64{}
	for _, d := range p.Dims() {
		sizes[d.Name] = min(max(v, d.Min), d.Max)
	}
	for i, info := range p.Inputs() {
		if info.Initial {
			continue
		}
		if path := filepath.Join(folder, fmt.Sprintf("input_%d.pb", i)); len(l.o.Dims) == 0 && exists(path) {
			in[info.Name] = weirtest.Stored(t, path, info)
			continue
		}
		var shape []int
		for _, e := range info.Shape {
			if e.Dim != "" {
				e.Size = sizes[e.Dim]
			}
			shape = append(shape, int(e.Size))
		}
		x := weirtest.Must[*weir.Tensor](t)(weir.New(info.DType, shape...))
		t.Cleanup(func() { x.Close() })
		if in[info.Name] = x; info.State != "" {
			in[info.Name] = weir.Update(x)
		}
	}
	return in
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// TestAccount compares an account with the bytes that are held, at every request and between them, for models of every
// kind of memory; then once more with files that are read into memory instead of mapped.
func TestAccount(t *testing.T) {
	for _, l := range accounted(t) {
		t.Run(l.name, func(t *testing.T) { l.account(t) })
	}
	if os.Getenv("WEIR_MAP") != "off" && !t.Failed() {
		again := exec.Command(os.Args[0], "-test.run=^TestAccount$", "-test.count=1")
		again.Env = append(os.Environ(), "WEIR_MAP=off")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("WEIR_MAP=off: %v\n%s", err, out)
		}
	}
}

func (l *limited) account(t *testing.T) {
	ctx := context.Background()
	sample := weirtest.Must[*weir.Model](t)(weir.Load(l.path))
	l.o.Calls, l.o.Threads = max(1, l.o.Calls), max(l.o.Threads, 2)
	first := weirtest.Must[*weir.Program](t)(weir.Compile(ctx, sample, l.o))
	small, large := l.given(t, first, 1), l.given(t, first, 5)
	first.Close()
	sample.Close()
	weir.Trim()

	purse := &purse{base: mem.Usage().Held}
	m := weirtest.Must[*weir.Model](t)(weir.Load(l.path))
	defer m.Close()
	loaded := purse.held() // with files in memory
	purse.base += loaded
	o := l.o
	o.Account = purse
	if o.Budget == 0 {
		o.Calls = 2
	}
	purse.base -= loaded
	purse.balance.Add(loaded) // until the program has asked for it
	p := weirtest.Must[*weir.Program](t)(weir.Compile(ctx, m, o))
	if purse.balance.Add(-loaded); purse.takes.Load() > 2 || loaded == 0 && purse.takes.Load() > 1 {
		t.Errorf("compiling asked %d times", purse.takes.Load())
	}
	purse.quiet(t, "after compiling")
	if asked, err := p.Memory().Asked(1, boundTo(t, p, small)); err == nil { // else a size has no bound
		if own := asked.Weights + asked.Files - asked.Reclaimable + asked.Code; own != purse.balance.Load() {
			t.Errorf("the program's own part is %d, and %d are granted", own, purse.balance.Load())
		}
	}
	fixed := purse.balance.Load()
	stop := purse.sampled()
	l.use(t, p, purse, small, large)
	before := purse.balance.Load()
	if bytes, err := p.Trim(); err != nil || before-purse.balance.Load() != bytes || purse.balance.Load() != fixed {
		t.Errorf("trimmed %d, %v; %d were granted, %d are, %d for the program", bytes, err, before, purse.balance.Load(),
			fixed)
	}
	stop()
	purse.quiet(t, "after Trim")
	l.refused(t, p, purse, large)
	m.Close() // it holds files in memory, too
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Trim(); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("trimming a closed program: %v", err)
	}
	purse.quiet(t, "after Close")
	if purse.balance.Load() != 0 {
		t.Errorf("%d are granted to a closed program", purse.balance.Load())
	}
}

func boundTo(t *testing.T, p *weir.Program, in weir.Inputs) weir.Dims {
	return weirtest.Must[weir.Dims](t)(p.Bind(in))
}

// use runs a program in every way.
func (l *limited) use(t *testing.T, p *weir.Program, purse *purse, small, large weir.Inputs) {
	ctx := context.Background()
	for round, in := range []weir.Inputs{small, large, small} {
		before, takes := purse.balance.Load(), purse.takes.Load()
		want, err := p.Memory().Call(boundTo(t, p, in))
		r, failed := p.Run(ctx, in)
		if failed != nil {
			t.Fatal(failed)
		}
		purse.quiet(t, "with results")
		if got := purse.balance.Load() - before; round == 0 && purse.takes.Load() == takes+1 && (err != nil || got != want) {
			t.Errorf("the call took %d, Memory.Call says %d, %v", got, want, err)
		}
		r.Close()
		purse.quiet(t, "after a run")
		again := weirtest.Must[*weir.Results](t)(p.Run(ctx, in))
		if err := again.Detach(); err != nil {
			t.Error(err)
		}
		purse.quiet(t, "with detached results")
		next := weirtest.Must[*weir.Results](t)(p.Run(ctx, in))
		purse.quiet(t, "after a run beside detached results")
		next.Close()
		again.Close()
		purse.quiet(t, "after closing detached results")
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 10 {
				in := small
				if i%2 == 0 {
					in = large
				}
				if slices.ContainsFunc(p.Inputs(), func(i weir.Info) bool { return i.State != "" }) && i > 0 {
					return // one run at a time updates a state
				}
				r, err := p.Run(ctx, in)
				if err != nil {
					t.Error(err)
					return
				}
				r.Close()
				if i == 3 {
					if _, err := p.Trim(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	purse.quiet(t, "after runs at once")
	if c, err := p.NewCall(boundTo(t, p, small)); err == nil {
		for name, a := range small {
			if err := c.Bind(name, a); err != nil {
				t.Error(err)
			}
		}
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		purse.quiet(t, "with a call")
		c.Close()
		purse.quiet(t, "after a call")
	}
}

// refused refuses each request of a run and of a compilation.
func (l *limited) refused(t *testing.T, p *weir.Program, purse *purse, in weir.Inputs) {
	for k := int64(1); ; k++ {
		if _, err := p.Trim(); err != nil {
			t.Fatal(err)
		}
		before := purse.balance.Load()
		purse.takes.Store(0)
		purse.refuse.Store(k)
		r, err := p.Run(context.Background(), in)
		purse.refuse.Store(0)
		if err == nil {
			r.Close()
			return
		}
		if !errors.Is(err, errPurse) || !errors.Is(err, weir.ErrMemory) {
			t.Errorf("request %d of a run: %v", k, err)
		}
		purse.quiet(t, "after a refused run")
		if _, err := p.Trim(); err != nil || purse.balance.Load() != before {
			t.Errorf("after request %d was refused, %d are granted, %d before: %v", k, purse.balance.Load(), before, err)
		}
	}
}
