// Package compiler is the pipeline: ir in, a program and its code out, with the certificate of its memory. The order of the
// passes is the table in passes.go; the rest is this file.
package compiler

import (
	"errors"
	"slices"
	"sync"

	"github.com/weirml/weir/internal/codegen/reference"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/lower"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Options choose how to compile. The kernels are scheduled for Machine, and code for it is generated.
type Options struct {
	Machine   target.Machine
	Tight     bool                            // within limits that are next to nothing: see target.Tight
	Portable  bool                            // portable code of the scheduled kernels, whatever machine they are for
	Exact     bool                            // no pass that changes results by more than the order of sums does
	Precision dtype.DType                     // of products of f32 with weights: see pass.Brain for bf16, pass.Bytes for i8
	Reference bool                            // the module is interpreted as it stands: see reference.go
	Choices   Choices                         // otherwise than the table says
	Budget    *Budget                         // what the program must keep within; nil: as much as it takes
	Folder    string                          // for files that weights are paged from; "": the one for temporary files
	After     func(stage string, text string) // called with the text of each stage where not nil
	Progress  func(stage string)
	Files     Files    // of the model; nil: none
	Names     []string // of the outputs; nil: as the module calls them
	// Written: the module is a text that somebody wrote, not an importer, which asks for all that memory safety rests on. What of that is not proved, Recheck decides.
	Written bool
}

// Compiled is the result.
type Compiled struct {
	IR      *ir.Module
	Loop    *loop.Module
	Program *program.Program
	Machine target.Machine // that the kernels are scheduled for; Code's own may be less
	Code    *target.Code
	Arena   *memplan.Solution
	Outputs sym.Expr // bytes of the outputs, but for the late ones
	Late    []Late   // beside them, what the run takes when data have decided its size
	Proof   *validator.Proof
	// Exhausted: proofs used up what they may cost when kernels were scheduled. What was not proved is checked by the
	// code, and not joined, vectorised or overlaid.
	Exhausted bool
	Faults    []error  // of scheduling, that a simpler way was found around: bugs
	Notes     []string // why the code is less than the machine could do
	Device    OnDevice // what a device with memory of its own runs, and what it takes
	Savings   []Saving // what a budget asked for
	Spilled   sym.Expr // bytes of the file that one call spills to
	Guards    int      // accesses of the scheduled loops that a check guards, since they are not proved
	Scratch   sym.Expr // bytes that one worker needs, over the inputs' dimensions

	verdicts map[string]verdict // about kernels, by name: the last of each
	device   string             // that runs the kernels, with memory of its own; "" where the host does
	time     *timeline
	problem  memplan.Problem // of the arena
	late     []memplan.Problem
	planned  memplan.Options
	certify  sync.Once // where the arena's plan was read rather than found: finds it
	found    *memplan.Solution
	failed   error
	open     bool                  // see Recheck
	proved   map[*loop.Kernel]bool // see prove
	asked    asked
	kept     map[string]string // see schedule.Options
	blocks   []*mem.Block      // the weights that were laid out anew, until the code owns them
	asks     Asks
	inPlace  bool  // weights that lie in the model's file stay there, for a budget may page them
	budget   int64 // see room; 0: none
	files    Files // of the model; nil: none
	done     int64 // see letGo

	interpreted bool   // see Options.Reference: any constant of the model may be read
	folder      string // see Options.Folder

	plain   manner
	written *written // the module before the first pass, where it lays out memory
}

// Compile runs the pipeline. It takes the module over. Between steps it asks the module's Check, whose error it returns. A module that lays out memory itself is
// compiled again, as it stands, where what is best without that would use bytes for two values at once.
func Compile(m *ir.Module, o Options) (c *Compiled, err error) {
	if o.Tight {
		o.Machine.Limits = target.Tight(o.Machine.Limits)
	}
	// What a model says in bf16 is computed in f32, subnormal numbers too.
	if o.Precision != dtype.BF16 || !o.Machine.BrainsQuick() {
		o.Machine.Dot.Brains = 0
	}
	made := Compiled{IR: m, Machine: o.Machine}
	c, err = made.compile(o)
	for _, how := range []manner{plain, bare} {
		if _, shared := err.(*sharedBytes); !shared {
			break
		}
		again := Compiled{Machine: o.Machine, plain: how, asks: Asks{Most: made.asks.Most}}
		if again.IR, err = made.written.parse(); err != nil {
			return nil, err
		}
		c, err = again.compile(o)
	}
	return c, err
}

// compile is Compile, once.
func (made *Compiled) compile(o Options) (c *Compiled, err error) {
	stage := "verify"
	m := made.IR
	made.inPlace, made.folder, made.files = o.Budget != nil, o.Folder, o.Files
	if o.Budget != nil {
		made.budget = o.Budget.Bytes
	}
	defer func() {
		if r := recover(); r != nil {
			err = diag.Recovered(r, "compiling, in "+stage)
			if refusal := m.Ask(); refusal != nil {
				err = refusal // who may not go on has not proved what the next stage relies on
			}
		}
		m.Check, made.IR.Check = nil, nil
		if err != nil {
			made.drop()
		}
	}()
	c = made
	if c.interpreted = o.Reference; o.Reference {
		c.Machine = reference.Machine()
	}
	done := func(name string, text func() string) {
		if o.After != nil {
			o.After(name, text())
		}
		stage = name
		if o.Progress != nil {
			o.Progress(name)
		}
	}
	if c.plain == whole {
		if err := pass.Possible(m); err != nil {
			return nil, err
		}
		if err := possible(m); err != nil {
			return nil, err
		}
	}
	if err := ir.Verify(m); err != nil {
		return nil, err
	}
	if c.plain == whole {
		if err := ir.CheckMemory(m); err != nil {
			return nil, err
		}
		if err := possible(m); err != nil {
			return nil, err
		}
		if err := countable(m); err != nil {
			return nil, err
		}
		done("import", m.String)
		if !o.Reference && pass.Places(m) {
			c.written = write(m)
		}
	}
	if o.Reference {
		m = ops.Interpreted(m)
	}
	last := m.Digest() // of what was verified
	for _, p := range Passes {
		if o.Reference {
			break
		}
		if c.plain != whole && !p.Needed || slices.Contains(Without, p.Name) {
			continue
		}
		if p.Run = p.runs(&o, c.forBlocks(&o)); p.Run == nil {
			continue
		}
		stage = p.Name
		if err := c.run(&p, m, &o); err != nil {
			return nil, err
		}
		if err := m.Ask(); err != nil {
			return nil, err
		}
		if now := m.Digest(); now != last {
			if err := ir.Verify(m); err != nil {
				panic(diag.Internalf("after %s: %v", p.Name, err))
			}
			last = now
		}
		done(p.Name, m.String)
	}
	c.Exhausted = m.Dims.Exhausted()
	stage = "kernels"
	if err := c.kernels(m, o, done); err != nil {
		return nil, err
	}
	if o.Budget != nil {
		stage = "budget"
		keep := c.keepWithin
		if c.written != nil || c.plain != whole {
			keep = c.keepWritten
		}
		if err := keep(m, o); err != nil {
			return nil, err
		}
		if err := c.pageOut(); err != nil {
			return nil, err
		}
		done("budget", c.Loop.String)
	}
	stage = "plan"
	if o.Written {
		open, err := loop.VerifySteps(c.Loop)
		if err != nil {
			return nil, diag.Inputf("%v", err)
		}
		c.open = len(ofSteps(open)) > 0
	}
	m.Dims.Renew(0) // as much as an artefact of the model is given to be planned
	m.Dims.Grant(proofsOfKernel * (1 + len(c.Loop.Kernels)))
	c.time = lifetimes(c.Loop)
	if err := keepsStates(c.Loop, c.time); err != nil {
		panic(diag.Internalf("%v", err))
	}
	if c.Program, err = assemble(c.Loop, c.time, func(a *assembly) error { return c.layout(a, search) }); err != nil {
		return nil, err
	}
	if err := m.Ask(); err != nil {
		return nil, err
	}
	for i, name := range o.Names {
		c.Program.Outputs[i].Name = name
	}
	if err := c.Program.Verify(); err != nil && o.Written {
		return nil, diag.Inputf("%v", err)
	} else if err != nil {
		panic(diag.Internalf("the program is wrong: %v", err))
	}
	done("program", c.Program.String)
	c.own()
	c.scratch()
	return c, nil
}

// forBlocks reports whether kernels are for blocks of threads.
func (c *Compiled) forBlocks(o *Options) bool { return !o.Reference && o.Machine.HasBlocks() }

// countable refuses a module that computes a tensor whose bytes are past 64 bits, all of whose dimensions have one value
// each.
func countable(m *ir.Module) error {
	value := func(name sym.Name) (int64, bool) {
		r, ok := m.Dims.Get(name)
		return r.Min, ok && r.Min == r.Max
	}
	for _, n := range m.Main.Body.Nodes {
		for _, v := range n.Outputs {
			bytes := sym.Product(v.Type.Shape...).Mul(sym.Const(int64(v.Type.DType.Bits()))).CeilDiv(sym.Const(8))
			if _, err := bytes.Eval(value); !errors.Is(err, sym.ErrOverflow) || len(bytes.Vars()) == 0 {
				continue
			}
			labels := sym.Labels(m.Dims.Names())
			with := sym.Bindings(bytes.Vars(), labels, m.Origins, sym.Numbers(value))
			e := diag.Inputf("%s bytes are more than 64 bits count, with %s", bytes.Shown(labels), with)
			return e.AtTensor(v.Name).AtNode(n.Source, n.Op.Name()).WithFix("give the dimensions smaller values")
		}
	}
	return nil
}

// possible refuses a module one of whose conditions holds for no value in the ranges that its dimensions have now: they may be narrower than those it was built with.
func possible(m *ir.Module) error {
	for _, r := range m.Requires {
		if m.Dims.Prove(r.Cond) == sym.No {
			labels, names := sym.Labels(m.Dims.Names()), r.Cond.Vars()
			e := diag.Inputf("%s can never hold with %s (from %s)", r.Cond.Shown(labels).Words(),
				sym.Bindings(names, labels, nil, m.Dims.Ranges), r.From)
			if len(names) == 1 {
				e = e.AtDim(labels[names[0]])
			}
			return e.AtTensor(r.Tensor).WithFix("give the dimensions other ranges")
		}
	}
	return nil
}

// kernels makes the scheduled module of ir, with its steps in order and its code.
func (c *Compiled) kernels(m *ir.Module, o Options, done func(name string, text func() string)) (err error) {
	m.Dims.Renew(len(m.Main.Body.Nodes))
	if c.Loop, err = lower.For(m, c.forBlocks(&o)); err != nil {
		return err
	}
	if err := m.Ask(); err != nil {
		return err
	}
	verifyLoop(c.Loop, "lower")
	done("lower", c.Loop.String)
	if !o.Reference && c.plain != bare {
		if err := c.schedule(m, o); err != nil {
			return err
		}
		c.carryInPlace()
		c.resultsInPlace()
		c.boundLocals()
		done("schedule", c.Loop.String)
	}
	if err := c.settle(); err != nil {
		return err
	}
	if err := m.Ask(); err != nil {
		return err
	}
	c.Exhausted = c.Exhausted || m.Dims.Exhausted()
	m.Dims.Renew(0)
	if c.plain == whole {
		if err := c.order(); err != nil {
			return err
		}
		if err := c.updateLast(); err != nil {
			return err
		}
	}
	c.Loop.Body, _ = c.computeApart(c.Loop.Body)
	done("order", c.Loop.String)
	if refuses := refusals[c.Machine.Name]; refuses != nil && !o.Reference {
		c.divide(c.Machine.Name, func(k *loop.Kernel) error {
			if v, known := c.verdicts[k.Name]; known && (v.refused != nil || v.of == k.String()) {
				return v.refused
			}
			return refuses(k, c.Loop, c.Machine)
		})
		verifyLoop(c.Loop, "divide")
		done("divide", c.Loop.String)
	}
	if err := c.checkPlaces(); err != nil {
		return err
	}
	done("copies", func() string { return schedule.Copies(c.Loop, c.kept) })
	if err := c.proveOwn(); err != nil {
		return err
	}
	done("guards", c.Loop.String)
	c.Exhausted = c.Exhausted || m.Dims.Exhausted()
	if err := c.generate(o); err != nil {
		return err
	}
	if c.device != "" {
		done("spirv", func() string { return spirv.Texts(c.Code.Kernels) })
	}
	return nil
}

// scratch says what a worker's scratch is, and what a launch on a device needs.
func (c *Compiled) scratch() {
	var own, device []target.Kernel
	for _, k := range c.Code.Kernels {
		if _, blocks := k.(target.Blocks); blocks {
			device = append(device, k)
		} else {
			own = append(own, k)
		}
	}
	c.Scratch, c.Device.Scratch = scratchOf(c.Loop, own), scratchOf(c.Loop, device)
}

// scratchOf is the most that any kernel wants of a worker's scratch: at the limits of what data decide. A kernel without tiles is not run, and wants none.
func scratchOf(m *loop.Module, kernels []target.Kernel) sym.Expr {
	var order []string
	groups := map[string][]sym.Expr{}
	factors := map[string]sym.Expr{}
	for _, k := range kernels {
		scratch := k.ScratchFormula()
		if n, ok := scratch.Const(); ok && n == 0 {
			continue
		}
		factor := runs(m, k.TilesFormula())
		key := factor.String()
		if factors[key] = factor; groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], scratch)
	}
	all := []sym.Expr{sym.Const(0)}
	for _, key := range order {
		all = append(all, sym.AtLimits(sym.MaxOf(groups[key]...).Mul(factors[key]), m.Limits))
	}
	return m.Dims.Simplify(sym.MaxOf(all...))
}

