package amd64

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// sumExpressions computes simple expressions of a tile's sums in their registers. It refuses other expressions, and
// those for which there are too few registers.
type sumExpressions struct {
	group     *lanes.ContractionGroup
	nest      lanes.NestOfSums
	dtype     dtype.DType
	locations map[any]location // of loads and stores
	lets      map[string]asm.Reg
	once      bool // a sum is read once, and its register is free after that
}

// location describes how a load or a store finds a tile's elements: in the rows of a stream, either adjacent columns or
// one element for all columns.
type location struct {
	stream *stream
	lanes  bool
	narrow *operandForm // the form of elements that registers hold as f32 or i32; nil if they are as wide as sums
	turned bool         // rows are adjacent, and columns have this distance
	column lanes.Distance
	far    bool // of a store: in memory that is too large for the caches
}

// expressions prepares a nest's loads and stores.
func (p *product) expressions(g *lanes.ContractionGroup, n lanes.NestOfSums) *sumExpressions {
	x := &sumExpressions{group: g, nest: n, dtype: g.Local.DType, locations: map[any]location{}}
	reads := 0
	for _, s := range n.Body {
		for _, v := range loop.Values(s) {
			loop.WalkExpr(v, func(v loop.Expr) {
				l, ok := v.(*loop.Load)
				switch {
				case !ok:
				case l.From == g.Local.Name:
					reads++
				case l.Mask != nil:
					lanes.Refuse("a masked load")
				default:
					x.locations[l] = p.locationOf(x, l.From, l.Index)
				}
			})
		}
		if s, ok := s.(*loop.Store); ok && s.To != g.Local.Name {
			if s.Mask != nil {
				lanes.Refuse("a masked store")
			}
			at := p.locationOfStore(x, n, s)
			if at.narrow != nil && !(at.narrow.high && p.isa.masks || p.Kernel.Memory(s.To).DType.IsInt()) {
				lanes.Refuse("elements of %s made of sums", p.Kernel.Memory(s.To).DType)
			}
			at.lanes, at.far = true, !at.turned && at.stream.row.Known() && p.exceeds(s.To, farBytes)
			x.locations[s] = at
			x.once = !at.turned
		}
	}
	x.once = x.once && reads == 1
	return x
}

// farBytes is the size of a buffer whose lines are fetched before they are written: about the size of a core's own
// caches.
const farBytes = 1 << 20

// exceeds reports whether a parameter may have more bytes than the given number, as far as its extents are known.
func (p *product) exceeds(buffer string, bytes float64) bool {
	m := p.Kernel.Memory(buffer)
	if m.Param == nil {
		return false
	}
	size := float64(m.DType.Bits()) / 8
	for _, extent := range m.Shape {
		_, most := p.Kernel.Ranges.Bounds(extent)
		size *= float64(most)
	}
	return size > bytes
}

// locationOfStore returns the location of a store. Only the last store may have columns that are not adjacent: nothing
// reads the sums after it.
func (p *product) locationOfStore(x *sumExpressions, n lanes.NestOfSums, s *loop.Store) location {
	m := p.Kernel.Memory(s.To)
	ops := elements[m.DType]
	down, across, offset := p.stepsOf(x, m.Offset(s.Index))
	step, fixed := across.Const()
	if n.Column.None() || n.Row.None() || fixed && (step == 0 || step == 1) || !lanes.IsOne(down) || ops == nil ||
		ops.size != 4 || p.ops.size != 4 {
		at := p.locationOf(x, s.To, s.Index)
		if !at.lanes && !n.Column.None() {
			lanes.Refuse("a store of columns that are not adjacent")
		}
		return at
	}
	if s != n.Body[len(n.Body)-1] {
		lanes.Refuse("a store of columns that are not adjacent, and another after it")
	}
	return location{stream: p.stream(s.To, offset, lanes.Known(p.ops.size)), turned: true,
		column: p.Distance(across, p.ops.size)}
}

