package onnx

import (
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// TestNamelessAxes shows that an unnamed axis gets a name that no dimension of the model has.
func TestNamelessAxes(t *testing.T) {
	x := wire.TensorValue("x", wire.FloatType, wire.Dim(""), wire.Dim("x.1_"), wire.Dim("?"))
	y := wire.TensorValue("y", wire.FloatType, wire.Dim("x.0"), wire.Dim("?"), wire.Dim("x.2"))
	m := parsed(t, 8, &wire.GraphProto{Input: []*wire.ValueInfoProto{x, y}, Output: []*wire.ValueInfoProto{{Name: "z"}},
		Node: []*wire.NodeProto{node("Neg", "x", "z")}})
	seen := map[string]string{}
	for _, p := range m.Inputs {
		for _, e := range p.Type.Shape {
			name, _ := e.Name()
			if other, twice := seen[name.Text()]; twice {
				t.Errorf("%s of %s is a dimension of %s too", name, p.Name, other)
			}
			seen[name.Text()] = p.Name
		}
	}
	if want := "x.0_"; seen[want] != "x" {
		t.Errorf("the dimensions are %v", seen)
	}
}
