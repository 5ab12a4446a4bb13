// Package loop is the language of how a model is computed: kernels of loops over buffers, and the order in which they
// run.
//
// A Module holds the buffers between kernels, the kernels, and a Body of Steps (launches, host operators, branches,
// loops). A Kernel is a nest of loops over named buffers. Its scalars are immutable Lets and mutable Vars; a Check
// tests that an integer value lies in a range and makes it usable in indices. Indices, extents and sizes are symbolic
// integers over the module's dimensions, the loop variables and the names of Checks in scope. Lowering writes `each`
// loops, whose iterations are independent; scheduling turns them into parallel, vector and serial loops.
package loop

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Module is a complete computation.
type Module struct {
	Name    string
	Dims    *sym.Dims             // the inputs' dimensions, and those that steps bind
	Limits  map[sym.Name]sym.Expr // upper bounds of the dimensions that steps bind, over those of the inputs
	Choices []sym.Choice          // of the dimensions that steps bind
	Origins map[sym.Name]string   // how each dimension that the compiler made gets its value, in words
	// Requires are conditions on dimensions. A condition is checked at entry if the inputs give all its dimensions,
	// else at the step that binds the last of them.
	Requires []Require
	Buffers  []*Buffer
	Kernels  []*Kernel
	Body     []Step
	// Operators are the model's operators by the Source of kernels and steps. The text leaves them out.
	Operators diag.Operators
}

// Decided returns what is known of the dimensions that steps bind.
func (m *Module) Decided() sym.Decided { return sym.Decided{Limits: m.Limits, Choices: m.Choices} }

// Require is a condition that a run must meet. From says in words where it comes from; Tensor names the tensor that it
// is about, if it is about one.
type Require struct {
	Cond   sym.Cond
	From   string
	Tensor string
}

// BufferKind says who owns a buffer's storage.
type BufferKind uint8

// The kinds of buffer.
const (
	Temp   BufferKind = iota // memory planned in the arena
	Input                    // memory lent by the caller
	Output                   // memory handed to the caller
	Weight                   // a constant, which lives with the program
	Spill                    // a file of the run; only copies read and write it
)

// Buffer is a tensor in memory, row-major unless it is a view.
type Buffer struct {
	Name  string
	Kind  BufferKind
	DType dtype.DType
	Shape []sym.Expr
	View  *View          // not nil if the buffer is a view of another: it has no storage of its own
	Data  *tensor.Tensor // a Weight's contents
	Paged bool           // of a Weight: it stays in a file, and copies bring it into memory before its uses
	// Elements names the dimensions that a small integer Input holds as its elements; nil if it holds none.
	Elements []sym.Name
	// Source is the model's name for the tensor.
	Source string
	// Reserved marks a Temp of bytes (u8, one axis, no view) that the model's program text lays out. Only its views are
	// operands.
	Reserved bool
	// State is the Input whose memory an Output replaces; nil if the Output has memory of its own. Steps see two
	// buffers.
	State *Buffer
	// Device names the device in whose memory a Temp or a Weight lies; "" is the host. A view lies in the memory of the
	// viewed buffer.
	Device string
}

// View places a buffer inside another: element (i, j, …) lies at Offset + i·Strides[0] + j·Strides[1] + … elements of
// Of. Strides nil means row-major. A Reserved buffer may hold views of any type: their Offset counts elements of the
// view's type.
type View struct {
	Of      *Buffer
	Offset  sym.Expr
	Strides []sym.Expr
}

// Step is one action of a run.
type Step interface{ step() }

// Launch runs a kernel over buffers, one for each of its parameters. A buffer may have another shape than its
// parameter, with the same number of elements, if both are row-major or if the parameter's strides find the same
// elements in the same order.
type Launch struct {
	Kernel *Kernel
	Args   []*Buffer
	Source string // the model's nodes that the kernel computes, separated by commas
	Device string // the device that runs the kernel and holds its operands; "" is the host
}

// Host runs a host operator (see package hostop) on entire tensors. It binds the dimensions of its results that depend
// on data.
type Host struct {
	Op      string
	Attrs   map[string]any // as ir.Attrs; symbolic values stay symbolic
	In, Out []*Buffer
	Source  string
}

// Bind makes integer element At of From the value of a dimension; a value outside the dimension's range is an input
// error. If From is nil, the dimension's value is Value.
type Bind struct {
	Dim   sym.Name
	From  *Buffer
	At    int64
	Value sym.Expr
	// Source is the model's node that needs the value.
	Source string
}

