package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// memory is a buffer of a kernel: the word with its address, and its layout.
type memory struct {
	slot           int
	dt             dtype.DType
	shape, strides []sym.Expr
}

// memory returns a buffer by its name.
func (c *compiler) memory(name string) *memory {
	m, ok := c.memories[name]
	if !ok {
		c.bug("%%%s is no buffer", name)
	}
	return m
}

func (m *memory) offset(index []sym.Expr) sym.Expr { return loop.Offset(index, m.shape, m.strides) }

// inMemory reports whether elements in memory are values of their representation.
func (c *compiler) inMemory(dt dtype.DType) bool {
	if c.moving {
		return dt.Bits() >= 8
	}
	return nativeType[c.repOf(dt)].Bits() == dt.Bits()
}

// access moves one element, or an interval of lanes, between memory and lanes.
type access[T number] struct {
	slot  int
	index laneIndex
	at    int // a strip of int64 for lanes that are not regular
	get   func(base unsafe.Pointer, i int64) T
	put   func(base unsafe.Pointer, i int64, v T)
	half  dtype.DType // F16 or BF16, of which package dtype converts many at once; Invalid for other types
}

// reach compiles the access to a buffer's element at index. It has neither get nor put if elements in memory are values
// of T.
func reach[T number](c *compiler, k *numeric[T], m *memory, index []sym.Expr) access[T] {
	a := access[T]{slot: m.slot, index: c.lanes(m.offset(index))}
	if !a.index.regular() {
		a.at = c.newStrip(8)
	}
	switch {
	case c.inMemory(m.dt):
	case c.moving:
		code := represents[dtype.U8] // elements of fewer than eight bits are copied as unsigned integers
		if unsigned, ok := map[int]dtype.DType{2: dtype.U2, 4: dtype.U4}[m.dt.Bits()]; ok {
			a.get, a.put = reader[T](unsigned, code), writer[T](unsigned, code)
		}
	default:
		a.get, a.put = reader[T](m.dt, k.rep), writer[T](m.dt, k.rep)
		if m.dt == dtype.F16 || m.dt == dtype.BF16 {
			a.half = m.dt
		}
	}
	return a
}

// unit reports whether the lanes are contiguous elements that need no conversion.
func (a *access[T]) unit() bool {
	return a.get == nil && a.index.regular() && a.index.step.fixed && a.index.step.value == 1
}

// view returns the memory of n lanes, for unit accesses.
func (a *access[T]) view(f frame, n int) []T {
	return unsafe.Slice(element[T](address(f, a.slot), a.index.start.get(f)), n)
}

// one returns the function that reads the element of a uniform access.
func (a *access[T]) one() scalar[T] {
	slot, start, get := a.slot, a.index.start, a.get
	if get != nil {
		return func(f frame) T { return get(address(f, slot), start.get(f)) }
	}
	if start.fixed {
		v := start.value
		return func(f frame) T { return *element[T](address(f, slot), v) }
	}
	return func(f frame) T { return *element[T](address(f, slot), start.get(f)) }
}

// indices returns the lanes' indices if they are not regular; it is called once per strip, before fetch and deliver.
func (a *access[T]) indices(f frame, n int) []int64 {
	if a.index.regular() {
		return nil
	}
	at := strip[int64](f, a.at, n)
	a.index.fill(f, at)
	return at
}

// fetch reads lanes [first, end) into to, and leaves its other lanes unchanged.
func (a *access[T]) fetch(f frame, to []T, indices []int64, first, end int) {
	if first >= end {
		return
	}
	base := address(f, a.slot)
	if indices != nil {
		for i, at := range indices[first:end] {
			if a.get != nil {
				to[first+i] = a.get(base, at)
			} else {
				to[first+i] = *element[T](base, at)
			}
		}
		return
	}
	start, step := a.index.start.get(f), a.index.step.get(f)
	start += int64(first) * step
	to = to[first:end]
	switch {
	case a.half != dtype.Invalid && step == 1:
		dtype.ConvertSlice(dtype.F32, raw(to), a.half, unsafe.Slice((*byte)(unsafe.Add(base, 2*start)), 2*len(to)),
			int64(len(to)), false)
	case a.get != nil:
		for i := range to {
			to[i] = a.get(base, start)
			start += step
		}
	case step == 1:
		copy(to, unsafe.Slice(element[T](base, start), len(to)))
	default:
		size := int64(unsafe.Sizeof(*new(T)))
		o, d := start*size, step*size
		for i := range to {
			to[i] = *(*T)(unsafe.Add(base, o))
			o += d
		}
	}
}

