package picture

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// pixels returns all pixels of a picture.
func pixels(p *decoding.Picture) []byte {
	out := make([]byte, 3*p.Width*p.Height)
	for y := range p.Height {
		p.Row(y, out[3*p.Width*y:3*p.Width*(y+1)])
	}
	return out
}

// TestPictures compares the decoded files of testdata/pictures with the extents and the SHA-256 of Pillow's pixels,
// which sums.txt has. make.py writes both.
func TestPictures(t *testing.T) {
	list, err := os.ReadFile("testdata/pictures/sums.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		name, want, _ := strings.Cut(line, " ")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata/pictures", name))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Decode(data, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(pixels(p))
			if got := fmt.Sprintf("%d %d %s", p.Width, p.Height, hex.EncodeToString(sum[:16])); got != want {
				t.Errorf("got %s, not %s", got, want)
			}
		})
	}
}

// jpegHeader returns a JPEG file with the header of a picture, followed by the given bytes.
func jpegHeader(width, height uint16, process byte, more ...byte) []byte {
	frame := []byte{0xff, 0xd8, 0xff, process, 0, 17, 8, byte(height >> 8), byte(height), byte(width >> 8), byte(width), 3,
		1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0}
	return append(frame, more...)
}

// jpeg2000Header returns a JPEG 2000 file with the header of a picture in square tiles. If levels is not 0, it also has
// an empty tile, whose precincts have the smallest size.
func jpeg2000Header(width, height, tile uint32, components uint16, levels byte) []byte {
	b := []byte{0xff, 0x4f, 0xff, 0x51, 0, 0, 0, 0}
	for _, v := range []uint32{width, height, 0, 0, tile, tile, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = binary.BigEndian.AppendUint16(b, components)
	for range components {
		b = append(b, 7, 1, 1)
	}
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-4))
	if levels > 0 {
		b = append(b, 0xff, 0x52, 0, 13+levels, 1, 0, 0, 1, 0, levels, 0, 0, 0, 1, 0)
		b = append(b, bytes.Repeat([]byte{0x11}, int(levels))...)
		b = append(b, 0xff, 0x5c, 0, 4, 0x40, 0x40, 0xff, 0x90, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x93)
	}
	return append(b, 0xff, 0xd9)
}

