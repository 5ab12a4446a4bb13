// Package weirtest has what the tests of whole programs share: models, texts, arguments, and processes of their own.
package weirtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// Typed declares an input or output of a type.
func Typed(name string, t *wire.TypeProto) *wire.ValueInfoProto {
	return &wire.ValueInfoProto{Name: name, Type: t}
}

// TensorType is the type of a tensor.
func TensorType(dt wire.DataType, dims ...*wire.Dimension) *wire.TypeProto {
	return wire.TensorValue("", dt, dims...).Type
}

// ProgramOf compiles a model of the given nodes, each "Op in,in out,out", with its inputs and outputs.
func ProgramOf(t testing.TB, o weir.Options, inputs, outputs []*wire.ValueInfoProto,
	nodes ...*wire.NodeProto) *weir.Program {
	t.Helper()
	m := ModelOf(t, inputs, outputs, nodes...)
	p, err := weir.Compile(context.Background(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); m.Close() })
	return p
}

// ModelOf returns a model of the given nodes, inputs and outputs.
func ModelOf(t testing.TB, inputs, outputs []*wire.ValueInfoProto, nodes ...*wire.NodeProto) *weir.Model {
	t.Helper()
	proto := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 22}},
		Graph: &wire.GraphProto{Input: inputs, Output: outputs, Node: nodes}}
	m, err := weir.LoadBytes(proto.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// NodeOf returns the node that text, "Op in,in out,out", describes.
func NodeOf(text string, attrs ...*wire.AttributeProto) *wire.NodeProto {
	f := strings.Split(text, " ")
	n := &wire.NodeProto{OpType: f[0], Attribute: attrs, Output: strings.Split(f[2], ",")}
	if f[1] != "" {
		n.Input = strings.Split(f[1], ",")
	}
	return n
}

// Must returns a function that returns v, or fails t if there is an error.
func Must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// PlanOf compiles a model file and returns the program and its plan.
func PlanOf(t *testing.T, file string, d weir.Dims, o weir.Options) (*weir.Program, *weir.Plan) {
	t.Helper()
	m, err := weir.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	p, err := weir.Compile(context.Background(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	plan, err := p.Plan(d)
	if err != nil {
		t.Fatal(err)
	}
	return p, plan
}

// ArtefactOf compiles a model and returns the program and its artefact.
func ArtefactOf(t testing.TB, m *weir.Model) (*weir.Program, []byte) {
	t.Helper()
	p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 2})
	if err != nil {
		t.Skipf("the model does not compile, which other tests are about: %v", err)
	}
	var b bytes.Buffer
	n, err := p.WriteTo(&b)
	if errors.Is(err, weir.ErrUnsupported) {
		t.Skipf("refused by name: %v", err)
	}
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return p, b.Bytes()
}
