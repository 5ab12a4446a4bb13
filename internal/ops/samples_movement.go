package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// movedTypes has one element type of each width, and one of each kind.
var movedTypes = []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.I64, dtype.U8, dtype.Bool, dtype.I4,
	dtype.F8E4M3FN}

// sampleAny is sampleOf with the special floats of sampleFloats, for operators that only move elements.
func sampleAny(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	if dt.IsFloat() {
		return sampleFloats(r, dt, shape...)
	}
	return sampleOf(r, dt, shape...)
}

// sampleIndices returns indices for an extent; those of a signed type may be negative.
func sampleIndices(r *rand.Rand, dt dtype.DType, extent int64, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Len() {
		if x := r.Int63n(2 * extent); dt.IsSigned() {
			t.SetInt(i, x-extent)
		} else {
			t.SetInt(i, x%extent)
		}
	}
	return t
}

// sampleMoves returns one case for each of movedTypes, with random elements of the shape; more are its other inputs.
func sampleMoves(r *rand.Rand, attrs ir.Attrs, shape []int64, more ...*tensor.Tensor) []Sample {
	var out []Sample
	for _, dt := range movedTypes {
		out = append(out, Sample{Attrs: attrs, Inputs: append([]*tensor.Tensor{sampleAny(r, dt, shape...)}, more...)})
	}
	return out
}

// unarySamples covers each type that takes accepts, in ranks 0 to 3, without elements, and as a constant.
func unarySamples(takes accepts) func(r *rand.Rand) []Sample {
	return func(r *rand.Rand) (out []Sample) {
		for _, dt := range append(append([]dtype.DType{dtype.Bool}, floatTypes...), integerTypes...) {
			if !takes(dt) {
				continue
			}
			for _, shape := range [][]int64{{}, {5}, {3, 0}, {2, 3, 4}} {
				out = append(out, Sample{Inputs: []*tensor.Tensor{sampleAny(r, dt, shape...)}})
			}
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleAny(r, dt, 7)}, Constant: []int{0}})
		}
		return out
	}
}

// binarySamples covers each type that takes accepts, with equal shapes and broadcast ones, without elements, and with
// two constants.
func binarySamples(takes accepts) func(r *rand.Rand) []Sample {
	return func(r *rand.Rand) (out []Sample) {
		for _, dt := range append(append([]dtype.DType{dtype.Bool}, floatTypes...), integerTypes...) {
			if !takes(dt) {
				continue
			}
			for _, shapes := range [][2][]int64{{{}, {}}, {{5}, {5}}, {{2, 3, 4}, {3, 1}}, {{4}, {3, 1}}, {{0, 3}, {3}},
				{{2, 1, 4}, {1, 5, 1}}} {
				out = append(out, Sample{Inputs: []*tensor.Tensor{sampleAny(r, dt, shapes[0]...), sampleAny(r, dt, shapes[1]...)}})
			}
			// For constants, the known elements of the result are checked too.
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleAny(r, dt, 4, 6), sampleAny(r, dt, 6)},
				Constant: []int{0, 1}})
		}
		return out
	}
}

// whereSamples covers each way to broadcast the three inputs, and a result without elements.
func whereSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range movedTypes {
		for _, s := range [][3][]int64{{{}, {3}, {3}}, {{2, 1}, {3}, {2, 3}}, {{4, 1, 2}, {5, 1}, {}}, {{0}, {0}, {1}}} {
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleOf(r, dtype.Bool, s[0]...), sampleAny(r, dt, s[1]...),
				sampleAny(r, dt, s[2]...)}})
		}
	}
	return out
}

