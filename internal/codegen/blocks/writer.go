package blocks

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Writer writes one kernel in a language, one entry after the other.
type Writer struct {
	Language
	kernel   *loop.Kernel
	machine  target.Machine
	dims     *sym.Dims
	ranges   *sym.Measure // of names: they decide the width of integers
	divisors *loop.Divisors
	names    map[sym.Name]Integer
	memories map[string]*Memory
	bound    map[string]Value // values of Lets, and variables of Vars
	checks   []*loop.Check
	extents  map[sym.Name]sym.Expr    // of loops, by their variables
	checked  map[sym.Name]*loop.Check // by the integers that they name
	taken    sym.Expr                 // iterations of one thread in the loops written so far, over dimensions
	longest  sym.Expr                 // iterations of one thread in the entry with the most
	tiles    sym.Expr
	scratch  sym.Expr
	narrow   []sym.Expr // integers over dimensions that must fit 32 bits: the machine has no others

	entryNames   []string
	inScratch    []*Memory
	launchLocals []*loop.Local // locals outside of all nests
	threads      int64
	shared       int64           // bytes of the block's shared locals so far
	thread       sym.Name        // the variable of the Thread loop, if the loop accesses threads' own memory
	touched      map[string]bool // buffers that Thread loops touched since the last barrier; true if they wrote them

	products map[*loop.Contract]*matrixProduct // that the subgroups of the entry's blocks compute together
	sums     *matrixSums                       // that the present serial loop holds; nil if it holds none
}

// begin writes the beginning of an entry: it loads the addresses and the dimensions from the argument block.
func (w *Writer) begin() {
	w.Begin()
	for i, p := range w.kernel.Params {
		steps := p.Strides
		if steps == nil {
			steps = loop.RowMajor(p.Shape)
		}
		w.memories[p.Name] = &Memory{DType: p.DType, Shape: p.Shape, Strides: steps, Base: w.Argument(i),
			Written: p.Access != loop.Read}
	}
	for i, name := range w.kernel.Dims {
		word := w.Argument(len(w.kernel.Params) + i)
		wide := !w.fits(sym.Var(name), 1)
		w.names[name] = Integer{w.Word(word, wide), wide}
	}
	w.allocateLaunchLocals()
}

// localThread returns the number of the thread in its block.
func (w *Writer) localThread() Integer { return Integer{w.Thread(), false} }

// int64s reports whether the machine computes with integers of 64 bits.
func (w *Writer) int64s() bool { return w.machine.Has(target.Int64) }

// blockNumber returns the number of the block; there are at most most blocks.
func (w *Writer) blockNumber(most sym.Expr) Integer {
	x, y := Integer{w.Block(0), false}, Integer{w.Block(1), false}
	if !w.fits(most.Add(sym.Const(target.RowBlocks)), 1) {
		x, y = w.Widened(x), w.Widened(y)
	}
	return w.sum(w.Product(y, w.Constant(target.RowBlocks)), x)
}

// globalThread returns the number of the thread among those of all blocks; the first most threads have work.
func (w *Writer) globalThread(threads int64, most sym.Expr) Integer {
	local := w.localThread()
	if !w.fits(most.Add(sym.Const(2*target.RowBlocks*threads)), 1) {
		block := w.Widened(w.blockNumber(most))
		return w.sum(w.Product(block, w.Widened(w.Constant(threads))), w.Widened(local))
	}
	return w.sum(w.Product(w.blockNumber(most), w.Constant(threads)), local)
}

// stride writes a loop that runs work for first, first + step, … below count: at most rounds iterations, an expression
// over dimensions.
func (w *Writer) stride(first, count, step Integer, rounds sym.Expr, work func(at Integer)) {
	if first.Wide || count.Wide || step.Wide {
		first, count, step = w.Widened(first), w.Widened(count), w.Widened(step)
	}
	typ := w.typeOf(first)
	at := w.Variable(typ)
	w.Set(at, first.ID)
	w.Counted(rounds, func() {
		w.Loop(func() ID { return w.below(Integer{w.Get(at, typ), first.Wide}, count) },
			func() { work(Integer{w.Get(at, typ), first.Wide}) },
			func() { w.Set(at, w.sum(Integer{w.Get(at, typ), first.Wide}, step).ID) })
	})
}
