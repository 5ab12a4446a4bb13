package mathematics

import "math"

// Lane is the model of Algebra: one lane of 32 bits. Its methods are those of Algebra.
type Lane struct{}

func single(x uint32) float32 { return math.Float32frombits(x) }
func word(x float32) uint32   { return math.Float32bits(x) }

func (Lane) Float(c float32) uint32 { return word(c) }
func (Lane) Integer(c int32) uint32 { return uint32(c) }
func (Lane) Add(x, y uint32) uint32 { return word(single(x) + single(y)) }
func (Lane) Sub(x, y uint32) uint32 { return word(single(x) - single(y)) }
func (Lane) Mul(x, y uint32) uint32 { return word(single(x) * single(y)) }

// MulWhere returns x·y, or 0 if the lane is not in the mask.
func (m Lane) MulWhere(above bool, x, y uint32) uint32 {
	if !above {
		return 0
	}
	return m.Mul(x, y)
}
func (Lane) Div(x, y uint32) uint32    { return word(single(x) / single(y)) }
func (Lane) Sqrt(x uint32) uint32      { return word(float32(math.Sqrt(float64(single(x))))) }
func (Lane) And(x, y uint32) uint32    { return x & y }
func (Lane) Or(x, y uint32) uint32     { return x | y }
func (Lane) Xor(x, y uint32) uint32    { return x ^ y }
func (Lane) AndNot(x, y uint32) uint32 { return y &^ x }
func (Lane) AddInt(x, y uint32) uint32 { return x + y }
func (Lane) SubInt(x, y uint32) uint32 { return x - y }
func (Lane) MulInt(x, y uint32) uint32 { return x * y }

func (Lane) ShiftLeft(x uint32, n int64) uint32  { return x << n }
func (Lane) ShiftRight(x uint32, n int64) uint32 { return x >> n }
func (Lane) ShiftLeftBy(x, n uint32) uint32      { return x << n }
func (Lane) ShiftRightBy(x, n uint32) uint32     { return x >> n }

func (Lane) ShiftRightSigned(x uint32, n int64) uint32 { return uint32(int32(x) >> n) }

// Min returns the lesser; y if one is NaN, or if both are zeros.
func (Lane) Min(x, y uint32) uint32 {
	if single(x) < single(y) {
		return x
	}
	return y
}

// Max returns the greater; y if one is NaN, or if both are zeros.
func (Lane) Max(x, y uint32) uint32 {
	if single(x) > single(y) {
		return x
	}
	return y
}

func (Lane) Fma(x, y, z uint32) uint32  { return word(fusedSingle(single(x), single(y), single(z))) }
func (Lane) Fnma(x, y, z uint32) uint32 { return word(fusedSingle(-single(x), single(y), single(z))) }
func (Lane) Fms(x, y, z uint32) uint32  { return word(fusedSingle(single(x), single(y), -single(z))) }

