package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// attentionOnlineWidth is the largest number of elements of a query and of a value for which attention in one kernel
// pays off: each thread keeps a slice of a value.
const attentionOnlineWidth = 256

// attentionIsOnline reports whether attentionOnline applies: one segment of keys and values without scales, at most
// attentionOnlineWidth elements each, and not certainly at most attentionFew queries.
func attentionIsOnline(n *ir.Node, d *sym.Dims) bool {
	q, v := n.Inputs[0].Type, n.Inputs[2].Type
	if !attentionFusable(n, d) || input(n, 4) != nil || input(n, attentionScaled[1]) != nil ||
		input(n, attentionScaled[2]) != nil {
		return false
	}
	size, fixed := q.Shape[3].Const()
	width, also := v.Shape[3].Const()
	return fixed && also && max(size, width) <= attentionOnlineWidth &&
		d.LE(q.Shape[2], sym.Const(attentionFew)) != sym.Yes
}

// attentionOnline visits the keys of each query once: a greater score scales down the weighted sum of the values so far
// (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). It keeps no scores. Package schedule has a
// recipe for kernels of this form: block_online.go.
func attentionOnline(k *Nest, n *ir.Node) {
	_, s := attentionOf(n)
	a := &attentionKernel{Nest: k, AttentionSettings: s, query: k.In[0], mask: present(k.In, 3), out: k.Out[0]}
	key, value := k.In[1], k.In[2]
	a.queries, a.keys, a.size, a.width = a.query.Shape[2], key.Shape[2], a.query.Shape[3], a.out.Shape[3]
	a.segments = []attentionSegment{{key: key, value: value, keys: a.keys}}
	a.setSkips()
	a.each(func(row attentionRow) {
		k.Each("q", a.queries, func(q sym.Expr) {
			sums := k.Local("o", dtype.F32, a.width)
			k.Each("z", a.width, func(e sym.Expr) { k.Store(sums, []sym.Expr{e}, a.number(0)) })
			top, total := k.Var("top", a.number(math.Inf(-1))), k.Var("total", a.number(0))
			k.Serial("j", a.seen(a.segments[0], q), func(j sym.Expr) {
				sum := k.Var("sum", a.number(0))
				k.Serial("d", a.size, func(d sym.Expr) {
					k.Reduce(sum, loop.Add, times(a.query.Load(row.sequence, row.head, q, d),
						loop.Convert(dtype.F32, key.Load(row.sequence, row.group, j, d))))
				})
				x := a.score(a.scaled(sum), row, q, j)
				if a.Causal && !a.skips {
					x = loop.Choose(loop.Apply2(loop.Le, loop.At(j), loop.At(q.Add(a.Past))), x, a.number(a.fill()))
				}
				score := k.Let("score", x)
				greatest := k.Let("greatest", loop.Apply2(loop.Max, top, score))
				least := k.Let("least", a.finite(greatest))
				shrink := k.Let("shrink", share(minus(top, least)))
				weight := k.Let("weight", share(minus(score, least)))
				k.Set(total, plus(times(total, shrink), weight))
				k.Set(top, greatest)
				k.Each("e", a.width, func(e sym.Expr) {
					v := loop.Convert(dtype.F32, value.Load(row.sequence, row.group, j, e))
					k.Store(sums, []sym.Expr{e}, plus(times(sums.Load(e), shrink), times(weight, v)))
				})
			})
			reciprocal := k.Let("reciprocal", loop.Apply(loop.Reciprocal, total))
			k.Each("y", a.width, func(e sym.Expr) {
				k.Store(a.out, []sym.Expr{row.sequence, row.head, q, e}, a.result(sums.Load(e), reciprocal))
			})
		})
	})
}
