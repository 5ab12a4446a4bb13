package torch

import (
	"hash/fnv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Random operators of files draw from Weir's generator. A node's seed is a hash of its name, so that every run of a
// model draws the same numbers, and different nodes draw different ones. They are not torch's numbers. Graphs alone,
// such as those of torch.compile, leave random operators to torch.

// chance has the names of the random operators.
var chance = map[string]bool{}

// init adds the rules of this file.
func init() {
	drawing := map[string]rule{
		"rand.default": uniform, "rand_like.default": uniform, "uniform.default": uniform,
		"randn.default": normal, "randn_like.default": normal, "normal_functional.default": normal,
		"randint.default": randomIntegers, "randint.low": randomIntegers, "randint_like.default": randomIntegers,
		"randint_like.low_dtype": randomIntegers,
		"randperm.default":       permutation, "bernoulli.default": bernoulli, "bernoulli.p": bernoulli,
		"multinomial.default": multinomial,
		"exponential.default": exponential,
	}
	for name, r := range drawing {
		chance["aten."+name] = true
		add(map[string]rule{"aten." + name: r})
	}
}

// Compiled returns the operators without randomness.
func Compiled() (list []string) {
	for _, name := range Operators() {
		if !chance[name] {
			list = append(list, name)
		}
	}
	return list
}

// seed returns the seed of a node's draws.
func (c *call) seed() uint32 {
	if c.program.record == nil {
		c.Fail(diag.Unsupportedf("random numbers in a graph alone, which torch draws"))
	}
	h := fnv.New32a()
	h.Write([]byte(c.Source))
	return h.Sum32()
}

// drawn returns the type and the shape of a node's draws: those of self if there is one, otherwise own and size; the
// argument dtype overrides the type.
func (c *call) drawn(own dtype.DType) (dtype.DType, []sym.Expr) {
	shape := c.syms("size")
	if c.has("self") {
		x := c.tensor("self")
		own, shape = x.Type.DType, x.Type.Shape
	}
	return c.dtype("dtype", own), shape
}

// drawnFloats returns the type and the shape that drawn returns; it refuses types that are not floats.
func (c *call) drawnFloats() (dtype.DType, []sym.Expr) {
	dt, shape := c.drawn(dtype.F32)
	if !dt.IsFloat() {
		c.Fail(diag.Inputf("random numbers of type %s", dt))
	}
	return dt, shape
}

// uniform is a rule for uniform numbers from from to to.
func uniform(c *call) []*ir.Value {
	dt, shape := c.drawnFloats()
	return one(ops.DrawUniform(c.Builder, c.seed(), dt, c.float("from", 0), c.float("to", 1), shape...))
}

// normal is a rule for normal numbers by mean and std.
func normal(c *call) []*ir.Value {
	dt, shape := c.drawnFloats()
	return one(ops.DrawNormal(c.Builder, c.seed(), dt, c.float("mean", 0), c.float("std", 1), shape...))
}

// exponential is a rule for −log(1 − u) / lambd, for uniform numbers u.
func exponential(c *call) []*ir.Value {
	dt, shape := c.drawnFloats()
	u := ops.DrawUniform(c.Builder, c.seed(), dtype.F64, 0, 1, shape...)
	y := c.binary(ops.Div, c.unary(ops.Log1p, c.unary(ops.Neg, u)), c.like(u, -c.float("lambd", 1)))
	return one(ops.Cast(c.Builder, y, dt))
}

// randomIntegers is a rule for integers of at least low and less than high.
func randomIntegers(c *call) []*ir.Value {
	dt, shape := c.drawn(dtype.I64)
	low, high := c.symOr("low", sym.Const(0)), c.sym("high")
	c.require(sym.Cond{A: low, Rel: sym.LT, B: high}, "there is a number to draw")
	bound := func(e sym.Expr) *ir.Value {
		return ops.Cast(c.Builder, ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e}), dtype.F64)
	}
	u := ops.DrawUniform(c.Builder, c.seed(), dtype.F64, 0, 1, shape...)
	y := c.unary(ops.Floor, c.binary(ops.Mul, u, bound(high.Sub(low))))
	return one(ops.Cast(c.Builder, c.binary(ops.Add, y, bound(low)), dt))
}

