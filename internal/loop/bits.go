package loop

import "github.com/weirml/weir/internal/dtype"

// LoadBits returns the bits of element i of data as Const holds them: zero-extended to 64 bits.
func LoadBits(dt dtype.DType, data []byte, i int64) uint64 { return loadBits(dt.Bits(), data, i) }

// StoreBits stores the low bits of x as element i of data: the inverse of LoadBits.
func StoreBits(dt dtype.DType, data []byte, i int64, x uint64) { storeBits(dt.Bits(), data, i, x) }
