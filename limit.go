package weir

import (
	"math"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
)

// SetLimit makes what the process holds outside Go's heap, files that are mapped and Usage's Cached included, no more
// than so many bytes of whole pages, and returns the limit before. 0 is none. What would exceed it is refused, once
// what is cached has been given back: an ErrMemory whose text names the limit. What is held already stays. Memory.Limit
// says what a program needs: Compile refuses one that the limit cannot hold.
func SetLimit(bytes int64) (before int64) { return mem.SetLimit(bytes) }

// asks is what a program asks the system for, in whole pages of bytes.
type asks struct {
	compiler.Asks
	placed int64 // weights that were copied last
	files  sources.Mapped
}

// Asked is the parts of Memory.LimitAt, in bytes of whole pages.
type Asked struct {
	Compiling int64 // held at once while loading and compiling, the whole of the model's files included
	Weights   int64 // weights in memory of the program's own
	// pages of files that weights are read from in place: the model's, those that it keeps external data in, and Paged
	Files int64
	Paged int64 // of Files, a file of the program's own that weights are paged from
	Code  int64
	Call  int64 // of one call: arena, outputs and scratch
	// of one call: what host functions take of Go's heap at most, but for pictures, whose contents decide it
	Heap      int64
	Arguments int64 // of one call: the caller's, if it makes them by New
	Calls     int
}

// PageFolder is where Paged lies, and what calls spill to, of programs whose Options do not name a folder: the folder
// for temporary files (TMPDIR). inMemory says that the system keeps files there in memory, so that they save none.
func PageFolder() (path string, inMemory bool) { return mem.Folder("") }

// PageFolder is where the program's page file lies, and what its calls spill to: Options.PageFolder, or the package's
// PageFolder. inMemory says that the system keeps files there in memory, so that they save none.
func (m *Memory) PageFolder() (path string, inMemory bool) {
	return mem.Folder(m.program.options.PageFolder)
}

// Total is the limit that holds all of it.
func (a Asked) Total() int64 {
	return max(a.Compiling, a.Weights+a.Files+a.Code+a.runs())
}

func (a Asked) runs() int64 {
	return int64(a.Calls) * (a.Call + a.Heap + a.Arguments)
}

// Limit is what SetLimit must be, in a process that holds nothing else, to load the model, compile the program and have
// so many runs active, at the upper bounds of the dimensions, each with arguments that New made: never more is asked
// for, and with a byte less Compile refuses. It is an error if a dimension has no bound: LimitAt takes values. What
// tuning takes is not in it.
func (m *Memory) Limit(calls int) (int64, error) {
	a, err := m.Asked(calls, nil)
	return a.Total(), err
}

// LimitAt is Limit for a binding of the dimensions; those that it does not name are at their upper bounds.
func (m *Memory) LimitAt(calls int, d Dims) (int64, error) {
	a, err := m.Asked(calls, d)
	return a.Total(), err
}

// Asked is what LimitAt is made of.
func (m *Memory) Asked(calls int, d Dims) (Asked, error) {
	p := m.program
	if err := p.named(d); err != nil {
		return Asked{}, err
	}
	a := Asked{Compiling: max(p.asks.files.All, p.asks.Most, p.asks.files.Left+p.asks.Weights+p.asks.Asks.Paged+
		p.asks.Code+p.asks.placed), Weights: p.asks.Weights + p.asks.placed + p.asks.files.Copies,
		Files: p.asks.files.Views + p.asks.Asks.Paged, Paged: p.asks.Asks.Paged, Code: p.asks.Code, Calls: calls}
	add := func(total *int64, count int64, x sym.Expr) error {
		v, err := m.most(x, d)
		if v = mem.WholePages(v); err == nil && (v < 0 || v > (math.MaxInt64-*total)/max(1, count)/max(1, int64(calls))) {
			err = diag.Inputf("%s bytes are more than 64 bits count", x)
		}
		if err == nil {
			*total += count * v
		}
		return err
	}
	c := p.compiled
	if err := add(&a.Call, 1, c.Arena.Arena); err != nil {
		return a, err
	}
	for _, l := range c.Late {
		if l.Device != "" {
			continue
		}
		if err := add(&a.Call, 1, l.Plan.Arena); err != nil {
			return a, err
		}
	}
	for i := range c.Program.Storages {
		if s := &c.Program.Storages[i]; s.Kind == program.Results && !s.Late {
			if err := add(&a.Call, 1, s.Size); err != nil {
				return a, err
			}
		}
	}
	if err := add(&a.Call, int64(m.Workers), c.Scratch); err != nil {
		return a, err
	}
	if err := add(&a.Heap, 1, c.HostHeap()); err != nil {
		return a, err
	}
	return a, m.arguments(&a, d)
}

