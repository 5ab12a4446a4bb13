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

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// scope is the type whose methods are the operations.
type scope = array.Scope

// operations are the functions of weir_operate by name, each a method of array.Scope. See call.parameters for their
// arguments.
//
//weir:table
var operations = map[string]any{
	// Elementwise functions.
	"abs": (*scope).Abs, "acos": (*scope).Acos, "acosh": (*scope).Acosh, "add": (*scope).Add, "asin": (*scope).Asin,
	"asinh": (*scope).Asinh, "atan": (*scope).Atan, "atan2": (*scope).Atan2, "atanh": (*scope).Atanh,
	"bitwise_and": (*scope).BitwiseAnd, "bitwise_invert": (*scope).BitwiseInvert, "bitwise_or": (*scope).BitwiseOr,
	"bitwise_xor": (*scope).BitwiseXor, "cast": (*scope).Cast, "ceil": (*scope).Ceil, "clip": (*scope).Clip,
	"copysign": (*scope).CopySign, "cos": (*scope).Cos, "cosh": (*scope).Cosh, "div": (*scope).Div,
	"equal": (*scope).Equal, "erf": (*scope).Erf, "exp": (*scope).Exp, "expm1": (*scope).Expm1,
	"floor": (*scope).Floor, "floor_divide": (*scope).FloorDivide, "greater": (*scope).Greater,
	"greater_equal": (*scope).GreaterEqual, "hypot": (*scope).Hypot, "isfinite": (*scope).IsFinite,
	"isinf": (*scope).IsInf, "isnan": (*scope).IsNaN, "less": (*scope).Less, "less_equal": (*scope).LessEqual,
	"log": (*scope).Log, "log10": (*scope).Log10, "log1p": (*scope).Log1p, "log2": (*scope).Log2,
	"logaddexp": (*scope).LogAddExp, "logical_and": (*scope).LogicalAnd, "logical_not": (*scope).LogicalNot,
	"logical_or": (*scope).LogicalOr, "logical_xor": (*scope).LogicalXor, "maximum": (*scope).Maximum,
	"minimum": (*scope).Minimum, "mul": (*scope).Mul, "neg": (*scope).Neg, "nextafter": (*scope).NextAfter,
	"not_equal": (*scope).NotEqual, "pow": (*scope).Pow, "reciprocal": (*scope).Reciprocal,
	"remainder": (*scope).Remainder, "round": (*scope).Round, "shift_left": (*scope).ShiftLeft,
	"shift_right": (*scope).ShiftRight, "sign": (*scope).Sign, "signbit": (*scope).SignBit, "sin": (*scope).Sin,
	"sinh": (*scope).Sinh, "sqrt": (*scope).Sqrt, "square": (*scope).Square, "sub": (*scope).Sub,
	"tan": (*scope).Tan, "tanh": (*scope).Tanh, "trunc": (*scope).Trunc, "where": (*scope).Where,

	// New arrays.
	"arange": (*scope).Arange, "eye": (*scope).Eye, "full": (*scope).Full, "iota": (*scope).Iota,
	"linspace": (*scope).Linspace, "meshgrid": (*scope).Meshgrid, "tril": (*scope).Tril, "triu": (*scope).Triu,

	// Shapes and indices.
	"add_at": (*scope).AddAt, "assign": (*scope).Assign, "broadcast_to": (*scope).BroadcastTo,
	"concat": (*scope).Concat, "expand_dims": (*scope).ExpandDims, "flip": (*scope).Flip, "index": (*scope).Index,
	"move_axis": (*scope).MoveAxis, "permute": (*scope).Permute, "repeat": (*scope).Repeat,
	"reshape": (*scope).Reshape, "roll": (*scope).Roll, "squeeze": (*scope).Squeeze, "stack": (*scope).Stack,
	"take": (*scope).Take, "take_along": (*scope).TakeAlong, "tile": (*scope).Tile, "unstack": (*scope).Unstack,

	// Along axes.
	"all": (*scope).All, "all_keep": (*scope).AllKeep, "any": (*scope).Any, "any_keep": (*scope).AnyKeep,
	"argmax": (*scope).ArgMax, "argmin": (*scope).ArgMin, "argsort": (*scope).ArgSort,
	"argsort_descending": (*scope).ArgSortDescending, "count_nonzero": (*scope).CountNonzero,
	"cumprod": (*scope).CumProd, "cumsum": (*scope).CumSum, "diff": (*scope).Diff, "max": (*scope).Max,
	"max_keep": (*scope).MaxKeep, "mean": (*scope).Mean, "mean_keep": (*scope).MeanKeep, "min": (*scope).Min,
	"min_keep": (*scope).MinKeep, "nonzero": (*scope).Nonzero, "prod": (*scope).Prod, "prod_keep": (*scope).ProdKeep,
	"searchsorted": (*scope).SearchSorted, "sort": (*scope).Sort, "sort_descending": (*scope).SortDescending,
	"sum": (*scope).Sum, "sum_keep": (*scope).SumKeep, "unique_all": (*scope).UniqueAll,

	// Matrices.
	"det": (*scope).Det, "diagonal": (*scope).Diagonal, "einsum": (*scope).Einsum, "inv": (*scope).Inv,
	"matmul": (*scope).MatMul, "norm": (*scope).Norm, "norm_keep": (*scope).NormKeep, "outer": (*scope).Outer,
	"solve": (*scope).Solve, "tensordot": (*scope).TensorDot, "trace": (*scope).Trace, "vecdot": (*scope).VecDot,
}

