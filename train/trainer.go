package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/nn"
)

// Options are a trainer's settings; the zero value works.
type Options struct {
	// Inputs are what batches have: X, More and Y, in this order; the last of several is Y if its Name is "y". With them
	// the step is compiled by New, and an extent may have a name, as "sequence". Without them it is compiled by the first
	// batch: the first axes are "batch", the other extents that batch's own.
	Inputs []array.Spec
	// Schedule is what each step's learning rate is multiplied by; nil: 1.
	Schedule Schedule
	// ClipNorm is the most that the norm of all gradients together may be, ClipValue the most that an element of one may
	// be; beyond it they are scaled, or cut. 0: no limit.
	ClipNorm, ClipValue float64
	// Accumulate is the number of batches whose gradients are added up, in place, and averaged for one update; 0: 1.
	Accumulate int
	// Precision is that of the network's values: F32 (also when zero), or BF16. Parameters, moments and the loss are f32.
	Precision weir.DType
	// LossScale is what the loss is multiplied by for the backward pass, and gradients divided by: it is halved when they
	// are not finite, which skips the update, and doubled after 2,000 updates without that. 0: there is none.
	LossScale float64
	// Finite has gradients checked besides the loss: all of them are kept until then. ClipNorm and LossScale do so anyway.
	Finite bool
	// Decays says which parameters' weights decay; nil: all.
	Decays func(name string) bool
	// Lazy are tables of which a step touches only the rows that a batch's ids name, and the same rows of what the
	// optimiser keeps of them: patterns of names, as "0.*". The network reads them by nn.Embedding alone. Rows that are
	// not named do not decay, nor do their moments: with SGD without momentum the numbers are the same as without Lazy.
	Lazy []string
	// Seed is what random numbers of steps, as those of Dropout, come from.
	Seed uint64
	// Budget, Threads and what else Compile says hold for the step's program. Its Dims bound "batch".
	Budget  int64
	Threads int
	Compile weir.Options
}

// Batch is what a step learns from. Its arrays are borrowed while the step runs.
type Batch struct {
	X, Y *array.Array   // Y may be nil, for a loss that reads none
	More []*array.Array // inputs of the network after X

	from *Data
	at   position // in the data, after this batch
}

// Metrics are what a step tells.
type Metrics struct {
	Step    int64   // how many updates there were, with this one
	Loss    float64 // before the update
	Rate    float64 // of learning
	Norm    float64 // of all gradients together, before clipping; 0 if no option has it computed
	Updated bool    // false if gradients were added up only, or LossScale skipped the update
}

// Trainer trains a network. One goroutine calls Step at a time.
type Trainer struct {
	net       nn.Layer
	params    *nn.Params
	loss      Loss
	optimiser Optimiser
	options   Options

	alone   sync.Mutex
	scope   *array.Scope   // owns slots, sums and scalars; parameters are lent to it
	states  []state        // of the step's programs, in the order of their inputs
	frozen  []state        // parameters that do not change
	scalars []*array.Array // the optimiser's, the loss scale, and the key
	fills   []*float32     // the elements of those but the key
	buffer  []float32
	key     []uint64 // its elements
	target  bool     // batches have Y

	update  *program // the step
	collect *program // a step of those that add gradients up only; nil if there are none

	step      int64 // updates so far
	pending   int   // batches whose gradients were added up since
	factor    float64
	scale     float64 // of the loss
	calm      int     // updates since the scale changed
	watch     watch   // of Fit
	resumed   bool    // watch comes from a checkpoint, and Fit has not read it
	at        position
	from      *Data
	torn      *Torn
	closed    bool
	predicted *predictor
}

// state is an array that a step reads and, unless it is frozen, writes.
type state struct {
	name  string // as checkpoints have it
	array *array.Array
	kind  stateKind
	param int // of the trainable parameters, the one that a slot or a sum is of
}

type stateKind uint8

const (
	parameter stateKind = iota
	buffer
	slot
	sum  // of gradients
	mark // of the rows of a table that is trained lazily: see lazy.go
)

