package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/internal/mem"
)

// table looks up rows by ids, which must be below 5, and adds another input to them.
const table = `weir 1
ir @table {
  dim batch in [1, 8]
  dim n in [1, 4]
  main @main(%ids: i64[batch], %x: f32[batch, n]) {
    const %rows: f32[5, 1] = [0, 10, 20, 30, 40]
    %row: f32[batch, 1] = gather(%rows, %ids) {axis = int 0}
    %y: f32[batch, n] = add(%row, %x)
    return %y
  }
}
`

func compile(t testing.TB, text string, o weir.Options) *weir.Program {
	t.Helper()
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func start(t testing.TB, p *weir.Program, o batch.Options) *batch.Batcher {
	t.Helper()
	b, err := batch.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func tensor[T weir.Element](t testing.TB, data []T, shape ...int) *weir.Tensor {
	t.Helper()
	x, err := weir.FromSlice(data, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// inputs returns rows of so many columns, whose ids count from first on.
func inputs(t testing.TB, first int64, rows, columns int) weir.Inputs {
	ids, x := make([]int64, rows), make([]float32, rows*columns)
	for i := range ids {
		ids[i] = (first + int64(i)) % 5
	}
	for i := range x {
		x[i] = float32(i) / 8
	}
	return weir.Inputs{"ids": tensor(t, ids, rows), "x": tensor(t, x, rows, columns)}
}

// check compares results with the rows of the table.
func check(t testing.TB, r weir.Outputs, first int64, rows, columns int) {
	t.Helper()
	got, err := weir.Copy[float32](r.Get("y"))
	if err != nil {
		t.Error(err)
		return
	}
	for i, v := range got {
		if want := float32((first+int64(i/columns))%5*10) + float32(i)/8; v != want {
			t.Errorf("element %d is %v, not %v", i, v, want)
		}
	}
	if !slices.Equal(r.At(0).Shape(), []int{rows, columns}) || r.Get("z") != nil {
		t.Errorf("%v", r.At(0))
	}
}

// TestJoined: a run has the rows of all waiting requests that fit and have equal other dimensions.
func TestJoined(t *testing.T) {
	p := compile(t, table, weir.Options{})
	b := start(t, p, batch.Options{Wait: time.Minute})
	ask := func(rows, columns int) {
		r, err := b.Run(t.Context(), inputs(t, int64(rows), rows, columns))
		if err != nil {
			t.Error(err)
			return
		}
		check(t, r, int64(rows), rows, columns)
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
	before := p.Stats().Runs
	var all sync.WaitGroup
	for _, rows := range []int{1, 2, 5} { // eight in all: no request waits
		all.Go(func() { ask(rows, 3) })
	}
	for range 8 {
		all.Go(func() { ask(1, 2) })
	}
	all.Wait()
	if runs := p.Stats().Runs - before; runs != 2 {
		t.Errorf("%d runs for two kinds of requests", runs)
	}
	ask(8, 1) // fills a run by itself
}

// TestWait: a request that no other joins runs after its wait.
func TestWait(t *testing.T) {
	b := start(t, compile(t, table, weir.Options{}), batch.Options{Wait: 30 * time.Millisecond})
	begin := time.Now()
	r, err := b.Run(t.Context(), inputs(t, 0, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if took := time.Since(begin); took < 30*time.Millisecond {
		t.Errorf("it waited %v", took)
	}
}

// TestErrors: a request at fault is refused with an error of its own, and the others of its run get their results.
func TestErrors(t *testing.T) {
	p := compile(t, table, weir.Options{})
	b := start(t, p, batch.Options{Wait: 50 * time.Millisecond, Rows: 6})
	run := func(in weir.Inputs) error {
		r, err := b.Run(t.Context(), in)
		if err == nil {
			r.Close()
		}
		return err
	}
	var rows *batch.RowsError
	if err := run(inputs(t, 0, 7, 2)); !errors.As(err, &rows) || rows.Rows != 7 || rows.Most != 6 ||
		!errors.Is(err, weir.ErrInput) {
		t.Errorf("seven rows: %v", err)
	}
	if err := run(inputs(t, 0, 0, 2)); !errors.As(err, &rows) || rows.Rows != 0 {
		t.Errorf("no rows: %v", err)
	}
	whole, closed := inputs(t, 0, 2, 2), inputs(t, 0, 2, 2)
	x, err := weir.New(weir.F32, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	closed["x"] = x
	for name, in := range map[string]weir.Inputs{
		"nothing": nil, "one missing": {"x": whole["x"]}, "another": {"ids": whole["ids"], "x": whole["x"], "z": whole["x"]},
		"columns": inputs(t, 0, 2, 9), "rows that differ": {"ids": tensor(t, []int64{1}, 1), "x": whole["x"]},
		"type": {"ids": whole["x"], "x": whole["x"]}, "rank": {"ids": whole["ids"], "x": tensor(t, []float32{1, 2}, 2)},
		"nil": {"ids": (*weir.Tensor)(nil), "x": whole["x"]}, "a scalar": {"ids": weir.Scalar(int64(1)), "x": whole["x"]},
	} {
		if err := run(in); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := run(weir.Inputs{"ids": whole["ids"], "x": weir.Consume(x)}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("consumed: %v", err)
	}
	if err := run(closed); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	// The table does not have a row for one id among others: the joined run fails, and then each request runs by
	// itself.
	bad := inputs(t, 0, 1, 2)
	bad["ids"] = tensor(t, []int64{99}, 1)
	failed := make([]error, 4)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			in := inputs(t, 1, 1, 2)
			if i == 2 {
				in = bad
			}
			failed[i] = run(in)
		})
	}
	all.Wait()
	for i, err := range failed {
		if (i == 2) != errors.Is(err, weir.ErrInput) || i != 2 && err != nil {
			t.Errorf("request %d of four: %v", i, err)
		}
	}
}

// TestCancelled: a caller whose context ends is answered at once, and the others of its run get their results.
func TestCancelled(t *testing.T) {
	b := start(t, compile(t, table, weir.Options{}), batch.Options{Wait: time.Minute, InFlight: 9})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.Run(ctx, inputs(t, 0, 2, 2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := b.Run(ctx, inputs(t, 0, 2, 2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended before: %v", err)
	}
	r, err := b.Run(t.Context(), inputs(t, 0, 8, 2)) // the two rows do not occupy the run
	if err != nil {
		t.Fatal(err)
	}
	// Eight rows of results are open, and nine are allowed: two rows wait until results are closed.
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.Run(ctx, inputs(t, 0, 2, 2)); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "not closed") {
		t.Errorf("%v", err)
	}
	r.Close()
	if r, err = b.Run(t.Context(), inputs(t, 0, 8, 2)); err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestClose: waiting requests get their results, further ones are refused, and nothing is left.
func TestClose(t *testing.T) {
	p := compile(t, table, weir.Options{Calls: 2})
	goroutines, held := runtime.NumGoroutine(), weir.Usage().Tensors
	b, err := batch.New(p, batch.Options{Wait: time.Hour, InFlight: 8})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for columns := range 3 {
		all.Go(func() {
			r, err := b.Run(t.Context(), inputs(t, 1, 2, columns+1))
			if err != nil {
				t.Error(err)
				return
			}
			check(t, r, 1, 2, columns+1)
			r.Close()
		})
	}
	var outside error
	for outside == nil { // when all three wait, there is no room for three rows
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, outside = b.Run(ctx, inputs(t, 1, 3, 1))
		cancel()
		if !strings.Contains(fmt.Sprint(outside), "too many rows") {
			outside = nil
		}
	}
	for range 3 {
		all.Go(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := b.Run(t.Context(), inputs(t, 1, 1, 1)); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	for wait := time.Now(); runtime.NumGoroutine() > goroutines && time.Since(wait) < 5*time.Second; {
		time.Sleep(time.Millisecond)
	}
	if left := runtime.NumGoroutine(); left > goroutines+runtime.GOMAXPROCS(0) { // the pool's workers stay
		t.Errorf("%d goroutines, %d before", left, goroutines)
	}
	if left := weir.Usage().Tensors; left != held {
		t.Errorf("%d bytes of tensors, %d before", left, held)
	}
	closedProgram := compile(t, table, weir.Options{})
	b = start(t, closedProgram, batch.Options{})
	closedProgram.Close()
	if _, err := b.Run(t.Context(), inputs(t, 1, 1, 1)); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a program that is closed: %v", err)
	}
}

// TestCertified: a full batcher holds what its certificate says, to the byte, and works under its limit.
func TestCertified(t *testing.T) {
	weir.Trim()
	held := weir.Usage()
	p := compile(t, table, weir.Options{})
	b := start(t, p, batch.Options{InFlight: 16})
	limit, err := b.Limit()
	if err != nil {
		t.Fatal(err)
	}
	defer weir.SetLimit(weir.SetLimit(mem.Usage().Held + limit))
	mem.ResetPeaks()
	var open []*batch.Results
	for range 2 {
		r, err := b.Run(t.Context(), inputs(t, 0, 8, 4))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, r)
	}
	want := b.Memory()
	if got := weir.Usage().Tensors - held.Tensors; got != want.Results {
		t.Errorf("results hold %d bytes, certified are %d", got, want.Results)
	}
	for _, r := range open {
		r.Close()
	}
	// Two requests of four rows are joined while eight other rows are open.
	if open[0], err = b.Run(t.Context(), inputs(t, 0, 8, 4)); err != nil {
		t.Fatal(err)
	}
	joined := start(t, p, batch.Options{InFlight: 16, Wait: time.Minute})
	mem.ResetPeaks()
	before := mem.Usage().Current[mem.Tensors] - held.Tensors
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			r, err := joined.Run(t.Context(), inputs(t, 0, 4, 4))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			check(t, r, 0, 4, 4)
		})
	}
	all.Wait()
	if got := mem.Usage().Peak[mem.Tensors] - held.Tensors; before != want.Results/2 || got != want.Inputs+want.Results {
		t.Errorf("at most %d bytes of tensors were held, %d before; certified are %d of inputs and %d of results", got,
			before, want.Inputs, want.Results)
	}
	open[0].Close()
	program, err := p.Memory().Max(1)
	if err != nil || want.Program != program || want.Peak() != program+want.Inputs+want.Results {
		t.Errorf("%+v, the program's is %d (%v)", want, program, err)
	}
}

// TestMany: many goroutines make requests of all sizes, some of which are cancelled or at fault.
func TestMany(t *testing.T) {
	for _, o := range []batch.Options{{}, {Wait: time.Millisecond, InFlight: 12}, {Rows: 3}} {
		p := compile(t, table, weir.Options{Calls: 2})
		b := start(t, p, o)
		held := weir.Usage().Tensors
		var all sync.WaitGroup
		for g := range 12 {
			all.Go(func() {
				for i := range 40 {
					rows, columns := 1+(g+i)%3, 1+i%4
					in, bad := inputs(t, int64(g), rows, columns), (g+i)%7 == 0
					if bad {
						in["ids"] = tensor(t, slices.Repeat([]int64{5}, rows), rows)
					}
					ctx, cancel := context.WithCancel(t.Context())
					if (g+i)%5 == 0 {
						ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
					}
					r, err := b.Run(ctx, in)
					// After Run has returned, the inputs belong to the caller again.
					x, _ := weir.View[float32](in["x"].(*weir.Tensor))
					clear(x)
					switch {
					case err == nil && bad:
						t.Error("ids that the table has not were looked up")
					case err == nil:
						check(t, r, int64(g), rows, columns)
					case errors.Is(err, weir.ErrInput) && bad:
					case (g+i)%5 == 0 && errors.Is(err, context.DeadlineExceeded): // the context's timer may be late
					default:
						t.Error(err)
					}
					if r != nil {
						r.Close()
					}
					cancel()
				}
			})
		}
		all.Wait()
		b.Close()
		if left := weir.Usage().Tensors; left != held {
			t.Errorf("%d bytes of tensors, %d before", left, held)
		}
	}
}

// TestClosedWhileJoined: callers may close their tensors at any time after Run.
func TestClosedWhileJoined(t *testing.T) {
	for _, o := range []batch.Options{{Wait: 100 * time.Microsecond}, {Measured: true}} {
		closedWhileJoined(t, start(t, compile(t, table, weir.Options{}), o))
	}
}

func closedWhileJoined(t *testing.T, b *batch.Batcher) {
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for i := range 50 {
				x, err := weir.New(weir.F32, 1, 4)
				if err != nil {
					t.Error(err)
					return
				}
				var beside sync.WaitGroup
				beside.Go(func() {
					time.Sleep(time.Duration((g+i)%9) * 30 * time.Microsecond)
					x.Close()
				})
				r, err := b.Run(t.Context(), weir.Inputs{"ids": tensor(t, []int64{3}, 1), "x": x})
				if err == nil {
					if y, err := weir.Copy[float32](r.At(0)); err != nil || y[0] != 30 {
						t.Errorf("%v, %v", y, err)
					}
					r.Close()
				} else if !errors.Is(err, weir.ErrClosed) {
					t.Error(err)
				}
				beside.Wait()
			}
		})
	}
	all.Wait()
}

// TestRefused: programs whose rows cannot be joined, and invalid options, are refused.
func TestRefused(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		kind error
	}{
		"no dimension": {"main @main(%x: f32[4, 2]) {\n%y: f32[4, 2] = exp(%x)\nreturn %y\n}", weir.ErrInput},
		"two": {"main @main(%x: f32[a], %z: f32[b]) {\n%y: f32[a] = exp(%x)\n%w: f32[b] = exp(%z)\nreturn %y, %w\n}",
			weir.ErrInput},
		"not first": {"main @main(%x: f32[2, a]) {\n%y: f32[2, a] = exp(%x)\nreturn %y\n}", weir.ErrInput},
		"no bound":  {"main @main(%x: f32[c]) {\n%y: f32[c] = exp(%x)\nreturn %y\n}", weir.ErrInput},
		"a scalar":  {"main @main(%x: f32[]) {\n%y: f32[] = exp(%x)\nreturn %y\n}", weir.ErrInput},
		"a state": {"main @main(%x: f32[a], %s: f32[a]) {\nstate %s -> %t\n%t: f32[a] = add(%s, %x)\nreturn %t\n}",
			weir.ErrUnsupported},
	} {
		p := compile(t, "weir 1\nir @m {\ndim a in [1, 8]\ndim b in [1, 8]\ndim c in [1, inf]\n"+row.text+"\n}\n",
			weir.Options{})
		if _, err := batch.New(p, batch.Options{}); !errors.Is(err, row.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := compile(t, table, weir.Options{})
	for _, o := range []batch.Options{{Rows: -1}, {Wait: -1}, {InFlight: -1}, {Rows: 9}, {InFlight: 7},
		{InFlight: math.MaxInt}} {
		if o.InFlight == math.MaxInt32 {
			continue // all of them can be counted
		}
		if _, err := batch.New(p, o); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestRunWith: what Run copies, RunWith lends, joined and alone, to callers that leave and functions that fail. Nothing
// is taken for results, and every call is free afterwards.
func TestRunWith(t *testing.T) {
	p := compile(t, table, weir.Options{Calls: 2})
	account := &purse{most: 1 << 30}
	b := start(t, p, batch.Options{Wait: 200 * time.Microsecond, InFlight: 24, Account: account})
	held, mine := weir.Usage().Tensors, errors.New("mine")
	var all sync.WaitGroup
	for g := range 12 {
		all.Go(func() {
			for i := range 60 {
				rows, columns, used := 1+(g+i)%3, 1+i%3, 0
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 0 {
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
				}
				err := b.RunWith(ctx, inputs(t, int64(g), rows, columns), func(out weir.Outputs) error {
					used++
					check(t, out, int64(g), rows, columns)
					if i%7 == 0 {
						return mine
					}
					return nil
				})
				switch {
				case used > 1 || used == 0 && err == nil:
					t.Errorf("the function was called %d times: %v", used, err)
				case used == 1 && i%7 == 0 && errors.Is(err, mine):
				case used == 1 && i%7 != 0 && err == nil:
				case used == 0 && i%5 == 0 && errors.Is(err, context.DeadlineExceeded):
				default:
					t.Errorf("called %d times, %v", used, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := weir.Usage().Tensors; left != held || account.balance.Load() != 0 {
		t.Errorf("%d bytes of tensors, %d before; the account has %d", left, held, account.balance.Load())
	}
	if s := b.Stats(); s.InFlight != 0 {
		t.Errorf("%d rows in flight", s.InFlight)
	}
	first, err := p.Run(t.Context(), inputs(t, 0, 1, 1)) // both calls are free
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := p.Run(t.Context(), inputs(t, 0, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
}
