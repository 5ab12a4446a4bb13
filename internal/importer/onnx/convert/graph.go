package convert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// maxFunctions is the largest call depth of model-local functions.
const maxFunctions = 32

// Scope is a graph, a body or a function under conversion: its names and the block that nodes are added to.
type Scope struct {
	Source  *Source
	Outer   *Scope
	Build   *ir.Builder
	names   map[string]*ir.Value
	given   map[string]*ir.Value               // the values of initializers that are not constants
	weights map[string]*wire.TensorProto       // initializers that have not been read
	sparse  map[string]*wire.SparseTensorProto // likewise
	opsets  map[string]int64
	attrs   map[string]*wire.AttributeProto // the attributes of a call of a function, for references to them
	// Composites maps stand-ins to the values that they represent.
	Composites map[*ir.Value]*Composite
	Proto      *wire.GraphProto // nil for a function
	depth      int
	Attempt    *Attempt
	path       string     // the path of the graph in the model, the same in every attempt
	at         string     // the node under conversion
	owner      string     // the path of the If to whose branch this graph belongs
	facts      []sym.Cond // what the branches around decide
}

// NewScope returns the scope of a model's own graph.
func NewScope(m *Source, b *ir.Builder, a *Attempt) *Scope {
	return &Scope{Source: m, Build: b, names: map[string]*ir.Value{}, opsets: m.Opsets,
		Composites: map[*ir.Value]*Composite{}, Attempt: a}
}

// Build is BuildWithin without a context.
func (m *Source) Build(outputs []string) (module *ir.Module, signature *Signature, err error) {
	return m.BuildWithin(context.Background(), outputs, nil, nil)
}

// BuildWithin converts the model: its own outputs, or the named values. The signature describes the module's parameters
// and results. The module's Check returns the context's error once the context has ended. states maps inputs to the
// outputs that are their new values; the module does not treat them as states. asked are ranges of the inputs'
// dimensions. A dimension with one value is that number in all shapes.
func (m *Source) BuildWithin(ctx context.Context, outputs []string, states map[string]string,
	asked map[string]sym.Range) (module *ir.Module, signature *Signature, err error) {
	if err := m.Supported(); err != nil {
		return nil, nil, err
	}
	a := newAttempt(m, states, asked)
	err = a.repeated(ctx, func() error {
		module, signature, err = m.try(ctx, outputs, a)
		if err = a.repeats.settle(m, a, err); err != nil {
			return err
		}
		return a.settle(m, module)
	})
	return module, signature, err
}

// Supported returns an error for a model with a version or operators that no rule supports.
func (m *Source) Supported() error {
	if v := m.Proto.IRVersion; v > NewestFormat {
		return diag.Unsupportedf("version %d of the file format (ir_version); versions up to %d are supported", v,
			NewestFormat)
	}
	if v, ok := m.Opsets[""]; ok && (v < Oldest || v > Newest) {
		return diag.Unsupportedf("operator set %d of ai.onnx; %d to %d are supported", v, Oldest, Newest).
			WithFix("convert the model with onnx.version_converter")
	}
	if missing := m.Unsupported(); missing != nil {
		node, op := m.firstWithoutRule()
		return diag.Unsupportedf("operators %s", strings.Join(missing, ", ")).AtNode(node, op)
	}
	return nil
}

// try is Build with the findings of earlier attempts.
func (m *Source) try(ctx context.Context, outputs []string, a *Attempt) (module *ir.Module, signature *Signature,
	err error) {
	defer ir.Catch(&err)
	module = &ir.Module{Name: "main", Dims: sym.NewDims(), Meta: m.Meta}
	a.inline = mostInlined(m.Proto)
	module.Check = ctx.Err
	body := &ir.Block{}
	module.Main = &ir.Func{Name: "main", Body: body}
	module.Funcs = []*ir.Func{module.Main}
	a.repeats.inference = ir.NewInference(module)
	b := ir.NewBuilder(a.repeats.inference, body)
	b.Stretches = a.repeats.how == mayRepeat
	g := NewScope(m, b, a)
	signature = &Signature{}
	g.inputs(signature)
	names := slices.Clone(outputs)
	if outputs == nil {
		for _, o := range m.Outputs {
			names = append(names, o.Name)
		}
	}
	if err := g.convert(m.Proto.Graph, names); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		v := g.Find(name)
		if v == nil {
			return nil, nil, diag.Inputf("nothing computes output %q", name).AtTensor(name)
		}
		g.output(signature, name, v)
	}
	return module, signature, nil
}

// firstWithoutRule returns the first node whose operator has no rule, in the order of Unsupported.
func (m *Source) firstWithoutRule() (node, op string) {
	for _, n := range m.withoutRule() {
		if name := ruleName(n); op == "" || name < op {
			node, op = sourceOf(n), name
		}
	}
	return node, op
}

