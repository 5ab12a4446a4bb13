// Package compare finds the first tensor, in the order of a model's nodes, that differs between a compiled program and
// the reference, and saves the node that computes it as a test of its own.
package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/tensor"
)

// Difference is a tensor that differs, and the nodes that compute it from tensors that do not.
type Difference struct {
	Tensor, Node, Op, Detail string
	Hidden                   []string // tensors that the program does not keep: if they are kept, Tensor is right
	Exact                    bool     // no tensor differs if the program computes by the model's formulas

	model  sources.Model
	nodes  []*wire.NodeProto // the nodes that compute Tensor from inputs, in order
	inputs []sources.Value
	types  []dtype.DType // of the inputs
	want   sources.Value
	gives  dtype.DType
}

// Comparison compares a model, compiled with various sets of its tensors kept, with the reference.
type Comparison struct {
	Context    context.Context
	Model      sources.Model
	Asked      sources.Asked // the request that the program was built for, without its outputs
	Takes      []sources.Port
	Outputs    []string // the program's own outputs
	RTol, ATol float64
	// Run compiles the model with these outputs and runs it. With exact, the program computes by the model's formulas.
	Run func(outputs []string, exact bool) ([]sources.Value, error)

	exact  bool
	order  []string // every tensor, in the order of the nodes
	origin map[string]origin
	want   map[string]sources.Value // by tensor: the reference's value; it has inputs too
	types  map[string]dtype.DType
}

// origin is the node that computes a tensor, and the tensor's index in the order.
type origin struct {
	sources.Origin
	at int
}

// Find compares the program's results, and then the model's with all tensors kept, with the reference. If results
// differ only while other tensors are not kept, it searches for those tensors. It returns nil if nothing differs. exact
// says that the program computes by the model's formulas.
func (c *Comparison) Find(results []sources.Value, exact bool) (d *Difference, err error) {
	c.exact = exact
	own := c.first(results)
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
	if !c.exact {
		c.exact = true
		end := 0
		if all == nil { // the difference shows if no tensor is kept
			end = len(c.order)
		}
		left, err := c.keeping(0, end)
		d.Exact = left == nil && err == nil
	}
	return d, c.Context.Err()
}

// Interpret evaluates the model with the reference. inputs are the tensors of Takes.
func (c *Comparison) Interpret(inputs []*tensor.Tensor) error {
	c.origin, c.want, c.types = map[string]origin{}, map[string]sources.Value{}, map[string]dtype.DType{}
	c.Model.Origins(func(name string, from sources.Origin) {
		if _, twice := c.origin[name]; name != "" && !twice {
			c.origin[name], c.order = origin{from, len(c.order)}, append(c.order, name)
		}
	})
	asked := c.Asked
	asked.Outputs = slices.Clone(c.order)
	for _, name := range c.Outputs {
		if _, computed := c.origin[name]; !computed {
			asked.Outputs = append(asked.Outputs, name) // an input, or a constant
			c.origin[name] = origin{sources.Origin{Node: name, Op: "an input or a constant"}, -1}
		}
	}
	built, err := c.Model.Build(c.Context, asked)
	if err != nil {
		return err
	}
	e := ir.NewEvaluation(nil)
	e.Ask = c.Context.Err
	results, err := e.Main(built.Module, inputs)
	if err != nil {
		return err
	}
	for k, ports := range [][]sources.Port{built.Outputs, c.Takes} {
		for _, p := range ports {
			if c.want[p.Name], err = p.ValueOf([][]*tensor.Tensor{results, inputs}[k]); err != nil {
				return err
			}
			c.types[p.Name] = p.Type.DType
		}
	}
	return nil
}

// first returns the first of a run's results that differs from the reference; nil if none does.
func (c *Comparison) first(values []sources.Value) *Difference {
	values = slices.Clone(values)
	slices.SortStableFunc(values, func(a, b sources.Value) int {
		return cmp.Compare(c.origin[a.Name].at, c.origin[b.Name].at)
	})
	for _, got := range values {
		if why := c.differs(got, c.want[got.Name]); why != "" {
			return c.difference(got.Name, why, nil)
		}
	}
	return nil
}

// differs describes how two values differ; it returns "" if they do not.
func (c *Comparison) differs(got, want sources.Value) string {
	if got.Absent != want.Absent || len(got.Tensors) != len(want.Tensors) {
		return fmt.Sprintf("it has %d tensors, not %d", len(got.Tensors), len(want.Tensors))
	}
	for i := range want.Tensors {
		if err := tensor.CompareAmong(got.Tensors[i], want.Tensors[i], c.RTol, c.ATol); err != nil {
			return err.Error()
		}
	}
	return ""
}

// keeping compiles the model with all tensors kept but those from begin to end of the order, runs it, and returns the
// first tensor that differs; nil if none does.
func (c *Comparison) keeping(begin, end int) (*Difference, error) {
	outputs := slices.Clone(c.Outputs)
	for i, name := range c.order {
		if (i < begin || i >= end) && !slices.Contains(c.Outputs, name) {
			outputs = append(outputs, name)
		}
	}
	values, err := c.Run(outputs, c.exact)
	if err != nil {
		return nil, err
	}
	return c.first(values), nil
}

// hidden finds the tensors that must not be kept for a difference to show: it halves the range of tensors that are not
// kept, from its end and from its beginning. own is the difference that shows if no tensor is kept.
func (c *Comparison) hidden(own *Difference) (*Difference, error) {
	begin, end := 0, len(c.order)
	found, err := c.keeping(begin, end)
	if found == nil || err != nil {
		return own, err // the budget causes the difference
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
		return own, c.Context.Err()
	}
	return c.difference(found.Tensor, found.Detail, c.order[begin:end]), nil
}

// difference describes a tensor that differs, with the nodes that compute it from tensors that are kept, and the values
// of these tensors.
func (c *Comparison) difference(name, why string, hidden []string) *Difference {
	from := c.origin[name]
	d := &Difference{Tensor: name, Node: from.Node, Op: from.Op, Detail: why,
		Hidden: slices.DeleteFunc(slices.Clone(hidden), func(h string) bool {
			return h == name
		}), model: c.Model, want: c.want[name], gives: c.types[name]}
	taken, nodes := map[string]bool{}, map[*wire.NodeProto]bool{}
	var add func(n *wire.NodeProto)
	add = func(n *wire.NodeProto) {
		if n == nil || nodes[n] {
			return
		}
		nodes[n] = true
		for _, input := range reads(n, nil) {
			if slices.Contains(hidden, input) {
				add(c.origin[input].Proto)
			} else if v, known := c.want[input]; known && !taken[input] {
				taken[input] = true
				d.inputs, d.types = append(d.inputs, v), append(d.types, c.types[input])
			}
		}
		d.nodes = append(d.nodes, n) // after the nodes whose results it reads
	}
	add(from.Proto)
	return d
}

// reads appends to names the tensors that a node reads, and those that its graphs read from outside.
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
