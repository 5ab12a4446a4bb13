// Package picture decodes images: JPEG, JPEG 2000, PNG, BMP, TIFF, WebP and the portable formats, to the pixels that
// Pillow gives (which are those of libjpeg-turbo, OpenJPEG and libwebp; the sYCC colors of JPEG 2000 alone may differ
// by one).
//
// Files may be hostile. Before a decoder allocates memory, it compares the extents in the header with MaxPixels and
// with the number of bytes that follow, and reserves the bytes of Go's heap that it needs.
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

// ErrCorrupt is wrapped by every error for bytes that are not a picture, or a broken one.
var ErrCorrupt = decoding.ErrCorrupt

// Picture is a decoded picture.
type Picture = decoding.Picture

// format is one kind of file.
type format struct {
	name   string
	begins func(data []byte) bool
	decode func(f *decoding.File) (*decoding.Picture, error)
}

// countingReader reads a file and reports stepsOfAByte steps of work for each byte.
type countingReader struct {
	*bytes.Reader
	file *decoding.File
}

// stepsOfAByte is the number of steps that are reported for a byte, which Go's decoders may turn into many pixels.
const stepsOfAByte = 64

// Read implements io.Reader.
func (t countingReader) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.file.Did(int64(n) * stepsOfAByte)
	return n, err
}

// ReadByte implements io.ByteReader.
func (t countingReader) ReadByte() (byte, error) {
	t.file.Did(stepsOfAByte)
	return t.Reader.ReadByte()
}

// ReadAt implements io.ReaderAt.
func (t countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := t.Reader.ReadAt(p, at)
	t.file.Did(int64(n) * stepsOfAByte)
	return n, err
}

// magic returns a function that reports whether a file begins with one of the given prefixes.
func magic(prefixes ...string) func([]byte) bool {
	return func(data []byte) bool {
		for _, prefix := range prefixes {
			if bytes.HasPrefix(data, []byte(prefix)) {
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
// not a picture, and is a *diag.Error if the kind is not supported. If reserve is not nil, Decode calls it with the
// most bytes of Go's heap that it may allocate, and returns its error. If work is not nil, Decode calls it with the
// number of steps done; work may end Decode by a panic.
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

// plausible checks that the given number of bytes can encode a picture of the given number of bits, if each byte
// encodes at most `most` bits.
func plausible(bits int64, bytes int, most int64) error {
	if bits/most > int64(bytes) {
		return decoding.Corrupt("%d bytes are too few for %d bits of picture", bytes, bits)
	}
	return nil
}