// deliver writes lanes [first, end) of from to memory.
func (a *access[T]) deliver(f frame, from []T, indices []int64, first, end int) {
	if first >= end {
		return
	}
	base := address(f, a.slot)
	if indices != nil {
		for i, at := range indices[first:end] {
			if a.put != nil {
				a.put(base, at, from[first+i])
			} else {
				*element[T](base, at) = from[first+i]
			}
		}
		return
	}
	start, step := a.index.start.get(f), a.index.step.get(f)
	start += int64(first) * step
	from = from[first:end]
	switch {
	case a.half != dtype.Invalid && step == 1:
		dtype.ConvertSlice(a.half, unsafe.Slice((*byte)(unsafe.Add(base, 2*start)), 2*len(from)), dtype.F32, raw(from),
			int64(len(from)), false)
	case a.put != nil:
		for _, v := range from {
			a.put(base, start, v)
			start += step
		}
	case step == 1:
		copy(unsafe.Slice(element[T](base, start), len(from)), from)
	default:
		size := int64(unsafe.Sizeof(*new(T)))
		o, d := start*size, step*size
		for _, v := range from {
			*(*T)(unsafe.Add(base, o)) = v
			o += d
		}
	}
}

// mask is the lanes that a load or a store accesses; the zero value is all of them.
type mask struct {
	test   scalar[uint8]
	within *interval
	lanes  lanes[uint8]
}

// mask compiles a mask; nil is all lanes.
func (c *compiler) mask(e loop.Expr) mask {
	if e == nil {
		return mask{}
	}
	v := c.condition(e)
	switch {
	case v.uniform:
		return mask{test: v.run.(scalar[uint8])}
	case v.within != nil:
		return mask{within: v.within}
	}
	return mask{lanes: v.run.(lanes[uint8])}
}

// all reports whether the mask always has every lane.
func (m *mask) all() bool { return m.test == nil && m.within == nil && m.lanes == nil }

// uniform reports whether the mask has all lanes or none.
func (m *mask) uniform() bool { return m.within == nil && m.lanes == nil }

// each calls do for each interval of the mask's lanes; flags has a flag for each lane, if the mask is not an interval.
func (m *mask) each(f frame, n int, flags []uint8, do func(first, end int)) {
	switch {
	case m.all():
		do(0, n)
	case m.test != nil:
		if m.test(f) != 0 {
			do(0, n)
		}
	case m.within != nil:
		do((*m.within)(f, n))
	default:
		for i := 0; i < n; {
			for i < n && flags[i] == 0 {
				i++
			}
			first := i
			for i < n && flags[i] != 0 {
				i++
			}
			do(first, i)
		}
	}
}

// flags computes a flag for each lane; nil if the mask is uniform or an interval.
func (m *mask) flags(f frame, n int) []uint8 {
	if m.lanes == nil {
		return nil
	}
	return m.lanes(f, n)
}

// load compiles a load.
func (k *numeric[T]) load(c *compiler, e *loop.Load, into any) value {
	start := c.mark()
	out, inPlace := destination[T](c, into)
	mark := c.mark()
	m := c.memory(e.From)
	if m.dt != e.Type {
		c.bug("%%%s of %s is loaded as %s", e.From, m.dt, e.Type)
	}
	a := reach(c, k, m, e.Index)
	taken := c.mask(e.Mask)
	var otherwise value
	if e.Mask != nil {
		otherwise = c.expr(e.Else, nil)
	}
	if a.index.uniform() && taken.uniform() && (taken.all() || otherwise.uniform) {
		c.release(start)
		return value{dt: e.Type, uniform: true, run: guarded(taken, a.one(), otherwise)}
	}
	if taken.all() {
		if a.unit() {
			c.release(start)
			return value{dt: e.Type, run: lanes[T](func(f frame, n int) []T { return a.view(f, n) })}
		}
		c.release(mark)
		return value{dt: e.Type, inPlace: inPlace, run: lanes[T](func(f frame, n int) []T {
			indices := a.indices(f, n)
			to := out(f, n)
			a.fetch(f, to, indices, 0, n)
			return to
		})}
	}
	if taken.within != nil && otherwise.uniform && a.index.regular() {
		c.release(mark)
		// A view needs no copy if the caller has not asked for the lanes in its own memory.
		return value{dt: e.Type, inPlace: inPlace, run: a.fetchWithin(*taken.within, otherwise.run.(scalar[T]), out,
			a.unit() && !inPlace)}
	}
	rest, _ := spread[T](c, otherwise, nil)
	c.release(mark)
	return value{dt: e.Type, inPlace: inPlace, run: lanes[T](func(f frame, n int) []T {
		indices, flags := a.indices(f, n), taken.flags(f, n)
		v := rest(f, n)
		to := out(f, n)
		copy(to, v)
		taken.each(f, n, flags, func(first, end int) { a.fetch(f, to, indices, first, end) })
		return to
	})}
}

