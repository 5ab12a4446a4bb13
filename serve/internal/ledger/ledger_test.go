package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// TestOrder: owners that take memory in the ledger's order, each while it holds what it took before, all get it,
// however little there is. The kinds keep to their shares, and all together to the limit.
func TestOrder(t *testing.T) {
	const limit = 16 << 20
	l := New(limit)
	model := l.Account(Model, "m")
	if err := model.Take(t.Context(), 4<<20); err != nil {
		t.Fatal(err)
	}
	accounts := map[Kind]*Account{}
	order := []Kind{Body, Response, Joined, Call}
	for _, k := range order {
		accounts[k] = l.Account(k, k.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var owners sync.WaitGroup
	for owner := range 64 {
		owners.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(owner)))
			for range 50 {
				taken := map[Kind]int64{}
				for _, k := range order {
					if k != Call && random.IntN(3) == 0 {
						continue
					}
					bytes := 1 + random.Int64N(l.Most(k))
					if err := accounts[k].Take(ctx, bytes); err != nil {
						t.Errorf("%v of %d bytes: %v", k, bytes, err)
						return
					}
					taken[k] = bytes
				}
				s := l.State()
				kinds := map[Kind]int64{}
				for _, r := range s.Rows {
					kinds[r.Kind] += r.Bytes
				}
				if s.Held > limit || kinds[Body] > l.Most(Body) || kinds[Response] > l.Most(Response) ||
					kinds[Joined] > l.Most(Joined) {
					t.Errorf("%+v", s)
				}
				for k, bytes := range taken {
					accounts[k].Give(bytes)
				}
			}
		})
	}
	owners.Wait()
	if s := l.State(); s.Held != 4<<20 || s.Waiting != 0 || s.Refusals != 0 || s.Peak > limit {
		t.Errorf("at the end: %+v", s)
	}
}

// TestRefused: what never fits is refused at once with the numbers; a context that has ended does not wait.
func TestRefused(t *testing.T) {
	l := New(64 << 20)
	for k := range kinds {
		a := l.Account(k, k.String())
		most := l.Most(k)
		var r *Refused
		if err := a.Take(t.Context(), most+1); !errors.As(err, &r) || !r.Never || r.Need != most+1 || r.Limit != most ||
			!errors.Is(err, weir.ErrMemory) {
			t.Errorf("%v: %v", k, err)
		}
		if err := a.Take(t.Context(), most); err != nil {
			t.Errorf("%v: %v", k, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if k == Model || k == Call { // whose shares are not apart
			a.Give(most)
			continue
		}
		if err := a.Take(ended, 1<<20); !errors.As(err, &r) || r.Never || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, with all of it held: %v", k, err)
		}
		a.Give(most)
		if held := a.Close(); held != 0 {
			t.Errorf("%v: %d bytes are left", k, held)
		}
	}
	calls, model := l.Account(Call, "calls"), l.Account(Model, "model")
	if err := calls.Require(30 << 20); err != nil {
		t.Error(err)
	}
	if err := model.Take(t.Context(), 20<<20); err == nil {
		t.Error("a model leaves no room for the smallest call of another")
	}
	if err := model.Take(t.Context(), 15<<20); err != nil {
		t.Error(err)
	}
	if l.Most(Call) < 30<<20 {
		t.Errorf("a call may have %d bytes", l.Most(Call))
	}
}

// TestIdle: idle memory is released for a take that it helps, and for no other.
func TestIdle(t *testing.T) {
	l := New(64 << 20)
	calls, bodies := l.Account(Call, "calls"), l.Account(Body, "bodies")
	released := map[Kind]int{}
	l.Idle(Call, func() { released[Call]++; calls.Give(calls.Held()) })
	l.Idle(Body, func() { released[Body]++ })
	if err := calls.Take(t.Context(), 8<<20); err != nil {
		t.Fatal(err)
	}
	if err := bodies.Take(t.Context(), l.Most(Body)); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := bodies.Take(ended, 1); err == nil || released[Call] != 0 || released[Body] != 1 {
		t.Errorf("the share of bodies is short: %v, %v", err, released)
	}
	if err := calls.Take(t.Context(), l.Most(Call)); err != nil || released[Call] != 0 {
		t.Errorf("there is room: %v, %v", err, released)
	}
	if err := calls.Take(t.Context(), 20<<20); err != nil || released[Call] != 1 {
		t.Errorf("the limit is short: %v, %v", err, released)
	}
}

// TestBuffers: buffers are aligned, disjoint and as long as they were asked for, and all memory comes back.
func TestBuffers(t *testing.T) {
	l := New(256 << 20)
	a := l.Account(Body, "bodies")
	b := NewBuffers(a, 4<<20)
	random := rand.New(rand.NewPCG(7, 1))
	open := map[byte]*Buffer{}
	for i := range 4000 {
		mark := byte(i%200 + 1)
		if x := open[mark]; x != nil {
			for _, v := range x.Bytes() {
				if v != mark {
					t.Fatal("two buffers share bytes")
				}
			}
			x.Close()
			delete(open, mark)
			continue
		}
		bytes := random.Int64N(1 << random.IntN(19))
		x, err := b.Get(t.Context(), bytes)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(x.Bytes())) != bytes {
			t.Fatalf("%d bytes, not %d", len(x.Bytes()), bytes)
		}
		for k := range x.Bytes() {
			x.Bytes()[k] = mark
		}
		open[mark] = x
	}
	for _, x := range open {
		x.Close()
	}
	b.Release()
	if held := a.Held(); held != 0 {
		t.Errorf("%d bytes are left", held)
	}
	if _, err := b.Get(t.Context(), 1<<60); err == nil {
		t.Error("2^60 bytes are granted")
	}
}

