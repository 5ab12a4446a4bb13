package weir

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/device/cpu"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
)

// Compile prepares a model to run, and plans its memory. If no dimension is open and the memory of a call is small, it
// allocates the first call too, unless there is an Account. It stops soon after ctx ends, with the error of ctx. If the
// program does not fit Options.Budget, the error is an ErrBudget; unless its field Budget is 0, that budget works: it
// is the peak of a program that was planned, and that Compile makes for every budget that no other program keeps.
func Compile(ctx context.Context, m *Model, o Options) (p *Program, err error) {
	if o.Tune {
		return tune(ctx, m, o)
	}
	return compileWith(ctx, m, o, compiler.Choices{})
}

// mostStricter is the largest number of recompilations after a peak that exceeds the compiler's estimate.
const mostStricter = 4

// over is the number of bytes by which a program exceeds its budgets, if a recompilation may help.
type over struct{ host, device int64 }

// compileWith compiles with the given choices. The compiler estimates with all dimensions at their upper bounds: if the
// final peak exceeds the budget, it compiles again with a smaller limit, at last with 0, which gives the fewest bytes.
// A program that exceeds DeviceBudget is compiled again with direct convolutions.
func compileWith(ctx context.Context, m *Model, o Options, choices compiler.Choices) (*Program, error) {
	p, beyond, err := compileWithin(ctx, m, o, choices, attempt{})
	if beyond.device > 0 {
		return compileDirect(ctx, m, o, choices, beyond.device, err)
	}
	for stricter, tries := int64(0), 1; beyond.host > 0 && stricter < o.Budget; tries++ {
		if stricter = min(stricter+beyond.host, o.Budget); tries > mostStricter {
			stricter = o.Budget
		}
		p, beyond, err = compileWithin(ctx, m, o, choices, attempt{stricter: stricter})
	}
	if errors.Is(err, ErrBudget) && len(o.Dims) > 0 && o.Budget > 0 && o.Target != Vulkan && m.source.module() != nil &&
		ctx.Err() == nil {
		return compileAsDeclared(ctx, m, o, choices, err)
	}
	return p, err
}

// compileAsDeclared compiles for the ranges that the model declares, after the compilation for the ranges of o
// exceeded the budget, because code for fewer sizes may be larger. The program's runs accept only the ranges of o.
// So a budget of the bytes that the certificate of a program for all sizes states for some of them is never refused: it
// is the same program, as compiling is deterministic, and its weights alone take no more, so that Options.Most of the
// compiler does not end it.
// If this program does not fit either, compileAsDeclared returns the error with the smaller budget that works, which is
// the same for every budget that is refused.
func compileAsDeclared(ctx context.Context, m *Model, o Options, choices compiler.Choices,
	refused error) (*Program, error) {
	var before, now *Error
	most := o.Budget
	if errors.As(refused, &before) {
		most = max(most, before.Budget)
	}
	p, _, err := compileWithin(ctx, m, o, choices, attempt{declared: true, most: most})
	if p != nil {
		return p, nil
	}
	if before != nil && errors.As(err, &now) && errors.Is(err, ErrBudget) && now.Budget > 0 &&
		(before.Budget == 0 || now.Budget < before.Budget) {
		return nil, err
	}
	return nil, refused
}

