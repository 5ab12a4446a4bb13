package amd64

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// sumExpressions computes simple expressions of a tile's sums where they lie. What it does not know, or has no registers for, it refuses.
type sumExpressions struct {
	group  *contractionGroup
	nest   nestOfSums
	dtype  dtype.DType
	places map[any]place // of loads and stores
	lets   map[string]asm.Reg
}

// place is where a load or a store finds a tile's elements: in the rows of a stream, side by side or one for all columns.
type place struct {
	stream *stream
	lanes  bool
}

// expressions prepares a nest's loads and stores.
func (p *product) expressions(g *contractionGroup, n nestOfSums) *sumExpressions {
	x := &sumExpressions{group: g, nest: n, dtype: g.local.DType, places: map[any]place{}}
	for _, s := range n.body {
		for _, v := range loop.Values(s) {
			loop.WalkExpr(v, func(v loop.Expr) {
				if l, ok := v.(*loop.Load); ok && l.From != g.local.Name {
					if l.Mask != nil {
						refuse("a masked load")
					}
					x.places[l] = p.placeOf(x, l.From, l.Index)
				}
			})
		}
		if s, ok := s.(*loop.Store); ok && s.To != g.local.Name {
			if s.Mask != nil {
				refuse("a masked store")
			}
			at := p.placeOf(x, s.To, s.Index)
			if !at.lanes && !n.column.None() {
				refuse("a store of columns that lie apart")
			}
			x.places[s] = place{at.stream, true}
		}
	}
	return x
}

func (p *product) placeOf(x *sumExpressions, buffer string, index []sym.Expr) place {
	m := p.k.memory(buffer)
	if m.dtype != x.dtype {
		refuse("elements of %s among sums of %s", m.dtype, x.dtype)
	}
	offset := p.resolve(m.offset(index))
	down, across := sym.Const(0), sym.Const(0)
	take := func(variable sym.Name, coef *sym.Expr) {
		if variable.None() {
			return
		}
		factor, rest, ok := offset.Linear(variable)
		if !ok {
			refuse("%s does not move evenly with %s", offset, variable)
		}
		*coef, offset = factor, rest
	}
	take(x.nest.column, &across)
	take(x.nest.row, &down)
	step, ok := across.Const()
	if !ok || step != 0 && step != 1 {
		refuse("columns of %%%s that lie apart", buffer)
	}
	for _, name := range down.Vars() {
		if name == x.nest.column {
			refuse("rows of %%%s that differ by column", buffer)
		}
	}
	return place{p.stream(buffer, offset, p.distance(down, p.ops.size)), step == 1}
}

// fill gives all sums their first value.
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

