package weir

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
)

// Tuning is what Options.Tune chose for a kernel otherwise than the tables of the scheduler say.
type Tuning struct {
	Nodes  string        `json:"nodes"`  // the model's nodes that the kernel computes
	Choice string        `json:"choice"` // in words
	Before time.Duration `json:"before"` // that the kernel took in a run as the tables say, in nanoseconds
	After  time.Duration `json:"after"`
}

// Tuned lists what Options.Tune chose, what saves most first: it is part of an artefact. Sums are in the same order whatever was chosen, but for an algorithm ("direct", "Winograd"), which
// rounds otherwise.
func (p *Program) Tuned() []Tuning { return slices.Clone(p.tuned) }

const (
	tuneTime    = 10 * time.Second // after which no candidate is compiled
	tuneRunTime = 300 * time.Millisecond
	tuneRuns    = 3 // of a candidate, at least
	usualExtent = 64
)

// tune compiles a model as the tables say and with other choices, and returns the fastest program.
func tune(ctx context.Context, m *Model, o Options) (p *Program, err error) {
	o.Tune = false
	if m.artefact != nil {
		return nil, diag.Unsupportedf("tuning an artefact, whose choices are made").AtFile(m.file).WithFix("weir compile MODEL --tune")
	}
	quiet := o
	quiet.Logger, quiet.Stage = nil, nil
	log := func(text string, args ...any) {
		if o.Logger != nil {
			o.Logger.Info(text, append(args, "model", m.file)...)
		}
	}
	var first, last map[string]time.Duration
	var fault error // not to be passed over
	end := time.Now().Add(tuneTime)
	choices, err := compiler.Tune(func(c compiler.Choices) (*compiler.Trial, error) {
		p, err := compileWith(ctx, m, quiet, c)
		if err != nil {
			if first == nil {
				fault = err
			}
			return nil, err
		}
		defer p.Close()
		if !p.compiled.Here() {
			fault = diag.Unsupportedf("tuning for %s, whose code does not run here", p.compiled.Machine.CPU).WithFix("tune on a machine that has it")
			return nil, fault
		}
		times, err := p.times(ctx)
		if first == nil {
			first = times
		}
		log("tried", "choice", c.All.String(), "took", total(times), "error", err)
		return &compiler.Trial{Times: times, Candidates: p.compiled.Candidates()}, err
	}, func() bool { return ctx.Err() == nil && time.Now().Before(end) })
	if fault = cmp.Or(ctx.Err(), fault); fault != nil {
		return nil, fault
	}
	if err != nil && o.Logger != nil {
		o.Logger.Warn("not tuned: "+err.Error(), "model", m.file)
	}
	if len(choices.Kernels) > 0 {
		if p, err = compileWith(ctx, m, o, choices); err == nil {
			if last, err = p.times(ctx); err == nil && total(last) < total(first) {
				p.tuned = tunings(choices, first, last)
				log("tuned", "kernels", len(p.tuned), "before", total(first), "after", total(last))
				return p, nil
			}
			p.Close()
		}
	}
	log("nothing is faster than what the tables say", "took", total(first))
	return compileWith(ctx, m, o, compiler.Choices{})
}

// tunings describes choices.
func tunings(c compiler.Choices, before, after map[string]time.Duration) (list []Tuning) {
	for nodes, choice := range c.Kernels {
		list = append(list, Tuning{once(nodes), choice.String(), before[nodes], after[nodes]})
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

// times runs the program on values of its own and tells how long its kernels took, by the nodes that they compute.
func (p *Program) times(ctx context.Context) (map[string]time.Duration, error) {
	in, err := p.anyInputs()
	if err != nil {
		return nil, err
	}
	defer in.close()
	nodes := map[string]string{}
	for i, name := range p.compiled.Program.Kernels {
		nodes[name] = p.compiled.Nodes(i)
	}
	begin := time.Now()
	if _, err := p.Profile(ctx, in.args, 1); err != nil { // the first run is of memory that nothing had touched
		return nil, err
	}
	runs := max(tuneRuns, min(100, int(tuneRunTime/max(time.Since(begin), 1))))
	list, err := p.Profile(ctx, in.args, runs)
	if err != nil {
		return nil, err
	}
	times := map[string]time.Duration{}
	for _, k := range list {
		key := nodes[k.Kernel]
		if k.Backend == "host" {
			key = "host " + k.Kernel
		}
		times[key] += k.Time
	}
	return times, nil
}

// sample is inputs that were made for a program.
type sample struct {
	args    Inputs
	tensors []*Tensor
}

func (s *sample) close() {
	for _, t := range s.tensors {
		t.Close()
	}
}

// anyInputs makes inputs that the program accepts, as far as can be told: numbers from 0 to 1, indices that are legal, true.
func (p *Program) anyInputs() (s *sample, err error) {
	s = &sample{args: Inputs{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	dims := p.usualDims()
	random := rand.New(rand.NewPCG(1, 2))
	for i, info := range p.inputs {
		if !info.simple() {
			return s, diag.Unsupportedf("tuning a model whose input %s is no tensor of numbers", info).AtTensor(info.Name)
		}
		port := p.compiled.Program.Inputs[p.takes[i].Parts[0]]
		var shape []int
		for _, e := range p.compiled.Program.Tensors[port.Tensor].Shape {
			n, err := e.Eval(lookup(dims))
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
		fillSample(t, random, func() (lo, hi int64) {
			if lo, hi, ok := p.Legal(info.Name, dims); ok {
				return lo, hi
			}
			return 1, 1
		})
		for k, d := range port.Elements {
			if int64(k) < t.t.Len() {
				t.t.SetInt(int64(k), dims[p.compiled.Program.Dims[d].Name])
			}
		}
	}
	return s, nil
}

// usualDims are sizes for the dimensions that inputs decide.
func (p *Program) usualDims() Dims {
	firsts := map[string]bool{}
	for _, port := range p.compiled.Program.Inputs {
		if shape := p.compiled.Program.Tensors[port.Tensor].Shape; len(shape) > 0 {
			for _, name := range shape[0].Vars() {
				firsts[name] = true
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

// fillSample fills a tensor with values; legal gives the range of integers.
func fillSample(t *Tensor, random *rand.Rand, legal func() (lo, hi int64)) {
	n := t.t.Len()
	switch {
	case t.DType().IsComplex():
		return
	case t.DType().IsFloat():
		for i := range n {
			t.t.SetFloat(i, random.Float64())
		}
		return
	}
	lo, hi := legal()
	for i := range n {
		t.t.SetInt(i, lo+random.Int64N(min(hi-lo, 1<<20)+1))
	}
}
