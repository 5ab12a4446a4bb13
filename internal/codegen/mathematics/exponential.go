package mathematics

import "math"

// Functions of eˣ. An argument is split into n·ln 2 + r by fused multiplications with ln 2 as a sum of two floats (W.
// J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980). Adding roundShift rounds to an integer n
// and leaves n + 127 in the low bits, which shifted left by 23 are the float 2ⁿ.
const (
	roundShift = 3<<22 + 127
	ln2        = float32(math.Ln2)
	ln2Low     = float32(math.Ln2 - float64(ln2))

	// exp overflows above expHigh and is zero below ExpLow; between them, the factors of exp's result are normal numbers.
	expHigh = 90
	ExpLow  = -104.5

	// expNormal is about the least number whose exponential is a normal number.
	expNormal = -87.33
)

// Exp has an error of at most 1.63 ulp.
func (m Functions[V, M]) Exp(x V) V { return m.ExpFrom(x, ExpLow) }

// ExpFrom returns exp(x), or 0 if x < low, which is at least ExpLow. For such x it multiplies nothing: a product that
// underflows, even to zero, takes processors about a hundred times as long as others.
func (m Functions[V, M]) ExpFrom(x V, low float32) V {
	above := m.Compare(NotLess, x, m.Float(low))
	x = m.Max(m.Float(low), m.Min(m.Float(expHigh), x))
	// The result is p·2ⁿ·2ⁿ with n = x / 2 ln 2, so that only the last multiplication can overflow, or round to a
	// subnormal number; |r| ≤ ln 2.
	t := m.Fma(x, m.Float(0.5/math.Ln2), m.Float(roundShift))
	n := m.Sub(t, m.Float(roundShift))
	r := m.Fnma(n, m.Float(2*ln2Low), m.Fnma(n, m.Float(2*ln2), x))
	p := m.horner(r, 1, 1, 5.0000036e-01, 1.6666616e-01, 4.166117e-02, 8.335868e-03, 1.4105992e-03, 1.9650394e-04)
	scale := m.ShiftLeft(t, 23)
	return m.MulWhere(above, m.Mul(p, scale), scale)
}

// expm1Parts returns p, the polynomial of eʳ − 1 for x = n·ln 2 + r, and 2ⁿ⁺ᵇ, which must be a normal number.
func (m Functions[V, M]) expm1Parts(x V, b float32) (p, scale V) {
	t := m.Fma(x, m.Float(1/math.Ln2), m.Float(roundShift+b))
	n := m.Sub(t, m.Float(roundShift+b))
	r := m.Fnma(n, m.Float(ln2Low), m.Fnma(n, m.Float(ln2), x))
	q := m.horner(r, 4.9999997e-01, 1.6666539e-01, 4.1667756e-02, 8.367104e-03, 1.3836327e-03)
	return m.Fma(m.Mul(q, r), r, r), m.ShiftLeft(t, 23)
}

// Expm1 has an error of at most 1.59 ulp.
func (m Functions[V, M]) Expm1(x V) V {
	p, half := m.expm1Parts(m.Max(m.Float(-18), m.Min(m.Float(88.9), x)), -1)
	y := m.Fma(half, p, m.Sub(half, m.Float(0.5)))
	return m.withSign(m.abs(m.Add(y, y)), x)
}

// Sigmoid returns 1 / (1 + e⁻ˣ), with an error of at most 1.67 ulp.
func (m Functions[V, M]) Sigmoid(x V) V {
	one := m.Float(1)
	a := m.Or(m.Integer(signBit), x)
	p, scale := m.expm1Parts(m.Max(m.Float(ExpLow), a), 64)
	e := m.MulWhere(m.Compare(NotLess, a, m.Float(ExpLow)), m.Fma(scale, p, scale), m.Float(0x1p-64)) // exp(−|x|)
	numerator := m.SelectLanes(m.Compare(Less, x, m.Float(0)), e, one)
	q := m.Div(numerator, m.Add(one, e))
	rest := m.Fnma(q, e, m.Sub(numerator, q)) // numerator − q·(1 + e); what it adds to q is rest / (1 + e)
	return m.Fma(rest, m.Float(0.75), q)
}

// Gated returns x·sigmoid(y) with one division. The error is at most 3 ulp if e⁻ʸ does not overflow (y ≥ −88.7); below,
// the result is 0.
func (m Functions[V, M]) Gated(x, y V) V {
	return m.Div(x, m.Add(m.Float(1), m.ExpFrom(m.Xor(m.Integer(signBit), y), expNormal)))
}

// Tanh has an error of at most 1.95 ulp. With e = exp(−2|x|), it is (1 − e) / (1 + e) near 0 and 1 − 2e / (1 + e)
// elsewhere.
func (m Functions[V, M]) Tanh(x V) V {
	a := m.Max(m.Float(-9.5), m.Or(m.Integer(signBit), x))
	p, scale := m.expm1Parts(m.Add(a, a), 0)
	e := m.Fma(scale, p, scale)
	t := m.Fma(scale, p, m.Sub(scale, m.Float(1)))
	far := m.Compare(Less, a, m.Float(-0.55))
	y := m.Div(m.SelectLanes(far, m.Add(e, e), t), m.Fma(scale, p, m.Add(scale, m.Float(1))))
	y = m.Sub(y, m.SelectLanes(far, m.Float(1), m.Float(0)))
	return m.withSign(m.abs(y), x)
}

// quarter returns exp(a)/4 for a ≥ 0, which does not overflow if exp(a)/2 does not.
func (m Functions[V, M]) quarter(a V) V {
	p, scale := m.expm1Parts(m.Min(m.Float(89.5), a), -2)
	return m.Fma(scale, p, scale)
}

// Sinh has an error of at most 1.62 ulp.
func (m Functions[V, M]) Sinh(x V) V {
	a := m.abs(x)
	e := m.quarter(a)
	e = m.Sub(e, m.Div(m.Float(1./16), e))
	s := m.Mul(x, x)
	near := m.horner(s, 1.6666667e-01, 8.333311e-03, 1.9842602e-04, 2.7843687e-06)
	near = m.Fma(m.Mul(s, a), near, a)
	return m.withSign(m.SelectLanes(m.Compare(Less, a, m.Float(1)), near, m.Add(e, e)), x)
}

// Cosh has an error of at most 1.50 ulp.
func (m Functions[V, M]) Cosh(x V) V {
	e := m.quarter(m.abs(x))
	e = m.Add(e, m.Div(m.Float(1./16), e))
	return m.Add(e, e)
}
