// Package amd64 generates machine code for processors with AVX2 and FMA, or with AVX-512.
//
// A kernel's nests become routines (see call): a loop over tiles, inside it the kernel's loops. A vector loop runs in
// strips of as many lanes as 32-bit numbers fit a vector; the last iterations are done with masks, or one after the
// other. Code outside vector loops computes with the same instructions, on vectors whose lanes are all equal. Integers
// of indices live in general registers, and are computed in the outermost scope in which all their operands are known.
// Kernels, or types of elements, that this package has no code for are left to package portable.
package amd64

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Compile is Generate, and places the code.
func Compile(m *loop.Module, machine target.Machine) (*target.Code, error) {
	code, err := Generate(m, machine)
	if err == nil && code.Place != nil {
		err = code.Place()
	}
	if err != nil {
		return nil, err
	}
	return code, nil
}

// Generate makes the kernels of a module, in their order, for a processor with the machine's features. They can run
// once the code is placed. Kernels that it has no code for are compiled by package portable: Left says which, and why.
// The error, here and of Place, is a *diag.Error of kind ErrUnsupported: for kernels of blocks of threads, and if the
// system gives no executable pages.
func Generate(m *loop.Module, machine target.Machine) (*target.Code, error) {
	if !call.Supported {
		return nil, diag.Unsupportedf("machine code for amd64 on another processor")
	}
	code := &target.Code{Machine: machine, Kernels: make([]target.Kernel, len(m.Kernels))}
	routines := &routines{}
	rest := &loop.Module{Name: m.Name, Dims: m.Dims, Requires: m.Requires, Limits: m.Limits, Choices: m.Choices}
	var indices []int
	unlike, which := loop.Distinct(m.Kernels)
	compiled, why := compileAll(unlike, isaOf(machine), m)
	routines.bytes = make([]byte, 0, roomFor(compiled))
	for _, k := range compiled {
		if k != nil {
			routines.add(k)
		}
	}
	for i, k := range m.Kernels {
		same := compiled[which[i]]
		if same == nil {
			left := why[which[i]]
			left.Kernel = k.Name
			code.Left = append(code.Left, left)
			rest.Kernels, indices = append(rest.Kernels, k), append(indices, i)
			continue
		}
		named := *same
		named.name, named.source = k.Name, k.Source
		for _, reason := range same.slower {
			code.Slower = append(code.Slower, target.Left{Kernel: k.Name, Reason: reason})
		}
		code.Kernels[i] = &named
	}
	others, err := portable.Compile(rest, machine)
	if err != nil {
		return nil, err
	}
	for i, k := range others.Kernels {
		code.Kernels[indices[i]] = k
	}
	if routines.seal(); len(routines.bytes) == 0 {
		return code, nil
	}
	code.Bytes = int64(len(routines.bytes))
	code.Place = func() error {
		block, err := routines.load(m.Name)
		if err != nil {
			return err
		}
		code.Place, code.Release, code.Held = nil, block.Close, func() int64 { return held(block) }
		routines.bytes = nil
		return nil
	}
	return code, nil
}

// held returns the size of a block of code, if the kernel's own count of its pages agrees; else that count.
func held(block *mem.Block) int64 {
	if size, ok := mem.KernelSize(block); ok && size != block.Mapped() {
		return size
	}
	return block.Size()
}

// workspaces are the unused workspaces.
var workspaces = sync.Pool{New: func() any { return &workspace{} }}

