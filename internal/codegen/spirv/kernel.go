// Package spirv is the code generator for machines of blocks of threads that run SPIR-V, such as GPUs through Vulkan.
// It writes the words of a module itself.
//
// A kernel's top-level nests are entry points, run one after another. If a nest begins with Block loops, an iteration
// of those is a block, and Thread loops inside are spread over its threads (see block.go). In any other nest a thread
// does one iteration of the outermost loops whose iterations are independent, alone.
//
// Memory is accessed by address: the module's only push constant is the address of the argument block that
// target.Binary describes. The code relies on properties that the loop language proves or checks, and on no others; in
// particular not on robust access.
package spirv

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// nestThreads is the number of threads of a block in a nest whose threads work independently.
const nestThreads = 64

// mostThreads is the largest number of threads of a nest with locals in the launch's scratch: if there are more
// iterations, each thread runs several.
const mostThreads = 1 << 14

// mostPrivate is the largest number of bytes of a thread's locals that are variables; further locals are in the
// launch's scratch.
const mostPrivate = 4 << 10

// Compile compiles the kernels of a module. It returns an error of kind diag.ErrUnsupported for a kernel that the
// machine cannot run.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	code := &target.Code{Machine: machine}
	for _, k := range m.Kernels {
		compiled, err := compile(k, m, machine)
		if err != nil {
			return nil, err
		}
		code.Kernels = append(code.Kernels, compiled)
	}
	return code, nil
}

// Refuses returns the reason, of kind diag.ErrUnsupported, why a machine cannot run a kernel of a module; nil if it
// can, in runs in which the conditions hold.
func Refuses(k *loop.Kernel, m *loop.Module, machine target.Machine) (conditions []sym.Cond, err error) {
	done, err := compile(k, m, machine)
	if err != nil {
		return nil, err
	}
	return done.conditions, nil
}

// refusal is the panic that ends the compilation of a kernel that the machine cannot run.
type refusal struct{ reason string }

// refuse panics with a refusal.
func refuse(format string, args ...any) { panic(refusal{fmt.Sprintf(format, args...)}) }

// compile compiles one kernel.
func compile(k *loop.Kernel, m *loop.Module, machine target.Machine) (done *kernel, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			done, err = nil, diag.Unsupportedf("%s", r.reason)
		default:
			panic(r)
		}
	}()
	w := &writer{module: newModule(), kernel: k, machine: machine, ranges: sym.NewMeasure(), dims: m.Dims,
		divisors: loop.DivisorsOf(k, m),
		names:    map[sym.Name]integer{}, memories: map[string]*memory{}, bound: map[string]value{},
		numbers: map[id]float64{},
		extents: map[sym.Name]sym.Expr{}}
	w.capability(capabilityShader, capabilityPhysicalStorageBufferAddresses)
	w.extension("SPV_KHR_physical_storage_buffer")
	w.float32Modes()
	for _, name := range k.Dims {
		w.ranges.Set(name, m.RangeOf(name))
	}
	out := &kernel{loop: k, width: loop.WidthOf(k)}
	nests := w.nests()
	w.scratch = w.launchBytes()
	for _, nest := range nests {
		entry, blocks := w.entry(nest)
		out.entries = append(out.entries, entry)
		out.grids = append(out.grids, gridOf(nest, k, blocks))
		w.tiles = w.tiles.Add(blocks)
	}
	out.binary = &target.Binary{Words: w.words(), Entries: out.entries}
	out.checks = w.checks
	out.tiles, out.scratch, out.conditions = w.tiles, w.scratch, w.conditions()
	if err := out.limitIterations(w, machine.Limits.Iterations); err != nil {
		return nil, err
	}
	if out.scratchCode, err = out.scratch.Compile(k.Dims); err != nil {
		return nil, diag.Internalf("spirv: kernel @%s: %v", k.Name, err)
	}
	return out, nil
}

