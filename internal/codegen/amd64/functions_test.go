package amd64

import (
	"flag"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/amd64/emulatetest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// emits emits a function of two registers.
type emits func(e *lanes.Emitter, x, y asm.Reg) asm.Reg

// program returns the code of a routine that applies a function of two arguments to arrays, one vector for each tile,
// and the bytes of its frame. The frame begins with the addresses of x, y and the result.
func program(i *isa, f emits) (code []byte, frame int) {
	b := newBuilder(i)
	e := lanes.NewEmitter(nil, new(lanes.KernelEmitter), i.lanes, 1)
	e.Machine = &machine{b, e}
	tile, end := b.General(), b.General()
	b.Assign(tile, asm.RSI)
	b.Assign(end, asm.RDX)
	word := func(n int) asm.Reg { return b.LoadWord(asm.Mem{Base: frameRegister, Disp: int32(8 * n)}) }
	x, y, result := word(0), word(1), word(2)
	again, over := b.Label(), b.Label()
	b.Bind(again)
	b.CompareNumbers(tile, end)
	b.jump(asm.JGE, over)
	at := b.Times(tile, int64(i.bits/8))
	place := func(r asm.Reg) asm.Mem { return asm.Mem{Base: r, Index: at, Scale: 1} }
	read := func(r asm.Reg) asm.Reg { return b.Load(dtype.I32, place(r), asm.NoReg) }
	b.Store(dtype.I32, place(result), f(e, read(x), read(y)), asm.NoReg)
	b.integerImm(asm.ADD, tile, 1)
	b.jump(asm.JMP, again)
	b.Bind(over)
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RAX}, Imm: 0})
	b.Emit(asm.Inst{Op: asm.RET})
	return finish(b)
}

// finish returns a builder's instructions as machine code, and the bytes of its frame, of which the first 64 are taken.
func finish(b *builder) (code []byte, frame int) {
	insts, used := b.Allocated(64)
	return b.Encoded(insts), int(used)
}

// arrays are x, y and the result outside Go's heap, with the frame that has their addresses.
type arrays struct {
	x, y, result []uint32
	frame        unsafe.Pointer
}

