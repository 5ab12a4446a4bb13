package array_test

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// tensorOf returns a tensor of numbers, rounded to its type.
func tensorOf(dt weir.DType, numbers []float64, shape ...int) *tensor.Tensor {
	sizes := make([]int64, len(shape))
	for i, e := range shape {
		sizes[i] = int64(e)
	}
	t := tensor.Must(tensor.New(dt, sizes...))
	for i, x := range numbers {
		switch {
		case dt.IsFloat():
			t.SetFloat(int64(i), x)
		case math.IsInf(x, 1):
			t.SetInt(int64(i), int64(dt.MaxInt()))
		case math.IsInf(x, -1):
			t.SetInt(int64(i), dt.MinInt())
		case x < 0 && dt.IsUnsigned():
			t.SetInt(int64(i), int64(-x))
		default:
			t.SetInt(int64(i), int64(x))
		}
	}
	return t
}

// extremes are floats for which the array API has special cases; for integers, the infinities stand for the least and
// the greatest.
var extremes = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 1.5, 2, -2,
	3, -3, 7, -7, 6e4, -6e4, 6e-5, -6e-5}

// integerExtremes are integers; the infinities stand for the least and the greatest.
var integerExtremes = []float64{0, 1, -1, 2, -2, 3, -3, 7, -7, 10, math.Inf(1), math.Inf(-1)}

func shapeOf(list []float64) []int { return []int{len(list)} }

// each returns an entry of a function of one array, of extreme floats.
func each(expr string, f func(s scope, x arr) arr, e float64) entry {
	return entry{expr: expr, f: unary(f), types: "float", shape: [][]int{shapeOf(extremes)},
		data: func(weir.DType, int) []float64 {
			return extremes
		}, signed: true, error: e}
}

// pair returns an entry of a function of two arrays, of all pairs of numbers.
func pair(expr, types string, list []float64, f func(s scope, x, y arr) arr, e float64) entry {
	n := len(list)
	return entry{expr: expr, f: binary(f), types: types, shape: [][]int{{n, 1}, {1, n}},
		data: func(weir.DType, int) []float64 {
			return list
		}, signed: true, error: e}
}

// of returns an entry of a function of an array of numbers with a shape.
func of(expr, types string, list []float64, f func(s scope, x arr) arr, shape ...int) entry {
	return entry{expr: expr, f: unary(f), types: types, shape: [][]int{shape}, data: func(weir.DType, int) []float64 {
		return list
	}, signed: true}
}

var (
	nan   = math.NaN()
	inf   = math.Inf(1)
	minus = math.Copysign(0, -1)
)

