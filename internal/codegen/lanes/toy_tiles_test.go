package lanes_test

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// This file is the toy's tiles of sums.

func (m *toy) SumsOf(dt dtype.DType) *lanes.Sums {
	switch dt {
	case dtype.F32, dtype.F64, dtype.I32, dtype.U32:
	default:
		return nil
	}
	s := &lanes.Sums{DType: dt, Size: int64(dt.Bits() / 8), Bytes: m.bytes, Registers: m.registers, Masks: m.masks,
		Second: m.second}
	if m.half {
		half := *s
		half.Bytes, s.Half = m.bytes/2, &half
	}
	return s
}

func (m *toy) ReadsElements(f lanes.Elements) bool {
	small := f.In == dtype.I8 || f.In == dtype.U8
	switch f.As {
	case dtype.F64:
		return f.In == dtype.F64
	case dtype.F32:
		return f.In == dtype.F32 || f.In == dtype.F16 || f.In == dtype.BF16 || small
	}
	return small || f.In == dtype.I16 || f.In == dtype.U16 || f.In == dtype.I32 || f.In == dtype.U32
}
func (m *toy) WritesElements(f lanes.Elements) bool { return f.In != dtype.F16 }

func (m *toy) GroupOf(left, right, _ dtype.DType) lanes.Grouping {
	small := func(dt dtype.DType) bool { return dt == dtype.I8 || dt == dtype.U8 }
	switch {
	case left == dtype.BF16 && right == dtype.BF16:
		return lanes.Grouping{Steps: m.bf16Group, Together: m.together}
	case !small(left) || !small(right):
		return lanes.Grouping{}
	case left == right && m.shifts:
		return lanes.Grouping{Steps: m.bytesGroup, More: 1, Together: m.together}
	}
	return lanes.Grouping{Steps: m.bytesGroup, Together: m.together}
}

func (m *toy) MostRows(s *lanes.Sums, vectors int, g lanes.Grouping) int {
	most := min(m.mostRows, (s.Registers-6)/vectors-g.More)
	return most - most%max(g.Together, 1)
}
func (m *toy) RowsOfBase(lanes.Distance) int                       { return m.rowsOfBase }
func (m *toy) InMatrices(*lanes.Product, int, lanes.Distance) bool { return false }
func (m *toy) Fetch(at regalloc.Mem, into lanes.Fetch) {
	if m.fetched != nil && into == lanes.FetchSecond {
		m.emit(func(s *state) { m.fetched(s.address(at)) })
	}
}

// garbage fills the registers that are neither sums nor further rows of sums.
func (m *toy) garbage(t *lanes.RegisterTile, more int) {
	m.emit(func(s *state) {
		for _, r := range s.vectors[(t.Rows+more)*t.Vectors:] {
			for i := range r {
				r[i] = 0xff
			}
		}
	})
}

func (m *toy) BeginTile(t *lanes.RegisterTile) { m.garbage(t, -t.Rows) }

// shift is what a further row of sums has in the place of the left operand, and what is added to the others.
const shift = 3

func (m *toy) BeginTerm(t *lanes.RegisterTile, term *lanes.Term) {
	m.garbage(t, 0)
	for v := range t.Vectors * term.More() {
		m.ClearLanes(t, t.Sum(t.Rows, v))
	}
}

func (m *toy) EndTerm(t *lanes.RegisterTile, term *lanes.Term) {
	for v := range t.Vectors * term.More() {
		for row := range t.Rows {
			m.Calculate(t, loop.Sub, t.DType, t.Sum(row, v), t.Sum(row, v), lanes.In(t.Sum(t.Rows, v)))
		}
	}
	m.garbage(t, 0)
}

// Round multiplies element by element.
func (m *toy) Round(t *lanes.RegisterTile, r *lanes.Round) {
	group := &lanes.Group{Count: 1}
	if r.Group != nil {
		group = r.Group
	}
	left, right := r.Left.In, r.Right.In
	for k := range r.Steps {
		r.FetchColumns(t, k)
		for row := range t.Rows + r.More() {
			for v := range t.Vectors {
				at, part := r.Column(t, v, k)
				a := r.Row(min(row, t.Rows-1), k)
				m.emit(func(s *state) {
					count := t.Lanes()
					if part {
						count = s.part(t)
					}
					from := s.memory(s.address(at), count*r.Right.Size(), false)
					for lane := range count {
						sum := s.vectors[t.Sum(row, v).Number()][lane*t.Size:]
						for i := range group.Count {
							x := loop.FromInt(t.DType, shift)
							if row < t.Rows {
								one := s.memory(s.address(a)+i*group.Step, int64(left.Bits()/8), false)
								if x = loop.EvalCast(t.DType, left, false, bits(left, one)); r.More() > 0 {
									x = loop.EvalBinary(loop.Add, t.DType, x, loop.FromInt(t.DType, shift))
								}
							}
							y := bits(right, from[lane*r.Right.Size()+i*int64(right.Bits()/8):])
							y = loop.EvalCast(t.DType, right, false, y)
							y = loop.EvalBinary(loop.Mul, t.DType, x, y)
							put(t.DType, sum, loop.EvalBinary(loop.Add, t.DType, bits(t.DType, sum), y))
						}
					}
				})
			}
		}
		m.garbage(t, r.More())
	}
}

