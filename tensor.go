package weir

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/traced"
)

// Element is the set of Go types for elements of tensors. 16-bit floats are uint16 and float8 types are uint8: their
// bit patterns.
type Element = tensor.Element

// Tensor is an array in row-major order. Several goroutines may read it, and one may close it meanwhile: after that the
// tensor cannot be used any more, and its memory is released when the runs and copies that still read it have ended.
type Tensor struct {
	dtype  DType
	shape  []int64
	data   mem.Gate[*tensor.Tensor]
	block  *mem.Block        // its own memory, or nil
	of     *Results          // the results that it is an output of, or nil
	port   int               // the program's output port, if the tensor is all of it; else −1
	within *mem.Gate[*bound] // the gate of the results or the call whose memory it lies in, or nil
	failed error             // the error of releasing its memory
	fixed  bool              // its memory may only be read
	alone  [1]*Tensor        // itself: an argument is a list of tensors, and this list needs no allocation
}

// newTensor makes a tensor of an inner one, in its own block or in memory guarded by the gate within.
func newTensor(inner *tensor.Tensor, block *mem.Block, within *mem.Gate[*bound]) *Tensor {
	t := &Tensor{dtype: inner.DType(), shape: inner.Shape(), block: block, within: within, port: -1}
	t.alone[0] = t
	t.data.SetOwner(inner, (*ender)(t))
	return t
}

// ender releases a tensor's own memory after its last user.
type ender Tensor

// Last implements the owner of a mem.Gate.
func (t *ender) Last() { (*Tensor)(t).end() }

// whole is a tensor with everything it consists of, in one object on Go's heap: each operation of the package array
// makes one for its result.
type whole struct {
	outer Tensor
	inner tensor.Tensor
	block mem.Block
	at    [1]uintptr
	sizes [4]int64
}

// newArray is New for an array made at the line of program counter at. Its elements are zero only if zeroed is true.
func newArray(dt DType, shape []int, at uintptr, zeroed bool) (any, error) {
	w := &whole{at: [1]uintptr{at}}
	sizes := w.sizes[:0]
	for _, e := range shape {
		sizes = append(sizes, int64(e))
	}
	bytes, err := strided.BytesOf(dt, sizes)
	if err != nil {
		return nil, err
	}
	block, err := mem.TakeArray(&w.block, bytes, w.at[:], zeroed)
	if err != nil {
		return nil, err
	}
	if err := w.inner.Over(dt, sizes, block.Bytes()); err != nil {
		block.Close()
		return nil, err
	}
	t := &w.outer
	t.dtype, t.shape, t.block, t.port = dt, sizes, block, -1
	t.alone[0] = t
	t.data.SetOwner(&w.inner, (*ender)(t))
	return t, nil
}

// list returns the tensor as a list of one.
func (t *Tensor) list() []*Tensor {
	if t == nil {
		return []*Tensor{nil}
	}
	return t.alone[:]
}

// end releases the tensor's own memory.
func (t *Tensor) end() {
	if t.block != nil {
		t.failed = t.block.Close()
	}
}

// enter returns the tensor's elements, which stay valid until leave. ok is false if the tensor is closed or was given
// away; then leave must not be called.
func (t *Tensor) enter() (inner *tensor.Tensor, ok bool) {
	if t.within != nil {
		if _, ok := t.within.Enter(); !ok {
			return nil, false
		}
	}
	if inner, ok = t.data.Enter(); !ok && t.within != nil {
		t.within.Leave()
	}
	return inner, ok
}

// leave ends the use of the elements that enter began.
func (t *Tensor) leave() {
	t.data.Leave()
	if t.within != nil {
		t.within.Leave()
	}
}

// New returns a tensor of zeros in memory outside Go's heap; Close releases the memory.
func New(dt DType, shape ...int) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a tensor")
	sizes := sizesOf(shape)
	bytes, err := strided.BytesOf(dt, sizes)
	if err != nil {
		return nil, err
	}
	block, err := mem.UserPool().Take(mem.Tensors, "tensor", bytes)
	if err != nil {
		return nil, err
	}
	inner, err := tensor.Over(dt, sizes, block.Bytes())
	if err != nil {
		block.Close()
		return nil, err
	}
	return newTensor(inner, block, nil), nil
}

func init() {
	traced.New = newArray
	traced.Number = func(dt DType) (any, error) {
		inner, err := tensor.New(dt)
		if err != nil {
			return nil, err
		}
		return newTensor(inner, nil, nil), nil
	}
	traced.Enter = func(t any) ([]byte, func(), error) {
		inner, err := t.(*Tensor).entered()
		if err != nil {
			return nil, nil, err
		}
		return inner.Bytes(), t.(*Tensor).leave, nil
	}
	traced.Run = func(call any, tensors []any) error { return call.(*Call).run(tensors) }
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
	return newTensor(inner, nil, nil), nil
}

// Scalar returns a tensor without axes whose only element is x.
func Scalar[T Element](x T) *Tensor {
	return newTensor(tensor.Must(tensor.FromSlice([]T{x})), nil, nil)
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
	inner, err := t.entered()
	if err != nil {
		return nil, err
	}
	defer t.leave()
	view, err := tensor.Data[T](inner)
	if err != nil {
		return nil, err
	}
	return append(make([]T, 0, len(view)), view...), nil
}

// View returns the elements without a copy. The slice is invalid after the tensor, or the results that it belongs to,
// are closed. It is ErrInput if T is not the Go type of the element type.
func View[T Element](t *Tensor) ([]T, error) {
	inner, err := t.entered()
	if err != nil {
		return nil, err
	}
	defer t.leave()
	return tensor.Data[T](inner)
}

// entered is enter with an error instead of ok.
func (t *Tensor) entered() (*tensor.Tensor, error) {
	if t == nil {
		return nil, diag.Inputf("there is no such tensor")
	}
	inner, ok := t.enter()
	if !ok {
		return nil, diag.New(ErrClosed, "the tensor is closed, or was given away")
	}
	return inner, nil
}

// DType returns the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape returns the extents of the axes.
func (t *Tensor) Shape() []int {
	shape := make([]int, len(t.shape))
	for i, s := range t.shape {
		shape[i] = int(s)
	}
	return shape
}

// Len returns the number of elements. It fits an int, since a larger tensor cannot be made.
func (t *Tensor) Len() int {
	count, _ := tensor.Count(t.shape)
	return int(min(count, math.MaxInt))
}

// Bytes returns the memory of the elements, with small types packed as ONNX packs them; nil if the tensor is closed or
// was given away.
func (t *Tensor) Bytes() []byte {
	inner, ok := t.enter()
	if !ok {
		return nil
	}
	defer t.leave()
	return inner.Bytes()
}

// String returns the type and shape, such as "f32[2,3]".
func (t *Tensor) String() string {
	return fmt.Sprintf("%s%s", t.dtype, tensor.ShapeString(t.shape))
}

// Close releases the memory of a tensor made by New; if a run still reads the tensor, the memory is released when the
// run ends. Results are closed when all their tensors are. Closing twice is allowed, and so is closing a tensor that a
// run has consumed; closing a borrowed tensor does nothing.
func (t *Tensor) Close() error {
	if t.of == nil && t.block == nil {
		return nil
	}
	if _, ok := t.enter(); !ok {
		return nil
	}
	if t.data.Shut() && t.of != nil {
		t.of.lost()
	}
	last := t.data.Inside() == 1
	t.leave()
	if !last {
		return nil // who reads it gives the memory back
	}
	return t.failed
}
