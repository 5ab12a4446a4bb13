package picture

import (
	"bytes"
	"fmt"
	"image"
	standard "image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// TestWork checks that decoding reports its steps, in proportion to the pixels, and that a panic of the function that
// receives them ends the decoding.
func TestWork(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 1024, 768))
	for i := range m.Pix {
		m.Pix[i] = byte(i * i >> 7)
	}
	files := map[string][]byte{}
	encode := func(name string, write func(b *bytes.Buffer) error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		files[name] = b.Bytes()
	}
	encode("png", func(b *bytes.Buffer) error { return png.Encode(b, m) })
	encode("empty png", func(b *bytes.Buffer) error { return png.Encode(b, image.NewGray(m.Rect)) })
	encode("jpeg", func(b *bytes.Buffer) error { return standard.Encode(b, m, nil) })
	encode("bmp", func(b *bytes.Buffer) error { return bmp.Encode(b, m) })
	encode("tiff", func(b *bytes.Buffer) error { return tiff.Encode(b, m, nil) })
	encode("deflated tiff", func(b *bytes.Buffer) error {
		return tiff.Encode(b, m, &tiff.Options{Compression: tiff.Deflate})
	})
	encode("pnm", func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "P2 %d %d 255", m.Rect.Dx(), m.Rect.Dy())
		for _, v := range m.Pix {
			fmt.Fprint(b, " ", v)
		}
		return nil
	})
	kept, err := filepath.Glob("testdata/pictures/*")
	if err != nil || len(kept) == 0 {
		t.Fatal("no pictures", err)
	}
	for _, path := range kept {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		total, calls := int64(0), 0
		p, err := Decode(data, nil, func(steps int64) { total += steps; calls++ })
		if err != nil || p == nil {
			continue // some of the files in testdata are not supported
		}
		if data[0] == 'P' && data[1] >= '4' {
			continue // Row reads its samples from the file
		}
		if pixels := int64(p.Width) * int64(p.Height); total < pixels/16 {
			t.Errorf("%s: %d steps for %d pixels", name, total, pixels)
		}
		for _, end := range []int{1, calls/2 + 1, calls} {
			if left := leave(data, end); left != "the end" {
				t.Errorf("%s, ended at %d of %d calls, gives %v", name, end, calls, left)
			}
		}
	}
}

// leave decodes a file whose work panics at the given call, and returns what Decode panics with.
func leave(data []byte, end int) (left any) {
	defer func() { left = recover() }()
	Decode(data, nil, func(int64) {
		if end--; end == 0 {
			panic("the end")
		}
	})
	return nil
}
