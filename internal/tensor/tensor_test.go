package tensor

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// TestCount counts the elements of shapes up to the limits of int64, and refuses impossible shapes.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		want  int64 // −1: an error
	}{
		{nil, 1}, {[]int64{}, 1}, {[]int64{3}, 3}, {[]int64{2, 3, 4}, 24}, {[]int64{2, 0, 4}, 0}, {[]int64{-1}, -1},
		{[]int64{0, -1}, -1},
		{[]int64{1 << 32, 1 << 31}, -1}, {[]int64{1 << 32, 1 << 32}, -1}, {[]int64{1 << 31, 1 << 31}, 1 << 62},
		{[]int64{math.MaxInt64}, math.MaxInt64},
		{[]int64{math.MaxInt64, math.MaxInt64, 0}, 0}, {[]int64{3, math.MaxInt64 / 2}, -1}, {make([]int64, MaxRank+1), -1},
	} {
		got, err := Count(c.shape)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("Count(%v) = %d, %v, want %d", c.shape, got, err, c.want)
		}
		if err != nil && !errors.Is(err, diag.ErrInput) {
			t.Errorf("Count(%v): %v is not ErrInput", c.shape, err)
		}
	}
}

// TestNew makes tensors of every type, all zeros, and refuses impossible and too large ones.
func TestNew(t *testing.T) {
	for _, dt := range dtype.All() {
		for _, shape := range [][]int64{{}, {0}, {5}, {3, 7}, {2, 0, 9}, {1 << 40, 0}} {
			n, _ := Count(shape)
			a, err := New(dt, shape...)
			if err != nil {
				t.Fatal(err)
			}
			size, _ := dt.Bytes(n)
			if a.DType() != dt || !slices.Equal(a.Shape(), shape) || a.Len() != n || a.Rank() != len(shape) ||
				int64(len(a.Bytes())) != size {
				t.Errorf("%v%v: %v", dt, shape, a)
			}
			if dt == dtype.String {
				if int64(len(a.Strings())) != n {
					t.Errorf("%v has %d strings", shape, len(a.Strings()))
				}
				continue
			}
			for i := range n {
				if a.Float(i) != 0 && dt != dtype.F8E8M0 {
					t.Errorf("%v: element %d is %v", dt, i, a.Float(i))
				}
			}
		}
	}
	for _, c := range []struct {
		dt    dtype.DType
		shape []int64
		kind  error
	}{
		{dtype.Invalid, []int64{1}, diag.ErrInput}, {dtype.DType(99), []int64{1}, diag.ErrInput},
		{dtype.F32, []int64{-1}, diag.ErrInput},
		{dtype.F32, []int64{1 << 62}, diag.ErrInput}, {dtype.F32, []int64{1 << 60}, diag.ErrMemory},
		{dtype.String, []int64{1 << 60}, diag.ErrMemory},
		{dtype.U8, []int64{MaxBytes() + 1}, diag.ErrMemory},
	} {
		if _, err := New(c.dt, c.shape...); !errors.Is(err, c.kind) {
			t.Errorf("New(%v, %v): %v, want %v", c.dt, c.shape, err, c.kind)
		}
	}
}

// TestOver shows that Over borrows its data, and refuses data of the wrong length.
func TestOver(t *testing.T) {
	data := []byte{1, 2, 3}
	a := Must(Over(dtype.U8, []int64{3}, data))
	a.SetInt(1, 9)
	if data[1] != 9 {
		t.Error("Over copied")
	}
	for _, c := range []struct {
		dt    dtype.DType
		shape []int64
		size  int
	}{{dtype.F32, []int64{1}, 3}, {dtype.F32, []int64{1}, 5}, {dtype.U4, []int64{3}, 1}, {dtype.String, []int64{0}, 0},
		{dtype.F32, []int64{-1}, 0}, {dtype.Invalid, []int64{0}, 0}} {
		if _, err := Over(c.dt, c.shape, make([]byte, c.size)); !errors.Is(err, diag.ErrInput) {
			t.Errorf("Over(%v, %v, %d bytes): %v", c.dt, c.shape, c.size, err)
		}
	}
	if _, err := OverStrings([]int64{2}, []string{"a"}); !errors.Is(err, diag.ErrInput) {
		t.Errorf("OverStrings: %v", err)
	}
}

