package array_test

import (
	"bytes"
	"compress/gzip"
	le "encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"math"
	"os"
	"os/exec"
	"testing"
)

// golden is the file of NumPy's results for the cases of TestNumPy.
const golden = "testdata/numpy.gz"

// npResults returns NumPy's results of cases, from the golden file or from NumPy.
func npResults(t *testing.T, cases []npCase) []npResult {
	t.Helper()
	python := os.Getenv("WEIR_NUMPY")
	if python == "" && *rewrite {
		t.Fatal("-rewrite, and WEIR_NUMPY names no Python with NumPy")
	}
	if python == "" {
		return readGolden(t, cases)
	}
	results := asked(t, python, cases)
	if *rewrite {
		writeGolden(t, cases, results)
		return readGolden(t, cases)
	}
	return results
}

// asked lets NumPy compute cases.
func asked(t *testing.T, python string, cases []npCase) (results []npResult) {
	t.Helper()
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(python, "testdata/numpy_reference.py")
	run.Stdin, run.Stderr = bytes.NewReader(input), os.Stderr
	output, err := run.Output()
	if err == nil {
		err = json.Unmarshal(output, &results)
	}
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// sumOf returns a checksum of a case, by which the golden file belongs to these cases.
func sumOf(t *testing.T, c npCase) uint32 {
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return crc32.ChecksumIEEE(data)
}

// The golden file has, for each case in turn: its checksum; the kind of the result, 'e' for an error; and, unless it is
// an error, the bits of its elements, its rank and extents, and the elements in as many bytes. Floats of 16 bits are
// stored in 32; the difference from NumPy's result, computed in 64 bits, is smaller than tests allow.

func writeGolden(t *testing.T, cases []npCase, results []npResult) {
	t.Helper()
	var b bytes.Buffer
	number := func(x any) { le.Write(&b, le.LittleEndian, x) }
	for i, r := range results {
		number(sumOf(t, cases[i]))
		if r.Error != "" {
			number(uint8('e'))
			continue
		}
		width := storedWidth(cases[i], r)
		number([]uint8{r.Kind[0], uint8(r.Bits), uint8(width), uint8(len(r.Shape))})
		for _, e := range r.Shape {
			number(uint16(e))
		}
		for at := 0; at < len(r.Data); at += len(r.Data) / max(1, elementCount(r.Shape)) {
			switch {
			case r.Kind == "b":
				b.WriteByte(r.Data[at])
			case r.Kind == "f" && width == 4:
				number(float32(math.Float64frombits(le.LittleEndian.Uint64(r.Data[at:]))))
			default:
				b.Write(r.Data[at : at+width])
			}
		}
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	z.Write(b.Bytes())
	z.Close()
	if err := os.WriteFile(golden, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// storedWidth returns the bytes of a stored element of a result.
func storedWidth(c npCase, r npResult) int {
	if r.Kind != "f" {
		return max(1, r.Bits/8)
	}
	for _, in := range c.Inputs {
		if in.Type == "f64" {
			return 8
		}
	}
	return 4
}

func elementCount(shape []int) int {
	n := 1
	for _, e := range shape {
		n *= e
	}
	return n
}

func readGolden(t *testing.T, cases []npCase) []npResult {
	t.Helper()
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.NewReader(data)
	number := func(x any) {
		if err := le.Read(b, le.LittleEndian, x); err != nil {
			t.Fatalf("%s: %v", golden, err)
		}
	}
	results := make([]npResult, len(cases))
	for i, c := range cases {
		var sum uint32
		if number(&sum); sum != sumOf(t, c) {
			t.Fatalf("%s is not of case %d, %s: write it anew, with WEIR_NUMPY=… go test ./array -run TestNumPy -rewrite",
				golden, i, c.Expr)
		}
		results[i] = readResult(number)
	}
	if b.Len() > 0 {
		t.Fatalf("%s has more than %d cases: write it anew", golden, len(cases))
	}
	return results
}

func readResult(number func(x any)) (r npResult) {
	var kind uint8
	if number(&kind); kind == 'e' {
		r.Error = "an error"
		return r
	}
	var head [3]uint8 // bits, width, rank
	number(&head)
	r.Kind, r.Bits, r.Shape = string(kind), int(head[0]), make([]int, head[2])
	for i := range r.Shape {
		var e uint16
		number(&e)
		r.Shape[i] = int(e)
	}
	for range elementCount(r.Shape) {
		one := make([]byte, head[1])
		number(one)
		r.Data = append(r.Data, widened(r.Kind, one)...)
	}
	return r
}

// widened returns a stored element in 64 bits, or in 8 if it is a bool.
func widened(kind string, one []byte) []byte {
	var wide [8]byte
	copy(wide[:], one)
	switch {
	case kind == "b":
		return one
	case kind == "f" && len(one) == 4:
		x := math.Float32frombits(le.LittleEndian.Uint32(one))
		return le.LittleEndian.AppendUint64(nil, math.Float64bits(float64(x)))
	case kind == "i" && one[len(one)-1]&0x80 != 0:
		for i := len(one); i < 8; i++ {
			wide[i] = 0xff
		}
	}
	return wide[:]
}
