package torch

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// rule builds the results of a node, in order.
type rule func(c *call) []*ir.Value

// rules has the rules by operator and overload.
var rules = map[string]rule{}

// add adds rules to the table.
func add(more map[string]rule) {
	for name, r := range more {
		if rules[name] != nil {
			panic(diag.Internalf("two rules for %s", name))
		}
		rules[name] = r
	}
}

// Operators returns the names of the supported operators, sorted.
func Operators() []string {
	list := slices.AppendSeq(slices.Collect(maps.Keys(rules)), maps.Keys(complexRules))
	for name := range integers {
		if strings.HasPrefix(name, "aten.") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// one returns a list of one result.
func one(v *ir.Value) []*ir.Value { return []*ir.Value{v} }

// mapped returns a rule for a function of each element of self; if float is true, bools and integers become f32 before.
func mapped(float bool, f func(c *call, x *ir.Value) *ir.Value) rule {
	return func(c *call) []*ir.Value {
		if float {
			return one(f(c, c.floats("self")))
		}
		return one(f(c, c.tensor("self")))
	}
}

// unaryOf returns a rule for a unary function.
func unaryOf(float bool, op ops.UnaryFunction) rule {
	return mapped(float, func(c *call, x *ir.Value) *ir.Value { return c.unary(op, x) })
}

// pairs returns a rule for a function of self and other, after promotion to one type.
func pairs(float bool, f func(c *call, x, y *ir.Value) *ir.Value) rule {
	return func(c *call) []*ir.Value {
		v := c.promote(float, c.operand("self"), c.operand("other"))
		return one(f(c, v[0], v[1]))
	}
}

// binaryOf returns a rule for a binary function.
func binaryOf(float bool, op ops.BinaryFunction) rule {
	return pairs(float, func(c *call, x, y *ir.Value) *ir.Value { return c.binary(op, x, y) })
}

// orderedOf is binaryOf for functions that compare; false is less than true.
func orderedOf(op ops.BinaryFunction) rule {
	return pairs(false, func(c *call, x, y *ir.Value) *ir.Value { return c.ordered(op, x, y) })
}

// ordered applies a function that compares; false is less than true.
func (c *call) ordered(op ops.BinaryFunction, x, y *ir.Value) *ir.Value {
	return c.asNumbers(x, func(v *ir.Value) *ir.Value { return c.binary(op, v, ops.Cast(c.Builder, y, v.Type.DType)) })
}

// asNumbers applies a function of numbers. It converts bools to 0 and 1, and the result back to bools.
func (c *call) asNumbers(x *ir.Value, f func(x *ir.Value) *ir.Value) *ir.Value {
	if x.Type.DType != dtype.Bool {
		return f(x)
	}
	return ops.Cast(c.Builder, f(ops.Cast(c.Builder, x, dtype.U8)), dtype.Bool)
}

// scaled returns a rule for self ± alpha · other; if swapped is true, for other ± alpha · self.
func scaled(op ops.BinaryFunction, swapped bool) rule {
	return func(c *call) []*ir.Value {
		v := c.promote(false, c.operand("self"), c.operand("other"))
		x, y := v[0], v[1]
		if swapped {
			x, y = y, x
		}
		if c.has("alpha") && !c.isOne("alpha") {
			y = c.binary(ops.Mul, y, c.number("alpha", y.Type.DType))
		}
		if x.Type.DType == dtype.Bool && op == ops.Add {
			return one(c.binary(ops.Or, x, y))
		}
		return one(c.binary(op, x, y))
	}
}

// isOne reports whether an argument is the number 1.
func (c *call) isOne(name string) bool {
	a := c.args[name]
	var v number
	var yes bool
	if a.kind == "as_bool" {
		return a.into(&yes) == nil && yes
	}
	return (a.kind == "as_int" || a.kind == "as_float") && a.into(&v) == nil && v == 1
}

// init adds the rules of arithmetic and of functions of elements.
func init() {
	both := func(name string, r rule) map[string]rule { // for a tensor and a tensor, and for a tensor and a number
		return map[string]rule{"aten." + name + ".Tensor": r, "aten." + name + ".Scalar": r}
	}
	for name, r := range map[string]rule{
		"add": scaled(ops.Add, false), "sub": scaled(ops.Sub, false), "rsub": scaled(ops.Sub, true),
		"mul": pairs(false, times), "div": binaryOf(true, ops.Div), "remainder": pairs(false, quotients(ops.FloorMod)),
		"fmod": pairs(false, quotients(ops.Rem)),
		"eq":   binaryOf(false, ops.Eq), "ne": binaryOf(false, ops.Ne), "lt": orderedOf(ops.Lt), "le": orderedOf(ops.Le),
		"gt": orderedOf(ops.Gt), "ge": orderedOf(ops.Ge),
		"bitwise_and": binaryOf(false, ops.And), "bitwise_or": binaryOf(false, ops.Or),
		"bitwise_xor":  binaryOf(false, ops.Xor),
		"floor_divide": pairs(false, floorDivide),
	} {
		add(both(name, r))
	}
	add(map[string]rule{
		"aten.div.Tensor_mode": divide, "aten.div.Scalar_mode": divide,
		"aten.floor_divide.default": pairs(false, floorDivide),
		"aten.pow.Tensor_Scalar":    power, "aten.pow.Tensor_Tensor": power, "aten.pow.Scalar": power,
		"aten.maximum.default": orderedOf(ops.Max), "aten.minimum.default": orderedOf(ops.Min),
		"aten.atan2.default":       binaryOf(true, ops.Atan2),
		"aten.logical_and.default": logical(ops.And), "aten.logical_or.default": logical(ops.Or),
		"aten.logical_xor.default": logical(ops.Xor),
		"aten.neg.default":         unaryOf(false, ops.Neg), "aten._neg_view.default": unaryOf(false, ops.Neg),
		"aten.abs.default": unaryOf(false, ops.Abs), "aten.sign.default": signum,
		"aten.bitwise_not.default": mapped(false, func(c *call, x *ir.Value) *ir.Value {
			if x.Type.DType == dtype.Bool {
				return c.unary(ops.Not, x)
			}
			return c.unary(ops.BitNot, x)
		}),
		"aten.logical_not.default": mapped(false, func(c *call, x *ir.Value) *ir.Value {
			return c.unary(ops.Not, ops.Cast(c.Builder, x, dtype.Bool))
		}),
		"aten.floor.default": rounded(ops.Floor), "aten.ceil.default": rounded(ops.Ceil),
		"aten.round.default": rounded(ops.Round), "aten.trunc.default": rounded(ops.Trunc),
		"aten.isnan.default": mapped(true, func(c *call, x *ir.Value) *ir.Value { return c.unary(ops.IsNaN, x) }),
		"aten.isinf.default": mapped(true, func(c *call, x *ir.Value) *ir.Value { return c.unary(ops.IsInf, x) }),
		"aten.rsqrt.default": mapped(true, func(c *call, x *ir.Value) *ir.Value {
			return c.unary(ops.Reciprocal, c.unary(ops.Sqrt, x))
		}),
		"aten.log2.default": mapped(true, func(c *call, x *ir.Value) *ir.Value {
			return c.binary(ops.Mul, c.unary(ops.Log, x), c.like(x, 1/math.Ln2))
		}),
		"aten.log10.default": mapped(true, func(c *call, x *ir.Value) *ir.Value {
			return c.binary(ops.Mul, c.unary(ops.Log, x), c.like(x, 1/math.Ln10))
		}),
		"aten.square.default": mapped(false, func(c *call, x *ir.Value) *ir.Value { return c.binary(ops.Mul, x, x) }),
		"aten.clamp.default":  clamp, "aten.clamp.Tensor": clamp, "aten.clamp_min.default": clamp,
		"aten.clamp_max.default": clamp,
		"aten.where.self":        where, "aten.where.ScalarOther": where, "aten.where.ScalarSelf": where,
		"aten.where.Scalar":       where,
		"aten.masked_fill.Scalar": maskedFill, "aten.masked_fill.Tensor": maskedFill,
	})
	for name, op := range map[string]ops.UnaryFunction{"sqrt": ops.Sqrt, "reciprocal": ops.Reciprocal, "exp": ops.Exp,
		"log": ops.Log, "log1p": ops.Log1p,
		"expm1": ops.Expm1, "sin": ops.Sin, "cos": ops.Cos, "tan": ops.Tan, "asin": ops.Asin, "acos": ops.Acos,
		"atan": ops.Atan, "sinh": ops.Sinh,
		"cosh": ops.Cosh, "tanh": ops.Tanh, "asinh": ops.Asinh, "acosh": ops.Acosh, "atanh": ops.Atanh, "erf": ops.Erf,
		"sigmoid": ops.Sigmoid} {
		add(map[string]rule{"aten." + name + ".default": unaryOf(true, op)})
	}
}

// divide is a rule for the quotient of self and other, rounded as rounding_mode says: "floor", "trunc", or not at all.
func divide(c *call) []*ir.Value {
	mode := c.string("rounding_mode", "")
	v := c.promote(mode == "", c.operand("self"), c.operand("other"))
	switch {
	case mode == "":
		return one(c.binary(ops.Div, v[0], v[1]))
	case mode == "floor":
		return one(floorDivide(c, v[0], v[1]))
	case v[0].Type.DType.IsInt():
		return one(quotients(ops.Div)(c, v[0], v[1]))
	}
	return one(c.unary(ops.Trunc, c.binary(ops.Div, v[0], v[1])))
}

// power is a rule for self to the power of exponent; a constant exponent of 2 becomes a product.
func power(c *call) []*ir.Value {
	at := "exponent"
	v := c.promote(false, c.operand("self"), c.operand(at))
	if a := c.args[at]; a.kind == "as_int" || a.kind == "as_float" {
		var n number
		if a.into(&n) == nil && n == 2 {
			return one(c.binary(ops.Mul, v[0], v[0]))
		}
	}
	return one(c.binary(ops.Pow, v[0], v[1]))
}

// times returns the product; of bools, the conjunction.
func times(c *call, x, y *ir.Value) *ir.Value {
	if x.Type.DType == dtype.Bool {
		return c.binary(ops.And, x, y)
	}
	return c.binary(ops.Mul, x, y)
}

// signum is a rule for the sign: −1, 0 or 1, and 0 for NaN; a bool stays as it is.
func signum(c *call) []*ir.Value {
	x := c.tensor("self")
	if x.Type.DType == dtype.Bool {
		return one(x)
	}
	sign := c.unary(ops.Sign, x)
	if x.Type.DType.IsFloat() {
		sign = ops.Where(c.Builder, c.unary(ops.IsNaN, x), c.like(sign, 0), sign)
	}
	return one(sign)
}

// quotients returns a function that divides; integers by 0 are an error of the run.
func quotients(op ops.BinaryFunction) func(c *call, x, y *ir.Value) *ir.Value {
	return func(c *call, x, y *ir.Value) *ir.Value {
		if x.Type.DType.IsInt() {
			y = c.divisor(y)
		}
		return c.binary(op, x, y)
	}
}

// divisor returns integers of which none may be 0.
func (c *call) divisor(y *ir.Value) *ir.Value {
	if c.all(y, func(e sym.Expr) bool { return c.Dims().EQ(sym.Const(0), e) == sym.No }) {
		return y
	}
	return ops.Divisor(c.Builder, y)
}

// floorDivide returns the quotient rounded down.
func floorDivide(c *call, x, y *ir.Value) *ir.Value {
	if !x.Type.DType.IsInt() {
		return c.unary(ops.Floor, c.binary(ops.Div, x, y))
	}
	y = c.divisor(y)
	whole := c.binary(ops.Div, x, y)
	if !x.Type.DType.IsSigned() {
		return whole
	}
	zero := ops.Scalar(c.Builder, x.Type.DType, 0)
	inexact := c.binary(ops.Ne, c.binary(ops.FloorMod, x, y), zero)
	below := c.binary(ops.Xor, c.binary(ops.Lt, x, zero), c.binary(ops.Lt, y, zero))
	return c.binary(ops.Sub, whole, ops.Cast(c.Builder, c.binary(ops.And, inexact, below), x.Type.DType))
}

// rounded returns a rule for a rounding function; integers and bools stay as they are.
func rounded(op ops.UnaryFunction) rule {
	return mapped(false, func(c *call, x *ir.Value) *ir.Value {
		if !x.Type.DType.IsFloat() {
			return x
		}
		return c.unary(op, x)
	})
}

// logical returns a rule for a function of truth values; numbers other than 0 are true.
func logical(op ops.BinaryFunction) rule {
	return func(c *call) []*ir.Value {
		x, y := ops.Cast(c.Builder, c.tensor("self"), dtype.Bool), ops.Cast(c.Builder, c.tensor("other"), dtype.Bool)
		return one(c.binary(op, x, y))
	}
}
