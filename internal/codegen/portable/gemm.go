package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
)

// The contraction's blocking, in elements. A panel of A is panelRows rows by up to blockDepth columns, a panel of B
// up to blockDepth rows by panelCols columns; both are packed so that the micro-kernel reads them from end to end. The
// register tile is 2 × 4 because Go's compiler keeps exactly that many accumulators, with their operands, in the fifteen
// float registers of amd64; wider tiles spill, and a spilled accumulator costs a store and a load in the chain of sums.
const (
	panelRows     = 2
	panelCols     = 4
	unrolled      = 4 // the micro-kernel's steps of K in one round: panels are padded with zeros to a multiple
	blockDepth    = 256
	blockRows     = 128
	blockCols     = 128
	panelElements = (blockRows + blockCols) * blockDepth // elements of both packing buffers
)

// accumulator is an element type that a Contract adds in. Unsigned types share the signed ones' code: they wrap alike.
type accumulator interface {
	float32 | float64 | int32 | int64
}

// matrix is a Tile at run time: element (r, c) lies at offset + r·row + c·col elements from base.
type matrix struct {
	base             unsafe.Pointer
	offset, row, col int64
}

// pack copies count lines of a tile, converted to the accumulator's type, into panels of the given width: a panel holds, for each
// k, one element of each of its lines. The tile's rows run along k and its columns are the lines. What lies beyond
// count or depth, up to width and padded, is zero.
type pack[T accumulator] func(to []T, from matrix, width, count, padded, depth int64)

// contract adds a product of tiles: c[m, n] += Σ a[m, k] × b[k, n]. Sums run over blocks of blockDepth in order, within a block from
// zero upward, so their order depends on k alone. panels has panelElements elements.
func contract[T accumulator](panels []T, m, n, k int64, c, a, b matrix, packA, packB pack[T]) {
	if m <= 0 || n <= 0 || k <= 0 {
		return
	}
	left, right := panels[:blockRows*blockDepth], panels[blockRows*blockDepth:panelElements]
	for k0 := int64(0); k0 < k; k0 += blockDepth {
		depth := min(blockDepth, k-k0)
		padded := (depth + unrolled - 1) &^ (unrolled - 1)
		for n0 := int64(0); n0 < n; n0 += blockCols {
			cols := min(blockCols, n-n0)
			packB(right, b.at(k0, n0), panelCols, cols, padded, depth)
			for m0 := int64(0); m0 < m; m0 += blockRows {
				rows := min(blockRows, m-m0)
				packA(left, a.at(m0, k0).turned(), panelRows, rows, padded, depth)
				multiply(left, right, rows, cols, padded, c.at(m0, n0))
			}
		}
	}
}

// at is the tile that begins at (r, c).
func (m matrix) at(r, c int64) matrix {
	m.offset += r*m.row + c*m.col
	return m
}

// turned is the transposed tile.
func (m matrix) turned() matrix {
	m.row, m.col = m.col, m.row
	return m
}

// multiply adds the product of packed panels to c.
func multiply[T accumulator](left, right []T, rows, cols, depth int64, c matrix) {
	var tile [panelRows * panelCols]T
	size := int64(unsafe.Sizeof(tile[0]))
	for j := int64(0); j < cols; j += panelCols {
		b := unsafe.Pointer(&right[j*depth])
		for i := int64(0); i < rows; i += panelRows {
			micro(int(depth), unsafe.Pointer(&left[i*depth]), b, &tile)
			at := (c.offset + i*c.row + j*c.col) * size
			if i+panelRows <= rows && j+panelCols <= cols && c.col == 1 {
				first := (*[panelCols]T)(unsafe.Add(c.base, at))
				second := (*[panelCols]T)(unsafe.Add(c.base, at+c.row*size))
				for x := range panelCols {
					first[x] += tile[x]
				}
				for x := range panelCols {
					second[x] += tile[panelCols+x]
				}
				continue
			}
			for y := range min(panelRows, rows-i) {
				for x := range min(panelCols, cols-j) {
					p := (*T)(unsafe.Add(c.base, at+(y*c.row+x*c.col)*size))
					*p += tile[y*panelCols+x]
				}
			}
		}
	}
}