// kernel is a compiled kernel.
type kernel struct {
	loop           *loop.Kernel
	width          *loop.Width
	binary         *target.Binary
	entries        []target.Entry
	checks         []*loop.Check
	grids          []grid
	tiles, scratch sym.Expr
	scratchCode    *sym.Code
	iterations     *sym.Code // of one thread in all loops; nil if the driver has no limit or it cannot be exceeded
	most           int64     // the driver's limit of iterations
	conditions     []sym.Cond
}

// grid computes the number of blocks of an entry: blocks, or 0 if an extent is 0, in which case blocks may be
// undefined.
type grid struct {
	extents []*sym.Code
	blocks  *sym.Code
}

// gridOf returns the grid of a nest with a number of blocks.
func gridOf(n nest, k *loop.Kernel, blocks sym.Expr) (g grid) {
	code := func(e sym.Expr) *sym.Code {
		c, err := e.Compile(k.Dims)
		if err != nil {
			panic(diag.Internalf("spirv: kernel @%s: %v", k.Name, err))
		}
		return c
	}
	for _, l := range n.loops {
		g.extents = append(g.extents, code(l.Extent))
	}
	g.blocks = code(blocks)
	return g
}

// Name returns the loop kernel's name.
func (k *kernel) Name() string { return k.loop.Name }

// Backend returns the name of this generator: a program may have kernels of several.
func (k *kernel) Backend() string { return target.VulkanName }

// Binary returns the kernel's code.
func (k *kernel) Binary() *target.Binary { return k.binary }

// Tiles returns the number of blocks of all entries.
func (k *kernel) Tiles(dims []int64) (int64, error) {
	blocks := make([]int64, len(k.grids))
	if err := k.Grid(dims, blocks); err != nil {
		return 0, err
	}
	total := int64(0)
	for _, n := range blocks {
		total += n
	}
	if total == 0 {
		return 0, nil
	}
	return total, k.width.Check(dims)
}

// Grid sets blocks to the number of blocks of each entry.
func (k *kernel) Grid(dims, blocks []int64) error {
	for i := range k.grids {
		n, err := k.grid(&k.grids[i], dims)
		if err != nil {
			return err
		}
		if n > 0 && k.iterations != nil {
			if err := k.fewEnough(dims); err != nil {
				return err
			}
		}
		if n > target.RowBlocks*mostRows {
			return diag.Inputf("kernel @%s: %d blocks for dimensions %v, at most %d are possible", k.loop.Name, n, dims,
				int64(target.RowBlocks*mostRows))
		}
		blocks[i] = n
	}
	return nil
}

// grid returns the number of blocks of an entry for some dimensions.
func (k *kernel) grid(g *grid, dims []int64) (int64, error) {
	for _, e := range g.extents {
		if n, err := k.eval(e, dims); err != nil || n <= 0 {
			return 0, err
		}
	}
	return k.eval(g.blocks, dims)
}

// mostRows is the largest number of rows of blocks of a grid that every implementation of Vulkan allows.
const mostRows = 65535

// eval returns a formula's value for some dimensions; the error of an overflow is ErrInput.
func (k *kernel) eval(code *sym.Code, dims []int64) (int64, error) {
	v, err := code.Eval(dims)
	if err != nil {
		return 0, diag.Inputf("kernel @%s: a size cannot be computed for dimensions %v: %v", k.loop.Name, dims, err)
	}
	return v, nil
}

// TilesFormula returns the number of blocks of all entries.
func (k *kernel) TilesFormula() sym.Expr { return k.tiles }

// ScratchFormula returns the bytes of the launch's scratch: of the locals in it, for all threads that run at once.
func (k *kernel) ScratchFormula() sym.Expr { return k.scratch }

// Scratch returns ScratchFormula's value for some dimensions.
func (k *kernel) Scratch(dims []int64) (int64, error) { return k.eval(k.scratchCode, dims) }

// Needs sets bytes to the size that each operand must have.
func (k *kernel) Needs(dims, bytes []int64) error { return k.width.Needs(dims, bytes) }

// Run returns an error: a device runs the kernel's Binary.
func (k *kernel) Run(*target.Args, int64, int64, []byte) error {
	return diag.Internalf("kernel @%s is for a device, and was run on the host", k.loop.Name)
}

