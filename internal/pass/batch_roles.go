package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// larger reports whether a sum takes more bytes than the computed values that it sums.
func (b *batching) larger(n *ir.Node) bool {
	operands, seen := 0.0, map[*ir.Value]bool{}
	for i, v := range n.Inputs {
		if v == nil || b.axes[n][i] < 0 {
			continue
		}
		for v.Node != nil && ops.Of(v.Node).Rearranges {
			v = v.Node.Inputs[0]
		}
		if _, made := b.at[v.Node]; made && !seen[v] {
			seen[v] = true
			operands += b.size[v]
		}
	}
	return b.size[n.Outputs[0]] > operands
}

// rowsOf returns the number of rows of an axis that an example has; ok is false if the axis is not of the batch.
func (b *batching) rowsOf(v *ir.Value, axis int) (rows int64, ok bool) {
	rows, ok = v.Type.Shape[axis].Multiple(b.extent)
	return rows, ok && rows > 0
}

// leads reports whether the pieces of a value are contiguous in memory, one after another.
func (b *batching) leads(v *ir.Value) bool {
	return !slices.ContainsFunc(v.Type.Shape[:b.cut[v]], func(e sym.Expr) bool { return !isOne(e) })
}

// assign finds the role of each node.
func (b *batching) assign() {
	b.roles, b.axes, b.cut, b.sliced, b.forced = map[*ir.Node]role{}, map[*ir.Node][]int{}, map[*ir.Value]int{},
		map[*ir.Value][]int{}, map[*ir.Value]bool{}
	for _, v := range given(b.module) {
		if v.Type.Shape[0].Equal(b.extent) {
			b.cut[v] = 0
		}
	}
	for _, n := range b.block.Nodes {
		if b.cannot[n] || !slices.ContainsFunc(n.Inputs, b.comes) {
			continue
		}
		if axis, in, ok := b.piece(n); ok {
			b.take(n, axis, in)
		} else if in, ok := b.sums(n); ok {
			b.roles[n], b.axes[n] = summing, in
			b.along(n, in)
		}
	}
	for _, n := range b.block.Nodes {
		for i, v := range n.Inputs {
			if b.comes(v) && (b.roles[n] == once || b.axes[n][i] < 0) {
				b.force(v)
			}
		}
		for _, v := range b.reads[n] {
			if len(n.Regions) > 0 && b.comes(v) {
				b.force(v)
			}
		}
	}
	for _, v := range b.block.Results {
		if b.comes(v) {
			b.force(v)
		}
	}
}

// comes reports whether a value comes in pieces.
func (b *batching) comes(v *ir.Value) bool {
	_, is := b.cut[v]
	return v != nil && is
}

// force notes that a value is needed in full.
func (b *batching) force(v *ir.Value) {
	if _, made := b.at[v.Node]; made {
		b.forced[v] = true
	}
}

// take notes that a node computes its result in pieces of an axis, from pieces of its operands along the axes in.
func (b *batching) take(n *ir.Node, axis int, in []int) {
	b.roles[n], b.axes[n], b.cut[n.Outputs[0]] = piecewise, in, axis
	b.along(n, in)
}

// along makes operands come in pieces too, if possible, that depend on no value which does.
func (b *batching) along(n *ir.Node, in []int) {
	for i, v := range n.Inputs {
		if v == nil || in[i] < 0 || b.comes(v) {
			continue
		}
		if b.adopt(v, in[i]); !b.comes(v) {
			b.sliced[v] = append(b.sliced[v], in[i])
		}
	}
}

// adopt makes a value come in pieces of an axis if it is cheap to compute and depends on no value that does. Otherwise
// loops read slices of the full value.
func (b *batching) adopt(v *ir.Value, axis int) {
	n := v.Node
	if _, made := b.at[n]; !made || b.cannot[n] || b.roles[n] != once || !lone(n) || !cheap(n) {
		return
	}
	if slices.ContainsFunc(b.sliced[v], func(other int) bool { return other != axis }) {
		return
	}
	in, ok := b.fits(n, axis)
	if ok {
		b.take(n, axis, in)
	}
}

// lone reports whether a node has one result, whose elements are not known as expressions, and no regions.
func lone(n *ir.Node) bool {
	return len(n.Outputs) == 1 && n.Outputs[0] != nil && n.Outputs[0].Known == nil && len(n.Regions) == 0
}

// cheap reports whether a node's result is computed again rather than kept.
func cheap(n *ir.Node) bool { return ops.Elementwise(n) || ops.Of(n).Recompute.Has(ops.InPieces) }

// piece finds the axis of a node's result along which it can be computed in pieces of its operands.
func (b *batching) piece(n *ir.Node) (axis int, in []int, ok bool) {
	if !lone(n) {
		return 0, nil, false
	}
	for axis := range n.Outputs[0].Type.Shape {
		if in, ok := b.fits(n, axis); ok {
			return axis, in, true
		}
	}
	return 0, nil, false
}

// fits reports whether a node can be computed in pieces of an axis, each from the same examples of its operands, and
// returns the operands' axes.
func (b *batching) fits(n *ir.Node, axis int) (in []int, ok bool) {
	out, batched := b.rowsOf(n.Outputs[0], axis)
	if !batched {
		return nil, false
	}
	if in, ok = b.rows(n, axis); !ok {
		return nil, false
	}
	const from, to = 3, 5 // any range of examples
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		at, cut := b.cut[v]
		switch {
		case in[i] < 0 && cut, in[i] >= 0 && cut && at != in[i]:
			return nil, false
		case in[i] < 0:
			continue
		}
		rows, ok := b.rowsOf(v, in[i])
		if !ok || ops.RowsLoose(n, axis, i) || ops.RowsSeen(n, axis, i,
			ops.RowRange{From: from * out, To: to * out}) != (ops.RowRange{From: from * rows, To: to * rows}) {
			return nil, false
		}
	}
	return in, true
}

// sums reports whether a node sums over the batch, and returns the axes of its operands along which it does.
func (b *batching) sums(n *ir.Node) (in []int, ok bool) {
	merge := ops.Of(n).Merge
	if merge.By == "" || !lone(n) {
		return nil, false
	}
	if dt := n.Outputs[0].Type.DType; dt != dtype.F32 && dt != dtype.F64 &&
		!(dt.IsInt() && dt.Bits() >= 32 && merge.Integers) {
		return nil, false // a sum of a narrower type would be rounded after each piece
	}
	for _, in := range merge.Axes(n) {
		if b.sumsAlong(n, in) {
			return in, true
		}
	}
	return nil, false
}

// sumsAlong reports whether all operands of a node that sums are of the batch along the axes in, with the same number
// of rows for an example.
func (b *batching) sumsAlong(n *ir.Node, in []int) bool {
	each := int64(0)
	for i, v := range n.Inputs {
		if at, cut := b.cut[v]; cut && at != in[i] {
			return false
		}
		rows, ok := b.rowsOf(v, in[i])
		if !ok || i > 0 && rows != each {
			return false
		}
		each = rows
	}
	return true
}
