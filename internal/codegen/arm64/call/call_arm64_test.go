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

	. "github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/mem"
)

// sums adds up the words of each tile, writes that into a word of the tile's own, and returns the sum of all. It spoils
// every register that it may, and keeps a value in the frame. Its frame: the source, the destination, the words in a
// tile, the kept value.
func sums() []Inst {
	frame, begin, end, source, results, words, total := X(0), X(1), X(2), X(14), X(15), X(16), X(17)
	at, rest, sum, word := X(4), X(5), X(6), X(7)
	const next, done, inner = 1, 2, 3
	load := func(r Reg, m Mem) Inst { return Inst{Op: LDR, Shape: X64, Args: [6]Reg{r, Memory}, Mem: m} }
	store := func(r Reg, m Mem) Inst { return Inst{Op: STR, Shape: X64, Args: [6]Reg{r, Memory}, Mem: m} }
	var all []Inst
	for n := range 28 {
		if n > 2 && n != 18 {
			all = append(all, Inst{Op: MOVN, Shape: X64, Args: [6]Reg{X(n)}})
		}
	}
	for n := range 32 {
		all = append(all, Inst{Op: MOVI, Shape: D2, Args: [6]Reg{V(n)}, Imm: -1})
	}
	return append(all,
		load(source, Mem{Base: frame}), load(results, Mem{Base: frame, Disp: 8}), load(words, Mem{Base: frame, Disp: 16}),
		Inst{Op: MOV, Shape: X64, Args: [6]Reg{total, ZR}},
		Inst{Op: LABEL, To: next},
		Inst{Op: CMP, Shape: X64, Args: [6]Reg{begin, end}},
		Inst{Op: BRANCHIF, If: GE, To: done},
		Inst{Op: MUL, Shape: X64, Args: [6]Reg{at, begin, words}},
		Inst{Op: ADD, Shape: X64, Args: [6]Reg{at, source, at}, Imm: 3},
		Inst{Op: MOV, Shape: X64, Args: [6]Reg{rest, words}},
		Inst{Op: MOVZ, Shape: X64, Args: [6]Reg{sum}},
		Inst{Op: LABEL, To: inner},
		Inst{Op: LDR, Shape: X64, Args: [6]Reg{word, Memory}, Mem: Mem{Base: at, Disp: 8}, Mode: Post},
		Inst{Op: ADD, Shape: X64, Args: [6]Reg{sum, sum, word}},
		Inst{Op: SUBS, Shape: X64, Args: [6]Reg{rest, rest}, Imm: 1},
		Inst{Op: BRANCHIF, If: NE, To: inner},
		store(sum, Mem{Base: results, Index: begin, Scale: 8}),
		store(sum, Mem{Base: frame, Disp: 24}), load(word, Mem{Base: frame, Disp: 24}),
		Inst{Op: ADD, Shape: X64, Args: [6]Reg{total, total, word}},
		Inst{Op: ADD, Shape: X64, Args: [6]Reg{begin, begin}, Imm: 1},
		Inst{Op: BRANCH, To: next},
		Inst{Op: LABEL, To: done},
		Inst{Op: MOV, Shape: X64, Args: [6]Reg{frame, total}},
		Inst{Op: RET})
}

// load makes code executable until the test ends.
func load(t testing.TB, insts []Inst) uintptr {
	t.Helper()
	b := place(t, insts)
	t.Cleanup(func() { b.Close() })
	return uintptr(b.Pointer())
}

// place makes code executable.
func place(t testing.TB, insts []Inst) *mem.Block {
	t.Helper()
	var c Code
	for _, i := range insts {
		c.Emit(i)
	}
	code, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	return b
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
	w := newWorker(t, load(t, sums()), 1)
	for range 200 {
		if !w.check() {
			t.Fatal("a wrong sum")
		}
	}
}

// TestStress makes checked calls from eight goroutines and from fresh ones whose stacks grow, while the collector runs
// all the time and the profiler interrupts.
func TestStress(t *testing.T) {
	code := load(t, sums())
	calls := int64(50_000)
	if testing.Short() {
		calls = 3_000
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

// TestReplaced calls code at an address at which other code stood before, on every thread.
func TestReplaced(t *testing.T) {
	var again atomic.Int64
	seen, frame := map[uintptr]bool{}, new([frameWords]int64)
	for n := range 200 {
		b := place(t, []Inst{{Op: MOVZ, Shape: X64, Args: [6]Reg{X(0)}, Imm: int64(n)}, {Op: RET}})
		code := uintptr(b.Pointer())
		if seen[code] {
			again.Add(1)
		}
		seen[code] = true
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				if have := Call(code, unsafe.Pointer(frame), 0, 1); have != int64(n) {
					t.Errorf("the code of call %d was run instead of %d's", have, n)
				}
			})
		}
		callers.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d times at an address of before", again.Load())
}

func BenchmarkCall(b *testing.B) {
	code := load(b, []Inst{{Op: MOV, Shape: X64, Args: [6]Reg{X(0), ZR}}, {Op: RET}})
	frame := new([frameWords]int64)
	for b.Loop() {
		Call(code, unsafe.Pointer(frame), 0, 1)
	}
}
