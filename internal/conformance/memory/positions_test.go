package memory

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// TestPositions measures a model whose sequence is shorter than its table of positions: with each way to bind the
// dimensions it takes what its certificate says, the table whole.
func TestPositions(t *testing.T) {
	const most, width = 512, 24
	var ids, table []byte
	for i := range most {
		ids = binary.LittleEndian.AppendUint64(ids, uint64(most-1-i))
	}
	for i := range most * width {
		table = binary.LittleEndian.AppendUint32(table, math.Float32bits(float32(i%97)-48))
	}
	number := func(v byte) []byte { return []byte{v, 0, 0, 0, 0, 0, 0, 0} }
	batch, seq := &wire.Dimension{Param: "batch"}, &wire.Dimension{Param: "seq"}
	proto := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 22}},
		Graph: &wire.GraphProto{
			Input: []*wire.ValueInfoProto{weirtest.Typed("x",
				weirtest.TensorType(wire.FloatType, batch, seq, wire.Size(width)))},
			Output: []*wire.ValueInfoProto{weirtest.Typed("y",
				weirtest.TensorType(wire.FloatType, batch, seq, wire.Size(width)))},
			Node: []*wire.NodeProto{weirtest.NodeOf("Shape x shape"),
				weirtest.NodeOf("Gather shape,one n", wire.IntAttribute("axis", 0)),
				weirtest.NodeOf("Slice ids,zero,n,zero some"),
				weirtest.NodeOf("Gather table,some rows",
					wire.IntAttribute("axis", 0)), weirtest.NodeOf("Add x,rows sum"), weirtest.NodeOf("Softmax sum y")},
			Initializer: []*wire.TensorProto{{Name: "ids", DataType: wire.Int64Type, Dims: []int64{most}, RawData: ids},
				{Name: "table", DataType: wire.FloatType, Dims: []int64{most, width}, RawData: table},
				{Name: "one", DataType: wire.Int64Type, Dims: []int64{1}, RawData: number(1)},
				{Name: "zero", DataType: wire.Int64Type, Dims: []int64{1}, RawData: number(0)}},
		}}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, proto.Marshal(), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := weir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	is := func(v int64) weir.Range { return weir.Range{Min: v, Max: v} }
	for _, dims := range []map[string]weir.Range{nil, {"seq": is(17)}, {"batch": is(2)},
		{"batch": is(2), "seq": is(17)},
		{"seq": {Min: 0, Max: 512}}} {
		p, err := weir.Compile(context.Background(), m, weir.Options{Dims: dims, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		x, err := weir.New(weir.F32, 2, 17, width)
		if err != nil {
			t.Fatal(err)
		}
		in := weir.Inputs{"x": x}
		seen, err := p.Measure(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		peak, err := p.Memory().PeakWith(1, weir.Dims{"batch": 2, "seq": 17}, seen)
		if err != nil || seen.Peak(1) != peak {
			t.Errorf("with %v: %d predicted, %d measured: %v", dims, peak, seen.Peak(1), err)
		}
		x.Close()
		p.Close()
	}
}
