package lanes_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// toy is a machine whose instructions are Go functions over registers of any number. It has integers, jumps and tiles,
// and nothing else: its kernels are products. Every access to memory is checked against the operands. Registers that
// methods of lanes.Tiles may change are filled with garbage.
type toy struct {
	lanes.Machine // nil: what the toy does not have panics
	*lanes.Emitter
	toyKind
	code   []step
	count  [regalloc.Classes]int
	labels regalloc.Label
}

// toyKind is the properties of a toy.
type toyKind struct {
	bytes       int64 // of a vector
	registers   int
	masks       bool
	second      bool
	half        bool
	rowsOfBase  int
	mostRows    int
	bytesGroup  int64
	bf16Group   int64
	together    int  // rows of products by groups that are multiplied at once; 0: one
	shifts      bool // a group of two operands of one type takes a further row of sums
	description string
	fetched     func(at int64) // is called for each address that is fetched into the second cache; nil: nobody asks
}

// step is an instruction: a label, or a function, which returns a label to continue at, or 0.
type step struct {
	label regalloc.Label
	do    func(s *state) regalloc.Label
}

// state is the registers and the memory of a running toy.
type state struct {
	general  []int64
	vectors  [][]byte
	masks    [][]bool
	compared int // the last comparison's result: −1, 0 or 1
	regions  []region
	status   int64
}

// region is memory: an operand, or the scratch.
type region struct {
	at       int64
	bytes    []byte
	readOnly bool
}

const (
	toyFrame = 1 << 20 // the address of the scratch; operands follow, far from each other
	ended    = -1      // the label of the routine's end
)

// memory returns n bytes at an address; an access outside the operands is a fault.
func (s *state) memory(at int64, n int64, write bool) []byte {
	for _, r := range s.regions {
		if off := at - r.at; off >= 0 && off+n <= int64(len(r.bytes)) && !(write && r.readOnly) {
			return r.bytes[off : off+n]
		}
	}
	panic(fmt.Errorf("an access to %d bytes at %#x, outside all operands", n, at))
}

// address returns the number of an address.
func (s *state) address(m regalloc.Mem) int64 {
	at := s.g(m.Base) + int64(m.Disp)
	if m.Index != regalloc.NoReg {
		at += s.g(m.Index) * int64(m.Scale)
	}
	return at
}

func (s *state) g(r regalloc.Reg) int64      { return s.general[r.Number()] }
func (s *state) set(r regalloc.Reg, v int64) { s.general[r.Number()] = v }
func (s *state) holds(c lanes.Condition) bool {
	return [...]bool{lanes.Equal: s.compared == 0, lanes.NotEqual: s.compared != 0, lanes.Less: s.compared < 0,
		lanes.LessOrEqual: s.compared <= 0, lanes.Greater: s.compared > 0, lanes.GreaterOrEqual: s.compared >= 0}[c]
}

// emit appends an instruction.
func (m *toy) emit(do func(s *state)) {
	m.code = append(m.code, step{do: func(s *state) regalloc.Label { do(s); return 0 }})
}

func (m *toy) Code() lanes.Code {
	if m.code == nil {
		return nil
	}
	return m.code
}
func (m *toy) SetCode(c lanes.Code)    { m.code, _ = c.([]step) }
func (m *toy) AppendCode(c lanes.Code) { list, _ := c.([]step); m.code = append(m.code, list...) }

func (m *toy) register(c regalloc.Class) regalloc.Reg {
	m.count[c]++
	return regalloc.Virtual(c, m.count[c])
}
func (m *toy) General() regalloc.Reg      { return m.register(regalloc.General) }
func (m *toy) MaskRegister() regalloc.Reg { return m.register(regalloc.Mask) }
func (m *toy) Frame() regalloc.Reg        { return regalloc.Virtual(regalloc.General, 0) }
func (m *toy) Scales(v int64) bool        { return v == 1 || v == 4 }
func (m *toy) Unique() int                { return m.count[regalloc.General] }

