package lanestest

import (
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// held returns the type of the lanes that hold elements of a type.
func held(dt dtype.DType) dtype.DType {
	switch {
	case dt == dtype.F16:
		return dtype.F32
	case dt.Bits() < 32:
		return dtype.I32
	}
	return dt
}

// load reads an element, as lanes hold it.
func (s *state) load(dt dtype.DType, address int64) uint64 {
	return loop.EvalCast(held(dt), dt, false, s.read(dt.Bits(), address))
}

// store writes the low bits of a lane; f16 is made of f32.
func (s *state) store(dt dtype.DType, address int64, x uint64) {
	if dt == dtype.F16 {
		x = loop.EvalCast(dtype.F16, dtype.F32, false, x)
	}
	s.write(dt.Bits(), address, x)
}

// in reports whether a lane is in a mask; NoReg has all lanes.
func (s *state) in(mask regalloc.Reg, i int) bool {
	return mask == regalloc.NoReg || s.masks[mask.Number()][i]
}

// each returns a new vector of elements, of which address returns each lane's; lanes outside a mask are 0.
func (m *Model) each(dt dtype.DType, mask regalloc.Reg, address func(s *state, i int) int64) regalloc.Reg {
	return m.vector(held(dt), func(s *state, i int) uint64 {
		if !s.in(mask, i) {
			return 0
		}
		return s.load(dt, address(s, i))
	})
}

// eachOf writes the lanes of a mask, the first one first.
func (m *Model) eachOf(dt dtype.DType, x, mask regalloc.Reg, address func(s *state, i int) int64) {
	m.emit(func(s *state) {
		for i := range s.count(held(dt)) {
			if s.in(mask, i) {
				s.store(dt, address(s, i), s.lane(held(dt), x, i))
			}
		}
	})
}

// apart returns the addresses of elements that are a step apart, from the first-th on.
func apart(dt dtype.DType, at regalloc.Mem, step int64, first int) func(s *state, i int) int64 {
	return func(s *state, i int) int64 { return s.address(at) + int64(first+i)*step*int64(dt.Bits()/8) }
}

func (m *Model) Parts(dt dtype.DType) bool { return m.Most || dt.Bits() >= 32 }
func (m *Model) Load(dt dtype.DType, at regalloc.Mem, mask regalloc.Reg) regalloc.Reg {
	m.must(mask == regalloc.NoReg || m.Parts(dt))
	return m.each(dt, mask, apart(dt, at, 1, 0))
}
func (m *Model) Store(dt dtype.DType, at regalloc.Mem, x, mask regalloc.Reg) {
	m.must(mask == regalloc.NoReg || m.Parts(dt))
	m.eachOf(dt, x, mask, apart(dt, at, 1, 0))
}
func (m *Model) LoadOne(dt dtype.DType, at regalloc.Mem) regalloc.Reg {
	return m.each(dt, regalloc.NoReg, apart(dt, at, 0, 0))
}
func (m *Model) StoreOne(dt dtype.DType, at regalloc.Mem, x regalloc.Reg) {
	m.emit(func(s *state) { s.store(dt, s.address(at), s.lane(held(dt), x, 0)) })
}
func (m *Model) StoreLane(dt dtype.DType, at regalloc.Mem, x regalloc.Reg, n int) {
	m.emit(func(s *state) { s.write(dt.Bits(), s.address(at), s.lane(held(dt), x, n)) })
}
func (m *Model) Apart(dt dtype.DType, at regalloc.Mem, step int64) bool { return m.Most }
func (m *Model) LoadApart(dt dtype.DType, at regalloc.Mem, step int64) (lo, hi regalloc.Reg) {
	m.must(m.Most && dt.Bits() != 32)
	lo = m.each(dt, regalloc.NoReg, apart(dt, at, step, 0))
	if dt == dtype.I64 {
		hi = m.each(dt, regalloc.NoReg, apart(dt, at, step, m.Lanes/2))
	}
	return lo, hi
}
func (m *Model) StoreApart(dt dtype.DType, at regalloc.Mem, step int64, x regalloc.Reg) {
	m.must(m.Most && dt.Bits() <= 32)
	m.eachOf(dt, x, regalloc.NoReg, apart(dt, at, step, 0))
}
func (m *Model) Spreads(step int64, part bool) bool { return m.Most && step >= -3 && step <= 3 }
func (m *Model) LoadSpread(at regalloc.Mem, step int64, mask regalloc.Reg) regalloc.Reg {
	m.must(m.Spreads(step, mask != regalloc.NoReg))
	if step < 0 { // lane 0 has the highest address
		at.Disp -= int32(4 * step * int64(m.Lanes-1))
	}
	return m.each(dtype.I32, mask, apart(dtype.I32, at, step, 0))
}

// indexed returns the addresses of an index, for the lanes from the first-th on.
func (m *Model) indexed(at regalloc.Mem, index lanes.Value, scale, first int) func(s *state, i int) int64 {
	m.must(at.Index == regalloc.NoReg)
	return func(s *state, i int) int64 {
		x, n := index.Lo, first+i
		if index.DType == dtype.I64 && n >= s.lanes/2 {
			x, n = index.Hi, n-s.lanes/2
		}
		return s.address(at) + loop.ToInt(index.DType, s.lane(index.DType, x, n))*int64(scale)
	}
}

// halves returns the masks of the two halves; NoReg stays NoReg.
func (m *Model) halves(mask regalloc.Reg) (lo, hi regalloc.Reg) {
	if mask == regalloc.NoReg {
		return mask, mask
	}
	return m.HalfMasks(mask)
}
func (m *Model) Gather(at regalloc.Mem, index lanes.Value, scale uint8, mask regalloc.Reg) regalloc.Reg {
	return m.each(dtype.I32, mask, m.indexed(at, index, int(scale), 0))
}
func (m *Model) GatherWide(at regalloc.Mem, index lanes.Value, mask regalloc.Reg) (lo, hi regalloc.Reg) {
	low, high := m.halves(mask)
	return m.each(dtype.I64, low, m.indexed(at, index, 8, 0)), m.each(dtype.I64, high, m.indexed(at, index, 8, m.Lanes/2))
}
func (m *Model) Scatters() bool { return m.Most }
func (m *Model) Scatter(at regalloc.Mem, index lanes.Value, x, mask regalloc.Reg) {
	m.must(m.Most)
	m.eachOf(dtype.I32, x, mask, m.indexed(at, index, 4, 0))
}
func (m *Model) ScatterWide(at regalloc.Mem, index lanes.Value, lo, hi, mask regalloc.Reg) {
	m.must(m.Most)
	low, high := m.halves(mask)
	m.eachOf(dtype.I64, lo, low, m.indexed(at, index, 8, 0))
	m.eachOf(dtype.I64, hi, high, m.indexed(at, index, 8, m.Lanes/2))
}
func (m *Model) StorePacked(bits int, at regalloc.Mem, x regalloc.Reg) {
	m.emit(func(s *state) {
		packed := make([]byte, s.lanes*bits/8)
		for i := range s.lanes {
			packed[i*bits/8] |= byte(s.lane(dtype.I32, x, i)&(1<<bits-1)) << (i * bits % 8)
		}
		copy(s.bytes(s.address(at), len(packed), true), packed)
	})
}
func (m *Model) Prefetch(regalloc.Mem) {}