// castSamples covers each pair of types; infinities and NaN only become floats. Small float types are also cast to with
// wrap.
func castSamples(r *rand.Rand) (out []Sample) {
	types := append(append([]dtype.DType{dtype.Bool, dtype.I4, dtype.U4, dtype.F8E4M3FN, dtype.F8E5M2}, floatTypes...),
		integerTypes...)
	for _, from := range types {
		for _, to := range types {
			x := sampleOf(r, from, 3, 4) // the integer that NaN becomes is not defined
			if to.IsFloat() {
				x = sampleAny(r, from, 3, 4)
			}
			out = append(out, Sample{Attrs: ir.Attrs{"to": to}, Inputs: []*tensor.Tensor{x}})
			if from.IsInt() {
				out = append(out, Sample{Attrs: ir.Attrs{"to": to}, Inputs: []*tensor.Tensor{x}, Constant: []int{0}})
			}
			if to == dtype.F8E4M3FN || to == dtype.F8E5M2 {
				out = append(out, Sample{Attrs: ir.Attrs{"to": to, "wrap": true}, Inputs: []*tensor.Tensor{x}})
			}
		}
	}
	return out
}

// transposeSamples covers ranks 0 to 4, axes of 1 that move among others, and a shape without elements.
func transposeSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ perm, shape []int64 }{{[]int64{}, []int64{}}, {[]int64{0}, []int64{5}},
		{[]int64{1, 0}, []int64{3, 4}}, {[]int64{2, 0, 1}, []int64{2, 3, 5}},
		{[]int64{0, 2, 1}, []int64{2, 1, 5}}, {[]int64{1, 0}, []int64{0, 4}}, {[]int64{3, 1, 0, 2}, []int64{2, 1, 3, 4}}} {
		out = append(out, sampleMoves(r, ir.Attrs{"perm": c.perm}, c.shape)...)
	}
	return out
}

// reshapeSamples covers axes that are merged, split and dropped, a scalar, and a shape without elements.
func reshapeSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ from, to []int64 }{{[]int64{}, []int64{1, 1}}, {[]int64{6}, []int64{2, 3}},
		{[]int64{2, 3, 4}, []int64{4, 6}}, {[]int64{0, 3}, []int64{5, 0}},
		{[]int64{2, 3, 4}, []int64{6, 4}}, {[]int64{2, 3, 4}, []int64{2, 3, 2, 2}}, {[]int64{2, 3, 1, 1}, []int64{2, 3}}} {
		for _, s := range sampleMoves(r, ir.Attrs{"shape": ir.Constants(c.to)}, c.from) {
			s.Constant = []int{0} // the new shape consists of numbers, so the old one must too
			out = append(out, s)
		}
	}
	return out
}

// integersSamples covers vectors of no, one and three elements.
func integersSamples(*rand.Rand) []Sample {
	var out []Sample
	for _, dt := range []dtype.DType{dtype.I64, dtype.I32, dtype.Bool} {
		for _, elements := range [][]int64{{}, {1}, {0, 1, 1}} {
			out = append(out, Sample{Attrs: ir.Attrs{"dtype": dt, "shape": []sym.Expr{sym.Const(int64(len(elements)))},
				"elements": ir.Constants(elements)}})
		}
	}
	return out
}

// sliceSamples covers steps of 1, 2, −1 and −2, slices that are contiguous and slices that are not, and empty ones.
func sliceSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ shape, begin, extent, step []int64 }{
		{[]int64{}, []int64{}, []int64{}, []int64{}},
		{[]int64{6}, []int64{1}, []int64{3}, []int64{1}},
		{[]int64{6}, []int64{5}, []int64{3}, []int64{-2}},
		{[]int64{4, 5}, []int64{1, 0}, []int64{2, 5}, []int64{1, 1}},
		{[]int64{4, 5}, []int64{0, 1}, []int64{4, 2}, []int64{1, 2}},
		{[]int64{4, 5}, []int64{3, 0}, []int64{4, 5}, []int64{-1, 1}},
		{[]int64{4, 5}, []int64{2, 4}, []int64{1, 1}, []int64{1, 1}},
		{[]int64{4, 5}, []int64{4, 0}, []int64{0, 5}, []int64{1, 1}},
		{[]int64{1, 3, 4}, []int64{0, 1, 0}, []int64{1, 2, 4}, []int64{1, 1, 1}},
	} {
		out = append(out, sampleMoves(r, ir.Attrs{"begin": ir.Constants(c.begin), "extent": ir.Constants(c.extent),
			"step": c.step}, c.shape)...)
	}
	return out
}