// run does what the nest does, for all sums.
func (x *sumExpressions) run(t *registerTile) {
	x.eachRow(t, func(row int, at func(*stream) asm.Mem) {
		for vector := range t.vectors {
			x.lets = map[string]asm.Reg{}
			var owned []asm.Reg
			for _, s := range x.nest.body {
				switch s := s.(type) {
				case *loop.Let:
					r, own := x.value(t, s.X, row, vector, at)
					if own {
						owned = append(owned, r)
					}
					x.lets[s.Name] = r
				case *loop.Store:
					r, own := x.value(t, s.X, row, vector, at)
					t.storeLanes(along(at(x.places[s].stream), t, vector), vector, r)
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
}

// eachRow calls do for each row of a tile; at is a stream's address there.
func (x *sumExpressions) eachRow(t *registerTile, do func(row int, at func(*stream) asm.Mem)) {
	moving := map[*stream]asm.Reg{} // where rows are as far apart as a register says
	var order []*stream
	for row := range t.rows {
		do(row, func(s *stream) asm.Mem {
			if s.row.known() {
				return asm.Mem{Base: s.at, Disp: t.disp(int64(row) * s.row.fixed)}
			}
			if moving[s] == asm.NoReg {
				moving[s] = t.copyOf(s.at)
				order = append(order, s)
			}
			return asm.Mem{Base: moving[s]}
		})
		for _, s := range order {
			t.moveOn(moving[s], s.row)
		}
	}
}

// along is the address of a vector of a row.
func along(at asm.Mem, t *registerTile, vector int) asm.Mem {
	at.Disp += int32(vector * t.isa.bits / 8)
	return at
}

// value is a vector register with an expression's value, and whether it is a spare one that is to be given back.
func (x *sumExpressions) value(t *registerTile, v loop.Expr, row, vector int, at func(*stream) asm.Mem) (r asm.Reg, own bool) {
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
		if v.From == x.group.local.Name {
			return t.sum(row, vector), false
		}
		r = t.take()
		if p := x.places[v]; p.lanes {
			t.loadLanes(r, vector, along(at(p.stream), t, vector))
		} else {
			t.wideFrom(t.ops.broadcast, at(p.stream), r)
		}
		return r, true
	case *loop.Unary:
		if v.Op == loop.Neg || v.Op == loop.Abs || v.Op == loop.Sqrt {
			return x.unary(t, v, row, vector, at)
		}
		refuse("%s of sums", v.Op)
	case *loop.Binary:
		return x.binary(t, v, row, vector, at)
	}
	refuse("an expression of sums of type %T", v)
	return asm.NoReg, false
}

// constant is a number in memory, in all lanes.
func (x *sumExpressions) constant(t *registerTile, c *loop.Const) asm.Mem {
	if c.Type != x.dtype {
		refuse("a constant of %s", c.Type)
	}
	return x.repeated(t, c.Bits)
}

func (x *sumExpressions) repeated(t *registerTile, bits uint64) asm.Mem {
	var one []byte
	if t.ops.size == 4 {
		one = binary.LittleEndian.AppendUint32(nil, uint32(bits))
	} else {
		one = binary.LittleEndian.AppendUint64(nil, bits)
	}
	return asm.Mem{Pool: t.code.Constant(bytes.Repeat(one, int(t.lanes())))}
}

// result is the register for what is computed of a value: its own where that is spare.
func (t *registerTile) result(r asm.Reg, own bool) asm.Reg {
	if own {
		return r
	}
	return t.take()
}

func (x *sumExpressions) unary(t *registerTile, v *loop.Unary, row, vector int, at func(*stream) asm.Mem) (asm.Reg, bool) {
	if x.dtype.IsInt() {
		refuse("%s of sums of %s", v.Op, x.dtype)
	}
	from, own := x.value(t, v.X, row, vector, at)
	to := t.result(from, own)
	sign := uint64(1) << (t.ops.size*8 - 1)
	switch v.Op {
	case loop.Neg:
		t.wideFrom(t.ops.xor, x.repeated(t, sign), to, from)
	case loop.Abs:
		t.wideFrom(t.ops.and, x.repeated(t, sign-1), to, from)
	default:
		t.wide(t.ops.sqrt, to, from)
	}
	return to, true
}

func (x *sumExpressions) binary(t *registerTile, v *loop.Binary, row, vector int, at func(*stream) asm.Mem) (asm.Reg, bool) {
	op, left, right := asm.NoOp, v.X, v.Y
	switch v.Op {
	case loop.Add:
		op = t.ops.add
	case loop.Sub:
		op = t.ops.sub
	case loop.Mul:
		op = t.ops.mul
	case loop.Div:
		op = t.ops.div
	case loop.Min, loop.Max:
		if op = t.ops.max; v.Op == loop.Min {
			op = t.ops.min
		}
		// The machine's give the second operand where one is NaN: that must be the one that can be.
		if !numberOf(left) {
			if left, right = right, left; !numberOf(left) {
				refuse("the greater or lesser of sums")
			}
		}
		if zeroOf(left, v.Op == loop.Min) {
			return x.besideZero(t, v.Op, op, left, right, row, vector, at)
		}
	}
	if op == asm.NoOp {
		refuse("%s of sums of %s", v.Op, x.dtype)
	}
	a, own := x.value(t, left, row, vector, at)
	if mem, ok := x.operand(t, right, vector, at); ok {
		to := t.result(a, own)
		t.wideFrom(op, mem, to, a)
		return to, true
	}
	b, also := x.value(t, right, row, vector, at)
	to := t.result(a, own)
	t.wide(op, to, a, b)
	if also {
		t.give(b)
	}
	return to, true
}

// besideZero is the greater of a value and 0. The machine gives −0 for −0, which adding 0 mends. The lesser of a value
// and −0 is refused.
func (x *sumExpressions) besideZero(t *registerTile, op loop.BinaryOp, in asm.Op, zero, v loop.Expr, row, vector int, at func(*stream) asm.Mem) (asm.Reg, bool) {
	if op == loop.Min {
		refuse("the lesser of sums and −0")
	}
	from, own := x.value(t, v, row, vector, at)
	to := t.take()
	t.wideFrom(asm.VMOVUPS, x.constant(t, zero.(*loop.Const)), to)
	t.wide(in, to, to, from)
	if own {
		t.give(from)
	}
	t.wideFrom(t.ops.add, x.constant(t, zero.(*loop.Const)), to, to)
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

// numberOf reports whether an expression is a constant, and no NaN.
func numberOf(v loop.Expr) bool {
	c, ok := v.(*loop.Const)
	return ok && !math.IsNaN(loop.ToFloat(c.Type, c.Bits))
}

// operand is an expression that an instruction can read from memory itself.
func (x *sumExpressions) operand(t *registerTile, v loop.Expr, vector int, at func(*stream) asm.Mem) (asm.Mem, bool) {
	switch v := v.(type) {
	case *loop.Const:
		return x.constant(t, v), true
	case *loop.Load:
		if p := x.places[v]; p.lanes && !t.partial(vector) {
			return along(at(p.stream), t, vector), true
		}
	}
	return asm.Mem{}, false
}
