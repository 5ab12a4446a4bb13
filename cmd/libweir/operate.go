//go:build cgo

package main

// #include "bridge.h"
import "C"

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// operations are the functions of weir_operate by their names, each a method of array.Scope. See call for what they are given.
//
//weir:table
var operations = map[string]any{
	// Elementwise functions.
	"abs": (*array.Scope).Abs, "acos": (*array.Scope).Acos, "acosh": (*array.Scope).Acosh, "add": (*array.Scope).Add,
	"asin": (*array.Scope).Asin, "asinh": (*array.Scope).Asinh, "atan": (*array.Scope).Atan, "atan2": (*array.Scope).Atan2,
	"atanh": (*array.Scope).Atanh, "bitwise_and": (*array.Scope).BitwiseAnd, "bitwise_invert": (*array.Scope).BitwiseInvert,
	"bitwise_or": (*array.Scope).BitwiseOr, "bitwise_xor": (*array.Scope).BitwiseXor, "cast": (*array.Scope).Cast,
	"ceil": (*array.Scope).Ceil, "clip": (*array.Scope).Clip, "copysign": (*array.Scope).CopySign, "cos": (*array.Scope).Cos,
	"cosh": (*array.Scope).Cosh, "div": (*array.Scope).Div, "equal": (*array.Scope).Equal, "erf": (*array.Scope).Erf,
	"exp": (*array.Scope).Exp, "expm1": (*array.Scope).Expm1, "floor": (*array.Scope).Floor,
	"floor_divide": (*array.Scope).FloorDivide, "greater": (*array.Scope).Greater, "greater_equal": (*array.Scope).GreaterEqual,
	"hypot": (*array.Scope).Hypot, "isfinite": (*array.Scope).IsFinite, "isinf": (*array.Scope).IsInf, "isnan": (*array.Scope).IsNaN,
	"less": (*array.Scope).Less, "less_equal": (*array.Scope).LessEqual, "log": (*array.Scope).Log, "log10": (*array.Scope).Log10,
	"log1p": (*array.Scope).Log1p, "log2": (*array.Scope).Log2, "logaddexp": (*array.Scope).LogAddExp,
	"logical_and": (*array.Scope).LogicalAnd, "logical_not": (*array.Scope).LogicalNot, "logical_or": (*array.Scope).LogicalOr,
	"logical_xor": (*array.Scope).LogicalXor, "maximum": (*array.Scope).Maximum, "minimum": (*array.Scope).Minimum,
	"mul": (*array.Scope).Mul, "neg": (*array.Scope).Neg, "nextafter": (*array.Scope).NextAfter, "not_equal": (*array.Scope).NotEqual,
	"pow": (*array.Scope).Pow, "reciprocal": (*array.Scope).Reciprocal, "remainder": (*array.Scope).Remainder,
	"round": (*array.Scope).Round, "shift_left": (*array.Scope).ShiftLeft, "shift_right": (*array.Scope).ShiftRight,
	"sign": (*array.Scope).Sign, "signbit": (*array.Scope).SignBit, "sin": (*array.Scope).Sin, "sinh": (*array.Scope).Sinh,
	"sqrt": (*array.Scope).Sqrt, "square": (*array.Scope).Square, "sub": (*array.Scope).Sub, "tan": (*array.Scope).Tan,
	"tanh": (*array.Scope).Tanh, "trunc": (*array.Scope).Trunc, "where": (*array.Scope).Where,

	// New arrays.
	"arange": (*array.Scope).Arange, "eye": (*array.Scope).Eye, "full": (*array.Scope).Full, "iota": (*array.Scope).Iota,
	"linspace": (*array.Scope).Linspace, "meshgrid": (*array.Scope).Meshgrid, "tril": (*array.Scope).Tril, "triu": (*array.Scope).Triu,

	// Shapes and places.
	"add_at": (*array.Scope).AddAt, "assign": (*array.Scope).Assign, "broadcast_to": (*array.Scope).BroadcastTo,
	"concat": (*array.Scope).Concat, "expand_dims": (*array.Scope).ExpandDims, "flip": (*array.Scope).Flip, "index": (*array.Scope).Index,
	"move_axis": (*array.Scope).MoveAxis, "permute": (*array.Scope).Permute, "repeat": (*array.Scope).Repeat,
	"reshape": (*array.Scope).Reshape, "roll": (*array.Scope).Roll, "squeeze": (*array.Scope).Squeeze, "stack": (*array.Scope).Stack,
	"take": (*array.Scope).Take, "take_along": (*array.Scope).TakeAlong, "tile": (*array.Scope).Tile, "unstack": (*array.Scope).Unstack,

	// Along axes.
	"all": (*array.Scope).All, "all_keep": (*array.Scope).AllKeep, "any": (*array.Scope).Any, "any_keep": (*array.Scope).AnyKeep,
	"argmax": (*array.Scope).ArgMax, "argmin": (*array.Scope).ArgMin, "argsort": (*array.Scope).ArgSort,
	"argsort_descending": (*array.Scope).ArgSortDescending, "count_nonzero": (*array.Scope).CountNonzero,
	"cumprod": (*array.Scope).CumProd, "cumsum": (*array.Scope).CumSum, "diff": (*array.Scope).Diff, "max": (*array.Scope).Max,
	"max_keep": (*array.Scope).MaxKeep, "mean": (*array.Scope).Mean, "mean_keep": (*array.Scope).MeanKeep, "min": (*array.Scope).Min,
	"min_keep": (*array.Scope).MinKeep, "nonzero": (*array.Scope).Nonzero, "prod": (*array.Scope).Prod,
	"prod_keep": (*array.Scope).ProdKeep, "searchsorted": (*array.Scope).SearchSorted, "sort": (*array.Scope).Sort,
	"sort_descending": (*array.Scope).SortDescending, "sum": (*array.Scope).Sum, "sum_keep": (*array.Scope).SumKeep,
	"unique_all": (*array.Scope).UniqueAll,

	// Matrices.
	"det": (*array.Scope).Det, "diagonal": (*array.Scope).Diagonal, "einsum": (*array.Scope).Einsum, "inv": (*array.Scope).Inv,
	"matmul": (*array.Scope).MatMul, "norm": (*array.Scope).Norm, "norm_keep": (*array.Scope).NormKeep, "outer": (*array.Scope).Outer,
	"solve": (*array.Scope).Solve, "tensordot": (*array.Scope).TensorDot, "trace": (*array.Scope).Trace, "vecdot": (*array.Scope).VecDot,
}

