package core

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// reshape converts Reshape.
func reshape(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	keepZero := c.Int("allowzero", 0) != 0
	rank := c.Length(1)
	if c.Argument(c.In[1]) != nil {
		return convert.One(ops.Reshape(c.Builder, x, reshapedTo(c, x, rank, keepZero)...))
	}
	to := c.Known(1)
	if to == nil {
		return convert.One(ops.Reshape(c.Builder, x, resolved(c, x, rank, keepZero)...))
	}
	shape, infer := make([]sym.Expr, rank), -1
	for i, e := range to {
		v, isConst := e.Const()
		switch {
		case isConst && v == 0 && !keepZero:
			if i >= len(x.Type.Shape) {
				c.Fault("axis %d of the new shape is 0, and there is no axis %d to copy", i, i)
			}
			shape[i] = x.Type.Shape[i]
		case isConst && v == -1:
			if infer >= 0 {
				c.Fault("two axes of the new shape are -1")
			}
			infer = i
		case isConst && v < 0:
			c.Fault("axis %d of the new shape is %d", i, v)
		default:
			shape[i] = e
		}
	}
	if infer >= 0 {
		others := append(append([]sym.Expr{}, shape[:infer]...), shape[infer+1:]...)
		shape[infer] = c.Dims().Simplify(quotient(c, x.Type.Shape, others))
	}
	return convert.One(ops.Reshape(c.Builder, x, shape...))
}

// quotient returns the extent by which the product of others lacks the number of elements of shape. Equal extents
// cancel, so that the other extents of an empty tensor are kept.
func quotient(c *convert.Call, shape, others []sym.Expr) sym.Expr {
	left := append([]sym.Expr{}, shape...)
	divisor := sym.Const(1)
	for _, e := range others {
		cancelled := false
		for i, x := range left {
			if x.Equal(e) {
				left = append(left[:i], left[i+1:]...)
				cancelled = true
				break
			}
		}
		if !cancelled {
			divisor = divisor.Mul(e)
		}
	}
	total := convert.Count(left)
	if d, ok := divisor.Const(); ok {
		n, static := total.Const()
		switch {
		case d == 0:
			c.Fault("an axis of the new shape is -1 where another is 0")
		case static && n%d != 0:
			c.Fault("%d elements do not divide into rows of %d", n, d)
		}
	}
	return total.FloorDiv(divisor)
}

// resolved returns a new shape that only the run knows, with 0 and −1 resolved at run time.
func resolved(c *convert.Call, x *ir.Value, rank int, keepZero bool) []sym.Expr {
	b, to, unit := c.Builder, c.Wide(1), c.Number(1)
	if !keepZero {
		source := make([]sym.Expr, rank)
		copy(source, x.Type.Shape)
		to = ops.Where(b, ops.Binary(b, ops.Eq, to, c.Number(0)), c.Integers(source...), to)
	}
	missing := ops.Binary(b, ops.Eq, to, c.Number(-1))
	others := b.Op("reduce_prod", ir.Attrs{"axes": []int64{0}}, ops.Where(b, missing, unit, to))
	to = ops.Where(b, missing, ops.Binary(b, ops.Div, ops.Reshape(b, c.Integers(convert.Count(x.Type.Shape))), others), to)
	// Their product is the number of elements, but no useful bound of each extent follows from that.
	return c.Decided(to, sym.Unlimited)
}

