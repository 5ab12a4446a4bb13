package weir

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/tensor"
)

// Condition is a condition on the inputs' dimensions, as Python comparisons joined by "or" or "and", and its origin in
// the model.
type Condition struct{ Condition, From string }

// Program is a compiled model. Several goroutines may run it at the same time.
type Program struct {
	model     *Model
	engine    mem.Gate[*executor.Executable] // its code and weights, shut by Close; the last user releases all memory
	compiled  *compiler.Compiled
	options   Options
	memory    *Memory
	labels    *report.Labels // the public names of its dimensions
	inputs    []Info
	outputs   []Info
	takes     []edge // the ports of each input
	gives     []edge // the ports of each output
	becomes   []int  // by input's port: the output that replaces it; −1 if it is no state
	replaces  []int  // by output's port: the input that it replaces
	target    Target
	proved    []Condition
	tuned     []Tuning
	exhausted bool     // see Memory.Exhausted
	saved     []Saving // the savings of an artefact when it was written

	slots chan struct{} // one for each call that may be active
	mu    sync.Mutex
	idle  []*bound // calls that nobody uses, latest last
	held  []holder // open results and calls, oldest first

	closed chan struct{} // closed once all memory is released
	failed error         // the error of releasing the memory

	counts     counts
	made       origin        // the stack of its compilation
	device     device.Device // the device that it runs on beside the host, or nil
	absent     error         // why a program for a device cannot run; nil: it can
	deviceHeld int64         // bytes of the device's memory that the executable holds
	files      files         // the files that runs read in place
	ledger     any           // the owner of its blocks there
	owns       []bool        // by output's port: its storage can lie in other memory
	own        []held        // by input: the states that the program has tensors for; nil if there are none

	asks     asks
	room     int64 // bytes that the budget leaves for sizes that data determine
	stricter int64 // the budget less the limit that the compiler gets
	over     over
	taken    atomic.Int64 // bytes taken of room
}

// bound is a call for fixed dimensions.
type bound struct {
	call *executor.Call
	dims []int64
}

// name returns the program's name in CPU profiles: the model's file, or else the model's own name.
func (p *Program) name() string { return cmp.Or(p.model.file, p.compiled.Program.Name, "unnamed") }

// Inputs describes the inputs of a run.
func (p *Program) Inputs() []Info { return append([]Info(nil), p.inputs...) }

// Outputs describes the outputs of a run.
func (p *Program) Outputs() []Info { return append([]Info(nil), p.outputs...) }

// Target returns the target that the program runs on.
func (p *Program) Target() Target { return p.target }

// Memory returns the certificate: the memory that the program takes, as formulas over its dimensions.
func (p *Program) Memory() *Memory { return p.memory }

// Requires lists the conditions on the inputs' dimensions. A run that breaks one returns an error before any kernel
// runs.
func (p *Program) Requires() []Condition {
	var out []Condition
	for _, r := range p.compiled.Program.Requires {
		out = append(out, Condition{p.labels.Cond(r.Cond).Words(), r.From})
	}
	return out
}

// Run runs the program once. If Options.Calls runs are active or have open results, it waits until one ends, or until
// ctx ends.
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

// run passes the arguments to a call and runs it.
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

// Bind returns the values that these arguments give the program's dimensions, for the formulas of Memory.
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

// setEdges sets the inputs and outputs as the user sees them.
func (p *Program) setEdges(takes, gives []edge) {
	p.takes, p.gives = takes, gives
	p.inputs, p.outputs = edgeInfos(takes), edgeInfos(gives)
}
