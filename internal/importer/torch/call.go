package torch

import (
	"encoding/json"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// call is a node with its arguments by name, for its rule. Its methods stop the building with an error if an argument
// is wrong.
type call struct {
	*graph
	node  *nodeJSON
	name  string // the operator's name
	args  map[string]*argument
	reads component // the component of complex numbers that the rule sees

	base     *ir.Value // if not nil, replaces the value of the name baseName
	baseName string
	inside   []*alias // the aliases of the outputs of the last nested graph
	returned []*alias // the aliases of the results, for a graph that is built in place
}

// has reports whether an argument is given, and is not None.
func (c *call) has(name string) bool {
	a := c.args[name]
	return a != nil && a.kind != "as_none" && a.kind != ""
}

// optional returns a tensor argument; nil if it is absent.
func (c *call) optional(name string) *ir.Value {
	a := c.args[name]
	if !c.has(name) {
		return nil
	}
	if a.kind == "as_optional_tensor" {
		var inner argument
		if err := a.into(&inner); err != nil {
			c.Fail(err)
		}
		if a = &inner; a.kind == "as_none" {
			return nil
		}
	}
	if a.kind != "as_tensor" {
		return c.number(name, dtype.Invalid)
	}
	return c.find(a)
}

// find returns the tensor that an argument names.
func (c *call) find(a *argument) *ir.Value {
	var n named
	if err := a.into(&n); err != nil {
		c.Fail(err)
	}
	return c.named(n)
}

// named returns the tensor of a name.
func (c *call) named(n named) *ir.Value {
	v := c.componentOf(n.Name)
	if v == nil {
		c.Fail(diag.Inputf("nothing computes %s before it is read", n.Name).AtTensor(n.Name))
	}
	return v
}

// tensor returns a tensor argument, which must be present.
func (c *call) tensor(name string) *ir.Value {
	v := c.optional(name)
	if v == nil {
		c.Fail(diag.Inputf("the tensor %s is missing", name))
	}
	return v
}

// tensors returns an argument that is a list of tensors.
func (c *call) tensors(name string) (list []*ir.Value) {
	a := c.args[name]
	if a == nil || a.kind != "as_tensors" {
		c.Fail(diag.Inputf("the tensors %s are missing", name))
	}
	var names []named
	if err := a.into(&names); err != nil {
		c.Fail(err)
	}
	for _, n := range names {
		list = append(list, c.named(n))
	}
	return list
}

// optionals returns an argument that is a list of tensors; absent ones are nil.
func (c *call) optionals(name string) (list []*ir.Value) {
	a := c.args[name]
	if a != nil && a.kind == "as_tensors" {
		return c.tensors(name)
	}
	var items []argument
	if a == nil || a.kind != "as_optional_tensors" {
		c.Fail(diag.Inputf("the tensors %s are missing", name))
	}
	if err := a.into(&items); err != nil {
		c.Fail(err)
	}
	for i := range items {
		if items[i].kind == "as_none" {
			list = append(list, nil)
			continue
		}
		list = append(list, c.find(&items[i]))
	}
	return list
}

// symOf returns an integer of a union, which has either its value or its name.
func (c *call) symOf(text []byte) sym.Expr {
	var s struct {
		Name *string `json:"as_name"`
		Int  *int64  `json:"as_int"`
	}
	if err := (&argument{"as_sym_int", text}).into(&s); err != nil {
		c.Fail(err)
	}
	if s.Int != nil {
		return sym.Const(*s.Int)
	}
	if s.Name == nil {
		c.Fail(diag.Inputf("an integer without a value"))
	}
	if e, ok := c.ints[*s.Name]; ok {
		return e
	}
	if declared := c.json.Ints[*s.Name]; declared.Expr != nil {
		e, err := expression(declared.Expr.Text, c.symbol)
		if err != nil {
			c.Fail(err)
		}
		return e
	}
	c.Fail(diag.Unsupportedf("the integer %s, which is no extent of an input", *s.Name))
	return sym.Expr{}
}

// sym returns an integer argument, which must be present.
func (c *call) sym(name string) sym.Expr {
	a := c.args[name]
	if a == nil {
		c.Fail(diag.Inputf("the number %s is missing", name))
	}
	switch a.kind {
	case "as_int":
		var v int64
		if err := a.into(&v); err != nil {
			c.Fail(err)
		}
		return sym.Const(v)
	case "as_sym_int":
		return c.symOf(a.value)
	}
	c.Fail(diag.Unsupportedf("%s as %s; an integer is expected", name, a.kind))
	return sym.Expr{}
}

// symOr returns an integer argument; none if it is absent.
func (c *call) symOr(name string, none sym.Expr) sym.Expr {
	if !c.has(name) {
		return none
	}
	return c.sym(name)
}

// int returns an integer argument that is known; none if it is absent.
func (c *call) int(name string, none int64) int64 {
	v, ok := c.symOr(name, sym.Const(none)).Const()
	if !ok {
		c.Fail(diag.Unsupportedf("%s as an expression; a number is expected", name))
	}
	return v
}

// axis returns an axis argument in [0, rank); a negative one counts from the end.
func (c *call) axis(name string, none int64, rank int) int {
	return c.axisOf(c.int(name, none), rank)
}

// axisOf resolves an axis that may count from the end of rank axes.
func (c *call) axisOf(axis int64, rank int) int {
	if rank == 0 && (axis == 0 || axis == -1) {
		return 0
	}
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		c.Fail(diag.Inputf("axis %d of a tensor of rank %d", axis, rank))
	}
	return int(axis)
}