// flatten converts Flatten.
func flatten(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	axis, rank := c.Int("axis", 1), int64(len(x.Type.Shape))
	if axis < -rank || axis > rank {
		c.Fault("axis %d is outside a tensor of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return convert.One(ops.Reshape(c.Builder, x, convert.Count(x.Type.Shape[:axis]), convert.Count(x.Type.Shape[axis:])))
}

// squeeze converts Squeeze.
func squeeze(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	if v := c.Optional(1); v != nil && !convert.IsKnown(v) {
		return convert.One(squeezeAt(c, x))
	}
	axes := c.IntsOrInput("axes", 1)
	gone := c.Marked(axes, len(x.Type.Shape))
	shape := []sym.Expr{}
	for i, extent := range x.Type.Shape {
		size, static := extent.Const()
		single := c.Scope.Single(extent)
		switch {
		case axes == nil && single == sym.Yes:
		case axes == nil && single == sym.Unknown:
			// In a loop or a function, whose results have one rank: a run in which the extent is 1 is refused.
			c.Condition(sym.Cond{A: extent, Rel: sym.NE, B: sym.Const(1)},
				"an axis whose removal changes the rank of a loop's or function's result has not one element")
			shape = append(shape, extent)
		case gone[i] && static && size != 1:
			c.Fault("axis %d has extent %d, it must be 1 to be removed", i, size)
		case gone[i]: // the number of elements implies that the extent is 1
		default:
			shape = append(shape, extent)
		}
	}
	return convert.One(ops.Reshape(c.Builder, x, shape...))
}

// Unsqueeze converts Unsqueeze.
func Unsqueeze(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	if v := c.Optional(1); v != nil && !convert.IsKnown(v) {
		inserted, ok := convert.Count(v.Type.Shape).Const()
		if !ok {
			c.Refuse("%s, whose number is known only when the model runs, decides the rank of a result", v.Name)
		}
		if inserted > tensor.MaxRank-int64(len(x.Type.Shape)) {
			c.Fault("a result of rank %d and %d more", len(x.Type.Shape), inserted)
		}
		return convert.One(unsqueezeAt(c, x, len(x.Type.Shape)+int(inserted)))
	}
	axes := c.IntsOrInput("axes", 1)
	if axes == nil {
		c.Fault("the axes to insert are missing")
	}
	rank := len(x.Type.Shape) + len(axes)
	if rank > tensor.MaxRank {
		c.Fault("a result of rank %d", rank)
	}
	shape, next := make([]sym.Expr, rank), 0
	for i, inserted := range c.Marked(axes, rank) {
		if inserted {
			shape[i] = sym.Const(1)
		} else {
			shape[i] = x.Type.Shape[next]
			next++
		}
	}
	return convert.One(ops.Reshape(c.Builder, x, shape...))
}

// transpose converts Transpose.
func transpose(c *convert.Call) []*ir.Value {
	x, perm := c.Input(0), c.Ints("perm")
	if perm == nil {
		for i := len(x.Type.Shape) - 1; i >= 0; i-- {
			perm = append(perm, int64(i))
		}
	}
	for i := range perm {
		perm[i] = c.Axis(perm[i], len(x.Type.Shape))
	}
	return convert.One(ops.Transpose(c.Builder, x, perm...))
}

// expand converts Expand.
func expand(c *convert.Call) []*ir.Value {
	x, rank := singleExtents(c, c.Input(0)), c.Length(1)
	to := c.Known(1)
	if c.Stretches {
		if to == nil {
			to = c.SymbolsOf(c.In[1], 0, sym.Unlimited)
		}
		return convert.One(ops.Broadcast(c.Builder, x, to...))
	}
	if to == nil {
		to = slices.Clone(c.SymbolsOf(c.In[1], 0, sym.Unlimited))
		for i, e := range to {
			// An extent of 1 means x's own extent; an axis of x whose extent is not 1 keeps it.
			at := i - rank + len(x.Type.Shape)
			if at < 0 || x.Type.Shape[at].Equal(sym.Const(1)) {
				continue
			}
			own := x.Type.Shape[at]
			cond := sym.Cond{A: e.Sub(sym.Const(1)).Mul(e.Sub(own)), Rel: sym.EQ, B: sym.Const(0)}
			ops.RequireUnlessRepeated(c.Inference, cond, e, own)
			c.Condition(cond, "an axis is kept, or repeated where it has one element")
			to[i] = own
		}
	}
	shape := append([]sym.Expr{}, to...)
	for i, e := range shape {
		at := i - len(shape) + len(x.Type.Shape)
		if at < 0 || x.Type.Shape[at].Equal(sym.Const(1)) {
			continue // it is combined with none
		}
		if _, isConst := e.Const(); !isConst && c.Dims().LE(e, sym.Const(1)) == sym.Yes {
			c.Condition(sym.Cond{A: e, Rel: sym.EQ, B: sym.Const(1)}, "an extent that is combined with others")
			shape[i] = sym.Const(1)
		}
	}
	return convert.One(ops.Expand(c.Builder, x, shape...))
}

// singleExtents changes the extents of the axes of x that have at most one element to 1, so that they can be repeated.
func singleExtents(c *convert.Call, x *ir.Value) *ir.Value {
	shape := append([]sym.Expr{}, x.Type.Shape...)
	changed := false
	for i, e := range shape {
		if _, isConst := e.Const(); !isConst && c.Dims().LE(e, sym.Const(1)) == sym.Yes {
			shape[i], changed = sym.Const(1), true
		}
	}
	if !changed {
		return x
	}
	return ops.Reshape(c.Builder, x, shape...)
}

// tile converts Tile.
func tile(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	repeats := c.Symbols(1, 0, convert.Unlimited)
	if len(repeats) != len(x.Type.Shape) {
		c.Fault("%d repeats for a tensor of rank %d", len(repeats), len(x.Type.Shape))
	}
	return convert.One(ops.Tile(c.Builder, x, repeats))
}

// shapeOf converts Shape.
func shapeOf(c *convert.Call) []*ir.Value {
	shape := c.Input(0).Type.Shape
	rank := int64(len(shape))
	end := func(name string, otherwise int64) int64 {
		v := c.Int(name, otherwise)
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	first, last := end("start", 0), end("end", rank)
	return convert.One(c.Integers(shape[first:max(first, last)]...))
}

// sizeOf converts Size.
func sizeOf(c *convert.Call) []*ir.Value {
	return convert.One(ops.Integers(c.Builder, ir.Type{DType: dtype.I64},
		[]sym.Expr{convert.Count(c.Input(0).Type.Shape)}))
}

// RangeOf converts Range.
func RangeOf(c *convert.Call) []*ir.Value {
	b := c.Builder
	start, limit, delta := convert.ScalarIn(b, c.Input(0)), convert.ScalarIn(b, c.Input(1)),
		convert.ScalarIn(b, c.Input(2))
	dt := start.Type.DType
	if limit.Type.DType != dt || delta.Type.DType != dt {
		c.Fault("a range from %s to %s in steps of %s", start.Type, limit.Type, delta.Type)
	}
	return convert.One(ops.Range(b, start, delta, rangeExtent(c, start, limit, delta)))
}

// rangeExtent returns the number of elements of a range: max(0, ⌈(limit − start) / delta⌉).
func rangeExtent(c *convert.Call, start, limit, delta *ir.Value) sym.Expr {
	b := c.Builder
	if by := c.KnownOf(delta); by != nil {
		step, fixed := by[0].Const()
		if fixed && step == 0 {
			c.Fault("a range in steps of 0")
		}
		if from, to := c.KnownOf(start), c.KnownOf(limit); fixed && counts(from, to, step) {
			way := to[0].Sub(from[0])
			if step < 0 {
				way, step = way.Neg(), -step
			}
			return c.Dims().Simplify(way.CeilDiv(sym.Const(step)).Max(sym.Const(0)))
		}
	}
	if start.Type.DType == dtype.I64 {
		return c.Decided(stepsOf(b, start, limit, delta), sym.Unlimited)[0]
	}
	wide := dtype.F64
	way := ops.Binary(b, ops.Sub, ops.Cast(b, limit, wide), ops.Cast(b, start, wide))
	steps := ops.Unary(b, ops.Ceil, ops.Binary(b, ops.Div, way, ops.Cast(b, delta, wide)))
	steps = ops.Binary(b, ops.Max, steps, ops.Scalar(b, wide, 0))
	if start.Const != nil && limit.Const != nil && delta.Const != nil && start.Type.DType.IsFloat() {
		n := math.Max(0, math.Ceil((limit.Const.Float(0)-start.Const.Float(0))/delta.Const.Float(0)))
		if !(n <= 1<<40) {
			c.Fault("a range of %v elements", n)
		}
		return sym.Const(int64(n))
	}
	return c.Decided(ops.Cast(b, steps, dtype.I64), sym.Unlimited)[0]
}

// farBound is the largest magnitude of a range's ends and step whose arithmetic is exact in 64 bits.
const farBound = 1 << 60

// counts reports whether the number of a range's elements is an expression of its ends: they are known, and numbers
// among them are not too far from 0.
func counts(from, to []sym.Expr, step int64) bool {
	if from == nil || to == nil {
		return false
	}
	for _, e := range []sym.Expr{from[0], to[0], sym.Const(step)} {
		if v, number := e.Const(); number && (v > farBound || v < -farBound) {
			return false
		}
	}
	return true
}

// stepsOf returns the number of elements of a range of i64: one more than the steps of delta that end before the limit,
// −1 in steps of 0. Distances are computed in u64: f64 would round them, and in i64 they could wrap.
func stepsOf(b *ir.Builder, start, limit, delta *ir.Value) *ir.Value {
	zero := ops.Scalar(b, dtype.I64, 0)
	up := ops.Binary(b, ops.Gt, delta, zero)
	low, high := ops.Where(b, up, start, limit), ops.Where(b, up, limit, start)
	wide := func(x *ir.Value) *ir.Value { return ops.Cast(b, x, dtype.U64) }
	unit := ops.Scalar(b, dtype.U64, 1)
	steps := ops.Binary(b, ops.Div, ops.Binary(b, ops.Sub, wide(ops.Binary(b, ops.Sub, high, low)), unit),
		wide(ops.Where(b, up, delta, ops.Unary(b, ops.Neg, delta))))
	count := ops.Cast(b, ops.Binary(b, ops.Add, steps, unit), dtype.I64)
	count = ops.Where(b, ops.Binary(b, ops.Lt, low, high), count, zero)
	return ops.Where(b, ops.Binary(b, ops.Eq, delta, zero), ops.Scalar(b, dtype.I64, -1), count)
}

// constantOfShape converts ConstantOfShape.
func constantOfShape(c *convert.Call) []*ir.Value {
	value := c.Tensor("value")
	if value == nil {
		value = tensor.Scalar(float32(0))
	}
	if value.Len() != 1 {
		c.Fault("the value has %d elements, it must have 1", value.Len())
	}
	c.Length(0)
	shape := c.Symbols(0, 0, convert.Unlimited)
	if value.DType() == dtype.String {
		text := c.Scope.StringComponents(c.Scope.Constant(c.Source, value))
		return convert.One(c.Scope.StringValue(ops.Text{Spans: ops.Expand(c.Builder, ops.Reshape(c.Builder, text.Spans),
			shape...),
			Pool: text.Pool}))
	}
	return convert.One(ops.Fill(c.Builder, value, shape...))
}

// constants has the attributes of Constant that may hold its value.
var constants = map[string]func(c *convert.Call) *tensor.Tensor{
	"value":        func(c *convert.Call) *tensor.Tensor { return c.Tensor("value") },
	"sparse_value": sparseValue,
	"value_int":    func(c *convert.Call) *tensor.Tensor { return tensor.Scalar(c.Int("value_int", 0)) },
	"value_float":  func(c *convert.Call) *tensor.Tensor { return tensor.Scalar(float32(c.Float("value_float", 0))) },
	"value_ints":   func(c *convert.Call) *tensor.Tensor { return tensor.Of(c.Ints("value_ints")...) },
	"value_floats": func(c *convert.Call) *tensor.Tensor { return tensor.Of(convert.Narrow(c.Floats("value_floats"))...) },
	"value_string": func(c *convert.Call) *tensor.Tensor {
		return c.StringTensor(nil, c.StringAttribute("value_string", ""))
	},
	"value_strings": func(c *convert.Call) *tensor.Tensor {
		s := c.Strings("value_strings")
		return c.StringTensor([]int64{int64(len(s))}, s...)
	},
}

// sparseValue returns the value of the attribute sparse_value, with its zeros.
func sparseValue(c *convert.Call) *tensor.Tensor {
	a := c.Attribute("sparse_value", wire.AttributeSparseTensor)
	if a == nil || a.SparseTensor == nil {
		return nil
	}
	t, err := c.Scope.Source.Dense(a.SparseTensor)
	if err != nil {
		c.Fail(err)
	}
	return t
}

// constant converts Constant.
func constant(c *convert.Call) []*ir.Value {
	var found *tensor.Tensor
	for name, read := range constants {
		if !c.Has(name) {
			continue
		}
		if found != nil {
			c.Fault("more than one value")
		}
		if found = read(c); found == nil {
			c.Fault("attribute %s is empty", name)
		}
	}
	if found == nil {
		c.Fault("there is no value")
	}
	return convert.One(c.Scope.Constant(c.Source, found))
}

// identity converts Identity.
func identity(c *convert.Call) []*ir.Value {
	if len(c.In) == 0 || c.In[0] == nil {
		c.Input(0)
	}
	return convert.One(c.In[0])
}

// eyeLike converts EyeLike.
func eyeLike(c *convert.Call) []*ir.Value {
	x, dt := c.Input(0), c.Type("dtype")
	if len(x.Type.Shape) != 2 {
		c.Fault("a tensor of rank %d, it must be a matrix", len(x.Type.Shape))
	}
	if dt == dtype.Invalid {
		dt = x.Type.DType
	}
	b := c.Builder
	rows := ops.Range(b, c.Number(c.Int("k", 0)), c.Number(1), x.Type.Shape[0])
	columns := ops.Counting(b, dtype.I64, x.Type.Shape[1])
	return convert.One(ops.Cast(b, ops.Binary(b, ops.Eq, ops.Reshape(b, rows, x.Type.Shape[0], sym.Const(1)), columns),
		dt))
}

// blocks returns the operand of DepthToSpace and SpaceToDepth, and the block size, after it checks them.
func blocks(c *convert.Call) (x *ir.Value, block sym.Expr) {
	x = c.Input(0)
	if len(x.Type.Shape) != 4 {
		c.Fault("a tensor of rank %d, it must be 4", len(x.Type.Shape))
	}
	size := c.Int("blocksize", 0)
	if size < 1 || size > 1<<16 {
		c.Fault("blocks of %d", size)
	}
	return x, sym.Const(size)
}

// depthToSpace converts DepthToSpace.
func depthToSpace(c *convert.Call) []*ir.Value {
	x, block := blocks(c)
	s, b := x.Type.Shape, c.Builder
	depth := s[1].FloorDiv(block.Mul(block))
	if c.StringAttribute("mode", "DCR") == "DCR" {
		x = ops.Transpose(b, ops.Reshape(b, x, s[0], block, block, depth, s[2], s[3]), 0, 3, 4, 1, 5, 2)
	} else {
		x = ops.Transpose(b, ops.Reshape(b, x, s[0], depth, block, block, s[2], s[3]), 0, 1, 4, 2, 5, 3)
	}
	return convert.One(ops.Reshape(b, x, s[0], depth, s[2].Mul(block), s[3].Mul(block)))
}

// spaceToDepth converts SpaceToDepth.
func spaceToDepth(c *convert.Call) []*ir.Value {
	x, block := blocks(c)
	s, b := x.Type.Shape, c.Builder
	rows, columns := s[2].FloorDiv(block), s[3].FloorDiv(block)
	x = ops.Reshape(b, x, s[0], s[1], rows, block, columns, block)
	if c.StringAttribute("mode", "DCR") == "DCR" {
		x = ops.Transpose(b, x, 0, 3, 5, 1, 2, 4)
	} else {
		x = ops.Transpose(b, x, 0, 1, 3, 5, 2, 4)
	}
	return convert.One(ops.Reshape(b, x, s[0], s[1].Mul(block).Mul(block), rows, columns))
}
