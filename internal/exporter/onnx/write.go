// Package onnx writes ir as ONNX models: a table of rules, one for each operator, is the inverse of the importer's. An
// operator without a rule is written as its expansion; without an expansion it is an ErrUnsupported that names the
// operator.
package onnx

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// The versions of the operator set and of the file format that are written; readers since 2024 accept them.
const (
	opset  = 21
	format = 10
)

// Weight is a parameter whose elements are written into the file.
type Weight struct {
	Name   string
	Tensor *tensor.Tensor
	Fixed  bool // it is not to be learned; the file records that for the importer
}

// Write writes a module's main function as a model: parameters with weights become initializers, the others inputs.
// Extents keep their names.
func Write(out io.Writer, m *ir.Module, weights map[*ir.Value]Weight) (err error) {
	defer ir.Catch(&err)
	w := &writer{module: m, graph: &wire.GraphProto{Name: m.Name}, names: map[*ir.Value]string{}, taken: map[string]bool{},
		constants: map[string]string{}, extents: map[string]string{}, sources: map[sym.Name]source{},
		needed: map[*ir.Node]bool{}}
	w.main = w.graph
	if w.graph.Name == "" {
		w.graph.Name = "main"
	}
	body := m.Main.Body
	for _, v := range body.Params {
		if _, ok := weights[v]; !ok {
			w.names[v] = w.unique(v.Name)
			w.graph.Input = append(w.graph.Input, w.declaration(v))
			w.learn(v)
		}
	}
	for _, v := range body.Results {
		w.taken[v.Name] = true
	}
	for _, v := range body.Params {
		if weight, ok := weights[v]; ok {
			w.names[v] = w.unique(weight.Name)
			w.graph.Initializer = append(w.graph.Initializer, initializer(w.names[v], weight.Tensor, weight.Fixed))
		}
	}
	w.results = body.Results
	w.need(body.Results)
	w.block(body)
	w.outputs(body)
	proto := &wire.ModelProto{IRVersion: format, ProducerName: "weir",
		OpsetImport: []*wire.OperatorSetIDProto{{Version: opset}}, Graph: w.graph}
	_, err = proto.WriteTo(out)
	return err
}

// writer builds a model's graph.
type writer struct {
	module    *ir.Module
	main      *wire.GraphProto // the initializers of all graphs are here
	graph     *wire.GraphProto // main, or a region
	names     map[*ir.Value]string
	taken     map[string]bool
	results   []*ir.Value
	constants map[string]string // small constants that were written, by their type, shape and bytes
	extents   map[string]string // expressions that were written, by their string: tensors i64[1]
	sources   map[sym.Name]source
	needed    map[*ir.Node]bool
	count     int
}

// source is a value that has an axis of a named extent; if axis is below 0, the value's only element is the extent.
type source struct {
	name string
	axis int
}

// fail ends the writing: ir.Catch returns the error.
func fail(err error) { (&ir.Builder{}).Fail(err) }

// unique returns a name that is not taken yet, and takes it.
func (w *writer) unique(hint string) string {
	if hint == "" {
		hint = "t"
	}
	name := hint
	for i := 1; w.taken[name]; i++ {
		name = fmt.Sprintf("%s.%d", hint, i)
	}
	w.taken[name] = true
	return name
}

// declaration returns a value's name and type.
func (w *writer) declaration(v *ir.Value) *wire.ValueInfoProto {
	shape := make([]*wire.Dimension, len(v.Type.Shape))
	for i, e := range v.Type.Shape {
		if n, ok := e.Const(); ok {
			shape[i] = wire.Size(n)
		} else {
			shape[i] = wire.Dim(e.String())
		}
	}
	return wire.TensorValue(w.names[v], elementType(v.Type.DType), shape...)
}

// elementType returns ONNX's number of an element type; ONNX not having it is an ErrUnsupported.
func elementType(dt dtype.DType) wire.DataType {
	t := wire.DataTypeOf(dt)
	if t == wire.UndefinedType {
		fail(diag.Unsupportedf("ONNX has no element type %v", dt))
	}
	return t
}

// learn records the named extents that a value's shape has.
func (w *writer) learn(v *ir.Value) {
	for axis, e := range v.Type.Shape {
		if name, ok := e.Name(); ok {
			if _, known := w.sources[name]; !known {
				w.sources[name] = source{w.names[v], axis}
			}
		}
	}
}

