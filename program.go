package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/device/cpu"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Options say how to compile. The zero value works: the best target here, f32, as many threads as GOMAXPROCS, one run
// at a time.
type Options struct {
	Target Target
	// Device is the number of the device, of those that Devices lists for the target; 0 is the first.
	Device int
	// Limits compiles for a device of these limits: a profile's name, "minimum", "mobile", "desktop" or "gfx942", and
	// changes to it, such as "desktop,shared=32768,-float64". The program runs if the device has all of that; else, or if
	// there is no device, it has its plan and its kernels, and cannot run.
	Limits string
	// Precision is of products and convolutions of f32 with constant weights: F32 (also when zero), BF16 or I8. BF16
	// has the weights rounded, which halves their bytes, and the other operand where that is faster, and adds up in
	// f32: results differ by at most about 2⁻⁷ of the sum of the products' magnitudes for each. I8 has the weights as
	// bytes with a scale for each output channel, and the other operand quantised in each run, with a scale for each
	// row or image; sums are exact. docs/accuracy.md has the bounds, and which products stay as they are.
	Precision DType
	Threads   int   // the most workers that one run may use; 0: GOMAXPROCS
	Calls     int   // runs that may be active, or have results not closed, at once; 0: 1
	Budget    int64 // the most bytes that the whole may take; 0: no limit
	// DeviceBudget is the most bytes that the program may take of its device's memory, where Budget is of the host's; 0:
	// no limit. For neither is anything of a program for a device computed again, in pieces, or from files: it fits as it
	// is, for DeviceBudget at least with all convolutions computed directly, or is refused.
	DeviceBudget int64
	// PageFolder is where a budget has files of its own: what calls spill to, and weights that were laid out anew and
	// are paged. It should be on a disk: files on a tmpfs are memory. Empty, it is the folder for temporary files
	// (TMPDIR). A folder that does not take them is ErrInput when the program is compiled, and one without room for
	// them ErrMemory.
	PageFolder string
	// Dims narrows the named dimensions' ranges.
	Dims map[string]Range
	// CPU is the level of processor to make code for: "avx512amx", "avx512bf16", "avx512vnni", "avx512", "avxvnni",
	// "avx2", "portable", which is plain Go, or "native", the best that this processor has (also when empty). A level
	// that it has not is ErrUnsupported, unless Cross says that the program is for another machine: then it runs
	// portably here, and WriteTo's artefact is for that level.
	CPU   string
	Cross bool
	// Exact leaves out what computes by other formulas than the model's: convolutions of 3 × 3 in tiles (Winograd),
	// whose results differ from plain sums by up to 1e-5 of Σ|x| · max|w|, over the result's own window and filter.
	// docs/accuracy.md has the bounds of everything.
	Exact bool
	// Tune times other ways to compute each kernel than the tables of the scheduler choose, and takes the fastest:
	// Program.Tuned lists them. It takes ten to twenty seconds, meanwhile the memory of two programs, and wants the
	// processor to itself. Dimensions that Dims leaves free are taken as 1 along an input's first axis and 64 along the
	// others, if they may be.
	Tune bool
	// Outputs names the tensors to give as results, any of the model's own; nil: the model's outputs.
	Outputs []string
	// States makes states of inputs, beside those that a model written as text has: it names the output that is the new
	// value of each, of the same type and shape. A run updates them in place, and wants Update for them: a cache of
	// keys or values that TensorScatter, ScatterND or GroupQueryAttention with a shared buffer writes to is not copied.
	States map[string]string
	// Cache is the type in which states of f32 that are caches are stored: F32 (also when zero) or BF16, which halves
	// their bytes. A cache is a state whose new value is the old one but for the elements that a scatter replaces. Its
	// input and output are of this type. An element is rounded once, when it is written, and what reads the cache reads
	// what is stored: each element read is off by at most 2⁻⁸ of itself. Other states stay as they are.
	//
	// I8 stores caches whose scatters replace whole vectors, along the last axis, as bytes. Each vector has a scale, of
	// f32, its greatest magnitude / 127; a vector that is taken apart into heads has one for each of them. The scales
	// of the input NAME are a state of their own, NAME.scale, of the cache's shape but for the last axis, and the
	// output's are the new value of that: Inputs lists both. An element read is off by at most the vector's greatest
	// magnitude / 254. A vector with an infinity or NaN reads as NaN.
	Cache DType
	// Layouts says how inputs lie in memory, by name, if not in row-major order: "0,2,3,1" of an image with its channels
	// side by side. A run reads such memory where it lies (see Strided); kernels that cannot read it so have one copy in
	// row-major order, in the arena: Program.Laid. What lies otherwise, also in row-major order, is copied for the run.
	// Call's tensors for such an input have the memory's shape. States and artefacts have no other layouts than they had.
	Layouts map[string]Layout
	// Private copies the weights that a program would read in the model's file, so that what becomes of the file does
	// not matter any more, but for those that a budget leaves there. Without it a run fails with ErrInput if the file's
	// size or time of modification has changed since it was loaded. See also WEIR_MAP in docs/memory.md.
	Private bool
	Logger  *slog.Logger // nil: silent

	// Stage, where not nil, is given the text of the model after each stage of the compiler. Of a constant of many
	// elements it has the size only, but after WholeStage: that text, if it is of ir, has them all, and can be loaded as a
	// model.
	Stage      func(name, text string)
	WholeStage string
}

