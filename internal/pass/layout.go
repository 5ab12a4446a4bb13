package pass

import (
	"fmt"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Layout makes convolutions read and write tensors with their channels last, [N, d…, C] instead of [N, C, d…], and with
// them operators between the convolutions. It chooses these operators by a minimum cut through the graph of a block, so
// that the fewest bytes are transposed. Constants are transposed while compiling.
//
// Layout gives some convolutions weights of zero for inputs that they do not see. If such an input is infinite, the
// result becomes NaN.
func Layout(m *ir.Module, costs recipes.Costs) error { return layoutOf(m, costs, false) }

// LayoutWithoutHoles is Layout without the added weights of zero.
func LayoutWithoutHoles(m *ir.Module, costs recipes.Costs) error { return layoutOf(m, costs, true) }

// layoutOf is LayoutWithoutHoles if withoutHoles is true, else Layout.
func layoutOf(m *ir.Module, costs recipes.Costs, withoutHoles bool) error {
	c := ir.NewInference(m)
	for _, f := range m.Funcs {
		l := &layout{Inference: c, costs: costs, withoutHoles: withoutHoles, replaced: map[*ir.Value]*ir.Value{},
			gone:   map[*ir.Value]bool{},
			needed: map[*ir.Value]bool{},
			holder: map[*ir.Value]*ir.Value{}}
		l.uses = uses(f.Body, map[*ir.Value]int{})
		l.blocks(f.Body)
	}
	return nil
}

// uses counts the uses of values in a block and the blocks inside it.
func uses(b *ir.Block, count map[*ir.Value]int) map[*ir.Value]int {
	for _, v := range b.Results {
		count[v]++
	}
	for _, n := range b.Nodes {
		for _, v := range n.Inputs {
			count[v]++
		}
		for _, region := range n.Regions {
			uses(region, count)
		}
	}
	return count
}

// form describes how a node is computed on tensors whose channels are last.
type form struct {
	images        []bool      // by operand: it has channels; transposing a constant costs nothing
	from          []*ir.Value // the operands; nil: the node's inputs
	inner         []*ir.Node  // nodes between the operands and this node, which no other node reads
	dropsChannels bool        // the result has no channels that could be last
	gain          int64       // bytes that may be transposed to compute the node in this form
	// build makes the node from its operands; the images among them have their channels last.
	build func(b *ir.Builder, n *ir.Node, in []*ir.Value) *ir.Value
}

// layout is the state of Layout for one function.
type layout struct {
	*ir.Inference
	costs        recipes.Costs
	withoutHoles bool                    // no weights of zero are added
	replaced     map[*ir.Value]*ir.Value // the value that replaces a value
	turned       map[*ir.Value]*ir.Value // a value with its channels last, in the current block
	gone         map[*ir.Value]bool      // values that are computed with their channels last
	needed       map[*ir.Value]bool      // values that a node reads with their channels first
	holder       map[*ir.Value]*ir.Value // the value that has the model's name for a value, if not the value itself
	consts       map[string]*ir.Value    // constants transposed in the current block, by name and permutation
	forms        map[*ir.Node]*form      // of the current block
	inner        map[*ir.Node]*ir.Node   // by node of the current block: the node to whose form it belongs
	uses         map[*ir.Value]int       // in the entire function
	pieces       map[*ir.Value]*pieces   // the pieces that values of the current block are joined from
	build        *ir.Builder
}

// current returns the value that replaces v, or v.
func (l *layout) current(v *ir.Value) *ir.Value {
	if p := l.replaced[v]; p != nil {
		return p
	}
	return v
}

// turnedBytes estimates the bytes that a transposition of v to channels last moves: almost none if only axes of 1 move.
func (l *layout) turnedBytes(v *ir.Value) int64 {
	if v.Const != nil {
		return 0
	}
	spatial := false
	for _, e := range v.Type.Shape[2:] {
		spatial = spatial || !isOne(e)
	}
	if !spatial || isOne(v.Type.Shape[1]) {
		return 1
	}
	return max(l.bytes(v), 1)
}

// bytes estimates the size of a value.
func (l *layout) bytes(v *ir.Value) int64 {
	count, err := sym.Product(v.Type.Shape...).Eval(func(name sym.Name) (int64, bool) {
		r, ok := l.Dims().Get(name)
		return min(max(r.Min, 16), r.Max), ok
	})
	if err != nil {
		return 1 << 20
	}
	size, err := v.Type.DType.Bytes(min(max(count, 0), 1<<40))
	if err != nil {
		return 1 << 20
	}
	return size
}

// cutWork is the number of steps for each node that the search for a cut may take.
const cutWork = 4096

// blocks applies the pass to a block, after the blocks inside it.
func (l *layout) blocks(b *ir.Block) {
	for _, n := range b.Nodes {
		for _, region := range n.Regions {
			l.blocks(region)
		}
	}
	l.forms, l.inner = map[*ir.Node]*form{}, map[*ir.Node]*ir.Node{}
	worth := false
	for _, n := range b.Nodes {
		if f := l.form(n); f != nil {
			l.forms[n] = f
			for _, inner := range f.inner {
				l.inner[inner] = n
			}
			worth = worth || f.gain == unbreakable
		}
	}
	if !worth {
		return
	}
	if chosen := l.choose(b); len(chosen) > 0 {
		l.rewrite(b, chosen)
	}
}

// form returns the form of a node; nil if it has none.
func (l *layout) form(n *ir.Node) *form {
	if len(n.Outputs) != 1 || n.Outputs[0].Bound || len(n.Regions) > 0 || n.Outputs[0].Type.DType == dtype.String ||
		ops.Last(n) {
		return nil
	}
	f := l.formOf(n)
	if f == nil || !f.dropsChannels && len(n.Outputs[0].Type.Shape) < 3 {
		return nil
	}
	if f.from == nil {
		f.from = n.Inputs
	}
	for i, image := range f.images {
		if image && (f.from[i] == nil || len(f.from[i].Type.Shape) < 3) {
			return nil
		}
	}
	return f
}

// choose finds the nodes that get their channels last: the nodes on the near side of a minimum cut, in which cutting a
// value costs its bytes.
func (l *layout) choose(b *ir.Block) map[*ir.Node]bool {
	g := &network{}
	g.node()        // near: channels last
	far := g.node() // and not
	nodes := map[*ir.Node]int32{}
	// sides are two nodes of the network for a value: first stands between the producer and the readers that need the
	// channels first, last between the readers that need the channels last and the producer.
	type sides struct{ first, last int32 }
	of := map[*ir.Value]sides{}
	side := func(v *ir.Value) (sides, bool) {
		if v == nil || v.Const != nil || len(v.Type.Shape) < 3 {
			return sides{}, false
		}
		if s, ok := of[v]; ok {
			return s, true
		}
		producer := far
		if at, ok := nodes[v.Node]; ok && !l.forms[v.Node].dropsChannels {
			producer = at
		}
		s := sides{g.node(), g.node()}
		price := l.turnedBytes(v)
		g.join(producer, s.first, price)
		g.join(s.last, producer, price)
		of[v] = s
		return s, true
	}
	asItIs := func(v *ir.Value) {
		if s, ok := side(v); ok {
			g.join(s.first, far, unbreakable)
		}
	}
	for _, n := range b.Nodes {
		if l.inner[n] != nil {
			continue
		}
		f := l.forms[n]
		if f == nil {
			for _, v := range n.Inputs {
				asItIs(v)
			}
			for _, v := range outside(n) {
				asItIs(v)
			}
			continue
		}
		at := g.node()
		nodes[n] = at
		g.join(0, at, f.gain)
		for i, v := range f.from {
			if !f.images[i] {
				asItIs(v)
			} else if s, ok := side(v); ok {
				g.join(s.first, at, unbreakable)
				g.join(at, s.last, unbreakable)
			}
		}
	}
	for _, v := range b.Results {
		asItIs(v)
	}
	near := g.cut(cutWork * int64(len(g.head)))
	chosen := map[*ir.Node]bool{}
	for n, at := range nodes {
		if near != nil && near[at] {
			chosen[n] = true
		}
	}
	return chosen
}

// outside lists the values that the blocks inside a node read and return.
func outside(n *ir.Node) []*ir.Value {
	var list []*ir.Value
	for _, region := range n.Regions {
		list = append(list, region.Results...)
		for _, inner := range region.Nodes {
			list = append(append(list, inner.Inputs...), outside(inner)...)
		}
	}
	return list
}

// rewrite builds the chosen nodes with their channels last.
func (l *layout) rewrite(b *ir.Block, chosen map[*ir.Node]bool) {
	for _, n := range b.Nodes {
		if chosen[l.inner[n]] {
			continue
		}
		from := n.Inputs
		if chosen[n] {
			from = l.forms[n].from
		}
		for i, v := range from {
			if v != nil && !(chosen[n] && l.forms[n].images[i]) {
				l.needed[v] = true
			}
		}
		for _, v := range outside(n) {
			if v != nil {
				l.needed[v] = true
			}
		}
	}
	for _, v := range b.Results {
		l.needed[v] = true
	}
	old := b.Nodes
	b.Nodes = make([]*ir.Node, 0, len(old))
	l.build, l.turned, l.consts = ir.NewBuilder(l.Inference, b), map[*ir.Value]*ir.Value{}, map[string]*ir.Value{}
	l.pieces = map[*ir.Value]*pieces{}
	for _, n := range old {
		if chosen[l.inner[n]] || chosen[n] && l.last(n, l.forms[n]) {
			continue
		}
		for i, v := range n.Inputs {
			n.Inputs[i] = l.asItWas(v)
		}
		for _, v := range outside(n) {
			l.asItWas(v) // ahead of the node
		}
		for _, region := range n.Regions {
			l.replace(region)
		}
		b.Nodes = append(b.Nodes, n)
	}
	for i, v := range b.Results {
		b.Results[i] = l.asItWas(v)
	}
}

// replace makes an inner block read the replacements of outer values.
func (l *layout) replace(b *ir.Block) {
	for _, n := range b.Nodes {
		for i, v := range n.Inputs {
			if v != nil {
				n.Inputs[i] = l.current(v)
			}
		}
		for _, region := range n.Regions {
			l.replace(region)
		}
	}
	for i, v := range b.Results {
		b.Results[i] = l.current(v)
	}
}

// asItWas returns a value with its channels in their original position.
func (l *layout) asItWas(v *ir.Value) *ir.Value {
	if l.gone[v] && l.replaced[v] == nil {
		p := l.transposed(l.turned[v], ops.ChannelsFirst(len(v.Type.Shape)), v)
		p.Known = v.Known
		l.named(p, v)
		l.replaced[v] = p
	}
	return l.current(v)
}

// named moves the model's name for v to x, from v or from the value that took it before.
func (l *layout) named(x, v *ir.Value) {
	holder := v
	if l.holder[v] != nil {
		holder = l.holder[v]
	}
	x.TakeName(holder)
	l.holder[v] = x
}

// transposed returns v with its axes permuted, by a node with the source of the node that computes like.
func (l *layout) transposed(v *ir.Value, perm []int64, like *ir.Value) *ir.Value {
	source := l.build.Source
	if like.Node != nil {
		l.build.Source = like.Node.Source
	}
	defer func() { l.build.Source = source }()
	return ops.Transpose(l.build, v, perm...)
}

// withLast returns a value with its channels last.
func (l *layout) withLast(v *ir.Value) *ir.Value {
	if t := l.turned[v]; t != nil {
		return t
	}
	t := l.constant(v, v.Type.Shape, ops.ChannelsLast(len(v.Type.Shape)))
	if t == nil {
		t = l.transposed(l.current(v), ops.ChannelsLast(len(v.Type.Shape)), v)
	}
	l.turned[v] = t
	return t
}

// unbuilt, if not nil, reports which nodes cannot be built with their channels last. Tests set it.
var unbuilt func(n *ir.Node) bool

// last builds a node with its channels last; false if that fails.
func (l *layout) last(n *ir.Node, f *form) bool {
	in := make([]*ir.Value, len(f.from))
	for i, v := range f.from {
		if v != nil && f.images[i] {
			in[i] = l.withLast(v)
		} else {
			in[i] = l.asItWas(v)
		}
	}
	m, out := l.Module, n.Outputs[0]
	undo, nodes := l.Tentative(), len(l.build.Block.Nodes)
	l.build.Source = n.Source
	var result *ir.Value
	var err error
	func() {
		defer ir.Catch(&err)
		result = f.build(l.build, n, in)
	}()
	more := undo()
	want := out.Type
	if !f.dropsChannels {
		want.Shape = permutedShape(want.Shape, ops.ChannelsLast(len(want.Shape)))
	}
	if err != nil || more || !sameType(m.Dims, result.Type, want) || unbuilt != nil && unbuilt(n) {
		l.build.Block.Nodes = l.build.Block.Nodes[:nodes]
		for _, inner := range f.inner {
			for i, v := range inner.Inputs {
				inner.Inputs[i] = l.asItWas(v)
			}
			l.build.Block.Nodes = append(l.build.Block.Nodes, inner)
		}
		return false
	}
	fresh := len(l.build.Block.Nodes) > nodes && l.build.Block.Nodes[len(l.build.Block.Nodes)-1] == result.Node
	if f.dropsChannels {
		l.replaced[out] = result
	} else {
		l.turned[out], l.gone[out] = result, true
	}
	if fresh && (f.dropsChannels || !l.needed[out]) {
		l.named(result, out)
	}
	return true
}

// permutedShape returns a shape with its axes permuted.
func permutedShape(shape []sym.Expr, perm []int64) []sym.Expr {
	out := make([]sym.Expr, len(shape))
	for i, p := range perm {
		out[i] = shape[p]
	}
	return out
}

// constant returns the constant v under another shape, with its axes permuted; nil if v is no constant or cannot be
// permuted.
func (l *layout) constant(v *ir.Value, shape []sym.Expr, perm []int64) *ir.Value {
	if v.Const == nil {
		return nil
	}
	sizes := make([]int64, len(shape))
	for i, e := range shape {
		sizes[i], _ = e.Const()
	}
	key := fmt.Sprintf("%s %v %v", v.Name, sizes, perm)
	if c := l.consts[key]; c != nil {
		return c
	}
	t, err := tensor.Permuted(v.Const, sizes, perm)
	if err != nil {
		return nil
	}
	settled(t)
	l.consts[key] = l.build.Constant(v.Name, t)
	return l.consts[key]
}
