// Package program is the language of what happens to memory in a run: storages, tensors carved from them, launches,
// copies, releases. A compiled model is saved as a program, and the executor follows it.
//
// Every size and offset is a symbolic integer over the program's dimensions and its Lets. A Tensor is an argument, a
// weight, a carve of a storage, or a view of another tensor; Steps name tensors by their index in Program.Tensors.
package program

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Program is one compiled function.
type Program struct {
	Name     string
	Dims     []Dim // the order of Args.Dims of every launch that lists them
	Requires []Require
	Inputs   []Port
	Outputs  []Port
	Weights  []Weight
	Storages []Storage
	Plans    []Plan // at least one; the first whose conditions all hold is used
	Tensors  []Tensor
	Kernels  []string // names, in the order of the code that comes with the program
	Streams  []Stream
	Events   []string // names of the events of Record and Wait steps
	Steps    []Step
	// Operators are the model's operators by the Source of steps, for errors. The text leaves them out.
	Operators diag.Operators
}

// Stream is a queue of work beside the program's own order. Steps name the program's own order as stream 0, in which
// each step is done before the next begins, and Streams[i−1] as stream i. Work on a stream begins after all earlier
// steps of stream 0 and all earlier work of the stream.
type Stream struct {
	Name   string
	Device string // as a Storage's
}

// Dim is a named dimension. Bind steps, host operators and loops give a Data dimension its value during the run.
// Storage is planned at its Limit, an expression over the inputs' dimensions, so no data can raise the peak. A
// dimension with Limit sym.Unlimited has no bound before it has its value: memory that depends on it lies in late
// storage.
type Dim struct {
	Name  sym.Name
	Range sym.Range
	Data  bool     // decided by data, during the run
	Limit sym.Expr // for a Data dimension

	// Origin says in words which operator gives the dimension its value, if the compiler made it; "" if the model named
	// it.
	Origin string
}

// Require is a condition that a run must meet. From says in words where it comes from; Tensor names the tensor that it
// is about, if there is one. A condition on the inputs' dimensions is checked at entry.
type Require struct {
	Cond   sym.Cond
	From   string
	Tensor string
}

// Ownership says who owns an argument's storage after the run.
type Ownership uint8

// The kinds of ownership.
const (
	Borrow Ownership = iota // lent for the run: the program reads it and does not write to it
	State                   // an input that an output overwrites in place
)

// Port is an input or an output: its name, the tensor that holds it, and the tensor's ownership. Elements lists the
// dimensions (indices in Program.Dims) whose values are the elements of a small integer input; nil if it has none.
// Gives lists the output tensors that may lie in an input's storage, best first, if a run donates it: each is first
// written after the input's last read, or by a step that may write over the input.
type Port struct {
	Name      string
	Tensor    int
	Ownership Ownership
	Device    string // of a state, as a Storage's: the caller gives memory of that device
	Elements  []int
	Gives     []int
}

// Weight is constant data of the program: the tensor that names it, and its bytes. A Paged weight stays in a file: only
// copies read it, and it takes no weight memory. A weight with a Device is copied into that device's memory when the
// program is loaded.
type Weight struct {
	Name   string
	Tensor int
	Data   []byte
	Paged  bool
	Device string // as a Storage's
}

// StorageKind says which term of the peak a storage belongs to.
type StorageKind uint8

// The kinds of storage.
const (
	Arena   StorageKind = iota // working memory of one call
	Results                    // the outputs of one call
	Spill                      // a file of one call's own, no memory: only copies reach it
)

// Storage is a block of memory that a call owns. Size is its size in bytes over the dimensions and the chosen plan's
// Lets; the block exists when the run begins. A Take step allocates late storage: its size may depend on every
// dimension and on Lets of its own, but not on a plan's. A call keeps late storage for its next run and enlarges it if
// that run needs more.
type Storage struct {
	Name   string
	Kind   StorageKind
	Device string // "" is the device that the program runs on
	Align  int64
	Size   sym.Expr
	Late   bool
	Lets   []Let // of late storage, for its size and the offsets in it: each over dimensions and earlier ones
}

// Plan gives the offsets for bindings that meet its conditions. All plans define the same names, each from dimensions
// and earlier names only. A data dimension stands for its limit here.
type Plan struct {
	When []sym.Cond
	Lets []Let
}

// Let names a derived integer.
type Let struct {
	Name sym.Name
	X    sym.Expr
}

