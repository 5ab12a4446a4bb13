package lanes

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// Functions and WideFunctions are the functions of package mathematics, of f32 and of f64, over a machine's vectors.
type (
	Functions     = mathematics.Functions[regalloc.Reg, regalloc.Reg]
	WideFunctions = mathematics.WideFunctions[regalloc.Reg, regalloc.Reg]
)

// Functions returns the functions of f32, and WideFunctions those of f64, which emit their instructions.
func (e *Emitter) Functions() Functions         { return Functions{Algebra: e.word} }
func (e *Emitter) WideFunctions() WideFunctions { return WideFunctions{WideAlgebra: e.wide} }

// functions and functions2 are the functions of f32 that take more than an instruction.
var (
	functions = map[loop.UnaryOp]func(m Functions, x regalloc.Reg) regalloc.Reg{
		loop.Exp:     Functions.Exp,
		loop.Expm1:   Functions.Expm1,
		loop.Log:     Functions.Log,
		loop.Log1p:   Functions.Log1p,
		loop.Sin:     Functions.Sin,
		loop.Cos:     Functions.Cos,
		loop.Tan:     Functions.Tan,
		loop.Asin:    Functions.Asin,
		loop.Acos:    Functions.Acos,
		loop.Atan:    Functions.Atan,
		loop.Sinh:    Functions.Sinh,
		loop.Cosh:    Functions.Cosh,
		loop.Tanh:    Functions.Tanh,
		loop.Asinh:   Functions.Asinh,
		loop.Acosh:   Functions.Acosh,
		loop.Atanh:   Functions.Atanh,
		loop.Erf:     Functions.Erf,
		loop.Sigmoid: Functions.Sigmoid,
	}
	functions2 = map[loop.BinaryOp]func(e *Emitter, x, y regalloc.Reg) regalloc.Reg{
		loop.Atan2: func(e *Emitter, y, x regalloc.Reg) regalloc.Reg { return e.Functions().Atan2(y, x) },
		loop.Pow: func(e *Emitter, x, y regalloc.Reg) regalloc.Reg {
			if c, ok := e.constantFloat(y); ok {
				if power, ok := e.Functions().PowConstant(x, c); ok {
					return power
				}
			}
			return e.Functions().Pow(x, y)
		},
	}
)

// constantFloat returns the f32 that a constant has in all lanes; ok is false for other registers.
func (e *Emitter) constantFloat(r regalloc.Reg) (c float32, ok bool) {
	bytes := string(e.Bytes(r))
	if bytes == "" || bytes != strings.Repeat(bytes[:4], len(bytes)/4) {
		return 0, false
	}
	return math.Float32frombits(binary.LittleEndian.Uint32([]byte(bytes))), true
}

// wideFunctions are the functions of f64 that take more than an instruction; the others are left to package portable.
var wideFunctions = map[loop.UnaryOp]func(m WideFunctions, x regalloc.Reg) regalloc.Reg{
	loop.Exp:     WideFunctions.Exp,
	loop.Expm1:   WideFunctions.Expm1,
	loop.Log:     WideFunctions.Log,
	loop.Log1p:   WideFunctions.Log1p,
	loop.Tanh:    WideFunctions.Tanh,
	loop.Sigmoid: WideFunctions.Sigmoid,
}

// words is an emitter's arithmetic in lanes of 32 bits: the core by the names of package mathematics.
type words struct{ *Emitter }

// number32 returns a number of 32 bits in all lanes.
func (e words) number32(bits uint32) regalloc.Reg { return e.Repeated(dtype.I32, uint64(bits)) }

func (e words) Float(c float32) regalloc.Reg          { return e.number32(math.Float32bits(c)) }
func (e words) Integer(c int32) regalloc.Reg          { return e.number32(uint32(c)) }
func (e words) Add(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.Add, dtype.F32, x, y) }
func (e words) Sub(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.Sub, dtype.F32, x, y) }
func (e words) Mul(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.Mul, dtype.F32, x, y) }
func (e words) Div(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.Div, dtype.F32, x, y) }
func (e words) Min(x, y regalloc.Reg) regalloc.Reg    { return e.Lesser(dtype.F32, x, y) }
func (e words) Max(x, y regalloc.Reg) regalloc.Reg    { return e.Greater(dtype.F32, x, y) }
func (e words) And(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.And, dtype.I32, x, y) }
func (e words) Or(x, y regalloc.Reg) regalloc.Reg     { return e.Binary(loop.Or, dtype.I32, x, y) }
func (e words) Xor(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.Xor, dtype.I32, x, y) }
func (e words) AddInt(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Add, dtype.I32, x, y) }
func (e words) SubInt(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Sub, dtype.I32, x, y) }
func (e words) MulInt(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Mul, dtype.I32, x, y) }
func (e words) ShiftLeftBy(x, n regalloc.Reg) regalloc.Reg {
	return e.Binary(loop.Shl, dtype.I32, x, n)
}
func (e words) ShiftRightBy(x, n regalloc.Reg) regalloc.Reg {
	return e.Binary(loop.Shr, dtype.U32, x, n)
}
func (e words) EqualInt(x, y regalloc.Reg) regalloc.Reg   { return e.Test(loop.Eq, dtype.I32, x, y) }
func (e words) GreaterInt(x, y regalloc.Reg) regalloc.Reg { return e.Test(loop.Gt, dtype.I32, x, y) }
func (e words) MaskAnd(x, y regalloc.Reg) regalloc.Reg    { return e.Masks(loop.And, x, y) }
func (e words) MaskOr(x, y regalloc.Reg) regalloc.Reg     { return e.Masks(loop.Or, x, y) }
func (e words) Sqrt(x regalloc.Reg) regalloc.Reg          { return e.Unary(loop.Sqrt, dtype.F32, x) }
func (e words) Trunc(x regalloc.Reg) regalloc.Reg         { return e.Unary(loop.Trunc, dtype.F32, x) }
func (e words) ToFloat(x regalloc.Reg) regalloc.Reg       { return e.Convert(dtype.I32, dtype.F32, x) }
func (e words) ShiftLeft(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shl, dtype.I32, x, n)
}
func (e words) ShiftRight(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shr, dtype.U32, x, n)
}
func (e words) ShiftRightSigned(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shr, dtype.I32, x, n)
}
func (e words) Fma(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(ProductPlus, dtype.F32, x, y, z)
}
func (e words) Fnma(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(MinusProduct, dtype.F32, x, y, z)
}
func (e words) Fms(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(ProductMinus, dtype.F32, x, y, z)
}
func (e words) Near(x, y, z regalloc.Reg) regalloc.Reg { return e.Fma(x, y, z) }
func (e words) MulWhere(m, x, y regalloc.Reg) regalloc.Reg {
	return e.Machine.MulWhere(dtype.F32, m, x, y)
}
func (e words) SelectLanes(m, x, y regalloc.Reg) regalloc.Reg { return e.Select(dtype.I32, m, x, y) }
func (e words) Lookup(table *[8]uint32, index regalloc.Reg) regalloc.Reg {
	return e.Machine.Lookup(table[:], index)
}
func (e words) Compare(p mathematics.Predicate, x, y regalloc.Reg) regalloc.Reg {
	return e.Machine.Compare(p, dtype.F32, x, y)
}

