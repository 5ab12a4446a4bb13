// Package lanes emits kernels in lanes of vectors, for any machine with vector registers.
//
// A kernel's nests become routines: a loop over tiles, inside it the kernel's loops. A vector loop runs in strips of as
// many lanes as 32-bit numbers fit a vector; the last iterations are done with masks, or one after the other. Code
// outside vector loops computes with the same instructions, on vectors whose lanes are all equal. Integers of indices
// live in general registers, and are computed in the outermost scope in which all their operands are known. Kernels, or
// types of elements, that a machine has no code for are left to package portable.
//
// This package decides what is computed where. What takes instructions it asks of a Machine, by registers, addresses
// and labels of package regalloc.
package lanes

import (
	"unsafe"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Machine is a machine's instructions, as the emitter of a nest uses them. A method changes no register but those that
// it is said to change; of the registers that methods return, only those of General, Number and CopyOf may be changed.
type Machine interface {
	Tiles

	// Code returns the instructions so far. SetCode replaces them, by those that come before the next one. AppendCode
	// emits instructions, whose list must not be used after it.
	Code() Code
	SetCode(c Code)
	AppendCode(c Code)

	// Integers of 64 bits in general registers. General returns a new register, Number one with a number, and Times x·v.
	General() regalloc.Reg
	Number(v int64) regalloc.Reg
	SetNumber(r regalloc.Reg, v int64)
	Times(x regalloc.Reg, v int64) regalloc.Reg
	// Integer changes x to x op y; IntegerNumber has a number for y. ShiftDown divides x by 2ⁿ, rounding down.
	Integer(op Operation, x, y regalloc.Reg)
	IntegerNumber(op Operation, x regalloc.Reg, v int64)
	ShiftDown(x regalloc.Reg, n int64)
	// DivideNatural returns x/y, or the remainder, for an x of 0 or more. DivideDown takes any x: the quotient is rounded
	// down, and the remainder has y's sign. y is 1 or more.
	DivideNatural(x, y regalloc.Reg, remainder bool) regalloc.Reg
	DivideDown(x, y regalloc.Reg, remainder bool) regalloc.Reg
	// Unique returns a number that grows with each general register.
	Unique() int

	// CopyOf returns a new register with the value of another, of any class. Assign changes a register to it, and AssignIf
	// does so if a condition on the last comparison holds.
	CopyOf(x regalloc.Reg) regalloc.Reg
	Assign(to, x regalloc.Reg)
	AssignIf(c Condition, to, x regalloc.Reg)

	// Frame is the register with the frame's address. LoadWord and StoreWord move integers of 64 bits. Scales reports
	// whether an address may scale its index by v.
	Frame() regalloc.Reg
	LoadWord(at regalloc.Mem) regalloc.Reg
	StoreWord(at regalloc.Mem, x regalloc.Reg)
	Scales(v int64) bool

	// Label returns a new label, and Bind binds it to the next instruction.
	Label() regalloc.Label
	Bind(l regalloc.Label)
	// Comparisons, whose result holds until the next instruction other than AssignIf and jumps.
	CompareNumbers(x, y regalloc.Reg)
	CompareNumber(x regalloc.Reg, v int64)
	CompareZero(x regalloc.Reg)
	Jump(to regalloc.Label)
	JumpIf(c Condition, to regalloc.Label)
	// JumpOnLane jumps if a lane of a mask is set, or is not.
	JumpOnLane(mask regalloc.Reg, lane int, set bool, to regalloc.Label)
	// Turns binds the label at which a loop begins again, with the number of its iterations: at most most of them, or
	// exactly. counter moves by multiples of by each time.
	Turns(l regalloc.Label, most int64, exact bool, counter regalloc.Reg, by int64)
	// Return ends the routine with a status.
	Return(status int64)

	// FirstLanes returns the mask of the lanes below count; 0 or less is none.
	FirstLanes(count regalloc.Reg) regalloc.Reg
	// Exchanged returns a vector whose groups of n lanes of 32 bits are exchanged with their neighbours.
	Exchanged(x regalloc.Reg, n int) regalloc.Reg
	// FourAcross adds up four vectors of f32 within each 128 bits: lane i of each 128 bits of the result has the sum of
	// vector i's. QuartersAcross adds up such parts of each vector, and puts the sums side by side.
	FourAcross(x [4]regalloc.Reg) regalloc.Reg
	QuartersAcross(x []regalloc.Reg) regalloc.Reg
	// AddProduct adds the products of two vectors of f32 or f64 to a sum; AddDot those of the bytes of each lane.
	AddProduct(dt dtype.DType, sum, x, y regalloc.Reg)
	AddDot(sum, x, y regalloc.Reg)

	// Values. Expression emits any expression that is not the name of a scalar, in the present scope.
	Expression(x loop.Expr) Value
	Constant(x *loop.Const) Value
	Combine(op loop.BinaryOp, x, y Value) Value
	// Choose returns x in the lanes in which cond holds, and y in the others.
	Choose(cond, x, y Value) Value
	// AcrossFlags combines the lanes of a mask, by and, or, min or max, into all of them.
	AcrossFlags(op loop.BinaryOp, v Value) Value
	// LaneSteps returns 0, step, 2·step, … in the lanes.
	LaneSteps(step sym.Expr, dt dtype.DType) Value
	// WholeNumber returns a uniform integer in a general register.
	WholeNumber(v Value) regalloc.Reg

	// Statements.
	Store(s *loop.Store)
	// CheckLanes is a check of a value that differs by lane.
	CheckLanes(s *loop.Check, v Value)
	// StripsMoved returns how many strips of a vector loop, which only moves or fills narrow elements, MoveRun does at
	// once; 0 if the loop does something else.
	StripsMoved(f *loop.For) int64
	MoveRun(s *loop.Store)
	// StoreTurned stores rows, of as many registers as there are lanes, as columns.
	StoreTurned(s *loop.Store, rows []regalloc.Reg)
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
