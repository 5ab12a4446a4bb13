package schedule

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Pack is the new layout of a weight for contractions whose right operand it is: panels of Width columns, in each of
// which the columns of one step of the sum are contiguous. A weight [a, K, b, N] whose columns are the last axis and
// whose sums run along the second becomes [N / Width, a, b, K, Width], padded with zeros. For bytes and bf16, the steps
// that the machine sums at once, a group, are contiguous for each column: [N / Width, a, b, K / Group, Width, Group],
// padded with zeros. All its readers are rewritten; for a weight that is read in several forms, see divide.
type Pack struct {
	Buffer *loop.Buffer // with its new shape; Fill writes the Data that replace its own
	Width  int64
	Group  int64 // 1: no groups

	from           *tensor.Tensor // the contents before packing, in the shape old
	old            []int64        // the shape before packing, as the contraction with the most work reads it
	columns, depth int            // axes of it
	shape          []int64
	order          []int // the axes before packing, without the columns, in their new order
	readers        []reader
	work           float64
	piece          int64 // approximate bytes of a piece
}

// reader is a parameter of a kernel to which a weight is passed.
type reader struct {
	kernel *loop.Kernel
	param  *loop.Param
}

// widthFor returns the width of panels if the kernel's parameter is the weight; 0 otherwise.
func (p *Pack) widthFor(k *loop.Kernel, param string) int64 {
	for _, r := range p.readers {
		if r.kernel.Name == k.Name && r.param.Name == param {
			return p.Width
		}
	}
	return 0
}

// packed reports whether weights of a type are packed: those that contractions in registers read.
func packed(dt dtype.DType) bool {
	return dt == dtype.F32 || dt == dtype.F16 || dt == dtype.BF16 || dt.IsInt() && dt.Bits() >= 8 && dt.Bits() <= 32
}

// planPacks returns the weights to pack: constants that contractions read as their right operand.
func (s *scheduler) planPacks() []*Pack {
	if s.off("pack") {
		return nil
	}
	s.findShared()
	refused := s.read(func(l *loop.Launch) bool { return s.shared[l.Kernel] })
	packable := func(b *loop.Buffer) bool {
		return !refused[b] && b.Kind == loop.Weight && b.View == nil && b.Data != nil && packed(b.DType)
	}
	s.divide(packable)
	packs := map[*loop.Buffer]*Pack{}
	var list []*Pack
	s.eachList(&s.module.Body, func(steps *[]loop.Step) {
		for _, step := range *steps {
			l, ok := step.(*loop.Launch)
			if !ok {
				continue
			}
			for i, b := range l.Args {
				if !packable(b) {
					continue
				}
				p := packs[b]
				if p == nil {
					p = &Pack{Buffer: b, Group: s.atOnce(b.DType), from: b.Data, columns: -1}
					packs[b] = p
					list = append(list, p)
				}
				p.readers = append(p.readers, reader{l.Kernel, l.Kernel.Params[i]})
				p.Group = min(p.Group, s.groupOf(l.Kernel, l.Kernel.Params[i]))
				s.wish(p, l.Kernel, l.Kernel.Params[i])
			}
		}
	})
	return slices.DeleteFunc(list, func(p *Pack) bool { return p.columns < 0 || !p.agreed() || !p.lay() })
}

// read returns the set of buffers that a step other than a launch reads, that are views or hold views, or that an unfit
// launch reads.
func (s *scheduler) read(unfit func(*loop.Launch) bool) map[*loop.Buffer]bool {
	set := map[*loop.Buffer]bool{}
	s.eachList(&s.module.Body, func(steps *[]loop.Step) {
		for _, step := range *steps {
			if l, ok := step.(*loop.Launch); ok && !unfit(l) {
				continue
			}
			reads, writes := touched(step, false)
			for _, b := range append(reads, writes...) {
				set[b] = true
			}
		}
	})
	loop.EachBuffer(s.module.Body, func(b *loop.Buffer) {
		for ; b.View != nil; b = b.View.Of {
			set[b.View.Of] = true
		}
	})
	return set
}

