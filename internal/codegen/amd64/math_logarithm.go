package amd64

import "math"

// The bits of 4/3, and of a float's sign and exponent.
const (
	fourThirds   = 0x3faaaaab
	exponentBits = -1 << 23
	infinity     = 0x7f800000
)

// logOf is log(1 + f) + k·ln 2 for −1/3 ≤ f ≤ 1/3 and k in the exponent field, negative: −k·2²³ as an integer.
func (m mathematics[V, M]) logOf(f, k V) V {
	q := m.horner(f, -0.5, 3.3333215e-01, -2.4999797e-01, 2.0010462e-01, -1.6680503e-01, 1.4004855e-01, -1.2184066e-01, 1.3989776e-01, -1.2892275e-01)
	return m.fma(m.toFloat(k), m.float(-math.Ln2/(1<<23)), m.fma(m.mul(f, f), q, f))
}

// positive is y where x is positive and finite, and otherwise what log gives: ∞ for ∞, −∞ for 0, NaN for less and for NaN.
func (m mathematics[V, M]) positive(x, y V) V {
	y = m.selectLanes(m.compare(less, x, m.integer(infinity)), y, x)
	zero := m.float(0)
	least := m.selectLanes(m.compare(equal, x, zero), m.float(float32(math.Inf(-1))), m.float(float32(math.NaN())))
	return m.selectLanes(m.compare(greater, x, zero), y, least)
}

// log has an error below 1.0 ulp.
func (m mathematics[V, M]) log(x V) V {
	small := m.compare(less, x, m.float(0x1p-126))
	y := m.selectLanes(small, m.mul(x, m.float(1<<23)), x)
	k := m.and(m.subInt(m.integer(fourThirds), y), m.integer(exponentBits))
	f := m.sub(m.addInt(y, k), m.float(1))
	k = m.addInt(k, m.selectLanes(small, m.integer(23<<23), m.integer(0)))
	return m.positive(x, m.logOf(f, k))
}

// log1p has an error below 1.5 ulp.
func (m mathematics[V, M]) log1p(x V) V {
	u := m.add(x, m.float(1))
	return m.positive(u, m.log1pOf(x, u, m.integer(0)))
}

// log1pOf is log(1 + x) + k·ln 2 for finite x > −1, with u = 1 + x rounded, and k as logOf has it.
func (m mathematics[V, M]) log1pOf(x, u, k V) V {
	scale := m.and(m.subInt(m.integer(fourThirds), u), m.integer(exponentBits))
	four := m.addInt(m.float(4), scale) // 4 / 2ⁿ for u near 2ⁿ: unlike 1 / 2ⁿ it is always a normal number
	f := m.mul(m.float(0.25), m.fms(x, four, m.sub(m.float(4), four)))
	return m.logOf(f, m.addInt(scale, k))
}

// vast is the numbers whose squares are so great that 1 does not count beside them.
const vast = 1 << 40

// asinh is log1p(a + a² / (1 + √(1 + a²))) for a = |x|, with an error below 2 ulp.
func (m mathematics[V, M]) asinh(x V) V {
	a, one := m.abs(x), m.float(1)
	square := m.mul(a, a)
	y := m.add(a, m.div(square, m.add(one, m.sqrt(m.add(one, square)))))
	return m.withSign(m.logFar(a, y), x)
}

// logFar is log1p(y), and where a is vast log1p(a) + ln 2; a where it is infinite or NaN.
func (m mathematics[V, M]) logFar(a, y V) V {
	isFar := m.compare(greater, a, m.float(vast))
	y = m.selectLanes(isFar, a, y)
	k := m.selectLanes(isFar, m.integer(exponentBits), m.integer(0))
	y = m.log1pOf(y, m.add(y, m.float(1)), k)
	return m.selectLanes(m.compare(less, a, m.integer(infinity)), y, a)
}

// acosh is log1p(t + √(t² + 2t)) for t = x − 1, with an error below 2 ulp.
func (m mathematics[V, M]) acosh(x V) V {
	t := m.sub(x, m.float(1))
	y := m.logFar(x, m.add(t, m.sqrt(m.fma(t, t, m.add(t, t)))))
	return m.selectLanes(m.compare(less, t, m.float(0)), m.float(float32(math.NaN())), y)
}

// atanh is log1p(2a / (1 − a)) / 2 for a = |x|, with an error below 2 ulp.
func (m mathematics[V, M]) atanh(x V) V {
	a := m.abs(x)
	y := m.log1p(m.div(m.add(a, a), m.sub(m.float(1), a)))
	return m.withSign(m.mul(m.float(0.5), y), x)
}