func (m *toy) Number(v int64) regalloc.Reg {
	r := m.General()
	m.SetNumber(r, v)
	return r
}
func (m *toy) SetNumber(r regalloc.Reg, v int64) { m.emit(func(s *state) { s.set(r, v) }) }
func (m *toy) Times(x regalloc.Reg, v int64) regalloc.Reg {
	r := m.General()
	m.emit(func(s *state) { s.set(r, s.g(x)*v) })
	return r
}
func (m *toy) Integer(op lanes.Operation, x, y regalloc.Reg) {
	m.emit(func(s *state) { s.operate(op, x, s.g(y)) })
}
func (m *toy) IntegerNumber(op lanes.Operation, x regalloc.Reg, v int64) {
	m.emit(func(s *state) { s.operate(op, x, v) })
}

// operate changes x to x op v.
func (s *state) operate(op lanes.Operation, x regalloc.Reg, v int64) {
	s.compared = cmp.Compare(s.g(x), v)
	s.set(x, [...]int64{lanes.Add: s.g(x) + v, lanes.Subtract: s.g(x) - v, lanes.Multiply: s.g(x) * v,
		lanes.And: s.g(x) & v}[op])
}
func (m *toy) ShiftDown(x regalloc.Reg, n int64) { m.emit(func(s *state) { s.set(x, s.g(x)>>n) }) }
func (m *toy) Halve(x regalloc.Reg)              { m.ShiftDown(x, 1) }
func (m *toy) DivideNatural(x, y regalloc.Reg, remainder bool) regalloc.Reg {
	r := m.General()
	m.emit(func(s *state) {
		if s.set(r, s.g(x)/s.g(y)); remainder {
			s.set(r, s.g(x)%s.g(y))
		}
	})
	return r
}
func (m *toy) Divided(x, y regalloc.Reg) (quotient, remainder regalloc.Reg) {
	return m.DivideNatural(x, y, false), m.DivideNatural(x, y, true)
}
func (m *toy) CopyOf(x regalloc.Reg) regalloc.Reg {
	r := m.register(x.Class())
	m.Assign(r, x)
	return r
}
func (m *toy) Assign(to, x regalloc.Reg) { m.emit(func(s *state) { s.set(to, s.g(x)) }) }
func (m *toy) AssignIf(c lanes.Condition, to, x regalloc.Reg) {
	m.emit(func(s *state) {
		if s.holds(c) {
			s.set(to, s.g(x))
		}
	})
}
func (m *toy) LoadWord(at regalloc.Mem) regalloc.Reg {
	r := m.General()
	m.emit(func(s *state) { s.set(r, int64(binary.LittleEndian.Uint64(s.memory(s.address(at), 8, false)))) })
	return r
}

func (m *toy) Label() regalloc.Label {
	m.labels++
	return m.labels
}
func (m *toy) Bind(l regalloc.Label) { m.code = append(m.code, step{label: l}) }
func (m *toy) CompareNumbers(x, y regalloc.Reg) {
	m.emit(func(s *state) { s.compared = cmp.Compare(s.g(x), s.g(y)) })
}
func (m *toy) CompareNumber(x regalloc.Reg, v int64) {
	m.emit(func(s *state) { s.compared = cmp.Compare(s.g(x), v) })
}
func (m *toy) CompareZero(x regalloc.Reg) { m.CompareNumber(x, 0) }
func (m *toy) Jump(to regalloc.Label) {
	m.code = append(m.code, step{do: func(*state) regalloc.Label { return to }})
}
func (m *toy) JumpIf(c lanes.Condition, to regalloc.Label) {
	m.code = append(m.code, step{do: func(s *state) regalloc.Label {
		if s.holds(c) {
			return to
		}
		return 0
	}})
}
func (m *toy) Turns(l regalloc.Label, _ int64, _ bool, _ regalloc.Reg, _ int64) { m.Bind(l) }
func (m *toy) Return(status int64) {
	m.code = append(m.code, step{do: func(s *state) regalloc.Label { s.status = status; return ended }})
}

