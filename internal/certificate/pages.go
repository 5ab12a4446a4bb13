package certificate

import (
	"math"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
)

// Asks are the bytes that a program requests from the system when it is compiled, in full pages, as a limit
// counts them.
type Asks struct {
	Compiler compiler.Asks
	Placed   int64 // weights and states in the program's own memory
	Files    sources.Mapped
}

// Compiling returns the peak of loading and compiling.
func (a Asks) Compiling() int64 {
	return max(a.Files.All, a.Compiler.Most,
		max(a.Files.Left, a.Files.Copies+a.Files.Pinned)+a.Compiler.Weights+a.Compiler.Kept+a.Compiler.Code+a.Placed)
}

// Held returns the bytes that the program holds without its calls.
func (a Asks) Held() int64 {
	return a.Compiler.Weights + a.Compiler.Paged + a.Compiler.Code + a.Placed + a.Files.Copies + a.Files.Views -
		a.Reclaimable()
}

// Reclaimable returns the bytes of mapped files that the system may take back at any time.
func (a Asks) Reclaimable() int64 {
	return a.Files.Views - a.Files.Pinned + a.Compiler.Paged - a.Compiler.Kept
}

// readingShare and mostReading bound the bytes of Reclaimable that are read at a time.
const (
	readingShare = 4
	mostReading  = 8 << 20
)

// Reading returns the bytes of Reclaimable that a limit counts all the same: the system cannot take pages back while it
// reads them ahead, and a container without room for them would end the process.
func (a Asks) Reading() int64 { return min(a.Reclaimable()/readingShare, mostReading) }

// CallPages are the bytes of full pages that one call requests.
type CallPages struct {
	Call      int64 // arena, outputs and scratch
	Heap      int64 // the most that a host function needs on Go's heap
	Arguments int64 // the arguments, if weir.New made them
}

// CallPagesOf returns the pages of a call with a number of workers. most returns the largest value of a formula. It is
// ErrInput if a term of calls such calls exceeds 64 bits.
func CallPagesOf(c *compiler.Compiled, workers, calls int, most func(sym.Expr) (int64, error)) (p CallPages,
	err error) {
	add := func(total *int64, count int64, x sym.Expr) {
		if err != nil {
			return
		}
		var v int64
		v, err = most(x)
		if v = mem.WholePages(v); err == nil && (v < 0 || v > (math.MaxInt64-*total)/max(1, count)/max(1, int64(calls))) {
			err = diag.Inputf("%s bytes are more than 64 bits count", x)
		}
		if err == nil {
			*total += count * v
		}
	}
	eachBlock(c, workers, func(count int64, x sym.Expr) { add(&p.Call, count, x) })
	for _, l := range c.Late {
		if l.Device == "" {
			add(&p.Call, 1, l.Plan.Arena)
		}
	}
	add(&p.Heap, 1, c.HostHeap())
	if err != nil {
		return p, err
	}
	return p, p.arguments(c.Program, most)
}

// eachBlock calls f with the size of each block of a call whose size does not depend on data, and the number of such
// blocks.
func eachBlock(c *compiler.Compiled, workers int, f func(count int64, size sym.Expr)) {
	f(1, c.Arena.Arena)
	for i := range c.Program.Storages {
		if s := &c.Program.Storages[i]; s.Kind == program.Results && !s.Late {
			f(1, s.Size)
		}
	}
	f(int64(workers), c.Scratch)
}

// arguments adds the pages of a call's arguments. Small ones come from the pool, which allocates larger blocks.
func (p *CallPages) arguments(prog *program.Program, most func(sym.Expr) (int64, error)) error {
	small := int64(0)
	for _, port := range prog.Inputs {
		v, err := most(prog.Tensors[port.Tensor].Bytes())
		switch {
		case err != nil:
			return err
		case mem.Pooled(v):
			small += v
		case v > math.MaxInt64/4-p.Arguments:
			return diag.Inputf("the arguments are more than 64 bits count")
		default:
			p.Arguments += mem.WholePages(v)
		}
	}
	p.Arguments += mem.PooledPages(small)
	return nil
}
