package conformance

import (
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// special is a node on values for which ONNX's text is silent, with the elements that docs/accuracy.md states.
type special struct {
	op         string
	attributes []*wire.AttributeProto
	in         []*tensor.Tensor
	want       *tensor.Tensor
}

// halves returns f16 numbers.
func halves(list ...float64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dtype.F16, int64(len(list))))
	for i, x := range list {
		t.SetFloat(int64(i), x)
	}
	return t
}

// specials are these nodes. The last axis is the reduced one.
func specials() []special {
	nan, inf := math.NaN(), math.Inf(1)
	const (
		most, least   = math.MaxInt32, math.MinInt32
		wide, widest  = 1<<53 + 1, math.MaxInt64
		lowest        = math.MinInt64
		axis, last    = "axis", "select_last_index"
		keep, foreign = "keepdims", "fmod"
	)
	whole := wire.IntAttribute
	rows := tensor.Must(tensor.FromSlice([]float32{1, float32(nan), 3, float32(nan), 2, float32(nan), float32(-inf),
		float32(nan), float32(inf), 3, 3, 1}, 4, 3))
	to := func(dt dtype.DType) []*wire.AttributeProto {
		return []*wire.AttributeProto{whole("to", int64(wire.DataTypeOf(dt)))}
	}
	return []special{
		{"ArgMax", []*wire.AttributeProto{whole(axis, 1), whole(keep, 0)}, []*tensor.Tensor{rows},
			tensor.Of[int64](1, 0, 1, 0)},
		{"ArgMin", []*wire.AttributeProto{whole(axis, 1), whole(keep, 0)}, []*tensor.Tensor{rows},
			tensor.Of[int64](1, 0, 1, 2)},
		{"ArgMax", []*wire.AttributeProto{whole(axis, 1), whole(keep, 0), whole(last, 1)}, []*tensor.Tensor{rows},
			tensor.Of[int64](1, 2, 1, 1)},
		{"Hardmax", []*wire.AttributeProto{whole(axis, 1)}, []*tensor.Tensor{rows},
			tensor.Must(tensor.FromSlice([]float32{0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0}, 4, 3))},
		{"Sign", nil, []*tensor.Tensor{halves(nan, inf, -inf, -2, 0)}, halves(nan, 1, -1, -1, 0)},
		{"Sign", nil, []*tensor.Tensor{tensor.Of(nan, inf, -inf, -2, 0)}, tensor.Of(nan, 1, -1, -1, 0)},
		{"LogSoftmax", nil, []*tensor.Tensor{tensor.Of(nan, 1, 2)}, tensor.Of(nan, nan, nan)},
		{"LogSoftmax", nil, []*tensor.Tensor{tensor.Of(inf, 1, 2)}, tensor.Of(nan, nan, nan)},
		{"LogSoftmax", nil, []*tensor.Tensor{tensor.Of(-inf, -inf)}, tensor.Of(nan, nan)},
		{"LogSoftmax", nil, []*tensor.Tensor{tensor.Of(1000.0, 0, -inf)}, tensor.Of(0, -1000, -inf)},
		{"ReduceSum", []*wire.AttributeProto{whole(keep, 0)}, []*tensor.Tensor{tensor.Of[int32](most, 1)},
			tensor.Scalar[int32](least)},
		{"ReduceSum", []*wire.AttributeProto{whole(keep, 0)}, []*tensor.Tensor{tensor.Of[int32](most, most, most)},
			tensor.Scalar[int32](most - 2)},
		{"ReduceProd", []*wire.AttributeProto{whole(keep, 0)}, []*tensor.Tensor{tensor.Of[int32](least, -1)},
			tensor.Scalar[int32](least)},
		{"ReduceSumSquare", []*wire.AttributeProto{whole(keep, 0)}, []*tensor.Tensor{tensor.Of[int32](most, 2)},
			tensor.Scalar[int32](5)},
		{"Mod", []*wire.AttributeProto{whole(foreign, 1)},
			[]*tensor.Tensor{tensor.Of[int64](wide, -wide, widest, widest, -7), tensor.Of[int64](2, 2, 10, widest-1, 3)},
			tensor.Of[int64](1, -1, 7, 1, -1)},
		{"Pow", nil, []*tensor.Tensor{tensor.Of[int64](3, 2, 2, -3, 2, 0, 0, -1, 1),
			tensor.Of[int64](39, 62, 64, 41, -1, -1, 0, -1, -5)},
			tensor.Of[int64](4052555153018976267, 1<<62, 0, 420491770248316829, 0, 0, 1, -1, 1)},
		{"Pow", nil, []*tensor.Tensor{tensor.Of[int32](3, 2, 2), tensor.Of[int32](20, 31, 32)},
			tensor.Of[int32](-808182895, least, 0)},
		{"Pow", nil, []*tensor.Tensor{tensor.Of[int32](2, -8, 9, 0), tensor.Of[float32](70, 1.0/3, 0.5, -1)},
			tensor.Of[int32](most, 0, 3, most)},
		{"Cast", to(dtype.I32), []*tensor.Tensor{tensor.Of(nan, inf, -inf, 3e9, -3e9, -0.9)},
			tensor.Of[int32](0, most, least, most, least, 0)},
		{"Cast", to(dtype.I8), []*tensor.Tensor{tensor.Of(nan, inf, -inf, 300, -300)}, tensor.Of[int8](0, -1, 0, 44, -44)},
		{"Cast", to(dtype.I64), []*tensor.Tensor{tensor.Of[float32](float32(nan), float32(inf), float32(-inf), 1e19)},
			tensor.Of[int64](0, widest, lowest, widest)},
		{"Cast", to(dtype.U64), []*tensor.Tensor{tensor.Of(nan, -3e9, 1e19)}, tensor.Of[uint64](0, 1<<64-3e9, 1e19)},
	}
}

// TestSpecialValues runs nodes on NaN, infinities and integers at the ends of their types.
func TestSpecialValues(t *testing.T) {
	for _, s := range specials() {
		g := &wire.GraphProto{Name: "special", Output: []*wire.ValueInfoProto{{Name: "y"}}}
		node := &wire.NodeProto{OpType: s.op, Output: []string{"y"}, Attribute: s.attributes}
		in := weir.Inputs{}
		for i, x := range s.in {
			name := string(rune('a' + i))
			node.Input = append(node.Input, name)
			g.Input = append(g.Input, wire.TensorValue(name, wire.DataTypeOf(x.DType()), sizes(x.Shape())...))
			w, err := values.ToWeir(x)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Close() })
			in[name] = w
		}
		g.Node = []*wire.NodeProto{node}
		data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
		for _, target := range []weir.Target{"", weir.Portable, weir.Reference} {
			o := weir.Options{Target: target, Threads: 1}
			if err := runArithmetic(t, data, o, in, []*tensor.Tensor{s.want}); err != nil {
				t.Errorf("%s of %v, target %q: %v", s.op, s.in, target, err)
			}
		}
	}
}
