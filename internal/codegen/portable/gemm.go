package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
)

// The contraction's blocking, in elements. A panel of A is panelRows rows by up to blockDepth columns, a panel of B up
// to blockDepth rows by panelCols columns; both are packed in the order in which the micro-kernel reads them. The
// register tile is 2 × 4 because Go's compiler keeps exactly that many accumulators, with their operands, in the
// fifteen float registers of amd64; wider tiles spill, and a spilled accumulator costs a store and a load in the chain
// of sums.
const (
	panelRows  = 2
	panelCols  = 4
	unrolled   = 4 // the micro-kernel's steps of K per iteration: panels are padded with zeros to a multiple
	blockDepth = 256
	blockRows  = 128
	blockCols  = 128
)

// panelRoom is the size of the memory for packed operands, in elements.
type panelRoom struct{ left, right int64 }

// roomFor returns the size for products of at most m rows, n columns and k steps.
func roomFor(m, n, k int64) panelRoom {
	m, n, k = max(m, 1), max(n, 1), max(k, 1)
	room := panelRoom{left: blockRows * blockDepth, right: roundUp(min(n, blockCols),
		panelCols) * roundUp(min(k, blockDepth), unrolled)}
	if m <= room.left && k <= room.left {
		room.left = min(room.left, roundUp(m, panelRows)*roundUp(k, unrolled))
	}
	return room
}

// accumulator is a type of sums of a Contract. Unsigned types share the code of signed ones, since both wrap alike.
type accumulator interface {
	float32 | float64 | int32 | int64
}

// matrix is a Tile at run time: element (r, c) is offset + r·row + c·col elements after base.
type matrix struct {
	base             unsafe.Pointer
	offset, row, col int64
}

// pack copies count lines of a tile, converted to the accumulator's type, into panels of a width: a panel has, for each
// k, one element of each of its lines. The tile's rows run along k, and its columns are the lines. Elements of the
// panels beyond count or depth, up to width and padded, are zero.
type pack[T accumulator] func(to []T, from matrix, width, count, padded, depth int64)

// operandForm says how a contraction reads an operand: pack copies it into panels; direct means that its elements in
// memory have the accumulator's type, so that it can be read without a copy.
type operandForm[T accumulator] struct {
	pack   pack[T]
	direct bool
}

// fewRows is the largest number of rows (or columns) of a product for which packing the other operand does not pay.
const fewRows = 4

// contract adds a product of tiles: c[m, n] += Σ a[m, k] × b[k, n]. The order of a sum depends only on the shape of the
// product: blocks of blockDepth, or of four if there are few rows or columns. room is the sizes into which panels is
// divided. held says which tile the panels of A hold from an earlier call, and is updated; it must be zero if A may
// have changed since.
func contract[T accumulator](e effort, panels []T, room panelRoom, held *leftPanels, m, n, k int64, c, a, b matrix,
	formA, formB operandForm[T]) {
	if m <= 0 || n <= 0 || k <= 0 {
		return
	}
	if formA.direct && formB.direct {
		switch {
		case m <= fewRows && (b.col == 1 && c.col == 1 || b.row == 1 && a.col == 1):
			*held = leftPanels{}
			contractFew[T](e, m, n, k, c, a, b)
			return
		case n <= fewRows && (a.row == 1 && c.row == 1 || a.col == 1 && b.row == 1):
			*held = leftPanels{}
			contractFew[T](e, n, m, k, c.transposed(), b.transposed(), a.transposed())
			return
		}
	}
	left, right := panels[:room.left], panels[room.left:]
	rowsAtOnce, allRows := int64(blockRows), roundUp(m, panelRows)*roundUp(k, unrolled) <= room.left
	if allRows {
		rowsAtOnce = m
		if want := (leftPanels{uintptr(a.base), a.offset, a.row, a.col, m, k}); *held != want {
			*held = want
			for k0 := int64(0); k0 < k; k0 += blockDepth {
				depth := min(blockDepth, k-k0)
				formA.pack(left[k0*roundUp(m, panelRows):], a.at(0, k0).transposed(), panelRows, m, roundUp(depth, unrolled), depth)
			}
		}
	} else {
		*held = leftPanels{}
	}
	for k0 := int64(0); k0 < k; k0 += blockDepth {
		depth := min(blockDepth, k-k0)
		padded := roundUp(depth, unrolled)
		for n0 := int64(0); n0 < n; n0 += blockCols {
			cols := min(blockCols, n-n0)
			formB.pack(right, b.at(k0, n0), panelCols, cols, padded, depth)
			for m0 := int64(0); m0 < m; m0 += rowsAtOnce {
				rows := min(rowsAtOnce, m-m0)
				e.spend(rows * cols * padded / atOnce)
				if allRows {
					multiply(left[k0*roundUp(m, panelRows):], right, rows, cols, padded, c.at(m0, n0))
					continue
				}
				formA.pack(left, a.at(m0, k0).transposed(), panelRows, rows, padded, depth)
				multiply(left, right, rows, cols, padded, c.at(m0, n0))
			}
		}
	}
}

