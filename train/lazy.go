package train

import (
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/nn"
)

// A step touches only those rows of a lazily trained table that a batch's ids name. Derivatives are taken by arrays of
// zeros that are added to the rows, one array for each lookup. A row that several ids name gets the sum of their
// derivatives, stored at one index among the batch's ids: the index of the last id that names the row. A state, mark,
// holds that index for each row; it is written before it is read, so it need not be cleared.

// lookup is one read of a table's rows by the network.
type lookup struct {
	table int // the table's index among the trainable parameters
	ids   *array.Array
	added *array.Array // zeros, added to the rows
}

// isLazy reports whether a parameter's name matches a pattern of Options.Lazy.
func (o *Options) isLazy(name string) bool {
	return slices.ContainsFunc(o.Lazy, func(pattern string) bool { return nn.Matches(pattern, name) })
}

// checkLazy returns an error if a pattern of Options.Lazy matches no table, or a table cannot be trained lazily.
func (t *Trainer) checkLazy(names []string) error {
	for _, pattern := range t.options.Lazy {
		if !slices.ContainsFunc(names, func(name string) bool { return nn.Matches(pattern, name) }) {
			return diag.Inputf("no parameter that is trained matches %q", pattern)
		}
	}
	if len(t.options.Lazy) > 0 && t.options.Accumulate > 1 {
		return diag.Unsupportedf("tables that are trained lazily, and gradients of several batches added up")
	}
	for _, name := range names {
		if !t.options.isLazy(name) {
			continue
		}
		shape := t.params.Get(name).Shape()
		if len(shape) != 2 {
			return diag.Inputf("it is %v; what is trained lazily is a table, of rows", t.params.Get(name)).AtTensor(name)
		}
		for _, s := range t.optimiser.Slots(shape) {
			if !slices.Equal(s.Shape, shape) {
				return diag.Unsupportedf("a table that is trained lazily by an optimiser whose %s is of another shape than the "+
					"table", s.Name).AtTensor(name)
			}
		}
	}
	return nil
}

// lookups traces the network once to find the lookups; its other results are unused.
func (t *Trainer) lookups(s *array.Scope, values []*array.Array, key *array.Array,
	batch []*array.Array) (list []*lookup) {
	if len(t.options.Lazy) == 0 {
		return nil
	}
	t.forward(s, values, key, batch, func(table int, ids *array.Array) *array.Array {
		rows := s.Embedding(values[table], ids)
		list = append(list, &lookup{table: table, ids: ids, added: s.Zeros(weir.F32, rows.Shape()...)})
		return rows
	})
	return list
}

// bindRows makes rows the source of the rows of lazily trained tables.
func (t *Trainer) bindRows(c *nn.Context, rows func(table int, ids *array.Array) *array.Array) {
	for i, s := range t.states {
		if s.kind == parameter && t.options.isLazy(s.name) {
			c.BindRows(s.name, func(ids *array.Array) *array.Array { return rows(i, ids) })
		}
	}
}

// touched are the rows of a table that a batch's ids name.
type touched struct {
	ids   *array.Array // [n], of all lookups
	index *array.Array // [n], by id: the index of the row's last id in ids
	mark  *array.Array // the mark's new value
}

// touch finds the rows that ids name and their derivatives: the sum at the index of the row's last id, zeros at others.
func (w *writing) touch(table int, list []*lookup, grads []*array.Array) (rows *touched, sums *array.Array) {
	s := w.s
	extent := w.in[table].Dim(1)
	var ids, parts []*array.Array
	for i, l := range list {
		if l.table == table {
			ids = append(ids, s.Reshape(s.Cast(l.ids, weir.I64), -1))
			parts = append(parts, s.Reshape(grads[i], -1, extent))
		}
	}
	if ids == nil {
		w.s.Fail(diag.Inputf("the network reads no rows of it, and it is to be trained lazily").
			AtTensor(w.t.states[table].name))
		return nil, nil
	}
	r := &touched{ids: ids[0]}
	g := parts[0]
	if len(ids) > 1 {
		r.ids, g = s.Concat(0, ids...), s.Concat(0, parts...)
	}
	number := s.Iota(weir.I32, r.ids.Dim(0))
	r.mark = s.Assign(w.own(w.marks[table]), number, r.ids)
	r.index = s.Take(r.mark, r.ids, 0)
	return r, s.AddAt(s.Zeros(weir.F32, g.Shape()...), g, r.index)
}

// own returns a copy of a state's elements that can be assigned to.
func (w *writing) own(state int) *array.Array {
	return w.s.Reshape(w.in[state], w.in[state].Shape()...)
}

// lazily sets the new rows of table i and of its slots in next.
func (w *writing) lazily(next []*array.Array, i int, u Update, slots []int, fine *array.Array) {
	s, r := w.s, w.rows[i]
	u.P, u.G = s.Take(u.P, r.ids, 0), s.Take(u.G, r.index, 0)
	for k := range u.Slots {
		u.Slots[k] = s.Take(u.Slots[k], r.ids, 0)
	}
	p, values := w.t.optimiser.Update(s, u)
	put := func(state int, rows, old *array.Array) {
		next[state] = s.Assign(w.own(state), s.Where(fine, rows, old), r.ids)
	}
	put(i, p, u.P)
	for k, at := range slots {
		put(at, values[k], u.Slots[k])
	}
	next[w.marks[i]] = r.mark
}
