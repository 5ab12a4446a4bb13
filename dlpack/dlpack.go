// Package dlpack exchanges tensors with other libraries in the same process, without a copy, by the structures of
// DLPack (https://dmlc.github.io/dlpack), on 64-bit systems.
//
// A library that gives a tensor away hands over a structure with a deleter. The receiver calls the deleter once, when
// nobody reads the memory any more. Import turns the structure into a *weir.Tensor whose Close calls the deleter; if
// Import refuses the tensor, it calls the deleter at once. The package contains no C: the caller passes a function that
// calls the deleter. Fill is the opposite of Import: it writes the description of a *weir.Tensor into a structure that
// the caller allocated in C, and whose deleter closes the tensor.
package dlpack

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// The version of DLPack that this package writes. It reads every minor version of this major version.
const (
	Major = 1
	Minor = 0
)

// The kinds of device whose memory the CPU can read.
const (
	CPU     = 1  // kDLCPU
	Pinned  = 3  // kDLCUDAHost
	Managed = 13 // kDLCUDAManaged
	PinnedA = 11 // kDLROCMHost
)

// Flags of Versioned.
const (
	ReadOnly = 1 << 0 // the memory is not to be written
	IsCopied = 1 << 1 // the producer made a copy for this exchange
	IsPadded = 1 << 2 // elements of less than a byte take a byte each
)

// Device is DLDevice: a kind of device and its number.
type Device struct{ Type, ID int32 }

// Type is DLDataType: an element type.
type Type struct {
	Code, Bits uint8
	Lanes      uint16
}

// Tensor is DLTensor: a view of memory. Strides count elements; nil means row-major order.
type Tensor struct {
	Data       unsafe.Pointer
	Device     Device
	Rank       int32
	Type       Type
	Shape      *int64
	Strides    *int64
	ByteOffset uint64
}

// Versioned is DLManagedTensorVersioned.
type Versioned struct {
	Major, Minor uint32
	Manager      unsafe.Pointer
	Deleter      unsafe.Pointer // void (*)(DLManagedTensorVersioned *), or nil
	Flags        uint64
	Tensor       Tensor
}

// Legacy is DLManagedTensor, which has no version and no flags.
type Legacy struct {
	Tensor  Tensor
	Manager unsafe.Pointer
	Deleter unsafe.Pointer // void (*)(DLManagedTensor *), or nil
}

// Copying tells whether a tensor may be copied when it is imported or borrowed.
type Copying int

// The ways of copying.
const (
	IfNeeded Copying = iota // a tensor that cannot be read in place is copied
	Never                   // a tensor that cannot be read in place is ErrUnsupported
	Always                  // every tensor is copied
)

// Import takes ownership of a tensor. free must call the deleter with m. Import calls free before it returns if it
// copies or refuses the tensor; otherwise the returned tensor's Close, or the run that consumes the tensor, calls it
// after the last reader. free is called exactly once.
//
// A tensor that is not in row-major order, or not aligned to its element's size, cannot be read in place; copying tells
// whether it is copied into Weir's memory. Memory with the flag ReadOnly becomes a tensor that cannot be updated or
// donated. Import returns ErrUnsupported for another major version and for a device or type that Weir does not read,
// and ErrInput for an invalid shape.
func (m *Versioned) Import(free func(), copying Copying) (t *weir.Tensor, err error) {
	if m.Major != Major { // nothing but the deleter has a known place
		got := [2]uint32{m.Major, m.Minor}
		free()
		return nil, diag.Unsupportedf("a tensor of DLPack %d.%d", got[0], got[1]).WithFix("ask for version %d", Major)
	}
	access := weir.ReadWrite
	if m.Flags&ReadOnly != 0 {
		access = weir.ReadOnly
	}
	return m.Tensor.take(free, copying, access, m.Flags&IsPadded != 0)
}

// Import takes ownership of a tensor, as Versioned.Import does.
func (m *Legacy) Import(free func(), copying Copying) (*weir.Tensor, error) {
	return m.Tensor.take(free, copying, weir.ReadWrite, false)
}

