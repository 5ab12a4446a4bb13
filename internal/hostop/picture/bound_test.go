package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	standard "image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/image/tiff"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// taken returns the bytes of Go's heap that decoding allocates, and those that it reserved.
func taken(data []byte) (bytes, asked int64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Decode(data, func(n int64) error { asked += n; return nil }, nil)
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(p)
	return int64(after.TotalAlloc - before.TotalAlloc), asked, err
}

// tiffOf returns a TIFF of one strip or tile, with the given tags and their values.
func tiffOf(body []byte, tags ...[2]uint32) []byte {
	b := []byte("II*\x00")
	b = binary.LittleEndian.AppendUint32(b, uint32(8+len(body)))
	b = append(b, body...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(tags)))
	for _, t := range tags {
		b = binary.LittleEndian.AppendUint16(b, uint16(t[0]))
		b = binary.LittleEndian.AppendUint16(b, 4)
		b = binary.LittleEndian.AppendUint32(b, 1)
		b = binary.LittleEndian.AppendUint32(b, t[1])
	}
	return append(b, 0, 0, 0, 0)
}

// webpOf returns a WebP file of the given chunks. If declared is not 0, its header has this size.
func webpOf(declared uint32, chunks ...string) []byte {
	var all []byte
	for _, c := range chunks {
		all = append(all, c...)
	}
	if declared == 0 {
		declared = uint32(4 + len(all))
	}
	return append(append(binary.LittleEndian.AppendUint32([]byte("RIFF"), declared), "WEBP"...), all...)
}

