package lanestest

import (
	"cmp"
	"encoding/binary"
	"math/bits"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// model emits a routine. Its methods are those of lanes.Machine.
type model struct {
	Machine
	*routine
	lanes.Tiles // none
	code        []instruction
	at, labels  int
}

// SumsOf returns nil: there are no tiles.
func (m *model) SumsOf(dtype.DType) *lanes.Sums { return nil }

func (m *model) Code() lanes.Code {
	if m.code == nil {
		return nil
	}
	return m.code
}
func (m *model) SetCode(c lanes.Code) { m.code, _ = c.([]instruction) }
func (m *model) AppendCode(c lanes.Code) {
	list, _ := c.([]instruction)
	m.code = append(m.code, list...)
}

// emit appends an instruction.
func (m *model) emit(do func(s *state)) {
	m.code = append(m.code, instruction{do: func(s *state) regalloc.Label { do(s); return 0 }})
}

// register returns a new register of a class.
func (m *model) register(c regalloc.Class) regalloc.Reg {
	m.registers[c]++
	return regalloc.Virtual(c, m.registers[c]-1)
}

func (m *model) General() regalloc.Reg { return m.register(regalloc.General) }
func (m *model) Unique() int           { return m.registers[regalloc.General] }

// integer emits an instruction that makes a new integer.
func (m *model) integer(of func(s *state) int64) regalloc.Reg {
	r := m.General()
	m.emit(func(s *state) { s.general[r.Number()] = of(s) })
	return r
}

// of returns the value of a general register.
func (s *state) of(r regalloc.Reg) int64 {
	if r == frame {
		return s.frame
	}
	return s.general[r.Number()]
}

func (m *model) Number(v int64) regalloc.Reg {
	return m.integer(func(*state) int64 { return v })
}
func (m *model) SetNumber(r regalloc.Reg, v int64) {
	m.emit(func(s *state) { s.general[r.Number()] = v })
}
func (m *model) Times(x regalloc.Reg, v int64) regalloc.Reg {
	return m.integer(func(s *state) int64 { return s.of(x) * v })
}
func (m *model) Integer(op lanes.Operation, x, y regalloc.Reg) {
	m.change(op, x, func(s *state) int64 { return s.of(y) })
}
func (m *model) IntegerNumber(op lanes.Operation, x regalloc.Reg, v int64) {
	m.change(op, x, func(*state) int64 { return v })
}

// change makes x the result of an operation.
func (m *model) change(op lanes.Operation, x regalloc.Reg, of func(s *state) int64) {
	m.emit(func(s *state) {
		to, y := &s.general[x.Number()], of(s)
		switch op {
		case lanes.Add:
			*to += y
		case lanes.Subtract:
			s.compare(*to, y)
			*to -= y
		case lanes.Multiply:
			*to *= y
		case lanes.And:
			*to &= y
		}
	})
}

// compare sets the result of the last comparison.
func (s *state) compare(x, y int64) { s.compared, s.order = true, cmp.Compare(x, y) }

func (m *model) ShiftDown(x regalloc.Reg, n int64) {
	m.emit(func(s *state) { s.general[x.Number()] >>= n })
}
func (m *model) ShiftNatural(x regalloc.Reg, n int64) {
	m.emit(func(s *state) { s.general[x.Number()] = int64(uint64(s.of(x)) >> n) })
}
func (m *model) DivideNatural(x, y regalloc.Reg, remainder bool) regalloc.Reg {
	return m.integer(func(s *state) int64 {
		if remainder {
			return s.of(x) % s.of(y)
		}
		return s.of(x) / s.of(y)
	})
}
func (m *model) Divided(x, y regalloc.Reg) (quotient, remainder regalloc.Reg) {
	return m.DivideNatural(x, y, false), m.DivideNatural(x, y, true)
}
func (m *model) DivideDown(x, y regalloc.Reg, remainder bool) regalloc.Reg {
	return m.integer(func(s *state) int64 {
		r := ((s.of(x) % s.of(y)) + s.of(y)) % s.of(y)
		if remainder {
			return r
		}
		return (s.of(x) - r) / s.of(y)
	})
}
func (m *model) Divide(op loop.BinaryOp, signed bool, x, y regalloc.Reg) regalloc.Reg {
	dt := dtype.U64
	if signed {
		dt = dtype.I64
	}
	return m.integer(func(s *state) int64 {
		return int64(loop.EvalBinary(op, dt, uint64(s.of(x)), uint64(s.of(y))))
	})
}

func (m *model) CopyOf(x regalloc.Reg) regalloc.Reg {
	r := m.register(x.Class())
	m.Assign(r, x)
	return r
}
func (m *model) Assign(to, x regalloc.Reg) { m.emit(func(s *state) { s.assign(to, x) }) }
func (m *model) AssignIf(c lanes.Condition, to, x regalloc.Reg) {
	m.code = append(m.code, instruction{keeps: true, do: func(s *state) regalloc.Label {
		if s.holds(c) {
			s.assign(to, x)
		}
		return 0
	}})
}

// assign makes a register equal to another.
func (s *state) assign(to, x regalloc.Reg) {
	switch x.Class() {
	case regalloc.General:
		s.general[to.Number()] = s.of(x)
	case regalloc.Vector:
		copy(s.vectors[to.Number()], s.vectors[x.Number()])
	case regalloc.Mask:
		copy(s.masks[to.Number()], s.masks[x.Number()])
	}
}

// holds reports whether a condition holds for the last comparison.
func (s *state) holds(c lanes.Condition) bool {
	if !s.compared {
		panic("lanestest: no comparison holds")
	}
	return [...]bool{lanes.Equal: s.order == 0, lanes.NotEqual: s.order != 0, lanes.Less: s.order < 0,
		lanes.LessOrEqual: s.order <= 0, lanes.Greater: s.order > 0, lanes.GreaterOrEqual: s.order >= 0}[c]
}

// frame is the register with the frame's address.
const frame = regalloc.Reg(regalloc.General) << regalloc.ClassShift

func (m *model) Frame() regalloc.Reg { return frame }
func (m *model) Scales(v int64) bool { return v == 1 || v == 4 }

// address returns an address, perhaps with an index of its own.
func (s *state) address(at regalloc.Mem) int64 {
	a := int64(at.Disp)
	if at.Pool != 0 {
		return poolAddress + int64(4*s.lanes)*int64(at.Pool-1)
	}
	if at.Base != regalloc.NoReg {
		a += s.of(at.Base)
	}
	if at.Index != regalloc.NoReg {
		a += s.of(at.Index) * int64(at.Scale)
	}
	return a
}

// read returns an integer of so many bits, and write writes one.
func (s *state) read(bits int, address int64) uint64 {
	var word [8]byte
	copy(word[:], s.bytes(address, bits/8, false))
	return binary.LittleEndian.Uint64(word[:])
}
func (s *state) write(bits int, address int64, x uint64) {
	word := binary.LittleEndian.AppendUint64(nil, x)
	copy(s.bytes(address, bits/8, true), word[:bits/8])
}

func (m *model) AddressOf(at regalloc.Mem) regalloc.Reg {
	return m.integer(func(s *state) int64 { return s.address(at) })
}
func (m *model) LoadWord(at regalloc.Mem) regalloc.Reg     { return m.LoadBits(64, at) }
func (m *model) StoreWord(at regalloc.Mem, x regalloc.Reg) { m.StoreBits(64, at, x) }
func (m *model) LoadBits(bits int, at regalloc.Mem) regalloc.Reg {
	return m.integer(func(s *state) int64 { return int64(s.read(bits, s.address(at))) })
}
func (m *model) StoreBits(bits int, at regalloc.Mem, x regalloc.Reg) {
	m.emit(func(s *state) { s.write(bits, s.address(at), uint64(s.of(x))) })
}

func (m *model) Label() regalloc.Label {
	m.labels++
	return regalloc.Label(m.labels)
}
func (m *model) Bind(l regalloc.Label) { m.code = append(m.code, instruction{label: l}) }
func (m *model) CompareNumbers(x, y regalloc.Reg) {
	m.emit(func(s *state) { s.compare(s.of(x), s.of(y)) })
}
func (m *model) CompareNumber(x regalloc.Reg, v int64) {
	m.emit(func(s *state) { s.compare(s.of(x), v) })
}
func (m *model) CompareZero(x regalloc.Reg) { m.CompareNumber(x, 0) }
func (m *model) Jump(to regalloc.Label)     { m.jumps(func(*state) bool { return true }, to) }
func (m *model) JumpIf(c lanes.Condition, to regalloc.Label) {
	m.jumps(func(s *state) bool { return s.holds(c) }, to)
}

// jumps emits a jump.
func (m *model) jumps(when func(s *state) bool, to regalloc.Label) {
	m.code = append(m.code, instruction{keeps: true, do: func(s *state) regalloc.Label {
		if when(s) {
			return to
		}
		return 0
	}})
}

// Turns and WholeTurns bind the label: nothing is counted.
func (m *model) Turns(l regalloc.Label, most int64, exact bool, counter regalloc.Reg, by int64) {
	m.Bind(l)
}
func (m *model) WholeTurns(l regalloc.Label, n int64) { m.Bind(l) }
func (m *model) Return(status int64)                  { m.emit(func(s *state) { s.ended, s.status = true, status }) }

// bitsOfLane is the number of bits of a lane of 32 bits in the word of a mask.
func (m *model) bitsOfLane() int { return 64 / m.Lanes }

func (m *model) AllLanes() int64 { return -1 }
func (m *model) LaneWord(dt dtype.DType, mask regalloc.Reg) regalloc.Reg {
	return m.integer(func(s *state) int64 {
		word := uint64(0)
		for i := range s.count(dt) {
			if s.masks[mask.Number()][i] {
				word |= (1<<m.bitsOfLane() - 1) << (i * m.bitsOfLane())
			}
		}
		return int64(word)
	})
}
func (m *model) FirstSet(word regalloc.Reg) regalloc.Reg {
	return m.integer(func(s *state) int64 { return int64(bits.TrailingZeros64(uint64(s.of(word))) / m.bitsOfLane()) })
}
func (m *model) JumpOnSet(word regalloc.Reg, lane int, set bool, to regalloc.Label) {
	m.jumps(func(s *state) bool { return s.of(word)>>(lane*m.bitsOfLane())&1 != 0 == set }, to)
}
func (m *model) JumpIfNone(mask regalloc.Reg, to regalloc.Label) {
	word := m.LaneWord(dtype.I32, mask)
	m.jumps(func(s *state) bool { return s.of(word) == 0 }, to)
}