// Failed returns the error that a report tells; nil for an empty report.
func (k *kernel) Failed(r target.Report) error {
	if r[0] == 0 {
		return nil
	}
	if r[0] > uint64(len(k.checks)) {
		return diag.Internalf("kernel @%s reports check %d of %d", k.loop.Name, r[0], len(k.checks))
	}
	c := k.checks[r[0]-1]
	dt := c.X.DType()
	detail := loop.CheckDetail(c.What, dt, loop.FromInt(dt, int64(r[1])), int64(r[2]), int64(r[3]))
	return &diag.Error{Kind: diag.ErrInput, Node: k.loop.Source, Detail: detail}
}

// nest is the statements of one entry: independent loops whose extents depend only on dimensions, and their body.
type nest struct {
	loops  []*loop.For
	body   []loop.Stmt
	blocks bool // an iteration of the loops is a block; otherwise it is a thread
	alone  bool // one thread runs everything
}

// nests divides a kernel into nests. Each nest repeats the Lets before it that read no memory; locals outside of nests
// are in the launch's scratch. If there are other statements, the entire kernel is one nest of one thread.
func (w *writer) nests() []nest {
	var list []nest
	var before []loop.Stmt
	for _, s := range w.kernel.Body {
		f, ok := s.(*loop.For)
		if l, is := s.(*loop.Local); is && l.Space == loop.Own && l.DType.Bits() >= 8 {
			w.launchLocals = append(w.launchLocals, l)
			continue
		}
		if !ok {
			if l, names := s.(*loop.Let); !names || loop.ReadsMemory(l.X) {
				w.launchLocals = nil
				return []nest{{body: w.kernel.Body, alone: true}}
			}
			before = append(before, s)
			continue
		}
		n := w.nest(f)
		if len(before) > 0 {
			n.body = append(append([]loop.Stmt{}, before...), n.body...)
		}
		list = append(list, n)
	}
	if len(list) == 0 { // a module has an entry, even if the kernel's results are always empty
		list = []nest{{alone: true}}
	}
	return list
}

// nest returns a loop as a nest: the outermost independent loops, and the body inside them.
func (w *writer) nest(f *loop.For) nest {
	n := nest{blocks: f.Kind == loop.Block, body: []loop.Stmt{f}}
	for {
		inner, ok := loop.Only(n.body)
		if !ok || !w.overDims(inner.Extent) || n.blocks != (inner.Kind == loop.Block) || !independent(inner) {
			break
		}
		n.loops, n.body = append(n.loops, inner), inner.Body
	}
	n.alone = len(n.loops) == 0
	return n
}

// independent reports whether a loop's iterations may run concurrently.
func independent(f *loop.For) bool {
	return f.Kind == loop.Each || f.Kind == loop.Parallel || f.Kind == loop.Vector || f.Kind == loop.Block ||
		f.Kind == loop.Thread
}

// overDims reports whether an integer depends on the kernel's dimensions only.
func (w *writer) overDims(e sym.Expr) bool {
	for _, name := range e.Vars() {
		known := false
		for _, dim := range w.kernel.Dims {
			known = known || dim == name
		}
		if !known {
			return false
		}
	}
	return true
}

// most returns an upper bound of an integer, by the present ranges of names.
func (w *writer) most(e sym.Expr) int64 {
	r, _ := w.ranges.Of(e)
	return r.Max
}

// least returns a lower bound of an integer.
func (w *writer) least(e sym.Expr) int64 {
	r, _ := w.ranges.Of(e)
	return r.Min
}

