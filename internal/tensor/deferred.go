package tensor

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// deferred says how the elements of a tensor are computed, from those of other tensors, when they are wanted.
type deferred struct {
	from    []*Tensor
	origins []*Tensor // see Origins
	depth   int       // see Depth
	steps   []int64   // if not nil, the elements are from[0]'s elements from offset on, at these steps along the axes
	offset  int64
	major   int  // the axis along which consecutive slices are computed from consecutive, disjoint ranges of from
	partial bool // some elements of from are not used, or not in order
	fill    func(to *Tensor, axis int, begin, end int64)

	lock sync.Mutex
	made atomic.Pointer[[]byte] // the elements, after they were computed for good
}

// Deferred returns a tensor whose elements are computed from those of another when they are wanted: by each call of
// Fill into the caller's tensor, or once and for good by every other access. fill writes into to the elements with
// indices begin ≤ i < end along the dimension axis; to has the tensor's type, and its shape except for axis. Goroutines
// may call fill at the same time. major is the axis along which consecutive slices need consecutive, disjoint ranges of
// from. Errors are as for New; a scalar, strings and types of less than a byte are ErrInput.
func Deferred(dt dtype.DType, shape []int64, from *Tensor, major int,
	fill func(to *Tensor, axis int, begin, end int64)) (*Tensor, error) {
	count, size, err := sizes(dt, shape)
	if err != nil {
		return nil, err
	}
	if dt == dtype.String || dt.Bits()%8 != 0 || major < 0 || major >= len(shape) {
		return nil, diag.Inputf("elements %v%s cannot be deferred along axis %d", dt, ShapeString(shape), major)
	}
	if size > MaxBytes() {
		return nil, tooLarge(dt, shape)
	}
	return &Tensor{dt: dt, shape: slices.Clone(shape), count: count,
		later: (&deferred{major: major, fill: fill}).setSources(from)}, nil
}

// Permuted returns t, seen as a tensor of another shape of the same count, with its axes permuted: axis i is axis
// perm[i] of that shape. The elements are deferred. Only types of 1, 2, 4 and 8 bytes can be permuted.
func Permuted(t *Tensor, shape, perm []int64) (*Tensor, error) {
	width := int64(t.dt.Bits() / 8)
	if count, err := Count(shape); err != nil || count != t.count || len(perm) != len(shape) || len(shape) == 0 ||
		t.dt == dtype.String || t.dt.Bits()%8 != 0 || width > 8 || width&(width-1) != 0 {
		return nil, diag.Inputf("%v%s cannot be seen as %s with its axes in the order %v", t.dt, ShapeString(t.shape),
			ShapeString(shape), perm)
	}
	strides, from, offset := Strides(shape), t, int64(0)
	if t.pending() != nil {
		if !slices.Equal(shape, t.shape) {
			t.contents()
		} else if t.later.steps != nil {
			strides, from, offset = t.later.steps, t.later.from[0], t.later.offset
		}
	}
	to, steps := make([]int64, len(perm)), make([]int64, len(perm))
	for i, axis := range perm {
		to[i], steps[i] = shape[axis], strides[axis]
	}
	if from.pending() == nil {
		return strided(from, to, steps, offset), nil
	}
	return Deferred(t.dt, to, from, slices.Index(perm, int64(from.later.major)),
		func(to *Tensor, axis int, begin, end int64) {
			piece := slices.Clone(from.shape)
			piece[perm[axis]] = end - begin
			x, release := temporary(from.dt, piece)
			defer release()
			from.Fill(x, int(perm[axis]), begin, end)
			all, steps := Strides(piece), make([]int64, len(perm))
			for i, axis := range perm {
				steps[i] = all[axis]
			}
			turn(to, x.data, steps)
		})
}

