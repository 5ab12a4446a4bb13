package weir

import (
	"context"
	"slices"

	"github.com/weirml/weir/internal/certificate"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
)

// SetLimit limits the memory that the process holds outside Go's heap, and returns the previous limit. The limit is in
// the bytes of Usage's Held: full pages, and Cached. It does not count pages that the system may take back at any time,
// which are those of mapped files, except for the weights that every run reads there. 0 is no limit.
// An allocation that would exceed it, after cached memory has been returned, is refused with an ErrMemory that names
// the limit. Existing allocations stay.
// Memory.Limit returns the bytes that a program needs: Compile refuses a program that does not fit.
func SetLimit(bytes int64) (before int64) { return mem.SetLimit(bytes) }

// Asked are the terms of Memory.LimitAt, in bytes of full pages.
type Asked struct {
	Compiling int64 // the peak of loading and compiling
	Weights   int64 // weights in the program's own memory
	// Files are the pages of files that stay mapped: weights in the model's file and its external data, and the program's
	// own file of weights that a budget pages.
	Files int64
	Paged int64 // the share of Files in the program's own file of paged weights
	// Reclaimable is the share of Files that no limit counts: weights of which a call copies parts into its arena when it
	// needs them. The system may take these pages back, and reads them again. Files in memory (tmpfs) have no share.
	Reclaimable int64
	// Reading is a quarter of Reclaimable, at most 8 MiB. The program does not hold it, and Total counts it all the
	// same: pages that the system is just reading cannot be taken back.
	Reading int64
	Code    int64
	Call    int64 // arena, outputs and scratch of one call
	// Heap is the most memory that host functions of one call take on Go's heap, without decoded pictures, whose size
	// depends on their contents.
	Heap      int64
	Arguments int64 // the arguments of one call, if made by New
	Calls     int
}

// PageFolder returns the folder for paged weights and spilled tensors of programs without Options.PageFolder: the
// folder for temporary files (TMPDIR). inMemory reports whether the system keeps files there in memory, so that they
// save nothing.
func PageFolder() (path string, inMemory bool) { return mem.Folder("") }

// PageFolder returns the folder for the program's paged weights and its calls' spilled tensors: Options.PageFolder, or
// the package's PageFolder. inMemory reports whether the system keeps files there in memory, so that they save nothing.
func (m *Memory) PageFolder() (path string, inMemory bool) {
	return mem.Folder(m.program.options.PageFolder)
}

// Total returns the limit that admits all terms.
func (a Asked) Total() int64 {
	return max(a.Compiling, a.Weights+a.Files-a.Reclaimable+a.Reading+a.Code+a.runs())
}

func (a Asked) runs() int64 {
	return int64(a.Calls) * (a.Call + a.Heap + a.Arguments)
}

// Limit returns the least argument for SetLimit with which a process that holds nothing else can load the model,
// compile the program, and have this number of calls active at the upper bounds of the dimensions, each with arguments
// made by New. The program never requests more, and with a byte less Compile refuses it. It is ErrInput if a dimension
// has no bound: see LimitAt. Tuning is not included.
func (m *Memory) Limit(calls int) (int64, error) {
	a, err := m.Asked(calls, nil)
	return a.Total(), err
}

// LimitAt is Limit for a binding of the dimensions; dimensions that are not in d are at their upper bounds.
func (m *Memory) LimitAt(calls int, d Dims) (int64, error) {
	a, err := m.Asked(calls, d)
	return a.Total(), err
}

// Asked returns the terms of LimitAt.
func (m *Memory) Asked(calls int, d Dims) (Asked, error) {
	p := m.program
	if err := p.labels.Check(d); err != nil {
		return Asked{}, err
	}
	at, c := &p.asks, &p.asks.Compiler
	a := Asked{Compiling: at.Compiling(), Weights: c.Weights + at.Placed + at.Files.Copies,
		Files: at.Files.Views + c.Paged, Paged: c.Paged, Code: c.Code, Calls: calls,
		Reclaimable: at.Reclaimable(), Reading: at.Reading()}
	pages, err := certificate.CallPagesOf(p.compiled, m.Workers, calls, func(x sym.Expr) (int64, error) {
		return m.most(x, d)
	})
	a.Call, a.Heap, a.Arguments = pages.Call, pages.Heap, pages.Arguments
	return a, err
}

