package session

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// Tensor is a weir.Tensor: an array with the memory that it lies in. Several goroutines may read it, and one may close
// it meanwhile: after that the tensor cannot be used any more, and its memory is released when the runs and copies that
// still read it have ended.
type Tensor struct {
	dtype  dtype.DType
	shape  []int64
	data   mem.Gate[*tensor.Tensor]
	block  *mem.Block        // its own memory, or nil
	of     *Results          // the results that it is an output of, or nil
	port   int               // the output port, if the tensor is all of the port's tensor; else −1
	within *mem.Gate[*bound] // the gate of the results or the call whose memory it lies in, or nil
	failed error             // the error of releasing its memory
	fixed  bool              // runs may only read its memory
	stays  *resident         // its elements in a device's memory; nil if they cannot stay there
	alone  [1]*Tensor        // itself: an argument is a list of tensors, and this list needs no allocation
}

// newTensor makes a tensor with the elements of inner, which lie in the tensor's own block, or in memory guarded by the
// gate within; if both are nil, the tensor borrows them.
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

// array is a tensor with its block and its shape in one object on Go's heap: each operation of package array makes one
// for its result.
type array struct {
	outer Tensor
	inner tensor.Tensor
	block mem.Block
	at    [1]uintptr
	sizes [4]int64
}

