package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// numpyString returns the string that testdata/golden.py stores as element i.
func numpyString(i int64) string {
	if i == 0 {
		return ""
	}
	return string([]rune("é€😀")[:i%4]) + strconv.FormatInt(i, 10)
}

// numpyWant returns the array that golden.py stored under a name.
func numpyWant(t *testing.T, name string) *tensor.Tensor {
	t.Helper()
	fields := strings.Split(name, "_")
	var shape []int64
	if fields[4] != "scalar" {
		for d := range strings.SplitSeq(fields[4], "x") {
			n, err := strconv.ParseInt(d, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			shape = append(shape, n)
		}
	}
	dt, ok := kinds[fields[0]]
	if !ok {
		dt = dtype.String
	}
	want := tensor.Must(tensor.New(dt, shape...))
	for i := range want.Len() {
		if dt == dtype.String {
			want.Strings()[i] = numpyString(i)
		} else {
			want.SetInt(i, i)
		}
	}
	return want
}

// golden opens the archive that NumPy wrote, and returns each member's bytes too.
func golden(t testing.TB) (*Archive, map[string][]byte) {
	t.Helper()
	data, err := os.ReadFile("testdata/numpy.npz")
	if err != nil {
		t.Fatal(err)
	}
	archive, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	members := map[string][]byte{}
	for name, file := range archive.files {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		if members[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return archive, members
}

// TestNumPy reads NumPy's files in every way, and writes them again: with the same bytes if NumPy used the form that
// Write uses.
func TestNumPy(t *testing.T) {
	archive, members := golden(t)
	if len(archive.Names()) < 90 {
		t.Fatalf("%d arrays", len(archive.Names()))
	}
	same := 0
	for _, name := range archive.Names() {
		want, data := numpyWant(t, name), members[name]
		check := func(how string, got *tensor.Tensor, err error) {
			if err != nil || !got.Equal(want) {
				t.Errorf("%s, %s: %v, %v, want %v", name, how, got, err, want)
			}
		}
		got, err := archive.Read(name)
		check("archive", got, err)
		got, err = Read(bytes.NewReader(data))
		check("stream", got, err)
		got, err = Read(iotest.OneByteReader(bytes.NewReader(data)))
		check("one byte at a time", got, err)
		got, err = ReadAt(bytes.NewReader(data), int64(len(data)))
		check("ReadAt", got, err)

		var out bytes.Buffer
		if err := Write(&out, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err = Read(&out)
		check("written", got, err)
		if strings.Contains(name, "_little_C_1_") && !strings.HasPrefix(name, "S") && !strings.HasPrefix(name, "U") &&
			!bigMachine {
			var out bytes.Buffer
			if err := Write(&out, want); err != nil || !bytes.Equal(out.Bytes(), data) {
				t.Errorf("%s: written as %q, NumPy wrote %q", name, out.Bytes(), data)
			}
			same++
		}
	}
	if same < 20 && !bigMachine {
		t.Errorf("only %d files were compared byte for byte", same)
	}
}

// TestOneFile shows that Read stops at the end of the array: several arrays may follow each other in a stream.
func TestOneFile(t *testing.T) {
	var stream bytes.Buffer
	arrays := []*tensor.Tensor{tensor.Of[float32](1, 2), tensor.Of("a", "bc"), tensor.Scalar[int64](7)}
	for _, a := range arrays {
		if err := Write(&stream, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range arrays {
		if got, err := Read(&stream); err != nil || !got.Equal(want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if stream.Len() != 0 {
		t.Errorf("%d bytes are left", stream.Len())
	}
}

// TestLarge reads more data than Read takes memory for at once, in both memory orders.
func TestLarge(t *testing.T) {
	want := tensor.Must(tensor.New(dtype.U16, 1201, 1303))
	columns := tensor.Must(tensor.New(dtype.U16, 1303, 1201))
	for i := range want.Len() {
		want.SetInt(i, i)
		columns.SetInt(i%1303*1201+i/1303, i)
	}
	var file bytes.Buffer
	if err := Write(&file, want); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(bytes.NewReader(file.Bytes())); err != nil || !got.Equal(want) {
		t.Errorf("row-major: %v, %v", got, err)
	}
	data := build(1, "{'descr': '"+order(2)+"u2', 'fortran_order': True, 'shape': (1201, 1303)}", columns.Bytes())
	if got, err := Read(bytes.NewReader(data)); err != nil || !got.Equal(want) {
		t.Errorf("column-major: %v, %v", got, err)
	}
}

// TestWriteErrors refuses element types that NumPy lacks and strings that end in a NUL, and returns the writer's
// errors.
func TestWriteErrors(t *testing.T) {
	for _, dt := range dtype.All() {
		a := tensor.Must(tensor.New(dt, 2))
		err := Write(io.Discard, a)
		if Supports(dt) != (err == nil) || err != nil && !errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("%v: supported %v, error %v", dt, Supports(dt), err)
		}
	}
	if err := Write(io.Discard, tensor.Of("a\x00")); !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("a NUL at the end: %v", err)
	}
	var out bytes.Buffer
	odd := tensor.Of("\xff\xfe", "ok")
	if err := Write(&out, odd); err != nil || !strings.Contains(out.String(), "'|S2'") {
		t.Errorf("not UTF-8: %q, %v", out.String(), err)
	}
	if got, err := Read(&out); err != nil || !got.Equal(odd) {
		t.Errorf("not UTF-8: %v, %v", got, err)
	}
	for n := range 3 {
		if err := Write(&failing{n}, tensor.Of("a", "b")); n < 2 && !errors.Is(err, errFull) {
			t.Errorf("a full disk after %d writes: %v", n, err)
		}
	}
}

var errFull = errors.New("full")

// failing accepts some writes.
type failing struct{ left int }

// Write accepts data while writes are left, and then fails.
func (f *failing) Write(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errFull
	}
	f.left--
	return len(p), nil
}

// build returns a file; minor versions other than 0 are in the upper bits of version.
func build(version int, text string, data []byte) []byte {
	file := append([]byte(magic), byte(version), byte(version>>8))
	if version&0xff == 1 {
		file = binary.LittleEndian.AppendUint16(file, uint16(len(text)))
	} else {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(text)))
	}
	return append(append(file, text...), data...)
}

// describe returns the header's dictionary.
func describe(descr, shape string) string {
	return fmt.Sprintf("{'descr': %s, 'fortran_order': False, 'shape': %s}", descr, shape)
}

// TestMalformed has one file for each possible fault.
func TestMalformed(t *testing.T) {
	good := describe("'<f4'", "(1,)")
	four := make([]byte, 4)
	surrogate := []byte{0, 0xd8, 0, 0}
	for _, c := range []struct {
		name string
		file []byte
		kind error
		want string
	}{
		{"empty", nil, diag.ErrInput, "ends inside"},
		{"not npy", []byte("PK\x03\x04 and so on"), diag.ErrInput, "not a .npy file"},
		{"version 4", build(4, good, four), diag.ErrUnsupported, "version 4.0"},
		{"version 1.1", build(0x101, good, four), diag.ErrUnsupported, "version 1.1"},
		{"no length", build(1, good, nil)[:9], diag.ErrInput, "ends inside"},
		{"header cut", build(1, good, nil)[:30], diag.ErrInput, "ends inside"},
		{"huge header", build(2, strings.Repeat(" ", maxHeader+1), nil), diag.ErrInput, "more than 65536"},
		{"header length that lies", append([]byte(magic), 2, 0, 255, 255, 255, 255), diag.ErrInput, "more than 65536"},
		{"data cut", build(1, good, four[:3]), diag.ErrInput, "3 of the 4 bytes"},
		{"no data", build(1, good, nil), diag.ErrInput, "0 of the 4 bytes"},
		{"empty dictionary", build(1, "{}", nil), diag.ErrInput, "fortran_order"},
		{"empty header", build(1, "", nil), diag.ErrInput, "ends too early"},
		{"no dictionary", build(1, "(1, 2)", nil), diag.ErrInput, "no dictionary"},
		{"unknown key", build(1, "{'x': 1}", nil), diag.ErrInput, "unknown key"},
		{"key twice", build(1, "{'descr': 1, 'descr': 2}", nil), diag.ErrInput, "twice"},
		{"key of an integer", build(1, "{1: 1}", nil), diag.ErrInput, "key is no string"},
		{"no colon", build(1, "{'descr' 1}", nil), diag.ErrInput, "colon"},
		{"no comma", build(1, "{'descr': 1 'shape': 2}", nil), diag.ErrInput, "comma"},
		{"tuple without commas", build(1, describe("'<f4'", "(1 2)"), nil), diag.ErrInput, "comma"},
		{"string without end", build(1, "{'descr", nil), diag.ErrInput, "does not end"},
		{"string with an escape", build(1, `{'de\x73cr': 1}`, nil), diag.ErrInput, "backslash"},
		{"call", build(1, "{'descr': f()}", nil), diag.ErrInput, "no value"},
		{"nested", build(1, strings.Repeat("(", 1000), nil), diag.ErrInput, "deeply"},
		{"tail", build(1, good+"; 1", four), diag.ErrInput, "after the dictionary"},
		{"fortran_order 1", build(1, "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}", four), diag.ErrInput,
			"fortran_order"},
		{"shape integer", build(1, describe("'<f4'", "1"), four), diag.ErrInput, "no tuple"},
		{"shape in parentheses", build(1, describe("'<f4'", "(1)"), four), diag.ErrInput, "no tuple"},
		{"shape of strings", build(1, describe("'<f4'", "('1',)"), four), diag.ErrInput, "no integer"},
		{"shape of bools", build(1, describe("'<f4'", "(True,)"), four), diag.ErrInput, "no integer"},
		{"negative dimension", build(1, describe("'<f4'", "(-1,)"), four), diag.ErrInput, "negative"},
		{"dimension beyond 64 bits", build(1, describe("'<f4'", "(18446744073709551617,)"), four), diag.ErrInput, "64 bits"},
		{"lone minus", build(1, describe("'<f4'", "(-,)"), four), diag.ErrInput, "64 bits"},
		{"count beyond 64 bits", build(1, describe("'<f4'", "(4294967296, 4294967296)"), four), diag.ErrInput, "2⁶³"},
		{"bytes beyond 64 bits", build(1, describe("'<f8'", "(1152921504606846976,)"), four), diag.ErrInput, "2⁶³"},
		{"more than memory", build(1, describe("'<f8'", "(1125899906842624,)"), four), nil, ""},
		{"a gigabyte that is not there", build(1, describe("'<f8'", "(100000000,)"), four), diag.ErrInput,
			"4 of the 800000000 bytes"},
		{"rank", build(1, describe("'<f4'", "("+strings.Repeat("1, ", 100)+")"), four), diag.ErrInput, "rank"},
		{"no descr", build(1, "{'fortran_order': False, 'shape': ()}", four), diag.ErrInput, "descr is no string"},
		{"descr empty", build(1, describe("''", "()"), four), diag.ErrInput, "names no type"},
		{"descr of an order only", build(1, describe("'<'", "()"), four), diag.ErrInput, "names no type"},
		{"descr f3", build(1, describe("'<f3'", "()"), four), diag.ErrUnsupported, "<f3"},
		{"long double", build(1, describe("'<f16'", "()"), four), diag.ErrUnsupported, "<f16"},
		{"dates", build(1, describe("'<M8[ns]'", "()"), four), diag.ErrUnsupported, "<M8[ns]"},
		{"records", build(1, describe("[('a', '<f4'), ('b', '<i4')]", "()"), four), diag.ErrUnsupported, "records"},
		{"objects", build(1, describe("'|O'", "()"), four), diag.ErrUnsupported, "objects"},
		{"bfloat16", build(1, describe("'<V2'", "()"), four), diag.ErrUnsupported, "float8"},
		{"string without a width", build(1, describe("'<U'", "()"), four), diag.ErrInput, "width"},
		{"string of negative width", build(1, describe("'<U-1'", "()"), four), diag.ErrInput, "width"},
		{"string of a signed width", build(1, describe("'<U+1'", "()"), four), diag.ErrInput, "width"},
		{"string of huge width", build(1, describe("'<U99999999999'", "()"), four), diag.ErrInput, "width"},
		{"wide string that is not there", build(1, describe("'<U100000000'", "()"), four), diag.ErrInput, "4 of the"},
		{"endless empty strings", build(1, describe("'<U0'", "(1099511627776,)"), nil), diag.ErrInput, "no bytes"},
		{"surrogate", build(1, describe("'<U1'", "()"), surrogate), diag.ErrInput, "0xd800"},
		{"beyond Unicode", build(1, describe("'>U1'", "()"), []byte{0xff, 0, 0, 0}), diag.ErrInput, "0xff000000"},
	} {
		for how, readFile := range map[string]func() (*tensor.Tensor, error){
			"Read":   func() (*tensor.Tensor, error) { return Read(bytes.NewReader(c.file)) },
			"ReadAt": func() (*tensor.Tensor, error) { return ReadAt(bytes.NewReader(c.file), int64(len(c.file))) },
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := readFile()
			runtime.ReadMemStats(&after)
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, %v, want %v with %q", c.name, how, got, err, c.kind, c.want)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 4<<20 {
				t.Errorf("%s, %s: %d bytes were allocated", c.name, how, taken)
			}
		}
	}
}

// TestTolerated reads files as other writers may write them.
func TestTolerated(t *testing.T) {
	for name, file := range map[string][]byte{
		"no padding":     build(1, describe("'<f4'", "(1,)"), []byte{0, 0, 0x80, 0x3f}),
		"double quotes":  build(1, `{"descr":"<f4","fortran_order":False,"shape":(1,),}`, []byte{0, 0, 0x80, 0x3f}),
		"list":           build(1, describe("'<f4'", "[1]"), []byte{0, 0, 0x80, 0x3f}),
		"Python 2":       build(1, describe("'<f4'", "(1L,)"), []byte{0, 0, 0x80, 0x3f}),
		"big":            build(3, describe("'>f4'", "(1,)"), []byte{0x3f, 0x80, 0, 0}),
		"bytes after it": build(1, describe("'<f4'", "(1,)"), []byte{0, 0, 0x80, 0x3f, 9}),
	} {
		if got, err := Read(bytes.NewReader(file)); err != nil || !got.Equal(tensor.Of[float32](1)) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	file := build(1, describe("'|b1'", "(3,)"), []byte{0, 2, 255})
	if got, err := Read(bytes.NewReader(file)); err != nil || !got.Equal(tensor.Of(false, true, true)) {
		t.Errorf("bools: %v, %v", got, err)
	}
	file = build(1, describe("'<U0'", "(2,)"), nil)
	if got, err := Read(bytes.NewReader(file)); err != nil || !got.Equal(tensor.Of("", "")) {
		t.Errorf("strings of no width: %v, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := Read(iotest.ErrReader(broken)); !errors.Is(err, broken) || !errors.Is(err, diag.ErrInput) {
		t.Errorf("a broken reader: %v", err)
	}
	file = build(1, describe("'<f4'", "(1,)"), nil)
	if _, err := Read(io.MultiReader(bytes.NewReader(file), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a reader that breaks in the data: %v", err)
	}
}

// archiveOf builds an archive; method applies to every member.
func archiveOf(t testing.TB, method uint16, members ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		f, err := w.CreateHeader(&zip.FileHeader{Name: members[i], Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, members[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestArchive reads the arrays of an archive, and refuses each kind of broken archive.
func TestArchive(t *testing.T) {
	one := string(build(1, describe("'<i4'", "(1,)"), []byte{1, 0, 0, 0}))
	open := func(data []byte) (*Archive, error) { return Open(bytes.NewReader(data), int64(len(data))) }

	a, err := open(archiveOf(t, zip.Deflate, "b.npy", one, "notes.txt", "x", "../a.npy", one))
	if err != nil || !slices.Equal(a.Names(), []string{"b", "../a"}) {
		t.Fatalf("names %v, %v", a.Names(), err)
	}
	if got, err := a.Read("../a"); err != nil || !got.Equal(tensor.Of[int32](1)) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := a.Read("c"); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "it has: b, ../a") {
		t.Errorf("an array that is not there: %v", err)
	}
	if _, err := open([]byte("no zip")); !errors.Is(err, diag.ErrInput) {
		t.Errorf("no zip: %v", err)
	}
	if _, err := open(archiveOf(t, zip.Store, "a.npy", one, "a.npy", one)); !errors.Is(err, diag.ErrInput) {
		t.Errorf("the same name twice: %v", err)
	}

	directory := func(data []byte) int { return bytes.Index(data, []byte("PK\x01\x02")) }
	for _, c := range []struct {
		name   string
		method uint16
		text   string
		spoil  func(data []byte)
		kind   error
		want   string
	}{
		{"checksum", zip.Store, one, func(data []byte) {
			data[bytes.Index(data, []byte{1, 0, 0, 0, 'P'})]++
		}, diag.ErrInput, "checksum"},
		{"bytes after the array", zip.Deflate, one + "x", nil, diag.ErrInput, "does not end"},
		{"array cut short", zip.Deflate, one[:len(one)-1], nil, diag.ErrInput, "3 of the 4 bytes"},
		{"compression", zip.Store, one, func(data []byte) {
			data[directory(data)+10] = 93
		}, diag.ErrUnsupported, "method 93"},
		{"size that lies", zip.Store, one, func(data []byte) {
			binary.LittleEndian.PutUint32(data[directory(data)+24:], math.MaxInt32)
		}, diag.ErrInput, "does not have the"},
		{"both sizes lie", zip.Store, string(build(1, describe("'<i4'", "(500000000,)"), nil)), func(data []byte) {
			binary.LittleEndian.PutUint32(data[directory(data)+20:], math.MaxInt32)
			binary.LittleEndian.PutUint32(data[directory(data)+24:], math.MaxInt32)
		}, diag.ErrInput, "does not have the"},
	} {
		data := archiveOf(t, c.method, "a.npy", c.text)
		if c.spoil != nil {
			c.spoil(data)
		}
		a, err := open(data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := a.Read("a"); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %v with %q", c.name, got, err, c.kind, c.want)
		}
	}
}

// FuzzRead checks that reading never panics, that both ways of reading agree, and that a tensor that was read can be
// written and read again.
func FuzzRead(f *testing.F) {
	_, members := golden(f)
	for _, data := range members {
		f.Add(data)
	}
	f.Add(build(2, describe("'>U2'", "(1L, 1,)"), make([]byte, 8)))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, errA := Read(bytes.NewReader(data))
		b, errB := ReadAt(bytes.NewReader(data), int64(len(data)))
		if (errA == nil) != (errB == nil) {
			t.Fatalf("Read: %v; ReadAt: %v", errA, errB)
		}
		if errA != nil {
			if !errors.Is(errA, diag.ErrInput) && !errors.Is(errA, diag.ErrUnsupported) && !errors.Is(errA, diag.ErrMemory) {
				t.Fatalf("an error of no kind: %v", errA)
			}
			return
		}
		if !a.Equal(b) {
			t.Fatalf("%v, %v", a, b)
		}
		var out bytes.Buffer
		if err := Write(&out, a); err != nil {
			t.Fatal(err)
		}
		if back, err := Read(&out); err != nil || !back.Equal(a) {
			t.Fatalf("%v came back as %v, %v", a, back, err)
		}
	})
}

// FuzzArchive checks that no archive makes reading panic.
func FuzzArchive(f *testing.F) {
	one := string(build(1, describe("'<i4'", "(1,)"), []byte{1, 0, 0, 0}))
	f.Add(archiveOf(f, zip.Store, "a.npy", one, "b.npy", one))
	f.Add(archiveOf(f, zip.Deflate, "a.npy", one))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for _, name := range a.Names() {
			if array, err := a.Read(name); (array == nil) == (err == nil) {
				t.Fatalf("%v, %v", array, err)
			}
		}
	})
}
