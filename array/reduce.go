package array

import (
	"math"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// reduction combines a value's elements along axes; if keep is true, the axes stay with extent 1.
type reduction func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value

// reduce applies a reduction along axes, all of them if none is given; negative axes count from the last.
func (s *Scope) reduce(name string, x *Array, keep bool, axes []int, build reduction, kind ...int) *Array {
	return s.reduceBy(name, x, keep, axes, settings{}, func([]number) reduction { return build }, kind...)
}

// reduceBy is reduce for a reduction with settings.
func (s *Scope) reduceBy(name string, x *Array, keep bool, axes []int, o settings,
	build func(numbers []number) reduction, kind ...int) *Array {
	return s.planSet(name, []*Array{x}, func() (operation, setBuilder, error) {
		list, err := axesOf(x, axes)
		if err != nil {
			return operation{}, nil, err
		}
		ints := append([]int{flag(keep)}, kind...)
		for _, a := range list {
			ints = append(ints, int(a))
		}
		return operation{ints: ints, settings: o}, func(b *ir.Builder, v []*ir.Value, _ []sym.Expr,
			numbers []number) *ir.Value {
			return build(numbers)(b, v[0], keep, list...)
		}, nil
	})
}

// axesOf returns axes as numbers from 0 on, in ascending order; all of x's axes if none is given.
func axesOf(x *Array, axes []int) ([]int64, error) {
	if x == nil {
		return nil, diag.Inputf("an array is nil")
	}
	var out []int64
	if len(axes) == 0 {
		for i := range x.shape {
			out = append(out, int64(i))
		}
	}
	for _, a := range axes {
		i, err := axisOf(x, a)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, i) {
			return nil, diag.Inputf("axis %d of %v is named twice", a, x)
		}
		out = append(out, i)
	}
	slices.Sort(out)
	return out, nil
}

// axisOf returns one of x's axes as a number from 0 on.
func axisOf(x *Array, axis int) (int64, error) { return axisAmong(x, axis, len(x.shape)) }

// axisAmong returns an axis of a rank as a number from 0 on.
func axisAmong(x *Array, axis, rank int) (int64, error) {
	i := axis
	if i < 0 {
		i += rank
	}
	if i < 0 || i >= rank {
		return 0, diag.Inputf("axis %d of %v, for %d axes", axis, x, rank)
	}
	return int64(i), nil
}

// total returns a reduction of integers in the widest type of their sign.
func total(name string) reduction {
	return func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		return ops.Reduce(b, name, ops.Cast(b, v, totalType(v.Type.DType)), keep, axes...)
	}
}

// named returns the reduction of package ops with a name; elements keep their type.
func named(name string) reduction {
	return func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		return ops.Reduce(b, name, v, keep, axes...)
	}
}

// ofFloats returns a reduction of floats: integers and bools become f32 first.
func ofFloats(f reduction) reduction {
	return func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		return f(b, asFloat(b, v), keep, axes...)
	}
}

// Each of these reductions combines the elements along axes, all of them if none is given, and removes the axes. Its
// variant with Keep in its name keeps them, with extent 1. A negative axis counts from the last.

// Sum is the sum; integers and bools are added as i64, unsigned integers as u64.
func (s *Scope) Sum(x *Array, axes ...int) *Array {
	return s.reduce("sum", x, false, axes, total("reduce_sum"))
}

// SumKeep is Sum with the axes kept.
func (s *Scope) SumKeep(x *Array, axes ...int) *Array {
	return s.reduce("sum", x, true, axes, total("reduce_sum"))
}

// Prod is the product; integers and bools are multiplied as i64, unsigned integers as u64.
func (s *Scope) Prod(x *Array, axes ...int) *Array {
	return s.reduce("prod", x, false, axes, total("reduce_prod"))
}

// ProdKeep is Prod with the axes kept.
func (s *Scope) ProdKeep(x *Array, axes ...int) *Array {
	return s.reduce("prod", x, true, axes, total("reduce_prod"))
}

// Mean is the mean, as f32 for integers; the mean of no elements is NaN.
func (s *Scope) Mean(x *Array, axes ...int) *Array {
	return s.reduce("mean", x, false, axes, ofFloats(ops.ReduceMean))
}

// MeanKeep is Mean with the axes kept.
func (s *Scope) MeanKeep(x *Array, axes ...int) *Array {
	return s.reduce("mean", x, true, axes, ofFloats(ops.ReduceMean))
}

// Max is the greatest element; NaN if an element is NaN. Of no elements it is the least value of the type.
func (s *Scope) Max(x *Array, axes ...int) *Array {
	return s.reduce("max", x, false, axes, ops.ReduceMax)
}

// MaxKeep is Max with the axes kept.
func (s *Scope) MaxKeep(x *Array, axes ...int) *Array {
	return s.reduce("max", x, true, axes, ops.ReduceMax)
}

