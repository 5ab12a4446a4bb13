package weir

import (
	"cmp"
	"context"
	"errors"

	"github.com/weirml/weir/internal/artefact"
	"github.com/weirml/weir/internal/certificate"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/session"
	"github.com/weirml/weir/internal/signature"
)

// Condition is a condition on the inputs' dimensions, as Python comparisons joined by "or" or "and", and its origin in
// the model.
type Condition struct{ Condition, From string }

// Program is a compiled model. Several goroutines may run it at the same time.
type Program struct {
	model     *Model
	session   *session.Session // its runs; it knows the inputs and outputs
	compiled  *compiler.Compiled
	options   Options
	memory    *Memory
	labels    *report.Labels // the public names of its dimensions
	target    Target
	proved    []Condition
	tuned     []Tuning
	exhausted bool     // see Memory.Exhausted
	saved     []Saving // the savings of an artefact when it was written

	device     device.Device // the device that it runs on beside the host, or nil
	absent     error         // why a program for a device cannot run; nil: it can
	deviceHeld int64         // bytes of the device's memory that the executable holds

	// joined has, by the name of each dimension that is the first axis of an input, the reason why its rows are not proved
	// to be independent; a zero reason if they are.
	joined map[string]artefact.Joining

	asks certificate.Asks
	// charged is the share of the program's fixed part that Account has granted, and gets back at the program's end.
	charged int64
	how     attempt
	over    over
}

// newProgram returns a program without code, which the source of its model compiles.
func newProgram(m *Model, o Options, how attempt) *Program {
	p := &Program{model: m, options: o, target: o.Target, how: how}
	p.session = session.New(session.Options{Calls: o.Calls, Budget: o.Budget, Poison: poisoned, Logger: o.Logger,
		Account: o.Account,
		Recheck: func(dims []int64) error { return p.compiled.Recheck(dims) }, Read: m.read, First: m.source.First,
		InFile: func(err error) error { return inFile(err, m.file) },
		Torn:   func(states []string, err error) error { return &StateError{states, err} },
		End: func() error {
			defer p.uncharge()
			return errors.Join(p.leaveDevice(), m.files.Release(p))
		}})
	p.session.Fixed = m.source.Fixed
	return p
}

// name returns the program's name in CPU profiles: the model's file, or else the model's own name.
func (p *Program) name() string { return cmp.Or(p.model.file, p.compiled.Program.Name, "unnamed") }

// Inputs describes the inputs of a run.
func (p *Program) Inputs() []Info { return infosOf(signature.Infos(p.session.Inputs)) }

// Outputs describes the outputs of a run.
func (p *Program) Outputs() []Info { return infosOf(signature.Infos(p.session.Outputs)) }

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
func (p *Program) Run(ctx context.Context, in Inputs) (*Results, error) {
	r, err := p.session.Run(ctx, arguments(in))
	return (*Results)(r), err
}

// Bind returns the values that these arguments give the program's dimensions, for the formulas of Memory.
func (p *Program) Bind(in Inputs) (Dims, error) { return p.session.Bind(arguments(in)) }

// Close waits for running calls and for open results and calls, then releases all memory. From the call of Close on,
// new runs return ErrClosed. Closing twice is allowed: the second call waits too. CloseContext limits the wait.
func (p *Program) Close() error { return p.CloseContext(context.Background()) }

// CloseContext is Close, but waits only until ctx ends. It then returns the error of ctx, with the source line of the
// oldest open result, and the program stays closed for new runs: the memory is released when the last result is closed
// or the last run ends. Call Close or CloseContext again to wait for that. If ctx has already ended, CloseContext
// closes what is unused and returns at once.
func (p *Program) CloseContext(ctx context.Context) error { return p.session.Close(ctx) }