// TestHostile checks the errors for corrupt files and for files whose headers declare large pictures.
func TestHostile(t *testing.T) {
	png := func(width, height uint32) []byte {
		data := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), make([]byte, 17)...)
		binary.BigEndian.PutUint32(data[16:], width)
		binary.BigEndian.PutUint32(data[20:], height)
		copy(data[24:], "\x08\x02\x00\x00\x00")
		binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		return data
	}
	bmp := func(width, height uint32) []byte {
		data := make([]byte, 60)
		copy(data, "BM")
		data[10], data[14], data[26], data[28] = 54, 40, 1, 24
		binary.LittleEndian.PutUint32(data[18:], width)
		binary.LittleEndian.PutUint32(data[22:], height)
		return data
	}
	for _, c := range []struct {
		name string
		data []byte
		kind error
		want string
	}{
		{"nothing", nil, decoding.ErrCorrupt, "no known format"},
		{"one byte", []byte{0xff}, decoding.ErrCorrupt, "no known format"},
		{"JPEG of nothing", []byte{0xff, 0xd8}, decoding.ErrCorrupt, "the file ends before"},
		{"JPEG, huge", jpegHeader(65500, 65500, 0xc0), diag.ErrUnsupported, "65500 × 65500 pixels"},
		{"JPEG, large without data", jpegHeader(8000, 8000, 0xc0), decoding.ErrCorrupt, "too few for 1500000 bits"},
		{"JPEG, progressive, large without data", jpegHeader(8000, 8000, 0xc2), decoding.ErrCorrupt,
			"too few for 1500000 bits"},
		{"JPEG without lines", jpegHeader(8, 0, 0xc0), decoding.ErrCorrupt, "8 × 0 pixels"},
		{"JPEG, lossless", jpegHeader(8, 8, 0xc3), diag.ErrUnsupported, "process 3"},
		{"JPEG, arithmetic", jpegHeader(8, 8, 0xc9), diag.ErrUnsupported, "process 9"},
		{"JPEG, a segment past the end", []byte{0xff, 0xd8, 0xff, 0xdb, 0xff, 0xff}, decoding.ErrCorrupt,
			"a segment of 65535 bytes of 2"},
		{"JPEG, too many codes", append([]byte{0xff, 0xd8, 0xff, 0xc4, 0, 19, 0}, bytes.Repeat([]byte{255}, 16)...),
			decoding.ErrCorrupt, "codes"},
		{"JPEG, a scan before the frame", []byte{0xff, 0xd8, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0}, decoding.ErrCorrupt,
			"a scan's header"},
		{"JPEG, a scan without tables", jpegHeader(8, 8, 0xc0, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0), decoding.ErrCorrupt,
			"without its codes"},
		{"PNG, huge", png(1<<31-1, 1<<31-1), diag.ErrUnsupported, "dimension overflow"},
		{"PNG, large without data", png(8000, 8000), decoding.ErrCorrupt, "too few"},
		{"BMP, huge", bmp(20000, 20000), diag.ErrUnsupported, "pixels"},
		{"BMP, large without data", bmp(8000, 8000), decoding.ErrCorrupt, "too few"},
		{"PNM, huge", []byte("P6 999999999 999999999 255\n"), diag.ErrUnsupported, "999999999 × 999999999"},
		{"PNM, a number that runs over", []byte("P6 99999999999999999999999 1 255\n"), decoding.ErrCorrupt,
			"a number is wrong"},
		{"PNM, large without data", []byte("P6 8000 8000 255\n"), decoding.ErrCorrupt, "bytes of 192000000"},
		{"PNM, as text, large without data", []byte("P3 8000 8000 255\n"), decoding.ErrCorrupt, "too few"},
		{"PNM, nothing to scale by", []byte("P5 1 1 0\n0"), decoding.ErrCorrupt, "largest sample is 0"},
		{"JPEG 2000 of nothing", []byte{0xff, 0x4f, 0xff, 0x51}, decoding.ErrCorrupt, "inside a segment"},
		{"JPEG 2000, huge", jpeg2000Header(1<<31, 1<<31, 1<<31, 3, 0), diag.ErrUnsupported, "2147483648 × 2147483648 pixels"},
		{"JPEG 2000, many components", jpeg2000Header(1<<13, 1<<13, 1<<13, 4, 0), diag.ErrUnsupported,
			"more than 67108864 samples"},
		{"JPEG 2000, a hundred components", jpeg2000Header(8, 8, 8, 100, 0), diag.ErrUnsupported, "100 components"},
		{"JPEG 2000, tiles of a pixel", jpeg2000Header(1<<12, 1<<12, 1, 3, 0), decoding.ErrCorrupt, "0 tiles of 16777216"},
		{"JPEG 2000, precincts of a coefficient", jpeg2000Header(1<<10, 1<<10, 1<<10, 3, 5), decoding.ErrCorrupt,
			"more precincts than that"},
		{"JPEG 2000, a box past the end", []byte("\x00\x00\x00\x0cjP  \r\n\x87\n\xff\xff\xff\xffjp2c"), decoding.ErrCorrupt,
			"a box of 4294967295 bytes of 8"},
		{"JPEG 2000, a box of a size that runs over",
			[]byte("\x00\x00\x00\x0cjP  \r\n\x87\n\x00\x00\x00\x01jp2c\xff\xff\xff\xff\xff\xff\xff\xff"), decoding.ErrCorrupt,
			"a box of"},
		{"JPEG 2000, no codestream", []byte("\x00\x00\x00\x0cjP  \r\n\x87\n"), decoding.ErrCorrupt, "no codestream"},
		{"TIFF of nothing", []byte("II*\x00"), decoding.ErrCorrupt, ""},
		{"TIFF, a directory past the end", []byte("II*\x00\xff\xff\xff\xff"), decoding.ErrCorrupt, ""},
		{"WebP of nothing", []byte("RIFF\x04\x00\x00\x00WEBP"), decoding.ErrCorrupt, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.data, nil, nil)
			if err == nil || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v; it should be of kind %v and say %q", err, c.kind, c.want)
			}
		})
	}
}

// TestCut checks that no truncated or changed file makes a decoder panic.
func TestCut(t *testing.T) {
	files, err := filepath.Glob("testdata/pictures/*.*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		step := max(len(data)/60, 1)
		for at := 0; at < len(data); at += step {
			if p, err := Decode(data[:at], nil, nil); err == nil {
				pixels(p)
			}
			changed := bytes.Clone(data)
			changed[at] ^= byte(1 << (at % 8))
			if p, err := Decode(changed, nil, nil); err == nil {
				pixels(p)
			}
		}
	}
}

// FuzzDecode looks for files that make a decoder or a decoded picture panic.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/pictures/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	decoding.MostPixels = 1 << 14
	f.Cleanup(func() { decoding.MostPixels = decoding.MaxPixels })
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data, nil, nil)
		if err != nil {
			if !errors.Is(err, decoding.ErrCorrupt) && diag.As(err, diag.ErrUnsupported) == nil {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		pixels(p)
	})
}
