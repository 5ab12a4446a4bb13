package amd64

import "math"

// log2(1 + f) is log2e·f − log2e/2·f² + f³·R(f); each factor that counts has two parts.
const (
	log2e        = float32(math.Log2E)
	log2eLow     = float32(math.Log2E - float64(log2e))
	halfLog2e    = float32(-math.Log2E / 2)
	halfLog2eLow = float32(-math.Log2E/2 - float64(halfLog2e))
)

// powerTable has for each eighth of an octave, from 31/32 on, a number of five bits near its reciprocal, and −log2 of that in two parts. The first, with k added,
// takes no more than 24 bits.
var powerTable = [...][8]float32{
	{32. / 32, 28. / 32, 26. / 32, 23. / 32, 21. / 32, 20. / 32, 18. / 32, 17. / 32},
	{0, 0.1926422119140625, 0.299560546875, 0.4764404296875, 0.6076812744140625, 0.678070068359375, 0.830078125, 0.91253662109375},
	{0, 2.8660284e-06, -2.650161e-07, -2.3857444e-06, 1.3028072e-06, 1.8367533e-06, -3.1264424e-06, 5.376559e-07},
}

// log2Of is log2(x) for finite x > 0, to about 33 bits: high + low. What it gives for other x is of no use.
func (m mathematics[V, M]) log2Of(x V) (high, low V) {
	small := m.compare(less, x, m.float(0x1p-126))
	x = m.selectLanes(small, m.mul(x, m.float(1<<23)), x)
	offset := m.subInt(x, m.integer(0x3f780000)) // from 31/32 on
	index := m.shiftRight(offset, 20)
	mantissa := m.subInt(x, m.and(offset, m.integer(exponentBits)))
	k := m.sub(m.toFloat(m.shiftRightSigned(offset, 23)), m.selectLanes(small, m.float(23), m.float(0)))
	f := m.fms(mantissa, m.lookupFloat(&powerTable[0], index), m.float(1)) // no bit is lost; |f| < 0.0704

	linear := m.mul(f, m.float(log2e))
	linearLow := m.fma(f, m.float(log2eLow), m.fms(f, m.float(log2e), linear))
	square := m.mul(f, f)
	squareLow := m.fms(f, f, square)
	t := m.mul(f, m.horner(f, 4.8089835e-01, -3.606738e-01, 2.8853136e-01, -2.404326e-01, 2.0849118e-01, -1.8265405e-01))
	factor := m.add(t, m.float(halfLog2e))
	factorLow := m.add(m.add(m.sub(m.float(halfLog2e), factor), t), m.float(halfLog2eLow))
	curve := m.mul(square, factor)
	curveLow := m.fma(square, factorLow, m.fma(squareLow, factor, m.fms(square, factor, curve)))

	whole := m.add(k, m.lookupFloat(&powerTable[1], index))
	sum := m.add(whole, linear)
	low = m.add(m.sub(linear, m.sub(sum, whole)), m.add(linearLow, m.lookupFloat(&powerTable[2], index)))
	high = m.add(sum, curve)
	return high, m.add(low, m.add(m.sub(curve, m.sub(high, sum)), curveLow))
}

// exp2Of is 2 to the high + low, for |low| ≤ 1.
func (m mathematics[V, M]) exp2Of(high, low V) V {
	high = m.max(m.float(-160), m.min(m.float(140), high))
	t := m.add(high, m.float(3<<22+2*127))
	r := m.add(m.sub(high, m.sub(t, m.float(3<<22+2*127))), low)
	p := m.horner(r, 1, 6.9314724e-01, 2.4022655e-01, 5.5502728e-02, 9.617062e-03, 1.3417769e-03, 1.5826554e-04)
	half := m.shiftRight(t, 1) // 2ⁿ in two factors, so that it may be subnormal
	return m.mul(m.mul(p, m.shiftLeft(half, 23)), m.shiftLeft(m.subInt(t, half), 23))
}

// pow is x to the y, with an error of at most 0.97 ulp.
func (m mathematics[V, M]) pow(x, y V) V {
	a, zero, one, nan := m.abs(x), m.float(0), m.float(1), m.float(float32(math.NaN()))
	high, low := m.log2Of(a)
	// Beyond these bounds the result is 0, 1 or infinite, and within them nothing is infinite on the way.
	bounded := m.max(m.float(-1<<40), m.min(m.float(1<<40), y))
	product := m.mul(bounded, high)
	productLow := m.fma(bounded, low, m.fms(bounded, high, product))
	r := m.exp2Of(product, m.max(m.float(-1), m.min(one, productLow)))

	whole, half := m.round(y, towardZero), m.mul(y, m.float(0.5))
	broken := m.compare(notEqual, whole, y)
	r = m.selectLanes(m.maskAnd(broken, m.compare(less, x, zero)), nan, r)
	isZero, isInfinite := m.compare(equal, a, zero), m.compare(equal, a, m.integer(infinity))
	inverse := m.selectLanes(isZero, m.integer(infinity), zero)
	r = m.selectLanes(m.maskOr(isZero, isInfinite), m.selectLanes(m.compare(less, y, zero), inverse, a), r)
	odd := m.maskAnd(m.compare(equal, whole, y), m.compare(notEqual, m.round(half, towardZero), half))
	r = m.or(r, m.selectLanes(odd, m.and(x, m.integer(signBit)), zero))
	r = m.selectLanes(m.compare(unordered, x, y), nan, r)
	return m.selectLanes(m.maskOr(m.compare(equal, x, one), m.compare(equal, y, zero)), one, r)
}

// powConstant is x to some powers that models have, with an error below 2 ulp.
func (m mathematics[V, M]) powConstant(x V, y float32) (power V, known bool) {
	one, infinite := m.float(1), m.integer(infinity)
	root := func() V { return m.sqrt(m.add(x, m.float(0))) } // of −0 too it is 0
	minusInfinite := func() M { return m.compare(equal, x, m.float(float32(math.Inf(-1)))) }
	switch y {
	case 0:
		return one, true
	case 1:
		return x, true
	case 2:
		return m.mul(x, x), true
	case 3:
		return m.mul(x, m.mul(x, x)), true
	case 4:
		square := m.mul(x, x)
		return m.mul(square, square), true
	case -1:
		return m.div(one, x), true
	case -2:
		inverse := m.div(one, x)
		return m.mul(inverse, inverse), true
	case 0.5:
		return m.selectLanes(minusInfinite(), infinite, root()), true
	case -0.5:
		return m.selectLanes(minusInfinite(), m.float(0), m.div(one, root())), true
	}
	return x, false
}
