package onnx_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// TestWriteTooLarge shows that a model that exceeds the format's limit is refused before anything is written.
func TestWriteTooLarge(t *testing.T) {
	f32 := wire.DataTypeOf(dtype.F32)
	g := &wire.GraphProto{
		Input:       []*wire.ValueInfoProto{wire.TensorValue("x", f32, wire.Size(1))},
		Output:      []*wire.ValueInfoProto{wire.TensorValue("y", f32, wire.Size(1))},
		Initializer: []*wire.TensorProto{{Name: "w", DataType: f32, Dims: []int64{1 << 29}, RawData: []byte{}}},
		Node:        []*wire.NodeProto{{OpType: "Identity", Input: []string{"x"}, Output: []string{"y"}}},
	}
	m, err := onnx.Parse((&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}},
		Graph: g}).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = m.WriteWith(&out, func(string) *tensor.Tensor { return nil })
	if err == nil || !strings.Contains(err.Error(), "2147483648 bytes") || out.Len() > 0 {
		t.Errorf("%v, and %d bytes are written", err, out.Len())
	}
}
