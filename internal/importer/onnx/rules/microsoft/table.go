// Package microsoft has the rules of com.microsoft, the operators that onnxruntime's optimizers write.
package microsoft

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
)

// Rules has the operators of com.microsoft.
var Rules = convert.Table{Rules: convert.Merged(
	// Exporters write this operator into ai.onnx, which never had it.
	map[string]convert.Rule{"SimplifiedLayerNormalization": simplifiedNormalization},
	convert.Within(microsoft, map[string]convert.Rule{
		"Gelu": exactGelu, "BiasGelu": biasGelu, "FastGelu": fastGelu, "QuickGelu": quickGelu,
		"SkipLayerNormalization": skipNormalization(true), "SkipSimplifiedLayerNormalization": skipNormalization(false),
		"EmbedLayerNormalization": embedNormalization,
		"GatherND":                core.GatherND, "GridSample": ruleOfVersion(16, "GridSample"),
		"Pad":   ruleOfVersion(13, "Pad"),
		"Range": rangeOfOne,
		"Trilu": core.Trilu, "ExpandDims": expandDims, "CDist": distances,

		"Attention": projectedAttention, "QAttention": quantizedAttention, "MultiHeadAttention": multiHeadAttention,
		"GroupQueryAttention": groupQueryAttention, "RotaryEmbedding": microsoftRotary,

		"BiasAdd": biasAdd, "BiasSplitGelu": biasSplitGelu, "GroupNorm": groupNormalized, "SkipGroupNorm": skipGroupNorm,
		"MatMulBnb4": codedProduct, "Unique": uniqueInOrder,

		"FusedMatMul": fusedMatMul, "TransposeMatMul": fusedMatMul, "FusedMatMulActivation": fusedProductActivation,
		"FusedGemm": fusedGemm, "GemmFastGelu": gemmFastGelu, "FusedConv": fusedConv,

		"QuantizeLinear": core.QuantizeLinear, "DequantizeLinear": core.DequantizeLinear,
		"QLinearAdd": quantizedSum, "QLinearMul": quantizedProduct, "QLinearLeakyRelu": quantizedUnary(leakyRelu),
		"QLinearSigmoid": quantizedUnary(sigmoid), "QLinearSoftmax": quantizedUnary(softmaxOf),
		"QLinearReduceMean": quantizedUnary(meanOf), "QLinearAveragePool": quantizedUnary(pooled),
		"QLinearGlobalAveragePool": quantizedMean, "QLinearConcat": quantizedConcat, "QLinearWhere": quantizedWhere,
		"QLinearConv": quantizedConv, "QGemm": quantizedGemm, "MatMulIntegerToFloat": integerToFloat,
		"DynamicQuantizeMatMul": dynamicProduct, "DynamicQuantizeLSTM": dynamicLSTM,
		"MatMulNBits": packedProduct, "GatherBlockQuantized": gatherPacked,
	}),
)}
