package array_test

import (
	"math"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

type (
	scope = *array.Scope
	arr   = *array.Array
)

// unary returns the operation of a method with one operand.
func unary(f func(s scope, x arr) arr) op { return func(s scope, in ...arr) arr { return f(s, in[0]) } }

// binary returns the operation of a method with two operands.
func binary(f func(s scope, x, y arr) arr) op {
	return func(s scope, in ...arr) arr { return f(s, in[0], in[1]) }
}

// entries are operations with the equivalent NumPy expression. NumPy computes floats of integers in f64, this package
// in f32.
var entries = []entry{
	{expr: "np.abs(x)", f: unary(scope.Abs), types: "number"},
	{expr: "-x", f: unary(scope.Neg), types: "number"},
	{expr: "np.sign(x)", f: unary(scope.Sign), types: "number"},
	{expr: "np.square(x)", f: unary(scope.Square), types: "number"},
	{expr: "x+y", f: binary(scope.Add), types: "number"},
	{expr: "x-y", f: binary(scope.Sub), types: "number"},
	{expr: "x*y", f: binary(scope.Mul), types: "number"},
	{expr: "wide(x)/wide(y)", f: binary(scope.Div), types: "number", limits: [2]float64{1, 5}},
	{expr: "x/y", f: binary(scope.Div), types: "float"},
	{expr: "np.floor_divide(x,y)", f: binary(scope.FloorDivide), types: "number"},
	{expr: "np.remainder(x,y)", f: binary(scope.Remainder), types: "number"},
	{expr: "np.maximum(x,y)", f: binary(scope.Maximum), types: "number"},
	{expr: "np.minimum(x,y)", f: binary(scope.Minimum), types: "number"},
	{expr: "np.power(wide(x),wide(y))", f: binary(scope.Pow), types: "f32", error: 1e-5},
	{expr: "np.power(x,y)", f: binary(scope.Pow), types: "int", limits: [2]float64{0, 6}},
	{expr: "np.hypot(wide(x),wide(y))", f: binary(scope.Hypot), types: "float"},
	{expr: "np.logaddexp(wide(x),wide(y))", f: binary(scope.LogAddExp), types: "float", error: 1e-6},
	{expr: "np.arctan2(wide(x),wide(y))", f: binary(scope.Atan2), types: "float", error: 1e-6},
	{expr: "np.copysign(x,y)", f: binary(scope.CopySign), types: "float"},
	{expr: "np.nextafter(x,y)", f: binary(scope.NextAfter), types: "float"},
	{expr: "np.signbit(x)", f: unary(scope.SignBit), types: "float"},
	{expr: "np.exp(wide(x))", f: unary(scope.Exp), types: "float", error: 1e-6},
	{expr: "np.expm1(wide(x))", f: unary(scope.Expm1), types: "float", error: 1e-6},
	{expr: "np.log(wide(x))", f: unary(scope.Log), types: "float", error: 1e-6},
	{expr: "np.log1p(wide(x))", f: unary(scope.Log1p), types: "float", error: 1e-6},
	{expr: "np.log2(wide(x))", f: unary(scope.Log2), types: "float", error: 1e-6},
	{expr: "np.log10(wide(x))", f: unary(scope.Log10), types: "float", error: 1e-6},
	{expr: "np.sqrt(wide(x))", f: unary(scope.Sqrt), types: "float"},
	{expr: "1/np.sqrt(wide(x))", f: unary(scope.Rsqrt), types: "float"},
	{expr: "1/wide(x)", f: unary(scope.Reciprocal), types: "float"},
	{expr: "np.sin(wide(x))", f: unary(scope.Sin), types: "f32", error: 1e-5, limits: [2]float64{-9, 9}},
	{expr: "np.cos(wide(x))", f: unary(scope.Cos), types: "f32", error: 1e-5, limits: [2]float64{-9, 9}},
	{expr: "np.tan(wide(x))", f: unary(scope.Tan), types: "f32", error: 1e-5, limits: [2]float64{-1.5, 1.5}},
	{expr: "np.arcsin(wide(x))", f: unary(scope.Asin), types: "float", error: 1e-6},
	{expr: "np.arccos(wide(x))", f: unary(scope.Acos), types: "float", error: 1e-6},
	{expr: "np.arctan(wide(x))", f: unary(scope.Atan), types: "float", error: 1e-6},
	{expr: "np.sinh(wide(x))", f: unary(scope.Sinh), types: "float", error: 1e-6},
	{expr: "np.cosh(wide(x))", f: unary(scope.Cosh), types: "float", error: 1e-6},
	{expr: "np.tanh(wide(x))", f: unary(scope.Tanh), types: "float", error: 1e-6},
	{expr: "np.arcsinh(wide(x))", f: unary(scope.Asinh), types: "float", error: 1e-6},
	{expr: "np.arccosh(wide(x))", f: unary(scope.Acosh), types: "float", error: 1e-6},
	{expr: "np.arctanh(wide(x))", f: unary(scope.Atanh), types: "float", error: 1e-6},
	{expr: "erf(x)", f: unary(scope.Erf), types: "f32", error: 1e-6},
	{expr: "erf(x)", f: func(s scope, in ...arr) arr {
		return s.Erf(s.Erfinv(s.Erf(in[0])))
	}, types: "f32", limits: [2]float64{-2, 2}, error: 1e-4},
	{expr: "np.floor(x)", f: unary(scope.Floor), types: "number"},
	{expr: "np.ceil(x)", f: unary(scope.Ceil), types: "number"},
	{expr: "np.round(x)", f: unary(scope.Round), types: "number"},
	{expr: "np.trunc(x)", f: unary(scope.Trunc), types: "number"},
	{expr: "np.isnan(x)", f: unary(scope.IsNaN), types: "any"},
	{expr: "np.isinf(x)", f: unary(scope.IsInf), types: "any"},
	{expr: "np.isfinite(x)", f: unary(scope.IsFinite), types: "any"},
	{expr: "x==y", f: binary(scope.Equal), types: "any"},
	{expr: "x!=y", f: binary(scope.NotEqual), types: "any"},
	{expr: "x<y", f: binary(scope.Less), types: "any"},
	{expr: "x<=y", f: binary(scope.LessEqual), types: "any"},
	{expr: "x>y", f: binary(scope.Greater), types: "any"},
	{expr: "x>=y", f: binary(scope.GreaterEqual), types: "any"},
	{expr: "np.logical_and(x,y)", f: binary(scope.LogicalAnd), types: "any"},
	{expr: "np.logical_or(x,y)", f: binary(scope.LogicalOr), types: "any"},
	{expr: "np.logical_xor(x,y)", f: binary(scope.LogicalXor), types: "any"},
	{expr: "np.logical_not(x)", f: unary(scope.LogicalNot), types: "any"},
	{expr: "x&y", f: binary(scope.BitwiseAnd), types: "bits"},
	{expr: "x|y", f: binary(scope.BitwiseOr), types: "bits"},
	{expr: "x^y", f: binary(scope.BitwiseXor), types: "bits"},
	{expr: "~x", f: unary(scope.BitwiseInvert), types: "bits"},
	{expr: "x<<y", f: binary(scope.ShiftLeft), types: "int", limits: [2]float64{0, 6}},
	{expr: "x>>y", f: binary(scope.ShiftRight), types: "int", limits: [2]float64{0, 6}},
	{expr: "np.where(x,y,z)", f: func(s scope, in ...arr) arr { return s.Where(in[0], in[1], in[2]) }, types: "any"},
	{expr: "np.clip(x,y,z)", f: func(s scope, in ...arr) arr {
		return s.Clip(in[0], in[1], in[2])
	}, types: "f32", limits: [2]float64{-3, 3}},
	{expr: "np.clip(x,-1,2)", f: func(s scope, in ...arr) arr {
		return s.Clip(in[0], s.Number(-1), s.Number(2))
	}, types: "signed"},
	{expr: "np.clip(x,None,1)", f: func(s scope, in ...arr) arr {
		return s.Clip(in[0], nil, s.Number(1))
	}, types: "number"},
	{expr: "np.maximum(x,0)", f: unary(scope.Relu), types: "number"},
	{expr: "sigmoid(x)", f: unary(scope.Sigmoid), types: "float", error: 1e-6},
	{expr: "wide(x)*sigmoid(x)", f: unary(scope.Silu), types: "float", error: 1e-6, limits: [2]float64{-5, 5}},
	{expr: "-np.logaddexp(0,-wide(x))", f: unary(scope.LogSigmoid), types: "float", error: 1e-6},
	{expr: "np.logaddexp(0,wide(x))", f: unary(scope.Softplus), types: "float", error: 1e-6},
	{expr: "wide(x)*0.5*(1+erf(wide(x)/np.sqrt(2)))", f: unary(scope.Gelu), types: "float", error: 1e-4,
		limits: [2]float64{-2, 5}},
	{expr: "wide(x)*0.5*(1+np.tanh(np.sqrt(2/np.pi)*(wide(x)+0.044715*wide(x)**3)))", f: unary(scope.GeluTanh),
		types: "float", error: 1e-4, limits: [2]float64{-2, 5}},
	{expr: "np.where(x < 0, 1.5*np.expm1(wide(x)), wide(x))+0*x", f: func(s scope, in ...arr) arr {
		return s.Elu(in[0], 1.5)
	}, types: "f32", limits: [2]float64{-5, 5}, error: 1e-5},
	{expr: "np.clip(wide(x)/6+0.5,0,1)", f: unary(scope.HardSigmoid), types: "float", limits: [2]float64{-5, 5},
		error: 1e-5},

	{expr: "np.sum(x)", f: unary(func(s scope, x arr) arr {
		return s.Sum(x)
	}), types: "any", shape: [][]int{{3, 5, 7}}, error: 3e-2},
	{expr: "np.sum(x,axis=(0,2),keepdims=True)", f: unary(func(s scope, x arr) arr {
		return s.SumKeep(x, 0, -1)
	}), types: "any", shape: [][]int{{3, 5, 7}}, error: 3e-2},
	{expr: "np.sum(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Sum(x, 1)
	}), types: "number", shape: [][]int{{3, 0, 7}}},
	{expr: "np.prod(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Prod(x, 1)
	}), types: "any", shape: [][]int{{3, 5}}, error: 1e-2},
	{expr: "np.mean(wide(x),axis=0)", f: unary(func(s scope, x arr) arr {
		return s.Mean(x, 0)
	}), types: "any", shape: [][]int{{3, 5}}, error: 1e-3},
	{expr: "np.var(wide(x),axis=-1)", f: unary(func(s scope, x arr) arr {
		return s.Var(x, -1)
	}), types: "any", shape: [][]int{{3, 9}}, error: 1e-3},
	{expr: "np.var(wide(x),axis=(0,1),ddof=1)", f: unary(func(s scope, x arr) arr {
		return s.VarCorrected(x, 1, 0, 1)
	}), types: "float", shape: [][]int{{3, 9}}, error: 1e-3},
	{expr: "np.std(wide(x),keepdims=True)", f: unary(func(s scope, x arr) arr {
		return s.StdKeep(x)
	}), types: "float", shape: [][]int{{3, 9}}, error: 1e-3},
	{expr: "np.max(x,axis=1,keepdims=True)", f: unary(func(s scope, x arr) arr {
		return s.MaxKeep(x, 1)
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.min(x,axis=0)", f: unary(func(s scope, x arr) arr {
		return s.Min(x, 0)
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.any(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Any(x, 1)
	}), types: "any", shape: [][]int{{7, 2}}, limits: [2]float64{-1, 1}},
	{expr: "np.all(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.All(x, 1)
	}), types: "any", shape: [][]int{{7, 2}}, limits: [2]float64{-1, 1}},
	{expr: "np.all(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.All(x, 1)
	}), types: "any", shape: [][]int{{7, 0}}},
	{expr: "np.any(x)", f: unary(func(s scope, x arr) arr { return s.Any(x) }), types: "any", shape: [][]int{{7, 0}}},
	{expr: "np.count_nonzero(x,axis=0)", f: unary(func(s scope, x arr) arr {
		return s.CountNonzero(x, 0)
	}), types: "any", shape: [][]int{{7, 4}}, limits: [2]float64{-1, 1}},
	{expr: "np.log(np.exp(wide(x)).sum(axis=1))", f: unary(func(s scope, x arr) arr {
		return s.LogSumExp(x, 1)
	}), types: "float", shape: [][]int{{7, 4}}, error: 1e-3},
	{expr: "np.linalg.norm(wide(x),axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Norm(x, 2, 1)
	}), types: "float", shape: [][]int{{7, 4}}, error: 1e-3},
	{expr: "np.linalg.norm(wide(x),3,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Norm(x, 3, 1)
	}), types: "float", shape: [][]int{{7, 4}}, error: 1e-3},
	{expr: "np.linalg.norm(wide(x),np.inf,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Norm(x, math.Inf(1), 1)
	}), types: "float", shape: [][]int{{7, 4}}},
	{expr: "np.cumsum(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.CumSum(x, 1)
	}), types: "any", shape: [][]int{{3, 8}}, error: 1},
	{expr: "np.cumprod(x,axis=0)", f: unary(func(s scope, x arr) arr {
		return s.CumProd(x, -2)
	}), types: "any", shape: [][]int{{4, 3}}, error: 1e-2},
	{expr: "softmax(x,1)", f: unary(func(s scope, x arr) arr {
		return s.Softmax(x, 1)
	}), types: "float", shape: [][]int{{4, 3, 2}}, error: 1e-3},
	{expr: "np.log(softmax(x,-1))", f: unary(func(s scope, x arr) arr {
		return s.LogSoftmax(x, -1)
	}), types: "float", shape: [][]int{{4, 3, 2}}, error: 1e-2},

	{expr: "x.reshape(4,-1)", f: unary(func(s scope, x arr) arr {
		return s.Reshape(x, 4, -1)
	}), types: "any", shape: [][]int{{2, 2, 6}}},
	{expr: "x.reshape(2,-1)", f: unary(func(s scope, x arr) arr {
		return s.Flatten(x, 1)
	}), types: "any", shape: [][]int{{2, 2, 6}}},
	{expr: "x.reshape(-1)", f: unary(func(s scope, x arr) arr {
		return s.Flatten(x, 0)
	}), types: "any", shape: [][]int{{}}},
	{expr: "np.transpose(x,(2,0,1))", f: unary(func(s scope, x arr) arr {
		return s.Permute(x, 2, 0, 1)
	}), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "x.T", f: unary(func(s scope, x arr) arr { return s.Transpose(x) }), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "np.swapaxes(x,1,2)", f: unary(scope.MatrixTranspose), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "np.moveaxis(x,0,-1)", f: unary(func(s scope, x arr) arr {
		return s.MoveAxis(x, 0, -1)
	}), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "np.expand_dims(x,(0,-1))", f: unary(func(s scope, x arr) arr {
		return s.ExpandDims(x, 0, -1)
	}), types: "any", shape: [][]int{{2, 3}}},
	{expr: "np.squeeze(x,(0,2))", f: unary(func(s scope, x arr) arr {
		return s.Squeeze(x, 0, 2)
	}), types: "any", shape: [][]int{{1, 3, 1}}},
	{expr: "np.squeeze(x)", f: unary(func(s scope, x arr) arr {
		return s.Squeeze(x)
	}), types: "any", shape: [][]int{{1, 1}}},
	{expr: "np.broadcast_to(x,(4,3,5))", f: unary(func(s scope, x arr) arr {
		return s.BroadcastTo(x, 4, 3, 5)
	}), types: "any", shape: [][]int{{3, 1}}},
	{expr: "np.concatenate([x,y,x],axis=-1)", f: binary(func(s scope, x, y arr) arr {
		return s.Concat(-1, x, y, x)
	}), types: "any", shape: [][]int{{3, 1}, {3, 4}}},
	{expr: "np.concatenate([x,y],axis=0)", f: binary(func(s scope, x, y arr) arr {
		return s.Concat(0, x, y)
	}), types: "any", shape: [][]int{{0, 4}, {3, 4}}},
	{expr: "np.stack([x,y],axis=1)", f: binary(func(s scope, x, y arr) arr {
		return s.Stack(1, x, y)
	}), types: "any", shape: [][]int{{3, 4}, {3, 4}}},
	{expr: "np.stack([x,y],axis=-1)", f: binary(func(s scope, x, y arr) arr {
		return s.Stack(-1, x, y)
	}), types: "any", shape: [][]int{{}, {}}},
	{expr: "np.split(x,[2,3],axis=1)[2]", f: unary(func(s scope, x arr) arr {
		return s.Split(x, 1, 2, 1, -1)[2]
	}), types: "any", shape: [][]int{{3, 7}}},
	{expr: "x[:,1]", f: unary(func(s scope, x arr) arr {
		return s.Unstack(x, 1)[1]
	}), types: "any", shape: [][]int{{3, 2, 2}}},
	{expr: "np.flip(x)", f: unary(func(s scope, x arr) arr { return s.Flip(x) }), types: "any", shape: [][]int{{3, 7}}},
	{expr: "np.flip(x,1)", f: unary(func(s scope, x arr) arr {
		return s.Flip(x, 1)
	}), types: "any", shape: [][]int{{3, 7}}},
	{expr: "np.roll(x,2)", f: unary(func(s scope, x arr) arr {
		return s.Roll(x, 2)
	}), types: "any", shape: [][]int{{3, 7}}},
	{expr: "np.roll(x,-9,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Roll(x, -9, 1)
	}), types: "any", shape: [][]int{{3, 7}}},
	{expr: "np.roll(x,-9,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Roll(x, -9, 1)
	}), types: "number", shape: [][]int{{3, 0}}},
	{expr: "np.repeat(x,3,axis=0)", f: unary(func(s scope, x arr) arr {
		return s.Repeat(x, 3, 0)
	}), types: "any", shape: [][]int{{3, 2}}},
	{expr: "np.tile(x,(2,1,3))", f: unary(func(s scope, x arr) arr {
		return s.Tile(x, 2, 1, 3)
	}), types: "any", shape: [][]int{{3, 2}}},
	{expr: "np.tile(x,2)", f: unary(func(s scope, x arr) arr {
		return s.Tile(x, 2)
	}), types: "any", shape: [][]int{{3, 2}}},
	{expr: "np.take(x,y,axis=1)", f: binary(func(s scope, x, y arr) arr {
		return s.Take(x, y, 1)
	}), types: "any", shape: [][]int{{3, 7}, {2, 4}}, index: []int{0, 7}},
	{expr: "np.take_along_axis(x,y,axis=1)", f: binary(func(s scope, x, y arr) arr {
		return s.TakeAlong(x, y, 1)
	}), types: "any", shape: [][]int{{3, 7}, {3, 4}}, index: []int{0, 7}},
	{expr: "(lambda x,y,z:[np.put_along_axis(x,y,z,1),x][1])(x,y,z)", f: func(s scope, in ...arr) arr {
		return s.PutAlong(in[0], in[1], in[2], 1)
	},
		types: "any", shape: [][]int{{3, 7}, {3, 4}, {3, 4}}, index: []int{0, 7}},
	{expr: "np.pad(x,[(1,0),(0,2)],constant_values=3)", f: unary(func(s scope, x arr) arr {
		return s.Pad(x, 3, [2]int{1, 0}, [2]int{0, 2})
	}), types: "number", shape: [][]int{{3, 7}}},
	{expr: "np.diff(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Diff(x, 1)
	}), types: "number", shape: [][]int{{3, 7}}},
	{expr: "np.diff(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.Diff(x, 1)
	}), types: "number", shape: [][]int{{3, 0}}},
	{expr: "(x[...,None]==np.arange(5)).astype(np.float32)", f: unary(func(s scope, x arr) arr {
		return s.OneHot(x, 5, weir.F32)
	}), types: "int", shape: [][]int{{3, 7}}},
	{expr: "x@y", f: binary(scope.MatMul), types: "number", shape: [][]int{{2, 3, 4}, {4, 5}}, error: 1e-2,
		limits: [2]float64{0, 3}},

	{expr: "conv(x,y,[1,1],[[1,1],[0,2]],[1,1],1)", f: binary(func(s scope, x, y arr) arr {
		return s.Conv(x, y, nil, array.Window{Padding: [][2]int{{1, 1}, {0, 2}}})
	}), types: "f32", shape: [][]int{{2, 3, 7, 6}, {4, 3, 3, 3}}, error: 1e-3},
	{expr: "conv(x,y,[2],[[1,1]],[2],2)", f: binary(func(s scope, x, y arr) arr {
		return s.Conv(x, y, nil, array.Window{Padding: [][2]int{{1, 1}}, Strides: []int{2}, Dilations: []int{2}, Groups: 2})
	}), types: "f32", shape: [][]int{{2, 4, 9}, {6, 2, 3}}, error: 1e-3},
	{expr: "conv(x,y,[1,1,1],[[0,0]]*3,[1,1,1],1)", f: binary(func(s scope, x, y arr) arr {
		return s.Conv(x, y, nil, array.Window{})
	}),
		types: "f32", shape: [][]int{{1, 2, 4, 5, 3}, {3, 2, 2, 2, 2}}, error: 1e-3},
	{expr: "maxpool(x,[2,3],[2,3],[[0,0],[1,1]])", f: unary(func(s scope, x arr) arr {
		return s.MaxPool(x, []int{2, 3}, array.Window{Padding: [][2]int{{0, 0}, {1, 1}}})
	}), types: "f32", shape: [][]int{{2, 3, 8, 7}}},
	{expr: "avgpool(x,[2,3],[1,2],[[0,0],[1,1]])", f: unary(func(s scope, x arr) arr {
		return s.AvgPool(x, []int{2, 3}, array.Window{Strides: []int{1, 2}, Padding: [][2]int{{0, 0}, {1, 1}}})
	}), types: "f32", shape: [][]int{{2, 3, 8, 7}}, error: 1e-5},
	{expr: "norm(x,(1,2),1e-3)", f: unary(func(s scope, x arr) arr {
		return s.LayerNorm(x, nil, nil, 1e-3, 1, 2)
	}), types: "float", shape: [][]int{{3, 4, 5}}, error: 2e-2},
	{expr: "norm(x,(-1,),1e-3)*y+z", f: func(s scope, in ...arr) arr {
		return s.LayerNorm(in[0], in[1], in[2], 1e-3)
	}, types: "f32", shape: [][]int{{3, 4, 5}, {5}, {5}}, error: 1e-3},
	{expr: "norm(x,(-1,),1e-3,False)*y", f: binary(func(s scope, x, y arr) arr {
		return s.RMSNorm(x, y, 1e-3)
	}), types: "f32", shape: [][]int{{3, 4, 5}, {5}}, error: 1e-3},
	{expr: "norm(x.reshape(3,2,2,5),(2,3),1e-3).reshape(3,4,5)*y[:,None]", f: binary(func(s scope, x, y arr) arr {
		return s.GroupNorm(x, 2, y, nil, 1e-3)
	}), types: "f32", shape: [][]int{{3, 4, 5}, {4}}, error: 1e-3},
	{expr: "(x-y[:,None])/np.sqrt(z[:,None]+1e-3)", f: func(s scope, in ...arr) arr {
		return s.BatchNorm(in[0], nil, nil, in[1], in[2], 1e-3)
	},
		types: "f32", shape: [][]int{{3, 4, 5}, {4}, {4}}, error: 1e-3, limits: [2]float64{0.1, 3}},
	{expr: "attention(x,y,z,False)", f: func(s scope, in ...arr) arr {
		return s.Attention(in[0], in[1], in[2], nil, array.Heads{})
	},
		types: "f32", shape: [][]int{{2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}}, error: 1e-3},
	{expr: "attention(x,y,z,True)", f: func(s scope, in ...arr) arr {
		return s.Attention(in[0], in[1], in[2], nil, array.Heads{Causal: true})
	},
		types: "f32", shape: [][]int{{2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}}, error: 1e-3},

	{expr: "np.sort(x,axis=0)", f: unary(func(s scope, x arr) arr {
		return s.Sort(x, 0)
	}), types: "any", shape: [][]int{{9, 3}}},
	{expr: "-np.sort(-x.astype(np.float64),axis=1)", f: unary(func(s scope, x arr) arr {
		return s.SortDescending(x, -1)
	}), types: "float", shape: [][]int{{3, 9}}},
	{expr: "np.argsort(x,axis=1,kind='stable')", f: unary(func(s scope, x arr) arr {
		return s.ArgSort(x, -1)
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.argsort(-x.astype(np.float64),axis=1,kind='stable')", f: unary(func(s scope, x arr) arr {
		return s.ArgSortDescending(x, -1)
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.argsort(-x.astype(np.float64),axis=1,kind='stable')[:,:2]", f: unary(func(s scope, x arr) arr {
		_, i := s.TopK(x, 2, 1)
		return i
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.argmax(x,axis=1)", f: unary(func(s scope, x arr) arr {
		return s.ArgMax(x, 1)
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.argmin(x,axis=0)", f: unary(func(s scope, x arr) arr {
		return s.ArgMin(x, 0)
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.nonzero(x)[1]", f: unary(func(s scope, x arr) arr {
		return s.Nonzero(x)[1]
	}), types: "any", shape: [][]int{{3, 9}}, limits: [2]float64{-1, 1}},
	{expr: "np.searchsorted(np.sort(x),y)", f: binary(func(s scope, x, y arr) arr {
		return s.SearchSorted(s.Sort(x, 0), y, false)
	}), types: "number", shape: [][]int{{9}, {3, 5}}},
	{expr: "np.searchsorted(np.sort(x),y,'right')", f: binary(func(s scope, x, y arr) arr {
		return s.SearchSorted(s.Sort(x, 0), y, true)
	}), types: "number", shape: [][]int{{117}, {3, 5}}},
	{expr: "np.searchsorted(np.sort(x),y)", f: binary(func(s scope, x, y arr) arr {
		return s.SearchSorted(s.Sort(x, 0), y, false)
	}), types: "number", shape: [][]int{{64}, {3, 50}}, limits: [2]float64{-90, 90}},
	{expr: "np.unique(x)", f: unary(scope.UniqueValues), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.unique(x,return_counts=True)[1]", f: unary(func(s scope, x arr) arr {
		_, n := s.UniqueCounts(x)
		return n
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.unique(x,return_inverse=True)[1].reshape(x.shape)", f: unary(func(s scope, x arr) arr {
		_, n := s.UniqueInverse(x)
		return n
	}), types: "any", shape: [][]int{{3, 9}}},
	{expr: "np.unique(x,return_index=True)[1]", f: unary(func(s scope, x arr) arr {
		_, n, _, _ := s.UniqueAll(x)
		return n
	}), types: "any", shape: [][]int{{3, 9}}},

	{expr: "np.einsum('bij,kj->bik',x,y)", f: binary(func(s scope, x, y arr) arr {
		return s.Einsum("bij,kj->bik", x, y)
	}), types: "f32", shape: [][]int{{2, 3, 4}, {5, 4}}, error: 1e-3},
	{expr: "np.einsum('ii->i',x)", f: unary(func(s scope, x arr) arr {
		return s.Einsum("ii->i", x)
	}), types: "number", shape: [][]int{{4, 4}}},
	{expr: "np.tensordot(x,y,([2,0],[1,2]))", f: binary(func(s scope, x, y arr) arr {
		return s.TensorDot(x, y, []int{2, 0}, []int{1, -1})
	}),
		types: "f32", shape: [][]int{{2, 3, 4}, {5, 4, 2}}, error: 1e-2},
	{expr: "np.tensordot(x,y,0)", f: binary(func(s scope, x, y arr) arr {
		return s.TensorDot(x, y, nil, nil)
	}), types: "f32", shape: [][]int{{2, 3}, {4}}},
	{expr: "np.outer(x,y)", f: binary(scope.Outer), types: "number", shape: [][]int{{3}, {4}}},
	{expr: "(x*y).sum(-1)", f: binary(func(s scope, x, y arr) arr {
		return s.VecDot(x, y, -1)
	}), types: "f32", shape: [][]int{{3, 4}, {4}}, error: 1e-3},
	{expr: "np.diagonal(x,1,1,2)", f: unary(func(s scope, x arr) arr {
		return s.Diagonal(x, 1)
	}), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "np.diagonal(x,-2,1,2)", f: unary(func(s scope, x arr) arr {
		return s.Diagonal(x, -2)
	}), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "np.diagonal(x,7,1,2)", f: unary(func(s scope, x arr) arr {
		return s.Diagonal(x, 7)
	}), types: "any", shape: [][]int{{2, 3, 5}}},
	{expr: "np.trace(x,-1,1,2)", f: unary(func(s scope, x arr) arr {
		return s.Trace(x, -1)
	}), types: "number", shape: [][]int{{2, 3, 5}}, error: 1e-2},
	{expr: "np.linalg.det(wide(x))", f: unary(scope.Det), types: "f32", shape: [][]int{{2, 5, 5}}, error: 1e-4},
	{expr: "np.linalg.det(wide(x))", f: unary(scope.Det), types: "number", shape: [][]int{{3, 0, 0}}},
	{expr: "np.linalg.inv(wide(x))", f: unary(scope.Inv), types: "f32", shape: [][]int{{2, 3, 4, 4}}, error: 1e-3},
	{expr: "np.linalg.inv(wide(x))", f: unary(scope.Inv), types: "f32", shape: [][]int{{3, 0, 0}}},
	{expr: "np.linalg.inv(wide(x))", f: unary(scope.Inv), types: "f32", shape: [][]int{{0, 2, 2}}},
	{expr: "np.linalg.inv(wide(x))", f: unary(scope.Inv), types: "f32", shape: [][]int{{1, 1}}},
	{expr: "np.linalg.solve(wide(x),wide(y))", f: binary(scope.Solve), types: "f32",
		shape: [][]int{{2, 1, 4, 4}, {3, 4, 2}}, error: 1e-3},
	{expr: "np.linalg.solve(wide(x),wide(y))", f: binary(scope.Solve), types: "f32", shape: [][]int{{5, 5}, {5}},
		error: 1e-3},
	{expr: "np.linalg.solve(wide(x),wide(y))", f: binary(scope.Solve), types: "f32", shape: [][]int{{1, 1}, {2, 1, 0}}},
	{expr: "np.linalg.solve(wide(x),wide(y))", f: binary(scope.Solve), types: "f32", shape: [][]int{{3, 3}, {2, 3, 1}},
		error: 1e-3},
	{expr: "np.tril(x,1)", f: unary(func(s scope, x arr) arr {
		return s.Tril(x, 1)
	}), types: "number", shape: [][]int{{2, 3, 5}}},
	{expr: "np.triu(x,-1)", f: unary(func(s scope, x arr) arr {
		return s.Triu(x, -1)
	}), types: "number", shape: [][]int{{2, 3, 5}}},
	{expr: "x+np.arange(2,9,3).astype(x.dtype)", f: unary(func(s scope, x arr) arr {
		return s.Add(x, s.Arange(x.DType(), 2, 9, 3))
	}), types: "number", shape: [][]int{{2, 3}}},
	{expr: "x+np.linspace(-1,2,5).astype(x.dtype)", f: unary(func(s scope, x arr) arr {
		return s.Add(x, s.Linspace(x.DType(), -1, 2, 5))
	}), types: "float", shape: [][]int{{2, 5}}},
	{expr: "x+np.eye(2,5,1).astype(x.dtype)", f: unary(func(s scope, x arr) arr {
		return s.Add(x, s.Eye(x.DType(), 2, 5, 1))
	}), types: "number", shape: [][]int{{2, 5}}},
	{expr: "x+np.arange(5).astype(x.dtype)", f: unary(func(s scope, x arr) arr {
		return s.Add(x, s.Iota(x.DType(), x.Dim(-1)))
	}), types: "number", shape: [][]int{{2, 5}}},
	{expr: "np.meshgrid(x,y,indexing='ij')[1]", f: binary(func(s scope, x, y arr) arr {
		return s.Meshgrid(x, y)[1]
	}), types: "any", shape: [][]int{{3}, {4}}},
	{expr: "np.full_like(x,3)", f: unary(func(s scope, x arr) arr {
		return s.FullLike(3, x)
	}), types: "number", shape: [][]int{{3}}},
}

