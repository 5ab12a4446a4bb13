package torch

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"higher_order.cond":                       branch,
		"higher_order.while_loop":                 whileLoop,
		"higher_order.map_impl":                   mapOver,
		"higher_order.scan":                       scan,
		"higher_order.wrap_with_set_grad_enabled": withoutGradients,
	})
}

// Limits of nested graphs.
const (
	mostDepth = 48
	mostInner = 1 << 16 // nodes, counted in each graph as often as it is built
)

// budget counts the nodes of nested graphs (a loop builds its condition's graph twice) and the rebuilt views.
type budget struct{ nodes, rebuilt int }

// take counts a node, or returns an error past the bound.
func (b *budget) take() error {
	if b.nodes++; b.nodes > mostInner {
		return diag.Unsupportedf("graphs within graphs that come to more than %d nodes", mostInner)
	}
	return nil
}

// passed is the argument of a nested graph's input: a tensor or an integer.
type passed struct {
	value  *ir.Value
	number sym.Expr
	memory *alias // the value's memory, if the graph may write to it
}

// arg returns a positional argument.
func (c *call) arg(i int, what string) *argument {
	if i >= len(c.node.Inputs) {
		c.Fail(diag.Inputf("%s is missing", what))
	}
	return &c.node.Inputs[i].Arg
}

// inner returns the graph in an argument. It is parsed once, however often it is built.
func (c *call) inner(i int, what string) *graphJSON {
	a := c.arg(i, what)
	if a.kind != "as_graph" {
		c.Fail(diag.Inputf("%s is no graph, but %s", what, a.kind))
	}
	if known := c.program.inner[a]; known != nil {
		return known
	}
	var as struct {
		Graph *graphJSON `json:"graph"`
	}
	if c.depth >= mostDepth {
		c.Fail(diag.Unsupportedf("graphs within graphs, %d deep", c.depth+1))
	}
	if err := json.Unmarshal(a.value, &as); err != nil {
		c.Fail(diag.Inputf("%s: %v", what, err))
	}
	if as.Graph == nil {
		c.Fail(diag.Inputf("%s is missing", what))
	}
	if c.program.inner == nil {
		c.program.inner = map[*argument]*graphJSON{}
	}
	c.program.inner[a] = as.Graph
	return as.Graph
}

// list returns a positional argument that is a list of tensors or integers; an empty list if it is absent.
func (c *call) list(i int, what string) (list []passed) {
	if i >= len(c.node.Inputs) {
		return nil
	}
	a := &c.node.Inputs[i].Arg
	switch a.kind {
	case "as_none", "":
		return nil
	case "as_tensor", "as_int", "as_sym_int":
		return []passed{c.pass(a)}
	case "as_tensors":
		var names []json.RawMessage
		if err := a.into(&names); err != nil {
			c.Fail(err)
		}
		for _, n := range names {
			list = append(list, c.pass(&argument{"as_tensor", n}))
		}
		return list
	case "as_ints", "as_sym_ints":
		var items []json.RawMessage
		if err := a.into(&items); err != nil {
			c.Fail(err)
		}
		for _, item := range items {
			list = append(list, c.pass(&argument{map[string]string{"as_ints": "as_int", "as_sym_ints": "as_sym_int"}[a.kind],
				item}))
		}
		return list
	}
	c.Fail(diag.Unsupportedf("%s as %s", what, a.kind))
	return nil
}

// pass returns one argument for a nested graph.
func (c *call) pass(a *argument) passed {
	switch a.kind {
	case "as_tensor":
		return passed{value: c.find(a)}
	case "as_int":
		var n int64
		if err := a.into(&n); err != nil {
			c.Fail(err)
		}
		return passed{number: sym.Const(n)}
	case "as_sym_int":
		return passed{number: c.symOf(a.value)}
	}
	c.Fail(diag.Unsupportedf("an argument of a graph as %s", a.kind))
	return passed{}
}

// tensorsOf returns a list whose elements must all be tensors.
func (c *call) tensorsOf(i int, what string) (values []*ir.Value) {
	for _, p := range c.list(i, what) {
		if p.value == nil {
			c.Fail(diag.Unsupportedf("%s that are integers", what).WithFix("make tensors of them in the model"))
		}
		values = append(values, p.value)
	}
	return values
}