// leftPanels identifies the tile whose elements the panels of A all hold, with its number of rows and columns. The zero
// value is none. It is stored in a worker's scratch, and therefore has the address as an integer.
type leftPanels struct {
	base             uintptr
	offset, row, col int64
	m, k             int64
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// contractFew is contract for few rows, without packing. If the rows of b are contiguous, it adds four of them at a
// time to those of c; otherwise the columns of b and the rows of a are contiguous, and each element of c is one long
// sum.
func contractFew[T accumulator](e effort, m, n, k int64, c, a, b matrix) {
	if b.col == 1 && c.col == 1 {
		for ; n > longRow; n -= longRow { // no sum depends on the number of columns
			contractFew[T](e, m, longRow, k, c, a, b)
			c, b = c.at(0, longRow), b.at(0, longRow)
		}
		for k0 := int64(0); k0 < k; k0 += 4 {
			e.spend(1 + m*n/atOnce)
			for i := range m {
				to := unsafe.Slice(element[T](c.base, c.offset+i*c.row), n)
				if k0+4 > k {
					for x := k0; x < k; x++ {
						addScaled(to, unsafe.Slice(element[T](b.base, b.offset+x*b.row), n), at[T](a, i, x))
					}
					continue
				}
				b0, b1 := unsafe.Slice(element[T](b.base, b.offset+k0*b.row), n),
					unsafe.Slice(element[T](b.base, b.offset+(k0+1)*b.row), n)
				b2, b3 := unsafe.Slice(element[T](b.base, b.offset+(k0+2)*b.row), n),
					unsafe.Slice(element[T](b.base, b.offset+(k0+3)*b.row), n)
				addFour(to, b0, b1, b2, b3, at[T](a, i, k0), at[T](a, i, k0+1), at[T](a, i, k0+2), at[T](a, i, k0+3))
			}
		}
		return
	}
	for j := range n {
		column := unsafe.Slice(element[T](b.base, b.offset+j*b.col), k)
		for i := range m {
			p := element[T](c.base, c.offset+i*c.row+j*c.col)
			*p = sumLong(e, *p, unsafe.Slice(element[T](a.base, a.offset+i*a.row), k), column)
		}
	}
}

// longRow is the largest number of elements of a row or column between two checks whether a run is stopped, a multiple
// of the number of chains of a sum.
const longRow = 1 << 16

// atOnce is the number of products that count as one operation of the budget.
const atOnce = 8

// sumLong is sumProducts with checks whether the run is stopped, and the same result.
func sumLong[T accumulator](e effort, first T, x, y []T) T {
	var s [8]T
	for ; len(x) > longRow; x, y = x[longRow:], y[longRow:] {
		chainProducts(&s, x[:longRow], y[:longRow])
		e.spend(longRow / atOnce)
	}
	e.spend(1 + int64(len(x))/atOnce)
	chainProducts(&s, x, y)
	return first + inPairs(&s)
}

// at returns element (r, c) of a tile.
func at[T accumulator](m matrix, r, c int64) T {
	return *element[T](m.base, m.offset+r*m.row+c*m.col)
}

// addFour adds four scaled rows to a row.
func addFour[T accumulator](to, b0, b1, b2, b3 []T, a0, a1, a2, a3 T) {
	b0, b1, b2, b3 = b0[:len(to)], b1[:len(to)], b2[:len(to)], b3[:len(to)]
	i := 0
	for ; i+2 <= len(to); i += 2 {
		r := (*[2]T)(unsafe.Pointer(&to[i]))
		v, w := (*[2]T)(unsafe.Pointer(&b0[i])), (*[2]T)(unsafe.Pointer(&b1[i]))
		x, y := (*[2]T)(unsafe.Pointer(&b2[i])), (*[2]T)(unsafe.Pointer(&b3[i]))
		r[0] += T(v[0]*a0) + T(w[0]*a1) + (T(x[0]*a2) + T(y[0]*a3))
		r[1] += T(v[1]*a0) + T(w[1]*a1) + (T(x[1]*a2) + T(y[1]*a3))
	}
	for ; i < len(to); i++ {
		to[i] += T(b0[i]*a0) + T(b1[i]*a1) + (T(b2[i]*a2) + T(b3[i]*a3))
	}
}

// at returns the tile that begins at (r, c).
func (m matrix) at(r, c int64) matrix {
	m.offset += r*m.row + c*m.col
	return m
}

// transposed returns the transposed tile.
func (m matrix) transposed() matrix {
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

// micro computes a register tile: tile[i, j] = Σ a[k, i] × b[k, j] over packed panels, k a positive multiple of
// unrolled.
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

// packed is the pack of elements stored as S.
func packed[T accumulator, S number](to []T, from matrix, width, count, padded, depth int64) {
	j := int64(0)
	if from.col == 1 && width == panelCols {
		for ; j+lineCols <= count; j += lineCols {
			packLine[T, S](to[j*padded:(j+lineCols)*padded], from.at(0, j), padded, depth)
		}
	}
	size := int64(unsafe.Sizeof(*new(S)))
	for ; j < count; j += width {
		panel := to[j*padded : (j+width)*padded]
		if j+width > count {
			clear(panel)
		} else {
			clear(panel[depth*width:])
		}
		if from.row == 1 && width == panelRows && j+width <= count {
			x := unsafe.Slice(element[S](from.base, from.offset+j*from.col), depth)
			y := unsafe.Slice(element[S](from.base, from.offset+(j+1)*from.col), depth)
			for k, v := range x {
				*(*[panelRows]T)(panel[panelRows*k:]) = [panelRows]T{T(v), T(y[k])}
			}
			continue
		}
		for x := range min(width, count-j) {
			o, step := (from.offset+(j+x)*from.col)*size, from.row*size
			for k := x; k < depth*width; k += width {
				panel[k] = T(*(*S)(unsafe.Add(from.base, o)))
				o += step
			}
		}
	}
}

// lineCols is the number of columns of four panels, a cache line of f32: reading them together reads each line once.
const lineCols = 4 * panelCols

// packLine packs lineCols contiguous columns.
func packLine[T accumulator, S number](to []T, from matrix, padded, depth int64) {
	size := int64(unsafe.Sizeof(*new(S)))
	stride := padded * panelCols
	for p := range int64(4) {
		clear(to[p*stride+depth*panelCols : (p+1)*stride])
	}
	p0, p1, p2, p3 := to[:stride], to[stride:2*stride], to[2*stride:3*stride], to[3*stride:4*stride]
	for k := range depth {
		line := (*[lineCols]S)(unsafe.Add(from.base, (from.offset+k*from.row)*size))
		at := k * panelCols
		*(*[panelCols]T)(p0[at:]) = [panelCols]T{T(line[0]), T(line[1]), T(line[2]), T(line[3])}
		*(*[panelCols]T)(p1[at:]) = [panelCols]T{T(line[4]), T(line[5]), T(line[6]), T(line[7])}
		*(*[panelCols]T)(p2[at:]) = [panelCols]T{T(line[8]), T(line[9]), T(line[10]), T(line[11])}
		*(*[panelCols]T)(p3[at:]) = [panelCols]T{T(line[12]), T(line[13]), T(line[14]), T(line[15])}
	}
}

// packedBy returns the pack of elements that have no Go type: get reads element i of the memory at base.
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

// form returns how a contraction reads elements of a type.
func form[T accumulator](c *compiler, dt dtype.DType) operandForm[T] {
	r := represents[dt]
	var same T
	if nativeType[r].Bits() != dt.Bits() {
		if get := reader[float32](dt, r); r == repF32 && get != nil {
			return operandForm[T]{pack: packedBy(func(base unsafe.Pointer, i int64) T { return T(get(base, i)) })}
		}
		if get := reader[uint8](dt, r); get != nil {
			return operandForm[T]{pack: packedBy(func(base unsafe.Pointer, i int64) T { return T(get(base, i)) })}
		}
		get := reader[int8](dt, r)
		return operandForm[T]{pack: packedBy(func(base unsafe.Pointer, i int64) T { return T(get(base, i)) })}
	}
	choices := [reps]pack[T]{repU8: packed[T, uint8], repI8: packed[T, int8], repU16: packed[T, uint16],
		repI16: packed[T, int16],
		repU32: packed[T, uint32], repI32: packed[T, int32], repU64: packed[T, uint64], repI64: packed[T, int64],
		repF32: packed[T, float32], repF64: packed[T, float64]}
	if choices[r] == nil {
		c.bug("a contraction cannot multiply %s", dt)
	}
	isFloat := T(1)/2 != 0
	return operandForm[T]{pack: choices[r], direct: dt.IsFloat() == isFloat && int(unsafe.Sizeof(same))*8 == dt.Bits()}
}
