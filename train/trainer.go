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
	// Inputs describe a batch's arrays: X, More and Y, in this order. If there are several and the last is named "y",
	// it is Y. With Inputs, New compiles the step, and an extent may have a name, as "sequence". Without them, the
	// first batch compiles it: the first axis of each array is then named "batch", and all other extents are that
	// batch's.
	Inputs []array.Spec
	// Schedule returns the factor of each step's learning rate; nil: 1.
	Schedule Schedule
	// ClipNorm limits the norm of all gradients together: gradients beyond it are scaled down. ClipValue limits the
	// magnitude of each element of a gradient. 0: no limit.
	ClipNorm, ClipValue float64
	// Accumulate is the number of batches whose gradients are averaged for one update; their sum is kept in place. 0:
	// 1.
	Accumulate int
	// Precision is the type of the network's values: F32 (also if zero), or BF16. Parameters, moments and the loss are
	// f32.
	Precision weir.DType
	// LossScale is the initial loss scale: the loss is multiplied by it for the backward pass, and the gradients are
	// divided by it. If gradients are not finite, the update is skipped and the scale halved; after 2,000 updates
	// without that it is doubled. 0: no scaling.
	LossScale float64
	// Finite makes a step check that the gradients are finite, as well as the loss; all gradients are kept until then.
	// ClipNorm and LossScale check them in any case.
	Finite bool
	// Decays reports whether the weights of a parameter decay; nil: all decay.
	Decays func(name string) bool
	// Lazy selects tables by patterns of their names, as "0.*". A step reads and writes only the rows of these tables
	// that a batch's ids name, and the same rows of the optimiser's slots. The network must read the tables by
	// nn.Embedding alone. Rows that no id names do not decay, nor do their moments: with SGD without momentum the
	// numbers are the same as without Lazy.
	Lazy []string
	// Seed determines the random numbers of steps, as those of Dropout.
	Seed uint64
	// Budget, Threads and Compile's other fields apply to the step's program. Compile.Dims bounds "batch".
	Budget  int64
	Threads int
	Compile weir.Options
}

// Batch is the input of a step. Its arrays are borrowed while the step runs.
type Batch struct {
	X, Y *array.Array   // Y may be nil if the loss does not read it
	More []*array.Array // inputs of the network after X

	from *Data
	at   position // the position in the data after this batch
}

// Metrics are the results of a step.
type Metrics struct {
	Step    int64   // the number of updates, including this one
	Loss    float64 // before the update
	Rate    float64 // the learning rate
	Norm    float64 // the norm of all gradients together, before clipping; 0 unless an option needs it
	Updated bool    // false if the step only accumulated gradients, or LossScale skipped the update
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
	scalars []*array.Array // the optimiser's scalars, the loss scale, and the random key
	fills   []*float32     // the elements of scalars, without the key
	buffer  []float32
	key     []uint64 // the key's elements
	target  bool     // batches have Y

	update  *program // the step
	collect *program // a step that only accumulates gradients; nil without Options.Accumulate

	step      int64 // updates so far
	pending   int   // batches whose gradients were accumulated since the last update
	factor    float64
	scale     float64 // the loss scale
	calm      int     // updates since the scale changed
	watch     watch   // Fit's observations
	resumed   bool    // watch comes from a checkpoint, and Fit has not read it
	at        position
	from      *Data
	torn      *Torn
	closed    bool
	predicted *predictor
}

// state is an array that a step reads and, if it is not frozen, writes.
type state struct {
	name  string // its name in checkpoints
	array *array.Array
	kind  stateKind
	param int // of a slot, a sum or a mark: its parameter, as an index into the trainable parameters
}

// stateKind tells the purpose of a state.
type stateKind uint8

const (
	parameter stateKind = iota
	buffer
	slot
	sum  // of gradients
	mark // the last index of each row of a lazily trained table: see lazy.go
)

// New makes a trainer of all parameters that are not frozen. They are updated in place, and lent to the trainer until
// it is closed.
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