// concatSamples covers one, two and three inputs, an empty one among them, along a first, a middle and a last axis.
func concatSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range movedTypes {
		for _, c := range []struct {
			axis   int64
			shapes [][]int64
		}{{0, [][]int64{{3}}}, {0, [][]int64{{3}, {0}, {4}}}, {1, [][]int64{{2, 3}, {2, 1}, {2, 5}}},
			{-2, [][]int64{{2, 1, 3}, {2, 4, 3}}}} {
			s := Sample{Attrs: ir.Attrs{"axis": c.axis}}
			for _, shape := range c.shapes {
				s.Inputs = append(s.Inputs, sampleAny(r, dt, shape...))
			}
			out = append(out, s)
		}
	}
	return out
}

// expandSamples covers new axes, repeated ones, extents of 1 in the target, and a result without elements.
func expandSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ from, to []int64 }{{[]int64{}, []int64{2, 3}}, {[]int64{3}, []int64{3}},
		{[]int64{3, 1}, []int64{2, 1, 6}}, {[]int64{1, 4}, []int64{0, 1}}, {[]int64{2, 3}, []int64{1, 1}},
		{[]int64{2, 3, 1}, []int64{2, 3, 4}}} {
		out = append(out, sampleMoves(r, ir.Attrs{"shape": ir.Constants(c.to)}, c.from)...)
	}
	return out
}

// padSamples covers each mode with positive, negative and mixed amounts, some larger than the axis, and mode constant
// with and without a value.
func padSamples(r *rand.Rand) (out []Sample) {
	for _, mode := range []string{"constant", "edge", "reflect", "wrap"} {
		for _, c := range []struct{ shape, begin, end []int64 }{
			{[]int64{}, []int64{}, []int64{}},
			{[]int64{3}, []int64{2}, []int64{1}},
			{[]int64{4, 5}, []int64{1, 0}, []int64{0, 7}},
			{[]int64{4, 5}, []int64{-1, 2}, []int64{2, -3}},
			{[]int64{1, 3}, []int64{3, 5}, []int64{2, 6}},
			{[]int64{2, 3, 2}, []int64{0, -2, 0}, []int64{0, 0, 1}},
		} {
			for _, s := range sampleMoves(r, ir.Attrs{"mode": mode, "begin": ir.Constants(c.begin), "end": ir.Constants(c.end)},
				c.shape) {
				out = append(out, s)
				if mode == "constant" {
					out = append(out, Sample{Attrs: s.Attrs, Inputs: append(s.Inputs[:1:1], sampleAny(r, s.Inputs[0].DType()))})
				}
			}
		}
	}
	return out
}

// rangeSamples covers ranges of 0, 1 and 7 elements.
func rangeSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.I64, dtype.I32, dtype.I16} {
		for _, extent := range []int64{0, 1, 7} {
			out = append(out, Sample{Attrs: ir.Attrs{"extent": sym.Const(extent)},
				Inputs: []*tensor.Tensor{sampleOf(r, dt), sampleOf(r, dt)}})
		}
	}
	return out
}

// gatherSamples covers indices of three types and ranks 0 to 2, along a first, a middle and a last axis, and results
// without elements.
func gatherSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct {
		axis           int64
		shape, indices []int64
	}{{0, []int64{5}, []int64{}}, {0, []int64{5, 3}, []int64{4}}, {1, []int64{2, 5, 3}, []int64{2, 2}},
		{-1, []int64{2, 3, 4}, []int64{3}}, {0, []int64{4, 0}, []int64{3}}, {1, []int64{3, 4}, []int64{0}}} {
		extent := c.shape[(c.axis+int64(len(c.shape)))%int64(len(c.shape))]
		for _, dt := range []dtype.DType{dtype.I64, dtype.I32, dtype.U8} {
			out = append(out, sampleMoves(r, ir.Attrs{"axis": c.axis}, c.shape, sampleIndices(r, dt, extent, c.indices...))...)
		}
	}
	return out
}

