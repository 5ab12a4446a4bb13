package asm_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	. "github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/arm64/call"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// block is the memory of a routine: two operands of 64 bytes, and 64 bytes for the result. x0 is its address.
type block [192]byte

// run executes instructions on a block, with RET after them.
func run(t *testing.T, b *block, insts ...Inst) {
	t.Helper()
	var c Code
	for _, i := range append(insts, Inst{Op: RET}) {
		c.Emit(i)
	}
	execute(t, &c, unsafe.Pointer(b))
}

// execute runs finished code.
func execute(t *testing.T, c *Code, frame unsafe.Pointer) int64 {
	t.Helper()
	code, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	defer entry.Close()
	return call.Call(uintptr(entry.Pointer()), frame, 0, 0)
}

// loaded returns instructions with the operands of a block in v1 and v2 and the result in v0.
func loaded(insts ...Inst) []Inst {
	at := func(op Op, v, disp int) Inst {
		return Inst{Op: op, Shape: Q, Args: [6]Reg{V(v), Memory}, Mem: Mem{Base: X(0), Disp: int32(disp)}}
	}
	all := []Inst{at(LDR, 0, 128), at(LDR, 1, 0), at(LDR, 2, 64)}
	return append(append(all, insts...), at(STR, 0, 128))
}

// skipWithout skips the test on a processor without a feature, on which the instructions would be illegal.
func skipWithout(t *testing.T, feature string) {
	t.Helper()
	if m := target.Host(1); !m.Has(feature) {
		t.Skip("the processor has no ", feature)
	}
}

// three is an operation on v0, v1 and v2.
func three(op Op, s Shape) Inst { return Inst{Op: op, Shape: s, Args: [6]Reg{V(0), V(1), V(2)}} }

func randomBlock(random *rand.Rand) *block {
	b := new(block)
	for n := range b {
		b[n] = byte(random.Uint32())
	}
	return b
}

func (b *block) int32(n int) int32 { return int32(binary.LittleEndian.Uint32(b[128+4*n:])) }

func (b *block) float32(at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
}

// TestProducts compares the products of bytes with loops in Go.
func TestProducts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	signed := func(b byte) int32 { return int32(int8(b)) }
	plain := func(b byte) int32 { return int32(b) }
	for _, test := range []struct {
		op          Op
		feature     string
		left, right func(byte) int32
		square      bool // a product of matrices of 2 by 8
	}{
		{SDOT, "dotprod", signed, signed, false},
		{UDOT, "dotprod", plain, plain, false},
		{USDOT, "i8mm", plain, signed, false},
		{SMMLA, "i8mm", signed, signed, true},
		{UMMLA, "i8mm", plain, plain, true},
		{USMMLA, "i8mm", plain, signed, true},
	} {
		t.Run(test.op.String(), func(t *testing.T) {
			skipWithout(t, test.feature)
			for range 50 {
				b := randomBlock(random)
				var want [4]int32
				for n := range want {
					want[n] = b.int32(n)
					first, second, length := 4*n, 4*n, 4
					if test.square {
						first, second, length = n/2*8, n%2*8, 8
					}
					for k := range length {
						want[n] += test.left(b[first+k]) * test.right(b[64+second+k])
					}
				}
				run(t, b, loaded(three(test.op, S4))...)
				for n := range want {
					if b.int32(n) != want[n] {
						t.Fatalf("lane %d is %d, want %d", n, b.int32(n), want[n])
					}
				}
			}
		})
	}
}

// TestBrains compares the products of bf16 with loops in Go, on small integers, whose products and sums are exact.
func TestBrains(t *testing.T) {
	skipWithout(t, "bf16")
	random := rand.New(rand.NewPCG(7, 8))
	for _, op := range []Op{BFMMLA, BFDOT} {
		for range 50 {
			b := new(block)
			var values [2][8]float32
			for o := range values {
				for n := range values[o] {
					values[o][n] = float32(random.IntN(64) - 32)
					binary.LittleEndian.PutUint16(b[64*o+2*n:], uint16(math.Float32bits(values[o][n])>>16))
				}
			}
			run(t, b, loaded(three(op, S4))...)
			for n := range 4 {
				first, second, length := 2*n, 2*n, 2
				if op == BFMMLA {
					first, second, length = n/2*4, n%2*4, 4
				}
				want := float32(0)
				for k := range length {
					want += values[0][first+k] * values[1][second+k]
				}
				if have := b.float32(128 + 4*n); have != want {
					t.Fatalf("%s: lane %d is %g, want %g", op, n, have, want)
				}
			}
		}
	}
}

// TestHalves compares the arithmetic of f16 with that of Go, on small integers.
func TestHalves(t *testing.T) {
	skipWithout(t, "fp16")
	b := new(block)
	for n := range 8 { // 1, 2, 4 … 128 and 3
		binary.LittleEndian.PutUint16(b[2*n:], uint16(15+n)<<10)
		binary.LittleEndian.PutUint16(b[64+2*n:], 16<<10|1<<9)
	}
	run(t, b, loaded(three(FMLA, H8))...)
	for n := range 8 {
		if have, want := binary.LittleEndian.Uint16(b[128+2*n:]), uint16(16+n)<<10|1<<9; have != want {
			t.Errorf("lane %d is %#x, want %#x", n, have, want)
		}
	}
}