// check returns an error if a setting is out of range.
func (o *Options) check() error {
	switch {
	case o.Precision != weir.InvalidDType && o.Precision != weir.F32 && o.Precision != weir.BF16:
		return diag.Inputf("the precision %v", o.Precision).WithFix("F32 or BF16")
	case o.Accumulate < 0 || !(o.ClipNorm >= 0) || !(o.ClipValue >= 0) || !(o.LossScale >= 0):
		return diag.Inputf("a setting is less than 0, or no number")
	}
	return nil
}

// gather borrows the parameters and makes the optimiser's slots.
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
				return t.scope.Err()
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

// keep makes the slots of parameter i and, if needed, its mark and its sum of gradients.
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

// free returns an unused name for a state of a parameter, as w@mean. It repeats the @ until no other state or parameter
// has the name, because checkpoints contain all of them.
func (t *Trainer) free(name, what string) string {
	taken := func(s state) bool { return s.name == name+what }
	for name += "@"; slices.ContainsFunc(t.states, taken) || slices.ContainsFunc(t.frozen, taken); {
		name += "@"
	}
	return name + what
}

// prepare makes the arrays for the values that change from step to step.
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

// full returns the elements of a tensor of a shape, all equal to x.
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

// Params returns the store that is trained.
func (t *Trainer) Params() *nn.Params { return t.params }

// Steps returns the number of updates so far.
func (t *Trainer) Steps() int64 { return t.step }

// Factor returns the factor of the learning rate that SetFactor set.
func (t *Trainer) Factor() float64 { return t.factor }

// SetFactor sets a factor of the learning rate, in addition to the schedule's, for the steps that follow. Checkpoints
// contain it.
func (t *Trainer) SetFactor(x float64) { t.factor = x }

// rate returns the learning rate of the next step.
func (t *Trainer) rate() float64 {
	r := t.optimiser.Rate() * t.factor
	if t.options.Schedule != nil {
		r *= t.options.Schedule(t.step + 1)
	}
	return r
}

// Memory returns the certificate of a step, a formula in the batch's extents. It is nil before the step is compiled and
// after the trainer is closed. It does not include StateBytes; Peak returns the sum.
func (t *Trainer) Memory() *weir.Memory {
	if t.update == nil {
		return nil
	}
	return t.update.compiled.Memory()
}

// Program returns the compiled step, which can be inspected, profiled (weir.Program.Kernels) and written as an artefact
// for weir plan and weir bench. It belongs to the trainer: do not close it. It is nil before the step is compiled and
// after the trainer is closed.
func (t *Trainer) Program() *weir.Program {
	if t.update == nil {
		return nil
	}
	return t.update.compiled.Program()
}

// Peak returns the memory of training, in bytes, for batches of the given extents: StateBytes and the certificates of
// the step's programs, of which there are two if gradients are accumulated. The program of Predict and Evaluate is not
// included.
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

// programs returns the programs that steps run.
func (t *Trainer) programs() []*program {
	if t.collect == nil {
		return []*program{t.update}
	}
	return []*program{t.update, t.collect}
}

// StateBytes returns the size in bytes of parameters, buffers, the optimiser's slots and the values that change from
// step to step.
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

// bytesOf returns an array's size in bytes, 0 if it is closed.
func bytesOf(a *array.Array) int64 {
	if x := a.Tensor(); x != nil {
		return int64(len(x.Bytes()))
	}
	return 0
}

// Certificate returns a table of Memory's formulas, followed by StateBytes. Peak returns their sum for a batch.
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

// use locks the trainer for a method; it returns an error if another goroutine uses the trainer or it is closed.
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

// shut returns the error of a closed trainer.
func shut() error { return diag.New(weir.ErrClosed, "the trainer is closed") }

// used returns the error of a trainer that another goroutine uses.
func used() error {
	return diag.Inputf("another goroutine is using the trainer").WithFix("one goroutine uses it at a time")
}

// Close frees the trainer's memory. The parameters keep the values of the last step. If another goroutine uses the
// trainer, Close returns an error and closes nothing. Closing twice is harmless.
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

// Step trains on a batch, and returns after parameters and moments have their new values. If the batch does not fit or
// the loss is not finite (NotFinite), nothing changes. If the step fails after it began to write, the error is Torn.
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
