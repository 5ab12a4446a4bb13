package codetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// Call calls machine code on tiles [begin, end), and returns its status.
type Call func(code uintptr, frame unsafe.Pointer, begin, end int64) (status int64)

// FrameWords is the size of a frame in words of 64 bits.
const FrameWords = 8

// Calls makes checked calls of code that adds up the words of each tile, writes that into a word of the tile's own, and
// returns the sum of all. Its frame: the source, the destination, the words in a tile, and a word for the code itself.
func Calls(t *testing.T, call Call, code uintptr) {
	t.Helper()
	w := newWorker(t, call, code, 1)
	for range 200 {
		if !w.check() {
			t.Fatal("a wrong sum")
		}
	}
}

// Stress makes checked calls of code as Calls does, from eight goroutines and from fresh ones whose stacks grow, while
// the collector runs all the time and the profiler interrupts.
func Stress(t *testing.T, call Call, code uintptr, calls int64) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err == nil { // an error: the tests themselves are profiled
		defer pprof.StopCPUProfile()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))))
	var done, wrong, live atomic.Int64
	stop := make(chan struct{})
	var background, callers diag.Group
	background.Go("collecting", func() error {
		var garbage [128][]byte
		for i := 0; ; i++ {
			select {
			case <-stop:
				return nil
			default:
				garbage[i%len(garbage)] = make([]byte, 1<<14)
				runtime.GC()
			}
		}
	})
	for g := range 8 {
		w := newWorker(t, call, code, uint64(g))
		callers.Go("calling", func() error {
			live.Add(1)
			for n := done.Add(1); n <= calls; n = done.Add(1) {
				ok := false
				if n%64 == 0 { // on a stack that begins small
					var fresh diag.Group
					fresh.Go("calling", func() error {
						ok = w.deep(w.random.IntN(200))
						return nil
					})
					if err := fresh.Wait(); err != nil {
						return err
					}
				} else {
					ok = w.check()
				}
				if !ok {
					wrong.Add(1)
				}
				if n%512 == 0 {
					runtime.GC()
				}
			}
			return nil
		})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := callers.Wait()
	close(stop)
	if err := errors.Join(err, background.Wait()); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if wrong.Load() > 0 || live.Load() != 8 {
		t.Errorf("%d of %d calls were wrong", wrong.Load(), calls)
	}
	t.Logf("%d calls during %d collections", calls, after.NumGC-before.NumGC)
}

// worker is a caller's memory, outside Go's heap: a source, sums of its tiles, and a frame.
type worker struct {
	call          Call
	code          uintptr
	block         *mem.Block
	words, source []int64 // words is all; source is filled
	random        *rand.Rand
}

const tiles, tileWords = 64, 128

func newWorker(t testing.TB, call Call, code uintptr, seed uint64) *worker {
	t.Helper()
	b, err := mem.Map(mem.Scratch, "test", 8*(FrameWords+tiles+tiles*tileWords))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	w := &worker{call: call, code: code, block: b, random: rand.New(rand.NewPCG(seed, 7))}
	w.words = unsafe.Slice((*int64)(b.Pointer()), b.Size()/8)
	w.source = w.words[FrameWords+tiles:]
	w.words[0], w.words[1], w.words[2] = address(w.source), address(w.words[FrameWords:]), tileWords
	for i := range w.source {
		w.source[i] = w.random.Int64()
	}
	return w
}

func address(words []int64) int64 { return int64(uintptr(unsafe.Pointer(unsafe.SliceData(words)))) }

// check calls the code on some tiles and compares every word that it writes, and those that it must leave alone.
func (w *worker) check() bool {
	begin := w.random.IntN(tiles)
	end := begin + w.random.IntN(tiles-begin+1)
	sums := w.words[FrameWords : FrameWords+tiles]
	for i := range sums {
		sums[i] = -1
	}
	status, want, kept := w.call(w.code, w.block.Pointer(), int64(begin), int64(end)), int64(0), [tiles]int64{}
	copy(kept[:], sums)
	for i := range kept {
		sum := int64(-1)
		if i >= begin && i < end {
			sum = 0
			for _, v := range w.source[i*tileWords : (i+1)*tileWords] {
				sum += v
			}
			want += sum
		}
		if kept[i] != sum {
			return false
		}
	}
	return status == want
}

// deep makes the check after the stack has grown by the given number of frames, and looks after what lay on it.
//
//go:noinline
func (w *worker) deep(frames int) bool {
	var here [64]int64
	here[frames%64] = int64(frames)
	ok := false
	if frames == 0 {
		ok = w.check()
	} else {
		ok = w.deep(frames - 1)
	}
	return ok && here[frames%64] == int64(frames)
}
