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

// arithmetic is an emitter's arithmetic in lanes of one size: the core by the names of package mathematics.
type arithmetic struct {
	*Emitter
	float, whole, natural dtype.DType // the types of this size
}

func (e *arithmetic) Add(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Add, e.float, x, y) }
func (e *arithmetic) Sub(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Sub, e.float, x, y) }
func (e *arithmetic) Mul(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Mul, e.float, x, y) }
func (e *arithmetic) Div(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Div, e.float, x, y) }
func (e *arithmetic) Min(x, y regalloc.Reg) regalloc.Reg { return e.Lesser(e.float, x, y) }
func (e *arithmetic) Max(x, y regalloc.Reg) regalloc.Reg { return e.Greater(e.float, x, y) }
func (e *arithmetic) Sqrt(x regalloc.Reg) regalloc.Reg   { return e.Unary(loop.Sqrt, e.float, x) }
func (e *arithmetic) Trunc(x regalloc.Reg) regalloc.Reg  { return e.Unary(loop.Trunc, e.float, x) }
func (e *arithmetic) Fma(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(ProductPlus, e.float, x, y, z)
}
func (e *arithmetic) Fnma(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(MinusProduct, e.float, x, y, z)
}
func (e *arithmetic) Fms(x, y, z regalloc.Reg) regalloc.Reg {
	return e.Fused(ProductMinus, e.float, x, y, z)
}
func (e *arithmetic) Near(x, y, z regalloc.Reg) regalloc.Reg { return e.Fma(x, y, z) }
func (e *arithmetic) MulWhere(m, x, y regalloc.Reg) regalloc.Reg {
	return e.Machine.MulWhere(e.float, m, x, y)
}
func (e *arithmetic) And(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.And, e.whole, x, y) }
func (e *arithmetic) Or(x, y regalloc.Reg) regalloc.Reg     { return e.Binary(loop.Or, e.whole, x, y) }
func (e *arithmetic) Xor(x, y regalloc.Reg) regalloc.Reg    { return e.Binary(loop.Xor, e.whole, x, y) }
func (e *arithmetic) AddInt(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Add, e.whole, x, y) }
func (e *arithmetic) SubInt(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Sub, e.whole, x, y) }
func (e *arithmetic) MulInt(x, y regalloc.Reg) regalloc.Reg { return e.Binary(loop.Mul, e.whole, x, y) }
func (e *arithmetic) ShiftLeftBy(x, n regalloc.Reg) regalloc.Reg {
	return e.Binary(loop.Shl, e.whole, x, n)
}
func (e *arithmetic) ShiftRightBy(x, n regalloc.Reg) regalloc.Reg {
	return e.Binary(loop.Shr, e.natural, x, n)
}
func (e *arithmetic) EqualInt(x, y regalloc.Reg) regalloc.Reg { return e.Test(loop.Eq, e.whole, x, y) }
func (e *arithmetic) GreaterInt(x, y regalloc.Reg) regalloc.Reg {
	return e.Test(loop.Gt, e.whole, x, y)
}
func (e *arithmetic) MaskAnd(x, y regalloc.Reg) regalloc.Reg { return e.Masks(loop.And, x, y) }
func (e *arithmetic) MaskOr(x, y regalloc.Reg) regalloc.Reg  { return e.Masks(loop.Or, x, y) }
func (e *arithmetic) SelectLanes(m, x, y regalloc.Reg) regalloc.Reg {
	return e.Select(e.whole, m, x, y)
}
func (e *arithmetic) Compare(p mathematics.Predicate, x, y regalloc.Reg) regalloc.Reg {
	return e.Machine.Compare(p, e.float, x, y)
}
func (e *arithmetic) ShiftLeft(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shl, e.whole, x, n)
}
func (e *arithmetic) ShiftRight(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shr, e.natural, x, n)
}
func (e *arithmetic) ShiftRightSigned(x regalloc.Reg, n int64) regalloc.Reg {
	return e.ShiftBy(loop.Shr, e.whole, x, n)
}

// words is the arithmetic in lanes of 32 bits, and wides that in lanes of 64.
type (
	words struct{ arithmetic }
	wides struct{ arithmetic }
)

// number32 returns a number of 32 bits in all lanes.
func (e *words) number32(bits uint32) regalloc.Reg { return e.Repeated(dtype.I32, uint64(bits)) }

func (e *words) Float(c float32) regalloc.Reg        { return e.number32(math.Float32bits(c)) }
func (e *words) Integer(c int32) regalloc.Reg        { return e.number32(uint32(c)) }
func (e *words) ToFloat(x regalloc.Reg) regalloc.Reg { return e.Convert(dtype.I32, dtype.F32, x) }
func (e *words) Lookup(table *[8]uint32, index regalloc.Reg) regalloc.Reg {
	return e.Machine.Lookup(table[:], index)
}
func (e *wides) Float(c float64) regalloc.Reg { return e.Repeated(dtype.I64, math.Float64bits(c)) }
func (e *wides) Integer(c int64) regalloc.Reg { return e.Repeated(dtype.I64, uint64(c)) }

// Rarely returns usual, with otherwise's values in the lanes of the mask; the code of otherwise is skipped if the mask
// has no lane.
func (e *words) Rarely(mask regalloc.Reg, usual []regalloc.Reg, otherwise func() []regalloc.Reg) []regalloc.Reg {
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
