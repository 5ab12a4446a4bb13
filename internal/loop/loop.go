// Package loop is the language of how a model is computed: kernels of loops over buffers, and the order they run in.
//
// A Module holds the buffers between kernels, the kernels, and a Body of Steps (launches, host operators, branches,
// loops). A Kernel is a nest of loops over named buffers: scalars are immutable Lets, mutable Vars, and Checks, which
// check an integer value against a range and make it usable in indices. Indices, extents and sizes are symbolic
// integers over the module's dimensions, the loop variables and the bound names in scope. Lowering writes `each`
// loops, whose iterations are independent; scheduling turns them into parallel, vector and serial ones.
package loop

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Module is a whole computation.
type Module struct {
	Name    string
	Dims    *sym.Dims             // the inputs' dimensions, and those that steps bind
	Limits  map[sym.Name]sym.Expr // upper bounds of the dimensions that steps bind, over those of the inputs
	Origins map[sym.Name]string   // what gives the dimensions that were made their values, in words
	// conditions on dimensions: checked at entry, or where the step binds that comes last among those that bind them
	Requires []Require
	Buffers  []*Buffer
	Kernels  []*Kernel
	Body     []Step
}

// Require is a condition that a run must meet, and where it comes from: in words, and, where it is about one tensor,
// that one's name.
type Require struct {
	Cond   sym.Cond
	From   string
	Tensor string
}

// BufferKind says who owns a buffer's storage.
type BufferKind uint8

// The kinds of buffer.
const (
	Temp   BufferKind = iota // planned in the arena
	Input                    // lent by the caller
	Output                   // handed to the caller
	Weight                   // constant, lives with the program
	Spill                    // in a file of the run's own: copies write and read it, nothing else
)

// Buffer is a tensor in memory, row-major unless it is a view.
type Buffer struct {
	Name  string
	Kind  BufferKind
	DType dtype.DType
	Shape []sym.Expr
	View  *View          // not nil: a part of another buffer, with no storage of its own
	Data  *tensor.Tensor // a Weight's contents
	Paged bool           // of a Weight: it stays in a file, and copies bring it into memory where it is used
	// Elements names the dimensions that the elements of a small integer Input are; nil if they are none.
	Elements []sym.Name
	// Source is the model's own name for the tensor.
	Source string
	// Reserved: a Temp of bytes (u8, one axis, no view) that the model's own text lays out. Only what lies in it is an
	// operand.
	Reserved bool
	// State is the Input that an Output replaces, where it lies; nil if it lies elsewhere. To the steps they are two
	// buffers.
	State *Buffer
	// Device names the device in whose memory a Temp or a Weight lies; "" is the host's. A view lies where what it views
	// does.
	Device string
}

// View places a buffer inside another: element (i, j, …) lies at Offset + i·Strides[0] + j·Strides[1] + … elements of
// Of. Strides nil means row-major. In a Reserved buffer lie buffers of any type: Offset counts elements of theirs.
type View struct {
	Of      *Buffer
	Offset  sym.Expr
	Strides []sym.Expr
}

// Step is one thing that happens in a run.
type Step interface{ step() }

// Launch runs a kernel over buffers, one for each of its parameters. A buffer may be passed under another shape of the
// same number of elements where both are row-major, or where the parameter's strides find the same elements in the same
// order.
type Launch struct {
	Kernel *Kernel
	Args   []*Buffer
	Source string // the model's nodes that it computes, comma separated
	Device string // that runs it, and in whose memory its operands lie; "" is the host
}

// Host runs a host operator (see package hostop) on whole tensors. Results whose extents data decide bind those
// dimensions.
type Host struct {
	Op      string
	Attrs   map[string]any // as ir.Attrs, after evaluation of nothing: symbolic values stay symbolic
	In, Out []*Buffer
	Source  string
}

// Bind reads integer element At of From and makes it the value of a dimension; outside the dimension's range is the
// user's fault. With From nil, the dimension's value is Value.
type Bind struct {
	Dim   sym.Name
	From  *Buffer
	At    int64
	Value sym.Expr
	// Source is the model's node that needs the value.
	Source string
}

// If runs one of two bodies. Cond is one bool element. Results are written by each body into the same buffers.
type If struct {
	Cond       *Buffer
	Then, Else []Step
	Source     string
}

// Loop runs Body while Cond (nil: always) holds, at most Trip (nil: no limit but the dimension's range) times. Index,
// an i64 scalar, holds the iteration's number while the body runs. Count, where not empty, names the dimension that is
// bound to the number of iterations begun while the body runs, so that the iteration's own row has a place, and to that
// of all of them behind the loop.
type Loop struct {
	Trip, Cond, Index *Buffer
	Count             sym.Name
	Body              []Step
	Source            string
}

// Copy copies a whole buffer, or with Pick some of its rows. Both have the same element type and, of a whole one,
// number of elements. A whole one may be copied from one device's memory to another's, where both are row-major.
type Copy struct {
	To, From *Buffer
	Pick     *Pick
}

// Pick chooses the rows of From that are copied: for each of Index's integers, in order, the row of that number, which
// To has behind Index's own axes. The axes that From has before a row's number its rows, of which there are Rows:
// negative numbers count from them. A number outside is the user's fault.
type Pick struct {
	Index *Buffer
	Rows  int64
	// Source is the model's node that gathers.
	Source string
}

// Of is what numbers the rows that are copied; nil if all are.
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

