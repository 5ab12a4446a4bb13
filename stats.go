package weir

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/pprof"
)

// Stats are a program's counters, for metrics. All but Active and Bytes only grow.
type Stats struct {
	Runs   int64 // runs that succeeded
	Errors int64 // runs that returned an error, whether or not they had begun
	Waits  int64 // runs that found all calls in use; Waited is the sum of their waits
	Waited time.Duration
	// Busy is the sum of the runs' durations. Its growth divided by elapsed time is the mean number of concurrent runs.
	Busy   time.Duration
	Active int // calls that are running, bound to a Call, or have results that are not closed
	Calls  int // the most that Active may be
	// Bytes is the memory held now: weights, code, and the arenas, outputs and scratch of all calls, also of idle ones.
	Bytes int64
}

// Stats returns the program's counters. Any goroutine may call it at any time.
func (p *Program) Stats() Stats {
	c := &p.session.Counts
	active, calls := p.session.Active()
	s := Stats{Runs: c.Runs.Load(), Errors: c.Errors.Load(), Waits: c.Waits.Load(),
		Waited: time.Duration(c.Waiting.Load()), Busy: time.Duration(c.Running.Load()), Active: active, Calls: calls}
	for _, h := range p.holdings() {
		s.Bytes += h.Bytes
	}
	return s
}

// holdings returns the blocks that the program holds: those of its calls from the ledger, and those that all calls
// share from the certificate. It is empty once the program is closed.
func (p *Program) holdings() []mem.Holding {
	list, made, open := p.session.Holdings()
	if !open {
		return list
	}
	for _, shared := range []mem.Holding{{Kind: mem.Weights, Label: "weights"}, {Kind: mem.Code, Label: "code"}} {
		size := p.memory.Weights
		if shared.Kind == mem.Code {
			size = p.memory.Code
		}
		if shared.Bytes, _ = size.At(nil); shared.Bytes > 0 {
			shared.Stack = made
			list = append(list, shared)
		}
	}
	return list
}

// WriteHeapProfile writes the memory that the program holds outside Go's heap, by the user's source lines, in the
// format of `go tool pprof`: weights and code at the line that compiled the program; arenas, outputs and scratch of
// each call at the line whose run first made it. Sample types are inuse_objects and inuse_space; the labels kind (a
// term of the certificate) and tensor separate blocks of one line: `go tool pprof -tagfocus kind=arena`.
func (p *Program) WriteHeapProfile(w io.Writer) (err error) {
	defer diag.Recover(&err, "writing a memory profile")
	return writeHeapProfile(w, p.holdings())
}

// WriteHeapProfile writes all memory that the process holds through this package outside Go's heap, in the format of
// Program.WriteHeapProfile: programs, tensors of New, and mapped files.
func WriteHeapProfile(w io.Writer) (err error) {
	defer diag.Recover(&err, "writing a memory profile")
	return writeHeapProfile(w, mem.Holdings(nil))
}

// writeHeapProfile writes a list of blocks as a profile.
func writeHeapProfile(w io.Writer, list []mem.Holding) error {
	var samples []pprof.Sample
	for _, h := range list {
		stack := h.Stack
		if len(stack) == 0 {
			stack = []runtime.Frame{{Function: "unknown"}}
		}
		s := pprof.Sample{Stack: stack, Values: []int64{1, h.Bytes}, Labels: map[string]string{"kind": h.Kind.String()}}
		if h.Label != "" {
			s.Labels["tensor"] = h.Label
		}
		samples = append(samples, s)
	}
	err := pprof.Write(w, []pprof.Type{{Name: "inuse_objects", Unit: "count"}, {Name: "inuse_space", Unit: "bytes"}},
		samples)
	if err != nil {
		return fmt.Errorf("the memory profile: %w", err)
	}
	return nil
}