// element tests FromSlice, Data, Scalar and Of for one Go type.
func element[T interface {
	comparable
	Element
}](t *testing.T, want dtype.DType, x, y T) {
	t.Helper()
	data := []T{x, y, x, x, y, y}
	a, err := FromSlice(data, 2, 3)
	if err != nil || a.DType() != want || a.Len() != 6 {
		t.Fatalf("%v: %v, %v", want, a, err)
	}
	view, err := Data[T](a)
	if err != nil || !slices.Equal(view, data) {
		t.Fatalf("%v: %v, %v", want, view, err)
	}
	if view[1] = x; data[1] != x {
		t.Errorf("%v: Data copied", want)
	}
	if s := Scalar(y); s.Rank() != 0 || s.Len() != 1 || !s.Equal(Must(Of(y).Reshape())) {
		t.Errorf("%v: Scalar gave %v", want, s)
	}
	if empty, err := Data[T](Of[T]()); err != nil || len(empty) != 0 {
		t.Errorf("%v: an empty tensor's data is %v, %v", want, empty, err)
	}
	if _, err := FromSlice(data, 5); !errors.Is(err, diag.ErrInput) {
		t.Errorf("%v: FromSlice with a wrong shape: %v", want, err)
	}
	if c := a.Clone(); !c.Equal(a) || !c.Equal(Must(c.Reshape(2, 3))) || c.Equal(Must(c.Reshape(3, 2))) {
		t.Errorf("%v: Clone", want)
	}
}

// TestElements tests FromSlice, Data, Scalar and Of for every Go type, and refuses other types and unaligned data.
func TestElements(t *testing.T) {
	element(t, dtype.Bool, true, false)
	element[uint8](t, dtype.U8, 1, 255)
	element[int8](t, dtype.I8, 1, -128)
	element[uint16](t, dtype.U16, 1, 65535)
	element[int16](t, dtype.I16, 1, -32768)
	element[uint32](t, dtype.U32, 1, math.MaxUint32)
	element[int32](t, dtype.I32, 1, math.MinInt32)
	element[uint64](t, dtype.U64, 1, math.MaxUint64)
	element[int64](t, dtype.I64, 1, math.MinInt64)
	element[float32](t, dtype.F32, 1.5, -2)
	element[float64](t, dtype.F64, 1.5, -2)
	element[complex64](t, dtype.C64, 1+2i, -2i)
	element[complex128](t, dtype.C128, 1+2i, -2i)
	element(t, dtype.String, "a", "")

	half := Must(New(dtype.F16, 2))
	half.SetFloat(1, 1)
	if codes, err := Data[uint16](half); err != nil || codes[1] != 0x3c00 {
		t.Errorf("codes of f16: %v, %v", codes, err)
	}
	nibbles := Must(New(dtype.I4, 3))
	nibbles.SetInt(0, -1)
	nibbles.SetInt(2, 5)
	if packed, err := Data[uint8](nibbles); err != nil || !bytes.Equal(packed, []byte{0x0f, 0x05}) {
		t.Errorf("bytes of i4: %v, %v", packed, err)
	}
	if _, err := Data[float32](half); !errors.Is(err, diag.ErrInput) {
		t.Errorf("f16 seen as float32: %v", err)
	}
	if _, err := Data[int32](Of[uint32](1)); !errors.Is(err, diag.ErrInput) {
		t.Errorf("u32 seen as int32: %v", err)
	}
	odd := Must(Over(dtype.F32, []int64{1}, make([]byte, 5)[1:]))
	if _, err := Data[float32](odd); !errors.Is(err, diag.ErrInput) {
		t.Errorf("unaligned data seen as float32: %v", err)
	}
	if odd.SetFloat(0, 2.5); odd.Float(0) != 2.5 {
		t.Errorf("unaligned element: %v", odd.Float(0))
	}
}

// TestIndexPanics shows that the unused codes of a last byte cannot be accessed.
func TestIndexPanics(t *testing.T) {
	a := Must(New(dtype.U4, 3))
	for _, i := range []int64{-1, 3, 1 << 40} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("element %d of 3 was read", i)
				}
			}()
			a.Int(i)
		}()
	}
}