// strided returns a tensor of a shape whose elements are from's, from offset on, at the given steps along the axes.
// from must not be deferred.
func strided(from *Tensor, shape, steps []int64, offset int64) *Tensor {
	major := 0
	for axis := range shape {
		if shape[axis] > 1 && (shape[major] <= 1 || steps[axis] > steps[major]) {
			major = axis
		}
	}
	count, err := Count(shape)
	if err != nil {
		panic(diag.Internalf("tensor: %v", err))
	}
	return &Tensor{dt: from.dt, shape: shape, count: count,
		later: (&deferred{steps: steps, offset: offset, major: major, partial: count != from.count,
			fill: func(to *Tensor, axis int, begin, _ int64) {
				turn(to, from.contents()[int64(to.dt.Bits()/8)*(offset+begin*steps[axis]):], steps)
			}}).setSources(from)}
}

// Sliced returns the elements of t at indices begin + i × step along each axis, i < extent, deferred. ok is false if an
// index is outside t, or t's elements are computed rather than read at steps.
func Sliced(t *Tensor, begin, extent, step []int64) (s *Tensor, ok bool) {
	if t.dt == dtype.String || t.dt.Bits()%8 != 0 || t.dt.Bits() > 64 || t.count == 0 || len(begin) != len(t.shape) ||
		len(extent) != len(t.shape) || len(step) != len(t.shape) || len(t.shape) == 0 {
		return nil, false
	}
	steps, offset, from := Strides(t.shape), int64(0), t
	if d := t.pending(); d != nil {
		if d.steps == nil {
			return nil, false
		}
		steps, offset, from = d.steps, d.offset, d.from[0]
	}
	apart := make([]int64, len(step))
	for axis, size := range t.shape {
		last := begin[axis] + (extent[axis]-1)*step[axis]
		if extent[axis] < 1 || step[axis] < 1 || begin[axis] < 0 || step[axis] > size || extent[axis] > size || last >= size {
			return nil, false
		}
		offset += begin[axis] * steps[axis]
		apart[axis] = steps[axis] * step[axis]
	}
	return strided(from, slices.Clone(extent), apart, offset), true
}

// Joined returns the concatenation of tensors along an axis, deferred. ok is false unless they have the same type, and
// the same shape except for the axis.
func Joined(axis int, list ...*Tensor) (j *Tensor, ok bool) {
	if len(list) == 0 || axis < 0 || axis >= len(list[0].shape) {
		return nil, false
	}
	shape := slices.Clone(list[0].shape)
	ends := make([]int64, len(list))
	total := int64(0)
	for i, t := range list {
		if len(t.shape) != len(shape) {
			return nil, false
		}
		shape[axis] = t.shape[axis]
		if t.dt != list[0].dt || !slices.Equal(t.shape, shape) || t.shape[axis] > math.MaxInt64-total {
			return nil, false
		}
		total += t.shape[axis]
		ends[i] = total
	}
	shape[axis] = total
	j, err := Deferred(list[0].dt, shape, list[0], axis, func(to *Tensor, along int, begin, end int64) {
		inner := int64(to.dt.Bits() / 8)
		for _, extent := range to.shape[axis+1:] {
			inner *= extent
		}
		row, at := to.shape[axis]*inner, int64(0)
		for i, t := range list {
			first, last := begin, end
			if along == axis {
				start := ends[i] - t.shape[axis]
				first, last = max(begin, start)-start, min(end, ends[i])-start
			}
			if first >= last {
				continue
			}
			piece := slices.Clone(t.shape)
			piece[along] = last - first
			x, release := temporary(t.dt, piece)
			t.Fill(x, along, first, last)
			run := piece[axis] * inner
			for from, into := int64(0), at; from < int64(len(x.data)); from, into = from+run, into+row {
				copy(to.contents()[into:], x.data[from:from+run])
			}
			at += run
			release()
		}
	})
	if err != nil {
		return nil, false
	}
	j.later = (&deferred{major: axis, partial: true, fill: j.later.fill}).setSources(list...)
	return j, true
}

