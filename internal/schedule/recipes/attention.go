package recipes

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/attention"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Attention in one kernel, which never holds the scores of all queries and keys. For one block of queries and one block
// of keys at a time it holds their scores and, for each query so far, the greatest score, the sum of weights and the
// weighted sum of values. A greater score scales the sums down (Milakov and Gimelshein, Online normalizer calculation
// for softmax, 2018; Dao et al., FlashAttention, 2022).
//
// The queries are the last axis of the scores: then neither keys nor values are transposed, and lanes hold neighbouring
// queries. The block sizes are multiples of register tiles; a block of scores, of keys and of values fits the
// second-level cache.

// queriesInVectors is the number of lanes that the queries of a block fill, a multiple of the columns of register
// tiles.
const queriesInVectors = 6

// attentionBlocks writes the kernel of an attention.
type attentionBlocks struct {
	*attention.Form
	sizes target.Sizes
}

// attentionInBlocks is a recipe for attention: each iteration computes one sequence and head in blocks of queries. Few
// queries are computed one by one, with neighbouring keys in lanes, as the plain loops do; if their number is not
// known, the kernel has both forms.
func attentionInBlocks(k *nest) bool {
	a := attentionOf(k)
	if a == nil {
		return false
	}
	few := sym.Const(k.sizes.Lanes / 4)
	switch {
	case k.D.LE(a.Queries, few) == sym.Yes:
		return false
	case k.D.LT(few, a.Queries) == sym.Yes:
		for _, run := range a.runs() {
			a.EachRow(func(row attention.Row) { a.blocks(row, run) })
		}
	default:
		a.EachRow(func(row attention.Row) {
			k.When(loop.Apply2(loop.Le, loop.At(a.Queries), loop.At(few)), func() { a.Single(row) }, func() {
				for _, run := range a.runs() {
					a.blocks(row, run)
				}
			})
		})
	}
	return true
}

// attentionOf reads the meaning of an attention; nil if it does not fit the parameters.
func attentionOf(k *nest) *attentionBlocks {
	if len(k.In) < 3 || len(k.Out) != 1 || slices.Contains(k.In[:3], nil) ||
		(k.optional(4) == nil) != (k.optional(5) == nil) {
		return nil
	}
	for _, m := range append(slices.Clone(k.In), k.Out[0]) {
		if m != nil && m != k.optional(3) && len(m.Shape) != 4 {
			return nil
		}
	}
	form := attention.New(k.Builder, k.D, attention.SettingsOf(k.meaning.Attrs), k.In, k.Out[0])
	return &attentionBlocks{form, k.sizes}
}

// attentionRun is a run of blocks of queries of one size: the number of blocks, the first query, the queries of each
// block, and the largest number of queries of any block.
type attentionRun struct{ blocks, first, count, room sym.Expr }

// runs cuts the queries into blocks: the full blocks and the rest, so that block sizes are constants if the number of
// queries is constant.
func (a *attentionBlocks) runs() []attentionRun {
	most := queriesInVectors * a.sizes.Lanes
	room := sym.Const(most)
	n, ok := a.Queries.Const()
	if !ok {
		return []attentionRun{{a.Queries.CeilDiv(room), sym.Const(0), sym.Expr{}, room}}
	}
	var runs []attentionRun
	full := n / most
	if full > 0 {
		runs = append(runs, attentionRun{sym.Const(full), sym.Const(0), room, room})
	}
	if rest := n % most; rest > 0 {
		runs = append(runs, attentionRun{one, sym.Const(full * most), sym.Const(rest),
			sym.Const(ceilDiv(rest, a.sizes.Lanes) * a.sizes.Lanes)})
	}
	return runs
}

// attentionBlock is the state of a block of queries.
type attentionBlock struct {
	row                attention.Row
	first, count, size sym.Expr     // the first query, the number of queries, and the largest number of any block
	query              *loop.Memory // [D, size], scaled
	// [size], and sum [size, E]. If all keys fit one block, only total is not nil, and becomes the reciprocal of the sum
	top, total, shrink, sum *loop.Memory
}

