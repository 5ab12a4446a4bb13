package torch

import (
	"encoding/json"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// kind returns the rank of an element type's category (bool, integer, float, complex); in arithmetic the higher
// category wins.
func kind(dt dtype.DType) int {
	switch {
	case dt == dtype.Bool:
		return 0
	case dt.IsInt():
		return 1
	case dt.IsFloat():
		return 2
	}
	return 3
}

// commonType returns the result type of PyTorch's arithmetic on two tensors.
func commonType(a, b dtype.DType) dtype.DType {
	switch ka, kb := kind(a), kind(b); {
	case a == dtype.Invalid || a == b:
		return b
	case b == dtype.Invalid:
		return a
	case ka > kb:
		return a
	case kb > ka:
		return b
	case ka == 1:
		return commonInteger(a, b)
	case a.Bits() == b.Bits(): // f16 and bf16
		return dtype.F32
	case a.Bits() > b.Bits():
		return a
	}
	return b
}

// commonInteger is commonType for integers: the wider type; for an unsigned type and a signed one that is not wider,
// the next wider signed type.
func commonInteger(a, b dtype.DType) dtype.DType {
	if a.IsSigned() == b.IsSigned() || a.IsSigned() && a.Bits() > b.Bits() || b.IsSigned() && b.Bits() > a.Bits() {
		if a.Bits() > b.Bits() {
			return a
		}
		return b
	}
	return map[int]dtype.DType{8: dtype.I16, 16: dtype.I32, 32: dtype.I64, 64: dtype.I64}[max(a.Bits(), b.Bits())]
}

// operand is a tensor or a Python number.
type operand struct {
	value  *ir.Value // of a tensor
	weak   dtype.DType
	number func(dt dtype.DType) *ir.Value // of a number
}

// operand returns an argument that is a tensor or a number.
func (c *call) operand(name string) operand {
	a := c.args[name]
	if a == nil {
		c.Fail(diag.Inputf("the operand %s is missing", name))
	}
	if a.kind == "as_tensor" || a.kind == "as_optional_tensor" {
		return operand{value: c.tensor(name)}
	}
	weak := dtype.F32
	switch a.kind {
	case "as_int", "as_sym_int":
		weak = dtype.I64
	case "as_bool", "as_sym_bool":
		weak = dtype.Bool
	}
	return operand{weak: weak, number: func(dt dtype.DType) *ir.Value { return c.number(name, dt) }}
}

// number returns a Python number as a tensor of a type; Invalid stands for the number's own type.
func (c *call) number(name string, dt dtype.DType) *ir.Value {
	a := c.args[name]
	if a == nil {
		c.Fail(diag.Inputf("the number %s is missing", name))
	}
	if v := c.decidedBy(a); v != nil {
		if dt == dtype.Invalid {
			dt = v.Type.DType
		}
		return ops.Cast(c.Builder, v, dt)
	}
	own := dtype.I64
	switch a.kind {
	case "as_int":
		var v int64
		if err := a.into(&v); err != nil {
			c.Fail(err)
		}
		if dt == dtype.Invalid {
			dt = own
		}
		return ops.Cast(c.Builder, ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, ir.Constants([]int64{v})), dt)
	case "as_sym_int":
		v := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, append(ir.Constants(nil), c.symOf(a.value)))
		if dt == dtype.Invalid {
			dt = own
		}
		return ops.Cast(c.Builder, v, dt)
	case "as_bool":
		var v bool
		if err := a.into(&v); err != nil {
			c.Fail(err)
		}
		if dt == dtype.Invalid {
			dt = dtype.Bool
		}
		x := 0.0
		if v {
			x = 1
		}
		return ops.Cast(c.Builder, ops.Scalar(c.Builder, dtype.I64, x), dt)
	case "as_float", "as_sym_float":
		v := number(0)
		text := a.value
		var s struct {
			Float *json.RawMessage `json:"as_float"`
		}
		if a.kind == "as_sym_float" && json.Unmarshal(a.value, &s) == nil && s.Float != nil {
			text = *s.Float
		}
		if err := (&argument{a.kind, text}).into(&v); err != nil {
			c.Fail(err)
		}
		if dt == dtype.Invalid {
			dt = dtype.F32
		}
		return ops.Scalar(c.Builder, dt, float64(v))
	}
	c.Fail(diag.Unsupportedf("%s as %s; a number is expected", name, a.kind))
	return nil
}

// decidedBy returns the number that an argument names if data decide it; nil otherwise.
func (c *call) decidedBy(a *argument) *ir.Value {
	if a.kind != "as_sym_int" && a.kind != "as_sym_float" && a.kind != "as_sym_bool" {
		return nil
	}
	var s namedNumber
	if a.into(&s) != nil {
		return nil
	}
	return c.numbers[s.Name]
}

// promote converts operands to one type by PyTorch's rules: tensors with axes decide before tensors without axes, and
// these before numbers, unless a later group has a higher category. If float is true, bools and integers become f32.
func (c *call) promote(float bool, operands ...operand) (out []*ir.Value) {
	var types [3]dtype.DType
	for _, o := range operands {
		switch {
		case o.value == nil:
			types[2] = commonType(types[2], o.weak)
		case len(o.value.Type.Shape) == 0:
			types[1] = commonType(types[1], o.value.Type.DType)
		default:
			types[0] = commonType(types[0], o.value.Type.DType)
		}
	}
	dt := types[0]
	for _, other := range types[1:] {
		if dt == dtype.Invalid || other != dtype.Invalid && kind(other) > kind(dt) {
			dt = other
		}
	}
	if float && kind(dt) < 2 {
		dt = dtype.F32
	}
	for _, o := range operands {
		if o.value != nil {
			out = append(out, ops.Cast(c.Builder, o.value, dt))
		} else {
			out = append(out, o.number(dt))
		}
	}
	return out
}

// floats returns a tensor argument; bools and integers become f32.
func (c *call) floats(name string) *ir.Value {
	x := c.tensor(name)
	if kind(x.Type.DType) < 2 {
		return ops.Cast(c.Builder, x, dtype.F32)
	}
	return x
}

// binary applies a function to two values.
func (c *call) binary(f ops.BinaryFunction, x, y *ir.Value) *ir.Value {
	return ops.Binary(c.Builder, f, x, y)
}

// unary applies a function to a value.
func (c *call) unary(f ops.UnaryFunction, x *ir.Value) *ir.Value { return ops.Unary(c.Builder, f, x) }

// like returns a constant of the type of x.
func (c *call) like(x *ir.Value, number float64) *ir.Value {
	return ops.Scalar(c.Builder, x.Type.DType, number)
}
