package dtype

import (
	"fmt"
	"sync"
	"unsafe"
)

// ConvertSlice converts the n elements of s, packed and of type src, and stores them in d, packed and of type dst. The
// package comment defines the conversions; saturate is for the float8 types (see Encode; F8E8M0 rounds Up). If the
// types are equal, elements are copied bit for bit, except that a Bool becomes 0 or 1. Unused bits of d's last byte
// become 0. d and s must be long enough and must not overlap. String panics.
func ConvertSlice(dst DType, d []byte, src DType, s []byte, n int64, saturate bool) {
	ConvertSliceRound(dst, d, src, s, n, saturate, Up)
}

// ConvertSliceRound is ConvertSlice with the rounding mode of F8E8M0.
func ConvertSliceRound(dst DType, d []byte, src DType, s []byte, n int64, saturate bool, round Round) {
	d, s = window(dst, d, n), window(src, s, n)
	switch {
	case n == 0:
	case dst == src && dst != Bool:
		copy(d, s)
		clearTail(dst, d, n)
	case !aligned(dst, d) || !aligned(src, s) || dst.IsComplex() != src.IsComplex():
		convertElements(dst, d, src, s, n, saturate, round)
	case direct[src][dst] != nil:
		direct[src][dst](d, s, int(n))
	default:
		convertBlocks(dst, d, src, s, n, saturate, round)
	}
}

// window returns the bytes of n elements. It panics for strings, and if the slice is too short.
func window(dt DType, data []byte, n int64) []byte {
	size, err := dt.Bytes(n)
	if err != nil || dt.Bits() == 0 || size > int64(len(data)) {
		panic(fmt.Sprintf("dtype: %d bytes are not %d elements of %v", len(data), n, dt))
	}
	return data[:size]
}

// aligned reports whether data can be accessed through Go's types.
func aligned(dt DType, data []byte) bool {
	return len(data) == 0 || uintptr(unsafe.Pointer(&data[0]))%uintptr(min(max(dt.Size(), 1), 8)) == 0
}

// clearTail clears the bits after the last of n elements.
func clearTail(dt DType, data []byte, n int64) {
	if used := n * int64(dt.Bits()%8) % 8; used != 0 {
		data[len(data)-1] &= 1<<used - 1
	}
}

// convertElements converts one element after the other; it is the reference for the other ways.
func convertElements(dst DType, d []byte, src DType, s []byte, n int64, saturate bool, round Round) {
	for i := range n {
		switch {
		case src.IsComplex() && (dst.IsComplex() || dst == Bool):
			StoreComplex(dst, d, i, LoadComplex(src, s, i))
		case src.IsComplex() || src.IsFloat():
			storeFloat(dst, d, i, LoadFloat(src, s, i), saturate, round)
		case src == U64:
			storeUnsigned(dst, d, i, uint64(LoadInt(src, s, i)), saturate, round)
		default:
			storeSigned(dst, d, i, LoadInt(src, s, i), saturate, round)
		}
	}
	clearTail(dst, d, n)
}

// block is the number of elements that convertBlocks converts at a time: they fill entire bytes of every packed type.
const block = 256

// buffers has two blocks of the widest elements.
type buffers struct{ from, to [block]uint64 }

var pool = sync.Pool{New: func() any { return new(buffers) }}

func bytesOf(buffer *[block]uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(buffer)), block*8)
}

// convertBlocks converts by way of Go's types: it unpacks a block of s if src has no Go type, converts it, and packs it
// if dst has none.
func convertBlocks(dst DType, d []byte, src DType, s []byte, n int64, saturate bool, round Round) {
	b := pool.Get().(*buffers)
	defer pool.Put(b)
	from, to := bytesOf(&b.from), bytesOf(&b.to)
	for done := int64(0); done < n; done += block {
		count := int(min(block, n-done))
		in, inType := s[done*int64(src.Bits())/8:], src
		if carriers[src] != src {
			unpack(src, from, in, count)
			in, inType = from, carriers[src]
		}
		out := d[done*int64(dst.Bits())/8:]
		if carriers[dst] == dst || dst == Bool {
			convertDirect(dst, out, inType, in, count)
			continue
		}
		if dst.IsInt() {
			convertDirect(U8, to, inType, in, count)
			packCodes(dst, out, to, count)
			continue
		}
		encodeBlock(dst, out, to, inType, in, count, saturate, round)
	}
}