// outputs declares the results. A result that is an input or repeats another result gets a name of its own.
func (w *writer) outputs(body *ir.Block) {
	seen := map[string]bool{}
	for _, v := range body.Results {
		name := w.of(v)
		if v.Node == nil || seen[name] {
			copied := w.unique(v.Name)
			w.node("Identity", []string{name}, []string{copied})
			name = copied
		}
		seen[name] = true
		d := w.declaration(v)
		d.Name = name
		w.graph.Output = append(w.graph.Output, d)
	}
}

// need marks the nodes from which values are computed.
func (w *writer) need(list []*ir.Value) {
	for _, v := range list {
		if v != nil && v.Node != nil && !w.needed[v.Node] {
			w.needed[v.Node] = true
			w.need(v.Node.Inputs)
			for _, r := range inner(v.Node) {
				w.need(r.Results)
			}
		}
	}
}

// block writes the needed nodes of a block.
func (w *writer) block(b *ir.Block) {
	for _, n := range b.Nodes {
		if w.needed[n] {
			w.convert(n)
		}
	}
}

// convert writes a node by its rule, or its expansion.
func (w *writer) convert(n *ir.Node) {
	op := n.Op.Name()
	if r := rules[op]; r != nil && (!ops.Last(n) || op == "argmax") {
		r(&call{writer: w, n: n})
	} else if !w.expand(n) {
		fail(diag.Unsupportedf("ONNX has no operator for this").AtNode(n.Source, op).
			WithFix("compute the network without it, or save parameters alone"))
	}
	for i, v := range n.Outputs {
		if w.names[v] == "" && i == 0 {
			fail(diag.Internalf("the rule of %s wrote no result", op))
		}
		if w.names[v] != "" {
			w.learn(v)
		}
	}
}

// expand writes a node's expansion; it reports false if there is none.
func (w *writer) expand(n *ir.Node) bool {
	def, ok := n.Op.(*ops.Def)
	if !ok || def.Expand == nil {
		return false
	}
	scratch := &ir.Block{}
	b := ir.NewBuilder(ir.NewInference(w.module), scratch)
	b.Source = n.Source
	out := def.Expand(b, n)
	if out == nil {
		return false
	}
	w.need(out)
	w.block(scratch)
	for i, v := range out {
		w.node("Identity", []string{w.of(v)}, []string{w.result(n.Outputs[i])})
	}
	return true
}

// result returns the name of a node's result; results of the model keep their names.
func (w *writer) result(v *ir.Value) string {
	if w.names[v] == "" {
		w.names[v] = v.Name
		if !slices.Contains(w.results, v) {
			w.names[v] = w.unique(v.Name)
		}
	}
	return w.names[v]
}

// of returns the name of a value, "" for nil. It writes a constant if it has not been written.
func (w *writer) of(v *ir.Value) string {
	if v == nil {
		return ""
	}
	if w.names[v] == "" {
		if v.Const == nil {
			fail(diag.Internalf("%s is read before it is written", v.Name))
		}
		w.names[v] = w.tensor(v.Name, v.Const)
	}
	return w.names[v]
}

// initializer returns a tensor as a file has it; fixed marks a tensor of floats as not to be learned.
func initializer(name string, t *tensor.Tensor, fixed bool) *wire.TensorProto {
	out := wire.FromTensor(name, t)
	if fixed && t.DType().IsFloat() {
		out.MetadataProps = append(out.MetadataProps, wire.Fixed())
	}
	return out
}

// tensor adds an initializer, or finds a small one that is equal, and returns its name.
func (w *writer) tensor(hint string, t *tensor.Tensor) string {
	key := ""
	if t.Len() <= 64 && t.DType() != dtype.String {
		key = fmt.Sprint(t.DType(), t.Shape(), t.Bytes())
		if name := w.constants[key]; name != "" {
			return name
		}
	}
	elementType(t.DType())
	name := w.unique(hint)
	w.main.Initializer = append(w.main.Initializer, initializer(name, t, true))
	if key != "" {
		w.constants[key] = name
	}
	return name
}

// ints returns a constant vector of i64.
func (w *writer) ints(list ...int64) string {
	if list == nil {
		list = []int64{}
	}
	return w.tensor("i", tensor.Must(tensor.FromSlice(list, int64(len(list)))))
}

// number returns a scalar constant.
func (w *writer) number(dt dtype.DType, x float64) string {
	t := tensor.Must(tensor.New(dt))
	if dt.IsFloat() {
		t.SetFloat(0, x)
	} else {
		t.SetInt(0, int64(x))
	}
	return w.tensor("c", t)
}

// node adds a node.
func (w *writer) node(op string, in, out []string, attrs ...*wire.AttributeProto) {
	w.count++
	w.graph.Node = append(w.graph.Node, &wire.NodeProto{Name: fmt.Sprintf("%s.%d", op, w.count), OpType: op, Input: in,
		Output: out, Attribute: attrs})
}