// reshaped returns t, whose elements are deferred, in another shape of the same count; nil if they cannot stay
// deferred.
func (t *Tensor) reshaped(shape []int64) *Tensor {
	if steps := t.later.steps; steps != nil {
		if steps, ok := stepsAfterReshape(t.shape, steps, shape); ok {
			return strided(t.later.from[0], slices.Clone(shape), steps, t.later.offset)
		}
	}
	// An axis of the new shape is an axis of the old one if their extents and the numbers of elements after them are
	// equal.
	var here []int // by axis of the new shape
	major := -1
	for axis, inner := range Strides(shape) {
		at := -1
		for old, after := range Strides(t.shape) {
			if shape[axis] > 1 && t.shape[old] == shape[axis] && after == inner {
				if at = old; major < 0 || old == t.later.major {
					major = axis
				}
			}
		}
		here = append(here, at)
	}
	if major < 0 {
		return nil
	}
	r, err := Deferred(t.dt, shape, t, major, func(to *Tensor, axis int, begin, end int64) {
		piece, old := slices.Clone(t.shape), here[axis]
		if end-begin == shape[axis] {
			old, begin, end = 0, 0, piece[0]
		}
		if old >= 0 {
			piece[old] = end - begin
			t.Fill(&Tensor{dt: t.dt, shape: piece, count: to.count, data: to.contents()}, old, begin, end)
			return
		}
		all, release := temporary(t.dt, piece)
		defer release()
		t.Fill(all, 0, 0, piece[0])
		(&Tensor{dt: t.dt, shape: shape, count: t.count, data: all.data}).Fill(to, axis, begin, end)
	})
	if err != nil {
		return nil
	}
	if here[major] != t.later.major { // slices along this axis are spread over the tensor that t is computed from
		r.later.partial = true
	}
	return r
}

// stepsAfterReshape returns the steps along the axes of a new shape; ok is false if axes that the new shape merges are
// not contiguous.
func stepsAfterReshape(shape, steps, to []int64) ([]int64, bool) {
	out := make([]int64, len(to))
	// These describe the current axis of the old shape: its remaining extent, and the step along it.
	old, left, step := len(shape), int64(1), int64(0)
	for axis := len(to) - 1; axis >= 0; axis-- {
		need := to[axis]
		if need == 1 {
			out[axis] = 0
			continue
		}
		for left == 1 {
			old--
			left, step = shape[old], steps[old]
		}
		out[axis] = step
		for need > left { // axes of the old shape are merged
			if need%left != 0 || old == 0 {
				return nil, false
			}
			need /= left
			next := old - 1
			for ; next > 0 && shape[next] == 1; next-- {
			}
			if steps[next] != step*left {
				return nil, false
			}
			old, left, step = next, shape[next], steps[next]
		}
		if left%need != 0 {
			return nil, false
		}
		left, step = left/need, step*need
	}
	return out, true
}

// pending returns how t's elements are computed; nil if they are in memory.
func (t *Tensor) pending() *deferred {
	if t.later == nil || t.later.made.Load() != nil {
		return nil
	}
	return t.later
}

// contents returns the packed elements, after it computes deferred ones for good.
func (t *Tensor) contents() []byte {
	if t.later == nil {
		return t.data
	}
	if made := t.later.made.Load(); made != nil {
		return *made
	}
	t.later.lock.Lock()
	defer t.later.lock.Unlock()
	if made := t.later.made.Load(); made != nil {
		return *made
	}
	data := alignedBytes(t.Size())
	if t.count > 0 {
		t.later.fill(&Tensor{dt: t.dt, shape: t.shape, count: t.count, data: data}, 0, 0, t.shape[0])
	}
	t.later.made.Store(&data)
	return data
}

// Size returns the packed size in bytes; 0 for String.
func (t *Tensor) Size() int64 {
	if t.dt == dtype.String {
		return 0
	}
	size, err := t.dt.Bytes(t.count)
	if err != nil {
		panic(diag.Internalf("tensor: %v", err))
	}
	return size
}

