package array

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Outside a trace, operations that only move elements run without compiled code, so that a loop over positions, extents
// or numbers compiles nothing. In a trace they are operations like all others.

// lay describes the positions of a shape's elements in memory: begin + Σ index · stride, in elements.
type lay struct {
	strides []int
	begin   int
}

// movable reports whether an array's elements can be moved without compiled code.
func (s *Scope) movable(x *Array) bool {
	return s.trace == nil && x.tensor != nil && !x.dtype.IsSubByte() && slices.Contains([]int{1, 2, 4, 8, 16},
		x.dtype.Size())
}

// moved returns an array of a shape with x's elements at the positions from.
func (s *Scope) moved(name string, x *Array, shape []int, from lay) *Array {
	return s.movedTo(name, x, shape, shape, from)
}

// movedTo is moved for a traversal of another shape, order, with the same number of elements as the result's.
func (s *Scope) movedTo(name string, x *Array, shape, order []int, from lay) *Array {
	y, err := s.fresh(x.dtype, shape)
	if err != nil {
		return s.refuse(name, err)
	}
	move(x.dtype.Size(), order, y.tensor.Bytes(), lay{strides: stridesOf(order)}, x.tensor.Bytes(), from)
	return y
}

// fresh returns an array of the scope whose elements the caller must write.
func (s *Scope) fresh(dt weir.DType, shape []int) (*Array, error) {
	for _, e := range shape {
		if e < 0 {
			return nil, diag.Inputf("an extent of %d", e)
		}
	}
	return s.empty(dt, slices.Clone(shape), false)
}

// move copies elements of size bytes from one layout of a shape to another.
func move(size int, shape []int, to []byte, toLay lay, from []byte, fromLay lay) {
	mover(size, shape, to, toLay.strides, from, fromLay.strides)(toLay.begin, fromLay.begin)
}

// mover returns a function that copies a shape's elements, of size bytes, between positions in two buffers.
func mover(size int, shape []int, to []byte, toStrides []int, from []byte, fromStrides []int) func(to, from int) {
	if slices.Contains(shape, 0) {
		return func(int, int) {}
	}
	shape, toLay, fromLay := merged(shape, lay{strides: toStrides}, lay{strides: fromStrides})
	switch size {
	case 1:
		return movesOf[uint8](shape, to, toLay.strides, from, fromLay.strides)
	case 2:
		return movesOf[uint16](shape, to, toLay.strides, from, fromLay.strides)
	case 4:
		return movesOf[uint32](shape, to, toLay.strides, from, fromLay.strides)
	case 8:
		return movesOf[uint64](shape, to, toLay.strides, from, fromLay.strides)
	case 16:
		return movesOf[[2]uint64](shape, to, toLay.strides, from, fromLay.strides)
	}
	panic(diag.Internalf("elements of %d bytes", size))
}

// movesOf is mover for elements of type T.
func movesOf[T any](shape []int, to []byte, toStrides []int, from []byte, fromStrides []int) func(to, from int) {
	p, q := viewOf[T](to), viewOf[T](from)
	return func(to, from int) { moveIn(shape, p, lay{toStrides, to}, q, lay{fromStrides, from}) }
}

// adder returns a function that adds a shape's elements at one position to those at another; integers wrap.
func adder(dt weir.DType, shape []int, to []byte, toStrides []int, from []byte, fromStrides []int) func(to, from int) {
	shape, toLay, fromLay := merged(shape, lay{strides: toStrides}, lay{strides: fromStrides})
	toStrides, fromStrides = toLay.strides, fromLay.strides
	switch {
	case slices.Contains(shape, 0):
		return func(int, int) {}
	case dt == weir.F32:
		return addsOf[float32](shape, to, toStrides, from, fromStrides)
	case dt == weir.F64:
		return addsOf[float64](shape, to, toStrides, from, fromStrides)
	case dt.IsInt() && dt.Size() == 1:
		return addsOf[uint8](shape, to, toStrides, from, fromStrides)
	case dt.IsInt() && dt.Size() == 2:
		return addsOf[uint16](shape, to, toStrides, from, fromStrides)
	case dt.IsInt() && dt.Size() == 4:
		return addsOf[uint32](shape, to, toStrides, from, fromStrides)
	case dt.IsInt() && dt.Size() == 8:
		return addsOf[uint64](shape, to, toStrides, from, fromStrides)
	}
	return func(toBegin, fromBegin int) {
		each(shape, toBegin, toStrides, fromBegin, fromStrides, func(at, of int) {
			dtype.StoreFloat(dt, to, int64(at), dtype.LoadFloat(dt, to, int64(at))+dtype.LoadFloat(dt, from, int64(of)))
		})
	}
}

// summand lists the types whose addition in Go equals the addition of arrays.
type summand interface {
	float32 | float64 | uint8 | uint16 | uint32 | uint64
}

