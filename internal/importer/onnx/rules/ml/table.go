// Package ml has the rules of ai.onnx.ml: encoders, linear models, support vectors and trees.
package ml

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
)

// Rules has the operators of ai.onnx.ml.
var Rules = convert.Table{
	Rules: convert.Within("ai.onnx.ml", map[string]convert.Rule{
		"ArrayFeatureExtractor": arrayFeatures, "Binarizer": binarizer, "FeatureVectorizer": featureVectorizer,
		"Imputer": imputer, "CategoryMapper": categoryMapper, "LabelEncoder": labelEncoder, "OneHotEncoder": oneHotEncoder,
		"Normalizer": normalizer, "Scaler": scaler, "ZipMap": zipMap,
		"LinearClassifier": linearClassifier, "LinearRegressor": linearRegressor,
		"SVMClassifier": vectorClassifier, "SVMRegressor": vectorRegressor,
		"TreeEnsemble": treeEnsemble, "TreeEnsembleClassifier": treeClassifier, "TreeEnsembleRegressor": treeRegressor,
	}),
	Moves: convert.Within("ai.onnx.ml", map[string]convert.Moved{"ArrayFeatureExtractor": {In: []int{0}, Out: []int{0}}}),
}
