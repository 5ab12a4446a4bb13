package pass

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// restore restores a block's nodes and constants, and the nodes' ownership of their outputs.
func restore(block *ir.Block, nodes []*ir.Node, constants []*ir.Value) {
	block.Nodes, block.Consts = nodes, constants
	for _, n := range nodes {
		for i, v := range n.Outputs {
			if v != nil {
				v.Node, v.Index = n, i
			}
		}
	}
}

// build replaces the block's nodes by the loops and the nodes between them. It returns false, and leaves the block as
// it was, if that fails.
func (b *batching) build(block *ir.Block) (ok bool) {
	was, constants := block.Nodes, block.Consts
	var err error
	defer func() {
		if err != nil {
			restore(block, was, constants)
			ok = false
		}
	}()
	defer ir.Catch(&err)
	out := &ir.Block{Consts: slices.Clip(constants)}
	to := ir.NewBuilder(ir.NewInference(b.module), out)
	for at := range len(b.loops) + 1 {
		out.Nodes = append(out.Nodes, b.stages[at]...)
		if at < len(b.loops) && len(b.loops[at].nodes) > 0 {
			b.loop(to, b.loops[at])
		}
	}
	block.Nodes, block.Consts = out.Nodes, out.Consts
	return true
}

// loop appends a loop, and gives its results to the nodes' outputs.
func (b *batching) loop(to *ir.Builder, l batchLoop) {
	to.Source = l.nodes[0].Source
	each := sym.Const(b.each)
	trips := b.extent.FloorDiv(each)
	trip := tripCount(to, trips)
	begin := make([]*ir.Value, len(l.sums))
	for i, n := range l.sums {
		begin[i] = startOf(to, n)
	}
	body, in := ops.LoopBody(to, "piece", trips, begin)
	index := body.Params[0].Known[0]
	first := index.Mul(each)
	type pieceOf struct {
		of   *ir.Value
		axis int
	}
	now := map[pieceOf]*ir.Value{} // the current pieces
	sums := make([]*ir.Value, len(l.sums))
	for _, n := range l.nodes {
		in.Source = n.Source
		list := slices.Clone(n.Inputs)
		for i, v := range n.Inputs {
			if v == nil || b.axes[n][i] < 0 {
				continue
			}
			p := pieceOf{v, b.axes[n][i]}
			if now[p] == nil {
				rows, _ := b.rowsOf(v, p.axis)
				now[p] = ops.SliceAxis(in, v, p.axis, first.Mul(sym.Const(rows)), each.Mul(sym.Const(rows)))
			}
			list[i] = now[p]
		}
		attrs := maps.Clone(n.Attrs)
		if b.roles[n] == summing {
			merge := ops.Of(n).Merge
			at := slices.Index(l.sums, n)
			sums[at] = in.Op(merge.By, nil, body.Params[2+at], in.Node(cmp.Or(merge.Piece, n.Op.Name()), attrs, list...).
				Outputs[0])
			continue
		}
		v := n.Outputs[0]
		axis := b.cut[v]
		rows, _ := b.rowsOf(v, axis)
		piece := ops.Piece{First: []int64{0}, Rows: rows * b.each}
		cut := ops.RowCut{Index: index, Out: piece, In: slices.Repeat([]ops.Piece{piece}, len(n.Inputs))}
		ops.CutRows(in, n, attrs, list, axis, cut)
		made := in.Node(n.Op.Name(), attrs, list...).Outputs[0]
		if made, ok := made.Type.Shape[axis].Const(); !ok || made != piece.Rows {
			in.Failf("a piece of %s has %d rows, not %d", v.Name, made, piece.Rows)
		}
		now[pieceOf{v, axis}] = made
	}
	body.Results = append([]*ir.Value{goesOn(in)}, sums...)
	var at, extents []sym.Expr
	for _, v := range l.keep {
		rows, _ := b.rowsOf(v, b.cut[v])
		at, extents = append(at, first.Mul(sym.Const(rows))), append(extents, v.Type.Shape[b.cut[v]])
		piece := now[pieceOf{v, b.cut[v]}]
		body.Results = append(body.Results, reshapedTo(in, piece, piece.Type.Shape[b.cut[v]:]))
	}
	made := ops.LoopLaid(to, body, trip, at, extents, begin...)
	for i, n := range l.sums {
		to.Source = n.Source
		is := made[i]
		if ops.Of(n).Merge.Piece != "" {
			count := sym.Const(1)
			for _, axis := range ops.ReducedAxes(n) {
				count = count.Mul(n.Inputs[0].Type.Shape[axis])
			}
			is = to.Op("div", nil, is, ops.Cast(to, ops.Integers(to, ir.Type{DType: dtype.I64}, []sym.Expr{count}),
				is.Type.DType))
		}
		becomes(to, n.Outputs[0], is)
	}
	for i, v := range l.keep {
		to.Source = v.Name
		becomes(to, v, reshapedTo(to, made[len(l.sums)+i], v.Type.Shape))
	}
}

// startOf returns the value of a sum before the first piece.
func startOf(to *ir.Builder, n *ir.Node) *ir.Value {
	t := n.Outputs[0].Type
	return ops.Expand(to, ops.Scalar(to, t.DType, ops.Of(n).Merge.Start()), t.Shape...)
}
