package lanestest

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// count returns the number of a type's lanes.
func (s *state) count(dt dtype.DType) int { return s.lanes * 32 / dt.Bits() }

// lane returns the bits of a lane, and setLane changes them.
func (s *state) lane(dt dtype.DType, x regalloc.Reg, i int) uint64 {
	v := s.vectors[x.Number()]
	if dt.Bits() == 64 {
		return uint64(v[2*i]) | uint64(v[2*i+1])<<32
	}
	return uint64(v[i])
}
func (s *state) setLane(dt dtype.DType, x regalloc.Reg, i int, bits uint64) {
	v := s.vectors[x.Number()]
	if dt.Bits() == 64 {
		v[2*i], v[2*i+1] = uint32(bits), uint32(bits>>32)
		return
	}
	v[i] = uint32(bits)
}

// vector emits an instruction that makes a new vector, lane by lane.
func (m *Model) vector(dt dtype.DType, of func(s *state, i int) uint64) regalloc.Reg {
	r := m.NewVector()
	m.emit(func(s *state) {
		for i := range s.count(dt) {
			s.setLane(dt, r, i, of(s, i))
		}
	})
	return r
}

// Lanewise emits an instruction that makes a new vector: in each lane of a type, a function of the bits of two vectors'
// lanes.
func (m *Model) Lanewise(dt dtype.DType, x, y regalloc.Reg, f func(x, y uint64) uint64) regalloc.Reg {
	return m.vector(dt, func(s *state, i int) uint64 { return f(s.lane(dt, x, i), s.lane(dt, y, i)) })
}

// map1 emits a function of one vector.
func (m *Model) map1(dt dtype.DType, x regalloc.Reg, f func(x uint64) uint64) regalloc.Reg {
	return m.vector(dt, func(s *state, i int) uint64 { return f(s.lane(dt, x, i)) })
}

// mask emits an instruction that makes a new mask, lane by lane.
func (m *Model) mask(dt dtype.DType, of func(s *state, i int) bool) regalloc.Reg {
	r := m.register(regalloc.Mask)
	m.emit(func(s *state) {
		for i := range s.count(dt) {
			s.masks[r.Number()][i] = of(s, i)
		}
	})
	return r
}

func (m *Model) NewVector() regalloc.Reg { return m.register(regalloc.Vector) }
func (m *Model) Vector(bytes []byte) regalloc.Reg {
	r, ok := m.constants[string(bytes)]
	if !ok {
		r = m.NewVector()
		m.constants[string(bytes)] = r
	}
	return r
}
func (m *Model) Repeated(dt dtype.DType, bits uint64) regalloc.Reg {
	one := binary.LittleEndian.AppendUint64(nil, bits)[:dt.Bits()/8]
	return m.Vector(slices.Repeat(one, 4*m.Lanes/len(one)))
}
func (m *Model) Bytes(x regalloc.Reg) []byte {
	for bytes, r := range m.constants {
		if r == x {
			return []byte(bytes)
		}
	}
	return nil
}
func (m *Model) InPool(bytes []byte) regalloc.Mem {
	m.pool = append(m.pool, bytes)
	return regalloc.Mem{Pool: int32(len(m.pool))}
}

func (m *Model) Broadcast(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	return m.vector(dt, func(s *state, i int) uint64 { return uint64(s.of(x)) })
}
func (m *Model) BroadcastFirst(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	return m.vector(dt, func(s *state, i int) uint64 { return s.lane(dt, x, 0) })
}
func (m *Model) FirstLane(dt dtype.DType, x regalloc.Reg) regalloc.Reg { return m.LaneNumber(dt, x, 0) }
func (m *Model) LaneNumber(dt dtype.DType, x regalloc.Reg, n int) regalloc.Reg {
	return m.integer(func(s *state) int64 { return loop.ToInt(dt, s.lane(dt, x, n)) })
}

// always are the operations that every machine has.
var always = map[dtype.DType][]loop.BinaryOp{
	dtype.F32: {loop.Add, loop.Sub, loop.Mul, loop.Div, loop.Min, loop.Max},
	dtype.F64: {loop.Add, loop.Sub, loop.Mul, loop.Div, loop.Min, loop.Max},
	dtype.I32: {loop.Add, loop.Sub, loop.Mul, loop.And, loop.Or, loop.Xor, loop.Shl, loop.Shr, loop.Min, loop.Max, loop.Eq,
		loop.Gt},
	dtype.I64: {loop.Add, loop.Sub, loop.Mul, loop.And, loop.Or, loop.Xor, loop.Shl, loop.Eq, loop.Gt},
	dtype.U32: {loop.Shr},
	dtype.U64: {loop.Shr},
}

