package weir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/tensor"
)

// Difference is the first tensor, in the order of the model's nodes, that a program computes otherwise than the reference does.
type Difference struct {
	Tensor, Node, Op, Detail string
	// Hidden are tensors, in the order of the model's nodes, that the program does not compute by themselves: it computes their nodes together with Tensor's, and Tensor is right if they are kept.
	Hidden []string `json:",omitempty"`
	// Exact says that nothing differs with Options.Exact: Tensor is computed by an algorithm that Exact leaves out, and
	// is further off than the tolerances.
	Exact bool `json:",omitempty"`

	model  *Model
	nodes  []*wire.NodeProto // what computes Tensor from inputs, in order
	inputs []wire.Value
	types  []DType // of the inputs
	want   wire.Value
	gives  DType
}

// String is one line.
func (d *Difference) String() string {
	text := fmt.Sprintf("%s, computed by %s (%s), differs from the reference: %s", d.Tensor, d.Node, d.Op, d.Detail)
	if d.Exact {
		text += "; nothing does with Options.Exact (--exact), and docs/accuracy.md has the bounds of what that leaves out"
	}
	if len(d.Hidden) == 1 {
		return text + fmt.Sprintf("; it does not if %s is kept", d.Hidden[0])
	} else if d.Hidden != nil {
		return text + fmt.Sprintf("; it does not if what is between %s and %s is kept", d.Hidden[0], d.Hidden[len(d.Hidden)-1])
	}
	return text
}

