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

// Element is a Go type whose values are a tensor's elements. The 16-bit floats are uint16, the float8 types uint8:
// their codes.
type Element = tensor.Element

// Tensor is an array in row-major order. It is safe to read from several goroutines, and to close beside them: a tensor
// that is closed can be entered no more, and its memory is given back when the runs and copies that are reading it have
// ended.
type Tensor struct {
	dtype  DType
	shape  []int64
	data   mem.Gate[*tensor.Tensor]
	block  *mem.Block        // its own memory, where it has some
	of     *Results          // what it is an output of
	port   int               // of its program, which it is alone; −1 if it is not
	within *mem.Gate[*bound] // of the results or the call that it is a part of
	failed error             // of giving its memory back
	fixed  bool              // its memory may only be read
	alone  [1]*Tensor        // itself: an argument is a list of tensors, and making one allocates nothing
}

// newTensor is a tensor of an inner one, with a block of its own or within something that has one.
func newTensor(inner *tensor.Tensor, block *mem.Block, within *mem.Gate[*bound]) *Tensor {
	t := &Tensor{dtype: inner.DType(), shape: inner.Shape(), block: block, within: within, port: -1}
	t.alone[0] = t
	t.data.SetOwner(inner, (*ender)(t))
	return t
}

// ender gives back what a tensor has of its own, after the last who uses it.
type ender Tensor

// Last is what a gate calls.
func (t *ender) Last() { (*Tensor)(t).end() }

// whole is a tensor with all that it consists of, in one piece of Go's heap: an operation of the package array makes
// one for each result.
type whole struct {
	outer Tensor
	inner tensor.Tensor
	block mem.Block
	at    [1]uintptr
	sizes [4]int64
}

// newArray is New for an array that is made at a line: its elements are zero only if zeroed says so.
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

// list is the tensor alone.
func (t *Tensor) list() []*Tensor {
	if t == nil {
		return []*Tensor{nil}
	}
	return t.alone[:]
}

// end gives back what the tensor has of its own.
func (t *Tensor) end() {
	if t.block != nil {
		t.failed = t.block.Close()
	}
}

// enter is the way to the tensor's elements: they are there until leave. It reports false if the tensor is closed,
// or was given away.
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

func (t *Tensor) leave() {
	t.data.Leave()
	if t.within != nil {
		t.within.Leave()
	}
}

// New returns a tensor of zeros in memory outside Go's heap; Close gives it back.
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

// FromSlice returns a tensor that borrows data: leave it alone until the runs that use it have returned. Without a
// shape it has one axis.
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

// Scalar returns a tensor without axes, whose one element is x.
func Scalar[T Element](x T) *Tensor {
	return newTensor(tensor.Must(tensor.FromSlice([]T{x})), nil, nil)
}

func sizesOf(shape []int) []int64 {
	sizes := make([]int64, len(shape))
	for i, s := range shape {
		sizes[i] = int64(s)
	}
	return sizes
}

// Copy returns the elements in Go's own memory. T must be the element type's.
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

// View returns the elements themselves, without a copy: they are dead once the tensor, or the result it is part of, is
// closed. Another T than the element type's is an error.
func View[T Element](t *Tensor) ([]T, error) {
	inner, err := t.entered()
	if err != nil {
		return nil, err
	}
	defer t.leave()
	return tensor.Data[T](inner)
}

// entered is enter with an error.
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

// DType is the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape is the extents.
func (t *Tensor) Shape() []int {
	shape := make([]int, len(t.shape))
	for i, s := range t.shape {
		shape[i] = int(s)
	}
	return shape
}

// Len is the number of elements; 0 after overflow of int on small systems cannot happen, since such a tensor cannot be
// made.
func (t *Tensor) Len() int {
	count, _ := tensor.Count(t.shape)
	return int(min(count, math.MaxInt))
}

// Bytes is the elements' memory itself, packed as ONNX packs small types; nil once closed or given away.
func (t *Tensor) Bytes() []byte {
	inner, ok := t.enter()
	if !ok {
		return nil
	}
	defer t.leave()
	return inner.Bytes()
}

// String is like "f32[2,3]".
func (t *Tensor) String() string {
	return fmt.Sprintf("%s%s", t.dtype, tensor.ShapeString(t.shape))
}

// Close gives the memory of a tensor made by New back; a run that reads it goes on, and gives it back at its end.
// Results are closed when each of their tensors is. Closing twice is fine, and so is closing what a run has consumed; a
// borrowed tensor has nothing to give back.
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
