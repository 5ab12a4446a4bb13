package mathematics

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// This file has the arguments for tests of the functions, of this package and of code generators.

// Powers are the powers that PowConstant knows.
var Powers = []float32{0, 1, 2, 3, 4, -1, -2, 0.5, -0.5}

type (
	model = Functions[uint32, bool]
	// Sample is a function of one argument, as the model of a lane computes it, and its reference.
	Sample struct {
		Name      string
		Function  func(m Functions[uint32, bool], x uint32) uint32
		Reference func(float64) float64
		Ulp       float64 // the greatest error that its comment gives
	}
)

// Samples returns the functions of one argument, among them PowConstant for each of Powers.
func Samples() []Sample {
	list := []Sample{
		{"exp", model.Exp, math.Exp, 1.63},
		{"expm1", model.Expm1, math.Expm1, 1.59},
		{"sigmoid", model.Sigmoid, func(x float64) float64 {
			if x < 0 {
				return math.Exp(x) / (1 + math.Exp(x))
			}
			return 1 / (1 + math.Exp(-x))
		}, 1.67},
		{"tanh", model.Tanh, math.Tanh, 1.95},
		{"erf", model.Erf, math.Erf, 1.02},
		{"log", model.Log, math.Log, 0.94},
		{"sinh", model.Sinh, math.Sinh, 1.62},
		{"cosh", model.Cosh, math.Cosh, 1.50},
		{"asinh", model.Asinh, math.Asinh, 1.36},
		{"acosh", model.Acosh, math.Acosh, 1.82},
		{"atanh", model.Atanh, math.Atanh, 1.30},
		{"sin", model.Sin, math.Sin, 1.55},
		{"cos", model.Cos, math.Cos, 1.54},
		{"tan", model.Tan, math.Tan, 1.97},
		{"asin", model.Asin, math.Asin, 1.32},
		{"acos", model.Acos, math.Acos, 1.16},
		{"atan", model.Atan, math.Atan, 1.50},
		{"log1p", model.Log1p, math.Log1p, 1.55},
	}
	for _, p := range Powers {
		list = append(list, Sample{"pow " + strconv.FormatFloat(float64(p), 'g', -1, 32), func(m model, x uint32) uint32 {
			x, ok := m.PowConstant(x, p)
			if !ok {
				panic("unknown")
			}
			return x
		}, func(x float64) float64 { return math.Pow(x, float64(p)) }, 2})
	}
	return list
}

// Ulps returns the distance of a result from the exact value, in units in the last place of f32 at that value. It is
// infinite if only one of both is NaN or infinite, or if both are zeros of different signs.
func Ulps(got float32, want float64) float64 {
	rounded := float32(want)
	switch g := float64(got); {
	case got != got || rounded != rounded:
		if got != got && rounded != rounded {
			return 0
		}
	case got == rounded:
		if got == 0 && math.Signbit(g) != math.Signbit(want) {
			return math.Inf(1)
		}
		if math.IsInf(g, 0) {
			return 0
		}
		return math.Abs(g-want) / unit(want)
	case math.IsInf(want, 0):
	case math.IsInf(g, 0): // as if f32 had one more exponent
		return math.Abs(math.Copysign(0x1p128, g)-want) / 0x1p104
	default:
		return math.Abs(g-want) / unit(want)
	}
	return math.Inf(1)
}

// unit returns the unit in the last place of f32 at x.
func unit(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-24, -149))
}

// Arguments calls f with many floats: special ones, all exponents, and random ones.
func Arguments(f func(x uint32)) {
	r := rand.New(rand.NewPCG(1, 2))
	for e := uint32(0); e < 512; e++ {
		for _, low := range []uint32{0, 1, 2, 1<<22 - 1, 1 << 22, 0x2aaaaa, 0x2aaaab, 1<<23 - 2, 1<<23 - 1} {
			f(e<<23 | low)
		}
		for range 150 {
			f(e<<23 | r.Uint32()>>9)
		}
	}
	for range 50000 { // the range in which most functions vary
		f(word(float32(r.NormFloat64() * 8)))
	}
	for range 30000 { // near 1
		f(0x3f800000 + r.Uint32()>>12 - 1<<19)
	}
	for range 10000 { // the ends of exp
		f(word(-104 + float32(r.Float64())*17))
		f(word(88 + float32(r.Float64())*2))
	}
}

// WideArguments calls f with many floats of 64 bits, special ones and random ones.
func WideArguments(f func(x float64)) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, x := range []float64{0, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-60, 0.5, 1, 2, 708, 709.78271289338,
		709.782712893385, 745.13, 745.14, 750, math.MaxFloat64, math.Inf(1)} {
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
