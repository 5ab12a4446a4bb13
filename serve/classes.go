package serve

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/oip"
)

// classes returns the greatest elements of an output as strings "value:index", in descending order: of each row if the
// output has several axes, of the whole otherwise. NaN comes last.
func (x *exchange) classes(result *weir.Tensor, w want) (t oip.Tensor, err error) {
	t = oip.Tensor{Name: w.Name, DType: weir.StringType, Binary: w.Binary}
	if result.DType() == weir.StringType || result.DType().IsComplex() {
		return t, oip.Errorf("output %q is %s, whose elements have no order", w.Name, oip.Name(result.DType()))
	}
	values, err := numbersOf(result)
	if err != nil {
		return t, err
	}
	rows, shape := 1, result.Shape()
	if len(shape) > 1 {
		rows = shape[0]
	}
	if rows == 0 || len(values) == 0 {
		return t, oip.Errorf("output %q has no elements to rank: its shape is %v", w.Name, shape)
	}
	each := len(values) / rows
	most := min(w.Classes, each)
	order := make([]int, each)
	var list []string
	for row := range rows {
		part := values[row*each : (row+1)*each]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(part[b], part[a]) // cmp has NaN below every number
		})
		for _, i := range order[:most] {
			list = append(list, strconv.FormatFloat(part[i], 'f', 6, 64)+":"+strconv.Itoa(i))
		}
	}
	if t.Shape = []int{most}; len(shape) > 1 {
		t.Shape = []int{rows, most}
	}
	memory, err := x.late(oip.TextsSize(list))
	if err != nil {
		return t, err
	}
	t.Data = oip.AppendTexts(memory[:0], list)
	return t, nil
}

// numbersOf returns a tensor's elements as float64.
func numbersOf(t *weir.Tensor) (list []float64, err error) {
	switch t.DType() {
	case weir.F64:
		return weir.Copy[float64](t)
	case weir.I64:
		return converted[int64](t)
	case weir.U64:
		return converted[uint64](t)
	case weir.I32:
		return converted[int32](t)
	case weir.U32:
		return converted[uint32](t)
	}
	some, err := t.Floats()
	if err != nil {
		return nil, err
	}
	list = make([]float64, len(some))
	for i, v := range some {
		list[i] = float64(v)
	}
	return list, nil
}

// converted returns a tensor's elements as float64.
func converted[T int32 | uint32 | int64 | uint64](t *weir.Tensor) ([]float64, error) {
	some, err := weir.View[T](t)
	list := make([]float64, len(some))
	for i, v := range some {
		list[i] = float64(v)
	}
	return list, err
}
