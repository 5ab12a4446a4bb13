package weir

import (
	"context"
	"slices"
	"time"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/timing"
)

// Tuning is a choice of Options.Tune that differs from the scheduler's tables.
type Tuning struct {
	Nodes  string `json:"nodes"`  // the model's nodes that the kernel computes
	Choice string `json:"choice"` // in words
	// Before is the kernel's time in a run with the tables' choices, in nanoseconds; After is its time with Choice,
	// measured in alternation.
	Before time.Duration `json:"before"`
	After  time.Duration `json:"after"`
}

// Tuned lists the choices of Options.Tune, largest saving first; an artefact keeps them. The order of sums does not
// depend on the choices, except for an algorithm ("direct", "Winograd"), which rounds differently.
func (p *Program) Tuned() []Tuning { return slices.Clone(p.tuned) }

// tune compiles a model with the tables' choices and with others, and returns the fastest program. It holds at most two
// programs at a time.
func tune(ctx context.Context, m *Model, o Options) (p *Program, err error) {
	o.Tune = false
	if m.source.module() == nil {
		return nil, diag.Unsupportedf("tuning an artefact, whose choices are made").AtFile(m.file).
			WithFix("weir compile MODEL --tune")
	}
	usual, err := compileWith(ctx, m, o, compiler.Choices{})
	if err != nil {
		return nil, err
	}
	log := func(text string, args ...any) {
		if o.Logger != nil {
			o.Logger.Info(text, append(args, "model", m.file)...)
		}
	}
	defer func() {
		if p != usual {
			usual.Close()
		}
	}()
	if !usual.compiled.Here() && o.Cross {
		return nil, diag.Unsupportedf("tuning for %s, whose code does not run here", usual.compiled.Machine.CPU).
			WithFix("tune on a machine that has it")
	}
	if !usual.compiled.Here() { // the system refused memory for machine code
		log("not tuned: the program runs as portable code")
		return usual, nil
	}
	timed := usual.timed()
	in, err := timing.NewSample(timed)
	if err == nil {
		defer in.Close()
		_, err = timing.Profile(ctx, timed.Compiled, timed.Session, in.Inputs, 1)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		if o.Logger != nil {
			o.Logger.Warn("not tuned: "+err.Error(), "model", m.file)
		}
		return usual, nil
	}
	o.Stage = nil
	quiet := o
	quiet.Logger = nil
	best, list, err := timing.Tune(ctx, timed, in.Inputs, func(c compiler.Choices) (*timing.Program, error) {
		p, err := compileWith(ctx, m, quiet, c)
		if err != nil {
			return nil, err
		}
		return p.timed(), nil
	}, log)
	if err != nil {
		return nil, err
	}
	if best == nil {
		log("nothing is faster than what the tables say")
		return usual, nil
	}
	p = best.Owner.(*Program)
	p.options, p.tuned = o, each(list, func(c timing.Choice) Tuning { return Tuning(c) })
	return p, nil
}

// timed returns the program as trials run it.
func (p *Program) timed() *timing.Program {
	return &timing.Program{Compiled: p.compiled, Session: p.session, Labels: p.labels,
		Dims: each(p.Dims(), func(d Dimension) timing.Dimension {
			return timing.Dimension{Name: d.Name, Min: d.Min, Max: d.Max}
		}), Owner: p}
}