// addsOf is adder for elements of type T.
func addsOf[T summand](shape []int, to []byte, toStrides []int, from []byte, fromStrides []int) func(to, from int) {
	p, q := viewOf[T](to), viewOf[T](from)
	return func(to, from int) { addIn(shape, p, lay{toStrides, to}, q, lay{fromStrides, from}) }
}

// addIn adds a shape's elements in one layout to those in another.
func addIn[T summand](shape []int, to []T, toLay lay, from []T, fromLay lay) {
	at, of := toLay.begin, fromLay.begin
	if len(shape) == 0 {
		to[at] += from[of]
		return
	}
	n, step, back := shape[0], toLay.strides[0], fromLay.strides[0]
	switch {
	case len(shape) > 1:
		for i := range n {
			addIn(shape[1:], to, lay{toLay.strides[1:], at + i*step}, from, lay{fromLay.strides[1:], of + i*back})
		}
	case step == 1 && back == 1:
		sum := to[at : at+n]
		for i, x := range from[of : of+n] {
			sum[i] += x
		}
	default:
		for range n {
			to[at] += from[of]
			at, of = at+step, of+back
		}
	}
}

// each visits the positions of a shape's elements in two layouts.
func each(shape []int, to int, toStrides []int, from int, fromStrides []int, visit func(to, from int)) {
	if len(shape) == 0 {
		visit(to, from)
		return
	}
	for i := range shape[0] {
		each(shape[1:], to+i*toStrides[0], toStrides[1:], from+i*fromStrides[0], fromStrides[1:], visit)
	}
}

// viewOf returns memory as elements of type T.
func viewOf[T any](data []byte) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(one)))
}

// merged removes axes of extent 1, and joins neighbouring axes that are contiguous in both layouts.
func merged(shape []int, to, from lay) ([]int, lay, lay) {
	var out []int
	a, b := lay{begin: to.begin}, lay{begin: from.begin}
	for i, e := range shape {
		n := len(out) - 1
		switch {
		case e == 1:
		case n >= 0 && a.strides[n] == to.strides[i]*e && b.strides[n] == from.strides[i]*e:
			out[n], a.strides[n], b.strides[n] = out[n]*e, to.strides[i], from.strides[i]
		default:
			out, a.strides, b.strides = append(out, e), append(a.strides, to.strides[i]), append(b.strides, from.strides[i])
		}
	}
	return out, a, b
}

// moveIn copies a shape's elements from one layout to another.
func moveIn[T any](shape []int, to []T, toLay lay, from []T, fromLay lay) {
	at, of := toLay.begin, fromLay.begin
	if len(shape) == 0 {
		to[at] = from[of]
		return
	}
	n, step, back := shape[0], toLay.strides[0], fromLay.strides[0]
	switch {
	case len(shape) > 1:
		for i := range n {
			moveIn(shape[1:], to, lay{toLay.strides[1:], at + i*step}, from, lay{fromLay.strides[1:], of + i*back})
		}
	case step == 1 && back == 1:
		copy(to[at:at+n], from[of:of+n])
	case step == 1 && back == 0:
		repeat(to[at:at+n], from[of])
	default:
		for range n {
			to[at] = from[of]
			at, of = at+step, of+back
		}
	}
}

// repeat sets all elements to x.
func repeat[T any](to []T, x T) {
	if len(to) == 0 {
		return
	}
	to[0] = x
	for n := 1; n < len(to); n *= 2 {
		copy(to[n:], to[:n])
	}
}

// fill copies the first element, of size bytes, to all others.
func fill(data []byte, size int) {
	for n := size; n > 0 && n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
}

// full returns an array whose elements are all x.
func (s *Scope) full(dt weir.DType, x float64, shape []int) (*Array, error) {
	y, err := s.fresh(dt, shape)
	if err != nil {
		return nil, err
	}
	if data := y.tensor.Bytes(); len(data) > 0 {
		store(dt, data, x)
		fill(data, dt.Size())
	}
	return y, nil
}

// broadcastAt is BroadcastTo outside a trace.
func (s *Scope) broadcastAt(x *Array, shape []int) *Array {
	return s.moved("broadcast_to", x, shape, lay{strides: broadcastStrides(x.shape, shape)})
}

// tiled is Tile outside a trace. It traverses x with an additional axis, for the repetitions, before each of x's.
func (s *Scope) tiled(x *Array, times []int) *Array {
	rank := max(len(times), len(x.shape))
	times = append(slices.Repeat([]int{1}, rank-len(times)), times...)
	extents := append(slices.Repeat([]int{1}, rank-len(x.shape)), x.shape...)
	own := stridesOf(extents)
	var shape, order, strides []int
	for i, n := range times {
		shape, order, strides = append(shape, n*extents[i]), append(order, n, extents[i]), append(strides, 0, own[i])
	}
	return s.movedTo("tile", x, shape, order, lay{strides: strides})
}

