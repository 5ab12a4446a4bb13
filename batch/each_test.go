package batch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
)

// numbers yields 0 to n−1.
func numbers(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestEach: results come in the order of the elements, errors and panics in their places, and no more elements than
// allowed are in progress.
func TestEach(t *testing.T) {
	bad := errors.New("bad")
	for _, most := range []int{0, 1, 7, 1000} {
		now, peak := atomic.Int64{}, atomic.Int64{}
		at := 0
		for got, err := range batch.Each(t.Context(), numbers(300), most, func(_ context.Context, i int) (int, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
			}
			time.Sleep(time.Duration(rand.N(200)) * time.Microsecond)
			if i%50 == 7 {
				return 0, bad
			}
			if i%50 == 8 {
				panic("a bug")
			}
			return i, nil
		}) {
			switch at % 50 {
			case 7:
				if err != bad {
					t.Fatalf("element %d: %v", at, err)
				}
			case 8:
				if !errors.Is(err, weir.ErrInternal) {
					t.Fatalf("element %d: %v", at, err)
				}
			default:
				if err != nil || got != at {
					t.Fatalf("element %d: %d, %v", at, got, err)
				}
			}
			at++
		}
		if at != 300 || peak.Load() > int64(max(1, most)) {
			t.Errorf("%d results; %d in progress, of %d", at, peak.Load(), most)
		}
	}
}

// TestEachStops: a caller that stops, and a context that ends, end the elements in progress, and no others begin.
func TestEachStops(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		begun, running := atomic.Int64{}, atomic.Int64{}
		yielded := 0
		for _, err := range batch.Each(ctx, numbers(1000), 8, func(ctx context.Context, i int) (int, error) {
			begun.Add(1)
			running.Add(1)
			defer running.Add(-1)
			if i > 2 {
				<-ctx.Done()
			}
			return i, ctx.Err()
		}) {
			if yielded++; yielded < 3 {
				continue
			}
			if !cancels {
				break
			}
			cancel()
			if yielded > 3 && err == nil {
				t.Error("an element ended well after the context")
			}
		}
		cancel()
		if n := begun.Load(); n > 11 || running.Load() != 0 || cancels != (yielded == int(n)) {
			t.Errorf("cancels %v: %d begun, %d run on, %d yielded", cancels, n, running.Load(), yielded)
		}
	}
}

// Elements that are read from somewhere share runs of the program.
func ExampleEach() {
	model, err := weir.LoadBytes([]byte("weir 1\nir @m {\n  dim batch in [1, 16]\n  main @main(%x: f32[batch, 2]) {\n" +
		"    %y: f32[batch, 2] = neg(%x)\n    return %y\n  }\n}\n"))
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(context.Background(), model, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	batcher, err := batch.New(program, batch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer batcher.Close()

	elements := slices.Values([][]float32{{1, 2}, {3, 4}, {5, 6}})
	negate := func(ctx context.Context, element []float32) (out []float32, err error) {
		x, err := weir.FromSlice(element, 1, 2)
		if err != nil {
			return nil, err
		}
		err = batcher.RunWith(ctx, weir.Inputs{"x": x}, func(o weir.Outputs) error {
			out, err = weir.Copy[float32](o.Get("y"))
			return err
		})
		return out, err
	}
	for y, err := range batch.Each(context.Background(), elements, 2*batcher.MostRows(), negate) {
		fmt.Println(y, err)
	}
	// Output:
	// [-1 -2] <nil>
	// [-3 -4] <nil>
	// [-5 -6] <nil>
}
