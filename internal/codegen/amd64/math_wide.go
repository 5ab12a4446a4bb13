package amd64

import "math"

// wideAlgebra is algebra for lanes of 64 bits, as far as it is used.
type wideAlgebra[V, M any] interface {
	float(c float64) V
	integer(c int64) V

	add(x, y V) V
	sub(x, y V) V
	mul(x, y V) V
	mulWhere(m M, x, y V) V
	div(x, y V) V
	min(x, y V) V
	max(x, y V) V
	fma(x, y, z V) V
	fnma(x, y, z V) V
	fms(x, y, z V) V

	and(x, y V) V
	or(x, y V) V
	andNot(x, y V) V
	addInt(x, y V) V
	subInt(x, y V) V
	shiftLeft(x V, n int64) V
	shiftRight(x V, n int64) V

	compare(p predicate, x, y V) M
	selectLanes(m M, x, y V) V
}

// wideMathematics has functions of f64, by the methods of mathematics. Their errors are measured on samples.
type wideMathematics[V, M any] struct{ wideAlgebra[V, M] }

const (
	wideShift      = 3<<51 + 1023 // as roundShift
	wideLn2Low     = 2.319046813846299558e-17
	wideSign       = -1 << 63
	wideExponent   = -1 << 52
	wideInfinity   = 0x7ff0000000000000
	wideFourThirds = 0x3ff5555555555555
	expLowWide     = -746
	expHighWide    = 710
)

func (m wideMathematics[V, M]) withSign(x, y V) V {
	sign := m.integer(wideSign)
	return m.or(m.andNot(sign, x), m.and(sign, y))
}

func (m wideMathematics[V, M]) horner(x V, c ...float64) V {
	p := m.float(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		p = m.fma(p, x, m.float(c[i]))
	}
	return p
}

// split gives p, the polynomial of eʳ − 1 for x = n·ln 2 + r, and the bits of n + b + 1023.
func (m wideMathematics[V, M]) split(x V, b float64) (p, n V) {
	t := m.fma(x, m.float(math.Log2E), m.float(wideShift+b))
	k := m.sub(t, m.float(wideShift+b))
	r := m.fnma(k, m.float(wideLn2Low), m.fnma(k, m.float(math.Ln2), x))
	q := m.horner(r, 0.5, 0.16666666666666677, 0.04166666666666669, 0.008333333333321733, 0.0013888888888882386, 0.00019841269885391386,
		2.4801587306663367e-05, 2.7557245232398974e-06, 2.7557305487227896e-07, 2.510861995852483e-08, 2.0900888438550272e-09)
	return m.fma(m.mul(q, r), r, r), t
}

// exp has an error below 1.0 ulp.
func (m wideMathematics[V, M]) exp(x V) V {
	return m.expFrom(x, expLowWide)
}

// expFrom is exp(x), but 0 where x < low, which is expLowWide or more.
func (m wideMathematics[V, M]) expFrom(x V, low float64) V {
	above := m.compare(notLess, x, m.float(low))
	p, n := m.split(m.max(m.float(low), m.min(m.float(expHighWide), x)), 1023)
	half := m.shiftRight(n, 1) // 2ⁿ in two factors
	scale := m.shiftLeft(half, 52)
	return m.mulWhere(above, m.fma(scale, p, scale), m.shiftLeft(m.subInt(n, half), 52))
}

// expm1 has an error below 1.7 ulp.
func (m wideMathematics[V, M]) expm1(x V) V {
	p, n := m.split(m.max(m.float(-40), m.min(m.float(expHighWide), x)), -1)
	half := m.shiftLeft(n, 52)
	y := m.fma(half, p, m.sub(half, m.float(0.5)))
	return m.withSign(m.add(y, y), x)
}