// hostile returns files whose headers declare large pictures, files whose decoding takes much memory, and valid files.
func hostile(t *testing.T) map[string][]byte {
	gray := func(width, height, compression uint32, more ...[2]uint32) []byte {
		tags := append([][2]uint32{{256, width}, {257, height}, {258, 8}, {259, compression}, {262, 1}, {273, 8}, {277, 1},
			{278, height}, {279, 4}}, more...)
		return tiffOf([]byte{0, 0, 0, 0}, tags...)
	}
	bilevel := func(width, height, compression uint32) []byte {
		return tiffOf(bytes.Repeat([]byte{0xff}, 16), [2]uint32{256, width}, [2]uint32{257, height}, [2]uint32{258, 1},
			[2]uint32{259, compression}, [2]uint32{262, 0}, [2]uint32{273, 8}, [2]uint32{277, 1},
			[2]uint32{278, height}, [2]uint32{279, 16})
	}
	tiled := func(width, height, tw, th, compression uint32) []byte {
		return tiffOf([]byte{0, 0, 0, 0}, [2]uint32{256, width}, [2]uint32{257, height}, [2]uint32{258, 8},
			[2]uint32{259, compression}, [2]uint32{262, 1}, [2]uint32{277, 1},
			[2]uint32{322, tw}, [2]uint32{323, th}, [2]uint32{324, 8}, [2]uint32{325, 4})
	}
	vp8 := func(width, height uint16) string {
		head := []byte{0x10, 0, 0, 0x9d, 1, 0x2a, byte(width), byte(width >> 8), byte(height), byte(height >> 8), 0, 0}
		return "VP8 \x0c\x00\x00\x00" + string(head)
	}
	vp8l := func(width, height uint32) string {
		return "VP8L\x06\x00\x00\x00\x2f" + string(binary.LittleEndian.AppendUint32(nil, (width-1)|(height-1)<<14)) + "\x00"
	}
	canvas := func(width, height uint32, flags byte) string {
		b := append([]byte("VP8X\x0a\x00\x00\x00"), flags, 0, 0, 0)
		b = append(b, byte(width-1), byte((width-1)>>8), byte((width-1)>>16), byte(height-1), byte((height-1)>>8),
			byte((height-1)>>16))
		return string(b)
	}
	list := map[string][]byte{
		"TIFF, uncompressed": gray(8192, 8192, 1), "TIFF, deflate": gray(8192, 8191, 8), "TIFF, LZW": gray(1<<26, 1, 5),
		"TIFF, packed": gray(1, 1<<26, 32773), "TIFF, beyond": gray(1<<31, 1<<31, 1),
		"TIFF, fax 4": bilevel(8192, 8192, 4), "TIFF, fax 3": bilevel(1<<13, 1<<12, 3),
		"TIFF, rows of a fax": bilevel(2048, 1024, 4), "TIFF, of sixteen bits": gray(4096, 4096, 1, [2]uint32{258, 16}),
		"TIFF, tiles": tiled(16, 16, 1<<30, 1<<30, 8), "TIFF, large tiles": tiled(1024, 1024, 8192, 8192, 1),
		"TIFF, tiles of deflate": tiled(1, 1, 1024, 1024, 8), "TIFF, small tiles": tiled(1<<13, 1<<13, 8, 8, 1),
		"TIFF, tiles wider than high": tiled(64, 64, 1024, 1<<20, 5),
		"WebP, lossy":                 webpOf(0, vp8(16383, 16383)), "WebP, lossless": webpOf(0, vp8l(16384, 16384)),
		"WebP, small canvas":          webpOf(0, canvas(1, 1, 0), vp8(16383, 16383)),
		"WebP, small lossless canvas": webpOf(0, canvas(1, 1, 0), vp8l(16384, 16384)),
		"WebP, huge canvas":           webpOf(0, canvas(1<<24, 1<<24, 0x10), vp8(16, 16)),
		"WebP, a chunk past the end":  webpOf(1<<30, "VP8 \xf0\xff\xff\x3f\x10\x00\x00\x9d\x01\x2a\x10\x00\x10\x00"),
		"WebP, moving":                webpOf(0, canvas(4000, 4000, 2), "ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		"WebP, alpha":                 webpOf(0, canvas(1400, 1400, 0x10), "ALPH\x02\x00\x00\x00\x01\x00", vp8(1400, 1400)),
		"JPEG":                        jpegHeader(8000, 8000, 0xc2), "JPEG, thin": jpegHeader(65500, 1, 0xc2),
		"JPEG 2000": jpeg2000Header(1<<12, 1<<12, 1<<12, 3, 1), "JPEG 2000, one tile": jpeg2000Header(1400, 1400, 1400, 4, 1),
		"JPEG 2000, precincts": jpeg2000Header(64, 64, 64, 3, 3),
		"PNM":                  []byte("P3 4000 4000 255\n0 0 0"), "PNM of bits": []byte("P4 60000 1000\n"),
	}
	large := image.NewPaletted(image.Rect(0, 0, 3000, 3000), nil)
	var file bytes.Buffer
	large.Palette = append(large.Palette, image.Black, image.White)
	if err := png.Encode(&file, large); err != nil {
		t.Fatal(err)
	}
	list["PNG, of two colors"] = bytes.Clone(file.Bytes())
	file.Reset()
	if err := tiff.Encode(&file, image.NewNRGBA64(image.Rect(0, 0, 900, 900)),
		&tiff.Options{Compression: tiff.Deflate}); err != nil {
		t.Fatal(err)
	}
	list["TIFF, of wide colors"] = bytes.Clone(file.Bytes())
	file.Reset()
	if err := standard.Encode(&file, image.NewGray(image.Rect(0, 0, 2000, 1500)), nil); err != nil {
		t.Fatal(err)
	}
	list["JPEG, gray"] = bytes.Clone(file.Bytes())
	files, err := filepath.Glob("testdata/pictures/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) != ".txt" && filepath.Ext(name) != ".py" {
			list[filepath.Base(name)] = data
		}
	}
	return list
}

// unasked is the most bytes of Go's heap that decoding may allocate beyond those that it reserved.
const unasked = 1 << 20

// TestBound decodes hostile and valid files. It checks that none allocates more of Go's heap than it reserved, that a
// small file allocates little, and that a refused reservation ends the decoding.
func TestBound(t *testing.T) {
	refusal := errors.New("refused")
	for name, data := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			bytes, asked, err := taken(data)
			if err != nil && !errors.Is(err, decoding.ErrCorrupt) && !errors.Is(err, diag.ErrUnsupported) {
				t.Errorf("the error is %v", err)
			}
			if bytes > asked+unasked {
				t.Errorf("%d bytes of file took %d of Go's heap, %d more than were asked for: %v", len(data), bytes, bytes-asked,
					err)
			}
			if most := int64(decoding.LeastPixels*24 + 8<<20); len(data) < 200 && bytes > most {
				t.Errorf("%d bytes of file took %d of Go's heap: %v", len(data), bytes, err)
			}
			t.Logf("%d bytes took %d, asked for %d: %v", len(data), bytes, asked, err)
			if asked == 0 {
				return
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = Decode(data, func(int64) error { return refusal }, nil)
			runtime.ReadMemStats(&after)
			if n := int64(after.TotalAlloc - before.TotalAlloc); !errors.Is(err, refusal) || n > unasked {
				t.Errorf("refused memory, it took %d bytes: %v", n, err)
			}
		})
	}
}
