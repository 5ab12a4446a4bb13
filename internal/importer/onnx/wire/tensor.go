package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// DataType is onnx.proto's number of an element type.
type DataType int32

// The element types.
const (
	UndefinedType      DataType = 0
	FloatType          DataType = 1
	Uint8Type          DataType = 2
	Int8Type           DataType = 3
	Uint16Type         DataType = 4
	Int16Type          DataType = 5
	Int32Type          DataType = 6
	Int64Type          DataType = 7
	StringType         DataType = 8
	BoolType           DataType = 9
	Float16Type        DataType = 10
	DoubleType         DataType = 11
	Uint32Type         DataType = 12
	Uint64Type         DataType = 13
	Complex64Type      DataType = 14
	Complex128Type     DataType = 15
	BFloat16Type       DataType = 16
	Float8E4M3FNType   DataType = 17
	Float8E4M3FNUZType DataType = 18
	Float8E5M2Type     DataType = 19
	Float8E5M2FNUZType DataType = 20
	Uint4Type          DataType = 21
	Int4Type           DataType = 22
	Float4E2M1Type     DataType = 23
	Float8E8M0Type     DataType = 24
	Uint2Type          DataType = 25
	Int2Type           DataType = 26
)

// typed describes how an element type is stored in its typed data field.
type typed struct {
	dtype   dtype.DType
	name    string
	field   func(*TensorProto) *Numbers // nil for string_data
	wire    wireType
	bits    int   // of an entry in a tensor's memory
	entries int64 // entries per element: 2 for complex numbers
}

var (
	floatData  = func(t *TensorProto) *Numbers { return &t.FloatData }
	doubleData = func(t *TensorProto) *Numbers { return &t.DoubleData }
	int32Data  = func(t *TensorProto) *Numbers { return &t.Int32Data }
	int64Data  = func(t *TensorProto) *Numbers { return &t.Int64Data }
	uint64Data = func(t *TensorProto) *Numbers { return &t.Uint64Data }
)

// dataTypes is indexed by DataType.
var dataTypes = [...]typed{
	FloatType:          {dtype.F32, "float_data", floatData, fixed32Type, 32, 1},
	Uint8Type:          {dtype.U8, "int32_data", int32Data, varintType, 8, 1},
	Int8Type:           {dtype.I8, "int32_data", int32Data, varintType, 8, 1},
	Uint16Type:         {dtype.U16, "int32_data", int32Data, varintType, 16, 1},
	Int16Type:          {dtype.I16, "int32_data", int32Data, varintType, 16, 1},
	Int32Type:          {dtype.I32, "int32_data", int32Data, varintType, 32, 1},
	Int64Type:          {dtype.I64, "int64_data", int64Data, varintType, 64, 1},
	StringType:         {dtype.String, "string_data", nil, bytesType, 0, 1},
	BoolType:           {dtype.Bool, "int32_data", int32Data, varintType, 8, 1},
	Float16Type:        {dtype.F16, "int32_data", int32Data, varintType, 16, 1},
	DoubleType:         {dtype.F64, "double_data", doubleData, fixed64Type, 64, 1},
	Uint32Type:         {dtype.U32, "uint64_data", uint64Data, varintType, 32, 1},
	Uint64Type:         {dtype.U64, "uint64_data", uint64Data, varintType, 64, 1},
	Complex64Type:      {dtype.C64, "float_data", floatData, fixed32Type, 32, 2},
	Complex128Type:     {dtype.C128, "double_data", doubleData, fixed64Type, 64, 2},
	BFloat16Type:       {dtype.BF16, "int32_data", int32Data, varintType, 16, 1},
	Float8E4M3FNType:   {dtype.F8E4M3FN, "int32_data", int32Data, varintType, 8, 1},
	Float8E4M3FNUZType: {dtype.F8E4M3FNUZ, "int32_data", int32Data, varintType, 8, 1},
	Float8E5M2Type:     {dtype.F8E5M2, "int32_data", int32Data, varintType, 8, 1},
	Float8E5M2FNUZType: {dtype.F8E5M2FNUZ, "int32_data", int32Data, varintType, 8, 1},
	Uint4Type:          {dtype.U4, "int32_data", int32Data, varintType, 8, 1},
	Int4Type:           {dtype.I4, "int32_data", int32Data, varintType, 8, 1},
	Float4E2M1Type:     {dtype.F4E2M1, "int32_data", int32Data, varintType, 8, 1},
	Float8E8M0Type:     {dtype.F8E8M0, "int32_data", int32Data, varintType, 8, 1},
	Uint2Type:          {dtype.U2, "int32_data", int32Data, varintType, 8, 1},
	Int2Type:           {dtype.I2, "int32_data", int32Data, varintType, 8, 1},
}