// Compare compiles the model as the zero Options do, and compares the program with the reference: see Program.Compare.
func (m *Model) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	p, err := Compile(ctx, m, Options{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Compare(ctx, in, rtol, atol)
}

// Compare runs the program, and interprets its model as it was imported, before any pass: node by node, each by its
// operator's plain meaning. It returns the first tensor that differs by more than the tolerances; nil if none does. The
// relative tolerance of an element is of its own magnitude, or of the mean magnitude of its neighbours along an axis, if
// that is more. It compares the program's own outputs first, then every tensor of the main graph, with the model
// compiled anew so that all of them are kept. If only what is not kept goes wrong, it keeps some tensors and not others
// until it has found which. A program of an artefact, which has no nodes, and one with states are ErrUnsupported.
func (p *Program) Compare(ctx context.Context, in Inputs, rtol, atol float64) (d *Difference, err error) {
	defer diag.Recover(&err, "comparing with the reference")
	if _, err := p.enter(); err != nil {
		return nil, err
	}
	defer p.engine.Leave()
	switch m := p.model; {
	case m.source.module() == nil:
		return nil, diag.Unsupportedf("an artefact has no nodes to compare with the reference").AtFile(m.file).WithFix("compare the model that it was compiled from")
	case slices.ContainsFunc(p.becomes, func(output int) bool { return output >= 0 }):
		return nil, diag.Unsupportedf("comparing a program with states, which a run changes").AtFile(m.file).WithFix("run it with --target reference, and compare the outputs")
	}
	c := &comparison{ctx: ctx, model: p.model, options: p.options, in: Inputs{}, rtol: rtol, atol: atol, origin: map[string]origins{}, want: map[string]wire.Value{}}
	for name, a := range in {
		if t, tensor := a.(*Tensor); a == nil || tensor && t == nil {
			continue // bindInputs says what is missing
		}
		g := a.given()
		g.owner = program.Borrow // the runs are several
		c.in[name] = g
	}
	c.options.Outputs, c.options.Calls, c.options.Budget, c.options.Tune, c.options.Stage, c.options.Logger = nil, 1, 0, false, nil, nil
	for _, o := range p.outputs {
		c.outputs = append(c.outputs, o.Name)
	}
	done, err := c.model.read()
	if err != nil {
		return nil, err
	}
	defer done()
	if err := c.interpret(p); err != nil {
		return nil, inFile(err, p.model.file)
	}
	own, err := c.run(p)
	if err != nil {
		return nil, err
	}
	all, err := c.keeping(0, 0)
	switch {
	case own == nil && (all == nil || err != nil):
		return nil, err
	case err != nil:
		d = own
	case all != nil:
		d = all
	default:
		if d, err = c.hidden(own); err != nil {
			return nil, err
		}
	}
	if !c.options.Exact {
		c.options.Exact = true
		end := 0
		if all == nil { // it shows if nothing is kept
			end = len(c.order)
		}
		left, err := c.keeping(0, end)
		d.Exact = left == nil && err == nil
	}
	return d, ctx.Err()
}

// comparison is a program's model, compiled with one or another of its tensors kept, beside the reference.
type comparison struct {
	ctx        context.Context
	model      *Model
	options    Options
	in         Inputs
	outputs    []string // the program's own
	rtol, atol float64
	order      []string // every tensor, in the order of the nodes
	origin     map[string]origins
	want       map[string]wire.Value // and what the reference makes of it, inputs too
	types      map[string]DType
}

// origins is the node that computes a tensor, and its place.
type origins struct {
	at       int
	node, op string
	proto    *wire.NodeProto
}

// interpret evaluates the model with the reference.
func (c *comparison) interpret(p *Program) error {
	add := func(name string, o origins) {
		if _, twice := c.origin[name]; name != "" && !twice {
			o.at = len(c.order)
			c.origin[name], c.order = o, append(c.order, name)
		}
	}
	c.model.source.module().origins(add)
	wanted := slices.Clone(c.order)
	for _, name := range c.outputs {
		if _, computed := c.origin[name]; !computed {
			wanted = append(wanted, name) // an input, or a constant
			c.origin[name] = origins{at: -1, node: name, op: "an input or a constant"}
		}
	}
	o := c.options
	o.Outputs = wanted
	module, _, _, gives, err := c.model.source.module().build(c.ctx, o)
	if err != nil {
		return err
	}
	args, _, err := p.bindInputs(c.in)
	defer args.release()
	if err != nil {
		return err
	}
	if err := args.copyAll(p); err != nil {
		return err
	}
	inputs, err := p.unlaid(args, c.in)
	if err != nil {
		return err
	}
	e := ir.NewEvaluation(nil)
	e.Ask = c.ctx.Err
	results, err := e.Main(module, inputs)
	if err != nil {
		return err
	}
	c.types = map[string]DType{}
	for k, edges := range [][]edge{gives, p.takes} {
		for _, g := range edges {
			if c.want[g.Info.Name], err = valueOf(g, [][]*tensor.Tensor{results, inputs}[k]); err != nil {
				return err
			}
			c.types[g.Info.Name] = g.Info.DType
		}
	}
	return nil
}

// valueOf is a value made of its parts, apart from their memory.
func valueOf(e edge, ports []*tensor.Tensor) (v wire.Value, err error) {
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

// run runs a program and gives the first of its results that differs.
func (c *comparison) run(p *Program) (d *Difference, err error) {
	r, err := p.Run(c.ctx, c.in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ports := make([]*tensor.Tensor, len(r.ports))
	for i, t := range r.ports {
		var ok bool
		if ports[i], ok = t.enter(); !ok {
			return nil, diag.New(ErrClosed, "an argument was closed meanwhile")
		}
		defer t.leave()
	}
	gives := slices.Clone(p.gives)
	sort.SliceStable(gives, func(i, j int) bool { return c.origin[gives[i].Info.Name].at < c.origin[gives[j].Info.Name].at })
	for _, e := range gives {
		got, err := valueOf(e, ports)
		if err != nil {
			return nil, err
		}
		if why := c.differs(got, c.want[e.Info.Name]); why != "" {
			return c.difference(e.Info.Name, why, nil), nil
		}
	}
	return nil, nil
}

// differs says how two values differ; "" if they do not.
func (c *comparison) differs(got, want wire.Value) string {
	if got.Absent != want.Absent || len(got.Tensors) != len(want.Tensors) {
		return fmt.Sprintf("it has %d tensors, not %d", len(got.Tensors), len(want.Tensors))
	}
	for i := range want.Tensors {
		if err := tensor.CompareAmong(got.Tensors[i], want.Tensors[i], c.rtol, c.atol); err != nil {
			return err.Error()
		}
	}
	return ""
}

// keeping compiles the model with all tensors kept but those from begin to end of the order, compares it, and gives the first tensor that differs.
func (c *comparison) keeping(begin, end int) (*Difference, error) {
	o := c.options
	o.Outputs = slices.Clone(c.outputs)
	for i, name := range c.order {
		if (i < begin || i >= end) && !slices.Contains(c.outputs, name) {
			o.Outputs = append(o.Outputs, name)
		}
	}
	p, err := Compile(c.ctx, c.model, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return c.run(p)
}

// hidden finds the tensors that have to be computed together for a difference to show: it halves what is not kept, from its end and from its beginning. own is the difference that shows if none is kept.
func (c *comparison) hidden(own *Difference) (*Difference, error) {
	begin, end := 0, len(c.order)
	found, err := c.keeping(begin, end)
	if found == nil || err != nil {
		return own, err // a budget makes it
	}
	halve := func(good, bad int, try func(i int) (int, int)) (int, error) {
		for good-bad > 1 || bad-good > 1 {
			d, err := c.keeping(try((good + bad) / 2))
			if err != nil {
				return bad, err
			}
			if d == nil {
				good = (good + bad) / 2
			} else {
				bad, found = (good+bad)/2, d
			}
		}
		return bad, nil
	}
	if end, err = halve(0, end, func(i int) (int, int) { return 0, i }); err == nil {
		begin, err = halve(end, 0, func(i int) (int, int) { return i, end })
	}
	if err != nil {
		return own, c.ctx.Err()
	}
	return c.difference(found.Tensor, found.Detail, c.order[begin:end]), nil
}

// difference describes a tensor that differs, with the nodes that compute it from tensors that are kept, and the values of those.
func (c *comparison) difference(name, why string, hidden []string) *Difference {
	from := c.origin[name]
	d := &Difference{Tensor: name, Node: from.node, Op: from.op, Detail: why, Hidden: slices.DeleteFunc(slices.Clone(hidden), func(h string) bool { return h == name }), model: c.model, want: c.want[name], gives: c.types[name]}
	taken, nodes := map[string]bool{}, map[*wire.NodeProto]bool{}
	var add func(n *wire.NodeProto)
	add = func(n *wire.NodeProto) {
		if n == nil || nodes[n] {
			return
		}
		nodes[n] = true
		for _, input := range reads(n, nil) {
			if slices.Contains(hidden, input) {
				add(c.origin[input].proto)
			} else if v, known := c.want[input]; known && !taken[input] {
				taken[input] = true
				d.inputs, d.types = append(d.inputs, v), append(d.types, c.types[input])
			}
		}
		d.nodes = append(d.nodes, n) // after what it reads
	}
	add(from.proto)
	return d
}

// reads are the tensors that a node reads, those that its graphs read from outside too.
func reads(n *wire.NodeProto, names []string) []string {
	names = append(names, n.Input...)
	for _, a := range n.Attribute {
		graphs := a.Graphs
		if a.G != nil {
			graphs = append(slices.Clone(graphs), a.G)
		}
		for _, g := range graphs {
			own := map[string]bool{}
			for _, in := range g.Input {
				own[in.Name] = true
			}
			for _, t := range g.Initializer {
				own[t.Name] = true
			}
			var inside []string
			for _, inner := range g.Node {
				inside = reads(inner, inside)
				for _, o := range inner.Output {
					own[o] = true
				}
			}
			for _, o := range g.Output {
				inside = append(inside, o.Name)
			}
			names = append(names, slices.DeleteFunc(inside, func(name string) bool { return own[name] })...)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// Save writes the differing node, and those of Hidden, with their inputs as a folder in ONNX's test layout, and what the reference gives as its expected output; dir "" makes a
// folder of its own among the temporary files. It returns the folder. Only nodes of an ONNX model can be saved.
func (d *Difference) Save(dir string) (string, error) {
	source, ok := d.model.source.(cutter)
	if d.nodes == nil || !ok {
		return "", diag.Unsupportedf("saving what is no node of an ONNX model").AtTensor(d.Tensor)
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
	done, err := d.model.read()
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
	return dir, os.WriteFile(filepath.Join(dir, "model.onnx"), source.cut(g, used).Marshal(), 0o666)
}