// newArrays maps arrays of n elements, and a frame with this number of bytes, until the test ends.
func newArrays(t testing.TB, n, frame int) *arrays {
	t.Helper()
	block, err := mem.Map(mem.Scratch, "test", int64(frame+64+12*n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { block.Close() })
	frame = (frame + 63) &^ 63
	all := unsafe.Slice((*uint32)(unsafe.Add(block.Pointer(), frame)), 3*n)
	a := &arrays{all[:n], all[n : 2*n], all[2*n:], block.Pointer()}
	words := unsafe.Slice((*uintptr)(a.frame), 3)
	for i, s := range [][]uint32{a.x, a.y, a.result} {
		words[i] = uintptr(unsafe.Pointer(&s[0]))
	}
	return a
}

// native maps a routine until the test ends, and returns its address. It skips the test if this processor or system
// cannot run it.
func native(t testing.TB, code []byte) uintptr {
	t.Helper()
	if host := target.Host(1); runtime.GOARCH != "amd64" || !host.Has("avx2") || !host.Has("fma") {
		t.Skip("the processor has no AVX2 and FMA")
	}
	block, err := mem.MapCode("test", code)
	if err != nil {
		t.Skip("the system gives no executable pages: ", err)
	}
	t.Cleanup(func() { block.Close() })
	return uintptr(block.Pointer())
}

type model = mathematics.Functions[uint32, bool]

// functionCase is a function with the model of its results and the generator of its instructions.
type functionCase struct {
	name   string
	model  func(m model, x, y uint32) uint32
	instrs func(m lanes.Functions, x, y asm.Reg) asm.Reg
}

// emits emits the function's instructions.
func (c functionCase) emits(e *lanes.Emitter, x, y asm.Reg) asm.Reg {
	return c.instrs(e.Functions(), x, y)
}

// one returns a function of two arguments that ignores the second.
func one[V, M any](f func(m mathematics.Functions[V, M], x V) V) func(m mathematics.Functions[V, M], x, y V) V {
	return func(m mathematics.Functions[V, M], x, _ V) V { return f(m, x) }
}

var functionCases = []functionCase{
	{"exp", one(model.Exp), one(lanes.Functions.Exp)},
	{"expm1", one(model.Expm1), one(lanes.Functions.Expm1)},
	{"log", one(model.Log), one(lanes.Functions.Log)},
	{"log1p", one(model.Log1p), one(lanes.Functions.Log1p)},
	{"sin", one(model.Sin), one(lanes.Functions.Sin)},
	{"cos", one(model.Cos), one(lanes.Functions.Cos)},
	{"tan", one(model.Tan), one(lanes.Functions.Tan)},
	{"asin", one(model.Asin), one(lanes.Functions.Asin)},
	{"acos", one(model.Acos), one(lanes.Functions.Acos)},
	{"atan", one(model.Atan), one(lanes.Functions.Atan)},
	{"sinh", one(model.Sinh), one(lanes.Functions.Sinh)},
	{"cosh", one(model.Cosh), one(lanes.Functions.Cosh)},
	{"tanh", one(model.Tanh), one(lanes.Functions.Tanh)},
	{"asinh", one(model.Asinh), one(lanes.Functions.Asinh)},
	{"acosh", one(model.Acosh), one(lanes.Functions.Acosh)},
	{"atanh", one(model.Atanh), one(lanes.Functions.Atanh)},
	{"erf", one(model.Erf), one(lanes.Functions.Erf)},
	{"sigmoid", one(model.Sigmoid), one(lanes.Functions.Sigmoid)},
	{"atan2", model.Atan2, lanes.Functions.Atan2},
	{"pow", model.Pow, lanes.Functions.Pow},
}

// combiner is what an emitter's algebra has besides.
type combiner interface {
	Combine(op loop.BinaryOp, x, y lanes.Value) lanes.Value
}

func init() {
	for _, p := range mathematics.Powers {
		functionCases = append(functionCases, functionCase{"pow " + strconv.FormatFloat(float64(p), 'g', -1, 32),
			one(func(m model, x uint32) uint32 {
				x, _ = m.PowConstant(x, p)
				return x
			}),
			one(func(m lanes.Functions, x asm.Reg) asm.Reg {
				of := func(r asm.Reg) lanes.Value { return lanes.Value{DType: dtype.F32, Lo: r} }
				return m.Algebra.(combiner).Combine(loop.Pow, of(x), of(m.Float(p))).Lo
			})})
	}
}

// agree fails unless a function's results are the model's, bit for bit; every NaN counts as equal.
func agree(t *testing.T, c *functionCase, x, y, result []uint32) {
	t.Helper()
	for i := range result {
		want := c.model(model{Algebra: mathematics.Lane{}}, x[i], y[i])
		if result[i] != want && !(math.Float32frombits(want) != math.Float32frombits(want) &&
			math.Float32frombits(result[i]) != math.Float32frombits(result[i])) {
			t.Fatalf("%s(%g, %g) = %g (%#x), the model has %g (%#x)", c.name, math.Float32frombits(x[i]),
				math.Float32frombits(y[i]), math.Float32frombits(result[i]), result[i], math.Float32frombits(want), want)
		}
	}
}

// seconds returns second arguments for xs: elements of xs in another order.
func seconds(xs []uint32) []uint32 {
	ys := make([]uint32, len(xs))
	for i := range ys {
		ys[i] = xs[(i*7919+i/7)%len(xs)]
	}
	return ys
}

// TestFunctionsEmitted checks that the functions' instructions for AVX2 equal the model bit for bit, on this processor.
func TestFunctionsEmitted(t *testing.T) {
	var xs []uint32
	mathematics.Arguments(func(x uint32) { xs = append(xs, x) })
	xs = xs[:len(xs)&^15]
	ys := seconds(xs)
	for _, c := range functionCases {
		t.Run(c.name, func(t *testing.T) {
			code, frame := program(avx2, c.emits)
			entry := native(t, code)
			a := newArrays(t, len(xs), frame)
			copy(a.x, xs)
			copy(a.y, ys)
			if status := call.Call(entry, a.frame, 0, int64(len(xs)/avx2.lanes)); status != 0 {
				t.Fatal("status", status)
			}
			agree(t, &c, a.x, a.y, a.result)
		})
	}
}

// runEmulated runs a program for AVX-512 on arrays and returns the results.
func runEmulated(t *testing.T, machine *emulatetest.Machine, f emits, x,
	y []uint32) []uint32 {
	code, frame := program(avx512, f)
	bytes := func(s []uint32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s)) }
	result := make([]uint32, len(x))
	words := make([]uint32, max(frame, 64)/4)
	regions := []*emulatetest.Region{{Bytes: bytes(words)}, {Bytes: bytes(x), ReadOnly: true},
		{Bytes: bytes(y), ReadOnly: true}, {Bytes: bytes(result)}}
	emulatetest.Place(64, regions...)
	for i, r := range regions[1:] {
		words[2*i], words[2*i+1] = uint32(r.Address), uint32(r.Address>>32)
	}
	status, err := machine.Run(code, map[asm.Reg]uint64{asm.RDI: regions[0].Address, asm.RSI: 0,
		asm.RDX: uint64(len(x) / avx512.lanes)}, regions...)
	if err != nil || status != 0 {
		t.Fatal(status, err)
	}
	return result
}

