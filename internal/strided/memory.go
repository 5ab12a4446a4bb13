package strided

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// LastAddress is the largest address of a process; on 64-bit systems it is in the lower half.
const LastAddress uint64 = math.MaxUint >> (bits.UintSize / 64)

// AlignOf returns the alignment of an element, in bytes.
func AlignOf(dt dtype.DType) uintptr {
	size := dt.Size()
	if dt.IsComplex() {
		size /= 2
	}
	return uintptr(max(1, size))
}

// Memory is memory that other code lends for a run, with strides.
type Memory struct {
	DType dtype.DType
	data  unsafe.Pointer // the first element
	Shape []int64
	Steps []int64 // strides in elements; nil in row-major order
	// below and above are the begin and the end of the elements, counted in elements from the first one.
	below, above int64
}

// Describe describes memory, and returns an error unless all of it lies within the address space. Nil steps are
// row-major order.
func Describe(dt dtype.DType, data unsafe.Pointer, shape, steps []int64) (*Memory, error) {
	l := &Memory{DType: dt, data: data, Shape: shape}
	bytes, err := BytesOf(dt, l.Shape)
	if err != nil {
		return nil, diag.As(err, diag.ErrInput)
	}
	if steps != nil {
		if l.Steps = steps; len(steps) != len(shape) {
			return nil, diag.Inputf("%d strides of %s", len(steps), l)
		}
	}
	if bytes == 0 {
		l.Steps = nil
		return l, nil
	}
	return l, l.check()
}

// String returns a description such as "f32[2,3] with strides [1,2]".
func (l *Memory) String() string {
	text := l.DType.String() + tensor.ShapeString(l.Shape)
	if l.Steps != nil {
		text += " with strides " + tensor.ShapeString(l.Steps)
	}
	return text
}

// check computes the extent of the elements, and returns an error unless it lies within the address space.
func (l *Memory) check() error {
	if l.data == nil {
		return diag.Inputf("%s has no memory", l)
	}
	if l.Steps != nil && tensor.RowMajor(l.Shape, l.Steps) {
		l.Steps = nil
	}
	if l.Steps != nil && l.DType.IsSubByte() {
		return diag.Unsupportedf("%s, packed and not in row-major order", l).WithFix("give a contiguous tensor")
	}
	steps := l.Steps
	if steps == nil {
		steps = tensor.Strides(l.Shape)
	}
	const most = math.MaxInt64 / 64 // so that bytes do not overflow either
	l.above = 1
	for axis, step := range steps {
		size := uint64(l.Shape[axis] - 1)
		if size > 0 && magnitude(step) > most/size {
			return diag.Inputf("%s has a stride of %d", l, step)
		}
		if far := int64(size) * step; far < 0 {
			l.below += far
		} else {
			l.above += far
		}
		if l.below < -most || l.above > most {
			return diag.Inputf("%s has a stride of %d", l, step)
		}
	}
	size, at := uint64(max(1, l.DType.Size())), uint64(uintptr(l.data))
	if at < uint64(-l.below)*size || at > LastAddress || uint64(l.above)*size > LastAddress-at {
		return diag.Inputf("%s at %p does not lie within the address space", l, l.data)
	}
	return nil
}

// magnitude returns the absolute value of a stride.
func magnitude(step int64) uint64 {
	if step < 0 {
		return -uint64(step)
	}
	return uint64(step)
}

// Of returns a tensor's memory.
func Of(t *tensor.Tensor) *Memory {
	l := &Memory{DType: t.DType(), Shape: t.Shape(), above: max(1, t.Len())}
	if data := t.Bytes(); len(data) > 0 {
		l.data = unsafe.Pointer(unsafe.SliceData(data))
	}
	return l
}

// Empty reports whether there are no elements.
func (l *Memory) Empty() bool {
	count, err := tensor.Count(l.Shape)
	return err == nil && count == 0
}

// In returns the memory as a tensor with its axes in an order, if that is the memory's order; else nil.
func (l *Memory) In(order Order) (*tensor.Tensor, error) {
	shape := Laid(l.Shape, order, 1)
	if l.Empty() {
		return tensor.Over(l.DType, shape, nil)
	}
	if !lies(l.Shape, l.Steps, order) || uintptr(l.data)%AlignOf(l.DType) != 0 {
		return nil, nil
	}
	bytes, err := BytesOf(l.DType, shape)
	if err != nil {
		return nil, err
	}
	first := unsafe.Add(l.data, l.below*int64(max(1, l.DType.Size())))
	return tensor.Over(l.DType, shape, unsafe.Slice((*byte)(first), bytes))
}

// Gather copies the elements into to, in an order of axes.
func (l *Memory) Gather(to []byte, order Order) {
	if len(to) == 0 {
		return
	}
	if l.DType.IsSubByte() { // such elements are in row-major order
		copy(to, unsafe.Slice((*byte)(l.data), len(to)))
		return
	}
	steps, at := l.Steps, -l.below
	if steps == nil {
		steps = tensor.Strides(l.Shape)
	}
	turned := make([]int64, len(order))
	for i, a := range order {
		if turned[i] = steps[a.Axis]; a.Reversed {
			turned[i] = -steps[a.Axis]
			at += (l.Shape[a.Axis] - 1) * steps[a.Axis]
		}
	}
	size := int64(l.DType.Size())
	from := unsafe.Slice((*byte)(unsafe.Add(l.data, l.below*size)), (l.above-l.below)*size)
	tensor.Gather(to, from, size, Laid(l.Shape, order, 1), turned, at)
}

// BytesOf returns the size of a tensor in bytes.
func BytesOf(dt dtype.DType, sizes []int64) (int64, error) {
	count, err := tensor.Count(sizes)
	if err != nil {
		return 0, err
	}
	return dt.Bytes(count)
}