// Min is the least element; NaN if an element is NaN. Of no elements it is the greatest value of the type.
func (s *Scope) Min(x *Array, axes ...int) *Array {
	return s.reduce("min", x, false, axes, named("reduce_min"))
}

// MinKeep is Min with the axes kept.
func (s *Scope) MinKeep(x *Array, axes ...int) *Array {
	return s.reduce("min", x, true, axes, named("reduce_min"))
}

// Any tells whether an element is true; a number is true unless it is 0.
func (s *Scope) Any(x *Array, axes ...int) *Array {
	return s.reduce("any", x, false, axes, truth("reduce_max"))
}

// AnyKeep is Any with the axes kept.
func (s *Scope) AnyKeep(x *Array, axes ...int) *Array {
	return s.reduce("any", x, true, axes, truth("reduce_max"))
}

// All tells whether all elements are true; a number is true unless it is 0.
func (s *Scope) All(x *Array, axes ...int) *Array {
	return s.reduce("all", x, false, axes, truth("reduce_min"))
}

// AllKeep is All with the axes kept.
func (s *Scope) AllKeep(x *Array, axes ...int) *Array {
	return s.reduce("all", x, true, axes, truth("reduce_min"))
}

// truth returns a reduction of bools; numbers are compared with 0.
func truth(name string) reduction {
	return func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		return ops.Reduce(b, name, asBool(b, v), keep, axes...)
	}
}

// CountNonzero is the number of elements that are true, or not 0, as i64.
func (s *Scope) CountNonzero(x *Array, axes ...int) *Array {
	return s.reduce("count_nonzero", x, false, axes, func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		return ops.ReduceSum(b, ops.Cast(b, asBool(b, v), weir.I64), keep, axes...)
	})
}

// Var is the variance: the mean of the squared differences from the mean; as f32 for integers.
func (s *Scope) Var(x *Array, axes ...int) *Array { return s.VarCorrected(x, 0, axes...) }

// VarKeep is Var with the axes kept.
func (s *Scope) VarKeep(x *Array, axes ...int) *Array {
	return s.reduce("var", x, true, axes, ofFloats(variance(number{}, false)), 0, 0)
}

// VarCorrected is Var with the sum of squares divided by the number of elements minus correction. A correction of 1
// estimates the variance of the distribution that the elements come from.
func (s *Scope) VarCorrected(x *Array, correction int, axes ...int) *Array {
	return s.corrected(x, correction, false, axes)
}

// Std is the square root of Var.
func (s *Scope) Std(x *Array, axes ...int) *Array { return s.StdCorrected(x, 0, axes...) }

// StdKeep is Std with the axes kept.
func (s *Scope) StdKeep(x *Array, axes ...int) *Array {
	return s.reduce("var", x, true, axes, ofFloats(variance(number{}, true)), 0, 1)
}

// StdCorrected is the square root of VarCorrected.
func (s *Scope) StdCorrected(x *Array, correction int, axes ...int) *Array {
	return s.corrected(x, correction, true, axes)
}

// corrected is VarCorrected, or its square root.
func (s *Scope) corrected(x *Array, correction int, root bool, axes []int) *Array {
	if correction == 0 {
		return s.reduce("var", x, false, axes, ofFloats(variance(number{}, root)), 0, flag(root))
	}
	return s.reduceBy("var_corrected", x, false, axes, told(float64(correction)), func(numbers []number) reduction {
		return ofFloats(variance(numbers[0], root))
	}, flag(root))
}

// variance returns the reduction of Var, or of Std if root is true, computed in f32 or a wider type.
func variance(correction number, root bool) reduction {
	return func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		return inWide(b, v, func(v *ir.Value) *ir.Value {
			c := calc{b}
			far := c.sub(v, ops.ReduceMean(b, v, true, axes...))
			y := ops.ReduceMean(b, c.mul(far, far), keep, axes...)
			if !correction.fixed() || correction.x != 0 {
				count := elements(b, v, axes)
				left := c.g(ops.Max, c.sub(count, correction.like(b, v)), numeral(b, v, 0))
				y = c.div(c.mul(y, count), left)
			}
			if root {
				y = c.safely(y, func(x *ir.Value) *ir.Value { return c.f(ops.Sqrt, x) })
			}
			return y
		})
	}
}

// safely applies a root, or another function that is 0 at 0, with derivative 0 at 0 in place of infinity. The
// derivative is multiplied by another that is 0 too, such as a variance's, and the product would be NaN.
func (c calc) safely(x *ir.Value, f func(x *ir.Value) *ir.Value) *ir.Value {
	zero := c.g(ops.Eq, x, numeral(c.b, x, 0))
	return c.where(zero, numeral(c.b, x, 0), f(c.where(zero, numeral(c.b, x, 1), x)))
}

// elements returns the number of elements of v along axes, in v's type.
func elements(b *ir.Builder, v *ir.Value, axes []int64) *ir.Value {
	count := sym.Const(1)
	for _, axis := range axes {
		count = count.Mul(v.Type.Shape[axis])
	}
	return ops.Cast(b, ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{count}), v.Type.DType)
}

