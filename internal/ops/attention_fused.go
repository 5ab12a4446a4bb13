package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Attention in one kernel, which never holds the scores of all queries and keys. For one block of queries and one block
// of keys at a time it holds their scores and, for each query so far, the greatest score, the sum of weights and the
// weighted sum of values. A greater score scales the sums down (Milakov and Gimelshein, Online normalizer calculation
// for softmax, 2018; Dao et al., FlashAttention, 2022).
//
// The queries are the last axis of the scores: then neither keys nor values are transposed, and lanes hold neighbouring
// queries. The block sizes are multiples of register tiles; a block of scores, of keys and of values fits the
// second-level cache.
const (
	attentionQueries = 96  // in a block: a multiple of the columns of register tiles
	attentionKeys    = 168 // in a block: a multiple of the rows of register tiles
	attentionFew     = 4   // the most queries that are computed one by one, with neighbouring keys in lanes
)

// attentionHidden is a score so low that the key has the weight 0 if any other key is not hidden.
const attentionHidden = -1e30

// attentionFusable reports whether the kernels of this file apply: scores, weights and sums are f32.
func attentionFusable(n *ir.Node, _ *sym.Dims) bool {
	_, s := attentionOf(n)
	return n.Inputs[0].Type.DType == dtype.F32 && (s.Softmax == dtype.Invalid || s.Softmax == dtype.F32)
}

// attentionKernel writes the kernel of one node.
type attentionKernel struct {
	*Nest
	AttentionSettings
	query, mask, out *loop.Memory
	segments         []attentionSegment
	queries, keys    sym.Expr
	size, width      sym.Expr // of a query, and of a value
	skips            bool     // keys after a query's position are not visited
}

// attentionSegment is one pair of key and value tensors; first is the number of keys before them. Keys and values of i8
// have scales.
type attentionSegment struct {
	key, value           *loop.Memory
	keyScale, valueScale *loop.Memory // [B, G, K, 1], or nil
	first, keys          sym.Expr
}

// scaled returns x times the scale of the key or value at the index at; x if there are no scales.
func (s attentionSegment) scaled(x loop.Expr, scales *loop.Memory, row attentionRow, at sym.Expr) loop.Expr {
	if scales == nil {
		return x
	}
	return times(x, scales.Load(row.sequence, row.group, at, sym.Const(0)))
}

// attentionRow names the queries being computed: a sequence, a head, and the group of keys that the head shares.
type attentionRow struct{ sequence, head, group sym.Expr }

// attentionFused lowers attention: each iteration computes one sequence and head, query by query if there are at most
// attentionFew, else in blocks of queries. If the number of queries is not known, the kernel has both forms.
func attentionFused(k *Nest, n *ir.Node) {
	_, s := attentionOf(n)
	a := &attentionKernel{Nest: k, AttentionSettings: s, query: k.In[0], mask: present(k.In, 3), out: k.Out[0]}
	a.queries, a.size, a.width = a.query.Shape[2], a.query.Shape[3], a.out.Shape[3]
	for _, i := range []int{1, 4} {
		if present(k.In, i) == nil {
			continue
		}
		segment := attentionSegment{key: k.In[i], value: k.In[i+1], first: a.keys, keys: k.In[i].Shape[2],
			keyScale: present(k.In, attentionScaled[i]), valueScale: present(k.In, attentionScaled[i+1])}
		a.segments = append(a.segments, segment)
		a.keys = a.keys.Add(segment.keys)
	}
	a.setSkips()
	few := sym.Const(attentionFew)
	switch {
	case k.D.LE(a.queries, few) == sym.Yes:
		a.each(a.single)
	case k.D.LT(few, a.queries) == sym.Yes:
		for _, s := range a.runs() {
			a.each(func(row attentionRow) { a.blocks(row, s) })
		}
	default:
		a.each(func(row attentionRow) {
			k.When(loop.Apply2(loop.Le, loop.At(a.queries), loop.At(few)), func() { a.single(row) }, func() {
				for _, s := range a.runs() {
					a.blocks(row, s)
				}
			})
		})
	}
}