// TestFloats compares operations of f32 with Go's, on floats of all kinds: also what becomes of NaN, and which of two
// zeros is less.
func TestFloats(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
		float32(math.NaN()), 1, -1.5, 2.5, math.SmallestNonzeroFloat32, math.MaxFloat32}
	draw := func() float32 {
		if random.IntN(2) == 0 {
			return special[random.IntN(len(special))]
		}
		return float32(random.NormFloat64() * 100)
	}
	truth := func(b bool) float32 {
		if b {
			return math.Float32frombits(math.MaxUint32)
		}
		return 0
	}
	wide := func(f func(x, y float64) float64) func(x, y, z float32) float32 {
		return func(x, y, _ float32) float32 {
			if x != x || y != y {
				return float32(math.NaN()) // where Go's give the infinity
			}
			return float32(f(float64(x), float64(y)))
		}
	}
	first := func(f func(float64) float64) func(x, y, z float32) float32 {
		return func(x, _, _ float32) float32 { return float32(f(float64(x))) }
	}
	number := func(f func(x, y float64) float64) func(x, y, z float32) float32 { // of which one may be NaN
		return func(x, y, _ float32) float32 {
			switch {
			case x != x:
				return y
			case y != y:
				return x
			}
			return float32(f(float64(x), float64(y)))
		}
	}
	one := func(op Op) Inst { return Inst{Op: op, Shape: S4, Args: [6]Reg{V(0), V(1)}} }
	for _, test := range []struct {
		inst Inst
		want func(x, y, z float32) float32
	}{
		{three(FADD, S4), func(x, y, _ float32) float32 { return x + y }},
		{three(FSUB, S4), func(x, y, _ float32) float32 { return x - y }},
		{three(FMUL, S4), func(x, y, _ float32) float32 { return x * y }},
		{three(FDIV, S4), func(x, y, _ float32) float32 { return x / y }},
		{three(FMLA, S4), func(x, y, z float32) float32 { return fused(x, y, z) }},
		{three(FMLS, S4), func(x, y, z float32) float32 { return fused(-x, y, z) }},
		{three(FMAX, S4), wide(math.Max)},
		{three(FMIN, S4), wide(math.Min)},
		{three(FMAXNM, S4), number(math.Max)},
		{three(FMINNM, S4), number(math.Min)},
		{three(FCMEQ, S4), func(x, y, _ float32) float32 { return truth(x == y) }},
		{three(FCMGT, S4), func(x, y, _ float32) float32 { return truth(x > y) }},
		{three(FCMGE, S4), func(x, y, _ float32) float32 { return truth(x >= y) }},
		{one(FSQRT), first(math.Sqrt)},
		{one(FABS), first(math.Abs)},
		{one(FNEG), func(x, _, _ float32) float32 { return -x }},
		{one(FRINTN), first(math.RoundToEven)},
		{one(FRINTA), first(math.Round)},
		{one(FRINTP), first(math.Ceil)},
		{one(FRINTM), first(math.Floor)},
		{one(FRINTZ), first(math.Trunc)},
		{one(FCVTZS), func(x, _, _ float32) float32 { return math.Float32frombits(uint32(saturated(x))) }},
		{Inst{Op: FMLABY, Shape: S4, Args: [6]Reg{V(0), V(1), V(2)}, Lane: 2}, nil},
	} {
		for range 30 {
			b := new(block)
			var x, y, z [4]float32
			for n := range 4 {
				x[n], y[n], z[n] = draw(), draw(), draw()
				binary.LittleEndian.PutUint32(b[4*n:], math.Float32bits(x[n]))
				binary.LittleEndian.PutUint32(b[64+4*n:], math.Float32bits(y[n]))
				binary.LittleEndian.PutUint32(b[128+4*n:], math.Float32bits(z[n]))
			}
			run(t, b, loaded(test.inst)...)
			for n := range 4 {
				have, want := b.float32(128+4*n), float32(0)
				if test.want != nil {
					want = test.want(x[n], y[n], z[n])
				} else {
					want = fused(x[n], y[2], z[n])
				}
				if have != have && want != want {
					continue // bits of NaN are the processor's
				}
				if math.Float32bits(have) != math.Float32bits(want) {
					t.Errorf("%s of %g, %g, %g: %g, want %g", test.inst, x[n], y[n], z[n], have, want)
				}
			}
		}
	}
}

