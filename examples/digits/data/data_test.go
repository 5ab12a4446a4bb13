package data

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"testing"
)

// TestPictures checks the embedded pictures: two of each digit, with scores that add up to 1.
func TestPictures(t *testing.T) {
	pictures := Pictures()
	if len(pictures) != 20 {
		t.Fatalf("%d pictures, want 20", len(pictures))
	}
	var seen [Digits]int
	for _, p := range pictures {
		seen[p.Label]++
		if len(p.Pixels) != Side*Side || len(p.Scores) != Digits {
			t.Fatalf("%s: %d pixels, %d scores", p.Name, len(p.Pixels), len(p.Scores))
		}
		best, sum, ink := 0, 0.0, float32(0)
		for i, s := range p.Scores {
			sum += float64(s)
			if s > p.Scores[best] {
				best = i
			}
		}
		for _, v := range p.Pixels {
			ink = max(ink, v)
		}
		if best != p.Label || math.Abs(sum-1) > 1e-5 || ink < 0.9 || ink > 1 {
			t.Errorf("%s: label %d, best score at %d, sum of scores %v, darkest pixel %v", p.Name, p.Label, best, sum, ink)
		}
	}
	for digit, n := range seen {
		if n != 2 {
			t.Errorf("%d pictures of digit %d, want 2", n, digit)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	var large bytes.Buffer
	if err := png.Encode(&large, image.NewGray(image.Rect(0, 0, 9, 8))); err != nil {
		t.Fatal(err)
	}
	short := Pictures()[0].PNG
	for name, file := range map[string][]byte{"empty": nil, "not a PNG": Model, "9 by 8": large.Bytes(),
		"cut": short[:len(short)-30]} {
		if pixels, err := Decode(file); err == nil {
			t.Errorf("%s: decoded to %d pixels, want an error", name, len(pixels))
		}
	}
}
