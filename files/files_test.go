package files_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/files"
)

// TestNPY: tensors of every element type that NumPy has are written and read again.
func TestNPY(t *testing.T) {
	held := weir.Usage().Tensors
	for _, x := range []*weir.Tensor{weir.Scalar(1.5), weir.Scalar(int8(-3)), weir.Scalar(true), weir.Scalar("text"),
		weir.Scalar(complex64(2 + 1i)), must(weir.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)),
		must(weir.FromSlice([]uint16{}, 0, 4))} {
		var b bytes.Buffer
		if err := files.WriteNPY(&b, x); err != nil {
			t.Errorf("%s: %v", x, err)
			continue
		}
		b.WriteString("more")
		y, err := files.ReadNPY(&b)
		if err != nil {
			t.Errorf("%s: %v", x, err)
			continue
		}
		if x.String() != y.String() || !bytes.Equal(x.Bytes(), y.Bytes()) || b.String() != "more" {
			t.Errorf("%s %v is read as %s %v, before %q", x, x.Bytes(), y, y.Bytes(), &b)
		}
		y.Close()
	}
	if left := weir.Usage().Tensors; left != held {
		t.Errorf("%d bytes are left", left-held)
	}
	closed := must(weir.New(weir.F32, 2))
	closed.Close()
	if err := files.WriteNPY(io.Discard, closed); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a closed tensor: %v", err)
	}
	half := must(weir.New(weir.BF16, 2))
	defer half.Close()
	if err := files.WriteNPY(io.Discard, half); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("bf16: %v", err)
	}
	if err := files.WriteNPY(io.Discard, nil); !errors.Is(err, weir.ErrInput) {
		t.Errorf("no tensor: %v", err)
	}
}

func must(x *weir.Tensor, err error) *weir.Tensor {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

// TestNPZ: archives are read again, here and by NumPy.
func TestNPZ(t *testing.T) {
	in := map[string]*weir.Tensor{"x": must(weir.FromSlice([]float32{1, 2, 3, 4}, 2, 2)),
		"layer/ids": must(weir.FromSlice([]int64{7}))}
	var b bytes.Buffer
	if err := files.WriteNPZ(&b, in); err != nil {
		t.Fatal(err)
	}
	a, err := files.OpenNPZ(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if names := a.Names(); !slices.Equal(names, []string{"layer/ids", "x"}) {
		t.Errorf("%q", names)
	}
	for name, x := range in {
		y, err := a.Read(name)
		if err != nil || y.String() != x.String() || !bytes.Equal(y.Bytes(), x.Bytes()) {
			t.Errorf("%s: %v, %v", name, y, err)
			continue
		}
		y.Close()
	}
	if _, err := a.Read("y"); !errors.Is(err, weir.ErrInput) {
		t.Errorf("an array that is not there: %v", err)
	}
	if python := os.Getenv("WEIR_PYTHON"); python != "" {
		file := filepath.Join(t.TempDir(), "a.npz")
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, "-c",
			"import numpy, sys; a = numpy.load(sys.argv[1]); print(a['x'].tolist(), a['layer/ids'])", file).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "[[1.0, 2.0], [3.0, 4.0]] [7]" {
			t.Errorf("NumPy: %v, %s", err, out)
		}
	}
}

// TestHostile: a header that promises more than the file has takes no memory, and every prefix of a file is an error or
// a tensor.
func TestHostile(t *testing.T) {
	var b bytes.Buffer
	if err := files.WriteNPY(&b, must(weir.FromSlice(make([]float32, 64)))); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	held := weir.Usage().Peak
	huge := bytes.Replace(whole, []byte("(64,), }          "), []byte("(1000000000,), }  "), 1)
	large := bytes.Replace(whole, []byte("(64,), }             "), []byte("(1000000000000,), }  "), 1)
	for n := range len(whole) - 3 {
		for _, file := range [][]byte{whole[:n], append(bytes.Clone(whole[:n]), "\xff\xff\xff"...)} {
			if _, err := files.ReadNPY(bytes.NewReader(file)); err == nil {
				t.Errorf("%d bytes are a file", n)
			}
			if _, err := files.OpenNPZ(bytes.NewReader(file), int64(len(file))); err == nil {
				t.Errorf("%d bytes are an archive", n)
			}
		}
	}
	for _, file := range [][]byte{huge, large} {
		if bytes.Equal(file, whole) {
			t.Fatal("the header is not what the test takes it for")
		}
		if _, err := files.ReadNPY(bytes.NewReader(file)); err == nil {
			t.Error("a header that promises too much is read")
		}
	}
	if peak := weir.Usage().Peak; peak > held {
		t.Errorf("%d bytes were taken", peak-held)
	}
	if _, err := files.ReadPicture(bytes.NewReader(bomb(1<<16, 1<<15)), 1<<10, files.Picture{}); !errors.Is(err,
		weir.ErrInput) {
		t.Errorf("a picture of 2³¹ pixels: %v", err)
	}
	if _, err := files.ReadPicture(bytes.NewReader(bomb(1<<13, 1<<13)), 1<<10, files.Picture{}); !errors.Is(err,
		weir.ErrInput) {
		t.Errorf("a picture of 2²⁶ pixels in a small file: %v", err)
	}
}

// bomb returns the beginning of a PNG file that declares so many pixels.
func bomb(width, height uint32) []byte {
	header := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	header = append(binary.BigEndian.AppendUint32(header, height), 8, 2, 0, 0, 0)
	file := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	return binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(header))
}

