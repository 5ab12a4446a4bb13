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

// MaxPixels is how many pixels a picture may have, and how many samples one of JPEG 2000. Larger ones are not
// supported.
const MaxPixels = decoding.MaxPixels

// ErrCorrupt is what every error wraps that says that the bytes are no picture, or a broken one.
var ErrCorrupt = decoding.ErrCorrupt

// Picture is a decoded picture.
type Picture = decoding.Picture

// format is one kind of file.
type format struct {
	name   string
	begins func(data []byte) bool
	decode func(f *decoding.File) (*decoding.Picture, error)
}

// told is a reader of a file whose reading is told of. A byte may make many pixels.
type told struct {
	*bytes.Reader
	file *decoding.File
}

// stepsOfAByte is how much work a byte that is read may make, of the decoders of Go's.
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
	{"WebP", func(data []byte) bool {
		return magic("RIFF")(data) && len(data) >= 12 && string(data[8:12]) == "WEBP"
	}, decodeWebP},
	{"JPEG 2000", magic("\xff\x4f\xff\x51", "\x00\x00\x00\x0cjP  \r\n\x87\n"), jpeg2000.Decode},
	{"PNM", magic("P1", "P2", "P3", "P4", "P5", "P6"), decodePNM},
}

// Decode reads a picture of any of the formats, which its first bytes tell apart. The error is ErrCorrupt if the bytes
// are none, a *diag.Error if they are one of a kind that is not supported. Before it takes more than a little of Go's
// heap it asks reserve, if that is not nil, for the most that it may take, and returns its error. It tells work, if
// that is not nil, of the steps that it does; work may end it by a panic.
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

// plausible checks that a picture that takes so many bits can come out of so many bytes, of which each gives at most so
// many bits.
func plausible(bits int64, bytes int, most int64) error {
	if bits/most > int64(bytes) {
		return decoding.Corrupt("%d bytes are too few for %d bits of picture", bytes, bits)
	}
	return nil
}