// Dims binds named dimensions.
type Dims map[string]int64

// Condition is something that must hold of the inputs' dimensions, and where it comes from: comparisons as Python
// writes them, with "or" or "and" between them.
type Condition struct{ Condition, From string }

// Program is a compiled model. Any goroutine may run it.
type Program struct {
	model     *Model
	engine    mem.Gate[*executor.Executable] // its code and weights, shut by Close; the last one out gives all memory back
	compiled  *compiler.Compiled
	options   Options
	memory    *Memory
	labels    *report.Labels // of its dimensions
	inputs    []Info
	outputs   []Info
	takes     []edge // what the inputs are made of
	gives     []edge // and the outputs
	becomes   []int  // by input's port: the output that replaces it; −1 if it is no state
	replaces  []int  // by output's port: the input that it replaces
	target    Target
	proved    []Condition
	tuned     []Tuning
	exhausted bool     // see Memory.Exhausted
	saved     []Saving // of an artefact, when it was made

	slots chan struct{} // one for each call that may be active
	mu    sync.Mutex
	idle  []*bound // calls that nobody uses, latest last
	held  []holder // open results and calls, oldest first

	closed chan struct{} // once all memory is given back
	failed error         // of that

	counts     counts
	made       origin        // where it was compiled
	device     device.Device // that it runs on beside the host; nil for none
	absent     error         // why a program for a device cannot run; nil: it can
	deviceHeld int64         // what its driver was asked for to make the executable ready
	files      files         // that runs read in place
	ledger     any           // the owner of its blocks there
	owns       []bool        // by output's port: it has storage that can be elsewhere
	own        []held        // by input: the states that the program has tensors for; nil if there are none

	asks     asks
	room     int64 // with a budget: what it leaves for what data decide
	stricter int64 // what the compiler is told to keep within is so much less than the budget
	over     over
	taken    atomic.Int64 // of it
}

// bound is a call for certain dimensions.
type bound struct {
	call *executor.Call
	dims []int64
}

// Compile prepares a model to run, and plans its memory. If no dimension is left open it takes the memory of a first
// call too, if that is small. When ctx ends it stops soon after, with the context's error. What does not fit
// Options.Budget is an ErrBudget whose Budget is one that works: the model was compiled within it.
func Compile(ctx context.Context, m *Model, o Options) (p *Program, err error) {
	if o.Tune {
		p, err = tune(ctx, m, o)
	} else {
		p, err = compileWith(ctx, m, o, compiler.Choices{})
	}
	if err != nil {
		return nil, m.enough(ctx, o, err)
	}
	return p, nil
}