// Rarely returns usual, with otherwise's values in the lanes of the mask; the code of otherwise is skipped if the mask
// has no lane.
func (e words) Rarely(mask regalloc.Reg, usual []regalloc.Reg, otherwise func() []regalloc.Reg) []regalloc.Reg {
	result := make([]regalloc.Reg, len(usual))
	for i, r := range usual {
		result[i] = e.CopyOf(r)
	}
	over := e.Label()
	e.JumpIfNone(mask, over)
	for i, r := range otherwise() {
		e.Assign(result[i], e.SelectLanes(mask, r, result[i]))
	}
	e.Bind(over)
	return result
}

// wides is an emitter's arithmetic in lanes of 64 bits.
type wides struct{ *Emitter }

func (e wides) Float(c float64) regalloc.Reg       { return e.Repeated(dtype.I64, math.Float64bits(c)) }
func (e wides) Integer(c int64) regalloc.Reg       { return e.Repeated(dtype.I64, uint64(c)) }
func (e wides) Add(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Add, dtype.F64, x, y) }
func (e wides) Sub(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Sub, dtype.F64, x, y) }
func (e wides) Mul(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Mul, dtype.F64, x, y) }
func (e wides) Div(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Div, dtype.F64, x, y) }
func (e wides) Min(x, y regalloc.Reg) regalloc.Reg { return e.Lesser(dtype.F64, x, y) }
func (e wides) Max(x, y regalloc.Reg) regalloc.Reg { return e.Greater(dtype.F64, x, y) }
func (e wides) Fma(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(ProductPlus, dtype.F64, x, y, z)
}
func (e wides) Fnma(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(MinusProduct, dtype.F64, x, y, z)
}
func (e wides) Fms(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(ProductMinus, dtype.F64, x, y, z)
}
func (e wides) Near(x, y, z regalloc.Reg) regalloc.Reg        { return e.Fma(x, y, z) }
func (e wides) And(x, y regalloc.Reg) regalloc.Reg            { return e.Binary(loop.And, dtype.I64, x, y) }
func (e wides) Or(x, y regalloc.Reg) regalloc.Reg             { return e.Binary(loop.Or, dtype.I64, x, y) }
func (e wides) AddInt(x, y regalloc.Reg) regalloc.Reg         { return e.Binary(loop.Add, dtype.I64, x, y) }
func (e wides) SubInt(x, y regalloc.Reg) regalloc.Reg         { return e.Binary(loop.Sub, dtype.I64, x, y) }
func (e wides) MulInt(x, y regalloc.Reg) regalloc.Reg         { return e.Binary(loop.Mul, dtype.I64, x, y) }
func (e wides) EqualInt(x, y regalloc.Reg) regalloc.Reg       { return e.Test(loop.Eq, dtype.I64, x, y) }
func (e wides) GreaterInt(x, y regalloc.Reg) regalloc.Reg     { return e.Test(loop.Gt, dtype.I64, x, y) }
func (e wides) SelectLanes(m, x, y regalloc.Reg) regalloc.Reg { return e.Select(dtype.I64, m, x, y) }
func (e wides) MulWhere(m, x, y regalloc.Reg) regalloc.Reg {
	return e.Machine.MulWhere(dtype.F64, m, x, y)
}
func (e wides) ShiftLeft(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shl, dtype.I64, x, n)
}
func (e wides) ShiftRight(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shr, dtype.U64, x, n)
}
func (e wides) Compare(p mathematics.Predicate, x, y regalloc.Reg) regalloc.Reg {
	return e.Machine.Compare(p, dtype.F64, x, y)
}
