package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Operators in place become operators that return new values. A tensor's name stands for a piece of memory that others
// may share: each view records the tensor that it views and how it was made. A write to a view becomes a new value of
// its base, with the view's elements replaced; other views of that memory are rebuilt when they are read.

// storage is memory that tensors share.
type storage struct {
	version int    // the number of writes
	opaque  string // why it is not known which tensors share the memory; "" if it is known
	views   int
}

// alias is a tensor that may share its memory.
type alias struct {
	storage *storage
	of      *alias // the tensor that it views; nil if the storage is its own
	made    *call  // the node that made the view; result is the index of the node's result
	result  int
	value   *ir.Value // the value at the version
	version int
	depth   int // the number of views between it and the storage
}

// Limits of views, against files that ask for too much work.
const (
	mostViews   = 1000    // of views, each of the one before
	mostRebuilt = 1 << 18 // views that are rebuilt after writes to their memory
)

// share returns the alias of a name. A name without one gets memory of its own.
func (g *graph) share(name string) *alias {
	g.used[name] = true
	if a := g.aliases[name]; a != nil {
		return a
	}
	v := g.values[name]
	if v == nil {
		return nil
	}
	a := &alias{storage: &storage{}, value: v}
	if g.imaginary[name] != nil {
		a.storage.opaque = "complex numbers"
	}
	g.aliases[name] = a
	return a
}

// read returns the current value of a tensor.
func (g *graph) read(a *alias) *ir.Value {
	if a.version == a.storage.version || a.of == nil {
		return a.value
	}
	if g.budget.rebuilt++; g.budget.rebuilt > mostRebuilt {
		g.Fail(diag.Unsupportedf("more than %d views that are read after writes to their memory", mostRebuilt))
	}
	a.value = a.made.again(g.read(a.of), a.result)
	a.version = a.storage.version
	return a.value
}

// write gives a tensor a new value, and updates the tensors of which it is a view.
func (g *graph) write(a *alias, v *ir.Value) {
	s := a.storage
	if s.opaque != "" {
		g.Fail(diag.Unsupportedf("a write to memory that %s may share", s.opaque).
			WithFix("ExportedProgram.run_decompositions() makes other operators of those in place"))
	}
	for {
		var base *ir.Value
		if a.of != nil {
			base = g.read(a.of)
			base = a.made.putBack(base, v, a.result)
		}
		a.value, a.version = v, s.version+1
		if a.of == nil {
			break
		}
		a, v = a.of, base
	}
	s.version++
}

// again rebuilds a view on a base with a new value.
func (c *call) again(base *ir.Value, result int) *ir.Value {
	results := c.viewOf(base)
	if result >= len(results) {
		c.Fail(diag.Inputf("result %d of a view that has %d results", result+1, len(results)))
	}
	return results[result]
}

// viewOf applies a view's rule to base instead of the tensor that its node names.
func (c *call) viewOf(base *ir.Value) []*ir.Value { return rules[c.name](c.on(base)) }

// on returns the call with base instead of the tensor that its node views.
func (c *call) on(base *ir.Value) *call {
	other := *c
	other.base, other.baseName = base, c.viewed()
	return &other
}

// buildWrite builds a node that writes to its arguments; done is false, and nothing is built, for other nodes.
func (g *graph) buildWrite(n *nodeJSON, c *call, name string) (done bool, err error) {
	op, into := writing(name)
	if op == "" {
		return false, nil
	}
	if views[op] != nil { // it changes the shape of the same tensor
		return true, g.reshaped(n, c, op)
	}
	f := rules[op]
	if f == nil {
		return true, diag.Unsupportedf("the operator %s", name).
			WithFix("ExportedProgram.run_decompositions() may spell it out; docs/torch.md lists the operators")
	}
	targets := make([]*alias, len(into))
	for i, arg := range into {
		if targets[i] = c.target(arg); targets[i] == nil {
			return true, diag.Inputf("the tensor %s, which is written to, is missing", arg)
		}
	}
	if c.args["input"] == nil { // operators that are not in place name the argument input
		c.args["input"] = c.args["self"]
	}
	if c.readsComplex() {
		return true, diag.Unsupportedf("%s of complex numbers", name)
	}
	results := f(c)
	if len(results) < len(into) {
		return true, diag.Unsupportedf("%s, of which %d results are written", name, len(into))
	}
	for i, a := range targets {
		c.into(a, results[i], into[i] != "self")
	}
	for i, result := range g.outputNames(n) {
		if i < len(targets) {
			g.values[result], g.aliases[result] = targets[i].value, targets[i]
		}
	}
	return true, nil
}

