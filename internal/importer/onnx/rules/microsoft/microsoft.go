package microsoft

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// microsoft is the domain of the operators that ONNX Runtime's optimizer, Olive and the model builder for generative
// models write. Each operator is expanded; its meaning was read off onnxruntime's results.
const microsoft = "com.microsoft"

// plus returns x + y, or x if y is nil.
func plus(c *convert.Call, x, y *ir.Value) *ir.Value {
	if y == nil {
		return x
	}
	return ops.Binary(c.Builder, ops.Add, x, y)
}

// times returns x · y, or x if y is nil.
func times(c *convert.Call, x, y *ir.Value) *ir.Value {
	if y == nil {
		return x
	}
	return ops.Binary(c.Builder, ops.Mul, x, y)
}

// sliceOf returns the extent elements of an axis that start at begin; the conditions that they lie within the axis
// become conditions of the model.
func sliceOf(c *convert.Call, v *ir.Value, axis int, begin, extent sym.Expr) *ir.Value {
	if axis >= len(v.Type.Shape) {
		c.Fault("%s has rank %d", v.Name, len(v.Type.Shape))
	}
	end := c.Dims().Simplify(begin.Add(extent))
	for _, cond := range []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: begin}, {A: sym.Const(0), Rel: sym.LE, B: extent},
		{A: end, Rel: sym.LE, B: v.Type.Shape[axis]}} {
		c.Condition(cond, "a piece lies within "+v.Name)
	}
	return ops.SliceAxis(c.Builder, v, axis, c.Dims().Simplify(begin), c.Dims().Simplify(extent))
}

// lastNormalized normalizes x along its last axis, multiplies by scale and adds shift; both may be nil. The mean is
// subtracted if centred is true.
func lastNormalized(c *convert.Call, x *ir.Value, epsilon float64, centred bool, scale, shift *ir.Value) *ir.Value {
	if len(x.Type.Shape) < 1 {
		c.Fault("an input %s", x.Type)
	}
	y := ops.Normalize(c.Builder, x, epsilon, centred, int64(len(x.Type.Shape)-1))
	return plus(c, times(c, y, scale), shift)
}

// skipNormalization returns a rule that adds a residual and a bias to the input and normalizes the sum; the fourth
// output is the sum.
func skipNormalization(centred bool) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		bias, shift := c.Optional(3), (*ir.Value)(nil)
		if centred {
			bias, shift = c.Optional(4), c.Optional(3)
		}
		sum := plus(c, ops.Binary(c.Builder, ops.Add, c.Input(0), c.Input(1)), bias)
		y := lastNormalized(c, sum, c.Float("epsilon", 1e-12), centred, c.Input(2), shift)
		return []*ir.Value{y, nil, nil, sum}
	}
}

// simplifiedNormalization converts SimplifiedLayerNormalization, which ai.onnx later standardized as RMSNormalization.
func simplifiedNormalization(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	rank := len(x.Type.Shape)
	axes := convert.AllAxes(rank)[c.Axis(c.Int("axis", -1), rank):]
	y := ops.Normalize(c.Builder, x, c.Float("epsilon", 1e-5), false, axes...)
	return convert.One(ops.Binary(c.Builder, ops.Mul, ops.Cast(c.Builder, y, c.Input(1).Type.DType), c.Input(1)))
}

