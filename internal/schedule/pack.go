package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
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
	Buffer *loop.Buffer // with its new shape; Fill writes its new contents, which are deferred
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
	s.divideColumns(packable)
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
	return slices.DeleteFunc(list, func(p *Pack) bool {
		if p.columns < 0 || !p.agreed() {
			return true
		}
		s.beginPanels(p)
		return !p.lay()
	})
}

// beginPanels makes panels narrower if contractions read a weight in parts, as gated layers do, and a part would begin
// inside a panel.
func (s *scheduler) beginPanels(p *Pack) {
	lanes := int64(s.machine.VectorBytes) / 4
	for width := p.Width; width >= lanes; width -= lanes {
		if p.beginsPanels(width) {
			p.Width = width
			return
		}
	}
}

// beginsPanels reports whether all contractions that read a weight begin at panels of a width.
func (p *Pack) beginsPanels(width int64) bool {
	for _, r := range p.readers {
		for _, a := range loop.Accesses(r.kernel.Body) {
			c, ok := a.Stmt.(*loop.Contract)
			if !ok || a.Tile != &c.B || a.Buffer != r.param.Name {
				continue
			}
			axis := stepOf(c.B.Col)
			if axis < 0 || !isZero(c.B.Origin[axis].Mod(sym.Const(width))) {
				return false
			}
		}
	}
	return true
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
		return max(s.machine.Dot.BF16, 1)
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

// pack rewrites the readers of the weights that can be packed, after contractions are cut, and defers the contents.
func (s *scheduler) pack(packs []*Pack) (err error) {
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
	for _, p := range packs {
		if p.Buffer.Data, err = p.deferred(); err != nil {
			return err
		}
		if s.options.Pack != nil {
			s.options.Pack(p)
		}
	}
	return nil
}

// deferred returns the packed weight as a tensor that is computed as a whole when it is read.
func (p *Pack) deferred() (*tensor.Tensor, error) {
	return tensor.Deferred(p.Buffer.DType, p.shape, p.from, 0, func(to *tensor.Tensor, _ int, begin, end int64) {
		if end-begin != p.shape[0] {
			panic(diag.Internalf("packing a part of %s", p.Buffer.Name))
		}
		p.Fill(to.Bytes(), 0, p.Pieces())
	})
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
	packedIndex := func(index []sym.Expr, panel, column, depth, step sym.Expr) []sym.Expr {
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
					index = sym.Unravel(param.Offset(index), constants(p.old))
				}
				at, depth := index[p.columns], index[p.depth]
				l.Index = packedIndex(index, at.FloorDiv(width), at.Mod(width), depth.FloorDiv(group), depth.Mod(group))
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
						return loop.Tile{Buffer: b.Buffer, Origin: packedIndex(b.Origin, panel, zero,
							b.Origin[p.depth].FloorDiv(group).Add(first), zero),
							Row: packedIndex(make([]sym.Expr, len(p.old)), zero, zero, zero, one),
							Col: packedIndex(make([]sym.Expr, len(p.old)), zero, one, zero, zero)}
					})
				}
				b.Origin = packedIndex(b.Origin, panel, zero, b.Origin[p.depth], zero)
				b.Row = packedIndex(b.Row, zero, zero, b.Row[p.depth], zero)
				b.Col = packedIndex(b.Col, zero, one, zero, zero)
			case *loop.For:
				if p.Group > 1 && slices.ContainsFunc(loop.Accesses(stmt.Body), func(a loop.Touches) bool {
					return a.Buffer == r.param.Name && a.Tile != nil
				}) {
					return oneLoopEach(stmt, names)
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
	product := func(first sym.Expr, count int64) loop.Stmt {
		a := loop.Tile{Buffer: c.A.Buffer, Origin: make([]sym.Expr, len(c.A.Origin)), Row: c.A.Row, Col: c.A.Col}
		for i := range a.Origin {
			a.Origin[i] = c.A.Origin[i].Add(c.A.Col[i].Mul(first).Mul(sym.Const(p.Group)))
		}
		return &loop.Contract{M: c.M, N: c.N, K: sym.Const(count), C: c.C, A: a, B: right(first)}
	}
	var list []loop.Stmt
	if full := depth / p.Group; full > 0 {
		name := names.bound("g")
		list = append(list, &loop.For{Kind: loop.Serial, Var: name, Extent: sym.Const(full),
			Body: []loop.Stmt{product(sym.Var(name), p.Group)}})
	}
	if rest := depth % p.Group; rest > 0 {
		list = append(list, product(sym.Const(depth/p.Group), rest))
	}
	return list
}

// oneLoopEach returns a serial loop over several sums of products as one loop for each, since sums stay in registers
// only in loops around a single product. The order does not matter for sums of integers.
func oneLoopEach(f *loop.For, names *namer) []loop.Stmt {
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
