package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A tensor of strings is two tensors: spans (i64) into a pool of bytes (u8), as package tensor defines them. Operators
// that move elements move spans; the operators of this file read the strings.

// init defines the operators on strings.
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

// Text is a tensor of strings: spans of its shape, and the pool of their bytes.
type Text struct{ Spans, Pool *ir.Value }

// TextEqual compares strings of one shape, element by element.
func TextEqual(b *ir.Builder, x, y Text) *ir.Value {
	return b.Op("text_equal", nil, x.Spans, x.Pool, y.Spans, y.Pool)
}

// TextConcat appends y's strings to x's, which have the same shape.
func TextConcat(b *ir.Builder, x, y Text) Text {
	n := b.Node("text_concat", nil, x.Spans, x.Pool, y.Spans, y.Pool)
	return Text{n.Outputs[0], n.Outputs[1]}
}

// TextSplit splits strings at a delimiter, or at white space if it is empty, at most `most` times each if that is not
// negative. The pieces lie along a new last axis, padded with empty strings; counts has the number of pieces of each
// string.
func TextSplit(b *ir.Builder, x Text, delimiter string, most int64) (pieces Text, counts *ir.Value) {
	n := b.Node("text_split", ir.Attrs{"delimiter": delimiter, "most": most}, x.Spans, x.Pool)
	return Text{n.Outputs[0], x.Pool}, n.Outputs[1]
}

// TextNormalize removes the stop words from x, a vector or a matrix of one row, and changes the case of the other
// strings: "lower", "upper" or "none". The stop words are ascending. If exact is false they are in lower case, and
// match strings in any case. If no string is left, the result is one empty string.
func TextNormalize(b *ir.Builder, x, stops Text, to string, exact bool) Text {
	n := b.Node("text_normalize", ir.Attrs{"case": to, "exact": exact}, x.Spans, x.Pool, stops.Spans, stops.Pool)
	return Text{n.Outputs[0], n.Outputs[1]}
}

// TextMatch reports which strings an RE2 pattern matches entirely.
func TextMatch(b *ir.Builder, x Text, pattern string) *ir.Value {
	return b.Op("text_match", ir.Attrs{"pattern": pattern}, x.Spans, x.Pool)
}

// TextIndex returns each string's index among ascending keys, or the number of keys if it is not among them.
func TextIndex(b *ir.Builder, x, keys Text) *ir.Value {
	return b.Op("text_index", nil, x.Spans, x.Pool, keys.Spans, keys.Pool)
}

// TextRank returns each string's rank among all different strings, in the order of their bytes.
func TextRank(b *ir.Builder, x Text) *ir.Value { return b.Op("text_rank", nil, x.Spans, x.Pool) }

// TextFormat formats numbers as strings: the shortest decimal that identifies the number, with an exponent if that is
// shorter; NaN, INF and -INF; True and False.
func TextFormat(b *ir.Builder, x *ir.Value) Text {
	n := b.Node("text_format", nil, x)
	return Text{n.Outputs[0], n.Outputs[1]}
}

// TextParse parses strings as numbers of a type: the strings of TextFormat, with or without a sign, and for integers
// also fractions, which are cut off. Any other string ends the run.
func TextParse(b *ir.Builder, x Text, to dtype.DType) *ir.Value {
	return b.Op("text_parse", ir.Attrs{"to": to}, x.Spans, x.Pool)
}

// longestNumber is the largest number of bytes of a formatted number.
const longestNumber = 24

// textFormatShape limits the pool to longestNumber bytes for each number.
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

// textParseShape requires a type that is not complex.
func textParseShape(c *ir.Inference, n *ir.Node) error {
	to := n.Attrs.DType("to")
	if !anything(to) || to.IsComplex() {
		return fault(n, "elements of type %s", to)
	}
	return textShape(1, 0, func(*ir.Inference, *ir.Node) []ir.Type { return []ir.Type{{DType: to}} })(c, n)
}

// isText checks that inputs i and i+1 are spans and a pool.
func isText(n *ir.Node, i int) error {
	if spans, pool := n.Inputs[i].Type, n.Inputs[i+1].Type; spans.DType != dtype.I64 || pool.DType != dtype.U8 ||
		len(pool.Shape) != 1 {
		return fault(n, "texts of %s in %s", spans, pool)
	}
	return nil
}

// textShape returns the shape rule of an operator on `same` operands of strings of one shape and `others` of any shape.
// Results that results returns without a shape have that of the first operand.
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

// pool returns the type of a pool whose size is found in a run. Each string may be the entire pool of its operand, so a
// limit would be useless.
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

// textNormalizeShape gives the last axis an extent that is found in a run: at least 1, at most the number of strings.
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

// TextLimit is the largest number of bytes in a pool of strings.
const TextLimit = tensor.MaxPool

// TextLower returns a string as TextNormalize compares it if exact is false.
func TextLower(text string) string { return hostop.Lower(text) }

// CheckPattern returns an error if TextMatch cannot use a pattern.
func CheckPattern(pattern string) error {
	_, err := hostop.Pattern(pattern)
	return err
}