// arguments adds the pages of a call's arguments. Small ones come from the pool, which takes its memory in larger
// pieces.
func (m *Memory) arguments(a *Asked, d Dims) error {
	small := int64(0)
	for _, port := range m.program.compiled.Program.Inputs {
		v, err := m.most(m.program.compiled.Program.Tensors[port.Tensor].Bytes(), d)
		switch {
		case err != nil:
			return err
		case mem.Pooled(v):
			small += v
		case v > math.MaxInt64/4-a.Arguments:
			return diag.Inputf("the arguments are more than 64 bits count")
		default:
			a.Arguments += mem.WholePages(v)
		}
	}
	a.Arguments += mem.PooledPages(small)
	return nil
}

// most is a size for a binding of the dimensions; those that it does not name are at their upper bounds.
func (m *Memory) most(x sym.Expr, d Dims) (int64, error) {
	bound := m.program.labels.Show(x).Subst(func(name sym.Name) (sym.Expr, bool) {
		v, ok := d[name.Text()]
		return sym.Const(v), ok
	})
	return Size{bound, m.Arena.dims}.Max()
}

// settle notes what the program asks for, and lets go of what it does not read of the model's files.
func (p *Program) settle(x *executor.Executable) {
	var views [][]byte
	for _, w := range p.compiled.Program.Weights {
		views = append(views, w.Data)
	}
	if p.target == Reference { // its interpreter may read any constant of the model
		for _, b := range p.model.files.Blocks() {
			views = append(views, b.Bytes())
		}
	}
	p.asks = asks{Asks: p.compiled.Asks(), placed: x.Held() + p.ownPages()}
	p.asks.files = p.model.files.Settle(p, views)
	for _, b := range p.model.files.Blocks() {
		if b.Kept(p.readInPlace()) > 0 {
			p.files.blocks = append(p.files.blocks, b)
		}
	}
}

// checkFolder refuses a folder that does not take the files that calls will spill to.
func (p *Program) checkFolder() error {
	if v, known := p.memory.Spill.x.Const(); known && v == 0 || p.options.Cross {
		return nil
	}
	return mem.CheckFolder(p.options.PageFolder, "what runs spill")
}

// checkLimit refuses a program that SetLimit leaves no room for: each of its calls, and each of their arguments, must
// have some beside what the process holds.
func (p *Program) checkLimit() error {
	limit := mem.Limit()
	if limit == 0 || p.options.Cross {
		return nil
	}
	a, err := p.memory.Asked(p.options.Calls, nil)
	if err != nil {
		return nil // what has no bound is asked for when it is known
	}
	held := mem.Usage()
	tensors := held.MappedCurrent[mem.Tensors] + held.Cached
	others := held.MappedAll - held.MappedCurrent[mem.Tensors]
	a.Call += a.Heap
	need := others + int64(a.Calls)*a.Call + max(tensors, a.Arguments*int64(a.Calls))
	if need > limit {
		return diag.New(ErrMemory, "the limit of %d bytes that SetLimit set cannot hold the program: %d are needed, which "+
			"are %d held now, %d calls of %d, and %d of arguments", limit, need,
			others, a.Calls, a.Call, max(tensors, a.Arguments*int64(a.Calls))).
			WithFix("a limit of %d bytes works; fewer calls, or a budget, need less", need)
	}
	return nil
}
