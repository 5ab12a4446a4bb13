package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// program is a compiled step, bound to its states.
type program struct {
	compiled *array.Compiled
	specs    []array.Spec // a batch's arrays
	inputs   []weir.Info  // states, frozen parameters, scalars, the key, and the batch's arrays
	batch    int          // the index of the batch's first array in inputs
	states   []string     // names of states and frozen parameters, by input
	results  []string     // names of the outputs: the loss, the norm, and whether all is finite
	call     *weir.Call
	dims     []int64 // by entry of named: the extent that call is bound to
	named    []named
	bound    []*weir.Tensor // the batch's tensors that call is bound to
	updates  bool
	read     []state // of a predictor: the states that it reads
}

// named is an axis of a batch's array from which the value of a named extent is read.
type named struct {
	name         string
	input, axis  int  // the array's index in the batch, and its axis
	sameAsBefore bool // an earlier entry has the same name
}

// specs returns the specs of a batch's arrays, whose first axes are all named "batch".
func (t *Trainer) specs(b Batch) ([]array.Spec, error) {
	var list []array.Spec
	for i, a := range b.arrays() {
		if err := missing(a, b.name(i)); err != nil {
			return nil, err
		}
		spec := array.Spec{Name: b.name(i), DType: a.DType()}
		for axis, e := range a.Shape() {
			if axis == 0 {
				spec.Shape = append(spec.Shape, weir.Extent{Size: -1, Dim: "batch"})
			} else {
				spec.Shape = append(spec.Shape, weir.Extent{Size: int64(e)})
			}
		}
		list = append(list, spec)
	}
	return list, nil
}

// arrays returns X, More and Y.
func (b *Batch) arrays() []*array.Array {
	list := append([]*array.Array{b.X}, b.More...)
	if b.Y != nil {
		list = append(list, b.Y)
	}
	return list
}

// count returns the number of arrays.
func (b *Batch) count() int {
	n := 1 + len(b.More)
	if b.Y != nil {
		n++
	}
	return n
}

// get returns element i of arrays.
func (b *Batch) get(i int) *array.Array {
	switch {
	case i == 0:
		return b.X
	case i <= len(b.More):
		return b.More[i-1]
	}
	return b.Y
}

// name returns the name of array i: "x", "x1", … and "y".
func (b *Batch) name(i int) string {
	switch {
	case i == 0:
		return "x"
	case i <= len(b.More):
		return fmt.Sprint("x", i)
	}
	return "y"
}

// targeted reports whether the last of a batch's arrays is the target.
func targeted(specs []array.Spec) bool { return len(specs) > 1 && specs[len(specs)-1].Name == "y" }

// compile compiles the step's programs for batches of these specs.
func (t *Trainer) compile(specs []array.Spec) (err error) {
	t.target = targeted(specs)
	budget := max(t.options.Budget, t.options.Compile.Budget)
	if t.collect, t.update, err = t.within(specs, budget); err != nil {
		return t.enough(specs, err)
	}
	return nil
}

// within compiles the step and, if gradients are accumulated, the program that accumulates them, each within a budget
// in bytes.
func (t *Trainer) within(specs []array.Spec, budget int64) (collect, update *program, err error) {
	if t.options.Accumulate > 1 {
		if collect, err = t.program(specs, false, budget); err != nil {
			return nil, nil, err
		}
	}
	if update, err = t.program(specs, true, budget); err != nil {
		collect.close()
		return nil, nil, err
	}
	return collect, update, nil
}

// mostEnough is the number of budgets that enough tries.
const mostEnough = 6

// enough returns the error of a refused budget, with a budget that suffices for all programs of the trainer: one
// program's required budget may be too small for another. If no such budget is found, the error names none.
func (t *Trainer) enough(specs []array.Spec, refused error) error {
	var first, e *weir.Error
	if t.options.Accumulate <= 1 || !errors.As(refused, &first) || first.Budget <= 0 {
		return refused
	}
	budget := first.Budget
	for range mostEnough {
		collect, update, err := t.within(specs, budget)
		if err == nil {
			collect.close()
			update.close()
			return first.Enough(budget)
		}
		if !errors.As(err, &e) || e.Budget <= budget {
			return errors.Join(first.Enough(0), err)
		}
		budget = e.Budget
	}
	return first.Enough(0)
}

