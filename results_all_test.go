package weir_test

import (
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// TestAll: All goes through all outputs in order, sequences tensor by tensor, and ends when the loop breaks; Scalar
// makes tensors without axes.
func TestAll(t *testing.T) {
	m := modelOf(t, []*wire.ValueInfoProto{typed("x", tensorType(wire.FloatType))},
		[]*wire.ValueInfoProto{typed("y", tensorType(wire.FloatType)), typed("s", sequenceType(tensorType(wire.FloatType))),
			typed("z", tensorType(wire.FloatType))},
		nodeOf("Neg x y"), nodeOf("SequenceConstruct x,y,x s"), nodeOf("Abs x z"))
	defer m.Close()
	p := must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{}))
	defer p.Close()
	r := must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": weir.Scalar(float32(-2))}))
	defer r.Close()
	var names []string
	var values []float32
	for name, x := range r.All() {
		if len(x.Shape()) != 0 {
			t.Errorf("%s: shape %v", name, x.Shape())
		}
		names, values = append(names, name), append(values, must[[]float32](t)(weir.Copy[float32](x))...)
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
