package arm64

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/arm64/call"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// every is the instruction set with all that this package uses.
var every = &isa{registers: 32, dot: true, matrix: true, bf16: true}

// placed makes code executable until the test ends.
func placed(t testing.TB, code []byte) uintptr {
	t.Helper()
	block, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	t.Cleanup(func() { block.Close() })
	return uintptr(block.Pointer())
}

// testFrame is the memory of a routine. Its first half is for words that tests exchange with it, its second for spills.
type testFrame [2048]int64

const spillsAt = 8 << 10

// aligned returns a frame at a multiple of 64 bytes.
func aligned() *testFrame {
	room := make([]byte, unsafe.Sizeof(testFrame{})+64)
	at := uintptr(unsafe.Pointer(&room[0]))
	return (*testFrame)(unsafe.Pointer(&room[-at&63]))
}

// execute runs a routine, with a return after it.
func execute(t testing.TB, b *builder, f *testFrame) {
	t.Helper()
	b.Return(0)
	insts, end := b.Allocated(spillsAt)
	code := b.Encoded(insts)
	if end > int32(unsafe.Sizeof(*f)) {
		t.Fatalf("the routine has %d bytes of spilled values", end-spillsAt)
	}
	if status := call.Call(placed(t, code), unsafe.Pointer(f), 0, 1); status != 0 {
		t.Fatalf("the status is %d", status)
	}
}

// word returns the address of a word of the frame.
func word(n int) asm.Mem { return asm.Mem{Base: frameRegister, Disp: int32(8 * n)} }

// numbers are integers whose sums, products and encodings are at the edges.
var numbers = []int64{0, 1, -1, 2, 3, 5, 6, 7, 12, 255, 256, 4095, 4096, 4097, 0xFFFF, 0x10000, 0x12345, 0xFFF000,
	0x1000000, -4095, -4096, -65536, -65537, 1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 0x5555555555555555, 0x00FF00FF00FF00FF,
	-0x123456789ABCDEF, 0x7FFFFFFFFFFF0000, math.MaxInt64, math.MinInt64}

// TestIntegers compares operations on integers with Go's.
func TestIntegers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := append([]int64{int64(random.Uint64()), int64(random.Uint64()) >> 20, 17, 1000}, numbers...)
	for _, y := range values {
		b, f := newBuilder(every), aligned()
		at := len(values)
		var want []int64
		keep := func(r asm.Reg, v int64) {
			b.StoreWord(word(at), r)
			want = append(want, v)
			at++
		}
		keep(b.Number(y), y)
		for i, x := range values[:20] {
			f[i] = x
			load := func() asm.Reg { return b.LoadWord(word(i)) }
			for op, of := range map[lanes.Operation]func(x, y int64) int64{
				lanes.Add:      func(x, y int64) int64 { return x + y },
				lanes.Subtract: func(x, y int64) int64 { return x - y },
				lanes.Multiply: func(x, y int64) int64 { return x * y },
				lanes.And:      func(x, y int64) int64 { return x & y },
			} {
				r := load()
				b.IntegerNumber(op, r, y)
				keep(r, of(x, y))
				r = load()
				b.Integer(op, r, b.Number(y))
				keep(r, of(x, y))
			}
			keep(b.Times(load(), y), x*y)
			r := load()
			b.ShiftDown(r, y&63)
			keep(r, x>>(y&63))
			if y > 0 {
				rest := x % y
				if rest < 0 {
					rest += y
				}
				keep(b.DivideDown(load(), b.Number(y), true), rest)
				keep(b.DivideDown(load(), b.Number(y), false), (x-rest)/y)
				if x >= 0 {
					keep(b.DivideNatural(load(), b.Number(y), true), x%y)
					keep(b.DivideNatural(load(), b.Number(y), false), x/y)
				}
			}
		}
		execute(t, b, f)
		for i, v := range want {
			if have := f[len(values)+i]; have != v {
				t.Fatalf("y %d, result %d: %d, want %d", y, i, have, v)
			}
		}
	}
}