// setSkips decides whether keys after a query's position are skipped: if their weight is certainly 0.
func (a *attentionKernel) setSkips() {
	a.skips = a.Causal && (math.IsInf(a.fill(), -1) || a.fill() <= attentionHidden && a.mask == nil)
}

// each writes the loops over all sequences and heads.
func (a *attentionKernel) each(visit func(row attentionRow)) {
	heads, groups := a.query.Shape[1], a.segments[0].key.Shape[1]
	shared := a.D.Simplify(heads.FloorDiv(groups.Max(one)))
	a.Each("b", a.query.Shape[0], func(b sym.Expr) {
		a.Each("g", groups, func(g sym.Expr) {
			a.Each("h", shared, func(h sym.Expr) { visit(attentionRow{sequence: b, head: g.Mul(shared).Add(h), group: g}) })
		})
	})
}

// attentionRun is a run of blocks of queries of one size: the number of blocks, the first query, the queries of each
// block, and the largest number of queries of any block.
type attentionRun struct{ blocks, first, count, room sym.Expr }

// runs cuts the queries into blocks: the full blocks and the rest, so that block sizes are constants if the number of
// queries is constant.
func (a *attentionKernel) runs() []attentionRun {
	room := sym.Const(attentionQueries)
	n, ok := a.queries.Const()
	if !ok {
		return []attentionRun{{a.queries.CeilDiv(room), sym.Const(0), sym.Expr{}, room}}
	}
	var runs []attentionRun
	full := n / attentionQueries
	if full > 0 {
		runs = append(runs, attentionRun{sym.Const(full), sym.Const(0), room, room})
	}
	if rest := n % attentionQueries; rest > 0 {
		runs = append(runs, attentionRun{one, sym.Const(full * attentionQueries), sym.Const(rest),
			sym.Const((rest + 15) / 16 * 16)})
	}
	return runs
}

// number returns a constant of f32.
func (a *attentionKernel) number(x float64) loop.Expr { return loop.Number(dtype.F32, x) }

// scaled returns x times the factor of the scores.
func (a *attentionKernel) scaled(x loop.Expr) loop.Expr {
	if a.Scale != 0 {
		return times(x, a.number(a.Scale))
	}
	if size, ok := a.size.Const(); ok {
		return times(x, a.number(1/math.Sqrt(float64(size))))
	}
	return loop.Apply2(loop.Div, x, loop.Apply(loop.Sqrt, loop.Convert(dtype.F32, loop.At(a.size))))
}

// score returns the masked score of a query and a key, given their scaled product; the caller hides the keys that the
// causal order hides.
func (a *attentionKernel) score(x loop.Expr, row attentionRow, query, key sym.Expr) loop.Expr {
	if a.Softcap > 0 {
		x = times(loop.Apply(loop.Tanh, times(x, a.number(1/a.Softcap))), a.number(a.Softcap))
	}
	if a.mask == nil {
		return x
	}
	m := a.mask.Load(broadcastIndex([]sym.Expr{row.sequence, row.head, key, query}, a.mask.Shape)...)
	if a.mask.DType == dtype.Bool {
		return loop.Choose(m, x, a.number(a.fill()))
	}
	return plus(x, loop.Convert(dtype.F32, m))
}

// seen returns the number of a segment's keys that the queries up to last may see; all further keys are hidden.
func (a *attentionKernel) seen(s attentionSegment, last sym.Expr) sym.Expr {
	if !a.skips {
		return s.keys
	}
	return a.D.Simplify(s.keys.Min(last.Add(a.Past).Add(one).Sub(s.first).Max(sym.Const(0))))
}

// finite returns top, or 0 if all keys are hidden: a number that can be subtracted from scores.
func (a *attentionKernel) finite(top loop.Expr) loop.Expr {
	return loop.Choose(loop.Apply2(loop.Eq, top, a.number(math.Inf(-1))), a.number(0), top)
}