// If runs one of two bodies. Cond is one bool element. Both bodies write their results into the same buffers.
type If struct {
	Cond       *Buffer
	Then, Else []Step
	Source     string
}

// Loop runs Body while Cond holds (nil: always), at most Trip times (nil: no limit but the dimension's range). Index,
// an i64 scalar, holds the iteration's number while the body runs. Count, if not empty, names a dimension: in the body
// it is the number of iterations begun, so that the iteration's row has a position; after the loop it is the number of
// all iterations.
type Loop struct {
	Trip, Cond, Index *Buffer
	Count             sym.Name
	Body              []Step
	Source            string
}

// Copy copies an entire buffer or, with Pick, some of its rows. Both buffers have the same element type and, without
// Pick, the same number of elements. A copy without Pick may cross devices if both buffers are row-major.
type Copy struct {
	To, From *Buffer
	Pick     *Pick
}

// Pick chooses the rows of From that are copied: for each integer of Index, in order, the row of that number. The shape
// of To is Index's axes, then the axes of a row. The leading axes of From number its rows, of which there are Rows;
// negative numbers count from the end. A number out of range is an input error.
type Pick struct {
	Index *Buffer
	Rows  int64
	// Source is the model's node that gathers the rows.
	Source string
}

// Of returns the buffer of row numbers, or nil if all rows are copied.
func (p *Pick) Of() *Buffer {
	if p == nil {
		return nil
	}
	return p.Index
}

func (*Launch) step() {}
func (*Host) step()   {}
func (*Bind) step()   {}
func (*If) step()     {}
func (*Loop) step()   {}
func (*Copy) step()   {}

// Access says what a kernel does to a parameter.
type Access uint8

// The kinds of access. Write means that every element is written, and none is read before it is written. Work is
// scratch memory of the kernel that all workers share: no element is read before it is written, and its contents are
// undefined after the kernel.
const (
	Read Access = iota
	Write
	Update
	Work
)

// Kernel is one loop nest over its parameters, or several in order. Dims are the dimensions that it mentions, in the
// order of the argument block. Work counts the operations that its results need; 0 if the loops do no others. Loops may
// do more operations: for padding, for absent weights, or because of their algorithm.
type Kernel struct {
	Name    string
	Params  []*Param
	Dims    []sym.Name
	Body    []Stmt
	Source  string
	Work    sym.Expr
	Meaning *Meaning // nil if the kernel does not state it
}

// Meaning states what a kernel computes as a whole, so that a scheduler can replace its loops by others: an operator
// with its attributes, applied to the parameters that the kernel reads. Its results are the other parameters. Whoever
// changes the loops removes it.
type Meaning struct {
	Op    string
	Attrs map[string]any // as ir.Attrs, and MeantOperands; symbolic values stay symbolic
}

// MeantOperands is an attribute of a Meaning, if operands are absent or share a parameter: for each operand, the number
// of its parameter, or −1.
const MeantOperands = "operands"

// Param is a formal parameter, bound to a buffer at launch. Strides are in elements; nil means row-major.
type Param struct {
	Name    string
	Access  Access
	DType   dtype.DType
	Shape   []sym.Expr
	Strides []sym.Expr
}

// Stmt is a statement of a kernel.
type Stmt interface{ stmt() }

// LoopKind says how a loop's iterations may run.
type LoopKind uint8

// The kinds of loop.
const (
	Each   LoopKind = iota // independent, in any order: lowering writes it, and scheduling refines it
	Serial                 // in order
	// Parallel iterations are independent. Outermost parallel loops form the kernel's tiles, as do those directly
	// inside the serial loop of a Course.
	Parallel
	Vector // independent; runs as strips of lanes. Bounds of inner loops do not depend on Var
	Block  // independent; each iteration is a block of threads, which share its Shared locals
	Thread // independent; spread over the threads of the enclosing block
)

// For runs Body for Var = 0 … Extent−1. If Extent is negative, it runs nothing.
type For struct {
	Kind   LoopKind
	Var    sym.Name
	Extent sym.Expr
	Body   []Stmt
}

// Let names an immutable value.
type Let struct {
	Name string
	X    Expr
}

// Check names an integer value for use in indices. A value outside [Min, Max] ends the run with an input error that
// names What, before the value is used. Guard marks a Check that Prove added for an access that it could not prove.
type Check struct {
	Name     sym.Name
	X        Expr
	Min, Max sym.Expr
	What     string
	Guard    bool
}

// Var declares a mutable scalar of X's type, with X as its first value.
type Var struct {
	Name string
	X    Expr
}