func (m *Model) Has(op loop.BinaryOp, dt dtype.DType) bool {
	whole := dt.IsInt() && (op == loop.Min || op == loop.Max || op == loop.Shr || op >= loop.Eq)
	return slices.Contains(always[dt], op) || m.Most && whole
}
func (m *Model) Unary(op loop.UnaryOp, dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	sign := uint64(1) << (dt.Bits() - 1)
	switch {
	case op == loop.Neg && dt.IsFloat():
		return m.map1(dt, x, func(x uint64) uint64 { return x ^ sign })
	case op == loop.Abs && dt.IsFloat():
		return m.map1(dt, x, func(x uint64) uint64 { return x &^ sign })
	}
	return m.map1(dt, x, func(x uint64) uint64 { return loop.EvalUnary(op, dt, x) })
}
func (m *Model) Binary(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	m.must(m.Has(op, dt) && op < loop.Eq)
	return m.Lanewise(dt, x, y, func(x, y uint64) uint64 { return loop.EvalBinary(op, dt, x, y) })
}

// must panics if lanes asks for what the machine does not have.
func (m *Model) must(has bool) {
	if !has {
		panic("lanestest: the machine does not have this operation")
	}
}
func (m *Model) ShiftBy(op loop.BinaryOp, dt dtype.DType, x regalloc.Reg, n int64) regalloc.Reg {
	m.must((op == loop.Shl || m.Has(op, dt)) && n >= 0 && n < int64(dt.Bits()))
	return m.map1(dt, x, func(x uint64) uint64 { return loop.EvalBinary(op, dt, x, uint64(n)) })
}
func (m *Model) AndNot(x, y regalloc.Reg) regalloc.Reg {
	return m.Lanewise(dtype.I64, x, y, func(x, y uint64) uint64 { return y &^ x })
}

// The models of lanes of f32 and of f64.
var (
	word mathematics.Lane
	wide mathematics.WideLane
)

