package weir

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/pprof"
)

// Stats are a program's counters, for metrics: they only grow, but for Active and Bytes.
type Stats struct {
	Runs   int64 // runs that gave results
	Errors int64 // runs that returned an error, whether or not they had begun
	Waits  int64 // runs that found all calls taken, and what they waited altogether
	Waited time.Duration
	// of all runs, the time between their beginning and end: over the time that has passed it is how many ran at once
	Busy   time.Duration
	Active int // calls that are running, bound to a Call, or have results that are not closed
	Calls  int // the most that Active may be
	// held now: weights, code, and the calls' arenas, outputs and scratch, with those that idle calls keep
	Bytes int64
}

// counts are Stats while they are counted.
type counts struct {
	runs, errors, waits, waiting, running atomic.Int64 // the last two in nanoseconds
}

// ended counts a run by its error, when it is deferred.
func (c *counts) ended(err *error) {
	if *err != nil {
		c.errors.Add(1)
	} else {
		c.runs.Add(1)
	}
}

func (c *counts) busy(begin time.Time) { c.running.Add(int64(time.Since(begin))) }

func (c *counts) waited(begin time.Time) {
	c.waits.Add(1)
	c.waiting.Add(int64(time.Since(begin)))
}

// Stats returns the program's counters. Any goroutine may ask, at any time.
func (p *Program) Stats() Stats {
	s := Stats{Runs: p.counts.runs.Load(), Errors: p.counts.errors.Load(), Waits: p.counts.waits.Load(),
		Waited: time.Duration(p.counts.waiting.Load()),
		Busy:   time.Duration(p.counts.running.Load()), Active: len(p.slots), Calls: cap(p.slots)}
	for _, h := range p.holdings() {
		s.Bytes += h.Bytes
	}
	return s
}

// holdings are what the program holds: the blocks of its calls as the ledger has them, and what all calls share as the
// certificate counts it. Nothing once it is closed.
func (p *Program) holdings() []mem.Holding {
	_, err := p.enter()
	if err != nil {
		return mem.Holdings(p.ledger)
	}
	defer p.engine.Leave()
	list := mem.Holdings(p.ledger)
	at := mem.Users(p.made[:])
	for _, shared := range []mem.Holding{{Kind: mem.Weights, Label: "weights"}, {Kind: mem.Code, Label: "code"}} {
		size := p.memory.Weights
		if shared.Kind == mem.Code {
			size = p.memory.Code
		}
		if shared.Bytes, _ = size.At(nil); shared.Bytes > 0 {
			shared.Stack = at
			list = append(list, shared)
		}
	}
	return list
}

// WriteHeapProfile writes what the program holds outside Go's heap, by the line of the user's that it is held for, in
// the format of `go tool pprof`: its weights and code under the line that compiled it, the arenas, outputs and scratch
// of its calls under the line whose run first took them. Values are inuse_objects and inuse_space; the labels kind (as
// in the certificate's sum) and tensor tell blocks of one line apart: `go tool pprof -tagfocus kind=arena`.
func (p *Program) WriteHeapProfile(w io.Writer) (err error) {
	defer diag.Recover(&err, "writing a memory profile")
	return writeHeapProfile(w, p.holdings())
}

// WriteHeapProfile writes what the whole process holds through this package outside Go's heap, as
// Program.WriteHeapProfile does for one program: all programs, tensors of New, and files that are mapped.
func WriteHeapProfile(w io.Writer) (err error) {
	defer diag.Recover(&err, "writing a memory profile")
	return writeHeapProfile(w, mem.Holdings(nil))
}

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
