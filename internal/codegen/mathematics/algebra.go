// Package mathematics has the functions of floats, such as exp and sin, written once for all code generators: over an
// algebra of a few operations, which each generator emits as its instructions. All generators therefore compute the
// same bits, and so does a model in Go, for tests.
package mathematics

import "math"

// Predicate is a comparison of floats. If an operand is NaN, NotEqual, NotLess and Unordered are true, and all others
// false.
type Predicate int

// The predicates.
const (
	Equal Predicate = iota
	Less
	LessOrEqual
	Unordered
	NotEqual
	NotLess
	GreaterOrEqual
	Greater
)

// Algebra has the operations of the functions of f32: on vectors V of 32-bit lanes, and masks M of lanes. Lane models
// one lane of it. Every operation rounds once, to nearest even, and keeps subnormal numbers.
type Algebra[V, M any] interface {
	Float(c float32) V // in all lanes
	Integer(c int32) V

	Add(x, y V) V
	Sub(x, y V) V
	Mul(x, y V) V
	MulWhere(m M, x, y V) V // x·y in the mask's lanes, 0 elsewhere; y is positive
	Div(x, y V) V
	Min(x, y V) V // y if one is NaN, or if both are zeros
	Max(x, y V) V // likewise
	Sqrt(x V) V
	Fma(x, y, z V) V  // x·y + z
	Fnma(x, y, z V) V // z − x·y
	Fms(x, y, z V) V  // x·y − z
	Near(x, y, z V) V // x·y + z, rounded once as Fma, or also after the product
	Trunc(x V) V

	And(x, y V) V
	Or(x, y V) V
	Xor(x, y V) V
	AndNot(x, y V) V // y without the bits of x

	AddInt(x, y V) V
	SubInt(x, y V) V
	MulInt(x, y V) V // the low half
	ShiftLeft(x V, n int64) V
	ShiftRight(x V, n int64) V
	ShiftRightSigned(x V, n int64) V
	ShiftLeftBy(x, n V) V // each lane by its own number of bits; 32 or more gives 0
	ShiftRightBy(x, n V) V
	ToInt(x V) V
	ToFloat(x V) V

	Compare(p Predicate, x, y V) M
	EqualInt(x, y V) M
	GreaterInt(x, y V) M
	MaskAnd(x, y M) M
	MaskOr(x, y M) M
	SelectLanes(m M, x, y V) V // x in the mask's lanes, y elsewhere

	Lookup(table *[8]uint32, index V) V // the table's entry at the low three bits of each lane

	// Rarely returns otherwise's values in the mask's lanes, and usual in others. otherwise runs only if the mask has a
	// lane.
	Rarely(m M, usual []V, otherwise func() []V) []V
}

// Functions has the functions of f32. A function's comment gives its greatest error in units in the last place (ulp) of
// the exact result, found by TestExhaustive, or on samples for functions of two arguments. Results that are NaN,
// infinite, zero or beyond the range of f32 are those of package math.
//
// Polynomials are minimax approximations, found by the exchange algorithm of Remez, whose coefficients were then
// rounded to f32 one after another, the remaining ones fitted again each time.
type Functions[V, M any] struct{ Algebra[V, M] }

const signBit = -1 << 31

// abs returns x without its sign.
func (m Functions[V, M]) abs(x V) V { return m.AndNot(m.Integer(signBit), x) }

// withSign returns x, which has no sign, with the sign of y.
func (m Functions[V, M]) withSign(x, y V) V { return m.Or(x, m.And(m.Integer(signBit), y)) }

// horner returns c₀ + x·(c₁ + x·(c₂ + …)).
func (m Functions[V, M]) horner(x V, c ...float32) V {
	p := m.Float(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		p = m.Near(p, x, m.Float(c[i]))
	}
	return p
}

// lookupFloat is Lookup in a table of floats.
func (m Functions[V, M]) lookupFloat(table *[8]float32, index V) V {
	var bits [8]uint32
	for i, c := range table {
		bits[i] = math.Float32bits(c)
	}
	return m.Lookup(&bits, index)
}