// target returns the alias of an argument that is written to.
func (c *call) target(arg string) *alias {
	if c.args[arg] == nil {
		return nil
	}
	return c.memoryOf(c.args[arg])
}

// into writes a result to a tensor, converted to its type and shape. If out is true, the tensor is an argument for a
// result: without elements it takes the result's shape.
func (c *call) into(a *alias, v *ir.Value, out bool) {
	old := c.read(a)
	v = ops.Cast(c.Builder, v, old.Type.DType)
	if n, ok := product(old.Type.Shape).Const(); out && ok && n == 0 && a.of == nil && a.storage.views == 0 {
		c.write(a, v)
		return
	}
	if len(v.Type.Shape) > len(old.Type.Shape) {
		c.Fail(diag.Unsupportedf("a write of %s to %s", v.Type, old.Type))
	}
	v = ops.Expand(c.Builder, v, old.Type.Shape...)
	for i, extent := range v.Type.Shape {
		c.require(sym.Cond{A: extent, Rel: sym.EQ, B: old.Type.Shape[i]}, "a tensor that is written to keeps its shape")
	}
	c.write(a, v)
}

// reshaped builds an operator in place that changes the shape of a tensor: its new name is a view of the tensor, and
// the old name may no longer be read.
func (g *graph) reshaped(n *nodeJSON, c *call, op string) error {
	c.name = op
	var of named
	if c.args["self"] == nil {
		return diag.Inputf("the tensor self is missing")
	}
	if err := c.args["self"].into(&of); err != nil {
		return err
	}
	if g.share(of.Name) == nil {
		return diag.Inputf("nothing computes %s before it is read", of.Name).AtTensor(of.Name)
	}
	if err := g.assign(n, rules[op](c)); err != nil {
		return err
	}
	g.note(n, c)
	if op != "aten.detach.default" {
		g.gone[of.Name] = op
	}
	return nil
}

// note records the results of a node that share memory with its argument.
func (g *graph) note(n *nodeJSON, c *call) {
	view, of := views[c.name], c.viewed()
	if view == nil || of == "" {
		return
	}
	sharing := view.shares(c)
	if sharing == separate {
		return
	}
	base := g.share(of)
	if base == nil {
		return
	}
	if sharing == unknown || view.back == nil || base.depth >= mostViews {
		base.storage.opaque = c.name
	}
	base.storage.views++
	for i, result := range g.outputNames(n) {
		g.aliases[result] = &alias{storage: base.storage, of: base, made: c, result: i, value: g.values[result],
			version: base.storage.version, depth: base.depth + 1}
	}
}

// given is an input of the graph that may be written to.
type given struct {
	name string
	what mutation
}

// updates returns the parameters, buffers and inputs that operators in place have written to, in the graph's order.
func (g *graph) updates() (list []given) {
	for _, in := range g.givens {
		if a := g.aliases[in.name]; a != nil && a.storage.version > 0 {
			list = append(list, in)
		}
	}
	return list
}

// addWritten reports whether operators in place have written to a buffer or a parameter that was built as a constant,
// and adds it to changed.
func (g *graph) addWritten(changed map[string]bool) (more bool) {
	for _, in := range g.updates() {
		if key := in.what.key(); in.what.Input == "" && !g.states.changed[key] {
			changed[key], more = true, true
		}
	}
	return more
}

// alone returns an error if an updated tensor shares its record in the file with another name that the graph reads: a
// write to one would change the other.
func (g *graph) alone(m mutation) error {
	key := m.key()
	if g.program.record == nil || m.Input != "" || g.program.record(key) == "" {
		return nil
	}
	for _, other := range g.givens {
		if name := other.what.key(); name != key && other.what.Input == "" && g.used[other.name] &&
			g.program.record(name) == g.program.record(key) {
			return diag.Unsupportedf("a new value of %s, which shares its memory with %s", key, name).AtTensor(key).
				WithFix("give the model buffers of their own")
		}
	}
	return nil
}
