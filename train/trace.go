package train

import (
	"math"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// trace is the step as a function of arrays. It returns the new values of the states that the program writes, the loss,
// the gradients' norm, and whether all is finite.
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
	var by []*array.Array // the derivative is taken by these arrays
	var direct []int      // the parameters that are not lazy; they come first in by
	for i, a := range trained {
		if !t.options.isLazy(t.states[i].name) {
			by, direct = append(by, a), append(direct, i)
		}
	}
	for _, l := range lookups {
		by = append(by, l.added)
	}
	var updates []nn.Update
	var loss *array.Array
	forward := func(s *array.Scope, by ...*array.Array) []*array.Array {
		values := slices.Clone(in[:m])
		for k, i := range direct {
			values[i] = by[k]
		}
		at := len(direct)
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
	for k, i := range direct {
		grads[i] = out[k]
	}
	for i := range grads {
		if grads[i] == nil {
			w.rows[i], grads[i] = w.touch(i, lookups, out[len(direct):])
		}
	}
	if s.Err() != nil {
		return nil
	}
	return w.results(p, loss, grads)
}

// forward returns the loss of a batch, an f32, and the new values of buffers. rows returns rows of a lazy table.
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

// bind gives parameters and buffers their values in a context.
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

// narrow converts f32 arrays to the precision of the network's values.
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

// writing computes the results of a step.
type writing struct {
	t       *Trainer
	s       *array.Scope
	in      []*array.Array
	scalars []*array.Array
	updates []nn.Update
	rows    map[int]*touched // by parameter: the rows of a lazy table that the batch names
	marks   map[int]int      // by parameter: the index of a lazy table's mark among the states
	// known is true if the loss and the buffers are finite: if only gradients are not, LossScale skips the update
	known *array.Array
}

// marks returns, by parameter, the indices of the marks of lazy tables among the states.
func (t *Trainer) marks() map[int]int {
	marks := map[int]int{}
	for i, s := range t.states {
		if s.kind == mark {
			marks[s.param] = i
		}
	}
	return marks
}

// results returns the new values of the states that the program writes, the loss, the norm, and a state: allFine,
// notFine or buffersNotFine.
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

// The states that a step reports.
const (
	buffersNotFine = -1 // a buffer would become infinite or NaN
	notFine        = 0  // the loss or a gradient is infinite or NaN
	allFine        = 1
)

// buffersFinite reports whether all float buffers that the network updates stay finite; the variance of a single value,
// for example, is NaN. Elements that are not finite already are ignored.
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

// normOf returns the root of the sum of the squares of all elements.
func normOf(s *array.Scope, grads []*array.Array) *array.Array {
	total := s.Zeros(weir.F32)
	for _, g := range grads {
		total = s.Add(total, s.Sum(s.Mul(g, g)))
	}
	return s.Sqrt(total)
}

// added returns the accumulated sums with the gradients added, each divided by Options.Accumulate.
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

// clipped returns the gradients, limited by ClipNorm and ClipValue.
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

// update returns the new values of all states; the old values unless fine is true.
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

// collected returns the new values of sums and buffers; the old values unless fine is true.
func (w *writing) collected(grads []*array.Array, fine *array.Array) []*array.Array {
	next := make([]*array.Array, len(w.t.states))
	for i, st := range w.t.states {
		if st.kind == sum {
			next[i] = grads[st.param]
		}
	}
	return w.guarded(next, fine)
}

// guarded returns the new value of every state that has one or is a buffer; the old value unless fine is true.
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
			// An update that LossScale skips clears the sum; a batch that is refused leaves it unchanged.
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

// buffer returns a buffer's new value; the old value if the network did not update it.
func (w *writing) buffer(i int, name string) *array.Array {
	for _, u := range w.updates {
		if u.Name == name {
			return w.s.Cast(u.Value, w.in[i].DType())
		}
	}
	return w.in[i]
}
