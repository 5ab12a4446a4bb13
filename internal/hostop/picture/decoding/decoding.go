// Package decoding has the types and limits that the decoders of pictures share.
package decoding

import (
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/diag"
)

// ToRGB converts a pixel of luminance and color differences, in 16 bits of fraction.
func ToRGB(y, cb, cr byte) (r, g, b byte) {
	blue, red := int32(cb)-128, int32(cr)-128
	clamp := func(v int32) byte { return byte(min(max(v, 0), 255)) }
	r = clamp(int32(y) + (91881*red+1<<15)>>16)
	g = clamp(int32(y) + (-22554*blue-46802*red+1<<15)>>16)
	b = clamp(int32(y) + (116130*blue+1<<15)>>16)
	return r, g, b
}

// MaxPixels is the largest number of pixels of a picture, and of samples of a JPEG 2000 picture. Larger ones are not
// supported.
const MaxPixels = 1 << 26

// MostPixels is MaxPixels, unless a test lowers it.
var MostPixels int64 = MaxPixels

// ErrCorrupt is wrapped by every error for bytes that are not a picture, or a broken one.
var ErrCorrupt = errors.New("not a picture that can be read")

// Corrupt returns an error that wraps ErrCorrupt.
func Corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Picture is a decoded picture.
type Picture struct {
	Width, Height int
	// Row writes the pixels of row y: red, green and blue, a byte each.
	Row func(y int, rgb []byte)
}

// File is a file under decoding.
type File struct {
	Data    []byte
	Reserve func(bytes int64) error // nil: no limit
	Work    func(steps int64)       // nil: steps are not reported
	Working bool                    // whether Work is running; it may end decoding by a panic
}

// Did reports steps of decoding, of some nanoseconds each, that are done or about to be done.
func (f *File) Did(steps int64) {
	if f.Work != nil {
		f.Working = true
		f.Work(steps)
		f.Working = false
	}
}

// Take reserves the given bytes of Go's heap, the overhead and twice the size of the file.
func (f *File) Take(bytes int64) error {
	if f.Reserve == nil {
		return nil
	}
	return f.Reserve(bytes + overhead + 2*int64(len(f.Data)))
}

// overhead is the most bytes of Go's heap that the tables and windows of a decoder take.
const overhead = 1 << 20

// A picture of more than LeastPixels pixels is decoded only if its file has a byte for every PixelsOfByte pixels:
// deflate expands a byte to at most 1032 bytes, and a pixel may be a bit. For a fax, whose rows may be a bit each, it
// is FaxPixelsOfAByte.
const (
	LeastPixels      = 1 << 21
	PixelsOfByte     = 8 * 1032
	FaxPixelsOfAByte = 1 << 16
)

// Sized checks the extents that a header declares, before memory is allocated for them.
func Sized(width, height int64) error {
	if width < 1 || height < 1 {
		return Corrupt("%d × %d pixels", width, height)
	}
	if width > MostPixels || height > MostPixels/width {
		return diag.Unsupportedf("a picture of %d × %d pixels; at most %d are read", width, height, MostPixels)
	}
	return nil
}

// Dense returns ErrUnsupported for a picture above LeastPixels if a file of so many bytes, with at most the given
// number of pixels in a byte, cannot hold it. A valid file is refused only if it is a large picture of one color.
func Dense(width, height int64, bytes, pixels int) error {
	if count := width * height; count > LeastPixels && count/int64(pixels) > int64(bytes) {
		return diag.Unsupportedf("a picture of %d × %d pixels in %d bytes; one byte may give at most %d pixels", width,
			height, bytes, pixels)
	}
	return nil
}