// micro computes a register tile: tile[i, j] = Σ a[k, i] × b[k, j] over packed panels, k a positive multiple of unrolled.
func micro[T accumulator](k int, a, b unsafe.Pointer, tile *[panelRows * panelCols]T) {
	var c00, c01, c02, c03, c10, c11, c12, c13 T
	size := unsafe.Sizeof(c00)
	for {
		x := (*[panelRows * unrolled]T)(a)
		y := (*[panelCols * unrolled]T)(b)
		{
			a0, a1 := x[0], x[1]
			p := y[0]
			c00 += p * a0
			c10 += p * a1
			p = y[1]
			c01 += p * a0
			c11 += p * a1
			p = y[2]
			c02 += p * a0
			c12 += p * a1
			p = y[3]
			c03 += p * a0
			c13 += p * a1
		}
		{
			a0, a1 := x[2], x[3]
			p := y[4]
			c00 += p * a0
			c10 += p * a1
			p = y[5]
			c01 += p * a0
			c11 += p * a1
			p = y[6]
			c02 += p * a0
			c12 += p * a1
			p = y[7]
			c03 += p * a0
			c13 += p * a1
		}
		{
			a0, a1 := x[4], x[5]
			p := y[8]
			c00 += p * a0
			c10 += p * a1
			p = y[9]
			c01 += p * a0
			c11 += p * a1
			p = y[10]
			c02 += p * a0
			c12 += p * a1
			p = y[11]
			c03 += p * a0
			c13 += p * a1
		}
		{
			a0, a1 := x[6], x[7]
			p := y[12]
			c00 += p * a0
			c10 += p * a1
			p = y[13]
			c01 += p * a0
			c11 += p * a1
			p = y[14]
			c02 += p * a0
			c12 += p * a1
			p = y[15]
			c03 += p * a0
			c13 += p * a1
		}
		if k -= unrolled; k <= 0 {
			break
		}
		a = unsafe.Add(a, panelRows*unrolled*size)
		b = unsafe.Add(b, panelCols*unrolled*size)
	}
	*tile = [panelRows * panelCols]T{c00, c01, c02, c03, c10, c11, c12, c13}
}

// packed is the pack for elements stored as S.
func packed[T accumulator, S number](to []T, from matrix, width, count, padded, depth int64) {
	var element S
	size := int64(unsafe.Sizeof(element))
	for j := int64(0); j < count; j += width {
		panel := to[j*padded : (j+width)*padded]
		if j+width > count || padded != depth {
			clear(panel)
		}
		at := from.offset + j*from.col
		if j+width <= count && from.col == 1 && width == panelCols {
			for k := range depth {
				line := (*[panelCols]S)(unsafe.Add(from.base, (at+k*from.row)*size))
				*(*[panelCols]T)(panel[k*panelCols:]) = [panelCols]T{T(line[0]), T(line[1]), T(line[2]), T(line[3])}
			}
			continue
		}
		for x := range min(width, count-j) {
			o, step := (at+x*from.col)*size, from.row*size
			for k := x; k < depth*width; k += width {
				panel[k] = T(*(*S)(unsafe.Add(from.base, o)))
				o += step
			}
		}
	}
}

// packedBy is the pack for elements that have no Go type: get reads element i from base.
func packedBy[T accumulator](get func(base unsafe.Pointer, i int64) T) pack[T] {
	return func(to []T, from matrix, width, count, padded, depth int64) {
		for j := int64(0); j < count; j += width {
			panel := to[j*padded : (j+width)*padded]
			clear(panel)
			for x := range min(width, count-j) {
				for k := range depth {
					panel[k*width+x] = get(from.base, from.offset+(j+x)*from.col+k*from.row)
				}
			}
		}
	}
}

// packer is the pack for elements of type dt.
func packer[T accumulator](c *compiler, dt dtype.DType) pack[T] {
	r := represents[dt]
	if plain[r].Bits() != dt.Bits() {
		if get := reader[float32](dt, r); r == repF32 && get != nil {
			return packedBy(func(base unsafe.Pointer, i int64) T { return T(get(base, i)) })
		}
		if get := reader[uint8](dt, r); get != nil {
			return packedBy(func(base unsafe.Pointer, i int64) T { return T(get(base, i)) })
		}
		get := reader[int8](dt, r)
		return packedBy(func(base unsafe.Pointer, i int64) T { return T(get(base, i)) })
	}
	choices := [reps]pack[T]{repU8: packed[T, uint8], repI8: packed[T, int8], repU16: packed[T, uint16], repI16: packed[T, int16],
		repU32: packed[T, uint32], repI32: packed[T, int32], repU64: packed[T, uint64], repI64: packed[T, int64],
		repF32: packed[T, float32], repF64: packed[T, float64]}
	if choices[r] == nil {
		c.bug("a contraction cannot multiply %s", dt)
	}
	return choices[r]
}