// stepsOf splits an offset into its steps along a nest's rows and columns, and the rest.
func (p *product) stepsOf(x *sumExpressions, offset sym.Expr) (down, across, rest sym.Expr) {
	offset = p.Resolve(offset)
	take := func(variable sym.Name, coef *sym.Expr) {
		if variable.None() {
			return
		}
		factor, rest, ok := offset.Linear(variable)
		if !ok {
			lanes.Refuse("%s does not move evenly with %s", offset, variable)
		}
		*coef, offset = factor, rest
	}
	down, across = sym.Const(0), sym.Const(0)
	take(x.nest.Column, &across)
	take(x.nest.Row, &down)
	return down, across, offset
}

// locationOf returns the location of an access; it refuses columns with a step other than 0 or 1.
func (p *product) locationOf(x *sumExpressions, buffer string, index []sym.Expr) location {
	m := p.Kernel.Memory(buffer)
	size, narrow := p.ops.size, (*operandForm)(nil)
	if ops := elements[m.DType]; ops == nil || ops.size != size {
		if narrow = integerForms[m.DType]; m.DType.IsFloat() {
			narrow = floatForms[m.DType]
		}
		if narrow == nil || size != 4 {
			lanes.Refuse("elements of %s among sums of %s", m.DType, x.dtype)
		}
		size = narrow.size
	}
	down, across, offset := p.stepsOf(x, m.Offset(index))
	step, ok := across.Const()
	if !ok || step != 0 && step != 1 {
		lanes.Refuse("columns of %%%s that are not adjacent", buffer)
	}
	for _, name := range down.Vars() {
		if name == x.nest.Column {
			lanes.Refuse("rows of %%%s that differ by column", buffer)
		}
	}
	return location{stream: p.stream(buffer, offset, p.Distance(down, size)), lanes: step == 1, narrow: narrow}
}

// fill sets all sums to their first value.
func (x *sumExpressions) fill(t *registerTile, v loop.Expr) {
	x.eachRow(t, func(row int, at func(*stream) asm.Mem) {
		for vector := range t.vectors {
			r, own := x.value(t, v, row, vector, at)
			t.wide(asm.VMOVUPS, t.sum(row, vector), r)
			if own {
				t.give(r)
			}
		}
	})
}

// fetch emits prefetches of the lines of a large buffer that the nest writes, so that they arrive while a tile's
// products are added up.
func (x *sumExpressions) fetch(t *registerTile) {
	for _, s := range x.nest.Body {
		s, ok := s.(*loop.Store)
		if !ok {
			continue
		}
		p := x.locations[s]
		if !p.far {
			continue
		}
		line := t.ops.size
		if p.narrow != nil {
			line = p.narrow.size
		}
		for row := range t.rows {
			for at := int64(0); at < int64(t.vectors)*t.lanes()*line; at += 64 {
				t.Emit(asm.Inst{Op: asm.PREFETCHW, Args: [4]asm.Reg{asm.Memory},
					Mem: asm.Mem{Base: p.stream.at, Disp: t.disp(int64(row)*p.stream.row.Fixed + at)}})
			}
		}
	}
}