// wish records the layout that a kernel's contractions need; the contraction with the most work decides.
func (s *scheduler) wish(p *Pack, k *loop.Kernel, param *loop.Param) {
	s.free = k.Dims
	for _, a := range loop.Accesses(k.Body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Tile != &c.B || a.Buffer != param.Name {
			continue
		}
		columns, depth := stepOf(c.B.Col), stepOf(c.B.Row)
		if columns < 0 || depth < 0 || columns == depth {
			continue
		}
		work := s.guess(c.M) * s.guess(c.N) * s.guess(c.K)
		if shape, ok := numbers(param.Shape); ok && (p.columns < 0 || work > p.work) {
			p.old, p.columns, p.depth, p.work, p.Width = shape, columns, depth, work,
				s.panelWidth(k, c, bufferOf(k, c.C.Buffer).DType)
		}
	}
}

// atOnce returns the number of products of elements of a type that the machine sums at once.
func (s *scheduler) atOnce(dt dtype.DType) int64 {
	switch {
	case dt.IsInt() && dt.Bits() == 8:
		return max(s.machine.Dot.Bytes, 1)
	case dt == dtype.BF16:
		return max(s.machine.Dot.Brains, 1)
	}
	return 1
}

// groupOf returns the number of steps of a sum that a kernel's contractions need contiguous in a weight: more than one
// if products are summed at once in 32 bits and the other operand's steps are contiguous.
func (s *scheduler) groupOf(k *loop.Kernel, param *loop.Param) int64 {
	group := s.atOnce(param.DType)
	for _, a := range loop.Accesses(k.Body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Tile != &c.B || a.Buffer != param.Name {
			continue
		}
		left := bufferOf(k, c.A.Buffer)
		alike := left.DType.IsInt() == param.DType.IsInt() && s.atOnce(left.DType) > 1
		if _, fixed := c.K.Const(); !alike || bufferOf(k, c.C.Buffer).DType.Bits() != 32 || !fixed ||
			!isOne(loop.Offset(c.A.Col, left.Shape, left.Strides)) {
			group = 1
		}
	}
	return group
}

// stepOf returns the axis along which steps is 1 while it is 0 along all others; −1 if there is none.
func stepOf(steps []sym.Expr) int {
	axis := -1
	for i, e := range steps {
		switch {
		case isZero(e):
		case isOne(e) && axis < 0:
			axis = i
		default:
			return -1
		}
	}
	return axis
}