// permutation is a rule for a random permutation: the order of n random numbers.
func permutation(c *call) []*ir.Value {
	n := c.sym("n")
	u := ops.DrawUniform(c.Builder, c.seed(), dtype.F64, 0, 1, n)
	_, at := ops.TopK(c.Builder, u, n, 0, true)
	return one(ops.Cast(c.Builder, at, c.dtype("dtype", dtype.I64)))
}

// bernoulli is a rule for 1 with the probability p, or with the probabilities in self, and otherwise 0.
func bernoulli(c *call) []*ir.Value {
	x := c.tensor("self")
	p := x
	if c.has("p") {
		p = ops.Expand(c.Builder, ops.Scalar(c.Builder, dtype.F64, c.float("p", 0.5)), x.Type.Shape...)
	}
	if !p.Type.DType.IsFloat() {
		c.Fail(diag.Inputf("probabilities of type %s", p.Type.DType))
	}
	return one(ops.DrawBernoulli(c.Builder, c.seed(), x.Type.DType, p))
}

// multinomial is a rule that draws indices along the last axis by their weights. Without replacement it takes the
// greatest sums of the weights' logarithms and Gumbel noise.
func multinomial(c *call) []*ir.Value {
	x, count := c.tensor("self"), c.int("num_samples", 1)
	rank := len(x.Type.Shape)
	if rank < 1 || rank > 2 || !x.Type.DType.IsFloat() || count < 1 || count > mostIndices {
		c.Fail(diag.Inputf("%d draws by the weights %s", count, x.Type))
	}
	rows := ops.Reshape(c.Builder, c.widened(x), append([]sym.Expr{unit}, x.Type.Shape...)[rank-1:]...)
	logs := c.unary(ops.Log, rows)
	var at *ir.Value
	if c.bool("replacement", false) {
		at = ops.DrawClasses(c.Builder, c.seed(), dtype.I64, logs, count)
	} else {
		u := ops.DrawUniform(c.Builder, c.seed(), dtype.F64, 0, 1, rows.Type.Shape...)
		noise := c.unary(ops.Neg, c.unary(ops.Log, c.unary(ops.Neg, c.unary(ops.Log, u))))
		_, at = ops.TopK(c.Builder, c.binary(ops.Add, ops.Cast(c.Builder, logs, dtype.F64), noise), sym.Const(count), 1, true)
	}
	return one(ops.Reshape(c.Builder, at, append(append([]sym.Expr{}, x.Type.Shape[:rank-1]...), sym.Const(count))...))
}

// keepRandom returns x with each element kept with the probability 1 − p and divided by it, and the mask of the kept
// elements.
func (c *call) keepRandom(x *ir.Value, p float64) (y, mask *ir.Value) {
	if p < 0 || p > 1 || !x.Type.DType.IsFloat() {
		c.Fail(diag.Inputf("a dropout of %s with the probability %g", x.Type, p))
	}
	mask = ops.DrawKept(c.Builder, c.seed(), ops.Scalar(c.Builder, dtype.F64, p), x.Type.Shape...)
	return ops.Where(c.Builder, mask, c.binary(ops.Mul, x, c.like(x, 1/(1-p))), c.like(x, 0)), mask
}

// inPlaceDraws returns the operator that draws what an in-place operator without a counterpart draws; "" for other
// names.
func inPlaceDraws(name string) string {
	switch short := strings.TrimPrefix(name, "aten."); short {
	case "normal_.default":
		return "aten.normal_functional.default"
	case "bernoulli_.float":
		return "aten.bernoulli.p"
	}
	return ""
}