// changes are the operations that write into their first operand and return it.
var changes = map[string]bool{"assign": true, "add_at": true}

// goOperate implements weir_operate.
//
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
		list, err := listOf(handles, count)
		if err != nil {
			return err
		}
		if err := c.hold(list); err != nil {
			return err
		}
		return c.run(result)
	})
}

// call is an operation in progress.
type call struct {
	name       string
	attributes []json.RawMessage // the attributes that are not yet used as parameters
	scope      *array.Scope
	held       []*tensor      // the operands; nil if absent
	operands   []*array.Array // the operands that are not yet used as parameters
}

// hold keeps the operands open until end.
func (c *call) hold(handles []C.uint64_t) error {
	c.scope = array.NewScope(c.name)
	for _, h := range handles {
		if h == 0 {
			c.held, c.operands = append(c.held, nil), append(c.operands, nil)
			continue
		}
		t, err := holding(h)
		if err != nil {
			return err
		}
		c.held, c.operands = append(c.held, t), append(c.operands, array.Of(c.scope, t.Tensor))
	}
	return nil
}

// end releases the operands and the scope.
func (c *call) end() {
	c.scope.Close()
	for _, t := range c.held {
		if t != nil {
			t.drop()
		}
	}
}

// run computes the operation, and makes a handle of its result: a tensor, or a list of several results.
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
	apply := f.Call
	if f.Type().IsVariadic() {
		apply = f.CallSlice
	}
	given := apply(in)
	if err := c.scope.Err(); err != nil {
		var e *weir.Error
		if errors.As(err, &e) { // the line is in this library
			at := *e
			at.File = ""
			return &at
		}
		return err
	}
	if writes {
		if !c.held[0].holders.hold() {
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
		l.items = append(l.items, heldBy(t))
	}
	if several {
		*result = add(l)
	} else {
		*result = add(l.items[0])
	}
	return nil
}

// resultsOf returns the arrays that an operation returned, and whether the operation has several results.
func resultsOf(given []reflect.Value) (arrays []*array.Array, several bool) {
	if given[0].Kind() == reflect.Slice {
		return given[0].Interface().([]*array.Array), true
	}
	for _, v := range given {
		arrays = append(arrays, v.Interface().(*array.Array))
	}
	return arrays, len(arrays) > 1
}

// parameters returns an operation's arguments. A parameter that is an array takes the next operand, any other takes the
// next attribute. A variadic parameter takes all that are left.
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
		return nil, fault(weir.ErrInput, "", "%s is given %d operands and %d attributes more than it takes",
			c.name, len(c.operands), len(c.attributes))
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

// parameter returns the next argument of a type.
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
		p, err := c.item(text)
		return reflect.ValueOf(p), err
	}
	v := reflect.New(t)
	err := json.Unmarshal(text, v.Interface())
	if err != nil && t.Kind() == reflect.Float64 { // JSON has no infinities and no NaN
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

// operand returns the next operand.
func (c *call) operand() (*array.Array, error) {
	if len(c.operands) == 0 {
		return nil, fault(weir.ErrInput, "", "%s wants more operands than %d", c.name, len(c.held))
	}
	a := c.operands[0]
	c.operands = c.operands[1:]
	return a, nil
}

// item reads an item of an index: a number; a list of begin, end and step, in which null is an end of the axis; or a
// word: "new" adds an axis, "rest" is an ellipsis, "array" is the next operand.
func (c *call) item(text json.RawMessage) (any, error) {
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
