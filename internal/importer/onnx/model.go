// Package onnx reads ONNX models into ir. Package wire reads the wire format. Package convert walks a graph's nodes,
// and finds for each the rule that converts it to ir: the packages below rules have the rules, in a table for each
// domain.
//
// Weights are not copied: constants are views of the model's mapped file, which must stay open while they are used.
package onnx

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// The conversion's types that describe a model's inputs and outputs.
type (
	Port      = convert.Port
	Kind      = convert.Kind
	Edge      = convert.Edge
	Signature = convert.Signature
)

// The kinds. A tensor has numbers or strings.
const (
	Tensor           = convert.Tensor
	Sequence         = convert.Sequence
	Optional         = convert.Optional
	OptionalSequence = convert.OptionalSequence
)

// Model is a parsed model file.
type Model struct {
	convert.Source
	// Defaults are the inputs whose values are initializers: old exporters list every weight so, newer ones the values
	// that a run may replace. Weir compiles the values in.
	Defaults []string

	file     *mem.Block
	claim    *mem.Claim
	external *external // finds external data; nil if there can be none
}

// Open reads the model in a block, which it owns, with external data in a folder. It ends with the context's error if
// the context ends meanwhile.
func Open(ctx context.Context, block *mem.Block, folder string) (*Model, error) {
	return owned(ctx, block, func(c *mem.Claim) *external { return externalIn(c, folder) })
}

// OpenIn is Open for a file of that name in a file system.
func OpenIn(ctx context.Context, block *mem.Block, fsys fs.FS, name string) (*Model, error) {
	return owned(ctx, block, func(c *mem.Claim) *external { return externalFS(c, fsys, name) })
}

// owned returns the model in a block, which it owns; it closes the block if it cannot read it.
func owned(ctx context.Context, block *mem.Block, outside func(*mem.Claim) *external) (*Model, error) {
	m, err := parse(ctx, block.Bytes())
	if err != nil {
		block.Close()
		return nil, err
	}
	m.file, m.external = block, outside(m.claim)
	return m, nil
}

// Parse reads a model from memory, which it borrows. It has no external data.
func Parse(data []byte) (*Model, error) { return parse(context.Background(), data) }

// Blocks returns the files that the model reads, its own and those of external data, if they are mapped, and copies of
// their data.
func (m *Model) Blocks() (list []*mem.Block) {
	list = m.claim.Blocks()
	if m.external != nil {
		list = append(list, m.external.blocks()...)
	}
	if m.file != nil {
		list = append(list, m.file)
	}
	return list
}

// Close releases the model's file, its external data and all copies of them.
func (m *Model) Close() error {
	first := m.claim.Close()
	if m.external != nil {
		first = errors.Join(first, m.external.Close())
	}
	if m.file != nil {
		first = errors.Join(first, m.file.Close())
		m.file = nil
	}
	return first
}

// parse is parseModel that returns faults of mapped files as errors.
func parse(ctx context.Context, data []byte) (m *Model, err error) {
	claim := mem.NewClaim(ctx, int64(len(data)))
	err = mem.CatchFaults(func() error {
		m, err = parseModel(claim, data)
		return err
	})
	claim.Alone()
	return m, err
}

// newModel returns a model without inputs and outputs.
func newModel(claim *mem.Claim, proto *wire.ModelProto) *Model {
	m := &Model{claim: claim, Source: convert.Source{Proto: proto, Meta: map[string]string{}, Opsets: map[string]int64{},
		Functions: map[string]*wire.FunctionProto{}, Rules: rules}}
	m.Read = m.tensor
	return m
}

// parseModel reads a model and its declared inputs and outputs; it converts nothing.
func parseModel(claim *mem.Claim, data []byte) (*Model, error) {
	proto, err := wire.ParseModelOn(claim, data)
	if err != nil {
		if e := (*diag.Error)(nil); errors.As(err, &e) && strings.Contains(e.Detail, "past the end") {
			e.Fix = "the file may be cut off: copy it again"
		}
		// An error before the first field means that the data is not a model.
		if e := (*diag.Error)(nil); errors.As(err, &e) && errors.Is(err, diag.ErrInput) &&
			strings.HasPrefix(e.Detail, "ModelProto: ") {
			e.Detail = "this is not an ONNX model, or a broken one: " + e.Detail
		}
		return nil, err
	}
	if proto.Graph == nil {
		return nil, diag.Inputf("this is not an ONNX model: there is no graph in it")
	}
	m := newModel(claim, proto)
	for _, o := range proto.OpsetImport {
		m.Opsets[convert.DomainOf(o.Domain)] = o.Version
	}
	if len(proto.OpsetImport) == 0 && proto.IRVersion < 3 {
		m.Opsets[""] = 1 // there was only one version
	}
	for _, p := range proto.MetadataProps {
		m.Meta[p.Key] = p.Value
	}
	for _, f := range proto.Functions {
		m.Functions[convert.FunctionKey(f.Domain, f.Name, f.Overload)] = f
	}
	initial := map[string]bool{}
	for _, t := range proto.Graph.Initializer {
		initial[t.Name] = true
	}
	for _, t := range proto.Graph.SparseInitializer {
		if t.Values != nil {
			initial[t.Values.Name] = true
		}
	}
	named := map[string]bool{}
	for _, v := range slices.Concat(proto.Graph.Input, proto.Graph.Output) {
		convert.NoteDims(v.Type, named)
	}
	seen := map[string]bool{}
	for _, v := range proto.Graph.Input {
		if seen[v.Name] {
			return nil, diag.Inputf("two inputs are named %q", v.Name).AtTensor(v.Name)
		}
		seen[v.Name] = true
		if initial[v.Name] {
			m.Defaults = append(m.Defaults, v.Name)
			continue
		}
		p, err := convert.PortOf(v, true, named)
		if err != nil {
			return nil, err
		}
		m.Inputs = append(m.Inputs, p)
	}
	for _, v := range proto.Graph.Output {
		p, err := convert.PortOf(v, false, named)
		if err != nil {
			p = convert.Port{Name: v.Name}
		}
		m.Outputs = append(m.Outputs, p)
	}
	if len(m.Outputs) == 0 {
		return nil, diag.Inputf("the model has no outputs")
	}
	return m, nil
}

// tensor returns a constant of the file: a view of its bytes if the file has them packed, aligned or not; otherwise a
// decoded copy.
func (m *Model) tensor(t *wire.TensorProto) (*tensor.Tensor, error) {
	if t.External() {
		if m.external == nil {
			return nil, diag.Inputf("its data lies in another file, and the model has no folder").AtTensor(t.Name).
				WithFix("load the model by its path")
		}
		return m.external.Tensor(t)
	}
	data, _, stored, err := t.Stored()
	if err != nil {
		return nil, err
	}
	if dt, err := t.ElementType(); err == nil && stored && dt != dtype.Bool {
		return tensor.Over(dt, t.Dims, data)
	}
	out, _, err := t.Tensor()
	return out, err
}