// TestConditions compares conditions with Go's, of numbers in registers and in instructions.
func TestConditions(t *testing.T) {
	holds := map[lanes.Condition]func(x, y int64) bool{
		lanes.Equal: func(x, y int64) bool { return x == y }, lanes.NotEqual: func(x, y int64) bool { return x != y },
		lanes.Less: func(x, y int64) bool { return x < y }, lanes.LessOrEqual: func(x, y int64) bool { return x <= y },
		lanes.Greater: func(x, y int64) bool { return x > y }, lanes.GreaterOrEqual: func(x, y int64) bool { return x >= y },
	}
	for _, y := range numbers {
		b, f := newBuilder(every), aligned()
		var want []int64
		for i, x := range numbers {
			f[i] = x
			for c, holds := range holds {
				compare := []func(x asm.Reg){func(x asm.Reg) { b.CompareNumber(x, y) },
					func(x asm.Reg) { b.CompareNumbers(x, b.Number(y)) }}
				if y == 0 {
					compare = append(compare, b.CompareZero)
				}
				for _, compare := range compare {
					r, past := b.Number(0), b.Label()
					compare(b.LoadWord(word(i)))
					b.AssignIf(c, r, frameRegister)
					b.JumpIf(c, past)
					b.SetNumber(r, 0)
					b.Bind(past)
					b.StoreWord(word(len(numbers)+len(want)), r)
					v := int64(0)
					if holds(x, y) {
						v = int64(uintptr(unsafe.Pointer(f)))
					}
					want = append(want, v)
				}
			}
		}
		execute(t, b, f)
		for i, v := range want {
			if have := f[len(numbers)+i]; have != v {
				t.Fatalf("y %d, result %d: %d, want %d", y, i, have, v)
			}
		}
	}
}

// TestAddresses reads and writes at addresses of every form.
func TestAddresses(t *testing.T) {
	for _, s := range []asm.Shape{asm.B, asm.H, asm.S, asm.D, asm.Q, asm.W32, asm.X64} {
		for _, disp := range []int32{0, 1, 8, 16, -16, -256, -257, 255, 256, 264, 4095, 4096, 32760, 32768, 65520, 65536,
			65544, 1 << 20, 1<<24 - 16, 1 << 24, 1<<24 + 7, -1 << 20, -5000, math.MaxInt32 - 4096, math.MinInt32} {
			for _, scale := range []uint8{0, 1, 2, 4, 8} {
				b, f := newBuilder(every), aligned()
				const from, to = 64, 128
				const index = -3
				base := int64(uintptr(unsafe.Pointer(f))) + from*8 - int64(disp)
				at := asm.Mem{Disp: disp}
				if scale > 0 {
					at.Index, at.Scale = b.Number(index), scale
					base -= index * int64(scale)
				}
				f[0] = base
				at.Base = b.LoadWord(word(0))
				r := b.NewVector()
				if s == asm.W32 || s == asm.X64 {
					r = b.General()
				}
				b.Emit(asm.Inst{Op: asm.LDR, Shape: s, Args: [6]asm.Reg{r, asm.Memory}, Mem: at})
				b.IntegerNumber(lanes.Add, at.Base, (to-from)*8)
				b.Emit(asm.Inst{Op: asm.STR, Shape: s, Args: [6]asm.Reg{r, asm.Memory}, Mem: at})
				f[from], f[from+1], f[to], f[to+1] = 0x0123456789ABCDEF, 0x7ECDAB8967452301, -1, -1
				execute(t, b, f)
				var have, want [16]byte
				for n := range have {
					want[n] = 255
					if n < s.Bytes() {
						want[n] = byte(f[from+n/8] >> (8 * (n % 8)))
					}
					have[n] = byte(f[to+n/8] >> (8 * (n % 8)))
				}
				if have != want {
					t.Fatalf("shape %d, %d + %d·index: %x, want %x", s, disp, scale, have, want)
				}
			}
		}
	}
}

// TestSpills keeps more values at once than there are registers, with constants of the pool.
func TestSpills(t *testing.T) {
	for _, i := range []*isa{every, {registers: 6}} {
		b, f := newBuilder(i), aligned()
		const count, out = 90, 100
		var general, vectors []asm.Reg
		for n := range count {
			f[n] = int64(n*n + 1)
			general = append(general, b.LoadWord(word(n)))
			v := b.NewVector()
			b.op(asm.DUP, asm.D2, v, general[n])
			vectors = append(vectors, v)
		}
		total, sum := b.Number(0), b.CopyOf(b.repeated64(7))
		sumOf, want := int64(7), int64(0)
		for n := range count {
			other := general[(n*37+11)%count]
			b.op(asm.MADD, asm.X64, total, general[n], other, total)
			want += f[n] * f[(n*37+11)%count]
			b.op(asm.ADD, asm.D2, sum, sum, vectors[(n*23+5)%count])
			b.op(asm.ADD, asm.D2, sum, sum, b.repeated64(uint64(n)))
			sumOf += f[(n*23+5)%count] + int64(n)
		}
		b.StoreWord(word(out), total)
		b.Emit(b.isa.Store(word(out+2), sum))
		execute(t, b, f)
		if f[out] != want || f[out+2] != sumOf || f[out+3] != sumOf {
			t.Errorf("%d registers: %d, %d, %d; want %d, %d", i.registers, f[out], f[out+2], f[out+3], want, sumOf)
		}
	}
}

