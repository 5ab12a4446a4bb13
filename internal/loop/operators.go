package loop

// UnaryOp is a function of one operand.
type UnaryOp uint8

// The unary functions. Integers: Neg, Abs, Sign, BitNot, and nothing else. Bool: Not.
const (
	Neg UnaryOp = iota
	Abs
	Sign
	BitNot
	Not
	Floor
	Ceil
	Round // half to even
	Trunc
	Sqrt
	Reciprocal
	Exp
	Log
	Log1p
	Expm1
	Sin
	Cos
	Tan
	Asin
	Acos
	Atan
	Sinh
	Cosh
	Tanh
	Asinh
	Acosh
	Atanh
	Erf
	Sigmoid
	IsNaN
	IsInf // either sign
	unaryOps
)

// BinaryOp is a function of two operands of one type.
type BinaryOp uint8

// The binary functions. Integers wrap; Div truncates toward zero, FloorMod has the divisor's sign and Rem the
// dividend's. Integer division by zero yields 0 and MinInt / −1 wraps; callers that must refuse these add a Check. Min
// and Max yield NaN if an operand is NaN.
const (
	Add BinaryOp = iota
	Sub
	Mul
	Div
	FloorMod
	Rem
	Pow
	Min
	Max
	And // bitwise; on bool, logical
	Or
	Xor
	Shl // by Y modulo the width or more: 0
	Shr // logical on unsigned, arithmetic on signed
	Dot // of i32: the sum of the products of X's four bytes, unsigned, and Y's, signed
	Atan2
	Eq
	Ne
	Lt
	Le
	Gt
	Ge
	binaryOps
)

var unaryNames = [unaryOps]string{"neg", "abs", "sign", "bitnot", "not", "floor", "ceil", "round", "trunc", "sqrt",
	"reciprocal", "exp", "log", "log1p", "expm1",
	"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid",
	"isnan", "isinf"}

var binaryNames = [binaryOps]string{"add", "sub", "mul", "div", "floormod", "rem", "pow", "min", "max", "and", "or",
	"xor", "shl", "shr", "dot", "atan2",
	"eq", "ne", "lt", "le", "gt", "ge"}

// String returns the function's printed name.
func (op UnaryOp) String() string { return unaryNames[op] }

// String returns the function's printed name.
func (op BinaryOp) String() string { return binaryNames[op] }

// Test reports whether the result is bool for every type of operand.
func (op UnaryOp) Test() bool { return op == IsNaN || op == IsInf }

// Test reports whether the result is bool for every type of operands.
func (op BinaryOp) Test() bool { return op >= Eq }
