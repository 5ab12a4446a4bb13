package pass

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Narrow leaves out work that nobody reads: where all readers of a value read one and the same slice of it along an axis, only that is computed. Slices move up in this way
// through products, attention, normalisation and softmax along other axes, reductions, functions of single elements, and what moves elements, as far as the moved
// work is more than such functions: those are computed where they are read anyway.
func Narrow(m *ir.Module) error {
	c := ir.NewInference(m)
	for _, f := range m.Funcs {
		n := &narrowing{Inference: c, uses: map[*ir.Value]int{}}
		n.count(f.Body)
		n.within(f.Body)
	}
	return nil
}

// cut is the part of an axis that is read: extent elements from begin on, in steps of step, which is not 0. The zero cut is the whole axis.
type cut struct {
	begin, extent sym.Expr
	step          int64
}

func (c cut) whole() bool { return c.step == 0 }

func (c cut) equal(o cut) bool {
	return c.step == o.step && (c.whole() || c.begin.Equal(o.begin) && c.extent.Equal(o.extent))
}

// part is what is read of a value: a cut for each axis.
type part []cut

func (p part) whole() bool { return !slices.ContainsFunc(p, func(c cut) bool { return !c.whole() }) }

// shape is the shape of a part of a value of the given shape.
func (p part) shape(of []sym.Expr) []sym.Expr {
	shape := slices.Clone(of)
	for i, c := range p {
		if !c.whole() {
			shape[i] = c.extent
		}
	}
	return shape
}

// reading says how a node computes a part of its result: made, which may be more than was wanted, from parts of its inputs (nil: all of it).
type reading struct {
	made  part
	in    []part
	attrs ir.Attrs // nil: the node's own
}

// narrowing is the pass at work on one function.
type narrowing struct {
	*ir.Inference
	uses     map[*ir.Value]int
	wanted   map[*ir.Value]part // what the nodes behind read of a value
	readings map[*ir.Node]reading
	worth    map[*ir.Value]bool // values that are narrowed
	made     map[*ir.Value]made
}

// made is a part of a value that stands in its place.
type made struct {
	value *ir.Value
	part  part
}

// within narrows what a block computes, and what the blocks inside it compute.
func (n *narrowing) within(b *ir.Block) {
	n.wanted, n.readings = map[*ir.Value]part{}, map[*ir.Node]reading{}
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

// count counts the nodes that read each value.
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

// want notes that a part of a value is read: nil is all of it.
func (n *narrowing) want(v *ir.Value, p part) {
	if v == nil {
		return
	}
	before, seen := n.wanted[v]
	if !seen {
		if p == nil {
			p = make(part, len(v.Type.Shape))
		}
		n.wanted[v] = slices.Clone(p)
		return
	}
	for i := range before {
		if p == nil || !before[i].equal(p[i]) {
			before[i] = cut{}
		}
	}
}

// ask finds out what is read of each value of a block, from its results to its parameters.
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
				n.want(v, r.in[j])
			} else {
				n.want(v, nil)
			}
		}
		if ok {
			n.readings[node] = r
		}
	}
}

// askAll notes that the nodes of an inner block read all of what they read.
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

// reading is how a node computes what is read of its result; false where it computes all of it.
func (n *narrowing) reading(node *ir.Node) (reading, bool) {
	if len(node.Outputs) != 1 || node.Outputs[0].Bound || len(node.Regions) > 0 {
		return reading{}, false
	}
	out, name := node.Outputs[0], node.Op.Name()
	want := n.wanted[out]
	if want == nil {
		want = make(part, len(out.Type.Shape))
	}
	if name == "slice" {
		return n.ofSlice(node, want)
	}
	rule := narrows[name]
	switch {
	case rule != nil:
	case ops.Elementwise(node):
		rule = (*narrowing).ofFunction
	case strings.HasPrefix(name, "reduce_"):
		rule = (*narrowing).ofReduction
	}
	want = slices.Clone(want)
	for i, extent := range out.Type.Shape {
		if isOne(extent) {
			want[i] = cut{} // it may be stretched, or be what is left of a reduced axis
		}
	}
	if rule == nil || want.whole() {
		return reading{}, false
	}
	r, ok := rule(n, node, want)
	return r, ok && !r.made.whole()
}

// narrows are the operators through which slices move, beside functions of single elements and reductions.
var narrows = map[string]func(n *narrowing, node *ir.Node, want part) (reading, bool){
	"matmul":      (*narrowing).ofProduct,
	"attention":   (*narrowing).ofAttention,
	"normalize":   along("axes"),
	"softmax":     along("axis"),
	"log_softmax": along("axis"),
	"concat":      (*narrowing).ofConcat,
	"transpose":   (*narrowing).ofTranspose,
	"reshape":     (*narrowing).ofReshape,
	"expand":      (*narrowing).ofExpand,
	"rotate":      (*narrowing).ofRotation,
}

// movesOnly are the operators that are no work of their own, or are computed where they are read.
func movesOnly(n *ir.Node) bool {
	return ops.Elementwise(n) || slices.Contains([]string{"slice", "concat", "transpose", "reshape", "expand", "rotate"}, n.Op.Name())
}

