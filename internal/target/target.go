// Package target describes machines to the rooms that must not know one another: what a machine has (Machine), how a
// compiled kernel is called (Kernel, Args), and the opaque handle under which a program carries its code (Code).
package target

import (
	"unsafe"

	"github.com/weirml/weir/internal/sym"
)

// Machine is what scheduling and code generation may ask about where the code will run.
type Machine struct {
	Name            string   // "portable", "reference", "amd64", …
	Arch            string   // GOARCH
	CPU             string   // the level of features that its code needs: see Select
	Features        []string // the instruction-set features that its code may use, sorted
	VectorBytes     int      // width of a vector register, or of what stands for one
	VectorRegisters int      // how many there are; 0 where code has none
	Tile            Tile     // the best register tile for products of f32; zero where code has no registers
	Cache           [3]int64 // bytes of L1d, L2, L3 (0: not known)
	ScratchMax      int64    // most scratch bytes that one worker may be given
	Threads         int      // workers that a run may use
}

// Tile is a register tile of a product: the rows and columns of sums that are held in registers while their products are added up.
type Tile struct{ Rows, Columns int64 }

// Operand is a kernel's buffer argument: where it begins and the bytes that it covers. A kernel touches nothing else.
type Operand struct {
	Base  unsafe.Pointer
	Bytes int64
}

// Args is the argument block of a launch.
type Args struct {
	Operands []Operand
	Dims     []int64
}

// Kernel is compiled code for one loop kernel. It is safe for concurrent use on disjoint tile ranges with distinct scratch.
type Kernel interface {
	// Name is the loop kernel's.
	Name() string
	// Tiles is the number of independent pieces of work for these dimensions; 0 when there is nothing to do.
	Tiles(dims []int64) (int64, error)
	// TilesFormula is that number, over the kernel's dimensions.
	TilesFormula() sym.Expr
	// ScratchFormula is the number of bytes one worker needs while it runs this kernel, over the kernel's dimensions.
	ScratchFormula() sym.Expr
	// Scratch is ScratchFormula's value for these dimensions.
	Scratch(dims []int64) (int64, error)
	// Run does tiles [begin, end). scratch has at least Scratch bytes, 64-byte aligned, contents undefined. An error is a
	// value that failed its check (*diag.Error); nothing outside the operands was touched.
	Run(a *Args, begin, end int64, scratch []byte) error
}

// Code is the kernels of one program, in the order in which the program numbers them, and the bytes of executable memory they hold.
type Code struct {
	Machine Machine
	Kernels []Kernel
	Bytes   int64
	Release func() error // frees executable memory; nil where there is none
	Left    []Left       // kernels that the machine's generator had no code for, and a more general one made
}

// Left is a kernel that a generator has no code for, and the reason.
type Left struct {
	Kernel, Reason string
	Fault          error // where a bug of ours is the reason
}
