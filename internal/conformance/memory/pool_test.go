package memory

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// poolNodes returns a pool with windows of 4, and its reader.
func poolNodes(op string, stride int64) []*wire.NodeProto {
	attrs := []*wire.AttributeProto{wire.IntsAttribute("kernel_shape", 4), wire.IntsAttribute("strides", stride)}
	n := weirtest.NodeOf(op+" x y", attrs...)
	n.Name = "the_pool"
	return []*wire.NodeProto{n, weirtest.NodeOf("Exp y z")}
}

// TestPoolFits pools fewer elements than a window has. A pool of known extents is empty if ONNX's formula gives 0, and
// an error if it gives less; a pool of named extents is an error.
func TestPoolFits(t *testing.T) {
	for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
		for _, target := range []weir.Target{"", weir.Portable, weir.Reference} {
			for _, stride := range []int64{1, 3} {
				nodes, outputs := poolNodes(op,
					stride), []*wire.ValueInfoProto{weirtest.Typed("z", weirtest.TensorType(wire.FloatType))}
				named := weirtest.ProgramOf(t, weir.Options{Target: target},
					[]*wire.ValueInfoProto{weirtest.Typed("x",
						weirtest.TensorType(wire.FloatType, wire.Size(2), wire.Size(3),
							&wire.Dimension{Param: "n"}))}, outputs, nodes...)
				for n := int64(0); n < 9; n++ {
					x := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(make([]float32, 6*n), 2, 3, int(n)))
					checkPool(t, fmt.Sprintf("%s of named %d", op, n), named, nil, x, stride, 1)
					m := weirtest.ModelOf(t, []*wire.ValueInfoProto{weirtest.Typed("x",
						weirtest.TensorType(wire.FloatType, wire.Size(2), wire.Size(3),
							wire.Size(n)))}, outputs, nodes...)
					fixed, err := weir.Compile(t.Context(), m, weir.Options{Target: target})
					checkPool(t, fmt.Sprintf("%s of fixed %d", op, n), fixed, err, x, stride, 0)
					if err == nil {
						fixed.Close()
					}
					m.Close()
				}
			}
		}
	}
}

// checkPool compares a pool's extent, or its error, with ONNX's formula; extents below least are errors.
func checkPool(t *testing.T, what string, p *weir.Program, err error, x *weir.Tensor, stride, least int64) {
	t.Helper()
	n := int64(x.Shape()[2])
	want := (n-4+4*stride)/stride - 3 // rounded down
	var r *weir.Results
	if err == nil {
		r, err = p.Run(t.Context(), weir.Inputs{"x": x})
	}
	if want < least {
		if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "the_pool") ||
			!strings.Contains(err.Error(), "the window fits") {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	defer r.Close()
	if got := r.Get("z").Shape(); fmt.Sprint(got) != fmt.Sprint([]int64{2, 3, want}) {
		t.Errorf("%s: %v, not [2 3 %d]", what, got, want)
	}
	if strings.Contains(what, "named") {
		measured := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), weir.Inputs{"x": x}))
		if predicted := weirtest.Must[int64](t)(p.Memory().Peak(1, weir.Dims{"n": n})); predicted != measured.Peak(1) &&
			p.Target() != weir.Reference {
			t.Errorf("%s: predicted %d bytes, measured %d", what, predicted, measured.Peak(1))
		}
	}
}
