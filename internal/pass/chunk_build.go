package pass

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// build replaces the segment's nodes in the block by a loop. It returns false, and leaves the block as it was, if that
// fails.
func (s *segment) build(m *ir.Module, block *ir.Block) (ok bool) {
	was := block.Nodes
	first, last := slices.Index(was, s.nodes[0]), slices.Index(was, s.nodes[len(s.nodes)-1])
	if last-first != s.last-s.first {
		return false // another segment lies between them now
	}
	var err error
	defer func() {
		if err != nil {
			block.Nodes, ok = was, false
		}
	}()
	defer ir.Catch(&err)
	out := &ir.Block{Consts: slices.Clip(block.Consts)}
	b := ir.NewBuilder(ir.NewInference(m), out)
	b.Source = s.nodes[0].Source
	trips := sym.Const(s.pieces)
	if s.images != nil {
		trips = trips.Mul(*s.images)
	}
	trip := tripCount(b, trips)
	p := &pieced{segment: s, now: map[*ir.Value]*ir.Value{}, alone: map[*ir.Value]*ir.Value{}}
	body, in := ops.LoopBody(b, "piece", trips, nil)
	p.Builder, p.index = in, body.Params[0].Known[0]
	if s.images != nil {
		p.image, p.index = p.index.FloorDiv(sym.Const(s.pieces)), p.index.Mod(sym.Const(s.pieces))
	}
	for _, n := range s.nodes {
		in.Source = n.Source
		p.node(n)
	}
	body.Results = []*ir.Value{goesOn(in)}
	var leave []*ir.Node
	var at, extent []sym.Expr
	for _, n := range s.nodes {
		if v := n.Outputs[0]; s.leaves(v) {
			leave = append(leave, n)
			rows, first := sym.Const(s.extent(v)), p.steps(s.have[v].First)
			if piece := s.have[v].Rows; s.images != nil && piece*s.pieces == s.extent(v) { // without gaps from image to image
				rows, first = rows.Mul(*s.images), body.Params[0].Known[0].Mul(sym.Const(piece))
			} else if s.images != nil {
				rows, first = rows.Mul(*s.images), first.Add(p.image.Mul(rows))
			}
			at, extent = append(at, first), append(extent, rows)
			body.Results = append(body.Results, reshapedTo(in, p.now[v], p.now[v].Type.Shape[s.axes[v]:]))
		}
	}
	joined := ops.LoopLaid(b, body, trip, at, extent)
	for i, n := range leave {
		v := n.Outputs[0]
		b.Source = n.Source
		becomes(b, v, reshapedTo(b, joined[i], v.Type.Shape))
	}
	block.Consts = out.Consts
	block.Nodes = slices.Concat(was[:first], s.moved, out.Nodes, was[last+1:])
	return true
}

// tripCount returns the number of trips as a value of i64.
func tripCount(b *ir.Builder, trips sym.Expr) *ir.Value {
	if count, fixed := trips.Const(); fixed {
		return b.Constant("pieces", tensor.Must(tensor.FromSlice([]int64{count})))
	}
	return ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{trips})
}

// goesOn returns the condition of a loop that runs all its trips: true.
func goesOn(body *ir.Builder) *ir.Value {
	one := tensor.Must(tensor.New(dtype.Bool, 1))
	one.SetInt(0, 1)
	return body.Constant("again", one)
}

// becomes makes v the output in place of made, so that the readers of v need not change.
func becomes(b *ir.Builder, v, made *ir.Value) {
	if made.Node == nil || !slices.EqualFunc(made.Type.Shape, v.Type.Shape, sym.Expr.Equal) {
		b.Failf("the pieces of %s join to %s", v.Name, made.Type)
	}
	made.Node.Outputs[made.Index] = v
	v.Node, v.Index = made.Node, made.Index
}

// reshapedTo returns v in a shape: v itself if it already has that shape.
func reshapedTo(b *ir.Builder, v *ir.Value, shape []sym.Expr) *ir.Value {
	if slices.EqualFunc(v.Type.Shape, shape, sym.Expr.Equal) {
		return v
	}
	return ops.Reshape(b, v, shape...)
}

