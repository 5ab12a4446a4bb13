package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Narrow removes work whose results no node reads: if all readers of a value read the same slice of it along an axis,
// only the slice is computed. Slices move up through every operator that can compute a section of its result
// (ops.Def.Narrow), if that reduces the work above. Light operators do not count as work: their readers compute them.
func Narrow(m *ir.Module) error {
	c := ir.NewInference(m)
	for _, f := range m.Funcs {
		n := &narrowing{Inference: c, uses: map[*ir.Value]int{}}
		n.count(f.Body)
		n.within(f.Body)
	}
	return nil
}

// narrowing is the state of Narrow for one function.
type narrowing struct {
	*ir.Inference
	uses     map[*ir.Value]int
	wanted   map[*ir.Value]ops.Section // the section of a value that later nodes read
	readings map[*ir.Node]ops.Reading
	worth    map[*ir.Value]bool // values that are narrowed
	made     map[*ir.Value]made
}

// made is the section of a value that replaces it.
type made struct {
	value   *ir.Value
	section ops.Section
}

// within narrows the values of a block, and of the blocks inside it.
func (n *narrowing) within(b *ir.Block) {
	n.wanted, n.readings = map[*ir.Value]ops.Section{}, map[*ir.Node]ops.Reading{}
	n.worth, n.made = map[*ir.Value]bool{}, map[*ir.Value]made{}
	n.ask(b)
	if n.choose(b) {
		n.rebuild(b)
	}
	for _, node := range b.Nodes {
		for _, region := range node.Regions {
			n.within(region)
		}
	}
}

// count counts the readers of each value.
func (n *narrowing) count(b *ir.Block) {
	for _, node := range b.Nodes {
		for _, v := range node.Inputs {
			n.uses[v]++
		}
		for _, region := range node.Regions {
			n.count(region)
		}
	}
}

// want notes that a section of a value is read; nil means all of it.
func (n *narrowing) want(v *ir.Value, p ops.Section) {
	if v == nil {
		return
	}
	before, seen := n.wanted[v]
	if !seen {
		if p == nil {
			p = make(ops.Section, len(v.Type.Shape))
		}
		n.wanted[v] = slices.Clone(p)
		return
	}
	for i := range before {
		if p == nil || !before[i].Equal(p[i]) {
			before[i] = ops.AxisSection{}
		}
	}
}

// ask finds the section of each value of a block that is read, from the results back to the parameters.
func (n *narrowing) ask(b *ir.Block) {
	for _, v := range b.Results {
		n.want(v, nil)
	}
	for _, node := range b.Nodes {
		for _, region := range node.Regions {
			n.askAll(region)
		}
	}
	for i := len(b.Nodes) - 1; i >= 0; i-- {
		node := b.Nodes[i]
		r, ok := n.reading(node)
		for j, v := range node.Inputs {
			if ok {
				n.want(v, r.In[j])
			} else {
				n.want(v, nil)
			}
		}
		if ok {
			n.readings[node] = r
		}
	}
}

// askAll notes that the nodes of an inner block read entire values.
func (n *narrowing) askAll(b *ir.Block) {
	for _, v := range b.Results {
		n.want(v, nil)
	}
	for _, node := range b.Nodes {
		for _, v := range node.Inputs {
			n.want(v, nil)
		}
		for _, region := range node.Regions {
			n.askAll(region)
		}
	}
}

// reading returns how a node computes the section of its result that is read; ok is false if it computes all of it.
func (n *narrowing) reading(node *ir.Node) (r ops.Reading, ok bool) {
	if len(node.Outputs) != 1 || node.Outputs[0].Bound || len(node.Regions) > 0 {
		return ops.Reading{}, false
	}
	out := node.Outputs[0]
	want := n.wanted[out]
	if want == nil {
		want = make(ops.Section, len(out.Type.Shape))
	}
	def := ops.Of(node)
	asked := ops.NarrowContext{Dims: n.Dims(), Shared: func(v *ir.Value) bool { return v.Const != nil && n.uses[v] != 1 }}
	if def.Cut != nil {
		return def.Cut(asked, node, want)
	}
	if def.Narrow == nil {
		return ops.Reading{}, false
	}
	want = slices.Clone(want)
	for i, extent := range out.Type.Shape {
		if isOne(extent) {
			want[i] = ops.AxisSection{} // it may be broadcast, or be a reduced axis
		}
	}
	if want.Full() {
		return ops.Reading{}, false
	}
	r, ok = def.Narrow(asked, node, want)
	return r, ok && !r.Made.Full()
}

