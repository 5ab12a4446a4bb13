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
	"github.com/weirml/weir/nn"
)

// program is a compiled step, bound to its states.
type program struct {
	compiled *array.Compiled
	specs    []array.Spec // of a batch's arrays
	inputs   []weir.Info  // states, frozen parameters, scalars, the key, and the batch
	batch    int          // the first of the batch's
	states   []string     // names, by input
	results  []string     // loss, norm, whether all is finite
	call     *weir.Call
	dims     []int64 // that the call is bound to, of the named extents in the order of names
	named    []named
	bound    []*weir.Tensor // of the batch
	updates  bool
	read     []state // if it is a predictor: what it reads
}

// named is where the value of a named extent is read.
type named struct {
	name         string
	input, axis  int // of the batch's arrays
	sameAsBefore bool
}

// specs are those of a batch, whose first axes are all "batch".
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

// arrays are X, More and Y.
func (b *Batch) arrays() []*array.Array {
	list := append([]*array.Array{b.X}, b.More...)
	if b.Y != nil {
		list = append(list, b.Y)
	}
	return list
}

// count is the number of arrays.
func (b *Batch) count() int {
	n := 1 + len(b.More)
	if b.Y != nil {
		n++
	}
	return n
}

// get is array i of arrays.
func (b *Batch) get(i int) *array.Array {
	switch {
	case i == 0:
		return b.X
	case i <= len(b.More):
		return b.More[i-1]
	}
	return b.Y
}

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

// compile compiles the step's programs.
func (t *Trainer) compile(specs []array.Spec) (err error) {
	t.target = targeted(specs)
	budget := max(t.options.Budget, t.options.Compile.Budget)
	if t.collect, t.update, err = t.within(specs, budget); err != nil {
		return t.enough(specs, err)
	}
	return nil
}

// within compiles the step, and if gradients are accumulated the program that adds them up, each within a budget.
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

// mostEnough is how often a budget that a refusal names is tried for all programs of a trainer.
const mostEnough = 6

// enough is the error of a refused budget with one that is enough for all programs of the trainer: what one of them is
// refused for may not be all that another needs. If none is found, no number is named.
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

// program compiles the step, or, if it does not update, the one that adds gradients up.
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

// specOf is the spec of a state; names of inputs have no other characters than those of identifiers.
func specOf(s state) array.Spec {
	spec := array.Spec{Name: s.name, DType: s.array.DType()}
	for _, e := range s.array.Shape() {
		spec.Shape = append(spec.Shape, weir.Extent{Size: int64(e)})
	}
	return spec
}

// name finds where the values of named extents are read.
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

// trace is the step as a function: the new values of what it writes, the loss, the gradients' norm, and whether all is
// finite.
func (t *Trainer) trace(s *array.Scope, p *program, in []*array.Array) []*array.Array {
	n := len(t.states)
	m := n + len(t.frozen)
	scalars, key, batch := in[m:m+len(t.fills)], in[m+len(t.fills)], in[p.batch:]
	var trained []*array.Array
	for i, st := range t.states {
		if st.kind == parameter {
			trained = append(trained, in[i])
		}
	}
	lookups := t.lookups(s, in[:m], key, batch)
	var by []*array.Array // what the derivative is taken by
	var whole []int       // of those, the parameters, which come first
	for i, a := range trained {
		if !t.options.isLazy(t.states[i].name) {
			by, whole = append(by, a), append(whole, i)
		}
	}
	for _, l := range lookups {
		by = append(by, l.added)
	}
	var updates []nn.Update
	var loss *array.Array
	forward := func(s *array.Scope, by ...*array.Array) []*array.Array {
		values := slices.Clone(in[:m])
		for k, i := range whole {
			values[i] = by[k]
		}
		at := len(whole)
		loss, updates = t.forward(s, values, key, batch, func(table int, ids *array.Array) *array.Array {
			at++
			return s.Add(s.Embedding(values[table], ids), by[at-1])
		})
		if t.options.LossScale > 0 {
			return []*array.Array{s.Mul(loss, scalars[len(scalars)-1])}
		}
		return []*array.Array{loss}
	}
	if s.Err() != nil {
		return nil
	}
	out := array.Grad(forward)(s, by...)
	if s.Err() != nil {
		return out
	}
	w := &writing{t: t, s: s, in: in, scalars: scalars, updates: updates, rows: map[int]*touched{}, marks: t.marks()}
	grads := make([]*array.Array, len(trained))
	for k, i := range whole {
		grads[i] = out[k]
	}
	for i := range grads {
		if grads[i] == nil {
			w.rows[i], grads[i] = w.touch(i, lookups, out[len(whole):])
		}
	}
	if s.Err() != nil {
		return nil
	}
	return w.results(p, loss, grads)
}

