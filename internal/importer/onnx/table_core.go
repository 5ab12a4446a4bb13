package onnx

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// coreTable has the operators of ai.onnx on tensors of numbers.
//
//weir:table
var coreTable = table{
	rules: merged(
		each(unaryRules, unaryOf), each(binaryRules, binaryOf), each(variadicRules, variadicOf), each(activationRules, activated),
		map[string]rule{
			"Mean": mean, "Mod": mod, "BitShift": bitShift, "Pow": power, "Clip": clip, "IsInf": isInf, "Where": where,
			"Cast": cast, "CastLike": castLike, "BitCast": bitCast,
			"Gelu": gelu, "PRelu": prelu, "SwiGLU": swiGLU,

			"If": branch, "Loop": iterate, "Scan": scan,

			"Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Transpose": transpose,
			"Expand": expand, "Tile": tile, "Shape": shapeOf, "Size": sizeOf, "Range": rangeOf,
			"ConstantOfShape": constantOfShape, "Constant": constant, "Identity": identity, "EyeLike": eyeLike,
			"DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth,
			"Slice": slice, "Concat": concat, "Split": split, "Pad": pad, "CenterCropPad": centerCropPad,
			"Resize": resize, "Upsample": upsample,

			"Gather": gather, "GatherElements": gatherElements, "GatherND": gatherND,
			"Scatter": scatterElements, "ScatterElements": scatterElements, "ScatterND": scatterND, "TensorScatter": tensorScatter,
			"OneHot": oneHot, "NonZero": nonZero, "Compress": compress, "Unique": unique, "TopK": topK,
			"CumSum": cumulate(ops.CumSum), "CumProd": cumulate(ops.CumProd), "Trilu": trilu, "ReverseSequence": reverseSequence,

			"ReduceSum": reduction("reduce_sum"), "ReduceProd": reduction("reduce_prod"), "ReduceMin": reduction("reduce_min"),
			"ReduceMax": reduction("reduce_max"), "ReduceMean": reduction("reduce_mean"), "ReduceL1": reduction("reduce_l1"),
			"ReduceL2": reduction("reduce_l2"), "ReduceSumSquare": reduction("reduce_sum_square"),
			"ReduceLogSum": reduction("reduce_log_sum"), "ReduceLogSumExp": reduction("reduce_log_sum_exp"),
			"ArgMax": farthest(false), "ArgMin": farthest(true),

			"MatMul": func(c *call) []*ir.Value { return one(ops.MatMulAny(c.Builder, c.Input(0), c.Input(1))) },
			"Gemm":   gemm, "Conv": conv, "ConvTranspose": convTranspose, "Einsum": einsum,
			"NegativeLogLikelihoodLoss": likelihoodLoss, "SoftmaxCrossEntropyLoss": crossEntropyLoss,

			"MaxPool": maxPool, "AveragePool": averagePool, "LpPool": lpPool, "GlobalMaxPool": globalMaxPool,
			"GlobalAveragePool": globalAveragePool, "GlobalLpPool": globalLpPool, "MaxUnpool": maxUnpool,

			"BatchNormalization": batchNormalization, "LayerNormalization": layerNormalization, "LRN": responseNormalization,
			"GroupNormalization": groupNormalization, "InstanceNormalization": instanceNormalization,
			"RMSNormalization": rmsNormalization, "LpNormalization": lpNormalization,
			"MeanVarianceNormalization": meanVarianceNormalization,
			"Hardmax":                   flattened(ops.Hardmax), "Softmax": flattened(ops.Softmax), "LogSoftmax": flattened(ops.LogSoftmax),

			"Attention": attention, "RotaryEmbedding": rotaryEmbedding, "LinearAttention": linearAttention,
			"CausalConvWithState": causalConvolution, "ai.onnx.preview:FlexAttention": flexAttention,
			"RNN": recurrent, "GRU": recurrent, "LSTM": recurrent,

			"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear, "DynamicQuantizeLinear": dynamicQuantizeLinear,
			"MatMulInteger": matMulInteger, "ConvInteger": convInteger, "QLinearMatMul": qLinearMatMul, "QLinearConv": qLinearConv,

			"RandomUniform": randomUniform, "RandomUniformLike": randomUniformLike, "RandomNormal": randomNormal,
			"RandomNormalLike": randomNormalLike, "Bernoulli": bernoulli, "Multinomial": multinomial, "Dropout": dropout,

			"NonMaxSuppression": nonMaxSuppression, "GridSample": gridSample, "AffineGrid": affineGrid, "Col2Im": col2im,
			"DeformConv": deformConv, "RoiAlign": roiAlign, "MaxRoiPool": maxRoiPool, "ImageDecoder": imageDecoder, "Det": determinant,
		}),
	// The first versions of ai.onnx: settings that are inputs today were attributes, and a second operand was broadcast only
	// on demand. Before 9 and 10, there are operators that ai.onnx had on trial, and took back.
	before: map[int64]map[string]rule{
		2: {
			"Split": splitByInput, "Pad": renamed(pad, "paddings", "pads"),
			"LpPool": wholePower(lpPool), "GlobalLpPool": wholePower(globalLpPool),
		},
		4: {"Concat": concatAlongOne},
		5: {"Reshape": reshapeByAttribute},
		6: {"Cast": castByName, "Tile": tileOneAxis, "Selu": firstSelu},
		7: {
			"Add": onDemand(ops.Add), "Sub": onDemand(ops.Sub), "Mul": onDemand(ops.Mul), "Div": onDemand(ops.Div),
			"And": onDemand(ops.And), "Or": onDemand(ops.Or), "Xor": onDemand(ops.Xor),
			"Equal": onDemand(ops.Eq), "Greater": onDemand(ops.Gt), "Less": onDemand(ops.Lt),
			"Pow": powerOnDemand, "PRelu": preluByChannel,
			"Upsample": upsampleByTwo, "Dropout": dropoutUnlessTest, "BatchNormalization": batchNormalizationByOutputs,
		},
		9: {"MeanVarianceNormalization": meanVarianceOfImages},
		10: {
			"Affine": affine, "Scale": scale, "ScaledTanh": scaledTanh, "ParametricSoftplus": parametricSoftplus,
			"ImageScaler": imageScaler, "Crop": crop, "DynamicSlice": dynamicSlice, "GivenTensorFill": givenTensorFill,
			"ConstantFill": constantFill,
		},
		11: {"Clip": clipByAttributes},
		28: {"Mod": modOfIntegers},
	},
	moves: map[string]moved{
		"Split": {in: []int{0}}, "Where": {in: []int{1, 2}}, "Pad": {in: []int{0, 2}}, "Concat": {},
		"ScatterElements": {in: []int{0, 2}}, "Scatter": {in: []int{0, 2}}, "ScatterND": {in: []int{0, 2}},
		"TensorScatter": {in: []int{0, 1}}, "Shape": {[]int{0}, []int{}}, "Size": {[]int{0}, []int{}},
		"Identity": firstOnly, "Reshape": firstOnly, "Flatten": firstOnly, "Squeeze": firstOnly, "Unsqueeze": firstOnly,
		"Transpose": firstOnly, "Expand": firstOnly, "Tile": firstOnly, "Gather": firstOnly, "GatherElements": firstOnly,
		"GatherND": firstOnly, "Slice": firstOnly, "Compress": firstOnly, "ReverseSequence": firstOnly,
		"DepthToSpace": firstOnly, "SpaceToDepth": firstOnly, "CenterCropPad": firstOnly, "Trilu": firstOnly,
	},
	integers: map[string]counted{
		"Reshape": {5, 1, 1}, "Squeeze": {13, 1, 1}, "Unsqueeze": {13, 1, 1}, "Slice": {10, 1, 4}, "Pad": {11, 1, 1},
		"Expand": {8, 1, 1}, "Tile": {6, 1, 1}, "ConstantOfShape": {9, 0, 0}, "Gather": {1, 1, 1}, "GatherElements": {11, 1, 1},
		"GatherND": {11, 1, 1}, "ScatterElements": {11, 1, 1}, "ScatterND": {11, 1, 1}, "TopK": {10, 1, 1}, "Split": {13, 1, 1},
		"CumSum": {11, 1, 1}, "Trilu": {14, 1, 1}, "Resize": {11, 3, 3}, "CenterCropPad": {18, 1, 1},
		"ReverseSequence": {10, 1, 1}, "ReduceSum": {13, 1, 1}, "ReduceMean": {18, 1, 1}, "ReduceMax": {18, 1, 1},
		"ReduceMin": {18, 1, 1}, "ReduceProd": {18, 1, 1}, "ReduceL1": {18, 1, 1}, "ReduceL2": {18, 1, 1},
		"ReduceLogSum": {18, 1, 1}, "ReduceLogSumExp": {18, 1, 1}, "ReduceSumSquare": {18, 1, 1},
	},
}

// firstOnly moves the first input's elements into the first output.
var firstOnly = moved{[]int{0}, []int{0}}
