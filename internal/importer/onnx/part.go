package onnx

import (
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A model can be built into another module: Into builds it there, with values in place of its inputs and of some of its
// initializers. In this way a model can be trained, and WriteWith writes it with its new initializers.

// ReadAll reads the model at a path with its external data into Go's memory, so that nothing has to be closed.
func ReadAll(path string) (*Model, error) {
	f, err := mem.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	block, err := mem.MapFile(f, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer block.Close()
	var data []byte
	if err := mem.CatchFaults(func() error { data = slices.Clone(block.Bytes()); return nil }); err != nil {
		return nil, err
	}
	m, err := Parse(data)
	if err != nil {
		return nil, err
	}
	m.external = externalIn(m.claim, filepath.Dir(path))
	err = m.gather()
	if closed := m.external.Close(); err == nil {
		err = closed
	}
	m.external = nil
	return m, err
}

// gather copies external data into the model. Tensors at the same location share a copy; at most as many bytes are
// copied as the files have, so that a small file cannot ask for more memory than its data fills.
func (m *Model) gather() error {
	copies, total := map[wire.ExternalEntry][]byte{}, int64(0)
	return m.Proto.EachTensor(func(t *wire.TensorProto) error {
		if !t.External() {
			return nil
		}
		view, err := m.tensor(t)
		if err != nil {
			return diag.As(err, diag.ErrInput).AtTensor(t.Name)
		}
		entry, err := t.ExternalEntry()
		if err != nil {
			return err
		}
		entry.Length = view.Size()
		data, ok := copies[entry]
		if !ok {
			if total += entry.Length; total > m.external.fileBytes() {
				return diag.Inputf("external data: tensors overlap in their files").AtTensor(t.Name)
			}
			if err := mem.CatchFaults(func() error { data = slices.Clone(view.Bytes()); return nil }); err != nil {
				return err
			}
			copies[entry] = data
		}
		inside, err := tensor.Over(view.DType(), t.Dims, data)
		if err != nil {
			return err
		}
		t.RawData, t.RawOffset = wire.FromTensor(t.Name, inside).RawData, -1
		t.ExternalData, t.DataLocation = nil, wire.LocationDefault
		return nil
	})
}

// fileBytes returns the total size of the opened files.
func (x *external) fileBytes() (sum int64) {
	for _, block := range x.files {
		sum += block.Size()
	}
	return sum
}

// Until makes the named values the model's outputs, and removes everything that they do not need. It changes the model.
func (m *Model) Until(outputs []string) error {
	proto := m.Proto.Graph
	if len(outputs) == 0 {
		return diag.Inputf("no outputs are asked for")
	}
	nodes, known := makers(proto.Node), map[string]bool{}
	for _, p := range m.Inputs {
		known[p.Name] = true
	}
	for i, name := range outputs {
		if slices.Contains(outputs[:i], name) {
			return diag.Inputf("output %q is asked for twice", name).AtTensor(name)
		}
		if nodes[name] == nil && !known[name] {
			return diag.Inputf("nothing in the model computes %q", name).AtTensor(name).WithFix("%s", lastNames(proto))
		}
	}
	needed := needs(nodes, outputs)
	proto.Node = slices.DeleteFunc(proto.Node, func(n *wire.NodeProto) bool { return !needed[n] })
	m.forget(outputs)
	m.declare(outputs)
	return nil
}

// forget removes inputs and initializers that neither nodes nor outputs read.
func (m *Model) forget(outputs []string) {
	proto, read := m.Proto.Graph, map[string]bool{}
	for _, name := range outputs {
		read[name] = true
	}
	for _, n := range proto.Node {
		convert.Reads(n, func(name string) { read[name] = true })
	}
	m.Inputs = slices.DeleteFunc(m.Inputs, func(p convert.Port) bool { return !read[p.Name] })
	proto.Input = slices.DeleteFunc(proto.Input, func(v *wire.ValueInfoProto) bool { return !read[v.Name] })
	proto.Initializer = slices.DeleteFunc(proto.Initializer, func(t *wire.TensorProto) bool { return !read[t.Name] })
}

// lastNames returns a hint that lists the results of the last nodes.
func lastNames(g *wire.GraphProto) string {
	const most = 6
	var names []string
	for i := len(g.Node) - 1; i >= 0 && len(names) < most; i-- {
		names = append(names, g.Node[i].Output...)
	}
	return "the last nodes compute " + strings.Join(names, ", ")
}

// declare makes values the outputs of the file and of the model, with their types in the file.
func (m *Model) declare(outputs []string) {
	proto, types := m.Proto.Graph, map[string]*wire.ValueInfoProto{}
	for _, list := range [][]*wire.ValueInfoProto{proto.Output, proto.ValueInfo, proto.Input} {
		for _, v := range list {
			types[v.Name] = v
		}
	}
	proto.Output, m.Outputs = nil, nil
	for _, name := range outputs {
		v := types[name]
		if v == nil {
			v = &wire.ValueInfoProto{Name: name}
		}
		proto.Output, m.Outputs = append(proto.Output, v), append(m.Outputs, convert.Port{Name: name})
	}
	proto.ValueInfo = slices.DeleteFunc(proto.ValueInfo, func(v *wire.ValueInfoProto) bool {
		return slices.Contains(outputs, v.Name)
	})
}

// Untie replaces Identity nodes of initializers by initializers of their own. It changes the model.
func (m *Model) Untie() {
	graph, copies, gone := m.Proto.Graph, map[string][]*wire.NodeProto{}, map[*wire.NodeProto]bool{}
	for _, n := range graph.Node {
		if n.OpType == "Identity" && convert.DomainOf(n.Domain) == "" && len(n.Input) == 1 && len(n.Output) == 1 {
			copies[n.Input[0]] = append(copies[n.Input[0]], n)
		}
	}
	for i := 0; i < len(graph.Initializer); i++ { // the list grows
		for _, n := range copies[graph.Initializer[i].Name] {
			if own := *graph.Initializer[i]; !gone[n] {
				own.Name, gone[n] = n.Output[0], true
				graph.Initializer = append(graph.Initializer, &own)
			}
		}
	}
	graph.Node = slices.DeleteFunc(graph.Node, func(n *wire.NodeProto) bool { return gone[n] })
}

// Hoist moves initializers of branches and of loops' bodies into the graph, if their names occur nowhere else; the
// bodies read them from there. It changes the model.
func (m *Model) Hoist() {
	const sinceVersion = 4 // before, initializers were inputs too
	if m.Proto.IRVersion < sinceVersion {
		return
	}
	named := map[string]int{}
	bodies := bodiesIn(m.Proto.Graph)
	for _, g := range append(bodies, m.Proto.Graph) {
		for _, v := range g.Input {
			named[v.Name]++
		}
		for _, t := range g.Initializer {
			named[t.Name]++
		}
		for _, t := range g.SparseInitializer {
			if t.Values != nil {
				named[t.Values.Name]++
			}
		}
		for _, n := range g.Node {
			for _, name := range n.Output {
				named[name]++
			}
		}
	}
	for _, g := range bodies {
		g.Initializer = slices.DeleteFunc(g.Initializer, func(t *wire.TensorProto) bool {
			if named[t.Name] == 1 {
				m.Proto.Graph.Initializer = append(m.Proto.Graph.Initializer, t)
			}
			return named[t.Name] == 1
		})
	}
}

// bodiesIn returns the branches and bodies of a graph's nodes, at any depth.
func bodiesIn(g *wire.GraphProto) (list []*wire.GraphProto) {
	for _, n := range g.Node {
		for _, a := range n.Attribute {
			for _, body := range append(a.Graphs[:len(a.Graphs):len(a.Graphs)], a.G) {
				if body != nil {
					list = append(append(list, body), bodiesIn(body)...)
				}
			}
		}
	}
	return list
}

// Values returns the names of the nodes' results, in the order of the nodes.
func (m *Model) Values() (names []string) {
	for _, n := range m.Proto.Graph.Node {
		for _, o := range n.Output {
			if o != "" {
				names = append(names, o)
			}
		}
	}
	return names
}

// makers maps the names of results to their nodes.
func makers(nodes []*wire.NodeProto) map[string]*wire.NodeProto {
	by := map[string]*wire.NodeProto{}
	for _, n := range nodes {
		for _, o := range n.Output {
			if o != "" {
				by[o] = n
			}
		}
	}
	return by
}

// needs returns the nodes from which the named values are computed.
func needs(by map[string]*wire.NodeProto, names []string) map[*wire.NodeProto]bool {
	needed := map[*wire.NodeProto]bool{}
	for todo := slices.Clone(names); len(todo) > 0; {
		n := by[todo[len(todo)-1]]
		if todo = todo[:len(todo)-1]; n != nil && !needed[n] {
			needed[n] = true
			convert.Reads(n, func(name string) { todo = append(todo, name) })
		}
	}
	return needed
}

// Redeclare changes the extents of an input. It changes the model.
func (m *Model) Redeclare(name string, t ir.Type) error {
	for i := range m.Inputs {
		p := &m.Inputs[i]
		if p.Name != name {
			continue
		}
		if t.DType != p.Type.DType || len(t.Shape) != len(p.Type.Shape) {
			return diag.Inputf("it is to be %s; the file has %s, and extents alone can be others", t, p.Type).AtTensor(name)
		}
		p.Type = t
		for _, v := range m.Proto.Graph.Input {
			if v.Name == name {
				*v = *wire.TensorValue(name, wire.DataTypeOf(t.DType), dimensions(t.Shape)...)
			}
		}
		m.Proto.Graph.ValueInfo = nil
		for i, v := range m.Proto.Graph.Output {
			m.Proto.Graph.Output[i] = &wire.ValueInfoProto{Name: v.Name} // see complete
		}
		return nil
	}
	return diag.Inputf("the model has no input %q", name).AtTensor(name)
}

// dimensions returns extents as a file declares them.
func dimensions(shape []sym.Expr) []*wire.Dimension {
	list := make([]*wire.Dimension, len(shape))
	for i, e := range shape {
		if n, ok := e.Const(); ok {
			list[i] = wire.Size(n)
		} else {
			list[i] = wire.Dim(e.String())
		}
	}
	return list
}

// Weight is an initializer that training may change.
type Weight struct {
	*tensor.Tensor
	Name string
}

// Weights returns the initializers of the graph that training may change: floats of 16 bits or more, of rank 1 or more,
// or of any rank if scalars is true. The file must not mark them as fixed, a derivative must reach them (see learned),
// and no node may need them as constants: the model is converted to find such nodes.
func (m *Model) Weights(scalars bool) ([]Weight, error) {
	if err := m.Supported(); err != nil {
		return nil, err
	}
	may := m.learned()
	var list []Weight
	for _, t := range m.Proto.Graph.Initializer {
		dt, err := t.ElementType()
		if err != nil || !dt.IsFloat() || dt.Bits() < 16 || len(t.Dims) == 0 && !scalars || t.IsFixed() || !may(t.Name) {
			continue
		}
		data, err := m.tensor(t)
		if err != nil {
			return nil, diag.As(err, diag.ErrInput).AtTensor(t.Name)
		}
		if ordinary(data) {
			list = append(list, Weight{data, t.Name})
		}
	}
	return m.variable(list)
}

// ordinary reports whether all floats can be learned: masks have infinities, or numbers that stand for them.
func ordinary(t *tensor.Tensor) bool {
	const huge = 1e30
	data, dt := t.Bytes(), t.DType()
	for i := range t.Len() {
		if x := math.Abs(dtype.LoadFloat(dt, data, i)); !(x <= huge) || dt == dtype.F16 && x == 65504 {
			return false
		}
	}
	return true
}

// variable returns the weights without those that must be constants: if a node cannot be converted, the weights from
// which alone its operands are computed.
func (m *Model) variable(list []Weight) ([]Weight, error) {
	types := map[string]ir.Type{}
	for _, p := range m.Inputs {
		types[p.Name] = p.Type
	}
	for _, w := range list {
		types[w.Name] = ir.Type{DType: w.DType(), Shape: ir.Constants(w.Shape())}
	}
	for {
		a, err := m.Rehearse(sym.NewDims(), types, m.complete)
		if err == nil {
			return list, nil
		}
		left := m.without(list, a.Node)
		if len(left) == len(list) {
			left = m.without(list, a.Top)
		}
		if len(left) == len(list) {
			return nil, err
		}
		for _, w := range list {
			if !slices.Contains(left, w) {
				delete(types, w.Name)
			}
		}
		list = left
	}
}

// without returns the weights that n does not read, neither itself nor through values that are computed from constants
// alone.
func (m *Model) without(list []Weight, n *wire.NodeProto) []Weight {
	if n == nil {
		return list
	}
	by, constant := makers(m.Proto.Graph.Node), map[string]bool{}
	given := map[string]bool{}
	for _, p := range m.Inputs {
		given[p.Name] = true
	}
	convert.Reads(n, func(name string) {
		from, varies := []string{name}, given[name]
		for made := range needs(by, from) {
			convert.Reads(made, func(r string) { from, varies = append(from, r), varies || given[r] })
		}
		for _, f := range from {
			constant[f] = constant[f] || !varies
		}
	})
	return slices.DeleteFunc(slices.Clone(list), func(w Weight) bool { return constant[w.Name] })
}

// complete declares the types of outputs that have none, as the conversion found them.
func (m *Model) complete(results []*ir.Value) {
	for i, v := range m.Proto.Graph.Output {
		if t := results[i].Type; v.Type == nil {
			*v = *wire.TensorValue(v.Name, wire.DataTypeOf(t.DType), dimensions(t.Shape)...)
		}
	}
}

// Into builds the model into a block: given has the values of all its inputs and of weights. It returns the values of
// the model's outputs. Several goroutines may call it at once, after Weights has returned.
func (m *Model) Into(b *ir.Builder, given map[string]*ir.Value) ([]*ir.Value, error) {
	types := map[string]ir.Type{}
	for name, v := range given {
		types[name] = v.Type
	}
	if err := m.fits(types); err != nil {
		return nil, err
	}
	a, err := m.Rehearse(b.Dims(), types, m.complete)
	if err != nil {
		return nil, err
	}
	source, op := b.Source, b.Operator
	defer func() { b.Source, b.Operator = source, op }()
	return m.ConvertInto(b, given, a)
}

// fits returns an error for inputs whose types differ from those that the model declares.
func (m *Model) fits(types map[string]ir.Type) error {
	bound := map[string]sym.Expr{}
	for _, p := range m.Inputs {
		t, ok := types[p.Name]
		if !ok || t.DType != p.Type.DType || len(t.Shape) != len(p.Type.Shape) {
			return diag.Inputf("%s is given, the model takes %s", t, p.Type).AtTensor(p.Name)
		}
		for axis, e := range p.Type.Shape {
			if err := m.fitsExtent(bound, e, t.Shape[axis]); err != nil {
				return err.AtTensor(p.Name)
			}
		}
	}
	return nil
}

// fitsExtent returns an error if a given extent is not the declared one; bound has the extents of names so far.
func (m *Model) fitsExtent(bound map[string]sym.Expr, declared, given sym.Expr) *diag.Error {
	if _, named := declared.Name(); named {
		first, ok := bound[declared.String()]
		if ok && !first.Equal(given) {
			return diag.Inputf("%s is %s, and was %s before: one name is one extent", declared, given, first)
		}
		bound[declared.String()] = given
		return nil
	}
	if !declared.Equal(given) {
		return diag.Inputf("an extent is %s, and the model's file fixes it to %s", given, declared).
			WithFix("export the model with a named extent, as \"batch\", or declare the input anew when the model is read")
	}
	return nil
}

// mostBytes is the largest size of a file of the format.
const mostBytes = 1<<31 - 1

// WriteWith writes the model's file with new contents for initializers: value returns them, or nil for those that stay.
func (m *Model) WriteWith(w io.Writer, value func(name string) *tensor.Tensor) error {
	proto, graph := *m.Proto, *m.Proto.Graph
	proto.Graph, graph.Initializer = &graph, nil
	sum := int64(0)
	for _, t := range m.Proto.Graph.Initializer {
		if v := value(t.Name); v != nil {
			fresh := wire.FromTensor(t.Name, v)
			fresh.Dims, fresh.DocString, fresh.MetadataProps = t.Dims, t.DocString, t.MetadataProps
			t = fresh
		}
		graph.Initializer = append(graph.Initializer, t)
		if size, err := t.Size(); err == nil {
			sum += size
		}
	}
	if sum > mostBytes {
		return diag.Unsupportedf("a file of %d bytes: an ONNX file has %d at most", sum, mostBytes).
			WithFix("write the parameters as safetensors")
	}
	_, err := proto.WriteTo(w)
	return err
}