// New makes a trainer of a network's parameters, all that are not frozen. They are updated where they are, and lent to
// the trainer until it is closed.
func New(net nn.Layer, p *nn.Params, loss Loss, optimiser Optimiser, o Options) (t *Trainer, err error) {
	defer diag.Recover(&err, "making a trainer")
	if net == nil || p == nil || loss == nil || optimiser == nil {
		return nil, diag.Inputf("a network, its parameters, a loss and an optimiser are needed")
	}
	if c, ok := optimiser.(checker); ok {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	t = &Trainer{net: net, params: p, loss: loss, optimiser: optimiser, options: o, factor: 1, scale: o.LossScale}
	t.scope = array.NewScope("training")
	if err = t.gather(); err == nil && o.Inputs != nil {
		err = t.compile(o.Inputs)
		if e := new(weir.Error); errors.As(err, &e) && e.Fix == "" && len(o.Inputs) > 1 && !targeted(o.Inputs) {
			err = e.WithFix("the last of Options.Inputs is the target if its name is y; here none is")
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (o *Options) check() error {
	switch {
	case o.Precision != weir.InvalidDType && o.Precision != weir.F32 && o.Precision != weir.BF16:
		return diag.Inputf("the precision %v", o.Precision).WithFix("F32 or BF16")
	case o.Accumulate < 0 || !(o.ClipNorm >= 0) || !(o.ClipValue >= 0) || !(o.LossScale >= 0):
		return diag.Inputf("a setting is less than 0, or no number")
	}
	return nil
}

// gather borrows the parameters and makes what the optimiser keeps of them.
func (t *Trainer) gather() error {
	p := t.params
	trainable := map[string]bool{}
	names := p.Trainable()
	for _, name := range names {
		trainable[name] = true
		if a := p.Get(name); a.DType() != weir.F32 {
			return diag.Inputf("%s is %v; parameters that are trained are f32", name, a).AtTensor(name).WithFix("freeze it")
		}
		t.states = append(t.states, state{name: name, array: p.Get(name), kind: parameter})
	}
	if len(names) == 0 {
		return diag.Inputf("no parameter is to be trained: the network has none, or all are frozen")
	}
	for _, name := range p.Buffers() {
		t.states = append(t.states, state{name: name, array: p.Get(name), kind: buffer})
	}
	for _, name := range p.Names() {
		if !trainable[name] {
			t.frozen = append(t.frozen, state{name: name, array: p.Get(name)})
		}
	}
	for _, list := range [][]state{t.states, t.frozen} {
		for _, s := range list {
			if p.Scope().Lend(s.array, t.scope) == nil {
				return p.Scope().Err()
			}
		}
	}
	if err := t.checkLazy(names); err != nil {
		return err
	}
	for i, name := range names {
		t.keep(i, name)
	}
	return t.prepare()
}

// keep makes the slots of a parameter, and what its gradients are added up in.
func (t *Trainer) keep(i int, name string) {
	shape := t.states[i].array.Shape()
	for _, s := range t.optimiser.Slots(shape) {
		a := array.From(t.scope, full(s.Value, s.Shape), s.Shape...)
		t.states = append(t.states, state{name: t.free(name, s.Name), array: a, kind: slot, param: i})
	}
	if t.options.isLazy(name) {
		t.states = append(t.states, state{name: t.free(name, "mark"), array: t.scope.Zeros(weir.I32, shape[0]), kind: mark,
			param: i})
	}
	if t.options.Accumulate > 1 {
		t.states = append(t.states, state{name: t.free(name, "sum"), array: t.scope.Zeros(weir.F32, shape...), kind: sum,
			param: i})
	}
}

// free is a name for what is kept of a parameter, as w@mean, with as many @ as make it no name of another state's or
// parameter's: checkpoints have all of them.
func (t *Trainer) free(name, what string) string {
	taken := func(s state) bool { return s.name == name+what }
	for name += "@"; slices.ContainsFunc(t.states, taken) || slices.ContainsFunc(t.frozen, taken); {
		name += "@"
	}
	return name + what
}

// prepare makes the arrays for what changes from step to step.
func (t *Trainer) prepare() error {
	t.buffer = make([]float32, t.optimiser.Scalars())
	for range len(t.buffer) + 1 { // the last is the loss scale
		a := array.Scalar(t.scope, float32(0))
		list, err := array.View[float32](a)
		if err != nil {
			return err
		}
		t.scalars, t.fills = append(t.scalars, a), append(t.fills, &list[0])
	}
	key := array.From(t.scope, []uint64{0, 0})
	t.scalars = append(t.scalars, key)
	var err error
	t.key, err = array.View[uint64](key)
	return err
}

// full are elements that are all x.
func full(x float64, shape []int) []float32 {
	n := 1
	for _, e := range shape {
		n *= e
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(x)
	}
	return list
}

// Params is the store that is trained.
func (t *Trainer) Params() *nn.Params { return t.params }

// Steps is how many updates there were.
func (t *Trainer) Steps() int64 { return t.step }

// Factor is what the learning rate is multiplied by besides the schedule; see SetFactor.
func (t *Trainer) Factor() float64 { return t.factor }

// SetFactor multiplies the learning rate of the steps that follow. Checkpoints have it.
func (t *Trainer) SetFactor(x float64) { t.factor = x }

// rate is the learning rate of the step that comes next.
func (t *Trainer) rate() float64 {
	r := t.optimiser.Rate() * t.factor
	if t.options.Schedule != nil {
		r *= t.options.Schedule(t.step + 1)
	}
	return r
}

// Memory is the certificate of a step, as a formula over the batch: nil before the step is compiled, and once the
// trainer is closed. What StateBytes says comes on top; see Peak for all of it.
func (t *Trainer) Memory() *weir.Memory {
	if t.update == nil {
		return nil
	}
	return t.update.compiled.Memory()
}

// Program is the compiled step: what it does and takes can be looked at, profiled (weir.Program.Kernels) and written as
// an artefact that weir plan and weir bench read. It belongs to the trainer: do not close it. nil before the step is
// compiled, and once the trainer is closed.
func (t *Trainer) Program() *weir.Program {
	if t.update == nil {
		return nil
	}
	return t.update.compiled.Program()
}

// Peak is all that training takes while steps have batches of these extents: the certificates of the programs that
// steps run, of which there are two if gradients are added up, and what StateBytes says. Predict and Evaluate have a
// program of their own, whose memory is not in it.
func (t *Trainer) Peak(d weir.Dims) (bytes int64, err error) {
	switch {
	case t.closed:
		return 0, shut()
	case t.update == nil:
		return 0, diag.Inputf("the step is not compiled yet").WithFix("give Options.Inputs, or make a step first")
	}
	bytes = t.StateBytes()
	for _, p := range t.programs() {
		n, err := p.compiled.Memory().Peak(1, d)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// programs are those that steps run.
func (t *Trainer) programs() []*program {
	if t.collect == nil {
		return []*program{t.update}
	}
	return []*program{t.update, t.collect}
}

// StateBytes is what parameters, buffers, what the optimiser keeps, and the numbers that change from step to step take.
func (t *Trainer) StateBytes() int64 {
	n := int64(0)
	for _, s := range t.all() {
		n += bytesOf(s.array)
	}
	for _, a := range t.scalars {
		n += bytesOf(a)
	}
	return n
}

// bytesOf is what an array takes, 0 if it is closed.
func bytesOf(a *array.Array) int64 {
	if x := a.Tensor(); x != nil {
		return int64(len(x.Bytes()))
	}
	return 0
}

// Certificate is what a step takes as a table of formulas, which Memory gives apart, and what StateBytes says; Peak is
// their sum for a batch.
func (t *Trainer) Certificate() string {
	switch {
	case t.closed:
		return "the trainer is closed"
	case t.update == nil:
		return "the step is not compiled yet"
	}
	text := fmt.Sprintf("%v%-25s %d: parameters, buffers and what the optimiser keeps of them, besides the peak\n",
		t.Memory(), "states", t.StateBytes())
	if t.collect != nil {
		text += fmt.Sprintf("a step that only adds gradients up:\n%v", t.collect.compiled.Memory())
	}
	return text
}

// use begins a method that one goroutine calls at a time.
func (t *Trainer) use() error {
	if !t.alone.TryLock() {
		return used()
	}
	if t.closed {
		t.alone.Unlock()
		return shut()
	}
	return nil
}

func shut() error { return diag.New(weir.ErrClosed, "the trainer is closed") }

func used() error {
	return diag.Inputf("another goroutine is using the trainer").WithFix("one goroutine uses it at a time")
}

// Close gives back what the trainer has of its own. The parameters stay, as the last step left them. While another
// goroutine uses the trainer it is an error, and nothing is closed. Closing twice is fine.
func (t *Trainer) Close() error {
	if t == nil {
		return nil
	}
	if !t.alone.TryLock() {
		return used()
	}
	defer t.alone.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	var first error
	for _, p := range []*program{t.update, t.collect} {
		if err := p.close(); err != nil && first == nil {
			first = err
		}
	}
	t.update, t.collect = nil, nil
	if err := t.predicted.close(); err != nil && first == nil {
		first = err
	}
	if err := t.scope.Close(); err != nil && first == nil {
		first = err
	}
	return first
}

// Step learns from a batch. It returns when parameters and moments have their new values. A batch that does not fit,
// and a loss that is not finite (NotFinite), leave everything as it was; a step that ends while it writes is Torn.
func (t *Trainer) Step(ctx context.Context, b Batch) (m Metrics, err error) {
	defer diag.Recover(&err, "training")
	if err := t.use(); err != nil {
		return m, err
	}
	defer t.alone.Unlock()
	if t.torn != nil {
		return m, t.torn
	}
	if t.update == nil {
		specs, err := t.specs(b)
		if err != nil {
			return m, err
		}
		if err := t.compile(specs); err != nil {
			return m, err
		}
	}
	p := t.update
	if t.pending+1 < t.options.Accumulate {
		p = t.collect
	}
	m.Rate = t.rate()
	t.fill(m.Rate)
	if err := p.run(ctx, t, b, &m); err != nil {
		return m, err
	}
	if b.from != nil {
		t.from, t.at = b.from, b.at
	}
	m.Step = t.step
	return m, nil
}