// Borrow returns a tensor that reads the owner's memory. The owner keeps the memory and d until the runs that use the
// tensor have returned. A tensor that cannot be read in place is copied, as for Import. Close frees the copy, and does
// nothing if there is none. With weir.ReadOnly the tensor cannot be updated.
func (d *Tensor) Borrow(copying Copying, access weir.Access) (t *weir.Tensor, err error) {
	return d.take(nil, copying, access, false)
}

// Lend returns an argument for a run that reads the owner's memory. The owner keeps the memory and d until the run has
// returned. A tensor that cannot be read in place is copied when the run begins, by the rules of weir.Strided. The
// argument need not be closed.
func (d *Tensor) Lend() (a weir.Arg, err error) {
	defer diag.Recover(&err, "borrowing a tensor")
	v, err := d.read(false)
	switch {
	case err != nil:
		return nil, err
	case v.inPlace():
		return weir.Foreign(v.dtype, v.data, weir.ReadOnly, nil, v.shape...)
	}
	var strides []int
	for _, s := range v.strides {
		strides = append(strides, int(s))
	}
	return weir.Strided(v.dtype, v.data, v.shape, strides)
}

// take implements Import, and Borrow if release is nil. padded means that elements of less than a byte take a byte
// each.
func (d *Tensor) take(release func(), copying Copying, access weir.Access, padded bool) (t *weir.Tensor, err error) {
	taken := false
	defer func() {
		if !taken && release != nil {
			release()
		}
	}()
	defer diag.Recover(&err, "taking a tensor over")
	v, err := d.read(padded)
	if err != nil {
		return nil, err
	}
	if v.inPlace() && copying != Always {
		t, err = weir.Foreign(v.dtype, v.data, access, release, v.shape...)
		taken = err == nil
		return t, err
	}
	if copying == Never {
		return nil, diag.Unsupportedf("%s without a copy", v).WithFix("allow a copy, or give a contiguous tensor")
	}
	return v.copied()
}

// view is a DLTensor that has been checked.
type view struct {
	data    unsafe.Pointer // of the first element
	dtype   weir.DType
	shape   []int
	strides []int64 // in elements; nil in row-major order
	// below and above are the lowest and the end offset of all elements, in elements from data.
	below, above int64
}

// sizes returns the extents as int64, as package tensor takes them.
func (v *view) sizes() []int64 {
	sizes := make([]int64, len(v.shape))
	for i, e := range v.shape {
		sizes[i] = int64(e)
	}
	return sizes
}

// mostBytes is more bytes than a tensor with strides can cover.
const mostBytes = 1 << 62

// read checks a tensor that other code describes, and returns its view. It does not read elements.
func (d *Tensor) read(padded bool) (*view, error) {
	if bits.UintSize != 64 {
		return nil, diag.Unsupportedf("DLPack on a 32-bit system")
	}
	switch d.Device.Type {
	case CPU, Pinned, PinnedA, Managed:
	default:
		return nil, diag.Unsupportedf("memory of device %d:%d, which the processor does not read", d.Device.Type,
			d.Device.ID).WithFix("copy the tensor to the CPU")
	}
	dt, err := d.Type.DType()
	if err != nil {
		return nil, err
	}
	if padded && dt.IsSubByte() {
		return nil, diag.Unsupportedf("elements of type %s that take a byte each", dt).WithFix("pack them")
	}
	if d.Rank < 0 || d.Rank > tensor.MaxRank || d.Rank > 0 && d.Shape == nil {
		return nil, diag.Inputf("a tensor of rank %d; it is 0 to %d, with a shape", d.Rank, tensor.MaxRank)
	}
	v := &view{dtype: dt}
	sizes := unsafe.Slice(d.Shape, int(d.Rank))
	count, err := tensor.Count(sizes)
	if err != nil {
		return nil, err
	}
	for _, e := range sizes {
		v.shape = append(v.shape, int(e))
	}
	if count == 0 {
		return v, nil
	}
	if d.Data == nil {
		return nil, diag.Inputf("%s has elements, and no memory", v)
	}
	if d.Strides != nil {
		v.strides = slices.Clone(unsafe.Slice(d.Strides, int(d.Rank)))
	}
	return v, v.locate(d)
}