// forward is the loss of a batch, of f32, and the new values of buffers.
func (t *Trainer) forward(s *array.Scope, values []*array.Array, key *array.Array, batch []*array.Array,
	rows func(table int, ids *array.Array) *array.Array) (*array.Array, []nn.Update) {
	c := nn.Training(s, t.params, key)
	t.bind(c, values)
	t.bindRows(c, rows)
	x, y := batch, (*array.Array)(nil)
	if t.target {
		x, y = batch[:len(batch)-1], batch[len(batch)-1]
	}
	out := nn.One(c, t.net, t.narrow(s, x)...)
	if s.Err() != nil {
		return out, nil
	}
	loss := t.loss(s, s.Cast(out, weir.F32), y)
	if s.Err() == nil && loss.Len() != 1 {
		refuse(s, "the loss is %v; it has one element", loss)
	}
	if s.Err() != nil {
		return loss, nil
	}
	if !loss.DType().IsFloat() {
		refuse(s, "the loss is %v; it is a float", loss)
		return loss, nil
	}
	return s.Cast(s.Reshape(loss, []int{}...), weir.F32), c.Updates()
}

// bind gives parameters and buffers the values that stand for them.
func (t *Trainer) bind(c *nn.Context, values []*array.Array) {
	for i, s := range append(slices.Clone(t.states), t.frozen...) {
		switch {
		case s.kind == parameter && t.options.isLazy(s.name): // see bindRows
		case s.kind == parameter:
			c.Bind(s.name, t.narrow(c.Scope, values[i:i+1])[0])
		case s.kind == buffer:
			c.Bind(s.name, values[i])
		}
	}
}

// narrow converts floats to the precision of the network's values.
func (t *Trainer) narrow(s *array.Scope, list []*array.Array) []*array.Array {
	if t.options.Precision != weir.BF16 {
		return list
	}
	out := slices.Clone(list)
	for i, a := range out {
		if a.DType() == weir.F32 {
			out[i] = s.Cast(a, weir.BF16)
		}
	}
	return out
}

// writing is what a step's results are computed from.
type writing struct {
	t       *Trainer
	s       *array.Scope
	in      []*array.Array
	scalars []*array.Array
	updates []nn.Update
	rows    map[int]*touched // of tables that are trained lazily
	marks   map[int]int      // their marks among the states
	// whether the loss and buffers are finite: if only gradients are not, LossScale skips the update
	known *array.Array
}

// marks are where the states are that tell the places of tables' rows.
func (t *Trainer) marks() map[int]int {
	marks := map[int]int{}
	for i, s := range t.states {
		if s.kind == mark {
			marks[s.param] = i
		}
	}
	return marks
}