// The kinds of access. Write means that every element is written, and none read before it was. Work is the kernel's own
// while it runs, as a Local is, and all workers share it: no element is read before it was written, and what is in it
// afterwards is undefined.
const (
	Read Access = iota
	Write
	Update
	Work
)

// Kernel is one loop nest (or several, in order) over its parameters. Dims are the dimensions that it mentions, in the
// order of the argument block. Work is the arithmetic of its results, of which the loops may do more: for padding, for
// weights that stand for none, for an algorithm's own; 0 if the loops do nothing else.
type Kernel struct {
	Name   string
	Params []*Param
	Dims   []sym.Name
	Body   []Stmt
	Source string
	Work   sym.Expr
}

// Param is a formal buffer. Strides are in elements; nil means row-major.
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
	Each   LoopKind = iota // independent of one another, any order: what lowering writes, and scheduling refines
	Serial                 // in order
	// independent; outermost parallel loops form the kernel's tiles, as do those directly inside the serial loop of a
	// Course
	Parallel
	Vector // independent; run as strips of lanes. Bounds of loops inside do not depend on Var
	Block  // independent; each iteration is a block of threads, which share its Shared locals
	Thread // independent; spread over the threads of the block around the loop
)

// For runs Body for Var = 0 … Extent−1. A negative extent runs nothing.
type For struct {
	Kind   LoopKind
	Var    sym.Name
	Extent sym.Expr
	Body   []Stmt
}

// Let names a value.
type Let struct {
	Name string
	X    Expr
}

// Check names an integer value for use in indices. A value outside [Min, Max] ends the run with the user's fault,
// naming What, before anything is read or written with it. Guard says that Prove put it there, for an access that is
// not proved.
type Check struct {
	Name     sym.Name
	X        Expr
	Min, Max sym.Expr
	What     string
	Guard    bool
}

// Var declares a mutable scalar, of X's type, with its first value.
type Var struct {
	Name string
	X    Expr
}

// Set gives a scalar a new value.
type Set struct {
	Name string
	X    Expr
}

// Reduce combines a scalar with a value: Name = Op(Name, X). The order of combination is free but fixed by the shape.
type Reduce struct {
	Name string
	Op   BinaryOp
	X    Expr
}

// Store writes one element; with Mask (a bool), only if it is true.
type Store struct {
	To    string
	Index []sym.Expr
	X     Expr
	Mask  Expr
}

// When runs Then where Cond (uniform over the lanes of a vector loop around it) is true, Else where not.
type When struct {
	Cond       Expr
	Then, Else []Stmt
}

// Local declares a buffer of the kernel's own, for the rest of the enclosing body, in the worker's scratch. Its
// contents are undefined until written. Its shape is over dimensions only.
type Local struct {
	Name  string
	DType dtype.DType
	Shape []sym.Expr
	Space Space
}

// Space says whose a local is.
type Space uint8

// The spaces.
const (
	Own    Space = iota // the worker's
	Shared              // the block's (see Block), for all its threads
)

// Contract adds a product of tiles: C[m, n] += Σ_k A[m, k] × B[k, n] for m < M, n < N, k < K, in C's element type
// (integers wrap; f16 and bf16 operands are widened, and one of bytes beside one of floats, in f32; C is f32, f64, i32,
// i64 or an unsigned one). It stands for a register-tiled micro-kernel, an AMX tile or a tensor core.
type Contract struct {
	M, N, K sym.Expr
	C, A, B Tile
}

// Tile is a matrix inside a buffer: element (r, c) is the buffer's element at Origin + r·Row + c·Col, index by index.
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

// Expr is a scalar value (a lane's, inside a vector loop).
type Expr interface{ DType() dtype.DType }

// Const is a number; Bits holds its representation in Type, zero-extended.
type Const struct {
	Type dtype.DType
	Bits uint64
}

// Ref is a Let's or Var's value.
type Ref struct {
	Name string
	Type dtype.DType
}

// Index is a symbolic integer as an i64 value.
type Index struct{ X sym.Expr }

// Load reads one element. With Mask (a bool), it is read only where Mask holds; elsewhere the value is Else.
type Load struct {
	From  string
	Index []sym.Expr
	Type  dtype.DType
	Mask  Expr
	Else  Expr
}

// Unary, Binary and Select compute; Cast converts as ONNX's Cast does (see dtype.ConvertSlice).
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

// Select is X where Cond holds, Y elsewhere; both are evaluated.
type Select struct{ Cond, X, Y Expr }

// Cast converts X to Type. Wrap: floats out of a float8 type's range become infinity or NaN instead of the largest
// value.
type Cast struct {
	Type dtype.DType
	X    Expr
	Wrap bool
}

// DType is the element type of the value.
func (e *Const) DType() dtype.DType { return e.Type }

// DType is the element type of the value.
func (e *Ref) DType() dtype.DType { return e.Type }

// DType is i64.
func (e *Index) DType() dtype.DType { return dtype.I64 }

// DType is the element type of the buffer.
func (e *Load) DType() dtype.DType { return e.Type }

// DType is the operand's, or bool for a test.
func (e *Unary) DType() dtype.DType {
	if e.Op.Test() {
		return dtype.Bool
	}
	return e.X.DType()
}

// DType is the operands', or bool for a comparison.
func (e *Binary) DType() dtype.DType {
	if e.Op.Test() {
		return dtype.Bool
	}
	return e.X.DType()
}

// DType is the choices'.
func (e *Select) DType() dtype.DType { return e.X.DType() }

// DType is what X is converted to.
func (e *Cast) DType() dtype.DType { return e.Type }