// TestLanesOfMask jumps on each lane of each mask.
func TestLanesOfMask(t *testing.T) {
	for set := range 16 {
		b, f := newBuilder(every), aligned()
		bytes := make([]byte, vectorBytes)
		for n := range vectorLanes {
			if set>>n&1 != 0 {
				binary.LittleEndian.PutUint32(bytes[4*n:], math.MaxUint32)
			}
		}
		mask := b.Vector(bytes)
		for n := range vectorLanes {
			for at, wanted := range []bool{false, true} {
				r, past := b.Number(1), b.Label()
				b.JumpOnLane(mask, n, wanted, past)
				b.SetNumber(r, 0)
				b.Bind(past)
				b.StoreWord(word(2*n+at), r)
			}
		}
		execute(t, b, f)
		for n := range vectorLanes {
			if is := int64(set >> n & 1); f[2*n] != 1-is || f[2*n+1] != is {
				t.Errorf("set %04b, lane %d: jumps %d, %d", set, n, f[2*n], f[2*n+1])
			}
		}
	}
}

// TestPauses runs nested loops that pause at each iteration, or now and then, while many registers have values.
func TestPauses(t *testing.T) {
	for _, always := range []bool{true, false} {
		for _, counted := range []bool{true, false} {
			lanes.PauseAlways = always
			b := newBuilder(every)
			outer, inner := int64(5), int64(2000)
			if !always {
				inner = 3 << 20
			}
			const held = 20
			tile := b.General()
			b.Assign(tile, beginRegister)
			var kept []asm.Reg
			for n := range held {
				kept = append(kept, b.LoadWord(word(n)))
				v := b.NewVector()
				b.op(asm.DUP, asm.D2, v, kept[2*n])
				kept = append(kept, v)
			}
			tiles, again, inside := b.Label(), b.Label(), b.Label()
			b.Bind(tiles)
			sum, i := b.Number(0), b.Number(0)
			b.Turns(again, outer, true, asm.NoReg, 0)
			j := b.Number(0)
			if counted {
				b.Turns(inside, inner, false, j, 1)
			} else {
				b.Bind(inside)
			}
			b.Integer(lanes.Add, sum, j)
			b.IntegerNumber(lanes.Add, j, 1)
			b.CompareNumber(j, inner)
			b.JumpIf(lanes.Less, inside)
			b.IntegerNumber(lanes.Add, i, 1)
			b.CompareNumber(i, outer)
			b.JumpIf(lanes.Less, again)
			b.IntegerNumber(lanes.Add, tile, 1)
			b.CompareNumber(tile, 1)
			b.JumpIf(lanes.Less, tiles)
			for n := range held {
				b.Integer(lanes.Add, sum, kept[2*n])
				r := b.General()
				b.Emit(asm.Inst{Op: asm.UMOV, Shape: asm.X64, From: asm.D, Args: [6]asm.Reg{r, kept[2*n+1]}, Lane: 1})
				b.Integer(lanes.Add, sum, r)
			}
			b.StoreWord(word(100), sum)
			b.Return(0)
			code, _, tile1, longest := lanes.Assembled[asm.Inst, *asm.Code]{Builder: b.Builder, Tiles: tiles}.Finish(spillsAt)
			if tile1 != 0 || longest > 1<<19 {
				t.Fatalf("a tile costs %d, the longest way %d", tile1, longest)
			}
			entry := placed(t, code)
			saving, resume := every.PauseCode()
			save := placed(t, saving)
			header := every.HeaderBytes()
			room := make([]byte, header+int64(unsafe.Sizeof(testFrame{}))+64)
			start := -uintptr(unsafe.Pointer(&room[0])) & 63
			f := (*testFrame)(unsafe.Pointer(&room[start+uintptr(header)]))
			words := func(at int32) *int64 {
				return (*int64)(unsafe.Pointer(&room[int64(start)+header+int64(at)]))
			}
			want := outer * (inner * (inner - 1) / 2)
			for n := range held {
				f[n] = int64(n) << 40
				want += 2 * f[n]
			}
			*words(lanes.PauseWord) = int64(save)
			*words(lanes.BudgetWord) = 0
			status, returns := call.Call(entry, unsafe.Pointer(f), 0, 1), 0
			for status == lanes.Paused {
				returns++
				*words(lanes.BudgetWord) = 1 << 19
				if always {
					*words(lanes.BudgetWord) = 0
				}
				status = call.Call(save+uintptr(resume), unsafe.Pointer(f), 7, 8)
			}
			lanes.PauseAlways = false
			least := 5
			if always {
				least = 10_000
			}
			if status != 0 || f[100] != want || returns < least {
				t.Errorf("always %t, counted %t: status %d, %d after %d returns; want %d", always, counted, status, f[100],
					returns, want)
			}
		}
	}
}

// wordOf returns a word of 32 bits of a frame.
func wordOf(f *testFrame, n int) *uint32 { return (*uint32)(unsafe.Add(unsafe.Pointer(f), 4*n)) }

// skips reports whether the processor lacks a feature.
func skips(feature string) bool {
	m := target.Host(1)
	return !m.Has(feature)
}
