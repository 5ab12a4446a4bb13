package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/importer/onnx/wire/malformedtest"
	"github.com/weirml/weir/internal/mem"
)

// The helpers below write wire format by hand, so that the tests do not trust the package's own writer.

func varint(number int, value uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), value)
}

// delimited returns a length-delimited field.
func delimited(number int, parts ...[]byte) []byte {
	payload := slices.Concat(parts...)
	out := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(out, uint64(len(payload))), payload...)
}

func text(number int, s string) []byte { return delimited(number, []byte(s)) }

func fixed32(number int, value float32) []byte {
	return binary.LittleEndian.AppendUint32(binary.AppendUvarint(nil, uint64(number)<<3|5), math.Float32bits(value))
}

// inAttribute puts fields where graph.node[1].attribute[0].t stands.
func inAttribute(fields ...[]byte) []byte {
	node := delimited(1, delimited(5, delimited(5, fields...)))
	return delimited(7, delimited(1, text(4, "Relu")), node)
}

// nest returns a model whose graphs are nested levels deep.
func nest(levels int) []byte {
	inner := []byte{}
	for range levels / 3 {
		inner = delimited(1, delimited(5, delimited(6, inner))) // node, attribute, g
	}
	return delimited(7, inner)
}

// TestHostileBytes refuses each kind of malformed bytes by an error that names the field and the offset.
func TestHostileBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string // "": the bytes are fine
	}{
		{"empty", nil, ""},
		{"unknown fields", slices.Concat(varint(999, 1), text(1000, "x"), fixed32(30, 1),
			[]byte{31<<3&0x7f | 0x80 | 1, 1, 1, 2, 3, 4, 5, 6, 7, 8}), ""},
		{"length past the end", []byte{7<<3 | 2, 5, 0}, "graph: a length of 5 runs past the end, 1 bytes away (byte 2)"},
		{"greatest length", append([]byte{7<<3 | 2}, binary.AppendUvarint(nil, math.MaxUint64)...),
			"graph: a length of 18446744073709551615 runs past the end, 0 bytes away (byte 11)"},
		{"length past the parent", delimited(7, []byte{1<<3 | 2, 9, 0, 0}),
			"graph.node[0]: a length of 9 runs past the end, 2 bytes away (byte 4)"},
		{"endless varint", append([]byte{1 << 3}, slices.Repeat([]byte{0x80}, 11)...),
			"ir_version: a varint has more than 64 bits (byte 1)"},
		{"varint of 65 bits", append([]byte{1 << 3}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2),
			"ir_version: a varint has more than 64 bits (byte 1)"},
		{"varint of 64 bits", append([]byte{1 << 3}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), ""},
		{"varint cut", []byte{1 << 3, 0x80}, "ir_version: a varint runs past the end (byte 1)"},
		{"field number 0", []byte{0, 0}, "ModelProto: 0 is no field number (byte 1)"},
		{"field number past 2^29", binary.AppendUvarint(nil, 1<<32), "ModelProto: 536870912 is no field number (byte 5)"},
		{"group", []byte{99<<3&0x7f | 0x80 | 3, 6},
			"ModelProto: field 99 is the start of a group, which ONNX does not have (byte 2)"},
		{"wire type 7", []byte{8<<3 | 7}, "ModelProto: field 8 is of wire type 7, which does not exist (byte 1)"},
		{"wrong wire type", varint(7, 1), "graph: the wire type is varint where the field has bytes (byte 1)"},
		{"wrong wire type deep", inAttribute(fixed32(1, 1)),
			"graph.node[1].attribute[0].t.dims[0]: the wire type is 32 bits where the field has varint (byte 17)"},
		{"int32 too large", inAttribute(varint(2, 1<<33)),
			"graph.node[1].attribute[0].t.data_type: 8589934592 does not fit an int32 (byte 22)"},
		{"packed floats cut", inAttribute(delimited(4, []byte{1, 2, 3})),
			"graph.node[1].attribute[0].t.float_data: 3 packed bytes are no whole number of 4-byte elements (byte 21)"},
		{"packed varint cut", inAttribute(delimited(1, []byte{1, 2, 0x80})),
			"graph.node[1].attribute[0].t.dims[2]: a varint runs past the end (byte 21)"},
		{"not UTF-8", text(2, "a\xffb"), "producer_name: a string is not UTF-8 (byte 5)"},
		{"doc string of any bytes", text(6, "a\xffb"), ""},
		{"nested to the limit", nest(63), ""},
		{"nested too deep", nest(66), ".g.node[0]: messages nest deeper than 64 (byte "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := wire.ParseModel(c.data)
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && err == nil:
				t.Fatal("no error")
			case c.want != "":
				if !strings.Contains(err.Error(), c.want) || !errors.Is(err, diag.ErrInput) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %q, want %q", err, c.want)
				}
			}
		})
	}
}

