package weir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// Difference is the first tensor, in the order of the model's nodes, that a program computes otherwise than the slow reference does.
type Difference struct {
	Tensor, Node, Op, Detail string

	model  *Model
	inputs []*tensor.Tensor
	names  []string
	got    *tensor.Tensor
	want   *tensor.Tensor
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
	module, names, err := m.model.Build(wanted)
	if err != nil {
		return nil, inFile(err, m.file)
	}
	inputs := make([]*tensor.Tensor, len(m.model.Inputs))
	for i, p := range m.model.Inputs {
		a, ok := in[p.Name]
		if !ok {
			return nil, diag.Inputf("no value is given for it").AtTensor(p.Name)
		}
		inputs[i] = a.argument().t
	}
	want, err := ir.Evaluate(module, inputs, nil)
	if err != nil {
		return nil, inFile(err, m.file)
	}
	p, err := Compile(ctx, m, Options{Outputs: wanted})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for i, name := range names {
		if e := tensor.Compare(r.At(i).t, want[i], rtol, atol); e != nil {
			n := origin[name]
			d := &Difference{Tensor: name, Node: n.Name, Op: n.OpType, Detail: e.Error(), model: m, want: want[i], got: r.At(i).t.Clone()}
			for _, input := range n.Input {
				for j, other := range names {
					if other == input {
						d.names, d.inputs = append(d.names, input), append(d.inputs, want[j])
					}
				}
				for j, port := range m.model.Inputs {
					if port.Name == input {
						d.names, d.inputs = append(d.names, input), append(d.inputs, inputs[j])
					}
				}
			}
			return d, nil
		}
	}
	return nil, nil
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
	for i, name := range d.names {
		g.Input = append(g.Input, valueInfo(name, d.inputs[i]))
		if err := writeTensor(filepath.Join(set, fmt.Sprintf("input_%d.pb", i)), name, d.inputs[i]); err != nil {
			return "", err
		}
	}
	g.Output = []*wire.ValueInfoProto{valueInfo(d.Tensor, d.want)}
	if err := writeTensor(filepath.Join(set, "output_0.pb"), d.Tensor, d.want); err != nil {
		return "", err
	}
	proto.Graph = g
	return dir, os.WriteFile(filepath.Join(dir, "model.onnx"), proto.Marshal(), 0o666)
}

func valueInfo(name string, t *tensor.Tensor) *wire.ValueInfoProto {
	var dims []*wire.Dimension
	for _, s := range t.Shape() {
		dims = append(dims, wire.Size(s))
	}
	return wire.TensorValue(name, wire.DataTypeOf(t.DType()), dims...)
}

func writeTensor(path, name string, t *tensor.Tensor) error {
	return os.WriteFile(path, wire.FromTensor(name, t).Marshal(), 0o666)
}
