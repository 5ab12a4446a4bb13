package weir

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// Access is what may be done with memory that other code lends.
type Access bool

// The kinds of access.
const (
	ReadOnly  Access = false // a run only reads it: the tensor can be lent and consumed, not updated and not donated
	ReadWrite Access = true
)

// Foreign returns a tensor of memory that other code made, of elements in row-major order at data, packed as Bytes is.
// The tensor can be lent, consumed and, if access allows it, donated and updated. release is called once: by Close, or
// by the run that consumes the tensor, after the last who reads it. Until then the memory must stay as it is. An error
// leaves the memory to the caller, and release uncalled. With a nil release the tensor borrows the memory, as
// FromSlice's does, and can be lent and updated only: the caller keeps the memory until the runs that use it have
// returned. data is no memory of Go's heap, unless release keeps it alive; it lies at a multiple of the element's size.
// A tensor without elements may have none.
func Foreign(dt DType, data unsafe.Pointer, access Access, release func(), shape ...int) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a tensor")
	if dt == StringType {
		return nil, diag.Unsupportedf("strings in memory that other code made").WithFix("copy them by FromSlice")
	}
	sizes := sizesOf(shape)
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
	t = newTensor(inner, block, nil)
	t.fixed = access == ReadOnly
	return t, nil
}

// Fixed reports whether the tensor's memory may only be read: see ReadOnly.
func (t *Tensor) Fixed() bool { return t.fixed }

// mayWrite refuses memory that its owner lends for reading.
func (t *Tensor) mayWrite(name string) error {
	if t.fixed {
		return diag.Inputf("its memory is lent for reading, and is not to be written").AtTensor(name).
			WithFix("lend it, or copy it into a tensor made by weir.New first")
	}
	return nil
}