// float emits a function of floats by its two models.
func (m *Model) float(dt dtype.DType, x, y regalloc.Reg, f func(x, y uint32) uint32,
	g func(x, y uint64) uint64) regalloc.Reg {
	if dt == dtype.F32 {
		g = func(x, y uint64) uint64 { return uint64(f(uint32(x), uint32(y))) }
	}
	return m.Lanewise(dt, x, y, g)
}
func (m *Model) Lesser(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return m.float(dt, x, y, word.Min, wide.Min)
}
func (m *Model) Greater(dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return m.float(dt, x, y, word.Max, wide.Max)
}
func (m *Model) MulWhere(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg {
	product := m.float(dt, x, y, word.Mul, wide.Mul)
	return m.Select(dt, mask, product, m.Repeated(dt, 0))
}
func (m *Model) Fused(form lanes.Form, dt dtype.DType, x, y, z regalloc.Reg) regalloc.Reg {
	return m.vector(dt, func(s *state, i int) uint64 { return s.fused(form, dt, x, y, z, i) })
}

// fused returns a lane of a fused multiply-add.
func (s *state) fused(form lanes.Form, dt dtype.DType, x, y, z regalloc.Reg, i int) uint64 {
	a, b, c := s.lane(dt, x, i), s.lane(dt, y, i), s.lane(dt, z, i)
	if dt == dtype.F64 {
		f := [...]func(x, y, z uint64) uint64{lanes.ProductPlus: wide.Fma, lanes.MinusProduct: wide.Fnma,
			lanes.ProductMinus: wide.Fms}[form]
		return f(a, b, c)
	}
	f := [...]func(x, y, z uint32) uint32{lanes.ProductPlus: word.Fma, lanes.MinusProduct: word.Fnma,
		lanes.ProductMinus: word.Fms}[form]
	return uint64(f(uint32(a), uint32(b), uint32(c)))
}
func (m *Model) AddProduct(dt dtype.DType, sum, x, y regalloc.Reg) {
	m.Assign(sum, m.Fused(lanes.ProductPlus, dt, x, y, sum))
}
func (m *Model) AddDot(sum, x, y regalloc.Reg) {
	m.Assign(sum, m.Lanewise(dtype.I32, sum, m.Lanewise(dtype.I32, x, y, func(x, y uint64) uint64 {
		return loop.EvalBinary(loop.Dot, dtype.I32, x, y)
	}), func(x, y uint64) uint64 { return uint64(uint32(x + y)) }))
}
func (m *Model) AddSmallProduct(sum, x, y regalloc.Reg, signed bool) {
	m.Assign(sum, m.Lanewise(dtype.I32, sum, m.smallProduct(x, y, signed),
		func(x, y uint64) uint64 { return uint64(uint32(x + y)) }))
}
func (m *Model) SmallProduct(x, y regalloc.Reg) regalloc.Reg { return m.smallProduct(x, y, false) }
func (m *Model) smallProduct(x, y regalloc.Reg, signed bool) regalloc.Reg {
	word := func(x uint64) bool { return int32(x) >= math.MinInt16 && int32(x) <= math.MaxInt16 }
	return m.Lanewise(dtype.I32, x, y, func(x, y uint64) uint64 {
		if !word(x) || !word(y) || !signed && x > math.MaxUint8 && y > math.MaxUint8 {
			return poison
		}
		return loop.EvalBinary(loop.Mul, dtype.I32, x, y)
	})
}

func (m *Model) Compare(p mathematics.Predicate, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	return m.mask(dt, func(s *state, i int) bool {
		a, b := s.lane(dt, x, i), s.lane(dt, y, i)
		if dt == dtype.F64 {
			return wide.Compare(p, a, b)
		}
		return word.Compare(p, uint32(a), uint32(b))
	})
}
func (m *Model) Test(op loop.BinaryOp, dt dtype.DType, x, y regalloc.Reg) regalloc.Reg {
	m.must(m.Has(op, dt))
	return m.mask(dt, func(s *state, i int) bool {
		return loop.EvalBinary(op, dt, s.lane(dt, x, i), s.lane(dt, y, i)) != 0
	})
}
func (m *Model) Select(dt dtype.DType, mask, x, y regalloc.Reg) regalloc.Reg {
	return m.vector(dt, func(s *state, i int) uint64 {
		if s.masks[mask.Number()][i] {
			return s.lane(dt, x, i)
		}
		return s.lane(dt, y, i)
	})
}

func (m *Model) MaskOf(all bool) regalloc.Reg {
	return m.mask(dtype.I32, func(s *state, i int) bool { return all })
}
func (m *Model) Masks(op loop.BinaryOp, x, y regalloc.Reg) regalloc.Reg {
	return m.mask(dtype.I32, func(s *state, i int) bool {
		a, b := s.masks[x.Number()][i], s.masks[y.Number()][i]
		return op == loop.And && a && b || op == loop.Or && (a || b) || op == loop.Xor && a != b
	})
}
func (m *Model) MaskNot(x regalloc.Reg) regalloc.Reg { return m.Masks(loop.Xor, x, m.MaskOf(true)) }
func (m *Model) JoinMasks(lo, hi regalloc.Reg) regalloc.Reg {
	return m.mask(dtype.I32, func(s *state, i int) bool {
		if i < s.lanes/2 {
			return s.masks[lo.Number()][i]
		}
		return s.masks[hi.Number()][i-s.lanes/2]
	})
}
func (m *Model) HalfMasks(mask regalloc.Reg) (lo, hi regalloc.Reg) {
	half := func(from int) regalloc.Reg {
		return m.mask(dtype.I64, func(s *state, i int) bool { return s.masks[mask.Number()][from+i] })
	}
	return half(0), half(m.Lanes / 2)
}

func (m *Model) ToInt(x regalloc.Reg) regalloc.Reg {
	return m.map1(dtype.I32, x, func(x uint64) uint64 { return uint64(word.ToInt(uint32(x))) })
}
func (m *Model) Converts(from, to dtype.DType) bool { return from.Bits() == 32 || m.Most }
func (m *Model) Convert(from, to dtype.DType, x regalloc.Reg) regalloc.Reg {
	m.must(m.Converts(from, to))
	return m.map1(to, x, func(x uint64) uint64 {
		if from.IsFloat() && !(math.Abs(loop.ToFloat(from, x)) < math.Ldexp(1, to.Bits()-1)) {
			return poison
		}
		return loop.EvalCast(to, from, false, x)
	})
}
func (m *Model) Truncated(from, to dtype.DType, x regalloc.Reg) regalloc.Reg {
	return m.map1(to, x, func(x uint64) uint64 { return loop.EvalCast(to, from, false, x) })
}
func (m *Model) TruncatedHalves(lo, hi regalloc.Reg) regalloc.Reg {
	return m.narrow(dtype.F64, lo, hi, func(x uint64) uint64 { return loop.EvalCast(dtype.I32, dtype.F64, false, x) })
}
func (m *Model) ToDouble(dt dtype.DType, x regalloc.Reg) regalloc.Reg {
	return m.map1(dtype.F64, x, func(x uint64) uint64 { return loop.EvalCast(dtype.F64, dt, false, x) })
}
func (m *Model) Widen(from, to dtype.DType, x regalloc.Reg, high bool) regalloc.Reg {
	first := 0
	if high {
		first = m.Lanes / 2
	}
	return m.vector(to, func(s *state, i int) uint64 {
		return loop.EvalCast(to, from, false, s.lane(from, x, first+i))
	})
}

// narrow emits a function of two registers of 64-bit lanes, which makes one.
func (m *Model) narrow(from dtype.DType, lo, hi regalloc.Reg, f func(x uint64) uint64) regalloc.Reg {
	return m.vector(dtype.I32, func(s *state, i int) uint64 {
		if i < s.lanes/2 {
			return f(s.lane(from, lo, i))
		}
		return f(s.lane(from, hi, i-s.lanes/2))
	})
}
func (m *Model) Narrow(from, to dtype.DType, lo, hi regalloc.Reg) regalloc.Reg {
	return m.narrow(from, lo, hi, func(x uint64) uint64 {
		if v := loop.ToFloat(dtype.F64, x); from == dtype.F64 && to == dtype.I32 {
			if v == 1<<31 {
				return 1 << 31
			} else if !(v > -1<<31-1 && v < 1<<31) {
				return poison
			}
		}
		return loop.EvalCast(to, from, false, x)
	})
}
func (m *Model) ToF16(x regalloc.Reg) regalloc.Reg {
	return m.map1(dtype.F32, x, func(x uint64) uint64 { return loop.EvalCast(dtype.F16, dtype.F32, false, x) })
}
func (m *Model) FromF16(x regalloc.Reg) regalloc.Reg {
	return m.map1(dtype.F32, x, func(x uint64) uint64 { return loop.EvalCast(dtype.F32, dtype.F16, false, x&0xffff) })
}
func (m *Model) RoundF16(x regalloc.Reg) regalloc.Reg { return m.FromF16(m.ToF16(x)) }

func (m *Model) TakeLanes(index, x regalloc.Reg) regalloc.Reg {
	return m.vector(dtype.I32, func(s *state, i int) uint64 {
		return s.lane(dtype.I32, x, int(s.lane(dtype.I32, index, i))&(s.lanes-1))
	})
}
func (m *Model) TakesOfTwo() bool { return m.Most }
func (m *Model) TakeLanesOfTwo(to, index, low, high regalloc.Reg) {
	m.must(m.Most)
	m.Assign(to, m.vector(dtype.I32, func(s *state, i int) uint64 {
		n := int(s.lane(dtype.I32, index, i)) & (2*s.lanes - 1)
		if n < s.lanes {
			return s.lane(dtype.I32, low, n)
		}
		return s.lane(dtype.I32, high, n-s.lanes)
	}))
}
func (m *Model) Entries() int { return 8 }
func (m *Model) Lookup(table []uint32, index regalloc.Reg) regalloc.Reg {
	table = slices.Clone(table)
	return m.map1(dtype.I32, index, func(x uint64) uint64 { return uint64(table[x%uint64(len(table))]) })
}
func (m *Model) Exchanged(x regalloc.Reg, n int) regalloc.Reg {
	return m.vector(dtype.I32, func(s *state, i int) uint64 { return s.lane(dtype.I32, x, i^n) })
}
func (m *Model) Transposed(rows []regalloc.Reg) []regalloc.Reg {
	columns := make([]regalloc.Reg, len(rows))
	for c := range columns {
		columns[c] = m.vector(dtype.I32, func(s *state, i int) uint64 { return s.lane(dtype.I32, rows[i], c) })
	}
	return columns
}

// sum adds up f32 lanes by their numbers, in pairs.
func (s *state) sum(x regalloc.Reg, at ...int) uint32 {
	if len(at) == 1 {
		return uint32(s.lane(dtype.F32, x, at[0]))
	}
	return word.Add(s.sum(x, at[:len(at)/2]...), s.sum(x, at[len(at)/2:]...))
}

func (m *Model) FourAcross(x [4]regalloc.Reg) regalloc.Reg {
	return m.vector(dtype.F32, func(s *state, i int) uint64 {
		first := i &^ 3
		return uint64(s.sum(x[i&3], first, first+2, first+1, first+3))
	})
}
func (m *Model) QuartersAcross(x []regalloc.Reg) regalloc.Reg {
	return m.vector(dtype.F32, func(s *state, i int) uint64 {
		var parts []int
		for at := i & 3; at < s.lanes; at += 4 {
			parts = append(parts, at)
		}
		return uint64(s.sum(x[i/4], parts...))
	})
}