// part returns the number of lanes of the last vector.
func (s *state) part(t *lanes.RegisterTile) int64 {
	n := t.Part.Fixed
	if !t.Part.Known() {
		n = s.g(t.Part.Register)
	}
	if n <= 0 || n > t.Lanes() {
		panic(fmt.Errorf("a part of %d lanes", n))
	}
	return n
}

func (m *toy) ReadRun(t *lanes.RegisterTile, f lanes.Elements, to regalloc.Reg, at regalloc.Mem, part bool) {
	m.emit(func(s *state) {
		count := t.Lanes()
		if part {
			count = s.part(t)
		}
		r, from := s.vectors[to.Number()], s.memory(s.address(at), count*f.Size(), false)
		for lane := range t.Lanes() {
			if lane < count {
				put(f.As, r[lane*t.Size:], loop.EvalCast(f.As, f.In, false, bits(f.In, from[lane*f.Size():])))
			} else {
				put(f.As, r[lane*t.Size:], math.MaxUint64) // garbage, which nothing may read
			}
		}
	})
}

func (m *toy) ReadOne(t *lanes.RegisterTile, f lanes.Elements, to regalloc.Reg, at regalloc.Mem) {
	m.emit(func(s *state) {
		v := loop.EvalCast(f.As, f.In, false, bits(f.In, s.memory(s.address(at), f.Size(), false)))
		for lane := range t.Lanes() {
			put(f.As, s.vectors[to.Number()][lane*t.Size:], v)
		}
	})
}

func (m *toy) WriteRun(t *lanes.RegisterTile, f lanes.Elements, at regalloc.Mem, x regalloc.Reg, part bool) {
	m.emit(func(s *state) {
		count := t.Lanes()
		if part {
			count = s.part(t)
		}
		r, to := s.vectors[x.Number()], s.memory(s.address(at), count*f.Size(), true)
		for lane := range count {
			put(f.In, to[lane*f.Size():], loop.EvalCast(f.In, f.As, true, bits(f.As, r[lane*t.Size:])))
		}
	})
}

// each emits a function of lanes: of the register before, and of two operands.
func (m *toy) each(t *lanes.RegisterTile, dt dtype.DType, to, x regalloc.Reg, y lanes.Operand,
	do func(old, x, y uint64) uint64) {
	m.emit(func(s *state) {
		for lane := range t.Lanes() {
			a, b := uint64(0), y.Bits
			if x != regalloc.NoReg {
				a = bits(dt, s.vectors[x.Number()][lane*t.Size:])
			}
			switch {
			case y.Register != regalloc.NoReg:
				b = bits(dt, s.vectors[y.Register.Number()][lane*t.Size:])
			case y.At.Base != regalloc.NoReg:
				b = bits(dt, s.memory(s.address(y.At), t.Bytes, false)[lane*t.Size:])
			}
			r := s.vectors[to.Number()][lane*t.Size:]
			put(dt, r, do(bits(dt, r), a, b))
		}
	})
}

func (m *toy) ClearLanes(t *lanes.RegisterTile, r regalloc.Reg) {
	m.each(t, t.DType, r, r, lanes.In(r), func(_, _, _ uint64) uint64 { return 0 })
}
func (m *toy) RepeatedBits(_ *lanes.RegisterTile, bits uint64) lanes.Operand {
	return lanes.Operand{Bits: bits}
}
func (m *toy) SetLanes(t *lanes.RegisterTile, to regalloc.Reg, x lanes.Operand) {
	m.each(t, t.DType, to, to, x, func(_, _, x uint64) uint64 { return x })
}

func (m *toy) Calculate(t *lanes.RegisterTile, op loop.BinaryOp, dt dtype.DType, to, x regalloc.Reg, y lanes.Operand) {
	m.each(t, dt, to, x, y, func(_, x, y uint64) uint64 {
		if dt.IsFloat() && m.second && (op == loop.Min || op == loop.Max) {
			a, b := loop.ToFloat(dt, x), loop.ToFloat(dt, y)
			if !(op == loop.Min && a < b || op == loop.Max && a > b) {
				return y
			}
			return x
		}
		return loop.EvalBinary(op, dt, x, y)
	})
}

func (m *toy) AddTimes(t *lanes.RegisterTile, to, x regalloc.Reg, y lanes.Operand) {
	float := func(x uint64) float64 { return loop.ToFloat(dtype.F32, x) }
	m.each(t, dtype.F32, to, x, y, func(old, x, y uint64) uint64 {
		return loop.FromFloat(dtype.F32, math.FMA(float(x), float(y), float(old)))
	})
}

