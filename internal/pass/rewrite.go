package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// rule is one row of a table of rewrites: a node of one of the operators in roots may be replaced by what apply builds.
type rule struct {
	name  string
	roots []string
	// apply builds or finds the value, of the same type, that replaces the node's first output; nil if the rule does not
	// apply. The outputs of a node with several are replaced by those of one node: the value is the first of as many.
	apply func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value
}

// rewritesDeepest is the number of times in a row that the nodes which rules build may be rewritten again.
const rewritesDeepest = 16

// rewriting is the application of a table of rules to the functions of a module: every node is visited once, after the
// nodes that compute its operands. It keeps the model's names for values, adds no condition to the module, and removes
// the nodes that no node reads any more.
type rewriting struct {
	*ir.Inference
	table    []rule
	rules    map[string][]*rule // by operator, as far as nodes were visited
	uses     map[*ir.Value]int  // by nodes and as results of blocks
	owner    map[*ir.Node]*ir.Block
	replaced map[*ir.Value]*ir.Value
	gone     map[*ir.Node]bool
	known    map[fact]sym.Expr // facts about constants
	block    *ir.Block
	after    []*ir.Node // the nodes of the block that are not visited yet
	depth    int
}

// fact identifies a question about a constant, whose elements are searched for the answer only once.
type fact struct {
	question string
	of       *ir.Value
}

// about returns the result of find for a question about a constant. It calls find only the first time.
func (r *rewriting) about(question string, v *ir.Value, find func() (sym.Expr, bool)) (sym.Expr, bool) {
	f := fact{question, v}
	x, seen := r.known[f]
	if !seen {
		var ok bool
		if x, ok = find(); !ok {
			x = sym.Const(-1)
		}
		r.known[f] = x
	}
	return x, !x.Equal(sym.Const(-1))
}

// fired, if not nil, is called for each rule that has rewritten a node. Tests set it.
var fired func(rule string)

// apply rewrites a module by a table of rules.
func apply(m *ir.Module, table []rule) error {
	if !slices.ContainsFunc(m.Funcs, func(f *ir.Func) bool { return rooted(table, f.Body) }) {
		return nil
	}
	c := ir.NewInference(m)
	for _, f := range m.Funcs {
		r := &rewriting{Inference: c, table: table, rules: map[string][]*rule{}, uses: map[*ir.Value]int{},
			owner: map[*ir.Node]*ir.Block{}, replaced: map[*ir.Value]*ir.Value{}, gone: map[*ir.Node]bool{},
			known: map[fact]sym.Expr{}}
		r.count(f.Body)
		r.rewrite(f.Body)
		r.sweep(f.Body)
	}
	return nil
}

// rooted reports whether a block has a node that a rule of a table may replace.
func rooted(table []rule, b *ir.Block) bool {
	return slices.ContainsFunc(b.Nodes, func(n *ir.Node) bool {
		return rewrites(table, n) || slices.ContainsFunc(n.Regions, func(b *ir.Block) bool { return rooted(table, b) })
	})
}

// rewrites reports whether a rule of a table may replace a node.
func rewrites(table []rule, n *ir.Node) bool {
	return slices.ContainsFunc(table, func(r rule) bool { return slices.Contains(r.roots, n.Op.Name()) })
}

// count counts the uses of values in a block.
func (r *rewriting) count(b *ir.Block) {
	for _, v := range b.Results {
		r.uses[v]++
	}
	for _, n := range b.Nodes {
		r.owner[n] = b
		r.use(n, 1)
		for _, region := range n.Regions {
			r.count(region)
		}
	}
}

// use adds to the uses of the node's inputs.
func (r *rewriting) use(n *ir.Node, by int) {
	for _, v := range n.Inputs {
		if v != nil {
			r.uses[v] += by
		}
	}
}

// current returns the value that replaces v, or v.
func (r *rewriting) current(v *ir.Value) *ir.Value {
	for r.replaced[v] != nil {
		v = r.replaced[v]
	}
	return v
}

// rewrite applies the rules to a block and its regions.
func (r *rewriting) rewrite(b *ir.Block) {
	outer, after := r.block, r.after
	r.block = b
	old := b.Nodes
	b.Nodes = make([]*ir.Node, 0, len(old))
	for i, n := range old {
		r.after = old[i+1:]
		r.visit(n)
	}
	for i, v := range b.Results {
		b.Results[i] = r.current(v)
	}
	r.block, r.after = outer, after
}

