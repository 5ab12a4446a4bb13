package wire_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// TestTypedData decodes each element type from raw_data and from its typed field, as onnx.proto defines both.
func TestTypedData(t *testing.T) {
	for _, c := range []struct {
		dt    wire.DataType
		count int64
		raw   []byte
		typed wire.TensorProto // with its typed field
		want  []float64
	}{
		{wire.FloatType, 2, []byte{0, 0, 128, 63, 0, 0, 0, 192}, wire.TensorProto{FloatData: wire.Floats(1, -2)},
			[]float64{1, -2}},
		{wire.DoubleType, 1, []byte{0, 0, 0, 0, 0, 0, 0xe0, 0x3f}, wire.TensorProto{DoubleData: wire.Doubles(0.5)},
			[]float64{0.5}},
		{wire.Uint8Type, 2, []byte{7, 255}, wire.TensorProto{Int32Data: wire.Varints(7, 255)}, []float64{7, 255}},
		{wire.Int8Type, 2, []byte{7, 255}, wire.TensorProto{Int32Data: wire.Varints(7, -1)}, []float64{7, -1}},
		{wire.Uint16Type, 1, []byte{1, 128}, wire.TensorProto{Int32Data: wire.Varints(0x8001)}, []float64{0x8001}},
		{wire.Int16Type, 2, []byte{0, 128, 1, 0}, wire.TensorProto{Int32Data: wire.Varints(-32768, 1)}, []float64{-32768, 1}},
		{wire.Int32Type, 1, []byte{255, 255, 255, 255}, wire.TensorProto{Int32Data: wire.Varints(-1)}, []float64{-1}},
		{wire.Int64Type, 2, []byte{1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255},
			wire.TensorProto{Int64Data: wire.Varints(1, -2)}, []float64{1, -2}},
		{wire.Uint32Type, 1, []byte{255, 255, 255, 255}, wire.TensorProto{Uint64Data: wire.Varints(math.MaxUint32)},
			[]float64{math.MaxUint32}},
		{wire.Uint64Type, 1, []byte{0, 0, 0, 0, 0, 0, 0, 128}, wire.TensorProto{Uint64Data: wire.Varints(math.MinInt64)},
			[]float64{1 << 63}},
		{wire.BoolType, 3, []byte{0, 1, 2}, wire.TensorProto{Int32Data: wire.Varints(0, 1, -3)}, []float64{0, 1, 1}},
		{wire.Float16Type, 2, []byte{0, 0x3c, 0, 0xc0}, wire.TensorProto{Int32Data: wire.Varints(0x3c00, 0xc000)},
			[]float64{1, -2}},
		{wire.BFloat16Type, 2, []byte{128, 0x3f, 0, 0xc0}, wire.TensorProto{Int32Data: wire.Varints(0x3f80, 0xc000)},
			[]float64{1, -2}},
		{wire.Float8E4M3FNType, 1, []byte{0x38}, wire.TensorProto{Int32Data: wire.Varints(0x38)}, []float64{1}},
		{wire.Float8E5M2Type, 1, []byte{0x3c}, wire.TensorProto{Int32Data: wire.Varints(0x3c)}, []float64{1}},
		{wire.Float8E8M0Type, 1, []byte{128}, wire.TensorProto{Int32Data: wire.Varints(128)}, []float64{2}},
		{wire.Uint4Type, 3, []byte{0x21, 0xf3}, wire.TensorProto{Int32Data: wire.Varints(0x21, 0xf3)}, []float64{1, 2, 3}},
		{wire.Int4Type, 3, []byte{0xf1, 0x08}, wire.TensorProto{Int32Data: wire.Varints(0xf1, 0x08)}, []float64{1, -1, -8}},
		{wire.Float4E2M1Type, 2, []byte{0xa2}, wire.TensorProto{Int32Data: wire.Varints(0xa2)}, []float64{1, -1}},
		{wire.Uint2Type, 5, []byte{0b11100100, 1}, wire.TensorProto{Int32Data: wire.Varints(0b11100100, 1)},
			[]float64{0, 1, 2, 3, 1}},
		{wire.Int2Type, 4, []byte{0b11100100}, wire.TensorProto{Int32Data: wire.Varints(0b11100100)},
			[]float64{0, 1, -2, -1}},
	} {
		t.Run(c.dt.String(), func(t *testing.T) {
			raw := wire.TensorProto{RawData: c.raw}
			for name, p := range map[string]*wire.TensorProto{"raw_data": &raw, "typed": &c.typed} {
				p.Dims, p.DataType, p.Name = []int64{c.count}, c.dt, "w"
				got, _, err := reparse(t, p).Tensor()
				if err != nil {
					t.Fatal(name, err)
				}
				for i, want := range c.want {
					if got.Float(int64(i)) != want {
						t.Errorf("%s: element %d is %v, want %v", name, i, got.Float(int64(i)), want)
					}
				}
				// and into memory of the caller's, and back through the writer
				size, err := p.Size()
				if err != nil {
					t.Fatal(err)
				}
				dst := make([]byte, size)
				if err := p.ReadInto(dst); err != nil {
					t.Fatal(err)
				}
				back, _, err := reparse(t, wire.FromTensor("v", got)).Tensor()
				if err != nil || !back.Equal(got) {
					t.Errorf("%s: %v became %v (%v)", name, got, back, err)
				}
				if over, err := tensor.Over(got.DType(), got.Shape(), dst); err != nil || !over.Equal(got) {
					t.Errorf("%s: ReadInto gave %v (%v)", name, over, err)
				}
			}
		})
	}
}

