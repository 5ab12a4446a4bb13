package array_test

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/mem"
)

// times returns n, or a hundredth of it in a short run; WEIR_GROWTH multiplies it.
func times(n int) int {
	if testing.Short() {
		n = max(1, n/100)
	}
	if by, err := strconv.Atoi(os.Getenv("WEIR_GROWTH")); err == nil {
		n *= by
	}
	return n
}

// heap returns the bytes of Go's heap that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident returns the process's memory as the system counts it; zeros if the system does not.
func resident() mem.Process {
	p, _ := mem.ProcessBytes()
	return p
}

// flat fails t if f leaves bytes in the ledger, or more than a small number of bytes in Go's heap.
func flat(t *testing.T, f func(n int), n int) {
	t.Helper()
	f(min(n, 1000)) // memory that is made once
	array.CacheLimit(array.CacheLimit(0))
	weir.Trim()
	ledger, before := weir.Usage().Current, heap()
	f(n)
	array.CacheLimit(array.CacheLimit(0))
	if now := weir.Usage().Current; now != ledger {
		t.Errorf("the ledger has %d bytes more after %d turns", now-ledger, n)
	}
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("Go's heap has %d bytes more after %d turns", grown, n)
	}
}

// TestScopesGrow: a million scopes, nested and beside each other, leave nothing.
func TestScopesGrow(t *testing.T) {
	array.AssertNoLeaks(t)
	flat(t, func(n int) {
		for range n / 2 {
			s := array.NewScope("outer")
			inner := array.NewScope("inner", array.In(s))
			fine(t, inner.Close())
			fine(t, s.Close())
		}
	}, times(1_000_000))
	root := array.NewScope("root")
	flat(t, func(n int) {
		for range n {
			fine(t, array.NewScope("inner", array.In(root)).Close())
		}
	}, times(1_000_000))
	fine(t, root.Close())
}

// TestHelpersGrow reads scalars and metrics, and makes zeros and concatenations of a long-lived scope's arrays, in
// scopes of their own: nothing grows.
func TestHelpersGrow(t *testing.T) {
	array.AssertNoLeaks(t)
	model := array.NewScope("model")
	w := model.Ones(weir.F32, 4, 4)
	model.Cap()
	flat(t, func(n int) {
		for range n {
			s := array.NewScope("turn", array.In(model))
			if v, err := array.Item[float32](s.Mean(w)); err != nil || v != 1 {
				t.Fatal(v, err)
			}
			s.Zeros(weir.F32, 4, 4)
			s.Relu(s.Sub(w, s.Number(3)))
			fine(t, s.Close())
		}
	}, times(100_000))
	fine(t, model.Close())
}

// TestOrphans: if a variable gets a new array in each iteration, its scope keeps the old ones until they, or the scope,
// are closed.
func TestOrphans(t *testing.T) {
	array.AssertNoLeaks(t)
	flat(t, func(n int) {
		s := array.NewScope("s")
		x := s.Ones(weir.F32, 16)
		for range n {
			y := s.Add(x, x)
			fine(t, x.Close())
			x = y
		}
		if s.Count() != 1 {
			t.Errorf("%d arrays", s.Count())
		}
		fine(t, s.Close())
	}, times(100_000))
}

// TestPredictions: a hundred goroutines make ten thousand predictions by one compiled model and by single operations;
// the resident memory of the process does not grow with their number.
func TestPredictions(t *testing.T) {
	array.AssertNoLeaks(t)
	model := array.NewScope("model")
	w := model.Ones(weir.F32, 32, 32)
	model.Cap()
	defer func(before mem.Process) {
		if now, ok := mem.ProcessBytes(); ok && now.Resident > before.Resident+128<<20 {
			t.Errorf("%d resident bytes became %d", before.Resident, now.Resident)
		}
	}(resident())
	flat(t, func(n int) {
		var all sync.WaitGroup
		for range 100 {
			all.Add(1)
			go func() {
				defer all.Done()
				for range max(1, n/100) {
					s := array.NewScope("request")
					y := s.Sum(s.MatMul(s.Ones(weir.F32, 1, 32), w))
					if v, err := array.Item[float32](y); err != nil || v != 1024 {
						t.Error(v, err, s.Err())
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
	}, times(10_000))
	fine(t, model.Close())
}

// TestPeaks: the peak of the second epoch equals that of the first, with a smaller last batch in each.
func TestPeaks(t *testing.T) {
	array.AssertNoLeaks(t)
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Mul(in[0], in[0]))}
	}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "batch", 64)}})
	fine(t, err)
	epoch := func() (peak int64) {
		for batch := range 40 {
			size := 32
			if batch == 39 {
				size = 7
			}
			s := array.NewScope("batch")
			c.Call(s, s.Ones(weir.F32, size, 64))
			peak = max(peak, weir.Usage().Current)
			fine(t, s.Close())
		}
		return peak
	}
	epoch()
	first, second := epoch(), epoch()
	if first != second {
		t.Errorf("peaks of %d and %d bytes", first, second)
	}
	fine(t, c.Close())
}

// TestBindings runs a compiled function of named extents at more shapes than it keeps calls for.
func TestBindings(t *testing.T) {
	array.AssertNoLeaks(t)
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Add(in[0], s.Number(1))}
	}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n")}})
	fine(t, err)
	s := array.NewScope("s")
	for turn := range 3 {
		for n := range 20 {
			out := c.Call(s, s.Ones(weir.F32, n))
			list, err := array.Copy[float32](out[0])
			if err != nil || len(list) != n || n > 0 && list[n-1] != 2 {
				t.Fatal(turn, n, list, err, s.Err())
			}
		}
	}
	fine(t, s.Close())
	fine(t, c.Close())
}

// TestManyShapes: more goroutines than a program has calls run it, each at its own shapes.
func TestManyShapes(t *testing.T) {
	array.AssertNoLeaks(t)
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(in[0])} },
		array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n")}, Compile: weir.Options{Calls: 3}})
	fine(t, err)
	var all sync.WaitGroup
	for g := range 12 {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := range 200 {
				s := array.NewScope("s")
				n := 1 + (g*7+turn)%23
				if v, err := array.Item[float32](c.Call(s, s.Ones(weir.F32, n))[0]); err != nil || v != float32(n) {
					t.Error(v, n, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	fine(t, c.Close())
}

// TestCacheLimit: compiled operations and the memory of their runs keep within the limit at any time, and take no more
// than CacheStats says, also for operations with named sizes, with sizes that data decide, and without memory.
func TestCacheLimit(t *testing.T) {
	array.AssertNoLeaks(t)
	defer array.CacheLimit(array.CacheLimit(0))
	weir.Trim()
	before := weir.Usage()
	kept := func(limit int64) {
		t.Helper()
		u := weir.Usage()
		held := u.Current - u.Tensors - (before.Current - before.Tensors)
		if c := array.CacheStats(); held > c.Bytes || c.Bytes > limit {
			t.Errorf("%d bytes are held, %d said in %d programs, %d allowed", held, c.Bytes, c.Programs, limit)
		}
	}
	for _, limit := range []int64{0, 200 << 10, 2 << 20} {
		array.CacheLimit(limit)
		for turn := range 60 {
			s := array.NewScope("s")
			x := s.Ones(weir.F32, 100+37*turn*turn)
			kept(limit)
			for _, f := range []func(){func() {
				s.Sort(x, 0)
			}, func() { s.Nonzero(x) }, func() { s.Reshape(x, -1, 1) }, func() { s.Softmax(s.Exp(x), 0) }} {
				f()
				kept(limit)
			}
			fine(t, s.Close())
		}
	}
}
