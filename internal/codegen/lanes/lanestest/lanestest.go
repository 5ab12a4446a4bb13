// Package lanestest has a machine of package lanes that is written in Go: each instruction is a function that changes
// registers. It defines what the methods of lanes.Scalars, lanes.Vectors and lanes.Access mean, is compared with the
// interpreter of package loop, and other machines are compared with it.
//
// What the methods leave open it answers in a way of its own, different from real machines: registers hold other
// numbers than 0 at first, numbers that do not fit become odd ones, and the word of a mask has several bits a lane. It
// ends the test if code reads a comparison that no longer holds, or memory that is not the kernel's.
package lanestest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// Machine describes a machine. It has no tiles of sums.
type Machine struct {
	Lanes int  // of 32 bits in a vector: a power of two, at least 4
	Most  bool // has all that the methods may report; else only what every machine must have
	// With, if not nil, returns a machine with methods of its own in the place of some of the model's.
	With func(m *Model) lanes.Machine
}

// machine returns the machine that emits by a model.
func (m Machine) machine(by *Model) lanes.Machine {
	if m.With == nil {
		return by
	}
	return m.With(by)
}

// Compile makes the kernels of a module. Those that lanes refuses are compiled by package portable, and left says why.
func (m Machine) Compile(module *loop.Module, machine target.Machine) (code *target.Code, left []string, err error) {
	code, err = portable.Compile(module, machine)
	if err != nil {
		return nil, nil, err
	}
	for i, k := range module.Kernels {
		c := &compiler{Machine: m}
		compiled, why := lanes.CompileOne(k, module, c)
		if why.Fault != nil {
			return nil, nil, why.Fault
		}
		if compiled == nil {
			left = append(left, why.Reason)
			continue
		}
		code.Kernels[i] = &Kernel{Kernel: compiled, source: k, routines: c.routines}
	}
	return code, left, nil
}

// Kernel is a kernel of the machine.
type Kernel struct {
	*lanes.Kernel
	source   *loop.Kernel
	routines []*routine
}

// poison is the bits of what is open.
const poison = 0xA5A5A5A5

// region is memory that code may read, and perhaps write, at an address of its own.
type region struct {
	address int64
	bytes   []byte
	write   bool
}

// Run does tiles [begin, end). Operands and scratch have addresses of their own, far from one another.
func (k *Kernel) Run(a *target.Args, begin, end int64, scratch []byte) error {
	const apart = 1 << 40
	memory := []region{{apart, scratch, true}}
	words := k.Frame(a, scratch)
	for i, o := range a.Operands {
		r := region{int64(i+2) * apart, unsafe.Slice((*byte)(o.Base), o.Bytes), k.source.Params[i].Access != loop.Read}
		memory, words[k.First+i] = append(memory, r), r.address
	}
	return k.RunBy(words, apart+int64(k.Header), a, begin, end, nil, func(_ unsafe.Pointer, _ *lanes.Kernel, n *lanes.Nest,
		begin, end int64, _ bool) (status int64) {
		return k.routines[binary.LittleEndian.Uint64(n.Code)].run(memory, apart+int64(k.Header), begin, end)
	})
}

// compiler makes code of one kernel.
type compiler struct {
	Machine
	routines []*routine
}

func (c *compiler) Processor() lanes.Processor { return c }

// VectorBytes is the size of a vector. Code never pauses.
func (c *compiler) VectorBytes() int64                   { return int64(4 * c.Lanes) }
func (c *compiler) PauseCode() (code []byte, resume int) { return nil, 0 }
func (c *compiler) HeaderBytes() int64                   { return 0 }
func (c *compiler) Call(uintptr, unsafe.Pointer, int64, int64) int64 {
	panic("lanestest: code is called by Run")
}