// DType returns the element type; ok is false for UndefinedType and unknown numbers.
func (n DataType) DType() (dt dtype.DType, ok bool) {
	if n <= 0 || int(n) >= len(dataTypes) {
		return dtype.Invalid, false
	}
	return dataTypes[n].dtype, true
}

// lacking has the element types of ONNX that Weir does not have, by their names in ONNX.
var lacking = map[DataType]string{27: "float6e2m3", 28: "float6e3m2"}

// NoType returns the error for a number for which DType knows no type: ErrUnsupported if ONNX has such a type,
// otherwise ErrInput. what names the field or value that has the type.
func (n DataType) NoType(what string) *diag.Error {
	if name := lacking[n]; name != "" {
		return diag.Unsupportedf("%s: elements of type %s", what, name)
	}
	return diag.Inputf("%s is %d, which is no type of ONNX", what, n)
}

// DataTypeOf returns ONNX's number of an element type, UndefinedType for dtype.Invalid.
func DataTypeOf(dt dtype.DType) DataType {
	for n := range dataTypes {
		if n > 0 && dataTypes[n].dtype == dt {
			return DataType(n)
		}
	}
	return UndefinedType
}

// fail returns an ErrInput that names the tensor.
func (t *TensorProto) fail(format string, args ...any) error {
	return diag.Inputf(format, args...).AtTensor(t.Name)
}

// ElementType returns the element type, or ErrInput if data_type is not one.
func (t *TensorProto) ElementType() (dtype.DType, error) {
	dt, ok := t.DataType.DType()
	if !ok {
		return dtype.Invalid, t.DataType.NoType("data_type").AtTensor(t.Name)
	}
	return dt, nil
}

// Count returns the number of elements that dims need. A negative dimension, an impossible rank and an overflow are
// ErrInput.
func (t *TensorProto) Count() (int64, error) {
	n, err := tensor.Count(t.Dims)
	if err != nil {
		return 0, diag.As(err, diag.ErrInput).AtTensor(t.Name)
	}
	return n, nil
}

// Size returns the bytes of the packed elements, which ReadInto fills; 0 for strings.
func (t *TensorProto) Size() (int64, error) {
	dt, err := t.ElementType()
	if err != nil {
		return 0, err
	}
	n, err := t.Count()
	if err != nil || dt == dtype.String {
		return 0, err
	}
	size, err := dt.Bytes(n)
	if err != nil {
		return 0, diag.As(err, diag.ErrInput).AtTensor(t.Name)
	}
	return size, nil
}

// External reports whether the data is in another file. Then Stored, ReadInto and Tensor do not apply: ExternalEntry
// says where the data is, and Over makes a tensor of the bytes found there.
func (t *TensorProto) External() bool { return t.DataLocation == LocationExternal }

