package onnx

// mlTable has the operators of ai.onnx.ml.
var mlTable = table{
	rules: within("ai.onnx.ml", map[string]rule{
		"ArrayFeatureExtractor": arrayFeatures, "Binarizer": binarizer, "FeatureVectorizer": featureVectorizer,
		"Imputer": imputer, "CategoryMapper": categoryMapper, "LabelEncoder": labelEncoder, "OneHotEncoder": oneHotEncoder,
		"Normalizer": normalizer, "Scaler": scaler, "ZipMap": zipMap,
		"LinearClassifier": linearClassifier, "LinearRegressor": linearRegressor,
		"SVMClassifier": vectorClassifier, "SVMRegressor": vectorRegressor,
		"TreeEnsemble": treeEnsemble, "TreeEnsembleClassifier": treeClassifier, "TreeEnsembleRegressor": treeRegressor,
	}),
	moves: within("ai.onnx.ml", map[string]moved{"ArrayFeatureExtractor": {[]int{0}, []int{0}}}),
}