// run emits the nest's statements for all sums.
func (x *sumExpressions) run(t *registerTile) {
	var last *location
	x.eachRow(t, func(row int, at func(*stream) asm.Mem) {
		for vector := range t.vectors {
			x.lets = map[string]asm.Reg{}
			var owned []asm.Reg
			for _, s := range x.nest.Body {
				switch s := s.(type) {
				case *loop.Let:
					r, own := x.value(t, s.X, row, vector, at)
					if own {
						owned = append(owned, r)
					}
					x.lets[s.Name] = r
				case *loop.Store:
					p, v := x.locations[s], s.X
					bf16 := p.narrow != nil && p.narrow.high
					if c, ok := v.(*loop.Cast); ok && bf16 {
						if v = c.X; c.Type != dtype.BF16 || v.DType() != dtype.F32 {
							lanes.Refuse("a conversion of sums to %s", c.Type)
						}
					} else if bf16 {
						lanes.Refuse("a copy among sums")
					}
					r, own := x.value(t, v, row, vector, at)
					if p.turned {
						t.wide(asm.VMOVUPS, t.sum(row, vector), r)
						last = &p
					} else if bf16 {
						t.storeBF16(along(at(p.stream), t, vector, p.narrow.size), vector, r)
					} else if p.narrow != nil {
						t.storeIntegers(along(at(p.stream), t, vector, p.narrow.size), p.narrow, vector, r)
					} else {
						t.storeLanes(along(at(p.stream), t, vector, t.ops.size), vector, r)
					}
					if own {
						t.give(r)
					}
				}
			}
			for _, r := range owned {
				t.give(r)
			}
		}
	})
	if last != nil {
		t.turned(*last)
	}
}

// eachRow calls do for each row of a tile; at is a stream's address there.
func (x *sumExpressions) eachRow(t *registerTile, do func(row int, at func(*stream) asm.Mem)) {
	moving := map[*stream]asm.Reg{} // of streams whose row distance is in a register
	var order []*stream
	for row := range t.rows {
		do(row, func(s *stream) asm.Mem {
			if s.row.Known() {
				return asm.Mem{Base: s.at, Disp: t.disp(int64(row) * s.row.Fixed)}
			}
			if moving[s] == asm.NoReg {
				moving[s] = t.CopyOf(s.at)
				order = append(order, s)
			}
			return asm.Mem{Base: moving[s]}
		})
		for _, s := range order {
			t.MoveOn(moving[s], s.row)
		}
	}
}

// along returns the address of a vector of a row, for elements of the given size.
func along(at asm.Mem, t *registerTile, vector int, size int64) asm.Mem {
	at.Disp += int32(int64(vector) * t.lanes() * size)
	return at
}

// storeBF16 writes a vector of f32 as bf16, rounded to nearest, half to even. The instruction for it takes subnormal
// numbers as zeros: if there are some, integers are rounded.
func (t *registerTile) storeBF16(at asm.Mem, vector int, r asm.Reg) {
	bits, to, mask := uint16(t.isa.bits), t.take(), asm.NoReg
	if t.partial(vector) && !t.whole {
		mask = t.mask
	}
	end := t.Label()
	if t.isa.bf16 > 0 {
		slow := t.Label()
		small := t.maskRegister()
		t.Emit(asm.Inst{Op: asm.VFPCLASSPS, Bits: bits, Args: [4]asm.Reg{small, r}, Imm: subnormal})
		t.Emit(asm.Inst{Op: asm.KORTESTW, Args: [4]asm.Reg{small, small}})
		t.jump(asm.JNE, slow)
		t.wide(asm.VCVTNEPS2BF16, to, r)
		t.Emit(asm.Inst{Op: asm.VMOVDQU16, Bits: bits / 2, Args: [4]asm.Reg{asm.Memory, to}, Mem: at, Mask: mask})
		t.jump(asm.JMP, end)
		t.Bind(slow)
	}
	all := func(v uint32) asm.Mem {
		return asm.Mem{Pool: t.code.Constant(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, v), t.isa.lanes))}
	}
	shift := func() {
		t.Emit(asm.Inst{Op: asm.VPSRLD, Bits: bits, Args: [4]asm.Reg{to, to}, Imm: 16})
	}
	nan := t.maskRegister()
	t.Emit(asm.Inst{Op: asm.VCMPPS, Bits: bits, Args: [4]asm.Reg{nan, r, r}, Imm: int64(unordered)})
	t.wide(asm.VMOVUPS, to, r)
	shift()
	t.wideFrom(asm.VPANDD, all(1), to, to)
	t.wideFrom(asm.VPADDD, all(0x7fff), to, to)
	t.wide(asm.VPADDD, to, to, r)
	t.Emit(asm.Inst{Op: asm.VPORD, Bits: bits, Args: [4]asm.Reg{to, r, asm.Memory}, Mem: all(0x40 << 16), Mask: nan})
	shift()
	t.Emit(asm.Inst{Op: asm.VPMOVDW, Bits: bits, Args: [4]asm.Reg{asm.Memory, to}, Mem: at, Mask: mask})
	t.Bind(end)
	t.give(to)
}

