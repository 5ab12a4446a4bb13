// Package attention is what all loops of scaled dot product attention share, in the operator and in its recipe: the
// settings, the operands, and what is computed of a score.
package attention

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Settings are the numbers that attention depends on.
type Settings struct {
	Scale   float64     // of the scores; 0: 1/√D
	Softcap float64     // above 0: scores become Softcap · tanh(score / Softcap)
	Causal  bool        // query i, at position i + Past, sees the keys up to its own position
	Past    sym.Expr    // the number of keys from earlier runs, which come first
	Left    int64       // above 0: the number of keys seen up to a query's position, its own included
	Right   int64       // above 0: the number of keys seen from a query's position on, its own included
	Softmax dtype.DType // the type in which the softmax is computed; Invalid: the query's
	Blank   bool        // weights that are NaN become 0: the weights of a query that sees no key
	Fill    float64     // the score of a key that a mask of bools or the causal order hides; 0: −∞
	Zero    bool        // a query that sees no key has the result 0; else NaN
}

// Attrs returns the settings that a node has as its attributes.
func (s Settings) Attrs() map[string]any {
	return map[string]any{"scale": s.Scale, "softcap": s.Softcap, "causal": s.Causal, "past": s.Past,
		"softmax": s.Softmax, "blank": s.Blank, "fill": s.Fill}
}

// SettingsOf returns the settings of a node with these attributes.
func SettingsOf(attrs map[string]any) (s Settings) {
	s.Scale, _ = attrs["scale"].(float64)
	s.Softcap, _ = attrs["softcap"].(float64)
	s.Causal, _ = attrs["causal"].(bool)
	s.Past, _ = attrs["past"].(sym.Expr)
	s.Softmax, _ = attrs["softmax"].(dtype.DType)
	s.Blank, _ = attrs["blank"].(bool)
	s.Fill, _ = attrs["fill"].(float64)
	return s
}

// Hidden returns the score of a hidden key.
func (s Settings) Hidden() float64 {
	if s.Fill == 0 {
		return math.Inf(-1)
	}
	return s.Fill
}

// lowHidden is a score so low that the key has the weight 0 if any other key is not hidden.
const lowHidden = -1e30

// Scales maps each operand that may be i8, keys or values, to the operand that holds its scales.
var Scales = map[int]int{1: 6, 2: 7, 4: 8, 5: 9}

// Form is a kernel of attention under construction. Queries are [B, H, Q, D], keys [B, G, K, D] and values [B, G, K,
// E]. The mask is transposed, [B, H, K, Q], or nil.
type Form struct {
	*loop.Builder
	D *sym.Dims
	Settings
	Query, Mask, Out *loop.Memory
	Segments         []Segment
	Queries, Keys    sym.Expr
	Size, Width      sym.Expr // of a query, and of a value
	Skips            bool     // keys after a query's position are not visited: their weight is certainly 0
}

// Segment is one pair of key and value tensors; First is the number of keys before them. Keys and values of i8 have
// scales.
type Segment struct {
	Key, Value           *loop.Memory
	KeyScale, ValueScale *loop.Memory // [B, G, K, 1], or nil
	First, Keys          sym.Expr
}

// Row names the queries being computed: a sequence, a head, and the group of keys that the head shares.
type Row struct{ Sequence, Head, Group sym.Expr }