// Call returns the bytes of full pages that a call for these dimensions takes when it is made: what an Account is asked
// for. It leaves out what data decide and host functions take on Go's heap, for which the run asks later, and does not
// look at the conditions of Program.Requires. It takes about a microsecond. d has a value for each dimension of
// Program.Dims; a missing or unknown one, or a value outside its range, is ErrInput.
func (m *Memory) Call(d Dims) (int64, error) {
	p := m.program
	var room [8]int64
	dims, used := room[:0], 0
	for i := range p.compiled.Program.Dims {
		dim := &p.compiled.Program.Dims[i]
		if dim.Data {
			dims = append(dims, 0)
			continue
		}
		v, ok := d[p.labels.Of[dim.Name]]
		if ok {
			used++
		} else if v = dim.Range.Min; dim.Range.Min != dim.Range.Max {
			return 0, diag.Inputf("dimension %s has no value", p.label(i)).AtDim(p.label(i)).
				WithFix("add Dims{%q: …}", p.label(i))
		}
		if v < dim.Range.Min || v > dim.Range.Max {
			return 0, p.compiled.Program.Outside(i, v)
		}
		dims = append(dims, v)
	}
	if used != len(d) {
		if err := p.labels.Check(d); err != nil {
			return 0, err
		}
	}
	if m.call == nil {
		return 0, diag.Unsupportedf("the bytes of a call whose sizes data decide together")
	}
	return m.call.Pages(dims)
}

// most returns a size for a binding of the dimensions; dimensions that are not in d are at their upper bounds.
func (m *Memory) most(x sym.Expr, d Dims) (int64, error) {
	bound := m.program.labels.Show(x).Subst(func(name sym.Name) (sym.Expr, bool) {
		v, ok := d[name.Text()]
		return sym.Const(v), ok
	})
	return Size{bound, m.Arena.dims}.Max()
}

// settle records the bytes that the program requests, and unmaps the parts of the model's files that it does not read.
// Its account gets back what only compiling took.
func (p *Program) settle(ctx context.Context, x *executor.Executable) error {
	var views [][]byte
	for _, w := range p.compiled.Program.Weights {
		views = append(views, w.Data)
	}
	if p.target == Reference { // its interpreter may read any constant of the model
		for _, b := range p.model.files.Blocks() {
			views = append(views, b.Bytes())
		}
	}
	var read [][]byte // weights that runs read from the mapping of the model's files
	for _, w := range p.compiled.Program.Weights {
		if w.Paged || !p.options.Private {
			read = append(read, w.Data)
		}
	}
	p.asks = certificate.Asks{Compiler: p.compiled.Asks(), Placed: x.Held() + p.session.OwnPages(),
		Files: p.model.files.Settle(p, views, p.pinned())}
	p.session.Watch(slices.DeleteFunc(slices.Clone(p.model.files.Blocks()), func(b *mem.Block) bool {
		return b.Kept(read) == 0
	}))
	return p.settled(ctx)
}

// pinned returns the weights that runs read from the mapping of the model's files and that are not paged.
func (p *Program) pinned() (list [][]byte) {
	for _, w := range p.compiled.Program.Weights {
		if !w.Paged && !p.options.Private {
			list = append(list, w.Data)
		}
	}
	return list
}

// checkFolder returns an error if calls cannot spill to the page folder.
func (p *Program) checkFolder() error {
	if v, known := p.memory.Spill.x.Const(); known && v == 0 || p.options.Cross {
		return nil
	}
	return mem.CheckFolder(p.options.PageFolder, "what runs spill")
}

// checkLimit returns an error if SetLimit leaves too little room for the program's calls and their arguments, beside
// the memory that the process holds. With an account, each call asks for its own memory.
func (p *Program) checkLimit() error {
	limit := mem.Limit()
	if limit == 0 || p.options.Cross || p.options.Account != nil {
		return nil
	}
	a, err := p.memory.Asked(p.options.Calls, nil)
	if err != nil {
		return nil // memory without a bound is requested when its size is known
	}
	held := mem.Usage()
	tensors := held.MappedCurrent[mem.Tensors] + held.Cached
	others := held.Held - tensors
	a.Call += a.Heap
	need := others + p.asks.Reading() + int64(a.Calls)*a.Call + max(tensors, a.Arguments*int64(a.Calls))
	if need > limit {
		return diag.New(ErrMemory, "the limit of %d bytes that SetLimit set cannot hold the program: %d are needed, which "+
			"are %d held now, %d calls of %d, and %d of arguments", limit, need,
			others, a.Calls, a.Call, max(tensors, a.Arguments*int64(a.Calls))).
			WithFix("a limit of %d bytes works; fewer calls, or a budget, need less", need)
	}
	return nil
}
