package dtype

import (
	"fmt"
	"math"
)

// Format describes a float type of at most 16 bits. A value with exponent field e > 0 and mantissa field m is (1 +
// m/2^Mantissa) × 2^(e−Bias); with e = 0 it is m/2^Mantissa × 2^(1−Bias). The codes below are those of a positive sign.
type Format struct {
	Exponent, Mantissa int    // bits of each field
	Bias               int    // of the exponent
	Max                uint16 // the greatest finite value
	Over               uint16 // what a greater one becomes if it is not clamped to Max: infinity, NaN, or Max itself
	NaN                uint16 // the NaN that a conversion gives; in a type without NaN, the sign bit, which NaN turns over
	Unsigned           bool   // neither zero nor NaN takes a sign (the FNUZ types)
	saturates          bool   // obeys the saturate flag
}

// HasNaN reports whether the type has a NaN.
func (f *Format) HasNaN() bool { return f.Over != f.Max }

// Infinite reports whether Over is infinity, and greater codes are NaN.
func (f *Format) Infinite() bool { return f.Over != f.Max && f.Over != f.NaN }

var formats = [count]Format{
	F4E2M1:     {Exponent: 2, Mantissa: 1, Bias: 1, Max: 0x7, Over: 0x7, NaN: 0x8},
	F8E4M3FN:   {Exponent: 4, Mantissa: 3, Bias: 7, Max: 0x7e, Over: 0x7f, NaN: 0x7f, saturates: true},
	F8E4M3FNUZ: {Exponent: 4, Mantissa: 3, Bias: 8, Max: 0x7f, Over: 0x80, NaN: 0x80, Unsigned: true, saturates: true},
	F8E5M2:     {Exponent: 5, Mantissa: 2, Bias: 15, Max: 0x7b, Over: 0x7c, NaN: 0x7e, saturates: true},
	F8E5M2FNUZ: {Exponent: 5, Mantissa: 2, Bias: 16, Max: 0x7f, Over: 0x80, NaN: 0x80, Unsigned: true, saturates: true},
	F16:        {Exponent: 5, Mantissa: 10, Bias: 15, Max: 0x7bff, Over: 0x7c00, NaN: 0x7e00},
	BF16:       {Exponent: 8, Mantissa: 7, Bias: 127, Max: 0x7f7f, Over: 0x7f80, NaN: 0x7fc0},
}

// Round says which power of two F8E8M0 takes for a value between two of them.
type Round uint8

// The rounding modes of F8E8M0, as ONNX's Cast names them.
const (
	Up      Round = iota // the greater
	Down                 // the lesser
	Nearest              // the nearer, of two equally near ones the greater
)

// Encode rounds x to a float type of at most 16 bits and returns its code. It rounds once, to nearest, ties to even;
// F8E8M0 rounds Up. Where the rounded value is greater than the type's greatest:
//
//   - F16 and BF16 give infinity, F4E2M1 its greatest value, whatever saturate says;
//   - the float8 types give their greatest value if saturate, for infinities too; else F8E5M2 gives infinity and the
//     others NaN. These are the tables of ONNX's Cast.
//
// A NaN gives the type's quiet NaN: with its sign in F16, BF16, F8E4M3FN, F8E5M2, and with the upper bits of its
// payload in F16. F4E2M1 has none and gives a zero of the other sign, as ml_dtypes does. Another type panics.
func Encode(dt DType, x float64, saturate bool) uint16 {
	if dt == F8E8M0 {
		return uint16(EncodeE8M0(x, saturate, Up))
	}
	f := FormatOf(dt)
	width := f.Exponent + f.Mantissa
	word := math.Float64bits(x)
	sign := uint16(word >> 63 << width)
	exponent := int(word>>52&0x7ff) - 1023
	significand := word & (1<<52 - 1)
	if exponent == 1024 {
		return f.special(dt, sign, significand, saturate)
	}
	significand |= 1 << 52 // of a subnormal too: it is far below half of any type's least value
	drop, scaled := 52-f.Mantissa, exponent+f.Bias-1
	if scaled < 0 { // the result is subnormal: its exponent field is 0 and has no implicit bit
		drop -= scaled
		scaled = 0
	}
	if drop > 54 {
		return f.zero(sign)
	}
	half := uint64(1) << (drop - 1)
	rounded := significand >> drop
	if rest := significand & (half<<1 - 1); rest > half || rest == half && rounded&1 == 1 {
		rounded++
	}
	// The implicit bit of a normal value adds the 1 that scaled lacks, and a carry out of the mantissa is right as well.
	code := uint64(scaled)<<f.Mantissa + rounded
	switch {
	case code == 0:
		return f.zero(sign)
	case code > uint64(f.Max):
		return f.overflow(sign, saturate)
	}
	return sign | uint16(code)
}

// special encodes an infinity (payload 0) or a NaN.
func (f *Format) special(dt DType, sign uint16, payload uint64, saturate bool) uint16 {
	switch {
	case payload == 0:
		return f.overflow(sign, saturate)
	case f.Unsigned:
		return f.NaN
	case dt == F16:
		return sign | f.NaN | uint16(payload>>42)
	}
	return sign ^ f.NaN
}

// zero returns the code of a zero; an unsigned format has one zero only.
func (f *Format) zero(sign uint16) uint16 {
	if f.Unsigned {
		return 0
	}
	return sign
}