// Set gives a scalar a new value.
type Set struct {
	Name string
	X    Expr
}

// Reduce combines a scalar with a value: Name = Op(Name, X). The order of combination is free, but depends on nothing
// but the shape.
type Reduce struct {
	Name string
	Op   BinaryOp
	X    Expr
}

// Store writes one element; with Mask (a bool), only if Mask is true.
type Store struct {
	To    string
	Index []sym.Expr
	X     Expr
	Mask  Expr
}

// When runs Then if Cond is true, else Else. Cond is uniform over the lanes of an enclosing vector loop.
type When struct {
	Cond       Expr
	Then, Else []Stmt
}

// Local declares a buffer in the worker's scratch, for the rest of the enclosing body. Its contents are undefined until
// written. Its shape depends on dimensions only.
type Local struct {
	Name  string
	DType dtype.DType
	Shape []sym.Expr
	Space Space
}

// Space says whether a worker or a block of threads owns a local.
type Space uint8

// The spaces.
const (
	Own    Space = iota // owned by the worker
	Shared              // owned by the block (see Block), for all its threads
)

// Contract adds a product of tiles: C[m, n] += Σ_k A[m, k] × B[k, n] for m < M, n < N, k < K, in C's element type.
// Integers wrap. Operands of f16 and bf16 are widened; a byte operand and a float operand are multiplied in f32. C is
// f32, f64, i32, i64 or an unsigned type. Code generators use a register-tiled micro-kernel, an AMX tile or, for a
// Contract of shared locals outside the Thread loops of a block, cooperative matrices, which add in any order.
type Contract struct {
	M, N, K sym.Expr
	C, A, B Tile
}

// Tile is a matrix inside a buffer: element (r, c) is the buffer's element at Origin + r·Row + c·Col, added index by
// index.
type Tile struct {
	Buffer           string
	Origin, Row, Col []sym.Expr
}

func (*For) stmt()      {}
func (*Let) stmt()      {}
func (*Check) stmt()    {}
func (*Var) stmt()      {}
func (*Set) stmt()      {}
func (*Reduce) stmt()   {}
func (*Store) stmt()    {}
func (*When) stmt()     {}
func (*Local) stmt()    {}
func (*Contract) stmt() {}

// Expr is a scalar value; inside a vector loop, the value of one lane.
type Expr interface{ DType() dtype.DType }

// Const is a number; Bits holds its representation in Type, zero-extended.
type Const struct {
	Type dtype.DType
	Bits uint64
}

// Ref is the value of a Let or a Var.
type Ref struct {
	Name string
	Type dtype.DType
}

// Index is a symbolic integer as an i64 value.
type Index struct{ X sym.Expr }

// Load reads one element. With Mask (a bool), it reads only if Mask holds; else the value is Else.
type Load struct {
	From  string
	Index []sym.Expr
	Type  dtype.DType
	Mask  Expr
	Else  Expr
}

// Unary applies a function of one operand.
type Unary struct {
	Op UnaryOp
	X  Expr
}

// Binary applies a two-operand function. Operands have the same type; comparisons yield bool, the rest the operands'
// type.
type Binary struct {
	Op   BinaryOp
	X, Y Expr
}

// Select is X if Cond holds, else Y; both are evaluated.
type Select struct{ Cond, X, Y Expr }

// Cast converts X to Type as ONNX's Cast does (see dtype.ConvertSlice). Wrap: floats out of a float8 type's range
// become infinity or NaN instead of the largest value.
type Cast struct {
	Type dtype.DType
	X    Expr
	Wrap bool
}

// DType returns the element type of the value.
func (e *Const) DType() dtype.DType { return e.Type }

// DType returns the element type of the value.
func (e *Ref) DType() dtype.DType { return e.Type }

// DType returns i64.
func (e *Index) DType() dtype.DType { return dtype.I64 }

// DType returns the element type of the buffer.
func (e *Load) DType() dtype.DType { return e.Type }

// DType returns the operand's type, or bool for a test.
func (e *Unary) DType() dtype.DType {
	if e.Op.Test() {
		return dtype.Bool
	}
	return e.X.DType()
}

// DType returns the operands' type, or bool for a comparison.
func (e *Binary) DType() dtype.DType {
	if e.Op.Test() {
		return dtype.Bool
	}
	return e.X.DType()
}

// DType returns the type of X and Y.
func (e *Select) DType() dtype.DType { return e.X.DType() }

// DType returns the type that X is converted to.
func (e *Cast) DType() dtype.DType { return e.Type }
