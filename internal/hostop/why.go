package hostop

import "strings"

// Why returns the reason why a host operator is not a loop nest, in one clause; "" for an unknown operator.
func Why(name string) string {
	if family, _, ok := strings.Cut(name, "_"); ok && whys[family] != "" {
		return whys[family]
	}
	return whys[name]
}

const (
	sizeOfData  = "the data decide its results' sizes"
	orderOfData = "each of its steps depends on the data"
	oneByOne    = "each random number is computed from the previous one"
)

// whys are the reasons, by the operator or by the family that its name begins with.
//
//weir:table
var whys = map[string]string{
	"bitcast":             "its results are the same bytes under another type",
	"couple":              orderOfData,
	"decode":              "it decodes a file",
	"draw":                oneByOne,
	"find":                orderOfData,
	"fourier":             "its length decides into which shorter transforms it is split",
	"interpret":           "it is the reference",
	"mel":                 "its table is made once",
	"ngrams":              orderOfData,
	"non_max_suppression": sizeOfData,
	"nonzero":             sizeOfData,
	"random":              "its generator multiplies integers of 32 bits to 64 bits, which a loop nest cannot do",
	"sequence":            "it computes with lists of tensors",
	"text":                "it computes with strings",
	"topk":                orderOfData,
	"trees":               orderOfData,
	"unique":              sizeOfData,
}
