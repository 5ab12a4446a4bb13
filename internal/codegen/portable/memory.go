package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// memory is a buffer that the kernel reaches: where the word with its address is, and how its elements lie.
type memory struct {
	slot           int
	dt             dtype.DType
	shape, strides []sym.Expr
}

func (c *compiler) memory(name string) *memory {
	m, ok := c.memories[name]
	if !ok {
		c.bug("%%%s is no buffer", name)
	}
	return m
}

func (m *memory) offset(index []sym.Expr) sym.Expr { return loop.Offset(index, m.shape, m.strides) }

// inMemory reports whether values lie in memory as they are computed with.
func (c *compiler) inMemory(dt dtype.DType) bool {
	if c.moving {
		return dt.Bits() >= 8
	}
	return plain[c.repOf(dt)].Bits() == dt.Bits()
}

// access moves one element, or a run of lanes, between memory and lanes.
type access[T number] struct {
	slot  int
	index laneIndex
	at    int // a strip of int64 for lanes that are not regular
	get   func(base unsafe.Pointer, i int64) T
	put   func(base unsafe.Pointer, i int64, v T)
	half  dtype.DType // F16 or BF16, whose runs dtype converts; Invalid for the rest
}

// reach makes the access to a buffer's element at index ready. Plain elements have neither get nor put.
func reach[T number](c *compiler, k *numeric[T], m *memory, index []sym.Expr) access[T] {
	a := access[T]{slot: m.slot, index: c.lanes(m.offset(index))}
	if !a.index.regular() {
		a.at = c.newStrip(8)
	}
	switch {
	case c.inMemory(m.dt):
	case c.moving:
		code := represents[dtype.U8] // codes below eight bits move as unsigned integers
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

// unit reports whether lanes are one plain element after the other.
func (a *access[T]) unit() bool {
	return a.get == nil && a.index.regular() && a.index.step.fixed && a.index.step.value == 1
}

// view is n lanes as they lie in memory, for unit accesses.
func (a *access[T]) view(f frame, n int) []T {
	return unsafe.Slice(element[T](address(f, a.slot), a.index.start.get(f)), n)
}

// one reads the element of a uniform access.
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

// places returns the lanes' indices if they are not regular; it is called once per strip, before fetch and deliver.
func (a *access[T]) places(f frame, n int) []int64 {
	if a.index.regular() {
		return nil
	}
	at := strip[int64](f, a.at, n)
	a.index.fill(f, at)
	return at
}

// fetch reads lanes first … end−1 into to, whose other lanes it leaves.
func (a *access[T]) fetch(f frame, to []T, places []int64, first, end int) {
	if first >= end {
		return
	}
	base := address(f, a.slot)
	if places != nil {
		for i, at := range places[first:end] {
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

// deliver writes lanes first … end−1 of from.
func (a *access[T]) deliver(f frame, from []T, places []int64, first, end int) {
	if first >= end {
		return
	}
	base := address(f, a.slot)
	if places != nil {
		for i, at := range places[first:end] {
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

// mask says which lanes take part. The zero value is all of them.
type mask struct {
	test   scalar[uint8]
	within *interval
	lanes  lanes[uint8]
}

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

// all reports whether every lane takes part.
func (m *mask) all() bool { return m.test == nil && m.within == nil && m.lanes == nil }

// uniform reports whether all lanes take part or none.
func (m *mask) uniform() bool { return m.within == nil && m.lanes == nil }

// each calls do for each run of lanes that take part; flags are the lanes of the mask if they are not an interval.
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

func (m *mask) flags(f frame, n int) []uint8 {
	if m.lanes == nil {
		return nil
	}
	return m.lanes(f, n)
}

func (k *numeric[T]) load(c *compiler, e *loop.Load, into any) value {
	start := c.mark()
	out, placed := destination[T](c, into)
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
		return value{dt: e.Type, placed: placed, run: lanes[T](func(f frame, n int) []T {
			places := a.places(f, n)
			to := out(f, n)
			a.fetch(f, to, places, 0, n)
			return to
		})}
	}
	if taken.within != nil && otherwise.uniform && a.index.regular() {
		c.release(mark)
		// The copy of a view is saved where the caller has not asked for a place.
		return value{dt: e.Type, placed: placed, run: a.fetchWithin(*taken.within, otherwise.run.(scalar[T]), out,
			a.unit() && !placed)}
	}
	rest, _ := spread[T](c, otherwise, nil)
	c.release(mark)
	return value{dt: e.Type, placed: placed, run: lanes[T](func(f frame, n int) []T {
		places, flags := a.places(f, n), taken.flags(f, n)
		v := rest(f, n)
		to := out(f, n)
		copy(to, v)
		taken.each(f, n, flags, func(first, end int) { a.fetch(f, to, places, first, end) })
		return to
	})}
}

// fetchWithin reads the lanes of an interval, and gives the others one value.
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

// guarded is a scalar read where a uniform mask holds.
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

// moves reports whether an expression only chooses among elements of memory, so that their bits can be moved as they
// are.
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

func (c *compiler) store(s *loop.Store) action {
	outer := c.moving
	c.moving = moves(s.X)
	do := c.family(s.X.DType()).store(c, s)
	c.moving = outer
	return do
}

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
		run, placed := spread[T](c, c.expr(s.X, view), view)
		if placed {
			return func(f frame, n int) { run(f, n) }
		}
		return func(f frame, n int) { copy(a.view(f, n), run(f, n)) }
	}
	run, _ := spread[T](c, c.expr(s.X, nil), nil)
	return func(f frame, n int) {
		places, flags := a.places(f, n), taken.flags(f, n)
		v := run(f, n)
		taken.each(f, n, flags, func(first, end int) { a.deliver(f, v, places, first, end) })
	}
}

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
