package schedule

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/tensor"
)

// pieceBytes is the approximate size of a piece of a weight: each goroutine keeps that much of the weight's origins in
// memory.
const pieceBytes = 256 << 10

// leastColumns is the least number of columns of a panel in a piece, so that at most two pieces write one cache line.
const leastColumns = 8

// along returns the axis along which the weight is cut into pieces, each of which reads its own segment of the origins,
// and the extent of a piece. Along the columns' axis, a piece is a number of full panels, or an even share of one if a
// panel is too large and is not packed by groups.
func (p *Pack) along() (axis int, extent int64) {
	axis = p.from.Major()
	extent = max(1, p.piece/max(1, p.from.Size()/p.old[axis]))
	if axis == p.columns {
		share := p.Width
		for p.Group <= 1 && share%2 == 0 && share/2 >= max(extent, leastColumns) {
			share /= 2
		}
		extent = (extent + share - 1) / share * share
	}
	return axis, extent
}

// Pieces returns the number of pieces into which Fill is divided.
func (p *Pack) Pieces() int64 {
	axis, extent := p.along()
	return (p.old[axis] + extent - 1) / extent
}

// Memory returns approximately the memory that pieces [begin, end) read and other pieces do not; nil if that is not
// known.
func (p *Pack) Memory(begin, end int64) []byte {
	axis, extent := p.along()
	return p.from.OriginBytes(begin*extent, min(end*extent, p.old[axis]))
}

// Done returns the memory that only pieces [0, end) read; nil if that is not known.
func (p *Pack) Done(end int64) []byte {
	axis, extent := p.along()
	return p.from.Done(min(end*extent, p.old[axis]))
}

// Prefix returns the number of bytes at the beginning that pieces [0, end) fill: all bytes if pieces do not fill them
// in order.
func (p *Pack) Prefix(end int64) int64 {
	axis, extent := p.along()
	if axis != p.columns || end >= p.Pieces() {
		return p.Bytes()
	}
	return (end*extent + p.Width - 1) / p.Width * (p.Bytes() / p.shape[0])
}

// Origins returns the tensors that all pieces together read.
func (p *Pack) Origins() []*tensor.Tensor { return p.from.Origins() }

// Fill writes pieces [begin, end) of the packed weight into to, which has Bytes bytes, all zero. Calls for other pieces
// may run concurrently.
func (p *Pack) Fill(to []byte, begin, end int64) {
	axis, extent := p.along()
	data, steps, inMemory := p.from.Strided()
	for piece := begin; piece < end; piece++ {
		first, last := piece*extent, min((piece+1)*extent, p.old[axis])
		if inMemory {
			p.fill(to, data[p.element()*first*steps[axis]:], steps, axis, first, last)
			continue
		}
		shape := slices.Clone(p.old)
		shape[axis] = last - first
		elements, release := tensor.Temporary(p.from.DType(), shape...)
		p.from.Fill(elements, axis, first, last)
		p.fill(to, elements.Bytes(), tensor.Strides(shape), axis, first, last)
		release()
	}
}

// fill packs the elements whose indices along an axis are from begin to end. data begins with the first of them; steps
// are the distances between neighbours.
func (p *Pack) fill(target []byte, data []byte, steps []int64, axis int, begin, end int64) {
	shape := slices.Clone(p.old)
	shape[axis] = end - begin
	others := p.order[:len(p.order)-1]
	// The first panel, row and column, and the number of columns of that panel that belong to another piece.
	panel, row, column, skipped := int64(0), int64(0), int64(0), int64(0)
	matrices := int64(1)
	for _, other := range others {
		matrices *= p.old[other]
	}
	switch axis {
	case p.columns:
		panel, skipped = begin/p.Width, begin%p.Width
	case p.depth:
		row = begin
	}
	line := p.Width * p.element()
	size := p.old[p.depth] * line // of a panel of one matrix
	if p.Group > 1 {
		size = (p.old[p.depth] + p.Group - 1) / p.Group * p.Group * line
	}
	for ; column < shape[p.columns]; column, panel = column+p.Width, panel+1 {
		count := min(p.Width-skipped, shape[p.columns]-column)
		tensor.Each(picked(shape, others), func(index []int64) {
			matrix, from := int64(0), column*steps[p.columns]
			for i, other := range others {
				at := index[i]
				from += at * steps[other]
				if other == axis {
					at += begin
				}
				matrix = matrix*p.old[other] + at
			}
			if p.Group > 1 {
				p.groups(target[(panel*matrices+matrix)*size:][:size], data[p.element()*from:], row, shape[p.depth], count,
					steps[p.depth], steps[p.columns])
				return
			}
			out := target[(panel*matrices+matrix)*size+row*line:][:shape[p.depth]*line]
			p.matrix(out[skipped*p.element():], data[p.element()*from:], shape[p.depth], count, steps[p.depth], steps[p.columns])
		})
	}
}

// picked returns the extents of some axes.
func picked(shape []int64, axes []int) []int64 {
	out := make([]int64, len(axes))
	for i, axis := range axes {
		out[i] = shape[axis]
	}
	return out
}

// matrix packs count columns of rows rows into lines of Width elements.
func (p *Pack) matrix(out, data []byte, rows, count, stepK, stepN int64) {
	element := p.element()
	line := p.Width * element
	if stepN == 1 {
		for k := range rows {
			copy(out[k*line:][:count*element], data[element*k*stepK:])
		}
		return
	}
	switch element {
	case 1:
		transpose[[1]byte](out, data, rows, count, p.Width, stepK, stepN)
	case 2:
		transpose[[2]byte](out, data, rows, count, p.Width, stepK, stepN)
	default:
		transpose[[4]byte](out, data, rows, count, p.Width, stepK, stepN)
	}
}

// groups packs count columns of rows rows, by groups, into a panel of one matrix, from row on.
func (p *Pack) groups(out, data []byte, row, rows, count, stepK, stepN int64) {
	line, size := p.Width*p.Group, p.element()
	for first := int64(0); first < rows; first += packSteps {
		last := min(rows, first+packSteps)
		for j := range count {
			for k := first; k < last; k++ {
				to, from := (row+k)/p.Group*line+j*p.Group+(row+k)%p.Group, k*stepK+j*stepN
				if size == 1 {
					out[to] = data[from]
				} else {
					copy(out[2*to:2*to+2], data[2*from:])
				}
			}
		}
	}
}

// transpose packs as matrix does, for data whose columns are not contiguous. It treats elements as bytes, since data
// may begin at any address.
func transpose[T [1]byte | [2]byte | [4]byte](out, data []byte, rows, count, width, stepK, stepN int64) {
	var one T
	size := int64(unsafe.Sizeof(one))
	to := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(out))), int64(len(out))/size)
	for first := int64(0); first < rows; first += packSteps {
		for j := range count {
			last := min(rows, first+packSteps)
			for k := first; k < last; k++ {
				to[k*width+j] = *(*T)(unsafe.Pointer(&data[size*(k*stepK+j*stepN):][:size][0]))
			}
		}
	}
}