// toyCompiler compiles kernels for toys.
type toyCompiler struct {
	toyKind
	routines []toyRoutine
}

func (c *toyCompiler) Processor() lanes.Processor { return c }
func (c *toyCompiler) VectorBytes() int64         { return c.bytes }
func (c *toyCompiler) HeaderBytes() int64         { return 0 }
func (c *toyCompiler) PauseCode() ([]byte, int)   { return nil, 0 }
func (c *toyCompiler) Call(uintptr, unsafe.Pointer, int64, int64) int64 {
	panic("toys run by toyKernel.Run")
}

// toyRoutine is a nest's code, with the registers of the first tile and the end.
type toyRoutine struct {
	*toy
	begin, end regalloc.Reg
	number     byte
}

func (r toyRoutine) Finish(spill int32) (code []byte, frame int32, tile, longest int64) {
	return []byte{r.number}, spill, 1, 1
}

// Routine emits a nest inside a loop over its tiles.
func (c *toyCompiler) Routine(k *lanes.KernelEmitter, n loop.Nest) lanes.Routine {
	m := &toy{toyKind: c.toyKind}
	m.Emitter = lanes.NewEmitter(m, k, int(c.bytes/4), 4)
	m.Open(nil)
	tile, end := m.General(), m.General()
	m.Nest(n, tile, end)
	r := toyRoutine{m, tile, end, byte(len(c.routines))}
	c.routines = append(c.routines, r)
	return r
}

// toyKernel is a kernel that a toy runs.
type toyKernel struct {
	*lanes.Kernel
	compiler *toyCompiler
	params   []*loop.Param
}

// Run places the operands far from each other, and runs the routines.
func (k *toyKernel) Run(a *target.Args, begin, end int64, scratch []byte) (err error) {
	defer func() {
		if fault, ok := recover().(error); ok {
			err = fmt.Errorf("kernel @%s: %w", k.Name(), fault)
		}
	}()
	regions := []region{{at: toyFrame, bytes: scratch}}
	words := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(scratch))), k.Fixed/8)
	for i, o := range a.Operands {
		at := int64(i+1) << 40
		regions = append(regions, region{at, unsafe.Slice((*byte)(o.Base), o.Bytes), k.params[i].Access == loop.Read})
		words[k.First+i] = at
	}
	return k.RunBy(words, toyFrame, a, begin, end, nil, func(_ unsafe.Pointer, _ *lanes.Kernel, n *lanes.Nest, begin,
		end int64, _ bool) int64 {
		return k.compiler.routines[n.Code[0]].run(&state{regions: regions}, begin, end)
	})
}

// run runs a routine for some tiles, and returns its status.
func (r toyRoutine) run(s *state, begin, end int64) int64 {
	s.general = make([]int64, r.count[regalloc.General]+1)
	s.masks = make([][]bool, r.count[regalloc.Mask]+1)
	s.vectors = make([][]byte, r.registers)
	for n := range s.vectors {
		s.vectors[n] = make([]byte, r.bytes)
	}
	s.set(r.Frame(), toyFrame)
	s.set(r.begin, begin)
	s.set(r.end, end)
	labels := map[regalloc.Label]int{}
	for at, in := range r.code {
		if in.label != 0 {
			labels[in.label] = at
		}
	}
	for at := 0; ; at++ {
		if r.code[at].do == nil {
			continue
		}
		switch to := r.code[at].do(s); to {
		case 0:
		case ended:
			return s.status
		default:
			at = labels[to]
		}
	}
}

// bits returns the bits of an element in memory, and put writes them.
func bits(dt dtype.DType, b []byte) uint64 {
	var all [8]byte
	copy(all[:], b[:dt.Bits()/8])
	return binary.LittleEndian.Uint64(all[:])
}

func put(dt dtype.DType, b []byte, v uint64) {
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], v)
	copy(b[:dt.Bits()/8], all[:])
}
