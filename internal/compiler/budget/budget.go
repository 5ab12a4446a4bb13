// Package budget searches for savings by which a compiled module keeps within a budget of bytes: computed in pieces, in
// pieces of the batch, again, spilled to a file, or paged from one. It changes the module's steps, and has its kernels
// made anew. What a module takes is estimated at the upper bounds of its dimensions, with plans as the compiler makes
// them.
package budget

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// Compilation is what a search changes: a module with its steps in order, and the code of its kernels.
type Compilation interface {
	Loop() *loop.Module // the module as it is now
	Code() *target.Code // of its kernels
	Remake() error      // makes the module anew of ir, and its code
	Regenerate() error  // makes the code of the module's kernels anew
}

// Budget is the most that a program may take: held + weights + code + calls × (arena + outputs + workers × scratch), at
// the upper bounds of the dimensions.
type Budget struct {
	Bytes          int64 // allowed
	Held           int64 // by the program besides, such as states of its own
	Calls, Workers int
}

// Saving is one change that a budget asked for, and what it costs.
type Saving struct {
	Kind   SavingKind
	Tensor string // the model's name if there is one
	At     string // the node before which it comes back
	Bytes  int64  // that no longer lie in memory in between
	// Operations and Moved are what each run does more: arithmetic, and bytes to and from files.
	Operations, Moved int64
	// Of a stretch and a batch: the pieces that it is computed in, the rows that these are of, its nodes, and the share of
	// its arithmetic that Operations adds. Of a batch: the loops over the pieces. Of a weight: the pieces that it is
	// brought in by, and the most rows of it that are.
	Pieces, Rows, Nodes, Loops int64
	Share                      float64
}

// SavingKind is how memory is saved.
type SavingKind string

// The kinds of saving, in the order in which they are tried.
const (
	ChunkUp SavingKind = "chunk" // computed in pieces, with what lies between there a piece at a time
	// all of the batch computed in pieces of it, with sums that grow from piece to piece
	BatchUp   SavingKind = "batch"
	Recompute SavingKind = "recompute" // computed again where it is needed again
	SpillOut  SavingKind = "spill"     // put into a file and fetched back
	PageIn    SavingKind = "page"      // a weight left in the file, brought in where it is used
)

// The numbers that decide which savings are tried and taken.
const (
	operationsPerSecond = 30e9 // of one core, and
	fileBytesPerSecond  = 1e9  // of a disk: they tell which of two savings costs less
	littleTime          = 0.05 // the share of a run's time that savings may add before another way is looked for

	mostChunkings = 3 // how often stretches are looked for to be computed in pieces: each time all kernels are made anew
	// the share of what the budget leaves that stretches are to keep within: what they take is estimated
	chunkMargin  = 0.9
	fullestShare = 2 // a step is among the fullest if as much is alive as at the fullest, divided by this

	// how often the whole is computed in other pieces of the batch: what it takes is estimated
	mostBatchings = 5
	leastBatching = mostBatchings - 2 // the try before which the pieces become the smallest

	mostExact   = 10 // results that may be computed again, up to which every choice among them is tried
	deepest     = 6  // steps in a row that are done again for one buffer, at most
	spillMoves  = 2  // how often each byte of a buffer that is spilled moves: out and back
	leastMargin = 64 // bytes less that are to be alive, if a plan takes more than what is alive

	leastPaged    = 1024 // bytes of the smallest weight that is worth leaving in a file
	partings      = 5    // how often the parts that weights are brought in by are made smaller, each time
	partingFactor = 4    // by this
	mostParts     = 64   // parts that a product is computed in for one weight: each is a copy and a launch

	mostBytes = math.MaxInt64 / 1024 // of one buffer: sums of them do not overflow
)

// Seconds is about how much longer a run takes.
func (s *Saving) Seconds() float64 {
	return float64(s.Operations)/operationsPerSecond + float64(s.Moved)/fileBytesPerSecond
}

// Over is the error of a budget that is not enough, where so many bytes may be.
func Over(least int64, format string, args ...any) *diag.Error {
	e := diag.New(diag.ErrBudget, format, args...).WithFix("a budget of %d bytes works", least)
	e.Budget = least
	return e
}