func (m *toy) Apply(t *lanes.RegisterTile, op loop.UnaryOp, dt dtype.DType, to, x regalloc.Reg) {
	m.each(t, dt, to, x, lanes.Operand{}, func(_, x, _ uint64) uint64 { return loop.EvalUnary(op, dt, x) })
}

func (m *toy) ConvertLanes(t *lanes.RegisterTile, how lanes.Conversion, to, x regalloc.Reg) {
	m.each(t, dtype.I32, to, x, lanes.Operand{}, func(_, x, _ uint64) uint64 {
		v := loop.ToFloat(dtype.F32, x)
		switch {
		case how == lanes.ToFloat:
			return loop.EvalCast(dtype.F32, dtype.I32, false, x)
		case math.IsNaN(v):
			return 0x12345678
		case how == lanes.ToNearest:
			v = math.RoundToEven(v)
		}
		return loop.FromInt(dtype.I32, int64(v))
	})
}

// mask sets a mask of lanes; keeps reads it.
func (m *toy) mask(t *lanes.RegisterTile, mask, x, y regalloc.Reg, dt dtype.DType, do func(x, y uint64) bool) {
	m.emit(func(s *state) {
		all := make([]bool, t.Lanes())
		for lane := range all {
			at := int64(lane) * t.Size
			all[lane] = do(bits(dt, s.vectors[x.Number()][at:]), bits(dt, s.vectors[y.Number()][at:]))
		}
		if mask.Class() == regalloc.Mask {
			s.masks[mask.Number()] = all
			return
		}
		for lane, holds := range all {
			v := uint64(0)
			if holds {
				v--
			}
			put(dt, s.vectors[mask.Number()][int64(lane)*t.Size:], v)
		}
	})
}

func (s *state) keeps(t *lanes.RegisterTile, mask regalloc.Reg, lane int64) bool {
	if mask.Class() == regalloc.Mask {
		return s.masks[mask.Number()][lane]
	}
	return s.vectors[mask.Number()][lane*t.Size] != 0
}

// floats returns the type of floats as large as the sums.
func floats(t *lanes.RegisterTile) dtype.DType {
	if t.Size == 8 {
		return dtype.F64
	}
	return dtype.F32
}

func (m *toy) CompareLanes(t *lanes.RegisterTile, op loop.BinaryOp, mask, x, y regalloc.Reg) {
	dt := floats(t)
	m.mask(t, mask, x, y, dt, func(x, y uint64) bool { return loop.EvalBinary(op, dt, x, y) != 0 })
}

func (m *toy) NumberLanes(t *lanes.RegisterTile, mask, x regalloc.Reg) {
	m.mask(t, mask, x, x, dtype.F32, func(x, _ uint64) bool { return !math.IsNaN(loop.ToFloat(dtype.F32, x)) })
}

func (m *toy) SelectLanes(t *lanes.RegisterTile, mask, to, yes, no regalloc.Reg) {
	m.emit(func(s *state) {
		for lane := range t.Lanes() {
			from := no
			if s.keeps(t, mask, lane) {
				from = yes
			}
			copy(s.vectors[to.Number()][lane*t.Size:][:t.Size], s.vectors[from.Number()][lane*t.Size:])
		}
	})
}

func (m *toy) KeepLanes(t *lanes.RegisterTile, mask, r regalloc.Reg) {
	m.emit(func(s *state) {
		for lane := range t.Lanes() {
			if !s.keeps(t, mask, lane) {
				clear(s.vectors[r.Number()][lane*t.Size:][:t.Size])
			}
		}
	})
}

func (m *toy) TurnFour(t *lanes.RegisterTile, rows [4]regalloc.Reg, spare regalloc.Reg) (out [4]regalloc.Reg,
	free regalloc.Reg) {
	out = [4]regalloc.Reg{spare, rows[0], rows[1], rows[2]}
	m.emit(func(s *state) {
		var turned [4][]byte
		for i := range turned {
			turned[i] = make([]byte, t.Bytes)
			for lane := range t.Lanes() {
				from := s.vectors[rows[lane%4].Number()][(lane/4*4+int64(i))*t.Size:]
				copy(turned[i][lane*t.Size:][:t.Size], from)
			}
		}
		for i, r := range out {
			copy(s.vectors[r.Number()], turned[i])
		}
	})
	return out, rows[3]
}

// FourMask returns no mask: StoreFour goes by the count.
func (m *toy) FourMask(*lanes.RegisterTile, int) regalloc.Reg { return regalloc.NoReg }

func (m *toy) StoreFour(t *lanes.RegisterTile, at regalloc.Mem, x regalloc.Reg, group int64, count int, _,
	free regalloc.Reg) {
	m.emit(func(s *state) {
		copy(s.memory(s.address(at), int64(count)*t.Size, true), s.vectors[x.Number()][group*4*t.Size:])
		clear(s.vectors[free.Number()])
	})
}
