package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/codegen/reference"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/lower"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
)

// compilation is a module on its way to a program.
type compilation struct {
	c     *Compiled
	m     *ir.Module
	o     Options
	stage string // the current stage
	step  int    // the number of the current stage, from 1
	steps int    // the number of all stages
	quiet bool   // stages are not reported
}

// begin returns the compilation of c's module.
func begin(c *Compiled, o Options) *compilation {
	c.inPlace, c.folder, c.files, c.interpreted = o.Budget != nil, o.Folder, o.Files, o.Reference
	if o.Reference {
		c.Machine = reference.Machine()
	}
	// Verification, the rows of the tables, the search for savings, and the plan.
	return &compilation{c: c, m: c.IR, o: o, steps: 1 + len(Passes) + len(stages) + schedule.Steps + 2}
}

// end turns a panic into an error, and releases the resources of a failed compilation.
func (k *compilation) end(err *error) {
	if r := recover(); r != nil {
		*err = diag.Recovered(r, "compiling, in "+k.stage)
		if refusal := k.m.Ask(); refusal != nil {
			*err = refusal // a stage that was stopped may have left the module invalid for the next one
		}
	}
	if k.m.Check = nil; k.c.IR != nil {
		k.c.IR.Check = nil
	}
	if *err != nil {
		*err = k.m.Operators.In(*err)
		k.c.drop()
	}
}

// begins reports the beginning of a stage, which is the step of that number from 1, to Options.Progress.
func (k *compilation) begins(stage string, step int) {
	k.stage, k.step = stage, step
	if k.o.Progress != nil && !k.quiet {
		k.o.Progress(Progress{stage, step, k.steps})
	}
}

// done reports the end of a stage, with its text, to Options.After.
func (k *compilation) done(name string, text func() string) {
	if k.o.After != nil && !k.quiet {
		k.o.After(name, text())
	}
}

// rewritten reports the end of a stage of ir.
func (k *compilation) rewritten(name string) {
	text := k.m.String
	if name == k.o.FullStage {
		text = k.m.FullText
	}
	k.done(name, text)
}

// verify verifies the module before the first pass, and keeps a copy if it lays out memory itself.
func (k *compilation) verify() error {
	k.begins("verify", 1)
	checks := []func(*ir.Module) error{pass.Possible, possible, ir.Verify, ops.NumberLoops, ir.CheckMemory, possible,
		countable}
	if k.c.effort != fullEffort {
		checks = []func(*ir.Module) error{ir.Verify} // the first attempt has made the other checks
	}
	for _, check := range checks {
		if err := check(k.m); err != nil {
			return err
		}
	}
	if k.c.effort == fullEffort {
		k.rewritten("import")
		if !k.o.Reference && pass.Places(k.m) {
			k.c.written = write(k.m)
		}
	}
	return nil
}

// rewrite runs the table of passes, and verifies the module after each pass that changed it.
func (k *compilation) rewrite() error {
	c, m := k.c, k.m
	if k.o.Reference {
		k.m = ops.Interpreted(m)
		c.Exhausted = k.m.Dims.Exhausted()
		return nil
	}
	last := m.Digest() // of the last verified module
	for i, p := range Passes {
		if c.effort != fullEffort && !p.Needed || slices.Contains(Without, p.Name) {
			continue
		}
		if p.Run = p.runs(&k.o, c.forBlocks(&k.o)); p.Run == nil {
			continue
		}
		k.begins(p.Name, 2+i)
		if err := c.run(&p, m, &k.o); err != nil {
			return err
		}
		if err := m.Ask(); err != nil {
			return err
		}
		if now := m.Digest(); now != last {
			if err := ir.Verify(m); err != nil {
				panic(diag.Internalf("after %s: %v", p.Name, err))
			}
			last = now
		}
		k.rewritten(p.Name)
	}
	c.Exhausted = m.Dims.Exhausted()
	return nil
}

// stage is a step on the way from ir to code.
type stage struct {
	name string
	when func(k *compilation) bool // nil: always
	run  func(k *compilation) error
	text func(k *compilation) string // the text for Options.After; nil: Options.After is not called
}

// stages make scheduled loops from ir, order their steps, and generate their code.
var stages = []stage{
	{name: "lower", run: (*compilation).lower, text: (*compilation).loops},
	{name: "schedule", when: (*compilation).schedules, run: (*compilation).improve, text: (*compilation).loops},
	{name: "order", run: (*compilation).order, text: (*compilation).loops},
	// before divide, which asks whether the device takes a kernel with its checks
	{name: "guards", run: (*compilation).guard, text: (*compilation).loops},
	{name: "divide", when: (*compilation).divides, run: (*compilation).divide, text: (*compilation).loops},
	{name: "copies", run: func(k *compilation) error {
		return k.c.checkCarves()
	}, text: func(k *compilation) string { return schedule.Copies(k.c.Loop, k.c.kept) }},
	{name: "code", run: func(k *compilation) error { return k.c.generate(k.o) }},
	{name: "asm", when: func(k *compilation) bool {
		return k.o.After != nil && k.c.machineCode()
	}, text: func(k *compilation) string { return k.c.assembly() }},
	{name: "spirv", when: func(k *compilation) bool {
		return k.c.device != ""
	}, text: func(k *compilation) string { return spirv.Texts(k.c.Code.Kernels) }},
}

