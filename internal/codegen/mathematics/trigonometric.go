package mathematics

import "math"

// quarterTurn is π/2 as a sum of three floats.
const (
	quarterTurn     = float32(math.Pi / 2)
	quarterTurnLow  = float32(math.Pi/2 - float64(quarterTurn))
	quarterTurnLast = -0x1.ee59dap-50 // π/2 minus the other two

	// manyTurns is the argument from which on reduceFar replaces the subtraction of n·π/2.
	manyTurns = 1 << 17
)

// twoOverPi has the bits of 2/π, after eight zeros.
var twoOverPi = [8]uint32{0xa2f983, 0x6e4e4415, 0x29fc2757, 0xd1f534dd, 0xc0db6295, 0x993c4390, 0x41fe5163, 0xabdebbc5}

// reduce returns r + low with a = n·π/2 + r + low and |r| at most a little above π/4, for a ≥ 0, and the low two bits
// of n. r is NaN for an infinite a. Without precise, low is undefined.
func (m Functions[V, M]) reduce(a V, precise bool) (n, r, low V) {
	shifted := m.Fma(a, m.Float(2/math.Pi), m.Float(3<<22))
	n = m.Sub(shifted, m.Float(3<<22))
	r = m.Fnma(n, m.Float(quarterTurn), a) // exact
	if precise {
		product := m.Mul(n, m.Float(quarterTurnLow))
		rest := m.Fnma(n, m.Float(quarterTurnLast), m.Fnma(n, m.Float(quarterTurnLow), product))
		r, low = m.twoSum(r, m.Xor(product, m.Integer(signBit)))
		low = m.Add(low, rest)
	} else {
		r = m.Fnma(n, m.Float(quarterTurnLast), m.Fnma(n, m.Float(quarterTurnLow), r))
	}
	usual := []V{shifted, r, low}
	if !precise {
		usual = usual[:2]
	}
	results := m.Rarely(m.Compare(GreaterOrEqual, a, m.Float(manyTurns)), usual, func() []V {
		n, r, low := m.reduceFar(a)
		return []V{n, r, low}[:len(usual)]
	})
	return results[0], results[1], results[len(usual)-1]
}

// reduceFar is reduce for a ≥ 2¹⁷, after M. H. Payne and R. N. Hanek (Radian reduction for trigonometric functions,
// 1983): it uses only those bits of 2/π whose product with a is neither a multiple of 4 nor too small. a is an integer
// of 24 bits, the significand, times 2ᵉ. The significand is multiplied by the 80 bits of 2/π from bit e on: an integer
// multiplication, which drops multiples of 4, gives the first 32 bits of the product, and two float multiplications the
// others.
func (m Functions[V, M]) reduceFar(a V) (n, r, low V) {
	significand := m.Or(m.And(a, m.Integer(1<<23-1)), m.Integer(1<<23))
	bit := m.SubInt(m.ShiftRight(a, 23), m.Integer(127+23-6))
	index, shift := m.ShiftRight(bit, 5), m.And(bit, m.Integer(31))
	back := m.SubInt(m.Integer(32), shift)
	var words [4]V
	for i := range words {
		words[i] = m.Lookup(&twoOverPi, m.AddInt(index, m.Integer(int32(i))))
	}
	for i := range words[:3] {
		words[i] = m.Or(m.ShiftLeftBy(words[i], shift), m.ShiftRightBy(words[i+1], back))
	}
	factor, second := m.ToFloat(significand), m.Mul(m.ToFloat(m.ShiftRight(words[1], 8)), m.Float(0x1p-24))
	p := m.Mul(factor, second)
	count := m.ToInt(p)
	product := m.AddInt(m.MulInt(significand, words[0]), count) // in units of 2⁻³⁰ quarter turns
	n = m.ShiftRightSigned(m.AddInt(product, m.Integer(1<<29)), 30)
	rest := m.SubInt(product, m.ShiftLeft(n, 30))

	// The remaining units: rest, the fraction of p, and the rounding error of p.
	third := m.ToFloat(m.Or(m.ShiftLeft(m.And(words[1], m.Integer(255)), 16), m.ShiftRight(words[2], 16)))
	high := m.ToFloat(rest)
	low = m.Add(m.ToFloat(m.SubInt(rest, m.ToInt(high))), m.Sub(p, m.ToFloat(count)))
	low = m.Add(low, m.Fma(factor, m.Mul(third, m.Float(0x1p-48)), m.Fms(factor, second, p)))
	sum := m.Add(high, low)
	low = m.Add(m.Sub(high, sum), low)
	const unit = 0x1p-30
	low = m.Fma(sum, m.Float(quarterTurnLow*unit), m.Mul(low, m.Float(quarterTurn*unit)))
	r = m.Fma(sum, m.Float(quarterTurn*unit), low)
	low = m.Add(m.Fms(sum, m.Float(quarterTurn*unit), r), low)
	return n, m.SelectLanes(m.Compare(Less, a, m.Integer(infinity)), r, m.Float(float32(math.NaN()))), low
}