// gatherElementsSamples covers indices longer and shorter than the axis, and none.
func gatherElementsSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct {
		axis           int64
		shape, indices []int64
	}{{0, []int64{5}, []int64{7}}, {0, []int64{5, 3}, []int64{2, 3}}, {1, []int64{4, 5}, []int64{3, 6}},
		{-1, []int64{2, 3, 4}, []int64{2, 0, 4}}} {
		extent := c.shape[(c.axis+int64(len(c.shape)))%int64(len(c.shape))]
		out = append(out, sampleMoves(r, ir.Attrs{"axis": c.axis}, c.shape,
			sampleIndices(r, dtype.I64, extent, c.indices...))...)
	}
	return out
}

// gatherNDSamples covers tuples of 0, 1 and 2 indices, with and without a batch axis.
func gatherNDSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct {
		batch          int64
		shape, indices []int64
	}{{0, []int64{5}, []int64{3, 1}}, {0, []int64{3, 3, 2}, []int64{4, 2}}, {1, []int64{2, 3, 3}, []int64{2, 4, 1}},
		{1, []int64{2, 3, 3}, []int64{2, 2}}, {0, []int64{3, 4}, []int64{2, 0}}} {
		for _, s := range sampleMoves(r, ir.Attrs{"batch": c.batch}, c.shape, sampleIndices(r, dtype.I64, 3, c.indices...)) {
			s.Constant = []int{1} // a tuple's length must be a number
			out = append(out, s)
		}
	}
	return out
}

// scatterElementsSamples covers each reduction, indices that repeat, none, and updates that write full rows.
func scatterElementsSamples(r *rand.Rand) (out []Sample) {
	for _, reduction := range []string{"none", "add", "mul", "min", "max"} {
		for _, dt := range append([]dtype.DType{dtype.F32, dtype.F64, dtype.I64, dtype.U8}, dtype.Bool) {
			if f, ok := scatterFunctions[reduction]; ok && !f.Accepts(dt) {
				continue
			}
			for _, c := range []struct {
				axis           int64
				shape, indices []int64
			}{{0, []int64{5}, []int64{3}}, {0, []int64{4, 3}, []int64{2, 2}}, {-1, []int64{2, 3, 4}, []int64{2, 1, 6}},
				{1, []int64{3, 4}, []int64{3, 0}}} {
				extent := c.shape[(c.axis+int64(len(c.shape)))%int64(len(c.shape))]
				out = append(out, Sample{Attrs: ir.Attrs{"axis": c.axis, "reduction": reduction},
					Inputs: []*tensor.Tensor{sampleOf(r, dt, c.shape...), sampleIndices(r, dtype.I64, extent, c.indices...),
						sampleOf(r, dt, c.indices...)}})
			}
		}
	}
	rows := tensor.Must(tensor.FromSlice([]int64{3, 3, 3, 1, 1, 1}, 2, 3)) // each row is written entirely
	return append(out, Sample{Attrs: ir.Attrs{"axis": int64(0)}, Constant: []int{1},
		Inputs: []*tensor.Tensor{sampleOf(r, dtype.F32, 4, 3), rows, sampleOf(r, dtype.F32, 2, 3)}})
}

// scatterNDSamples covers each reduction, updates of elements and of rows, indices that repeat, and none.
func scatterNDSamples(r *rand.Rand) (out []Sample) {
	for _, reduction := range []string{"none", "add", "mul", "min", "max"} {
		for _, dt := range []dtype.DType{dtype.F32, dtype.F16, dtype.I32, dtype.U64} {
			for _, c := range []struct{ shape, indices, updates []int64 }{{[]int64{5}, []int64{3, 1}, []int64{3}},
				{[]int64{3, 3, 2}, []int64{4, 2}, []int64{4, 2}},
				{[]int64{3, 4}, []int64{2, 2, 1}, []int64{2, 2, 4}}, {[]int64{3, 3}, []int64{0, 2}, []int64{0}}} {
				out = append(out, Sample{Attrs: ir.Attrs{"reduction": reduction}, Constant: []int{1},
					Inputs: []*tensor.Tensor{sampleOf(r, dt, c.shape...), sampleIndices(r, dtype.I64, 3, c.indices...),
						sampleOf(r, dt, c.updates...)}})
			}
		}
	}
	return out
}