// TestFunctionsEmulated checks the same for AVX-512, on fewer arguments, in the emulated processor.
func TestFunctionsEmulated(t *testing.T) {
	machine := emulatetest.New(t)
	var xs []uint32
	mathematics.Arguments(func(x uint32) { xs = append(xs, x) })
	step := len(xs)/4096 | 1
	var few []uint32
	for i := 0; i < len(xs) && len(few) < 4096; i += step {
		few = append(few, xs[i])
	}
	few = few[:len(few)&^15]
	ys := seconds(few)
	for _, c := range functionCases {
		t.Run(c.name, func(t *testing.T) {
			result := runEmulated(t, machine, c.emits, few, ys)
			agree(t, &c, few, ys, result)
		})
	}
}

var exhaustive = flag.Bool("exhaustive", false,
	"measure the functions of one argument on all floats from 2⁻³⁰ to 2²⁰ and on every 61st of the others: half a "+
		"minute each")

// TestExhaustive measures the largest errors of the functions, and compares them with the bounds in their comments.
func TestExhaustive(t *testing.T) {
	if !*exhaustive {
		t.Skip("without -exhaustive, TestMathematics measures samples")
	}
	const chunk = 1 << 20
	for _, s := range mathematics.Samples() {
		t.Run(s.Name, func(t *testing.T) {
			if strings.HasPrefix(s.Name, "pow ") {
				t.Skip("a few multiplications")
			}
			i := slices.IndexFunc(functionCases, func(c functionCase) bool { return c.name == s.Name })
			code, frame := program(avx2, functionCases[i].emits)
			entry := native(t, code)
			a := newArrays(t, chunk, frame)
			worst, at := 0.0, float32(0)
			x := uint64(0)
			for x < 1<<32 {
				for i := range a.x {
					a.x[i] = uint32(min(x, 1<<32-1))
					if e := x >> 23 & 255; e >= 127-30 && e < 127+20 {
						x++
					} else {
						x += 61
					}
				}
				call.Call(entry, a.frame, 0, chunk/int64(avx2.lanes))
				for i, got := range a.result {
					want := s.Reference(float64(math.Float32frombits(a.x[i])))
					if math.Float32bits(float32(want)) == got && worst > 0.5 {
						continue
					}
					if e := mathematics.Ulps(math.Float32frombits(got), want); e > worst {
						worst, at = e, math.Float32frombits(a.x[i])
					}
				}
			}
			if t.Logf("%.4f ulp at %g", worst, at); worst > s.Ulp {
				t.Errorf("want at most %g", s.Ulp)
			}
		})
	}
}

func BenchmarkFunctions(b *testing.B) {
	const n = 4096
	for _, c := range functionCases {
		b.Run(c.name, func(b *testing.B) {
			code, frame := program(avx2, c.emits)
			entry := native(b, code)
			a := newArrays(b, n, frame)
			for i := range n {
				a.x[i], a.y[i] = math.Float32bits(float32(i+1)/(n/4)), math.Float32bits(2.5)
			}
			for b.Loop() {
				call.Call(entry, a.frame, 0, n/int64(avx2.lanes))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}
