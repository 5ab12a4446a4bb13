package spirv

import (
	"math"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// writer writes one kernel's module, one entry after the other.
type writer struct {
	*module
	*body
	kernel   *loop.Kernel
	machine  target.Machine
	dims     *sym.Dims
	ranges   *sym.Measure // of names: they decide the width of integers
	divisors *loop.Divisors
	names    map[sym.Name]integer
	memories map[string]*memory
	bound    map[string]value // values of Lets, and variables of Vars
	numbers  map[id]float64   // values of floats that are constants
	checks   []*loop.Check
	extents  map[sym.Name]sym.Expr // of loops, by their variables
	taken    sym.Expr              // iterations of one thread in the loops written so far, over dimensions
	longest  sym.Expr              // iterations of one thread in the entry with the most
	tiles    sym.Expr
	scratch  sym.Expr
	narrow   []sym.Expr // integers over dimensions that must fit 32 bits: the machine has no others

	entryNames   []string
	modes        []uint32 // execution modes that take the width of floats
	inScratch    []*memory
	launchLocals []*loop.Local // locals outside of all nests
	arguments    id            // the address of the argument block
	threads      int64
	shared       int64           // bytes of the block's shared locals so far
	thread       sym.Name        // the variable of the Thread loop, if the loop accesses threads' own memory
	touched      map[string]bool // buffers that Thread loops touched since the last barrier; true if they wrote them
}

// integer is an integer of 32 bits if it is proved to fit them with its sign, or else of 64.
type integer struct {
	id
	wide bool
}

// mostNarrow is the largest magnitude of an integer of 32 bits.
const mostNarrow = math.MaxInt32

// begin writes the beginning of an entry: it loads the addresses and the dimensions from the argument block.
func (w *writer) begin() {
	address := w.addressType()
	block := w.global(opTypeStruct, 0, uint32(address))
	if !w.noted("block") {
		w.decorate(block, decorationBlock)
		w.decorations = appendOp(w.decorations, opMemberDecorate, uint32(block), 0, decorationOffset, 0)
	}
	constants := w.global(opVariable, w.pointerType(storageClassPushConstant, block), storageClassPushConstant)
	w.uses(constants)
	at := w.op(opAccessChain, w.pointerType(storageClassPushConstant, address), constants, w.constant32(0))
	w.arguments = w.op(opLoad, address, at)
	for i, p := range w.kernel.Params {
		steps := p.Strides
		if steps == nil {
			steps = loop.RowMajor(p.Shape)
		}
		w.memories[p.Name] = &memory{dt: p.DType, shape: p.Shape, strides: steps, base: w.argument(i),
			written: p.Access != loop.Read}
	}
	for i, name := range w.kernel.Dims {
		word := w.argument(len(w.kernel.Params) + i)
		switch narrow := w.fits(sym.Var(name), 1); {
		case !w.int64s():
			w.names[name] = integer{w.op(opCompositeExtract, w.intType(32), word, 0), false}
		case !narrow:
			w.names[name] = integer{word, true}
		default:
			w.names[name] = integer{w.op(opUConvert, w.intType(32), word), false}
		}
	}
	w.allocateLaunchLocals()
}

// noted reports whether a name was noted before, and notes it.
func (w *writer) noted(what string) bool {
	_, was := w.known[what]
	w.known[what] = 0
	return was
}

// int64s reports whether the machine computes with integers of 64 bits.
func (w *writer) int64s() bool { return w.machine.Has(target.Int64) }

// addressType returns the type of an address: an integer of 64 bits, or two of 32.
func (w *writer) addressType() id {
	if w.int64s() {
		return w.intType(64)
	}
	return w.pairType()
}

// argument loads the i-th word of the argument block, as an address.
func (w *writer) argument(i int) id {
	at := w.address(w.arguments, w.constant(int64(8*i)))
	return w.op2(opLoad, w.addressType(), w.pointer(w.addressType(), at), memoryAccessAligned, 8)
}

// op2 is op for an instruction with one id and then numbers as operands. It always writes a new instruction.
func (w *writer) op2(op opcode, typ, x id, numbers ...uint32) id {
	result := w.fresh()
	w.code = append(w.code, uint32(4+len(numbers))<<16|uint32(op), uint32(typ), uint32(result), uint32(x))
	w.code = append(w.code, numbers...)
	return result
}

// address returns an address plus an offset in bytes. If the address is two words, the offset is not negative.
func (w *writer) address(base id, offset integer) id {
	if w.int64s() {
		return w.op(opIAdd, w.intType(64), base, w.widened(offset).id)
	}
	word := w.intType(32)
	low, high := w.op2(opCompositeExtract, word, base, 0), w.op2(opCompositeExtract, word, base, 1)
	both := w.op(opIAddCarry, w.global(opTypeStruct, 0, uint32(word), uint32(word)), low, offset.id)
	high = w.op(opIAdd, word, high, w.op2(opCompositeExtract, word, both, 1))
	return w.op(opCompositeConstruct, w.pairType(), w.op2(opCompositeExtract, word, both, 0), high)
}

// pointer converts an address to a pointer to a type.
func (w *writer) pointer(typ, address id) id {
	to := w.pointerType(storageClassPhysicalStorageBuffer, typ)
	if w.int64s() {
		return w.op(opConvertUToPtr, to, address)
	}
	return w.op(opBitcast, to, address)
}

// widened returns an integer in 64 bits if the machine has such integers, or else unchanged.
func (w *writer) widened(x integer) integer {
	if x.wide || !w.int64s() {
		return x
	}
	return integer{w.op(opSConvert, w.intType(64), x.id), true}
}

// builtIn loads a component of a built-in vector, by the vector's number in the grammar.
func (w *writer) builtIn(number, component uint32) id {
	vector := w.global(opTypeVector, 0, uint32(w.intType(32)), 3)
	x := w.known["builtin "+string(rune('0'+number))]
	if x == 0 {
		x = w.unique(opVariable, w.pointerType(storageClassInput, vector), storageClassInput)
		w.known["builtin "+string(rune('0'+number))] = x
		w.decorate(x, decorationBuiltIn, number)
	}
	return w.op2(opCompositeExtract, w.intType(32), w.op(opLoad, vector, w.uses(x)), component)
}

// localThread returns the number of the thread in its block.
func (w *writer) localThread() integer { return integer{w.builtIn(builtInLocalInvocationId, 0), false} }

// blockNumber returns the number of the block; there are at most most blocks.
func (w *writer) blockNumber(most sym.Expr) integer {
	x, y := integer{w.builtIn(builtInWorkgroupId, 0), false}, integer{w.builtIn(builtInWorkgroupId, 1), false}
	if !w.fits(most.Add(sym.Const(target.RowBlocks)), 1) {
		x, y = w.widened(x), w.widened(y)
	}
	return w.sum(w.product(y, w.constant(target.RowBlocks)), x)
}

// globalThread returns the number of the thread among those of all blocks; the first most threads have work.
func (w *writer) globalThread(threads int64, most sym.Expr) integer {
	local := w.localThread()
	if !w.fits(most.Add(sym.Const(2*target.RowBlocks*threads)), 1) {
		block := w.widened(w.blockNumber(most))
		return w.sum(w.product(block, w.widened(w.constant(threads))), w.widened(local))
	}
	return w.sum(w.product(w.blockNumber(most), w.constant(threads)), local)
}

// stride writes a loop that runs work for first, first + step, … below count: at most rounds iterations, an expression
// over dimensions.
func (w *writer) stride(first, count, step integer, rounds sym.Expr, work func(at integer)) {
	if first.wide || count.wide || step.wide {
		first, count, step = w.widened(first), w.widened(count), w.widened(step)
	}
	typ := w.typeOf(first)
	at := w.variable(typ)
	w.set(at, first.id)
	w.counted(rounds, func() {
		w.loop(func() id { return w.below(integer{w.get(at, typ), first.wide}, count) },
			func() { work(integer{w.get(at, typ), first.wide}) },
			func() { w.set(at, w.sum(integer{w.get(at, typ), first.wide}, step).id) })
	})
}