// results are the new values of what the program writes, the loss, the norm, and whether all is finite.
func (w *writing) results(p *program, loss *array.Array, grads []*array.Array) []*array.Array {
	s, o := w.s, &w.t.options
	if o.LossScale > 0 {
		for i := range grads {
			grads[i] = s.Div(grads[i], w.scalars[len(w.scalars)-1])
		}
	}
	buffers := w.buffersFinite()
	w.known = s.LogicalAnd(finite(s, loss), buffers)
	fine := w.known
	if o.Accumulate > 1 {
		grads = w.added(grads)
	}
	norm, told := s.Zeros(weir.F32), s.Zeros(weir.F32)
	if o.ClipNorm > 0 || o.LossScale > 0 || o.Finite {
		norm = normOf(s, grads)
		fine = s.LogicalAnd(fine, finite(s, norm))
		if p.updates {
			told = norm
		}
	}
	var out []*array.Array
	if p.updates {
		out = w.update(w.clipped(grads, norm), fine)
	} else {
		out = w.collected(grads, fine)
	}
	state := s.Where(fine, s.Full(allFine, weir.F32), s.Where(buffers, s.Full(notFine, weir.F32),
		s.Full(buffersNotFine, weir.F32)))
	return append(out, loss, told, state)
}

// What a step tells of its numbers.
const (
	buffersNotFine = -1 // a buffer would become infinite or NaN
	notFine        = 0  // the loss is, or gradients are
	allFine        = 1
)

// buffersFinite reports whether no buffer of floats that the network updates would become infinite or NaN, as a
// variance of one value is. One that is so already stays its network's own affair.
func (w *writing) buffersFinite() *array.Array {
	s := w.s
	fine := array.Scalar(s, true)
	for i, st := range w.t.states {
		if st.kind != buffer || !w.in[i].DType().IsFloat() {
			continue
		}
		if now := w.buffer(i, st.name); now != w.in[i] {
			fine = s.LogicalAnd(fine, s.All(s.LogicalOr(s.IsFinite(now), s.LogicalNot(s.IsFinite(w.in[i])))))
		}
	}
	return fine
}

// finite reports whether a number is neither infinite nor NaN.
func finite(s *array.Scope, x *array.Array) *array.Array {
	return s.LessEqual(s.Abs(x), s.Number(math.MaxFloat32))
}

// normOf is the root of the sum of the squares of all elements.
func normOf(s *array.Scope, grads []*array.Array) *array.Array {
	total := s.Zeros(weir.F32)
	for _, g := range grads {
		total = s.Add(total, s.Sum(s.Mul(g, g)))
	}
	return s.Sqrt(total)
}

// added are the gradients, over their number, on top of the sums so far.
func (w *writing) added(grads []*array.Array) []*array.Array {
	out := slices.Clone(grads)
	for i, st := range w.t.states {
		if st.kind == sum {
			share := w.s.Mul(grads[st.param], w.s.Number(1/float64(w.t.options.Accumulate)))
			out[st.param] = w.s.Add(w.in[i], share)
		}
	}
	return out
}

// clipped are the gradients within the limits of their norm and their elements.
func (w *writing) clipped(grads []*array.Array, norm *array.Array) []*array.Array {
	s, o := w.s, &w.t.options
	out := slices.Clone(grads)
	if o.ClipNorm > 0 {
		factor := s.Minimum(s.Div(s.Number(o.ClipNorm), s.Add(norm, s.Number(1e-6))), s.Number(1))
		for i := range out {
			out[i] = s.Mul(out[i], factor)
		}
	}
	if o.ClipValue > 0 {
		for i := range out {
			out[i] = s.Minimum(s.Maximum(out[i], s.Number(-o.ClipValue)), s.Number(o.ClipValue))
		}
	}
	return out
}

// update are the new values of all states; the old ones if not all is finite.
func (w *writing) update(grads []*array.Array, fine *array.Array) []*array.Array {
	t, s := w.t, w.s
	next := make([]*array.Array, len(t.states))
	for i, g := range grads {
		var slots []int
		u := Update{P: w.in[i], G: g, Scalars: w.scalars[:len(w.scalars)-1], Decay: t.options.Decays == nil ||
			t.options.Decays(t.states[i].name)}
		for k, st := range t.states {
			if st.kind == slot && st.param == i {
				slots, u.Slots = append(slots, k), append(u.Slots, w.in[k])
			}
			if st.kind == sum && st.param == i {
				next[k] = s.Zeros(weir.F32, st.array.Shape()...)
			}
		}
		if w.rows[i] != nil {
			w.lazily(next, i, u, slots, fine)
			continue
		}
		p, values := t.optimiser.Update(s, u)
		next[i] = p
		for k, at := range slots {
			next[at] = values[k]
		}
	}
	return w.guarded(next, fine)
}

