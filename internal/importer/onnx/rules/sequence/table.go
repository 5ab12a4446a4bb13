// Package sequence has the rules of ai.onnx's operators on sequences, optionals and strings.
package sequence

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
)

// Rules has the operators on sequences, optionals and strings.
var Rules = convert.Table{
	Rules: map[string]convert.Rule{
		"SequenceConstruct": sequenceConstruct, "SequenceEmpty": sequenceEmpty, "SequenceAt": sequenceAt,
		"SequenceLength": sequenceLength, "SequenceInsert": sequenceInsert, "SequenceErase": sequenceErase,
		"SequenceMap": sequenceMap, "ConcatFromSequence": concatFromSequence, "SplitToSequence": splitToSequence,

		"Optional": optional, "OptionalHasElement": optionalHasElement, "OptionalGetElement": optionalGetElement,

		"StringConcat": stringConcat, "StringSplit": stringSplit, "StringNormalizer": stringNormalizer,
		"RegexFullMatch": regexFullMatch, "TfIdfVectorizer": tfIdfVectorizer,
	},
	Strings: map[string]convert.Rule{
		"Equal": stringEqual, "Cast": stringCast, "CastLike": stringCastLike, "Unique": stringUnique, "OneHot": stringOneHot,
	},
}
