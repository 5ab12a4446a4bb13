package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// sampleWords are strings of every kind: empty, blank, with letters whose case changes their length, and with bytes
// that are not UTF-8.
var sampleWords = []string{"", "a", "Monday", "monday", "MONDAY", "a b  c", " lead, trail ", "x,,y", "ÀÉß", "Ⱥ",
	"\xff\xfeA", "日本", "a@b.org", "\t \n"}

// sampleTexts returns strings drawn from sampleWords, as spans and pool.
func sampleTexts(r *rand.Rand, shape ...int64) []*tensor.Tensor {
	count, err := tensor.Count(shape)
	if err != nil {
		panic(err)
	}
	list := make([]string, count)
	for i := range list {
		list[i] = sampleWords[r.Intn(len(sampleWords))]
	}
	return packSample(shape, list)
}

// packSample returns a tensor of strings as spans and pool.
func packSample(shape []int64, list []string) []*tensor.Tensor {
	spans, pool, err := tensor.PackStrings(tensor.New, tensor.Must(tensor.OverStrings(shape, list)))
	if err != nil {
		panic(err)
	}
	return []*tensor.Tensor{spans[0], pool}
}

var sampleTextShapes = [][]int64{{}, {3}, {0}, {2, 3}, {1, 7}, {2, 0, 2}}

// textPairSamples covers different strings, equal ones, and strings that are longer together than their pool.
func textPairSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range sampleTextShapes {
		x, y := sampleTexts(r, shape...), sampleTexts(r, shape...)
		out = append(out, Sample{Inputs: slices.Concat(x, y)}, Sample{Inputs: slices.Concat(x, x)})
		// Each string is the entire pool: together they are longer than it.
		spans := tensor.Must(tensor.New(dtype.I64, shape...))
		for i := range spans.Len() {
			spans.SetInt(i, tensor.Span(0, x[1].Len()))
		}
		out = append(out, Sample{Inputs: []*tensor.Tensor{spans, x[1], y[0], y[1]}})
	}
	return out
}

// textSplitSamples covers white space, one byte and two as the delimiter, with and without a limit of cuts.
func textSplitSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range sampleTextShapes {
		for _, delimiter := range []string{"", ",", ", "} {
			for _, most := range []int64{-1, 0, 1, 2} {
				out = append(out, Sample{Inputs: sampleTexts(r, shape...), Attrs: ir.Attrs{"delimiter": delimiter, "most": most}})
			}
		}
	}
	return out
}

// textNormalizeSamples covers each case with and without stop words, which match exactly or in any case.
func textNormalizeSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range [][]int64{{4}, {1, 6}, {0}, {1, 0}} {
		for _, to := range []string{"lower", "upper", "none"} {
			for _, stops := range [][]string{{}, {"", "a", "monday"}} {
				for _, exact := range []bool{false, true} {
					x := sampleTexts(r, shape...)
					out = append(out, Sample{Inputs: slices.Concat(x, packSample([]int64{int64(len(stops))}, stops)),
						Attrs: ir.Attrs{"case": to, "exact": exact}})
				}
			}
		}
	}
	return append(out, Sample{Inputs: slices.Concat(packSample([]int64{2}, []string{"Monday", "MONDAY"}),
		packSample([]int64{1}, []string{"monday"})), Attrs: ir.Attrs{"case": "none", "exact": false}})
}

// textMatchSamples covers an empty pattern, a class, an alternative, and one for addresses.
func textMatchSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range sampleTextShapes {
		for _, pattern := range []string{"", "[a-z]+", `(\W|^)[\w.]+@\w+\.org(\W|$)`, "a|.*day"} {
			out = append(out, Sample{Inputs: sampleTexts(r, shape...), Attrs: ir.Attrs{"pattern": pattern}})
		}
	}
	return out
}

// textIndexSamples covers no key, one, and nine.
func textIndexSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range sampleTextShapes {
		for _, keys := range [][]string{{}, {"a"}, slices.Sorted(slices.Values(sampleWords[:9]))} {
			out = append(out, Sample{Inputs: slices.Concat(sampleTexts(r, shape...),
				packSample([]int64{int64(len(keys))}, keys))})
		}
	}
	return out
}

// textRankSamples covers each shape of strings, with repetitions.
func textRankSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range sampleTextShapes {
		out = append(out, Sample{Inputs: sampleTexts(r, shape...)})
	}
	return out
}

// textFormatSamples covers each type of numbers and Bool, with infinities and NaN.
func textFormatSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range sampleTextShapes {
		for _, dt := range slices.Concat(floatTypes, integerTypes, []dtype.DType{dtype.Bool}) {
			x := sampleOf(r, dt, shape...)
			if dt.IsFloat() {
				x = sampleFloats(r, dt, shape...)
			}
			out = append(out, Sample{Inputs: []*tensor.Tensor{x}})
		}
	}
	return out
}

// textParseSamples covers signs, fractions and exponents for each type, and infinities and NaN for f32.
func textParseSamples(r *rand.Rand) (out []Sample) {
	numbers := []string{"0", "1", "-0", "+1", "1e0", "100.5", "12E-1", "0.5"}
	for _, shape := range sampleTextShapes {
		count, err := tensor.Count(shape)
		if err != nil {
			panic(err)
		}
		for _, to := range slices.Concat(floatTypes, integerTypes, []dtype.DType{dtype.Bool}) {
			list := make([]string, count)
			for i := range list {
				list[i] = numbers[r.Intn(len(numbers))]
			}
			out = append(out, Sample{Inputs: packSample(shape, list), Attrs: ir.Attrs{"to": to}})
		}
	}
	return append(out, Sample{Inputs: packSample([]int64{4}, []string{"INF", "-INF", "NaN", "+INF"}),
		Attrs: ir.Attrs{"to": dtype.F32}})
}