// choose finds the values whose narrowing reduces work, and reports whether there are any.
func (n *narrowing) choose(b *ir.Block) bool {
	found := false
	for _, node := range b.Nodes {
		r, ok := n.readings[node]
		if !ok {
			continue
		}
		worth := !ops.Elementwise(node) && !ops.Of(node).Light // a light one is computed where it is read
		for i, v := range node.Inputs {
			worth = worth || r.In[i] != nil && n.worth[v]
		}
		n.worth[node.Outputs[0]], found = worth, found || worth
	}
	return found
}

// rebuild computes only the sections that are read of the values that choose found.
func (n *narrowing) rebuild(b *ir.Block) {
	undo := n.Tentative()
	into := &ir.Block{}
	builder := ir.NewBuilder(n.Inference, into)
	var err error
	var names []string
	func() {
		defer ir.Catch(&err)
		for _, node := range b.Nodes {
			r, ok := n.readings[node]
			if !ok || !n.worth[node.Outputs[0]] {
				into.Nodes = append(into.Nodes, node)
				continue
			}
			out := node.Outputs[0]
			builder.Source = node.Source
			if ops.Of(node).Cut != nil {
				v := n.section(builder, node.Inputs[0], r.In[0])
				if v.Node != nil && slices.Contains(into.Nodes, v.Node) && ops.Of(v.Node).Cut != nil {
					v.TakeName(out)
				}
				n.made[out] = made{v, r.Made}
				continue
			}
			inputs := make([]*ir.Value, len(node.Inputs))
			for i, v := range node.Inputs {
				inputs[i] = n.section(builder, v, r.In[i])
			}
			attrs := r.Attrs
			if attrs == nil {
				attrs = node.Attrs
			}
			v := builder.Op(node.Op.Name(), attrs, inputs...)
			v.TakeName(out)
			n.made[out] = made{v, r.Made}
			names = append(names, "less "+node.Op.Name())
		}
	}()
	more := undo()
	if err != nil || more {
		return
	}
	for _, name := range names {
		if fired != nil {
			fired(name)
		}
	}
	b.Nodes = into.Nodes
	b.Consts = append(b.Consts, into.Consts...)
	n.substitute(b)
}

// section returns a section of a value: the section that was made of it, or a slice of that section.
func (n *narrowing) section(b *ir.Builder, v *ir.Value, p ops.Section) *ir.Value {
	if v == nil {
		return nil
	}
	have := made{v, make(ops.Section, len(v.Type.Shape))}
	if m, ok := n.made[v]; ok {
		have = m
	}
	shape := have.value.Type.Shape
	begin, step, sliced := make([]sym.Expr, len(shape)), make([]int64, len(shape)), false
	extent := slices.Clone(shape)
	for i := range shape {
		step[i] = 1
		if p != nil && !p[i].Full() && !have.section[i].Equal(p[i]) {
			begin[i], extent[i], step[i], sliced = p[i].Begin, p[i].Extent, p[i].Step, true
		}
	}
	if !sliced {
		return have.value
	}
	return ops.Slice(b, have.value, begin, extent, step)
}

// substitute replaces values by the sections that were made of them.
func (n *narrowing) substitute(b *ir.Block) {
	current := func(v *ir.Value) *ir.Value {
		if m, ok := n.made[v]; ok && v != nil {
			return m.value
		}
		return v
	}
	for i, v := range b.Results {
		b.Results[i] = current(v)
	}
	for _, node := range b.Nodes {
		for i, v := range node.Inputs {
			node.Inputs[i] = current(v)
		}
		for _, region := range node.Regions {
			n.substitute(region)
		}
	}
}
