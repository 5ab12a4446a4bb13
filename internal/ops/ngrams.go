package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator ngrams.
func init() {
	define(&Def{Op: "ngrams", NoGrad: occurrences, Shape: ngramsShape, Mean: hostMean("ngrams"), Host: "ngrams",
		Samples: ngramsSamples})
}

// NGramTable lists n-grams: the elements (i64) of those of one element first, then of two, and so on, in ascending
// order for each length. Starts has the index of the first n-gram of each length from 1, then the number of n-grams;
// Columns (i64) and Weights (f32) have, for each n-gram, the column in which it counts and its weight.
type NGramTable struct {
	Elements, Columns, Weights *ir.Value
	Starts                     []int64
}

// NGrams counts the listed n-grams of `least` to `most` elements in each row of x (i64, a vector or a matrix), with
// gaps of up to `skip` elements between two: f32 rows of `width` columns. With once, an n-gram counts once in a row.
func NGrams(b *ir.Builder, x *ir.Value, t NGramTable, least, most, skip, width int64, once bool) *ir.Value {
	return b.Op("ngrams", ir.Attrs{"starts": t.Starts, "least": least, "most": most, "skip": skip, "width": width,
		"once": once}, x, t.Elements, t.Columns, t.Weights)
}

// ngramsShape requires rows of i64 and a table of vectors of i64 and f32; the last axis of the result has the attribute
// width as its extent.
func ngramsShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 4, 4); err != nil {
		return err
	}
	for i, want := range []dtype.DType{dtype.I64, dtype.I64, dtype.I64, dtype.F32} {
		if t := n.Inputs[i].Type; t.DType != want || i > 0 && len(t.Shape) != 1 {
			return fault(n, "operand %d is %s", i, t)
		}
	}
	shape := append([]sym.Expr{}, n.Inputs[0].Type.Shape...)
	least, most, starts := n.Attrs.Int("least", 0), n.Attrs.Int("most", 0), n.Attrs.Ints("starts")
	if len(shape) == 0 || len(starts) == 0 || least < 1 || most < least || n.Attrs.Int("skip", 0) < 0 ||
		n.Attrs.Int("width", -1) < 0 {
		return fault(n, "n-grams of %d to %d elements in %s", least, most, n.Inputs[0].Type)
	}
	shape[len(shape)-1] = sym.Const(n.Attrs.Int("width", 0))
	n.Result(0, ir.Type{DType: dtype.F32, Shape: shape})
	return nil
}

// ngramsSamples counts n-grams of up to three elements in vectors and matrices, with gaps and without, once and each
// time.
func ngramsSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range [][]int64{{9}, {0}, {3, 7}, {2, 1}, {0, 4}} {
		for _, once := range []bool{false, true} {
			for _, skip := range []int64{0, 2} {
				x := tensor.Must(tensor.New(dtype.I64, shape...))
				for i := range x.Len() {
					x.SetInt(i, int64(r.Intn(4)))
				}
				out = append(out, Sample{
					Inputs: []*tensor.Tensor{x, tensor.Of[int64](0, 2, 0, 1, 1, 1, 3, 2, 1, 1, 1), tensor.Of[int64](3, 1, 0, 4, 2, 2),
						tensor.Of[float32](1, 2, 0.5, 1, 1, 3)},
					Attrs: ir.Attrs{"starts": []int64{0, 2, 5, 6}, "least": int64(1 + r.Intn(2)), "most": int64(3), "skip": skip,
						"width": int64(5), "once": once},
				})
			}
		}
	}
	return out
}