// compileAll compiles kernels, several at a time; for a kernel without machine code, why has the reason. A panic is a
// bug in this package: the reason then has a fault. In tests of any package it ends the compilation instead: a kernel
// that became portable would have right results, and take hundreds of times as long.
func compileAll(kernels []*loop.Kernel, i *isa, m *loop.Module) (compiled []*kernel, why []target.Left) {
	compiled, why = make([]*kernel, len(kernels)), make([]target.Left, len(kernels))
	var next atomic.Int64
	var workers diag.Group
	for range min(runtime.GOMAXPROCS(0), len(kernels)) {
		workers.Go("generating machine code", func() error {
			work := workspaces.Get().(*workspace)
			work.module = m
			for at := next.Add(1) - 1; at < int64(len(kernels)); at = next.Add(1) - 1 {
				compiled[at], why[at] = work.compileOne(kernels[at], i)
			}
			work.module = nil
			workspaces.Put(work)
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		panic(err)
	}
	for _, w := range why {
		if w.Fault != nil && flag.Lookup("test.v") != nil {
			panic(w.Fault)
		}
	}
	return compiled, why
}

// compileOne is compile, except that a panic becomes a Fault and the workspace starts afresh.
func (w *workspace) compileOne(k *loop.Kernel, i *isa) (compiled *kernel, why target.Left) {
	defer func() {
		if r := recover(); r != nil {
			fault := diag.Recovered(r, "generating machine code")
			compiled, why = nil, target.Left{Reason: "a bug in weir", Fault: fault}
			*w = workspace{module: w.module}
		}
	}()
	compiled, why.Reason = w.compile(k, i)
	return compiled, why
}

// isaOf returns the instruction set for a machine: AVX-512 with vectors of 64 bytes, perhaps in halves, or AVX2.
func isaOf(machine target.Machine) *isa {
	if machine.VectorBytes < 64 {
		i := *avx2
		i.dot = machine.Dot.Bytes
		return &i
	}
	i := *avx512
	i.squares = machine.Has("amxtile") && machine.Has("amxint8") && machine.Has("amxbf16")
	if i.dot, i.bf16 = machine.Dot.Bytes, machine.Dot.BF16; machine.Halves() {
		return i.inHalves()
	}
	return &i
}

// routines is the code of a program's kernels on its way to executable pages.
type routines struct {
	bytes []byte
	nests []*nest
	at    []int
	pause *pauser // of the kernels that pause; nil if no kernel does
	// saveAt and resumeAt are the offsets of the pause's entries, once the routines are sealed.
	saveAt, resumeAt int
}

// pauser is the routine by which kernels pause: the addresses of the code that saves registers, and that restores them.
type pauser struct {
	isa          *isa
	save, resume uintptr
}

// routineAlign is the alignment of routines, in bytes: the constants after them are aligned relative to it.
const routineAlign = 64

// roomFor returns an upper bound of the bytes of kernels' routines, with the one by which they pause.
func roomFor(kernels []*kernel) (bytes int) {
	pauses := false
	for _, k := range kernels {
		if k == nil {
			continue
		}
		if k.header > 0 && !pauses {
			code, _ := k.isa.pauseCode()
			bytes, pauses = bytes+len(code), true
		}
		for i := range k.nests {
			bytes += len(k.nests[i].code) + routineAlign - 1
		}
	}
	return bytes
}

// add appends the kernel's routines, each aligned to routineAlign, and drops their own copies of the code: they become
// parts of the bytes, which have room for all routines.
func (r *routines) add(k *kernel) {
	if k.header > 0 {
		if r.pause == nil {
			r.pause = &pauser{isa: k.isa}
		}
		k.pause = r.pause
	}
	for i := range k.nests {
		n := &k.nests[i]
		r.bytes = append(r.bytes, make([]byte, -len(r.bytes)&(routineAlign-1))...)
		r.at = append(r.at, len(r.bytes))
		r.nests = append(r.nests, n)
		r.bytes = append(r.bytes, n.code...)
		n.code = r.bytes[len(r.bytes)-len(n.code):]
	}
}

// seal appends the routine by which kernels pause, if any does.
func (r *routines) seal() {
	if r.pause != nil {
		code, resume := r.pause.isa.pauseCode()
		r.saveAt, r.resumeAt = len(r.bytes), len(r.bytes)+resume
		r.bytes = append(r.bytes, code...)
	}
}

// load maps all routines, which are sealed, as executable pages and sets the nests' entries.
func (r *routines) load(label string) (*mem.Block, error) {
	block, err := mem.MapCode(label, r.bytes)
	if err != nil {
		return nil, err
	}
	for i, n := range r.nests {
		n.entry, n.code = uintptr(block.Pointer())+uintptr(r.at[i]), nil
	}
	if r.pause != nil {
		base := uintptr(block.Pointer())
		r.pause.save, r.pause.resume = base+uintptr(r.saveAt), base+uintptr(r.resumeAt)
	}
	return block, nil
}

// compile compiles one kernel, except for the address of its code; if the generator refuses it, reason says why.
func compile(k *loop.Kernel, i *isa) (result *kernel, reason string) {
	return new(workspace).compile(k, i)
}

// compile compiles a kernel; if the generator refuses it, the result is nil and reason says why.
func (w *workspace) compile(k *loop.Kernel, i *isa) (result *kernel, reason string) {
	reason = attempt(func() { result = w.newKernel(k, i) })
	if reason != "" {
		return nil, reason
	}
	return result, ""
}

// newKernel compiles a kernel; it panics with a refusal, which attempt catches.
func (w *workspace) newKernel(k *loop.Kernel, i *isa) *kernel {
	m := w.module
	if m == nil {
		m = &loop.Module{}
	}
	ke := &kernelEmitter{kernel: k, isa: i, work: w, memories: map[string]*memory{}, dims: map[sym.Name]int{},
		derived: map[string]int{}, ranges: sym.NewDims(), divisors: loop.DivisorsOf(k, m)}
	natural := sym.Range{Min: 0, Max: math.MaxInt64}
	course, stepped := loop.CourseOf(k)
	shares := slices.ContainsFunc(k.Params, func(p *loop.Param) bool { return p.Access != loop.Read && packs(p.DType) })
	stepped = stepped && !shares
	ke.inputs = k.Dims
	if stepped {
		ke.inputs = append(slices.Clone(k.Dims), course.Steps.Var)
	}
	for _, name := range ke.inputs {
		ke.dims[name] = ke.newWord()
		ke.ranges.Set(name, m.RangeOf(name))
	}
	out := &kernel{name: k.Name, source: k.Source, isa: i, dims: len(k.Dims), operands: len(k.Params), first: ke.words}
	for _, p := range k.Params {
		m := &memory{word: ke.newWord(), dtype: p.DType, shape: p.Shape, strides: p.Strides, steps: p.Strides, param: p}
		if m.strides == nil {
			m.steps = loop.RowMajor(p.Shape)
		}
		ke.memories[p.Name] = m
	}
	for _, l := range loop.Locals(k) {
		word := ke.newWord()
		ke.memories[l.Local.Name] = &memory{word: word, dtype: l.Local.DType, shape: l.Local.Shape,
			steps: loop.RowMajor(l.Local.Shape)}
		out.locals = append(out.locals, derived{word, ke.code(l.Offset)})
	}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			r := natural
			if _, hi := ke.ranges.Bounds(s.Extent); hi < math.MaxInt64 {
				r.Max = max(hi-1, 0)
			}
			ke.ranges.Set(s.Var, r)
		case *loop.Check:
			lo, _ := ke.ranges.Bounds(s.Min)
			_, hi := ke.ranges.Bounds(s.Max)
			ke.ranges.Set(s.Name, sym.Range{Min: lo, Max: max(lo, hi)})
		}
		return true
	})
	ke.failed = ke.words
	ke.words += 3
	nests := loop.Nests(k)
	if shares { // tiles at once would write to one byte
		nests = []loop.Nest{{Body: k.Body}}
	}
	if stepped {
		nests = slices.Concat(course.Before, course.Each, course.After)
		out.steps = &steps{extent: ke.code(course.Steps.Extent), formula: course.Steps.Extent.Max(sym.Const(0)),
			first: len(course.Before), end: len(course.Before) + len(course.Each)}
	}
	var builders []*builder
	var tiles []asm.Label
	for _, n := range nests {
		compiled := nest{formula: n.Tiles()}
		for _, l := range n.Loops {
			compiled.tiles = append(compiled.tiles, ke.code(l.Extent))
		}
		b, again := ke.routine(n)
		builders, tiles = append(builders, b), append(tiles, again)
		out.nests = append(out.nests, compiled)
	}
	// Only now are all words of the frame known, after which spilled values lie.
	end := int32(ke.words * 8)
	spill := (end + int32(i.bits/8) - 1) / int32(i.bits/8) * int32(i.bits/8)
	for at, b := range builders {
		code, used, tile, longest := b.finishTiles(spill, tiles[at])
		if longest > longestMost {
			ke.bug("%d instructions without a point to stop", longest)
		}
		out.longest = max(out.longest, longest)
		out.nests[at].code = code
		if out.nests[at].portion = 0; tile > 0 {
			out.nests[at].portion = max(1, callMost/tile)
		} else {
			out.header = int(i.headerBytes())
		}
		end = max(end, used)
	}
	out.launch, out.checks, out.failed, out.slower = ke.launch, ke.checks, ke.failed, ke.slower
	out.fixed = (int(end) + loop.ScratchAlign - 1) &^ (loop.ScratchAlign - 1)
	out.formula = loop.Scratch(k).Add(sym.Const(int64(out.header + out.fixed)))
	out.scratch = ke.code(out.formula)
	out.width = loop.WidthOf(k)
	return out
}