// form checks everything but the data's length: the type, the location, and that only one field holds data.
func (t *TensorProto) form() (*typed, error) {
	if _, err := t.ElementType(); err != nil {
		return nil, err
	}
	if t.Segment != nil {
		return nil, diag.Unsupportedf("a tensor in segments").AtTensor(t.Name)
	}
	if t.DataLocation != LocationDefault {
		if t.External() {
			return nil, t.fail("the data lies in another file")
		}
		return nil, t.fail("data_location is %d, which is none", t.DataLocation)
	}
	form := &dataTypes[t.DataType]
	var found []string
	for _, f := range [...]struct {
		name  string
		empty bool
	}{
		{"float_data", t.FloatData.Empty()}, {"int32_data", t.Int32Data.Empty()}, {"string_data", len(t.StringData) == 0},
		{"int64_data", t.Int64Data.Empty()}, {"raw_data", len(t.RawData) == 0}, {"double_data", t.DoubleData.Empty()},
		{"uint64_data", t.Uint64Data.Empty()},
	} {
		if !f.empty {
			found = append(found, f.name)
		}
	}
	switch {
	case len(found) > 1:
		return nil, t.fail("the data lies in more than one field: %s", strings.Join(found, ", "))
	case len(found) == 1 && found[0] == "raw_data" && form.dtype == dtype.String:
		return nil, t.fail("strings lie in raw_data, which cannot hold them")
	case len(found) == 1 && found[0] != "raw_data" && found[0] != form.name:
		return nil, t.fail("the data of type %s lies in %s, not in %s", form.dtype, found[0], form.name)
	}
	return form, nil
}

// Stored returns the elements' bytes if the input has them packed and little-endian, as raw_data and packed floats are;
// it compares their length with dims, and does not touch the bytes. offset is their offset in the input, −1 for data
// that did not come from one. ok is false for strings and for elements that ReadInto must decode.
func (t *TensorProto) Stored() (data []byte, offset int64, ok bool, err error) {
	form, err := t.form()
	if err != nil || form.field == nil {
		return nil, 0, false, err
	}
	want, err := t.Size()
	if err != nil {
		return nil, 0, false, err
	}
	name := "raw_data"
	data, offset, ok = t.RawData, t.RawOffset, len(t.RawData) > 0
	if !ok && form.wire != varintType {
		name = form.name
		data, offset, ok = form.field(t).Payload()
	}
	if !ok {
		if want == 0 && form.field(t).Empty() {
			return nil, -1, true, nil
		}
		return nil, 0, false, nil
	}
	if int64(len(data)) != want {
		return nil, 0, false, t.lengthFault(name, int64(len(data)), "bytes", want)
	}
	return data, offset, true, nil
}

// lengthFault returns the error for data of another length than dims need.
func (t *TensorProto) lengthFault(name string, got int64, unit string, want int64) error {
	return t.fail("%s has %d %s where %s%s needs %d", name, got, unit, dataTypes[t.DataType].dtype,
		tensor.ShapeString(t.Dims), want)
}

// ReadInto copies the elements into dst, packed and in the machine's byte order; dst's length must be Size. The caller
// accounts for dst's memory. Strings and external data are refused.
func (t *TensorProto) ReadInto(dst []byte) error {
	data, _, ok, err := t.Stored()
	if err != nil {
		return err
	}
	if ok {
		return t.CopyInto(dst, data)
	}
	form := &dataTypes[t.DataType]
	want, err := t.entries()
	if err != nil {
		return err
	}
	if form.field == nil {
		return t.fail("strings are no packed bytes")
	}
	size, err := t.Size()
	if err != nil {
		return err
	}
	if int64(len(dst)) != size {
		panic(diag.Internalf("wire: %d bytes for a tensor of %d", len(dst), size))
	}
	limit := int64(-1) // the index of the first entry that does not fit its type
	var culprit int64
	put := entryWriters[form.bits]
	var i int64
	err = form.field(t).each(form.wire, func(bits uint64) bool {
		if v := int64(bits); form.wire == varintType && form.bits < 64 && form.dtype != dtype.Bool &&
			(v < -1<<(form.bits-1) || v >= 1<<form.bits) {
			limit, culprit = i, v
			return false
		}
		if form.dtype == dtype.Bool && bits != 0 {
			bits = 1
		}
		put(dst, i, bits)
		i++
		return i < want
	})
	if err != nil {
		return t.fail("%s[%d]: %v", form.name, i, diag.As(err, diag.ErrInput).Detail)
	}
	if limit >= 0 {
		return t.fail("%s[%d] is %d, which does not fit %s", form.name, limit, culprit, form.dtype)
	}
	return nil
}

