package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Texts are two tensors: spans (i64) into a pool (u8), as package tensor has them. Operators that move elements are the
// same on spans as on numbers; those here look at what the texts say.

func init() {
	for _, d := range []*Def{
		{Op: "text_equal", Shape: textShape(2, 0, func(*ir.Inference, *ir.Node) []ir.Type {
			return []ir.Type{{DType: dtype.Bool}}
		}), Samples: textPairSamples},
		{Op: "text_concat", Shape: textConcatShape, Samples: textPairSamples},
		{Op: "text_split", Shape: textSplitShape, Samples: textSplitSamples},
		{Op: "text_normalize", Shape: textNormalizeShape, Samples: textNormalizeSamples},
		{Op: "text_match", Shape: textShape(1, 0, func(*ir.Inference, *ir.Node) []ir.Type {
			return []ir.Type{{DType: dtype.Bool}}
		}), Samples: textMatchSamples},
		{Op: "text_index", Shape: textShape(1, 1, func(*ir.Inference, *ir.Node) []ir.Type {
			return []ir.Type{{DType: dtype.I64}}
		}), Samples: textIndexSamples},
		{Op: "text_format", Shape: textFormatShape, Samples: textFormatSamples},
		{Op: "text_parse", Shape: textParseShape, Samples: textParseSamples},
		{Op: "text_rank", Shape: textShape(1, 0, func(*ir.Inference, *ir.Node) []ir.Type {
			return []ir.Type{{DType: dtype.I64}}
		}), Samples: textRankSamples},
	} {
		d.Mean, d.Host = hostMean(d.Op), d.Op
		define(d)
	}
}

// Text is a tensor of texts: spans of their shape, and the pool that they lie in.
type Text struct{ Spans, Pool *ir.Value }

// TextEqual compares texts of one shape, element by element.
func TextEqual(b *ir.Builder, x, y Text) *ir.Value {
	return b.Op("text_equal", nil, x.Spans, x.Pool, y.Spans, y.Pool)
}

// TextConcat puts y's texts behind x's, which have the same shape.
func TextConcat(b *ir.Builder, x, y Text) Text {
	n := b.Node("text_concat", nil, x.Spans, x.Pool, y.Spans, y.Pool)
	return Text{n.Outputs[0], n.Outputs[1]}
}

// TextSplit cuts texts at a delimiter, or where it is empty at white space, at most `most` times each where that is not
// negative. The pieces lie along a new last axis, padded with empty texts; counts is how many each text has.
func TextSplit(b *ir.Builder, x Text, delimiter string, most int64) (pieces Text, counts *ir.Value) {
	n := b.Node("text_split", ir.Attrs{"delimiter": delimiter, "most": most}, x.Spans, x.Pool)
	return Text{n.Outputs[0], x.Pool}, n.Outputs[1]
}

// TextNormalize takes the stop words out of x, a vector or a matrix of one row, and changes the case of the others:
// "lower", "upper" or "none". The stop words ascend; where exact is false they are in lower case, and case does not
// matter. If nothing is left, there is one empty text.
func TextNormalize(b *ir.Builder, x, stops Text, to string, exact bool) Text {
	n := b.Node("text_normalize", ir.Attrs{"case": to, "exact": exact}, x.Spans, x.Pool, stops.Spans, stops.Pool)
	return Text{n.Outputs[0], n.Outputs[1]}
}

// TextMatch tells which texts an RE2 pattern matches as a whole.
func TextMatch(b *ir.Builder, x Text, pattern string) *ir.Value {
	return b.Op("text_match", ir.Attrs{"pattern": pattern}, x.Spans, x.Pool)
}

// TextIndex is each text's place among ascending keys, and the keys' number if it is none of them.
func TextIndex(b *ir.Builder, x, keys Text) *ir.Value {
	return b.Op("text_index", nil, x.Spans, x.Pool, keys.Spans, keys.Pool)
}

// TextRank is each text's place among all the different ones, in the order of their bytes.
func TextRank(b *ir.Builder, x Text) *ir.Value { return b.Op("text_rank", nil, x.Spans, x.Pool) }

// TextFormat writes numbers as texts: the shortest decimal that says the number, with an exponent where that is
// shorter; NaN, INF and -INF; True and False.
func TextFormat(b *ir.Builder, x *ir.Value) Text {
	n := b.Node("text_format", nil, x)
	return Text{n.Outputs[0], n.Outputs[1]}
}

// TextParse reads numbers of a type from texts: what TextFormat writes, with or without a sign, and fractions for
// integers, which lose them. Another text ends the run.
func TextParse(b *ir.Builder, x Text, to dtype.DType) *ir.Value {
	return b.Op("text_parse", ir.Attrs{"to": to}, x.Spans, x.Pool)
}