// blocks computes the queries of a run block by block.
func (a *attentionBlocks) blocks(row attention.Row, run attentionRun) {
	if isOne(run.blocks) {
		a.queriesBlock(&attentionBlock{row: row, first: run.first, count: run.count, size: run.room})
		return
	}
	a.Each("t", run.blocks, func(t sym.Expr) {
		b := &attentionBlock{row: row, first: run.first.Add(t.Mul(run.room)), count: run.count, size: run.room}
		if run.count.Equal(sym.Expr{}) {
			b.count = run.room.Min(a.Queries.Sub(b.first))
		}
		a.queriesBlock(b)
	})
}

// queriesBlock computes one block of queries: it copies and scales them, processes the blocks of keys of each segment
// and stores the results.
func (a *attentionBlocks) queriesBlock(b *attentionBlock) {
	k, row := a.Builder, b.row
	b.query = k.Local("q", dtype.F32, a.Size, b.size)
	b.total = k.Local("l", dtype.F32, b.size)
	k.Nest(loop.Each, "q", []sym.Expr{b.count, a.Size}, func(at []sym.Expr) {
		k.Store(b.query, []sym.Expr{at[1], at[0]}, a.Scaled(a.Query.Load(row.Sequence, row.Head, b.first.Add(at[0]), at[1])))
	})
	last := b.first.Add(b.count).Sub(one)
	if len(a.Segments) == 1 && a.D.LE(a.Keys, sym.Const(a.sizes.Rows)) == sym.Yes {
		a.block(b, a.Segments[0], sym.Const(0), a.Seen(a.Segments[0], last))
		return
	}
	b.top, b.shrink, b.sum = k.Local("m", dtype.F32, b.size), k.Local("c", dtype.F32, b.size),
		k.Local("o", dtype.F32, b.size, a.Width)
	k.Each("i", b.count, func(i sym.Expr) {
		k.Store(b.top, []sym.Expr{i}, a.Number(math.Inf(-1)))
		k.Store(b.total, []sym.Expr{i}, a.Number(0))
	})
	k.Nest(loop.Each, "o", []sym.Expr{b.count, a.Width}, func(at []sym.Expr) { k.Store(b.sum, at, a.Number(0)) })
	for _, s := range a.Segments {
		room, seen := sym.Const(a.sizes.Rows), a.Seen(s, last)
		full := a.D.Simplify(seen.FloorDiv(room))
		k.Serial("u", full, func(u sym.Expr) { a.block(b, s, u.Mul(room), room) })
		if rest := a.D.Simplify(seen.Sub(full.Mul(room))); a.D.EQ(rest, sym.Const(0)) != sym.Yes {
			a.Alone(func() { a.block(b, s, full.Mul(room), rest) })
		}
	}
	k.Each("y", b.count, func(i sym.Expr) {
		reciprocal := k.Let("reciprocal", loop.Apply(loop.Reciprocal, b.total.Load(i)))
		k.Each("e", a.Width, func(e sym.Expr) {
			k.Store(a.Out, []sym.Expr{row.Sequence, row.Head, b.first.Add(i), e}, a.Result(b.sum.Load(i, e), reciprocal))
		})
	})
}

