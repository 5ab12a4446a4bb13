package ownership

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/weirtest"
)

// TestPoolGrowth: the memory that is held depends on the present shapes, never on earlier ones.
func TestPoolGrowth(t *testing.T) {
	t.Run("shapes", func(t *testing.T) {
		p := weirtest.CompileDigits(t, weir.Options{Threads: 1, Calls: 2})
		defer p.Close()
		base := mem.Usage()
		for i := range 400 {
			batch := 1 + i*i%97
			x := weirtest.Filled(t, batch, 1, 8, 8)
			r, err := p.Run(t.Context(), weir.Inputs{"image": x})
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			x.Close()
			most, err := p.Memory().Peak(1, weir.Dims{"batch": int64(batch)})
			if err != nil {
				t.Fatal(err)
			}
			now := mem.Usage()
			if now.All-base.All > most || now.Blocks-base.Blocks > 4 {
				t.Fatalf("run %d, batch %d: %d bytes in %d blocks, the certificate has %d", i, batch, now.All-base.All,
					now.Blocks-base.Blocks, most)
			}
		}
	})
	t.Run("tensors", func(t *testing.T) {
		weir.Trim()
		base := weir.Usage()
		var kept []*weir.Tensor
		for i := range 4000 {
			x, err := weir.New(weir.F32, 1+i*i%20011)
			if err != nil {
				t.Fatal(err)
			}
			if kept = append(kept, x); len(kept) > 20 {
				kept[0].Close()
				kept = kept[1:]
			}
			now := weir.Usage() // besides 21 tensors of at most 80 KiB and their free neighbours, the rests of slabs are there
			if now.Cached-base.Cached > 12<<20 {
				t.Fatalf("after %d tensors %d bytes are cached", i, now.Cached)
			}
		}
		for _, x := range kept {
			x.Close()
		}
		now := weir.Usage()
		if now.Tensors != base.Tensors || now.Cached-base.Cached > 4<<20 {
			t.Errorf("%d bytes of tensors and %d cached, before it %d and %d", now.Tensors, now.Cached, base.Tensors,
				base.Cached)
		}
		weir.Trim()
		if left := weir.Usage().Cached; left > base.Cached {
			t.Errorf("%d bytes are cached after Trim, %d were before", left, base.Cached)
		}
	})
	t.Run("retried", func(t *testing.T) {
		if !mem.OutsideHeap() {
			t.Skip("there is no pool here")
		}
		var kept []*weir.Tensor // more than one slab, so that one becomes free whatever the pool held before
		for range 64 {
			kept = append(kept, weirtest.Filled(t, 25_000))
		}
		for _, x := range kept {
			x.Close()
		}
		now := mem.Usage()
		if now.Cached < 1<<20 {
			t.Fatalf("%d bytes are cached", now.Cached)
		}
		// new memory is available only if cached memory is given back
		defer weir.SetLimit(weir.SetLimit(now.Held))
		large, err := weir.New(weir.U8, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		large.Close()
		if _, err := weir.New(weir.U8, int(now.Cached)+1<<20); !errors.Is(err, weir.ErrMemory) {
			t.Errorf("more than the limit: %v", err)
		}
	})
}

// TestHandOver: a tensor that is handed on is released once, by its last owner, wherever that is.
func TestHandOver(t *testing.T) {
	t.Run("without elements", func(t *testing.T) {
		nothingLeft(t)
		p := weirtest.CompileDigits(t, weir.Options{Threads: 1})
		defer p.Close()
		for i := range 60 {
			x, err := weir.New(weir.F32, 0, 1, 8, 8)
			if err != nil {
				t.Fatal(err)
			}
			arg := weir.Arg(x)
			if i%2 == 1 {
				arg = weir.Consume(x)
			}
			r, err := p.Run(t.Context(), weir.Inputs{"image": arg})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Get("scores"); got.Len() != 0 {
				t.Errorf("%s of nothing", got)
			}
			r.Close()
			x.Close()
		}
	})
	t.Run("a result that another run consumes", func(t *testing.T) {
		nothingLeft(t)
		forward, err := weirtest.CompileText(t, weirtest.Story("[0, 16]", "64"), weir.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer forward.Close()
		back, err := weirtest.CompileText(t, weirtest.Story("[0, 16]", "64"), weir.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer back.Close()
		for n := range 17 {
			x := weirtest.Filled(t, n)
			r, err := forward.Run(t.Context(), weir.Inputs{"x": weir.Consume(x)})
			if err != nil {
				t.Fatal(err)
			}
			y := r.Get("y")
			last, err := back.Run(t.Context(), weir.Inputs{"x": weir.Consume(y)})
			if err != nil {
				t.Fatal(err)
			}
			if forward.Stats().Active != 0 || y.Bytes() != nil {
				t.Errorf("%d elements: %d calls are held for what was consumed", n, forward.Stats().Active)
			}
			last.Close()
			r.Close() // closing what was consumed is fine
			x.Close()
		}
	})
	t.Run("offered and not taken", func(t *testing.T) {
		nothingLeft(t)
		p := weirtest.CompileDigits(t, weir.Options{Threads: 1})
		defer p.Close()
		for range 20 {
			x := weirtest.Filled(t, 1, 1, 8, 8)
			_, _ = weir.Consume(x), weir.Donate(x) // never given to a program
			if _, err := p.Run(t.Context(), weir.Inputs{"image": weir.Consume(x), "none": x}); !errors.Is(err, weir.ErrInput) {
				t.Errorf("a wrong input: %v", err)
			}
			if x.Bytes() == nil {
				t.Error("a run that was refused has taken its argument")
			}
			x.Close()
		}
	})
	t.Run("released by other threads", releasedByThreads)
}

// releasedByThreads runs and closes on other threads, and closes results twice at once.
func releasedByThreads(t *testing.T) {
	nothingLeft(t)
	p := weirtest.CompileDigits(t, weir.Options{Threads: 1, Calls: 3})
	defer p.Close()
	tensors, results := make(chan *weir.Tensor), make(chan *weir.Results)
	var runs, closers sync.WaitGroup
	for range 3 {
		runs.Go(func() {
			runtime.LockOSThread() // the goroutine's end ends the thread
			for x := range tensors {
				r, err := p.Run(context.Background(), weir.Inputs{"image": weir.Consume(x)})
				if err != nil {
					t.Error(err)
					continue
				}
				results <- r
			}
		})
		closers.Go(func() {
			runtime.LockOSThread()
			for r := range results {
				var both sync.WaitGroup // closed twice at once
				both.Go(func() { r.Get("scores").Close() })
				both.Go(func() { r.Close() })
				both.Wait()
			}
		})
	}
	for i := range 200 {
		tensors <- weirtest.Filled(t, 1+i%3, 1, 8, 8)
	}
	close(tensors)
	runs.Wait()
	close(results)
	closers.Wait()
	if s := p.Stats(); s.Active != 0 || s.Runs != 200 {
		t.Errorf("%+v", s)
	}
}

// TestLending: memory of Go's stays while it is lent, and no longer; results outlive their model.
func TestLending(t *testing.T) {
	t.Run("lent memory of Go's", func(t *testing.T) {
		nothingLeft(t)
		p := weirtest.CompileDigits(t, weir.Options{Threads: 1})
		defer p.Close()
		want := scoresOf(t, p, weirtest.Filled(t, 2, 1, 8, 8))
		call, err := p.NewCall(weir.Dims{"batch": 2})
		if err != nil {
			t.Fatal(err)
		}
		defer call.Close()
		if err := call.Bind("image", borrowedCopy(t)); err != nil { // only the call refers to it
			t.Fatal(err)
		}
		for range 5 {
			runtime.GC()
			for range 1000 {
				_ = make([]float32, 2*64) // would reuse the memory if it were collected
			}
			if err := call.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, err := weir.Copy[float32](call.Output("scores")); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%v, want %v (%v)", got, want, err)
			}
		}
	})
	t.Run("an argument is not kept", func(t *testing.T) {
		nothingLeft(t)
		p := weirtest.CompileDigits(t, weir.Options{Threads: 1})
		defer p.Close()
		collected := make(chan bool, 1)
		func() {
			data := make([]float32, 2*64)
			runtime.AddCleanup(&data[0], func(done chan bool) { done <- true }, collected)
			x, err := weir.FromSlice(data, 2, 1, 8, 8)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), weir.Inputs{"image": x})
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		}()
		for end := time.Now().Add(20 * time.Second); ; {
			runtime.GC()
			select {
			case <-collected:
				return
			case <-time.After(time.Millisecond):
			}
			if time.Now().After(end) {
				t.Fatal("the program holds on to the memory that it was lent")
			}
		}
	})
	t.Run("results outlive their model", resultsOutliveModel)
}