// make runs the table of stages.
func (k *compilation) make() error {
	k.m.Dims.Renew(len(k.m.Main.Body.Nodes))
	next := 2 + len(Passes)
	for _, s := range stages {
		step := next
		if next++; s.name == "schedule" {
			next += schedule.Steps
		}
		if s.when != nil && !s.when(k) {
			continue
		}
		k.begins(s.name, step)
		if s.run != nil {
			if err := s.run(k); err != nil {
				return err
			}
		}
		if s.text != nil {
			k.done(s.name, func() string { return s.text(k) })
		}
	}
	return nil
}

// loops returns the text of the loops.
func (k *compilation) loops() string { return k.c.Loop.String() }

// lower makes loops from ir.
func (k *compilation) lower() (err error) {
	if k.c.Loop, err = lower.For(k.m, k.c.forBlocks(&k.o)); err != nil {
		return err
	}
	if err := k.m.Ask(); err != nil {
		return err
	}
	verifyLoop(k.c.Loop, "lower")
	if bytes := weightBytes(k.c.Loop); k.o.Most > 0 && bytes > k.o.Most {
		return diag.New(diag.ErrBudget, "the weights take %d bytes, %d are allowed", bytes, k.o.Most)
	}
	return nil
}

// weightBytes returns the bytes of the weights that the steps use, without those of single elements, which kernels may
// hold. Scheduling may pad and repeat them, and drops none.
func weightBytes(m *loop.Module) (bytes int64) {
	seen := map[*loop.Buffer]bool{}
	loop.EachBuffer(m.Body, func(b *loop.Buffer) {
		if b = b.Root(); b.Kind == loop.Weight && b.Data != nil && b.Data.Len() > 1 && !seen[b] {
			seen[b] = true
			bytes += b.Data.Size()
		}
	})
	return bytes
}

// schedules reports whether the loops are scheduled, and do not stay as they were lowered.
func (k *compilation) schedules() bool { return !k.o.Reference && k.c.effort != unscheduled }

// improve schedules the loops, and makes results in place if possible.
func (k *compilation) improve() error {
	if err := k.schedule(); err != nil {
		return err
	}
	k.c.carryInPlace()
	k.c.resultsInPlace()
	k.c.boundLocals()
	return nil
}

// order chooses the order of the steps.
func (k *compilation) order() error {
	c := k.c
	c.Exhausted = c.Exhausted || k.m.Dims.Exhausted()
	k.m.Dims.Renew(0)
	if c.effort == fullEffort {
		if err := c.order(); err != nil {
			return err
		}
		if err := c.updateLast(); err != nil {
			return err
		}
	}
	c.Loop.Body, _ = c.copyStates(c.Loop.Body)
	return nil
}

// divides reports whether a device may run some of the kernels.
func (k *compilation) divides() bool { return refusals[k.c.Machine.Name] != nil && !k.o.Reference }

// divide divides the steps between the host and the device.
func (k *compilation) divide() error {
	c := k.c
	c.divide(c.Machine.Name, func(kernel *loop.Kernel) ([]sym.Cond, error) {
		if v, known := c.verdicts[kernel.Name]; known && (v.refused != nil || v.of == kernel.String()) {
			return v.conditions, v.refused
		}
		return refusals[c.Machine.Name](kernel, c.Loop, c.Machine)
	})
	verifyLoop(c.Loop, "divide")
	return nil
}

// guard proves the kernels' accesses, or adds checks.
func (k *compilation) guard() error {
	err := k.c.proveOwn()
	k.c.Exhausted = k.c.Exhausted || k.m.Dims.Exhausted()
	return err
}

// plan plans the memory, lays out the weights, and makes the program.
func (k *compilation) plan() (err error) {
	c, m, o := k.c, k.m, &k.o
	if o.Written {
		open, err := loop.VerifySteps(c.Loop)
		if err != nil {
			return diag.Inputf("%v", err)
		}
		c.open = len(ofSteps(open)) > 0
	}
	m.Dims.Renew(0) // the budget of proofs that an artefact of the model gets, too
	m.Dims.Grant(proofsOfKernel * (1 + len(c.Loop.Kernels)))
	c.time = live.Ranges(c.Loop)
	if err := live.KeepsStates(c.Loop, c.time); err != nil {
		panic(diag.Internalf("%v", err))
	}
	if c.Program, err = assemble(c.Loop, c.time, func(a *assembly) error { return c.layout(a, search) }); err != nil {
		return err
	}
	if err := m.Ask(); err != nil {
		return err
	}
	for i, name := range o.Names {
		c.Program.Outputs[i].Name = name
	}
	c.giveContents(false)
	if err := c.permitted(o); err != nil {
		return err
	}
	if err := c.layOut(); err != nil {
		return err
	}
	if err := m.Ask(); err != nil {
		return err
	}
	c.giveContents(true)
	if err := c.Program.Verify(); err != nil && o.Written {
		return diag.Inputf("%v", err)
	} else if err != nil {
		panic(diag.Internalf("the program is wrong: %v", err))
	}
	return nil
}