// twoSum returns x + y as a rounded sum and its rounding error (D. E. Knuth, The Art of Computer Programming, volume 2,
// 4.2.2).
func (m Functions[V, M]) twoSum(x, y V) (sum, lost V) {
	sum = m.Add(x, y)
	t := m.Sub(sum, x)
	return sum, m.Add(m.Sub(x, m.Sub(sum, t)), m.Sub(y, t))
}

// sine returns ±sin r if n is even and ±cos r if it is odd; the sign is the next bit of n.
func (m Functions[V, M]) sine(n, r V) V {
	s := m.Mul(r, r)
	sin := m.Fma(m.Mul(s, r), m.horner(s, -1.6666654e-01, 8.332093e-03, -1.9505146e-04), r)
	cos := m.Fma(s, m.horner(s, -0.5, 4.166664e-02, -1.388713e-03, 2.4412086e-05), m.Float(1))
	y := m.SelectLanes(m.odd(n), cos, sin)
	return m.Xor(y, m.And(m.ShiftLeft(n, 30), m.Integer(signBit)))
}

// odd returns the mask of odd integers.
func (m Functions[V, M]) odd(n V) M {
	one := m.Integer(1)
	return m.EqualInt(m.And(n, one), one)
}

// Sin has an error of at most 1.55 ulp.
func (m Functions[V, M]) Sin(x V) V {
	n, r, _ := m.reduce(m.abs(x), false)
	return m.Xor(m.sine(n, r), m.And(x, m.Integer(signBit)))
}

// Cos has an error of at most 1.54 ulp.
func (m Functions[V, M]) Cos(x V) V {
	n, r, _ := m.reduce(m.abs(x), false)
	return m.sine(m.AddInt(n, m.Integer(1)), r)
}

// Tan has an error of at most 1.97 ulp.
func (m Functions[V, M]) Tan(x V) V {
	n, r, low := m.reduce(m.abs(x), true)
	s := m.Mul(r, r)
	t := m.horner(s, 3.3333355e-01, 1.3332462e-01, 5.40837e-02, 2.1155648e-02, 1.1171185e-02, -3.4298256e-04,
		4.5925425e-03)
	low = m.Fma(low, m.Mul(s, m.Float(1.5)), low) // times approximately 1 + tan² r
	t = m.Add(r, m.Fma(m.Mul(s, r), t, low))
	odd, one := m.odd(n), m.Float(1)
	y := m.Div(m.SelectLanes(odd, one, t), m.SelectLanes(odd, m.Xor(t, m.Integer(signBit)), one))
	return m.Xor(y, m.And(x, m.Integer(signBit)))
}