// Routine emits a nest: a loop over tiles.
func (c *compiler) Routine(k *lanes.KernelEmitter, n loop.Nest) lanes.Routine {
	m := NewModel(c.Machine)
	m.at = len(c.routines)
	c.routines = append(c.routines, m.routine)
	e := lanes.NewEmitter(c.machine(m), k, c.Lanes, 4)
	e.Open(nil)
	tile, end := m.General(), m.General()
	m.first, m.end = tile, end
	e.Nest(n, tile, end)
	return m
}

// Finish keeps the routine's instructions; its code is its number.
func (m *Model) Finish(spill int32) (code []byte, frame int32, tile, longest int64) {
	m.routine.code, m.routine.positions = m.code, map[regalloc.Label]int{}
	for i, in := range m.code {
		if in.label != 0 {
			m.positions[in.label] = i
		}
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(m.at)), spill, 1, 1
}

// routine is a nest's instructions, and what they need to run.
type routine struct {
	lanes      int
	code       []instruction
	positions  map[regalloc.Label]int
	registers  [regalloc.Classes]int // by class
	constants  map[string]regalloc.Reg
	pool       [][]byte
	first, end regalloc.Reg
}

// instruction changes the state. If it returns a label, the next instruction is there.
type instruction struct {
	do    func(s *state) (to regalloc.Label)
	label regalloc.Label // if not 0, of this position; do is nil
	keeps bool           // the last comparison holds after it as well
}

// state is the registers and the memory of a routine that runs.
type state struct {
	lanes    int
	general  []int64
	vectors  [][]uint32
	masks    [][]bool
	compared bool // a comparison holds
	order    int  // its result: −1, 0 or 1
	ended    bool
	status   int64
	frame    int64
	memory   []region
}

// poolAddress is the address of the pool's first constant; each has so many bytes for itself.
const poolAddress = -1 << 40

// run runs tiles, and returns the status.
func (r *routine) run(memory []region, frame, begin, end int64) (status int64) {
	s := &state{lanes: r.lanes, frame: frame, memory: slices.Clone(memory),
		general: make([]int64, r.registers[regalloc.General]),
		vectors: make([][]uint32, r.registers[regalloc.Vector]), masks: make([][]bool, r.registers[regalloc.Mask])}
	for i := range s.general {
		s.general[i] = poison << 20
	}
	for i := range s.vectors {
		s.vectors[i] = slices.Repeat([]uint32{poison}, r.lanes)
	}
	for i := range s.masks {
		s.masks[i] = slices.Repeat([]bool{true}, r.lanes)
	}
	for bytes, reg := range r.constants {
		for i := range r.lanes {
			s.vectors[reg.Number()][i] = binary.LittleEndian.Uint32([]byte(bytes[4*i:]))
		}
	}
	for i, bytes := range r.pool {
		s.memory = append(s.memory, region{poolAddress + int64(4*r.lanes*i), bytes, false})
	}
	s.general[r.first.Number()], s.general[r.end.Number()] = begin, end
	for at := 0; !s.ended; at++ {
		in := &r.code[at]
		if in.do == nil {
			continue
		}
		s.compared = s.compared && in.keeps
		if to := in.do(s); to != 0 {
			at = r.positions[to]
		}
	}
	return s.status
}

// bytes returns memory that an instruction reads or writes.
func (s *state) bytes(address int64, n int, write bool) []byte {
	for _, r := range s.memory {
		if from := address - r.address; from >= 0 && from+int64(n) <= int64(len(r.bytes)) && (r.write || !write) {
			return r.bytes[from : from+int64(n)]
		}
	}
	// A word at a multiple of its size may be read if a byte of it is the kernel's: it is in the same page.
	if n == 4 && address%4 == 0 && !write {
		word, found := []byte{0xA5, 0xA5, 0xA5, 0xA5}, false
		for i := range word {
			for _, r := range s.memory {
				if from := address + int64(i) - r.address; from >= 0 && from < int64(len(r.bytes)) {
					word[i], found = r.bytes[from], true
				}
			}
		}
		if found {
			return word
		}
	}
	panic(fmt.Sprintf("lanestest: %d bytes at %#x are not the kernel's (write: %v)", n, address, write))
}
