package hostop

import (
	"math"
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// keys reads elements of a tensor as unsigned integers in the elements' order. Equal elements have equal keys, and so
// have +0 and −0. All NaNs have one key, which is above all others.
type keys struct {
	x    *tensor.Tensor
	wide bool   // keys of 64 bits, else of 32
	flip uint64 // of a descending order: all bits of a key
	// The elements, if they are of this type and aligned.
	f32 []float32
	f64 []float64
	i32 []int32
	i64 []int64
}

// keysOf returns the keys of a tensor of numbers.
func keysOf(x *tensor.Tensor, descending bool) *keys {
	k := &keys{x: x, wide: x.DType().Bits() > 32}
	if descending {
		k.flip = math.MaxUint32
		if k.wide {
			k.flip = math.MaxUint64
		}
	}
	switch x.DType() {
	case dtype.F32:
		k.f32, _ = tensor.Data[float32](x)
	case dtype.F64:
		k.f64, _ = tensor.Data[float64](x)
	case dtype.I32:
		k.i32, _ = tensor.Data[int32](x)
	case dtype.I64:
		k.i64, _ = tensor.Data[int64](x)
	}
	return k
}

// read stores the keys of elements begin, begin + step, … in to.
func (k *keys) read(to []uint64, begin, step int64) {
	switch {
	case k.f32 != nil:
		for i := range to {
			to[i] = uint64(keyOf32(k.f32[begin])) ^ k.flip
			begin += step
		}
	case k.i32 != nil:
		for i := range to {
			to[i] = uint64(uint32(k.i32[begin])^1<<31) ^ k.flip
			begin += step
		}
	default:
		for i := range to {
			to[i] = k.one(begin)
			begin += step
		}
	}
}

// one returns the key of element i.
func (k *keys) one(i int64) uint64 {
	switch dt := k.x.DType(); {
	case k.i64 != nil:
		return uint64(k.i64[i]) ^ 1<<63 ^ k.flip
	case k.f64 != nil:
		return keyOf64(k.f64[i]) ^ k.flip
	case k.f32 != nil:
		return uint64(keyOf32(k.f32[i])) ^ k.flip
	case dt.IsFloat() && k.wide:
		return keyOf64(k.x.Float(i)) ^ k.flip
	case dt.IsFloat():
		return uint64(keyOf32(float32(k.x.Float(i)))) ^ k.flip
	case dt == dtype.U64, dt == dtype.U32:
		return uint64(k.x.Int(i)) ^ k.flip
	case k.wide:
		return uint64(k.x.Int(i)) ^ 1<<63 ^ k.flip
	}
	return uint64(k.x.Int(i)+1<<31)&math.MaxUint32 ^ k.flip
}

// keyOf32 returns the key of an f32 in ascending order.
func keyOf32(v float32) uint32 {
	bits := math.Float32bits(v)
	if bits<<1 > 0xff000000 {
		return math.MaxUint32
	}
	if bits == 1<<31 {
		bits = 0
	}
	return bits ^ (uint32(int32(bits)>>31) | 1<<31)
}

// keyOf64 returns the key of an f64 in ascending order.
func keyOf64(v float64) uint64 {
	bits := math.Float64bits(v)
	if bits<<1 > 0xffe0000000000000 {
		return math.MaxUint64
	}
	if bits == 1<<63 {
		bits = 0
	}
	return bits ^ (uint64(int64(bits)>>63) | 1<<63)
}

// entry is an element of a list under sort: the upper 32 bits are the key, or half of it; the lower 32 bits are the
// element's index in its row.
type entry = uint64

// indexOf returns the index of an entry's element.
func indexOf(e entry) int64 { return int64(e & math.MaxUint32) }

// mostEntries is the largest extent of a row whose indices fit entries.
var mostEntries int64 = math.MaxUint32

// entries returns memory of i64 as a slice of entries.
func entries(room []int64) []entry {
	return unsafe.Slice((*entry)(unsafe.Pointer(unsafe.SliceData(room))), len(room))
}

// sort sorts list, whose entry of index p has the key of element begin + step·p. room is scratch of the same length.
// The sort is stable.
func (k *keys) sort(c *Call, list, room []entry, begin, step int64) {
	if k.wide {
		for i, e := range list {
			list[i] = k.one(begin+step*indexOf(e))<<32 | e&math.MaxUint32
		}
		c.work(int64(len(list)))
		sortEntries(c, list, room)
		for i, e := range list {
			list[i] = k.one(begin+step*indexOf(e))>>32<<32 | e&math.MaxUint32
		}
		c.work(int64(len(list)))
	}
	sortEntries(c, list, room)
}

// sortEntries sorts by the upper halves of the entries; it is stable. room is scratch of the same length.
func sortEntries(c *Call, list, room []entry) {
	if len(list) <= 24 {
		c.work(int64(len(list)) * 8)
		for i := 1; i < len(list); i++ {
			e, at := list[i], i
			for ; at > 0 && list[at-1]>>32 > e>>32; at-- {
				list[at] = list[at-1]
			}
			list[at] = e
		}
		return
	}
	width := 8 // bits of a digit
	if len(list) > 1<<12 {
		width = 11
	}
	some, all := entry(0), entry(math.MaxUint64)
	for chunk := range slices.Chunk(list, workMost) {
		for _, e := range chunk {
			some, all = some|e, all&e
		}
		c.work(int64(len(chunk)) / 2)
	}
	from, to := list, room[:len(list)]
	for shift := 32; shift < 64; shift += width {
		mask := entry(1)<<width - 1
		if (some^all)>>shift&mask == 0 {
			continue
		}
		var begins [1 << 11]uint32
		for chunk := range slices.Chunk(from, workMost) {
			for _, e := range chunk {
				begins[e>>shift&mask&(1<<11-1)]++
			}
			c.work(int64(len(chunk)))
		}
		at := uint32(0)
		for d := range entry(1) << width {
			at, begins[d] = at+begins[d], at
		}
		for chunk := range slices.Chunk(from, workMost) {
			for _, e := range chunk {
				d := e >> shift & mask & (1<<11 - 1)
				to[begins[d]] = e
				begins[d]++
			}
			c.work(2 * int64(len(chunk)))
		}
		from, to = to, from
	}
	if &from[0] != &list[0] {
		for chunk := range slices.Chunk(from, workMost) {
			copy(list, chunk)
			list = list[len(chunk):]
			c.work(int64(len(chunk)) / 4)
		}
	}
}