// repeated is Repeat outside a trace.
func (s *Scope) repeated(x *Array, times, axis int) *Array {
	shape, strides := slices.Clone(x.shape), stridesOf(x.shape)
	shape[axis] *= times
	return s.movedTo("repeat", x, shape, slices.Insert(slices.Clone(x.shape), axis+1, times),
		lay{strides: slices.Insert(strides, axis+1, 0)})
}

// cuts returns pieces of x along an axis, outside a trace; if slice is true, without the axis.
func (s *Scope) cuts(name string, x *Array, axis int, extents []int, slice bool) []*Array {
	out, at := make([]*Array, len(extents)), 0
	strides := stridesOf(x.shape)
	for i, e := range extents {
		order := slices.Clone(x.shape)
		order[axis] = e
		shape := order
		if slice {
			shape = slices.Delete(slices.Clone(order), axis, axis+1)
		}
		if out[i] = s.movedTo(name, x, shape, order, lay{strides, at * strides[axis]}); s.failed() {
			return s.none(len(extents))
		}
		at += e
	}
	return out
}

// flipped is Flip outside a trace.
func (s *Scope) flipped(x *Array, axes []int64) *Array {
	from := lay{strides: stridesOf(x.shape)}
	for _, a := range axes {
		from.begin += max(x.shape[a]-1, 0) * from.strides[a]
		from.strides[a] = -from.strides[a]
	}
	return s.moved("flip", x, x.shape, from)
}

// rolled is Roll outside a trace; if flat is true, along all elements in row-major order.
func (s *Scope) rolled(x *Array, shift int, axes []int64, flat bool) *Array {
	y, err := s.fresh(x.dtype, x.shape)
	if err != nil {
		return s.refuse("roll", err)
	}
	shape := x.shape
	if flat {
		shape, axes = []int{x.Len()}, []int64{0}
	}
	var part func(axes []int64, shape []int, to, from lay)
	part = func(axes []int64, shape []int, to, from lay) {
		if len(axes) == 0 {
			move(x.dtype.Size(), shape, y.tensor.Bytes(), to, x.tensor.Bytes(), from)
			return
		}
		a := axes[0]
		n, step := shape[a], to.strides[a]
		if n == 0 {
			return
		}
		first := (shift%n + n) % n // the number of elements from the end
		for _, p := range []struct{ extent, to, from int }{{first, 0, n - first}, {n - first, first, 0}} {
			inner := slices.Clone(shape)
			inner[a] = p.extent
			part(axes[1:], inner, lay{to.strides, to.begin + p.to*step}, lay{from.strides, from.begin + p.from*step})
		}
	}
	own := lay{strides: stridesOf(shape)}
	part(axes, shape, own, own)
	return y
}

// padded is Pad outside a trace.
func (s *Scope) padded(x *Array, number float64, widths [][2]int) *Array {
	shape := slices.Clone(x.shape)
	for i, w := range widths {
		shape[i] += w[0] + w[1]
	}
	y, err := s.full(x.dtype, number, shape)
	if err != nil {
		return s.refuse("pad", err)
	}
	to := lay{strides: stridesOf(shape)}
	for i, w := range widths {
		to.begin += w[0] * to.strides[i]
	}
	move(x.dtype.Size(), x.shape, y.tensor.Bytes(), to, x.tensor.Bytes(), lay{strides: stridesOf(x.shape)})
	return y
}

// diagonals is Diagonal outside a trace.
func (s *Scope) diagonals(x *Array, offset int) *Array {
	offset = nearOffset(offset)
	rank, strides := len(x.shape), stridesOf(x.shape)
	down, across := max(-offset, 0), max(offset, 0)
	n := max(min(x.shape[rank-2]-down, x.shape[rank-1]-across), 0)
	from := lay{strides: append(slices.Clone(strides[:rank-2]), strides[rank-2]+strides[rank-1])}
	if n > 0 {
		from.begin = down*strides[rank-2] + across*strides[rank-1]
	}
	return s.moved("diagonal", x, append(slices.Clone(x.shape[:rank-2]), n), from)
}

// triangles is Tril and Triu outside a trace: a copy, with the elements beyond the diagonal cleared row by row.
func (s *Scope) triangles(name string, x *Array, upper bool, k int) *Array {
	y := s.moved(name, x, x.shape, lay{strides: stridesOf(x.shape)})
	if s.failed() {
		return y
	}
	rows, columns := x.shape[len(x.shape)-2], x.shape[len(x.shape)-1]
	data, size := y.tensor.Bytes(), x.dtype.Size()
	k = min(max(k, -rows-1), columns)
	for i := 0; columns > 0 && i < len(data)/size/columns; i++ {
		at := min(max(i%rows+k, -1), columns) // the diagonal's column
		from, to := min(at+1, columns), columns
		if upper {
			from, to = 0, max(at, 0)
		}
		clear(data[(i*columns+from)*size : (i*columns+to)*size])
	}
	return y
}