// program compiles the step or, if updates is false, the program that accumulates gradients.
func (t *Trainer) program(specs []array.Spec, updates bool, budget int64) (*program, error) {
	p := &program{updates: updates, specs: specs}
	o := array.Options{Name: "step", States: map[int]int{}, Compile: t.options.Compile}
	if !updates {
		o.Name = "gradients"
	}
	o.Compile.Budget, o.Compile.Threads = budget, max(t.options.Threads, o.Compile.Threads)
	for i, s := range t.states {
		if p.writes(s) {
			o.States[i] = len(o.States)
		}
	}
	for _, list := range [][]state{t.states, t.frozen} {
		for _, s := range list {
			o.Inputs = append(o.Inputs, specOf(s))
			p.states = append(p.states, s.name)
		}
	}
	for i := range t.fills {
		o.Inputs = append(o.Inputs, array.Spec{Name: fmt.Sprint("scalar", i), DType: weir.F32})
	}
	o.Inputs = append(o.Inputs, keySpec())
	p.batch = len(o.Inputs)
	o.Inputs = append(o.Inputs, specs...)
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array { return t.trace(s, p, in) }, o)
	if err != nil {
		return nil, err
	}
	p.compiled, p.inputs = c, c.Program().Inputs()
	for _, out := range c.Program().Outputs()[len(o.States):] {
		p.results = append(p.results, out.Name)
	}
	p.name()
	return p, nil
}

// writes reports whether the program writes a state.
func (p *program) writes(s state) bool {
	return p.updates || s.kind == sum || s.kind == buffer
}

// specOf returns the spec of a state.
func specOf(s state) array.Spec {
	spec := array.Spec{Name: s.name, DType: s.array.DType()}
	for _, e := range s.array.Shape() {
		spec.Shape = append(spec.Shape, weir.Extent{Size: int64(e)})
	}
	return spec
}

// name finds the axes from which the values of named extents are read.
func (p *program) name() {
	for i, spec := range p.specs {
		for axis, e := range spec.Shape {
			if e.Dim == "" {
				continue
			}
			before := slices.ContainsFunc(p.named, func(n named) bool { return n.name == e.Dim })
			p.named = append(p.named, named{e.Dim, i, axis, before})
		}
	}
	p.dims, p.bound = make([]int64, len(p.named)), make([]*weir.Tensor, len(p.specs))
}

// close frees a program's code and memory.
func (p *program) close() error {
	if p == nil {
		return nil
	}
	if p.call != nil {
		p.call.Close()
		p.call = nil
	}
	return p.compiled.Close()
}

// run runs the program on a batch, and records the results in m and t.
func (p *program) run(ctx context.Context, t *Trainer, b Batch, m *Metrics) error {
	if err := p.prepare(t, &b); err != nil {
		return err
	}
	if err := p.call.Run(ctx); err != nil {
		return t.failed(err)
	}
	loss, norm, state, err := p.told()
	if err != nil {
		return err
	}
	m.Loss, m.Norm = loss, norm
	return t.ended(p, m, state)
}

// prepare binds the call to a batch.
func (p *program) prepare(t *Trainer, b *Batch) error {
	if err := p.check(b); err != nil {
		return err
	}
	same := p.call != nil
	for i, n := range p.named {
		value := int64(b.get(n.input).Dim(n.axis))
		same = same && p.dims[i] == value
		p.dims[i] = value
	}
	if !same {
		if err := p.rebind(t); err != nil {
			return err
		}
	}
	for i := range p.specs {
		tensor := b.get(i).Tensor()
		if p.bound[i] == tensor {
			continue
		}
		if err := p.call.Bind(p.inputs[p.batch+i].Name, tensor); err != nil {
			return err
		}
		p.bound[i] = tensor
	}
	return nil
}

// check returns an error unless a batch matches the specs that the step was compiled for.
func (p *program) check(b *Batch) error {
	if b.count() != len(p.specs) {
		return diag.Inputf("a batch of %d arrays is given, the step was compiled for %d", b.count(), len(p.specs))
	}
	for i, spec := range p.specs {
		a := b.get(i)
		if err := missing(a, b.name(i)); err != nil {
			return err
		}
		fits := a.DType() == spec.DType && a.Rank() == len(spec.Shape)
		for axis, e := range spec.Shape {
			fits = fits && (e.Dim != "" || a.Dim(axis) == int(e.Size))
		}
		if !fits {
			return diag.Inputf("%v is given, the step was compiled for %s", a, describe(spec)).AtTensor(b.name(i)).
				WithFix("give batches of one type and shape, but for named extents: see Options.Inputs")
		}
	}
	return p.agree(b)
}

// missing returns an error if an array of a batch has no elements: it is nil or closed, or the operation that computes
// it failed.
func missing(a *array.Array, name string) error {
	if a.Tensor() != nil {
		return nil
	}
	if _, err := array.View[byte](a); err != nil {
		return diag.As(err, weir.ErrInput).AtTensor(name)
	}
	return diag.Inputf("it has no elements").AtTensor(name)
}