// TestViews shows that Reshape, Rows and BitCast are views, and refuses impossible ones.
func TestViews(t *testing.T) {
	a := Of[int32](0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	m := Must(a.Reshape(3, 4))
	part := Must(m.Rows(1, 3))
	if want := Must(FromSlice([]int32{4, 5, 6, 7, 8, 9, 10, 11}, 2, 4)); !part.Equal(want) {
		t.Errorf("Rows: %v", part)
	}
	if part.SetInt(0, -1); a.Int(4) != -1 {
		t.Error("a view of a view copied")
	}
	if empty := Must(m.Rows(2, 2)); empty.Len() != 0 || !slices.Equal(empty.Shape(), []int64{0, 4}) {
		t.Errorf("an empty part: %v", empty)
	}
	if part := Must(Must(New(dtype.F32, 4, 0, 3)).Rows(1, 3)); !slices.Equal(part.Shape(), []int64{2, 0, 3}) ||
		part.Len() != 0 {
		t.Errorf("a part of nothing: %v", part)
	}
	texts := Must(Of("a", "b", "c").Rows(1, 3))
	if !texts.Equal(Of("b", "c")) {
		t.Errorf("a part of strings: %v", texts)
	}
	nibbles := Must(New(dtype.U4, 3, 3))
	if _, err := nibbles.Rows(1, 2); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a part inside a byte: %v", err)
	}
	if _, err := nibbles.Rows(2, 3); err != nil {
		t.Errorf("a part at a byte: %v", err)
	}
	words := Must(Of[float32](1, 2).BitCast(dtype.U32, 1, 2))
	if words.Int(0) != 0x3f800000 {
		t.Errorf("BitCast: %v", words)
	}
	for name, f := range map[string]func() (*Tensor, error){
		"reshape to another count":    func() (*Tensor, error) { return a.Reshape(5) },
		"reshape to negative":         func() (*Tensor, error) { return a.Reshape(-3, -4) },
		"part of a scalar":            func() (*Tensor, error) { return Scalar(1.0).Rows(0, 1) },
		"part past the end":           func() (*Tensor, error) { return a.Rows(3, 13) },
		"part backwards":              func() (*Tensor, error) { return a.Rows(3, 2) },
		"part before the beginning":   func() (*Tensor, error) { return a.Rows(-1, 2) },
		"bit cast to another size":    func() (*Tensor, error) { return a.BitCast(dtype.I64, 12) },
		"bit cast of strings":         func() (*Tensor, error) { return texts.BitCast(dtype.I64, 2) },
		"bit cast to an invalid type": func() (*Tensor, error) { return a.BitCast(dtype.Invalid, 2) },
	} {
		if v, err := f(); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

// TestEqual compares to the bit: 0 and −0 differ, equal NaNs are equal, and unused bits do not count.
func TestEqual(t *testing.T) {
	nan := math.NaN()
	zero, minus := Of(0.0), Of(math.Copysign(0, -1))
	if zero.Equal(minus) || !Of(nan).Equal(Of(nan)) || Of[int32](1).Equal(Of[uint32](1)) || Of("a").Equal(Of("b")) ||
		!Of("a").Equal(Of("a")) {
		t.Error("Equal")
	}
	for _, dt := range []dtype.DType{dtype.U2, dtype.I4} {
		a, b := Must(New(dt, 3)), Must(New(dt, 3))
		last := len(b.Bytes()) - 1
		b.Bytes()[last] |= 0xc0 // past the last element
		if !a.Equal(b) {
			t.Errorf("%v: unused bits count", dt)
		}
		if b.SetInt(2, 1); a.Equal(b) {
			t.Errorf("%v: the last element does not count", dt)
		}
	}
}

// TestConvert converts floats to integers that wrap, and strings only to strings.
func TestConvert(t *testing.T) {
	a := Must(Of(1.5, -2.5, 300).Convert(dtype.I8, true))
	if !a.Equal(Of[int8](1, -2, 44)) {
		t.Errorf("Convert: %v", a)
	}
	if _, err := Of("1").Convert(dtype.F32, true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("strings to f32: %v", err)
	}
	if same, err := Of("1").Convert(dtype.String, true); err != nil || !same.Equal(Of("1")) {
		t.Errorf("strings to strings: %v", err)
	}
}

// TestString prints tensors: all elements of small ones, the first of large ones.
func TestString(t *testing.T) {
	for _, c := range []struct {
		t    *Tensor
		want string
	}{
		{Scalar[float32](0.1), "f32[]{0.1}"},
		{Must(FromSlice([]int64{1, -2, 3, 4}, 2, 2)), "i64[2,2]{1, -2, 3, 4}"},
		{Of[uint64](math.MaxUint64), "u64[1]{18446744073709551615}"},
		{Of(true, false), "bool[2]{true, false}"},
		{Of("a\n"), `string[1]{"a\n"}`},
		{Of[complex64](1 - 0.1i), "c64[1]{(1-0.1i)}"},
		{Of(0.1 + 2i), "c128[1]{(0.1+2i)}"},
		{Must(New(dtype.U8, 10)), "u8[10]{0, 0, 0, 0, 0, 0, 0, 0, …}"},
		{Must(New(dtype.F16, 0, 2)), "f16[0,2]{}"},
		{Of(math.NaN(), math.Inf(-1)), "f64[2]{NaN, -Inf}"},
	} {
		if got := c.t.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestEach compares Each, Unravel, Strides and Offset with each other and with counting.
func TestEach(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		shape := make([]int64, random.IntN(5))
		for axis := range shape {
			shape[axis] = random.Int64N(4)
		}
		n, _ := Count(shape)
		strides, at := Strides(shape), make([]int64, len(shape))
		i := int64(0)
		Each(shape, func(idx []int64) {
			Unravel(i, shape, at)
			if !slices.Equal(idx, at) || Offset(strides, idx) != i {
				t.Fatalf("shape %v, element %d: %v, %v, %d", shape, i, idx, at, Offset(strides, idx))
			}
			i++
		})
		if i != n {
			t.Errorf("shape %v: %d calls, want %d", shape, i, n)
		}
	}
}

// TestCompare compares within tolerances, and shows the errors for tensors that differ.
func TestCompare(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name       string
		got, want  *Tensor
		rtol, atol float64
		message    string // "": no error
	}{
		{"same", Of(1.0, 2), Of(1.0, 2), 0, 0, ""},
		{"signs of zero", Of(0.0), Of(math.Copysign(0, -1)), 0, 0, ""},
		{"NaN and NaN", Of(nan), Of(-nan), 0, 0, ""},
		{"infinities", Of(inf, -inf), Of(inf, -inf), 0, 0, ""},
		{"relative", Of(100.9), Of(100.0), 0.01, 0, ""},
		{"relative of want, not of got", Of(100.0), Of(99.0), 0.01, 0, "element [0] is 100, not 99"},
		{"absolute", Of(0.5), Of(0.0), 0, 0.5, ""},
		{"both", Of(101.4), Of(100.0), 0.01, 0.5, ""},
		{"element named", Must(FromSlice([]float32{1, 2, 3, 4}, 2, 2)), Must(FromSlice([]float32{1, 2, 5, 8}, 2, 2)), 0, 0.1,
			"element [1,0] is 3, not 5; 2 of 4 elements differ, by at most 4"},
		{"NaN and number", Of(nan), Of(1.0), 1, 1e9, "element [0] is NaN, not 1"},
		{"number and NaN", Of(1.0), Of(nan), 1, 1e9, "element [0] is 1, not NaN"},
		{"infinity and number", Of(inf), Of(1e308), 1, 1e9, "element [0] is +Inf, not 1e+308"},
		{"number and infinity", Of(1e308), Of(inf), 1, 1e9, "element [0] is 1e+308, not +Inf"},
		{"infinities of two signs", Of(inf), Of(-inf), 1, 1e9, "element [0] is +Inf, not -Inf"},
		{"type", Of(1.0), Of[float32](1), 1, 1, "the element type is f64, not f32"},
		{"shape", Of(1.0), Scalar(1.0), 1, 1, "the shape is [1], not []"},
		{"integers beyond 2⁵³", Of[int64](1<<60 + 1), Of[int64](1 << 60), 0, 0,
			"element [0] is 1152921504606846977, not 1152921504606846976"},
		{"extreme integers", Of[int64](math.MinInt64), Of[int64](math.MaxInt64), 0, 1,
			"element [0] is -9223372036854775808, not 9223372036854775807"},
		{"unsigned", Of[uint64](math.MaxUint64), Of[uint64](0), 0, 1, "element [0] is 18446744073709551615, not 0"},
		{"integers within", Of[uint8](7), Of[uint8](8), 0, 1, ""},
		{"bool", Of(true), Of(false), 10, 10, "element [0] is true, not false"},
		{"strings", Of("a", "b"), Of("a", "c"), 10, 10, `element [1] is "b", not "c"`},
		{"complex", Of(3 + 4i), Of(3 + 4.1i), 0, 0.2, ""},
		{"complex apart", Of(3 + 4i), Of(3 + 5i), 0, 0.2, "element [0] is (3+4i), not (3+5i)"},
		{"complex NaN", Of(complex(nan, 1)), Of(complex(nan, 1.1)), 0.1, 0.2, ""},
		{"nothing", Must(New(dtype.F32, 0)), Must(New(dtype.F32, 0)), 0, 0, ""},
	} {
		err := Compare(c.got, c.want, c.rtol, c.atol)
		switch {
		case c.message == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.message != "" && (err == nil || !strings.HasPrefix(err.Error(), c.message) || !errors.Is(err, diag.ErrInput)):
			t.Errorf("%s: %v, want %s", c.name, err, c.message)
		}
	}
}
