// Package budget searches for savings that keep a compiled module within a budget of bytes: it computes results in
// pieces, or in pieces of the batch, recomputes them, spills them to a file, and pages weights from one. It changes the
// module's steps and can make its kernels again. It estimates the module's memory at the upper bounds of the
// dimensions, with the compiler's own planner.
package budget

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// Compilation is a module under search: its steps in order, and the code of its kernels.
type Compilation interface {
	Loop() *loop.Module // the module as it is now
	Code() *target.Code // of its kernels
	Remake() error      // makes the module and its code again from ir
	Regenerate() error  // generates the code of the module's kernels again
	Allowed() bool      // reports whether the module's steps may stay in their order
}

// Budget is the limit on a program's memory: held + weights + code + calls × (arena + outputs + workers × scratch), at
// the upper bounds of the dimensions.
type Budget struct {
	Bytes          int64 // the limit
	Held           int64 // bytes that the program holds besides, such as the first contents of its own states
	Calls, Workers int
}

// Saving is one change made to keep within a budget, and its cost.
type Saving struct {
	Kind   SavingKind
	Tensor string // the model's name if there is one
	At     string // the node before which the tensor is in memory again
	Bytes  int64  // bytes of memory that are free in between
	// Operations and Moved are the cost per run: additional arithmetic operations, and bytes moved to and from files.
	Operations, Moved int64
	// Pieces, Rows, Nodes, Loops and Share depend on the kind. For a chunk or a batch, Pieces is the number of pieces,
	// Rows their total rows, Nodes the number of nodes computed in pieces, and Share the part of their arithmetic that
	// Operations adds; Loops is the number of loops over a batch's pieces. For a paged weight, Pieces is the number of
	// pieces that it is read in, and Rows the most rows of it that are read at once.
	Pieces, Rows, Nodes, Loops int64
	Share                      float64
}

// SavingKind is a strategy to save memory.
type SavingKind string

// The kinds of saving.
const (
	ChunkUp SavingKind = "chunk" // a run of nodes is computed in pieces, with one piece of its intermediates live
	// the entire module is computed in pieces of the batch, with sums accumulated over the pieces
	BatchUp   SavingKind = "batch"
	Recompute SavingKind = "recompute" // a result is computed again before a later use
	SpillOut  SavingKind = "spill"     // a result is written to a file and read back
	PageIn    SavingKind = "page"      // a weight stays in its file and is read before each use
)

// The numbers that decide which savings are tried and taken.
const (
	operationsPerSecond  = 30e9   // of one core
	memoryBytesPerSecond = 20e9   // of one core
	fileBytesPerSecond   = 1e9    // of a disk
	launchSeconds        = 200e-9 // of a launch or copy, besides its work
	littleTime           = 0.05   // the share of a run's time that savings may add before another strategy is tried

	mostChunkings = 3 // the most rounds of chunking: each makes all kernels again
	// the share of the remaining budget that chunked nodes may take, because their size is estimated
	chunkMargin  = 0.9
	fullestShare = 2 // a step is among the fullest if its live bytes are at least the peak divided by this

	// the most sizes of batch pieces that are tried, because their bytes are estimated
	mostBatchings = 5
	leastBatching = mostBatchings - 2 // the try before which the pieces become the smallest

	mostChoices = 10 // the most results of which every set is tried for recomputing
	deepest     = 6  // the longest chain of steps that is recomputed for one buffer
	spillMoves  = 2  // the times that a spilled byte moves: out and back
	leastMargin = 64 // the least step by which live bytes are lowered further if a plan takes more than they do

	leastPaged     = 1024 // bytes of the smallest weight that is paged
	mostReductions = 5    // the most times that pages are made smaller
	pageReduction  = 4    // the factor by which they are then smaller
	mostPieces     = 64   // the most pieces of one weight: each is a copy and a launch

	mostTimes = 1 << 20 // the most iterations of a loop for which the bytes that a saving moves are counted

	mostBytes = math.MaxInt64 / 1024 // of one buffer: sums of them do not overflow
)

// Seconds estimates the time that the saving adds to a run.
func (s *Saving) Seconds() float64 {
	return float64(s.Operations)/operationsPerSecond + float64(s.Moved)/fileBytesPerSecond
}

// Over returns the error of a budget that is too small; least is a budget in bytes that works.
func Over(least int64, format string, args ...any) *diag.Error {
	e := diag.New(diag.ErrBudget, format, args...).WithFix("a budget of %d bytes works", least)
	e.Budget = least
	return e
}