// agree returns an error unless each named extent has the same value in all arrays of a batch.
func (p *program) agree(b *Batch) error {
	for i, n := range p.named {
		if !n.sameAsBefore {
			continue
		}
		for _, first := range p.named[:i] {
			x, y := b.get(first.input), b.get(n.input)
			if first.name == n.name && x.Dim(first.axis) != y.Dim(n.axis) {
				return diag.Inputf("%s is %d in %s and %d in %s", n.name, x.Dim(first.axis), b.name(first.input), y.Dim(n.axis),
					b.name(n.input)).AtDim(n.name)
			}
		}
	}
	return nil
}

// describe returns a spec's type and shape, like f32[batch,3].
func describe(spec array.Spec) string {
	list := make([]string, len(spec.Shape))
	for i, e := range spec.Shape {
		if list[i] = e.Dim; e.Dim == "" {
			list[i] = fmt.Sprint(e.Size)
		}
	}
	return fmt.Sprintf("%v[%s]", spec.DType, strings.Join(list, ","))
}

// rebind replaces the call by one for the extents in dims.
func (p *program) rebind(t *Trainer) error {
	if p.call != nil {
		p.call.Close()
		p.call = nil
	}
	clear(p.bound)
	dims := weir.Dims{}
	for i, n := range p.named {
		dims[n.name] = p.dims[i]
	}
	call, err := p.compiled.Program().NewCall(dims)
	if err != nil {
		return err
	}
	if err := p.attach(t, call); err != nil {
		call.Close()
		return err
	}
	p.call = call
	return nil
}

// attach binds all inputs of a call except the batch.
func (p *program) attach(t *Trainer, call *weir.Call) error {
	var args []weir.Arg
	for _, s := range p.read {
		args = append(args, s.array.Tensor())
	}
	if p.read == nil {
		args = t.arguments(p)
	}
	for i, arg := range args {
		if err := call.Bind(p.inputs[i].Name, arg); err != nil {
			return err
		}
	}
	return nil
}

// arguments returns a step's arguments except the batch.
func (t *Trainer) arguments(p *program) (args []weir.Arg) {
	for _, s := range t.states {
		if p.writes(s) {
			args = append(args, weir.Update(s.array.Tensor()))
		} else {
			args = append(args, s.array.Tensor())
		}
	}
	for _, s := range t.frozen {
		args = append(args, s.array.Tensor())
	}
	for _, a := range t.scalars {
		args = append(args, a.Tensor())
	}
	return args
}

// fill sets the step's scalars and its key.
func (t *Trainer) fill(rate float64) {
	t.optimiser.Fill(t.buffer, t.step+1, rate)
	for i, x := range t.buffer {
		*t.fills[i] = x
	}
	*t.fills[len(t.fills)-1] = float32(t.scale)
	t.fillKey()
}

// told reads a run's outputs; state is allFine, notFine or buffersNotFine.
func (p *program) told() (loss, norm, state float64, err error) {
	var values [3]float64
	for i, name := range p.results {
		list, err := weir.View[float32](p.call.Output(name))
		if err != nil {
			return 0, 0, 0, err
		}
		values[i] = float64(list[0])
	}
	return values[0], values[1], values[2], nil
}

// failed returns the error of a run that failed: Torn if the run had begun to write.
func (t *Trainer) failed(err error) error {
	var torn *weir.StateError
	if !errors.As(err, &torn) {
		return err
	}
	t.torn = &Torn{Step: t.step + 1, Names: slices.Clone(torn.States), Err: torn.Err}
	return t.torn
}

// ended records a run that ended with a state, and returns NotFinite if the run was refused.
func (t *Trainer) ended(p *program, m *Metrics, state float64) error {
	fine := state == allFine
	switch {
	case state == buffersNotFine:
		return &NotFinite{Step: t.step + 1, Loss: m.Loss, Buffers: finiteNumber(m.Loss)}
	case !fine && t.options.LossScale > 0 && finiteNumber(m.Loss):
		t.scale, t.calm, t.pending = t.scale/2, 0, 0
		if t.scale < 1e-10 {
			return &NotFinite{Step: t.step + 1, Loss: m.Loss, Gradients: true}
		}
	case !fine:
		return &NotFinite{Step: t.step + 1, Loss: m.Loss, Gradients: finiteNumber(m.Loss)}
	case !p.updates:
		t.pending++
	default:
		t.step, t.pending, m.Updated = t.step+1, 0, true
		if t.calm++; t.options.LossScale > 0 && t.calm >= 2000 {
			t.scale, t.calm = t.scale*2, 0
		}
	}
	return nil
}

// finiteNumber reports whether x is neither infinite nor NaN.
func finiteNumber(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
