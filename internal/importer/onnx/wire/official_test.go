package wire_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// modelTensors returns every tensor of a model in the order of the fields' numbers.
func modelTensors(m *wire.ModelProto) []*wire.TensorProto {
	var out []*wire.TensorProto
	out = graphTensors(out, m.Graph)
	for _, f := range m.Functions {
		out = nodeTensors(out, f.Node)
		out = attributeTensors(out, f.AttributeProto)
	}
	return out
}

// graphTensors appends the tensors of a graph, which may be nil.
func graphTensors(out []*wire.TensorProto, g *wire.GraphProto) []*wire.TensorProto {
	if g == nil {
		return out
	}
	out = nodeTensors(out, g.Node)
	out = append(out, g.Initializer...)
	for _, s := range g.SparseInitializer {
		out = append(out, s.Values, s.Indices)
	}
	return out
}

// nodeTensors appends the tensors in the attributes of nodes.
func nodeTensors(out []*wire.TensorProto, nodes []*wire.NodeProto) []*wire.TensorProto {
	for _, n := range nodes {
		out = attributeTensors(out, n.Attribute)
	}
	return out
}

// attributeTensors appends the tensors in attributes and their graphs.
func attributeTensors(out []*wire.TensorProto, attributes []*wire.AttributeProto) []*wire.TensorProto {
	for _, a := range attributes {
		if a.T != nil {
			out = append(out, a.T)
		}
		out = graphTensors(out, a.G)
		out = append(out, a.Tensors...)
		for _, g := range a.Graphs {
			out = graphTensors(out, g)
		}
		if a.SparseTensor != nil {
			out = append(out, a.SparseTensor.Values, a.SparseTensor.Indices)
		}
	}
	return out
}

// sequenceTensors returns the tensors of a sequence, at any depth.
func sequenceTensors(s *wire.SequenceProto) []*wire.TensorProto {
	out := append([]*wire.TensorProto(nil), s.TensorValues...)
	for _, v := range s.SequenceValues {
		out = append(out, sequenceTensors(v)...)
	}
	for _, v := range s.OptionalValues {
		out = append(out, optionalTensors(v)...)
	}
	return out
}

// optionalTensors returns the tensors of an optional, at any depth.
func optionalTensors(o *wire.OptionalProto) []*wire.TensorProto {
	var out []*wire.TensorProto
	if o.TensorValue != nil {
		out = append(out, o.TensorValue)
	}
	if o.SequenceValue != nil {
		out = append(out, sequenceTensors(o.SequenceValue)...)
	}
	if o.OptionalValue != nil {
		out = append(out, optionalTensors(o.OptionalValue)...)
	}
	return out
}

// valueTensors reads a file of test data as the type that the model's graph gives it.
func valueTensors(data []byte, value *wire.TypeProto) ([]*wire.TensorProto, error) {
	switch {
	case value.SequenceType != nil:
		s, err := wire.ParseSequence(data)
		if err != nil {
			return nil, err
		}
		return sequenceTensors(s), nil
	case value.OptionalType != nil:
		o, err := wire.ParseOptional(data)
		if err != nil {
			return nil, err
		}
		return optionalTensors(o), nil
	}
	p, err := wire.ParseTensor(data)
	return []*wire.TensorProto{p}, err
}

// TestOfficialData reads every model and every input and output of ONNX's backend test data, and decodes every tensor.
// WEIR_ONNX_DATA is the folder onnx/backend/test/data of the onnx package.
func TestOfficialData(t *testing.T) {
	root := os.Getenv("WEIR_ONNX_DATA")
	if root == "" {
		t.Skip("WEIR_ONNX_DATA is not set: it names the folder onnx/backend/test/data of the Python package onnx, which is " +
			"not part of this repository")
	}
	models, values, tensors := 0, 0, 0
	decode := func(path string, list []*wire.TensorProto) {
		for _, p := range list {
			if _, _, err := p.Tensor(); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			tensors++
		}
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".onnx" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m, err := wire.ParseModel(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return nil
		}
		models++
		decode(path, modelTensors(m))
		for _, side := range []struct {
			name   string
			values []*wire.ValueInfoProto
		}{{"input", m.Graph.Input}, {"output", m.Graph.Output}} {
			for i, v := range side.values {
				files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "test_data_set_*",
					side.name+"_"+strconv.Itoa(i)+".pb"))
				if err != nil {
					return err
				}
				for _, file := range files {
					data, err := os.ReadFile(file)
					if err != nil {
						return err
					}
					list, err := valueTensors(data, v.Type)
					if err != nil {
						t.Errorf("%s: %v", file, err)
						continue
					}
					values++
					decode(file, list)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d models, %d files of inputs and outputs, %d tensors", models, values, tensors)
	if models < 1900 || tensors < 8000 {
		t.Errorf("%d models and %d tensors: the data is not complete", models, tensors)
	}
}
