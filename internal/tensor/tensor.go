// Package tensor is host arrays: an element type, a shape, and contiguous row-major data in the machine's byte order,
// packed as package dtype says. A tensor of strings holds Go strings instead.
//
// A Tensor's type and shape never change; its elements may. It owns nothing that needs closing: New takes memory from
// Go's heap, which suits tests, interpreters and small values; Over borrows memory that somebody else accounts for;
// Deferred and Permuted take none until elements are wanted. Nothing here locks: while one goroutine writes elements,
// no other may touch them, and neighbours in one byte count as one element.
package tensor

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// MaxBytes returns the most memory that New gives to one tensor: 64 GiB, or 1 GiB if the machine has at most 4 GiB.
func MaxBytes() int64 {
	if bits.UintSize == 32 || runtime.GOARCH == "wasm" {
		return 1 << 30
	}
	return 1 << 36
}

// MaxRank is the greatest rank a tensor may have.
const MaxRank = 64

// Tensor is an array of elements of one type.
type Tensor struct {
	dt      dtype.DType
	shape   []int64
	count   int64
	data    []byte   // of every type but String, unless later
	strings []string // of String
	later   *deferred
}

// Count returns the number of elements of a shape; the shape of a scalar is empty and has 1. A negative dimension, a
// rank above MaxRank, and a product that does not fit an int64 are ErrInput. A shape that has a 0 counts 0, whatever
// its other dimensions are.
func Count(shape []int64) (int64, error) {
	if len(shape) > MaxRank {
		return 0, diag.Inputf("rank %d is more than %d", len(shape), MaxRank)
	}
	empty := false
	for axis, d := range shape {
		if d < 0 {
			return 0, diag.Inputf("dimension %d of shape %s is negative", axis, ShapeString(shape))
		}
		empty = empty || d == 0
	}
	if empty {
		return 0, nil
	}
	n := uint64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, diag.Inputf("shape %s has more than 2⁶³ elements", ShapeString(shape))
		}
		n = lo
	}
	return int64(n), nil
}

// sizes checks a type and a shape and returns the number of elements and of bytes.
func sizes(dt dtype.DType, shape []int64) (count, bytes int64, err error) {
	if dt == dtype.Invalid || dt > dtype.String {
		return 0, 0, diag.Inputf("a tensor cannot have the element type %v", dt)
	}
	if count, err = Count(shape); err != nil {
		return 0, 0, err
	}
	if bytes, err = dt.Bytes(count); err != nil {
		return 0, 0, diag.Inputf("%v", err)
	}
	return count, bytes, nil
}

// New returns a tensor of zeros (of empty strings) on Go's heap. An impossible type or shape is ErrInput, one above
// MaxBytes is ErrMemory.
func New(dt dtype.DType, shape ...int64) (*Tensor, error) {
	count, size, err := sizes(dt, shape)
	if err != nil {
		return nil, err
	}
	t := &Tensor{dt: dt, shape: slices.Clone(shape), count: count}
	if dt == dtype.String {
		if count > MaxBytes()/int64(unsafe.Sizeof("")) {
			return nil, tooLarge(dt, shape)
		}
		t.strings = make([]string, count)
		return t, nil
	}
	if size > MaxBytes() {
		return nil, tooLarge(dt, shape)
	}
	t.data = alignedBytes(size)
	return t, nil
}

// tooLarge returns the ErrMemory for a tensor of more than MaxBytes.
func tooLarge(dt dtype.DType, shape []int64) error {
	return &diag.Error{Kind: diag.ErrMemory, Detail: fmt.Sprintf("a tensor %v%s on Go's heap would be more than %d bytes",
		dt, ShapeString(shape), MaxBytes())}
}

// alignedBytes returns n zero bytes, aligned for every element type.
func alignedBytes(n int64) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), int(n))
}

// Over returns a tensor whose elements are data, which it borrows. The length must be exactly the type's packed size of
// the shape; String has no such form. Bytes of a Bool must be 0 or 1.
func Over(dt dtype.DType, shape []int64, data []byte) (*Tensor, error) {
	t := &Tensor{}
	if err := t.Over(dt, slices.Clone(shape), data); err != nil {
		return nil, err
	}
	return t, nil
}

// Over initialises the zero Tensor t as the function Over does; it keeps shape.
func (t *Tensor) Over(dt dtype.DType, shape []int64, data []byte) error {
	count, size, err := sizes(dt, shape)
	switch {
	case err != nil:
		return err
	case dt == dtype.String:
		return diag.Inputf("strings have no packed form")
	case int64(len(data)) != size:
		return diag.Inputf("%v%s needs %d bytes of data, not %d", dt, ShapeString(shape), size, len(data))
	}
	*t = Tensor{dt: dt, shape: shape, count: count, data: data}
	return nil
}

