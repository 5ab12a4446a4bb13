package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// file returns a file with a table and body bytes of elements.
func file(table string, body int) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(table))), table...), make([]byte, body)...)
}

// TestRoundTrip writes a table and reads it again; types that the format lacks are refused.
func TestRoundTrip(t *testing.T) {
	list := []Entry{{"a", dtype.F32, []int64{2, 3}, 0, 24}, {`odd "name"`, dtype.Bool, []int64{}, 24, 25},
		{"empty", dtype.I64, []int64{0, 4}, 25, 25},
		{"b", dtype.BF16, []int64{5}, 25, 35}}
	var b bytes.Buffer
	if err := WriteTable(&b, list, map[string]string{"format": "pt"}); err != nil {
		t.Fatal(err)
	}
	if b.Len()%8 != 0 {
		t.Errorf("elements begin at byte %d", b.Len())
	}
	got, meta, err := ReadTable(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, list) || meta["format"] != "pt" {
		t.Errorf("%v %v", got, meta)
	}
	if err := WriteTable(&b, []Entry{list[0], list[0]}, nil); err == nil {
		t.Error("two tensors of one name are written")
	}
	if err := WriteTable(&b, []Entry{{Name: "x", DType: dtype.String}}, nil); !errors.Is(err, diag.ErrUnsupported) {
		t.Error(err)
	}
}

// TestHostile reads files whose tables are wrong.
func TestHostile(t *testing.T) {
	f32 := func(name, shape, offsets string) string {
		return `"` + name + `":{"dtype":"F32","shape":` + shape + `,"data_offsets":` + offsets + `}`
	}
	huge := binary.LittleEndian.AppendUint64(nil, 1<<40)
	long := binary.LittleEndian.AppendUint64(nil, 50_000_000)
	cases := []struct {
		name string
		data []byte
		says string
	}{
		{"nothing", nil, "ends within the length"},
		{"half a length", []byte{1, 2, 3}, "ends within the length"},
		{"a huge table", huge, "no safetensors file"},
		{"a table that is not there", append(long, "{}"...), "ends within the table"},
		{"no JSON", file("hello", 0), "no JSON"},
		{"a list", file("[]", 0), "no JSON object"},
		{"an open object", file(`{"a":{}`, 0), ""},
		{"something after", file("{} {}", 0), "follows"},
		{"a name twice", file("{"+f32("x", "[1]", "[0,4]")+","+f32("x", "[1]", "[0,4]")+"}", 4), "twice"},
		{"an unknown type", file(`{"x":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}`, 4), "F31"},
		{"a shape below zero", file("{"+f32("x", "[-1]", "[0,4]")+"}", 4), "shape"},
		{"a shape that overflows", file("{"+f32("x", "[9223372036854775807,3]", "[0,24]")+"}", 24), "shape"},
		{"a shape that wraps to few", file("{"+f32("x", "[4294967296,4294967296]", "[0,0]")+"}", 0), "shape"},
		{"too few bytes", file("{"+f32("x", "[2]", "[0,4]")+"}", 4), "has 8"},
		{"backwards", file("{"+f32("x", "[1]", "[4,0]")+"}", 4), "bytes 4 to 0"},
		{"before the file", file("{"+f32("x", "[1]", "[-4,0]")+"}", 4), "bytes -4"},
		{"overlapping", file("{"+f32("x", "[2]", "[0,8]")+","+f32("y", "[2]", "[4,12]")+"}", 12), "begins at byte 4"},
		{"a gap", file("{"+f32("x", "[1]", "[0,4]")+","+f32("y", "[1]", "[8,12]")+"}", 12), "begins at byte 8"},
		{"not from 0", file("{"+f32("x", "[1]", "[4,8]")+"}", 8), "begins at byte 4"},
		{"wrong fields", file(`{"x":3}`, 0), "entry"},
		{"offsets that are no integers", file("{"+f32("x", "[1]", "[0.5,4]")+"}", 4), "entry"},
	}
	for _, c := range cases {
		_, _, err := ReadTable(bytes.NewReader(c.data))
		var e *diag.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzReadTable checks that reading never panics, and that a table that was read can be written and read again.
func FuzzReadTable(f *testing.F) {
	f.Add(file(`{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"a":"b"}}`, 24))
	f.Add(file(`{"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, meta, err := ReadTable(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteTable(&b, list, meta); err != nil {
			t.Fatal(err)
		}
		again, _, err := ReadTable(&b)
		if err != nil || len(again) != len(list) {
			t.Fatalf("%v: %v", list, err)
		}
	})
}
