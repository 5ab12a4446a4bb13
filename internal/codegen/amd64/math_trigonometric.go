package amd64

import "math"

// quarterTurn is π/2 in three parts.
const (
	quarterTurn     = float32(math.Pi / 2)
	quarterTurnLow  = float32(math.Pi/2 - float64(quarterTurn))
	quarterTurnLast = -0x1.ee59dap-50 // π/2 less the other two

	// manyTurns is where fewer than three parts of π/2 would do no more.
	manyTurns = 1 << 17
)

// twoOverPi has the bits of 2/π, after eight zeros.
var twoOverPi = [8]uint32{0xa2f983, 0x6e4e4415, 0x29fc2757, 0xd1f534dd, 0xc0db6295, 0x993c4390, 0x41fe5163, 0xabdebbc5}

// reduce gives n, an integer of which the low two bits count, and r + low, with a = n·π/2 + r + low and |r| no more than a little above π/4, for
// a ≥ 0. An infinite a gives NaN. Without exact, low is left out.
func (m mathematics[V, M]) reduce(a V, exact bool) (n, r, low V) {
	shifted := m.fma(a, m.float(2/math.Pi), m.float(3<<22))
	n = m.sub(shifted, m.float(3<<22))
	r = m.fnma(n, m.float(quarterTurn), a) // no bit is lost
	if exact {
		product := m.mul(n, m.float(quarterTurnLow))
		rest := m.fnma(n, m.float(quarterTurnLast), m.fnma(n, m.float(quarterTurnLow), product))
		r, low = m.twoSum(r, m.xor(product, m.integer(signBit)))
		low = m.add(low, rest)
	} else {
		r = m.fnma(n, m.float(quarterTurnLast), m.fnma(n, m.float(quarterTurnLow), r))
	}
	usual := []V{shifted, r, low}
	if !exact {
		usual = usual[:2]
	}
	parts := m.rarely(m.compare(greaterOrEqual, a, m.float(manyTurns)), usual, func() []V {
		n, r, low := m.reduceFar(a)
		return []V{n, r, low}[:len(usual)]
	})
	return parts[0], parts[1], parts[len(usual)-1]
}

// reduceFar is reduce for a ≥ 2¹⁷, after M. H. Payne and R. N. Hanek (Radian reduction for trigonometric functions, 1983): of 2/π only those
// bits count whose product with a is neither a multiple of 4 nor too small. a is whole·2ᵉ with 24 bits; of the product of whole with the 80 bits of 2/π from place e on, the
// first 32 bits come from an integer multiplication, which drops multiples of 4, the others from two in floats.
func (m mathematics[V, M]) reduceFar(a V) (n, r, low V) {
	whole := m.or(m.and(a, m.integer(1<<23-1)), m.integer(1<<23))
	place := m.subInt(m.shiftRight(a, 23), m.integer(127+23-6))
	index, shift := m.shiftRight(place, 5), m.and(place, m.integer(31))
	back := m.subInt(m.integer(32), shift)
	var words [4]V
	for i := range words {
		words[i] = m.lookup(&twoOverPi, m.addInt(index, m.integer(int32(i))))
	}
	for i := range words[:3] {
		words[i] = m.or(m.shiftLeftBy(words[i], shift), m.shiftRightBy(words[i+1], back))
	}
	factor, second := m.toFloat(whole), m.mul(m.toFloat(m.shiftRight(words[1], 8)), m.float(0x1p-24))
	p := m.mul(factor, second)
	count := m.toInt(p)
	product := m.addInt(m.mulInt(whole, words[0]), count) // quarter turns, of 2³⁰ units
	n = m.shiftRightSigned(m.addInt(product, m.integer(1<<29)), 30)
	rest := m.subInt(product, m.shiftLeft(n, 30))

	// The units that are left: rest, what p has beyond count, and what p lacks.
	third := m.toFloat(m.or(m.shiftLeft(m.and(words[1], m.integer(255)), 16), m.shiftRight(words[2], 16)))
	high := m.toFloat(rest)
	low = m.add(m.toFloat(m.subInt(rest, m.toInt(high))), m.sub(p, m.toFloat(count)))
	low = m.add(low, m.fma(factor, m.mul(third, m.float(0x1p-48)), m.fms(factor, second, p)))
	sum := m.add(high, low)
	low = m.add(m.sub(high, sum), low)
	const unit = 0x1p-30
	low = m.fma(sum, m.float(quarterTurnLow*unit), m.mul(low, m.float(quarterTurn*unit)))
	r = m.fma(sum, m.float(quarterTurn*unit), low)
	low = m.add(m.fms(sum, m.float(quarterTurn*unit), r), low)
	return n, m.selectLanes(m.compare(less, a, m.integer(infinity)), r, m.float(float32(math.NaN()))), low
}

// twoSum is x + y as a rounded sum and what it lacks (D. E. Knuth, The Art of Computer Programming, volume 2, 4.2.2).
func (m mathematics[V, M]) twoSum(x, y V) (sum, lost V) {
	sum = m.add(x, y)
	t := m.sub(sum, x)
	return sum, m.add(m.sub(x, m.sub(sum, t)), m.sub(y, t))
}

// sine is ±sin r where n is even and ±cos r where it is odd, with the sign that the next bit of n says.
func (m mathematics[V, M]) sine(n, r V) V {
	s := m.mul(r, r)
	sin := m.fma(m.mul(s, r), m.horner(s, -1.6666654e-01, 8.332093e-03, -1.9505146e-04), r)
	cos := m.fma(s, m.horner(s, -0.5, 4.166664e-02, -1.388713e-03, 2.4412086e-05), m.float(1))
	y := m.selectLanes(m.odd(n), cos, sin)
	return m.xor(y, m.and(m.shiftLeft(n, 30), m.integer(signBit)))
}

