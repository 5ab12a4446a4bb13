package amd64

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/amd64/emulate"
)

type wideModel = wideMathematics[uint64, bool]

// The references of f64 compute with this many bits. Arguments so small that the functions near 0 are the identity are not theirs.
const referenceBits = 300

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(referenceBits).SetFloat64(x) }

func add(x, y *big.Float) *big.Float { return bigFloat(0).Add(x, y) }
func quo(x, y *big.Float) *big.Float { return bigFloat(0).Quo(x, y) }
func mul(x, y *big.Float) *big.Float { return bigFloat(0).Mul(x, y) }

// bigExp is the series of x / 2³⁰, squared thirty times. Beyond ±5000 the exact value no longer matters.
func bigExp(x *big.Float) *big.Float {
	const halvings = 30
	for _, limit := range []float64{-5000, 5000} {
		if end := bigFloat(limit); x.Cmp(end) == int(math.Copysign(1, limit)) {
			x = end
		}
	}
	r := bigFloat(0).SetMantExp(x, -halvings)
	sum, term := bigFloat(1), bigFloat(1)
	for n := 1; n < 14; n++ {
		term = quo(mul(term, r), bigFloat(float64(n)))
		sum = add(sum, term)
	}
	for range halvings {
		sum = mul(sum, sum)
	}
	return sum
}

// bigLog improves an approximation near of log x.
func bigLog(x *big.Float, near float64) *big.Float {
	d := add(mul(x, bigExp(bigFloat(-near))), bigFloat(-1))
	return add(bigFloat(near), add(d, mul(mul(d, d), bigFloat(-0.5))))
}

var wideCases = []struct {
	name      string
	model     func(m wideModel, x uint64) uint64
	instrs    func(m emittedWide, x asm.Reg) asm.Reg
	plain     func(x float64) float64 // right where the argument or the result is infinite or no number
	reference func(x float64) *big.Float
	ulp       float64
}{
	{"exp", wideModel.exp, emittedWide.exp, math.Exp, func(x float64) *big.Float { return bigExp(bigFloat(x)) }, 1.0},
	{"expm1", wideModel.expm1, emittedWide.expm1, math.Expm1, func(x float64) *big.Float {
		return add(bigExp(bigFloat(x)), bigFloat(-1))
	}, 1.7},
	{"log", wideModel.log, emittedWide.log, math.Log, func(x float64) *big.Float {
		fraction, exponent := math.Frexp(x)
		return bigLog(bigFloat(x), math.Log(fraction)+float64(exponent)*math.Ln2)
	}, 0.9},
	{"log1p", wideModel.log1p, emittedWide.log1p, math.Log1p, func(x float64) *big.Float {
		return bigLog(add(bigFloat(x), bigFloat(1)), math.Log1p(x))
	}, 1.4},
	{"tanh", wideModel.tanh, emittedWide.tanh, math.Tanh, func(x float64) *big.Float {
		e := bigExp(bigFloat(2 * max(-100, min(100, x))))
		return quo(add(e, bigFloat(-1)), add(e, bigFloat(1)))
	}, 1.9},
	{"sigmoid", wideModel.sigmoid, emittedWide.sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, func(x float64) *big.Float {
		return quo(bigFloat(1), add(bigFloat(1), bigExp(bigFloat(-x))))
	}, 1.5},
}

// wideArguments calls f with many numbers.
func wideArguments(f func(x float64)) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, x := range []float64{0, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-60, 0.5, 1, 2, 708, 709.78271289338, 709.782712893385, 745.13, 745.14, 750, math.MaxFloat64, math.Inf(1)} {
		f(x)
		f(-x)
	}
	f(math.NaN())
	for range 500 {
		f(r.NormFloat64())
		f(r.NormFloat64() * 10)
		f(r.NormFloat64() * 300)
		f(1 + r.NormFloat64()/16)
		f(math.Float64frombits(r.Uint64()))
		f(-700 - r.Float64()*50)
	}
}

func TestWideMathematics(t *testing.T) {
	for _, c := range wideCases {
		t.Run(c.name, func(t *testing.T) {
			worst, at := 0.0, 0.0
			wideArguments(func(x float64) {
				got, want := double(c.model(wideModel{wideLane{}}, wideWord(x))), c.plain(x)
				e := 0.0
				switch {
				case want != want || math.IsInf(x, 0) || x == 0 || math.IsInf(want, 0) && math.IsInf(got, 0):
					if got != want && (got == got || want == want) || math.Signbit(got) != math.Signbit(want) && want == want {
						e = math.Inf(1)
					}
				case got != got || math.IsInf(got, 0):
					e = math.Inf(1)
				default:
					exact := bigFloat(want)
					if math.Abs(x) > 0x1p-70 || c.plain(0) != 0 {
						exact = c.reference(x)
					}
					unit := math.Ldexp(1, max(exact.MantExp(nil)-53, -1074))
					e, _ = quo(add(bigFloat(got), exact.Neg(exact)), bigFloat(unit)).Float64()
				}
				if e = math.Abs(e); e > worst {
					worst, at = e, x
				}
			})
			if worst > c.ulp {
				t.Errorf("%s(%g) = %g, want %g", c.name, at, double(c.model(wideModel{wideLane{}}, wideWord(at))), c.plain(at))
			}
			t.Logf("%.3f ulp at %g", worst, at)
		})
	}
}

// wideAgrees compares what run makes of many numbers with the model, bit for bit.
func wideAgrees(t *testing.T, run func(t *testing.T, f func(m emitted, x, y asm.Reg) asm.Reg, x []uint32) []uint32) {
	var xs []uint64
	wideArguments(func(x float64) { xs = append(xs, wideWord(x)) })
	xs = xs[:len(xs)&^7]
	for _, c := range wideCases {
		t.Run(c.name, func(t *testing.T) {
			instrs := func(m emitted, x, _ asm.Reg) asm.Reg {
				return c.instrs(emittedWide{wideBuilder{m.algebra.(*builder)}}, x)
			}
			result := run(t, instrs, unsafe.Slice((*uint32)(unsafe.Pointer(&xs[0])), 2*len(xs)))
			for i, got := range unsafe.Slice((*uint64)(unsafe.Pointer(&result[0])), len(xs)) {
				want := c.model(wideModel{wideLane{}}, xs[i])
				if got != want && !(double(want) != double(want) && double(got) != double(got)) {
					t.Fatalf("%s(%g) = %g, the model has %g", c.name, double(xs[i]), double(got), double(want))
				}
			}
		})
	}
}

func TestWideEmitted(t *testing.T) {
	wideAgrees(t, func(t *testing.T, f func(m emitted, x, y asm.Reg) asm.Reg, x []uint32) []uint32 {
		code, frame := program(avx2, f)
		entry := native(t, code)
		a := newArrays(t, len(x), frame)
		copy(a.x, x)
		call.Call(entry, a.frame, 0, int64(len(x)/avx2.lanes))
		return a.result
	})
}

func TestWideEmulated(t *testing.T) {
	machine := emulate.New(t)
	wideAgrees(t, func(t *testing.T, f func(m emitted, x, y asm.Reg) asm.Reg, x []uint32) []uint32 {
		return runEmulated(t, machine, f, x, x)
	})
}
