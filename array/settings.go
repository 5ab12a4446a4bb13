package array

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// settings are parameters of an operation, besides its operands, that need not be part of its code: sizes are extents,
// numbers are all others. Their first values are part of the code, as extents are. From the third value in a class on,
// the operation is compiled once more for all values: sizes get names, numbers become operands.
type settings struct {
	sizes   []int
	numbers []float64
	// with builds the operation in place of build.
	with func(b *ir.Builder, in []*ir.Value, sizes []sym.Expr, numbers []number) []*ir.Value
}

// number is a number among an operation's settings: part of the code, or an operand of f64.
type number struct {
	x     float64
	value *ir.Value // nil: part of the code
}

// told returns settings with numbers only.
func told(list ...float64) settings { return settings{numbers: list} }

// fixed reports whether the number is part of the code.
func (n number) fixed() bool { return n.value == nil }

// as returns the number as a scalar of a type.
func (n number) as(b *ir.Builder, dt weir.DType) *ir.Value {
	if n.fixed() {
		return scalar(b, dt, n.x)
	}
	return ops.Cast(b, n.value, dt)
}

// like returns the number as a scalar of a value's type.
func (n number) like(b *ir.Builder, v *ir.Value) *ir.Value { return n.as(b, v.Type.DType) }

// made builds the operation and returns its results.
func (o *operation) made(b *ir.Builder, in []*ir.Value, sizes []sym.Expr, numbers []number) []*ir.Value {
	if o.with != nil {
		return o.with(b, in, sizes, numbers)
	}
	return o.build(b, in)
}

// fixed returns the settings as part of the code.
func (o settings) fixed(*trace) ([]sym.Expr, []number, error) {
	sizes := make([]int64, len(o.sizes))
	for i, e := range o.sizes {
		sizes[i] = int64(e)
	}
	return ir.Constants(sizes), fixedNumbers(o.numbers), nil
}

// fixedNumbers returns numbers as part of the code.
func fixedNumbers(list []float64) []number {
	out := make([]number, len(list))
	for i, x := range list {
		out[i].x = x
	}
	return out
}

// key appends the settings to a key as if they were further ints.
func (o settings) key(b []byte) []byte {
	for _, e := range o.sizes {
		b = binary.AppendVarint(b, int64(e))
	}
	for _, x := range o.numbers {
		for _, part := range wordsOf(x) {
			b = binary.AppendVarint(b, int64(part))
		}
	}
	return b
}

// wordsOf returns the halves of a float's bits.
func wordsOf(x float64) [2]int {
	w := math.Float64bits(x)
	return [2]int{int(int32(w >> 32)), int(int32(w))}
}

// named returns the settings of a form. A size that varies has the name of its group of equal extents, and an input
// without elements carries its value; a number that varies is an input.
func (v *form) named(t *trace, o *operation, extents []int) (sizes []sym.Expr, numbers []number, err error) {
	first := len(extents) - len(o.sizes)
	for i, e := range o.sizes {
		size := sym.Const(int64(e))
		if v.varies[first+i] {
			if size, err = t.dimension(group(extents, first+i)); err != nil {
				return nil, nil, err
			}
			t.given(fmt.Sprintf("size%d", i), weir.U8, size, sym.Const(0))
		}
		sizes = append(sizes, size)
	}
	for i, x := range o.numbers {
		n := number{x: x}
		if v.differ[i] {
			n.value = t.given(fmt.Sprintf("number%d", i), weir.F64)
		}
		numbers = append(numbers, n)
	}
	return sizes, numbers, nil
}

// given adds an input to a module with only one operation.
func (t *trace) given(name string, dt weir.DType, shape ...sym.Expr) *ir.Value {
	v := &ir.Value{Name: t.b.Name(name), Type: ir.Type{DType: dt, Shape: shape}}
	t.body.Params = append(t.body.Params, v)
	return v
}

// dimension returns the named extent of a group of equal extents that vary.
func (t *trace) dimension(group int) (sym.Expr, error) {
	expr, err := sym.Parse(fmt.Sprintf("n%d", group))
	if err == nil {
		t.b.Dims().Set(expr.Vars()[0], sym.Range{Min: 2, Max: sym.NoMax})
	}
	return expr, err
}

// given returns the additional inputs of a form's run: arrays without elements that carry sizes, and numbers.
func (s *Scope) given(o *operation, v *form, operands int, tensors []*weir.Tensor) (all []*weir.Tensor,
	numbers []float64, sizes []*Array, err error) {
	first := operands
	for i, e := range o.sizes {
		if v.varies[first+i] {
			a, err := s.empty(weir.U8, []int{e, 0}, false)
			if err != nil {
				return tensors, nil, sizes, err
			}
			sizes, tensors = append(sizes, a), append(tensors, a.tensor)
		}
	}
	numbers = make([]float64, len(tensors), len(tensors)+len(o.numbers))
	for i, x := range o.numbers {
		if v.differ[i] {
			tensors, numbers = append(tensors, nil), append(numbers, x)
		}
	}
	return tensors, numbers, sizes, nil
}