// changes are the operations that write into their first operand, and return it.
var changes = map[string]bool{"assign": true, "add_at": true}

//export goOperate
func goOperate(name, attributes *C.char, handles *C.uint64_t, count C.int32_t, result *C.uint64_t) *C.char {
	return edge(func() error {
		c := call{name: C.GoString(name)}
		if text := C.GoString(attributes); text != "" {
			if err := json.Unmarshal([]byte(text), &c.attributes); err != nil {
				return fault(weir.ErrInput, "", "the attributes of %s are no JSON list: %v", c.name, err)
			}
		}
		defer c.end()
		if err := c.hold(unsafe.Slice(handles, count)); err != nil {
			return err
		}
		return c.run(result)
	})
}

// call is an operation that runs.
type call struct {
	name       string
	attributes []json.RawMessage // those that the operation was not given yet
	scope      *array.Scope
	held       []*tensor      // the operands: nil is one that is absent
	operands   []*array.Array // those that the operation was not given yet
}

// hold has the operands stay until end.
func (c *call) hold(handles []C.uint64_t) error {
	c.scope = array.NewScope(c.name)
	for _, h := range handles {
		if h == 0 {
			c.held, c.operands = append(c.held, nil), append(c.operands, nil)
			continue
		}
		t, err := find[*tensor](h, "tensor")
		if err != nil {
			return err
		}
		if !t.hold() {
			return errGone()
		}
		c.held, c.operands = append(c.held, t), append(c.operands, array.Of(c.scope, t.Tensor))
	}
	return nil
}

// end gives back what the call holds.
func (c *call) end() {
	c.scope.Close()
	for _, t := range c.held {
		if t != nil {
			t.drop()
		}
	}
}

// run computes the operation, and makes a handle of its result: a tensor, or a list if there are several.
func (c *call) run(result *C.uint64_t) error {
	f := reflect.ValueOf(operations[c.name])
	if !f.IsValid() {
		return fault(weir.ErrInput, "weir.h says which there are", "no operation is called %q", c.name)
	}
	writes := changes[c.name]
	if writes && len(c.held) > 0 && c.held[0] != nil && c.held[0].Fixed() {
		return fault(weir.ErrInput, "copy the tensor first", "%v may only be read", c.held[0].Tensor)
	}
	in, err := c.parameters(f.Type())
	if err != nil {
		return err
	}
	call := f.Call
	if f.Type().IsVariadic() {
		call = f.CallSlice
	}
	given := call(in)
	if err := c.scope.Err(); err != nil {
		var e *weir.Error
		if errors.As(err, &e) { // the line is one of this library
			at := *e
			at.File = ""
			return &at
		}
		return err
	}
	if writes {
		if !c.held[0].hold() {
			return errGone()
		}
		*result = add(c.held[0])
		return nil
	}
	arrays, several := resultsOf(given)
	l := &list{}
	for _, a := range arrays {
		t, err := a.Detach()
		if err != nil {
			return errors.Join(err, l.close())
		}
		held := &tensor{Tensor: t}
		held.holders.Store(1)
		l.items = append(l.items, held)
	}
	if several {
		*result = add(l)
	} else {
		*result = add(l.items[0])
	}
	return nil
}

