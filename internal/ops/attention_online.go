package ops

import (
	"math"

	"github.com/weirml/weir/internal/attention"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// attentionFusable reports whether the loops of this file apply: scores, weights and sums are f32.
func attentionFusable(n *ir.Node, _ *sym.Dims) bool {
	_, s := attentionOf(n)
	return n.Inputs[0].Type.DType == dtype.F32 && (s.Softmax == dtype.Invalid || s.Softmax == dtype.F32)
}

// attentionForm returns the form of a node's kernel.
func attentionForm(k *Nest, n *ir.Node) *attention.Form {
	return attention.New(k.Builder, k.D, attention.SettingsOf(n.Attrs), k.In, k.Out[0])
}

// attentionSingle computes each query separately: the scores of all its keys, their softmax and the sum of values.
func attentionSingle(k *Nest, n *ir.Node) { f := attentionForm(k, n); f.EachRow(f.Single) }

const (
	// attentionOnlineWidth is the largest number of elements of a query and of a value for which attentionOnline pays off:
	// each thread keeps a slice of a value.
	attentionOnlineWidth = 256
	// attentionOnlineFew is the number of queries for which it does not pay off: they are too few threads.
	attentionOnlineFew = 4
)

// attentionIsOnline reports whether attentionOnline applies: one segment of keys and values without scales, at most
// attentionOnlineWidth elements each, and not certainly at most attentionOnlineFew queries.
func attentionIsOnline(n *ir.Node, d *sym.Dims) bool {
	q, v := n.Inputs[0].Type, n.Inputs[2].Type
	if !attentionFusable(n, d) || input(n, 4) != nil || input(n, attention.Scales[1]) != nil ||
		input(n, attention.Scales[2]) != nil {
		return false
	}
	size, fixed := q.Shape[3].Const()
	width, also := v.Shape[3].Const()
	return fixed && also && max(size, width) <= attentionOnlineWidth &&
		d.LE(q.Shape[2], sym.Const(attentionOnlineFew)) != sym.Yes
}

// attentionOnline visits the keys of each query once: a greater score scales down the weighted sum of the values so far
// (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). It keeps no scores. Package schedule has a
// recipe for kernels of this form: block_online.go.
func attentionOnline(k *Nest, n *ir.Node) {
	f := attentionForm(k, n)
	key, value := k.In[1], k.In[2]
	f.EachRow(func(row attention.Row) {
		k.Each("q", f.Queries, func(q sym.Expr) {
			sums := k.Local("o", dtype.F32, f.Width)
			k.Each("z", f.Width, func(e sym.Expr) { k.Store(sums, []sym.Expr{e}, f.Number(0)) })
			top, total := k.Var("top", f.Number(math.Inf(-1))), k.Var("total", f.Number(0))
			k.Serial("j", f.Seen(f.Segments[0], q), func(j sym.Expr) {
				sum := k.Var("sum", f.Number(0))
				k.Serial("d", f.Size, func(d sym.Expr) {
					k.Reduce(sum, loop.Add, times(f.Query.Load(row.Sequence, row.Head, q, d),
						loop.Convert(dtype.F32, key.Load(row.Sequence, row.Group, j, d))))
				})
				x := f.Score(f.Scaled(sum), row, q, j)
				if f.Causal && !f.Skips {
					x = loop.Choose(loop.Apply2(loop.Le, loop.At(j), loop.At(q.Add(f.Past))), x, f.Number(f.Hidden()))
				}
				score := k.Let("score", x)
				greatest := k.Let("greatest", loop.Apply2(loop.Max, top, score))
				least := k.Let("least", f.Finite(greatest))
				shrink := k.Let("shrink", loop.Share(minus(top, least)))
				weight := k.Let("weight", loop.Share(minus(score, least)))
				k.Set(total, plus(times(total, shrink), weight))
				k.Set(top, greatest)
				k.Each("e", f.Width, func(e sym.Expr) {
					v := loop.Convert(dtype.F32, value.Load(row.Sequence, row.Group, j, e))
					k.Store(sums, []sym.Expr{e}, plus(times(sums.Load(e), shrink), times(weight, v)))
				})
			})
			reciprocal := k.Let("reciprocal", loop.Apply(loop.Reciprocal, total))
			k.Each("y", f.Width, func(e sym.Expr) {
				k.Store(f.Out, []sym.Expr{row.Sequence, row.Head, q, e}, f.Result(sums.Load(e), reciprocal))
			})
		})
	})
}