// ofSlice: a slice of a part is a part. A slice always has a reading, of what it takes.
func (n *narrowing) ofSlice(node *ir.Node, want part) (reading, bool) {
	x, extent, step := node.Inputs[0], node.Attrs.Exprs("extent"), node.Attrs.Ints("step")
	in := make(part, len(want))
	for i, begin := range node.Attrs.Exprs("begin") {
		in[i] = cut{begin, extent[i], step[i]}
		if c := want[i]; !c.whole() {
			in[i] = cut{n.Dims().Simplify(begin.Add(c.begin.Mul(sym.Const(step[i])))), c.extent, step[i] * c.step}
		}
		if at, ok := in[i].begin.Const(); ok && at == 0 && in[i].step == 1 && n.Dims().EQ(in[i].extent, x.Type.Shape[i]) == sym.Yes || isOne(x.Type.Shape[i]) && isOne(in[i].extent) {
			in[i] = cut{}
		}
		if in[i].step > 1<<31 || in[i].step < -1<<31 {
			return reading{}, false
		}
	}
	return reading{made: want, in: []part{in}}, true
}

// stretched is what is read of an operand that is broadcast to a result of which a part is wanted.
func stretched(v *ir.Value, want part) part {
	if v == nil {
		return nil
	}
	in := make(part, len(v.Type.Shape))
	for i, extent := range v.Type.Shape {
		if !isOne(extent) {
			in[i] = want[len(want)-len(in)+i]
		}
	}
	return in
}

func (n *narrowing) ofFunction(node *ir.Node, want part) (reading, bool) {
	r := reading{made: want}
	for _, v := range node.Inputs {
		r.in = append(r.in, stretched(v, want))
	}
	return r, true
}

func (n *narrowing) ofExpand(node *ir.Node, want part) (reading, bool) {
	return reading{made: want, in: []part{stretched(node.Inputs[0], want)}, attrs: ir.Attrs{"shape": want.shape(node.Outputs[0].Type.Shape)}}, true
}

// ofRotation: the last axis is turned in pairs.
func (n *narrowing) ofRotation(node *ir.Node, want part) (reading, bool) {
	want[len(want)-1] = cut{}
	return n.ofFunction(node, want)
}

// along is a rule for operators that combine the elements along the axes of an attribute, and keep the others apart.
func along(attr string) func(n *narrowing, node *ir.Node, want part) (reading, bool) {
	return func(n *narrowing, node *ir.Node, want part) (reading, bool) {
		axes := node.Attrs.Ints(attr)
		if axes == nil {
			if _, listed := node.Attrs[attr]; !listed && attr == "axes" {
				return reading{}, false
			}
			axes = []int64{node.Attrs.Int(attr, -1)}
		}
		for _, a := range axes {
			want[(int(a)+len(want))%len(want)] = cut{}
		}
		return reading{made: want, in: []part{want}}, true
	}
}

func (n *narrowing) ofReduction(node *ir.Node, want part) (reading, bool) {
	x := node.Inputs[0].Type.Shape
	axes, listed := node.Attrs["axes"].([]int64)
	if !listed || len(node.Inputs) != 1 {
		return reading{}, false
	}
	in, next := make(part, len(x)), 0
	for i := range x {
		gone := slices.Contains(axes, int64(i)) || slices.Contains(axes, int64(i-len(x)))
		if !gone {
			in[i] = want[next]
		}
		if !gone || node.Attrs.Bool("keep") {
			next++
		}
	}
	return reading{made: want, in: []part{in}}, true
}

func (n *narrowing) ofTranspose(node *ir.Node, want part) (reading, bool) {
	in := make(part, len(want))
	for i, p := range permutation(node) {
		in[p] = want[i]
	}
	return reading{made: want, in: []part{in}}, true
}

func (n *narrowing) ofConcat(node *ir.Node, want part) (reading, bool) {
	axis := int(node.Attrs.Int("axis", 0))
	want[(axis+len(want))%len(want)] = cut{}
	return reading{made: want, in: slices.Repeat([]part{want}, len(node.Inputs))}, true
}