// runs is 1 if a kernel of so many tiles has some, and 0 if it has none: a product of min(1, d) for dimensions that
// decide it by themselves, else of the number of tiles. Tiles whose number data decide, within a limit, count as if
// there were some unless a dimension is 0: at the limit there may be fewer.
func runs(m *loop.Module, tiles sym.Expr) sym.Expr {
	lo, hi := m.Dims.Bounds(tiles)
	switch {
	case hi <= 0:
		return sym.Const(0)
	case lo >= 1:
		return sym.Const(1)
	}
	factor := sym.Const(1)
	some := m.Dims.Clone()
	limited := false
	for _, name := range tiles.Vars() {
		limit, ok := m.Limits[name]
		limited = limited || ok && !sym.IsUnlimited(limit)
		r, _ := m.Dims.Get(name)
		none := tiles.Subst(func(other sym.Name) (sym.Expr, bool) { return sym.Const(0), other == name })
		if _, most := m.Dims.Bounds(none); r.Min <= 0 && most <= 0 {
			factor = factor.Mul(sym.Var(name).Max(sym.Const(0)).Min(sym.Const(1)))
			some.Set(name, sym.Range{Min: 1, Max: max(r.Max, 1)})
		}
	}
	if least, _ := some.Bounds(tiles); least < 1 && !limited {
		factor = tiles.Max(sym.Const(0)).Min(sym.Const(1))
	}
	return m.Dims.Simplify(factor)
}

