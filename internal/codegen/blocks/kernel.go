// Package blocks generates code for machines of blocks of threads, such as GPUs, in any language that has the
// instructions of Language.
//
// A kernel's top-level nests are entry points, run one after another. A serial loop at top level that has only nests of
// blocks, or parallel ones, has an entry point for each of them, which run again for each step of the loop. If a nest
// begins with Block loops, an iteration of those is a block, and Thread loops inside are spread over its threads (see
// block.go). In any other nest a thread does one iteration of the outermost loops whose iterations are independent,
// alone.
package blocks

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Compile compiles the kernels of a module; in makes the language in which a kernel is written. The error is of kind
// diag.ErrUnsupported for a kernel that the machine cannot run.
func Compile(m *loop.Module, machine target.Machine, in func(*Writer) Language) (*target.Code, error) {
	code := &target.Code{Machine: machine}
	for _, k := range m.Kernels {
		compiled, err := compile(k, m, machine, in)
		if err != nil {
			return nil, err
		}
		code.Kernels = append(code.Kernels, compiled)
	}
	return code, nil
}

// Refuses returns the reason, of kind diag.ErrUnsupported, why a machine cannot run a kernel of a module in a
// language; nil if it can, in runs in which the conditions hold.
func Refuses(k *loop.Kernel, m *loop.Module, machine target.Machine, in func(*Writer) Language) (
	conditions []sym.Cond, err error) {
	done, err := compile(k, m, machine, in)
	if err != nil {
		return nil, err
	}
	return done.conditions, nil
}

// refusal is the panic that ends the compilation of a kernel that the machine cannot run.
type refusal struct{ reason string }

// Refuse ends the compilation of the kernel, which the machine cannot run, for a reason: it panics.
func Refuse(format string, args ...any) { panic(refusal{fmt.Sprintf(format, args...)}) }

// compile compiles one kernel.
func compile(k *loop.Kernel, m *loop.Module, machine target.Machine, in func(*Writer) Language) (done *kernel,
	err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case refusal:
			done, err = nil, diag.Unsupportedf("%s", r.reason)
		default:
			panic(r)
		}
	}()
	w := &Writer{kernel: k, machine: machine, ranges: sym.NewMeasure(), dims: m.Dims, divisors: loop.DivisorsOf(k, m),
		names: map[sym.Name]Integer{}, memories: map[string]*Memory{}, bound: map[string]Value{},
		extents: map[sym.Name]sym.Expr{}, checked: map[sym.Name]*loop.Check{}}
	w.Language = in(w)
	for _, name := range k.Dims {
		w.ranges.Set(name, m.RangeOf(name))
	}
	out := &kernel{loop: k, width: loop.WidthOf(k), machine: machine.Name}
	nests := w.nests()
	w.scratch = w.launchBytes()
	first, end := w.stepped(nests)
	for _, nest := range nests {
		entry, blocks := w.entry(nest)
		out.entries = append(out.entries, entry)
		out.grids = append(out.grids, gridOf(nest, k, blocks))
		w.tiles = w.tiles.Add(blocks)
	}
	out.binary = &target.Binary{Words: w.Words(), Entries: out.entries, First: first, End: end}
	if end > first {
		out.steps = codeOf(nests[first].step.Extent, k)
	}
	out.checks = w.checks
	out.tiles, out.scratch, out.conditions = w.tiles, w.scratch, w.conditions()
	if err := out.limitIterations(w, machine.Limits.Iterations); err != nil {
		return nil, err
	}
	if out.scratchCode, err = out.scratch.Compile(k.Dims); err != nil {
		return nil, diag.Internalf("code of kernel @%s: %v", k.Name, err)
	}
	return out, nil
}

// kernel is a compiled kernel.
type kernel struct {
	loop           *loop.Kernel
	width          *loop.Width
	machine        string // its name
	binary         *target.Binary
	entries        []target.Entry
	checks         []*loop.Check
	grids          []grid
	steps          *sym.Code // the number of steps; nil if no entries run in steps
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
	for _, l := range n.loops {
		g.extents = append(g.extents, codeOf(l.Extent, k))
	}
	g.blocks = codeOf(blocks, k)
	return g
}

// codeOf returns an integer over a kernel's dimensions as code that computes it.
func codeOf(e sym.Expr, k *loop.Kernel) *sym.Code {
	c, err := e.Compile(k.Dims)
	if err != nil {
		panic(diag.Internalf("code of kernel @%s: %v", k.Name, err))
	}
	return c
}

// Name returns the loop kernel's name.
func (k *kernel) Name() string { return k.loop.Name }

// Backend returns the name of this generator: a program may have kernels of several.
func (k *kernel) Backend() string { return k.machine }

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

// Steps returns the number of steps for some dimensions; 0 if no entries run in steps.
func (k *kernel) Steps(dims []int64) (int64, error) {
	if k.steps == nil {
		return 0, nil
	}
	n, err := k.eval(k.steps, dims)
	if err == nil && n > mostSteps {
		return 0, diag.Inputf("kernel @%s: %d steps for dimensions %v, at most %d are possible", k.loop.Name, n, dims,
			int64(mostSteps))
	}
	return max(n, 0), err
}

// mostSteps is the largest number of steps of a launch: their numbers have 32 bits and a sign.
const mostSteps = math.MaxInt32

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
