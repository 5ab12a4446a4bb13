package lower

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// A storage that the model's program text lays out becomes one buffer of bytes, and each carve a view into it. If a
// kernel computes the carved value and nothing else reads its result, the kernel writes into the view; else the value
// is copied there.

// placed reports whether a node carves a value out of a storage.
func placed(n *ir.Node) bool { return n.Op.Name() == ir.PlaceOp }

// reserve finds the values of a block that their kernels can write directly where they are carved.
func (l *lowering) reserve(b *ir.Block) {
	var uses map[*ir.Value]int
	own := map[*ir.Node]bool{}
	for _, n := range b.Nodes {
		if own[n] = true; !placed(n) {
			continue
		}
		if uses == nil {
			uses = map[*ir.Value]int{}
			countUses(b, uses)
		}
		if made := n.Inputs[0]; uses[made] == 1 && made.Node != nil && made.Const == nil && own[made.Node] &&
			l.launches(made.Node) && l.buffers[made] == nil && l.buffers[n.Outputs[0]] == nil {
			l.buffers[made] = l.carved(n)
			l.buffers[n.Outputs[0]] = l.buffers[made]
		}
	}
}

// countUses adds to uses how often each value is read in the block and its regions, results included.
func countUses(b *ir.Block, uses map[*ir.Value]int) {
	for _, n := range b.Nodes {
		for _, v := range n.Inputs {
			uses[v]++
		}
		for _, r := range n.Regions {
			countUses(r, uses)
		}
	}
	for _, v := range b.Results {
		uses[v]++
	}
}

// launches reports whether a node becomes a kernel.
func (l *lowering) launches(n *ir.Node) bool {
	if structures[n.Op.Name()] != nil || viewOf(n, l.from.Dims) != nil {
		return false
	}
	return ops.Of(n).LoweringOf(n, l.from.Dims, l.blocks) != nil
}

// place lowers a carve: nothing if the value was computed there, else a copy.
func (l *lowering) place(n *ir.Node, steps *[]loop.Step) error {
	made, err := l.value(n.Inputs[0])
	if err != nil {
		return err
	}
	out := n.Outputs[0]
	if l.buffers[out] == nil {
		l.buffers[out] = l.carved(n)
	}
	if l.buffers[out] != made {
		*steps = append(*steps, &loop.Copy{To: l.buffers[out], From: made})
	}
	return nil
}

// carved adds the view of the storage at which the node carves its value, and the storage's buffer if it is new.
func (l *lowering) carved(n *ir.Node) *loop.Buffer {
	name := n.Attrs.String("storage", "")
	s := l.storages[name]
	if s == nil {
		size, _ := n.Attrs["bytes"].(sym.Expr)
		s = l.buffer(name, loop.Temp, ir.Type{DType: dtype.U8, Shape: []sym.Expr{size}}, name)
		s.Reserved = true
		l.storages[name] = s
	}
	v := n.Outputs[0]
	offset, _ := n.Attrs["offset"].(sym.Expr)
	b := l.buffer(v.Name, loop.Temp, v.Type, v.Name)
	// An offset in bytes is a multiple of the element's size; elements of less than a byte begin at a byte.
	if bits := int64(v.Type.DType.Bits()); bits >= 8 {
		offset = offset.FloorDiv(sym.Const(bits / 8))
	} else {
		offset = offset.Mul(sym.Const(8 / bits))
	}
	b.View = &loop.View{Of: s, Offset: l.from.Dims.Simplify(offset)}
	return b
}
