// Package target describes machines to the rooms that must not know one another: what a machine has (Machine), how a
// compiled kernel is called (Kernel, Args), and the opaque handle under which a program carries its code (Code).
package target

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/sym"
)

// Machine is what scheduling and code generation may ask about where the code will run.
type Machine struct {
	Name        string   // "portable", "reference", "amd64", …
	Arch        string   // GOARCH
	CPU         string   // the level of features that its code needs: see Select
	Features    []string // the instruction-set features that its code may use, sorted
	VectorBytes int      // width of a vector register, or of what stands for one
	Dot         Dot
	Tile        Tile // the best register tile for products of f32; zero if code has no registers
	Threads     int  // workers that a run may use
	Limits      Limits
}

// Dot is how many products of narrow elements, one after the other, a lane of 32 bits adds up at once; 0 if code has
// no registers, or no instruction for it.
type Dot struct {
	Bytes int64 // of integers of 8 bits, exactly
	BF16  int64 `json:"Brains"` // of bf16, in f32, with subnormal numbers as zeros; artefacts keep the old key
}

// Limits are how much one kernel may take of a machine; 0: as much as it likes, or nobody knows. What is beyond
// scratch, shared memory or registers is never tried; what is beyond the others takes more time.
type Limits struct {
	Scratch   int64 // bytes of a worker's locals
	Shared    int64 // bytes that the threads of a block share
	Registers int64 // of vectors; 0 also where code has none
	Operands  int64 // whose addresses are at hand
	Values    int64 // that a vector loop keeps at once
	L1, L2    int64 // bytes of the caches that a worker has to itself

	// Of machines of blocks; Invocations is 0 for others.
	Invocations int64 // threads of a block
	Subgroup    int64 // threads that go together; 1 if nobody knows
	Private     int64 // bytes of what a thread keeps in registers: sums, and the elements that it multiplies
	Iterations  int64 // of all loops of a thread: some drivers end a loop when there were more; 0: as many as it likes
}

// Tight are limits that few kernels keep within as they were written: for tests of what is done then.
func Tight(l Limits) Limits {
	l.Scratch, l.L1, l.L2, l.Operands, l.Values = 4<<10, 1<<10, 4<<10, 8, 12
	return l
}

// Tile is a register tile of a product: the rows and columns of sums that are held in registers while their products
// are added up.
type Tile struct{ Rows, Columns int64 }

// SumRegisters is the vector registers that a product takes for a tile of sums: the sums, what one step multiplies, of
// the rows' elements and the columns' vectors the fewer, and one that the others pass through.
func SumRegisters(rows, vectors int64) int64 { return rows*vectors + min(rows, vectors) + 1 }

// HoldSums reports whether the registers are enough for a tile of sums.
func (l *Limits) HoldSums(rows, vectors int64) bool {
	return l.Registers == 0 || SumRegisters(rows, vectors) <= l.Registers
}

// Operand is a kernel's buffer argument: where it begins and the bytes that it covers. A kernel touches nothing else.
type Operand struct {
	Base  unsafe.Pointer
	Bytes int64
}

// Args is the argument block of a launch.
type Args struct {
	Operands []Operand
	Dims     []int64
	// Stop ends a run of the kernel with ErrStopped.
	Stop Stop
}

// Stop says when a run ends early: soon after Done is closed, or at Deadline, since a timer that closes Done is late
// while all processors compute. The zero value never does.
type Stop struct {
	Done     <-chan struct{}
	Deadline time.Time
}

// StopOf is when a context ends.
func StopOf(ctx context.Context) Stop {
	deadline, _ := ctx.Deadline()
	return Stop{Done: ctx.Done(), Deadline: deadline}
}

// Ended reports whether it is time to stop.
func (s *Stop) Ended() bool {
	select {
	case <-s.Done: // never, if it is nil
		return true
	default:
		return !s.Deadline.IsZero() && !time.Now().Before(s.Deadline)
	}
}

// ErrStopped is the error of a run that was stopped. What it wrote is not whole.
var ErrStopped = errors.New("the launch was stopped")

// Kernel is compiled code for one loop kernel. It is safe for concurrent use on disjoint tile ranges with distinct
// scratch.
type Kernel interface {
	// Name is the loop kernel's.
	Name() string
	// Tiles is the number of independent pieces of work for these dimensions; 0 when there is nothing to do. It is an
	// error where the kernel's integers are not known to fit 64 bits for them: the kernel must not be run then.
	Tiles(dims []int64) (int64, error)
	// TilesFormula is that number, over the kernel's dimensions.
	TilesFormula() sym.Expr
	// ScratchFormula is the number of bytes one worker needs while it runs this kernel, over the kernel's dimensions.
	ScratchFormula() sym.Expr
	// Scratch is ScratchFormula's value for these dimensions.
	Scratch(dims []int64) (int64, error)
	// Needs puts into bytes, which has a place for each operand, how many bytes each must have for these dimensions.
	Needs(dims, bytes []int64) error
	// Run does tiles [begin, end). scratch has at least Scratch bytes, 64-byte aligned, contents undefined. An error is a
	// value that failed its check (*diag.Error), or ErrStopped; nothing outside the operands was touched. Run looks at
	// Stop every few milliseconds at most, however long a tile takes, and Go's collector need not wait longer than that
	// for it.
	Run(a *Args, begin, end int64, scratch []byte) error
}

// Course says in which order the tiles of a kernel must be done where not all of them are independent. They belong to
// stages, and are numbered as these follow one another: a stage's tiles are independent, and begin when all those
// before them have ended.
type Course struct {
	Stages []int64 // the number of tiles of each
	// Stages First up to and without End follow one another Steps times over.
	First, End int
	Steps      int64
}

// Stepped is a kernel that may have a course. A run of all its tiles, or of some after all those before them, does them
// in the order of their numbers.
type Stepped interface {
	// Course is the kernel's for these dimensions; nil if all tiles are independent.
	Course(dims []int64) (*Course, error)
}

// Code is the kernels of one program, in the order in which the program numbers them, and the bytes of executable
// memory they hold.
type Code struct {
	Machine Machine
	Kernels []Kernel
	Bytes   int64
	Release func() error // frees executable memory; nil if there is none
	Held    func() int64 // counts the bytes of executable memory, as the system has them; nil if there is none
	Left    []Left       // kernels that the machine's generator had no code for, and a more general one made
	Slower  []Left       // what of the machine's own kernels is done more slowly than they were scheduled to be
}

// Left is a kernel that a generator has no code for, or no fast code for a part of, and the reason.
type Left struct {
	Kernel, Reason string
	Fault          error // where a bug of ours is the reason
}
