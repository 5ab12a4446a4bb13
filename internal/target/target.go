// Package target has the types by which scheduling, code generation and devices communicate: the description of a
// machine (Machine), the interface of a compiled kernel (Kernel, Args), and the code of a program (Code).
package target

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/sym"
)

// Machine describes the machine on which code will run.
type Machine struct {
	Name        string   // "portable", "reference", "amd64", …
	Arch        string   // GOARCH
	CPU         string   // the level of features that code needs: see Select
	Features    []string // the instruction-set features that its code may use, sorted
	VectorBytes int      // width of a vector register, or of a vector in portable code
	Dot         Dot
	Tile        Tile // the best register tile for products of f32; zero if code uses no registers
	Threads     int  // the most workers of a run
	Limits      Limits
}

// Dot is the number of products of consecutive narrow elements that one instruction adds to a lane of 32 bits; 0 if
// code uses no registers, or there is no such instruction.
type Dot struct {
	Bytes int64 // of integers of 8 bits, without loss
	BF16  int64 `json:"Brains"` // of bf16, in f32, with subnormal numbers as zeros; artefacts keep the old key
}

// Limits are the resources of a machine for one kernel; 0 is unlimited or unknown. Scratch, Shared, Registers and the
// threads' limits are never exceeded; a kernel that exceeds others is slower.
type Limits struct {
	Scratch   int64 // bytes of a worker's locals
	Shared    int64 // bytes of a block's shared memory
	Registers int64 // vector registers; 0 also if code uses none
	Operands  int64 // operands whose addresses are in registers
	Values    int64 // values that a vector loop keeps at once
	L1, L2    int64 // bytes of a worker's own caches

	// Limits of machines of blocks; Invocations is 0 for others.
	Invocations int64 // threads of a block
	Subgroup    int64 // threads that run together; 1 if unknown
	Private     int64 // bytes of a thread's registers for sums and the elements that it multiplies
	Iterations  int64 // of all loops of a thread: some drivers end a loop after more; 0: unlimited
}

// Tight returns limits that most kernels exceed before scheduling, for tests.
func Tight(l Limits) Limits {
	l.Scratch, l.L1, l.L2, l.Operands, l.Values = 4<<10, 1<<10, 4<<10, 8, 12
	return l
}

// Tile is a register tile of a product: the rows and columns of sums that are held in registers while their products
// are added up.
type Tile struct{ Rows, Columns int64 }

// SumRegisters returns the number of vector registers of a product with a tile of sums: the sums, the operands of one
// step along the shorter side of the tile, and one for the operands along the longer side.
func SumRegisters(rows, vectors int64) int64 { return rows*vectors + min(rows, vectors) + 1 }

// HoldSums reports whether there are enough registers for a tile of sums.
func (l *Limits) HoldSums(rows, vectors int64) bool {
	return l.Registers == 0 || SumRegisters(rows, vectors) <= l.Registers
}

// Operand is the memory of a kernel's parameter. A kernel accesses no other memory but its scratch.
type Operand struct {
	Base  unsafe.Pointer
	Bytes int64
}

// Args is the argument block of a launch.
type Args struct {
	Operands []Operand
	Dims     []int64
	// Stop says when a run ends early, with ErrStopped.
	Stop Stop
}

// Stop says when a run ends early: soon after Done is closed, or at Deadline. It has a deadline because a timer that
// closes Done is late while all processors compute. The zero value never ends a run.
type Stop struct {
	Done     <-chan struct{}
	Deadline time.Time
}

// StopOf returns a Stop for the end of a context.
func StopOf(ctx context.Context) Stop {
	deadline, _ := ctx.Deadline()
	return Stop{Done: ctx.Done(), Deadline: deadline}
}

// Ended reports whether it is time to stop.
func (s *Stop) Ended() bool {
	select {
	case <-s.Done: // never if Done is nil
		return true
	default:
		return !s.Deadline.IsZero() && !time.Now().Before(s.Deadline)
	}
}

// ErrStopped is the error of a run that was stopped. Its results are incomplete.
var ErrStopped = errors.New("the launch was stopped")

// Kernel is compiled code for one loop kernel. It is safe for concurrent use on disjoint ranges of tiles with different
// scratch.
type Kernel interface {
	// Name returns the loop kernel's name.
	Name() string
	// Tiles returns the number of independent pieces of work for some dimensions; 0 if there is no work. It returns an
	// error if the kernel's integers may overflow 64 bits for these dimensions: the kernel must not run then.
	Tiles(dims []int64) (int64, error)
	// TilesFormula returns that number, over the kernel's dimensions.
	TilesFormula() sym.Expr
	// ScratchFormula returns the number of bytes that one worker needs while it runs the kernel, over its dimensions.
	ScratchFormula() sym.Expr
	// Scratch returns ScratchFormula's value for some dimensions.
	Scratch(dims []int64) (int64, error)
	// Needs sets bytes, which has an element for each operand, to the sizes that operands must have for some dimensions.
	Needs(dims, bytes []int64) error
	// Run runs tiles [begin, end). scratch has at least Scratch bytes, is 64-byte aligned, and has any contents. The error
	// is that of a value that failed its check (*diag.Error), or ErrStopped; also then, no memory but the operands was
	// written. Run checks Stop at least every few milliseconds, however long a tile takes, and Go's collector waits no
	// longer than that for it.
	Run(a *Args, begin, end int64, scratch []byte) error
}

// LeastShared is the least time of a launch that several workers of a host share: several times as long as it takes to
// hand tiles to another worker, whose results then lie in that worker's caches.
const LeastShared = 8 * time.Microsecond

// Course is the order of the tiles of a kernel that are not all independent. Tiles belong to stages, and are numbered
// in the order of stages. The tiles of a stage are independent, and begin after all those of earlier stages have ended.
type Course struct {
	Stages []int64 // the number of tiles of each stage
	// The stages from First to before End are repeated Steps times.
	First, End int
	Steps      int64
}

// Stepped is a kernel that may have a course. A run of all its tiles, or of some after all earlier ones, runs them in
// the order of their numbers.
type Stepped interface {
	// Course returns the kernel's course for some dimensions; nil if all tiles are independent.
	Course(dims []int64) (*Course, error)
}

// Code is the kernels of one program, in the program's order, and their executable memory.
type Code struct {
	Machine Machine
	Kernels []Kernel
	Bytes   int64        // of executable memory
	Place   func() error // takes executable memory, before the kernels run; nil if that is done, or none is needed
	Release func() error // frees executable memory; nil if there is none
	Held    func() int64 // returns the bytes of executable memory that the system counts; nil if there is none
	Left    []Left       // kernels that the machine's generator refused, and a more general one compiled
	Slower  []Left       // kernels of which some statements run more slowly than they were scheduled
}

// Left is a kernel that a generator refused, or of which some statements have no fast code, and the reason.
type Left struct {
	Kernel, Reason string
	Fault          error // if the reason is a bug
}
