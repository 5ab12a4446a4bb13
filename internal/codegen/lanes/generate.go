package lanes

import (
	"flag"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Generate makes the kernels of a module, in their order, for a processor with the machine's features. They can run
// once the code is placed. Kernels that it has no code for are compiled by package portable: Left says which, and why.
// The error, here and of Place, is a *diag.Error of kind ErrUnsupported: for kernels of blocks of threads, and if the
// system gives no executable pages. open returns a compiler, and close ends its use.
func Generate(m *loop.Module, machine target.Machine, open func() (c Compiler, close func())) (*target.Code, error) {
	code := &target.Code{Machine: machine, Kernels: make([]target.Kernel, len(m.Kernels))}
	routines := &Routines{}
	rest := &loop.Module{Name: m.Name, Dims: m.Dims, Requires: m.Requires, Limits: m.Limits, Choices: m.Choices}
	var indices []int
	unlike, which := loop.Distinct(m.Kernels)
	compiled, why := compileAll(unlike, m, open)
	routines.bytes = make([]byte, 0, roomFor(compiled))
	for _, k := range compiled {
		if k != nil {
			routines.Add(k)
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
		for _, reason := range same.Slower {
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
	if routines.Seal(); len(routines.bytes) == 0 {
		return code, nil
	}
	code.Bytes = int64(len(routines.bytes))
	code.Place = func() error {
		block, err := routines.Load(m.Name)
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

// compileAll compiles kernels, several at a time; for a kernel without machine code, why has the reason. A panic is a
// bug in this package: the reason then has a fault. In tests of any package it ends the compilation instead: a kernel
// that became portable would have right results, and take hundreds of times as long.
func compileAll(kernels []*loop.Kernel, m *loop.Module, open func() (Compiler, func())) (compiled []*Kernel,
	why []target.Left) {
	compiled, why = make([]*Kernel, len(kernels)), make([]target.Left, len(kernels))
	var next atomic.Int64
	var workers diag.Group
	work := func() error {
		c, done := open()
		for at := next.Add(1) - 1; at < int64(len(kernels)); at = next.Add(1) - 1 {
			if compiled[at], why[at] = CompileOne(kernels[at], m, c); why[at].Fault != nil {
				c, done = open() // one that began a kernel is not used again
			}
		}
		done()
		return nil
	}
	if n := min(runtime.GOMAXPROCS(0), len(kernels)); n > 1 {
		for range n {
			workers.Go("generating machine code", work)
		}
	} else {
		_ = work() // waking another worker would take longer than a small kernel
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

// Placed places generated code; err is that of its generation.
func Placed(code *target.Code, err error) (*target.Code, error) {
	if err == nil && code.Place != nil {
		err = code.Place()
	}
	if err != nil {
		return nil, err
	}
	return code, nil
}

// CompileOne is CompileKernel, except that a panic becomes a Fault.
func CompileOne(k *loop.Kernel, m *loop.Module, c Compiler) (compiled *Kernel, why target.Left) {
	defer func() {
		if r := recover(); r != nil {
			fault := diag.Recovered(r, "generating machine code")
			compiled, why = nil, target.Left{Reason: "a bug in weir", Fault: fault}
		}
	}()
	compiled, why.Reason = CompileKernel(k, m, c)
	return compiled, why
}

// Routines is the code of a program's kernels on its way to executable pages.
type Routines struct {
	bytes []byte
	nests []*Nest
	at    []int
	pause *pauser // of the kernels that pause; nil if no kernel does
	// saveAt and resumeAt are the offsets of the pause's entries, once the routines are sealed.
	saveAt, resumeAt int
}

// pauser is the routine by which kernels pause: the addresses of the code that saves registers, and that restores them.
type pauser struct {
	processor    Processor
	save, resume uintptr
}

// RoutineAlign is the alignment of routines, in bytes: the constants after them are aligned relative to it.
const RoutineAlign = 64

// roomFor returns an upper bound of the bytes of kernels' routines, with the one by which they pause.
func roomFor(kernels []*Kernel) (bytes int) {
	pauses := false
	for _, k := range kernels {
		if k == nil {
			continue
		}
		if k.Header > 0 && !pauses {
			code, _ := k.Processor.PauseCode()
			bytes, pauses = bytes+len(code), true
		}
		for i := range k.Nests {
			bytes += len(k.Nests[i].Code) + RoutineAlign - 1
		}
	}
	return bytes
}

// Add appends the kernel's routines, each aligned to routineAlign, and drops their own copies of the code: they become
// parts of the bytes, which have room for all routines.
func (r *Routines) Add(k *Kernel) {
	if k.Header > 0 {
		if r.pause == nil {
			r.pause = &pauser{processor: k.Processor}
		}
		k.pause = r.pause
	}
	for i := range k.Nests {
		n := &k.Nests[i]
		r.bytes = append(r.bytes, make([]byte, -len(r.bytes)&(RoutineAlign-1))...)
		r.at = append(r.at, len(r.bytes))
		r.nests = append(r.nests, n)
		r.bytes = append(r.bytes, n.Code...)
		n.Code = r.bytes[len(r.bytes)-len(n.Code):]
	}
}

// Seal appends the routine by which kernels pause, if any does.
func (r *Routines) Seal() {
	if r.pause != nil {
		code, resume := r.pause.processor.PauseCode()
		r.saveAt, r.resumeAt = len(r.bytes), len(r.bytes)+resume
		r.bytes = append(r.bytes, code...)
	}
}

// Load maps all routines, which are sealed, as executable pages and sets the nests' entries.
func (r *Routines) Load(label string) (*mem.Block, error) {
	block, err := mem.MapCode(label, r.bytes)
	if err != nil {
		return nil, err
	}
	for i, n := range r.nests {
		n.Entry, n.Code = uintptr(block.Pointer())+uintptr(r.at[i]), nil
	}
	if r.pause != nil {
		base := uintptr(block.Pointer())
		r.pause.save, r.pause.resume = base+uintptr(r.saveAt), base+uintptr(r.resumeAt)
	}
	return block, nil
}

// CompileKernel compiles a kernel, except for the address of its code; if the generator refuses it, the result is nil
// and reason says why. m has the known facts about the dimensions.
func CompileKernel(k *loop.Kernel, m *loop.Module, c Compiler) (result *Kernel, reason string) {
	reason = attempt(func() { result = newKernel(k, m, c) })
	if reason != "" {
		return nil, reason
	}
	return result, ""
}

// newKernel compiles a kernel; it panics with a refusal, which attempt catches.
func newKernel(k *loop.Kernel, m *loop.Module, c Compiler) *Kernel {
	processor := c.Processor()
	ke := &KernelEmitter{kernel: k, memories: map[string]*memory{}, dims: map[sym.Name]int{},
		derived: map[string]int{}, Ranges: sym.NewDims(), Divisors: loop.DivisorsOf(k, m)}
	natural := sym.Range{Min: 0, Max: math.MaxInt64}
	course, stepped := loop.CourseOf(k)
	shares := slices.ContainsFunc(k.Params, func(p *loop.Param) bool { return p.Access != loop.Read && Packs(p.DType) })
	stepped = stepped && !shares
	ke.inputs = k.Dims
	if stepped {
		ke.inputs = append(slices.Clone(k.Dims), course.Steps.Var)
	}
	for _, name := range ke.inputs {
		ke.dims[name] = ke.newWord()
		ke.Ranges.Set(name, m.RangeOf(name))
	}
	out := &Kernel{name: k.Name, source: k.Source, Processor: processor, dims: len(k.Dims),
		operands: len(k.Params), First: ke.Words}
	for _, p := range k.Params {
		m := &memory{word: ke.newWord(), DType: p.DType, Shape: p.Shape, Strides: p.Strides, steps: p.Strides, Param: p}
		if m.Strides == nil {
			m.steps = loop.RowMajor(p.Shape)
		}
		ke.memories[p.Name] = m
	}
	for _, l := range loop.Locals(k) {
		word := ke.newWord()
		ke.memories[l.Local.Name] = &memory{word: word, DType: l.Local.DType, Shape: l.Local.Shape,
			steps: loop.RowMajor(l.Local.Shape)}
		out.locals = append(out.locals, derived{word, ke.code(l.Offset)})
	}
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			r := natural
			if _, hi := ke.Ranges.Bounds(s.Extent); hi < math.MaxInt64 {
				r.Max = max(hi-1, 0)
			}
			ke.Ranges.Set(s.Var, r)
		case *loop.Check:
			lo, _ := ke.Ranges.Bounds(s.Min)
			_, hi := ke.Ranges.Bounds(s.Max)
			ke.Ranges.Set(s.Name, sym.Range{Min: lo, Max: max(lo, hi)})
		}
		return true
	})
	ke.failed = ke.Words
	ke.Words += 3
	nests := loop.Nests(k)
	if shares { // tiles at once would write to one byte
		nests = []loop.Nest{{Body: k.Body}}
	}
	if stepped {
		nests = slices.Concat(course.Before, course.Each, course.After)
		out.steps = &steps{extent: ke.code(course.Steps.Extent), formula: course.Steps.Extent.Max(sym.Const(0)),
			first: len(course.Before), end: len(course.Before) + len(course.Each)}
	}
	var list []Routine
	for _, n := range nests {
		compiled := Nest{Formula: n.Tiles()}
		for _, l := range n.Loops {
			compiled.tiles = append(compiled.tiles, ke.code(l.Extent))
		}
		list = append(list, c.Routine(ke, n))
		out.Nests = append(out.Nests, compiled)
	}
	// Only now are all words of the frame known, after which spilled values lie.
	end := int32(ke.Words * 8)
	align := int32(processor.VectorBytes())
	spill := (end + align - 1) / align * align
	for at, r := range list {
		code, used, tile, longest := r.Finish(spill)
		if longest > longestMost {
			ke.Bug("%d instructions without a point to stop", longest)
		}
		out.longest = max(out.longest, longest)
		out.Nests[at].Code = code
		if out.Nests[at].portion = 0; tile > 0 {
			out.Nests[at].portion = max(1, callMost/tile)
		} else {
			out.Header = int(processor.HeaderBytes())
		}
		end = max(end, used)
	}
	out.launch, out.checks, out.failed, out.Slower = ke.launch, ke.checks, ke.failed, ke.slower
	out.Fixed = (int(end) + loop.ScratchAlign - 1) &^ (loop.ScratchAlign - 1)
	out.formula = loop.Scratch(k).Add(sym.Const(int64(out.Header + out.Fixed)))
	out.scratch = ke.code(out.formula)
	out.width = loop.WidthOf(k)
	return out
}
