package array

import (
	"io"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/exporter/onnx"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// WriteONNX writes a function of arrays as an ONNX model. Its inputs and their named extents are what the specs say,
// its results are called y0, y1 and so on. Arrays of other scopes that it reads are initializers: name says what
// each is called, if it is not nil and does not return "". Those that a further function says are fixed, ReadONNX
// does not have among the weights. An operation that ONNX has no operators for is an ErrUnsupported that names it.
func WriteONNX(w io.Writer, f Func, inputs []Spec, name func(a *Array) string,
	fixed ...func(a *Array) bool) (err error) {
	defer diag.Recover(&err, "writing a function as ONNX")
	t, err := traceOf(f, "main", inputs)
	if err != nil {
		return err
	}
	weights := map[*ir.Value]onnx.Weight{}
	for _, a := range t.captured {
		from, err := a.elements()
		if err != nil {
			return err
		}
		v := t.values[a]
		shape := make([]int64, len(a.shape))
		for i, e := range a.shape {
			shape[i] = int64(e)
		}
		weight := onnx.Weight{Name: v.Name}
		if weight.Tensor, err = tensor.Over(a.dtype, shape, from.Bytes()); err != nil {
			return err
		}
		if name != nil {
			if called := name(a); called != "" {
				weight.Name = called
			}
		}
		for _, f := range fixed {
			weight.Fixed = weight.Fixed || f(a)
		}
		weights[v] = weight
	}
	return onnx.Write(w, t.b.Module, weights)
}
