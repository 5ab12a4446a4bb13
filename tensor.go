package weir

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/session"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/traced"
)

// Element is the set of Go types for elements of tensors. 16-bit floats are uint16 and float8 types are uint8: their
// bit patterns.
type Element = tensor.Element

// Tensor is an array in row-major order. Several goroutines may read it, and one may close it meanwhile: after that the
// tensor cannot be used any more, and its memory is released when the runs and copies that still read it have ended.
type Tensor session.Tensor

// inner returns the tensor as the type that runs use.
func (t *Tensor) inner() *session.Tensor { return (*session.Tensor)(t) }

// outer returns a tensor of a run as the type that users have.
func outer(t *session.Tensor, err error) (*Tensor, error) { return (*Tensor)(t), err }

// New returns a tensor of zeros in memory outside Go's heap; Close releases the memory.
func New(dt DType, shape ...int) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a tensor")
	return outer(session.NewTensor(dt, sizesOf(shape)))
}

// Access says whether runs may write memory that other code lends.
type Access bool

// The kinds of access.
const (
	ReadOnly  Access = false // a run only reads it: the tensor can be lent and consumed, not updated and not donated
	ReadWrite Access = true
)

// Foreign returns a tensor in memory of other code, with elements in row-major order at data, packed as Bytes is. The
// tensor can be lent, consumed and, if access allows it, donated and updated. release is called once, after the last
// reader: by Close, or by the run that consumes the tensor. Until then the memory must stay valid. If Foreign returns
// an error, release is not called. With a nil release the tensor borrows the memory, as FromSlice does: it can only be
// lent and updated, and the caller keeps the memory until the runs that use it have returned. data must not be on Go's
// heap, unless release keeps it alive, and must be aligned to the element's size. For a tensor without elements,
// data may be nil.
func Foreign(dt DType, data unsafe.Pointer, access Access, release func(), shape ...int) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a tensor")
	return outer(session.Foreign(dt, data, access == ReadOnly, release, sizesOf(shape)))
}

// FromSlice returns a tensor that borrows data: do not change data until the runs that use the tensor have returned.
// Without a shape the tensor has one axis.
func FromSlice[T Element](data []T, shape ...int) (*Tensor, error) {
	if shape == nil {
		shape = []int{len(data)}
	}
	inner, err := tensor.FromSlice(data, sizesOf(shape)...)
	if err != nil {
		return nil, err
	}
	return (*Tensor)(session.Borrow(inner)), nil
}

// Scalar returns a tensor without axes whose only element is x.
func Scalar[T Element](x T) *Tensor {
	return (*Tensor)(session.Borrow(tensor.Must(tensor.FromSlice([]T{x}))))
}

// sizesOf converts a shape to int64.
func sizesOf(shape []int) []int64 {
	sizes := make([]int64, len(shape))
	for i, s := range shape {
		sizes[i] = int64(s)
	}
	return sizes
}

// Copy returns a copy of the elements on Go's heap. It is ErrInput if T is not the Go type of the element type.
func Copy[T Element](t *Tensor) ([]T, error) {
	inner, err := t.inner().EnterToRead()
	if err != nil {
		return nil, err
	}
	defer t.inner().Leave()
	view, err := tensor.Data[T](inner)
	if err != nil {
		return nil, err
	}
	return append(make([]T, 0, len(view)), view...), nil
}

// View returns the elements without a copy. The slice is invalid after the tensor, or the results that it belongs to,
// are closed. It is ErrInput if T is not the Go type of the element type.
func View[T Element](t *Tensor) ([]T, error) {
	inner, err := t.inner().EnterToView()
	if err != nil {
		return nil, err
	}
	defer t.inner().Leave()
	return tensor.Data[T](inner)
}

// DType returns the element type.
func (t *Tensor) DType() DType { return t.inner().DType() }

// Shape returns the extents of the axes.
func (t *Tensor) Shape() []int {
	sizes := t.inner().Shape()
	shape := make([]int, len(sizes))
	for i, s := range sizes {
		shape[i] = int(s)
	}
	return shape
}

