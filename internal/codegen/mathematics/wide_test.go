package mathematics

import (
	"math"
	"math/big"
	"testing"
)

type wideModel = WideFunctions[uint64, bool]

// referenceBits is the precision of the references of f64, in bits. It is too low for arguments so small that functions
// near 0 are the identity.
const referenceBits = 300

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(referenceBits).SetFloat64(x) }

func add(x, y *big.Float) *big.Float { return bigFloat(0).Add(x, y) }
func quo(x, y *big.Float) *big.Float { return bigFloat(0).Quo(x, y) }
func mul(x, y *big.Float) *big.Float { return bigFloat(0).Mul(x, y) }

// bigExp returns eˣ: the series for x / 2³⁰, squared thirty times. x is clamped to ±5000, beyond which the value does
// not matter.
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

// bigLog returns log x, improved from an approximation near.
func bigLog(x *big.Float, near float64) *big.Float {
	d := add(mul(x, bigExp(bigFloat(-near))), bigFloat(-1))
	return add(bigFloat(near), add(d, mul(mul(d, d), bigFloat(-0.5))))
}

var wideCases = []struct {
	name      string
	model     func(m wideModel, x uint64) uint64
	standard  func(x float64) float64 // correct if the argument or the result is infinite or NaN
	reference func(x float64) *big.Float
	ulp       float64
}{
	{"exp", wideModel.Exp, math.Exp, func(x float64) *big.Float { return bigExp(bigFloat(x)) }, 1.0},
	{"expm1", wideModel.Expm1, math.Expm1, func(x float64) *big.Float {
		return add(bigExp(bigFloat(x)), bigFloat(-1))
	}, 1.7},
	{"log", wideModel.Log, math.Log, func(x float64) *big.Float {
		fraction, exponent := math.Frexp(x)
		return bigLog(bigFloat(x), math.Log(fraction)+float64(exponent)*math.Ln2)
	}, 0.9},
	{"log1p", wideModel.Log1p, math.Log1p, func(x float64) *big.Float {
		return bigLog(add(bigFloat(x), bigFloat(1)), math.Log1p(x))
	}, 1.4},
	{"tanh", wideModel.Tanh, math.Tanh, func(x float64) *big.Float {
		e := bigExp(bigFloat(2 * max(-100, min(100, x))))
		return quo(add(e, bigFloat(-1)), add(e, bigFloat(1)))
	}, 1.9},
	{"sigmoid", wideModel.Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, func(x float64) *big.Float {
		return quo(bigFloat(1), add(bigFloat(1), bigExp(bigFloat(-x))))
	}, 1.5},
}

// TestWideMathematics: the errors of the functions of f64 are below those that their comments give.
func TestWideMathematics(t *testing.T) {
	for _, c := range wideCases {
		t.Run(c.name, func(t *testing.T) {
			worst, at := 0.0, 0.0
			WideArguments(func(x float64) {
				got, want := double(c.model(wideModel{WideLane{}}, wideWord(x))), c.standard(x)
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
					if math.Abs(x) > 0x1p-70 || c.standard(0) != 0 {
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
				t.Errorf("%s(%g) = %g, want %g", c.name, at, double(c.model(wideModel{WideLane{}}, wideWord(at))), c.standard(at))
			}
			t.Logf("%.3f ulp at %g", worst, at)
		})
	}
}
