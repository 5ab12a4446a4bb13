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

// deferred is how the elements of a tensor are computed, from those of another, whenever they are wanted.
type deferred struct {
	from    []*Tensor
	origins []*Tensor // see Origins
	depth   int       // see Depth
	steps   []int64   // where not nil: they are from[0]'s, from offset on, so many elements apart along each axis
	offset  int64
	major   int  // the axis along which parts are computed from separate stretches of from, one after another
	part    bool // of what they are computed from, some is not used, or not in order
	fill    func(to *Tensor, axis int, begin, end int64)

	lock sync.Mutex
	made atomic.Pointer[[]byte] // the elements, once somebody wanted all of them in one place
}

// Deferred returns a tensor whose elements are computed from those of another when they are wanted: by Fill into a
// place of the caller's, as often as that is called, or once and for good by whatever else reads or writes them. fill
// writes into to, of the tensor's own type and shape but for the dimension axis, the elements with indices begin ≤ i <
// end along that axis; goroutines may call it at the same time. major is the axis along which parts need separate
// stretches of from, in order. Errors are as for New; a scalar, strings and types of less than a byte are ErrInput.
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
		later: (&deferred{major: major, fill: fill}).after(from)}, nil
}

// Permuted returns t, seen as a tensor of another shape of the same count, with its axes permuted: axis i is axis
// perm[i] of that shape. The elements stay where they are: they are deferred. Types of 1, 2, 4 and 8 bytes can be
// permuted so.
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
			part := slices.Clone(from.shape)
			part[perm[axis]] = end - begin
			x, release := temporary(from.dt, part)
			defer release()
			from.Fill(x, int(perm[axis]), begin, end)
			all, steps := Strides(part), make([]int64, len(perm))
			for i, axis := range perm {
				steps[i] = all[axis]
			}
			turn(to, x.data, steps)
		})
}

// strided returns a tensor of from's elements, which are there, from offset on and steps apart along the axes of a
// shape.
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
		later: (&deferred{steps: steps, offset: offset, major: major, part: count != from.count,
			fill: func(to *Tensor, axis int, begin, _ int64) {
				turn(to, from.contents()[int64(to.dt.Bits()/8)*(offset+begin*steps[axis]):], steps)
			}}).after(from)}
}

// Sliced returns the elements of t at indices begin + i × step along each axis, i < extent: deferred. The indices must
// be t's, and its elements lie in memory, or ok is false.
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

// Joined returns tensors of one type one after another along an axis: deferred. They must have the same shape but for
// that axis, or ok is false.
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
			part := slices.Clone(t.shape)
			part[along] = last - first
			x, release := temporary(t.dt, part)
			t.Fill(x, along, first, last)
			run := part[axis] * inner
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
	j.later = (&deferred{major: axis, part: true, fill: j.later.fill}).after(list...)
	return j, true
}