// Len returns the number of elements. It fits an int, since a larger tensor cannot be made.
func (t *Tensor) Len() int {
	count, _ := tensor.Count(t.inner().Shape())
	return int(min(count, math.MaxInt))
}

// Bytes returns the memory of the elements, with small types packed as ONNX packs them; nil if the tensor is closed or
// was given away.
func (t *Tensor) Bytes() []byte { return t.inner().Bytes() }

// Floats returns the elements of a tensor of F16, BF16 or F32 as float32, on Go's heap. The conversion is exact.
// Another element type is ErrInput.
func (t *Tensor) Floats() ([]float32, error) {
	inner, err := t.convertible(t.inner().EnterToRead)
	if err != nil {
		return nil, err
	}
	defer t.inner().Leave()
	numbers := make([]float32, inner.Len())
	to := tensor.Must(tensor.FromSlice(numbers, inner.Len()))
	dtype.ConvertSlice(F32, to.Bytes(), t.DType(), inner.Bytes(), inner.Len(), false)
	return numbers, nil
}

// SetFloats writes numbers to the elements of a tensor of F16, BF16 or F32. Each is rounded once, to the nearest value
// of the type, ties to even; overflow becomes infinity. Another element type, another count of numbers and read-only
// memory are ErrInput. No run may be reading the tensor.
func (t *Tensor) SetFloats(numbers []float32) error {
	inner, err := t.convertible(t.inner().Enter)
	if err != nil {
		return err
	}
	defer t.inner().Leave()
	if err := t.inner().MayWrite(""); err != nil {
		return err
	}
	if int64(len(numbers)) != inner.Len() {
		return diag.Inputf("%d numbers for %s, which has %d elements", len(numbers), t, inner.Len())
	}
	from := tensor.Must(tensor.FromSlice(numbers, inner.Len()))
	dtype.ConvertSlice(t.DType(), inner.Bytes(), F32, from.Bytes(), inner.Len(), false)
	return nil
}

// convertible enters a tensor, or returns an error unless float32 represents every value of its element type.
func (t *Tensor) convertible(enter func() (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	inner, err := enter()
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case F16, BF16, F32:
		return inner, nil
	}
	t.inner().Leave()
	return nil, diag.Inputf("%s has no elements of f16, bf16 or f32", t).
		WithFix("use Copy or View of its own element type")
}

// Fixed reports whether the tensor's memory is read-only: see ReadOnly.
func (t *Tensor) Fixed() bool { return t.inner().Fixed() }

// String returns the type and shape, such as "f32[2,3]".
func (t *Tensor) String() string { return t.inner().String() }

// Close releases the memory of a tensor made by New; if a run still reads the tensor, the memory is released when the
// run ends. Results are closed when all their tensors are. Closing twice is allowed, and so is closing a tensor that a
// run has consumed; closing a borrowed tensor does nothing.
func (t *Tensor) Close() error { return t.inner().Close() }

func init() {
	traced.New = func(dt DType, shape []int, at uintptr, zeroed bool) (any, error) {
		return outer(session.NewArray(dt, shape, at, zeroed))
	}
	traced.Number = func(dt DType) (any, error) {
		inner, err := tensor.New(dt)
		if err != nil {
			return nil, err
		}
		return (*Tensor)(session.Borrow(inner)), nil
	}
	traced.Granted = func(account any, dt DType, shape []int) (any, int64, error) {
		t, bytes, err := session.NewGranted(account.(Account), dt, sizesOf(shape))
		return (*Tensor)(t), bytes, err
	}
	traced.Enter = func(t any) ([]byte, func(), error) {
		inner, err := t.(*Tensor).inner().Enter()
		if err != nil {
			return nil, nil, err
		}
		return inner.Bytes(), t.(*Tensor).inner().Leave, nil
	}
	traced.Run = func(call any, tensors []any) error {
		return call.(*Call).inner().RunOn(len(tensors), func(i int) *session.Tensor { return tensors[i].(*Tensor).inner() })
	}
}