// New returns the form of a kernel, by the operands of the operator attention; absent ones are nil, or missing at the
// end.
func New(b *loop.Builder, dims *sym.Dims, s Settings, in []*loop.Memory, out *loop.Memory) *Form {
	operand := func(i int) *loop.Memory {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	f := &Form{Builder: b, D: dims, Settings: s, Query: in[0], Mask: operand(3), Out: out}
	f.Queries, f.Size, f.Width = f.Query.Shape[2], f.Query.Shape[3], f.Out.Shape[3]
	for _, i := range []int{1, 4} {
		if operand(i) == nil {
			continue
		}
		segment := Segment{Key: in[i], Value: in[i+1], First: f.Keys, Keys: in[i].Shape[2],
			KeyScale: operand(Scales[i]), ValueScale: operand(Scales[i+1])}
		f.Segments = append(f.Segments, segment)
		f.Keys = f.Keys.Add(segment.Keys)
	}
	f.Skips = s.Causal && (math.IsInf(s.Hidden(), -1) || s.Hidden() <= lowHidden && f.Mask == nil)
	return f
}

// Scaled returns x times the scale of the key or value at the index at; x if there are no scales.
func (s Segment) Scaled(x loop.Expr, scales *loop.Memory, row Row, at sym.Expr) loop.Expr {
	if scales == nil {
		return x
	}
	return times(x, scales.Load(row.Sequence, row.Group, at, sym.Const(0)))
}

// EachRow writes the loops over all sequences and heads.
func (f *Form) EachRow(visit func(row Row)) {
	heads, groups := f.Query.Shape[1], f.Segments[0].Key.Shape[1]
	shared := f.D.Simplify(heads.FloorDiv(groups.Max(one)))
	f.Each("b", f.Query.Shape[0], func(b sym.Expr) {
		f.Each("g", groups, func(g sym.Expr) {
			f.Each("h", shared, func(h sym.Expr) { visit(Row{Sequence: b, Head: g.Mul(shared).Add(h), Group: g}) })
		})
	})
}

// Number returns a constant of f32.
func (f *Form) Number(x float64) loop.Expr { return loop.Number(dtype.F32, x) }

// Scaled returns x times the factor of the scores.
func (f *Form) Scaled(x loop.Expr) loop.Expr {
	if f.Scale != 0 {
		return times(x, f.Number(f.Scale))
	}
	if size, ok := f.Size.Const(); ok {
		return times(x, f.Number(1/math.Sqrt(float64(size))))
	}
	return loop.Apply2(loop.Div, x, loop.Apply(loop.Sqrt, loop.Convert(dtype.F32, loop.At(f.Size))))
}

// Score returns the masked score of a query and a key, given their scaled product; the caller hides the keys that the
// causal order hides.
func (f *Form) Score(x loop.Expr, row Row, query, key sym.Expr) loop.Expr {
	if f.Softcap > 0 {
		x = times(loop.Apply(loop.Tanh, times(x, f.Number(1/f.Softcap))), f.Number(f.Softcap))
	}
	if f.Mask == nil {
		return x
	}
	m := f.Mask.Load(broadcast([]sym.Expr{row.Sequence, row.Head, key, query}, f.Mask.Shape)...)
	if f.Mask.DType == dtype.Bool {
		return loop.Choose(m, x, f.Number(f.Hidden()))
	}
	return plus(x, loop.Convert(dtype.F32, m))
}

// Seen returns the number of a segment's keys that the queries up to last may see; all further keys are hidden.
func (f *Form) Seen(s Segment, last sym.Expr) sym.Expr {
	if !f.Skips {
		return s.Keys
	}
	return f.D.Simplify(s.Keys.Min(last.Add(f.Past).Add(one).Sub(s.First).Max(sym.Const(0))))
}

// Finite returns top, or 0 if all keys are hidden: a number that can be subtracted from scores.
func (f *Form) Finite(top loop.Expr) loop.Expr {
	return loop.Choose(loop.Apply2(loop.Eq, top, f.Number(math.Inf(-1))), f.Number(0), top)
}

// Result returns a weighted sum of values times the reciprocal of the sum of the weights, which is infinite if all keys
// are hidden.
func (f *Form) Result(x, reciprocal loop.Expr) loop.Expr {
	if !f.Blank {
		return times(x, reciprocal)
	}
	blank := loop.Apply2(loop.Or, loop.Apply(loop.IsNaN, reciprocal), loop.Apply(loop.IsInf, reciprocal))
	return loop.Choose(blank, f.Number(0), times(x, reciprocal))
}

// Alone writes a loop of one iteration, so that the declarations of write have their own scope.
func (f *Form) Alone(write func()) { f.Each("once", one, func(sym.Expr) { write() }) }

// Single computes each query separately: the scores of all its keys, their softmax and the sum of values. It reads keys
// and values once, without copying them.
func (f *Form) Single(row Row) {
	zero := sym.Const(0)
	f.Each("q", f.Queries, func(q sym.Expr) {
		scores := f.Local("s", dtype.F32, f.Keys.Max(one))
		top := f.Local("m", dtype.F32, one)
		total := f.Local("l", dtype.F32, one)
		for _, s := range f.Segments {
			seen := f.Seen(s, q)
			f.Each("j", seen, func(j sym.Expr) {
				sum := f.Var("sum", f.Number(0))
				f.Serial("d", f.Size, func(d sym.Expr) {
					f.Reduce(sum, loop.Add, times(f.Query.Load(row.Sequence, row.Head, q, d),
						loop.Convert(dtype.F32, s.Key.Load(row.Sequence, row.Group, j, d))))
				})
				f.Store(scores, []sym.Expr{j.Add(s.First)}, f.Score(s.Scaled(f.Scaled(sum), s.KeyScale, row, j), row, q,
					j.Add(s.First)))
			})
			if f.Causal && !f.Skips {
				f.Each("j", s.Keys, func(j sym.Expr) {
					at := j.Add(s.First)
					f.Store(scores, []sym.Expr{at}, loop.Choose(loop.Apply2(loop.Le, loop.At(at), loop.At(q.Add(f.Past))),
						scores.Load(at), f.Number(f.Hidden())))
				})
			}
		}
		all := f.Keys
		if f.Skips {
			all = f.D.Simplify(f.Keys.Min(q.Add(f.Past).Add(one)))
		}
		greatest := f.Var("greatest", f.Number(math.Inf(-1)))
		f.Serial("j", all, func(j sym.Expr) { f.Reduce(greatest, loop.Max, scores.Load(j)) })
		f.Store(top, []sym.Expr{zero}, f.Finite(greatest))
		f.Each("j", all, func(j sym.Expr) {
			f.Store(scores, []sym.Expr{j}, loop.Share(minus(scores.Load(j), top.Load(zero))))
		})
		weights := f.Var("weights", f.Number(0))
		f.Serial("j", all, func(j sym.Expr) { f.Reduce(weights, loop.Add, scores.Load(j)) })
		f.Store(total, []sym.Expr{zero}, loop.Apply(loop.Reciprocal, weights))
		for _, s := range f.Segments {
			if s.ValueScale != nil {
				f.Each("j", f.Seen(s, q), func(j sym.Expr) {
					at := []sym.Expr{j.Add(s.First)}
					f.Store(scores, at, s.Scaled(scores.Load(at...), s.ValueScale, row, j))
				})
			}
		}
		f.Alone(func() {
			acc := f.Local("acc", dtype.F32, one, f.Width)
			f.Nest(loop.Each, "z", acc.Shape, func(at []sym.Expr) { f.Store(acc, at, f.Number(0)) })
			for _, s := range f.Segments {
				f.Contract(one, f.Width, f.Seen(s, q), acc.Tile(make([]sym.Expr, 2), unit(2, 0), unit(2, 1)),
					scores.Tile([]sym.Expr{s.First}, make([]sym.Expr, 1), unit(1, 0)), f.Values(s, row, zero))
			}
			f.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
				f.Store(f.Out, []sym.Expr{row.Sequence, row.Head, q, at[1]}, f.Result(acc.Load(at...), total.Load(zero)))
			})
		})
	})
}

// Values returns a segment's values, from key from on, as the right operand of a product.
func (f *Form) Values(s Segment, row Row, from sym.Expr) loop.Tile {
	return s.Value.Tile([]sym.Expr{row.Sequence, row.Group, from, sym.Const(0)}, unit(4, 2), unit(4, 3))
}

// broadcast returns the index of an operand whose shape broadcasts: 0 along axes of extent 1.
func broadcast(index, shape []sym.Expr) []sym.Expr {
	at := make([]sym.Expr, len(shape))
	for axis, extent := range shape {
		if !extent.Equal(one) {
			at[axis] = index[len(index)-len(shape)+axis]
		}
	}
	return at
}

// one is the constant 1.
var one = sym.Const(1)

// unit returns an index with 1 at axis and 0 elsewhere.
func unit(rank, axis int) []sym.Expr {
	out := make([]sym.Expr, rank)
	out[axis] = one
	return out
}

func plus(x, y loop.Expr) loop.Expr  { return loop.Apply2(loop.Add, x, y) }
func minus(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Sub, x, y) }
func times(x, y loop.Expr) loop.Expr { return loop.Apply2(loop.Mul, x, y) }