// argumentsFor returns values as arguments of a nested graph.
func argumentsFor(values []*ir.Value) (list []passed) {
	for _, v := range values {
		list = append(list, passed{value: v})
	}
	return list
}

// run builds a nested graph and returns its outputs.
func (c *call) run(inner *graphJSON, b *ir.Builder, given []passed) []*ir.Value {
	if len(given) != len(inner.Inputs) {
		c.Fail(diag.Inputf("a graph of %d inputs is given %d", len(inner.Inputs), len(given)))
	}
	if c.depth >= mostDepth {
		c.Fail(diag.Unsupportedf("graphs within graphs, %d deep", c.depth+1))
	}
	g := *c.graph
	g.Builder, g.json, g.depth = b, inner, c.depth+1
	g.values, g.imaginary, g.numbers = map[string]*ir.Value{}, map[string]*ir.Value{}, map[string]*ir.Value{}
	g.aliases, g.gone, g.used = map[string]*alias{}, map[string]string{}, map[string]bool{}
	g.ints, g.compared = map[string]sym.Expr{}, map[string]*comparison{}
	g.items, g.decided = maps.Clone(c.items), maps.Clone(c.decided)
	for i, in := range inner.Inputs {
		g.bind(in, given[i])
	}
	if err := g.nodes(); err != nil {
		c.Fail(err)
	}
	inside := &call{graph: &g, node: c.node, args: map[string]*argument{}}
	var out []*ir.Value
	c.inside = nil
	for i := range inner.Outputs {
		out = append(out, inside.result(&inner.Outputs[i]))
		if inner.Outputs[i].kind == "as_tensor" {
			c.inside = append(c.inside, inside.memoryOf(&inner.Outputs[i]))
		}
	}
	return out
}

// bind gives an input of a nested graph its value.
func (g *graph) bind(in argument, p passed) {
	switch {
	case in.kind == "as_tensor" && p.value != nil:
		var n named
		if err := in.into(&n); err != nil {
			g.Fail(err)
		}
		if meta, ok := g.json.Tensors[n.Name]; ok && (scalarTypes[meta.DType] != p.value.Type.DType ||
			len(meta.Sizes) != len(p.value.Type.Shape)) {
			g.Fail(diag.Inputf("it is given %s, which is of another type or rank", p.value.Type).AtTensor(n.Name))
		}
		if g.aliases[n.Name] = p.memory; p.memory == nil {
			g.aliases[n.Name] = &alias{storage: &storage{opaque: "the surrounding graph"}, value: p.value}
		}
		g.values[n.Name] = p.value
		g.learn(n.Name, p.value)
	case in.kind == "as_sym_int" && p.value == nil:
		var n namedNumber
		if err := in.into(&n); err != nil {
			g.Fail(err)
		}
		g.ints[n.Name] = p.number
	default:
		g.Fail(diag.Unsupportedf("an input of a graph as %s", in.kind))
	}
}

// result returns the value of an output of a graph.
func (c *call) result(out *argument) *ir.Value {
	switch out.kind {
	case "as_tensor":
		return c.find(out)
	case "as_int", "as_sym_int":
		return ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{c.pass(out).number})
	case "as_bool", "as_sym_bool":
		return c.truth(out)
	}
	c.Fail(diag.Unsupportedf("an output of a graph as %s", out.kind))
	return nil
}

// branch is a rule for cond: a condition, the graphs of both branches, and their arguments.
func branch(c *call) []*ir.Value {
	condition := c.truth(c.arg(0, "the condition"))
	given := c.list(3, "the branches' arguments")
	var sides [2]*ir.Block
	for i := range sides {
		sides[i] = &ir.Block{}
		sides[i].Results = c.run(c.inner(1+i, "a branch"), c.Builder.In(sides[i]), given)
	}
	if a, b := len(sides[0].Results), len(sides[1].Results); a != b {
		c.Fail(diag.Inputf("branches of %d and %d results", a, b))
	}
	if len(sides[0].Results) == 0 {
		return nil
	}
	return ops.If(c.Builder, condition, sides[0], sides[1])
}

