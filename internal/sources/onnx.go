package sources

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// onnxModel is a model in an ONNX file.
type onnxModel struct{ *onnx.Model }

func (m onnxModel) Inputs() []Port              { return declared(m.Model.Inputs) }
func (m onnxModel) Outputs() []Port             { return declared(m.Model.Outputs) }
func (m onnxModel) Metadata() map[string]string { return maps.Clone(m.Meta) }
func (m onnxModel) Written() bool               { return false }
func (m onnxModel) Fixed(input string) bool     { return slices.Contains(m.Defaults, input) }

// First does nothing: an ONNX file has no first values of states.
func (m onnxModel) First(string, *tensor.Tensor) error { return nil }

// Build converts the model.
func (m onnxModel) Build(ctx context.Context, a Asked) (*Built, error) {
	module, signature, err := m.BuildWithin(ctx, a.Outputs, a.States, a.Dims)
	if err != nil {
		return nil, err
	}
	return &Built{module, signature.Results, portsOf(signature.Inputs), portsOf(signature.Outputs)}, nil
}

// Origins names the node of the main graph that computes each value.
func (m onnxModel) Origins(add func(name string, o Origin)) {
	for _, n := range m.Proto.Graph.Node {
		for _, name := range n.Output {
			add(name, Origin{Node: n.Name, Op: n.OpType, Proto: n})
		}
	}
}

// Cut completes g to a model: it adds the used initializers, the operator sets and the functions.
func (m onnxModel) Cut(g *wire.GraphProto, used map[string]bool) *wire.ModelProto {
	for _, t := range m.Proto.Graph.Initializer {
		if used[t.Name] {
			g.Initializer = append(g.Initializer, t)
		}
	}
	return &wire.ModelProto{IRVersion: m.Proto.IRVersion, OpsetImport: m.Proto.OpsetImport, Functions: m.Proto.Functions,
		ProducerName: "weir", Graph: g}
}

// declared returns ports as the file declares them.
func declared(ports []onnx.Port) []Port {
	out := make([]Port, len(ports))
	for i, p := range ports {
		out[i] = Port{Name: p.Name, Type: p.Type, Kind: p.Kind}
	}
	return out
}

// portsOf returns ports as a module has them. All except sequences and tensors of any rank have a shape.
func portsOf(edges []onnx.Edge) []Port {
	out := make([]Port, len(edges))
	for i, e := range edges {
		out[i] = Port{Name: e.Name, Type: e.Type, Kind: e.Kind, Components: e.Components}
		if e.Type.Shape == nil && e.Kind != onnx.Sequence && e.Kind != onnx.OptionalSequence && !e.AnyRank {
			out[i].Type.Shape = []sym.Expr{}
		}
	}
	return out
}

// Describe counts nodes and parameters in all graphs and functions; it maps the files to list unsupported operators.
func (m onnxModel) Describe(read func() (done func(), err error)) Description {
	proto := m.Proto
	d := Description{Format: fmt.Sprintf("ONNX, IR version %d", proto.IRVersion), Producer: proto.ProducerName,
		Ops: map[string]int{}}
	if done, err := read(); err == nil {
		d.Unsupported = m.Unsupported()
		done()
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
	d.graph(proto.Graph, "")
	for _, f := range proto.Functions {
		d.nodes(f.Node, f.Name+"/")
	}
	return d
}

// graph adds the nodes and parameters of a graph and its subgraphs; the names of inner nodes begin with the path to
// them.
func (d *Description) graph(g *wire.GraphProto, path string) {
	for _, t := range g.Initializer {
		d.parameter(t)
	}
	d.nodes(g.Node, path)
}

// nodes adds nodes, the constants in them, and their subgraphs.
func (d *Description) nodes(nodes []*wire.NodeProto, path string) {
	for _, n := range nodes {
		d.Ops[n.OpType]++
		d.Nodes = append(d.Nodes, Node{path + n.Name, n.OpType, n.Input, n.Output})
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

// parameter adds the elements of a constant of the file.
func (d *Description) parameter(t *wire.TensorProto) {
	dt, err := t.ElementType()
	count, err2 := t.Count()
	if err != nil || err2 != nil {
		return
	}
	d.count(dt, count)
}
