package mathematics

import "math"

// WideAlgebra has the operations of Algebra that WideFunctions uses, for lanes of 64 bits.
type WideAlgebra[V, M any] interface {
	Float(c float64) V
	Integer(c int64) V

	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	MulWhere(m M, x, y V) V
	Div(x, y V) V
	Min(x, y V) V
	Max(x, y V) V
	Fma(x, y, z V) V
	Fnma(x, y, z V) V
	Near(x, y, z V) V
	Fms(x, y, z V) V

	And(x, y V) V
	Or(x, y V) V
	AndNot(x, y V) V
	AddInt(x, y V) V
	SubInt(x, y V) V
	ShiftLeft(x V, n int64) V
	ShiftRight(x V, n int64) V

	Compare(p Predicate, x, y V) M
	SelectLanes(m M, x, y V) V
}

// WideFunctions has functions of f64, by the methods of Functions. Their errors are measured on samples.
type WideFunctions[V, M any] struct{ WideAlgebra[V, M] }

const (
	wideShift      = 3<<51 + 1023 // as roundShift
	wideLn2Low     = 2.319046813846299558e-17
	wideSign       = -1 << 63
	wideExponent   = -1 << 52
	wideInfinity   = 0x7ff0000000000000
	wideFourThirds = 0x3ff5555555555555
	ExpLowWide     = -746
	expHighWide    = 710
)

// withSign returns x with the sign of y.
func (m WideFunctions[V, M]) withSign(x, y V) V {
	sign := m.Integer(wideSign)
	return m.Or(m.AndNot(sign, x), m.And(sign, y))
}

// horner returns c₀ + x·(c₁ + x·(c₂ + …)).
func (m WideFunctions[V, M]) horner(x V, c ...float64) V {
	p := m.Float(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		p = m.Near(p, x, m.Float(c[i]))
	}
	return p
}

// split returns p, the polynomial of eʳ − 1 for x = n·ln 2 + r, and n + b + 1023 in the low bits.
func (m WideFunctions[V, M]) split(x V, b float64) (p, n V) {
	t := m.Fma(x, m.Float(math.Log2E), m.Float(wideShift+b))
	k := m.Sub(t, m.Float(wideShift+b))
	r := m.Fnma(k, m.Float(wideLn2Low), m.Fnma(k, m.Float(math.Ln2), x))
	q := m.horner(r, 0.5, 0.16666666666666677, 0.04166666666666669, 0.008333333333321733, 0.0013888888888882386,
		0.00019841269885391386,
		2.4801587306663367e-05, 2.7557245232398974e-06, 2.7557305487227896e-07, 2.510861995852483e-08, 2.0900888438550272e-09)
	return m.Fma(m.Mul(q, r), r, r), t
}

// Exp has an error below 1.0 ulp.
func (m WideFunctions[V, M]) Exp(x V) V {
	return m.ExpFrom(x, ExpLowWide)
}

// ExpFrom returns exp(x), or 0 if x < low, which is at least ExpLowWide.
func (m WideFunctions[V, M]) ExpFrom(x V, low float64) V {
	above := m.Compare(NotLess, x, m.Float(low))
	p, n := m.split(m.Max(m.Float(low), m.Min(m.Float(expHighWide), x)), 1023)
	half := m.ShiftRight(n, 1) // 2ⁿ in two factors
	scale := m.ShiftLeft(half, 52)
	return m.MulWhere(above, m.Fma(scale, p, scale), m.ShiftLeft(m.SubInt(n, half), 52))
}

// Expm1 has an error below 1.7 ulp.
func (m WideFunctions[V, M]) Expm1(x V) V {
	p, n := m.split(m.Max(m.Float(-40), m.Min(m.Float(expHighWide), x)), -1)
	half := m.ShiftLeft(n, 52)
	y := m.Fma(half, p, m.Sub(half, m.Float(0.5)))
	return m.withSign(m.Add(y, y), x)
}