// TestFieldsThatOccurTwice merges repeated fields as protobuf does: the last scalar wins, messages are merged, the
// last member of a oneof wins.
func TestFieldsThatOccurTwice(t *testing.T) {
	graph := func(fields ...[]byte) []byte { return delimited(7, fields...) }
	value := func(fields ...[]byte) []byte { return graph(delimited(11, delimited(2, fields...))) }
	dim := func(fields ...[]byte) []byte {
		return value(delimited(1, varint(1, 1), delimited(2, delimited(1, fields...))))
	}
	first := func(m *wire.ModelProto) *wire.Dimension { return m.Graph.Input[0].Type.TensorType.Shape.Dim[0] }
	for _, c := range []struct {
		name string
		data []byte
		ok   func(m *wire.ModelProto) bool
	}{
		{"last scalar", slices.Concat(varint(1, 3), varint(1, 8)), func(m *wire.ModelProto) bool { return m.IRVersion == 8 }},
		{"last text", slices.Concat(text(2, "a"), text(2, "b")), func(m *wire.ModelProto) bool {
			return m.ProducerName == "b"
		}},
		{"merged graphs", slices.Concat(graph(text(2, "a"), delimited(1, text(4, "Relu"))),
			graph(delimited(1, text(4, "Abs")), text(10, "doc"))),
			func(m *wire.ModelProto) bool {
				return m.Graph.Name == "a" && len(m.Graph.Node) == 2 && m.Graph.Node[1].OpType == "Abs" &&
					string(m.Graph.DocString) == "doc"
			}},
		{"oneof, another member", value(delimited(1, varint(1, 1)), delimited(4, []byte{})),
			func(m *wire.ModelProto) bool {
				ty := m.Graph.Input[0].Type
				return ty.TensorType == nil && ty.SequenceType != nil
			}},
		{"oneof, the same member", value(delimited(1, varint(1, 7)), delimited(1, delimited(2))),
			func(m *wire.ModelProto) bool {
				ty := m.Graph.Input[0].Type
				return ty.TensorType.ElemType == wire.Int64Type && ty.TensorType.Shape != nil
			}},
		{"dimension, value after name", dim(text(2, "n"), varint(1, 0)),
			func(m *wire.ModelProto) bool { d := first(m); return d.Known() && !d.Named() && d.Param == "" }},
		{"dimension, name after value", dim(varint(1, 4), text(2, "n")),
			func(m *wire.ModelProto) bool { d := first(m); return !d.Known() && d.Named() && d.Value == 0 }},
		{"dimension, unknown", dim(), func(m *wire.ModelProto) bool { d := first(m); return !d.Known() && !d.Named() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := wire.ParseModel(c.data)
			if err != nil {
				t.Fatal(err)
			}
			if !c.ok(m) {
				t.Error("the fields are not what protobuf makes of them")
			}
			again, err := wire.ParseModel(m.Marshal())
			if err != nil || !c.ok(again) {
				t.Errorf("after a round trip: %v", err)
			}
		})
	}
}

