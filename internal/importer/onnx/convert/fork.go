package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// An If whose branches have results of different ranks, as exporters write for "squeeze if the extent is 1", has no
// results that ir could type. It is converted together with the nodes after it, once in each branch, until the values
// that are still needed have the same ranks in both. If that cannot be valid in one branch, that branch is impossible,
// and the opposite of its condition becomes a condition of the model.

// fork records that both branches of such an If are possible, or why one is not.
type fork struct {
	only int    // the branch that is possible: 1 then, 0 else; −1: both
	why  string // why the other branch is not possible
	// within says that the results of a branch's own graph differ: the nodes after the If are converted within the
	// branch.
	within bool
}

// flow is a list of nodes to convert in order, and the last use of each name.
type flow struct {
	nodes   []*wire.NodeProto
	ids     []string // identify the nodes, the same in every attempt
	outputs []declared
	last    map[string]int
}

// declared is an output and the rank that the file declares; −1 if it declares none.
type declared struct {
	name string
	rank int
}

// declaredOutputs returns the named outputs of a graph.
func declaredOutputs(proto *wire.GraphProto, names []string) []declared {
	out := make([]declared, len(names))
	for i, name := range names {
		out[i] = declared{name, -1}
		for _, o := range proto.Output {
			if o.Name == name && o.Type != nil && o.Type.TensorType != nil && o.Type.TensorType.Shape != nil {
				out[i].rank = len(o.Type.TensorType.Shape.Dim)
			}
		}
	}
	return out
}