// fused returns x·y + z, rounded once.
func fused(x, y, z float32) float32 {
	product, addend := float64(x)*float64(y), float64(z) // exact
	sum := product + addend
	back := sum - product
	lost := (product - (sum - back)) + (addend - back)
	if math.IsInf(sum, 0) || lost != lost || lost == 0 {
		return float32(sum)
	}
	// Rounded to an odd last bit, the sum is not halfway between two floats unless it was before.
	if bits := math.Float64bits(sum); bits&1 == 0 {
		if lost > 0 == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}

// saturated converts a float as the processor does.
func saturated(x float32) int32 {
	switch {
	case x != x:
		return 0
	case x >= math.MaxInt32:
		return math.MaxInt32
	case x <= math.MinInt32:
		return math.MinInt32
	}
	return int32(x)
}

// TestRoutine runs a dot product over any number of floats: a loop of vectors, a loop of single elements, a constant of
// the pool, and a sum across a vector.
func TestRoutine(t *testing.T) {
	var c Code
	const vectors, singles, single, done, sumUp = 1, 2, 3, 4, 5
	frame, first, second, count := X(0), X(1), X(2), X(3)
	pointer := func(r Reg, disp int32) Inst {
		return Inst{Op: LDR, Shape: X64, Args: [6]Reg{r, Memory}, Mem: Mem{Base: frame, Disp: disp}}
	}
	next := func(v int, base Reg, s Shape) Inst {
		return Inst{Op: LDR, Shape: s, Args: [6]Reg{V(v), Memory}, Mem: Mem{Base: base}}
	}
	on := func(base Reg, bytes int64) Inst {
		return Inst{Op: ADD, Shape: X64, Args: [6]Reg{base, base}, Imm: bytes}
	}
	bias := make([]byte, 16)
	binary.LittleEndian.PutUint32(bias, math.Float32bits(1.5))
	for _, i := range []Inst{
		{Op: LDR, Shape: Q, Args: [6]Reg{V(0), Memory}, Mem: Mem{Pool: c.Constant(bias)}},
		pointer(first, 0), pointer(second, 8), pointer(count, 16),
		{Op: LABEL, To: vectors},
		{Op: SUBS, Shape: X64, Args: [6]Reg{count, count}, Imm: 4},
		{Op: BRANCHIF, If: LT, To: singles},
		next(1, first, Q), next(2, second, Q), on(first, 16), on(second, 16),
		three(FMLA, S4),
		{Op: BRANCH, To: vectors},
		{Op: LABEL, To: singles},
		{Op: ADD, Shape: X64, Args: [6]Reg{count, count}, Imm: 4},
		{Op: FADDP, Shape: S4, Args: [6]Reg{V(0), V(0), V(0)}},
		{Op: FADDP, Shape: S, Args: [6]Reg{V(0), V(0)}},
		{Op: LABEL, To: single},
		{Op: CBZ, Shape: X64, Args: [6]Reg{count}, To: done},
		next(1, first, S), next(2, second, S), on(first, 4), on(second, 4),
		{Op: FMADD, Shape: S, Args: [6]Reg{V(0), V(1), V(2), V(0)}},
		{Op: SUB, Shape: X64, Args: [6]Reg{count, count}, Imm: 1},
		{Op: BRANCH, To: single},
		{Op: LABEL, To: done},
		{Op: FMOV, Shape: W32, From: S, Args: [6]Reg{X(0), V(0)}},
		{Op: RET},
	} {
		c.Emit(i)
	}
	code, err := c.Finish()
	if err != nil {
		t.Fatal(err)
	}
	entry, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	defer entry.Close()
	for n := range 40 {
		x, y, want := make([]float32, n+1), make([]float32, n+1), float32(1.5)
		for k := range n {
			x[k], y[k] = float32(k%7-3), float32(k%5-2)
			want += x[k] * y[k]
		}
		frame := struct {
			x, y unsafe.Pointer
			n    int64
		}{unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0]), int64(n)}
		bits := uint32(call.Call(uintptr(entry.Pointer()), unsafe.Pointer(&frame), 0, 0))
		if have := math.Float32frombits(bits); have != want {
			t.Errorf("%d products: %g, want %g", n, have, want)
		}
	}
}

// TestEveryForm executes every form that does not access memory, end the routine or jump, on a processor that has its
// features: none is an illegal instruction.
func TestEveryForm(t *testing.T) {
	m := target.Host(1)
	has := Features(0)
	for feature, f := range map[string]Features{"dotprod": DotProducts, "i8mm": Int8Matrix, "bf16": BFloat16,
		"fp16": Float16} {
		if m.Has(feature) {
			has |= f
		}
	}
	random := rand.New(rand.NewPCG(11, 12))
	insts := RandomHarmless(random, 3, has)
	var c Code
	for _, i := range insts {
		c.Emit(i)
	}
	c.Emit(Inst{Op: MOVZ, Shape: X64, Args: [6]Reg{X(0)}, Imm: 7})
	c.Emit(Inst{Op: RET})
	if have := execute(t, &c, nil); have != 7 {
		t.Errorf("the status is %d", have)
	}
	t.Logf("%d instructions, features %04b", len(insts), has)
}
