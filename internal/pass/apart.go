package pass

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Joint says where and how entries of an axis come to depend on each other, or on their number.
type Joint struct {
	Node, Op string // of the node; empty if it is about an input or an output
	Tensor   string
	Detail   string
}

// Apart returns, for each dimension that is the first axis of a parameter, nil if each entry of every result along its
// first axis is computed from the same entry of the parameters that begin with the dimension, and from values that are
// equal for all entries; otherwise the first node for which this is not known. It reads the module only.
func Apart(m *ir.Module) map[sym.Name]*Joint {
	found := map[sym.Name]*Joint{}
	for _, p := range m.Main.Body.Params {
		if len(p.Type.Shape) == 0 {
			continue
		}
		if name, ok := p.Type.Shape[0].Name(); ok {
			if _, done := found[name]; !done {
				found[name] = newParting(m, name).main()
			}
		}
	}
	return found
}

// parting follows one dimension through a module. Values without an entry in axes and joints are equal for all entries
// of the dimension, and for any number of them.
type parting struct {
	module *ir.Module
	dim    sym.Expr
	name   sym.Name
	// decides tells of a dimension whether entries, or their number, decide its size; dimensions that are not in it come
	// from values that are not visited yet.
	decides map[sym.Name]bool
	axes    map[*ir.Value]int // an axis whose extent is a multiple of the dimension's, with equally many places per entry
	joints  map[*ir.Value]*Joint
	// positions are of integers: those with a Step depend on the numbers of their entries.
	positions map[*ir.Value]ops.Position
}

// newParting marks the parameters.
func newParting(m *ir.Module, name sym.Name) *parting {
	p := &parting{module: m, name: name, decides: map[sym.Name]bool{name: true}, axes: map[*ir.Value]int{},
		joints: map[*ir.Value]*Joint{}, positions: map[*ir.Value]ops.Position{}}
	params := m.Main.Body.Params
	for _, v := range params {
		p.settle(v, false)
	}
	for _, v := range params {
		first := len(v.Type.Shape) > 0 && isName(v.Type.Shape[0], name)
		if first {
			p.dim = v.Type.Shape[0]
		}
		switch rest := v.Type.Shape; {
		case first && !p.mentions(rest[1:]...):
			p.axes[v] = 0
		case p.mentions(rest...):
			p.joints[v] = &Joint{Tensor: v.Name, Detail: "it has the dimension in another place than as its first axis"}
		}
		p.settleElements(v)
	}
	return p
}

// settle records of the dimensions in a value's shape that are new whether entries decide them.
func (p *parting) settle(v *ir.Value, decides bool) { p.settleAll(v.Type.Shape, decides) }

// settleElements is settle for the elements of a value that are dimensions.
func (p *parting) settleElements(v *ir.Value) {
	if v.Bound {
		_, rows := p.axes[v]
		p.settleAll(v.Known, rows || p.joints[v] != nil)
	}
}

// settleAll records of the dimensions in formulas that are new whether entries decide them. A dimension that stands for
// a formula has it as its limit.
func (p *parting) settleAll(list []sym.Expr, decides bool) {
	for _, e := range list {
		for _, name := range e.Vars() {
			if _, known := p.decides[name]; known {
				continue
			}
			p.decides[name] = decides
			if limit, limited := p.module.Limits[name]; limited && !decides {
				p.settleAll([]sym.Expr{limit}, false)
				p.decides[name] = p.mentions(limit)
			}
		}
	}
}

// isName reports whether an extent is the dimension with this name.
func isName(e sym.Expr, name sym.Name) bool {
	n, ok := e.Name()
	return ok && n == name
}

// mentions reports whether formulas depend on the dimension, or on one that entries may decide.
func (p *parting) mentions(list ...sym.Expr) bool {
	return slices.ContainsFunc(list, func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(n sym.Name) bool { return p.decides[n] })
	})
}

