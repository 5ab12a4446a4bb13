package ops

import "github.com/weirml/weir/internal/loop"

// UnaryFunction and BinaryFunction are the scalar functions that Unary and Binary apply to elements. Importers use
// these names, since they do not import package loop.
type (
	UnaryFunction  = loop.UnaryOp
	BinaryFunction = loop.BinaryOp
)

// The functions of one element: package loop defines them.
const (
	Neg        = loop.Neg
	Abs        = loop.Abs
	Sign       = loop.Sign
	BitNot     = loop.BitNot
	Not        = loop.Not
	Floor      = loop.Floor
	Ceil       = loop.Ceil
	Round      = loop.Round
	Trunc      = loop.Trunc
	Sqrt       = loop.Sqrt
	Reciprocal = loop.Reciprocal
	Exp        = loop.Exp
	Log        = loop.Log
	Log1p      = loop.Log1p
	Expm1      = loop.Expm1
	Sin        = loop.Sin
	Cos        = loop.Cos
	Tan        = loop.Tan
	Asin       = loop.Asin
	Acos       = loop.Acos
	Atan       = loop.Atan
	Sinh       = loop.Sinh
	Cosh       = loop.Cosh
	Tanh       = loop.Tanh
	Asinh      = loop.Asinh
	Acosh      = loop.Acosh
	Atanh      = loop.Atanh
	Erf        = loop.Erf
	Sigmoid    = loop.Sigmoid
	IsNaN      = loop.IsNaN
	IsInf      = loop.IsInf
)

// The functions of two elements.
const (
	Add      = loop.Add
	Sub      = loop.Sub
	Mul      = loop.Mul
	Div      = loop.Div
	FloorMod = loop.FloorMod
	Rem      = loop.Rem
	Pow      = loop.Pow
	Min      = loop.Min
	Max      = loop.Max
	And      = loop.And
	Or       = loop.Or
	Xor      = loop.Xor
	Shl      = loop.Shl
	Shr      = loop.Shr
	Atan2    = loop.Atan2
	Eq       = loop.Eq
	Ne       = loop.Ne
	Lt       = loop.Lt
	Le       = loop.Le
	Gt       = loop.Gt
	Ge       = loop.Ge
)
