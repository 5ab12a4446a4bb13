package transformers

import (
	"fmt"
	"hash/crc32"
	"testing"
)

// TestBuckets compares the buckets of distances from −1100 to 1100 with the checksums of those of transformers' T5 and
// DeBERTa (testdata/buckets.py).
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		buckets, most int64
		t5, deberta   uint32
	}{
		{32, 128, 0x78f67644, 0x9e5ed928},
		{32, 256, 0xe503e0ad, 0x5a213339},
		{64, 128, 0x4eddd07d, 0xb157c1ab},
		{16, 40, 0xf1165e85, 0x1bbcc2c6},
		{8, 64, 0x6379c8aa, 0xecf24198},
		{10, 33, 0x30d40de5, 0xe0e62886},
		{256, 512, 0x81d102aa, 0x497be448},
		{256, 1024, 0x0e0ff897, 0xddfead9e},
		{512, 512, 0x621a7970, 0x825cf4cc},
		{128, 512, 0x049e2ff3, 0xaae767cb},
		{320, 800, 0xbe55237a, 0xdc7c70d3},
	} {
		var t5, deberta []byte
		for d := int64(-1100); d <= 1100; d++ {
			near := min(max(d, -c.most), c.most) // as tables of distances are limited
			t5 = fmt.Append(t5, bucket(near, c.buckets, c.most), " ")
			row := min(max(logBucket(near, c.buckets, c.most)+c.buckets, 0), 2*c.buckets-1)
			deberta = fmt.Append(deberta, row, " ")
		}
		if got := crc32.ChecksumIEEE(t5); got != c.t5 {
			t.Errorf("T5, %d buckets up to %d: %#x", c.buckets, c.most, got)
		}
		if got := crc32.ChecksumIEEE(deberta); got != c.deberta {
			t.Errorf("DeBERTa, %d buckets up to %d: %#x", c.buckets, c.most, got)
		}
	}
}
