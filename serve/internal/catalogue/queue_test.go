package catalogue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
)

// TestQueueOrder: the most urgent come first, then one client after the other; nobody overtakes a request that needs
// more rows; a full queue refuses, and a request that leaves is not given its turn.
func TestQueueOrder(t *testing.T) {
	v := &Version{Model: "m"}
	v.queue.start("m", queueOptions{priorities: 3, most: 8}, func() int { return 1 })
	if err := v.Enter(t.Context(), 0, "z", 2); err != nil {
		t.Fatal(err)
	}
	turns := make(chan string)
	wait := func(ctx context.Context, name string, priority, rows int) {
		before := v.Waiting()
		go func() {
			if v.Enter(ctx, priority, name[:1], rows) == nil {
				turns <- name
			}
		}()
		for v.Waiting() == before {
			time.Sleep(time.Microsecond)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	for _, r := range []struct {
		name           string
		priority, rows int
	}{{"a1", 0, 1}, {"a2", 2, 1}, {"a3", 2, 1}, {"b1", 2, 1}, {"c1", 3, 1}, {"d1", 1, 2}} {
		wait(t.Context(), r.name, r.priority, r.rows)
	}
	wait(ctx, "e1", 1, 1)
	wait(ctx, "e2", 1, 1)
	if err := v.Enter(t.Context(), 1, "f", 1); !errors.Is(err, weir.ErrMemory) {
		t.Errorf("the ninth of eight that may wait: %v", err)
	}
	leave()
	for v.Waiting() != 6 {
		time.Sleep(time.Microsecond)
	}
	v.Done(2)
	var order []string
	for _, rows := range []int{2, 1, 1, 1, 1, 1} { // of each turn
		select {
		case name := <-turns:
			order = append(order, name)
		case <-time.After(5 * time.Second):
			t.Fatalf("no turn after %v", order)
		}
		v.Done(rows)
	}
	if want := []string{"d1", "a1", "b1", "a2", "a3", "c1"}; !slices.Equal(order, want) {
		t.Errorf("the turns are %v, want %v", order, want)
	}
	if v.queue.inside != 0 || v.Waiting() != 0 {
		t.Errorf("%d rows are inside, %d requests wait", v.queue.inside, v.Waiting())
	}
}

// TestQueueOfMany: whatever requests come and leave, the rows inside are within the most, and all have their turn.
func TestQueueOfMany(t *testing.T) {
	v := &Version{Model: "m"}
	var most, inside atomic.Int64
	most.Store(5)
	v.queue.start("m", queueOptions{priorities: 2, most: 1000}, func() int { return int(most.Load()) })
	var all sync.WaitGroup
	for g := range 20 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(38, uint64(g)))
			for range 200 {
				ctx, cancel, rows := t.Context(), func() {}, 1+random.IntN(7)
				if random.IntN(4) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(100))*time.Microsecond)
				}
				if err := v.Enter(ctx, random.IntN(3), string(rune('a'+g%5)), rows); err == nil {
					if now := inside.Add(int64(rows)); now > max(8, int64(rows)) {
						t.Errorf("%d rows are inside", now)
					}
					if random.IntN(8) == 0 {
						most.Store(int64(3 + random.IntN(6)))
					}
					inside.Add(-int64(rows))
					v.Done(rows)
				} else if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if v.queue.inside != 0 || v.Waiting() != 0 {
		t.Errorf("%d rows are inside, %d requests wait", v.queue.inside, v.Waiting())
	}
}