// block adds the values of count keys of a segment, starting at from, to the sums of a block of queries; if these are
// all keys it stores the result at once.
func (a *attentionBlocks) block(b *attentionBlock, s attention.Segment, from, count sym.Expr) {
	k, row := a.Builder, b.row
	room := sym.Const(a.sizes.Rows)
	if n, ok := s.Keys.Const(); ok && n < a.sizes.Rows {
		room = sym.Const(n)
	}
	first := s.First.Add(from) // of the keys
	scores := k.Local("s", dtype.F32, room, b.size)
	a.Alone(func() {
		acc := k.Local("acc", dtype.F32, room, b.size)
		extents := []sym.Expr{count, b.count}
		k.Nest(loop.Each, "z", extents, func(at []sym.Expr) { k.Store(acc, at, a.Number(0)) })
		k.Contract(count, b.count, a.Size, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			s.Key.Tile([]sym.Expr{row.Sequence, row.Group, from, sym.Const(0)}, unit(4, 2, one), unit(4, 3, one)),
			b.query.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)))
		k.Nest(loop.Each, "s", extents, func(at []sym.Expr) {
			k.Store(scores, at, a.Score(s.Scaled(acc.Load(at...), s.KeyScale, row, from.Add(at[0])), row, b.first.Add(at[1]),
				first.Add(at[0])))
		})
	})
	if a.Causal {
		// The queries before a key do not see it.
		k.Each("j", count, func(back sym.Expr) {
			j := count.Sub(one).Sub(back)
			k.Each("i", b.count.Min(first.Add(j).Sub(b.first).Sub(a.Past)), func(i sym.Expr) {
				k.Store(scores, []sym.Expr{j, i}, a.Number(a.Hidden()))
			})
		})
	}
	a.weigh(b, s, scores, from, count)
	a.Alone(func() {
		acc := k.Local("acc", dtype.F32, b.size, a.Width)
		extents := []sym.Expr{b.count, a.Width}
		k.Nest(loop.Each, "z", extents, func(at []sym.Expr) {
			begin := a.Number(0)
			if b.sum != nil {
				begin = times(b.sum.Load(at...), b.shrink.Load(at[0]))
			}
			k.Store(acc, at, begin)
		})
		k.Contract(b.count, a.Width, count, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			scores.Tile(zeros(2), unit(2, 1, one), unit(2, 0, one)), a.Values(s, row, from))
		k.Nest(loop.Each, "o", extents, func(at []sym.Expr) {
			if b.sum != nil {
				k.Store(b.sum, at, acc.Load(at...))
				return
			}
			k.Store(a.Out, []sym.Expr{row.Sequence, row.Head, b.first.Add(at[0]), at[1]},
				a.Result(acc.Load(at...), b.total.Load(at[0])))
		})
	})
}

// weigh turns the scores of a segment's keys, starting at from, into weights times the scales of their values, and
// updates the greatest score and the sum of weights of each query.
func (a *attentionBlocks) weigh(b *attentionBlock, s attention.Segment, scores *loop.Memory, from, count sym.Expr) {
	k := a.Builder
	k.Each("i", b.count, func(i sym.Expr) {
		before := a.Number(math.Inf(-1))
		if b.top != nil {
			before = b.top.Load(i)
		}
		top := k.Var("top", before)
		k.Serial("j", count, func(j sym.Expr) { k.Reduce(top, loop.Max, scores.Load(j, i)) })
		least := k.Let("least", a.Finite(top))
		begin := a.Number(0)
		if b.top != nil {
			shrink := k.Let("shrink", loop.Share(minus(b.top.Load(i), least)))
			k.Store(b.shrink, []sym.Expr{i}, shrink)
			k.Store(b.top, []sym.Expr{i}, top)
			begin = times(b.total.Load(i), shrink)
		}
		total := k.Var("total", begin)
		k.Serial("j", count, func(j sym.Expr) {
			weight := k.Let("weight", loop.Share(minus(scores.Load(j, i), least)))
			k.Store(scores, []sym.Expr{j, i}, s.Scaled(weight, s.ValueScale, b.row, from.Add(j)))
			k.Reduce(total, loop.Add, weight)
		})
		if b.sum == nil {
			k.Store(b.total, []sym.Expr{i}, loop.Apply(loop.Reciprocal, total))
		} else {
			k.Store(b.total, []sym.Expr{i}, total)
		}
	})
}
