package nn

import (
	"fmt"
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// Causal lets a position attend only to itself and earlier positions.
func Causal(o *settings) { o.causal = true }

// KeyHeads sets the number of heads of keys and values. The number of query heads must be a multiple of it; groups of
// query heads share a key head.
func KeyHeads(n int) Option { return func(o *settings) { o.heads = n } }

// attention implements MultiHeadAttention and CachedAttention.
type attention struct {
	extent, heads int
	cached        bool
	settings
}

// MultiHeadAttention is attention with several heads over positions of extent elements. Its inputs are one of
//
//	x                        queries, keys and values, [batch, positions, extent]
//	x, mask                  a mask that is broadcast to [batch, heads, queries, keys]: bools say which keys take part,
//	                         floats are added
//	query, key, value from different positions
//	query, key, value, mask
//
// Parameters have PyTorch's names: "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias".
func MultiHeadAttention(extent, heads int, options ...Option) Layer {
	return newAttention(extent, heads, false, options)
}

// CachedAttention is MultiHeadAttention for positions that arrive one after the other. Its inputs are the new
// positions, [batch, new, extent]; the keys and the values of earlier calls, each [batch, key heads, most, extent /
// heads]; and the number of earlier positions, an integer array of one element. Its results are the new positions'
// values, and the keys and values with the new positions appended: states that a compiled function updates in place.
func CachedAttention(extent, heads int, options ...Option) Layer {
	return newAttention(extent, heads, true, options)
}

// newAttention makes an attention layer; by default keys have as many heads as queries.
func newAttention(extent, heads int, cached bool, options []Option) Layer {
	o := settingsOf(options)
	if o.heads == 0 {
		o.heads = heads
	}
	return &attention{extent, heads, cached, o}
}

func (l *attention) String() string {
	return fmt.Sprintf("MultiHeadAttention(%d, %d)", l.extent, l.heads)
}

// each returns the number of elements per head.
func (l *attention) each() int { return l.extent / l.heads }

// Declare declares the projections; it fails if the heads do not divide the extent or the key heads the heads.
func (l *attention) Declare(d *Declaration) {
	if l.heads < 1 || l.extent%l.heads != 0 || l.settings.heads < 1 ||
		l.heads%l.settings.heads != 0 {
		d.Fail(fmt.Errorf("%v with %d heads of keys: the extent is no multiple of the heads, or they of those", l,
			l.settings.heads))
		return
	}
	rows := l.extent + 2*l.settings.heads*l.each()
	d.Transposed("in_proj_weight", l.dtype, l.initial(XavierUniform(1)), rows, l.extent)
	if l.bias {
		d.Param("in_proj_bias", l.dtype, l.initialBias(Zeros()), rows)
	}
	d.Layer("out_proj", l.output())
}

// output returns the linear layer that is applied to the joined heads.
func (l *attention) output() Layer {
	return &linear{l.extent, l.extent, settings{bias: l.bias, dtype: l.dtype, zero: ptr(Zeros()), weight: l.weight}}
}

// ptr returns a pointer to a copy of x.
func ptr[T any](x T) *T { return &x }

// Apply takes the inputs that MultiHeadAttention lists, or those of CachedAttention.
func (l *attention) Apply(c *Context, x ...*array.Array) []*array.Array {
	if l.cached {
		return l.step(c, x)
	}
	if len(x) < 1 || len(x) > 4 {
		return c.Failf("", "%d inputs are given, the layer takes 1 to 4", len(x))
	}
	query, key, value := x[0], x[0], x[0]
	var mask *array.Array
	if len(x) > 2 {
		key, value = x[1], x[2]
	}
	if len(x)%2 == 0 {
		mask = x[len(x)-1]
	}
	for _, a := range []*array.Array{query, key, value} {
		if a.Rank() != 3 || a.Dim(2) != l.extent {
			return c.Failf("", "an input is %v; the layer takes batch, positions and %d elements", a, l.extent)
		}
	}
	q, k, v := l.project(c, query, key, value)
	if l.rate > 0 && c.Training() {
		return []*array.Array{l.join(c, l.dropped(c, q, k, v, mask))}
	}
	return []*array.Array{l.join(c, c.Attention(q, k, v, mask, array.Heads{Causal: l.causal}))}
}

// project returns the heads of queries, keys and values: [batch, heads, positions, extent / heads].
func (l *attention) project(c *Context, query, key, value *array.Array) (q, k, v *array.Array) {
	sizes := []int{l.extent, l.settings.heads * l.each(), l.settings.heads * l.each()}
	heads := []int{l.heads, l.settings.heads, l.settings.heads}
	parts := make([]*array.Array, 3)
	w := c.Param("in_proj_weight")
	if query == key && key == value {
		y := c.MatMul(query, w)
		if l.bias {
			y = c.Add(y, c.Param("in_proj_bias"))
		}
		parts = c.Split(y, 2, sizes...)
	} else {
		for i, piece := range c.Split(w, 1, sizes...) {
			parts[i] = c.MatMul([]*array.Array{query, key, value}[i], piece)
		}
		if l.bias {
			for i, piece := range c.Split(c.Param("in_proj_bias"), 0, sizes...) {
				parts[i] = c.Add(parts[i], piece)
			}
		}
	}
	if c.Err() != nil {
		return parts[0], parts[1], parts[2]
	}
	for i, p := range parts {
		parts[i] = c.SwapAxes(c.Scope.Reshape(p, p.Dim(0), p.Dim(1), heads[i], l.each()), 1, 2)
	}
	return parts[0], parts[1], parts[2]
}

// dropped computes attention with dropout of its weights.
func (l *attention) dropped(c *Context, q, k, v, mask *array.Array) *array.Array {
	if l.settings.heads != l.heads {
		times := l.heads / l.settings.heads
		k, v = c.spread(k, times), c.spread(v, times)
	}
	scores := c.Mul(c.MatMul(q, c.SwapAxes(k, 2, 3)), c.Number(1/math.Sqrt(float64(l.each()))))
	if mask != nil && mask.DType() == weir.Bool {
		scores = c.Where(mask, scores, c.Number(math.Inf(-1)))
	} else if mask != nil {
		scores = c.Add(scores, mask)
	}
	if l.causal {
		// The last query has the position of the last key.
		after := c.Sub(c.upTo(k.Dim(2)), c.ExpandDims(c.upTo(q.Dim(2)), 1))
		more := c.Sub(c.Sum(c.Ones(weir.I64, k.Dim(2))), c.Sum(c.Ones(weir.I64, q.Dim(2))))
		scores = c.Where(c.LessEqual(after, more), scores, c.Number(math.Inf(-1)))
	}
	return c.MatMul(drop(c, c.Softmax(scores, -1), l.rate), v)
}

// spread repeats each head the given number of times.
func (c *Context) spread(x *array.Array, times int) *array.Array {
	y := c.BroadcastTo(c.ExpandDims(x, 2), x.Dim(0), x.Dim(1), times, x.Dim(2), x.Dim(3))
	return c.Scope.Reshape(y, x.Dim(0), x.Dim(1)*times, x.Dim(2), x.Dim(3))
}

// join joins the heads to positions, [batch, positions, extent], and applies the output layer.
func (l *attention) join(c *Context, y *array.Array) *array.Array {
	if c.Err() != nil {
		return c.Dead()
	}
	y = c.SwapAxes(y, 1, 2)
	return c.One("out_proj", l.output(), c.Scope.Reshape(y, y.Dim(0), y.Dim(1), l.extent))
}

// upTo returns the integers from 0 to n − 1; n may be a named extent.
func (c *Context) upTo(n int) *array.Array {
	return c.Sub(c.CumSum(c.Ones(weir.I64, n), 0), c.Number(1))
}

// place returns old[batch, heads, most, …] with the positions of x[batch, heads, new, …] written from index count on.
func (c *Context) place(old, x, count *array.Array) *array.Array {
	if c.Err() != nil {
		return c.Dead()
	}
	at := c.Sub(c.upTo(old.Dim(2)), count)
	last := c.Sub(c.Sum(c.Ones(weir.I64, x.Dim(2))), c.Number(1))
	from := c.Minimum(c.Maximum(at, c.Number(0)), last)
	fresh := c.ExpandDims(c.LogicalAnd(c.GreaterEqual(at, c.Number(0)), c.LessEqual(at, last)), 1)
	return c.Where(fresh, c.Take(x, from, 2), old)
}

// step computes attention with a cache; see CachedAttention.
func (l *attention) step(c *Context, x []*array.Array) []*array.Array {
	if !c.takes(4, x) {
		return c.dead()
	}
	keys, values, count := x[1], x[2], x[3]
	if x[0].Rank() != 3 || x[0].Dim(2) != l.extent || keys.Rank() != 4 || keys.Dim(1) != l.settings.heads ||
		keys.Dim(3) != l.each() || values.String() != keys.String() {
		return c.Failf("", "the inputs are %v, %v and %v; the layer takes [batch, new, %d] and twice [batch, %d, most, %d]",
			x[0], keys, values, l.extent, l.settings.heads, l.each())
	}
	if !count.DType().IsInt() || count.Len() != 1 {
		return c.Failf("", "the count of positions is %v; it must be one integer", count)
	}
	q, k, v := l.project(c, x[0], x[0], x[0])
	most := keys.Dim(2)
	count = c.Cast(c.Scope.Reshape(count, 1), weir.I64)
	keys, values = c.place(keys, k, count), c.place(values, v, count)
	// Query i stands at position count + i, and sees the keys up to its own.
	at := c.ExpandDims(c.Add(count, c.upTo(x[0].Dim(1))), 1)
	mask := c.LessEqual(c.upTo(most), at)
	y := l.join(c, c.Attention(q, keys, values, mask, array.Heads{}))
	return []*array.Array{y, keys, values}
}
