package amd64

import "math"

// algebra is what the mathematical functions are written in: vectors V of 32-bit lanes, and masks M that choose lanes. The builder
// emits each operation as instructions, with AVX2 or AVX-512; the tests have a model of one lane that computes the same bits.
// Every operation rounds once, to nearest even, and keeps subnormal numbers.
type algebra[V, M any] interface {
	float(c float32) V // in all lanes
	integer(c int32) V

	add(x, y V) V
	sub(x, y V) V
	mul(x, y V) V
	mulWhere(m M, x, y V) V // x·y in the mask's lanes, 0 elsewhere, where y is a positive number
	div(x, y V) V
	min(x, y V) V // y where one is NaN, and where both are zeros
	max(x, y V) V // likewise
	sqrt(x V) V
	fma(x, y, z V) V  // x·y + z
	fnma(x, y, z V) V // z − x·y
	fms(x, y, z V) V  // x·y − z
	round(x V, mode int64) V

	and(x, y V) V
	or(x, y V) V
	xor(x, y V) V
	andNot(x, y V) V // y without the bits of x

	addInt(x, y V) V
	subInt(x, y V) V
	mulInt(x, y V) V // the low half
	shiftLeft(x V, n int64) V
	shiftRight(x V, n int64) V
	shiftRightSigned(x V, n int64) V
	shiftLeftBy(x, n V) V // each lane by its own number of bits; 32 or more gives 0
	shiftRightBy(x, n V) V
	toInt(x V) V
	toFloat(x V) V

	compare(p predicate, x, y V) M
	equalInt(x, y V) M
	greaterInt(x, y V) M
	maskAnd(x, y M) M
	maskOr(x, y M) M
	selectLanes(m M, x, y V) V // x in the mask's lanes, y elsewhere

	lookup(table *[8]uint32, index V) V // the table's entry that the low three bits of each lane name

	// rarely is usual, but otherwise's values in the lanes of the mask. These are computed only where a lane of the vector needs them.
	rarely(m M, usual []V, otherwise func() []V) []V
}

// mathematics has the functions of f32. A function's comment says its greatest error in units in the last place (ulp) of the exact
// result, found by TestExhaustive, for two arguments on samples; NaN, infinities, zeros and results beyond the range of f32 are as package math has them.
//
// Polynomials are minimax approximations, found by the exchange algorithm of Remez, whose coefficients were then rounded to f32 one
// after another, the remaining ones fitted again each time.
type mathematics[V, M any] struct{ algebra[V, M] }

const signBit = -1 << 31

func (m mathematics[V, M]) abs(x V) V { return m.andNot(m.integer(signBit), x) }

// withSign is x, which has no sign, with the sign of y.
func (m mathematics[V, M]) withSign(x, y V) V { return m.or(x, m.and(m.integer(signBit), y)) }

// horner is c₀ + x·(c₁ + x·(c₂ + …)).
func (m mathematics[V, M]) horner(x V, c ...float32) V {
	p := m.float(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		p = m.fma(p, x, m.float(c[i]))
	}
	return p
}

// lookupFloat is lookup in a table of floats.
func (m mathematics[V, M]) lookupFloat(table *[8]float32, index V) V {
	var bits [8]uint32
	for i, c := range table {
		bits[i] = math.Float32bits(c)
	}
	return m.lookup(&bits, index)
}
