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

// Model emits a routine. Its methods are those of lanes.Machine.
type Model struct {
	Machine
	*routine
	lanes.Tiles // none
	code        []instruction
	at, labels  int
}

// NewModel returns a model without instructions.
func NewModel(of Machine) *Model {
	return &Model{Machine: of, routine: &routine{lanes: of.Lanes, constants: map[string]regalloc.Reg{}}}
}

// SumsOf returns nil: there are no tiles.
func (m *Model) SumsOf(dtype.DType) *lanes.Sums { return nil }

func (m *Model) Code() lanes.Code {
	if m.code == nil {
		return nil
	}
	return m.code
}
func (m *Model) SetCode(c lanes.Code) { m.code, _ = c.([]instruction) }
func (m *Model) AppendCode(c lanes.Code) {
	list, _ := c.([]instruction)
	m.code = append(m.code, list...)
}

// emit appends an instruction.
func (m *Model) emit(do func(s *state)) {
	m.code = append(m.code, instruction{do: func(s *state) regalloc.Label { do(s); return 0 }})
}

// register returns a new register of a class.
func (m *Model) register(c regalloc.Class) regalloc.Reg {
	m.registers[c]++
	return regalloc.Virtual(c, m.registers[c]-1)
}

func (m *Model) General() regalloc.Reg { return m.register(regalloc.General) }
func (m *Model) Unique() int           { return m.registers[regalloc.General] }

