package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Reductions recognises reductions along axes that a model spells out: Softmax and its logarithm, LogSumExp, the mean
// and norms, and normalisation to mean 0 and variance 1, or to mean square 1, which layer, group, instance and RMS
// normalisation share. Their scale and shift stay nodes of their own.
func Reductions(m *ir.Module) error { return apply(m, reductions) }

var reductions = []rule{
	{"mean by sum", []string{"div", "mul"}, found(product(let("share"), reduction("sum", "reduce_sum", the("x"))),
		func(b *ir.Builder, m *match) *ir.Value {
			sum := m.value("sum").Node
			if count, ok := extents(sum).Const(); ok && count > 1 && near(sum.Outputs[0].Type.DType,
				m.number("share")*float64(count), 1) {
				return b.Op("reduce_mean", sum.Attrs, m.value("x"))
			}
			return nil
		})},
	{"reduce_sum_square", []string{"reduce_sum"}, found(reduction("sum", "reduce_sum", square(the("x"))),
		likewise("reduce_sum_square"))},
	{"reduce_l2", []string{"sqrt", "pow"}, found(root(reduction("sum", "reduce_sum_square", the("x"))),
		likewise("reduce_l2"))},
	{"softmax", []string{"div", "mul"},
		found(quotient(as("e", op("exp", shifted)), reduction("sum", "reduce_sum", the("e"))),
			func(b *ir.Builder, m *match) *ir.Value {
				if axis, ok := m.axis(); ok {
					return ops.Softmax(b, m.value("x"), axis)
				}
				return nil
			})},
	{"log_softmax", []string{"log"}, found(op("log", as("y", op("softmax", the("x")))),
		func(b *ir.Builder, m *match) *ir.Value {
			return b.Op("log_softmax", m.value("y").Node.Attrs, m.value("x"))
		})},
	{"reduce_log_sum_exp", []string{"log"}, found(op("log", reduction("sum", "reduce_sum", op("exp", the("x")))),
		likewise("reduce_log_sum_exp"))},
	{"reduce_log_sum_exp of the rest", []string{"add"},
		found(both("add", reduction("sum", "reduce_log_sum_exp",
			op("sub", the("x"), reduction("top", "reduce_max", the("x")))), the("top")),
			func(b *ir.Builder, m *match) *ir.Value {
				if !m.sameAxes("sum", "top") {
					return nil
				}
				return likewise("reduce_log_sum_exp")(b, m)
			})},
	{"log_softmax by log_sum_exp", []string{"sub"},
		found(op("sub", the("y"), reduction("sum", "reduce_log_sum_exp", the("y"))), func(b *ir.Builder, m *match) *ir.Value {
			axis, ok := m.axis()
			if !ok {
				return nil
			}
			x := m.value("y")
			if d := producer(x, "sub"); d != nil { // log_softmax subtracts the greatest element itself
				if top := producer(d.Inputs[1], "reduce_max"); top != nil && top.Inputs[0] == d.Inputs[0] &&
					slices.Equal(axesOf(top), axesOf(m.value("sum").Node)) {
					x = d.Inputs[0]
				}
			}
			return ops.LogSoftmax(b, x, axis)
		})},
	{"normalize", []string{"div", "mul"},
		found(byRoot(centred("d"), sum(let("epsilon"), reduction("variance", "reduce_mean", square(the("d"))))),
			normalized(true))},
	{"normalize by variance", []string{"div", "mul"},
		found(byRoot(centred("d"), sum(let("epsilon"), reduction("variance", "reduce_mean", square(centred("other"))))),
			normalized(true))},
	{"normalize by factors", []string{"add"},
		found(both("add", both("mul", the("x"), factor), op("sub", the("shift"), both("mul", the("d mean"), factor))),
			func(b *ir.Builder, m *match) *ir.Value {
				y := normalized(true)(b, m)
				if y == nil {
					return nil
				}
				return ops.Binary(b, ops.Add, ops.Binary(b, ops.Mul, y, m.value("scale")), m.value("shift"))
			})},
	{"normalize without centre", []string{"div", "mul"},
		found(byRoot(the("x"), sum(let("epsilon"), reduction("variance", "reduce_mean", square(the("x"))))),
			normalized(false))},
}