// indexed returns the operation that reads x at an index.
func indexed(at ...any) op { return func(s scope, in ...arr) arr { return s.Index(in[0], at...) } }

// assigned returns the operation that copies x and assigns its last operand at an index.
func assigned(at ...any) op {
	return func(s scope, in ...arr) arr {
		x := s.Where(s.Zeros(weir.Bool), in[0], in[0])
		s.Assign(x, in[1], at...)
		return x
	}
}

// put returns the NumPy expression of an assignment.
func put(index, value string, more string) string {
	return "(lambda x,y,z:[x.__setitem__((" + index + "), " + value + "), x][1])(x,y," + more + ")"
}

// indexEntries are indices with the equivalent NumPy expression.
var indexEntries = []entry{
	{expr: "x[1]", f: indexed(1), types: "any", shape: [][]int{{3, 4, 5}}},
	{expr: "x[-1,2:]", f: indexed(-1, array.Slice(2, array.End)), types: "any", shape: [][]int{{3, 4, 5}}},
	{expr: "x[...,1,None]", f: indexed(array.Ellipsis, 1, array.NewAxis), types: "any", shape: [][]int{{3, 4, 5}}},
	{expr: "x[::-1,1:9:2,None,-3:-1]", f: indexed(array.Slice(array.End, array.Begin, -1), array.Slice(1, 9, 2),
		array.NewAxis, array.Slice(-3, -1)), types: "any", shape: [][]int{{3, 4, 5}}},
	{expr: "x[5:2,-7::3,3:0:-2]", f: indexed(array.Slice(5, 2), array.Slice(-7, array.End, 3), array.Slice(3, 0, -2)),
		types: "any", shape: [][]int{{3, 4, 5}}},
	{expr: "x[()]", f: indexed(), types: "any", shape: [][]int{{3}}},
	{expr: "x[None]", f: indexed(array.NewAxis), types: "any", shape: [][]int{{}}},
	{expr: "x[y]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], in[1])
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 3}}, index: []int{0, 3}},
	{expr: "x[:,y]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], array.All, in[1])
	}, types: "any", shape: [][]int{{5, 3, 5}, {2, 3}}, index: []int{0, 3}},
	{expr: "x[1:,y,::2]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], array.Slice(1, array.End), in[1], array.Slice(array.Begin, array.End, 2))
	}, types: "any", shape: [][]int{{5, 3, 5}, {2, 3}}, index: []int{0, 3}},
	{expr: "x[y,z]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], in[1], in[2])
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 3}, {3}}, index: []int{0, 3, 4}},
	{expr: "x[:,y,z]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], array.All, in[1], in[2])
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 1}, {3}}, index: []int{0, 4, 5}},
	{expr: "x[y,:,z]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], in[1], array.All, in[2])
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 1}, {3}}, index: []int{0, 3, 5}},
	{expr: "x[y,None,:,1]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], in[1], array.NewAxis, array.All, 1)
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 2}}, index: []int{0, 3}},
	{expr: "x[:,1,y]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], array.All, 1, in[1])
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 2}}, index: []int{0, 5}},
	{expr: "x[:,None,y]", f: func(s scope, in ...arr) arr {
		return s.Index(in[0], array.All, array.NewAxis, in[1])
	}, types: "any", shape: [][]int{{3, 4, 5}, {2, 2}}, index: []int{0, 4}},
	{expr: "x[x>x.dtype.type(0)]", f: unary(func(s scope, x arr) arr {
		return s.Index(x, s.Greater(x, s.Number(0)))
	}), types: "number", shape: [][]int{{3, 4}}},
	{expr: "x[1:,x[0]>x.dtype.type(0)]", f: unary(func(s scope, x arr) arr {
		return s.Index(x, array.Slice(1, array.End), s.Greater(s.Index(x, 0), s.Number(0)))
	}), types: "number", shape: [][]int{{3, 4}}},

	{expr: put("slice(1,None)", "y", "0"), f: assigned(array.Slice(1, array.End)), types: "any",
		shape: [][]int{{3, 4, 5}, {4, 1}}},
	{expr: put("...,slice(None,None,-2),1", "y", "0"), f: assigned(array.Ellipsis, array.Slice(array.End, array.Begin, -2),
		1), types: "number", shape: [][]int{{3, 4, 5}, {3, 2}}},
	{expr: put("2,None", "y", "0"), f: assigned(2, array.NewAxis), types: "number", shape: [][]int{{3, 4}, {1, 1, 4}}},
	{expr: put("slice(5,2)", "y", "0"), f: assigned(array.Slice(5, 2)), types: "number", shape: [][]int{{3, 4}, {4}}},
	{expr: put("z", "y", "z"), f: func(s scope, in ...arr) arr {
		return s.Assign(s.Abs(s.Abs(in[0])), in[1], in[2])
	}, types: "int", shape: [][]int{{3, 4}, {4}, {2}}, index: []int{0, 0, 3}, limits: [2]float64{0, 9}},
	{expr: put("slice(None),z", "y", "z"), f: func(s scope, in ...arr) arr {
		return s.Assign(s.Abs(in[0]), in[1], array.All, in[2])
	}, types: "number", shape: [][]int{{3, 4}, {}, {2}}, index: []int{0, 0, 4}, limits: [2]float64{0, 9}},
	{expr: "(lambda x,y,z:[np.add.at(x, z, y), x][1])(x,y,z)", f: func(s scope, in ...arr) arr {
		return s.AddAt(s.Abs(in[0]), in[1], in[2])
	}, types: "number", shape: [][]int{{3, 4}, {6, 4}, {6}}, index: []int{0, 0, 3}, limits: [2]float64{0, 9}, error: 1e-2},
	{expr: "(lambda x,y,z:[np.add.at(x, (slice(1,None),z), y), x][1])(x,y,z)", f: func(s scope, in ...arr) arr {
		return s.AddAt(s.Abs(in[0]), in[1], array.Slice(1, array.End), in[2])
	}, types: "number", shape: [][]int{{3, 4}, {6}, {6}}, index: []int{0, 0, 4}, limits: [2]float64{0, 9}, error: 1e-2},
	{expr: "(lambda x,y:[x.__setitem__(x>x.dtype.type(1), y), x][1])(x,y)", f: binary(func(s scope, x, y arr) arr {
		z := s.Add(x, s.ZerosLike(x))
		s.Assign(z, y, s.Greater(x, s.Number(1)))
		return z
	}), types: "number", shape: [][]int{{3, 4}, {}}},
}

func init() { entries = append(entries, indexEntries...) }
