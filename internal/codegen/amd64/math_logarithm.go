package amd64

import "math"

// The bits of 4/3, and of a float's sign and exponent.
const (
	fourThirds   = 0x3faaaaab
	exponentBits = -1 << 23
	infinity     = 0x7f800000
)

// logOf is log(1 + f) + k·ln 2 for −1/3 ≤ f ≤ 1/3 and k in the exponent field, negative: −k·2²³ as an integer.
func (m mathematics[V, M]) logOf(f, k V) V { return m.addExponent(k, m.curve(f, f)) }

func (m mathematics[V, M]) addExponent(k, y V) V {
	return m.fma(m.toFloat(k), m.float(-math.Ln2/(1<<23)), y)
}

// curve is log(1 + f) − f + y for −1/3 ≤ f ≤ 1/3.
func (m mathematics[V, M]) curve(f, y V) V {
	q := m.horner(f, -0.5, 3.3333215e-01, -2.4999797e-01, 2.0010462e-01, -1.6680503e-01, 1.4004855e-01, -1.2184066e-01, 1.3989776e-01, -1.2892275e-01)
	return m.fma(m.mul(f, f), q, y)
}

// positive is y where x is positive and finite, and otherwise what log gives: ∞ for ∞, −∞ for 0, NaN for less and for NaN.
func (m mathematics[V, M]) positive(x, y V) V {
	y = m.selectLanes(m.compare(less, x, m.integer(infinity)), y, x)
	zero := m.float(0)
	least := m.selectLanes(m.compare(equal, x, zero), m.float(float32(math.Inf(-1))), m.float(float32(math.NaN())))
	return m.selectLanes(m.compare(greater, x, zero), y, least)
}

// log has an error of at most 0.94 ulp.
func (m mathematics[V, M]) log(x V) V {
	small := m.compare(less, x, m.float(0x1p-126))
	y := m.selectLanes(small, m.mul(x, m.float(1<<23)), x)
	k := m.and(m.subInt(m.integer(fourThirds), y), m.integer(exponentBits))
	f := m.sub(m.addInt(y, k), m.float(1))
	k = m.addInt(k, m.selectLanes(small, m.integer(23<<23), m.integer(0)))
	return m.positive(x, m.logOf(f, k))
}

// log1p has an error of at most 1.55 ulp.
func (m mathematics[V, M]) log1p(x V) V {
	u := m.add(x, m.float(1))
	f, _, k := m.split1p(x, u)
	return m.positive(u, m.logOf(f, k))
}

// split1p gives f and scale = 2⁻ⁿ with 1 + f = (1 + x)·2⁻ⁿ, and n as logOf has it, for finite x > −1 and u = 1 + x rounded.
func (m mathematics[V, M]) split1p(x, u V) (f, scale, n V) {
	n = m.and(m.subInt(m.integer(fourThirds), u), m.integer(exponentBits))
	quarter, four := m.float(0.25), m.addInt(m.float(4), n) // 4·2⁻ⁿ is always a normal number
	return m.mul(quarter, m.fms(x, four, m.sub(m.float(4), four))), m.mul(quarter, four), n
}

// vast is the numbers whose squares are so great that 1 does not count beside them.
const vast = 1 << 40

// asinh is log1p(a + w), w = a² / (1 + √(1 + a²)), for a = |x|, with an error of at most 1.36 ulp.
func (m mathematics[V, M]) asinh(x V) V {
	a, one := m.abs(x), m.float(1)
	square := m.mul(a, a)
	w := m.div(square, m.add(one, m.sqrt(m.add(one, square))))
	return m.withSign(m.logFar(a, a, w), x)
}

// acosh is log1p(√(t² + 2t) + t) for t = x − 1, with an error of at most 1.82 ulp.
func (m mathematics[V, M]) acosh(x V) V {
	t := m.sub(x, m.float(1))
	y := m.logFar(x, m.sqrt(m.fma(t, t, m.add(t, t))), t)
	return m.selectLanes(m.compare(less, t, m.float(0)), m.float(float32(math.NaN())), y)
}

// logFar is log1p(y + z), y ≥ z ≥ 0, and where a is vast log1p(a) + ln 2; a where it is infinite or NaN.
func (m mathematics[V, M]) logFar(a, y, z V) V {
	isFar := m.compare(greater, a, m.float(vast))
	sum := m.add(y, z)
	lost := m.selectLanes(isFar, m.float(0), m.sub(z, m.sub(sum, y)))
	sum = m.selectLanes(isFar, a, sum)
	y = m.log1pOf(sum, lost, m.add(sum, m.float(1)), m.selectLanes(isFar, m.integer(exponentBits), m.integer(0)))
	return m.selectLanes(m.compare(less, a, m.integer(infinity)), y, a)
}

// log1pOf is log1p(x + lost) + k·ln 2 for finite x > −1, where lost is tiny beside x, u = 1 + x rounded, and k as logOf has it.
func (m mathematics[V, M]) log1pOf(x, lost, u, k V) V {
	f, scale, n := m.split1p(x, u)
	lost = m.fma(lost, scale, m.fma(x, scale, m.sub(m.sub(scale, m.float(1)), f)))
	return m.addExponent(m.addInt(n, k), m.add(f, m.curve(f, lost)))
}

// atanh is log1p(2a / (1 − a)) / 2 for a = |x|, with an error of at most 1.30 ulp.
func (m mathematics[V, M]) atanh(x V) V {
	a, one := m.abs(x), m.float(1)
	twice, rest := m.add(a, a), m.sub(one, a)
	y := m.div(twice, rest)
	// What the division lacks, times 1 / (1 − a), which is 1 + y/2.
	lost := m.fnma(y, m.sub(m.sub(one, rest), a), m.fnma(y, rest, twice))
	lost = m.fma(lost, m.mul(y, m.float(0.5)), lost)
	u := m.add(y, one)
	return m.withSign(m.mul(m.float(0.5), m.positive(u, m.log1pOf(y, lost, u, m.integer(0)))), x)
}
