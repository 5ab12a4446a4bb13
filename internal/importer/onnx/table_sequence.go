package onnx

// sequenceTable has the operators on sequences, optionals and texts.
var sequenceTable = table{
	rules: map[string]rule{
		"SequenceConstruct": sequenceConstruct, "SequenceEmpty": sequenceEmpty, "SequenceAt": sequenceAt,
		"SequenceLength": sequenceLength, "SequenceInsert": sequenceInsert, "SequenceErase": sequenceErase,
		"SequenceMap": sequenceMap, "ConcatFromSequence": concatFromSequence, "SplitToSequence": splitToSequence,

		"Optional": optional, "OptionalHasElement": optionalHasElement, "OptionalGetElement": optionalGetElement,

		"StringConcat": stringConcat, "StringSplit": stringSplit, "StringNormalizer": stringNormalizer,
		"RegexFullMatch": regexFullMatch, "TfIdfVectorizer": tfIdfVectorizer,
	},
	texts: map[string]rule{
		"Equal": textEqual, "Cast": textCast, "CastLike": textCastLike, "Unique": textUnique, "OneHot": textOneHot,
	},
}
