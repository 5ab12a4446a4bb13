package blocks

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Recipes combine the partial results of a block's threads by halves: with 2·h elements of shared memory, thread t < h
// combines element t with element t + h, then thread t < h/2 element t with element t + h/2, and so on. Each half costs
// a barrier. On machines whose threads read one another's values in a subgroup of s threads, a subgroup does log₂ s
// halves without shared memory: of n elements, lane l of subgroup g loads element g + l·n/s, lanes combine their
// values by halves, and lane 0 stores element g. The same elements are combined in the same order, so results do not
// change.

// halving is a combination of elements of shared memory, done by halves.
type halving struct {
	of string
	op loop.BinaryOp
	dt dtype.DType
}

// combine writes the loops at the beginning of body that combine elements by halves, with subgroups, and returns the
// number of loops; 0 if there are none, or if the machine or the block has no subgroups for it.
func (w *Writer) combine(body []loop.Stmt) (count int) {
	lanes := w.machine.Limits.Subgroup
	if !w.machine.Has(target.Shuffle) || lanes < 2 || w.threads%lanes != 0 || w.threads > target.ShuffleThreads {
		return 0
	}
	first, half := w.halvings(body[0])
	if first == nil || half < 2 || 2*half > w.threads {
		return 0
	}
	for h := half; h >= 1; h /= 2 {
		if count == len(body) {
			return 0
		}
		if next, of := w.halvings(body[count]); of != h || !slices.Equal(next, first) {
			return 0
		}
		count++
	}
	names := map[string]bool{}
	for _, f := range first {
		names[f.of] = true
	}
	w.meet(names, names)
	for n := 2 * half; n > 1; {
		within := min(lanes, n)
		if n < 2*half {
			w.Barrier()
		}
		n /= within
		w.combineOnce(first, within, n)
	}
	return count
}

// halvings returns the combinations of a loop by halves, and the number of its threads, a power of 2; nil for other
// statements.
func (w *Writer) halvings(s loop.Stmt) (list []halving, half int64) {
	f, ok := s.(*loop.For)
	if !ok || f.Kind != loop.Thread {
		return nil, 0
	}
	half, fixed := f.Extent.Const()
	if !fixed || half < 1 || half&(half-1) != 0 {
		return nil, 0
	}
	at := sym.Var(f.Var)
	loads := func(x loop.Expr, from string, index sym.Expr) bool {
		l, ok := x.(*loop.Load)
		return ok && l.From == from && l.Mask == nil && len(l.Index) == 1 && l.Index[0].Equal(index)
	}
	for _, s := range f.Body {
		store, ok := s.(*loop.Store)
		if !ok || len(store.Index) != 1 || !store.Index[0].Equal(at) {
			return nil, 0
		}
		m := w.memories[store.To]
		x, ok := store.X.(*loop.Binary)
		if !ok || m == nil || !m.Shared || !shuffled(m.DType) || x.DType() != m.DType || !loads(x.X, store.To, at) ||
			!loads(x.Y, store.To, at.Add(sym.Const(half))) {
			return nil, 0
		}
		list = append(list, halving{store.To, x.Op, m.DType})
	}
	return list, half
}

// shuffled reports whether threads of a subgroup read values of a type: Vulkan guarantees it for 32 bits.
func shuffled(dt dtype.DType) bool { return dt == dtype.F32 || dt == dtype.I32 || dt == dtype.U32 }

// combineOnce writes the combination of within·groups elements to groups elements, each by a subgroup.
func (w *Writer) combineOnce(list []halving, within, groups int64) {
	group, lane := Integer{w.Subgroup(), false}, Integer{w.Lane(), false}
	w.When(w.below(group, w.Constant(groups)), func() {
		names := []sym.Name{sym.Bound(w.kernel.Name + " subgroup"), sym.Bound(w.kernel.Name + " lane")}
		w.ranges.Set(names[0], sym.Range{Max: groups - 1})
		w.ranges.Set(names[1], sym.Range{Max: within - 1})
		w.bind(names[0], group)
		w.bind(names[1], w.remainder(lane, w.Constant(within))) // lanes beyond the elements load some element
		to := sym.Var(names[0])
		values := make([]Value, len(list))
		for i, f := range list {
			from := to.Add(sym.Var(names[1]).Mul(sym.Const(groups)))
			values[i] = Value{ID: w.Load(w.memory(f.of), from), DType: f.dt}
		}
		for step := within / 2; step >= 1; step /= 2 {
			for i, f := range list {
				other := Value{ID: w.Further(f.dt, values[i].ID, step), DType: f.dt}
				values[i] = Value{ID: w.Full(w.Binary(f.op, values[i], other)), DType: f.dt}
			}
		}
		w.When(w.below(lane, w.Constant(1)), func() {
			for i, f := range list {
				w.Store(w.memory(f.of), to, values[i].ID)
			}
		}, nil)
	}, nil)
}