// pieced builds the body of a segment's loop.
type pieced struct {
	*segment
	*ir.Builder
	index, image sym.Expr
	now          map[*ir.Value]*ir.Value // by value: its current piece
	alone        map[*ir.Value]*ir.Value // by value that does not come in pieces: its current image
}

// steps returns values[index of the piece] as a formula.
func (p *pieced) steps(values []int64) sym.Expr {
	e, ok := ops.Steps(values, p.index)
	if !ok {
		p.Failf("the pieces begin at too irregular rows")
	}
	return e
}

// node appends the computation of the current piece of a node's result.
func (p *pieced) node(n *ir.Node) {
	v := n.Outputs[0]
	axis := p.axes[v]
	cut := ops.RowCut{Index: p.index, Out: p.have[v], In: make([]ops.Piece, len(n.Inputs))}
	list := slices.Clone(n.Inputs)
	if p.images != nil {
		image, _ := p.rows(n, 0)
		for i, x := range list {
			if x != nil && image[i] == 0 {
				if p.alone[x] == nil && p.now[x] == nil {
					p.alone[x] = p.cut(x, 0, p.image, 1)
				}
				list[i] = p.alone[x]
			}
		}
	}
	p.operands(n, func(i int, x *ir.Value) {
		if x.Const != nil {
			cut.In[i] = cut.Out
			list[i] = p.cut(x, 0, p.steps(cut.Out.First), cut.Out.Rows)
			return
		}
		list[i], cut.In[i] = p.pieceOf(x, list[i])
		if !ops.RowsLoose(n, axis, i) {
			list[i], cut.In[i] = p.trimmed(n, i, list[i], cut.In[i])
		}
	})
	attrs := maps.Clone(n.Attrs)
	ops.CutRows(p.Builder, n, attrs, list, axis, cut)
	if p.images != nil {
		ops.CutRows(p.Builder, n, attrs, list, 0, ops.RowCut{Index: p.image, Out: ops.Piece{First: []int64{0}, Rows: 1},
			In: make([]ops.Piece, len(n.Inputs))})
	}
	made := p.Node(n.Op.Name(), attrs, list...).Outputs[0]
	if rows, ok := made.Type.Shape[axis].Const(); !ok || rows != cut.Out.Rows {
		p.Failf("a piece of %s is %s, with %d rows", v.Name, made.Type, cut.Out.Rows)
	}
	p.now[v] = made
}

// pieceOf returns the current piece of an operand v. If no node of the loop made it, it is cut out of full: v, or the
// current image of v.
func (p *pieced) pieceOf(v, full *ir.Value) (*ir.Value, ops.Piece) {
	have := p.have[v]
	if p.now[v] == nil {
		p.now[v] = p.cut(full, p.axes[v], p.steps(have.First), have.Rows)
	}
	return p.now[v], have
}

// trimmed returns the rows of an operand's piece that a piece of the node's result reads.
func (p *pieced) trimmed(n *ir.Node, i int, piece *ir.Value, have ops.Piece) (*ir.Value, ops.Piece) {
	out := n.Outputs[0]
	axis := p.axes[out]
	in, _ := p.rows(n, axis)
	want, later := ops.Piece{}, make([]int64, p.pieces)
	for k, first := range p.have[out].First {
		seen := ops.RowsSeen(n, axis, i, ops.RowRange{From: first, To: first + p.have[out].Rows})
		want.First, want.Rows = append(want.First, seen.From), seen.To-seen.From
		later[k] = seen.From - have.First[k]
	}
	return p.cut(piece, in[i], p.steps(later), want.Rows), want
}

// cut returns rows rows of v along an axis, from begin on: v itself if these are all.
func (p *pieced) cut(v *ir.Value, axis int, begin sym.Expr, rows int64) *ir.Value {
	if extent, ok := v.Type.Shape[axis].Const(); ok && extent == rows && begin.Equal(sym.Const(0)) {
		return v
	}
	return ops.SliceAxis(p.Builder, v, axis, begin, sym.Const(rows))
}