// run converts nodes in order.
func (g *Scope) run(nodes []*wire.NodeProto, outputs []declared) error {
	f := &flow{nodes: nodes, outputs: outputs}
	for i := range nodes {
		f.ids = append(f.ids, strconv.Itoa(i))
	}
	for at := 0; at < len(f.nodes); {
		if g.Attempt.count > 0 {
			g.Attempt.work--
		}
		next, err := g.step(f, at)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// choice is a condition, and what is converted if it is 0 or 1.
type choice struct {
	*Call
	cond     *ir.Value
	branches [2]*wire.GraphProto
	// declares says that the ranks that the file declares for the outputs may exclude a branch.
	declares bool
	names    [2]string // of the branches, for errors
}

// choice returns the choice that the nodes after a node are converted for; nil if the node is converted by itself.
func (g *Scope) choice(n *wire.NodeProto) (*choice, error) {
	d, forked := g.Attempt.forks[g.nodePath()]
	single := DomainOf(n.Domain) == "" && n.OpType == "Squeeze"
	if !single && (!forked || d.only >= 0 && !d.within) {
		return nil, nil
	}
	c, _, err := g.call(n)
	if err != nil {
		return nil, err
	}
	if single {
		return c.squeezed(), nil
	}
	return &choice{c, c.Input(0), [2]*wire.GraphProto{branchOf(c, 0), branchOf(c, 1)}, true,
		[2]string{"its else branch", "its then branch"}}, nil
}

// step converts a node, or a choice with the nodes after it, and returns the index of the next node.
func (g *Scope) step(f *flow, at int) (next int, err error) {
	g.at = f.ids[at]
	n := f.nodes[at]
	if g.Attempt.Node = n; g.depth == 0 {
		g.Attempt.Top = n
	}
	defer g.beginNode(n)()
	c, err := g.choice(n)
	if err != nil {
		return at, err
	}
	if c == nil {
		return at + 1, g.node(n)
	}
	d := g.Attempt.forks[g.nodePath()]
	taken := d.only
	if known, ok := knownCondition(c.cond); ok {
		taken = int(min(known, 1))
	} else if taken >= 0 {
		c.takes(c.cond, d, c.names)
		g.facts = g.knowing(c.cond, taken == 1)
	}
	if taken < 0 {
		return g.fork(c, f, at)
	}
	*f = *f.into(at, c.branches[taken])
	return at, g.initializers(c.branches[taken])
}

// knownCondition returns the value of a condition that is known.
func knownCondition(cond *ir.Value) (truth int64, ok bool) {
	if len(cond.Known) != 1 {
		return 0, false
	}
	return cond.Known[0].Const()
}

// branchOf returns the graph of a branch of an If.
func branchOf(c *Call, truth int) *wire.GraphProto {
	return c.Graph([]string{"else_branch", "then_branch"}[truth])
}

// into returns a flow with the nodes of a branch instead of the If.
func (f *flow) into(at int, branch *wire.GraphProto) *flow {
	n := f.nodes[at]
	out := &flow{outputs: f.outputs, nodes: slices.Clone(f.nodes[:at]), ids: slices.Clone(f.ids[:at])}
	add := func(id string, n *wire.NodeProto) { out.nodes, out.ids = append(out.nodes, n), append(out.ids, id) }
	for i, inner := range branch.Node {
		add(fmt.Sprintf("%s.%s.%d", f.ids[at], branch.Name, i), inner)
	}
	for i, o := range branch.Output {
		if i < len(n.Output) && n.Output[i] != "" && n.Output[i] != o.Name {
			add(fmt.Sprintf("%s.%s=%d", f.ids[at], branch.Name, i),
				&wire.NodeProto{OpType: "Identity", Name: n.Name, Input: []string{o.Name}, Output: []string{n.Output[i]}})
		}
	}
	out.nodes, out.ids = append(out.nodes, f.nodes[at+1:]...), append(out.ids, f.ids[at+1:]...)
	return out
}

// side is a branch of an If under conversion, with the nodes after the If if its results have other ranks than those
// of the other branch.
type side struct {
	*Scope
	block    *ir.Block
	dims     *sym.Dims             // the ranges of dimensions in this branch
	requires []ir.Require          // the module's conditions, with those of this branch
	before   int                   // the number of conditions before this branch
	limits   map[sym.Name]sym.Expr // of the dimensions that data decide before this branch
	left     int                   // the number of nodes left to convert
}

// sides returns the branches of the choice under conversion; the index is the condition's value.
func (g *Scope) sides(cond *ir.Value, path string) (out [2]*side) {
	before, limits := g.Build.Module.Requires, maps.Clone(g.Build.Module.Limits)
	for i := range out {
		block := &ir.Block{}
		inner := *g
		inner.Outer, inner.Build, inner.names, inner.weights, inner.sparse = g, g.Build.In(block), map[string]*ir.Value{},
			nil, nil
		inner.path = fmt.Sprintf("%s=%d", path, i)
		inner.facts = g.knowing(cond, i == 1)
		out[i] = &side{Scope: &inner, block: block, dims: g.Build.Dims().Clone(), requires: slices.Clone(before),
			before: len(before), limits: limits}
	}
	return out
}

// do runs a conversion in the branch. The ranges of dimensions that it narrows are those of the branch alone.
func (s *side) do(convert func() error) (err error) {
	defer ir.Catch(&err)
	m := s.Build.Module
	outer := m.Dims
	defer func() {
		for _, name := range s.dims.Names() {
			if _, known := outer.Get(name); !known {
				r, _ := s.dims.Get(name)
				outer.Set(name, r)
			}
		}
		m.Dims = outer
	}()
	m.Dims, m.Requires = s.dims, s.requires
	err = convert()
	s.requires = m.Requires
	return err
}

// join builds the If of two branches; the index is the condition's value. Conditions of a branch become conditions of
// the model that hold if the branch is taken.
func (c *Call) join(cond *ir.Value, sides [2]*side, results [2][]*ir.Value) []*ir.Value {
	m := c.Module
	var forms []Form
	for k := range results[0] {
		forms = append(forms, c.Scope.common(c.Scope.FormOf(results[0][k]), c.Scope.FormOf(results[1][k])))
	}
	for i, s := range sides {
		if err := s.do(func() error { s.block.Results = s.flat(results[i], forms); return nil }); err != nil {
			c.Fail(err)
		}
	}
	for i, s := range sides {
		if fact, ok := comparison(cond, i == 1); ok {
			if err := s.do(func() error { s.reshaped(sides[1-i].block.Results, fact); return nil }); err != nil {
				c.Fail(err)
			}
		}
	}
	m.Requires = slices.Clone(sides[0].requires[:sides[0].before])
	for i, s := range sides {
		for _, r := range s.requires[s.before:] {
			// A branch's own condition holds whenever the branch runs.
			if own := c.relation(cond, i == 1); !c.Scope.follows(r.Cond, own) {
				m.Requires = append(m.Requires, ir.Require{Cond: under(c.truth(cond), i, r.Cond), From: r.From})
			}
		}
	}
	return c.Scope.assemble(forms, c.chosen(cond, sides))
}

// alike reports whether one result of an If can have both values: tensors of one type and rank, or composites.
func (g *Scope) alike(x, y *ir.Value) bool {
	a, b := g.FormOf(x), g.FormOf(y)
	if a.Kind.Unwrapped() != Tensor || b.Kind.Unwrapped() != Tensor || a.Of.DType == dtype.Invalid ||
		b.Of.DType == dtype.Invalid {
		return true
	}
	return a.Of.DType == b.Of.DType && (a.AnyRank || b.AnyRank || len(a.Of.Shape) == len(b.Of.Shape))
}

// fork converts the nodes after a choice in both branches, until the branches' values have equal types and ranks.
func (g *Scope) fork(c *choice, f *flow, at int) (next int, err error) {
	if f.last == nil {
		f.last = lastUses(f.nodes, f.outputs)
	}
	n, path := f.nodes[at], g.nodePath()
	within := g.Attempt.forks[path].within
	sides := g.sides(c.cond, path)
	var flows [2]*flow
	for i, s := range sides {
		proto := c.branches[i]
		flows[i], s.left = &flow{nodes: f.nodes, ids: f.ids, outputs: f.outputs, last: f.last}, len(f.nodes)-at-1
		if within {
			flows[i] = f.into(at, proto)
			s.left = len(flows[i].nodes) - at
			err = s.do(func() error { return s.initializers(proto) })
		} else {
			err = s.do(func() error { return s.results(n, proto, path) })
		}
		if err != nil {
			return at, g.impossible(path, i, err)
		}
	}
	for {
		end := len(f.nodes) - sides[0].left
		if sides[0].left == sides[1].left && end > at && g.agree(f, sides, end) {
			break
		}
		i := 1 // the branch with more nodes left
		if sides[0].left > sides[1].left {
			i = 0
		}
		s := sides[i]
		if s.left == 0 {
			if err := g.differ(c, f, path, sides); err != nil {
				return at, err
			}
			continue
		}
		if g.Attempt.work--; g.Attempt.work < 0 {
			return at, diag.Unsupportedf("branches whose results' ranks differ, with too many nodes after them").
				AtNode(sourceOf(n), n.OpType)
		}
		err := s.do(func() error {
			next, err := s.step(flows[i], len(flows[i].nodes)-s.left)
			s.left = len(flows[i].nodes) - next
			return err
		})
		if err != nil {
			return at, g.impossible(path, i, err)
		}
	}
	next = len(f.nodes) - sides[0].left
	names := f.live(sides[0].names, at, next)
	var results [2][]*ir.Value
	for _, name := range names {
		for i, s := range sides {
			results[i] = append(results[i], s.names[name])
		}
	}
	for i, v := range c.join(c.cond, sides, results) {
		g.name(v, names[i])
	}
	return next, nil
}

// results names the results of a branch as the If's own results.
func (s *side) results(n *wire.NodeProto, proto *wire.GraphProto, path string) error {
	for i, v := range s.branch(proto, s.Build, path) {
		if i < len(n.Output) && n.Output[i] != "" {
			s.names[n.Output[i]] = v
		}
	}
	return nil
}

// live returns the names that nodes [at, end) compute and nodes from end on read.
func (f *flow) live(made map[string]*ir.Value, at, end int) []string {
	var out []string
	for _, n := range f.nodes[at:end] {
		for _, name := range n.Output {
			if made[name] != nil && f.last[name] >= end {
				out = append(out, name)
			}
		}
	}
	return out
}

// agree reports whether the values that are read from here on have the same types and ranks in both branches.
func (g *Scope) agree(f *flow, sides [2]*side, from int) bool {
	for name, x := range sides[0].names {
		if f.last[name] < from {
			continue
		}
		y := sides[1].names[name]
		if y == nil || !g.alike(x, y) {
			return false
		}
	}
	return true
}

// impossible records that a branch cannot be valid, and restarts the conversion. An error that is not ErrInput is
// returned as it is.
func (g *Scope) impossible(path string, branch int, err error) error {
	e := diag.As(err, diag.ErrInput)
	if errors.Is(err, errAgain) || e == nil {
		return err
	}
	d := g.Attempt.forks[path]
	d.only, d.why = 1-branch, e.Error()
	g.Attempt.forks[path] = d
	g.Attempt.last = g.Build.Source
	return errAgain
}

// differ decides about branches whose outputs differ in rank when no nodes are left: by the ranks that the file
// declares, or by converting the nodes after the If to which this branch belongs. Outputs of the model may have any
// rank.
func (g *Scope) differ(c *choice, f *flow, path string, sides [2]*side) error {
	for _, o := range f.outputs {
		x, y := sides[0].names[o.name], sides[1].names[o.name]
		if x == nil || y == nil || g.alike(x, y) {
			continue
		}
		for i, v := range []*ir.Value{x, y} {
			if c.declares && o.rank >= 0 && len(v.Type.Shape) != o.rank {
				return g.impossible(path, i, diag.Inputf("output %q becomes %s, it is declared with rank %d", o.name, v.Type,
					o.rank).AtTensor(o.name))
			}
		}
		if g.owner != "" {
			d, known := g.Attempt.forks[g.owner]
			if !known {
				d.only = -1
			}
			d.within = true
			g.Attempt.forks[g.owner] = d
			return errAgain
		}
		sameType := g.FormOf(x).Of.DType == g.FormOf(y).Of.DType
		if g.depth == 0 && !g.Attempt.ranked && sameType {
			for _, s := range sides {
				if err := s.do(func() error { s.names[o.name] = s.anyRank(s.names[o.name]); return nil }); err != nil {
					return err
				}
			}
			continue
		}
		if !c.declares {
			return g.impossible(path, 1, diag.Inputf("%q has one rank in all runs", o.name))
		}
		return diag.Unsupportedf("output %q is %s in one branch and %s in the other", o.name, y.Type, x.Type).
			AtTensor(o.name).AtNode(g.Build.Source, "If")
	}
	if !g.agree(f, sides, len(f.nodes)) {
		return diag.Unsupportedf("branches whose results' ranks or types differ").AtNode(g.Build.Source, c.Node.OpType)
	}
	return nil
}

// lastUses returns the index of the last node that reads each name, subgraphs included; outputs are read after all
// nodes.
func lastUses(nodes []*wire.NodeProto, outputs []declared) map[string]int {
	last := map[string]int{}
	var uses func(n *wire.NodeProto, at int)
	graphs := func(proto *wire.GraphProto, at int) {
		for _, inner := range proto.Node {
			uses(inner, at)
		}
		for _, o := range proto.Output {
			last[o.Name] = at
		}
	}
	uses = func(n *wire.NodeProto, at int) {
		for _, name := range n.Input {
			last[name] = at
		}
		for _, a := range n.Attribute {
			if a.G != nil {
				graphs(a.G, at)
			}
			for _, proto := range a.Graphs {
				graphs(proto, at)
			}
		}
	}
	for at, n := range nodes {
		uses(n, at)
	}
	for _, o := range outputs {
		last[o.name] = len(nodes)
	}
	return last
}

// truth returns a condition as an integer, 1 or 0: known, or a dimension that the run binds.
func (c *Call) truth(cond *ir.Value) sym.Expr {
	if cond.Known == nil && slices.Contains(c.Module.Main.Body.Params, cond) {
		// The elements of an argument are dimensions that the caller has to give; those of a copy are found by the run.
		if c.copied == nil {
			c.copied = ops.Binary(c.Builder, ops.And, cond, cond)
		}
		cond = c.copied
	}
	known, err := c.Elements(cond, c.String(), 0, 1)
	if err != nil {
		c.Fail(err)
	}
	if len(known) != 1 {
		c.Fault("the condition is %s, it must be one truth value", cond.Type)
	}
	return known[0]
}

// under returns a condition that must hold only if the branch is taken. That extents are not negative must hold for a
// branch that is not taken as well, because memory is planned for both.
func under(truth sym.Expr, branch int, cond sym.Cond) sym.Cond {
	zero, one := sym.Const(0), sym.Const(1)
	if cond.Rel == sym.LE && cond.A.Equal(zero) {
		return cond
	}
	on, off := truth, one.Sub(truth)
	if branch == 0 {
		on, off = off, on
	}
	by := cond.A.Sub(cond.B).Mul(on)
	switch cond.Rel {
	case sym.NE:
		by = by.Add(off)
	case sym.LT:
		by = by.Sub(off)
	}
	return sym.Cond{A: by, Rel: cond.Rel, B: zero}
}

// takes adds the condition of the model that a choice takes the branch d.only.
func (c *Call) takes(cond *ir.Value, d fork, names [2]string) {
	if err := c.RequireOf(c.Source, c.Node.OpType, 0, c.relation(cond, d.only == 1),
		fmt.Sprintf("%s cannot be valid: %s", names[1-d.only], d.why)); err != nil {
		c.Fail(err)
	}
}

// relations has the conditions of comparison operators, for a true and a false result.
var relations = map[string]func(a, b sym.Expr, holds bool) sym.Cond{
	"eq": func(a, b sym.Expr, holds bool) sym.Cond {
		if holds {
			return sym.Cond{A: a, Rel: sym.EQ, B: b}
		}
		return sym.Cond{A: a, Rel: sym.NE, B: b}
	},
	"lt": func(a, b sym.Expr, holds bool) sym.Cond {
		if holds {
			return sym.Cond{A: a, Rel: sym.LT, B: b}
		}
		return sym.Cond{A: b, Rel: sym.LE, B: a}
	},
}

// init adds the comparisons that follow from lt.
func init() {
	less := relations["lt"]
	relations["gt"] = func(a, b sym.Expr, holds bool) sym.Cond { return less(b, a, holds) }
	relations["le"] = func(a, b sym.Expr, holds bool) sym.Cond { return less(b, a, !holds) }
	relations["ge"] = func(a, b sym.Expr, holds bool) sym.Cond { return less(a, b, !holds) }
}

// relation returns the condition that cond is true, or false: as a comparison of sizes, or of cond as an integer.
func (c *Call) relation(cond *ir.Value, holds bool) sym.Cond {
	if compared, ok := comparison(cond, holds); ok {
		return compared
	}
	want := sym.Const(0)
	if holds {
		want = sym.Const(1)
	}
	return sym.Cond{A: c.truth(cond), Rel: sym.EQ, B: want}
}

// comparison returns the comparison of sizes that decides a condition, if there is one.
func comparison(cond *ir.Value, holds bool) (sym.Cond, bool) {
	truth := holds
	for v := cond; v.Node != nil && len(v.Node.Inputs) > 0 && v.Node.Inputs[0] != nil; v = v.Node.Inputs[0] {
		in, name := v.Node.Inputs, v.Node.Op.Name()
		if compare := relations[name]; compare != nil && len(in) == 2 && len(in[0].Known) == 1 && len(in[1].Known) == 1 {
			return compare(in[0].Known[0], in[1].Known[0], truth), true
		}
		if name == "not" {
			truth = !truth
		} else if name != "reshape" && (name != "cast" || in[0].Type.DType != v.Type.DType) {
			break
		}
	}
	return sym.Cond{}, false
}
