package weir

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/mem"
)

// Saving is one change that Options.Budget or Options.DeviceBudget made to the plan, and its cost. Its Kind is one of:
//
//   - "chunk": the operators from Tensor to At run in Pieces pieces;
//   - "batch": as chunk, for all operators over the batch, in Loops loops over its examples; sums over the batch then
//     add up in another order than without a budget;
//   - "recompute": the tensor is computed again when it is needed again;
//   - "spill": the tensor is written to a file of the run and read back;
//   - "page": a weight stays in its file and is read when it is used: of a lookup table the rows that a run needs, at
//     most Rows; for a product in Pieces pieces, one after the other; otherwise in one piece;
//   - "direct": a device computes all convolutions directly, not by Winograd's algorithms, which saves Bytes of its
//     memory.
type Saving struct {
	Kind   string `json:"kind"`
	Tensor string `json:"tensor"`
	At     string `json:"at"`    // the last node of a chunk or batch; else the first node that needs the tensor again
	Bytes  int64  `json:"bytes"` // the bytes that the change keeps out of memory
	// Operations and Moved are the additional cost of each run: arithmetic operations, and bytes to and from files.
	Operations int64 `json:"operations"`
	Moved      int64 `json:"moved"`
	// For a chunk or a batch: the number of pieces, of rows or examples in all, of operators, and Operations as a share
	// of the operators' arithmetic in one piece; for a batch also the number of loops. For a page: the pieces, and the
	// rows of a table.
	Pieces    int64   `json:"pieces,omitempty"`
	Rows      int64   `json:"rows,omitempty"`
	Operators int64   `json:"operators,omitempty"`
	Loops     int64   `json:"loops,omitempty"`
	Share     float64 `json:"share,omitempty"`
}

// String describes the change in one line.
func (s Saving) String() string {
	cost := fmt.Sprintf("%s to and from a file", mem.FormatBytes(s.Moved))
	more := ""
	if s.Operations > 0 {
		more = fmt.Sprintf(", %.1f%% more operations", 100*s.Share)
	}
	switch s.Kind {
	case "batch":
		return fmt.Sprintf("batch %s to %s (%s): %d examples of %d operators in %d pieces, in %d loops%s", s.Tensor, s.At,
			mem.FormatBytes(s.Bytes), s.Rows, s.Operators, s.Pieces, s.Loops, more)
	case "chunk":
		return fmt.Sprintf("chunk %s to %s (%s): %d rows of %d operators in %d pieces%s", s.Tensor, s.At,
			mem.FormatBytes(s.Bytes), s.Rows, s.Operators, s.Pieces, more)
	case "direct":
		return fmt.Sprintf("direct convolutions, not by Winograd's algorithms (%s of the device's memory)",
			mem.FormatBytes(s.Bytes))
	case "recompute":
		cost = fmt.Sprintf("%.1f MFLOP", float64(s.Operations)/1e6)
	}
	if s.Pieces > 0 {
		cost = fmt.Sprintf("in %d pieces, %s", s.Pieces, cost)
	}
	if s.Rows > 0 {
		cost = fmt.Sprintf("by rows, at most %d, %s", s.Rows, cost)
	}
	return fmt.Sprintf("%s %s (%s) until %s: %s", s.Kind, s.Tensor, mem.FormatBytes(s.Bytes), s.At, cost)
}

// Savings lists the changes that Options.Budget and Options.DeviceBudget made to the plan, in order; none if the
// program fits without changes. The changes by an artefact's own budget come first.
func (p *Program) Savings() []Saving {
	out := slices.Clone(p.saved)
	for _, s := range p.compiled.Saved.Savings {
		out = append(out, Saving{Kind: string(s.Kind), Tensor: s.Tensor, At: s.At, Bytes: s.Bytes, Operations: s.Operations,
			Moved: s.Moved, Pieces: s.Pieces, Rows: s.Rows, Operators: s.Nodes, Loops: s.Loops, Share: s.Share})
	}
	return out
}