// TestNoneIsForgotten: a take that waits gets the memory that others leave idle, whenever they do.
func TestNoneIsForgotten(t *testing.T) {
	l := New(16 << 20)
	bodies := NewBuffers(l.Account(Body, "requests"), 2<<20)
	defer bodies.Release()
	rounds := 20000
	if testing.Short() {
		rounds = 5000
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for i := range rounds { // after each, nobody is left whose return of memory would wake one that was forgotten
		var clients sync.WaitGroup
		for client := range 4 {
			clients.Go(func() { // sizes differ, so that idle buffers are of no use to others
				b, err := bodies.Get(ctx, int64(1+(client+i)%4)*320<<10)
				if err != nil {
					t.Errorf("round %d: %v", i, err)
					return
				}
				b.Close()
			})
		}
		if clients.Wait(); t.Failed() {
			return
		}
	}
}

// TestSequencesInOrder: owners that take memory in the ledger's order, while sequences hold and change states without
// waiting, all get it, or learn at once that sequences hold it. Nobody waits for a sequence, and states leave room for
// calls.
func TestSequencesInOrder(t *testing.T) {
	const limit = 16 << 20
	l := New(limit)
	order := []Kind{Body, Response, Joined, Call}
	accounts := map[Kind]*Account{}
	for _, k := range append(order, Sequence) {
		accounts[k] = l.Account(k, k.String())
	}
	if err := accounts[Call].Require(6 << 20); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	var owners, sequences sync.WaitGroup
	granted := atomic.Int64{}
	for n := range 8 {
		sequences.Go(func() {
			random, held := rand.New(rand.NewPCG(8, uint64(n))), int64(0)
			for {
				select {
				case <-done:
					accounts[Sequence].Give(held)
					return
				default:
				}
				if next := 1 + random.Int64N(1<<20); accounts[Sequence].Take(ended, next) == nil { // exchanged
					accounts[Sequence].Give(held)
					held = next
					granted.Add(1)
				}
				if random.IntN(4) == 0 { // it ends
					accounts[Sequence].Give(held)
					held = 0
				}
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	refused := atomic.Int64{}
	for owner := range 64 {
		owners.Go(func() {
			random := rand.New(rand.NewPCG(9, uint64(owner)))
			for range 50 {
				taken := map[Kind]int64{}
				for _, k := range order {
					if k != Call && random.IntN(3) == 0 {
						continue
					}
					bytes := 1 + random.Int64N(l.Most(k))
					err := accounts[k].Take(ctx, bytes)
					var r *Refused
					if k == Call && bytes > 6<<20 && errors.As(err, &r) && !r.Never &&
						strings.Contains(err.Error(), "sequences hold") {
						refused.Add(1)
						continue
					}
					if err != nil {
						t.Errorf("%v of %d bytes: %v", k, bytes, err)
						return
					}
					taken[k] = bytes
				}
				if s := l.State(); s.Held > limit || l.Most(Call) < 6<<20 {
					t.Errorf("%+v, and a call may have %d bytes", s, l.Most(Call))
				}
				for k, bytes := range taken {
					accounts[k].Give(bytes)
				}
			}
		})
	}
	owners.Wait()
	close(done)
	sequences.Wait()
	t.Logf("%d states were granted, %d of 3200 calls refused for them", granted.Load(), refused.Load())
	if granted.Load() == 0 {
		t.Error("the sequences got no memory")
	}
	if s := l.State(); s.Held != 0 || s.Waiting != 0 || s.Peak > limit {
		t.Errorf("at the end: %+v", s)
	}
}

// TestCallBesideSequences: a call that waits when states take what it needs is refused once nothing else holds it.
func TestCallBesideSequences(t *testing.T) {
	l := New(16 << 20)
	calls, states := l.Account(Call, "calls"), l.Account(Sequence, "sequences")
	if err := calls.Take(t.Context(), 8<<20); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error)
	go func() { waited <- calls.Take(t.Context(), 9<<20) }()
	for l.State().Waiting == 0 {
		time.Sleep(10 * time.Microsecond)
	}
	if err := states.Take(t.Context(), 3<<20); err != nil {
		t.Fatal(err)
	}
	calls.Give(8 << 20)
	var r *Refused
	if err := <-waited; !errors.As(err, &r) || r.Never || !strings.Contains(err.Error(), "sequences hold 3145728 bytes") {
		t.Errorf("%v", err)
	}
	states.Give(3 << 20)
	if err := calls.Take(t.Context(), 9<<20); err != nil {
		t.Error(err)
	}
}