// SourceAt names the model's node that runs at a step of the plan.
func (c *Compiled) SourceAt(step int) string {
	best, source := span{-1, 1 << 30}, ""
	for s, at := range c.time.at {
		if at.first <= step && step <= at.last && at.last-at.first <= best.last-best.first {
			if l, ok := s.(*loop.Launch); ok {
				best, source = at, l.Source
			} else if h, ok := s.(*loop.Host); ok {
				best, source = at, h.Source
			}
		}
	}
	return source
}

// Operations is the arithmetic of one run, at the limits of what data decide. The bodies of loops count once, of a branch the first.
func (c *Compiled) Operations() sym.Expr {
	total := sym.Const(0)
	var add func(steps []loop.Step)
	add = func(steps []loop.Step) {
		for _, s := range steps {
			switch s := s.(type) {
			case *loop.Launch:
				total = total.Add(loop.WorkOf(s.Kernel))
			case *loop.If:
				add(s.Then)
			case *loop.Loop:
				add(s.Body)
			}
		}
	}
	add(c.Loop.Body)
	return sym.AtLimits(total, c.Loop.Limits)
}

// schedules are the ways to schedule, each simpler than the one before; what none of them can do runs as it was lowered.
var schedules = []schedule.Options{{}, {Without: schedule.Simplest}}

