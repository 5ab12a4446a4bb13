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

// name returns what the program is called in CPU profiles: the model's file, or else the name that the model has for
// itself.
func (p *Program) name() string { return cmp.Or(p.model.file, p.compiled.Program.Name, "unnamed") }

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
