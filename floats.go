package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// Floats returns the elements of a tensor of F16, BF16 or F32 as float32, on Go's heap. The conversion is exact.
// Another element type is ErrInput.
func (t *Tensor) Floats() ([]float32, error) {
	inner, err := t.entered()
	if err != nil {
		return nil, err
	}
	defer t.leave()
	if err := t.convertible(); err != nil {
		return nil, err
	}
	numbers := make([]float32, inner.Len())
	to := tensor.Must(tensor.FromSlice(numbers, inner.Len()))
	dtype.ConvertSlice(F32, to.Bytes(), t.dtype, inner.Bytes(), inner.Len(), false)
	return numbers, nil
}

// SetFloats writes numbers to the elements of a tensor of F16, BF16 or F32. Each is rounded once, to the nearest value
// of the type, ties to even; overflow becomes infinity. Another element type, another count of numbers and read-only
// memory are ErrInput. No run may be reading the tensor.
func (t *Tensor) SetFloats(numbers []float32) error {
	inner, err := t.entered()
	if err != nil {
		return err
	}
	defer t.leave()
	if err := t.convertible(); err != nil {
		return err
	}
	if err := t.mayWrite(""); err != nil {
		return err
	}
	if int64(len(numbers)) != inner.Len() {
		return diag.Inputf("%d numbers for %s, which has %d elements", len(numbers), t, inner.Len())
	}
	from := tensor.Must(tensor.FromSlice(numbers, inner.Len()))
	dtype.ConvertSlice(t.dtype, inner.Bytes(), F32, from.Bytes(), inner.Len(), false)
	return nil
}

// convertible returns an error unless float32 represents every value of the element type.
func (t *Tensor) convertible() error {
	switch t.dtype {
	case F16, BF16, F32:
		return nil
	}
	return diag.Inputf("%s has no elements of f16, bf16 or f32", t).WithFix("use Copy or View of its own element type")
}
