package blocks

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// ID is a value, a variable or a type in the code of a language. 0 is none.
type ID uint32

// Language writes the instructions of a kernel. Values have the types of Held: comparisons and masks are bools.
// Instructions are written in the order of the calls; a call may return the result of an earlier instruction.
// A language calls Refuse if the machine cannot run a kernel.
type Language interface {
	// Begin begins an entry, and Finish ends it. Words returns the code of all entries.
	Begin()
	Finish(e *target.Entry)
	Words() []uint32

	// When writes a branch; otherwise may be nil. Loop writes a loop: before each iteration condition is computed, and
	// inside and then next run while it holds. Barrier waits for all threads of the block, which then see one another's
	// earlier writes to shared memory and buffers.
	When(condition ID, then, otherwise func())
	Loop(condition func() ID, inside, next func())
	Barrier()

	// Thread is the thread's number in its block, and Block the column (0) and the row (1) of the block in the grid: see
	// target.RowBlocks.
	Thread() ID
	Block(axis uint32) ID
	// Step is the number of the step, of an entry that runs in steps: see target.Binary.
	Step() ID
	// Subgroup is the number of the thread's subgroup in its block, and Lane the thread's number in its subgroup. Further
	// returns the value x of the thread whose lane is greater by lanes; it is undefined if there is none.
	Subgroup() ID
	Lane() ID
	Further(dt dtype.DType, x ID, lanes int64) ID
	// Argument loads the i-th word of the argument block (see target.Binary) as an address; Word converts one that is a
	// dimension to an integer. Address returns an address plus an offset in bytes.
	Argument(i int) ID
	Word(argument ID, wide bool) ID
	Address(base ID, offset Integer) ID

	// Held is the type of values of an element type, and IntegerType that of an Integer.
	Held(dt dtype.DType) ID
	IntegerType(wide bool) ID
	// Variable declares a variable of a thread; Get reads it and Set writes it.
	Variable(typ ID) ID
	Get(variable, typ ID) ID
	Set(variable, x ID)
	// Private declares an array variable of a thread, and Shared one of a block, which has elements of as many bits as
	// target.Machine.SharedBits says.
	Private(dt dtype.DType, count int64) ID
	Shared(dt dtype.DType, count int64) ID
	// Load reads the element at an offset in elements, and Store writes it. LoadIf reads it if a mask holds, and else the
	// first element.
	Load(m *Memory, offset sym.Expr) ID
	LoadIf(m *Memory, offset sym.Expr, mask ID) ID
	Store(m *Memory, offset sym.Expr, x ID)

	// Number, Bool and Const are constants. Zero is the zero of a type, or its least value if it has none.
	Number(v int64, wide bool) ID
	Bool(b bool) ID
	Const(c *loop.Const) Value
	Zero(dt dtype.DType) ID
	// Arithmetic computes with two integers of one width, and Compare compares them with their signs. Resize changes an
	// integer's width.
	Arithmetic(op Operation, wide bool, x, y ID) ID
	Compare(op Operation, x, y ID) ID
	Resize(x ID, wide bool) ID
	// Choose returns x if a condition holds, and else y; Or is true if one of two bools is.
	Choose(typ, condition, x, y ID) ID
	Or(x, y ID) ID

	// Unary, Binary and Cast are the functions of package loop. With clamped, values beyond the greatest of a float of at
	// most 8 bits become the greatest.
	Unary(op loop.UnaryOp, x Value) Value
	Binary(op loop.BinaryOp, x, y Value) Value
	Cast(to dtype.DType, x Value, clamped bool) ID
	// Quantise returns the integer of q for x, which is f32.
	Quantise(q loop.Quantised, x ID) ID
	// MultiplyAdd returns x·y + z; floats may be rounded once or twice.
	MultiplyAdd(dt dtype.DType, x, y, z ID) ID

	// MatrixType is the type of matrices that the threads of a subgroup share. LoadMatrix loads one from shared memory, at
	// an offset in elements, and StoreMatrix stores one of sums. MultiplyMatrices returns sums + left · right. All threads
	// of a subgroup run them.
	MatrixType(use MatrixUse, x target.Matrix) ID
	LoadMatrix(use MatrixUse, x target.Matrix, m *Memory, offset sym.Expr, lines Lines) ID
	StoreMatrix(m *Memory, offset sym.Expr, lines Lines, sums ID)
	MultiplyMatrices(x target.Matrix, left, right, sums ID) ID

	// Signed returns an integer value as an Integer with a sign; beyond is a bool, whether the value is too large for it.
	// Report writes the launch's report, at an address, of a value that failed a check, unless another thread did before.
	Signed(x Value) (v Integer, beyond ID)
	Report(at ID, check int, x Value, low, high Integer)
}

// MatrixUse is the place of a matrix in a product.
type MatrixUse uint32

// The places: Rows × Steps, Steps × Columns, and Rows × Columns of target.Matrix.
const (
	MatrixLeft MatrixUse = iota
	MatrixRight
	MatrixSums
)

// Operation is an operation on integers that hold sizes and offsets.
type Operation int

// The operations. Quotient and Remainder divide x ≥ 0 by y > 0; Divide rounds toward 0.
const (
	Add Operation = iota
	Subtract
	Multiply
	Quotient
	Remainder
	Divide
	Less
	Greater
	Unequal
)