// TestComplexAndStrings reads and writes complex numbers and strings.
func TestComplexAndStrings(t *testing.T) {
	for _, p := range []*wire.TensorProto{
		{Dims: []int64{1}, DataType: wire.Complex64Type, FloatData: wire.Floats(1, -2)},
		{Dims: []int64{1}, DataType: wire.Complex128Type, DoubleData: wire.Doubles(1, -2)},
	} {
		got, _, err := p.Tensor()
		if err != nil || got.Complex(0) != 1-2i {
			t.Error(got, err)
		}
	}
	p := &wire.TensorProto{Dims: []int64{2, 1}, DataType: wire.StringType, StringData: [][]byte{[]byte("é"), {0xff}}}
	got, borrowed, err := reparse(t, p).Tensor()
	if err != nil || borrowed || got.Strings()[0] != "é" || got.Strings()[1] != "\xff" {
		t.Error(got, borrowed, err)
	}
	back, _, err := reparse(t, wire.FromTensor("s", got)).Tensor()
	if err != nil || !back.Equal(got) {
		t.Error(back, err)
	}
}

// TestBorrowing shows which tensors are views of the input: those whose bytes are aligned, and bools of 0 and 1.
func TestBorrowing(t *testing.T) {
	data := make([]byte, 64)
	for _, c := range []struct {
		dt     wire.DataType
		offset int
		bytes  int
		want   bool
	}{
		{wire.FloatType, 0, 16, true}, {wire.FloatType, 4, 16, true}, {wire.FloatType, 2, 16, false},
		{wire.DoubleType, 4, 16, false},
		{wire.Int8Type, 3, 5, true}, {wire.Uint4Type, 1, 1, true}, {wire.BoolType, 1, 3, true},
		{wire.Complex64Type, 4, 16, true},
	} {
		dt, _ := c.dt.DType()
		count := int64(c.bytes) * 8 / int64(dt.Bits())
		p := &wire.TensorProto{Dims: []int64{count}, DataType: c.dt, RawData: data[c.offset : c.offset+c.bytes],
			RawOffset: int64(c.offset)}
		got, borrowed, err := p.Tensor()
		if err != nil || borrowed != c.want {
			t.Errorf("%s at %d: borrowed %t, %v", c.dt, c.offset, borrowed, err)
			continue
		}
		if shared := &got.Bytes()[0] == &data[c.offset]; shared != c.want {
			t.Errorf("%s at %d: shared %t", c.dt, c.offset, shared)
		}
	}
}