// routine emits a nest: a loop over the tiles from RSI to RDX, in which the parallel loops' variables are found from
// the tile's number. The innermost loop's variable changes fastest. again is the label of the loop over tiles.
func (k *kernelEmitter) routine(n loop.Nest) (b *builder, again asm.Label) {
	e := &emitter{builder: k.work.builder(k.isa), k: k, names: map[sym.Name]name{}, bound: map[string]binding{}}
	for name, word := range k.dims {
		e.names[name] = nameOfWord(word)
	}
	e.open(nil)
	tile, end := e.general(), e.general()
	e.assign(tile, asm.RSI)
	e.assign(end, asm.RDX)
	scope := e.open(n.Body)
	rest := tile
	for i := len(n.Loops) - 1; i >= 0; i-- {
		f := n.Loops[i]
		if i == 0 {
			e.names[f.Var] = name{depth: scope.depth, register: e.copyOf(rest)}
			break
		}
		e.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, rest}})
		divisor := e.integer(f.Extent)
		e.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RDX}, Imm: 0})
		e.Emit(asm.Inst{Op: asm.DIV, Bits: 64, Args: [4]asm.Reg{divisor}})
		rest = e.copyOf(asm.RAX)
		e.names[f.Var] = name{depth: scope.depth, register: e.copyOf(asm.RDX)}
	}
	scope.certain = true
	e.tile(n)
	body := e.close()
	again = e.label()
	over := e.label()
	e.compareNumbers(tile, end)
	e.jump(asm.JGE, over)
	e.Append(scope.head)
	e.bind(again)
	e.Append(body)
	e.integerImm(asm.ADD, tile, 1)
	e.compareNumbers(tile, end)
	e.jump(asm.JL, again)
	e.bind(over)
	e.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RAX}, Imm: 0})
	e.Emit(asm.Inst{Op: asm.RET})
	return e.builder, again
}