// longestNumber is the most bytes that a number's text has.
const longestNumber = 24

func textFormatShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !anything(x.DType) || x.DType.IsComplex() {
		return fault(n, "elements of type %s", x.DType)
	}
	n.Result(0, ir.Type{DType: dtype.I64, Shape: x.Shape})
	bytes := foundAs(c, n, "bytes", "bytes", product(x.Shape).Mul(sym.Const(longestNumber)))
	n.Result(1, ir.Type{DType: dtype.U8, Shape: []sym.Expr{bytes}})
	return nil
}

func textParseShape(c *ir.Inference, n *ir.Node) error {
	to := n.Attrs.DType("to")
	if !anything(to) || to.IsComplex() {
		return fault(n, "elements of type %s", to)
	}
	return textShape(1, 0, func(*ir.Inference, *ir.Node) []ir.Type { return []ir.Type{{DType: to}} })(c, n)
}

// isText checks that inputs i and i+1 are texts.
func isText(n *ir.Node, i int) error {
	if spans, pool := n.Inputs[i].Type, n.Inputs[i+1].Type; spans.DType != dtype.I64 || pool.DType != dtype.U8 ||
		len(pool.Shape) != 1 {
		return fault(n, "texts of %s in %s", spans, pool)
	}
	return nil
}

// textShape is the rule of an operator on `same` texts of one shape and `others` of any, whose results have that shape
// where they have none.
func textShape(same, others int, results func(c *ir.Inference, n *ir.Node) []ir.Type) func(c *ir.Inference,
	n *ir.Node) error {
	return func(c *ir.Inference, n *ir.Node) error {
		if err := arity(n, 2*(same+others), 2*(same+others)); err != nil {
			return err
		}
		shape := n.Inputs[0].Type.Shape
		for i := 0; i < 2*(same+others); i += 2 {
			if err := isText(n, i); err != nil {
				return err
			}
			other := n.Inputs[i].Type.Shape
			if i >= 2*same {
				continue
			}
			if len(other) != len(shape) {
				return fault(n, "texts of ranks %d and %d", len(shape), len(other))
			}
			for axis := range other {
				if err := c.RequireEqual(n, shape[axis], other[axis], "texts of one shape"); err != nil {
					return err
				}
			}
		}
		for i, t := range results(c, n) {
			if t.Shape == nil {
				t.Shape = shape
			}
			n.Result(i, t)
		}
		return nil
	}
}

// pool is the type of a pool of data's own size. Any number of texts may be the whole of the pool that they come from,
// so that a limit of it would say nothing.
func pool(c *ir.Inference, n *ir.Node) ir.Type {
	return ir.Type{DType: dtype.U8, Shape: []sym.Expr{foundAs(c, n, "bytes", "bytes", sym.Unlimited)}}
}

var textConcatShape = textShape(2, 0, func(c *ir.Inference, n *ir.Node) []ir.Type {
	return []ir.Type{{DType: dtype.I64}, pool(c, n)}
})

var textSplitShape = textShape(1, 0, func(c *ir.Inference, n *ir.Node) []ir.Type {
	shape, most := append([]sym.Expr{}, n.Inputs[0].Type.Shape...), sym.Unlimited
	if cuts := n.Attrs.Int("most", -1); cuts >= 0 && cuts < 64 {
		most = sym.Const(cuts + 1)
	}
	return []ir.Type{{DType: dtype.I64, Shape: append(shape, found(c, n, "pieces", most))}, {DType: dtype.I64}}
})

func textNormalizeShape(c *ir.Inference, n *ir.Node) error {
	return textShape(1, 1, func(c *ir.Inference, n *ir.Node) []ir.Type {
		shape := append([]sym.Expr{}, n.Inputs[0].Type.Shape...)
		count := product(shape)
		if len(shape) == 0 {
			shape = append(shape, one)
		}
		shape[len(shape)-1] = foundAs(c, n, "found", "words", count.Max(one))
		return []ir.Type{{DType: dtype.I64, Shape: shape}, pool(c, n)}
	})(c, n)
}

// TextLimit is the most bytes that a pool of texts may hold.
const TextLimit = tensor.MaxPool

// TextLower is a text as TextNormalize compares it where case does not matter.
func TextLower(text string) string { return hostop.Lower(text) }

// CheckPattern reports what is wrong with a pattern for TextMatch.
func CheckPattern(pattern string) error {
	_, err := hostop.Pattern(pattern)
	return err
}
