package call

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// sums adds up the words of each tile, writes that into a word of the tile's own, and returns the sum of all. It spoils
// every register that it may, Go's own among them, and keeps a value in the frame. Its frame: the source, the
// destination, the words in a tile, the kept value.
var sums = []byte{
	0x4C, 0x8B, 0x37, //                         mov   r14, [rdi]
	0x48, 0x8B, 0x5F, 0x08, //                   mov   rbx, [rdi+8]
	0x4C, 0x8B, 0x7F, 0x10, //                   mov   r15, [rdi+16]
	0x31, 0xC0, //                               xor   eax, eax
	0xC4, 0x41, 0x04, 0xC2, 0xFF, 0x0F, //       vcmptrueps ymm15, ymm15, ymm15
	0xC4, 0xC1, 0x04, 0xC2, 0xC7, 0x0F, //       vcmptrueps ymm0, ymm15, ymm15
	0x49, 0xC7, 0xC3, 0xFF, 0xFF, 0xFF, 0xFF, // mov   r11, -1
	0x4D, 0x89, 0xDC, //                         mov   r12, r11
	0x4D, 0x89, 0xDD, //                         mov   r13, r11
	0x48, 0x39, 0xD6, //                      1: cmp   rsi, rdx
	0x7D, 0x2A, //                               jge   3f
	0x49, 0x89, 0xF0, //                         mov   r8, rsi
	0x4D, 0x0F, 0xAF, 0xC7, //                   imul  r8, r15
	0x4D, 0x89, 0xF9, //                         mov   r9, r15
	0x45, 0x31, 0xD2, //                         xor   r10d, r10d
	0x4F, 0x03, 0x14, 0xC6, //                2: add   r10, [r14+r8*8]
	0x49, 0xFF, 0xC0, //                         inc   r8
	0x49, 0xFF, 0xC9, //                         dec   r9
	0x75, 0xF4, //                               jnz   2b
	0x4C, 0x89, 0x14, 0xF3, //                   mov   [rbx+rsi*8], r10
	0x4C, 0x89, 0x57, 0x18, //                   mov   [rdi+24], r10
	0x48, 0x03, 0x47, 0x18, //                   add   rax, [rdi+24]
	0x48, 0xFF, 0xC6, //                         inc   rsi
	0xEB, 0xD1, //                               jmp   1b
	0xC3, //                                  3: ret
}

// load makes code executable until the test ends.
func load(t testing.TB, code []byte) uintptr {
	t.Helper()
	if !target.Host(1).Has("avx") {
		t.Skip("the processor has no AVX, without which no code is emitted")
	}
	b, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	t.Cleanup(func() { b.Close() })
	return uintptr(b.Pointer())
}

// worker is a caller's memory, outside Go's heap: a source, sums of its tiles, and a frame.
type worker struct {
	code          uintptr
	block         *mem.Block
	words, source []int64 // words is all; source is filled
	random        *rand.Rand
}

const tiles, tileWords, frameWords = 64, 128, 8

func newWorker(t testing.TB, code uintptr, seed uint64) *worker {
	t.Helper()
	b, err := mem.Map(mem.Scratch, "test", 8*(frameWords+tiles+tiles*tileWords))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	w := &worker{code: code, block: b, random: rand.New(rand.NewPCG(seed, 7))}
	w.words = unsafe.Slice((*int64)(b.Pointer()), b.Size()/8)
	w.source = w.words[frameWords+tiles:]
	w.words[0], w.words[1], w.words[2] = address(w.source), address(w.words[frameWords:]), tileWords
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
	sums := w.words[frameWords : frameWords+tiles]
	for i := range sums {
		sums[i] = -1
	}
	status, want, kept := Call(w.code, w.block.Pointer(), int64(begin), int64(end)), int64(0), [tiles]int64{}
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

func TestCall(t *testing.T) {
	w := newWorker(t, load(t, sums), 1)
	for range 200 {
		if !w.check() {
			t.Fatal("a wrong sum")
		}
	}
}

// TestStress makes 10⁵ checked calls from eight goroutines and from fresh ones whose stacks grow, while the collector
// runs all the time and the profiler interrupts.
func TestStress(t *testing.T) {
	code := load(t, sums)
	calls := int64(100_000)
	if testing.Short() {
		calls = 5_000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err == nil { // an error: the tests themselves are profiled
		defer pprof.StopCPUProfile()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))))
	var done, wrong, live atomic.Int64
	stop := make(chan struct{})
	var background, callers sync.WaitGroup
	background.Go(func() {
		var garbage [128][]byte
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				garbage[i%len(garbage)] = make([]byte, 1<<14)
				runtime.GC()
			}
		}
	})
	for g := range 8 {
		w := newWorker(t, code, uint64(g))
		callers.Go(func() {
			live.Add(1)
			for n := done.Add(1); n <= calls; n = done.Add(1) {
				ok := false
				if n%64 == 0 { // on a stack that begins small
					fresh := make(chan bool)
					go func() { fresh <- w.deep(w.random.IntN(200)) }()
					ok = <-fresh
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
		})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	callers.Wait()
	close(stop)
	background.Wait()
	runtime.ReadMemStats(&after)
	if wrong.Load() > 0 || live.Load() != 8 {
		t.Errorf("%d of %d calls were wrong", wrong.Load(), calls)
	}
	t.Logf("%d calls during %d collections", calls, after.NumGC-before.NumGC)
}

func BenchmarkCall(b *testing.B) {
	code, frame := load(b, []byte{0x31, 0xC0, 0xC3}), [frameWords]int64{} // xor eax, eax; ret
	for b.Loop() {
		Call(code, unsafe.Pointer(&frame), 0, 1)
	}
}
