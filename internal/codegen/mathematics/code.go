package mathematics

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
)

// This file converts floats of 8 and of 4 bits, which generators compute with as f32. A code is their bits,
// zero-extended to a lane.

// Coded reports whether a type is a float of at most 8 bits.
func Coded(dt dtype.DType) bool { return dt.IsFloat() && dt.Bits() <= 8 }

// LeastPower is the least number of F8E8M0, which has no zero.
const LeastPower = 0x1p-127

const (
	leastPower = 0x00400000 // the bits of LeastPower
	quietNaN   = 0x7fc00000
)

// FromCode returns the value of a type's code.
func (m Functions[V, M]) FromCode(dt dtype.DType, x V) V {
	if dt == dtype.F8E8M0 {
		r := m.ShiftLeft(x, 23)
		r = m.SelectLanes(m.EqualInt(x, m.Integer(0)), m.Integer(leastPower), r)
		return m.SelectLanes(m.EqualInt(x, m.Integer(0xff)), m.Integer(quietNaN), r)
	}
	f := dtype.FormatOf(dt)
	width, over := f.Exponent+f.Mantissa, int32(f.Over)
	size := m.And(x, m.Integer(1<<width-1))
	sign := m.And(m.ShiftLeft(x, int64(31-width)), m.Integer(signBit))
	normal := m.AddInt(m.ShiftLeft(size, int64(23-f.Mantissa)), m.Integer(int32(127-f.Bias)<<23))
	small := m.Mul(m.ToFloat(size), m.Float(float32(math.Ldexp(1, 1-f.Bias-f.Mantissa))))
	r := m.SelectLanes(m.GreaterInt(m.Integer(1<<f.Mantissa), size), small, normal)
	special := func(mask M, bits int32) { r = m.SelectLanes(mask, m.Integer(bits), r) }
	switch {
	case f.Infinite():
		special(m.EqualInt(size, m.Integer(over)), infinity)
		special(m.GreaterInt(size, m.Integer(over)), quietNaN)
	case f.Unsigned:
		special(m.EqualInt(x, m.Integer(int32(f.NaN))), quietNaN)
	case f.HasNaN():
		special(m.EqualInt(size, m.Integer(int32(f.NaN))), quietNaN)
	}
	return m.Or(r, sign)
}

// ToCode rounds f32 to a type's code: to nearest, half to even, F8E8M0 to the greater power of two. Numbers beyond the
// type's greatest number become that number if clamped is true, else infinity or NaN.
func (m Functions[V, M]) ToCode(dt dtype.DType, x V, clamped bool) V {
	if dt == dtype.F8E8M0 {
		return m.toPower(x, clamped)
	}
	f := dtype.FormatOf(dt)
	width := f.Exponent + f.Mantissa
	size := m.And(x, m.Integer(math.MaxInt32))
	sign := m.And(m.ShiftRight(x, int64(31-width)), m.Integer(1<<width))
	// A normal number: the dropped bits are rounded, and a carry out of the mantissa is right as well.
	drop := int64(23 - f.Mantissa)
	normal := m.SubInt(size, m.Integer(int32(127-f.Bias)<<23))
	odd := m.And(m.ShiftRight(normal, drop), m.Integer(1))
	normal = m.ShiftRightSigned(m.AddInt(m.AddInt(normal, m.Integer(int32(1)<<(drop-1)-1)), odd), drop)
	// A subnormal number: a sum rounds to its units.
	magic := m.Float(float32(math.Ldexp(1, 24-f.Bias-f.Mantissa)))
	small := m.SubInt(m.Add(size, magic), magic)
	least := m.Float(float32(math.Ldexp(1, 1-f.Bias)))
	r := m.SelectLanes(m.GreaterInt(least, size), small, normal)
	over := int32(f.Over)
	if clamped {
		over = int32(f.Max)
	}
	beyond := m.GreaterInt(r, m.Integer(int32(f.Max)))
	r = m.SelectLanes(beyond, m.Integer(over), r)
	nan := int32(f.NaN)
	if !f.Unsigned {
		if !f.HasNaN() {
			sign = m.SelectLanes(m.Compare(Unordered, x, x), m.Xor(sign, m.Integer(nan)), sign)
			nan = 0
		}
		r = m.SelectLanes(m.Compare(Unordered, x, x), m.Integer(nan), r)
		return m.Or(r, sign)
	}
	signed := m.Or(r, sign)
	signed = m.SelectLanes(m.EqualInt(r, m.Integer(0)), r, signed)
	if !clamped {
		signed = m.SelectLanes(beyond, m.Integer(over), signed)
	}
	return m.SelectLanes(m.Compare(Unordered, x, x), m.Integer(nan), signed)
}

// toPower rounds f32 up to powers of two, as codes of F8E8M0.
func (m Functions[V, M]) toPower(x V, clamped bool) V {
	r := m.ShiftRight(m.AddInt(x, m.Integer(0x7fffff)), 23)
	below, most := int32(0xff), int32(0xff)
	if clamped {
		below, most = 0, 0xfe
	}
	r = m.SelectLanes(m.GreaterInt(m.Integer(leastPower+1), x), m.Integer(0), r)
	r = m.SelectLanes(m.GreaterInt(m.Integer(leastPower/2+1), x), m.Integer(below), r) // negative numbers too
	r = m.SelectLanes(m.GreaterInt(x, m.Integer(0x7f000000)), m.Integer(most), r)
	return m.SelectLanes(m.Compare(Unordered, x, x), m.Integer(0xff), r)
}
