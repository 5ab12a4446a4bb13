package pass

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A Chunked is a stretch of nodes that is now computed in pieces.
type Chunked struct {
	Nodes  []*ir.Node // as they were
	Axis   int        // of the first node's result
	Pieces int64
}

// chunkReach is how many nodes before and behind one a stretch may begin and end.
const chunkReach = 32

// mostPieces is the most pieces that a stretch is computed in.
const mostPieces = 16

// Chunk has stretches of nodes around those that wanted names computed in a loop over pieces of an axis along which rows do not depend on each other — the batch, the rows, a
// sequence — so that what lies between the stretch's operands and its results is there a piece at a time. It chooses the stretches that keep least alive. undo puts the nodes
// back. Shapes must be numbers along the axis.
func Chunk(m *ir.Module, wanted func(n *ir.Node) bool) (done []Chunked, undo func()) {
	block := m.Main.Body
	before, constants := block.Nodes, block.Consts
	undo = func() {
		block.Nodes, block.Consts = before, constants
		for _, n := range before {
			for i, v := range n.Outputs {
				if v != nil {
					v.Node, v.Index = n, i
				}
			}
		}
	}
	var found []*stretch
	for at, n := range before {
		if wanted(n) {
			if s := bestStretch(block, at); s != nil {
				found = append(found, s)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b *stretch) int { return cmp.Compare(b.gain, a.gain) })
	taken := map[*ir.Node]bool{}
	for _, s := range found {
		if slices.ContainsFunc(slices.Concat(s.nodes, s.apart), func(n *ir.Node) bool { return taken[n] }) {
			continue
		}
		if s.build(m, block) {
			done = append(done, Chunked{Nodes: s.nodes, Axis: s.axes[s.nodes[0].Outputs[0]], Pieces: s.pieces})
			for _, n := range slices.Concat(s.nodes, s.apart) {
				taken[n] = true
			}
		}
	}
	return done, undo
}

// stretch is nodes [first, last] of a block, of which nodes are computed in pieces; the others are moved before them.
type stretch struct {
	first, last int
	nodes       []*ir.Node
	apart       []*ir.Node
	axes        map[*ir.Value]int // by value that comes in pieces: the axis
	pieces      int64
	cost, gain  float64 // bytes alive at once, and how many fewer that is
}

// bestStretch is the stretch around a node that keeps least alive; nil where none keeps less than the nodes do by themselves.
func bestStretch(block *ir.Block, at int) *stretch {
	uses := map[*ir.Value]int{} // the last node that reads a value
	for i, n := range block.Nodes {
		for _, v := range valuesOf(n) {
			uses[v] = i
		}
	}
	for _, v := range block.Results {
		uses[v] = math.MaxInt
	}
	var best *stretch
	n := block.Nodes[at]
	if len(n.Outputs) != 1 || n.Outputs[0] == nil {
		return nil
	}
	whole := alone(block, uses, at)
	for axis := range n.Outputs[0].Type.Shape {
		if !leading(n.Outputs[0], axis) {
			continue
		}
		extent, ok := n.Outputs[0].Type.Shape[axis].Const()
		if !ok || extent < 2 {
			continue
		}
		for first := max(0, at-chunkReach); first <= at; first++ {
			for last := at; last < min(len(block.Nodes), at+chunkReach); last++ {
				for pieces := int64(mostPieces); pieces >= 2; pieces /= 2 {
					if extent%pieces != 0 {
						continue
					}
					s := &stretch{first: first, last: last, pieces: pieces}
					if s.spread(block, n, axis) {
						s.weigh(block, uses)
						if s.gain = whole - s.cost; s.cost < 0.9*whole && (best == nil || s.cost < 0.98*best.cost) {
							best = s
						}
					}
					break
				}
			}
		}
	}
	return best
}

// valuesOf are what a node reads, its regions' uses of outer values too.
func valuesOf(n *ir.Node) []*ir.Value {
	list := slices.DeleteFunc(slices.Clone(n.Inputs), func(v *ir.Value) bool { return v == nil })
	var region func(b *ir.Block)
	region = func(b *ir.Block) {
		for _, inner := range b.Nodes {
			list = append(list, valuesOf(inner)...)
		}
		list = append(list, b.Results...)
	}
	for _, r := range n.Regions {
		region(r)
	}
	return list
}

// leading reports whether all axes before one have the extent 1: pieces along it lie one behind the other.
func leading(v *ir.Value, axis int) bool {
	for _, e := range v.Type.Shape[:axis] {
		if n, ok := e.Const(); !ok || n != 1 {
			return false
		}
	}
	return true
}

// SizeInBytes is a value's size where it is a number; 0 for constants, which are no part of the arena, and where data or dimensions decide it.
func SizeInBytes(v *ir.Value) int64 {
	if v == nil || v.Const != nil {
		return 0
	}
	count, ok := sym.Product(v.Type.Shape...).Const()
	if !ok {
		return 0
	}
	return count * int64(v.Type.DType.Bits()) / 8
}

// alone is about what is alive at a node: its operands, its results, and what is read behind it.
func alone(block *ir.Block, uses map[*ir.Value]int, at int) (sum float64) {
	seen := map[*ir.Value]bool{}
	add := func(v *ir.Value) {
		if !seen[v] {
			seen[v] = true
			sum += float64(SizeInBytes(v))
		}
	}
	for _, v := range valuesOf(block.Nodes[at]) {
		add(v)
	}
	for i, n := range block.Nodes[:at+1] {
		for _, v := range n.Outputs {
			if v != nil && (uses[v] > at || i == at) {
				add(v)
			}
		}
	}
	return sum
}

// spread finds the axis of every value of the stretch that comes in pieces, from one node's; false where the nodes do not allow it.
func (s *stretch) spread(block *ir.Block, from *ir.Node, axis int) bool {
	s.axes = map[*ir.Value]int{}
	inside := map[*ir.Node]bool{}
	for _, n := range block.Nodes[s.first : s.last+1] {
		inside[n] = true
	}
	assigned := map[*ir.Node]bool{}
	var give func(v *ir.Value, axis int) bool
	var visit func(n *ir.Node) bool
	give = func(v *ir.Value, axis int) bool {
		if known, has := s.axes[v]; has {
			return known == axis
		}
		if extent, ok := v.Type.Shape[axis].Const(); !ok || extent%s.pieces != 0 || !leading(v, axis) {
			return false
		}
		s.axes[v] = axis
		if v.Node != nil && inside[v.Node] && !visit(v.Node) {
			return false
		}
		for _, n := range block.Nodes[s.first : s.last+1] {
			if !assigned[n] && slices.Contains(n.Inputs, v) && v.Const == nil && v.Node != nil && inside[v.Node] && !visit(n) {
				return false
			}
		}
		return true
	}
	visit = func(n *ir.Node) bool {
		if assigned[n] {
			return true
		}
		if len(n.Outputs) != 1 || n.Outputs[0] == nil || n.Outputs[0].Known != nil || len(n.Regions) > 0 {
			return false
		}
		out := n.Outputs[0]
		try := []int{}
		if axis, known := s.axes[out]; known {
			try = append(try, axis)
		} else {
			for axis := range out.Type.Shape {
				try = append(try, axis)
			}
		}
		for _, axis := range try {
			in, ok := ops.Rows(n, axis)
			if !ok {
				continue
			}
			agrees := true
			for i, v := range n.Inputs {
				if v == nil {
					continue
				}
				if known, has := s.axes[v]; has && v.Node != nil && inside[v.Node] && known != in[i] {
					agrees = false
				}
			}
			if !agrees {
				continue
			}
			assigned[n] = true
			if !give(out, axis) {
				return false
			}
			for i, v := range n.Inputs {
				if v == nil || in[i] < 0 {
					continue
				}
				if v.Const != nil {
					return false // a weight that is cut up
				}
				if !give(v, in[i]) {
					return false
				}
			}
			return true
		}
		return false
	}
	if !give(from.Outputs[0], axis) {
		return false
	}
	for _, n := range block.Nodes[s.first : s.last+1] {
		if assigned[n] {
			s.nodes = append(s.nodes, n)
			continue
		}
		// It must not need a piece of anything, and goes before the loop.
		for _, v := range valuesOf(n) {
			if v.Node != nil && assigned[v.Node] {
				return false
			}
		}
		s.apart = append(s.apart, n)
	}
	if len(s.nodes) < 2 || !assigned[block.Nodes[s.first]] || !assigned[block.Nodes[s.last]] {
		return false
	}
	// Whoever needs all of an operand cannot have it from within.
	for _, n := range s.nodes {
		in, _ := ops.Rows(n, s.axes[n.Outputs[0]])
		for i, v := range n.Inputs {
			if v != nil && in[i] < 0 && v.Node != nil && assigned[v.Node] {
				return false
			}
		}
	}
	return true
}

// weigh finds about how much is alive in the loop: operands and results whole, what is between them by pieces.
func (s *stretch) weigh(block *ir.Block, uses map[*ir.Value]int) {
	seen := map[*ir.Value]bool{}
	most := 0.0
	for i, n := range block.Nodes[:s.last+1] {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			inside := slices.Contains(s.nodes, n)
			switch {
			case inside && uses[v] <= s.last: // within
			case uses[v] >= s.first && (i < s.first || inside || uses[v] > s.last || slices.Contains(s.apart, n)):
				if !seen[v] {
					seen[v] = true
					s.cost += float64(SizeInBytes(v))
				}
			}
		}
	}
	for at := s.first; at <= s.last; at++ {
		live := 0.0
		for _, n := range s.nodes {
			if v := n.Outputs[0]; slices.Index(block.Nodes, n) <= at && uses[v] >= at {
				live += float64(SizeInBytes(v)) / float64(s.pieces)
			}
		}
		most = max(most, live)
	}
	s.cost += most
}

