package core

import (
	"hash/fnv"
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// seed returns the attribute seed, an integer or, in most operators, a float whose fraction is ignored. A node without
// it has a seed made from its name, or that of its first output: every run of a model draws the same numbers, and
// different nodes draw different ones.
func seed(c *convert.Call) uint32 {
	if a := c.Attributes["seed"]; a != nil && a.Kind() == wire.AttributeInt {
		return uint32(a.I)
	}
	if x := c.Float("seed", math.NaN()); !math.IsNaN(x) {
		return uint32(int64(math.Max(-1<<52, math.Min(x, 1<<52))))
	}
	h := fnv.New32a()
	h.Write([]byte(c.Source))
	return h.Sum32()
}

// drawnShape returns the shape in the attribute shape.
func drawnShape(c *convert.Call) []sym.Expr {
	shape := c.Ints("shape")
	if shape == nil {
		c.Fault("attribute shape is missing")
	}
	if len(shape) > tensor.MaxRank {
		c.Fault("a result of rank %d", len(shape))
	}
	for _, size := range shape {
		if size < 0 {
			c.Fault("the shape is %v", shape)
		}
	}
	return ir.Constants(shape)
}

// drawnType returns the element type in the attribute dtype; if it is absent, that of x, or f32.
func drawnType(c *convert.Call, x *ir.Value) dtype.DType {
	dt := c.Type("dtype")
	if dt == dtype.Invalid && x != nil {
		return x.Type.DType
	}
	if dt == dtype.Invalid {
		return dtype.F32
	}
	return dt
}

func uniform(c *convert.Call, shape []sym.Expr, dt dtype.DType) *ir.Value {
	return ops.DrawUniform(c.Builder, seed(c), dt, c.Float("low", 0), c.Float("high", 1), shape...)
}

func normal(c *convert.Call, shape []sym.Expr, dt dtype.DType) *ir.Value {
	return ops.DrawNormal(c.Builder, seed(c), dt, c.Float("mean", 0), c.Float("scale", 1), shape...)
}

// bernoulli converts Bernoulli.
func bernoulli(c *convert.Call) []*ir.Value {
	p := c.Input(0)
	return convert.One(ops.DrawBernoulli(c.Builder, seed(c), drawnType(c, p), p))
}

// multinomial converts Multinomial.
func multinomial(c *convert.Call) []*ir.Value {
	count, dt := c.Int("sample_size", 1), c.Type("dtype")
	if dt == dtype.Invalid {
		dt = dtype.I32
	}
	if count < 1 || count > convert.ExtentLimit {
		c.Fault("%d draws", count)
	}
	return convert.One(ops.DrawClasses(c.Builder, seed(c), dt, c.Input(0), count))
}

// dropout returns its input outside of training. In training it keeps each element with probability 1 − ratio, divided
// by that.
func dropout(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	training, ratio := training(c)
	if training == nil {
		return keepAll(c, x)
	}
	dt := x.Type.DType
	if !dt.IsFloat() {
		c.Fault("dropout of type %s", dt)
	}
	wide := ops.Cast(b, ratio, dtype.F64)
	kept := ops.DrawKept(b, seed(c), wide, x.Type.Shape...)
	if training.Const == nil {
		kept = ops.Binary(b, ops.Or, kept, ops.Unary(b, ops.Not, training))
		wide = ops.Where(b, training, wide, ops.Scalar(b, dtype.F64, 0))
	}
	factor := ops.Unary(b, ops.Reciprocal, ops.Binary(b, ops.Sub, ops.Scalar(b, dtype.F64, 1), wide))
	y := ops.Where(b, kept, ops.Binary(b, ops.Mul, x, ops.Cast(b, factor, dt)), ops.Scalar(b, dt, 0))
	if c.Version < 10 {
		kept = ops.Cast(b, kept, dt)
	}
	return []*ir.Value{y, kept}
}

// training returns a bool scalar that says whether to drop, and the ratio. The scalar is a constant true if dropping is
// certain, and nil if nothing is ever dropped. Before version 7 an attribute says so, versions 7 to 11 never drop, and
// since version 12 an input may say so.
func training(c *convert.Call) (training, ratio *ir.Value) {
	b := c.Builder
	if c.Version < 7 && c.Int("is_test", 0) == 0 {
		return b.Constant("training", tensor.Scalar(true)), ops.Scalar(b, dtype.F32, c.Float("ratio", 0.5))
	}
	if c.Version < 12 || c.Optional(2) == nil {
		return nil, nil
	}
	training, ratio = convert.ScalarIn(b, c.Input(2)), convert.ScalarOf(c, c.Optional(1))
	if training.Type.DType != dtype.Bool {
		c.Fault("training_mode is %s, it must be bool", training.Type)
	}
	if len(training.Known) == 1 {
		mode, known := training.Known[0].Const()
		if known && mode == 0 {
			return nil, nil
		}
		if known {
			training = b.Constant("training", tensor.Scalar(true))
		}
	}
	if ratio == nil {
		ratio = ops.Scalar(b, dtype.F32, 0.5)
	}
	if !ratio.Type.DType.IsFloat() {
		c.Fault("the ratio is %s", ratio.Type)
	}
	return training, ratio
}

// keepAll returns x, and a mask of ones if the node has a second output.
func keepAll(c *convert.Call, x *ir.Value) []*ir.Value {
	if c.Outputs < 2 {
		return convert.One(x)
	}
	dt := dtype.Bool
	if c.Version < 10 {
		dt = x.Type.DType
	}
	t, err := tensor.New(dt)
	if err != nil {
		c.Fail(err)
	}
	if dt.IsFloat() {
		t.SetFloat(0, 1)
	} else {
		t.SetInt(0, 1)
	}
	return []*ir.Value{x, ops.Fill(c.Builder, t, x.Type.Shape...)}
}

func randomUniform(c *convert.Call) []*ir.Value {
	return convert.One(uniform(c, drawnShape(c), drawnType(c, nil)))
}

// randomUniformLike converts RandomUniformLike.
func randomUniformLike(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	return convert.One(uniform(c, x.Type.Shape, drawnType(c, x)))
}

func randomNormal(c *convert.Call) []*ir.Value {
	return convert.One(normal(c, drawnShape(c), drawnType(c, nil)))
}

// randomNormalLike converts RandomNormalLike.
func randomNormalLike(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	return convert.One(normal(c, x.Type.Shape, drawnType(c, x)))
}
