// Package onnx reads ONNX models into ir. The wire format is package wire's; this one knows operators: a table of rules, one for
// each operator's name, turns nodes into ir (see convert.go and the files named rules_*).
//
// Weights are not copied: constants are views of the model's file, mapped, which must stay open while they are used.
package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Oldest and Newest are the operator sets of ai.onnx that are supported, NewestFormat the newest version of the file format (ir_version).
const (
	Oldest       = 1
	Newest       = 28
	NewestFormat = 14
)

// Model is a parsed model file.
type Model struct {
	Inputs  []Port
	Outputs []Port
	// Defaults are the inputs whose values are initializers: old exporters list every weight so, newer ones what a run may replace. Weir compiles the values in.
	Defaults []string
	Meta     map[string]string
	Opsets   map[string]int64 // by domain; ai.onnx is ""
	Proto    *wire.ModelProto

	functions map[string]*wire.FunctionProto
	file      *mem.Block
	external  *external // where external data lies; nil where there can be none
}

// Open reads the model in a file, which may be closed afterwards, with the external data beside it.
func Open(f *os.File) (*Model, error) {
	block, err := mem.MapFile(f, filepath.Base(f.Name()))
	if err != nil {
		return nil, err
	}
	m, err := parse(block.Bytes())
	if err != nil {
		block.Close()
		return nil, err
	}
	m.file, m.external = block, externalIn(filepath.Dir(f.Name()))
	return m, nil
}

// ParseIn is Parse for a file of that name in a file system, with the external data beside it.
func ParseIn(data []byte, fsys fs.FS, name string) (*Model, error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	m.external = externalFS(fsys, name)
	return m, nil
}

// Parse reads a model from memory, which it borrows. It has no external data.
func Parse(data []byte) (*Model, error) { return parse(data) }

// Blocks are the files that the model reads, its own and those of external data, as far as they are mapped, and copies of what does not lie aligned in those.
func (m *Model) Blocks() (list []*mem.Block) {
	if m.external != nil {
		list = m.external.blocks()
	}
	if m.file != nil {
		list = append(list, m.file)
	}
	return list
}

// Close gives the file's mapping back.
func (m *Model) Close() error {
	var first error
	if m.external != nil {
		first = m.external.Close()
	}
	if m.file != nil {
		if err := m.file.Close(); err != nil && first == nil {
			first = err
		}
		m.file = nil
	}
	return first
}

func parse(data []byte) (m *Model, err error) {
	err = mem.CatchFaults(func() error {
		m, err = parseModel(data)
		return err
	})
	return m, err
}

func parseModel(data []byte) (*Model, error) {
	proto, err := wire.ParseModel(data)
	if err != nil {
		// What goes wrong before any field is read is no model at all.
		if e := (*diag.Error)(nil); errors.As(err, &e) && errors.Is(err, diag.ErrInput) && strings.HasPrefix(e.Detail, "ModelProto: ") {
			e.Detail = "this is not an ONNX model, or a broken one: " + e.Detail
		}
		return nil, err
	}
	if proto.Graph == nil {
		return nil, diag.Inputf("this is not an ONNX model: there is no graph in it")
	}
	m := &Model{Proto: proto, Meta: map[string]string{}, Opsets: map[string]int64{}, functions: map[string]*wire.FunctionProto{}}
	for _, o := range proto.OpsetImport {
		m.Opsets[domainOf(o.Domain)] = o.Version
	}
	if len(proto.OpsetImport) == 0 && proto.IRVersion < 3 {
		m.Opsets[""] = 1 // there was only one
	}
	for _, p := range proto.MetadataProps {
		m.Meta[p.Key] = p.Value
	}
	for _, f := range proto.Functions {
		m.functions[functionKey(f.Domain, f.Name, f.Overload)] = f
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
		noteDims(v.Type, named)
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
		p, err := portOf(v, true, named)
		if err != nil {
			return nil, err
		}
		m.Inputs = append(m.Inputs, p)
	}
	for _, v := range proto.Graph.Output {
		p, err := portOf(v, false, named)
		if err != nil {
			p = Port{Name: v.Name}
		}
		m.Outputs = append(m.Outputs, p)
	}
	if len(m.Outputs) == 0 {
		return nil, diag.Inputf("the model has no outputs")
	}
	return m, nil
}