// resultsOutliveModel closes the model and the program while results are open: the results keep their values until they
// are closed.
func resultsOutliveModel(t *testing.T) {
	nothingLeft(t)
	m, err := weir.LoadBytes(weirtest.Digits(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	x := weirtest.Filled(t, 2, 1, 8, 8)
	r, err := p.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	want, err := weir.Copy[float32](r.Get("scores"))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- p.Close() }() // it waits for the results
	for {
		if _, err := p.Run(t.Context(), nil); errors.Is(err, weir.ErrClosed) {
			break
		}
		if late, err := p.NewCall(weir.Dims{"batch": 1}); errors.Is(err, weir.ErrClosed) {
			break
		} else if err == nil {
			late.Close()
		}
		runtime.Gosched()
	}
	select {
	case err := <-closed:
		t.Fatalf("the program is closed (%v) under its results", err)
	default:
	}
	if got, err := weir.Copy[float32](r.Get("scores")); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v (%v)", got, want, err)
	}
	r.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestPoolCounts: the pool counts its memory by class, and Trim gives back all that is not fragmented.
func TestPoolCounts(t *testing.T) {
	if !mem.OutsideHeap() {
		t.Skip("there is no pool here")
	}
	weir.Trim()
	base := weir.Usage()
	sum := func() (current, cached int64) {
		last := int64(-1)
		for _, c := range weir.SizeClasses() {
			if c.Least <= last || c.Current > c.Peak || c.Current < 0 || c.Cached < 0 {
				t.Errorf("%+v after a class of %d", c, last)
			}
			last, current, cached = c.Least, current+c.Current, cached+c.Cached
		}
		return current, cached
	}
	held, _ := sum()
	var list []*weir.Tensor
	for range 60 { // three slabs of 64 KiB pieces, and some
		list = append(list, weirtest.Filled(t, 16<<10))
	}
	if current, cached := sum(); current-held != 60<<16 || cached != weir.Usage().Cached {
		t.Errorf("the classes have %d bytes in use and %d free, there are 60 of 64 KiB, and %d free", current-held, cached,
			weir.Usage().Cached)
	}
	for i, x := range list {
		if i%2 == 0 {
			x.Close()
		}
	}
	now := weir.Usage()
	if now.Fragmented < 20<<16 || now.Fragmented > now.Cached {
		t.Errorf("every other tensor is closed: %d bytes are cached, %d of them fragmented", now.Cached, now.Fragmented)
	}
	if gave := weir.Trim(); gave != now.Cached-now.Fragmented || weir.Usage().Cached != now.Fragmented {
		t.Errorf("Trim gave back %d of %d bytes, %d fragmented, and %d are left", gave, now.Cached, now.Fragmented,
			weir.Usage().Cached)
	}
	for _, x := range list {
		x.Close()
	}
	if now = weir.Usage(); now.Fragmented > base.Fragmented || now.Tensors != base.Tensors {
		t.Errorf("all is closed: %+v, before it %+v", now, base)
	}
	if gave := weir.Trim(); gave != now.Cached-now.Fragmented || gave == 0 || weir.Usage().Cached > base.Cached {
		t.Errorf("Trim gave back %d of %d bytes, and %d are left", gave, now.Cached, weir.Usage().Cached)
	}
}

// nothingLeft checks, when the test ends, that it has left no memory.
func nothingLeft(t *testing.T) {
	t.Helper()
	before := mem.Usage()
	t.Cleanup(func() {
		if now := mem.Usage(); now.All != before.All || now.Blocks != before.Blocks {
			t.Errorf("%d bytes in %d blocks, before it %d in %d", now.All, now.Blocks, before.All, before.Blocks)
		}
	})
}

// borrowedCopy returns a tensor with filled's numbers in memory of Go's.
func borrowedCopy(t *testing.T) *weir.Tensor {
	t.Helper()
	from := weirtest.Filled(t, 2, 1, 8, 8)
	defer from.Close()
	data, err := weir.Copy[float32](from)
	if err != nil {
		t.Fatal(err)
	}
	x, err := weir.FromSlice(data, 2, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// scoresOf returns the scores of a batch, and closes the batch.
func scoresOf(t *testing.T, p *weir.Program, x *weir.Tensor) []float32 {
	t.Helper()
	r, err := p.Run(t.Context(), weir.Inputs{"image": x})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer x.Close()
	got, err := weir.Copy[float32](r.Get("scores"))
	if err != nil {
		t.Fatal(err)
	}
	return got
}