// resultsOf are the arrays that an operation returned, and whether it is one of several results.
func resultsOf(given []reflect.Value) (arrays []*array.Array, several bool) {
	if given[0].Kind() == reflect.Slice {
		return given[0].Interface().([]*array.Array), true
	}
	for _, v := range given {
		arrays = append(arrays, v.Interface().(*array.Array))
	}
	return arrays, len(arrays) > 1
}

// parameters are the arguments of an operation, in the order of its parameters: arrays are the operands in their order, and
// anything else is the next of the attributes. A variadic parameter is a list of all that is left.
func (c *call) parameters(f reflect.Type) ([]reflect.Value, error) {
	in := []reflect.Value{reflect.ValueOf(c.scope)}
	last := f.NumIn() - 1
	for i := 1; i <= last; i++ {
		if i < last || !f.IsVariadic() {
			v, err := c.parameter(f.In(i))
			if err != nil {
				return nil, err
			}
			in = append(in, v)
			continue
		}
		list := reflect.Zero(f.In(i))
		for element := f.In(i).Elem(); c.more(element); {
			v, err := c.parameter(element)
			if err != nil {
				return nil, err
			}
			list = reflect.Append(list, v)
		}
		in = append(in, list)
	}
	if len(c.operands)+len(c.attributes) > 0 {
		return nil, fault(weir.ErrInput, "", "%s is given %d operands and %d attributes more than it takes", c.name, len(c.operands), len(c.attributes))
	}
	return in, nil
}

var arrayType = reflect.TypeFor[*array.Array]()

// more reports whether there is another argument for a variadic parameter.
func (c *call) more(t reflect.Type) bool {
	if t == arrayType {
		return len(c.operands) > 0
	}
	return len(c.attributes) > 0
}

// parameter is the next argument of a type.
func (c *call) parameter(t reflect.Type) (reflect.Value, error) {
	if t == arrayType {
		a, err := c.operand()
		return reflect.ValueOf(a), err
	}
	if len(c.attributes) == 0 {
		return reflect.Value{}, fault(weir.ErrInput, "", "%s wants more attributes", c.name)
	}
	text := c.attributes[0]
	c.attributes = c.attributes[1:]
	if t.Kind() == reflect.Interface {
		p, err := c.place(text)
		return reflect.ValueOf(p), err
	}
	v := reflect.New(t)
	err := json.Unmarshal(text, v.Interface())
	if err != nil && t.Kind() == reflect.Float64 { // JSON has no number that is infinite or none
		var word string
		if json.Unmarshal(text, &word) == nil {
			var x float64
			if x, err = strconv.ParseFloat(word, 64); math.IsNaN(x) || math.IsInf(x, 0) {
				v.Elem().SetFloat(x)
				err = nil
			}
		}
	}
	if err != nil {
		return v, fault(weir.ErrInput, "", "the attribute %s of %s is no %v", text, c.name, t)
	}
	return v.Elem(), nil
}

// operand is the next operand.
func (c *call) operand() (*array.Array, error) {
	if len(c.operands) == 0 {
		return nil, fault(weir.ErrInput, "", "%s wants more operands than %d", c.name, len(c.held))
	}
	a := c.operands[0]
	c.operands = c.operands[1:]
	return a, nil
}

// place is one place of an index: a number, a list of begin, end and step, in which null is an end of the axis, or one of the
// words "new", "rest" and "array", the last of which stands for the next operand.
func (c *call) place(text json.RawMessage) (any, error) {
	switch text[0] {
	case '"':
		switch string(text) {
		case `"new"`:
			return array.NewAxis, nil
		case `"rest"`:
			return array.Ellipsis, nil
		case `"array"`:
			return c.operand()
		}
	case '[':
		var ends []*int
		if err := json.Unmarshal(text, &ends); err != nil || len(ends) != 3 || ends[2] == nil {
			break
		}
		begin, end := array.Begin, array.End
		if *ends[2] < 0 {
			begin, end = end, begin
		}
		if ends[0] != nil {
			begin = *ends[0]
		}
		if ends[1] != nil {
			end = *ends[1]
		}
		return array.Slice(begin, end, *ends[2]), nil
	default:
		var number int
		if err := json.Unmarshal(text, &number); err == nil {
			return number, nil
		}
	}
	return nil, fault(weir.ErrInput, "", "%s is no place of an index", text)
}
