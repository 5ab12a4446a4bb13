package arguments

import (
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// TestAll: All goes through all outputs in order, sequences tensor by tensor, and ends when the loop breaks; Scalar
// makes tensors without axes.
func TestAll(t *testing.T) {
	m := weirtest.ModelOf(t, []*wire.ValueInfoProto{weirtest.Typed("x", weirtest.TensorType(wire.FloatType))},
		[]*wire.ValueInfoProto{weirtest.Typed("y", weirtest.TensorType(wire.FloatType)),
			weirtest.Typed("s", sequenceType(weirtest.TensorType(wire.FloatType))),
			weirtest.Typed("z", weirtest.TensorType(wire.FloatType))},
		weirtest.NodeOf("Neg x y"), weirtest.NodeOf("SequenceConstruct x,y,x s"), weirtest.NodeOf("Abs x z"))
	defer m.Close()
	p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{}))
	defer p.Close()
	r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": weir.Scalar(float32(-2))}))
	defer r.Close()
	var names []string
	var values []float32
	for name, x := range r.All() {
		if len(x.Shape()) != 0 {
			t.Errorf("%s: shape %v", name, x.Shape())
		}
		names, values = append(names, name), append(values, weirtest.Copy[float32](t, x)...)
	}
	if want := []string{"y", "s", "s", "s", "z"}; !slices.Equal(names, want) ||
		!slices.Equal(values, []float32{2, -2, 2, -2, 2}) {
		t.Errorf("%v %v", names, values)
	}
	for range r.All() {
		return
	}
	t.Error("nothing came")
}