// add adds a node of one result and returns the result's name.
func (w *writer) add(op string, in []string, attrs ...*wire.AttributeProto) string {
	name := w.unique(strings.ToLower(op))
	w.node(op, in, []string{name}, attrs...)
	return name
}

// extent writes an expression as a tensor i64[1].
func (w *writer) extent(e sym.Expr) string {
	if n, ok := e.Const(); ok {
		return w.ints(n)
	}
	key := e.String()
	if name := w.extents[key]; name != "" {
		return name
	}
	constant, terms := e.Terms()
	total := ""
	for _, t := range terms {
		product := ""
		for _, f := range t.Factors {
			product = w.combine("Mul", product, w.factor(f))
		}
		if t.Coef != 1 {
			product = w.combine("Mul", product, w.ints(t.Coef))
		}
		total = w.combine("Add", total, product)
	}
	if constant != 0 {
		total = w.combine("Add", total, w.ints(constant))
	}
	w.extents[key] = total
	return total
}

// combine applies op to x and y; it returns y if x is "".
func (w *writer) combine(op, x, y string) string {
	if x == "" {
		return y
	}
	return w.add(op, []string{x, y})
}

// factor writes a factor of an expression as a tensor i64[1].
func (w *writer) factor(f sym.Factor) string {
	args := make([]string, len(f.Args))
	for i, a := range f.Args {
		args[i] = w.extent(a)
	}
	switch f.Kind {
	case sym.Variable:
		s, ok := w.sources[f.Name]
		if !ok {
			fail(diag.Unsupportedf("no input has an axis of the extent %v alone", f.Name).AtDim(f.Name.String()))
		}
		if s.axis < 0 {
			return w.add("Reshape", []string{s.name, w.ints(1)})
		}
		return w.add("Shape", []string{s.name}, wire.IntAttribute("start", int64(s.axis)),
			wire.IntAttribute("end", int64(s.axis+1)))
	case sym.FloorQuotient:
		return w.floor(args[0], args[1])
	case sym.CeilQuotient:
		return w.add("Neg", []string{w.floor(w.add("Neg", args[:1]), args[1])})
	case sym.Remainder:
		return w.add("Mod", args)
	case sym.Least:
		return w.add("Min", args)
	case sym.Greatest:
		return w.add("Max", args)
	case sym.FactorProduct:
		return w.add("Mul", args)
	case sym.FactorSum:
		return w.add("Sum", args)
	}
	fail(diag.Unsupportedf("an extent that is not known, %v", f.Expr()))
	return ""
}

// floor writes a quotient that is rounded down.
func (w *writer) floor(x, y string) string {
	return w.add("Div", []string{w.add("Sub", []string{x, w.add("Mod", []string{x, y})}), y})
}

// vector writes expressions as an i64 vector.
func (w *writer) vector(list []sym.Expr) string {
	if numbers, ok := numbersOf(list); ok {
		return w.ints(numbers...)
	}
	if len(list) == 1 {
		return w.extent(list[0])
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = w.extent(e)
	}
	return w.add("Concat", names, wire.IntAttribute("axis", 0))
}

// numbersOf returns the values of expressions; ok is false unless all are constant.
func numbersOf(list []sym.Expr) ([]int64, bool) {
	out := make([]int64, len(list))
	for i, e := range list {
		n, ok := e.Const()
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// reshape writes a Reshape of x from a shape to another. In a shape of constants, 0 stands for a named extent that
// stays and −1 for a single other one; a shape with more unknown extents is computed.
func (w *writer) reshape(x string, from, to []sym.Expr, out string) {
	attrs := []*wire.AttributeProto{}
	shape, numbers := numbersOf(to)
	if numbers {
		if slices.Contains(shape, 0) {
			attrs = append(attrs, wire.IntAttribute("allowzero", 1))
		}
		w.node("Reshape", []string{x, w.ints(shape...)}, []string{out}, attrs...)
		return
	}
	shape = make([]int64, len(to))
	left, empty := 0, false
	for i, e := range to {
		n, ok := e.Const()
		switch {
		case ok:
			shape[i], empty = n, empty || n == 0
		case i < len(from) && e.Equal(from[i]):
			shape[i] = 0
		default:
			shape[i] = -1
			left++
		}
	}
	if left > 1 || empty {
		w.node("Reshape", []string{x, w.vector(to)}, []string{out}, wire.IntAttribute("allowzero", 1))
		return
	}
	w.node("Reshape", []string{x, w.ints(shape...)}, []string{out})
}