// overflow returns the code of a value that is too large.
func (f *Format) overflow(sign uint16, saturate bool) uint16 {
	switch {
	case saturate && f.saturates:
		return sign | f.Max
	case f.Unsigned:
		return f.Over
	}
	return sign | f.Over
}

// EncodeE8M0 rounds x to a power of two and returns its F8E8M0 code. A value that rounds above 2¹²⁷ or below 2⁻¹²⁷,
// including zero and all negative values, becomes the nearest of the two if saturate is true, otherwise NaN. A NaN
// stays NaN.
func EncodeE8M0(x float64, saturate bool, round Round) uint8 {
	const nan, greatest = 0xff, 0xfe
	below := func() uint8 {
		if saturate {
			return 0
		}
		return nan
	}
	switch {
	case math.IsNaN(x):
		return nan
	case x <= 0:
		return below()
	}
	code := 1024 + 127
	if !math.IsInf(x, 1) {
		fraction, exponent := math.Frexp(x) // ½ ≤ fraction < 1
		code = exponent - 1 + 127
		if round == Up && fraction > 0.5 || round == Nearest && fraction >= 0.75 {
			code++
		}
	}
	switch {
	case code < 0:
		return below()
	case code <= greatest:
		return uint8(code)
	case saturate:
		return greatest
	}
	return nan
}

// Decode returns the value of a code of a float type of at most 16 bits, without rounding. Bits above the type's are
// ignored. Other types panic.
func Decode(dt DType, code uint16) float64 {
	switch dt {
	case F16:
		return float64(F16ToF32(code))
	case BF16:
		return float64(BF16ToF32(code))
	}
	table := decoded[dt]
	if table == nil {
		FormatOf(dt) // panics
	}
	return float64(table[int(code)&(len(table)-1)])
}

// decoded has the value of every code of the float types of at most eight bits.
var decoded = func() (tables [count][]float32) {
	for _, dt := range All() {
		if !dt.IsFloat() || dt.Bits() > 8 {
			continue
		}
		table := make([]float32, 1<<dt.Bits())
		for code := range table {
			table[code] = float32(decode(dt, uint16(code)))
		}
		tables[dt] = table
	}
	return tables
}()

// decode computes a value of the tables.
func decode(dt DType, code uint16) float64 {
	if dt == F8E8M0 {
		if code == 0xff {
			return math.NaN()
		}
		return math.Ldexp(1, int(code)-127)
	}
	f := &formats[dt]
	width := f.Exponent + f.Mantissa
	sign := 1.0
	magnitude := code & (1<<width - 1)
	if code>>width&1 == 1 {
		sign = -1
	}
	switch {
	case f.Unsigned && code == f.NaN, magnitude > f.Max && magnitude != f.Over, magnitude == f.Over && f.Over == f.NaN:
		return math.Copysign(math.NaN(), sign)
	case magnitude > f.Max:
		return math.Inf(int(sign))
	}
	exponent, mantissa := int(magnitude>>f.Mantissa), float64(magnitude&(1<<f.Mantissa-1))
	if exponent == 0 {
		exponent = 1
	} else {
		mantissa += float64(int(1) << f.Mantissa)
	}
	return sign * math.Ldexp(mantissa, exponent-f.Bias-f.Mantissa)
}

// FormatOf returns the format of a float type of at most 16 bits; it panics for other types.
func FormatOf(dt DType) *Format {
	if dt >= count || formats[dt].Exponent == 0 {
		panic(fmt.Sprintf("dtype: %v has no code of at most 16 bits", dt))
	}
	return &formats[dt]
}

// F16FromF32 rounds x as Encode does.
func F16FromF32(x float32) uint16 {
	word := math.Float32bits(x)
	sign := uint16(word >> 16 & 0x8000)
	magnitude := word & 0x7fffffff
	switch {
	case magnitude > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(magnitude>>13&0x3ff)
	case magnitude >= 0x47800000: // 2¹⁶ and above; smaller values that round up to it carry into infinity below
		return sign | 0x7c00
	case magnitude >= 0x38800000: // 2⁻¹⁴ and above: a normal value
		return sign | uint16((magnitude-0x38000000+0x0fff+magnitude>>13&1)>>13)
	}
	// The sum with ½ has units of 2⁻²⁴, those of a subnormal, so the addition itself rounds.
	return sign | uint16(math.Float32bits(math.Float32frombits(magnitude)+0.5))
}

// F16ToF32 returns the value of an f16. A NaN keeps its sign and payload and becomes quiet.
func F16ToF32(code uint16) float32 {
	sign, magnitude := uint32(code&0x8000)<<16, uint32(code&0x7fff)
	switch {
	case magnitude > 0x7c00:
		return math.Float32frombits(sign | 0x7fc00000 | magnitude<<13)
	case magnitude == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	case magnitude >= 0x0400:
		return math.Float32frombits(sign | (magnitude<<13 + (127-15)<<23))
	}
	return math.Float32frombits(sign | math.Float32bits(float32(magnitude)*0x1p-24))
}

// BF16FromF32 rounds x as Encode does.
func BF16FromF32(x float32) uint16 {
	word := math.Float32bits(x)
	if word&0x7fffffff > 0x7f800000 {
		return uint16(word>>16&0x8000) | 0x7fc0
	}
	return uint16((word + 0x7fff + word>>16&1) >> 16)
}

// BF16ToF32 returns the value of a bf16.
func BF16ToF32(code uint16) float32 { return math.Float32frombits(uint32(code) << 16) }