func (m mathematics[V, M]) odd(n V) M {
	one := m.integer(1)
	return m.equalInt(m.and(n, one), one)
}

// sin has an error of at most 1.55 ulp.
func (m mathematics[V, M]) sin(x V) V {
	n, r, _ := m.reduce(m.abs(x), false)
	return m.xor(m.sine(n, r), m.and(x, m.integer(signBit)))
}

// cos has an error of at most 1.54 ulp.
func (m mathematics[V, M]) cos(x V) V {
	n, r, _ := m.reduce(m.abs(x), false)
	return m.sine(m.addInt(n, m.integer(1)), r)
}

// tan has an error of at most 1.97 ulp.
func (m mathematics[V, M]) tan(x V) V {
	n, r, low := m.reduce(m.abs(x), true)
	s := m.mul(r, r)
	t := m.horner(s, 3.3333355e-01, 1.3332462e-01, 5.40837e-02, 2.1155648e-02, 1.1171185e-02, -3.4298256e-04, 4.5925425e-03)
	low = m.fma(low, m.mul(s, m.float(1.5)), low) // times 1 + tan² r, nearly
	t = m.add(r, m.fma(m.mul(s, r), t, low))
	odd, one := m.odd(n), m.float(1)
	y := m.div(m.selectLanes(odd, one, t), m.selectLanes(odd, m.xor(t, m.integer(signBit)), one))
	return m.xor(y, m.and(x, m.integer(signBit)))
}

// asinParts gives inner, where |x| ≤ 1/2, and y and more with asin(|x|) = y + more there and π/2 − 2·(y + more) elsewhere.
func (m mathematics[V, M]) asinParts(x V) (inner M, y, more V) {
	a := m.abs(x)
	inner = m.compare(lessOrEqual, a, m.float(0.5))
	s := m.selectLanes(inner, m.mul(a, a), m.fnma(a, m.float(0.5), m.float(0.5)))
	y = m.selectLanes(inner, a, m.sqrt(s))
	p := m.horner(s, 1.6666752e-01, 7.4953064e-02, 4.546977e-02, 2.4180813e-02, 4.2166315e-02)
	return inner, y, m.mul(m.mul(p, s), y)
}

// asin has an error of at most 1.32 ulp.
func (m mathematics[V, M]) asin(x V) V {
	inner, y, more := m.asinParts(x)
	two, half := m.float(2), m.float(quarterTurn/2)
	outer := m.add(half, m.add(m.fnma(y, two, half), m.fnma(more, two, m.float(quarterTurnLow))))
	return m.withSign(m.selectLanes(inner, m.add(y, more), outer), x)
}

// acos has an error of at most 1.16 ulp.
func (m mathematics[V, M]) acos(x V) V {
	inner, y, more := m.asinParts(x)
	y = m.add(y, more)
	negative := m.greaterInt(m.integer(0), x)
	sign := m.and(x, m.integer(signBit))
	// Inner: π/2 − x. Outer: 2y, or π − 2y for negative x.
	y = m.selectLanes(inner, m.xor(y, m.xor(sign, m.integer(signBit))), m.xor(m.add(y, y), sign))
	turn := m.selectLanes(inner, m.float(quarterTurn), m.selectLanes(negative, m.float(2*quarterTurn), m.float(0)))
	return m.add(turn, m.fma(turn, m.float(quarterTurnLow/quarterTurn), y))
}

// atanOf is atan(x) for 0 ≤ x ≤ 1.
func (m mathematics[V, M]) atanOf(x V) V {
	s := m.mul(x, x)
	p := m.horner(s, -3.3333153e-01, 1.9993767e-01, -1.4211e-01, 1.0665756e-01, -7.551614e-02, 4.320397e-02, -1.6362583e-02, 2.9192343e-03)
	return m.fma(m.mul(p, s), x, x)
}

// atan has an error of at most 1.50 ulp.
func (m mathematics[V, M]) atan(x V) V {
	a, one := m.abs(x), m.float(1)
	y := m.atanOf(m.div(m.min(one, a), m.max(one, a)))
	steep := m.add(m.sub(m.float(quarterTurnLow), y), m.float(quarterTurn))
	return m.withSign(m.selectLanes(m.compare(greater, a, one), steep, y), x)
}

// atan2 is the angle of the point (x, y), with an error of at most 1.75 ulp.
func (m mathematics[V, M]) atan2(y, x V) V {
	a, b := m.abs(y), m.abs(x)
	least, most := m.min(a, b), m.max(a, b)
	same := m.selectLanes(m.compare(equal, most, m.float(0)), m.float(0), m.float(1)) // of 0/0 and ∞/∞
	r := m.atanOf(m.selectLanes(m.compare(equal, least, most), same, m.div(least, most)))
	steep, negative := m.compare(greater, a, b), m.greaterInt(m.integer(0), x)
	r = m.xor(r, m.and(x, m.integer(signBit)))
	r = m.selectLanes(steep, m.xor(r, m.integer(signBit)), r)
	turn := m.selectLanes(steep, m.float(quarterTurn), m.selectLanes(negative, m.float(2*quarterTurn), m.float(0)))
	r = m.add(turn, m.fma(turn, m.float(quarterTurnLow/quarterTurn), r))
	r = m.withSign(r, y)
	return m.selectLanes(m.compare(unordered, x, y), m.float(float32(math.NaN())), r)
}