func domainOf(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

func functionKey(domain, name, overload string) string {
	return domainOf(domain) + ":" + name + ":" + overload
}

// nameless are the names that exporters write for an extent they do not know: each is a dimension of its own.
var nameless = map[string]bool{"": true, "?": true, "-1": true, "None": true, "none": true, "null": true}

// noteDims adds the names that a declaration gives dimensions.
func noteDims(t *wire.TypeProto, named map[string]bool) {
	for t != nil && t.TensorType == nil {
		switch {
		case t.OptionalType != nil:
			t = t.OptionalType.ElemType
		case t.SequenceType != nil:
			t = t.SequenceType.ElemType
		default:
			return
		}
	}
	if t == nil || t.TensorType.Shape == nil {
		return
	}
	for _, d := range t.TensorType.Shape.Dim {
		if d.Named() {
			named[d.Param] = true
		}
	}
}

// longestDimension is how many bytes the name of a dimension may have: formulas and errors repeat it.
const longestDimension = 1 << 14

// typeOf is a declared tensor type. An axis without a size is a dimension of the name given, or INPUT.AXIS, with underscores behind if the model names a
// dimension so. strict demands a known type.
func typeOf(v *wire.ValueInfoProto, strict bool, named map[string]bool) (ir.Type, error) {
	if v.Type == nil {
		return ir.Type{}, diag.Inputf("no type is declared for %s", v.Name).AtTensor(v.Name)
	}
	if v.Type.TensorType == nil {
		return ir.Type{}, diag.Unsupportedf("%s is no tensor, and no sequence or optional of tensors; maps and sparse tensors are not supported", v.Name).AtTensor(v.Name)
	}
	if shape := v.Type.TensorType.Shape; shape != nil {
		for _, d := range shape.Dim {
			if n := len(d.Param); n > longestDimension {
				return ir.Type{}, diag.Inputf("the name of a dimension has %d bytes, and may have %d", n, longestDimension).AtTensor(v.Name)
			}
		}
	}
	dt, ok := v.Type.TensorType.ElemType.DType()
	if !ok && v.Type.TensorType.ElemType != wire.UndefinedType {
		return ir.Type{}, v.Type.TensorType.ElemType.NoType("the element type of " + v.Name).AtTensor(v.Name)
	}
	if !ok {
		return ir.Type{}, diag.Inputf("no element type is declared for %s", v.Name).AtTensor(v.Name)
	}
	t := ir.Type{DType: dt}
	if v.Type.TensorType.Shape == nil {
		if strict {
			return t, diag.Unsupportedf("%s is declared without a shape", v.Name).AtTensor(v.Name).WithFix("declare its rank; a size may be a name")
		}
		return t, nil
	}
	if len(v.Type.TensorType.Shape.Dim) > tensor.MaxRank {
		return t, diag.Inputf("%s has rank %d, more than %d", v.Name, len(v.Type.TensorType.Shape.Dim), tensor.MaxRank).AtTensor(v.Name)
	}
	t.Shape = []sym.Expr{}
	for axis, d := range v.Type.TensorType.Shape.Dim {
		switch {
		case d.Known() && d.Value >= 0:
			t.Shape = append(t.Shape, sym.Const(d.Value))
		case d.Known() && d.Value < -1:
			return t, diag.Inputf("axis %d of %s is declared as %d", axis, v.Name, d.Value).AtTensor(v.Name)
		case d.Named() && !nameless[strings.TrimSpace(d.Param)]:
			t.Shape = append(t.Shape, sym.Dim(d.Param))
		default:
			name := fmt.Sprintf("%s.%d", v.Name, axis)
			for named[name] {
				name += "_"
			}
			t.Shape = append(t.Shape, sym.Dim(name))
		}
	}
	return t, nil
}

// tensor is a constant of the file: a view of its bytes where they lie in the file packed, aligned for their type or not, else decoded.
func (m *Model) tensor(t *wire.TensorProto) (*tensor.Tensor, error) {
	if t.External() {
		if m.external == nil {
			return nil, diag.Inputf("its data lies in another file, and the model has no folder").AtTensor(t.Name).WithFix("load the model by its path")
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
