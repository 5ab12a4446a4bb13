package weir

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Element is a Go type whose values are a tensor's elements. The 16-bit floats are uint16, the float8 types uint8: their codes.
type Element = tensor.Element

// Tensor is an array in row-major order. It is safe to read from several goroutines.
type Tensor struct {
	t      *tensor.Tensor
	block  *mem.Block   // its own memory, where it has some
	of     *Results     // what it is an output of
	port   int          // of its program, which it is alone; −1 where it is not
	closed *atomic.Bool // shared with what it is a part of
	gone   atomic.Bool  // closed by itself, or given away

	updating atomic.Bool // by a run
}

// dead reports whether there is nothing of it any more.
func (t *Tensor) dead() bool { return t.gone.Load() || t.closed.Load() }

// New returns a tensor of zeros in memory outside Go's heap; Close gives it back.
func New(dt DType, shape ...int) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a tensor")
	sizes := sizesOf(shape)
	count, err := tensor.Count(sizes)
	if err != nil {
		return nil, err
	}
	bytes, err := dt.Bytes(count)
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
	return &Tensor{t: inner, block: block, closed: new(atomic.Bool)}, nil
}

// FromSlice returns a tensor that borrows data: leave it alone until the runs that use it have returned. Without a shape it has one axis.
func FromSlice[T Element](data []T, shape ...int) (*Tensor, error) {
	if shape == nil {
		shape = []int{len(data)}
	}
	inner, err := tensor.FromSlice(data, sizesOf(shape)...)
	if err != nil {
		return nil, err
	}
	return &Tensor{t: inner, closed: new(atomic.Bool)}, nil
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
	view, err := View[T](t)
	if err != nil {
		return nil, err
	}
	return append(make([]T, 0, len(view)), view...), nil
}

// View returns the elements themselves, without a copy: they are dead once the tensor, or the result it is part of, is closed. Another T
// than the element type's is an error.
func View[T Element](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, diag.Inputf("there is no such tensor")
	}
	if t.dead() {
		return nil, diag.New(ErrClosed, "the tensor is closed, or was given away")
	}
	return tensor.Data[T](t.t)
}

// DType is the element type.
func (t *Tensor) DType() DType { return t.t.DType() }

// Shape is the extents.
func (t *Tensor) Shape() []int {
	shape := make([]int, t.t.Rank())
	for i, s := range t.t.Shape() {
		shape[i] = int(s)
	}
	return shape
}

// Len is the number of elements; 0 after overflow of int on small systems cannot happen, since such a tensor cannot be made.
func (t *Tensor) Len() int { return int(min(t.t.Len(), math.MaxInt)) }

// Bytes is the elements' memory itself, packed as ONNX packs small types; nil once closed or given away.
func (t *Tensor) Bytes() []byte {
	if t.dead() {
		return nil
	}
	return t.t.Bytes()
}

// String is like "f32[2,3]".
func (t *Tensor) String() string {
	return fmt.Sprintf("%s%s", t.t.DType(), tensor.ShapeString(t.t.Shape()))
}

// Close gives the memory of a tensor made by New back. Results are closed when each of their tensors is. Closing twice is fine, and so is closing what a run has consumed; a
// borrowed tensor has nothing to give back.
func (t *Tensor) Close() error {
	switch {
	case t.of != nil:
		if t.of.take(t) {
			if t.block != nil {
				t.block.Close()
			}
			return t.of.give()
		}
	case t.block != nil && !t.gone.Swap(true):
		return t.block.Close()
	}
	return nil
}