// Unsupported lists every operator of the model that no rule converts, sorted, each with the first node that has it.
func (m *Source) Unsupported() []string {
	var out []string
	for name, n := range m.withoutRule() {
		out = append(out, fmt.Sprintf("%s (node %q)", name, sourceOf(n)))
	}
	slices.Sort(out)
	return out
}

// withoutRule returns the operators without a rule, each with its first node.
func (m *Source) withoutRule() map[string]*wire.NodeProto {
	found := map[string]*wire.NodeProto{}
	opsets := m.Opsets
	var look func(nodes []*wire.NodeProto)
	look = func(nodes []*wire.NodeProto) {
		for _, n := range nodes {
			if m.Functions[FunctionKey(n.Domain, n.OpType, n.Overload)] == nil &&
				m.Rules.Rule(ruleName(n), opsets[DomainOf(n.Domain)]) == nil {
				name := ruleName(n)
				if found[name] == nil {
					found[name] = n
				}
			}
			for _, a := range n.Attribute {
				if a.G != nil {
					look(a.G.Node)
				}
				for _, g := range a.Graphs {
					look(g.Node)
				}
			}
		}
	}
	look(m.Proto.Graph.Node)
	for _, f := range m.Functions {
		opsets = m.within(f, m.Opsets)
		look(f.Node)
	}
	return found
}

// ruleName returns an operator's name in the tables of rules: "Add", or "domain:Name" outside ai.onnx.
func ruleName(n *wire.NodeProto) string {
	if d := DomainOf(n.Domain); d != "" {
		return d + ":" + n.OpType
	}
	return n.OpType
}

// within returns the versions of domains in a function's body: its own imports take precedence over those around it.
func (m *Source) within(f *wire.FunctionProto, around map[string]int64) map[string]int64 {
	opsets := maps.Clone(around)
	for _, o := range f.OpsetImport {
		opsets[DomainOf(o.Domain)] = o.Version
	}
	return opsets
}

// sourceOf returns the name of a node in errors: its own, that of its first output, or its operator.
func sourceOf(n *wire.NodeProto) string {
	if n.Name != "" {
		return n.Name
	}
	for _, o := range n.Output {
		if o != "" {
			return o
		}
	}
	return n.OpType
}

// convert adds a graph's nodes, which may be in any order.
func (g *Scope) convert(proto *wire.GraphProto, outputs []string) error {
	g.Proto = proto
	if err := g.initializers(proto); err != nil {
		return err
	}
	nodes, err := g.order(proto.Node)
	if err != nil {
		return err
	}
	return g.run(nodes, declaredOutputs(proto, outputs))
}

// initializers adds a graph's initializers to the scope.
func (g *Scope) initializers(proto *wire.GraphProto) error {
	if g.weights == nil {
		g.weights, g.sparse = make(map[string]*wire.TensorProto, len(proto.Initializer)),
			make(map[string]*wire.SparseTensorProto, len(proto.SparseInitializer))
	}
	for _, t := range proto.Initializer {
		if g.weights[t.Name] != nil {
			return diag.Inputf("two initializers are named %q", t.Name).AtTensor(t.Name)
		}
		if _, isInput := g.names[t.Name]; isInput {
			return diag.Inputf("%q is both an input and an initializer", t.Name).AtTensor(t.Name)
		}
		g.weights[t.Name] = t
	}
	for _, t := range proto.SparseInitializer {
		if t.Values == nil || t.Values.Name == "" {
			return diag.Inputf("a sparse initializer without a name")
		}
		name := t.Values.Name
		if _, isInput := g.names[name]; isInput || g.weights[name] != nil || g.sparse[name] != nil {
			return diag.Inputf("two inputs or initializers are named %q", name).AtTensor(name)
		}
		g.sparse[name] = t
	}
	return nil
}

// order checks that each name is computed once, and returns the nodes in an order in which they can run.
func (g *Scope) order(nodes []*wire.NodeProto) ([]*wire.NodeProto, error) {
	made := map[string]int{}
	for i, n := range nodes {
		for _, o := range n.Output {
			if o == "" {
				continue
			}
			if first, twice := made[o]; twice {
				return nil, diag.Inputf("%q is computed by two nodes, %s and %s", o, sourceOf(nodes[first]), sourceOf(n)).
					AtTensor(o).AtNode(sourceOf(n), n.OpType)
			}
			if g.names[o] != nil || g.weights[o] != nil || g.sparse[o] != nil {
				return nil, diag.Inputf("%q is computed by a node and is an input or initializer as well", o).AtTensor(o).
					AtNode(sourceOf(n), n.OpType)
			}
			made[o] = i
		}
	}
	return sorted(nodes, made), nil
}