// whileLoop is a rule for while_loop: the graphs of the condition and the body, the carried values, and the constant
// arguments.
func whileLoop(c *call) []*ir.Value {
	test, body := c.inner(0, "the graph of the condition"), c.inner(1, "the body")
	carried, stays := c.tensorsOf(2, "carried values"), c.list(3, "the body's arguments")
	if len(carried) == 0 {
		c.Fail(diag.Inputf("a loop that carries nothing"))
	}
	holds := func(b *ir.Builder, carried []*ir.Value) *ir.Value {
		out := c.run(test, b, append(argumentsFor(carried), stays...))
		if len(out) != 1 {
			c.Fail(diag.Inputf("a condition of %d results", len(out)))
		}
		inside := *c.graph
		inside.Builder = b
		return (&call{graph: &inside, node: c.node}).scalarTruth(out[0])
	}
	first := holds(c.Builder, carried)
	limit := sym.Const(ops.LoopLimit)
	block, in := ops.LoopBody(c.Builder, c.Source, limit, carried)
	results := c.run(body, in, append(argumentsFor(block.Params[2:]), stays...))
	if len(results) != len(carried) {
		c.Fail(diag.Inputf("a body of %d results for %d carried values", len(results), len(carried)))
	}
	results = slices.Clone(results)
	block.Results = append([]*ir.Value{holds(in, results)}, results...)
	return ops.Loop(c.Builder, block, nil, first, carried...)
}

// mapOver is a rule for map: a graph for each slice along the first axis of some tensors, with further constant
// arguments.
func mapOver(c *call) []*ir.Value {
	return c.slices(0, nil, c.tensorsOf(1, "mapped tensors"), c.list(2, "the body's arguments"))
}

// scan is a rule for scan: map that also carries states from slice to slice.
func scan(c *call) []*ir.Value {
	return c.slices(0, c.tensorsOf(1, "states"), c.tensorsOf(2, "scanned tensors"), c.list(3, "the body's arguments"))
}

// slices builds a graph that runs for each slice along the first axis, and stacks its results.
func (c *call) slices(at int, states, scanned []*ir.Value, stays []passed) []*ir.Value {
	inner, block := c.inner(at, "the body"), &ir.Block{}
	in := c.Builder.In(block)
	if len(scanned) == 0 {
		c.Fail(diag.Inputf("nothing is scanned"))
	}
	for _, v := range states {
		in.Param(v.Name, v.Type)
	}
	for _, v := range scanned {
		if len(v.Type.Shape) == 0 {
			c.Fail(diag.Inputf("%s has no axis to be scanned along", v.Type).AtTensor(v.Name))
		}
		in.Param(v.Name, ir.Type{DType: v.Type.DType, Shape: slices.Clone(v.Type.Shape[1:])})
	}
	block.Results = c.run(inner, in, append(argumentsFor(block.Params), stays...))
	if len(block.Results) < len(states) || len(block.Results) == 0 {
		c.Fail(diag.Inputf("a body of %d results for %d states", len(block.Results), len(states)))
	}
	return ops.Scan(c.Builder, block, ops.ScanOver{}, states, scanned)
}

// withoutGradients is a rule for a region of the model under torch.no_grad, a nested graph. It may write to its
// arguments.
func withoutGradients(c *call) []*ir.Value {
	var given []passed
	for i := 2; i < len(c.node.Inputs); i++ {
		p := c.pass(c.arg(i, "an argument"))
		if p.value != nil {
			p.memory = c.memoryOf(c.arg(i, "an argument"))
		}
		given = append(given, p)
	}
	out := c.run(c.inner(1, "the graph"), c.Builder, given)
	c.returned = c.inside
	return out
}

// memoryOf returns the alias of the tensor that an argument names; nil if it names none.
func (c *call) memoryOf(a *argument) *alias {
	var n named
	if a.kind != "as_tensor" || a.into(&n) != nil {
		return nil
	}
	return c.share(n.Name)
}
