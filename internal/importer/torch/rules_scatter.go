package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.scatter.src": scatter("none"), "aten.scatter.value": scatter("none"),
		"aten.scatter_add.default": scatter("sum"),
		"aten.scatter.reduce":      scatter(""), "aten.scatter.value_reduce": scatter(""),
		"aten.scatter_reduce.two": scatter(""),
	})
}

// scattering is an assignment of the values from to the indices at along an axis.
type scattering struct {
	c        *call
	at, from *ir.Value
	axis     int64
}

// put returns x with values combined with its elements; how is the reduction of ops.ScatterElements.
func (s *scattering) put(x, from *ir.Value, how string) *ir.Value {
	return ops.ScatterElements(s.c.Builder, x, s.at, from, s.axis, how)
}

// fill returns x with a constant at the indices.
func (s *scattering) fill(x *ir.Value, number float64) *ir.Value {
	return s.put(x, ops.Expand(s.c.Builder, s.c.like(x, number), s.at.Type.Shape...), "none")
}

// scatterings has the ways to combine values with the elements at their indices. If own is true, the old elements count
// too.
var scatterings = map[string]func(s *scattering, x *ir.Value, own bool) *ir.Value{
	"none": func(s *scattering, x *ir.Value, _ bool) *ir.Value { return s.put(x, s.from, "none") },
	"sum":  scatteredBy("add", 0),
	"prod": scatteredBy("mul", 1),
	"amax": scatteredOrder("max"),
	"amin": scatteredOrder("min"),
	"mean": scatteredMean,

	"add": scatteredBy("add", 0), "multiply": scatteredBy("mul", 1),
}

// scatteredBy combines by a function whose neutral element is neutral.
func scatteredBy(how string, neutral float64) func(s *scattering, x *ir.Value, own bool) *ir.Value {
	return func(s *scattering, x *ir.Value, own bool) *ir.Value {
		if !own {
			x = s.fill(x, neutral)
		}
		return s.put(x, s.from, how)
	}
}

// scatteredOrder takes the greatest or the least. If the old elements do not count, it first overwrites them with
// values.
func scatteredOrder(how string) func(s *scattering, x *ir.Value, own bool) *ir.Value {
	return func(s *scattering, x *ir.Value, own bool) *ir.Value {
		if !own {
			x = s.put(x, s.from, "none")
		}
		return s.put(x, s.from, how)
	}
}

// scatteredMean divides sums by the number of their terms; for integers it rounds down.
func scatteredMean(s *scattering, x *ir.Value, own bool) *ir.Value {
	c, ones := s.c, ops.Expand(s.c.Builder, s.c.like(x, 1), s.at.Type.Shape...)
	start := 0.0
	if own {
		start = 1
	}
	count := s.put(ops.Expand(c.Builder, c.like(x, start), x.Type.Shape...), ones, "add")
	count = c.binary(ops.Max, count, c.like(x, 1))
	total := scatteredBy("add", 0)(s, x, own)
	if x.Type.DType.IsInt() {
		return floorDivide(c, total, count)
	}
	return c.binary(ops.Div, total, count)
}

// scatteredTruths has the ways to combine bools, as the numbers 0 and 1.
var scatteredTruths = map[string]string{"sum": "amax", "add": "amax", "amax": "amax", "prod": "amin",
	"multiply": "amin", "amin": "amin"}

// scatter returns a rule for assignments along an axis. If how is empty, the argument reduce selects how values are
// combined.
func scatter(how string) rule {
	return func(c *call) []*ir.Value {
		how := how
		if how == "" {
			how = c.string("reduce", "")
		}
		f := scatterings[how]
		if f == nil {
			c.Fail(diag.Inputf("a reduction %q", how))
		}
		self := c.tensor("self")
		if c.isEmpty(c.tensor("index")) { // the indices may have another rank then
			return one(self)
		}
		x, at := c.withAxis(self), c.withAxis(c.positions("index"))
		s := &scattering{c: c, at: at, axis: int64(c.axis("dim", 0, len(self.Type.Shape)))}
		if c.has("src") {
			s.from = c.leading(ops.Cast(c.Builder, c.withAxis(c.tensor("src")), x.Type.DType), at.Type.Shape)
		} else {
			s.from = ops.Expand(c.Builder, c.number("value", x.Type.DType), at.Type.Shape...)
		}
		own := c.bool("include_self", true)
		if how == "none" || x.Type.DType != dtype.Bool {
			return one(ops.Reshape(c.Builder, f(s, x, own), self.Type.Shape...))
		}
		if f = scatterings[scatteredTruths[how]]; f == nil {
			c.Fail(diag.Inputf("the reduction %q of truth values", how))
		}
		s.from = ops.Cast(c.Builder, s.from, dtype.U8)
		y := c.asNumbers(x, func(x *ir.Value) *ir.Value { return f(s, x, own) })
		return one(ops.Reshape(c.Builder, y, self.Type.Shape...))
	}
}

// leading returns the leading elements of x along each axis, in the given shape.
func (c *call) leading(x *ir.Value, shape []sym.Expr) *ir.Value {
	if len(x.Type.Shape) != len(shape) {
		c.Fail(diag.Inputf("values %s for indices of rank %d", x.Type, len(shape)))
	}
	begin, step := make([]sym.Expr, len(shape)), make([]int64, len(shape))
	for i := range begin {
		begin[i], step[i] = sym.Const(0), 1
		c.require(sym.Cond{A: shape[i], Rel: sym.LE, B: x.Type.Shape[i]}, "there is a value for each index")
	}
	return ops.Slice(c.Builder, x, begin, shape, step)
}
