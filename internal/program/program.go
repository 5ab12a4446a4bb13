// Package program is the language of what happens to memory in a run: storages, tensors carved from them, launches,
// copies, releases. It is what a compiled model is saved as, and what the executor follows.
//
// Every size and offset is a symbolic integer over the program's dimensions and its Lets. A Tensor is a named place:
// an argument, a weight, or a carve of a storage; Steps name tensors by their index in Program.Tensors.
package program

import (
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
	Kernels  []string // names; the code comes beside the program, in this order
	Streams  []Stream
	Events   []string // names of what Record and Wait steps speak of
	Steps    []Step
}

// Stream is an order of work apart from the program's own. Stream 0 of a step is the program's own order, in which each
// step is done before the next begins; stream i is Streams[i−1]. Work given to a stream begins after what the program's
// own order did before it, and after the stream's earlier work.
type Stream struct {
	Name   string
	Device string // as a Storage's
}

// Dim is a named dimension. One that Bound steps give its value has a Limit, an expression over the dimensions of the
// inputs: storage is planned at the limits, so that the peak is never exceeded whatever data decide. Of one whose Limit
// is sym.Unlimited nothing is known before it has its value: what depends on it lies in late storage.
type Dim struct {
	Name  sym.Name
	Range sym.Range
	Data  bool     // decided by data, during the run
	Limit sym.Expr // for a Data dimension

	// Origin says in words what gives a dimension that the compiler made its value; "" if the model named it.
	Origin string
}

// Require is a condition that a run must meet, and where it comes from: in words, and, where it is about one tensor,
// that one's name. One on the inputs' dimensions is checked at entry.
type Require struct {
	Cond   sym.Cond
	From   string
	Tensor string
}

// Ownership says what becomes of an argument's storage.
type Ownership uint8

// The kinds of ownership.
const (
	Borrow Ownership = iota // lent for the run: the program reads it and does not write to it
	State                   // an input that an output replaces where it lies
)

// Port is an input or an output: a name, the tensor that holds it, and who owns it. Elements are the dimensions, by
// index in Program.Dims, that the elements of a small integer input are; nil if they are none. Gives are the tensors of
// outputs that may lie in an input's storage, where a run donates it, rather than in their own: they are first written
// when the input has been read, or by a step that may write them over it. The best are first.
type Port struct {
	Name      string
	Tensor    int
	Ownership Ownership
	Elements  []int
	Gives     []int
}

// Weight is constant data that lives with the program: the tensor that names it, and its bytes. One that is Paged is
// left in a file: only copies reach it, and it is no part of the memory that weights take. One with a Device is copied
// into that device's memory when the program is made ready, and lies there.
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

// Storage is a block of memory that a call owns. Size is in bytes, exact, over the dimensions and the chosen plan's
// Lets: it is there when the run begins. Late storage is there from a Take on, as large as the dimensions then say: it
// may depend on all of them, and on Lets of its own, but on no plan's. A call keeps it for its next run, and gives it
// more where that asks for more.
type Storage struct {
	Name   string
	Kind   StorageKind
	Device string // "" is the device that the program runs on
	Align  int64
	Size   sym.Expr
	Late   bool
	Lets   []Let // of late storage, for its size and the offsets in it: each over dimensions and earlier ones
}

// Plan gives the offsets for the bindings that meet its conditions. Every plan defines the same names, in an order in
// which each uses only dimensions and earlier names. Data dimensions stand for their limits here.
type Plan struct {
	When []sym.Cond
	Lets []Let
}

// Let names a derived integer.
type Let struct {
	Name sym.Name
	X    sym.Expr
}

// Place says where a tensor's bytes are.
type Place uint8

// The places.
const (
	Argument Place = iota // an input, given by the caller
	Constant              // a weight
	Carved                // in storage Of, from byte Offset
	Part                  // in tensor Of, from byte Offset
)

// Tensor is a typed place. Strides, in elements, is nil for row-major.
type Tensor struct {
	Name    string
	DType   dtype.DType
	Shape   []sym.Expr
	Strides []sym.Expr
	Place   Place
	Of      int
	Offset  sym.Expr
	Source  string // the model's own name for it
	// Reserved: bytes that the model's own text lays out. They are used whole while they are carved, whatever lies in
	// them.
	Reserved bool
}

// Step is one thing that happens.
type Step interface{ step() }

// Carve begins the life of a Carved tensor; Release ends it. Between the two its range belongs to it alone, but for the
// live tensors Over: it may lie on those, whose contents are lost with the step that first writes it. That step may
// still read them.
type Carve struct {
	Tensor int
	Over   []int
}

// Release ends carved tensors' lives.
type Release struct{ Tensors []int }

// Take makes late storage as large as the dimensions say now. All in it is lost, and none of the dimensions that it
// depends on may change while it is in use. A Host step takes by itself the late storage of a result that is alone
// there, when it has found the result's shape.
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

// Host runs a host operator on whole tensors.
type Host struct {
	Op      string
	Attrs   map[string]any
	In, Out []int // −1 for an absent input
	Source  string
}

// Bind gives a Data dimension its value: integer element At of tensor From, or with From −1 the value of Value.
type Bind struct {
	Dim    int
	From   int
	At     int64
	Value  sym.Expr
	Source string
}

// If runs one of two bodies by a bool tensor's one element.
type If struct {
	Cond       int
	Then, Else []Step
	Source     string
}

// Loop runs Body while tensor Cond (−1: always) is true, at most as often as tensor Trip (−1: no limit) says. Index
// (−1: none) is an i64 tensor that holds the iteration's number; Count (−1: none) is the Data dimension that holds the
// iterations begun.
type Loop struct {
	Trip, Cond, Index, Count int
	Body                     []Step
	Source                   string
}

// Copy copies a whole tensor, or with Pick some of its rows, across devices where they differ.
type Copy struct {
	To, From, Stream int
	Pick             *Pick
}

// Pick chooses the rows of From that are copied: for each of the integers of tensor Index, in order, the row of that
// number, which To has behind Index's own axes. The axes that From has before a row's number its rows, of which there
// are Rows: negative numbers count from them. A number outside is the user's fault.
type Pick struct {
	Index  int
	Rows   int64
	Source string
}

// Of is the tensor that numbers the rows; −1 if all are copied.
func (p *Pick) Of() int {
	if p == nil {
		return -1
	}
	return p.Index
}

// Record notes in Event how far Stream has come. Wait makes Stream go on only when what Event noted is done.
type Record struct{ Event, Stream int }

// Wait is Record's counterpart.
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

// Bytes is the tensor's size in memory: what its elements span from the first to the last, 0 when there are none.
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
