package batch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/internal/mem"
)

// purse is an account that has room for a number of bytes, and waits for more.
type purse struct {
	balance atomic.Int64
	most    int64
	refuses atomic.Bool
}

var errRefused = errors.New("refused")

func (p *purse) Take(ctx context.Context, bytes int64) error {
	for {
		if p.refuses.Load() {
			return errRefused
		}
		if now := p.balance.Load(); now+bytes <= p.most && p.balance.CompareAndSwap(now, now+bytes) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
}

func (p *purse) Give(bytes int64) { p.balance.Add(-bytes) }

// TestAccount compares accounts of a batcher and its program with the bytes that are held, while requests are joined,
// with their results open, and at the end.
func TestAccount(t *testing.T) {
	weir.Trim()
	base := mem.Usage().Held
	purse := &purse{most: 1 << 30}
	quiet := func(when string) {
		t.Helper()
		if held := mem.Usage().Held - base; held != purse.balance.Load() {
			t.Errorf("%s: %d bytes are held, %d granted", when, held, purse.balance.Load())
		}
	}
	p := compile(t, table, weir.Options{Calls: 2, Threads: 2, Account: purse})
	quiet("after compiling")
	b := start(t, p, batch.Options{Wait: time.Millisecond, Account: purse})
	var in []weir.Inputs // in Go's memory
	for i := range 40 {
		in = append(in, inputs(t, int64(i%3), 1+i%2, 2))
	}
	var group sync.WaitGroup
	results := make([]*batch.Results, len(in))
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			before := purse.balance.Load()
			held := mem.Usage().Held - base
			if after := purse.balance.Load(); held > max(before, after) && mem.Usage().Held-base > purse.balance.Load() {
				t.Errorf("%d bytes are held, %d granted", held, after)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for i := range in {
		group.Go(func() {
			r, err := b.Run(t.Context(), in[i])
			if err != nil {
				t.Error(err)
				return
			}
			check(t, r, int64(i%3), 1+i%2, 2)
			if results[i] = r; i%4 == 0 {
				r.Close()
			}
		})
		if i%16 == 15 { // at most this many rows are in flight
			group.Wait()
			time.Sleep(time.Millisecond)
			quiet("with results")
			for _, r := range results[:i+1] {
				if r != nil {
					r.Close()
				}
			}
		}
	}
	group.Wait()
	close(stop)
	<-stopped
	for _, r := range results {
		r.Close()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Trim(); err != nil {
		t.Error(err)
	}
	quiet("after closing results")
	p.Close()
	if quiet("after closing the program"); purse.balance.Load() != 0 {
		t.Errorf("%d bytes are granted", purse.balance.Load())
	}
}

// TestAccountRefuses refuses memory of requests, and lets callers leave while the account waits.
func TestAccountRefuses(t *testing.T) {
	p := compile(t, table, weir.Options{})
	purse := &purse{most: 1 << 30}
	b := start(t, p, batch.Options{Account: purse})
	purse.refuses.Store(true)
	if _, err := b.Run(t.Context(), inputs(t, 0, 1, 2)); !errors.Is(err, errRefused) || !errors.Is(err, weir.ErrMemory) {
		t.Errorf("refused: %v", err)
	}
	purse.refuses.Store(false)
	purse.most = 0
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			if _, err := b.Run(ctx, inputs(t, 0, 1, 2)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting: %v", err)
			}
		})
	}
	group.Wait()
	if purse.balance.Load() != 0 {
		t.Errorf("%d bytes are granted", purse.balance.Load())
	}
}

// TestSizesVary runs a program on many numbers of rows in turn, whose calls then keep their memory: the results are
// those of other programs, and no more is held than for the most rows.
func TestSizesVary(t *testing.T) {
	weir.Trim()
	base := mem.Usage().Held
	purse := &purse{most: 1 << 30}
	p := compile(t, table, weir.Options{Account: purse, Threads: 2})
	most, err := p.Memory().Call(weir.Dims{"batch": 8, "n": 4})
	if err != nil {
		t.Fatal(err)
	}
	fixed := purse.balance.Load()
	for i, rows := range []int{8, 1, 5, 7, 2, 8, 3, 8, 1, 6} {
		for _, columns := range []int{4, 1 + i%4} {
			r, err := p.Run(t.Context(), inputs(t, int64(i), rows, columns))
			if err != nil {
				t.Fatal(err)
			}
			got, err := weir.Copy[float32](r.At(0))
			if err != nil || len(got) != rows*columns || !slices.Equal(r.At(0).Shape(), []int{rows, columns}) {
				t.Errorf("%d rows of %d: %v, %v", rows, columns, r.At(0), err)
			}
			for k, v := range got {
				if want := float32((int64(i)+int64(k/columns))%5*10) + float32(k)/8; v != want {
					t.Errorf("%d rows of %d: element %d is %v, not %v", rows, columns, k, v, want)
				}
			}
			if held := mem.Usage().Held - base; held != purse.balance.Load() || held > fixed+most {
				t.Errorf("%d rows: %d bytes are held, %d granted, of %d", rows, held, purse.balance.Load(), fixed+most)
			}
			r.Close()
		}
	}
}

// TestUnboundedUnderAccount: with an account the dimensions need no upper bounds; without one they do.
func TestUnboundedUnderAccount(t *testing.T) {
	p := compile(t, strings.Replace(table, "batch in [1, 8]", "batch in [1, inf]", 1), weir.Options{})
	if _, err := batch.New(p, batch.Options{Rows: 4}); err == nil || !strings.Contains(err.Error(), "upper bound") {
		t.Errorf("without an account: %v", err)
	}
	a := &purse{most: 1 << 30}
	if _, err := batch.New(p, batch.Options{Account: a}); err == nil || !strings.Contains(err.Error(), "Options.Rows") {
		t.Errorf("without a number of rows: %v", err)
	}
	b, err := batch.New(p, batch.Options{Account: a, Rows: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Limit(); err == nil || b.Memory().Peak() != 0 {
		t.Errorf("limit: %v, memory %+v", err, b.Memory())
	}
	out, err := b.Run(t.Context(), inputs(t, 1, 3, 2))
	if err != nil {
		t.Fatal(err)
	}
	if shape := out.At(0).Shape(); shape[0] != 3 {
		t.Errorf("%v", shape)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}
