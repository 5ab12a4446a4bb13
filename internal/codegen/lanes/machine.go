// Package lanes emits kernels in lanes of vectors, for any machine with vector registers.
//
// A kernel's nests become routines: a loop over tiles, inside it the kernel's loops. A vector loop runs in strips of
// as many lanes as 32-bit numbers fit a vector; the last iterations are done with masks, or one after the other. Code
// outside vector loops computes with the same instructions, on vectors whose lanes are all equal. Integers of indices
// live in general registers, and are computed in the outermost scope in which all their operands are known. Kernels,
// or types of elements, that a machine has no code for are left to package portable.
//
// This package decides what is computed where. What takes instructions it asks of a Machine, by registers, addresses
// and labels of package regalloc.
package lanes

import (
	"unsafe"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
)

// Machine is a machine's instructions, as the emitter of a nest uses them. A method changes no register but those that
// it is said to change; of the registers that methods return, only those of General, Number, CopyOf, NewVector,
// LoadBits, AddressOf and LaneWord may be changed.
type Machine interface {
	Scalars
	Vectors
	Access
	Tiles
}

// Scalars is a machine's list of instructions, its integers of 64 bits in general registers, and its jumps.
type Scalars interface {
	// Code returns the instructions so far. SetCode replaces them, by those that come before the next one. AppendCode
	// emits instructions, whose list must not be used after it.
	Code() Code
	SetCode(c Code)
	AppendCode(c Code)

	// General returns a new register, Number one with a number, and Times x·v.
	General() regalloc.Reg
	Number(v int64) regalloc.Reg
	SetNumber(r regalloc.Reg, v int64)
	Times(x regalloc.Reg, v int64) regalloc.Reg
	// Integer changes x to x op y; IntegerNumber has a number for y. ShiftDown divides x by 2ⁿ, rounding down;
	// ShiftNatural does so for x as an unsigned number.
	Integer(op Operation, x, y regalloc.Reg)
	IntegerNumber(op Operation, x regalloc.Reg, v int64)
	ShiftDown(x regalloc.Reg, n int64)
	ShiftNatural(x regalloc.Reg, n int64)
	// DivideNatural returns x/y, or the remainder, for an x of 0 or more, and Divided both. DivideDown takes any x: the
	// quotient is rounded down, and the remainder has y's sign. y is 1 or more.
	DivideNatural(x, y regalloc.Reg, remainder bool) regalloc.Reg
	Divided(x, y regalloc.Reg) (quotient, remainder regalloc.Reg)
	DivideDown(x, y regalloc.Reg, remainder bool) regalloc.Reg
	// Divide is Div, Rem or FloorMod of any x and y, signed or not: by 0 the result is 0, and the least integer divided
	// by −1 is itself, without a remainder. An x of narrower type is extended.
	Divide(op loop.BinaryOp, signed bool, x, y regalloc.Reg) regalloc.Reg
	// Unique returns a number that grows with each general register.
	Unique() int

	// CopyOf returns a new register with the value of another, of any class. Assign changes a register to it, and
	// AssignIf does so if a condition on the last comparison holds.
	CopyOf(x regalloc.Reg) regalloc.Reg
	Assign(to, x regalloc.Reg)
	AssignIf(c Condition, to, x regalloc.Reg)

	// Frame is the register with the frame's address. Scales reports whether an address may scale its index by v.
	// AddressOf returns an address as an integer. LoadWord and StoreWord move integers of 64 bits; LoadBits and
	// StoreBits the low 8, 16, 32 or 64 bits of one, extended by zeros.
	Frame() regalloc.Reg
	Scales(v int64) bool
	AddressOf(at regalloc.Mem) regalloc.Reg
	LoadWord(at regalloc.Mem) regalloc.Reg
	StoreWord(at regalloc.Mem, x regalloc.Reg)
	LoadBits(bits int, at regalloc.Mem) regalloc.Reg
	StoreBits(bits int, at regalloc.Mem, x regalloc.Reg)

	// Label returns a new label, and Bind binds it to the next instruction.
	Label() regalloc.Label
	Bind(l regalloc.Label)
	// Comparisons, whose result holds until the next instruction other than AssignIf and jumps.
	CompareNumbers(x, y regalloc.Reg)
	CompareNumber(x regalloc.Reg, v int64)
	CompareZero(x regalloc.Reg)
	Jump(to regalloc.Label)
	JumpIf(c Condition, to regalloc.Label)
	// Turns binds the label at which a loop begins again, with the number of its iterations: at most most of them, or
	// exactly. counter moves by multiples of by each time. WholeTurns is Turns for exactly n iterations without a pause.
	Turns(l regalloc.Label, most int64, exact bool, counter regalloc.Reg, by int64)
	WholeTurns(l regalloc.Label, n int64)
	// Return ends the routine with a status.
	Return(status int64)
}

// Compiler makes the code of kernels, for one goroutine.
type Compiler interface {
	// Routine emits a nest of a kernel: a loop over tiles around the nest's body.
	Routine(k *KernelEmitter, n loop.Nest) Routine
	// Processor returns what runs the code.
	Processor() Processor
}

// Processor runs the code of kernels.
type Processor interface {
	// VectorBytes is the size of a vector register, to which the frame's spilled values are aligned.
	VectorBytes() int64
	// PauseCode returns the routine that saves all registers in the header of a frame and returns paused, and, from the
	// offset resume on, the one that loads them and continues. HeaderBytes is the size of that header.
	PauseCode() (code []byte, resume int)
	HeaderBytes() int64
	// Call calls code, and returns its status.
	Call(entry uintptr, frame unsafe.Pointer, begin, end int64) (status int64)
}

// Routine is the code of a nest whose registers are not allocated yet.
type Routine interface {
	// Finish returns the machine code. The frame's bytes from spill on are for spilled values; frame is the end of the
	// used ones. tile is the greatest cost of a tile; 0 if the code pauses. longest is the greatest cost between two
	// points at which it may return.
	Finish(spill int32) (code []byte, frame int32, tile, longest int64)
}

// Operation is an operation on two integers of 64 bits in general registers.
type Operation uint8

// The operations.
const (
	Add      Operation = iota
	Subtract           // compares x and y as well
	Multiply
	And
)

// Condition is a condition on the last comparison of integers.
type Condition uint8

// The conditions.
const (
	Equal Condition = iota
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
)

// Code is a list of instructions of a machine, which alone looks into it; nil if there are none.
type Code any