// Pending reports whether the elements are deferred, and have not been computed for good.
func (t *Tensor) Pending() bool { return t.pending() != nil }

// Origins returns the tensors from whose elements deferred elements are computed in the end, at most originsMost of
// them; t itself if its elements are in memory.
func (t *Tensor) Origins() []*Tensor {
	if d := t.pending(); d != nil {
		return d.origins
	}
	return []*Tensor{t}
}

// Sources calls visit once for every tensor that is in memory and from whose elements t's are computed; with t itself
// if its elements are in memory.
func (t *Tensor) Sources(visit func(*Tensor)) { t.sources(map[*Tensor]bool{}, visit) }

// sources is Sources without the tensors in seen, to which it adds those that it visits.
func (t *Tensor) sources(seen map[*Tensor]bool, visit func(*Tensor)) {
	if seen[t] {
		return
	}
	seen[t] = true
	d := t.pending()
	if d == nil {
		visit(t)
		return
	}
	for _, from := range d.from {
		from.sources(seen, visit)
	}
}

// originsMost is the most tensors that Origins returns.
const originsMost = 16

// setSources sets the tensors that d is computed from.
func (d *deferred) setSources(list ...*Tensor) *deferred {
	d.from, d.depth = list, 1
	for _, from := range list {
		if before := from.pending(); before != nil {
			d.depth, d.partial = max(d.depth, before.depth+1), d.partial || before.partial
		}
		for _, origin := range from.Origins() {
			if len(d.origins) < originsMost && !slices.Contains(d.origins, origin) {
				d.origins = append(d.origins, origin)
			}
		}
	}
	return d
}

// Depth returns the length of the chain of deferred tensors from t to the elements in memory; 0 if t is in memory.
func (t *Tensor) Depth() int {
	if d := t.pending(); d != nil {
		return d.depth
	}
	return 0
}

// partial reports whether deferred elements use only some elements of their sources, or not in order.
func (t *Tensor) partial() bool {
	d := t.pending()
	return d != nil && d.partial
}

// OriginBytes returns approximately the bytes from which the elements with indices begin ≤ i < end along the axis Major
// are computed, and no others; nil if these bytes are not known.
func (t *Tensor) OriginBytes(begin, end int64) []byte {
	origins := t.Origins()
	if len(origins) != 1 || t.partial() || t.count == 0 {
		return nil
	}
	data, extent := origins[0].contents(), t.shape[t.Major()]
	each := int64(len(data)) / extent
	return data[begin*each : end*each]
}

// Done returns the bytes from which the elements with indices below end along the axis Major are computed, and no
// others; nil if they are not known. Unlike OriginBytes it is precise to the byte.
func (t *Tensor) Done(end int64) []byte {
	data := t.OriginBytes(0, end)
	if data == nil || int64(len(t.Origins()[0].contents()))%t.shape[t.Major()] != 0 {
		return nil
	}
	return data
}

// Major returns the axis along which consecutive slices of t come from consecutive, disjoint ranges of its origin, if
// there is such an axis; 0 for a scalar.
func (t *Tensor) Major() int {
	if d := t.pending(); d != nil {
		return d.major
	}
	for axis, extent := range t.shape {
		if extent > 1 {
			return axis
		}
	}
	return 0
}

// Strided returns the elements in memory, at any alignment: an element's index from the beginning of data is the sum of
// its indices × steps. ok is false if the elements must be computed.
func (t *Tensor) Strided() (data []byte, steps []int64, ok bool) {
	d := t.pending()
	switch {
	case d == nil:
		return t.contents(), Strides(t.shape), true
	case d.steps == nil:
		return nil, nil, false
	}
	return d.from[0].contents()[int64(t.dt.Bits()/8)*d.offset:], d.steps, true
}