// Outline returns a tensor that has a type and a shape only; its elements must not be accessed.
func Outline(dt dtype.DType, shape []int64) (*Tensor, error) {
	count, _, err := sizes(dt, shape)
	return &Tensor{dt: dt, shape: slices.Clone(shape), count: count}, err
}

// OverStrings returns a String tensor whose elements are list, which it borrows; the length must be the shape's count.
func OverStrings(shape []int64, list []string) (*Tensor, error) {
	count, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if int64(len(list)) != count {
		return nil, diag.Inputf("string%s needs %d strings, not %d", ShapeString(shape), count, len(list))
	}
	return &Tensor{dt: dtype.String, shape: slices.Clone(shape), count: count, strings: list}, nil
}

// Must returns t and panics if err is not nil: for tensors whose type and shape are known to be right.
func Must(t *Tensor, err error) *Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

// DType returns the element type.
func (t *Tensor) DType() dtype.DType { return t.dt }

// Shape returns the dimensions, outermost first. The caller must not change them.
func (t *Tensor) Shape() []int64 { return t.shape }

// Rank returns the number of dimensions; a scalar has none.
func (t *Tensor) Rank() int { return len(t.shape) }

// Len returns the number of elements.
func (t *Tensor) Len() int64 { return t.count }

// Bytes returns the packed elements without a copy; nil for String.
func (t *Tensor) Bytes() []byte { return t.contents() }

// Strings returns the elements of a String tensor without a copy; nil for every other type.
func (t *Tensor) Strings() []string { return t.strings }

// Float returns the element at flat index i as a float64; see dtype.LoadFloat. Of a String it panics.
func (t *Tensor) Float(i int64) float64 { t.check(i); return dtype.LoadFloat(t.dt, t.contents(), i) }

// SetFloat stores x at flat index i, converted as Cast does; see dtype.StoreFloat. Of a String it panics.
func (t *Tensor) SetFloat(i int64, x float64) { t.check(i); dtype.StoreFloat(t.dt, t.contents(), i, x) }

// Int returns the element at flat index i as an int64; see dtype.LoadInt. Of a String it panics.
func (t *Tensor) Int(i int64) int64 { t.check(i); return dtype.LoadInt(t.dt, t.contents(), i) }

// SetInt stores x at flat index i, converted as Cast does; see dtype.StoreInt. Of a String it panics.
func (t *Tensor) SetInt(i int64, x int64) { t.check(i); dtype.StoreInt(t.dt, t.contents(), i, x) }

// Complex returns the element at flat index i as a complex128. Of a String it panics.
func (t *Tensor) Complex(i int64) complex128 {
	t.check(i)
	return dtype.LoadComplex(t.dt, t.contents(), i)
}

// SetComplex stores x at flat index i; a real type drops the imaginary part. Of a String it panics.
func (t *Tensor) SetComplex(i int64, x complex128) {
	t.check(i)
	dtype.StoreComplex(t.dt, t.contents(), i, x)
}

// check panics if i is not an element: packed types end inside a byte, so the slice's own bounds are not enough.
func (t *Tensor) check(i int64) {
	if uint64(i) >= uint64(t.count) {
		panic(fmt.Sprintf("tensor: index %d of a tensor of %d elements", i, t.count))
	}
}

// Clone returns a copy on Go's heap, whatever its size.
func (t *Tensor) Clone() *Tensor {
	c := &Tensor{dt: t.dt, shape: slices.Clone(t.shape), count: t.count}
	if t.dt == dtype.String {
		c.strings = slices.Clone(t.strings)
		return c
	}
	c.data = alignedBytes(t.Size())
	copy(c.data, t.contents())
	return c
}

// Reshape returns a view with another shape of the same count. Deferred elements may stay deferred; the result is then
// not a view: writes to one are not seen in the other.
func (t *Tensor) Reshape(shape ...int64) (*Tensor, error) {
	count, err := Count(shape)
	if err != nil {
		return nil, err
	}
	if count != t.count {
		return nil, diag.Inputf("shape %s has %d elements, which cannot be seen as shape %s with %d",
			ShapeString(t.shape), t.count, ShapeString(shape), count)
	}
	if t.pending() != nil && count > 0 {
		if r := t.reshaped(shape); r != nil {
			return r, nil
		}
	}
	return &Tensor{dt: t.dt, shape: slices.Clone(shape), count: count, data: t.contents(), strings: t.strings}, nil
}