// LogSumExp is log(Σ exp(x)) without overflow.
func (s *Scope) LogSumExp(x *Array, axes ...int) *Array {
	return s.reduce("logsumexp", x, false, axes, ofFloats(ops.ReduceLogSumExp))
}

// LogSumExpKeep is LogSumExp with the axes kept.
func (s *Scope) LogSumExpKeep(x *Array, axes ...int) *Array {
	return s.reduce("logsumexp", x, true, axes, ofFloats(ops.ReduceLogSumExp))
}

// Norm is the p-norm of the elements, (Σ |x|ᵖ)^(1/p). For p = 0 it is the number of elements that are not 0, for p = ∞
// the greatest magnitude, for p = −∞ the least.
func (s *Scope) Norm(x *Array, p float64, axes ...int) *Array {
	return s.norm(x, p, false, axes)
}

// NormKeep is Norm with the axes kept.
func (s *Scope) NormKeep(x *Array, p float64, axes ...int) *Array {
	return s.norm(x, p, true, axes)
}

// norm is Norm. A p with its own formula is part of the code.
func (s *Scope) norm(x *Array, p float64, keep bool, axes []int) *Array {
	if p == 0 || p == 1 || p == 2 || math.IsInf(p, 0) {
		return s.reduce("norm", x, keep, axes, ofFloats(norm(p < 0, number{x: p})), bits(p)...)
	}
	return s.reduceBy("norm_of", x, keep, axes, told(p, 1/p), func(numbers []number) reduction {
		return ofFloats(norm(p < 0, numbers...))
	}, flag(p < 0))
}

// norm returns the reduction of the p-norm; numbers are p and, if p has no formula of its own, 1/p.
func norm(negative bool, numbers ...number) reduction {
	p := numbers[0].x
	if !numbers[0].fixed() {
		p = math.NaN()
	}
	return func(b *ir.Builder, v *ir.Value, keep bool, axes ...int64) *ir.Value {
		c := calc{b}
		switch {
		case math.IsInf(p, 1):
			return ops.ReduceMax(b, c.f(ops.Abs, v), keep, axes...)
		case math.IsInf(p, -1):
			return ops.Reduce(b, "reduce_min", c.f(ops.Abs, v), keep, axes...)
		case p == 0:
			return ops.ReduceSum(b, ops.Cast(b, asBool(b, v), v.Type.DType), keep, axes...)
		case p == 1:
			return ops.Reduce(b, "reduce_l1", v, keep, axes...)
		case p == 2:
			return ops.Reduce(b, "reduce_l2", v, keep, axes...)
		}
		return inWide(b, v, func(v *ir.Value) *ir.Value {
			power := func(x *ir.Value, i int) *ir.Value { return c.g(ops.Pow, x, numbers[i].like(b, v)) }
			if negative {
				return power(ops.ReduceSum(b, power(c.f(ops.Abs, v), 0), keep, axes...), 1)
			}
			powers := c.safely(c.f(ops.Abs, v), func(x *ir.Value) *ir.Value { return power(x, 0) })
			return c.safely(ops.ReduceSum(b, powers, keep, axes...), func(x *ir.Value) *ir.Value { return power(x, 1) })
		})
	}
}

// CumSum replaces each element by the sum of it and all before it along an axis; the types are as for Sum.
func (s *Scope) CumSum(x *Array, axis int) *Array {
	return s.along("cumsum", x, axis, func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value {
		return ops.CumSum(b, ops.Cast(b, v, totalType(v.Type.DType)), axis, false, false)
	})
}

// CumProd replaces each element by the product of it and all before it along an axis; the types are as for Prod.
func (s *Scope) CumProd(x *Array, axis int) *Array {
	return s.along("cumprod", x, axis, func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value {
		return ops.CumProd(b, ops.Cast(b, v, totalType(v.Type.DType)), axis, false, false)
	})
}

// Softmax divides the exponentials along an axis by their sum.
func (s *Scope) Softmax(x *Array, axis int) *Array {
	return s.along("softmax", x, axis, func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value {
		return ops.Softmax(b, asFloat(b, v), axis)
	})
}

// LogSoftmax is the logarithm of Softmax.
func (s *Scope) LogSoftmax(x *Array, axis int) *Array {
	return s.along("log_softmax", x, axis, func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value {
		return ops.LogSoftmax(b, asFloat(b, v), axis)
	})
}

// along applies an operation with one axis.
func (s *Scope) along(name string, x *Array, axis int,
	build func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value) *Array {
	return s.plan(name, []*Array{x}, func() ([]int, builder, error) {
		i, err := axisOf(x, axis)
		return []int{int(i)}, func(b *ir.Builder, v []*ir.Value) *ir.Value { return build(b, v[0], i) }, err
	})
}