// ofReshape: axes that a reshape leaves as they are, counted from either end without those of 1, are cut before it as well as after it.
func (n *narrowing) ofReshape(node *ir.Node, want part) (reading, bool) {
	from, to := node.Inputs[0].Type.Shape, node.Outputs[0].Type.Shape
	in, kept := make(part, len(from)), make(part, len(to))
	several := func(shape []sym.Expr) (axes []int) {
		for i, e := range shape {
			if !isOne(e) {
				axes = append(axes, i)
			}
		}
		return axes
	}
	a, b := several(from), several(to)
	same := func(i, j int) bool { return from[i].Equal(to[j]) || n.Dims().EQ(from[i], to[j]) == sym.Yes }
	keep := func(i, j int) { in[i], kept[j] = want[j], want[j] }
	for len(a) > 0 && len(b) > 0 && same(a[0], b[0]) {
		keep(a[0], b[0])
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && same(a[len(a)-1], b[len(b)-1]) {
		keep(a[len(a)-1], b[len(b)-1])
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return reading{made: kept, in: []part{in}, attrs: ir.Attrs{"shape": kept.shape(to)}}, true
}

// ofProduct: rows of the result are rows of the left operand, columns are columns of the right one.
func (n *narrowing) ofProduct(node *ir.Node, want part) (reading, bool) {
	x, y := node.Inputs[0], node.Inputs[1]
	last := len(want) - 1
	if !n.free(x) {
		want[last-1] = cut{}
	}
	if !n.free(y) {
		want[last] = cut{}
	}
	side := func(v *ir.Value, own cut, turned bool, at int) part {
		rank := len(v.Type.Shape)
		in := append(stretched(v, want)[:rank-2:rank-2], cut{}, cut{})
		if turned {
			at = 1 - at
		}
		in[rank-2+at] = own
		return in
	}
	return reading{made: want, in: []part{side(x, want[last-1], node.Attrs.Bool("transpose_a"), 0), side(y, want[last], node.Attrs.Bool("transpose_b"), 1)}}, true
}

// free reports whether a part of a value may be made: a second copy of a constant that is read elsewhere too would take memory.
func (n *narrowing) free(v *ir.Value) bool { return v.Const == nil || n.uses[v] == 1 }

// ofAttention: queries are apart from one another, and so are sequences, and heads that have keys of their own.
func (n *narrowing) ofAttention(node *ir.Node, want part) (reading, bool) {
	q, k := node.Inputs[0], node.Inputs[1]
	if len(node.Inputs) > 4 {
		want[0], want[1], want[3] = cut{}, cut{}, cut{}
	}
	if n.Dims().EQ(q.Type.Shape[1], k.Type.Shape[1]) != sym.Yes {
		want[1] = cut{}
	}
	if node.Attrs.Bool("causal") && want[2].step != 1 {
		want[2] = cut{}
	}
	r := reading{made: want, in: []part{{want[0], want[1], want[2], {}}, {want[0], want[1], {}, {}}, {want[0], want[1], {}, want[3]}}}
	if len(node.Inputs) > 3 {
		r.in = append(r.in, stretched(node.Inputs[3], part{want[0], want[1], {}, want[2]}))
	}
	for range node.Inputs[min(len(node.Inputs), 4):] {
		r.in = append(r.in, nil)
	}
	if past, ok := node.Attrs["past"].(sym.Expr); ok && !want[2].whole() {
		r.attrs = maps.Clone(node.Attrs)
		r.attrs["past"] = past.Add(want[2].begin)
	}
	return r, true
}

// choose finds the values that are worth to be narrowed: there is work that gets less among what they are computed from. It reports whether there are any.
func (n *narrowing) choose(b *ir.Block) bool {
	found := false
	for _, node := range b.Nodes {
		r, ok := n.readings[node]
		if !ok {
			continue
		}
		worth := !movesOnly(node)
		for i, v := range node.Inputs {
			worth = worth || r.in[i] != nil && n.worth[v]
		}
		n.worth[node.Outputs[0]], found = worth, found || worth
	}
	return found
}

// rebuild computes the values that are worth it in part.
func (n *narrowing) rebuild(b *ir.Block) {
	m := n.Module
	requires, proved := len(m.Requires), len(m.Proved)
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
			if node.Op.Name() == "slice" {
				v := n.part(builder, node.Inputs[0], r.in[0])
				if v.Node != nil && slices.Contains(into.Nodes, v.Node) && v.Node.Op.Name() == "slice" {
					v.TakeName(out)
				}
				n.made[out] = made{v, r.made}
				continue
			}
			inputs := make([]*ir.Value, len(node.Inputs))
			for i, v := range node.Inputs {
				inputs[i] = n.part(builder, v, r.in[i])
			}
			attrs := r.attrs
			if attrs == nil {
				attrs = node.Attrs
			}
			v := builder.Op(node.Op.Name(), attrs, inputs...)
			v.TakeName(out)
			n.made[out] = made{v, r.made}
			names = append(names, "less "+node.Op.Name())
		}
	}()
	more := len(m.Requires) > requires
	m.Requires, m.Proved = m.Requires[:requires], m.Proved[:proved]
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

// part is a part of a value: what was made of it, or a slice of that.
func (n *narrowing) part(b *ir.Builder, v *ir.Value, p part) *ir.Value {
	if v == nil {
		return nil
	}
	have := made{v, make(part, len(v.Type.Shape))}
	if m, ok := n.made[v]; ok {
		have = m
	}
	shape := have.value.Type.Shape
	begin, step, sliced := make([]sym.Expr, len(shape)), make([]int64, len(shape)), false
	extent := slices.Clone(shape)
	for i := range shape {
		step[i] = 1
		if p != nil && !p[i].whole() && !have.part[i].equal(p[i]) {
			begin[i], extent[i], step[i], sliced = p[i].begin, p[i].extent, p[i].step, true
		}
	}
	if !sliced {
		return have.value
	}
	return ops.Slice(b, have.value, begin, extent, step)
}

// substitute reads what was made where slices were that took just that.
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
