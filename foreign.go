package weir

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

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

// Fixed reports whether the tensor's memory is read-only: see ReadOnly.
func (t *Tensor) Fixed() bool { return t.fixed }

// mayWrite returns an error if the tensor's memory is read-only.
func (t *Tensor) mayWrite(name string) error {
	if t.fixed {
		return diag.Inputf("its memory is lent for reading, and is not to be written").AtTensor(name).
			WithFix("lend it, or copy it into a tensor made by weir.New first")
	}
	return nil
}