// tile emits a tile's body, and a second version for tiles of the interior if that saves comparisons.
func (e *emitter) tile(n loop.Nest) {
	edge, done := e.label(), e.label()
	inside := map[sym.Name]sym.Range{}
	for _, f := range n.Loops {
		extent, ok := f.Extent.Const()
		if !ok {
			continue
		}
		if first, end, ok := e.interior(f.Var, extent, n.Body); ok {
			inside[f.Var] = sym.Range{Min: first, Max: end - 1}
			e.integerImm(asm.CMP, e.integer(sym.Var(f.Var)), first)
			e.jump(asm.JL, edge)
			e.integerImm(asm.CMP, e.integer(sym.Var(f.Var)), end)
			e.jump(asm.JGE, edge)
		}
	}
	version := func() {
		s := e.open(n.Body)
		e.body(n.Body)
		body := e.close()
		e.Append(s.head)
		e.Append(body)
	}
	if len(inside) > 0 {
		before := map[sym.Name]sym.Range{}
		for name, r := range inside {
			before[name], _ = e.k.ranges.Get(name)
			e.k.ranges.Set(name, r)
		}
		version()
		for name, r := range before {
			e.k.ranges.Set(name, r)
		}
		e.jump(asm.JMP, done)
		e.bind(edge)
		version()
		e.bind(done)
		return
	}
	e.body(n.Body)
}

// nameOfWord returns a name whose value is in a word of the frame.
func nameOfWord(word int) name { return name{word: word} }

// note records, once, that something is done in a slower way than the schedule intended.
func (k *kernelEmitter) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(k.slower, note) {
		k.slower = append(k.slower, note)
	}
}