// TestHostileTensors refuses tensors whose type, shape, data or location is wrong, before it allocates memory.
func TestHostileTensors(t *testing.T) {
	huge := []int64{1 << 40, 1 << 40}
	for _, c := range []struct {
		name string
		p    wire.TensorProto
		want string
	}{
		{"no type", wire.TensorProto{}, "data_type is 0, which is no type of ONNX"},
		{"unknown type", wire.TensorProto{DataType: 99}, "data_type is 99, which is no type of ONNX"},
		{"a type of 6 bits", wire.TensorProto{DataType: 28}, "data_type: elements of type float6e3m2"},
		{"negative type", wire.TensorProto{DataType: -1}, "data_type is -1, which is no type of ONNX"},
		{"negative dimension", wire.TensorProto{DataType: 1, Dims: []int64{2, -3}}, "-3"},
		{"product overflows", wire.TensorProto{DataType: 1, Dims: huge}, "more than 2⁶³ elements"},
		{"bytes overflow", wire.TensorProto{DataType: wire.DoubleType, Dims: []int64{1 << 61}}, "more than 2⁶³ bytes"},
		{"no data", wire.TensorProto{DataType: 1, Dims: []int64{1 << 40}},
			"float_data has 0 entries where f32[1099511627776] needs 1099511627776"},
		{"no strings", wire.TensorProto{DataType: wire.StringType, Dims: []int64{1 << 40}}, "string_data has 0 entries"},
		{"no varints", wire.TensorProto{DataType: wire.Uint2Type, Dims: []int64{1 << 40}},
			"int32_data has 0 entries where u2[1099511627776] needs 274877906944"},
		{"too short", wire.TensorProto{DataType: 1, Dims: []int64{2}, RawData: make([]byte, 7)},
			"raw_data has 7 bytes where f32[2] needs 8"},
		{"too long", wire.TensorProto{DataType: wire.Int4Type, Dims: []int64{3}, RawData: make([]byte, 3)},
			"raw_data has 3 bytes where i4[3] needs 2"},
		{"too many entries", wire.TensorProto{DataType: wire.Int64Type, Int64Data: wire.Varints(1, 2)},
			"int64_data has 2 entries where i64[] needs 1"},
		{"complex entries", wire.TensorProto{DataType: wire.Complex64Type, FloatData: wire.Floats(1)},
			"float_data has 4 bytes where c64[] needs 8"},
		{"data in no dims", wire.TensorProto{DataType: 1, Dims: []int64{0, 1 << 62}, RawData: make([]byte, 4)},
			"raw_data has 4 bytes"},
		{"two fields", wire.TensorProto{DataType: 1, RawData: make([]byte, 4), FloatData: wire.Floats(1)},
			"more than one field: float_data, raw_data"},
		{"wrong field", wire.TensorProto{DataType: 1, Int32Data: wire.Varints(1)},
			"the data of type f32 lies in int32_data, not in float_data"},
		{"raw strings", wire.TensorProto{DataType: wire.StringType, RawData: []byte("a")}, "strings lie in raw_data"},
		{"too large for its type", wire.TensorProto{DataType: wire.Uint8Type, Dims: []int64{2},
			Int32Data: wire.Varints(1, 256)}, "int32_data[1] is 256, which does not fit u8"},
		{"too small for its type", wire.TensorProto{DataType: wire.Int16Type, Dims: []int64{1},
			Int32Data: wire.Varints(-32769)}, "int32_data[0] is -32769, which does not fit i16"},
		{"too large for uint32", wire.TensorProto{DataType: wire.Uint32Type, Dims: []int64{1},
			Uint64Data: wire.Varints(1 << 32)}, "does not fit u32"},
		{"external", wire.TensorProto{DataType: 1, DataLocation: 1}, "the data lies in another file"},
		{"unknown place", wire.TensorProto{DataType: 1, DataLocation: 2}, "data_location is 2, which is none"},
		{"segment", wire.TensorProto{DataType: 1, Segment: &wire.SegmentProto{End: 1}}, "a tensor in segments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Name = "w"
			_, _, err := c.p.Tensor()
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "w") {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if !errors.Is(err, diag.ErrInput) && !errors.Is(err, diag.ErrUnsupported) {
				t.Errorf("%v is of another kind", err)
			}
		})
	}
	// Bad varints in a typed field are found when it is decoded.
	p, err := wire.ParseTensor(append(append(varint(1, 1), varint(2, uint64(wire.Int64Type))...),
		delimited(7, []byte{1, 0x80})...))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Tensor(); err == nil || !strings.Contains(err.Error(), "int64_data[1]: a varint runs past the end") {
		t.Error(err)
	}
}

// TestExternalEntry reads the entries of external tensors, and refuses malformed ones.
func TestExternalEntry(t *testing.T) {
	entry := func(pairs ...string) *wire.TensorProto {
		p := &wire.TensorProto{Name: "w", DataLocation: wire.LocationExternal}
		for i := 0; i < len(pairs); i += 2 {
			p.ExternalData = append(p.ExternalData, &wire.StringStringEntryProto{Key: pairs[i], Value: pairs[i+1]})
		}
		return p
	}
	got, err := entry("location", "a/b.bin", "offset", "4096", "length", "12", "checksum", "00", "basepath", "/etc").
		ExternalEntry()
	if want := (wire.ExternalEntry{Location: "a/b.bin", Offset: 4096, Length: 12}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := entry("location", "w").ExternalEntry(); err != nil || got.Length != -1 || got.Offset != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for want, p := range map[string]*wire.TensorProto{
		"names no location":                       entry("offset", "1"),
		"names location twice":                    entry("location", "a", "location", "b"),
		`offset "-1" is no byte`:                  entry("location", "a", "offset", "-1"),
		`length "9223372036854775808" is no byte`: entry("location", "a", "length", "9223372036854775808"),
		`length "1e3" is no byte`:                 entry("location", "a", "length", "1e3"),
	} {
		if _, err := p.ExternalEntry(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestDataTypes converts every data type of ONNX to an element type and back.
func TestDataTypes(t *testing.T) {
	for n := wire.FloatType; n <= wire.Int2Type; n++ {
		dt, ok := n.DType()
		if !ok || dt == dtype.Invalid || wire.DataTypeOf(dt) != n {
			t.Errorf("data type %d is %s, and back %d", n, dt, wire.DataTypeOf(dt))
		}
	}
}