// asinParts returns inner, the mask of |x| ≤ 1/2, and y and more, where asin(|x|) is y + more in the mask's lanes and
// π/2 − 2·(y + more) in others.
func (m Functions[V, M]) asinParts(x V) (inner M, y, more V) {
	a := m.abs(x)
	inner = m.Compare(LessOrEqual, a, m.Float(0.5))
	s := m.SelectLanes(inner, m.Mul(a, a), m.Fnma(a, m.Float(0.5), m.Float(0.5)))
	y = m.SelectLanes(inner, a, m.Sqrt(s))
	p := m.horner(s, 1.6666752e-01, 7.4953064e-02, 4.546977e-02, 2.4180813e-02, 4.2166315e-02)
	return inner, y, m.Mul(m.Mul(p, s), y)
}

// Asin has an error of at most 1.32 ulp.
func (m Functions[V, M]) Asin(x V) V {
	inner, y, more := m.asinParts(x)
	two, half := m.Float(2), m.Float(quarterTurn/2)
	outer := m.Add(half, m.Add(m.Fnma(y, two, half), m.Fnma(more, two, m.Float(quarterTurnLow))))
	return m.withSign(m.SelectLanes(inner, m.Add(y, more), outer), x)
}

// Acos has an error of at most 1.16 ulp.
func (m Functions[V, M]) Acos(x V) V {
	inner, y, more := m.asinParts(x)
	y = m.Add(y, more)
	negative := m.GreaterInt(m.Integer(0), x)
	sign := m.And(x, m.Integer(signBit))
	// Inner: π/2 − x. Outer: 2y, or π − 2y for negative x.
	y = m.SelectLanes(inner, m.Xor(y, m.Xor(sign, m.Integer(signBit))), m.Xor(m.Add(y, y), sign))
	turn := m.SelectLanes(inner, m.Float(quarterTurn), m.SelectLanes(negative, m.Float(2*quarterTurn), m.Float(0)))
	return m.Add(turn, m.Fma(turn, m.Float(quarterTurnLow/quarterTurn), y))
}

// atanOf returns atan(x) for 0 ≤ x ≤ 1.
func (m Functions[V, M]) atanOf(x V) V {
	s := m.Mul(x, x)
	p := m.horner(s, -3.3333153e-01, 1.9993767e-01, -1.4211e-01, 1.0665756e-01, -7.551614e-02, 4.320397e-02,
		-1.6362583e-02, 2.9192343e-03)
	return m.Fma(m.Mul(p, s), x, x)
}

// Atan has an error of at most 1.50 ulp.
func (m Functions[V, M]) Atan(x V) V {
	a, one := m.abs(x), m.Float(1)
	y := m.atanOf(m.Div(m.Min(one, a), m.Max(one, a)))
	steep := m.Add(m.Sub(m.Float(quarterTurnLow), y), m.Float(quarterTurn))
	return m.withSign(m.SelectLanes(m.Compare(Greater, a, one), steep, y), x)
}

// Atan2 returns the angle of the point (x, y), with an error of at most 1.75 ulp.
func (m Functions[V, M]) Atan2(y, x V) V {
	a, b := m.abs(y), m.abs(x)
	least, most := m.Min(a, b), m.Max(a, b)
	same := m.SelectLanes(m.Compare(Equal, most, m.Float(0)), m.Float(0), m.Float(1)) // for 0/0 and ∞/∞
	r := m.atanOf(m.SelectLanes(m.Compare(Equal, least, most), same, m.Div(least, most)))
	steep, negative := m.Compare(Greater, a, b), m.GreaterInt(m.Integer(0), x)
	r = m.Xor(r, m.And(x, m.Integer(signBit)))
	r = m.SelectLanes(steep, m.Xor(r, m.Integer(signBit)), r)
	turn := m.SelectLanes(steep, m.Float(quarterTurn), m.SelectLanes(negative, m.Float(2*quarterTurn), m.Float(0)))
	r = m.Add(turn, m.Fma(turn, m.Float(quarterTurnLow/quarterTurn), r))
	r = m.withSign(r, y)
	return m.SelectLanes(m.Compare(Unordered, x, y), m.Float(float32(math.NaN())), r)
}
