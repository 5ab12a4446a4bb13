// Package data embeds 1,797 handwritten digits of 8 × 8 pixels in a Go binary.
package data

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// digits are images, each 64 pixels of 0 to 16 and the digit that its writer meant.
//
//go:embed digits.gz
var digits []byte

// Set is a set of images, each 64 shares of ink from 0 to 1, with their digits.
type Set struct {
	Images []float32
	Labels []int32
}

// Load unpacks the images; every fourth is for tests.
func Load() (seen, unseen Set, err error) {
	z, err := gzip.NewReader(bytes.NewReader(digits))
	if err != nil {
		return seen, unseen, err
	}
	raw, err := io.ReadAll(z)
	for i := 0; len(raw) >= 65; i, raw = i+1, raw[65:] {
		s := &seen
		if i%4 == 3 {
			s = &unseen
		}
		for _, x := range raw[:64] {
			s.Images = append(s.Images, float32(x)/16)
		}
		s.Labels = append(s.Labels, int32(raw[64]))
	}
	return seen, unseen, err
}

// Only returns the images of some digits, with labels from 0 on in the order given.
func (s Set) Only(digits ...int32) (some Set) {
	for i, label := range s.Labels {
		for k, d := range digits {
			if label == d {
				some.Images = append(some.Images, s.Images[64*i:][:64]...)
				some.Labels = append(some.Labels, int32(k))
			}
		}
	}
	return some
}