// main follows the dimension through the main function, and checks the results.
func (p *parting) main() *Joint {
	body := p.module.Main.Body
	p.block(body)
	for i, v := range body.Results {
		if j := p.joints[v]; j != nil {
			return j
		}
		if !p.positions[v].Common() {
			return &Joint{Tensor: v.Name, Detail: "the numbers of the rows are a result"}
		}
		if axis, is := p.axes[v]; !is || axis != 0 || !isName(v.Type.Shape[0], p.name) {
			return &Joint{Tensor: v.Name, Detail: fmt.Sprintf("the rows are not the first axis of result %d", i)}
		}
	}
	if len(p.module.Main.States) > 0 {
		return &Joint{Detail: "runs update states"}
	}
	return nil
}

// block follows the dimension through a block's nodes, in order.
func (p *parting) block(b *ir.Block) {
	for _, n := range b.Nodes {
		p.node(n)
		for _, v := range n.Outputs {
			if v == nil || v.Known == nil {
				continue
			}
			if v.Bound { // the formulas are what the node computes
				p.settleElements(v)
				continue
			}
			// All elements are formulas: they do not depend on what the node reads, except through dimensions.
			delete(p.axes, v)
			if delete(p.joints, v); p.mentions(v.Known...) {
				p.joints[v] = joint(n, "the number of rows, or a size that rows decide, reaches its elements")
			}
		}
	}
}

// joint returns the Joint of a node.
func joint(n *ir.Node, detail string) *Joint {
	j := &Joint{Node: n.Source, Op: n.Op.Name(), Detail: detail}
	if len(n.Outputs) > 0 && n.Outputs[0] != nil {
		j.Tensor = n.Outputs[0].Name
	}
	return j
}

// node finds the axes or the joint of a node's results.
func (p *parting) node(n *ir.Node) {
	give := func(j *Joint) {
		for _, v := range n.Outputs {
			if v != nil {
				p.joints[v] = j
			}
		}
	}
	common := true
	for _, v := range valuesOf(n) {
		if j := p.joints[v]; j != nil && v.Const == nil {
			give(j)
			return
		}
		if _, of := p.axes[v]; of {
			common = false
		}
	}
	p.eachSize(n, func(list []sym.Expr) bool {
		p.settleAll(list, !common)
		return false
	})
	common = common && !p.eachSize(n, func(list []sym.Expr) bool { return p.mentions(list...) })
	if common {
		if at, ok := ops.PositionOf(n, p.dim, p.position); ok {
			p.positions[n.Outputs[0]] = at
		}
		return
	}
	if ops.Of(n).Chooses && p.branches(n) {
		return
	}
	if len(n.Regions) > 0 {
		give(joint(n, "its branches or its body read rows"))
		return
	}
	if p.numbered(n) {
		return
	}
	if slices.ContainsFunc(n.Inputs, func(v *ir.Value) bool { return v != nil && !p.positions[v].Common() }) {
		give(joint(n, "the number of a row reaches its elements"))
		return
	}
	if p.odd(n) {
		give(joint(n, "an attribute depends on the number of rows, or on a size that rows decide"))
		return
	}
	if p.inPieces(n) || p.declared(n) {
		return
	}
	detail := "its result for a row depends on other rows"
	if !ops.RowsDeclared(n) {
		detail = "nothing is declared about how rows pass through it"
	}
	give(joint(n, detail))
}

// eachSize calls f with the formulas in a node's attributes, in its results' shapes, and in its regions, until f
// returns true. It returns what f returned.
func (p *parting) eachSize(n *ir.Node, f func(list []sym.Expr) bool) bool {
	for _, a := range n.Attrs {
		switch a := a.(type) {
		case sym.Expr:
			if f([]sym.Expr{a}) {
				return true
			}
		case []sym.Expr:
			if f(a) {
				return true
			}
		}
	}
	for _, v := range n.Outputs {
		if v != nil && f(v.Type.Shape) {
			return true
		}
	}
	return slices.ContainsFunc(n.Regions, func(b *ir.Block) bool {
		return slices.ContainsFunc(b.Params, func(v *ir.Value) bool { return f(v.Type.Shape) || f(v.Known) }) ||
			slices.ContainsFunc(b.Nodes, func(n *ir.Node) bool { return p.eachSize(n, f) })
	})
}

