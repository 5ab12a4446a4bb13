package amd64

import "math"

// lane is the model of the algebra: one lane of 32 bits.
type lane struct{}

func single(x uint32) float32 { return math.Float32frombits(x) }
func word(x float32) uint32   { return math.Float32bits(x) }

func (lane) float(c float32) uint32 { return word(c) }
func (lane) integer(c int32) uint32 { return uint32(c) }
func (lane) add(x, y uint32) uint32 { return word(single(x) + single(y)) }
func (lane) sub(x, y uint32) uint32 { return word(single(x) - single(y)) }
func (lane) mul(x, y uint32) uint32 { return word(single(x) * single(y)) }
func (m lane) mulWhere(above bool, x, y uint32) uint32 {
	if !above {
		return 0
	}
	return m.mul(x, y)
}
func (lane) div(x, y uint32) uint32    { return word(single(x) / single(y)) }
func (lane) sqrt(x uint32) uint32      { return word(float32(math.Sqrt(float64(single(x))))) }
func (lane) and(x, y uint32) uint32    { return x & y }
func (lane) or(x, y uint32) uint32     { return x | y }
func (lane) xor(x, y uint32) uint32    { return x ^ y }
func (lane) andNot(x, y uint32) uint32 { return y &^ x }
func (lane) addInt(x, y uint32) uint32 { return x + y }
func (lane) subInt(x, y uint32) uint32 { return x - y }
func (lane) mulInt(x, y uint32) uint32 { return x * y }

func (lane) shiftLeft(x uint32, n int64) uint32  { return x << n }
func (lane) shiftRight(x uint32, n int64) uint32 { return x >> n }
func (lane) shiftLeftBy(x, n uint32) uint32      { return x << n }
func (lane) shiftRightBy(x, n uint32) uint32     { return x >> n }

func (lane) shiftRightSigned(x uint32, n int64) uint32 { return uint32(int32(x) >> n) }

func (lane) min(x, y uint32) uint32 {
	if single(x) < single(y) {
		return x
	}
	return y
}

func (lane) max(x, y uint32) uint32 {
	if single(x) > single(y) {
		return x
	}
	return y
}

func (lane) fma(x, y, z uint32) uint32  { return word(fusedSingle(single(x), single(y), single(z))) }
func (lane) fnma(x, y, z uint32) uint32 { return word(fusedSingle(-single(x), single(y), single(z))) }
func (lane) fms(x, y, z uint32) uint32  { return word(fusedSingle(single(x), single(y), -single(z))) }

// fusedSingle is x·y + z rounded once. The product is exact in f64; the sum is rounded to odd there, with which rounding it again is as
// rounding the exact sum (S. Boldo and G. Melquiond, Emulation of FMA and correctly rounded sums, 2008).
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

func (lane) round(x uint32, mode int64) uint32 {
	f := map[int64]func(float64) float64{toNearest: math.RoundToEven, downward: math.Floor, upward: math.Ceil, towardZero: math.Trunc}[mode]
	return word(float32(f(float64(single(x)))))
}

func (lane) toInt(x uint32) uint32 {
	v := math.RoundToEven(float64(single(x)))
	if !(v >= math.MinInt32 && v <= math.MaxInt32) {
		return 1 << 31
	}
	return uint32(int32(v))
}

func (lane) toFloat(x uint32) uint32 { return word(float32(int32(x))) }

func (lane) compare(p predicate, x, y uint32) bool {
	return satisfies(p, float64(single(x)), float64(single(y)))
}

func satisfies(p predicate, a, b float64) bool {
	switch p {
	case equal:
		return a == b
	case less:
		return a < b
	case lessOrEqual:
		return a <= b
	case unordered:
		return a != a || b != b
	case notEqual:
		return a != b
	case notLess:
		return !(a < b)
	case greaterOrEqual:
		return a >= b
	case greater:
		return a > b
	}
	panic("no such predicate")
}

func (lane) equalInt(x, y uint32) bool   { return x == y }
func (lane) greaterInt(x, y uint32) bool { return int32(x) > int32(y) }

func (lane) maskAnd(x, y bool) bool { return x && y }
func (lane) maskOr(x, y bool) bool  { return x || y }

func (lane) selectLanes(m bool, x, y uint32) uint32 {
	if m {
		return x
	}
	return y
}

func (lane) lookup(table *[8]uint32, index uint32) uint32 { return table[index&7] }

func (lane) rarely(m bool, usual []uint32, otherwise func() []uint32) []uint32 {
	if m {
		return otherwise()
	}
	return usual
}

// wideLane is the model of wideAlgebra: one lane of 64 bits.
type wideLane struct{}

func double(x uint64) float64   { return math.Float64frombits(x) }
func wideWord(x float64) uint64 { return math.Float64bits(x) }

func (wideLane) float(c float64) uint64 { return wideWord(c) }
func (wideLane) integer(c int64) uint64 { return uint64(c) }
func (wideLane) add(x, y uint64) uint64 { return wideWord(double(x) + double(y)) }
func (wideLane) sub(x, y uint64) uint64 { return wideWord(double(x) - double(y)) }
func (wideLane) mul(x, y uint64) uint64 { return wideWord(double(x) * double(y)) }
func (m wideLane) mulWhere(above bool, x, y uint64) uint64 {
	if !above {
		return 0
	}
	return m.mul(x, y)
}
func (wideLane) div(x, y uint64) uint64 { return wideWord(double(x) / double(y)) }
func (wideLane) fma(x, y, z uint64) uint64 {
	return wideWord(math.FMA(double(x), double(y), double(z)))
}
func (wideLane) fnma(x, y, z uint64) uint64 {
	return wideWord(math.FMA(-double(x), double(y), double(z)))
}
func (wideLane) fms(x, y, z uint64) uint64 {
	return wideWord(math.FMA(double(x), double(y), -double(z)))
}
func (wideLane) and(x, y uint64) uint64                { return x & y }
func (wideLane) or(x, y uint64) uint64                 { return x | y }
func (wideLane) andNot(x, y uint64) uint64             { return y &^ x }
func (wideLane) addInt(x, y uint64) uint64             { return x + y }
func (wideLane) subInt(x, y uint64) uint64             { return x - y }
func (wideLane) shiftLeft(x uint64, n int64) uint64    { return x << n }
func (wideLane) shiftRight(x uint64, n int64) uint64   { return x >> n }
func (wideLane) compare(p predicate, x, y uint64) bool { return satisfies(p, double(x), double(y)) }

func (wideLane) min(x, y uint64) uint64 {
	if double(x) < double(y) {
		return x
	}
	return y
}

func (wideLane) max(x, y uint64) uint64 {
	if double(x) > double(y) {
		return x
	}
	return y
}

func (wideLane) selectLanes(m bool, x, y uint64) uint64 {
	if m {
		return x
	}
	return y
}