// entryWriters stores the i-th entry of a number of bits, in the machine's byte order.
var entryWriters = map[int]func(dst []byte, i int64, bits uint64){
	8:  func(dst []byte, i int64, bits uint64) { dst[i] = byte(bits) },
	16: func(dst []byte, i int64, bits uint64) { binary.NativeEndian.PutUint16(dst[2*i:], uint16(bits)) },
	32: func(dst []byte, i int64, bits uint64) { binary.NativeEndian.PutUint32(dst[4*i:], uint32(bits)) },
	64: func(dst []byte, i int64, bits uint64) { binary.NativeEndian.PutUint64(dst[8*i:], bits) },
}

// entries checks that the typed field has as many entries as dims need, before anything is allocated for them, and
// returns their number.
func (t *TensorProto) entries() (int64, error) {
	form := &dataTypes[t.DataType]
	want, err := t.Count()
	if err != nil {
		return 0, err
	}
	got := int64(len(t.StringData))
	if form.field != nil {
		if form.dtype.IsSubByte() {
			if want, err = form.dtype.Bytes(want); err != nil {
				return 0, diag.As(err, diag.ErrInput).AtTensor(t.Name)
			}
		}
		want *= form.entries // no overflow: Size, which is larger, has been computed
		got = 0
		if err := form.field(t).each(form.wire, func(uint64) bool { got++; return true }); err != nil {
			return 0, t.fail("%s[%d]: %v", form.name, got, diag.As(err, diag.ErrInput).Detail)
		}
	}
	if got != want {
		return 0, t.lengthFault(form.name, got, "entries", want)
	}
	return want, nil
}

// CopyInto copies stored elements (packed and little-endian, as Stored or another file has them) into dst of the same
// length, in the machine's byte order; each byte of a bool becomes 0 or 1.
func (t *TensorProto) CopyInto(dst, stored []byte) error {
	form := &dataTypes[t.DataType]
	if len(dst) != len(stored) {
		panic(diag.Internalf("wire: %d bytes copied into %d", len(stored), len(dst)))
	}
	switch {
	case form.dtype == dtype.Bool:
		for i, b := range stored {
			dst[i] = min(b, 1)
		}
	case littleEndian || form.bits == 8:
		copy(dst, stored)
	default:
		size := form.bits / 8
		for i := 0; i < len(stored); i += size {
			copy(dst[i:i+size], stored[i:i+size])
			slices.Reverse(dst[i : i+size])
		}
	}
	return nil
}

// littleEndian reports whether the machine is little-endian.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// borrowable reports whether a tensor can use the stored bytes without a copy.
func (f *typed) borrowable(data []byte) bool {
	if f.dtype == dtype.Bool {
		for _, b := range data {
			if b > 1 {
				return false
			}
		}
		return true
	}
	if len(data) == 0 || f.bits == 8 {
		return true
	}
	return littleEndian && uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(f.bits/8) == 0
}

// Allocate returns memory for a copy of elements, aligned to the size of their numbers. The memory is overwritten.
type Allocate func(bytes int64) ([]byte, error)

// Tensor returns the tensor. It borrows the input's bytes if they are packed, in the machine's byte order, and aligned
// to the size of an element's number; borrowed reports that. Otherwise the data is a copy on Go's heap, as strings
// always are. Bytes that do not match dims, and external data, are ErrInput; a segment is ErrUnsupported.
func (t *TensorProto) Tensor() (result *tensor.Tensor, borrowed bool, err error) {
	return t.TensorIn(nil)
}

