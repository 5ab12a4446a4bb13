package weir

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/mem"
)

// Saving is one change that Options.Budget or Options.DeviceBudget asked for, and what it costs. Its Kind is
// "chunk": what is computed from Tensor to At is computed in so many Pieces; "batch": so is all that depends on the
// batch, in Loops over its examples, and sums over the batch grow from piece to piece, in another order than without
// a budget; "recompute": the tensor is computed again where it is needed again; "spill": it is put into a file of
// the run's own and fetched back; "page": a weight is left in its file and brought into memory where it is used: of
// a table the rows that a run asks for, at most so many Rows; what a product reads in so many Pieces, one after the
// other; else all of it; "direct": a device computes all convolutions directly, not by Winograd's algorithms, and so
// many Bytes of its memory less are taken.
type Saving struct {
	Kind   string `json:"kind"`
	Tensor string `json:"tensor"`
	At     string `json:"at"`    // the node that it is back for, the first of them
	Bytes  int64  `json:"bytes"` // that do not lie in memory in between
	// Operations and Moved are what every run does more: arithmetic, and bytes to and from files.
	Operations int64 `json:"operations"`
	Moved      int64 `json:"moved"`
	// Of a chunk and a batch: the pieces, the rows or examples that they are of, the operators that are computed in
	// them, and Operations as a share of what those take in one piece. Of a batch: how many loops over the pieces
	// follow each other. Of a page: the pieces, and the rows of a table.
	Pieces    int64   `json:"pieces,omitempty"`
	Rows      int64   `json:"rows,omitempty"`
	Operators int64   `json:"operators,omitempty"`
	Loops     int64   `json:"loops,omitempty"`
	Share     float64 `json:"share,omitempty"`
}

// String says it in one line.
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

// Savings lists what Options.Budget and Options.DeviceBudget changed in the plan, in the order in which it was done;
// none if it fits by itself. What an artefact's own budget changed comes first.
func (p *Program) Savings() []Saving {
	out := slices.Clone(p.saved)
	for _, s := range p.compiled.Savings {
		out = append(out, Saving{Kind: string(s.Kind), Tensor: s.Tensor, At: s.At, Bytes: s.Bytes, Operations: s.Operations,
			Moved: s.Moved, Pieces: s.Pieces, Rows: s.Rows, Operators: s.Nodes, Loops: s.Loops, Share: s.Share})
	}
	return out
}

// mostEnough is how often a budget that a refusal names is tried, before the peak without a budget is named.
const mostEnough = 5

// enough is the error of a refused budget with one that works. What the compiler names is an estimate: how a model
// keeps within a budget depends on the budget. So the model is compiled within the number that is named, or within a
// greater one. If that ends with another error, no number is named.
func (m *Model) enough(ctx context.Context, o Options, refused error) error {
	var e *Error
	if !errors.As(refused, &e) || e.Budget <= 0 {
		return refused
	}
	first := e
	o.Logger, o.Stage, o.Tune = nil, nil, false
	for tries := 0; ; tries++ {
		if o.Budget = max(e.Budget, o.Budget+1); tries == mostEnough {
			o.Budget = 0
		}
		p, err := compileWith(ctx, m, o, compiler.Choices{})
		if err == nil {
			defer p.Close()
			if bytes, err := p.keptWithin(); err == nil {
				return first.Enough(bytes)
			}
			return first.Enough(0)
		}
		if !errors.As(err, &e) || e.Budget <= 0 {
			return errors.Join(first.Enough(0), err)
		}
	}
}

// keptWithin is the budget that the program was compiled within; without one, its peak.
func (p *Program) keptWithin() (int64, error) {
	if p.options.Budget > 0 {
		return p.options.Budget, nil
	}
	return p.memory.before(p.options.Calls).Max()
}