// result returns a weighted sum of values times the reciprocal of the sum of the weights, which is infinite if all keys
// are hidden.
func (a *attentionKernel) result(x, reciprocal loop.Expr) loop.Expr {
	if !a.Blank {
		return times(x, reciprocal)
	}
	blank := loop.Apply2(loop.Or, loop.Apply(loop.IsNaN, reciprocal), loop.Apply(loop.IsInf, reciprocal))
	return loop.Choose(blank, a.number(0), times(x, reciprocal))
}

// alone writes a loop of one iteration, so that the declarations of write have their own scope.
func (a *attentionKernel) alone(write func()) { a.Each("once", one, func(sym.Expr) { write() }) }

// single computes each query separately: the scores of all its keys, their softmax and the sum of values. It reads keys
// and values once, without copying them.
func (a *attentionKernel) single(row attentionRow) {
	k, zero := a.Nest, sym.Const(0)
	k.Each("q", a.queries, func(q sym.Expr) {
		scores := k.Local("s", dtype.F32, a.keys.Max(one))
		top := k.Local("m", dtype.F32, one)
		total := k.Local("l", dtype.F32, one)
		for _, s := range a.segments {
			seen := a.seen(s, q)
			k.Each("j", seen, func(j sym.Expr) {
				sum := k.Var("sum", a.number(0))
				k.Serial("d", a.size, func(d sym.Expr) {
					k.Reduce(sum, loop.Add, times(a.query.Load(row.sequence, row.head, q, d),
						loop.Convert(dtype.F32, s.key.Load(row.sequence, row.group, j, d))))
				})
				k.Store(scores, []sym.Expr{j.Add(s.first)}, a.score(s.scaled(a.scaled(sum), s.keyScale, row, j), row, q,
					j.Add(s.first)))
			})
			if a.Causal && !a.skips {
				k.Each("j", s.keys, func(j sym.Expr) {
					at := j.Add(s.first)
					k.Store(scores, []sym.Expr{at}, loop.Choose(loop.Apply2(loop.Le, loop.At(at), loop.At(q.Add(a.Past))),
						scores.Load(at), a.number(a.fill())))
				})
			}
		}
		all := a.keys
		if a.skips {
			all = a.D.Simplify(a.keys.Min(q.Add(a.Past).Add(one)))
		}
		greatest := k.Var("greatest", a.number(math.Inf(-1)))
		k.Serial("j", all, func(j sym.Expr) { k.Reduce(greatest, loop.Max, scores.Load(j)) })
		k.Store(top, []sym.Expr{zero}, a.finite(greatest))
		k.Each("j", all, func(j sym.Expr) {
			k.Store(scores, []sym.Expr{j}, share(minus(scores.Load(j), top.Load(zero))))
		})
		weights := k.Var("weights", a.number(0))
		k.Serial("j", all, func(j sym.Expr) { k.Reduce(weights, loop.Add, scores.Load(j)) })
		k.Store(total, []sym.Expr{zero}, loop.Apply(loop.Reciprocal, weights))
		for _, s := range a.segments {
			if s.valueScale != nil {
				k.Each("j", a.seen(s, q), func(j sym.Expr) {
					at := []sym.Expr{j.Add(s.first)}
					k.Store(scores, at, s.scaled(scores.Load(at...), s.valueScale, row, j))
				})
			}
		}
		a.alone(func() {
			acc := k.Local("acc", dtype.F32, one, a.width)
			k.Nest(loop.Each, "z", acc.Shape, func(at []sym.Expr) { k.Store(acc, at, a.number(0)) })
			for _, s := range a.segments {
				k.Contract(one, a.width, a.seen(s, q), acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
					scores.Tile([]sym.Expr{s.first}, zeros(1), unit(1, 0, one)), a.values(s, row, zero))
			}
			k.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
				k.Store(a.out, []sym.Expr{row.sequence, row.head, q, at[1]}, a.result(acc.Load(at...), total.Load(zero)))
			})
		})
	})
}