// entry writes an entry point, and returns its number of blocks.
func (w *writer) entry(n nest) (e target.Entry, blocks sym.Expr) {
	e = target.Entry{Name: fmt.Sprintf("part%d", len(w.entryNames)), Threads: nestThreads}
	w.entryNames = append(w.entryNames, e.Name)
	w.body = w.newBody()
	w.begin()
	w.taken = sym.Const(0)
	total := sym.Const(1)
	for _, l := range n.loops {
		total = total.Mul(l.Extent.Max(sym.Const(0)))
	}
	switch {
	case n.blocks:
		e.Threads = w.blockThreads(n)
		blocks = total
		e.Shared = w.block(n, total, e.Threads)
	case n.alone:
		e.Threads = 1
		blocks = w.threadNest(n, total, 1)
	default:
		e.Threads = min(nestThreads, w.machine.Limits.Invocations)
		blocks = w.threadNest(n, total, e.Threads)
	}
	w.longest = w.longest.Max(w.taken)
	w.finishEntry(&e)
	return e, blocks
}

// finishEntry adds the written function to the module as an entry point.
func (w *writer) finishEntry(e *target.Entry) {
	m := w.module
	w.body.finish()
	operands := append([]uint32{executionModelGLCompute, uint32(w.body.function)}, literal(e.Name)...)
	for _, x := range w.body.mentions {
		operands = append(operands, uint32(x))
	}
	m.entries = appendOp(m.entries, opEntryPoint, operands...)
	m.modes = appendOp(m.modes, opExecutionMode, uint32(w.body.function), executionModeLocalSize, uint32(e.Threads), 1, 1)
	for _, mode := range w.modes {
		m.modes = appendOp(m.modes, opExecutionMode, uint32(w.body.function), mode, 32)
	}
}

// float32Modes requests the modes of IEEE 754 for f32 that the machine has.
func (w *writer) float32Modes() {
	for _, row := range []struct {
		feature          string
		capability, mode uint32
	}{
		{target.KeepsSpecial, capabilitySignedZeroInfNanPreserve, executionModeSignedZeroInfNanPreserve},
		{target.KeepsSubnormal, capabilityDenormPreserve, executionModeDenormPreserve},
	} {
		if w.machine.Has(row.feature) {
			w.extension("SPV_KHR_float_controls")
			w.capability(row.capability)
			w.modes = append(w.modes, row.mode)
		}
	}
}

// threadNest writes a nest of which each thread runs one iteration, or several if there are too many, and returns its
// number of blocks.
func (w *writer) threadNest(n nest, total sym.Expr, threads int64) (blocks sym.Expr) {
	w.enterNest(n)
	perThread := w.allocateLocals(n.body)
	size := sym.Const(threads)
	blocks = total.CeilDiv(size)
	if n.alone {
		blocks = sym.Const(1)
	}
	limited := false
	if zero, ok := perThread.Const(); !ok || zero != 0 {
		most := sym.Const(max(1, mostThreads/threads))
		limited = w.most(blocks) > mostThreads/threads
		if limited {
			blocks = blocks.Min(most)
		}
	}
	thread := w.globalThread(threads, total)
	count := w.integer(total)
	work := func(at integer) {
		for i := len(n.loops) - 1; i > 0; i-- {
			var rest integer
			extent := w.integer(n.loops[i].Extent)
			rest, at = w.remainder(at, extent), w.quotient(at, extent)
			w.bind(n.loops[i].Var, rest)
		}
		if len(n.loops) > 0 {
			w.bind(n.loops[0].Var, at)
		}
		w.offsetLocals(thread, perThread)
		w.statements(n.body)
	}
	if !limited {
		w.when(w.below(thread, count), func() { work(thread) }, nil)
	} else {
		w.stride(thread, count, w.product(w.integer(blocks), w.constant(threads)), total.CeilDiv(sym.Const(mostThreads)),
			work)
	}
	if !perThread.Equal(sym.Const(0)) {
		if len(w.launchLocals) > 0 {
			refuse("locals of threads and of the launch in one kernel")
		}
		w.scratch = w.scratch.Max(perThread.Mul(blocks).Mul(size))
	}
	return blocks
}

// enterNest sets the ranges of the names that a nest declares.
func (w *writer) enterNest(n nest) {
	for _, l := range n.loops {
		w.extents[l.Var] = l.Extent
		w.ranges.Set(l.Var, sym.Range{Max: max(w.most(l.Extent), 1) - 1})
	}
	w.rangesOf(n.body)
}