// reshaped is t, whose elements are deferred and some, in another shape of the same count; nil if they cannot stay
// deferred.
func (t *Tensor) reshaped(shape []int64) *Tensor {
	if steps := t.later.steps; steps != nil {
		if steps, ok := restepped(t.shape, steps, shape); ok {
			return strided(t.later.from[0], slices.Clone(shape), steps, t.later.offset)
		}
	}
	// An axis of the new shape is one of the old where as many elements lie along it, and behind it.
	var here []int // by axis of the new shape
	major := -1
	for axis, inner := range Strides(shape) {
		at := -1
		for old, behind := range Strides(t.shape) {
			if shape[axis] > 1 && t.shape[old] == shape[axis] && behind == inner {
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
		part, old := slices.Clone(t.shape), here[axis]
		if end-begin == shape[axis] {
			old, begin, end = 0, 0, part[0]
		}
		if old >= 0 {
			part[old] = end - begin
			t.Fill(&Tensor{dt: t.dt, shape: part, count: to.count, data: to.contents()}, old, begin, end)
			return
		}
		all, release := temporary(t.dt, part)
		defer release()
		t.Fill(all, 0, 0, part[0])
		(&Tensor{dt: t.dt, shape: shape, count: t.count, data: all.data}).Fill(to, axis, begin, end)
	})
	if err != nil {
		return nil
	}
	if here[major] != t.later.major { // parts along the axis lie all over what t is computed from
		r.later.part = true
	}
	return r
}

// restepped is how far apart elements lie along the axes of a new shape, where axes that become one lie so that they
// can.
func restepped(shape, steps, to []int64) ([]int64, bool) {
	out := make([]int64, len(to))
	// of the axis at hand: what of its extent is left, and how far apart those are
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
		for need > left { // more than one axis of the old shape becomes one
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

// pending is how t's elements are computed; nil if they are there.
func (t *Tensor) pending() *deferred {
	if t.later == nil || t.later.made.Load() != nil {
		return nil
	}
	return t.later
}

// contents is the packed elements, which are computed for good where they were deferred.
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

// Pending reports whether the elements are deferred, and nobody has had them computed for good.
func (t *Tensor) Pending() bool { return t.pending() != nil }

// Origins returns the tensors that deferred elements are computed from in the end, or some of them where they are many;
// t itself where its elements are there.
func (t *Tensor) Origins() []*Tensor {
	if d := t.pending(); d != nil {
		return d.origins
	}
	return []*Tensor{t}
}

// Sources calls visit with every tensor, once, whose elements lie in memory and that t's are computed from; with t
// itself if its elements are there.
func (t *Tensor) Sources(visit func(*Tensor)) { t.sources(map[*Tensor]bool{}, visit) }

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

// originsMost is how many tensors Origins returns at most.
const originsMost = 16

// after makes d deferred after the tensors that it is computed from.
func (d *deferred) after(list ...*Tensor) *deferred {
	d.from, d.depth = list, 1
	for _, from := range list {
		if before := from.pending(); before != nil {
			d.depth, d.part = max(d.depth, before.depth+1), d.part || before.part
		}
		for _, origin := range from.Origins() {
			if len(d.origins) < originsMost && !slices.Contains(d.origins, origin) {
				d.origins = append(d.origins, origin)
			}
		}
	}
	return d
}

// Depth returns how often deferred elements are computed from deferred elements, plus 1; 0 if they are there.
func (t *Tensor) Depth() int {
	if d := t.pending(); d != nil {
		return d.depth
	}
	return 0
}

// partial reports whether something of what deferred elements are computed from is not used, or has not one place among
// them.
func (t *Tensor) partial() bool {
	d := t.pending()
	return d != nil && d.part
}

// Stretch returns about the bytes that the elements with indices begin ≤ i < end along the axis Major are computed
// from, where no others are computed from them; nil if that is not known.
func (t *Tensor) Stretch(begin, end int64) []byte {
	origins := t.Origins()
	if len(origins) != 1 || t.partial() || t.count == 0 {
		return nil
	}
	data, extent := origins[0].contents(), t.shape[t.Major()]
	each := int64(len(data)) / extent
	return data[begin*each : end*each]
}

// Done returns the bytes that the elements with indices below end along the axis Major are computed from, and no
// others: nil if that is not known. Unlike Stretch's, they are so to the byte.
func (t *Tensor) Done(end int64) []byte {
	data := t.Stretch(0, end)
	if data == nil || int64(len(t.Origins()[0].contents()))%t.shape[t.Major()] != 0 {
		return nil
	}
	return data
}

// Major returns the axis along which parts of t lie in separate stretches of its origin, one after another, if any axis
// is such; 0 for a scalar.
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

// Strided returns the elements where they lie, which may be at any address: the one at an index is the sum of index ×
// steps elements from the beginning of data. ok is false if they must be computed.
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
// but for that axis. Types of whole bytes can be filled so.
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

// temporary returns a tensor whose elements are anything, until it is released.
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

// Temporary returns a tensor whose elements are anything, and a function that lets its memory be used again by others.
// Errors of type or shape are the caller's: it panics.
func Temporary(dt dtype.DType, shape ...int64) (t *Tensor, release func()) {
	return temporary(dt, slices.Clone(shape))
}

// turn fills y from elements that lie steps apart along its axes, in data at any address.
func turn(y *Tensor, data []byte, steps []int64) {
	Gather(y.contents(), data, int64(y.dt.Bits()/8), y.shape, steps, 0)
}

// load is the element at index i of data at any address.
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

// together is how many positions of the last axis turned writes at a time.
const together = 16

// turned is turn for elements of one size. Some positions of the last axis are taken together, so that whole lines of
// the cache are written, and the source is read in order by as many streams.
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