// integer emits an instruction that makes a new integer.
func (m *Model) integer(of func(s *state) int64) regalloc.Reg {
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

func (m *Model) Number(v int64) regalloc.Reg {
	return m.integer(func(*state) int64 { return v })
}
func (m *Model) SetNumber(r regalloc.Reg, v int64) {
	m.emit(func(s *state) { s.general[r.Number()] = v })
}
func (m *Model) Times(x regalloc.Reg, v int64) regalloc.Reg {
	return m.integer(func(s *state) int64 { return s.of(x) * v })
}
func (m *Model) Integer(op lanes.Operation, x, y regalloc.Reg) {
	m.change(op, x, func(s *state) int64 { return s.of(y) })
}
func (m *Model) IntegerNumber(op lanes.Operation, x regalloc.Reg, v int64) {
	m.change(op, x, func(*state) int64 { return v })
}

// change makes x the result of an operation.
func (m *Model) change(op lanes.Operation, x regalloc.Reg, of func(s *state) int64) {
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

func (m *Model) ShiftDown(x regalloc.Reg, n int64) {
	m.emit(func(s *state) { s.general[x.Number()] >>= n })
}
func (m *Model) ShiftNatural(x regalloc.Reg, n int64) {
	m.emit(func(s *state) { s.general[x.Number()] = int64(uint64(s.of(x)) >> n) })
}
func (m *Model) DivideNatural(x, y regalloc.Reg, remainder bool) regalloc.Reg {
	return m.integer(func(s *state) int64 {
		if remainder {
			return s.of(x) % s.of(y)
		}
		return s.of(x) / s.of(y)
	})
}
func (m *Model) Divided(x, y regalloc.Reg) (quotient, remainder regalloc.Reg) {
	return m.DivideNatural(x, y, false), m.DivideNatural(x, y, true)
}
func (m *Model) DivideDown(x, y regalloc.Reg, remainder bool) regalloc.Reg {
	return m.integer(func(s *state) int64 {
		r := ((s.of(x) % s.of(y)) + s.of(y)) % s.of(y)
		if remainder {
			return r
		}
		return (s.of(x) - r) / s.of(y)
	})
}
func (m *Model) Divide(op loop.BinaryOp, signed bool, x, y regalloc.Reg) regalloc.Reg {
	dt := dtype.U64
	if signed {
		dt = dtype.I64
	}
	return m.integer(func(s *state) int64 {
		return int64(loop.EvalBinary(op, dt, uint64(s.of(x)), uint64(s.of(y))))
	})
}

func (m *Model) CopyOf(x regalloc.Reg) regalloc.Reg {
	r := m.register(x.Class())
	m.Assign(r, x)
	return r
}
func (m *Model) Assign(to, x regalloc.Reg) { m.emit(func(s *state) { s.assign(to, x) }) }
func (m *Model) AssignIf(c lanes.Condition, to, x regalloc.Reg) {
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

func (m *Model) Frame() regalloc.Reg { return frame }
func (m *Model) Scales(v int64) bool { return v == 1 || v == 4 }

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

func (m *Model) AddressOf(at regalloc.Mem) regalloc.Reg {
	return m.integer(func(s *state) int64 { return s.address(at) })
}
func (m *Model) LoadWord(at regalloc.Mem) regalloc.Reg     { return m.LoadBits(64, at) }
func (m *Model) StoreWord(at regalloc.Mem, x regalloc.Reg) { m.StoreBits(64, at, x) }
func (m *Model) LoadBits(bits int, at regalloc.Mem) regalloc.Reg {
	return m.integer(func(s *state) int64 { return int64(s.read(bits, s.address(at))) })
}
func (m *Model) StoreBits(bits int, at regalloc.Mem, x regalloc.Reg) {
	m.emit(func(s *state) { s.write(bits, s.address(at), uint64(s.of(x))) })
}

func (m *Model) Label() regalloc.Label {
	m.labels++
	return regalloc.Label(m.labels)
}
func (m *Model) Bind(l regalloc.Label) { m.code = append(m.code, instruction{label: l}) }
func (m *Model) CompareNumbers(x, y regalloc.Reg) {
	m.emit(func(s *state) { s.compare(s.of(x), s.of(y)) })
}
func (m *Model) CompareNumber(x regalloc.Reg, v int64) {
	m.emit(func(s *state) { s.compare(s.of(x), v) })
}
func (m *Model) CompareZero(x regalloc.Reg) { m.CompareNumber(x, 0) }
func (m *Model) Jump(to regalloc.Label)     { m.jumps(func(*state) bool { return true }, to) }
func (m *Model) JumpIf(c lanes.Condition, to regalloc.Label) {
	m.jumps(func(s *state) bool { return s.holds(c) }, to)
}

// jumps emits a jump.
func (m *Model) jumps(when func(s *state) bool, to regalloc.Label) {
	m.code = append(m.code, instruction{keeps: true, do: func(s *state) regalloc.Label {
		if when(s) {
			return to
		}
		return 0
	}})
}

// Turns and WholeTurns bind the label: nothing is counted.
func (m *Model) Turns(l regalloc.Label, most int64, exact bool, counter regalloc.Reg, by int64) {
	m.Bind(l)
}
func (m *Model) WholeTurns(l regalloc.Label, n int64) { m.Bind(l) }
func (m *Model) Return(status int64)                  { m.emit(func(s *state) { s.ended, s.status = true, status }) }

// bitsOfLane is the number of bits of a lane of 32 bits in the word of a mask.
func (m *Model) bitsOfLane() int { return 64 / m.Lanes }

func (m *Model) AllLanes() int64 { return -1 }
func (m *Model) LaneWord(dt dtype.DType, mask regalloc.Reg) regalloc.Reg {
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
func (m *Model) FirstSet(word regalloc.Reg) regalloc.Reg {
	return m.integer(func(s *state) int64 { return int64(bits.TrailingZeros64(uint64(s.of(word))) / m.bitsOfLane()) })
}
func (m *Model) JumpOnSet(word regalloc.Reg, lane int, set bool, to regalloc.Label) {
	m.jumps(func(s *state) bool { return s.of(word)>>(lane*m.bitsOfLane())&1 != 0 == set }, to)
}
func (m *Model) JumpIfNone(mask regalloc.Reg, to regalloc.Label) {
	word := m.LaneWord(dtype.I32, mask)
	m.jumps(func(s *state) bool { return s.of(word) == 0 }, to)
}
