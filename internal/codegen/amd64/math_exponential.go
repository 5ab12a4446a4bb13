package amd64

import "math"

// Functions of eˣ. An argument is split as n·ln 2 + r by fused multiplications with ln 2 in two parts (W. J. Cody and W. Waite, Software
// Manual for the Elementary Functions, 1980). Adding roundShift rounds to an integer n and leaves n + 127 in the low bits, which
// shifted left by 23 are the float 2ⁿ.
const (
	roundShift = 3<<22 + 127
	ln2        = float32(math.Ln2)
	ln2Low     = float32(math.Ln2 - float64(ln2))

	// exp overflows above and is zero below; between, what exp's parts are multiplied by is a normal number.
	expHigh = 90
	expLow  = -104.5

	// expNormal is about the least number whose exponential is a normal number.
	expNormal = -87.33
)

// exp has an error of at most 1.63 ulp.
func (m mathematics[V, M]) exp(x V) V { return m.expFrom(x, expLow) }

// expFrom is exp(x), but 0 where x < low, which is expLow or more. There it multiplies nothing: a product that underflows, even to zero,
// takes processors some hundred times as long as another.
func (m mathematics[V, M]) expFrom(x V, low float32) V {
	above := m.compare(notLess, x, m.float(low))
	x = m.max(m.float(low), m.min(m.float(expHigh), x))
	// The result is p·2ⁿ·2ⁿ with n = x / 2 ln 2, so that only the last multiplication can overflow, or round to a subnormal number; |r| ≤ ln 2.
	t := m.fma(x, m.float(0.5/math.Ln2), m.float(roundShift))
	n := m.sub(t, m.float(roundShift))
	r := m.fnma(n, m.float(2*ln2Low), m.fnma(n, m.float(2*ln2), x))
	p := m.horner(r, 1, 1, 5.0000036e-01, 1.6666616e-01, 4.166117e-02, 8.335868e-03, 1.4105992e-03, 1.9650394e-04)
	scale := m.shiftLeft(t, 23)
	return m.mulWhere(above, m.mul(p, scale), scale)
}

// expm1Parts gives p, the polynomial of eʳ − 1 for x = n·ln 2 + r, and 2ⁿ⁺ᵇ, which must be normal.
func (m mathematics[V, M]) expm1Parts(x V, b float32) (p, scale V) {
	t := m.fma(x, m.float(1/math.Ln2), m.float(roundShift+b))
	n := m.sub(t, m.float(roundShift+b))
	r := m.fnma(n, m.float(ln2Low), m.fnma(n, m.float(ln2), x))
	q := m.horner(r, 4.9999997e-01, 1.6666539e-01, 4.1667756e-02, 8.367104e-03, 1.3836327e-03)
	return m.fma(m.mul(q, r), r, r), m.shiftLeft(t, 23)
}

// expm1 has an error of at most 1.59 ulp.
func (m mathematics[V, M]) expm1(x V) V {
	p, half := m.expm1Parts(m.max(m.float(-18), m.min(m.float(88.9), x)), -1)
	y := m.fma(half, p, m.sub(half, m.float(0.5)))
	return m.withSign(m.abs(m.add(y, y)), x)
}

// sigmoid is 1 / (1 + e⁻ˣ), with an error of at most 1.67 ulp.
func (m mathematics[V, M]) sigmoid(x V) V {
	one := m.float(1)
	a := m.or(m.integer(signBit), x)
	p, scale := m.expm1Parts(m.max(m.float(expLow), a), 64)
	e := m.mulWhere(m.compare(notLess, a, m.float(expLow)), m.fma(scale, p, scale), m.float(0x1p-64)) // exp(−|x|)
	numerator := m.selectLanes(m.compare(less, x, m.float(0)), e, one)
	q := m.div(numerator, m.add(one, e))
	rest := m.fnma(q, e, m.sub(numerator, q)) // numerator − q·(1 + e); what it adds to q is rest / (1 + e)
	return m.fma(rest, m.float(0.75), q)
}

// gated is x·sigmoid(y) with one division, with an error of at most 3 ulp where e⁻ʸ does not overflow (y ≥ −88.7), and 0 below.
func (m mathematics[V, M]) gated(x, y V) V {
	return m.div(x, m.add(m.float(1), m.expFrom(m.xor(m.integer(signBit), y), expNormal)))
}

// tanh has an error of at most 1.95 ulp. With e = exp(−2|x|), it is (1 − e) / (1 + e) near 0 and 1 − 2e / (1 + e) elsewhere.
func (m mathematics[V, M]) tanh(x V) V {
	a := m.max(m.float(-9.5), m.or(m.integer(signBit), x))
	p, scale := m.expm1Parts(m.add(a, a), 0)
	e := m.fma(scale, p, scale)
	t := m.fma(scale, p, m.sub(scale, m.float(1)))
	far := m.compare(less, a, m.float(-0.55))
	y := m.div(m.selectLanes(far, m.add(e, e), t), m.fma(scale, p, m.add(scale, m.float(1))))
	y = m.sub(y, m.selectLanes(far, m.float(1), m.float(0)))
	return m.withSign(m.abs(y), x)
}

// quarter is exp(a)/4 for a ≥ 0, which does not overflow where half of exp(a) does not.
func (m mathematics[V, M]) quarter(a V) V {
	p, scale := m.expm1Parts(m.min(m.float(89.5), a), -2)
	return m.fma(scale, p, scale)
}

// sinh has an error of at most 1.62 ulp.
func (m mathematics[V, M]) sinh(x V) V {
	a := m.abs(x)
	e := m.quarter(a)
	e = m.sub(e, m.div(m.float(1./16), e))
	s := m.mul(x, x)
	near := m.horner(s, 1.6666667e-01, 8.333311e-03, 1.9842602e-04, 2.7843687e-06)
	near = m.fma(m.mul(s, a), near, a)
	return m.withSign(m.selectLanes(m.compare(less, a, m.float(1)), near, m.add(e, e)), x)
}

// cosh has an error of at most 1.50 ulp.
func (m mathematics[V, M]) cosh(x V) V {
	e := m.quarter(m.abs(x))
	e = m.add(e, m.div(m.float(1./16), e))
	return m.add(e, e)
}