// factor matches a scale divided by the standard deviation of x. TensorFlow's exporter multiplies x and its mean by it
// separately.
var factor = as("factor", both("mul", either(inverse(root(deviation)), op("pow", deviation, constant(is(-0.5)))),
	the("scale")))

// deviation matches the variance of x plus a small number.
var deviation = sum(let("epsilon"), reduction("variance", "reduce_mean", square(centred("d"))))

// shifted matches x, or x less its greatest element along axes.
var shifted = either(op("sub", the("x"), reduction("top", "reduce_max", the("x"))), the("x"))

// reduction matches a reduction of p along known axes, and binds name to it.
func reduction(name, operator string, p pattern) pattern {
	return as(name, where(op(operator, p), func(_ *match, v *ir.Value) bool { return v.Node.Attrs["axes"] != nil }))
}

// centred matches x less its mean along axes, and binds name to the difference.
func centred(name string) pattern {
	return as(name, op("sub", the("x"), reduction(name+" mean", "reduce_mean", the("x"))))
}

// square matches p · p and p².
func square(p pattern) pattern { return either(op("mul", p, p), op("pow", p, constant(is(2)))) }

// root matches √p.
func root(p pattern) pattern { return either(op("sqrt", p), op("pow", p, constant(is(0.5)))) }

// quotient matches x / y and x · (1 / y).
func quotient(x, y pattern) pattern {
	return either(op("div", x, y), both("mul", x, inverse(y)))
}

// byRoot matches x / √p.
func byRoot(x, p pattern) pattern {
	return either(quotient(x, root(p)), both("mul", x, op("pow", p, constant(is(-0.5)))))
}

// likewise builds a reduction of x by another operator, with the attributes of the reduction that is called sum.
func likewise(operator string) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value {
		return b.Op(operator, m.value("sum").Node.Attrs, m.value("x"))
	}
}

// axesOf returns the axes in a reduction's attribute, from 0 on and ascending.
func axesOf(n *ir.Node) []int64 {
	rank := int64(len(n.Inputs[0].Type.Shape))
	axes := slices.Clone(n.Attrs.Ints("axes"))
	for i, a := range axes {
		if a < 0 {
			axes[i] += rank
		}
	}
	slices.Sort(axes)
	return axes
}

// extents returns the number of elements that a reduction combines into one.
func extents(n *ir.Node) sym.Expr {
	count := sym.Const(1)
	for _, a := range axesOf(n) {
		count = count.Mul(n.Inputs[0].Type.Shape[a])
	}
	return count
}

// sameAxes reports whether two reductions are along the same axes, and keep them.
func (m *match) sameAxes(x, y string) bool {
	a, b := m.value(x), m.value(y)
	return a != nil && b != nil && a.Node.Attrs.Bool("keep") && b.Node.Attrs.Bool("keep") &&
		slices.Equal(axesOf(a.Node), axesOf(b.Node))
}

// axis returns the single axis that the reduction called sum, and the one called top if there is one, reduces and
// keeps.
func (m *match) axis() (int64, bool) {
	n := m.value("sum").Node
	if len(axesOf(n)) != 1 || !n.Attrs.Bool("keep") || m.value("top") != nil && !m.sameAxes("sum", "top") {
		return 0, false
	}
	return axesOf(n)[0], true
}

// normalized builds a normalisation; nil if its reductions are along different axes.
func normalized(centred bool) func(*ir.Builder, *match) *ir.Value {
	return func(b *ir.Builder, m *match) *ir.Value {
		variance := m.value("variance").Node
		for _, mean := range []string{"d mean", "other mean"} {
			if m.value(mean) != nil && !m.sameAxes("variance", mean) {
				return nil
			}
		}
		if epsilon := m.number("epsilon"); variance.Attrs.Bool("keep") && epsilon >= 0 && len(axesOf(variance)) > 0 {
			return ops.Normalize(b, m.value("x"), epsilon, centred, axesOf(variance)...)
		}
		return nil
	}
}