// values returns a segment's values, from key from on, as the right operand of a product.
func (a *attentionKernel) values(s attentionSegment, row attentionRow, from sym.Expr) loop.Tile {
	return s.value.Tile([]sym.Expr{row.sequence, row.group, from, sym.Const(0)}, unit(4, 2, one), unit(4, 3, one))
}

// attentionBlock is the state of a block of queries.
type attentionBlock struct {
	row                attentionRow
	first, count, size sym.Expr     // the first query, the number of queries, and the largest number of any block
	query              *loop.Memory // [D, size], scaled
	// [size], and sum [size, E]. If all keys fit one block, only total is not nil, and becomes the reciprocal of the sum
	top, total, shrink, sum *loop.Memory
}

// blocks computes the queries of a run block by block.
func (a *attentionKernel) blocks(row attentionRow, run attentionRun) {
	if isOne(run.blocks) {
		a.queriesBlock(&attentionBlock{row: row, first: run.first, count: run.count, size: run.room})
		return
	}
	a.Each("t", run.blocks, func(t sym.Expr) {
		b := &attentionBlock{row: row, first: run.first.Add(t.Mul(run.room)), count: run.count, size: run.room}
		if run.count.Equal(sym.Expr{}) {
			b.count = run.room.Min(a.queries.Sub(b.first))
		}
		a.queriesBlock(b)
	})
}

// queriesBlock computes one block of queries: it copies and scales them, processes the blocks of keys of each segment
// and stores the results.
func (a *attentionKernel) queriesBlock(b *attentionBlock) {
	k, row := a.Nest, b.row
	b.query = k.Local("q", dtype.F32, a.size, b.size)
	b.total = k.Local("l", dtype.F32, b.size)
	k.Nest(loop.Each, "q", []sym.Expr{b.count, a.size}, func(at []sym.Expr) {
		k.Store(b.query, []sym.Expr{at[1], at[0]}, a.scaled(a.query.Load(row.sequence, row.head, b.first.Add(at[0]), at[1])))
	})
	last := b.first.Add(b.count).Sub(one)
	if len(a.segments) == 1 && a.D.LE(a.keys, sym.Const(attentionKeys)) == sym.Yes {
		a.block(b, a.segments[0], sym.Const(0), a.seen(a.segments[0], last))
		return
	}
	b.top, b.shrink, b.sum = k.Local("m", dtype.F32, b.size), k.Local("c", dtype.F32, b.size),
		k.Local("o", dtype.F32, b.size, a.width)
	k.Each("i", b.count, func(i sym.Expr) {
		k.Store(b.top, []sym.Expr{i}, a.number(math.Inf(-1)))
		k.Store(b.total, []sym.Expr{i}, a.number(0))
	})
	k.Nest(loop.Each, "o", []sym.Expr{b.count, a.width}, func(at []sym.Expr) { k.Store(b.sum, at, a.number(0)) })
	for _, s := range a.segments {
		room, seen := sym.Const(attentionKeys), a.seen(s, last)
		full := a.D.Simplify(seen.FloorDiv(room))
		k.Serial("u", full, func(u sym.Expr) { a.block(b, s, u.Mul(room), room) })
		if rest := a.D.Simplify(seen.Sub(full.Mul(room))); a.D.EQ(rest, sym.Const(0)) != sym.Yes {
			a.alone(func() { a.block(b, s, full.Mul(room), rest) })
		}
	}
	k.Each("y", b.count, func(i sym.Expr) {
		reciprocal := k.Let("reciprocal", loop.Apply(loop.Reciprocal, b.total.Load(i)))
		k.Each("e", a.width, func(e sym.Expr) {
			k.Store(a.out, []sym.Expr{row.sequence, row.head, b.first.Add(i), e}, a.result(b.sum.Load(i, e), reciprocal))
		})
	})
}

