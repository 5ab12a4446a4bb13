package arguments

import (
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
)

// TestFloats: every code of the 16-bit types converts to float32 and back unchanged, and numbers between two codes go
// to the nearest, ties to even.
func TestFloats(t *testing.T) {
	for _, dt := range []weir.DType{weir.F16, weir.BF16} {
		t.Run(dt.String(), func(t *testing.T) {
			x, err := weir.New(dt, 1<<8, 1<<8)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			codes, err := weir.View[uint16](x)
			if err != nil {
				t.Fatal(err)
			}
			for i := range codes {
				codes[i] = uint16(i)
			}
			want := slices.Clone(codes)
			numbers, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			clear(codes)
			if err := x.SetFloats(numbers); err != nil {
				t.Fatal(err)
			}
			for i, got := range codes {
				if got != want[i] && !math.IsNaN(float64(numbers[i])) {
					t.Fatalf("%s: code %#x is %v, which is written as %#x", dt, want[i], numbers[i], got)
				}
			}
			// The middle of two neighbours becomes the even one; a number nearer to one of them becomes that one.
			greatest := map[weir.DType]int{weir.F16: 0x7bff, weir.BF16: 0x7f7f}[dt]
			for code := range greatest {
				if code%997 != 0 && code > 4 && code < greatest-4 {
					continue
				}
				low, high := float64(numbers[code]), float64(numbers[code+1])
				middle := float32((low + high) / 2)
				at := make([]float32, len(codes))
				at[0], at[1], at[2] = middle, math.Nextafter32(middle, 0), math.Nextafter32(middle, math.MaxFloat32)
				if err := x.SetFloats(at); err != nil {
					t.Fatal(err)
				}
				if even := uint16(code + code%2); codes[0] != even || int(codes[1]) != code || int(codes[2]) != code+1 {
					t.Errorf("%s: about the middle of %#x and the next: %#x", dt, code, codes[:3])
				}
			}
			if err := x.SetFloats(slices.Repeat([]float32{math.MaxFloat32}, len(codes))); err != nil {
				t.Fatal(err)
			}
			if numbers, _ := x.Floats(); !math.IsInf(float64(numbers[0]), 1) {
				t.Errorf("%s: the greatest float32 is written as %v", dt, numbers[0])
			}
		})
	}
}

// TestFloatsRefused refuses a tensor with other elements, of another length, that is read-only, or that is closed.
func TestFloatsRefused(t *testing.T) {
	refused := func(name string, err, kind error) {
		t.Helper()
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, err := weir.New(weir.F16, 3)
	if err != nil {
		t.Fatal(err)
	}
	refused("too few", x.SetFloats(make([]float32, 2)), weir.ErrInput)
	refused("too many", x.SetFloats(make([]float32, 4)), weir.ErrInput)
	x.Close()
	refused("closed", x.SetFloats(make([]float32, 3)), weir.ErrClosed)
	_, err = x.Floats()
	refused("closed", err, weir.ErrClosed)
	for _, y := range []*weir.Tensor{weir.Scalar(uint16(1)), weir.Scalar(1.5), weir.Scalar("text")} {
		refused(y.String(), y.SetFloats([]float32{1}), weir.ErrInput)
		_, err = y.Floats()
		refused(y.String(), err, weir.ErrInput)
	}
	codes := []uint16{0x3c00}
	lent, err := weir.Foreign(weir.F16, unsafe.Pointer(&codes[0]), weir.ReadOnly, func() {}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer lent.Close()
	refused("lent for reading", lent.SetFloats([]float32{2}), weir.ErrInput)
	if numbers, err := lent.Floats(); err != nil || numbers[0] != 1 {
		t.Errorf("%v, %v", numbers, err)
	}
	y := weir.Scalar(float32(1))
	if err := y.SetFloats([]float32{0.1}); err != nil {
		t.Error(err)
	}
	if numbers, err := y.Floats(); err != nil || numbers[0] != 0.1 {
		t.Errorf("%v, %v", numbers, err)
	}
	empty, err := weir.New(weir.BF16, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if numbers, err := empty.Floats(); err != nil || len(numbers) != 0 {
		t.Errorf("%v, %v", numbers, err)
	}
}