// name returns what the program is called in CPU profiles: the model's file, or else the name that the model has for
// itself.
func (p *Program) name() string { return cmp.Or(p.model.file, p.compiled.Program.Name, "unnamed") }

// mostStricter is how often a model is compiled anew because its peak is more than the compiler reckoned.
const mostStricter = 4

// over is how many bytes more than its budgets a program takes, if that is why it is refused and something can be
// done.
type over struct{ host, device int64 }

// compileWith compiles with choices that were made. The compiler reckons with all dimensions at their upper bounds, and
// with the code that there is before anything is saved: where the peak is more than the budget in the end, it is told
// to keep within less. What takes too much of a device's memory is compiled with convolutions computed directly.
func compileWith(ctx context.Context, m *Model, o Options, choices compiler.Choices) (*Program, error) {
	first, beyond, err := compileWithin(ctx, m, o, choices, 0)
	if beyond.device > 0 {
		return compileDirect(ctx, m, o, choices, beyond.device, err)
	}
	excess := beyond.host
	for stricter, tries := excess, 0; excess > 0 && tries < mostStricter && stricter < o.Budget; tries++ {
		p, beyond, _ := compileWithin(ctx, m, o, choices, stricter)
		if p != nil {
			return p, nil
		}
		if stopped := ctx.Err(); stopped != nil {
			return nil, stopped
		}
		excess = beyond.host
		stricter += excess
	}
	return first, err
}

// compileDirect compiles without Winograd's algorithms, whose tiles and weights take memory, what takes so much more
// than its device's budget, and was refused for that. If it takes too much still, it is refused for the less.
func compileDirect(ctx context.Context, m *Model, o Options, choices compiler.Choices, excess int64,
	refused error) (*Program, error) {
	if choices.All.Tile != 0 || o.Exact {
		return nil, refused
	}
	choices.All.Tile = 1
	p, beyond, err := compileWithin(ctx, m, o, choices, 0)
	switch {
	case p != nil:
		peak, err := p.memory.Device.Formula(p.options.Calls).Max()
		if err != nil {
			return p, nil
		}
		p.saved = append(p.saved, Saving{Kind: "direct", Bytes: o.DeviceBudget + excess - peak})
		return p, nil
	case ctx.Err() != nil || beyond.device > 0 && beyond.device < excess:
		return nil, err
	}
	return nil, refused
}