// position returns what is known of the elements of integers that are equal for all entries, or that follow the
// entries' numbers.
func (p *parting) position(v *ir.Value) (ops.Position, bool) {
	if at, ok := p.positions[v]; ok {
		return at, true
	}
	if _, rows := p.axes[v]; rows || p.joints[v] != nil {
		return ops.Position{}, false
	}
	return ops.PositionOfCommon(v)
}

// numbered follows positions through a node: those of its result, or the rows that it selects by them.
func (p *parting) numbered(n *ir.Node) bool {
	if len(n.Outputs) != 1 {
		return false
	}
	out := n.Outputs[0]
	if at, ok := ops.PositionOf(n, p.dim, p.position); ok && !at.Common() {
		if len(out.Type.Shape) == 1 && out.Type.Shape[0].Equal(p.dim) {
			p.axes[out] = 0
		} else if p.odd(n) || !p.inPieces(n) {
			return false
		}
		p.positions[out] = at
		return true
	}
	if len(n.Inputs) != 2 || n.Inputs[0] == nil || n.Inputs[1] == nil {
		return false
	}
	from, rows := p.axes[n.Inputs[0]]
	by, numbers := p.axes[n.Inputs[1]]
	if !rows || !numbers || !p.positions[n.Inputs[0]].Common() {
		return false
	}
	each, _ := p.places(n.Inputs[0], from)
	if to, ok := ops.SelectsOwn(n, from, by, each, p.positions[n.Inputs[1]]); ok && p.parts(out, to) {
		p.axes[out] = to
		return true
	}
	return false
}

// odd reports whether an attribute depends on the dimension otherwise than as the extents of the result do.
func (p *parting) odd(n *ir.Node) bool {
	for key, a := range n.Attrs {
		switch a := a.(type) {
		case sym.Expr:
			if p.mentions(a) {
				return true
			}
		case []sym.Expr:
			if !p.mentions(a...) {
				continue
			}
			out := n.Outputs[0].Type.Shape
			from := len(out) - len(a)
			if from < 0 || key != "shape" && key != "extent" {
				return true
			}
			for i, e := range a {
				if p.mentions(e) && !e.Equal(out[from+i]) {
					return true
				}
			}
		}
	}
	return false
}

// branches follows the dimension through an If whose condition is equal for all entries.
func (p *parting) branches(n *ir.Node) bool {
	cond := n.Inputs[0]
	if _, rows := p.axes[cond]; rows {
		return false
	}
	for _, r := range n.Regions {
		p.block(r)
	}
	for i, v := range n.Outputs {
		if v == nil {
			continue
		}
		x, y := n.Regions[0].Results[i], n.Regions[1].Results[i]
		for _, of := range []*ir.Value{x, y} {
			if j := p.joints[of]; j != nil {
				p.joints[v] = j
			} else if !p.positions[of].Common() {
				p.joints[v] = joint(n, "a branch returns the numbers of the rows")
			}
		}
		if p.joints[v] != nil {
			continue
		}
		a, rowsX := p.axes[x]
		b, rowsY := p.axes[y]
		switch {
		case !rowsX && !rowsY && !p.mentions(v.Type.Shape...):
		case rowsX && rowsY && a == b && p.parts(v, a) && x.Type.Shape[a].Equal(v.Type.Shape[a]) &&
			y.Type.Shape[a].Equal(v.Type.Shape[a]):
			p.axes[v] = a
		default:
			p.joints[v] = joint(n, "its branches return different rows")
		}
	}
	return true
}

// parts reports whether a value may come apart along an axis: the axis has equally many places for each entry, and no
// other extent depends on their number.
func (p *parting) parts(v *ir.Value, axis int) bool {
	shape := v.Type.Shape
	if axis >= len(shape) || v.Type.DType.IsSubByte() || p.mentions(shape[:axis]...) || p.mentions(shape[axis+1:]...) {
		return false
	}
	_, ok := p.places(v, axis)
	return ok
}