// NewArray is NewTensor for package array. at is the program counter of the line that the ledger names as the origin.
// Unless zeroed is true, the elements have arbitrary values.
func NewArray(dt dtype.DType, shape []int, at uintptr, zeroed bool) (*Tensor, error) {
	w := &array{at: [1]uintptr{at}}
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

// NewTensor returns a tensor of zeros in memory of its own, which Close releases.
func NewTensor(dt dtype.DType, sizes []int64) (*Tensor, error) {
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
	t := newTensor(inner, block, nil)
	t.stays = &resident{}
	return t, nil
}

// NewGranted is NewTensor in whole pages that an account has granted, and gets back when the tensor is closed. It also
// returns the bytes of these pages.
func NewGranted(account mem.Account, dt dtype.DType, sizes []int64) (t *Tensor, bytes int64, err error) {
	size, err := strided.BytesOf(dt, sizes)
	if err != nil {
		return nil, 0, err
	}
	block, err := mem.Map(mem.Tensors, "tensor", size)
	if err != nil {
		return nil, 0, err
	}
	inner, err := tensor.Over(dt, sizes, block.Bytes())
	if err != nil {
		block.Close()
		return nil, 0, err
	}
	block.Charge(account)
	return newTensor(inner, block, nil), block.Mapped(), nil
}

// Borrow returns a tensor in the memory of inner, which Close leaves alone.
func Borrow(inner *tensor.Tensor) *Tensor { return newTensor(inner, nil, nil) }

// Foreign is weir.Foreign: it returns a tensor in memory of other code. Runs may write the memory unless fixed is true.
// release is called after the last reader; if it is nil, the tensor borrows the memory.
func Foreign(dt dtype.DType, data unsafe.Pointer, fixed bool, release func(), sizes []int64) (*Tensor, error) {
	if dt == dtype.String {
		return nil, diag.Unsupportedf("strings in memory that other code made").WithFix("copy them by FromSlice")
	}
	bytes, err := strided.BytesOf(dt, sizes)
	if err != nil {
		return nil, err
	}
	switch {
	case data == nil && bytes > 0:
		return nil, diag.Inputf("%s%s has no memory", dt, tensor.ShapeString(sizes))
	case bytes > math.MaxInt || uint64(uintptr(data)) > strided.LastAddress-uint64(bytes):
		return nil, diag.Inputf("%s%s at %p does not end within the address space", dt, tensor.ShapeString(sizes), data)
	case uintptr(data)%strided.AlignOf(dt) != 0:
		return nil, diag.Inputf("%s%s at %p does not lie at a multiple of %d bytes", dt, tensor.ShapeString(sizes), data,
			strided.AlignOf(dt)).
			WithFix("copy it into a tensor made by weir.New")
	}
	inner, err := tensor.Over(dt, sizes, unsafe.Slice((*byte)(data), bytes))
	if err != nil {
		return nil, err
	}
	var block *mem.Block
	if release != nil {
		block = mem.Lent("tensor", data, bytes, release)
	}
	t := newTensor(inner, block, nil)
	t.fixed = fixed
	return t, nil
}

// list returns the tensor as a list of one.
func (t *Tensor) list() []*Tensor {
	if t == nil {
		return []*Tensor{nil}
	}
	return t.alone[:]
}

// end releases the tensor's own memory, on a device too.
func (t *Tensor) end() {
	if t.block != nil {
		t.failed = t.block.Close()
	}
	if t.stays != nil {
		t.failed = errors.Join(t.failed, t.stays.drop())
	}
}

// enter returns the tensor's elements, which stay valid until Leave. ok is false if the tensor is closed or was given
// away; then Leave must not be called.
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

// Enter returns the tensor's elements, which stay valid until Leave, to be read or written. After an error Leave must
// not be called.
func (t *Tensor) Enter() (*tensor.Tensor, error) { return t.enterFor(writing) }

// EnterToRead is Enter for elements that are only read.
func (t *Tensor) EnterToRead() (*tensor.Tensor, error) { return t.enterFor(reading) }

// EnterToView is Enter for elements that are read and written after Leave too, until the tensor is closed.
func (t *Tensor) EnterToView() (*tensor.Tensor, error) { return t.enterFor(viewing) }

// enterFor is Enter for one use.
func (t *Tensor) enterFor(use use) (*tensor.Tensor, error) {
	if t == nil {
		return nil, diag.Inputf("the tensor is nil").
			WithFix("Get, Input and Output return nil for a name that they do not have")
	}
	inner, ok := t.enter()
	if !ok {
		return nil, diag.New(diag.ErrClosed, "the tensor is closed, or was given away")
	}
	if err := t.stays.fetch(inner, use); err != nil {
		t.Leave()
		return nil, err
	}
	return inner, nil
}

// Leave ends the use of the elements that Enter began.
func (t *Tensor) Leave() {
	t.data.Leave()
	if t.within != nil {
		t.within.Leave()
	}
}

// DType returns the element type.
func (t *Tensor) DType() dtype.DType { return t.dtype }

// Shape returns the extents of the axes, which must not be changed.
func (t *Tensor) Shape() []int64 { return t.shape }

// place returns the host's memory of the elements, of which the caller uses the address only; nil if the tensor is
// closed or was given away.
func (t *Tensor) place() []byte {
	inner, ok := t.enter()
	if !ok {
		return nil
	}
	defer t.Leave()
	return inner.Bytes()
}

// Bytes returns the memory of the elements; nil if the tensor is closed or was given away, or if the device with its
// elements is lost.
func (t *Tensor) Bytes() []byte {
	inner, err := t.EnterToView()
	if err != nil {
		return nil
	}
	defer t.Leave()
	return inner.Bytes()
}

// String returns the type and shape, such as "f32[2,3]".
func (t *Tensor) String() string {
	return fmt.Sprintf("%s%s", t.dtype, tensor.ShapeString(t.shape))
}

// Fixed reports whether the tensor's memory is read-only.
func (t *Tensor) Fixed() bool { return t.fixed }

// MayWrite returns an error, for the argument with this name, if the tensor's memory is read-only.
func (t *Tensor) MayWrite(name string) error {
	if t.fixed {
		return diag.Inputf("its memory is lent for reading, and is not to be written").AtTensor(name).
			WithFix("lend it, or copy it into a tensor made by weir.New first")
	}
	return nil
}

// Close is weir.Tensor.Close.
func (t *Tensor) Close() error {
	if t == nil || t.of == nil && t.block == nil {
		return nil
	}
	if _, ok := t.enter(); !ok {
		return nil
	}
	if t.data.Shut() && t.of != nil {
		t.of.lost()
	}
	last := t.data.Inside() == 1
	t.Leave()
	if !last {
		return nil // the last reader releases the memory
	}
	return t.failed
}