// subnormal is the class of VFPCLASSPS.
const subnormal = 0x20

// value returns a vector register with an expression's value, and whether it is a spare one that the caller must give
// back.
func (x *sumExpressions) value(t *registerTile, v loop.Expr, row, vector int, at func(*stream) asm.Mem) (r asm.Reg,
	own bool) {
	switch v := v.(type) {
	case *loop.Const:
		r = t.take()
		t.wideFrom(asm.VMOVUPS, x.constant(t, v), r)
		return r, true
	case *loop.Ref:
		if r, ok := x.lets[v.Name]; ok {
			return r, false
		}
	case *loop.Load:
		if v.From == x.group.Local.Name {
			return t.sum(row, vector), x.once
		}
		r = t.take()
		switch p := x.locations[v]; {
		case p.lanes && p.narrow != nil:
			t.readRun(p.narrow, r, vector, along(at(p.stream), t, vector, p.narrow.size), t.partial(vector))
		case p.lanes:
			t.loadLanes(r, vector, along(at(p.stream), t, vector, t.ops.size))
		case p.narrow != nil:
			t.readOne(p.narrow, r, at(p.stream))
		default:
			t.wideFrom(t.ops.broadcast, at(p.stream), r)
		}
		return r, true
	case *loop.Cast:
		return x.cast(t, v, row, vector, at)
	case *loop.Unary:
		return x.unary(t, v, row, vector, at)
	case *loop.Binary:
		return x.binary(t, v, row, vector, at)
	case *loop.Select:
		return x.choice(t, v, row, vector, at)
	}
	lanes.Refuse("an expression of sums of type %T", v)
	return asm.NoReg, false
}

// opsOf returns the instructions for an expression's type.
func (x *sumExpressions) opsOf(t *registerTile, v loop.Expr) *elementOps {
	ops := elements[v.DType()]
	if ops == nil || ops.size != t.ops.size {
		lanes.Refuse("%s among sums of %s", v.DType(), x.dtype)
	}
	return ops
}

// constant returns a number in memory, in all lanes.
func (x *sumExpressions) constant(t *registerTile, c *loop.Const) asm.Mem {
	x.opsOf(t, c)
	return x.repeated(t, c.Bits)
}

// repeated returns a constant in memory with the bits in every lane.
func (x *sumExpressions) repeated(t *registerTile, bits uint64) asm.Mem {
	var one []byte
	if t.ops.size == 4 {
		one = binary.LittleEndian.AppendUint32(nil, uint32(bits))
	} else {
		one = binary.LittleEndian.AppendUint64(nil, bits)
	}
	return asm.Mem{Pool: t.code.Constant(bytes.Repeat(one, int(t.lanes())))}
}

// result returns a register for a result computed from r: r itself if it is a spare one (own), else a new one.
func (t *registerTile) result(r asm.Reg, own bool) asm.Reg {
	if own {
		return r
	}
	return t.take()
}