// places returns the number of an axis's places for each entry.
func (p *parting) places(v *ir.Value, axis int) (each sym.Expr, ok bool) {
	extent := v.Type.Shape[axis]
	each = extent.Subst(func(name sym.Name) (sym.Expr, bool) { return sym.Const(1), name == p.name })
	if n, number := each.Const(); number && n <= 0 {
		return each, false
	}
	return each, !p.mentions(each) && each.Mul(p.dim).Equal(extent)
}

// probes are ranges of entries for which a node's rows are compared with its operands'.
var probes = []ops.RowRange{{From: 0, To: 1}, {From: 1, To: 2}, {From: 3, To: 5}, {From: 0, To: 9},
	{From: 1000, To: 1003}}

// inPieces follows the dimension through a node by the rule that computes its result in pieces.
func (p *parting) inPieces(n *ir.Node) bool {
	if len(n.Outputs) != 1 {
		return false
	}
	out := n.Outputs[0]
	for axis := range out.Type.Shape {
		if !p.parts(out, axis) {
			continue
		}
		in, ok := ops.Rows(n, axis)
		if ok && p.reads(n, axis, in) || p.reshaped(n, axis) {
			p.axes[out] = axis
			return true
		}
	}
	return false
}

// reshaped reports whether a node's result is its operand under another shape, with the entries along an axis.
func (p *parting) reshaped(n *ir.Node, axis int) bool {
	if !ops.Of(n).Alias {
		return false
	}
	from, rows := p.axes[n.Inputs[0]]
	return rows && sym.Product(n.Outputs[0].Type.Shape[:axis]...).Equal(sym.Product(n.Inputs[0].Type.Shape[:from]...))
}

// reads reports whether a node's result along an axis reads, for each entry, that entry's places of its operands.
func (p *parting) reads(n *ir.Node, axis int, in []int) bool {
	places, _ := p.places(n.Outputs[0], axis)
	each, number := places.Const()
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		at, rows := p.axes[v]
		if rows != (in[i] >= 0) || rows && at != in[i] {
			return false
		}
		if !rows {
			continue
		}
		theirs, _ := p.places(v, at)
		own, too := theirs.Const()
		if ops.RowsLoose(n, axis, i) {
			return false
		}
		if !number || !too { // the same rows, however many
			if !ops.SameRows(n) || !theirs.Equal(places) {
				return false
			}
			continue
		}
		for _, r := range probes {
			if ops.RowsSeen(n, axis, i, ops.RowRange{From: r.From * each, To: r.To * each}) !=
				(ops.RowRange{From: r.From * own, To: r.To * own}) {
				return false
			}
		}
	}
	return true
}

// declared follows the dimension through a node by the operator's own declaration.
func (p *parting) declared(n *ir.Node) bool {
	in, each := make([]int, len(n.Inputs)), sym.Const(0) // 0: not known yet
	for i, v := range n.Inputs {
		in[i] = -1
		if v == nil {
			continue
		}
		if at, rows := p.axes[v]; rows {
			own, _ := p.places(v, at)
			if !each.Equal(sym.Const(0)) && !own.Equal(each) {
				return false
			}
			in[i], each = at, own
		}
	}
	to := ops.Apart(n, in)
	if to == nil || each.Equal(sym.Const(0)) {
		return false
	}
	for i, v := range n.Outputs {
		if v == nil || to[i] < 0 {
			continue
		}
		if !p.parts(v, to[i]) {
			return false
		}
		if own, _ := p.places(v, to[i]); !own.Equal(each) {
			return false
		}
	}
	for i, v := range n.Outputs {
		switch {
		case v == nil:
		case to[i] < 0:
			p.joints[v] = joint(n, "a workspace")
		default:
			p.axes[v] = to[i]
		}
	}
	return true
}