// locate sets data, below and above, and returns an error unless all elements lie within the address space.
func (v *view) locate(d *Tensor) error {
	if v.strides != nil && tensor.RowMajor(v.sizes(), v.strides) {
		v.strides = nil
	}
	below, above := int64(0), int64(1)
	for axis, stride := range v.strides {
		far, ok := times(int64(v.shape[axis]-1), stride)
		if !ok || far > mostBytes/16-above || far < below-mostBytes/16 {
			return diag.Inputf("%s has a stride of %d", v, stride)
		}
		if far < 0 {
			below += far
		} else {
			above += far
		}
	}
	if v.strides != nil && v.dtype.IsSubByte() {
		return diag.Unsupportedf("%s, packed and not in row-major order", v).WithFix("give a contiguous tensor")
	}
	base, size := uint64(uintptr(d.Data)), uint64(max(1, v.dtype.Size()))
	at, over := bits.Add64(base, d.ByteOffset, 0)
	if over != 0 || at < uint64(-below)*size || at+uint64(above)*size < at {
		return diag.Inputf("%s at offset %d does not lie within the address space", v, d.ByteOffset)
	}
	v.data, v.below, v.above = unsafe.Add(d.Data, d.ByteOffset), below, above
	return nil
}

// times returns x·y; false if its magnitude exceeds mostBytes.
func times(x, y int64) (int64, bool) {
	size := uint64(y)
	if y < 0 {
		size = -size
	}
	high, low := bits.Mul64(uint64(x), size)
	if high != 0 || low > mostBytes {
		return 0, false
	}
	return x * y, true
}

// inPlace reports whether the elements can be read in place: they are aligned and in row-major order.
func (v *view) inPlace() bool {
	size := v.dtype.Size()
	if v.dtype.IsComplex() {
		size /= 2
	}
	return v.strides == nil && uintptr(v.data)%uintptr(max(1, size)) == 0
}

// String returns text like "f32[2,3]", followed by the strides if there are any.
func (v *view) String() string {
	text := v.dtype.String() + tensor.ShapeString(v.sizes())
	if v.strides != nil {
		text += " with strides " + tensor.ShapeString(v.strides)
	}
	return text
}

// copied returns a tensor in Weir's memory with the elements in row-major order.
func (v *view) copied() (*weir.Tensor, error) {
	t, err := weir.New(v.dtype, v.shape...)
	if err != nil {
		return nil, err
	}
	to := t.Bytes()
	switch {
	case len(to) == 0:
	case v.strides == nil:
		copy(to, unsafe.Slice((*byte)(v.data), len(to)))
	default:
		size := int64(v.dtype.Size())
		from := unsafe.Slice((*byte)(unsafe.Add(v.data, v.below*size)), (v.above-v.below)*size)
		tensor.Gather(to, from, size, v.sizes(), v.strides, -v.below)
	}
	return t, nil
}

// Fill writes a description of t into d; the elements are not copied. shape and strides have room for t's rank, and
// must stay valid as long as d is used, as must t. Fill returns ErrUnsupported for a tensor of strings and ErrClosed
// for a closed one.
func (d *Tensor) Fill(t *weir.Tensor, shape, strides []int64) error {
	code, err := TypeOf(t.DType())
	if err != nil {
		return err
	}
	sizes := t.Shape()
	if len(shape) < len(sizes) || len(strides) < len(sizes) {
		return diag.Inputf("room for %d extents and %d strides, of %s", len(shape), len(strides), t)
	}
	data := t.Bytes()
	if data == nil && t.Len() > 0 {
		return diag.New(weir.ErrClosed, "the tensor is closed, or was given away")
	}
	*d = Tensor{Device: Device{Type: CPU}, Rank: int32(len(sizes)), Type: code}
	if len(data) > 0 {
		d.Data = unsafe.Pointer(unsafe.SliceData(data))
	}
	if len(sizes) == 0 {
		return nil
	}
	stride := int64(1)
	for axis := len(sizes) - 1; axis >= 0; axis-- {
		shape[axis], strides[axis] = int64(sizes[axis]), stride
		stride *= int64(max(1, sizes[axis]))
	}
	d.Shape, d.Strides = unsafe.SliceData(shape), unsafe.SliceData(strides)
	return nil
}