// collected are the new values of sums and buffers.
func (w *writing) collected(grads []*array.Array, fine *array.Array) []*array.Array {
	next := make([]*array.Array, len(w.t.states))
	for i, st := range w.t.states {
		if st.kind == sum {
			next[i] = grads[st.param]
		}
	}
	return w.guarded(next, fine)
}

// guarded are new values, the old ones if not all is finite: of every state that has a new value or is a buffer.
func (w *writing) guarded(next []*array.Array, fine *array.Array) []*array.Array {
	var out []*array.Array
	for i, st := range w.t.states {
		value := next[i]
		if st.kind == buffer {
			value = w.buffer(i, st.name)
		}
		switch {
		case value == nil:
		case st.kind == sum && w.t.options.LossScale > 0:
			// What is skipped is gone; a batch that is refused leaves what there was before.
			skipped := w.s.Where(w.known, w.s.ZerosLike(value), w.in[i])
			out = append(out, w.s.Where(fine, value, skipped))
		case st.kind == mark || w.rows[i] != nil || st.kind == slot && w.rows[st.param] != nil:
			out = append(out, value) // rows were guarded one by one
		default:
			out = append(out, w.s.Where(fine, value, w.in[i]))
		}
	}
	return out
}

// buffer is a buffer's new value; the old one if the network did not update it.
func (w *writing) buffer(i int, name string) *array.Array {
	for _, u := range w.updates {
		if u.Name == name {
			return w.s.Cast(u.Value, w.in[i].DType())
		}
	}
	return w.in[i]
}

// close gives a program's code and memory back.
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

// run runs the program on a batch.
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

// check compares a batch with what the step was compiled for.
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
			return diag.Inputf("%v is given, the step was compiled for %s", a, specText(spec)).AtTensor(b.name(i)).
				WithFix("give batches of one type and shape, but for named extents: see Options.Inputs")
		}
	}
	return p.agree(b)
}

// missing is why an array of a batch has no elements: it is nil, was closed, or the operation that was to compute it
// failed.
func missing(a *array.Array, name string) error {
	if a.Tensor() != nil {
		return nil
	}
	if _, err := array.View[byte](a); err != nil {
		return diag.As(err, weir.ErrInput).AtTensor(name)
	}
	return diag.Inputf("it has no elements").AtTensor(name)
}

// agree checks that a named extent has one value.
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

func specText(spec array.Spec) string {
	list := make([]string, len(spec.Shape))
	for i, e := range spec.Shape {
		if list[i] = e.Dim; e.Dim == "" {
			list[i] = fmt.Sprint(e.Size)
		}
	}
	return fmt.Sprintf("%v[%s]", spec.DType, strings.Join(list, ","))
}

// rebind makes a call for other extents, instead of the one before.
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

// attach binds everything but the batch.
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

// arguments are what a step is bound to, but for the batch.
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

// fill gives the step's scalars and its key their values.
func (t *Trainer) fill(rate float64) {
	t.optimiser.Fill(t.buffer, t.step+1, rate)
	for i, x := range t.buffer {
		*t.fills[i] = x
	}
	*t.fills[len(t.fills)-1] = float32(t.scale)
	t.fillKey()
}

// told is what a run told: the state is one of allFine and the others.
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

// failed is the error of a run that failed: Torn, if it had begun to write.
func (t *Trainer) failed(err error) error {
	var torn *weir.StateError
	if !errors.As(err, &torn) {
		return err
	}
	t.torn = &Torn{Step: t.step + 1, Names: slices.Clone(torn.States), Err: torn.Err}
	return t.torn
}

// ended notes what a run did.
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

func finiteNumber(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