// syms returns an argument that is a list of integers; nil if it is absent.
func (c *call) syms(name string) (list []sym.Expr) {
	if !c.has(name) {
		return nil
	}
	a := c.args[name]
	switch a.kind {
	case "as_ints":
		var ints []int64
		if err := a.into(&ints); err != nil {
			c.Fail(err)
		}
		return ir.Constants(ints)
	case "as_sym_ints":
		var items []json.RawMessage
		if err := a.into(&items); err != nil {
			c.Fail(err)
		}
		for _, item := range items {
			list = append(list, c.symOf(item))
		}
		return list
	}
	return []sym.Expr{c.sym(name)}
}

// listOf returns an argument that is a list of known integers.
func (c *call) listOf(name string) []int64 {
	var list []int64
	for _, e := range c.syms(name) {
		v, ok := e.Const()
		if !ok {
			c.Fail(diag.Unsupportedf("%s as expressions; numbers are expected", name))
		}
		list = append(list, v)
	}
	return list
}

// pairOf returns an argument that is a list of n known integers. A list of one stands for n equal integers; if it is
// absent, all are none.
func (c *call) pairOf(name string, n int, none int64) []int64 {
	list := c.listOf(name)
	for len(list) < n {
		if len(list) == 0 {
			list = append(list, none)
			continue
		}
		list = append(list, list[0])
	}
	if len(list) != n {
		c.Fail(diag.Inputf("%s has %d numbers, not %d", name, len(list), n))
	}
	return list
}

// bool returns a bool argument; none if it is absent.
func (c *call) bool(name string, none bool) (v bool) {
	if !c.has(name) {
		return none
	}
	if err := c.args[name].into(&v); err != nil {
		c.Fail(err)
	}
	return v
}

// float returns a number argument; none if it is absent.
func (c *call) float(name string, none float64) float64 {
	if !c.has(name) {
		return none
	}
	var v number
	if err := c.args[name].into(&v); err != nil {
		c.Fail(err)
	}
	return float64(v)
}

// string returns a string argument; none if it is absent.
func (c *call) string(name, none string) (v string) {
	if !c.has(name) {
		return none
	}
	if err := c.args[name].into(&v); err != nil {
		c.Fail(err)
	}
	return v
}

// dtype returns an element type argument; none if it is absent.
func (c *call) dtype(name string, none dtype.DType) dtype.DType {
	if !c.has(name) {
		return none
	}
	var v int
	if err := c.args[name].into(&v); err != nil {
		c.Fail(err)
	}
	dt, ok := scalarTypes[v]
	if !ok {
		c.Fail(diag.Unsupportedf("the element type %d", v))
	}
	return dt
}

// require adds a condition of the operator to the module.
func (c *call) require(cond sym.Cond, why string) {
	if err := c.RequireOf(c.node.Name, c.node.Target, 0, cond, why); err != nil {
		c.Fail(err)
	}
}
