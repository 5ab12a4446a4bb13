package dtype

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"testing"
)

// TestGolden compares conversions with the results of ml_dtypes, NumPy and ONNX's reference in testdata;
// testdata/golden.py describes the lines and their inputs.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "table" {
			checkTable(t, fields[1], fields[2:])
			continue
		}
		src, dst := mustParse(t, fields[0]), mustParse(t, fields[1])
		if got := fmt.Sprintf("%08x", goldenSum(t, src, dst, fields[2])); got != fields[3] {
			t.Errorf("%v to %v, %s: checksum %s, want %s", src, dst, fields[2], got, fields[3])
		}
	}
}

// mustParse returns the type of a name, which must exist.
func mustParse(t *testing.T, name string) DType {
	t.Helper()
	dt, ok := Parse(name)
	if !ok {
		t.Fatalf("no type is called %s", name)
	}
	return dt
}

// checkTable compares the value of every code of a type with a line of values.
func checkTable(t *testing.T, name string, want []string) {
	dt := mustParse(t, name)
	if len(want) != 1<<dt.Bits() {
		t.Fatalf("%v: %d values", dt, len(want))
	}
	for code, want := range want {
		x := float32(Decode(dt, uint16(code)))
		got := fmt.Sprintf("%08x", math.Float32bits(x))
		if x != x {
			got = "nan"
		}
		if got != want {
			t.Errorf("%v code %#x: value %s, want %s", dt, code, got, want)
		}
	}
}

// goldenSum converts the inputs of a line and returns the checksum of the results, little-endian, each code in one or
// more bytes.
func goldenSum(t *testing.T, src, dst DType, mode string) uint32 {
	inputs := goldenInputs(src, dst, mode)
	n := int64(len(inputs))
	input := make([]byte, n*int64(max(src.Bits(), 8))/8)
	for i, word := range inputs {
		storeBits(src, input, int64(i), uint64(word))
	}
	size, err := dst.Bytes(n)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, size)
	saturate := strings.HasSuffix(mode, "saturate")
	round := map[string]Round{"up": Up, "down": Down, "nearest": Nearest}[strings.TrimSuffix(mode, "-saturate")]
	ConvertSliceRound(dst, out, src, input, n, saturate, round)
	var codes []byte
	for i := range n {
		switch word := loadBits(dst, out, i); {
		case dst.IsInt():
			codes = append(codes, byte(LoadInt(dst, out, i)))
		case dst.Bits() <= 8:
			codes = append(codes, byte(word))
		case dst.Bits() == 16:
			codes = binary.LittleEndian.AppendUint16(codes, uint16(word))
		default:
			codes = binary.LittleEndian.AppendUint32(codes, uint32(word))
		}
	}
	return crc32.ChecksumIEEE(codes)
}

// goldenInputs returns the inputs of a line, as testdata/golden.py computes them.
func goldenInputs(src, dst DType, mode string) []uint32 {
	var words []uint32
	switch {
	case src == F32:
		for _, low := range []uint32{0x0000, 0x0001, 0x1000, 0x1fff} {
			for high := range uint32(1 << 19) {
				word := high<<13 | low
				x := math.Float32frombits(word)
				if dst == F8E8M0 && (word < 0x00800000 || word >= 0x7f800000) || mode == "no-nan" && x != x {
					continue
				}
				words = append(words, word)
			}
		}
	case src == F16 && dst.IsInt():
		for x := float32(-300); x < 300; x += 0.25 {
			words = append(words, uint32(F16FromF32(x)))
		}
	case src.IsSigned() && src.Bits() < 16: // from the least to the greatest
		for code := range uint32(1) << src.Bits() {
			words = append(words, code+1<<(src.Bits()-1))
		}
	default:
		for code := range uint32(1) << src.Bits() {
			if mode == "no-nan" && math.IsNaN(Decode(src, uint16(code))) {
				continue
			}
			words = append(words, code)
		}
	}
	return words
}
