package parquet

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// largest is the most bytes of a page that is uncompressed, and of the values of a row in one column.
const largest = 256 << 20

// codec is a way to compress bytes.
type codec struct {
	ratio int64                       // the most bytes that one stands for
	fill  func(to, from []byte) error // fills memory with what compressed bytes stand for
}

var codecs = map[format.CompressionCodec]codec{
	format.Uncompressed: {1, func(to, from []byte) error {
		if len(from) != len(to) {
			return fmt.Errorf("%d bytes are promised, there are %d", len(to), len(from))
		}
		copy(to, from)
		return nil
	}},
	format.Snappy: {32, func(to, from []byte) error {
		n, err := snappy.DecodedLen(from)
		if err != nil || n != len(to) {
			return fmt.Errorf("%d bytes are promised, there are %d, %v", len(to), n, err)
		}
		_, err = snappy.Decode(to, from)
		return err
	}},
	format.Gzip: {1040, func(to, from []byte) error {
		r, err := gzip.NewReader(bytes.NewReader(from))
		return filled(to, r, err)
	}},
	format.Brotli: {1 << 24, func(to, from []byte) error {
		return filled(to, brotli.NewReader(bytes.NewReader(from)), nil)
	}},
	format.Zstd: {1 << 17, func(to, from []byte) error {
		r, err := zstd.NewReader(bytes.NewReader(from), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(largest))
		if err == nil {
			defer r.Close()
		}
		return filled(to, r, err)
	}},
	format.Lz4Raw: {256, func(to, from []byte) error {
		n, err := lz4.UncompressBlock(from, to)
		if err == nil && n != len(to) {
			err = fmt.Errorf("%d bytes are promised, there are %d", len(to), n)
		}
		return err
	}},
}

// filled fills memory with all that a reader has.
func filled(to []byte, from io.Reader, err error) error {
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(from, to); err != nil {
		return err
	}
	var more [1]byte
	if n, err := from.Read(more[:]); n > 0 || err != io.EOF {
		return fmt.Errorf("%d bytes are promised, there are more, %v", len(to), err)
	}
	return nil
}