// block adds the values of count keys of a segment, starting at from, to the sums of a block of queries; if these are
// all keys it stores the result at once.
func (a *attentionKernel) block(b *attentionBlock, s attentionSegment, from, count sym.Expr) {
	k, row := a.Nest, b.row
	room := sym.Const(attentionKeys)
	if n, ok := s.keys.Const(); ok && n < attentionKeys {
		room = sym.Const(n)
	}
	first := s.first.Add(from) // of the keys
	scores := k.Local("s", dtype.F32, room, b.size)
	a.alone(func() {
		acc := k.Local("acc", dtype.F32, room, b.size)
		extents := []sym.Expr{count, b.count}
		k.Nest(loop.Each, "z", extents, func(at []sym.Expr) { k.Store(acc, at, a.number(0)) })
		k.Contract(count, b.count, a.size, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			s.key.Tile([]sym.Expr{row.sequence, row.group, from, sym.Const(0)}, unit(4, 2, one), unit(4, 3, one)),
			b.query.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)))
		k.Nest(loop.Each, "s", extents, func(at []sym.Expr) {
			k.Store(scores, at, a.score(s.scaled(acc.Load(at...), s.keyScale, row, from.Add(at[0])), row, b.first.Add(at[1]),
				first.Add(at[0])))
		})
	})
	if a.Causal {
		// The queries before a key do not see it.
		k.Each("j", count, func(back sym.Expr) {
			j := count.Sub(one).Sub(back)
			k.Each("i", b.count.Min(first.Add(j).Sub(b.first).Sub(a.Past)), func(i sym.Expr) {
				k.Store(scores, []sym.Expr{j, i}, a.number(a.fill()))
			})
		})
	}
	a.weigh(b, s, scores, from, count)
	a.alone(func() {
		acc := k.Local("acc", dtype.F32, b.size, a.width)
		extents := []sym.Expr{b.count, a.width}
		k.Nest(loop.Each, "z", extents, func(at []sym.Expr) {
			begin := a.number(0)
			if b.sum != nil {
				begin = times(b.sum.Load(at...), b.shrink.Load(at[0]))
			}
			k.Store(acc, at, begin)
		})
		k.Contract(b.count, a.width, count, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			scores.Tile(zeros(2), unit(2, 1, one), unit(2, 0, one)), a.values(s, row, from))
		k.Nest(loop.Each, "o", extents, func(at []sym.Expr) {
			if b.sum != nil {
				k.Store(b.sum, at, acc.Load(at...))
				return
			}
			k.Store(a.out, []sym.Expr{row.sequence, row.head, b.first.Add(at[0]), at[1]},
				a.result(acc.Load(at...), b.total.Load(at[0])))
		})
	})
}

// weigh turns the scores of a segment's keys, starting at from, into weights times the scales of their values, and
// updates the greatest score and the sum of weights of each query.
func (a *attentionKernel) weigh(b *attentionBlock, s attentionSegment, scores *loop.Memory, from, count sym.Expr) {
	k := a.Nest
	k.Each("i", b.count, func(i sym.Expr) {
		before := a.number(math.Inf(-1))
		if b.top != nil {
			before = b.top.Load(i)
		}
		top := k.Var("top", before)
		k.Serial("j", count, func(j sym.Expr) { k.Reduce(top, loop.Max, scores.Load(j, i)) })
		least := k.Let("least", a.finite(top))
		begin := a.number(0)
		if b.top != nil {
			shrink := k.Let("shrink", share(minus(b.top.Load(i), least)))
			k.Store(b.shrink, []sym.Expr{i}, shrink)
			k.Store(b.top, []sym.Expr{i}, top)
			begin = times(b.total.Load(i), shrink)
		}
		total := k.Var("total", begin)
		k.Serial("j", count, func(j sym.Expr) {
			weight := k.Let("weight", share(minus(scores.Load(j, i), least)))
			k.Store(scores, []sym.Expr{j, i}, s.scaled(weight, s.valueScale, b.row, from.Add(j)))
			k.Reduce(total, loop.Add, weight)
		})
		if b.sum == nil {
			k.Store(b.total, []sym.Expr{i}, loop.Apply(loop.Reciprocal, total))
		} else {
			k.Store(b.total, []sym.Expr{i}, total)
		}
	})
}