// fusedSingle returns x·y + z rounded once. The product is exact in f64. The sum is rounded to odd in f64: rounding it
// again to f32 gives the same as rounding the exact sum (S. Boldo and G. Melquiond, Emulation of FMA and correctly
// rounded sums, 2008).
func fusedSingle(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	t := s - p
	rest := (p - (s - t)) + (c - t)
	if bits := math.Float64bits(s); bits&1 == 0 && rest != 0 && rest == rest {
		if rest > 0 == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

// Near is Fma.
func (m Lane) Near(x, y, z uint32) uint32 { return m.Fma(x, y, z) }

// Trunc rounds toward zero.
func (Lane) Trunc(x uint32) uint32 { return word(float32(math.Trunc(float64(single(x))))) }

// ToInt rounds to an integer, ties to even; the least one for NaN and for values that do not fit.
func (Lane) ToInt(x uint32) uint32 {
	v := math.RoundToEven(float64(single(x)))
	if !(v >= math.MinInt32 && v <= math.MaxInt32) {
		return 1 << 31
	}
	return uint32(int32(v))
}

func (Lane) ToFloat(x uint32) uint32 { return word(float32(int32(x))) }

func (Lane) Compare(p Predicate, x, y uint32) bool {
	return satisfies(p, float64(single(x)), float64(single(y)))
}

// satisfies reports whether a predicate holds for two numbers.
func satisfies(p Predicate, a, b float64) bool {
	switch p {
	case Equal:
		return a == b
	case Less:
		return a < b
	case LessOrEqual:
		return a <= b
	case Unordered:
		return a != a || b != b
	case NotEqual:
		return a != b
	case NotLess:
		return !(a < b)
	case GreaterOrEqual:
		return a >= b
	case Greater:
		return a > b
	}
	panic("no such Predicate")
}

func (Lane) EqualInt(x, y uint32) bool   { return x == y }
func (Lane) GreaterInt(x, y uint32) bool { return int32(x) > int32(y) }

func (Lane) MaskAnd(x, y bool) bool { return x && y }
func (Lane) MaskOr(x, y bool) bool  { return x || y }

// SelectLanes returns x if the lane is in the mask, and else y.
func (Lane) SelectLanes(m bool, x, y uint32) uint32 {
	if m {
		return x
	}
	return y
}

func (Lane) Lookup(table *[8]uint32, index uint32) uint32 { return table[index&7] }

// Rarely returns otherwise's values if the lane is in the mask, and else usual.
func (Lane) Rarely(m bool, usual []uint32, otherwise func() []uint32) []uint32 {
	if m {
		return otherwise()
	}
	return usual
}

// WideLane is the model of WideAlgebra: one lane of 64 bits. Its methods are those of WideAlgebra.
type WideLane struct{}

func double(x uint64) float64   { return math.Float64frombits(x) }
func wideWord(x float64) uint64 { return math.Float64bits(x) }

func (WideLane) Float(c float64) uint64 { return wideWord(c) }
func (WideLane) Integer(c int64) uint64 { return uint64(c) }
func (WideLane) Add(x, y uint64) uint64 { return wideWord(double(x) + double(y)) }
func (WideLane) Sub(x, y uint64) uint64 { return wideWord(double(x) - double(y)) }
func (WideLane) Mul(x, y uint64) uint64 { return wideWord(double(x) * double(y)) }

// MulWhere returns x·y, or 0 if the lane is not in the mask.
func (m WideLane) MulWhere(above bool, x, y uint64) uint64 {
	if !above {
		return 0
	}
	return m.Mul(x, y)
}
func (WideLane) Div(x, y uint64) uint64 { return wideWord(double(x) / double(y)) }
func (WideLane) Fma(x, y, z uint64) uint64 {
	return wideWord(math.FMA(double(x), double(y), double(z)))
}
func (WideLane) Fnma(x, y, z uint64) uint64 {
	return wideWord(math.FMA(-double(x), double(y), double(z)))
}
func (WideLane) Fms(x, y, z uint64) uint64 {
	return wideWord(math.FMA(double(x), double(y), -double(z)))
}

// Near is Fma.
func (m WideLane) Near(x, y, z uint64) uint64 { return m.Fma(x, y, z) }

func (WideLane) And(x, y uint64) uint64                { return x & y }
func (WideLane) Or(x, y uint64) uint64                 { return x | y }
func (WideLane) AndNot(x, y uint64) uint64             { return y &^ x }
func (WideLane) AddInt(x, y uint64) uint64             { return x + y }
func (WideLane) SubInt(x, y uint64) uint64             { return x - y }
func (WideLane) ShiftLeft(x uint64, n int64) uint64    { return x << n }
func (WideLane) ShiftRight(x uint64, n int64) uint64   { return x >> n }
func (WideLane) Compare(p Predicate, x, y uint64) bool { return satisfies(p, double(x), double(y)) }

// Min returns the lesser; y if one is NaN, or if both are zeros.
func (WideLane) Min(x, y uint64) uint64 {
	if double(x) < double(y) {
		return x
	}
	return y
}

// Max returns the greater; y if one is NaN, or if both are zeros.
func (WideLane) Max(x, y uint64) uint64 {
	if double(x) > double(y) {
		return x
	}
	return y
}

// SelectLanes returns x if the lane is in the mask, and else y.
func (WideLane) SelectLanes(m bool, x, y uint64) uint64 {
	if m {
		return x
	}
	return y
}