// visit rewrites a node, or appends it to the block as it is.
func (r *rewriting) visit(n *ir.Node) {
	for i, v := range n.Inputs {
		n.Inputs[i] = r.current(v)
	}
	for _, region := range n.Regions {
		r.rewrite(region)
	}
	r.owner[n] = r.block
	bound := slices.ContainsFunc(n.Outputs, func(v *ir.Value) bool { return v.Bound })
	if len(n.Outputs) > 0 && !bound && r.depth < rewritesDeepest {
		for _, rule := range r.rulesOf(n.Op.Name()) {
			if r.try(rule, n) {
				return
			}
		}
	}
	r.block.Nodes = append(r.block.Nodes, n)
}

// rulesOf returns the rules for nodes of an operator.
func (r *rewriting) rulesOf(op string) []*rule {
	list, known := r.rules[op]
	if !known {
		for i := range r.table {
			if slices.Contains(r.table[i].roots, op) {
				list = append(list, &r.table[i])
			}
		}
		r.rules[op] = list
	}
	return list
}

// try applies a rule to a node.
func (r *rewriting) try(rule *rule, n *ir.Node) bool {
	inner := &ir.Block{}
	results := r.build(rule, n, inner)
	if results == nil {
		return false
	}
	if fired != nil {
		fired(rule.name)
	}
	for i, result := range results {
		if result.Node != nil && result.Const == nil && slices.Contains(inner.Nodes, result.Node) {
			// The model's name for the value stays with it.
			result.TakeName(n.Outputs[i])
			if result.Known == nil {
				result.Known = n.Outputs[i].Known
			}
		}
	}
	r.block.Consts = append(r.block.Consts, inner.Consts...)
	for _, made := range inner.Nodes {
		r.use(made, 1)
	}
	for i, result := range results {
		r.uses[result] += r.uses[n.Outputs[i]]
		r.replaced[n.Outputs[i]] = result
	}
	r.release(n)
	r.depth++
	for _, made := range inner.Nodes {
		r.visit(made)
	}
	r.depth--
	return true
}

// build returns the values that a rule builds for a node's outputs; nil if the rule does not apply, or if a value has
// another type or needs a condition that the node did not need.
func (r *rewriting) build(rule *rule, n *ir.Node, into *ir.Block) []*ir.Value {
	m := r.Module
	undo := r.Tentative()
	b := ir.NewBuilder(r.Inference, into)
	b.Source = n.Source
	var err error
	var results []*ir.Value
	func() {
		defer ir.Catch(&err)
		if first := rule.apply(r, b, n); first != nil {
			results = []*ir.Value{first}
			if len(n.Outputs) > 1 && first.Node != nil && first == first.Node.Outputs[0] {
				results = first.Node.Outputs
			}
		}
	}()
	if more := undo(); err != nil || more || len(results) != len(n.Outputs) || results[0] == n.Outputs[0] {
		return nil
	}
	for i, result := range results {
		if !sameType(m.Dims, result.Type, n.Outputs[i].Type) {
			return nil
		}
	}
	return results
}

// sameType reports whether two types are proved to be the same.
func sameType(d *sym.Dims, a, b ir.Type) bool {
	return a.DType == b.DType && sameShape(d, a.Shape, b.Shape)
}

// sameShape reports whether two shapes are proved to be the same.
func sameShape(d *sym.Dims, a, b []sym.Expr) bool {
	return slices.EqualFunc(a, b, func(x, y sym.Expr) bool { return x.Equal(y) || d.EQ(x, y) == sym.Yes })
}

// release subtracts the uses of a node that is no longer needed, and releases the nodes that only it needed.
func (r *rewriting) release(n *ir.Node) {
	r.gone[n] = true
	for list := []*ir.Node{n}; len(list) > 0; {
		n, list = list[len(list)-1], list[:len(list)-1]
		r.use(n, -1)
		for _, v := range n.Inputs {
			if v == nil || v.Node == nil || r.gone[v.Node] || len(v.Node.Regions) > 0 {
				continue
			}
			if !slices.ContainsFunc(v.Node.Outputs, func(o *ir.Value) bool { return r.uses[o] > 0 || o.Bound || r.decided(o) }) {
				r.gone[v.Node] = true
				list = append(list, v.Node)
			}
		}
	}
}

// decided reports whether an extent of a value is a dimension that data decide: computing it may bind that for a
// condition. Dead knows whether it does.
func (r *rewriting) decided(v *ir.Value) bool {
	return slices.ContainsFunc(v.Type.Shape, func(e sym.Expr) bool {
		name, ok := e.Name()
		_, decided := r.Module.Limits[name]
		return ok && decided
	})
}

// sweep drops the nodes that were released after they had been appended.
func (r *rewriting) sweep(b *ir.Block) {
	b.Nodes = slices.DeleteFunc(b.Nodes, func(n *ir.Node) bool { return r.gone[n] })
	for _, n := range b.Nodes {
		for _, region := range n.Regions {
			r.sweep(region)
		}
	}
}
