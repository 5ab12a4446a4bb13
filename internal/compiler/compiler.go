// Package compiler is the pipeline from ir to a program and its code, with the certificate of its memory. The table in
// passes.go has the passes over ir, the table in stages.go the stages from ir to code.
package compiler

import (
	"sync"

	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Options choose how to compile. The kernels are scheduled for Machine, and code for it is generated.
type Options struct {
	Machine  target.Machine
	Tight    bool // compile within very small limits: see target.Tight
	Portable bool // generate portable code of the scheduled kernels, for any machine
	Cross    bool // do so for an artefact's machine, if this processor lacks its features: else that is an error
	// Foreign: generate code for Machine even if this processor lacks its features. Planned gets the code, and must end
	// the compilation: the code could not run.
	Foreign     bool
	ReorderOnly bool // no pass that changes results by more than the order of sums does
	// Precision is the precision of products of f32 with weights: see pass.BF16 for bf16, pass.Bytes for i8.
	Precision dtype.DType
	Reference bool                            // interpret the module as it stands: see ops.Interpreted
	Choices   Choices                         // override the schedule's table
	Budget    *budget.Budget                  // the memory that the program must keep within; nil: no limit
	Folder    string                          // for files that weights are paged from; "": the folder of temporary files
	Most      int64                           // if not 0, compiling ends if the weights alone take more bytes
	After     func(stage string, text string) // called with the text of each stage, if it is not nil
	FullStage string                          // the stage of ir whose text for After has all elements of constants
	Progress  func(p Progress)                // called as stages begin, if it is not nil
	Files     Files                           // the model's files; nil: none
	Names     []string                        // names of the outputs; nil: the module's own
	// Planned is called, if it is not nil, when the memory is planned, before weights are laid out and code is placed: all
	// of Compiled is set but the contents of weights that are laid out anew. Its error ends the compilation.
	Planned func(c *Compiled) error
	// Written: a user wrote the module as a text, so conditions of memory safety may be missing that importers add.
	// Recheck decides the conditions that are not proved.
	Written bool
}

// Progress says how far a compilation is: Stage, which begins, is step Step of Steps. A stage may have several steps,
// and some steps may not be reached. A second attempt begins at the first step again. Steps is 0 of a message, which is
// no stage.
type Progress struct {
	Stage       string
	Step, Steps int
}

// Compiled is a compiled module: the program, its code, and the certificate of its memory.
type Compiled struct {
	IR      *ir.Module
	Loop    *loop.Module
	Program *program.Program
	Machine target.Machine // the machine that the kernels are scheduled for; Code may be for a lesser one
	Code    *target.Code
	Arena   *memplan.Solution
	Outputs sym.Expr // bytes of the outputs, without the late ones
	Late    []Late   // the storages that a run takes when data have decided their size
	Proof   *validator.Proof
	// Exhausted: proofs used up their budget while kernels were scheduled. The code checks what was not proved, and does
	// not join, vectorise or overlay it.
	Exhausted bool
	Faults    []error      // bugs of scheduling, after which a simpler way was taken
	Notes     []string     // reasons why the code is slower than the machine allows
	Device    OnDevice     // the program's use of a device with memory of its own
	Saved     budget.Found // the savings that the budget needed
	Spilled   sym.Expr     // bytes of the file that one call spills to
	// Apart says of each dimension that is the first axis of an input whether its rows are apart: see pass.Apart. An
	// artefact does not have it.
	Apart   map[sym.Name]*pass.Joint
	Guards  int      // accesses of the scheduled loops that a check guards, since they are not proved
	Scratch sym.Expr // bytes that one worker needs, over the inputs' dimensions

	verdicts map[string]verdict // by kernel's name: the last verdict on it
	device   string             // the device that runs the kernels, with memory of its own; "" for the host
	time     *live.Timeline
	problem  memplan.Problem // of the arena
	late     []memplan.Problem
	planned  memplan.Options
	certify  sync.Once // sets found and failed: see Certify
	found    *memplan.Solution
	failed   error
	open     bool                  // conditions are left that Recheck decides
	proved   map[*loop.Kernel]bool // see prove
	asked    asked
	kept     map[string]string               // see schedule.Options
	blocks   []*mem.Block                    // the weights that were laid out anew, until the code owns them
	packs    map[*loop.Buffer]*schedule.Pack // the weights that layOut packs
	asks     Asks
	inPlace  bool  // weights in the model's file stay there, since a budget may page them
	files    Files // of the model; nil: none
	done     int64 // see letGo

	overwrites map[live.Overwrite]bool // see live.Alias; nil: not remembered

	uncut       string // why nothing is computed in pieces for a budget, for an error; "": everything may be
	interpreted bool   // see Options.Reference: any constant of the model may be read
	folder      string // see Options.Folder

	effort  effort
	written *written // the module before the first pass, if it lays out memory itself; else nil
}

// Compile runs the pipeline. It takes the module over. Between steps it calls the module's Check and returns its error.
// A module that lays out memory itself is compiled again with less effort, if rewriting it would use bytes for two
// values at once.
func Compile(m *ir.Module, o Options) (c *Compiled, err error) {
	if o.Tight {
		o.Machine.Limits = target.Tight(o.Machine.Limits)
	}
	// Without Precision, products of a model's bf16 values are computed in f32, with subnormal numbers.
	if o.Precision != dtype.BF16 || !o.Machine.BF16Faster() {
		o.Machine.Dot.BF16 = 0
		o.Machine = o.Machine.WithoutMatrices(dtype.BF16)
	}
	if o.ReorderOnly { // cooperative matrices of floats round as the device chooses; those of integers are exact
		o.Machine = o.Machine.WithoutMatrices(dtype.F16, dtype.BF16)
	}
	made := Compiled{IR: m, Machine: o.Machine}
	c, err = made.compile(o)
	for _, how := range []effort{unfused, unscheduled} {
		if _, shared := err.(*sharedBytes); !shared {
			break
		}
		again := Compiled{Machine: o.Machine, effort: how, asks: Asks{Most: made.asks.Most}}
		if again.IR, err = made.written.parse(); err != nil {
			return nil, err
		}
		c, err = again.compile(o)
	}
	return c, err
}

// forBlocks reports whether kernels are made for blocks of threads.
func (c *Compiled) forBlocks(o *Options) bool { return !o.Reference && o.Machine.HasBlocks() }

// scratch sets the scratch bytes of a worker, and of a launch on a device.
func (c *Compiled) scratch() {
	var own, device []target.Kernel
	for _, k := range c.Code.Kernels {
		if _, blocks := k.(target.Blocks); blocks {
			device = append(device, k)
		} else {
			own = append(own, k)
		}
	}
	c.Scratch, c.Device.Scratch = live.ScratchOf(c.Loop, own), live.ScratchOf(c.Loop, device)
}

// compile is Compile without a second attempt: the table Passes rewrites ir, the table stages makes loops and code of
// it, and plan makes the program.
func (c *Compiled) compile(o Options) (_ *Compiled, err error) {
	k := begin(c, o)
	defer k.end(&err)
	if err := k.verify(); err != nil {
		return nil, err
	}
	c.Apart = pass.Apart(k.m)
	if err := k.rewrite(); err != nil {
		return nil, err
	}
	if err := k.make(); err != nil {
		return nil, err
	}
	if o.Budget != nil {
		k.begins("budget", k.steps-1)
		if err := k.keepWithin(); err != nil {
			return nil, err
		}
		k.done("budget", c.Loop.String)
	}
	k.begins("plan", k.steps)
	if err := k.plan(); err != nil {
		return nil, err
	}
	k.done("program", c.Program.String)
	c.own()
	return c, nil
}
