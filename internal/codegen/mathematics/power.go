package mathematics

import "math"

// log2(1 + f) is log2e·f − log2e/2·f² + f³·R(f). The first two factors are sums of two floats.
const (
	log2e        = float32(math.Log2E)
	log2eLow     = float32(math.Log2E - float64(log2e))
	halfLog2e    = float32(-math.Log2E / 2)
	halfLog2eLow = float32(-math.Log2E/2 - float64(halfLog2e))
)

// powerTable has for each eighth of an octave, from 31/32 on, a number of five bits near its reciprocal, and −log2 of
// that number as a sum of two floats. The first of them plus k is exact: it takes at most 24 bits.
var powerTable = [...][8]float32{
	{32. / 32, 28. / 32, 26. / 32, 23. / 32, 21. / 32, 20. / 32, 18. / 32, 17. / 32},
	{0, 0.1926422119140625, 0.299560546875, 0.4764404296875, 0.6076812744140625, 0.678070068359375, 0.830078125,
		0.91253662109375},
	{0, 2.8660284e-06, -2.650161e-07, -2.3857444e-06, 1.3028072e-06, 1.8367533e-06, -3.1264424e-06, 5.376559e-07},
}

// log2Of returns log2(x) for finite x > 0 as high + low, to about 33 bits. The results for other x are undefined.
func (m Functions[V, M]) log2Of(x V) (high, low V) {
	small := m.Compare(Less, x, m.Float(0x1p-126))
	x = m.SelectLanes(small, m.Mul(x, m.Float(1<<23)), x)
	offset := m.SubInt(x, m.Integer(0x3f780000)) // from 31/32 on
	index := m.ShiftRight(offset, 20)
	mantissa := m.SubInt(x, m.And(offset, m.Integer(exponentBits)))
	k := m.Sub(m.ToFloat(m.ShiftRightSigned(offset, 23)), m.SelectLanes(small, m.Float(23), m.Float(0)))
	f := m.Fms(mantissa, m.lookupFloat(&powerTable[0], index), m.Float(1)) // exact; |f| < 0.0704

	linear := m.Mul(f, m.Float(log2e))
	linearLow := m.Fma(f, m.Float(log2eLow), m.Fms(f, m.Float(log2e), linear))
	square := m.Mul(f, f)
	squareLow := m.Fms(f, f, square)
	t := m.Mul(f, m.horner(f, 4.8089835e-01, -3.606738e-01, 2.8853136e-01, -2.404326e-01, 2.0849118e-01, -1.8265405e-01))
	factor := m.Add(t, m.Float(halfLog2e))
	factorLow := m.Add(m.Add(m.Sub(m.Float(halfLog2e), factor), t), m.Float(halfLog2eLow))
	curve := m.Mul(square, factor)
	curveLow := m.Fma(square, factorLow, m.Fma(squareLow, factor, m.Fms(square, factor, curve)))

	base := m.Add(k, m.lookupFloat(&powerTable[1], index))
	sum := m.Add(base, linear)
	low = m.Add(m.Sub(linear, m.Sub(sum, base)), m.Add(linearLow, m.lookupFloat(&powerTable[2], index)))
	high = m.Add(sum, curve)
	return high, m.Add(low, m.Add(m.Sub(curve, m.Sub(high, sum)), curveLow))
}

// exp2Of returns 2 to the power high + low, for |low| ≤ 1.
func (m Functions[V, M]) exp2Of(high, low V) V {
	high = m.Max(m.Float(-160), m.Min(m.Float(140), high))
	t := m.Add(high, m.Float(3<<22+2*127))
	r := m.Add(m.Sub(high, m.Sub(t, m.Float(3<<22+2*127))), low)
	p := m.horner(r, 1, 6.9314724e-01, 2.4022655e-01, 5.5502728e-02, 9.617062e-03, 1.3417769e-03, 1.5826554e-04)
	half := m.ShiftRight(t, 1) // 2ⁿ in two factors, so that it may be subnormal
	return m.Mul(m.Mul(p, m.ShiftLeft(half, 23)), m.ShiftLeft(m.SubInt(t, half), 23))
}

// Pow returns x to the power y, with an error of at most 0.97 ulp.
func (m Functions[V, M]) Pow(x, y V) V {
	a, zero, one, nan := m.abs(x), m.Float(0), m.Float(1), m.Float(float32(math.NaN()))
	high, low := m.log2Of(a)
	// Beyond these bounds the result is 0, 1 or infinite; within them no intermediate result is infinite.
	bounded := m.Max(m.Float(-1<<40), m.Min(m.Float(1<<40), y))
	product := m.Mul(bounded, high)
	productLow := m.Fma(bounded, low, m.Fms(bounded, high, product))
	r := m.exp2Of(product, m.Max(m.Float(-1), m.Min(one, productLow)))

	integer, half := m.Trunc(y), m.Mul(y, m.Float(0.5))
	fraction := m.Compare(NotEqual, integer, y)
	r = m.SelectLanes(m.MaskAnd(fraction, m.Compare(Less, x, zero)), nan, r)
	isZero, isInfinite := m.Compare(Equal, a, zero), m.Compare(Equal, a, m.Integer(infinity))
	inverse := m.SelectLanes(isZero, m.Integer(infinity), zero)
	r = m.SelectLanes(m.MaskOr(isZero, isInfinite), m.SelectLanes(m.Compare(Less, y, zero), inverse, a), r)
	odd := m.MaskAnd(m.Compare(Equal, integer, y), m.Compare(NotEqual, m.Trunc(half), half))
	r = m.Or(r, m.SelectLanes(odd, m.And(x, m.Integer(signBit)), zero))
	r = m.SelectLanes(m.Compare(Unordered, x, y), nan, r)
	return m.SelectLanes(m.MaskOr(m.Compare(Equal, x, one), m.Compare(Equal, y, zero)), one, r)
}

// PowConstant returns x to a power that is common in models, with an error below 2 ulp; known is false for other
// powers.
func (m Functions[V, M]) PowConstant(x V, y float32) (power V, known bool) {
	one, infinite := m.Float(1), m.Integer(infinity)
	root := func() V { return m.Sqrt(m.Add(x, m.Float(0))) } // 0 also for −0
	minusInfinite := func() M { return m.Compare(Equal, x, m.Float(float32(math.Inf(-1)))) }
	switch y {
	case 0:
		return one, true
	case 1:
		return x, true
	case 2:
		return m.Mul(x, x), true
	case 3:
		return m.Mul(x, m.Mul(x, x)), true
	case 4:
		square := m.Mul(x, x)
		return m.Mul(square, square), true
	case -1:
		return m.Div(one, x), true
	case -2:
		inverse := m.Div(one, x)
		return m.Mul(inverse, inverse), true
	case 0.5:
		return m.SelectLanes(minusInfinite(), infinite, root()), true
	case -0.5:
		return m.SelectLanes(minusInfinite(), m.Float(0), m.Div(one, root())), true
	}
	return x, false
}
