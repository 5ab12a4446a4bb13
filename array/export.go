package array

import (
	"io"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/exporter/onnx"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// WriteONNX writes a function of arrays as an ONNX model. The specs describe its inputs and their named extents; its
// results are named y0, y1 and so on. Arrays of other scopes that it reads become initializers: name returns an array's
// name; if name is nil or returns "", the initializer has a generated name. Arrays for which a fixed function returns
// true are not weights when ReadONNX reads the file. If ONNX has no operators for an operation, WriteONNX returns an
// ErrUnsupported that names it.
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