// compileDirect compiles without Winograd's algorithms, whose tiles and weights take memory, after a refusal that
// exceeded the device's budget by excess bytes. If the program still exceeds the budget, it returns the error with the
// smaller peak.
func compileDirect(ctx context.Context, m *Model, o Options, choices compiler.Choices, excess int64,
	refused error) (*Program, error) {
	if choices.All.Tile != 0 || o.Exact {
		return nil, refused
	}
	choices.All.Tile = 1
	p, beyond, err := compileWithin(ctx, m, o, choices, attempt{})
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

// attempt is how one compilation differs from what the options say.
type attempt struct {
	stricter int64 // the budget less the limit that the compiler gets
	declared bool  // the compiler gets the model's own ranges of the dimensions, and no limit
	most     int64 // see Most of the compiler's options
}

// compileWithin compiles once. If the program exceeds a budget, beyond says by how much.
func compileWithin(ctx context.Context, m *Model, o Options, choices compiler.Choices, how attempt) (p *Program,
	beyond over, err error) {
	defer diag.Recover(&err, "compiling")
	defer diag.Faults(diag.Faults(true))
	if err := ctx.Err(); err != nil {
		return nil, over{}, err
	}
	if err := checkDebug(); err != nil {
		return nil, over{}, err
	}
	o, err = m.checked(o)
	if err != nil {
		return nil, over{}, err
	}
	p = newProgram(m, o, how)
	if err := p.retain(ctx); err != nil {
		return nil, over{}, inFile(err, m.file)
	}
	if o.Logger != nil {
		o.Logger.Debug("compiling", "model", m.file, "target", o.Target, "cpu", o.CPU)
	}
	kept := false
	defer func(p *Program) {
		if !kept {
			_ = p.session.CloseOwn()
			_ = p.leaveDevice()
			m.files.Release(p)
			p.uncharge()
		}
	}(p)
	if err = m.source.compile(ctx, p, o, choices); err != nil {
		return nil, p.over, inFile(err, m.file)
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
		executor.Options{Name: p.name(), Host: cpu.Host{}, Threads: o.Threads, Reserve: p.session.Reserve, Guard: guarded,
			Poison: poisoned, Own: o.Private, Folder: o.PageFolder, Device: p.device, Absent: p.absent, Account: o.Account})
	if err != nil {
		return nil, over{}, err
	}
	p.deviceHeld = p.deviceAsked() - asked
	p.labels = report.LabelsOf(p.compiled.Program)
	if err := p.session.Start(p.compiled.Program, p.labels, x); err != nil {
		return nil, over{}, inFile(err, m.file)
	}
	p.memory = newMemory(p, p.session.OwnBytes())
	p.proved = append(p.proved, p.stateProofs()...)
	if err := p.settle(ctx, x); err != nil {
		x.Close()
		return nil, over{}, inFile(err, m.file)
	}
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

// checked returns options with defaults for zero values, or an error if the model cannot be compiled with them.
func (m *Model) checked(o Options) (Options, error) {
	if o.Threads < 0 || o.Calls < 0 || o.Budget < 0 || o.DeviceBudget < 0 {
		return o, diag.Inputf("%d threads, %d calls and budgets of %d and %d bytes: none of them is negative",
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
		return o, diag.Unsupportedf("precision %s; f32, bf16 and i8 are supported", o.Precision)
	}
	if !slices.Contains([]DType{InvalidDType, F32, BF16, I8}, o.Cache) {
		return o, diag.Unsupportedf("caches of %s; f32, bf16 and i8 are supported", o.Cache)
	}
	switch o.Target {
	case Best, CPU, Reference:
	case Portable:
		o.CPU = string(Portable)
	case Vulkan:
	default:
		return o, diag.Unsupportedf("target %q; there are cpu, portable, reference and vulkan", o.Target)
	}
	if o.Limits != "" && o.Target != Vulkan {
		return o, diag.Inputf("limits %q, and no target that has limits", o.Limits).
			WithFix("limits are of a device: set the target to vulkan")
	}
	if o.Target == Reference && m.source.module() != nil {
		if o.Budget > 0 {
			return o, diag.Unsupportedf("a budget for the reference, which computes on Go's heap").
				WithFix("compile for --target cpu, or set GOMEMLIMIT")
		}
		if o.Precision == BF16 || o.Precision == I8 {
			return o, diag.Unsupportedf("%s by the reference, which computes what the model says", o.Precision).
				WithFix("compare with the tolerance of the precision")
		}
	}
	return o, nil
}

// ready makes the first call if no dimension that inputs determine is open, and the call's memory is small, so that the
// first run takes no longer than later ones. If memory is refused, the first run makes the call or returns the error.
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
	p.session.Prepare(dims)
}

// compileModule builds a source's module and runs the compiler on it.
func (p *Program) compileModule(ctx context.Context, from sources.Model, o Options, choices compiler.Choices) error {
	m := p.model
	asked := o.asked()
	if p.how.declared {
		asked.Dims = nil
	}
	built, err := from.Build(ctx, asked)
	if err != nil {
		return err
	}
	module, names := built.Module, built.Results
	s := &p.session.Signature
	s.Inputs, s.Outputs = signature.EdgesOf(built.Inputs), signature.EdgesOf(built.Outputs)
	if p.how.declared && slices.ContainsFunc(s.Outputs, func(e signature.Edge) bool {
		return e.Info.Form().Rank == sources.AnyRank
	}) {
		return diag.Unsupportedf("a range that decides a rank, of a program that is compiled for another")
	}
	if err := s.AddStates(module, m.source.outputs(), o.States); err != nil {
		return err
	}
	more, err := s.NarrowCaches(module, names, o.Cache)
	if err != nil {
		return err
	}
	names = append(names, more...)
	if !p.how.declared {
		if err := signature.Narrow(module, o.ranges()); err != nil {
			return err
		}
	}
	if err := s.Lay(module, o.layouts()); err != nil {
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
		Planned: func(c *compiler.Compiled) error { return p.planned(ctx, c) }, Most: p.how.most,
		ReorderOnly: o.Exact, Precision: o.Precision, Folder: o.PageFolder, Files: m.files, Choices: choices,
		Reference: p.target == Reference, Names: names, Written: from.Written(), After: o.Stage, FullStage: o.WholeStage,
		Progress: func(p compiler.Progress) {
			if o.Logger != nil {
				o.Logger.Debug("compiling", "stage", p.Stage, "step", p.Step, "steps", p.Steps)
			}
		}})
	if err != nil {
		return err
	}
	p.setJoined()
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

// planned checks the budget of a program for the host as soon as its memory is planned, and then asks its account.
func (p *Program) planned(ctx context.Context, c *compiler.Compiled) error {
	p.compiled = c
	if p.how.declared {
		if err := p.narrow(p.options); err != nil {
			return err
		}
	}
	if p.options.Budget <= 0 || p.target == Vulkan {
		return p.charge(ctx, c)
	}
	own, err := p.session.FirstBytes(nil)
	if err != nil {
		return err
	}
	p.labels = report.LabelsOf(c.Program)
	p.memory = newMemory(p, own)
	if err := p.checkBudget(); err != nil {
		return err
	}
	return p.charge(ctx, c)
}

// narrow gives the dimensions of a compiled program the ranges of o, which lie within those that it is compiled for.
func (p *Program) narrow(o Options) error {
	labels, ranges := report.LabelsOf(p.compiled.Program), o.ranges()
	for i := range p.compiled.Program.Dims {
		d := &p.compiled.Program.Dims[i]
		r, given := ranges[labels.Of[d.Name]]
		if !given {
			continue
		}
		delete(ranges, labels.Of[d.Name])
		r = sym.Range{Min: max(r.Min, d.Range.Min), Max: min(r.Max, d.Range.Max)}
		if d.Data || r.Min > r.Max {
			return diag.Unsupportedf("a range of a program that is compiled for another").AtDim(labels.Of[d.Name])
		}
		d.Range = r
		p.compiled.Loop.Dims.Set(d.Name, r)
	}
	if len(ranges) > 0 {
		return diag.Unsupportedf("ranges of dimensions that the program does not have")
	}
	return nil
}

// budget returns the limit for the compiler, or nil if there is none.
func (p *Program) budget(o Options) (*budget.Budget, error) {
	if o.Budget <= 0 || p.target == Vulkan || p.how.declared {
		return nil, nil
	}
	own, err := p.session.FirstBytes(nil)
	if err != nil {
		return nil, err
	}
	return &budget.Budget{Bytes: o.Budget - p.how.stricter, Held: own, Calls: o.Calls, Workers: o.Threads}, nil
}

// checkBudget returns an error if the program's peak exceeds Options.Budget.
func (p *Program) checkBudget() error {
	if p.options.Budget <= 0 {
		return nil
	}
	// Unbounded sizes that data determine are checked when a run allocates them.
	peak, err := p.memory.before(p.options.Calls).Max()
	if err != nil {
		return unbounded("the peak", err)
	}
	if peak > p.options.Budget {
		if p.compiled.Saved.Frugal {
			return p.compiled.Over(peak, p.options.Budget)
		}
		if p.target != Vulkan && !p.how.declared { // for which the compiler saves nothing
			p.over.host = peak - p.options.Budget
		}
		return budget.Over(peak, "the peak is %d bytes, %d are allowed", peak, p.options.Budget)
	}
	p.session.SetRoom(p.options.Budget - peak)
	return nil
}

// unbounded returns the error for a peak without a bound, which a budget needs; cause is the error of Size.Max.
func unbounded(peak string, cause error) error {
	e := diag.New(ErrBudget, "%s has no bound", peak).WithFix("narrow the dimensions with Options.Dims")
	if known := diag.As(cause, ErrBudget); known != nil {
		e.Detail, e.Fix = e.Detail+": "+known.Detail, cmp.Or(known.Fix, e.Fix)
	}
	return e
}

// checkDeviceBudget returns an error if the program takes more of its device's memory than Options.DeviceBudget.
func (p *Program) checkDeviceBudget() error {
	most := p.options.DeviceBudget
	if most <= 0 {
		return nil
	}
	if p.memory.Device == nil {
		return diag.Inputf("a budget of %d bytes of a device's memory for a program without a device", most).
			WithFix("compile for --target vulkan, or set Budget")
	}
	peak, err := p.memory.Device.Formula(p.options.Calls).Max()
	if err != nil {
		return unbounded("the peak in the device's memory", err)
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
