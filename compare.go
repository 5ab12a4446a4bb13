package weir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// Difference is the first tensor, in the order of the model's nodes, that a program computes otherwise than the slow reference does.
type Difference struct {
	Tensor, Node, Op, Detail string

	model  *Model
	inputs []wire.Value
	types  []DType // of the inputs
	want   wire.Value
	gives  DType
}

// String is one line.
func (d *Difference) String() string {
	return fmt.Sprintf("%s, computed by %s (%s), differs from the reference: %s", d.Tensor, d.Node, d.Op, d.Detail)
}

// Compare runs the model twice, compiled and by the slow reference, with every tensor of the main graph kept, and returns the first that differs by
// more than the tolerances; nil where none does.
func (m *Model) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	defer diag.Recover(&err, "comparing with the reference")
	if m.artefact != nil {
		return nil, diag.Unsupportedf("an artefact has no nodes to compare with the reference").AtFile(m.file).WithFix("compare the model that it was compiled from")
	}
	if m.text != nil {
		return nil, diag.Unsupportedf("comparing a text with the reference; ONNX models are supported").AtFile(m.file).WithFix("run it with --target reference, and compare the outputs")
	}
	var wanted []string
	origin := map[string]*wire.NodeProto{}
	for _, n := range m.model.Proto.Graph.Node {
		for _, o := range n.Output {
			if o != "" {
				wanted = append(wanted, o)
				origin[o] = n
			}
		}
	}
	module, _, err := m.model.Build(wanted)
	if err != nil {
		return nil, inFile(err, m.file)
	}
	p, err := Compile(ctx, m, Options{Outputs: wanted})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	args, _, err := p.bindInputs(in)
	defer args.release()
	if err != nil {
		return nil, err
	}
	inputs := make([]*tensor.Tensor, len(args.parts))
	for i, t := range args.parts {
		inputs[i] = t.t
	}
	want, err := ir.Evaluate(module, inputs, nil)
	if err != nil {
		return nil, inFile(err, m.file)
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for _, e := range p.gives {
		for _, part := range e.Parts {
			if err := tensor.Compare(r.ports[part].t, want[part], rtol, atol); err != nil {
				return p.difference(e, origin[e.Info.Name], err, inputs, want)
			}
		}
	}
	return nil, nil
}

// difference describes an output that differs, computed by n, with the values of what n reads.
func (p *Program) difference(e edge, n *wire.NodeProto, why error, inputs, want []*tensor.Tensor) (*Difference, error) {
	value := func(e edge, ports []*tensor.Tensor) (v wire.Value, err error) {
		parts := make([]*tensor.Tensor, len(e.Parts))
		for i, part := range e.Parts {
			parts[i] = ports[part]
		}
		v.Name, v.Sequence, v.Optional = e.Info.Name, e.Info.Kind.sequence(), e.Info.Kind.optional()
		v.Tensors, v.Absent, err = unpack(e.Info, parts)
		for i := range v.Tensors { // they may be views of memory that is given back
			v.Tensors[i] = v.Tensors[i].Clone()
		}
		return v, err
	}
	d := &Difference{Tensor: e.Info.Name, Node: n.Name, Op: n.OpType, Detail: why.Error(), model: p.model, gives: e.Info.DType}
	var err error
	if d.want, err = value(e, want); err != nil {
		return nil, err
	}
	for _, input := range n.Input {
		for k, edges := range [][]edge{p.gives, p.takes} {
			at := slices.IndexFunc(edges, func(e edge) bool { return e.Info.Name == input })
			if at < 0 {
				continue
			}
			v, err := value(edges[at], [][]*tensor.Tensor{want, inputs}[k])
			if err != nil {
				return nil, err
			}
			d.inputs, d.types = append(d.inputs, v), append(d.types, edges[at].Info.DType)
		}
	}
	return d, nil
}

// Save writes the differing node with its inputs as a folder in ONNX's test layout, and what the reference gives as its expected output; dir "" makes a
// folder of its own among the temporary files. It returns the folder.
func (d *Difference) Save(dir string) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", "weir-difference-*")
		if err != nil {
			return "", err
		}
		dir = made
	}
	set := filepath.Join(dir, "test_data_set_0")
	if err := os.MkdirAll(set, 0o777); err != nil {
		return "", err
	}
	proto := &wire.ModelProto{IRVersion: d.model.model.Proto.IRVersion, OpsetImport: d.model.model.Proto.OpsetImport, Functions: d.model.model.Proto.Functions, ProducerName: "weir"}
	g := &wire.GraphProto{Name: d.Node}
	for _, n := range d.model.model.Proto.Graph.Node {
		for _, o := range n.Output {
			if o == d.Tensor {
				g.Node = []*wire.NodeProto{n}
			}
		}
	}
	constants := map[string]bool{}
	for _, input := range g.Node[0].Input {
		for _, t := range d.model.model.Proto.Graph.Initializer {
			if t.Name == input && !constants[input] {
				constants[input] = true
				g.Initializer = append(g.Initializer, t)
			}
		}
	}
	for i, v := range d.inputs {
		g.Input = append(g.Input, v.Declaration(d.types[i]))
		if err := os.WriteFile(filepath.Join(set, fmt.Sprintf("input_%d.pb", i)), v.Marshal(), 0o666); err != nil {
			return "", err
		}
	}
	g.Output = []*wire.ValueInfoProto{d.want.Declaration(d.gives)}
	if err := os.WriteFile(filepath.Join(set, "output_0.pb"), d.want.Marshal(), 0o666); err != nil {
		return "", err
	}
	proto.Graph = g
	return dir, os.WriteFile(filepath.Join(dir, "model.onnx"), proto.Marshal(), 0o666)
}
