package weir

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/tensor"
)

// Tuning is a choice of Options.Tune that differs from the scheduler's tables.
type Tuning struct {
	Nodes  string `json:"nodes"`  // the model's nodes that the kernel computes
	Choice string `json:"choice"` // in words
	// that the kernel took in a run as the tables say, in nanoseconds; After was measured beside it
	Before time.Duration `json:"before"`
	After  time.Duration `json:"after"`
}

// Tuned lists the choices of Options.Tune, largest saving first; an artefact keeps them. The order of sums does not
// depend on the choices, except for an algorithm ("direct", "Winograd"), which rounds differently.
func (p *Program) Tuned() []Tuning { return slices.Clone(p.tuned) }

// Tests that tune many times over give it less.
var (
	tuneTime      = 10 * time.Second // after which no candidate is compiled
	tuneTrialTime = 600 * time.Millisecond
)

const (
	tuneRounds  = 3 // of a trial, at least
	tuneRuns    = 2 // of a program in a round
	tuneProofs  = 3 // tries to find all choices together faster, each without those that the one before did not confirm
	usualExtent = 64
)

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
	in, err := usual.anyInputs()
	if err == nil {
		defer in.close()
		_, err = usual.Profile(ctx, in.args, 1)
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
	quiet, end := o, time.Now().Add(tuneTime)
	quiet.Logger = nil
	choices := compiler.Tune(usual.compiled.Candidates(), func(c compiler.Choices) (*compiler.Trial, error) {
		p, err := compileWith(ctx, m, quiet, c)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		t, err := p.trial(ctx, usual, in.args)
		if err == nil {
			log("tried", "choice", c.All.String(), "took", total(t.Times), "usual", total(t.Usual))
		}
		return t, err
	}, func() bool { return ctx.Err() == nil && time.Now().Before(end) })
	for proof := range tuneProofs {
		if len(choices.Kernels) == 0 {
			break
		}
		tuned, err := compileWith(ctx, m, quiet, choices)
		if err != nil {
			break
		}
		t, err := tuned.trial(ctx, usual, in.args)
		if err != nil {
			tuned.Close()
			break
		}
		log("tuned", "kernels", len(choices.Kernels), "took", total(t.Times), "usual", total(t.Usual))
		confirmed := maps.Clone(choices.Kernels)
		maps.DeleteFunc(confirmed, func(nodes string, _ compiler.Choice) bool { return t.Ratio(nodes) >= 1 })
		var took, before time.Duration // of the kernels that choices are for
		for nodes := range choices.Kernels {
			took, before = took+t.Times[nodes], before+t.Usual[nodes]
		}
		if total(t.Times) < total(t.Usual) && took < before && (proof > 0 || len(confirmed) == len(choices.Kernels)) {
			tuned.options, tuned.tuned = o, tunings(choices, t)
			return tuned, nil
		}
		tuned.Close()
		choices.Kernels = confirmed
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	log("nothing is faster than what the tables say")
	return usual, nil
}

// tunings describes choices.
func tunings(c compiler.Choices, t *compiler.Trial) (list []Tuning) {
	for nodes, choice := range c.Kernels {
		list = append(list, Tuning{report.Once(nodes), choice.String(), t.Usual[nodes], t.Times[nodes]})
	}
	slices.SortFunc(list, func(a, b Tuning) int {
		return cmp.Or(cmp.Compare(a.After-a.Before, b.After-b.Before), cmp.Compare(a.Nodes, b.Nodes))
	})
	return list
}

func total(times map[string]time.Duration) (sum time.Duration) {
	for _, t := range times {
		sum += t
	}
	return sum
}

// trial runs the program in alternation with the usual one.
func (p *Program) trial(ctx context.Context, usual *Program, in Inputs) (*compiler.Trial, error) {
	t := &compiler.Trial{Times: map[string]time.Duration{}, Usual: map[string]time.Duration{},
		Changed: p.compiled.Changed(usual.compiled)}
	begin := time.Now()
	for round := 0; round < tuneRounds || time.Since(begin) < tuneTrialTime; round++ {
		if err := errors.Join(p.times(ctx, in, t.Times), usual.times(ctx, in, t.Usual)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// times runs the program a few times and updates the shortest times, by the nodes of its kernels. The first run of each
// round finds the caches filled by another program.
func (p *Program) times(ctx context.Context, in Inputs, shortest map[string]time.Duration) error {
	list, err := p.Profile(ctx, in, tuneRuns)
	if err != nil {
		return err
	}
	nodes := map[string]string{}
	for i, name := range p.compiled.Program.Kernels {
		nodes[name] = p.compiled.Nodes(i)
	}
	times := map[string]time.Duration{}
	for _, k := range list {
		key := nodes[k.Kernel]
		if k.Backend == "host" {
			key = "host " + k.Kernel
		}
		times[key] += k.Time
	}
	for key, took := range times {
		if before, ok := shortest[key]; !ok || took < before {
			shortest[key] = took
		}
	}
	return nil
}

// sample is a set of inputs made for a program.
type sample struct {
	args    Inputs
	tensors []*Tensor
}

func (s *sample) close() {
	for _, t := range s.tensors {
		t.Close()
	}
}

// anyInputs makes inputs that the program should accept: numbers from 0 to 1, legal indices, true.
func (p *Program) anyInputs() (s *sample, err error) {
	s = &sample{args: Inputs{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	dims := p.usualDims()
	random := rand.New(rand.NewPCG(1, 2))
	for _, e := range p.session.Inputs {
		info := e.Info
		if !info.Simple() {
			return s, diag.Unsupportedf("tuning a model whose input %s is no tensor of numbers", info).AtTensor(info.Name)
		}
		port := p.compiled.Program.Inputs[e.Parts[0]]
		var shape []int
		for _, e := range p.compiled.Program.Tensors[port.Tensor].Shape {
			n, err := e.Eval(p.labels.Values(dims))
			if err != nil {
				return s, err
			}
			shape = append(shape, int(n))
		}
		t, err := New(info.DType, shape...)
		if err != nil {
			return s, err
		}
		s.tensors, s.args[info.Name] = append(s.tensors, t), t
		if info.State != "" {
			s.args[info.Name] = Update(t)
		}
		inner, err := t.inner().Enter()
		if err != nil {
			return s, err
		}
		defer t.inner().Leave()
		fillSample(inner, random, func() (lo, hi int64) {
			if lo, hi, ok := p.ValueRange(info.Name, dims); ok {
				return lo, hi
			}
			return 1, 1
		})
		for k, d := range port.Elements {
			if int64(k) < inner.Len() {
				inner.SetInt(int64(k), dims[p.label(d)])
			}
		}
	}
	return s, nil
}

// usualDims returns sizes for the dimensions that inputs determine.
func (p *Program) usualDims() Dims {
	firsts := map[string]bool{}
	for _, port := range p.compiled.Program.Inputs {
		if shape := p.compiled.Program.Tensors[port.Tensor].Shape; len(shape) > 0 {
			for _, name := range shape[0].Vars() {
				firsts[p.labels.Of[name]] = true
			}
		}
	}
	dims := Dims{}
	for _, d := range p.Dims() {
		usual := int64(usualExtent)
		if firsts[d.Name] {
			usual = 1
		}
		dims[d.Name] = min(max(usual, d.Min), d.Max)
	}
	return dims
}

// fillSample fills a tensor with values; legal returns the range of integers.
func fillSample(t *tensor.Tensor, random *rand.Rand, legal func() (lo, hi int64)) {
	n := t.Len()
	switch {
	case t.DType().IsComplex():
		return
	case t.DType().IsFloat():
		for i := range n {
			t.SetFloat(i, random.Float64())
		}
		return
	}
	lo, hi := legal()
	for i := range n {
		t.SetInt(i, lo+random.Int64N(min(hi-lo, 1<<20)+1))
	}
}
