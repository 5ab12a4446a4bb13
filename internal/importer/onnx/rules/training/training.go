package training

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// step is one step of an optimiser: its rate and number, both f64 scalars. Its methods build expressions of tensors of
// type dt.
type step struct {
	*convert.Call
	rate, number *ir.Value
	dt           dtype.DType // of the tensors at hand
}

func (s *step) scalar(x float64) *ir.Value { return s.Scalar(s.dt, x) }

func (s *step) add(x, y *ir.Value) *ir.Value { return ops.Binary(s.Builder, ops.Add, x, y) }

func (s *step) sub(x, y *ir.Value) *ir.Value { return ops.Binary(s.Builder, ops.Sub, x, y) }

func (s *step) mul(x, y *ir.Value) *ir.Value { return ops.Binary(s.Builder, ops.Mul, x, y) }

func (s *step) div(x, y *ir.Value) *ir.Value { return ops.Binary(s.Builder, ops.Div, x, y) }

// cast converts a scalar to the tensors' type.
func (s *step) cast(x *ir.Value) *ir.Value { return ops.Cast(s.Builder, x, s.dt) }

// blend returns a·x + b·y.
func (s *step) blend(a float64, x *ir.Value, b float64, y *ir.Value) *ir.Value {
	return s.add(s.mul(s.scalar(a), x), s.mul(s.scalar(b), y))
}

// first returns x in step 0, and y in later steps; both are f64.
func (s *step) first(x, y *ir.Value) *ir.Value {
	b := s.Builder
	return ops.Where(b, ops.Binary(b, ops.Gt, s.number, s.Scalar(dtype.F64, 0)), y, x)
}

// steps reads the rate, the step's number, and then groups of equally many tensors: all the weights, all their
// gradients, and the optimiser's states. update returns a weight's new value and states; the outputs are grouped as the
// inputs are.
func steps(c *convert.Call, groups int, update func(s *step, x []*ir.Value) []*ir.Value) []*ir.Value {
	b := c.Builder
	count := (len(c.In) - 2) / groups
	if count < 1 || len(c.In) != 2+count*groups {
		c.Fault("%d inputs: there must be two, and groups of %d", len(c.In), groups)
	}
	s := &step{Call: c}
	s.rate, s.number = ops.Cast(b, convert.ScalarIn(b, c.Input(0)), dtype.F64),
		ops.Cast(b, convert.ScalarIn(b, c.Input(1)), dtype.F64)
	out := make([]*ir.Value, count*(groups-1))
	for i := range count {
		x := make([]*ir.Value, groups)
		for k := range x {
			x[k] = c.Input(2 + k*count + i)
			if x[k].Type.DType != x[0].Type.DType || !x[k].Type.DType.IsFloat() {
				c.Fault("a weight %s with a gradient or memory %s", x[0].Type, x[k].Type)
			}
		}
		s.dt = x[0].Type.DType
		// The regularisation term's gradient, norm_coefficient · weight, is added.
		x[1] = s.add(s.mul(s.scalar(c.Float("norm_coefficient", 0)), x[0]), x[1])
		for k, v := range update(s, x) {
			out[k*count+i] = v
		}
	}
	return out
}

// adagrad divides each step by the root of the sum of all squared gradients so far (Duchi, Hazan, Singer: Adaptive
// subgradient methods, 2011).
func adagrad(c *convert.Call) []*ir.Value {
	return steps(c, 3, func(s *step, x []*ir.Value) []*ir.Value {
		one := s.Scalar(dtype.F64, 1)
		rate := s.cast(s.div(s.rate, s.add(one, s.mul(s.number, s.Scalar(dtype.F64, c.Float("decay_factor", 0))))))
		squares := s.add(x[2], s.mul(x[1], x[1]))
		root := s.add(ops.Unary(c.Builder, ops.Sqrt, squares), s.scalar(c.Float("epsilon", 1e-6)))
		return []*ir.Value{s.sub(x[0], s.div(s.mul(rate, x[1]), root)), squares}
	})
}

// adam keeps moving means of the gradients and of their squares (Kingma, Ba: Adam: a method for stochastic
// optimization, 2014). It corrects their bias from step 1 on.
func adam(c *convert.Call) []*ir.Value {
	alpha, beta := c.Float("alpha", 0.9), c.Float("beta", 0.999)
	return steps(c, 4, func(s *step, x []*ir.Value) []*ir.Value {
		b := c.Builder
		left := func(base float64) *ir.Value {
			number := s.first(s.Scalar(dtype.F64, 1), s.number)
			return s.sub(s.Scalar(dtype.F64, 1), ops.Binary(b, ops.Pow, s.Scalar(dtype.F64, base), number))
		}
		rate := s.cast(s.first(s.rate, s.div(s.mul(s.rate, ops.Unary(b, ops.Sqrt, left(beta))), left(alpha))))
		mean := s.blend(alpha, x[2], 1-alpha, x[1])
		squares := s.blend(beta, x[3], 1-beta, s.mul(x[1], x[1]))
		root := s.add(ops.Unary(b, ops.Sqrt, squares), s.scalar(c.Float("epsilon", 1e-6)))
		y := s.sub(x[0], s.mul(rate, s.div(mean, root)))
		return []*ir.Value{s.mul(s.scalar(1-c.Float("norm_coefficient_post", 0)), y), mean, squares}
	})
}

// momentum keeps a decaying sum of the gradients; nesterov looks a step ahead. In step 0 the gradient counts in full.
func momentum(c *convert.Call) []*ir.Value {
	mode := c.StringAttribute("mode", "")
	if mode != "standard" && mode != "nesterov" {
		c.Fault("mode is %q, it must be standard or nesterov", mode)
	}
	return steps(c, 3, func(s *step, x []*ir.Value) []*ir.Value {
		alpha := s.scalar(c.Float("alpha", 0))
		share := s.cast(s.first(s.Scalar(dtype.F64, 1), s.Scalar(dtype.F64, c.Float("beta", 0))))
		sum := s.add(s.mul(alpha, x[2]), s.mul(share, x[1]))
		way := sum
		if mode == "nesterov" {
			way = s.add(x[1], s.mul(alpha, sum))
		}
		return []*ir.Value{s.sub(x[0], s.mul(s.cast(s.rate), way)), sum}
	})
}

// gradient differentiates y, a value of the graph, with respect to the inputs that xs names. Each input must be the
// graph's own value of its name in xs followed by zs.
func gradient(c *convert.Call) []*ir.Value {
	xs, zs := c.Strings("xs"), c.Strings("zs")
	if len(xs) == 0 || len(c.In) != len(xs)+len(zs) {
		c.Fault("%d inputs for %d names in xs and %d in zs", len(c.In), len(xs), len(zs))
	}
	if c.Scope.Outer != nil {
		c.Refuse("a derivative inside of a body or branch")
	}
	for i, name := range append(xs, zs...) {
		if v := c.Scope.Find(name); v == nil || v != c.Input(i) {
			c.Refuse("a derivative at another value of %q than the graph's own", name)
		}
	}
	y := c.Scope.Find(c.StringAttribute("y", ""))
	if y == nil {
		c.Fault("nothing computes %q before it", c.StringAttribute("y", ""))
	}
	return ops.Gradient(c.Builder, y, c.In[:len(xs)])
}