// unary emits a function of one operand for a vector of sums; it refuses functions other than roundings, Neg, Abs and
// Sqrt.
func (x *sumExpressions) unary(t *registerTile, v *loop.Unary, row, vector int, at func(*stream) asm.Mem) (asm.Reg,
	bool) {
	mode, rounds := roundings[v.Op]
	if !rounds && v.Op != loop.Neg && v.Op != loop.Abs && v.Op != loop.Sqrt {
		lanes.Refuse("%s of sums", v.Op)
	}
	ops := x.opsOf(t, v)
	if v.DType().IsInt() {
		lanes.Refuse("%s of sums of %s", v.Op, v.DType())
	}
	from, own := x.value(t, v.X, row, vector, at)
	to := t.result(from, own)
	sign := uint64(1) << (t.ops.size*8 - 1)
	switch {
	case rounds:
		t.rounded(to, from, mode)
	case v.Op == loop.Neg:
		t.wideFrom(ops.xor, x.repeated(t, sign), to, from)
	case v.Op == loop.Abs:
		t.wideFrom(ops.and, x.repeated(t, sign-1), to, from)
	default:
		t.wide(ops.sqrt, to, from)
	}
	return to, true
}

// binary emits a function of two operands for a vector of sums; it returns the register, and whether it is a spare one.
func (x *sumExpressions) binary(t *registerTile, v *loop.Binary, row, vector int, at func(*stream) asm.Mem) (asm.Reg,
	bool) {
	op, left, right, ops := asm.NoOp, v.X, v.Y, x.opsOf(t, v)
	switch v.Op {
	case loop.Add:
		op = ops.add
	case loop.Sub:
		op = ops.sub
	case loop.Mul:
		op = ops.mul
	case loop.Div:
		op = ops.div
	case loop.Min, loop.Max:
		if op = ops.max; v.Op == loop.Min {
			op = ops.min
		}
		// The machine gives the second operand if one is NaN, so the operand that can be NaN must be the second.
		if !numberOf(left) {
			if left, right = right, left; !numberOf(left) {
				lanes.Refuse("the maximum or minimum of two sums")
			}
		}
		if zeroOf(left, v.Op == loop.Min) {
			return x.besideZero(t, v.Op, op, left, right, row, vector, at)
		}
	}
	if op == asm.NoOp {
		lanes.Refuse("%s of sums of %s", v.Op, v.DType())
	}
	if v.DType().IsInt() && (v.Op == loop.Add || v.Op == loop.Sub) && zeroInt(right) {
		return x.value(t, left, row, vector, at)
	}
	if mem, ok := x.operand(t, right, vector, at); ok {
		a, own := x.value(t, left, row, vector, at)
		to := t.result(a, own)
		t.wideFrom(op, mem, to, a)
		return to, true
	}
	a, b, own, also := x.both(t, left, right, row, vector, at)
	if also && !own {
		t.wide(op, b, a, b)
		return b, true
	}
	to := t.result(a, own)
	t.wide(op, to, a, b)
	if also {
		t.give(b)
	}
	return to, true
}

// both returns the registers of two values; it computes the one that needs more registers first.
func (x *sumExpressions) both(t *registerTile, left, right loop.Expr, row, vector int, at func(*stream) asm.Mem) (a,
	b asm.Reg, own, also bool) {
	if x.needs(right) > x.needs(left) {
		b, also = x.value(t, right, row, vector, at)
		a, own = x.value(t, left, row, vector, at)
		return a, b, own, also
	}
	a, own = x.value(t, left, row, vector, at)
	b, also = x.value(t, right, row, vector, at)
	return a, b, own, also
}

// choice emits a selection of one of two values in each lane, by a comparison of floats.
func (x *sumExpressions) choice(t *registerTile, v *loop.Select, row, vector int, at func(*stream) asm.Mem) (asm.Reg,
	bool) {
	c, ok := v.Cond.(*loop.Binary)
	if !ok {
		lanes.Refuse("a choice among sums by an expression of type %T", v.Cond)
	}
	p, ok := predicates[c.Op]
	if !ok || !c.X.DType().IsFloat() || !v.DType().IsFloat() {
		lanes.Refuse("a choice of %s among sums by %s of %s", v.DType(), c.Op, c.X.DType())
	}
	x.opsOf(t, c.X)
	x.opsOf(t, v)
	mask := x.compared(t, c, p, row, vector, at)
	yes, own := x.value(t, v.X, row, vector, at)
	no, also := x.value(t, v.Y, row, vector, at)
	to := t.result(yes, own)
	t.blend(to, mask, yes, no)
	if also {
		t.give(no)
	}
	if !t.isa.masks {
		t.give(mask)
	}
	return to, true
}

