package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// asking is an account made of functions.
type asking struct {
	take func(ctx context.Context, bytes int64) error
	give func(bytes int64)
}

func (a asking) Take(ctx context.Context, bytes int64) error { return a.take(ctx, bytes) }
func (a asking) Give(bytes int64)                            { a.give(bytes) }

// TestAccountRefusesCompiling refuses each request of each compilation: nothing is held then, and nothing granted.
func TestAccountRefusesCompiling(t *testing.T) {
	for _, l := range accounted(t) {
		weir.Trim()
		purse := &purse{base: mem.Usage().Held}
		for k := int64(1); ; k++ {
			m := weirtest.Must[*weir.Model](t)(weir.Load(l.path))
			purse.takes.Store(0)
			purse.refuse.Store(k)
			o := l.o
			o.Account = purse
			p, err := weir.Compile(t.Context(), m, o)
			if err == nil {
				p.Close()
			} else if !errors.Is(err, errPurse) || !errors.Is(err, weir.ErrMemory) {
				t.Errorf("%s: request %d: %v", l.name, k, err)
			}
			m.Close()
			purse.quiet(t, l.name)
			if purse.balance.Load() != 0 {
				t.Errorf("%s: after request %d, %d are granted to no program", l.name, k, purse.balance.Load())
			}
			if err == nil {
				break
			}
		}
	}
}

// TestAccountWaits makes an account wait for Program.Trim of the program that asks, for Close with an ended context,
// and for other runs: no lock is held meanwhile.
func TestAccountWaits(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	var p *weir.Program
	x, y := weirtest.Picture(t, 1), weirtest.Picture(t, 3)
	defer x.Close()
	defer y.Close()
	waits, inside := 0, false
	a := asking{give: func(int64) {}}
	a.take = func(ctx context.Context, _ int64) error {
		if p == nil || inside {
			return nil
		}
		waits++
		inside = true
		defer func() { inside = false }()
		done := make(chan error, 1)
		go func() {
			_, err := p.Trim()
			r, failed := p.Run(ctx, weir.Inputs{"image": x})
			if failed == nil {
				failed = r.Close()
			}
			_, last := p.Trim()
			_ = p.Stats()
			done <- errors.Join(err, failed, last)
		}()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			return errors.New("a lock is held")
		}
	}
	p = weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Calls: 2, Account: a}))
	defer p.Close()
	for _, in := range []*weir.Tensor{x, y, x} {
		r, err := p.Run(t.Context(), weir.Inputs{"image": in})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	if waits != 3 {
		t.Errorf("the account was asked %d times", waits)
	}
}

// TestAccountContext waits for an account until the context ends, for a compilation and a run; NewCall does not wait.
func TestAccountContext(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	full, asked := false, 0
	a := asking{give: func(int64) {}, take: func(ctx context.Context, _ int64) error {
		if asked++; !full {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	o := weir.Options{Account: a}
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
	defer p.Close()
	if asked != 1 {
		t.Errorf("compiling asked %d times", asked)
	}
	full = true
	x := weirtest.Picture(t, 2)
	defer x.Close()
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := p.Run(short(), weir.Inputs{"image": x}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a run: %v", err)
	}
	if q, err := weir.Compile(short(), m, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a compilation: %v, %v", q, err)
	}
	if _, err := p.NewCall(weir.Dims{"batch": 2}); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("a call: %v", err)
	}
	full = false
	r, err := p.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// TestAccountAndLimit compiles for more calls than a limit has room for: the account decides about each.
func TestAccountAndLimit(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	o := weir.Options{Calls: 1000, Dims: map[string]weir.Range{"batch": {Min: 1, Max: 64}}}
	defer weir.SetLimit(weir.SetLimit(mem.Usage().Held + 8<<20))
	if p, err := weir.Compile(t.Context(), m, o); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("a thousand calls within 8 MiB: %v, %v", p, err)
	}
	o.Account = asking{func(context.Context, int64) error { return nil }, func(int64) {}}
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}