// sigmoid has an error below 1.5 ulp.
func (m wideMathematics[V, M]) sigmoid(x V) V {
	one := m.float(1)
	a := m.or(m.integer(wideSign), x)
	p, n := m.split(m.max(m.float(expLowWide), a), 100)
	scale := m.shiftLeft(n, 52)
	e := m.mulWhere(m.compare(notLess, a, m.float(expLowWide)), m.fma(scale, p, scale), m.float(0x1p-100))
	numerator := m.selectLanes(m.compare(less, x, m.float(0)), e, one)
	q := m.div(numerator, m.add(one, e))
	return m.fma(m.fnma(q, e, m.sub(numerator, q)), m.float(0.75), q)
}

// tanh has an error below 1.9 ulp.
func (m wideMathematics[V, M]) tanh(x V) V {
	a, one := m.max(m.float(-20), m.or(m.integer(wideSign), x)), m.float(1)
	p, n := m.split(m.add(a, a), 0)
	scale := m.shiftLeft(n, 52)
	e := m.fma(scale, p, scale)
	far := m.compare(less, a, m.float(-0.55))
	numerator := m.selectLanes(far, m.add(e, e), m.fma(scale, p, m.sub(scale, one)))
	y := m.div(numerator, m.fma(scale, p, m.add(scale, one)))
	return m.withSign(m.sub(y, m.selectLanes(far, one, m.float(0))), x)
}

// logOf is log(1 + f) + k·ln 2 for −1/3 ≤ f ≤ 1/3 and k in the exponent field, negative. The series is that of the inverse hyperbolic tangent of s = f / (2 + f);
// what is greatest in it is f − f²/2 (P. T. P. Tang, Table-driven implementation of the logarithm function, 1990).
func (m wideMathematics[V, M]) logOf(f, k V) V {
	s := m.div(f, m.add(f, m.float(2)))
	z := m.mul(s, s)
	r := m.mul(z, m.horner(z, 0.6666666666666666, 0.4000000000000798, 0.28571428568087104, 0.2222222287526314, 0.18181751631752058,
		0.1538832624940124, 0.1321978655244127, 0.1353639366718522))
	half := m.mul(m.mul(f, f), m.float(0.5))
	// The exponent, moved to the low bits and made positive, below the bits of 2⁵².
	const bias = 0x1p52 + 2048
	n := m.sub(m.float(bias), m.or(m.shiftRight(m.addInt(k, m.integer(wideSign)), 52), m.float(0x1p52)))
	rest := m.fma(n, m.float(wideLn2Low), m.sub(m.mul(s, m.add(half, r)), half))
	return m.fma(n, m.float(math.Ln2), m.add(f, rest))
}

// positive is as that of mathematics.
func (m wideMathematics[V, M]) positive(x, y V) V {
	y = m.selectLanes(m.compare(less, x, m.integer(wideInfinity)), y, x)
	zero := m.float(0)
	least := m.selectLanes(m.compare(equal, x, zero), m.float(math.Inf(-1)), m.float(math.NaN()))
	return m.selectLanes(m.compare(greater, x, zero), y, least)
}

// log has an error below 0.9 ulp.
func (m wideMathematics[V, M]) log(x V) V {
	small := m.compare(less, x, m.float(0x1p-1022))
	y := m.selectLanes(small, m.mul(x, m.float(1<<52)), x)
	k := m.and(m.subInt(m.integer(wideFourThirds), y), m.integer(wideExponent))
	f := m.sub(m.addInt(y, k), m.float(1))
	k = m.addInt(k, m.selectLanes(small, m.integer(52<<52), m.integer(0)))
	return m.positive(x, m.logOf(f, k))
}

// log1p has an error below 1.4 ulp.
func (m wideMathematics[V, M]) log1p(x V) V {
	u := m.add(x, m.float(1))
	k := m.and(m.subInt(m.integer(wideFourThirds), u), m.integer(wideExponent))
	four := m.addInt(m.float(4), k)
	f := m.mul(m.float(0.25), m.fms(x, four, m.sub(m.float(4), four)))
	return m.positive(u, m.withSign(m.logOf(f, k), x))
}