// Find returns the value of a name in scope; nil if there is none. An initializer becomes a constant when it is first
// read.
func (g *Scope) Find(name string) *ir.Value {
	for s := g; s != nil; s = s.Outer {
		if v := s.names[name]; v != nil {
			return v
		}
		if v := s.given[name]; v != nil && s.weights[name] != nil {
			s.names[name] = v
			return v
		}
		data, err := s.initial(name)
		if err != nil {
			if e := diag.As(err, diag.ErrInput); e != nil {
				err = e.AtTensor(name)
			}
			g.Build.Fail(err)
		}
		if data != nil {
			v := s.Constant(name, data)
			s.names[name] = v
			return v
		}
	}
	return nil
}

// initial returns the value of an initializer of this graph; nil if there is none of the name.
func (g *Scope) initial(name string) (*tensor.Tensor, error) {
	if t := g.weights[name]; t != nil {
		return g.Source.Read(t)
	}
	if t := g.sparse[name]; t != nil {
		return g.Source.Dense(t)
	}
	return nil, nil
}

// node converts one node and names its outputs.
func (g *Scope) node(n *wire.NodeProto) error {
	c, convert, err := g.call(n)
	if err != nil {
		return err
	}
	defer g.beginNode(n)()
	var out []*ir.Value
	if f := g.Source.Functions[FunctionKey(n.Domain, n.OpType, n.Overload)]; f != nil {
		if out, err = g.inline(f, n, c.In, c.Attributes); err != nil {
			return err
		}
	} else {
		out = g.Apply(c, convert)
	}
	for i, name := range n.Output {
		if name == "" {
			continue
		}
		if i >= len(out) || out[i] == nil {
			return diag.Unsupportedf("output %d, %q", i, name).AtNode(sourceOf(n), n.OpType)
		}
		g.name(out[i], name)
	}
	return nil
}

// beginNode makes a node the source of the operators that are built until the returned function is called.
func (g *Scope) beginNode(n *wire.NodeProto) func() {
	outer, op := g.Build.Source, g.Build.Operator
	g.Build.Source, g.Build.Operator = sourceOf(n), n.OpType
	return func() { g.Build.Source, g.Build.Operator = outer, op }
}

// call returns a node's inputs and attributes, and its rule; nil for a call of a function.
func (g *Scope) call(n *wire.NodeProto) (*Call, Rule, error) {
	source := sourceOf(n)
	c := &Call{Builder: g.Build, Scope: g, Node: n}
	for i, name := range n.Input {
		if name == "" {
			c.In = append(c.In, nil)
			continue
		}
		v := g.Find(name)
		if v == nil {
			return nil, nil, diag.Inputf("input %d, %q, is computed by nothing before it", i, name).AtNode(source, n.OpType).
				AtTensor(name)
		}
		c.In = append(c.In, v)
	}
	var err error
	if c.Attributes, err = g.attributes(n); err != nil {
		return nil, nil, err
	}
	for i, name := range n.Output {
		if name != "" {
			c.Outputs = i + 1
		}
	}
	if g.Source.Functions[FunctionKey(n.Domain, n.OpType, n.Overload)] != nil {
		return c, nil, nil
	}
	c.Version = g.opsets[DomainOf(n.Domain)]
	convert := g.Source.Rules.Rule(ruleName(n), c.Version)
	if convert == nil {
		return nil, nil, diag.Unsupportedf("operator %s (version %d)", ruleName(n), c.Version).AtNode(source, n.OpType)
	}
	return c, convert, check(n, c.Version)
}

// name adds a value to the scope; a value that the node has just made takes the name.
func (g *Scope) name(v *ir.Value, name string) {
	if v.Node != nil && v.Node.Source == g.Build.Source {
		named := false
		for _, other := range g.names {
			named = named || other == v
		}
		if !named && len(g.names) < 1<<14 {
			v.Name = g.Build.Name(name)
		}
	}
	g.names[name] = v
}

// attributes returns a node's attributes, with references to a function's attributes resolved.
func (g *Scope) attributes(n *wire.NodeProto) (map[string]*wire.AttributeProto, error) {
	attrs := make(map[string]*wire.AttributeProto, len(n.Attribute))
	for _, a := range n.Attribute {
		if attrs[a.Name] != nil {
			return nil, diag.Inputf("two attributes are named %q", a.Name).AtNode(sourceOf(n), n.OpType)
		}
		value := a
		if a.RefAttrName != "" {
			if value = g.attrs[a.RefAttrName]; value == nil {
				continue // absent in the call: the operator's own default applies
			}
		}
		attrs[a.Name] = value
	}
	return attrs, nil
}

