package mathematics

import "math"

const (
	fourThirds   = 0x3faaaaab // the bits of 4/3
	exponentBits = -1 << 23   // a float's sign and exponent
	infinity     = 0x7f800000 // the bits of ∞
)

// logOf returns log(1 + f) + n·ln 2 for −1/3 ≤ f ≤ 1/3, where k is −n·2²³ as an integer.
func (m Functions[V, M]) logOf(f, k V) V { return m.addExponent(k, m.curve(f, f)) }

// addExponent returns y + n·ln 2, where k is −n·2²³ as an integer.
func (m Functions[V, M]) addExponent(k, y V) V {
	return m.Fma(m.ToFloat(k), m.Float(-math.Ln2/(1<<23)), y)
}

// curve returns log(1 + f) − f + y for −1/3 ≤ f ≤ 1/3.
func (m Functions[V, M]) curve(f, y V) V {
	q := m.horner(f, -0.5, 3.3333215e-01, -2.4999797e-01, 2.0010462e-01, -1.6680503e-01, 1.4004855e-01, -1.2184066e-01,
		1.3989776e-01, -1.2892275e-01)
	return m.Fma(m.Mul(f, f), q, y)
}

// positive returns y if x is positive and finite, and otherwise log(x): ∞ for ∞, −∞ for 0, and NaN for negative x and
// for NaN.
func (m Functions[V, M]) positive(x, y V) V {
	y = m.SelectLanes(m.Compare(Less, x, m.Integer(infinity)), y, x)
	zero := m.Float(0)
	least := m.SelectLanes(m.Compare(Equal, x, zero), m.Float(float32(math.Inf(-1))), m.Float(float32(math.NaN())))
	return m.SelectLanes(m.Compare(Greater, x, zero), y, least)
}

// Log has an error of at most 0.94 ulp.
func (m Functions[V, M]) Log(x V) V {
	small := m.Compare(Less, x, m.Float(0x1p-126))
	y := m.SelectLanes(small, m.Mul(x, m.Float(1<<23)), x)
	k := m.And(m.SubInt(m.Integer(fourThirds), y), m.Integer(exponentBits))
	f := m.Sub(m.AddInt(y, k), m.Float(1))
	k = m.AddInt(k, m.SelectLanes(small, m.Integer(23<<23), m.Integer(0)))
	return m.positive(x, m.logOf(f, k))
}

// Log1p has an error of at most 1.55 ulp.
func (m Functions[V, M]) Log1p(x V) V {
	u := m.Add(x, m.Float(1))
	f, _, k := m.split1p(x, u)
	return m.positive(u, m.logOf(f, k))
}

// split1p returns f and scale = 2⁻ⁿ with 1 + f = (1 + x)·2⁻ⁿ, and −n·2²³ as an integer, for finite x > −1 and u = 1 + x
// rounded.
func (m Functions[V, M]) split1p(x, u V) (f, scale, n V) {
	n = m.And(m.SubInt(m.Integer(fourThirds), u), m.Integer(exponentBits))
	quarter, four := m.Float(0.25), m.AddInt(m.Float(4), n) // 4·2⁻ⁿ is always a normal number
	return m.Mul(quarter, m.Fms(x, four, m.Sub(m.Float(4), four))), m.Mul(quarter, four), n
}

// vast is a number from which on adding 1 to the square changes nothing.
const vast = 1 << 40

// Asinh computes log1p(a + w), w = a² / (1 + √(1 + a²)), for a = |x|, with an error of at most 1.36 ulp.
func (m Functions[V, M]) Asinh(x V) V {
	a, one := m.abs(x), m.Float(1)
	square := m.Mul(a, a)
	w := m.Div(square, m.Add(one, m.Sqrt(m.Add(one, square))))
	return m.withSign(m.logFar(a, a, w), x)
}

// Acosh computes log1p(√(t² + 2t) + t) for t = x − 1, with an error of at most 1.82 ulp.
func (m Functions[V, M]) Acosh(x V) V {
	t := m.Sub(x, m.Float(1))
	y := m.logFar(x, m.Sqrt(m.Fma(t, t, m.Add(t, t))), t)
	return m.SelectLanes(m.Compare(Less, t, m.Float(0)), m.Float(float32(math.NaN())), y)
}

// logFar returns log1p(y + z) for y ≥ z ≥ 0, or log1p(a) + ln 2 if a is vast, or a if it is infinite or NaN.
func (m Functions[V, M]) logFar(a, y, z V) V {
	isFar := m.Compare(Greater, a, m.Float(vast))
	sum := m.Add(y, z)
	lost := m.SelectLanes(isFar, m.Float(0), m.Sub(z, m.Sub(sum, y)))
	sum = m.SelectLanes(isFar, a, sum)
	y = m.log1pOf(sum, lost, m.Add(sum, m.Float(1)), m.SelectLanes(isFar, m.Integer(exponentBits), m.Integer(0)))
	return m.SelectLanes(m.Compare(Less, a, m.Integer(infinity)), y, a)
}

// log1pOf returns log1p(x + lost) + n·ln 2 for finite x > −1, where lost is tiny compared with x, u is 1 + x rounded,
// and k is −n·2²³ as an integer.
func (m Functions[V, M]) log1pOf(x, lost, u, k V) V {
	f, scale, n := m.split1p(x, u)
	lost = m.Fma(lost, scale, m.Fma(x, scale, m.Sub(m.Sub(scale, m.Float(1)), f)))
	return m.addExponent(m.AddInt(n, k), m.Add(f, m.curve(f, lost)))
}

// Atanh computes log1p(2a / (1 − a)) / 2 for a = |x|, with an error of at most 1.30 ulp.
func (m Functions[V, M]) Atanh(x V) V {
	a, one := m.abs(x), m.Float(1)
	twice, rest := m.Add(a, a), m.Sub(one, a)
	y := m.Div(twice, rest)
	// The division's remainder, times 1 / (1 − a), which is 1 + y/2.
	lost := m.Fnma(y, m.Sub(m.Sub(one, rest), a), m.Fnma(y, rest, twice))
	lost = m.Fma(lost, m.Mul(y, m.Float(0.5)), lost)
	u := m.Add(y, one)
	return m.withSign(m.Mul(m.Float(0.5), m.positive(u, m.log1pOf(y, lost, u, m.Integer(0)))), x)
}