// Rows returns a view of the indices begin ≤ i < end of the outermost dimension. Packed elements must begin at a byte.
func (t *Tensor) Rows(begin, end int64) (*Tensor, error) {
	if len(t.shape) == 0 || begin < 0 || end < begin || end > t.shape[0] {
		return nil, diag.Inputf("indices %d to %d are no part of shape %s", begin, end, ShapeString(t.shape))
	}
	shape := slices.Clone(t.shape)
	shape[0] = end - begin
	if t.count == 0 {
		return &Tensor{dt: t.dt, shape: shape, data: t.contents(), strings: t.strings}, nil
	}
	row := t.count / t.shape[0]
	v := &Tensor{dt: t.dt, shape: shape, count: row * (end - begin)}
	if t.dt == dtype.String {
		v.strings = t.strings[row*begin : row*end]
		return v, nil
	}
	first := row * begin * int64(t.dt.Bits())
	if first%8 != 0 {
		return nil, diag.Inputf("index %d of %v%s lies inside a byte", begin, t.dt, ShapeString(t.shape))
	}
	n, err := t.dt.Bytes(v.count)
	if err != nil {
		return nil, diag.Inputf("%v", err)
	}
	v.data = t.contents()[first/8 : first/8+n]
	return v, nil
}

// BitCast returns a view of the same bytes as another type and shape; the packed size must be the same, and neither
// type may be String.
func (t *Tensor) BitCast(dt dtype.DType, shape ...int64) (*Tensor, error) {
	if t.dt == dtype.String {
		return nil, diag.Inputf("strings have no packed form")
	}
	return Over(dt, shape, t.contents())
}

// Convert returns a new tensor of type dt on Go's heap; the meaning is dtype.ConvertSlice's. Strings convert to strings
// only.
func (t *Tensor) Convert(dt dtype.DType, saturate bool) (*Tensor, error) {
	if t.dt == dtype.String && dt == dtype.String {
		return t.Clone(), nil
	}
	if t.dt == dtype.String || dt == dtype.String {
		return nil, diag.Unsupportedf("%v cannot be converted to %v here", t.dt, dt)
	}
	c, err := New(dt, t.shape...)
	if err != nil {
		return nil, err
	}
	dtype.ConvertSlice(dt, c.data, t.dt, t.contents(), t.count, saturate)
	return c, nil
}

// Equal reports whether both tensors have the same type, shape and bits: a NaN equals a NaN of the same bits, and 0 is
// not −0. Unused bits of a last packed byte do not count.
func (t *Tensor) Equal(other *Tensor) bool {
	if t.dt != other.dt || !slices.Equal(t.shape, other.shape) {
		return false
	}
	if t.dt == dtype.String {
		return slices.Equal(t.strings, other.strings)
	}
	x, y := t.contents(), other.contents()
	whole := len(x)
	used := t.count * int64(t.dt.Bits()) % 8
	if used != 0 {
		whole--
	}
	if !bytes.Equal(x[:whole], y[:whole]) {
		return false
	}
	return used == 0 || (x[whole]^y[whole])<<(8-used) == 0
}

// shown is how many elements String prints.
const shown = 8

// String returns the type, the shape and the first elements, on one line: f32[2,3]{1, 2, 3, 4, 5, 6}.
func (t *Tensor) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%s{", t.dt, ShapeString(t.shape))
	for i := range min(t.count, shown) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.Format(i))
	}
	if t.count > shown {
		b.WriteString(", …")
	}
	b.WriteString("}")
	return b.String()
}

// Format returns the element at flat index i as text: the shortest decimal that gives the element's value back, true or
// false, or a quoted string.
func (t *Tensor) Format(i int64) string {
	t.check(i)
	switch {
	case t.dt == dtype.String:
		return strconv.Quote(t.strings[i])
	case t.dt == dtype.Bool:
		return strconv.FormatBool(t.Int(i) != 0)
	case t.dt == dtype.U64:
		return strconv.FormatUint(uint64(t.Int(i)), 10)
	case t.dt.IsInt():
		return strconv.FormatInt(t.Int(i), 10)
	case t.dt.IsComplex():
		return strconv.FormatComplex(t.Complex(i), 'g', -1, 2*max(t.dt.Bits()/2, 32))
	}
	width := 64
	if t.dt.Bits() <= 32 {
		width = 32
	}
	return strconv.FormatFloat(t.Float(i), 'g', -1, width)
}

// ShapeString returns a shape as text: [2,3], and [] for a scalar's.
func ShapeString(shape []int64) string {
	var b strings.Builder
	b.WriteByte('[')
	for axis, d := range shape {
		if axis > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(d, 10))
	}
	b.WriteByte(']')
	return b.String()
}
