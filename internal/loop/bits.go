package loop

import "github.com/weirml/weir/internal/dtype"

// LoadBits is element i of data as Const holds it: its representation, zero-extended to 64 bits.
func LoadBits(dt dtype.DType, data []byte, i int64) uint64 { return loadBits(dt.Bits(), data, i) }

// StoreBits is LoadBits' converse.
func StoreBits(dt dtype.DType, data []byte, i int64, x uint64) { storeBits(dt.Bits(), data, i, x) }