// schedule schedules the module, and verifies what came out: a fault in scheduling is our bug, but not the user's loss. It is reported as
// progress, and the module is lowered again and scheduled more simply.
func (c *Compiled) schedule(m *ir.Module, o Options) (err error) {
	ways := schedules
	if c.plain == plain {
		ways = schedules[len(schedules)-1:]
	}
	for _, how := range ways {
		var refusal error // of memory to pack in, or of a file to read: no fault of scheduling
		pack := func(list []*schedule.Pack) error { refusal = c.pack(list); return refusal }
		how.Check, how.Pack, how.Choice, how.Arena = m.Check, pack, c.chosen(&o), c.predicted
		how.Without = slices.Concat(how.Without, Without)
		if c.plain != whole || c.written != nil {
			how.Without = append(how.Without, "parts")
		}
		if o.After != nil {
			how.After = func(step string, text func() string) { o.After(step, text()) }
		}
		c.kept, c.verdicts = map[string]string{}, map[string]verdict{}
		how.Kept, how.Host = c.kept, c.hostMachine(&o)
		if refuses := refusals[o.Machine.Name]; refuses != nil {
			how.Refuses = func(k *loop.Kernel) error {
				v := verdict{k.String(), refuses(k, c.Loop, o.Machine)}
				c.verdicts[k.Name] = v
				return v.refused
			}
		}
		fault := scheduled(c.Loop, o.Machine, how)
		if err := m.Ask(); err != nil || fault == nil {
			return err
		}
		if refusal != nil {
			return refusal
		}
		c.Faults = append(c.Faults, fault)
		if err := c.afresh(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress("schedule, which failed and is done more simply: " + fault.Error())
		}
		if c.Loop, err = lower.For(m, c.forBlocks(&o)); err != nil {
			return err
		}
		c.verdicts = nil
	}
	return nil
}

// verdict is what the generator of a device's code said of a kernel: of this text of it. One that it refused is scheduled for the host.
type verdict struct {
	of      string
	refused error // why the device cannot run it; nil: it can
}

// scheduled schedules a module in place, and checks that it is still right and fits the machine; an error, or a panic, leaves it in no defined state.
func scheduled(m *loop.Module, machine target.Machine, how schedule.Options) (err error) {
	defer diag.Recover(&err, "scheduling")
	if err := schedule.RunWith(m, machine, how); err != nil {
		return err
	}
	if _, err = loop.VerifyModule(m); err != nil {
		return err
	}
	return schedule.Verify(m, machine)
}

// verifyLoop checks a module that the compiler itself has written: what is wrong with it is our bug.
func verifyLoop(m *loop.Module, stage string) {
	if _, err := loop.VerifyModule(m); err != nil {
		panic(diag.Internalf("after %s: %v", stage, err))
	}
}