// specials are the special cases of the array API's standard that NumPy follows.
var specials = []entry{
	each("np.abs(x)", scope.Abs, 0), each("-x", scope.Neg, 0), each("np.sign(x)", scope.Sign, 0),
	each("np.square(x)", scope.Square, 0),
	each("np.floor(x)", scope.Floor, 0), each("np.ceil(x)", scope.Ceil, 0), each("np.round(x)", scope.Round, 0),
	each("np.trunc(x)", scope.Trunc, 0),
	each("np.sqrt(wide(x))", scope.Sqrt, 0), each("np.exp(wide(x))", scope.Exp, 1e-6),
	each("np.expm1(wide(x))", scope.Expm1, 1e-6),
	each("np.log(wide(x))", scope.Log, 1e-6), each("np.log1p(wide(x))", scope.Log1p, 1e-6),
	each("np.log2(wide(x))", scope.Log2, 1e-6), each("np.log10(wide(x))", scope.Log10, 1e-6),
	each("np.sinh(wide(x))", scope.Sinh, 1e-5), each("np.cosh(wide(x))", scope.Cosh, 1e-5),
	each("np.tanh(wide(x))", scope.Tanh, 1e-6),
	each("np.arcsin(wide(x))", scope.Asin, 1e-6), each("np.arccos(wide(x))", scope.Acos, 1e-6),
	each("np.arctan(wide(x))", scope.Atan, 1e-6),
	each("np.arcsinh(wide(x))", scope.Asinh, 1e-6), each("np.arccosh(wide(x))", scope.Acosh, 1e-6),
	each("np.arctanh(wide(x))", scope.Atanh, 1e-6),
	each("1/wide(x)", scope.Reciprocal, 0), each("np.isnan(x)", scope.IsNaN, 0), each("np.isinf(x)", scope.IsInf, 0),
	each("np.isfinite(x)", scope.IsFinite, 0),
	each("np.signbit(x)", scope.SignBit, 0), each("np.logical_not(x)", scope.LogicalNot, 0),
	of("np.sin(wide(x))", "f32", []float64{nan, inf, -inf, 0, minus}, scope.Sin, 5),
	of("np.cos(wide(x))", "f32", []float64{nan, inf, -inf, 0, minus}, scope.Cos, 5),
	of("np.tan(wide(x))", "f32", []float64{nan, inf, -inf, 0, minus}, scope.Tan, 5),

	pair("x+y", "float", extremes, scope.Add, 0), pair("x-y", "float", extremes, scope.Sub, 0),
	pair("x*y", "float", extremes, scope.Mul, 0), pair("x/y", "float", extremes, scope.Div, 0),
	pair("np.floor_divide(x,y)", "float", extremes, scope.FloorDivide, 0),
	pair("np.remainder(x,y)", "float", extremes, scope.Remainder, 0),
	pair("np.maximum(x,y)", "float", extremes, scope.Maximum, 0),
	pair("np.minimum(x,y)", "float", extremes, scope.Minimum, 0),
	pair("np.power(wide(x),wide(y))", "float", extremes, scope.Pow, 1e-5),
	pair("np.arctan2(wide(x),wide(y))", "float", extremes, scope.Atan2, 1e-6),
	pair("np.hypot(wide(x),wide(y))", "float", extremes, scope.Hypot, 1e-6),
	pair("np.copysign(x,y)", "float", extremes, scope.CopySign, 0),
	pair("np.nextafter(x,y)", "float", extremes, scope.NextAfter, 0),
	pair("np.logaddexp(wide(x),wide(y))", "float", extremes, scope.LogAddExp, 1e-6),
	pair("x==y", "float", extremes, scope.Equal, 0), pair("x<y", "float", extremes, scope.Less, 0),
	pair("x>=y", "float", extremes, scope.GreaterEqual, 0),
	pair("np.logical_xor(x,y)", "float", extremes, scope.LogicalXor, 0),
	pair("np.floor_divide(x,y)", "int", integerExtremes, scope.FloorDivide, 0),
	pair("np.remainder(x,y)", "int", integerExtremes, scope.Remainder, 0),
	pair("x+y", "int", integerExtremes, scope.Add, 0), pair("x*y", "int", integerExtremes, scope.Mul, 0),
	pair("x-y", "int", integerExtremes, scope.Sub, 0),
	pair("np.power(x,np.abs(y)%64)", "int", integerExtremes, func(s scope, x, y arr) arr {
		return s.Pow(x, s.Remainder(s.Abs(y), s.Number(64)))
	}, 0),
	pair("x<<(abs(y)%90).astype(x.dtype)", "int", []float64{0, 1, -1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 70, inf, -inf},
		func(s scope, x, y arr) arr {
			return s.ShiftLeft(x, s.Remainder(s.Abs(y), s.Number(90)))
		}, 0),
	pair("x>>(abs(y)%90).astype(x.dtype)", "int", []float64{0, 1, -1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 70, inf, -inf},
		func(s scope, x, y arr) arr {
			return s.ShiftRight(x, s.Remainder(s.Abs(y), s.Number(90)))
		}, 0),
	pair("x==y", "int", integerExtremes, scope.Equal, 0), pair("x<y", "int", integerExtremes, scope.Less, 0),
	pair("x>=y", "int", integerExtremes, scope.GreaterEqual, 0),
	pair("np.maximum(x,y)", "int", integerExtremes, scope.Maximum, 0),
	pair("np.minimum(x,y)", "int", integerExtremes, scope.Minimum, 0),
	of("np.abs(x)", "int", integerExtremes, scope.Abs, 12), of("-x", "int", integerExtremes, scope.Neg, 12),
	of("np.sign(x)", "int", integerExtremes, scope.Sign, 12),
	of("~x", "int", integerExtremes, scope.BitwiseInvert, 12),
	of("np.square(x)", "int", integerExtremes, scope.Square, 12),

	of("np.sum(x,axis=0)", "any", nil, func(s scope, x arr) arr {
		return s.Sum(x, 0)
	}, 0, 3), of("np.prod(x)", "any", nil, func(s scope, x arr) arr { return s.Prod(x) }, 0),
	of("np.mean(wide(x),axis=1)", "float", nil, func(s scope, x arr) arr {
		return s.Mean(x, 1)
	}, 2, 0), of("np.var(wide(x),axis=0)", "float", nil, func(s scope, x arr) arr { return s.Var(x, 0) }, 0, 2),
	of("np.max(x,axis=1)", "number", nil, func(s scope, x arr) arr {
		return s.Max(x, 1)
	}, 2, 0), of("np.min(x)", "number", nil, func(s scope, x arr) arr { return s.Min(x) }, 0),
	of("np.max(x,axis=0)", "number", nil, func(s scope, x arr) arr {
		return s.Max(x, 0)
	}, 2, 0), of("np.argmax(x,axis=1)", "number", nil, func(s scope, x arr) arr { return s.ArgMax(x, 1) }, 2, 0),
	of("np.cumsum(x,axis=1)", "any", nil, func(s scope, x arr) arr {
		return s.CumSum(x, 1)
	}, 2, 0), of("np.cumprod(x,axis=0)", "any", nil, func(s scope, x arr) arr { return s.CumProd(x, 0) }, 0, 2),
	of("np.sort(x,axis=0)", "any", nil, func(s scope, x arr) arr {
		return s.Sort(x, 0)
	}, 0, 2), of("np.argsort(x,axis=1,kind='stable')", "any", nil, func(s scope, x arr) arr {
		return s.ArgSort(x, 1)
	}, 2, 0),
	of("np.unique(x)", "any", nil, scope.UniqueValues, 0), of("np.nonzero(x)[0]", "any", nil, func(s scope, x arr) arr {
		return s.Nonzero(x)[0]
	}, 0, 3),
	of("np.sum(x,axis=1)", "float", []float64{nan, 1, 2, inf, -inf, 3, inf, 1, 2, minus, minus, minus},
		func(s scope, x arr) arr {
			return s.Sum(x, 1)
		}, 4, 3),
	of("np.prod(x,axis=1)", "float", []float64{nan, 1, 2, inf, 0, 3, inf, -1, 2, minus, 1, 1}, func(s scope, x arr) arr {
		return s.Prod(x, 1)
	}, 4, 3),
	of("np.max(x,axis=1)", "float", []float64{nan, 1, 2, inf, 0, 3, -inf, -1, nan, -inf, -inf, -inf},
		func(s scope, x arr) arr {
			return s.Max(x, 1)
		}, 4, 3),
	of("np.min(x,axis=1)", "float", []float64{nan, 1, 2, inf, 0, 3, -inf, -1, nan, inf, inf, inf},
		func(s scope, x arr) arr {
			return s.Min(x, 1)
		}, 4, 3),
	of("np.mean(wide(x),axis=1)", "float", []float64{nan, 1, 2, inf, 0, 3, -inf, inf, 1, 1, 2, 3},
		func(s scope, x arr) arr {
			return s.Mean(x, 1)
		}, 4, 3),
	of("np.argmax(x,axis=1)", "float", []float64{1, nan, nan, inf, inf, 3, minus, 0, minus, -inf, -inf, -inf},
		func(s scope, x arr) arr {
			return s.ArgMax(x, 1)
		}, 4, 3),
	of("np.argmin(x,axis=1)", "float", []float64{1, nan, nan, -inf, -inf, 3, 0, minus, 0, inf, inf, inf},
		func(s scope, x arr) arr {
			return s.ArgMin(x, 1)
		}, 4, 3),
	of("np.argmax(x)", "int", []float64{3, 7, 7, 1, 7}, func(s scope, x arr) arr { return s.ArgMax(x, 0) }, 5),
	of("np.cumsum(x)", "float", []float64{1, inf, -inf, 2, nan, 3}, func(s scope, x arr) arr { return s.CumSum(x, 0) }, 6),
	of("np.sort(x)", "float", []float64{nan, 3, minus, inf, -inf, 0, nan, -1, 3}, func(s scope, x arr) arr {
		return s.Sort(x, 0)
	}, 9),
	of("np.argsort(x,kind='stable')", "float", []float64{nan, 3, minus, inf, -inf, 0, nan, -1, 3},
		func(s scope, x arr) arr {
			return s.ArgSort(x, 0)
		}, 9),
	of("np.argsort(x,kind='stable')", "int", []float64{3, 1, 3, 1, 2, 2, 3, 1, inf, -inf, inf}, func(s scope, x arr) arr {
		return s.ArgSort(x, 0)
	}, 11),
	of("np.any(x)", "float", []float64{0, minus, nan}, func(s scope, x arr) arr {
		return s.Any(x)
	}, 3), of("np.all(x)", "float", []float64{nan, inf, 1}, func(s scope, x arr) arr { return s.All(x) }, 3),
	of("np.count_nonzero(x)", "float", []float64{nan, inf, 0, minus, 1}, func(s scope, x arr) arr {
		return s.CountNonzero(x)
	}, 5),
	of("np.clip(x,-1,2)", "float", []float64{nan, inf, -inf, 0, minus}, func(s scope, x arr) arr {
		return s.Clip(x, s.Number(-1), s.Number(2))
	}, 5),
	of("x.reshape(0,-1)", "any", nil, func(s scope, x arr) arr { return s.Reshape(x, 0, -1) }, 2, 0),
	of("x.reshape(-1,3)", "any", nil, func(s scope, x arr) arr {
		return s.Reshape(x, -1, 3)
	}, 0, 5), of("x.reshape(5,0)", "any", nil, func(s scope, x arr) arr { return s.Reshape(x, 5, 0) }, 0, 3),
	of("np.take(x,[0,-1,2,-3])", "any", []float64{1, 0, 1}, func(s scope, x arr) arr {
		return s.Take(x, array.From(s, []int64{0, -1, 2, -3}), 0)
	}, 3),
	of("np.take(x,[3])", "any", []float64{1, 0, 1}, func(s scope, x arr) arr {
		return s.Take(x, array.From(s, []int64{3}), 0)
	}, 3),
	of("np.take(x,[-4])", "any", []float64{1, 0, 1}, func(s scope, x arr) arr {
		return s.Take(x, array.From(s, []int64{-4}), 0)
	}, 3),
	of("np.sum(x,axis=2)", "number", []float64{1, 2}, func(s scope, x arr) arr {
		return s.Sum(x, 2)
	}, 1, 2), of("np.sum(x,axis=-3)", "number", []float64{1, 2}, func(s scope, x arr) arr { return s.Sum(x, -3) }, 1, 2),
	of("np.sort(x,axis=1)", "number", []float64{1, 2}, func(s scope, x arr) arr {
		return s.Sort(x, 1)
	}, 2), of("np.expand_dims(x,3)", "number", []float64{1, 2}, func(s scope, x arr) arr { return s.ExpandDims(x, 3) }, 2),
	of("np.sum(x)", "number", []float64{5}, func(s scope, x arr) arr {
		return s.Sum(x)
	}), of("np.max(x)", "number", []float64{5}, func(s scope, x arr) arr { return s.Max(x) }),
	of("x[None]+x", "number", []float64{5}, func(s scope, x arr) arr { return s.Add(s.Index(x, array.NewAxis), x) }),
	of("x+np.zeros((4,1,3),x.dtype)", "number", nil, func(s scope, x arr) arr {
		return s.Add(x, s.Zeros(x.DType(), 4, 1, 3))
	}, 1, 0, 1),
	of("np.broadcast_to(x,(3,0,2))", "number", nil, func(s scope, x arr) arr {
		return s.BroadcastTo(x, 3, 0, 2)
	}, 0, 1), of("np.matmul(x,x.T)", "f32", nil, func(s scope, x arr) arr { return s.MatMul(x, s.Transpose(x)) }, 3, 0),
}
