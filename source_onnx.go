package weir

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// onnxModel is a model in an ONNX file.
type onnxModel struct{ *onnx.Model }

func (m onnxModel) inputs() []Info              { return infosOf(m.Inputs) }
func (m onnxModel) outputs() []Info             { return infosOf(m.Outputs) }
func (m onnxModel) metadata() map[string]string { return maps.Clone(m.Meta) }
func (m onnxModel) blocks() []*mem.Block        { return m.Blocks() }
func (m onnxModel) close() error                { return m.Close() }
func (m onnxModel) module() moduleSource        { return m }
func (m onnxModel) written() bool               { return false }
func (m onnxModel) fixed(input string) bool     { return slices.Contains(m.Defaults, input) }

// first does nothing: an ONNX file has no first values of states.
func (m onnxModel) first(string, *tensor.Tensor) error { return nil }

func (m onnxModel) compile(ctx context.Context, p *Program, o Options, choices compiler.Choices) error {
	return p.compileModule(ctx, m, o, choices)
}

func (m onnxModel) build(ctx context.Context, o Options) (*ir.Module, []string, []edge, []edge, error) {
	module, signature, err := m.BuildWithin(ctx, o.Outputs, o.States, o.ones())
	if err != nil {
		return nil, nil, nil, nil, err
	}
	return module, signature.Results, edgesOf(signature.Inputs), edgesOf(signature.Outputs), nil
}

func (m onnxModel) origins(add func(name string, o origins)) {
	for _, n := range m.Proto.Graph.Node {
		for _, name := range n.Output {
			add(name, origins{node: n.Name, op: n.OpType, proto: n})
		}
	}
}

func (m onnxModel) cut(g *wire.GraphProto, used map[string]bool) *wire.ModelProto {
	for _, t := range m.Proto.Graph.Initializer {
		if used[t.Name] {
			g.Initializer = append(g.Initializer, t)
		}
	}
	return &wire.ModelProto{IRVersion: m.Proto.IRVersion, OpsetImport: m.Proto.OpsetImport, Functions: m.Proto.Functions, ProducerName: "weir", Graph: g}
}

func infosOf(ports []onnx.Port) []Info {
	out := make([]Info, len(ports))
	for i, p := range ports {
		out[i] = infoOf(p.Name, p.Type)
		out[i].Kind = Kind(p.Kind)
	}
	return out
}

func (m onnxModel) describe(read func() (done func(), err error)) Description {
	proto := m.Proto
	d := Description{Format: fmt.Sprintf("ONNX, IR version %d", proto.IRVersion), Producer: proto.ProducerName, Ops: map[string]int{}, Parameters: []ParameterInfo{}, Nodes: []NodeInfo{}}
	if done, err := read(); err == nil {
		d.Unsupported = m.Unsupported()
		done()
	}
	if d.Unsupported == nil {
		d.Unsupported = []string{}
	}
	if proto.ProducerVersion != "" {
		d.Producer += " " + proto.ProducerVersion
	}
	for _, o := range proto.OpsetImport {
		domain := o.Domain
		if domain == "" {
			domain = "ai.onnx"
		}
		d.Opsets = append(d.Opsets, fmt.Sprintf("%s %d", domain, o.Version))
	}
	for _, i := range m.inputs() {
		d.Inputs = append(d.Inputs, i.String())
	}
	for _, o := range m.outputs() {
		d.Outputs = append(d.Outputs, o.String())
	}
	d.graph(proto.Graph, "")
	for _, f := range proto.Functions {
		d.nodes(f.Node, f.Name+"/")
	}
	return d
}

// graph adds what a graph and those within it hold; the names of inner nodes begin with the path to them.
func (d *Description) graph(g *wire.GraphProto, path string) {
	for _, t := range g.Initializer {
		d.parameter(t)
	}
	d.nodes(g.Node, path)
}

func (d *Description) nodes(nodes []*wire.NodeProto, path string) {
	for _, n := range nodes {
		d.Ops[n.OpType]++
		d.Nodes = append(d.Nodes, NodeInfo{path + n.Name, n.OpType, n.Input, n.Output})
		inner := path + cmp.Or(n.Name, n.OpType) + "/"
		for _, a := range n.Attribute {
			if a.T != nil && n.OpType == "Constant" {
				d.parameter(a.T)
			}
			if a.G != nil {
				d.graph(a.G, inner)
			}
			for _, g := range a.Graphs {
				d.graph(g, inner)
			}
		}
	}
}

// parameter counts a constant of the file.
func (d *Description) parameter(t *wire.TensorProto) {
	dt, err := t.ElementType()
	count, err2 := t.Count()
	if err != nil || err2 != nil {
		return
	}
	d.count(dt, count)
}