// TestPackedOrNot reads repeated numbers, packed and unpacked in any mixture, also with short and padded tags.
func TestPackedOrNot(t *testing.T) {
	padded := []byte{5<<3 | 0x80, 0x80, 0, 7} // int32_data, unpacked, the tag three bytes long
	data := slices.Concat(
		varint(1, 2), delimited(1, []byte{3, 1}), varint(1, 1), // dims 2 3 1 1
		varint(2, uint64(wire.Int32Type)),
		varint(5, 1), varint(5, math.MaxUint64), delimited(5, []byte{3, 4}), delimited(5), varint(5, 5), text(8, "w"), padded,
	)
	p, err := wire.ParseTensor(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*wire.TensorProto{p, reparse(t, p)} {
		if !slices.Equal(p.Dims, []int64{2, 3, 1, 1}) {
			t.Errorf("dims %v", p.Dims)
		}
		got, borrowed, err := p.Tensor()
		if err != nil || borrowed {
			t.Fatal(borrowed, err)
		}
		for i, want := range []int64{1, -1, 3, 4, 5, 7} {
			if got.Int(int64(i)) != want {
				t.Errorf("element %d is %d, want %d", i, got.Int(int64(i)), want)
			}
		}
	}
	floats, err := wire.ParseTensor(slices.Concat(varint(1, 3), varint(2, 1), fixed32(4, 1.5),
		delimited(4, fixed32(4, 2.5)[1:], fixed32(4, 3.5)[1:])))
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := floats.Tensor()
	if err != nil || got.Float(0) != 1.5 || got.Float(1) != 2.5 || got.Float(2) != 3.5 {
		t.Error(got, err)
	}
}

// reparse writes a tensor and reads it again.
func reparse(t *testing.T, p *wire.TensorProto) *wire.TensorProto {
	t.Helper()
	again, err := wire.ParseTensor(p.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestMemory parses the files that expand most, and compares the memory with the bound: what the input may claim,
// and a third more because Go's allocator rounds sizes up.
func TestMemory(t *testing.T) {
	const size = 2 << 20
	const bound = (mem.ClaimFloor + mem.ClaimFactor*size) * 4 / 3
	node := delimited(1, text(2, "y"), text(4, "N"))
	for _, c := range []struct {
		name   string
		data   []byte
		refuse bool
	}{
		{"empty nodes", delimited(7, bytes.Repeat(delimited(1), size/2)), true},
		{"empty tensors", delimited(7, bytes.Repeat(delimited(5), size/2)), true},
		{"empty values", delimited(7, bytes.Repeat(delimited(11), size/2)), true},
		{"smallest nodes", delimited(7, bytes.Repeat(node, size/len(node))), false},
		{"empty names", delimited(7, delimited(1, bytes.Repeat(text(1, ""), size/2))), false},
		{"packed numbers", delimited(7, delimited(5, delimited(1, make([]byte, size)))), false},
		{"numbers in alternating forms",
			delimited(7, delimited(5, bytes.Repeat(slices.Concat(varint(5, 1), delimited(5, []byte{1})), size/5))), false},
		{"graphs to be merged", bytes.Repeat(delimited(7, delimited(1)), size/4), true},
		{"graphs of one opset each", bytes.Repeat(slices.Concat(delimited(7, text(2, "a")), delimited(8, varint(2, 7))),
			size/9), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := wire.ParseModel(c.data)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > bound {
				t.Errorf("%d bytes of input took %d bytes, past %d", len(c.data), used, bound)
			}
			// Records are half as large if a pointer is.
			if refused := err != nil; refused != c.refuse && math.MaxInt > math.MaxInt32 {
				t.Errorf("error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "its records are too large") {
				t.Error(err)
			}
		})
	}
}

// sample returns a model that has every message and most fields.
func sample() *wire.ModelProto {
	branch := func(op string) *wire.GraphProto {
		return &wire.GraphProto{
			Name: op,
			Node: []*wire.NodeProto{{Input: []string{"x"}, Output: []string{"b"}, OpType: op,
				Attribute: []*wire.AttributeProto{wire.FloatAttribute("alpha", 0)}}},
			Output: []*wire.ValueInfoProto{wire.TensorValue("b", wire.FloatType, wire.Dim("n"), wire.Size(0))},
		}
	}
	return &wire.ModelProto{
		IRVersion: 10, ProducerName: "weir", DocString: []byte("a model"), ModelVersion: -1,
		OpsetImport:   []*wire.OperatorSetIDProto{{Version: 21}, {Domain: "local", Version: 1}},
		MetadataProps: []*wire.StringStringEntryProto{{Key: "author", Value: "nobody"}},
		Graph: &wire.GraphProto{
			Name: "g",
			Node: []*wire.NodeProto{
				{Name: "if", Input: []string{"c"}, Output: []string{"y"}, OpType: "If", Attribute: []*wire.AttributeProto{
					wire.GraphAttribute("then_branch", branch("Relu")), wire.GraphAttribute("else_branch", branch("Abs"))}},
				{Name: "twice", Input: []string{"y", "", "w"}, Output: []string{"z"}, Domain: "local", OpType: "Twice",
					Overload: "o", Attribute: []*wire.AttributeProto{
						wire.IntAttribute("axis", 0), wire.IntsAttribute("axes", -1, 0, math.MaxInt64),
						wire.FloatsAttribute("scales", 1, -2.5),
						wire.StringAttribute("mode", ""), wire.StringsAttribute("names", "a", ""),
						wire.TensorAttribute("value", &wire.TensorProto{Dims: []int64{2}, DataType: wire.Int64Type,
							Int64Data: wire.Varints(1, -1)}),
						{Name: "tp", Type: wire.AttributeTypeProto,
							TP: &wire.TypeProto{OptionalType: &wire.ElementTypeProto{ElemType: &wire.TypeProto{
								MapType: &wire.MapTypeProto{KeyType: wire.StringType,
									ValueType: &wire.TypeProto{OpaqueType: &wire.OpaqueTypeProto{Domain: "d", Name: "n"}}}}}}},
						{Name: "ref", Type: wire.AttributeInt, RefAttrName: "outer"}}},
			},
			Initializer: []*wire.TensorProto{
				{Name: "w", Dims: []int64{2, 1}, DataType: wire.FloatType, RawData: []byte{0, 0, 128, 63, 0, 0, 0, 64}},
				{Name: "e", Dims: []int64{1 << 20}, DataType: wire.Int8Type, DataLocation: wire.LocationExternal,
					ExternalData: []*wire.StringStringEntryProto{{Key: "location", Value: "w.bin"}, {Key: "offset", Value: "4096"}}},
			},
			SparseInitializer: []*wire.SparseTensorProto{{Dims: []int64{9},
				Values:  &wire.TensorProto{Name: "s", Dims: []int64{1}, DataType: wire.DoubleType, DoubleData: wire.Doubles(0.5)},
				Indices: &wire.TensorProto{Dims: []int64{1}, DataType: wire.Int64Type, Int64Data: wire.Varints(4)}}},
			Input: []*wire.ValueInfoProto{wire.TensorValue("c", wire.BoolType),
				wire.TensorValue("x", wire.FloatType, wire.Dim("n"), wire.Size(2), &wire.Dimension{Denotation: "CHANNEL"})},
			Output: []*wire.ValueInfoProto{{Name: "z", DocString: []byte("out"), Type: &wire.TypeProto{Denotation: "IMAGE",
				SequenceType: &wire.ElementTypeProto{ElemType: &wire.TypeProto{
					SparseTensorType: &wire.TensorTypeProto{ElemType: wire.FloatType}}}}}},
			QuantizationAnnotation: []*wire.TensorAnnotation{{TensorName: "x",
				QuantParameterTensorNames: []*wire.StringStringEntryProto{{Key: "SCALE_TENSOR", Value: "s"}}}},
		},
		Functions: []*wire.FunctionProto{{
			Name: "Twice", Domain: "local", Overload: "o", Input: []string{"a", "b", "c"}, Output: []string{"d"},
			Attribute:      []string{"axis"},
			AttributeProto: []*wire.AttributeProto{wire.IntAttribute("outer", 3)},
			OpsetImport:    []*wire.OperatorSetIDProto{{Version: 21}},
			Node:           []*wire.NodeProto{{Input: []string{"a", "a"}, Output: []string{"d"}, OpType: "Add"}},
		}},
	}
}

// TestRoundTrip writes the sample and reads it again: nothing is lost, and raw_data is a subslice of the input.
func TestRoundTrip(t *testing.T) {
	data := sample().Marshal()
	var stream bytes.Buffer
	if n, err := sample().WriteTo(&stream); err != nil || n != int64(len(data)) || !bytes.Equal(stream.Bytes(), data) {
		t.Fatalf("WriteTo gave %d bytes, %v; Marshal %d", n, err, len(data))
	}
	m, err := wire.ParseModel(data)
	if err != nil {
		t.Fatal(err)
	}
	if again := m.Marshal(); !bytes.Equal(again, data) {
		a, _ := malformedtest.Text(wire.Model(), data)
		b, _ := malformedtest.Text(wire.Model(), again)
		t.Fatalf("the model changed:\n%s\nbecame\n%s", a, b)
	}
	w := m.Graph.Initializer[0]
	if at := data[w.RawOffset:]; len(w.RawData) != 8 || &at[0] != &w.RawData[0] {
		t.Error("raw_data is not a part of the input at its offset")
	}
	if a := m.Graph.Node[1].Attribute[0]; !a.Present.Has(wire.AttributeFieldI) || a.Kind() != wire.AttributeInt {
		t.Error("an int attribute of 0 got lost")
	}
}

// TestMalformed reads every broken file that the generator makes of the sample: the reader must return, and a file that
// it accepts must survive a round trip.
func TestMalformed(t *testing.T) {
	data := sample().Marshal()
	attacks, refused := map[string]int{}, map[string]int{}
	paths := map[string]bool{}
	try := func(c malformedtest.Case) {
		attacks[c.Attack]++
		paths[c.Path] = true
		m, err := wire.ParseModel(c.Data)
		if err != nil {
			refused[c.Attack]++
			if strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
				t.Errorf("%s, %s: not one line: %q", c.Path, c.Attack, err)
			}
			return
		}
		for _, p := range modelTensors(m) {
			if p != nil {
				p.Tensor()
				p.ExternalEntry()
			}
		}
		if again, err := wire.ParseModel(m.Marshal()); err != nil || !bytes.Equal(again.Marshal(), m.Marshal()) {
			t.Errorf("%s, %s: the round trip gave %v", c.Path, c.Attack, err)
		}
	}
	for c := range malformedtest.Fields(wire.Model(), data, malformedtest.Options{Every: true}) {
		try(c)
	}
	for c := range malformedtest.Cuts(data, 1) {
		try(c)
	}
	for c := range malformedtest.Names(data) {
		try(c)
	}
	for _, attack := range []string{"another wire type", "a group", "length past the end", "endless varint"} {
		// doc strings and payloads are skipped by their length, but their tags and lengths are not
		if attacks[attack] == 0 || refused[attack] != attacks[attack] {
			t.Errorf("%s: %d of %d refused", attack, refused[attack], attacks[attack])
		}
	}
	for _, attack := range []string{"missing", "twice", "negative", "dangling", "a function calls itself",
		"a body reads what its own node makes", "two functions call each other"} {
		if attacks[attack] == 0 {
			t.Errorf("no case of %q", attack)
		}
	}
	t.Logf("%d paths, %d kinds of attack", len(paths), len(attacks))
}
