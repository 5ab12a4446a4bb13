package lanes

import (
	"math"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// sumExpressions computes simple expressions of a tile's sums in their registers. It refuses other expressions, and
// those for which there are too few registers.
type sumExpressions struct {
	*Product
	group  *contractionGroup
	nest   nestOfSums
	places map[any]place // of loads and stores
	once   bool          // a sum is read once, and its register is free after that

	// What is computed now: a vector of a tile, and the address of its row in a stream.
	t           *RegisterTile
	row, vector int
	at          func(*Stream) regalloc.Mem
	lets        map[string]regalloc.Reg
}

// place describes how a load or a store finds a tile's elements: in the rows of a stream, either adjacent columns or
// one element for all columns.
type place struct {
	stream *Stream
	run    bool     // adjacent columns
	form   Elements // if they are narrow, registers hold them as f32 or i32
	turned bool     // rows are adjacent, and columns have this distance
	column Distance
	far    bool // of a store: in memory that is too large for the caches
}

// expressions prepares a nest's loads and stores.
func (p *Product) expressions(g *contractionGroup, n nestOfSums) *sumExpressions {
	x := &sumExpressions{Product: p, group: g, nest: n, places: map[any]place{}}
	reads := 0
	for _, s := range n.body {
		for _, v := range loop.Values(s) {
			loop.WalkExpr(v, func(v loop.Expr) {
				l, ok := v.(*loop.Load)
				switch {
				case !ok:
				case l.From == g.local.Name:
					reads++
				case l.Mask != nil:
					Refuse("a masked load")
				default:
					x.places[l] = x.placeOf(l.From, l.Index)
				}
			})
		}
		if s, ok := s.(*loop.Store); ok && s.To != g.local.Name {
			if s.Mask != nil {
				Refuse("a masked store")
			}
			at := x.placeOfStore(s)
			if at.form.Narrow() && !p.WritesElements(at.form) {
				Refuse("elements of %s made of sums", at.form.In)
			}
			at.run, at.far = true, !at.turned && at.stream.Row.Known() && p.exceeds(s.To, farBytes)
			x.places[s] = at
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
func (p *Product) exceeds(buffer string, bytes float64) bool {
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

// placeOfStore returns the place of a store. Only the last store may have columns that are not adjacent: nothing reads
// the sums after it.
func (x *sumExpressions) placeOfStore(s *loop.Store) place {
	m, n := x.Kernel.Memory(s.To), x.nest
	down, across, offset := x.stepsOf(m.Offset(s.Index))
	step, fixed := across.Const()
	if n.column.None() || n.row.None() || fixed && (step == 0 || step == 1) || !isOne(down) ||
		x.SumsOf(m.DType) == nil || BytesOf(m.DType) != 4 || x.Sums.Size != 4 {
		at := x.placeOf(s.To, s.Index)
		if !at.run && !n.column.None() {
			Refuse("a store of columns that are not adjacent")
		}
		return at
	}
	if s != n.body[len(n.body)-1] {
		Refuse("a store of columns that are not adjacent, and another after it")
	}
	return place{stream: x.stream(s.To, offset, Known(x.Sums.Size)), turned: true,
		form: Elements{In: m.DType, As: m.DType}, column: x.Distance(across, x.Sums.Size)}
}

// stepsOf splits an offset into its steps along a nest's rows and columns, and the rest.
func (x *sumExpressions) stepsOf(offset sym.Expr) (down, across, rest sym.Expr) {
	offset = x.Resolve(offset)
	take := func(variable sym.Name, coef *sym.Expr) {
		if variable.None() {
			return
		}
		factor, rest, ok := offset.Linear(variable)
		if !ok {
			Refuse("%s does not move evenly with %s", offset, variable)
		}
		*coef, offset = factor, rest
	}
	down, across = sym.Const(0), sym.Const(0)
	take(x.nest.column, &across)
	take(x.nest.row, &down)
	return down, across, offset
}

// placeOf returns the place of an access; it refuses columns with a step other than 0 or 1.
func (x *sumExpressions) placeOf(buffer string, index []sym.Expr) place {
	m, size := x.Kernel.Memory(buffer), x.Sums.Size
	form := Elements{In: m.DType, As: m.DType}
	if sums := x.SumsOf(m.DType); sums == nil || sums.Size != size {
		if form.As = dtype.I32; m.DType.IsFloat() {
			form.As = dtype.F32
		}
		if size != 4 || !x.ReadsElements(form) {
			Refuse("elements of %s among sums of %s", m.DType, x.Sums.DType)
		}
	}
	down, across, offset := x.stepsOf(m.Offset(index))
	step, ok := across.Const()
	if !ok || step != 0 && step != 1 {
		Refuse("columns of %%%s that are not adjacent", buffer)
	}
	for _, name := range down.Vars() {
		if name == x.nest.column {
			Refuse("rows of %%%s that differ by column", buffer)
		}
	}
	return place{stream: x.stream(buffer, offset, x.Distance(down, form.Size())), run: step == 1, form: form}
}

// fill sets all sums to their first value.
func (x *sumExpressions) fill(t *RegisterTile, v loop.Expr) {
	x.each(t, func() {
		r, own := x.value(v)
		t.SetLanes(t, t.Sum(x.row, x.vector), In(r))
		if own {
			t.Give(r)
		}
	})
}

// fetchStores fetches the lines of a large buffer that the nest writes, so that they arrive while a tile's products are
// added up.
func (x *sumExpressions) fetchStores(t *RegisterTile) {
	for _, s := range x.nest.body {
		s, ok := s.(*loop.Store)
		if !ok || !x.places[s].far {
			continue
		}
		p := x.places[s]
		for row := range t.Rows {
			for at := int64(0); at < int64(t.Vectors)*t.Lanes()*p.form.Size(); at += cacheLine {
				disp := displacement(int64(row)*p.stream.Row.Fixed + at)
				t.Fetch(regalloc.Mem{Base: p.stream.At, Disp: disp}, FetchWrite)
			}
		}
	}
}

// run emits the nest's statements for all sums.
func (x *sumExpressions) run(t *RegisterTile) {
	var last *place
	x.each(t, func() {
		x.lets = map[string]regalloc.Reg{}
		var owned []regalloc.Reg
		for _, s := range x.nest.body {
			switch s := s.(type) {
			case *loop.Let:
				r, own := x.value(s.X)
				if own {
					owned = append(owned, r)
				}
				x.lets[s.Name] = r
			case *loop.Store:
				if p := x.places[s]; p.turned {
					last = &p
				}
				x.store(s)
			}
		}
		for _, r := range owned {
			t.Give(r)
		}
	})
	if last != nil {
		t.storeTurned(*last)
	}
}

// each calls do for each vector of a tile.
func (x *sumExpressions) each(t *RegisterTile, do func()) {
	moving := map[*Stream]regalloc.Reg{} // of streams whose row distance is in a register
	var order []*Stream
	x.t = t
	x.at = func(s *Stream) regalloc.Mem {
		if s.Row.Known() {
			return regalloc.Mem{Base: s.At, Disp: displacement(int64(x.row) * s.Row.Fixed)}
		}
		if moving[s] == regalloc.NoReg {
			moving[s] = t.CopyOf(s.At)
			order = append(order, s)
		}
		return regalloc.Mem{Base: moving[s]}
	}
	for x.row = range t.Rows {
		for x.vector = range t.Vectors {
			do()
		}
		for _, s := range order {
			t.MoveOn(moving[s], s.Row)
		}
	}
}

// store emits a store; if its rows are turned, the sums take the place of memory for now.
func (x *sumExpressions) store(s *loop.Store) {
	t, p, v := x.t, x.places[s], s.X
	if p.form.Narrow() && p.form.In.IsFloat() {
		c, ok := v.(*loop.Cast)
		if !ok {
			Refuse("a copy among sums")
		}
		if v = c.X; c.Type != p.form.In || v.DType() != dtype.F32 {
			Refuse("a conversion of sums to %s", c.Type)
		}
	}
	r, own := x.value(v)
	if p.turned {
		t.SetLanes(t, t.Sum(x.row, x.vector), In(r))
	} else {
		t.WriteRun(t, p.form, x.along(p), r, t.Partial(x.vector) && !t.whole)
	}
	if own {
		t.Give(r)
	}
}

// along returns the address of the vector at a place.
func (x *sumExpressions) along(p place) regalloc.Mem {
	at := x.at(p.stream)
	at.Disp += int32(int64(x.vector) * x.t.Lanes() * p.form.Size())
	return at
}

// value returns a vector register with an expression's value, and whether it is a spare one that the caller must give
// back.
func (x *sumExpressions) value(v loop.Expr) (r regalloc.Reg, own bool) {
	t := x.t
	switch v := v.(type) {
	case *loop.Const:
		r = t.Take()
		t.SetLanes(t, r, x.constant(v))
		return r, true
	case *loop.Ref:
		if r, ok := x.lets[v.Name]; ok {
			return r, false
		}
	case *loop.Load:
		if v.From == x.group.local.Name {
			return t.Sum(x.row, x.vector), x.once
		}
		r = t.Take()
		if p := x.places[v]; p.run {
			t.ReadRun(t, p.form, r, x.along(p), t.Partial(x.vector))
		} else {
			t.ReadOne(t, p.form, r, x.at(p.stream))
		}
		return r, true
	case *loop.Cast:
		return x.cast(v)
	case *loop.Unary:
		return x.unary(v)
	case *loop.Binary:
		return x.binary(v)
	case *loop.Select:
		return x.choice(v)
	}
	Refuse("an expression of sums of type %T", v)
	return regalloc.NoReg, false
}

// check refuses an expression of a type that is not as wide as the sums.
func (x *sumExpressions) check(v loop.Expr) {
	if sums := x.SumsOf(v.DType()); sums == nil || sums.Size != x.Sums.Size {
		Refuse("%s among sums of %s", v.DType(), x.Sums.DType)
	}
}

// constant returns a number in all lanes.
func (x *sumExpressions) constant(c *loop.Const) Operand {
	x.check(c)
	return x.t.RepeatedBits(x.t, c.Bits)
}

// unary emits a function of one operand for a vector of sums.
func (x *sumExpressions) unary(v *loop.Unary) (regalloc.Reg, bool) {
	switch v.Op {
	case loop.Neg, loop.Abs, loop.Sqrt, loop.Round, loop.Floor, loop.Ceil:
	default:
		Refuse("%s of sums", v.Op)
	}
	if x.check(v); v.DType().IsInt() {
		Refuse("%s of sums of %s", v.Op, v.DType())
	}
	from, own := x.value(v.X)
	to := x.t.result(from, own)
	x.t.Apply(x.t, v.Op, v.DType(), to, from)
	return to, true
}

// binary emits a function of two operands for a vector of sums; it returns the register, and whether it is a spare one.
func (x *sumExpressions) binary(v *loop.Binary) (regalloc.Reg, bool) {
	t, left, right := x.t, v.X, v.Y
	x.check(v)
	switch v.Op {
	case loop.Add, loop.Sub:
		if v.DType().IsInt() && zeroInt(right) {
			return x.value(left)
		}
	case loop.Mul:
	case loop.Min, loop.Max:
		if !t.Second {
			break
		}
		// The operand that can be NaN must be the second.
		if !numberOf(left) {
			if left, right = right, left; !numberOf(left) {
				Refuse("the maximum or minimum of two sums")
			}
		}
		if zeroOf(left, v.Op == loop.Min) {
			return x.besideZero(v.Op, left.(*loop.Const), right)
		}
	default:
		if v.Op != loop.Div || v.DType().IsInt() {
			Refuse("%s of sums of %s", v.Op, v.DType())
		}
	}
	if y, ok := x.operand(right); ok {
		a, own := x.value(left)
		to := t.result(a, own)
		t.Calculate(t, v.Op, v.DType(), to, a, y)
		return to, true
	}
	a, b, own, also := x.both(left, right)
	if also && !own {
		t.Calculate(t, v.Op, v.DType(), b, a, In(b))
		return b, true
	}
	to := t.result(a, own)
	t.Calculate(t, v.Op, v.DType(), to, a, In(b))
	if also {
		t.Give(b)
	}
	return to, true
}

// both returns the registers of two values; it computes the one that needs more registers first.
func (x *sumExpressions) both(left, right loop.Expr) (a, b regalloc.Reg, own, also bool) {
	if x.needs(right) > x.needs(left) {
		b, also = x.value(right)
		a, own = x.value(left)
		return a, b, own, also
	}
	a, own = x.value(left)
	b, also = x.value(right)
	return a, b, own, also
}

// needs returns an estimate of the registers that the computation of an expression takes.
func (x *sumExpressions) needs(v loop.Expr) int {
	switch v := v.(type) {
	case *loop.Load:
		if v.From == x.group.local.Name {
			return 0
		}
	case *loop.Cast:
		if _, ok := loop.QuantisedOf(v); ok {
			return x.needs(v.X) + 1
		}
		return x.needs(v.X)
	case *loop.Unary:
		return x.needs(v.X)
	case *loop.Binary:
		a, b := x.needs(v.X), x.needs(v.Y)
		if a == b {
			return a + 1
		}
		return max(a, b)
	}
	return 1
}

// operand returns an expression that an instruction may read from memory; false if it is not one.
func (x *sumExpressions) operand(v loop.Expr) (Operand, bool) {
	switch v := v.(type) {
	case *loop.Const:
		return x.constant(v), true
	case *loop.Load:
		if p := x.places[v]; p.run && !p.form.Narrow() && !x.t.Partial(x.vector) {
			return Operand{At: x.along(p)}, true
		}
	}
	return Operand{}, false
}

// choice emits a selection of one of two values in each lane, by a comparison of floats.
func (x *sumExpressions) choice(v *loop.Select) (regalloc.Reg, bool) {
	t := x.t
	c, ok := v.Cond.(*loop.Binary)
	if !ok {
		Refuse("a choice among sums by an expression of type %T", v.Cond)
	}
	switch c.Op {
	case loop.Eq, loop.Ne, loop.Lt, loop.Le, loop.Gt, loop.Ge:
	default:
		ok = false
	}
	if !ok || !c.X.DType().IsFloat() || !v.DType().IsFloat() {
		Refuse("a choice of %s among sums by %s of %s", v.DType(), c.Op, c.X.DType())
	}
	x.check(c.X)
	x.check(v)
	mask := x.compared(c)
	yes, own := x.value(v.X)
	no, also := x.value(v.Y)
	to := t.result(yes, own)
	t.SelectLanes(t, mask, to, yes, no)
	if also {
		t.Give(no)
	}
	t.giveMask(mask)
	return to, true
}

// compared returns the mask of the lanes in which a comparison holds, which is the caller's.
func (x *sumExpressions) compared(c *loop.Binary) (mask regalloc.Reg) {
	t := x.t
	a, own := x.value(c.X)
	b, also := x.value(c.Y)
	switch {
	case t.Masks || !own && !also:
		mask = t.takeMask()
	case own:
		mask, own = a, false
	default:
		mask, also = b, false
	}
	t.CompareLanes(t, c.Op, mask, a, b)
	if own {
		t.Give(a)
	}
	if also {
		t.Give(b)
	}
	return mask
}

// besideZero returns the greater of a value and 0, on machines of Sums.Second: these give −0 for −0, which becomes 0
// when 0 is added. It refuses the lesser of a value and −0.
func (x *sumExpressions) besideZero(op loop.BinaryOp, zero *loop.Const, v loop.Expr) (regalloc.Reg, bool) {
	if op == loop.Min {
		Refuse("the lesser of sums and −0")
	}
	t := x.t
	from, own := x.value(v)
	to := t.Take()
	t.SetLanes(t, to, x.constant(zero))
	t.Calculate(t, op, zero.Type, to, to, In(from))
	if own {
		t.Give(from)
	}
	t.Calculate(t, loop.Add, zero.Type, to, to, x.constant(zero))
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

// zeroInt reports whether an expression is an integer 0.
func zeroInt(v loop.Expr) bool {
	c, ok := v.(*loop.Const)
	return ok && c.Type.IsInt() && c.Bits == 0
}