// numbers returns a shape of constants; ok is false for other shapes.
func numbers(shape []sym.Expr) (list []int64, ok bool) {
	for _, e := range shape {
		n, ok := e.Const()
		if !ok {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}

// lay computes the new shape. It returns false if some reader reads the weight with other strides.
func (p *Pack) lay() bool {
	for _, r := range p.readers {
		if _, ok := numbers(r.param.Shape); !ok || r.param.Access != loop.Read || r.param.Strides != nil {
			return false
		}
	}
	p.shape, p.order = []int64{(p.old[p.columns] + p.Width - 1) / p.Width}, nil
	for axis := range p.old {
		if axis != p.columns && axis != p.depth {
			p.order = append(p.order, axis)
		}
	}
	p.order = append(p.order, p.depth)
	for _, axis := range p.order {
		p.shape = append(p.shape, p.old[axis])
	}
	p.shape = append(p.shape, p.Width)
	if p.Group > 1 {
		last := len(p.shape) - 2
		p.shape[last] = (p.shape[last] + p.Group - 1) / p.Group
		p.shape = append(p.shape, p.Group)
	}
	from, err := p.from.Reshape(p.old...)
	if err != nil || from.Len() == 0 {
		return false
	}
	p.from, p.piece = from, pieceBytes
	return true
}

// pack rewrites the readers of the weights that can be packed, after contractions are cut, and fills the weights.
func (s *scheduler) pack(packs []*Pack) error {
	packs = slices.DeleteFunc(packs, func(p *Pack) bool {
		unfit := func(r reader) bool { return !s.readable(p, r) }
		if p.Group > 1 && slices.ContainsFunc(p.readers, unfit) {
			p.Group = 1
			p.lay()
		}
		return slices.ContainsFunc(p.readers, unfit)
	})
	for _, p := range packs {
		for _, r := range p.readers {
			p.rewrite(r, s.newNamer(r.kernel))
		}
		p.Buffer.Shape = constants(p.shape)
	}
	if s.options.Pack != nil && len(packs) > 0 {
		return s.options.Pack(packs)
	}
	for _, p := range packs {
		t, err := tensor.New(p.Buffer.DType, p.shape...)
		if err != nil {
			return err
		}
		p.Fill(t.Bytes(), 0, p.Pieces())
		p.Buffer.Data = t
	}
	return nil
}

// constants returns integers as symbolic integers.
func constants(list []int64) []sym.Expr {
	out := make([]sym.Expr, len(list))
	for i, n := range list {
		out[i] = sym.Const(n)
	}
	return out
}

// readable reports whether a reader can be rewritten: each tile of its contractions is inside one panel, and along its
// axes.
func (s *scheduler) readable(p *Pack, r reader) bool {
	q := bufferOf(r.kernel, r.param.Name)
	if q == nil {
		return false
	}
	shape, ok := numbers(q.Shape)
	same := slices.Equal(shape, p.old)
	if !ok {
		return false
	}
	for _, a := range loop.Accesses(r.kernel.Body) {
		if a.Buffer != r.param.Name || a.Tile == nil {
			continue
		}
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || !same || a.Tile != &c.B || stepOf(c.B.Col) != p.columns || !isZero(c.B.Row[p.columns]) ||
			!isZero(s.dims.Simplify(c.B.Origin[p.columns].Mod(sym.Const(p.Width)))) ||
			s.dims.LE(c.N, sym.Const(p.Width)) != sym.Yes {
			return false
		}
		if _, fixed := c.K.Const(); p.Group > 1 && (!fixed || stepOf(c.B.Row) != p.depth ||
			!isZero(s.dims.Simplify(c.B.Origin[p.depth].Mod(sym.Const(p.Group))))) {
			return false
		}
	}
	return true
}

// rewrite makes a kernel read the packed weight.
func (p *Pack) rewrite(r reader, names *namer) {
	width, group := sym.Const(p.Width), sym.Const(p.Group)
	place := func(index []sym.Expr, panel, column, depth, step sym.Expr) []sym.Expr {
		out := []sym.Expr{panel}
		for _, axis := range p.order[:len(p.order)-1] {
			out = append(out, index[axis])
		}
		out = append(out, depth, column)
		if p.Group > 1 {
			out = append(out, step)
		}
		return out
	}
	param := bufferOf(r.kernel, r.param.Name)
	given, _ := numbers(param.Shape)
	change := &loop.Rewrite{
		Expr: func(e loop.Expr) loop.Expr {
			if l, ok := e.(*loop.Load); ok && l.From == r.param.Name {
				index := l.Index
				if !slices.Equal(given, p.old) {
					index = unraveled(param.Offset(index), p.old)
				}
				at, depth := index[p.columns], index[p.depth]
				l.Index = place(index, at.FloorDiv(width), at.Mod(width), depth.FloorDiv(group), depth.Mod(group))
			}
			return e
		},
		Stmt: func(stmt loop.Stmt) []loop.Stmt {
			switch stmt := stmt.(type) {
			case *loop.Contract:
				if stmt.B.Buffer != r.param.Name {
					break
				}
				b, panel := &stmt.B, stmt.B.Origin[p.columns].FloorDiv(width)
				if p.Group > 1 {
					return p.byGroups(stmt, names, func(first sym.Expr) loop.Tile {
						return loop.Tile{Buffer: b.Buffer, Origin: place(b.Origin, panel, zero,
							b.Origin[p.depth].FloorDiv(group).Add(first), zero),
							Row: place(make([]sym.Expr, len(p.old)), zero, zero, zero, one),
							Col: place(make([]sym.Expr, len(p.old)), zero, one, zero, zero)}
					})
				}
				b.Origin = place(b.Origin, panel, zero, b.Origin[p.depth], zero)
				b.Row = place(b.Row, zero, zero, b.Row[p.depth], zero)
				b.Col = place(b.Col, zero, one, zero, zero)
			case *loop.For:
				if p.Group > 1 && slices.ContainsFunc(loop.Accesses(stmt.Body), func(a loop.Touches) bool {
					return a.Buffer == r.param.Name && a.Tile != nil
				}) {
					return apart(stmt, names)
				}
			}
			return []loop.Stmt{stmt}
		},
	}
	r.kernel.Body = change.Body(r.kernel.Body)
	param.Shape = constants(p.shape)
}

// byGroups returns a contraction as one over each group of steps, and one over the remainder; right returns the right
// operand from a group on.
func (p *Pack) byGroups(c *loop.Contract, names *namer, right func(first sym.Expr) loop.Tile) []loop.Stmt {
	depth, _ := c.K.Const()
	part := func(first sym.Expr, count int64) loop.Stmt {
		a := loop.Tile{Buffer: c.A.Buffer, Origin: make([]sym.Expr, len(c.A.Origin)), Row: c.A.Row, Col: c.A.Col}
		for i := range a.Origin {
			a.Origin[i] = c.A.Origin[i].Add(c.A.Col[i].Mul(first).Mul(sym.Const(p.Group)))
		}
		return &loop.Contract{M: c.M, N: c.N, K: sym.Const(count), C: c.C, A: a, B: right(first)}
	}
	var list []loop.Stmt
	if whole := depth / p.Group; whole > 0 {
		name := names.bound("g")
		list = append(list, &loop.For{Kind: loop.Serial, Var: name, Extent: sym.Const(whole),
			Body: []loop.Stmt{part(sym.Var(name), p.Group)}})
	}
	if rest := depth % p.Group; rest > 0 {
		list = append(list, part(sym.Const(depth/p.Group), rest))
	}
	return list
}

// apart returns a serial loop over several sums of products as one loop for each, since sums stay in registers only in
// loops around a single product. The order does not matter for sums of integers.
func apart(f *loop.For, names *namer) []loop.Stmt {
	sums := func(stmt loop.Stmt) bool {
		for {
			inner, ok := stmt.(*loop.For)
			if !ok || inner.Kind != loop.Serial || len(inner.Body) != 1 {
				break
			}
			stmt = inner.Body[0]
		}
		_, is := stmt.(*loop.Contract)
		return is
	}
	if f.Kind != loop.Serial || len(f.Body) < 2 || slices.ContainsFunc(f.Body, func(s loop.Stmt) bool {
		return !sums(s)
	}) {
		return []loop.Stmt{f}
	}
	var list []loop.Stmt
	for i, stmt := range f.Body {
		name, body := f.Var, []loop.Stmt{stmt}
		if i > 0 {
			name = names.bound(f.Var.Text())
			other := &loop.Rewrite{Integer: func(e sym.Expr) sym.Expr {
				return e.Subst(func(v sym.Name) (sym.Expr, bool) { return sym.Var(name), v == f.Var })
			}}
			body = other.Body(body)
		}
		list = append(list, &loop.For{Kind: loop.Serial, Var: name, Extent: f.Extent, Body: body})
	}
	return list
}

// unraveled returns the index of the flat-th element of a shape.
func unraveled(flat sym.Expr, shape []int64) []sym.Expr {
	index := make([]sym.Expr, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		n := sym.Const(shape[axis])
		index[axis] = flat
		if axis > 0 {
			index[axis], flat = flat.Mod(n), flat.FloorDiv(n)
		}
	}
	return index
}

// Shape returns the packed weight's shape.
func (p *Pack) Shape() []int64 { return p.shape }

// Bytes returns the packed weight's size.
func (p *Pack) Bytes() int64 {
	n := p.element()
	for _, extent := range p.shape {
		n *= extent
	}
	return n
}

// element returns the bytes of an element.
func (p *Pack) element() int64 { return int64(p.from.DType().Bits() / 8) }

// packSteps is the number of steps of a sum that are packed at once: that many cache lines of the panel stay in the
// cache while its columns are read.
const packSteps = 16

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

// Stretch returns approximately the memory that pieces [begin, end) read and other pieces do not; nil if that is not
// known.
func (p *Pack) Stretch(begin, end int64) []byte {
	axis, extent := p.along()
	return p.from.Stretch(begin*extent, min(end*extent, p.old[axis]))
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
	data, steps, there := p.from.Strided()
	for piece := begin; piece < end; piece++ {
		first, last := piece*extent, min((piece+1)*extent, p.old[axis])
		if there {
			p.fill(to, data[p.element()*first*steps[axis]:], steps, axis, first, last)
			continue
		}
		shape := slices.Clone(p.old)
		shape[axis] = last - first
		part, release := tensor.Temporary(p.from.DType(), shape...)
		p.from.Fill(part, axis, first, last)
		p.fill(to, part.Bytes(), tensor.Strides(shape), axis, first, last)
		release()
	}
}

// fill packs the elements whose indices along an axis are from begin to end. data begins with the first of them; steps
// are the distances between neighbours.
func (p *Pack) fill(target []byte, data []byte, steps []int64, axis int, begin, end int64) {
	shape := slices.Clone(p.old)
	shape[axis] = end - begin
	others := p.order[:len(p.order)-1]
	// the first, and columns of its panel that are another piece's
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

// transpose is matrix where the columns of a row do not lie side by side. Elements are bytes to it: they may lie at any
// address.
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