// inline converts the body of a model-local function instead of a call of it.
func (g *Scope) inline(f *wire.FunctionProto, n *wire.NodeProto, in []*ir.Value,
	attrs map[string]*wire.AttributeProto) ([]*ir.Value, error) {
	if g.depth >= maxFunctions {
		return nil, diag.Inputf("functions call one another more than %d deep", maxFunctions).AtNode(sourceOf(n), n.OpType)
	}
	if g.Attempt.inline -= len(f.Node); g.Attempt.inline < 0 {
		return nil, diag.Unsupportedf("functions that come to more than %d nodes where they are called",
			mostInlined(g.Source.Proto)).AtNode(sourceOf(n), n.OpType)
	}
	inner := &Scope{Source: g.Source, Build: g.Build, names: map[string]*ir.Value{}, opsets: g.Source.within(f, g.opsets),
		attrs: map[string]*wire.AttributeProto{}, depth: g.depth + 1, Composites: g.Composites, Attempt: g.Attempt,
		path: g.nodePath(), facts: g.facts}
	for _, a := range f.AttributeProto {
		inner.attrs[a.Name] = a
	}
	for name, a := range attrs {
		inner.attrs[name] = a
	}
	if len(in) > len(f.Input) {
		return nil, diag.Inputf("%d inputs for the %d of function %s", len(in), len(f.Input), f.Name).AtNode(sourceOf(n),
			n.OpType)
	}
	for i, v := range in {
		if v != nil {
			inner.names[f.Input[i]] = v
		}
	}
	nodes := make([]*wire.NodeProto, len(f.Node))
	for at, node := range f.Node {
		// An input that the caller left out is absent in the body too.
		copied := *node
		copied.Input = slices.Clone(node.Input)
		for i, name := range copied.Input {
			if slices.Contains(f.Input, name) && inner.names[name] == nil {
				copied.Input[i] = ""
			}
		}
		nodes[at] = &copied
	}
	var outputs []declared
	for _, name := range f.Output {
		outputs = append(outputs, declared{name, -1})
	}
	if err := inner.run(nodes, outputs); err != nil {
		return nil, err
	}
	var out []*ir.Value
	for _, name := range f.Output {
		out = append(out, inner.Find(name))
	}
	return out, nil
}

// Values converts a subgraph into a block: params are its inputs, already made in in's block.
func (g *Scope) Values(proto *wire.GraphProto, in *ir.Builder, params []*ir.Value) []*ir.Value {
	return g.bodyOf(proto, in, params, "")
}

// Body is Values for a subgraph whose results are tensors of numbers.
func (g *Scope) Body(proto *wire.GraphProto, in *ir.Builder, params []*ir.Value) []*ir.Value {
	results := g.Values(proto, in, params)
	for i, v := range results {
		if f := g.FormOf(v); !f.simple() {
			g.Build.Fail(diag.Unsupportedf("the subgraph's output %q is %s", proto.Output[i].Name, f).AtNode(g.Build.Source,
				g.Build.Operator))
		}
	}
	return results
}

// branch is Body for a branch of the If at a place.
func (g *Scope) branch(proto *wire.GraphProto, in *ir.Builder, path string) []*ir.Value {
	return g.bodyOf(proto, in, nil, path)
}

// bodyOf converts a subgraph into in, with params as its inputs, and returns its outputs. owner is the path of the If
// whose branch it is, or "".
func (g *Scope) bodyOf(proto *wire.GraphProto, in *ir.Builder, params []*ir.Value, owner string) []*ir.Value {
	if len(proto.Input) != len(params) {
		g.Build.Fail(diag.Inputf("the subgraph has %d inputs, %d are given", len(proto.Input), len(params)).
			AtNode(g.Build.Source, g.Build.Operator))
	}
	if g.depth >= maxFunctions {
		g.Build.Fail(diag.Inputf("subgraphs nest more than %d deep", maxFunctions).AtNode(g.Build.Source, g.Build.Operator))
	}
	inner := &Scope{Source: g.Source, Outer: g, Build: in, names: map[string]*ir.Value{}, opsets: g.opsets, attrs: g.attrs,
		depth: g.depth + 1, Composites: g.Composites, Attempt: g.Attempt, path: g.inside(proto), owner: owner, facts: g.facts}
	for i, p := range params {
		inner.names[proto.Input[i].Name] = p
	}
	var names []string
	for _, o := range proto.Output {
		names = append(names, o.Name)
	}
	if err := inner.convert(proto, names); err != nil {
		g.Build.Fail(err)
	}
	var results []*ir.Value
	for _, name := range names {
		v := inner.Find(name)
		if v == nil {
			g.Build.Fail(diag.Inputf("nothing computes the subgraph's output %q", name).AtNode(g.Build.Source, g.Build.Operator))
		}
		results = append(results, v)
	}
	return results
}
