package conformance

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// TestShownWithinRanges: shapes and conditions are simplified within the ranges that the options give.
func TestShownWithinRanges(t *testing.T) {
	vector := func(name string, list ...int64) *wire.TensorProto { return wire.FromTensor(name, tensor.Of(list...)) }
	g := &wire.GraphProto{Name: "shown",
		Node: []*wire.NodeProto{operation("Slice", "x,zero,end,one", "s"), operation("MatMul", "s,w", "y")},
		Input: []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Dim("a"), wire.Dim("d")),
			wire.TensorValue("w", wire.FloatType, wire.Dim("n"), wire.Size(3))},
		Output:      []*wire.ValueInfoProto{{Name: "s"}, {Name: "y"}},
		Initializer: []*wire.TensorProto{vector("zero", 0), vector("end", 1000000000), vector("one", 1)}}
	data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
	in := weir.Inputs{}
	for name, shape := range map[string][]int64{"x": {2, 5}, "w": {4, 3}} {
		w, err := values.ToWeir(tensor.Must(tensor.New(dtype.F32, shape...)))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		in[name] = w
	}
	for _, target := range []weir.Target{"", weir.Reference} {
		for most, words := range map[int64]string{1000: " d == n does", 1 << 40: " min(d, 1000000000) == n does"} {
			o := weir.Options{Threads: 1, Target: target, Dims: map[string]weir.Range{"d": {Min: 1, Max: most}}}
			err := runArithmetic(t, data, o, in, nil)
			if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), words) {
				t.Errorf("target %q, d up to %d: %v", target, most, err)
			}
		}
	}
}

// TestRangeOfNothing: a Range that has no elements is known to have none, however far its limits lie apart, so that
// the reference takes no memory for it either.
func TestRangeOfNothing(t *testing.T) {
	number := func(name string, x int64) *wire.TensorProto { return wire.FromTensor(name, tensor.Scalar(x)) }
	vector := func(name string, x int64) *wire.TensorProto { return wire.FromTensor(name, tensor.Of(x)) }
	g := &wire.GraphProto{Name: "nothing", Output: []*wire.ValueInfoProto{{Name: "y"}},
		Node: []*wire.NodeProto{operation("Range", "from,to,step", "r"), operation("Max", "r,zero", "m"),
			operation("Slice", "m,begin,end", "y")},
		Initializer: []*wire.TensorProto{number("from", -1), number("to", math.MinInt64), number("step", 2),
			number("zero", 0), vector("begin", 0), vector("end", 1<<50)}}
	data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
	for _, target := range []weir.Target{"", weir.Portable, weir.Reference} {
		o, want := weir.Options{Threads: 1, Target: target}, tensor.Must(tensor.New(dtype.I64, 0))
		if err := runArithmetic(t, data, o, nil, []*tensor.Tensor{want}); err != nil {
			t.Errorf("target %q: %v", target, err)
		}
	}
}
