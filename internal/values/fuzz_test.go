package values

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// fuzzBytes is the most bytes of Go's heap that reading a small file may allocate.
const fuzzBytes = 64 << 20

// asked are the inputs for which values are read.
var asked = []weir.Info{
	{Name: "x", DType: weir.F32, Shape: []weir.Extent{{Size: 2}, {Size: 3}}},
	{Name: "x", DType: weir.I64, Shape: []weir.Extent{{Size: -1, Dim: "n"}}},
	{Name: "x", DType: weir.F32, Shape: []weir.Extent{{Size: 1}, {Size: 3}, {Size: -1, Dim: "h"}, {Size: -1, Dim: "w"}}},
	{Name: "x", DType: weir.U8, Shape: []weir.Extent{{Size: -1, Dim: "n"}, {Size: 4}, {Size: 4}, {Size: 1}}},
	{Name: "x", DType: weir.Bool, Shape: nil},
	{Name: "x", DType: weir.StringType, Shape: []weir.Extent{{Size: -1, Dim: "n"}}},
	{Name: "x", DType: weir.F16, Shape: []weir.Extent{{Size: -1, Dim: "n"}, {Size: -1, Dim: "n+1"}}},
}

// reads reads a value. The result must be a tensor or an error with a kind, and the memory within fuzzBytes.
func reads(t *testing.T, value string, info weir.Info) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	held := weir.Usage().Current
	r := Reader{Dims: weir.Dims{}, Stdin: strings.NewReader("")}
	x, err := r.Tensor(value, info)
	if err == nil {
		err = x.Close()
	}
	runtime.ReadMemStats(&after)
	var e *weir.Error
	if err != nil && (!errors.As(err, &e) || errors.Is(err, weir.ErrInternal)) {
		t.Fatalf("%v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > fuzzBytes {
		t.Fatalf("%d bytes were allocated: %v", took, err)
	}
	if now := weir.Usage().Current; now != held {
		t.Fatalf("%d bytes are held: %v", now-held, err)
	}
}

// safetensorsFile returns a safetensors file of a JSON table and the tensors' bytes.
func safetensorsFile(table string, body ...byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(table))), append([]byte(table), body...)...)
}

// FuzzValue reads literals, and files of every kind but images.
func FuzzValue(f *testing.F) {
	kinds := []string{"", ".json", ".safetensors", ".pb", ".bin", ".txt", ".npy", ".npz"}
	for i, text := range []string{"[[1,2,3],[4,5,6]]", `["a","b"]`, "[1,-2,3.5e3,true]", "[[],[]]",
		strings.Repeat("[", 100) + strings.Repeat("]", 100), "[[1,1,1,1,1,1],[],[],[]]", "9223372036854775808"} {
		f.Add([]byte(text), byte(i%2), byte(i))
	}
	f.Add(safetensorsFile(`{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"__metadata__":{"a":"b"}}`,
		make([]byte, 24)...), byte(2), byte(0))
	f.Add(safetensorsFile(`{"x":{"dtype":"U8","shape":[1,4,4,1],"data_offsets":[0,16]}}`, make([]byte, 16)...), byte(2),
		byte(3))
	f.Add(safetensorsFile(`{"x":{"dtype":"F32","shape":[9223372036854775807,3],"data_offsets":[0,24]}}`), byte(2), byte(0))
	f.Add(wire.FromTensor("x", tensor.Of[float32](1, 2, 3)).Marshal(), byte(3), byte(0))
	f.Add(make([]byte, 24), byte(4), byte(0))
	path := filepath.Join(f.TempDir(), "value")
	f.Fuzz(func(t *testing.T, data []byte, kind, input byte) {
		info := asked[int(input)%len(asked)]
		ext := kinds[int(kind)%len(kinds)]
		if ext == "" {
			if text := string(data); literal(text) {
				reads(t, text, info)
			}
			return
		}
		if err := os.WriteFile(path+ext, data, 0o666); err != nil {
			t.Fatal(err)
		}
		reads(t, path+ext, info)
	})
}

// FuzzImage reads pictures, for inputs of every layout.
func FuzzImage(f *testing.F) {
	for i, picture := range []image.Image{image.NewGray(image.Rect(0, 0, 5, 3)), image.NewNRGBA(image.Rect(0, 0, 4, 4)),
		image.NewRGBA64(image.Rect(0, 0, 2, 2)),
		image.NewPaletted(image.Rect(0, 0, 3, 3), color.Palette{color.Black, color.White})} {
		var p, j bytes.Buffer
		if err := png.Encode(&p, picture); err != nil {
			f.Fatal(err)
		}
		if err := jpeg.Encode(&j, picture, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(p.Bytes(), byte(i), "scale=1/255&layout=nhwc")
		f.Add(j.Bytes(), byte(i), "mean=1,2,3&std=0.5")
	}
	path := filepath.Join(f.TempDir(), "value.png")
	f.Fuzz(func(t *testing.T, data []byte, input byte, query string) {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		reads(t, path+"?"+query, asked[int(input)%len(asked)])
	})
}

// TestValueBombs: small files and literals that declare huge tensors are refused.
func TestValueBombs(t *testing.T) {
	deep := "[" + strings.Repeat("1,", 200) + "1]"
	for range 4 {
		deep = "[" + deep + strings.Repeat(",[]", 200) + "]"
	}
	reads(t, deep, asked[0])
	reads(t, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), asked[0])
	picture := image.NewGray(image.Rect(0, 0, 1, 1))
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	for _, sides := range [][2]uint32{{8192, 8192}, {1 << 30, 1 << 30}, {1, 1 << 31}} {
		binary.BigEndian.PutUint32(data[16:], sides[0])
		binary.BigEndian.PutUint32(data[20:], sides[1])
		binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		path := filepath.Join(t.TempDir(), "x.png")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		r := Reader{Dims: weir.Dims{}}
		if _, err := r.Tensor(path, asked[2]); err == nil || !strings.Contains(err.Error(), "pixels") &&
			!strings.Contains(err.Error(), "dimension") {
			t.Errorf("%d × %d: %v", sides[0], sides[1], err)
		}
		reads(t, path, asked[2])
	}
	for _, path := range []string{t.TempDir(), fmt.Sprint(os.DevNull)} {
		r := Reader{Dims: weir.Dims{}}
		if _, err := r.file(path, "", asked[0]); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