// Sigmoid has an error below 1.5 ulp.
func (m WideFunctions[V, M]) Sigmoid(x V) V {
	one := m.Float(1)
	a := m.Or(m.Integer(wideSign), x)
	p, n := m.split(m.Max(m.Float(ExpLowWide), a), 100)
	scale := m.ShiftLeft(n, 52)
	e := m.MulWhere(m.Compare(NotLess, a, m.Float(ExpLowWide)), m.Fma(scale, p, scale), m.Float(0x1p-100))
	numerator := m.SelectLanes(m.Compare(Less, x, m.Float(0)), e, one)
	q := m.Div(numerator, m.Add(one, e))
	return m.Fma(m.Fnma(q, e, m.Sub(numerator, q)), m.Float(0.75), q)
}

// Tanh has an error below 1.9 ulp.
func (m WideFunctions[V, M]) Tanh(x V) V {
	a, one := m.Max(m.Float(-20), m.Or(m.Integer(wideSign), x)), m.Float(1)
	p, n := m.split(m.Add(a, a), 0)
	scale := m.ShiftLeft(n, 52)
	e := m.Fma(scale, p, scale)
	far := m.Compare(Less, a, m.Float(-0.55))
	numerator := m.SelectLanes(far, m.Add(e, e), m.Fma(scale, p, m.Sub(scale, one)))
	y := m.Div(numerator, m.Fma(scale, p, m.Add(scale, one)))
	return m.withSign(m.Sub(y, m.SelectLanes(far, one, m.Float(0))), x)
}

// logOf returns log(1 + f) + n·ln 2 for −1/3 ≤ f ≤ 1/3, where k is −n·2⁵² as an integer. The series is that of the
// inverse hyperbolic tangent of s = f / (2 + f); its largest terms are f − f²/2 (P. T. P. Tang, Table-driven
// implementation of the logarithm function, 1990).
func (m WideFunctions[V, M]) logOf(f, k V) V {
	s := m.Div(f, m.Add(f, m.Float(2)))
	z := m.Mul(s, s)
	r := m.Mul(z, m.horner(z, 0.6666666666666666, 0.4000000000000798, 0.28571428568087104, 0.2222222287526314,
		0.18181751631752058,
		0.1538832624940124, 0.1321978655244127, 0.1353639366718522))
	half := m.Mul(m.Mul(f, f), m.Float(0.5))
	// The exponent, moved to the low bits and made positive, below the bits of 2⁵².
	const bias = 0x1p52 + 2048
	n := m.Sub(m.Float(bias), m.Or(m.ShiftRight(m.AddInt(k, m.Integer(wideSign)), 52), m.Float(0x1p52)))
	rest := m.Fma(n, m.Float(wideLn2Low), m.Sub(m.Mul(s, m.Add(half, r)), half))
	return m.Fma(n, m.Float(math.Ln2), m.Add(f, rest))
}

// positive is that of Functions.
func (m WideFunctions[V, M]) positive(x, y V) V {
	y = m.SelectLanes(m.Compare(Less, x, m.Integer(wideInfinity)), y, x)
	zero := m.Float(0)
	least := m.SelectLanes(m.Compare(Equal, x, zero), m.Float(math.Inf(-1)), m.Float(math.NaN()))
	return m.SelectLanes(m.Compare(Greater, x, zero), y, least)
}

// Log has an error below 0.9 ulp.
func (m WideFunctions[V, M]) Log(x V) V {
	small := m.Compare(Less, x, m.Float(0x1p-1022))
	y := m.SelectLanes(small, m.Mul(x, m.Float(1<<52)), x)
	k := m.And(m.SubInt(m.Integer(wideFourThirds), y), m.Integer(wideExponent))
	f := m.Sub(m.AddInt(y, k), m.Float(1))
	k = m.AddInt(k, m.SelectLanes(small, m.Integer(52<<52), m.Integer(0)))
	return m.positive(x, m.logOf(f, k))
}

// Log1p has an error below 1.4 ulp.
func (m WideFunctions[V, M]) Log1p(x V) V {
	u := m.Add(x, m.Float(1))
	k := m.And(m.SubInt(m.Integer(wideFourThirds), u), m.Integer(wideExponent))
	four := m.AddInt(m.Float(4), k)
	f := m.Mul(m.Float(0.25), m.Fms(x, four, m.Sub(m.Float(4), four)))
	return m.positive(u, m.withSign(m.logOf(f, k), x))
}