// cumulateSamples covers both directions, with and without the own element, along two axes.
func cumulateSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range append(floatTypes[:2:2], dtype.I32, dtype.U8, dtype.I64) {
		for _, shape := range [][]int64{{6}, {3, 4}, {2, 0, 3}, {2, 3, 4}} {
			for mode := range 4 {
				out = append(out, Sample{Attrs: ir.Attrs{"axis": int64(mode%2) - 1, "exclusive": mode&1 != 0,
					"reverse": mode&2 != 0},
					Inputs: []*tensor.Tensor{sampleOf(r, dt, shape...)}})
			}
		}
	}
	return out
}

// triangleSamples covers both triangles of square and other matrices, with diagonals inside and outside.
func triangleSamples(r *rand.Rand) (out []Sample) {
	for _, upper := range []bool{false, true} {
		for _, k := range []int64{0, 1, -2, 9} {
			for _, shape := range [][]int64{{3, 3}, {2, 4, 3}, {0, 2}} {
				out = append(out, sampleMoves(r, ir.Attrs{"upper": upper, "k": sym.Const(k)}, shape)...)
			}
		}
	}
	return out
}

// reverseSequenceSamples covers batch axes before and after the time axis, with random lengths.
func reverseSequenceSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ batch, time int64 }{{0, 1}, {1, 0}, {2, 0}} {
		shape := []int64{4, 5, 3}
		lengths := tensor.Must(tensor.New(dtype.I64, shape[c.batch]))
		for i := range lengths.Len() {
			lengths.SetInt(i, r.Int63n(shape[c.time]+1))
		}
		out = append(out, sampleMoves(r, ir.Attrs{"batch": c.batch, "time": c.time}, shape, lengths)...)
	}
	return out
}

// resampleSamples covers each axis with 0 to 7 taps, fewer and more than are written out.
func resampleSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range floatTypes {
		for _, taps := range []int64{0, 1, 2, 4, 7} {
			for axis, extent := range []int64{2, 3, 5} {
				out = append(out, Sample{Attrs: ir.Attrs{"axis": int64(axis)}, Constant: []int{1, 2},
					Inputs: []*tensor.Tensor{sampleNormal(r, dt, 2, 3, 5), sampleIndices(r, dtype.I64, extent, 6, taps),
						sampleNormal(r, dt, 6, taps)}})
			}
		}
	}
	return out
}

// nonzeroSamples covers ranks 0 to 3, no elements, and a tensor of zeros.
func nonzeroSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range [][]int64{{}, {6}, {3, 4}, {0, 2}, {2, 2, 3}} {
		out = append(out, sampleMoves(r, nil, shape)...)
		out = append(out, Sample{Inputs: []*tensor.Tensor{tensor.Must(tensor.New(dtype.I32, shape...))}})
	}
	return out
}

// topkSamples covers both orders along each axis, k of 0 and of the full axis, and empty rows.
func topkSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range append(floatTypes[:3:3], dtype.I32, dtype.U8, dtype.U64) {
		for _, largest := range []bool{false, true} {
			for _, c := range []struct {
				k, axis int64
				shape   []int64
			}{{3, 0, []int64{3}}, {2, -1, []int64{3, 5}}, {1, 1, []int64{2, 6, 3}}, {0, 0, []int64{4}}, {2, 0, []int64{9, 0}}} {
				out = append(out, Sample{Attrs: ir.Attrs{"k": sym.Const(c.k), "axis": c.axis, "largest": largest},
					Inputs: []*tensor.Tensor{sampleAny(r, dt, c.shape...)}, Constant: []int{0}})
			}
		}
	}
	return out
}

// uniqueSamples covers sorted and unsorted results for elements and for slices, and no elements.
func uniqueSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.I64, dtype.Bool, dtype.U8} {
		for _, sorted := range []bool{false, true} {
			for _, c := range []struct {
				axis  int64
				shape []int64
			}{{0, []int64{12}}, {0, []int64{0}}, {0, []int64{6, 1}}, {-1, []int64{2, 9}}} {
				out = append(out, Sample{Attrs: ir.Attrs{"axis": c.axis, "sorted": sorted},
					Inputs: []*tensor.Tensor{sampleAny(r, dt, c.shape...)}})
			}
		}
	}
	return out
}
