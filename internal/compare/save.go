package compare

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/sources"
)

// Save writes the node that computes the differing tensor, and the nodes of Hidden, with their inputs, as a folder in
// ONNX's test layout. The expected output is the reference's. If dir is "", Save makes a folder among the temporary
// files. It returns the folder. read maps all of the model's files until done is called. Only nodes of an ONNX model
// can be saved.
func (d *Difference) Save(dir string, read func() (done func(), err error)) (string, error) {
	source, ok := d.model.(sources.Cutter)
	if d.nodes == nil || !ok {
		return "", diag.Unsupportedf("saving a tensor that no node of an ONNX model computes").AtTensor(d.Tensor)
	}
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
	done, err := read()
	if err != nil {
		return "", err
	}
	defer done()
	g := &wire.GraphProto{Name: d.Node, Node: d.nodes}
	used := map[string]bool{}
	for _, n := range d.nodes {
		for _, name := range reads(n, nil) {
			used[name] = true
		}
	}
	for _, v := range d.inputs { // an input with an initializer is its default
		delete(used, v.Name)
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
	return dir, os.WriteFile(filepath.Join(dir, "model.onnx"), source.Cut(g, used).Marshal(), 0o666)
}