// fetchWithin returns the function that reads the lanes of an interval, and sets the others to one value. With view, it
// returns the memory itself if the interval has all lanes.
func (a *access[T]) fetchWithin(within interval, otherwise scalar[T], out lanes[T], view bool) lanes[T] {
	return func(f frame, n int) []T {
		first, end := within(f, n)
		if view && first == 0 && end == n {
			return a.view(f, n)
		}
		to, v := out(f, n), otherwise(f)
		if first >= end {
			first, end = n, n
		}
		for i := range to[:first] {
			to[i] = v
		}
		a.fetch(f, to, nil, first, end)
		rest := to[end:]
		for i := range rest {
			rest[i] = v
		}
		return to
	}
}

// guarded returns a scalar that is read only if a uniform mask holds, and is otherwise's value else.
func guarded[T number](taken mask, one scalar[T], otherwise value) scalar[T] {
	if taken.all() {
		return one
	}
	rest := otherwise.run.(scalar[T])
	return func(f frame) T {
		if taken.test(f) != 0 {
			return one(f)
		}
		return rest(f)
	}
}

// moves reports whether an expression only chooses among elements of memory and constants, so that it can copy bits.
func moves(e loop.Expr) bool {
	switch e := e.(type) {
	case *loop.Load:
		return e.Else == nil || moves(e.Else)
	case *loop.Select:
		return moves(e.X) && moves(e.Y)
	case *loop.Const:
		return true
	}
	return false
}

// store compiles a Store.
func (c *compiler) store(s *loop.Store) action {
	outer := c.moving
	c.moving = moves(s.X)
	do := c.family(s.X.DType()).store(c, s)
	c.moving = outer
	return do
}

// store compiles a Store of values of T.
func (k *numeric[T]) store(c *compiler, s *loop.Store) action {
	m := c.memory(s.To)
	if m.dt != s.X.DType() {
		c.bug("%s is stored to %%%s of %s", s.X.DType(), s.To, m.dt)
	}
	a := reach(c, k, m, s.Index)
	taken := c.mask(s.Mask)
	if c.vector == nil {
		x := c.expr(s.X, nil).run.(scalar[T])
		return a.storeOne(x, taken)
	}
	if taken.all() && a.unit() {
		view := lanes[T](func(f frame, n int) []T { return a.view(f, n) })
		run, inPlace := spread[T](c, c.expr(s.X, view), view)
		if inPlace {
			return func(f frame, n int) { run(f, n) }
		}
		return func(f frame, n int) { copy(a.view(f, n), run(f, n)) }
	}
	run, _ := spread[T](c, c.expr(s.X, nil), nil)
	return func(f frame, n int) {
		indices, flags := a.indices(f, n), taken.flags(f, n)
		v := run(f, n)
		taken.each(f, n, flags, func(first, end int) { a.deliver(f, v, indices, first, end) })
	}
}

// storeOne returns the action that stores a scalar if a uniform mask holds.
func (a *access[T]) storeOne(x scalar[T], taken mask) action {
	slot, start, put := a.slot, a.index.start, a.put
	if put == nil {
		put = func(base unsafe.Pointer, i int64, v T) { *element[T](base, i) = v }
	}
	do := func(f frame, n int) { put(address(f, slot), start.get(f), x(f)) }
	if taken.all() {
		return do
	}
	return func(f frame, n int) {
		if taken.test(f) != 0 {
			do(f, n)
		}
	}
}