// Fill writes the elements with indices begin ≤ i < end along an axis into to, which must have t's type, and t's shape
// except for that axis. The type must have whole bytes.
func (t *Tensor) Fill(to *Tensor, axis int, begin, end int64) {
	if to.dt != t.dt || len(to.shape) != len(t.shape) || begin < 0 || end > t.shape[axis] || to.shape[axis] != end-begin ||
		t.dt.Bits()%8 != 0 {
		panic(diag.Internalf("tensor: indices %d to %d along axis %d of %v%s do not fill %v%s", begin, end, axis, t.dt,
			ShapeString(t.shape), to.dt, ShapeString(to.shape)))
	}
	if to.count == 0 {
		return
	}
	if d := t.pending(); d != nil {
		d.fill(to, axis, begin, end)
		return
	}
	inner := int64(t.dt.Bits() / 8)
	for _, extent := range t.shape[axis+1:] {
		inner *= extent
	}
	from, into := t.contents(), to.contents()
	run, row := (end-begin)*inner, t.shape[axis]*inner
	for at := begin * inner; len(into) > 0; at += row {
		copy(into[:run], from[at:])
		into = into[run:]
	}
}

var temporaries sync.Pool

// temporary returns a tensor with arbitrary elements; release lets others reuse its memory.
func temporary(dt dtype.DType, shape []int64) (t *Tensor, release func()) {
	count, size, err := sizes(dt, shape)
	if err != nil {
		panic(diag.Internalf("tensor: %v", err))
	}
	buffer, _ := temporaries.Get().(*[]byte)
	if buffer == nil || int64(len(*buffer)) < size {
		data := alignedBytes(size)
		buffer = &data
	}
	return &Tensor{dt: dt, shape: shape, count: count, data: (*buffer)[:size]}, func() { temporaries.Put(buffer) }
}

// Temporary returns a tensor with arbitrary elements, and a function that lets others reuse its memory. An impossible
// type or shape is the caller's fault: it panics.
func Temporary(dt dtype.DType, shape ...int64) (t *Tensor, release func()) {
	return temporary(dt, slices.Clone(shape))
}

// turn fills y with the elements of data, of any alignment, at the given steps along y's axes.
func turn(y *Tensor, data []byte, steps []int64) {
	Gather(y.contents(), data, int64(y.dt.Bits()/8), y.shape, steps, 0)
}

// load returns the element at index i of data of any alignment.
func load[T uint8 | uint16 | uint32 | uint64](data []byte, i int64) T {
	switch unsafe.Sizeof(T(0)) {
	case 2:
		return T(binary.NativeEndian.Uint16(data[2*i:]))
	case 4:
		return T(binary.NativeEndian.Uint32(data[4*i:]))
	case 8:
		return T(binary.NativeEndian.Uint64(data[8*i:]))
	}
	return T(data[i])
}

// together is the number of indices of the last axis that turned writes at a time.
const together = 16

// turned is turn for elements of one size. It writes several indices of the last axis together, so that it fills entire
// cache lines and reads the source in order by as many streams.
func turned[T uint8 | uint16 | uint32 | uint64](into, from []byte, shape, steps []int64) {
	to, err := view[T](into)
	if err != nil {
		panic(diag.Internalf("tensor: permuting into: %v", err))
	}
	if len(to) == 0 {
		return
	}
	strides, last := Strides(shape), len(shape)-1
	order := make([]int, 0, last)
	for axis := range last {
		if shape[axis] > 1 {
			order = append(order, axis)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(min(max(steps[b]-steps[a], -1), 1)) })
	var walk func(depth int, source, target, count int64)
	walk = func(depth int, source, target, count int64) {
		if depth < len(order) {
			axis := order[depth]
			for i := range shape[axis] {
				walk(depth+1, source+i*steps[axis], target+i*strides[axis], count)
			}
			return
		}
		line := to[target:][:count]
		for j := range line {
			line[j] = load[T](from, source+int64(j)*steps[last])
		}
	}
	for first := int64(0); first < shape[last]; first += together {
		walk(0, first*steps[last], first, min(together, shape[last]-first))
	}
}
