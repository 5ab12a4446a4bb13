package oip

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
)

// TestRawContents checks that every output has raw contents, empty ones in shared memory: clients find an output's
// contents by its index.
func TestRawContents(t *testing.T) {
	one := Tensor{Name: "a", DType: weir.U8, Shape: []int{2}, Data: []byte{1, 2}}
	shared := one
	shared.Region = &Region{Name: "r", Size: 2}
	for _, list := range [][]Tensor{{one}, {shared}, {shared, one}, {one, shared}, {shared, shared}, {one, shared, one}} {
		var m ModelInferResponse
		encoded := bytes.Join((&Response{Model: "m", Outputs: list}).EncodeProto(), nil)
		if err := proto.Unmarshal(encoded, &m); err != nil {
			t.Fatal(err)
		}
		if len(m.Outputs) != len(list) || len(m.RawOutputContents) != len(list) {
			t.Fatalf("%d outputs: %d descriptions, %d contents", len(list), len(m.Outputs), len(m.RawOutputContents))
		}
		for i, raw := range m.RawOutputContents {
			if want := list[i].Region == nil; (len(raw) == 2) != want {
				t.Errorf("output %d of %d has %d bytes", i, len(list), len(raw))
			}
		}
	}
}

// TestFloatText checks floats as JSON text, negative zero above all: a text without a point is an integer to many
// readers, which loses the sign.
func TestFloatText(t *testing.T) {
	negative := math.Copysign(0, -1)
	for x, want := range map[float64]string{0: "[0]", 1.5: "[1.5]", -2: "[-2]", math.Inf(1): "[1e999]"} {
		checkText(t, x, want)
	}
	checkText(t, negative, "[-0.0]")
	checkText(t, math.NaN(), "[null]")
}

func checkText(t *testing.T, x float64, want string) {
	t.Helper()
	for _, dt := range []weir.DType{weir.F32, weir.F64, weir.F16, weir.BF16} {
		one := Tensor{DType: dt, Shape: []int{1}}
		switch bits := math.Float32bits(float32(x)); dt {
		case weir.F64:
			one.Data = binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
		case weir.F32:
			one.Data = binary.LittleEndian.AppendUint32(nil, bits)
		case weir.BF16:
			one.Data = binary.LittleEndian.AppendUint16(nil, uint16(bits>>16))
		default:
			small, err := weir.New(dt, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := small.SetFloats([]float32{float32(x)}); err != nil {
				t.Fatal(err)
			}
			one.Data = bytes.Clone(small.Bytes())
			small.Close()
		}
		var text bytes.Buffer
		if err := one.WriteElements(&text); err != nil || text.String() != want {
			t.Errorf("%v as %v is %q (%v), want %q", x, dt, text.String(), err, want)
		}
	}
}

// TestParameters checks parameters of JSON text.
func TestParameters(t *testing.T) {
	for text, want := range map[string]any{`"a\u0062"`: "ab", "true": true, "false": false, "7": int64(7), "-1": int64(-1),
		"1.5": 1.5, "1e2": 100.0, "9223372036854775807": int64(math.MaxInt64), "9223372036854775808": 0x1p63,
		"null": nil, "[1]": nil, `{"b": 1}`: nil, "1e999": nil} {
		var p Parameters
		err := json.Unmarshal([]byte(`{"x": `+text+` }`), &p)
		if got := p["x"]; got != want || (err == nil) != (want != nil) {
			t.Errorf("%s is %v (%v), want %v", text, got, err, want)
		}
	}
}
