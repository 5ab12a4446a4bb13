package onnx

// microsoftTable has the operators of com.microsoft.
//
//weir:table
var microsoftTable = table{rules: merged(
	// Exporters write it into ai.onnx, where it never was.
	map[string]rule{"SimplifiedLayerNormalization": simplifiedNormalization},
	within("com.microsoft", map[string]rule{
		"Gelu": exactGelu, "BiasGelu": biasGelu, "FastGelu": fastGelu, "QuickGelu": quickGelu,
		"SkipLayerNormalization": skipNormalization(true), "SkipSimplifiedLayerNormalization": skipNormalization(false),
		"EmbedLayerNormalization": embedNormalization,
		"GatherND":                gatherND, "GridSample": at(16, "GridSample"), "Pad": at(13, "Pad"), "Range": rangeOfOne,
		"Trilu": trilu, "ExpandDims": expandDims, "CDist": distances,

		"Attention": projectedAttention, "QAttention": quantizedAttention, "MultiHeadAttention": multiHeadAttention,
		"GroupQueryAttention": groupQueryAttention, "RotaryEmbedding": microsoftRotary,

		"BiasAdd": biasAdd, "BiasSplitGelu": biasSplitGelu, "GroupNorm": groupNormalized, "SkipGroupNorm": skipGroupNorm,
		"MatMulBnb4": codedProduct, "Unique": uniqueInOrder,

		"FusedMatMul": fusedMatMul, "TransposeMatMul": fusedMatMul, "FusedMatMulActivation": fusedProductActivation,
		"FusedGemm": fusedGemm, "GemmFastGelu": gemmFastGelu, "FusedConv": fusedConv,

		"QuantizeLinear": quantizeLinear, "DequantizeLinear": dequantizeLinear,
		"QLinearAdd": quantizedSum, "QLinearMul": quantizedProduct, "QLinearLeakyRelu": quantizedUnary(leakyRelu),
		"QLinearSigmoid": quantizedUnary(sigmoid), "QLinearSoftmax": quantizedUnary(softmaxOf),
		"QLinearReduceMean": quantizedUnary(meanOf), "QLinearAveragePool": quantizedUnary(pooled),
		"QLinearGlobalAveragePool": quantizedMean, "QLinearConcat": quantizedConcat, "QLinearWhere": quantizedWhere,
		"QLinearConv": quantizedConv, "QGemm": quantizedGemm, "MatMulIntegerToFloat": integerToFloat,
		"DynamicQuantizeMatMul": dynamicProduct, "MatMulNBits": packedProduct, "GatherBlockQuantized": gatherPacked,
	}),
)}
