package call

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	. "github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/codetest"
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
		load(word, Mem{Base: at}),
		Inst{Op: ADD, Shape: X64, Args: [6]Reg{at, at}, Imm: 8},
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

func TestCall(t *testing.T) { codetest.Calls(t, Call, load(t, sums())) }

// TestStress makes calls from many goroutines, while the collector and the profiler run.
func TestStress(t *testing.T) {
	calls := int64(50_000)
	if testing.Short() {
		calls = 3_000
	}
	codetest.Stress(t, Call, load(t, sums()), calls)
}

// TestReplaced calls code at an address at which other code stood before, on every thread.
func TestReplaced(t *testing.T) {
	var again atomic.Int64
	seen, frame := map[uintptr]bool{}, new([codetest.FrameWords]int64)
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
	frame := new([codetest.FrameWords]int64)
	for b.Loop() {
		Call(code, unsafe.Pointer(frame), 0, 1)
	}
}
