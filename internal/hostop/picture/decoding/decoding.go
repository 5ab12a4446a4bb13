// Package decoding has what decoders of pictures share: the file, its limits and the picture.
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

// ErrCorrupt is wrapped by every error that says that the bytes are not a picture, or a broken one.
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
	Reserve func(bytes int64) error // nil: whatever is wanted is granted
	Work    func(steps int64)       // nil: nobody asks
	Working bool                    // within work, which leaves by a panic if its caller wants the end
}

// Did reports steps of decoding, of some nanoseconds each, that are done or about to be done.
func (f *File) Did(steps int64) {
	if f.Work != nil {
		f.Working = true
		f.Work(steps)
		f.Working = false
	}
}

// Take asks for the most bytes of Go's heap that decoding takes, apart from overhead.
func (f *File) Take(bytes int64) error {
	if f.Reserve == nil {
		return nil
	}
	return f.Reserve(bytes + overhead + 2*int64(len(f.Data)))
}

// overhead is the most bytes of Go's heap that decoding any file takes: tables and windows.
const overhead = 1 << 20

// A file may have more than leastPixels only if it has a byte for every so many of them: deflate makes at most 1032
// bytes of one, and a pixel may be a bit. A row of a fax may be one bit.
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

// Dense refuses a picture of more pixels than its file plausibly holds: bytes bytes of at most pixels pixels each.
// Such a picture would be a large one of one color.
func Dense(width, height int64, bytes, pixels int) error {
	if count := width * height; count > LeastPixels && count/int64(pixels) > int64(bytes) {
		return diag.Unsupportedf("a picture of %d × %d pixels in %d bytes; one byte may give at most %d pixels", width,
			height, bytes, pixels)
	}
	return nil
}