// compared returns the mask of the lanes in which a comparison holds: an opmask, or a spare register without opmasks.
func (x *sumExpressions) compared(t *registerTile, c *loop.Binary, p predicate, row, vector int,
	at func(*stream) asm.Mem) asm.Reg {
	compare := asm.VCMPPS
	if t.ops.size == 8 {
		compare = asm.VCMPPD
	}
	a, own := x.value(t, c.X, row, vector, at)
	b, also := x.value(t, c.Y, row, vector, at)
	mask := asm.NoReg
	switch {
	case t.isa.masks:
		mask = t.maskRegister()
	case own:
		mask = a
	case also:
		mask, also = b, false
	default:
		mask = t.take()
	}
	t.Emit(asm.Inst{Op: compare, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{mask, a, b}, Imm: int64(p)})
	if own && mask != a {
		t.give(a)
	}
	if also {
		t.give(b)
	}
	return mask
}

// blend puts yes in the lanes of a mask, and no in the others.
func (t *registerTile) blend(to, mask, yes, no asm.Reg) {
	masked, plain := asm.VBLENDMPS, asm.VBLENDVPS
	if t.ops.size == 8 {
		masked, plain = asm.VBLENDMPD, asm.VBLENDVPD
	}
	if t.isa.masks {
		t.Emit(asm.Inst{Op: masked, Bits: uint16(t.isa.bits), Args: [4]asm.Reg{to, no, yes}, Mask: mask})
		return
	}
	t.wide(plain, to, no, yes, mask)
}

// besideZero returns the greater of a value and 0. The machine gives −0 for −0, which becomes 0 when 0 is added. It
// refuses the lesser of a value and −0.
func (x *sumExpressions) besideZero(t *registerTile, op loop.BinaryOp, in asm.Op, zero, v loop.Expr, row, vector int,
	at func(*stream) asm.Mem) (asm.Reg, bool) {
	if op == loop.Min {
		lanes.Refuse("the lesser of sums and −0")
	}
	from, own := x.value(t, v, row, vector, at)
	to := t.take()
	t.wideFrom(asm.VMOVUPS, x.constant(t, zero.(*loop.Const)), to)
	t.wide(in, to, to, from)
	if own {
		t.give(from)
	}
	t.wideFrom(x.opsOf(t, zero).add, x.constant(t, zero.(*loop.Const)), to, to)
	return to, true
}

// zeroOf reports whether an expression is a float zero of a sign.
func zeroOf(v loop.Expr, negative bool) bool {
	c, ok := v.(*loop.Const)
	if !ok || !c.Type.IsFloat() {
		return false
	}
	number := loop.ToFloat(c.Type, c.Bits)
	return number == 0 && math.Signbit(number) == negative
}

// numberOf reports whether an expression is a constant other than NaN.
func numberOf(v loop.Expr) bool {
	c, ok := v.(*loop.Const)
	return ok && !math.IsNaN(loop.ToFloat(c.Type, c.Bits))
}

// operand returns the address of an expression that an instruction can read from memory; false if there is none.
func (x *sumExpressions) operand(t *registerTile, v loop.Expr, vector int, at func(*stream) asm.Mem) (asm.Mem, bool) {
	switch v := v.(type) {
	case *loop.Const:
		return x.constant(t, v), true
	case *loop.Load:
		if p := x.locations[v]; p.lanes && p.narrow == nil && !t.partial(vector) {
			return along(at(p.stream), t, vector, t.ops.size), true
		}
	}
	return asm.Mem{}, false
}