// compileWithin compiles, and has the compiler keep within so much less than the budget.
func compileWithin(ctx context.Context, m *Model, o Options, choices compiler.Choices, stricter int64) (p *Program,
	beyond over, err error) {
	defer diag.Recover(&err, "compiling")
	defer diag.Faults(diag.Faults(true))
	if err := ctx.Err(); err != nil {
		return nil, over{}, err
	}
	if err := checkDebug(); err != nil {
		return nil, over{}, err
	}
	if o.Threads < 0 || o.Calls < 0 || o.Budget < 0 || o.DeviceBudget < 0 {
		return nil, over{}, diag.Inputf("%d threads, %d calls and budgets of %d and %d bytes: none of them is negative",
			o.Threads, o.Calls, o.Budget, o.DeviceBudget).
			WithFix("0 stands for all cores, one call and no budget")
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Calls == 0 {
		o.Calls = 1
	}
	if !slices.Contains([]DType{InvalidDType, F32, BF16, I8}, o.Precision) {
		return nil, over{}, diag.Unsupportedf("precision %s; f32, bf16 and i8 are supported", o.Precision)
	}
	if !slices.Contains([]DType{InvalidDType, F32, BF16, I8}, o.Cache) {
		return nil, over{}, diag.Unsupportedf("caches of %s; f32, bf16 and i8 are supported", o.Cache)
	}
	switch o.Target {
	case Best, CPU, Reference:
	case Portable:
		o.CPU = string(Portable)
	case Vulkan:
	default:
		return nil, over{}, diag.Unsupportedf("target %q; there are cpu, portable, reference and vulkan", o.Target)
	}
	if o.Limits != "" && o.Target != Vulkan {
		return nil, over{}, diag.Inputf("limits %q for target %q", o.Limits, o.Target).
			WithFix("limits are of a device: set the target to vulkan")
	}
	if o.Target == Reference && m.source.module() != nil {
		if o.Budget > 0 {
			return nil, over{}, diag.Unsupportedf("a budget for the reference, which computes on Go's heap").
				WithFix("compile for --target cpu, or set GOMEMLIMIT")
		}
		if o.Precision == BF16 || o.Precision == I8 {
			return nil, over{}, diag.Unsupportedf("%s by the reference, which computes what the model says", o.Precision).
				WithFix("compare with the tolerance of the precision")
		}
	}
	if err := m.files.Retain(); err != nil {
		return nil, over{}, inFile(err, m.file)
	}
	if o.Logger != nil {
		o.Logger.Debug("compiling", "model", m.file, "target", o.Target, "cpu", o.CPU)
	}
	p = &Program{model: m, options: o, target: o.Target, slots: make(chan struct{}, o.Calls), made: here(),
		closed: make(chan struct{}), stricter: stricter}
	kept := false
	defer func(p *Program) {
		if !kept {
			_ = p.closeOwn()
			_ = p.leaveDevice()
			m.files.Release(p)
		}
	}(p)
	if err = m.source.compile(ctx, p, o, choices); err != nil {
		return nil, over{}, inFile(err, m.file)
	}
	if p.target = Target(p.compiled.Code.Machine.Name); p.target != Portable && p.target != Reference &&
		p.target != Vulkan {
		p.target = CPU
	}
	for _, note := range p.compiled.Notes {
		if o.Logger != nil {
			o.Logger.Warn(note, "model", m.file)
		}
	}
	asked := p.deviceAsked()
	x, err := executor.New(p.compiled.Program, p.compiled.Code,
		executor.Options{Name: p.name(), Host: cpu.Host{}, Threads: o.Threads, Reserve: p.reserve, Guard: guarded,
			Poison: poisoned, Own: o.Private, Folder: o.PageFolder, Device: p.device, Absent: p.absent})
	if err != nil {
		return nil, over{}, err
	}
	p.deviceHeld = p.deviceAsked() - asked
	p.labels = report.LabelsOf(p.compiled.Program)
	p.ledger = x
	p.engine.Set(x, func() { p.end(x) })
	for i := range p.compiled.Program.Outputs {
		p.owns = append(p.owns, x.Owns(i))
	}
	if err := p.makeOwn(); err != nil {
		x.Close()
		return nil, over{}, inFile(err, m.file)
	}
	p.memory = newMemory(p)
	p.setStates()
	p.settle(x)
	for _, check := range []func() error{p.checkBudget, p.checkDeviceBudget, p.checkFolder, p.checkLimit} {
		if err := check(); err != nil {
			x.Close()
			return nil, p.over, inFile(err, m.file)
		}
	}
	kept = true
	p.ready()
	return p, over{}, nil
}

// ready makes the first call where nothing about it is left to know and it is small, so that the first run takes no
// longer than those that follow. Where there is no memory for it now, a run asks again, and says so.
func (p *Program) ready() {
	dims, known := make([]int64, len(p.compiled.Program.Dims)), Dims{}
	for i, d := range p.compiled.Program.Dims {
		switch {
		case d.Data:
		case d.Range.Min == d.Range.Max:
			dims[i], known[p.label(i)] = d.Range.Min, d.Range.Min
		default:
			return
		}
	}
	arena, open := p.memory.Arena.At(known)
	scratch, still := p.memory.Scratch.At(known)
	if poisoned || p.options.Cross || open != nil || still != nil || arena > mem.Ready || scratch > mem.Ready {
		return
	}
	if b, err := p.acquire(context.Background(), dims); err == nil {
		p.release(b)
	}
}

// compileModule builds a source's module and runs the compiler on it.
func (p *Program) compileModule(ctx context.Context, from sources.Model, o Options, choices compiler.Choices) error {
	m := p.model
	built, err := from.Build(ctx, o.asked())
	if err != nil {
		return err
	}
	module, names := built.Module, built.Results
	p.setEdges(edgesOf(built.Inputs), edgesOf(built.Outputs))
	if err := p.addStates(module, m, o.States); err != nil {
		return err
	}
	more, err := p.narrowCaches(module, names, o.Cache)
	if err != nil {
		return err
	}
	names = append(names, more...)
	if err := narrow(module, o.Dims); err != nil {
		return err
	}
	if err := p.lay(module, o.Layouts); err != nil {
		return err
	}
	machine, err := p.machine(o)
	if err != nil {
		return err
	}
	budget, err := p.budget(o)
	if err != nil {
		return err
	}
	p.compiled, err = compiler.Compile(module, compiler.Options{Machine: machine, Tight: tight, Budget: budget,
		Exact: o.Exact, Precision: o.Precision, Folder: o.PageFolder, Files: m.files, Choices: choices,
		Reference: p.target == Reference, Names: names, Written: from.Written(), After: o.Stage, Whole: o.WholeStage,
		Progress: func(stage string) {
			if o.Logger != nil {
				o.Logger.Debug("compiled", "stage", stage)
			}
		}})
	if err != nil {
		return err
	}
	if p.exhausted = p.compiled.Exhausted; p.exhausted && o.Logger != nil {
		o.Logger.Warn("proofs used up what they may cost: narrower dimensions may make the program smaller and faster",
			"model", m.file)
	}
	labels := report.LabelsOf(p.compiled.Program)
	for _, r := range p.compiled.IR.Proved {
		p.proved = append(p.proved, Condition{labels.Cond(r.Cond).String(), r.From})
	}
	return nil
}

// budget is what the compiler is told to keep within; nil if there is no limit.
func (p *Program) budget(o Options) (*budget.Budget, error) {
	own, err := p.ownBytes()
	if o.Budget <= 0 || p.target == Vulkan || err != nil {
		return nil, err
	}
	return &budget.Budget{Bytes: o.Budget - p.stricter, Held: own, Calls: o.Calls, Workers: o.Threads}, nil
}

// ones are the dimensions that Options.Dims leaves no value but 1, sorted.
func (o Options) ones() (list []string) {
	for name, r := range o.Dims {
		if r.Min == 1 && r.Max == 1 {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// checkBudget refuses a program that cannot keep within Options.Budget.
func (p *Program) checkBudget() error {
	if p.options.Budget <= 0 {
		return nil
	}
	// What data decide and nothing bounds is checked when a run asks for it.
	peak, err := p.memory.before(p.options.Calls).Max()
	if err != nil {
		return diag.New(ErrBudget, "the peak has no bound: %v", err).WithFix("narrow the dimensions with Options.Dims")
	}
	if peak > p.options.Budget {
		if p.target != Vulkan { // for which the compiler saves nothing
			p.over.host = peak - p.options.Budget
		}
		return budget.Over(peak, "the peak is %d bytes, %d are allowed", peak, p.options.Budget)
	}
	p.room = p.options.Budget - peak
	return nil
}

// checkDeviceBudget refuses a program that takes more of its device's memory than Options.DeviceBudget.
func (p *Program) checkDeviceBudget() error {
	most := p.options.DeviceBudget
	if most <= 0 {
		return nil
	}
	if p.memory.Device == nil {
		return diag.Inputf("a budget of %d bytes of a device's memory, and the program is for none", most).
			WithFix("compile for --target vulkan, or set Budget")
	}
	peak, err := p.memory.Device.Formula(p.options.Calls).Max()
	if err != nil {
		return diag.New(ErrBudget, "the peak in the device's memory has no bound: %v", err).
			WithFix("narrow the dimensions with Options.Dims")
	}
	if peak > most {
		if p.compiled.Tiled() {
			p.over.device = peak - most
		}
		return diag.New(ErrBudget, "the peak in the device's memory is %d bytes, %d are allowed", peak, most).
			WithFix("give the dimensions smaller values, or fewer calls")
	}
	return nil
}

// reserve takes bytes out of what the budget leaves for what data decide, or gives them back.
func (p *Program) reserve(bytes int64) error {
	if taken := p.taken.Add(bytes); p.options.Budget > 0 && bytes > 0 && taken > p.room {
		p.taken.Add(-bytes)
		return diag.New(ErrBudget, "%d more bytes, and the budget of %d leaves %d", bytes, p.options.Budget,
			max(0, p.room-(taken-bytes)))
	}
	return nil
}

// narrow sets the ranges of named dimensions.
func narrow(m *ir.Module, dims map[string]Range) error {
	known := report.NewLabels(m.Dims.Names())
	for _, label := range slices.Sorted(maps.Keys(dims)) {
		r := dims[label]
		name, ok := known.Find(label)
		if !ok {
			return diag.Inputf("the model has no dimension %q; it has %s", label,
				strings.Join(slices.Sorted(maps.Keys(known.Names)), ", ")).AtDim(label)
		}
		old, _ := m.Dims.Get(name)
		lo, hi := max(old.Min, r.Min), min(old.Max, r.Max)
		if lo > hi {
			return emptied(m, name, label, r, old)
		}
		m.Dims.Set(name, sym.Range{Min: lo, Max: hi})
		if sym.IsUnlimited(m.Limits[name]) && hi != Unbounded {
			m.Limits[name] = sym.Const(hi)
		}
	}
	return nil
}

// emptied is the error of a range that leaves nothing of a dimension's own. It says what gives the dimension its value,
// and the condition that its own range is from, if there is one.
func emptied(m *ir.Module, name sym.Name, label string, r Range, old sym.Range) error {
	given := sym.Range{Min: r.Min, Max: r.Max}
	e := diag.Inputf("%s leaves nothing of the dimension's own range %s", given, old).AtDim(label).
		WithFix("give it values of its own range").Found(m.Origins[name])
	for _, c := range m.Requires {
		if names := c.Cond.Vars(); len(names) != 1 || names[0] != name {
			continue
		}
		if ok, err := c.Cond.Eval(func(sym.Name) (int64, bool) { return r.Min, true }); err != nil || !ok {
			shown := c.Cond.Shown(sym.Labels(m.Dims.Names()))
			e.Detail += ": " + shown.Words() + " is needed"
			return e.From(c.From).AtTensor(c.Tensor)
		}
	}
	return e
}

// Inputs describes what a run is given.
func (p *Program) Inputs() []Info { return append([]Info(nil), p.inputs...) }

// Outputs describes what a run gives.
func (p *Program) Outputs() []Info { return append([]Info(nil), p.outputs...) }

// Target is where the program runs.
func (p *Program) Target() Target { return p.target }

// Memory is the certificate: what the program takes, as formulas over its dimensions.
func (p *Program) Memory() *Memory { return p.memory }

// Requires lists what must hold of the inputs' dimensions; a run that breaks one returns an error before any kernel
// runs.
func (p *Program) Requires() []Condition {
	var out []Condition
	for _, r := range p.compiled.Program.Requires {
		out = append(out, Condition{p.labels.Cond(r.Cond).Words(), r.From})
	}
	return out
}

// Inputs is a run's arguments by name.
type Inputs map[string]Arg

// Run runs the program once. When Options.Calls runs are active or have results that are not closed, it waits until one
// ends, or until ctx does.
func (p *Program) Run(ctx context.Context, in Inputs) (r *Results, err error) {
	defer p.counts.ended(&err)
	defer diag.Recover(&err, "running")
	args, dims, err := p.bindInputs(in)
	defer args.release()
	if err != nil {
		return nil, err
	}
	if err := args.part(p); err != nil {
		return nil, err
	}
	b, err := p.acquire(ctx, dims)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil { // a panic, too, gives the call back
			p.release(b)
		}
	}()
	if err := args.copyAll(p); err != nil {
		return nil, err
	}
	if err := args.place(b.call); err != nil {
		return nil, err
	}
	if err := p.unchanged(); err != nil {
		return nil, err
	}
	if err := p.run(ctx, b.call, args.parts); err != nil {
		return nil, p.torn(err, b.call)
	}
	runtime.KeepAlive(in)
	r, err = p.results(b, args)
	b.call.Unlend()
	return r, err
}

// run lends the arguments to a call and runs it.
func (p *Program) run(ctx context.Context, c *executor.Call, args []*tensor.Tensor) error {
	defer p.counts.busy(time.Now())
	for i, a := range args {
		data := a.Bytes()
		if err := c.Input(i, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return err
		}
	}
	return c.Run(ctx)
}

// Bind is the values that these arguments give the program's dimensions: what Memory's formulas want.
func (p *Program) Bind(in Inputs) (d Dims, err error) {
	defer diag.Recover(&err, "binding dimensions")
	args, values, err := p.bindInputs(in)
	defer args.release()
	if err != nil {
		return nil, err
	}
	d = Dims{}
	for i, dim := range p.compiled.Program.Dims {
		if !dim.Data {
			d[p.label(i)] = values[i]
		}
	}
	return d, nil
}

// setEdges says what the program's ports are to the user.
func (p *Program) setEdges(takes, gives []edge) {
	p.takes, p.gives = takes, gives
	p.inputs, p.outputs = edgeInfos(takes), edgeInfos(gives)
}

// bindInputs checks the arguments against the program's inputs, makes their parts, which the caller releases, error or
// not, and finds the dimensions' values.
func (p *Program) bindInputs(in Inputs) (*packing, []int64, error) {
	args := &packing{parts: make([]*tensor.Tensor, len(p.compiled.Program.Inputs))}
	list := make([]given, len(p.inputs))
	used := 0
	for i, info := range p.inputs {
		a, ok := in[info.Name]
		if ok {
			used++
		}
		if t, tensor := a.(*Tensor); a != nil && !(tensor && t == nil) {
			list[i] = a.given()
		} else if list[i], ok = p.ownState(i); !ok {
			return args, nil, diag.Inputf("no value is given for input %s", info).AtTensor(info.Name).
				WithFix("add Inputs{%q: …}", info.Name)
		}
		for _, t := range list[i].tensors {
			if t == nil {
				return args, nil, diag.Inputf("a tensor given for it is nil").AtTensor(info.Name)
			}
			inner, ok := t.enter()
			if !ok {
				return args, nil, diag.New(ErrClosed, "the tensor given for it is closed, or was given away").AtTensor(info.Name)
			}
			args.entered, list[i].data = append(args.entered, t), append(list[i].data, inner)
		}
	}
	if used != len(in) {
		for name := range in {
			if _, ok := p.input(name); !ok {
				return args, nil, p.noInput(name)
			}
		}
	}
	for i, e := range p.takes {
		var nothing []int64
		if list[i].kind == OptionalKind {
			nothing = p.nothing(e.Info, list)
		}
		pack := func() error { return args.pack(e, list[i], nothing) }
		if list[i].lent != nil || e.Info.Layout != "" {
			pack = func() error { return p.lie(args, e, list[i]) }
		}
		if err := pack(); err != nil {
			var known *Error
			if errors.As(err, &known) {
				return args, nil, known.AtTensor(e.Info.Name)
			}
			return args, nil, err
		}
	}
	dims, err := p.dimsOf(args.parts)
	if err == nil {
		err = p.repeats(list, dims)
	}
	if err == nil {
		err = p.mayPart(args, list)
	}
	return args, dims, err
}

// nothing is the shape of what stands for an optional tensor that is not there: its named dimensions are what other
// arguments make them, or 0.
func (p *Program) nothing(info Info, list []given) []int64 {
	shape := make([]int64, len(info.Shape))
	for axis, e := range info.Shape {
		if shape[axis] = e.Size; e.Dim == "" {
			continue
		}
		shape[axis] = 0
		for i, other := range p.inputs {
			for k, size := range other.Shape {
				if size.Dim == e.Dim && !other.Kind.sequence() && k < len(list[i].shape()) {
					shape[axis] = list[i].shape()[k]
				}
			}
		}
	}
	return shape
}

func (p *Program) input(name string) (int, bool) {
	for i, info := range p.inputs {
		if info.Name == name {
			return i, true
		}
	}
	return 0, false
}

// noInput is the error of a name that is none of the inputs. The default of an input is compiled in, as every other
// weight is.
func (p *Program) noInput(name string) error {
	if p.model.source.Fixed(name) {
		return diag.Unsupportedf("%q has a value in the model's file, which is part of the program; a run cannot give "+
			"another", name).AtTensor(name).WithFix("take it out of the file's initializers")
	}
	return diag.Inputf("the program has no input %q", name).AtTensor(name).WithFix("its inputs are %s", infoList(p.inputs))
}

func infoList(infos []Info) string {
	list := make([]string, len(infos))
	for i, info := range infos {
		list[i] = info.String()
	}
	return strings.Join(list, ", ")
}

// dimsOf reads the dimensions' values off the arguments' shapes, and checks every extent.
func (p *Program) dimsOf(args []*tensor.Tensor) ([]int64, error) {
	prog := p.compiled.Program
	dims := make([]int64, len(prog.Dims))
	known := make([]bool, len(dims))
	for i, d := range prog.Dims {
		if !d.Data && d.Range.Min == d.Range.Max { // shapes may have its value in its stead
			dims[i] = d.Range.Min
		}
	}
	index := func(name sym.Name) int {
		for i := range prog.Dims {
			if prog.Dims[i].Name == name {
				return i
			}
		}
		return -1
	}
	for i, d := range prog.Dims {
		if !d.Data && d.Range.Min == d.Range.Max { // the tensors' shapes may have the number in its place
			dims[i], known[i] = d.Range.Min, true
		}
	}
	for i, a := range args {
		t := &prog.Tensors[prog.Inputs[i].Tensor]
		if a.DType() != t.DType || a.Rank() != len(t.Shape) {
			return nil, diag.Inputf("%s%s is given, %s is expected", a.DType(), tensor.ShapeString(a.Shape()), p.owner(i)).
				AtTensor(p.owner(i).Name)
		}
		for axis, extent := range t.Shape {
			if name, ok := extent.Name(); ok {
				if d := index(name); d >= 0 && !known[d] {
					dims[d], known[d] = a.Shape()[axis], true
				}
			}
		}
		for k, d := range prog.Inputs[i].Elements {
			if int64(k) < a.Len() {
				dims[d], known[d] = a.Int(int64(k)), true
			}
		}
	}
	get := func(name sym.Name) (int64, bool) {
		d := index(name)
		if d < 0 {
			return 0, false
		}
		return dims[d], known[d]
	}
	for i, a := range args {
		for axis, extent := range prog.Tensors[prog.Inputs[i].Tensor].Shape {
			want, err := extent.Eval(get)
			if err != nil {
				return nil, err
			}
			if got := a.Shape()[axis]; got != want {
				of := fmt.Sprintf("of %s%s, axis %d is %d", a.DType(), tensor.ShapeString(a.Shape()), axis, got)
				name, named := extent.Name()
				if _, fixed := extent.Const(); fixed {
					return nil, diag.Inputf("%s, and the input's is %d", of, want).AtTensor(p.owner(i).Name)
				}
				e := diag.Inputf("%s, and %s is %d by what the other axes and inputs say", of, p.labels.Show(extent), want).
					AtTensor(p.owner(i).Name)
				if named {
					return nil, e.AtDim(p.labels.Of[name])
				}
				return nil, e
			}
		}
	}
	return dims, nil
}

// owner is the input that a port is a part of.
func (p *Program) owner(port int) Info {
	for _, e := range p.takes {
		if slices.Contains(e.Parts, port) {
			return e.Info
		}
	}
	return Info{}
}