// TensorIn is Tensor whose copies, except those of strings, are in memory from allocate; nil means Go's heap.
func (t *TensorProto) TensorIn(allocate Allocate) (result *tensor.Tensor, borrowed bool, err error) {
	data, _, ok, err := t.Stored()
	if err != nil {
		return nil, false, err
	}
	if ok {
		return t.OverIn(data, allocate)
	}
	if _, err := t.entries(); err != nil { // before any allocation: dims alone may ask for any amount
		return nil, false, err
	}
	if t.DataType == StringType {
		strings := make([]string, len(t.StringData))
		for i, s := range t.StringData {
			strings[i] = string(s)
		}
		result, err = tensor.OverStrings(t.Dims, strings)
		return result, false, t.atTensor(err)
	}
	if result, err = t.empty(allocate); err != nil {
		return nil, false, err
	}
	if err := t.ReadInto(result.Bytes()); err != nil {
		return nil, false, err
	}
	return result, false, nil
}

// empty returns a tensor of t's type and shape, to be filled by a copy.
func (t *TensorProto) empty(allocate Allocate) (*tensor.Tensor, error) {
	dt := dataTypes[t.DataType].dtype
	if allocate == nil {
		result, err := tensor.New(dt, t.Dims...)
		return result, t.atTensor(err)
	}
	size, err := t.Size()
	if err != nil {
		return nil, err
	}
	data, err := allocate(size)
	if err != nil {
		return nil, err
	}
	result, err := tensor.Over(dt, t.Dims, data)
	return result, t.atTensor(err)
}

// atTensor adds the tensor's name to an error of another package; nil stays nil.
func (t *TensorProto) atTensor(err error) error {
	if err == nil {
		return nil
	}
	return diag.As(err, diag.ErrInput).AtTensor(t.Name)
}

// Over is Tensor for stored bytes that come from elsewhere, such as the file that an external tensor names: packed and
// little-endian. Their length must be Size.
func (t *TensorProto) Over(data []byte) (result *tensor.Tensor, borrowed bool, err error) {
	return t.OverIn(data, nil)
}

// OverIn is Over whose copies are in memory from allocate; nil means Go's heap.
func (t *TensorProto) OverIn(data []byte, allocate Allocate) (result *tensor.Tensor, borrowed bool, err error) {
	size, err := t.Size()
	if err != nil {
		return nil, false, err
	}
	form := &dataTypes[t.DataType]
	if form.field == nil {
		return nil, false, t.fail("strings cannot lie in raw bytes")
	}
	if int64(len(data)) != size {
		return nil, false, t.lengthFault("the data", int64(len(data)), "bytes", size)
	}
	if form.borrowable(data) {
		result, err = tensor.Over(form.dtype, t.Dims, data)
		return result, err == nil, t.atTensor(err)
	}
	if result, err = t.empty(allocate); err != nil {
		return nil, false, err
	}
	return result, false, t.CopyInto(result.Bytes(), data)
}

// FromTensor returns the message of a tensor. On little-endian machines it borrows t's bytes as raw_data; strings
// become string_data.
func FromTensor(name string, t *tensor.Tensor) *TensorProto {
	m := &TensorProto{Name: name, Dims: slices.Clone(t.Shape()), DataType: DataTypeOf(t.DType()), RawOffset: -1}
	if t.DType() == dtype.String {
		for _, s := range t.Strings() {
			m.StringData = append(m.StringData, []byte(s))
		}
		return m
	}
	m.RawData = t.Bytes()
	if m.RawData == nil {
		m.RawData = []byte{}
	}
	if !littleEndian {
		m.RawData = make([]byte, len(m.RawData))
		m.CopyInto(m.RawData, t.Bytes())
	}
	return m
}

// String returns the type's name in Weir's spelling, or its number if it is unknown.
func (n DataType) String() string {
	if dt, ok := n.DType(); ok {
		return dt.String()
	}
	return fmt.Sprintf("data type %d", int32(n))
}
