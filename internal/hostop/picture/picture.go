// Package picture decodes images: JPEG, JPEG 2000, PNG, BMP, TIFF, WebP and the portable formats, to the pixels that
// Pillow gives (which are those of libjpeg-turbo, OpenJPEG and libwebp; the sYCC colors of JPEG 2000 alone may differ
// by one).
//
// Files are hostile: what a header declares is compared with MaxPixels and with the bytes that follow, and the memory
// that reading takes of Go's heap is asked for, before any is taken.
package picture

import (
	"bytes"
	"fmt"

	"github.com/weirml/weir/internal/hostop/picture/decoding"
	"github.com/weirml/weir/internal/hostop/picture/jpeg2000"
)

// MaxPixels is the largest number of pixels of a picture, and of samples of a JPEG 2000 picture. Larger ones are not
// supported.
const MaxPixels = decoding.MaxPixels

// ErrCorrupt is wrapped by every error that says that the bytes are not a picture, or a broken one.
var ErrCorrupt = decoding.ErrCorrupt

// Picture is a decoded picture.
type Picture = decoding.Picture

// format is one kind of file.
type format struct {
	name   string
	begins func(data []byte) bool
	decode func(f *decoding.File) (*decoding.Picture, error)
}

// told is a reader of a file that reports the work of its bytes. A byte may make many pixels.
type told struct {
	*bytes.Reader
	file *decoding.File
}

// stepsOfAByte is the number of steps that Go's decoders may do for a byte.
const stepsOfAByte = 64

func (t told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.file.Did(int64(n) * stepsOfAByte)
	return n, err
}

func (t told) ReadByte() (byte, error) {
	t.file.Did(stepsOfAByte)
	return t.Reader.ReadByte()
}

func (t told) ReadAt(p []byte, at int64) (int, error) {
	n, err := t.Reader.ReadAt(p, at)
	t.file.Did(int64(n) * stepsOfAByte)
	return n, err
}

// magic returns a function that reports whether a file begins with one of the given texts.
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
	{"WebP", func(data []byte) bool {
		return magic("RIFF")(data) && len(data) >= 12 && string(data[8:12]) == "WEBP"
	}, decodeWebP},
	{"JPEG 2000", magic("\xff\x4f\xff\x51", "\x00\x00\x00\x0cjP  \r\n\x87\n"), jpeg2000.Decode},
	{"PNM", magic("P1", "P2", "P3", "P4", "P5", "P6"), decodePNM},
}

// Decode decodes a picture of any format; its first bytes tell the format. The error wraps ErrCorrupt if the bytes are
// not a picture, and is a *diag.Error if the kind is not supported. If reserve is not nil, Decode asks it for the most
// bytes of Go's heap that it may take, and returns its error. If work is not nil, Decode reports its steps to it; work
// may end Decode by a panic.
func Decode(data []byte, reserve func(bytes int64) error, work func(steps int64)) (*decoding.Picture, error) {
	for _, f := range formats {
		if f.begins(data) {
			p, err := f.decode(&decoding.File{Data: data, Reserve: reserve, Work: work})
			if err == nil {
				return p, nil
			}
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil, decoding.Corrupt("the first bytes are of no known format")
}

// plausible checks that a picture of so many bits can come out of so many bytes, each of which gives at most most
// bits.
func plausible(bits int64, bytes int, most int64) error {
	if bits/most > int64(bytes) {
		return decoding.Corrupt("%d bytes are too few for %d bits of picture", bytes, bits)
	}
	return nil
}
