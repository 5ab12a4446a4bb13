package torch

import (
	"maps"
	"runtime"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// graph is a program under construction.
type graph struct {
	*ir.Builder
	claim     *mem.Claim // of the file; its context ends the building
	program   *exportedProgram
	json      *graphJSON // the graph that is built: the program's, or one nested in it
	constant  func(name string) (*tensor.Tensor, error)
	values    map[string]*ir.Value
	ints      map[string]sym.Expr
	symbols   map[string]bool      // the symbols in the shapes of inputs
	imaginary map[string]*ir.Value // the imaginary components, by name; values then has the real components
	numbers   map[string]*ir.Value // numbers that data decide, by their names
	items     map[string]*ir.Value // elements of tensors that are sizes, by torch's symbols
	decided   map[string]sym.Expr  // the extents of results, by torch's symbols for sizes that data decide
	module    *ir.Module
	states    states
	compared  map[string]*comparison // truth values of integers, by their names
	budget    *budget
	depth     int               // of graphs within graphs
	aliases   map[string]*alias // tensors that share memory, or are written to, by their names
	gone      map[string]string // operators in place that changed a tensor's shape, by the tensor's old name
	givens    []given
	used      map[string]bool // names that nodes and outputs have read
}

// build builds the module of a program. constant returns the contents of parameters, buffers and constants. initial
// has the first values of the states, by their inputs' names. build ends with the error of the claim's context.
func build(claim *mem.Claim, p *exportedProgram, constant func(name string) (*tensor.Tensor, error)) (m *ir.Module,
	initial map[string]*tensor.Tensor, err error) {
	changed := map[string]bool{} // buffers that operators in place change
	for {
		g, err := buildOnce(claim, p, constant, changed)
		switch {
		case err != nil:
			return nil, nil, err
		case !g.addWritten(changed):
			return g.module, g.states.initial, nil
		}
	}
}

// buildOnce is build for a program that changes the given buffers, besides those in its signature. The module has no
// results if the program turns out to change others.
func buildOnce(claim *mem.Claim, p *exportedProgram, constant func(name string) (*tensor.Tensor, error),
	changed map[string]bool) (g *graph, err error) {
	defer ir.Catch(&err)
	body := &ir.Block{}
	main := &ir.Func{Name: "main", Body: body}
	m := &ir.Module{Name: "exported", Dims: sym.NewDims(), Funcs: []*ir.Func{main}, Main: main,
		Meta: map[string]string{"producer": "torch " + p.TorchVersion}}
	g = &graph{Builder: ir.NewBuilder(ir.NewInference(m), body), claim: claim, program: p,
		json: &p.GraphModule.Graph.graphJSON, budget: &budget{},
		compared: map[string]*comparison{}, constant: constant, values: map[string]*ir.Value{},
		ints: map[string]sym.Expr{}, symbols: map[string]bool{}, decided: map[string]sym.Expr{},
		numbers: map[string]*ir.Value{}, items: map[string]*ir.Value{}, imaginary: map[string]*ir.Value{}, module: m,
		aliases: map[string]*alias{}, gone: map[string]string{}, used: map[string]bool{}}
	if g.states, err = statesOf(p); err != nil {
		return nil, err
	}
	maps.Copy(g.states.changed, changed)
	for _, step := range []func() error{g.inputs, g.guards, g.nodes} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if g.addWritten(map[string]bool{}) {
		return g, nil
	}
	return g, g.outputs()
}

// nodes builds the nodes of a graph.
func (g *graph) nodes() error {
	for i := range g.json.Nodes {
		if err := g.claim.Err(); err != nil {
			return err
		}
		if err := g.node(&g.json.Nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// symbol returns the dimension of a symbol.
func (g *graph) symbol(name string) (sym.Expr, error) {
	if e, ok := g.decided[name]; ok {
		return e, nil
	}
	if v := g.items[name]; v != nil {
		return g.item(name, v)
	}
	if !g.symbols[name] {
		return sym.Expr{}, diag.Unsupportedf("the symbol %s, which is no extent of an input", name).AtDim(name)
	}
	return sym.Dim(name), nil
}

// declare adds a dimension for a symbol, with its range.
func (g *graph) declare(name string) (sym.Expr, error) {
	if g.symbols[name] {
		return sym.Dim(name), nil
	}
	if strings.HasPrefix(name, "u") { // data decide it
		return sym.Expr{}, diag.Unsupportedf("the size %s, which data decide", name).AtDim(name)
	}
	r := sym.Range{Min: 0, Max: sym.NoMax}
	if c, ok := g.program.Ranges[name]; ok {
		if c.Min != nil {
			r.Min = max(0, *c.Min)
		}
		if c.Max != nil && *c.Max < 1<<62 {
			r.Max = *c.Max
		}
	}
	if r.Max < r.Min {
		return sym.Expr{}, diag.Inputf("%s is from %d to %d", name, r.Min, r.Max).AtDim(name)
	}
	g.symbols[name] = true
	g.Dims().Set(sym.User(name), r)
	return sym.Dim(name), nil
}

// extent returns a size of the schema as an expression; symbol resolves its symbols.
func (g *graph) extent(s symInt, symbol func(string) (sym.Expr, error)) (sym.Expr, error) {
	switch {
	case s.Int != nil && *s.Int < 0:
		return sym.Expr{}, diag.Inputf("an extent of %d", *s.Int)
	case s.Int != nil:
		return sym.Const(*s.Int), nil
	case s.Expr != nil:
		return expression(s.Expr.Text, symbol)
	}
	return sym.Expr{}, diag.Inputf("an extent that is neither a number nor an expression")
}

// typeOf returns the type that the file gives a tensor; symbol resolves the symbols of its extents.
func (g *graph) typeOf(name string, symbol func(string) (sym.Expr, error)) (t ir.Type, err error) {
	meta, ok := g.json.Tensors[name]
	if !ok {
		return t, diag.Inputf("the graph does not say the type of %s", name).AtTensor(name)
	}
	if t.DType, ok = scalarTypes[meta.DType]; !ok {
		return t, diag.Unsupportedf("the element type %d", meta.DType).AtTensor(name)
	}
	for _, s := range meta.Sizes {
		e, err := g.extent(s, symbol)
		if err != nil {
			return t, err
		}
		t.Shape = append(t.Shape, e)
	}
	return t, nil
}

// inputs adds parameters for the graph's inputs, and constants for those whose contents the file has.
func (g *graph) inputs() error {
	graph, specs := g.json, g.program.GraphModule.Signature.Inputs
	if len(specs) != len(graph.Inputs) {
		return diag.Inputf("%d inputs, of which %d are described", len(graph.Inputs), len(specs))
	}
	// Symbols that are an entire extent come first, so that expressions find them.
	for _, alone := range []bool{true, false} {
		if err := g.declareSymbols(alone); err != nil {
			return err
		}
	}
	for name, s := range graph.Ints {
		if s.Expr == nil {
			continue
		}
		if e, err := expression(s.Expr.Text, g.symbol); err == nil {
			g.ints[name] = e
		}
	}
	for _, given := range []bool{true, false} { // the user's inputs come first, and keep their names
		for i, in := range graph.Inputs {
			if _, is := specs[i]["user_input"]; is != given {
				continue
			}
			if err := g.input(in, specs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// declareSymbols declares the symbols of the inputs' extents: of extents that are a single symbol if alone is true,
// otherwise of those that are expressions.
func (g *graph) declareSymbols(alone bool) error {
	for _, in := range g.json.Inputs {
		var n named
		if in.kind != "as_tensor" {
			continue
		}
		if err := in.into(&n); err != nil {
			return err
		}
		for _, s := range g.json.Tensors[n.Name].Sizes {
			if s.Expr == nil || isSymbol(s.Expr.Text) != alone {
				continue
			}
			if _, err := g.extent(s, g.declare); err != nil {
				return err
			}
		}
	}
	return nil
}

// isSymbol reports whether an expression is a single symbol.
func isSymbol(text string) bool { return symbolOf(text) != "" }

// symbolOf returns the symbol that an expression consists of; "" if it is anything else.
func symbolOf(text string) (name string) {
	e, err := expression(text, func(word string) (sym.Expr, error) {
		name = word
		return sym.Dim(word), nil
	})
	if _, alone := e.Name(); err != nil || !alone {
		return ""
	}
	return name
}

// input adds a parameter or a constant for one input.
func (g *graph) input(in argument, spec inputSpec) error {
	var n named
	switch in.kind {
	case "as_tensor":
	case "as_sym_int", "as_none", "as_int", "as_float", "as_bool", "as_string":
		return nil // nodes name symbols themselves, and the graph contains the numbers
	default:
		return diag.Unsupportedf("an input of the kind %s", in.kind)
	}
	if err := in.into(&n); err != nil {
		return err
	}
	for kind, text := range spec {
		switch kind {
		case "user_input":
			t, err := g.typeOf(n.Name, g.symbol)
			if err != nil {
				return err
			}
			v := g.Param(n.Name, t)
			g.values[n.Name], g.states.inputs["input "+n.Name] = v, v
			g.givens = append(g.givens, given{n.Name, mutation{Input: n.Name}})
			return nil
		case "parameter", "buffer", "tensor_constant":
			var s struct {
				Parameter string `json:"parameter_name"`
				Buffer    string `json:"buffer_name"`
				Constant  string `json:"tensor_constant_name"`
			}
			if err := (&argument{kind, text}).into(&s); err != nil {
				return err
			}
			name := s.Parameter + s.Buffer + s.Constant
			g.givens = append(g.givens, given{n.Name, mutation{Buffer: name}})
			c, err := g.constant(name)
			if err != nil {
				return err
			}
			if c.DType().IsComplex() {
				z, err := g.complexConstant(name, c)
				g.values[n.Name], g.imaginary[n.Name] = z.re, z.im
				return err
			}
			if g.states.changed[name] {
				g.values[n.Name] = g.state(name, c)
				return nil
			}
			g.values[n.Name] = g.Builder.Constant(name, c)
			return nil
		default:
			return diag.Unsupportedf("an input of the kind %s", kind).AtTensor(n.Name)
		}
	}
	return diag.Inputf("input %s is not described", n.Name).AtTensor(n.Name)
}

// node builds a node.
func (g *graph) node(n *nodeJSON) (err error) {
	name := strings.TrimPrefix(n.Target, "torch.ops.")
	defer func() {
		if err != nil {
			err = diag.As(err, diag.ErrInput).AtNode(n.Name, name)
		}
	}()
	defer misfit(&err)
	defer ir.Catch(&err)
	if g.depth > 0 {
		if err := g.budget.take(); err != nil {
			return err
		}
	}
	g.Source, g.Operator = n.Name, name
	c := &call{graph: g, node: n, name: name, args: map[string]*argument{}}
	for i := range n.Inputs {
		c.args[n.Inputs[i].Name] = &n.Inputs[i].Arg
	}
	if f := integers[name]; f != nil {
		return g.integer(n, f(c))
	}
	if f, ok := comparisons[name]; ok {
		return g.compare(c, f)
	}
	if done, err := g.buildWrite(n, c, name); done || err != nil {
		return err
	}
	if done, err := g.complexNode(n, c, name); done || err != nil {
		if err == nil {
			g.note(n, c)
		}
		return err
	}
	rule := rules[name]
	if rule == nil {
		return diag.Unsupportedf("the operator %s", name).
			WithFix("ExportedProgram.run_decompositions() may spell it out; docs/torch.md lists the operators")
	}
	if err := g.assign(n, rule(c)); err != nil {
		return err
	}
	g.note(n, c)
	for i, result := range g.outputNames(n) {
		if i < len(c.returned) && c.returned[i] != nil {
			g.aliases[result] = c.returned[i]
		}
	}
	return nil
}

// misfit turns a rule's index out of range into an error. Rules expect the axes and arguments that the operator has, so
// a file that gives fewer is at fault.
func misfit(err *error) {
	r := recover()
	if r == nil {
		return
	}
	bounds, ok := r.(runtime.Error)
	if !ok {
		panic(r)
	}
	*err = diag.Inputf("its arguments are not of the ranks, or not as many, as it takes (%v)", bounds)
}

// assign gives the results of a node their names.
func (g *graph) assign(n *nodeJSON, results []*ir.Value) error {
	for _, out := range n.Outputs {
		switch out.kind {
		case "as_tensors":
			var list []named
			if err := out.into(&list); err != nil {
				return err
			}
			if len(list) > len(results) {
				return diag.Inputf("%d results, of which it has %d", len(list), len(results))
			}
			for i, t := range list {
				g.values[t.Name] = results[i]
				g.learn(t.Name, results[i])
			}
			return nil
		case "as_tensor":
			var t named
			if err := out.into(&t); err != nil {
				return err
			}
			if len(results) == 0 {
				return diag.Unsupportedf("a result that is not computed")
			}
			g.values[t.Name] = results[0]
			g.learn(t.Name, results[0])
			results = results[1:]
		case "as_sym_float", "as_sym_int", "as_sym_bool":
			var t namedNumber
			if err := out.into(&t); err != nil {
				return err
			}
			if len(results) == 0 {
				return diag.Unsupportedf("a result that is not computed")
			}
			g.numbers[t.Name] = results[0]
			if e := g.json.Ints[t.Name].Expr; e != nil {
				g.items[symbolOf(e.Text)] = results[0]
			}
			results = results[1:]
		case "as_none", "":
			if len(results) > 0 {
				results = results[1:]
			}
		default:
			return diag.Unsupportedf("a result of the kind %s", out.kind)
		}
	}
	return nil
}