// StorageClass says which memory a tensor's bytes are in.
type StorageClass uint8

// The storage classes.
const (
	Argument StorageClass = iota // an input, given by the caller
	Constant                     // a weight
	Carved                       // in storage Of, from byte Offset
	View                         // in tensor Of, from byte Offset; "part of" in the text
)

// Tensor is a typed view of memory. Strides are in elements; nil means row-major.
type Tensor struct {
	Name    string
	DType   dtype.DType
	Shape   []sym.Expr
	Strides []sym.Expr
	Class   StorageClass
	Of      int
	Offset  sym.Expr
	Source  string // the model's own name for it
	// Reserved marks bytes that the model lays out itself: all of them are in use while they are carved.
	Reserved bool
}

// Step is one operation of a program.
type Step interface{ step() }

// Carve begins the live range of a Carved tensor; Release ends it. Between the two, no other live tensor shares its
// bytes, except those in Over: the carve may overlap them, and the first step that writes it destroys their contents.
// That step may still read them.
type Carve struct {
	Tensor int
	Over   []int
}

// Release ends the live ranges of carved tensors.
type Release struct{ Tensors []int }

// Take resizes late storage to the dimensions' current values. Its contents are lost. No dimension that its size
// depends on may change while it is in use. A Host step takes the late storage of a result by itself, after it has
// computed the result's shape, if the result is alone in that storage.
type Take struct{ Storage int }

// Launch runs a kernel: its operands, and the dimensions of its argument block by index in Program.Dims.
type Launch struct {
	Kernel int
	Args   []int
	Writes []bool // beside Args: the kernel writes it
	Dims   []int
	Stream int
	Source string
}

// Host runs a host operator on entire tensors.
type Host struct {
	Op      string
	Attrs   map[string]any
	In, Out []int // −1 for an absent input
	Source  string
}

// Bind gives a Data dimension its value: element At of integer tensor From; if From is −1, the value of Value.
type Bind struct {
	Dim    int
	From   int
	At     int64
	Value  sym.Expr
	Source string
}

// If runs Then if the only element of bool tensor Cond is true, else Else.
type If struct {
	Cond       int
	Then, Else []Step
	Source     string
}

// Loop runs Body while tensor Cond (−1: always) is true, at most as many times as tensor Trip says (−1: no limit).
// Index (−1: none) is an i64 tensor that receives the iteration's number. Count (−1: none) is a Data dimension that
// counts the iterations begun.
type Loop struct {
	Trip, Cond, Index, Count int
	Body                     []Step
	Source                   string
}

// Copy copies all elements of From, or with Pick some of its rows, to To, between devices too.
type Copy struct {
	To, From, Stream int
	Pick             *Pick
}

// Pick selects rows of From by the integers of tensor Index. To's axes are Index's axes followed by a row's axes;
// From's axes before a row's number Rows rows. Negative indices count from the end. An index out of range is an input
// error.
type Pick struct {
	Index  int
	Rows   int64
	Source string
}

// Of returns the index tensor; −1 if p is nil and all rows are copied.
func (p *Pick) Of() int {
	if p == nil {
		return -1
	}
	return p.Index
}

// Record makes Event the point that Stream has reached.
type Record struct{ Event, Stream int }

// Wait holds Stream until the work before Event's last Record is done.
type Wait struct{ Event, Stream int }

func (*Carve) step()   {}
func (*Release) step() {}
func (*Take) step()    {}
func (*Launch) step()  {}
func (*Host) step()    {}
func (*Bind) step()    {}
func (*If) step()      {}
func (*Loop) step()    {}
func (*Copy) step()    {}
func (*Record) step()  {}
func (*Wait) step()    {}

// Bytes returns the tensor's size in bytes, from its first element to its last; 0 if it has no elements.
func (t *Tensor) Bytes() sym.Expr {
	count := sym.Product(t.Shape...)
	if t.Strides != nil {
		count = sym.Const(1)
		some := sym.Const(1)
		for axis, extent := range t.Shape {
			count = count.Add(extent.Sub(sym.Const(1)).Mul(t.Strides[axis]))
			some = some.Mul(extent.Min(sym.Const(1)))
		}
		count = count.Mul(some)
	}
	bits := int64(t.DType.Bits())
	if bits%8 == 0 {
		return count.Mul(sym.Const(bits / 8))
	}
	return count.Mul(sym.Const(bits)).CeilDiv(sym.Const(8))
}
