// Package core has the rules of ai.onnx's operators on tensors of numbers.
package core

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Rules has the operators of ai.onnx on tensors of numbers.
var Rules = convert.Table{
	Rules: convert.Merged(
		convert.Each(UnaryRules, unaryOf), convert.Each(binaryRules, binaryOf), convert.Each(variadicRules, variadicOf),
		convert.Each(ActivationRules, activated),
		map[string]convert.Rule{
			"Mean": mean, "Mod": mod, "BitShift": bitShift, "Pow": power, "Clip": clip, "IsInf": isInf, "Where": where,
			"Cast": cast, "CastLike": castLike, "BitCast": bitCast,
			"Gelu": gelu, "PRelu": prelu, "SwiGLU": swiGLU,

			"If": convert.If, "Loop": convert.Loop, "Scan": scan,

			"Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": Unsqueeze, "Transpose": transpose,
			"Expand": expand, "Tile": tile, "Shape": shapeOf, "Size": sizeOf, "Range": RangeOf,
			"ConstantOfShape": constantOfShape, "Constant": constant, "Identity": identity, "EyeLike": eyeLike,
			"DepthToSpace": depthToSpace, "SpaceToDepth": spaceToDepth,
			"Slice": slice, "Concat": concat, "Split": split, "Pad": pad, "CenterCropPad": centerCropPad,
			"Resize": resize, "Upsample": upsample,

			"Gather": gather, "GatherElements": gatherElements, "GatherND": GatherND,
			"Scatter": scatterElements, "ScatterElements": scatterElements, "ScatterND": scatterND,
			"TensorScatter": tensorScatter,
			"OneHot":        OneHot, "NonZero": nonZero, "Compress": compress, "Unique": unique, "TopK": topK,
			"CumSum": cumulate(ops.CumSum), "CumProd": cumulate(ops.CumProd), "Trilu": Trilu, "ReverseSequence": reverseSequence,

			"ReduceSum": reduction("reduce_sum"), "ReduceProd": reduction("reduce_prod"), "ReduceMin": reduction("reduce_min"),
			"ReduceMax": reduction("reduce_max"), "ReduceMean": reduction("reduce_mean"), "ReduceL1": reduction("reduce_l1"),
			"ReduceL2": reduction("reduce_l2"), "ReduceSumSquare": reduction("reduce_sum_square"),
			"ReduceLogSum": reduction("reduce_log_sum"), "ReduceLogSumExp": reduction("reduce_log_sum_exp"),
			"ArgMax": indexOfExtreme(false), "ArgMin": indexOfExtreme(true),

			"MatMul": func(c *convert.Call) []*ir.Value {
				return convert.One(ops.MatMulAny(c.Builder, c.Input(0), c.Input(1)))
			},
			"Gemm": Gemm, "Conv": Conv, "ConvTranspose": convTranspose, "Einsum": einsum,
			"NegativeLogLikelihoodLoss": likelihoodLoss, "SoftmaxCrossEntropyLoss": crossEntropyLoss,

			"MaxPool": maxPool, "AveragePool": AveragePool, "LpPool": lpPool, "GlobalMaxPool": globalMaxPool,
			"GlobalAveragePool": globalAveragePool, "GlobalLpPool": globalLpPool, "MaxUnpool": maxUnpool,

			"BatchNormalization": batchNormalization, "LayerNormalization": layerNormalization, "LRN": responseNormalization,
			"GroupNormalization": groupNormalization, "InstanceNormalization": instanceNormalization,
			"RMSNormalization": rmsNormalization, "LpNormalization": lpNormalization,
			"MeanVarianceNormalization": meanVarianceNormalization,
			"Hardmax":                   flattened(ops.Hardmax), "Softmax": flattened(ops.Softmax),
			"LogSoftmax": flattened(ops.LogSoftmax),

			"Attention": attention, "RotaryEmbedding": rotaryEmbedding, "LinearAttention": linearAttention,
			"CausalConvWithState": causalConvolution, "ai.onnx.preview:FlexAttention": flexAttention,
			"RNN": recurrent, "GRU": recurrent, "LSTM": recurrent,

			"QuantizeLinear": QuantizeLinear, "DequantizeLinear": DequantizeLinear,
			"DynamicQuantizeLinear": dynamicQuantizeLinear,
			"MatMulInteger":         matMulInteger, "ConvInteger": convInteger, "QLinearMatMul": qLinearMatMul,
			"QLinearConv": QLinearConv,

			"RandomUniform": randomUniform, "RandomUniformLike": randomUniformLike, "RandomNormal": randomNormal,
			"RandomNormalLike": randomNormalLike, "Bernoulli": bernoulli, "Multinomial": multinomial, "Dropout": dropout,

			"NonMaxSuppression": nonMaxSuppression, "GridSample": gridSample, "AffineGrid": affineGrid, "Col2Im": col2im,
			"DeformConv": deformConv, "RoiAlign": roiAlign, "MaxRoiPool": maxRoiPool, "ImageDecoder": imageDecoder,
			"Det": determinant,
		}),
	// The first versions of ai.onnx: settings that are inputs today were attributes, and a second operand was broadcast
	// only on demand. Before versions 9 and 10, ai.onnx had operators on trial that it later withdrew.
	Before: map[int64]map[string]convert.Rule{
		2: {
			"Split": splitByInput, "Pad": renamed(pad, "paddings", "pads"),
			"LpPool": integerPower(lpPool), "GlobalLpPool": integerPower(globalLpPool),
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
	Moves: map[string]convert.Moved{
		"Split": {In: []int{0}}, "Where": {In: []int{1, 2}}, "Pad": {In: []int{0, 2}}, "Concat": {},
		"ScatterElements": {In: []int{0, 2}}, "Scatter": {In: []int{0, 2}}, "ScatterND": {In: []int{0, 2}},
		"TensorScatter": {In: []int{0, 1}}, "Shape": {In: []int{0}, Out: []int{}}, "Size": {In: []int{0}, Out: []int{}},
		"Identity": firstOnly, "Reshape": firstOnly, "Flatten": firstOnly, "Squeeze": firstOnly, "Unsqueeze": firstOnly,
		"Transpose": firstOnly, "Expand": firstOnly, "Tile": firstOnly, "Gather": firstOnly, "GatherElements": firstOnly,
		"GatherND": firstOnly, "Slice": firstOnly, "Compress": firstOnly, "ReverseSequence": firstOnly,
		"DepthToSpace": firstOnly, "SpaceToDepth": firstOnly, "CenterCropPad": firstOnly, "Trilu": firstOnly,
	},
	Integers: map[string]convert.Counted{
		"Reshape": since(5, 1, 1), "Squeeze": since(13, 1, 1), "Unsqueeze": since(13, 1, 1), "Slice": since(10, 1, 4),
		"Pad":    since(11, 1, 1),
		"Expand": since(8, 1, 1), "Tile": since(6, 1, 1), "ConstantOfShape": since(9, 0, 0), "Gather": since(1, 1, 1),
		"GatherElements": since(11, 1, 1),
		"GatherND":       since(11, 1, 1), "ScatterElements": since(11, 1, 1), "ScatterND": since(11, 1, 1),
		"TopK": since(10, 1, 1), "Split": since(13, 1, 1),
		"CumSum": since(11, 1, 1), "Trilu": since(14, 1, 1), "Resize": since(11, 3, 3), "CenterCropPad": since(18, 1, 1),
		"ReverseSequence": since(10, 1, 1), "ReduceSum": since(13, 1, 1), "ReduceMean": since(18, 1, 1),
		"ReduceMax": since(18, 1, 1),
		"ReduceMin": since(18, 1, 1), "ReduceProd": since(18, 1, 1), "ReduceL1": since(18, 1, 1), "ReduceL2": since(18, 1, 1),
		"ReduceLogSum": since(18, 1, 1), "ReduceLogSumExp": since(18, 1, 1), "ReduceSumSquare": since(18, 1, 1),
	},
}

// since declares inputs that are integers since a version of their operator.
var since = convert.Since

// firstOnly moves the first input's elements into the first output.
var firstOnly = convert.Moved{In: []int{0}, Out: []int{0}}
