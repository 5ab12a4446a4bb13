package portable

import (
	"math"

	"github.com/weirml/weir/internal/loop"
)

// This file has the functions of f32 that take most of the time of models. They are computed in f64 by short series
// whose error is far below half a unit in the last place of f32: results rarely differ from the correctly rounded ones,
// and by one unit only.

// exponential returns e to the power x for |x| ≤ 700, to 9 digits: 2 to an integer power, times a series for |r| ≤
// ln 2 / 2.
func exponential(x float64) float64 {
	const shift = 3 << 51 // adding it rounds to an integer, which is then in the low bits
	k := x*math.Log2E + shift
	exponent := math.Float64bits(k) << 52
	k -= shift
	r := x - k*math.Ln2
	s := r * r
	p := (1 + r) + s*((1.0/2+r*(1.0/6))+s*((1.0/24+r*(1.0/120))+s*(1.0/720+r*(1.0/5040))))
	return math.Float64frombits(math.Float64bits(p) + exponent)
}

// exp32 returns e to the power x.
func exp32(x float32) float32 {
	switch {
	case x > 89:
		return float32(math.Inf(1))
	case x < -104:
		return 0
	case x != x:
		return x
	}
	return float32(exponential(float64(x)))
}

// sigmoid32 returns 1 / (1 + e to the power −x).
func sigmoid32(x float32) float32 {
	switch {
	case x > 89:
		return 1
	case x < -104:
		return 0
	case x != x:
		return x
	}
	return float32(1 / (1 + exponential(-float64(x))))
}

// tanh32 returns the hyperbolic tangent.
func tanh32(x float32) float32 {
	v := float64(x)
	switch a := math.Abs(v); {
	case a == 0:
		return x
	case a < 0.25:
		s := v * v
		return float32(v + v*s*(-1.0/3+s*(2.0/15+s*(-17.0/315+s*(62.0/2835+s*(-1382.0/155925))))))
	case a > 10:
		return float32(math.Copysign(1, v))
	case v != v:
		return x
	}
	return float32(1 - 2/(exponential(2*v)+1))
}

// eachLane returns the loop of a function over strips.
func eachLane(f func(float32) float32) func(to, x []float32) {
	return func(to, x []float32) {
		for i, v := range x[:len(to)] {
			to[i] = f(v)
		}
	}
}

// f32Arithmetic returns the arithmetic of f32.
func f32Arithmetic() arithmetic[float32] {
	a := realArithmetic[float32]()
	a.one[loop.Exp], a.one[loop.Sigmoid], a.one[loop.Tanh] = exp32, sigmoid32, tanh32
	a.oneLoop[loop.Exp], a.oneLoop[loop.Sigmoid], a.oneLoop[loop.Tanh] = expLoop, eachLane(sigmoid32), eachLane(tanh32)
	return a
}

// expLoop is exp32 for all lanes.
func expLoop(to, x []float32) {
	for i, v := range x[:len(to)] {
		if v >= -104 && v <= 89 {
			to[i] = float32(exponential(float64(v)))
		} else {
			to[i] = exp32(v)
		}
	}
}