// drawn returns a PNG file of two pixels, red beside blue.
func drawn() []byte {
	p := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	p.Set(0, 0, color.NRGBA{R: 255, A: 255})
	p.Set(1, 0, color.NRGBA{B: 102, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, p); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

// TestPicture: scale, mean, deviation, layout, size, channels and type.
func TestPicture(t *testing.T) {
	file := drawn()
	for _, row := range []struct {
		p    files.Picture
		want string
	}{
		{files.Picture{}, "f32[1,3,1,2] [1 0 0 0 0 0.4]"},
		{files.Picture{ChannelsLast: true}, "f32[1,1,2,3] [1 0 0 0 0 0.4]"},
		{files.Picture{Mean: []float64{0.5}, Std: []float64{0.5, 1, 0.25}}, "f32[1,3,1,2] [1 -1 -0.5 -0.5 -2 -0.4]"},
		{files.Picture{Scale: 2, Width: 1}, "f32[1,3,1,1] [255 0 102]"},
		{files.Picture{Height: 2, Channels: 1, Scale: 1}, "f32[1,1,2,2] [76.245 11.628 76.245 11.628]"},
	} {
		x, err := files.ReadPicture(bytes.NewReader(file), int64(len(file)), row.p)
		if err != nil {
			t.Errorf("%+v: %v", row.p, err)
			continue
		}
		numbers, err := x.Floats()
		for i, v := range numbers {
			numbers[i] = float32(math.Round(float64(v)*1e4) / 1e4)
		}
		if got := fmt.Sprint(x, " ", numbers); err != nil || got != row.want {
			t.Errorf("%+v: %s, %v, not %s", row.p, got, err, row.want)
		}
		x.Close()
	}
	x, err := files.ReadPicture(bytes.NewReader(file), int64(len(file)),
		files.Picture{DType: weir.U8, Channels: 4, ChannelsLast: true})
	if err != nil || !bytes.Equal(x.Bytes(), []byte{255, 0, 0, 255, 0, 0, 102, 255}) {
		t.Errorf("%v, %v", x, err)
	}
	x.Close()
	for _, p := range []files.Picture{{Channels: 2}, {Height: -1}, {DType: weir.StringType}, {DType: weir.Bool},
		{Mean: []float64{1, 2}}} {
		if _, err := files.ReadPicture(bytes.NewReader(file), int64(len(file)), p); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for n := range file[:len(file)-12] { // no reader needs the last chunk
		if _, err := files.ReadPicture(bytes.NewReader(file), int64(n), files.Picture{}); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%d bytes of the file: %v", n, err)
		}
	}
}

// A tensor is written as NumPy writes it, and read again.
func Example() {
	x, err := weir.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := files.WriteNPY(&file, x); err != nil {
		log.Fatal(err)
	}
	y, err := files.ReadNPY(&file)
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()
	fmt.Println(y)
	// Output: f32[2,2]
}

// A picture becomes the input of an image model, normalised as ImageNet's are.
func ExampleReadPicture() {
	file := drawn()
	x, err := files.ReadPicture(bytes.NewReader(file), int64(len(file)), files.Picture{Height: 224, Width: 224,
		Mean: []float64{0.485, 0.456, 0.406}, Std: []float64{0.229, 0.224, 0.225}})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	fmt.Println(x)
	// Output: f32[1,3,224,224]
}