// rangesOf sets the ranges of the names that statements declare: the widest that they can have.
func (w *writer) rangesOf(body []loop.Stmt) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			w.ranges.Set(s.Var, sym.Range{Max: max(w.most(s.Extent), 1) - 1})
		case *loop.Check:
			low, _ := w.ranges.Of(s.Min)
			high, _ := w.ranges.Of(s.Max)
			w.ranges.Set(s.Name, sym.Range{Min: min(low.Min, high.Max), Max: high.Max})
		}
		return true
	})
}

// allocateLocals makes each local of a thread a variable, or memory in the launch's scratch. It returns the bytes of
// scratch of one thread.
func (w *writer) allocateLocals(body []loop.Stmt) sym.Expr {
	k := &loop.Kernel{Name: w.kernel.Name, Body: body}
	private := int64(0)
	perThread := sym.Const(0)
	for _, local := range loop.Locals(k) {
		l := local.Local
		m := &memory{dt: l.DType, shape: l.Shape, strides: loop.RowMajor(l.Shape)}
		bytes, fixed := loop.Bytes(l.DType, l.Shape).Const()
		if fixed && bytes <= mostPrivate-private && l.DType.Bits() >= 8 {
			private += bytes
			m.variable, m.class = w.variable(w.arrayType(w.heldType(l.DType), max(1, elements(l.Shape)))), storageClassFunction
		} else {
			m.offset, m.written = local.Offset, true
			end := local.Offset.Add(loop.Bytes(l.DType, l.Shape))
			perThread = perThread.Max(end.CeilDiv(sym.Const(loop.ScratchAlign)).Mul(sym.Const(loop.ScratchAlign)))
			w.inScratch = append(w.inScratch, m)
		}
		w.memories[l.Name] = m
	}
	return perThread
}

// elements returns the number of elements of a shape; 0 if that is not a constant from 1 to 2³¹ − 1.
func elements(shape []sym.Expr) int64 {
	n, ok := sym.Product(shape...).Const()
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return n
}

// launchBytes returns the bytes of the launch's locals, each of which begins at a multiple of loop.ScratchAlign.
func (w *writer) launchBytes() sym.Expr {
	total, align := sym.Const(0), sym.Const(loop.ScratchAlign)
	for _, l := range w.launchLocals {
		total = total.Add(loop.Bytes(l.DType, l.Shape).CeilDiv(align).Mul(align))
	}
	return total
}

// allocateLaunchLocals computes the addresses of the launch's locals, at the beginning of an entry.
func (w *writer) allocateLaunchLocals() {
	if len(w.launchLocals) == 0 {
		return
	}
	base, at, align := w.argument(len(w.kernel.Params)+len(w.kernel.Dims)), sym.Const(0), sym.Const(loop.ScratchAlign)
	for _, l := range w.launchLocals {
		w.memories[l.Name] = &memory{dt: l.DType, shape: l.Shape, strides: loop.RowMajor(l.Shape),
			base: w.address(base, w.integer(at)), written: true}
		at = at.Add(loop.Bytes(l.DType, l.Shape).CeilDiv(align).Mul(align))
	}
}

// offsetLocals computes the addresses of a thread's locals in the launch's scratch.
func (w *writer) offsetLocals(thread integer, perThread sym.Expr) {
	if len(w.inScratch) == 0 {
		return
	}
	base := w.argument(len(w.kernel.Params) + len(w.kernel.Dims))
	if !w.int64s() {
		w.fits(perThread, 2*mostThreads) // the offset of the last thread
	}
	own := w.product(w.widened(thread), w.widened(w.integer(perThread)))
	for _, m := range w.inScratch {
		m.base = w.address(base, w.sum(own, w.widened(w.integer(m.offset))))
	}
	w.inScratch = nil
}

// bug panics with a message and the kernel's text.
func (w *writer) bug(format string, args ...any) {
	panic(diag.Internalf("spirv: kernel @%s: "+format+"\n%s", append(append([]any{w.kernel.Name}, args...), w.kernel)...))
}
