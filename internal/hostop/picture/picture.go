// Package picture decodes images: JPEG, JPEG 2000, PNG, BMP, TIFF, WebP and the portable formats, to the pixels that Pillow gives (which are those of
// libjpeg-turbo, OpenJPEG and libwebp; the sYCC colors of JPEG 2000 alone may differ by one).
//
// Files are hostile: what a header declares is compared with MaxPixels and with the bytes that follow, and the memory that reading takes of Go's heap is asked for, before any is taken.
package picture

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/diag"
)

// MaxPixels is how many pixels a picture may have, and how many samples one of JPEG 2000. Larger ones are not supported.
const MaxPixels = 1 << 26

// mostPixels is MaxPixels, but where a test wants less.
var mostPixels int64 = MaxPixels

// ErrCorrupt is what every error wraps that says that the bytes are no picture, or a broken one.
var ErrCorrupt = errors.New("not a picture that can be read")

// corrupt is an error of the file.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Picture is a decoded picture.
type Picture struct {
	Width, Height int
	// Row writes the pixels of row y: red, green and blue, a byte each.
	Row func(y int, rgb []byte)
}

// format is one kind of file.
type format struct {
	name   string
	begins func(data []byte) bool
	decode func(f *file) (*Picture, error)
}

// file is a file under decoding.
type file struct {
	data    []byte
	reserve func(bytes int64) error // nil: whatever is wanted is granted
	work    func(steps int64)       // nil: nobody asks
	working bool                    // within work, which leaves by a panic if its caller wants the end
}

// did tells of steps of decoding, of some nanoseconds each, that are done or about to be.
func (f *file) did(steps int64) {
	if f.work != nil {
		f.working = true
		f.work(steps)
		f.working = false
	}
}

// told is a reader of a file whose reading is told of. A byte may make many pixels.
type told struct {
	*bytes.Reader
	file *file
}

// stepsOfAByte is how much work a byte that is read may make, of the decoders of Go's.
const stepsOfAByte = 64

func (t told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.file.did(int64(n) * stepsOfAByte)
	return n, err
}

func (t told) ReadByte() (byte, error) {
	t.file.did(stepsOfAByte)
	return t.Reader.ReadByte()
}

func (t told) ReadAt(p []byte, at int64) (int, error) {
	n, err := t.Reader.ReadAt(p, at)
	t.file.did(int64(n) * stepsOfAByte)
	return n, err
}

// take asks for what reading takes of Go's heap, at most, beside a little for every file.
func (f *file) take(bytes int64) error {
	if f.reserve == nil {
		return nil
	}
	return f.reserve(bytes + overhead + 2*int64(len(f.data)))
}

// overhead is what decoding any file takes of Go's heap at most, in bytes: tables and windows.
const overhead = 1 << 20

// magic is a file that begins with certain bytes.
func magic(texts ...string) func([]byte) bool {
	return func(data []byte) bool {
		for _, text := range texts {
			if bytes.HasPrefix(data, []byte(text)) {
				return true
			}
		}
		return false
	}
}

var formats = []format{
	{"JPEG", magic("\xff\xd8"), decodeJPEG},
	{"PNG", magic("\x89PNG\r\n\x1a\n"), decodePNG},
	{"BMP", magic("BM"), decodeBMP},
	{"TIFF", magic("II*\x00", "MM\x00*"), decodeTIFF},
	{"WebP", func(data []byte) bool { return magic("RIFF")(data) && len(data) >= 12 && string(data[8:12]) == "WEBP" }, decodeWebP},
	{"JPEG 2000", magic("\xff\x4f\xff\x51", "\x00\x00\x00\x0cjP  \r\n\x87\n"), decodeJPEG2000},
	{"PNM", magic("P1", "P2", "P3", "P4", "P5", "P6"), decodePNM},
}

// Decode reads a picture of any of the formats, which its first bytes tell apart. The error is ErrCorrupt if the bytes
// are none, a *diag.Error if they are one of a kind that is not supported. Before it takes more than a little of Go's
// heap it asks reserve, if that is not nil, for the most that it may take, and returns its error. It tells work, if
// that is not nil, of the steps that it does; work may end it by a panic.
func Decode(data []byte, reserve func(bytes int64) error, work func(steps int64)) (*Picture, error) {
	for _, f := range formats {
		if f.begins(data) {
			p, err := f.decode(&file{data: data, reserve: reserve, work: work})
			if err == nil {
				return p, nil
			}
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil, corrupt("the first bytes are of no known format")
}

// A file may have more than leastPixels only if it has a byte for every so many of them: deflate makes at most 1032 bytes of one, and a pixel may be a bit. A row of a fax may be one bit.
const (
	leastPixels      = 1 << 21
	pixelsOfByte     = 8 * 1032
	faxPixelsOfAByte = 1 << 16
)

// sized checks the extents that a header declares, before memory is taken for them.
func sized(width, height int64) error {
	if width < 1 || height < 1 {
		return corrupt("%d × %d pixels", width, height)
	}
	if width > mostPixels || height > mostPixels/width {
		return diag.Unsupportedf("a picture of %d × %d pixels; at most %d are read", width, height, mostPixels)
	}
	return nil
}

// dense refuses a picture that a format may say in next to nothing, in a file of so few bytes, of which each may give so many pixels: it would be a large one of one color.
func dense(width, height int64, bytes, pixels int) error {
	if count := width * height; count > leastPixels && count/int64(pixels) > int64(bytes) {
		return diag.Unsupportedf("a picture of %d × %d pixels in %d bytes; one byte may give at most %d pixels", width, height, bytes, pixels)
	}
	return nil
}

// plausible checks that a picture that takes so many bits can come out of so many bytes, of which each gives at most so many bits.
func plausible(bits int64, bytes int, most int64) error {
	if bits/most > int64(bytes) {
		return corrupt("%d bytes are too few for %d bits of picture", bytes, bits)
	}
	return nil
}