// convertDirect converts by a loop of direct, which must have one for the pair; equal types are copied.
func convertDirect(dst DType, d []byte, src DType, s []byte, n int) {
	if dst == src {
		copy(d[:n*dst.Size()], s)
		return
	}
	direct[src][dst](d, s, n)
}

// carriers maps a type to the Go type that holds its values without rounding: the type itself if Go has it.
var carriers = func() (table [count]DType) {
	for _, dt := range All() {
		switch {
		case dt == Bool, dt.IsUnsigned() && dt.IsSubByte():
			table[dt] = U8
		case dt.IsSigned() && dt.IsSubByte():
			table[dt] = I8
		case dt.IsFloat() && dt.Bits() <= 16:
			table[dt] = F32
		default:
			table[dt] = dt
		}
	}
	return table
}()

// unpack converts n ≤ block elements of a type that Go lacks to its carrier.
func unpack(dt DType, to, s []byte, n int) {
	if convert := direct[dt][carriers[dt]]; convert != nil {
		convert(to, s, n)
		return
	}
	table, width := decoded[dt], dt.Bits()
	switch {
	case width == 8:
		values := slice[float32](to, n)
		for i, code := range s[:n] {
			values[i] = table[code]
		}
	case table != nil:
		values := slice[float32](to, n)
		for i := range values {
			values[i] = table[codeAt(s, i, width)]
		}
	case dt.IsSigned():
		for i := range n {
			unused := 8 - width
			to[i] = byte(int8(codeAt(s, i, width)<<unused) >> unused)
		}
	default:
		for i := range n {
			to[i] = codeAt(s, i, width)
		}
	}
}

// codeAt returns packed code i of a type of 2 or 4 bits.
func codeAt(s []byte, i, width int) byte {
	each := 8 / width // 2 or 4
	return s[i/each] >> (i & (each - 1) * width) & (1<<width - 1)
}

// packCodes packs n ≤ block codes, one per byte, of a type of at most eight bits.
func packCodes(dt DType, d, codes []byte, n int) {
	width := dt.Bits()
	each := 8 / width
	mask := byte(1<<width - 1)
	for i := 0; i < n; i += each {
		packed := byte(0)
		for j := range min(each, n-i) {
			packed |= codes[i+j] & mask << (j * width)
		}
		d[i/each] = packed
	}
}

// encodeBlock converts n ≤ block elements of one of Go's types to a float type of at most 16 bits, with a single
// rounding.
func encodeBlock(dst DType, d, to []byte, src DType, s []byte, n int, saturate bool, round Round) {
	values := slice[float64](to, n)
	switch src {
	case F64:
		copy(values, slice[float64](s, n))
	case I64:
		for i, x := range slice[int64](s, n) {
			values[i] = oddFloat(x)
		}
	case U64:
		for i, x := range slice[uint64](s, n) {
			values[i] = oddUnsigned(x)
		}
	default:
		direct[src][F64](to, s, n)
	}
	if dst.Size() == 2 {
		codes := slice[uint16](d, n)
		for i, x := range values {
			codes[i] = Encode(dst, x, saturate)
		}
		return
	}
	codes := to[:n] // code i is before value i+1, which is read next
	for i, x := range values {
		if dst == F8E8M0 {
			codes[i] = EncodeE8M0(x, saturate, round)
		} else {
			codes[i] = byte(Encode(dst, x, saturate))
		}
	}
	packCodes(dst, d, codes, n)
}
