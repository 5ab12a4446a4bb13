package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// movedTypes are one element type of each width, and one of each kind.
var movedTypes = []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.I64, dtype.U8, dtype.Bool, dtype.I4,
	dtype.F8E4M3FN}

// sampleAny is sampleOf for the types that are only moved.
func sampleAny(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	if dt.IsFloat() {
		return sampleFloats(r, dt, shape...)
	}
	return sampleOf(r, dt, shape...)
}

// sampleIndices is a tensor of indices for an extent, some of them from the end.
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

// sampleMoves runs one case through the element types that are only moved.
func sampleMoves(r *rand.Rand, attrs ir.Attrs, shape []int64, more ...*tensor.Tensor) []Sample {
	var out []Sample
	for _, dt := range movedTypes {
		out = append(out, Sample{Attrs: attrs, Inputs: append([]*tensor.Tensor{sampleAny(r, dt, shape...)}, more...)})
	}
	return out
}

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
			// Of constants, what is known of the result is checked too.
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleAny(r, dt, 4, 6), sampleAny(r, dt, 6)},
				Constant: []int{0, 1}})
		}
		return out
	}
}

func whereSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range movedTypes {
		for _, s := range [][3][]int64{{{}, {3}, {3}}, {{2, 1}, {3}, {2, 3}}, {{4, 1, 2}, {5, 1}, {}}, {{0}, {0}, {1}}} {
			out = append(out, Sample{Inputs: []*tensor.Tensor{sampleOf(r, dtype.Bool, s[0]...), sampleAny(r, dt, s[1]...),
				sampleAny(r, dt, s[2]...)}})
		}
	}
	return out
}

func castSamples(r *rand.Rand) (out []Sample) {
	types := append(append([]dtype.DType{dtype.Bool, dtype.I4, dtype.U4, dtype.F8E4M3FN, dtype.F8E5M2}, floatTypes...),
		integerTypes...)
	for _, from := range types {
		for _, to := range types {
			x := sampleOf(r, from, 3, 4) // what NaN becomes as an integer is nobody's promise
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

func transposeSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ perm, shape []int64 }{{[]int64{}, []int64{}}, {[]int64{0}, []int64{5}},
		{[]int64{1, 0}, []int64{3, 4}}, {[]int64{2, 0, 1}, []int64{2, 3, 5}},
		{[]int64{0, 2, 1}, []int64{2, 1, 5}}, {[]int64{1, 0}, []int64{0, 4}}, {[]int64{3, 1, 0, 2}, []int64{2, 1, 3, 4}}} {
		out = append(out, sampleMoves(r, ir.Attrs{"perm": c.perm}, c.shape)...)
	}
	return out
}

func reshapeSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ from, to []int64 }{{[]int64{}, []int64{1, 1}}, {[]int64{6}, []int64{2, 3}},
		{[]int64{2, 3, 4}, []int64{4, 6}}, {[]int64{0, 3}, []int64{5, 0}},
		{[]int64{2, 3, 4}, []int64{6, 4}}, {[]int64{2, 3, 4}, []int64{2, 3, 2, 2}}, {[]int64{2, 3, 1, 1}, []int64{2, 3}}} {
		for _, s := range sampleMoves(r, ir.Attrs{"shape": ir.Constants(c.to)}, c.from) {
			s.Constant = []int{0} // the new shape is of numbers: so must the old one be
			out = append(out, s)
		}
	}
	return out
}

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

func expandSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ from, to []int64 }{{[]int64{}, []int64{2, 3}}, {[]int64{3}, []int64{3}},
		{[]int64{3, 1}, []int64{2, 1, 6}}, {[]int64{1, 4}, []int64{0, 1}}, {[]int64{2, 3}, []int64{1, 1}},
		{[]int64{2, 3, 1}, []int64{2, 3, 4}}} {
		out = append(out, sampleMoves(r, ir.Attrs{"shape": ir.Constants(c.to)}, c.from)...)
	}
	return out
}

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

func rangeSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.I64, dtype.I32, dtype.I16} {
		for _, extent := range []int64{0, 1, 7} {
			out = append(out, Sample{Attrs: ir.Attrs{"extent": sym.Const(extent)},
				Inputs: []*tensor.Tensor{sampleOf(r, dt), sampleOf(r, dt)}})
		}
	}
	return out
}

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

func gatherNDSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct {
		batch          int64
		shape, indices []int64
	}{{0, []int64{5}, []int64{3, 1}}, {0, []int64{3, 3, 2}, []int64{4, 2}}, {1, []int64{2, 3, 3}, []int64{2, 4, 1}},
		{1, []int64{2, 3, 3}, []int64{2, 2}}, {0, []int64{3, 4}, []int64{2, 0}}} {
		for _, s := range sampleMoves(r, ir.Attrs{"batch": c.batch}, c.shape, sampleIndices(r, dtype.I64, 3, c.indices...)) {
			s.Constant = []int{1} // a tuple's length is a number
			out = append(out, s)
		}
	}
	return out
}

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
	rows := tensor.Must(tensor.FromSlice([]int64{3, 3, 3, 1, 1, 1}, 2, 3)) // of which each is written as a whole
	return append(out, Sample{Attrs: ir.Attrs{"axis": int64(0)}, Constant: []int{1},
		Inputs: []*tensor.Tensor{sampleOf(r, dtype.F32, 4, 3), rows, sampleOf(r, dtype.F32, 2, 3)}})
}

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

func nonzeroSamples(r *rand.Rand) (out []Sample) {
	for _, shape := range [][]int64{{}, {6}, {3, 4}, {0, 2}, {2, 2, 3}} {
		out = append(out, sampleMoves(r, nil, shape)...)
		out = append(out, Sample{Inputs: []*tensor.Tensor{tensor.Must(tensor.New(dtype.I32, shape...))}})
	}
	return out
}

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