// embedNormalization converts EmbedLayerNormalization: it sums the embeddings of words, positions and segments, and
// normalizes the sum. The second output counts the set elements in each row of the mask.
func embedNormalization(c *convert.Call) []*ir.Value {
	b, words := c.Builder, c.Input(0)
	if len(words.Type.Shape) != 2 {
		c.Fault("words %s, there must be rows of them", words.Type)
	}
	sum := ops.Gather(b, c.Input(2), words, 0)
	if positions := c.Optional(8); positions != nil {
		sum = ops.Binary(b, ops.Add, sum, ops.Gather(b, c.Input(3), positions, 0))
	} else {
		length := words.Type.Shape[1]
		c.Condition(sym.Cond{A: length, Rel: sym.LE,
			B: convert.Count(c.Input(3).Type.Shape[:min(1, len(c.Input(3).Type.Shape))])}, "every position has an embedding")
		sum = ops.Binary(b, ops.Add, sum, ops.Gather(b, c.Input(3), ops.Counting(b, dtype.I64, length), 0))
	}
	if segments := c.Optional(1); segments != nil && c.Optional(4) != nil {
		sum = ops.Binary(b, ops.Add, sum, ops.Gather(b, c.Input(4), segments, 0))
	}
	y := lastNormalized(c, sum, c.Float("epsilon", 1e-12), true, c.Input(5), c.Input(6))
	out := []*ir.Value{y, nil, sum}
	if mask := c.Optional(7); mask != nil {
		out[1] = ops.Cast(b, ops.ReduceSum(b, ops.Cast(b, mask, dtype.I32), false, 1), dtype.I32)
	} else if c.Outputs > 1 {
		out[1] = ops.Cast(b, ops.Expand(b, c.Number(0), words.Type.Shape[0]), dtype.I32)
	}
	return out
}

// ruleOfVersion returns the rule of an operator of ai.onnx at a version.
func ruleOfVersion(version int64, name string) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		c.Version = version
		convert := c.Scope.Source.Rules.Rule(name, version)
		if convert == nil {
			c.Refuse("%s", name)
		}
		return convert(c)
	}
}

// rangeOfOne converts Range, with a step of 1 if none is given.
func rangeOfOne(c *convert.Call) []*ir.Value {
	if c.Optional(2) == nil {
		c.In = []*ir.Value{c.Input(0), c.Input(1), ops.Scalar(c.Builder, c.Input(0).Type.DType, 1)}
	}
	return core.RangeOf(c)
}

// expandDims converts ExpandDims: Unsqueeze whose axes may be a scalar.
func expandDims(c *convert.Call) []*ir.Value {
	if axes := c.Input(1); len(axes.Type.Shape) == 0 {
		c.In = []*ir.Value{c.Input(0), ops.Reshape(c.Builder, axes, sym.Const(1))}
	}
	return core.Unsqueeze(c)
}

// distances converts CDist, which converters of kernel methods write: the distance of each row of one matrix from each
// row of another.
func distances(c *convert.Call) []*ir.Value {
	b, x, y := c.Builder, c.Input(0), c.Input(1)
	if len(x.Type.Shape) != 2 || len(y.Type.Shape) != 2 {
		c.Fault("%s and %s, both must be matrices", x.Type, y.Type)
	}
	rows, columns, width := x.Type.Shape[0], y.Type.Shape[0], x.Type.Shape[1]
	difference := ops.Binary(b, ops.Sub, ops.Reshape(b, x, rows, sym.Const(1), width),
		ops.Reshape(b, y, sym.Const(1), columns, y.Type.Shape[1]))
	squares := ops.ReduceSum(b, ops.Binary(b, ops.Mul, difference, difference), false, 2)
	switch metric := c.StringAttribute("metric", "sqeuclidean"); metric {
	case "sqeuclidean":
		return convert.One(squares)
	case "euclidean":
		return convert.One(ops.Unary(b, ops.Sqrt, squares))
	default:
		c.Refuse("metric %q", metric)
		return nil
	}
}

func exactGelu(c *convert.Call) []*ir.Value {
	return convert.One(ops.Activation(c.Builder, "gelu", c.Input(0)))
}

func biasGelu(c *convert.Call) []*ir.Value {
	return convert.One(ops.Activation(c.Builder, "gelu", ops.Binary(c.Builder, ops.Add, c.Input(0), c.Input(1))))
}

func fastGelu(c *convert.Call) []*ir.Value {
	return convert.One(ops.Activation(c.Builder, "gelu_tanh", plus(c, c.Input(0), c.Optional(1))))
}

func quickGelu(c *convert.Call) []*ir.Value {
	return convert.One(ops.ActivationWith(c.Builder, "swish", c.Input(0), c.Float("alpha", 1.702), 0))
}