// build puts the loop in the nodes' place.
func (s *stretch) build(m *ir.Module, block *ir.Block) (ok bool) {
	was := block.Nodes
	first, last := slices.Index(was, s.nodes[0]), slices.Index(was, s.nodes[len(s.nodes)-1])
	if last-first != s.last-s.first {
		return false // another stretch lies between them now
	}
	var err error
	defer func() {
		if err != nil {
			block.Nodes, ok = was, false
		}
	}()
	defer ir.Catch(&err)
	inside := map[*ir.Value]bool{}
	for _, n := range s.nodes {
		inside[n.Outputs[0]] = true
	}
	out := &ir.Block{Consts: slices.Clip(block.Consts)}
	b := ir.NewBuilder(ir.NewInference(m), out)
	b.Source = s.nodes[0].Source
	trip := b.Constant("pieces", tensor.Must(tensor.FromSlice([]int64{s.pieces})))
	one := tensor.Must(tensor.New(dtype.Bool, 1))
	one.SetInt(0, 1)
	body, in := ops.LoopBody(b, "piece", sym.Const(s.pieces), nil)
	iteration := body.Params[0].Known[0]
	now := map[*ir.Value]*ir.Value{}
	for _, n := range s.nodes {
		in.Source = n.Source
		rows, _ := ops.Rows(n, s.axes[n.Outputs[0]])
		list := make([]*ir.Value, len(n.Inputs))
		for i, v := range n.Inputs {
			switch {
			case v == nil:
			case inside[v]:
				list[i] = now[v]
			case rows[i] >= 0:
				if now[v] == nil {
					extent, _ := v.Type.Shape[rows[i]].Const()
					part := sym.Const(extent / s.pieces)
					now[v] = ops.SliceAxis(in, v, rows[i], iteration.Mul(part), part)
				}
				list[i] = now[v]
			default:
				list[i] = v
			}
		}
		attrs := maps.Clone(n.Attrs)
		ops.CutRows(n, attrs, s.axes[n.Outputs[0]], s.pieces)
		now[n.Outputs[0]] = in.Node(n.Op.Name(), attrs, list...).Outputs[0]
	}
	yes := in.Constant("again", one)
	body.Results = []*ir.Value{yes}
	var leave []*ir.Node
	for _, n := range s.nodes {
		if s.read(block, n.Outputs[0]) {
			leave = append(leave, n)
			body.Results = append(body.Results, now[n.Outputs[0]])
		}
	}
	whole := ops.Loop(b, body, trip, nil)
	for i, n := range leave {
		v := n.Outputs[0]
		b.Source = n.Source
		made := ops.Reshape(b, whole[i], v.Type.Shape...)
		if made.Node == nil || !slices.EqualFunc(made.Type.Shape, v.Type.Shape, sym.Expr.Equal) {
			return false
		}
		made.Node.Outputs[made.Index] = v
		v.Node, v.Index = made.Node, made.Index
	}
	block.Consts = out.Consts
	block.Nodes = slices.Concat(was[:first], s.apart, out.Nodes, was[last+1:])
	return true
}

// read reports whether a value is read outside the stretch.
func (s *stretch) read(block *ir.Block, v *ir.Value) bool {
	for _, n := range block.Nodes {
		if !slices.Contains(s.nodes, n) && slices.Contains(valuesOf(n), v) {
			return true
		}
	}
	return slices.Contains(block.Results, v)
}
