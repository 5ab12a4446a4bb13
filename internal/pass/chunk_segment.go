package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// segment is the nodes [first, last] of a block. The nodes in nodes are computed in pieces; the nodes in moved are
// moved before them.
type segment struct {
	*chunking
	first, last int
	nodes       []*ir.Node
	moved       []*ir.Node
	axes        map[*ir.Value]int // by value that comes in pieces: the axis
	// the number of images, along the first axis, if each piece is of one image; nil if the pieces' axis is the first
	images     *sym.Expr
	pieces     int64
	have       map[*ir.Value]ops.Piece // the rows of a value in each piece
	cost, gain float64                 // bytes alive at once, and bytes saved
	work, more float64                 // operations, and operations done again
}

// inside reports whether a node between first and last makes a value.
func (s *segment) inside(v *ir.Value) bool {
	at, ok := s.at[v.Node]
	return ok && at >= s.first && at <= s.last
}

// leaves reports whether a value is read after the segment.
func (s *segment) leaves(v *ir.Value) bool { return s.uses[v] > s.last }

// leading reports whether the pieces of a value are contiguous in memory, one after another.
func (s *segment) leading(v *ir.Value) bool {
	before := v.Type.Shape[:s.axes[v]]
	if s.images != nil {
		before = before[1:]
	}
	return !slices.ContainsFunc(before, func(e sym.Expr) bool { return !isOne(e) })
}

// extent is the number of rows of a value that comes in pieces.
func (s *segment) extent(v *ir.Value) int64 {
	n, _ := v.Type.Shape[s.axes[v]].Const()
	return n
}

// spread finds the axis of every value of the segment that comes in pieces, from the axis of one node's result. It
// returns false if a node cannot be computed so.
func (s *segment) spread(from *ir.Node, axis int) bool {
	s.axes = map[*ir.Value]int{}
	if first := from.Outputs[0].Type.Shape[0]; axis > 0 && !isOne(first) {
		s.images = &first
	}
	assigned := map[*ir.Node]bool{}
	var give func(v *ir.Value, axis int) bool
	var visit func(n *ir.Node) bool
	give = func(v *ir.Value, axis int) bool {
		if known, has := s.axes[v]; has {
			return known == axis
		}
		if extent, ok := v.Type.Shape[axis].Const(); !ok || extent < 1 || s.images != nil &&
			(axis == 0 || !v.Type.Shape[0].Equal(*s.images)) {
			return false
		}
		s.axes[v] = axis
		if !s.inside(v) {
			return true
		}
		if !visit(v.Node) {
			return false
		}
		for _, n := range s.block.Nodes[s.first : s.last+1] {
			if !assigned[n] && slices.Contains(n.Inputs, v) && !visit(n) {
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
			in, ok := s.rows(n, axis)
			if !ok || !s.agrees(n, in) {
				continue
			}
			assigned[n] = true
			if !give(out, axis) {
				return false
			}
			for i, v := range n.Inputs {
				if v == nil || in[i] < 0 || v.Const != nil && ops.RowTables(n) {
					continue
				}
				if v.Const != nil || !give(v, in[i]) { // a weight would be cut up
					return false
				}
			}
			return true
		}
		return false
	}
	return give(from.Outputs[0], axis) && s.gather(assigned)
}

// agrees reports whether the axes in, along which n reads pieces of its operands, equal the axes already assigned to
// them, and n computes each image separately.
func (s *segment) agrees(n *ir.Node, in []int) bool {
	image := make([]int, len(in))
	if s.images != nil {
		var ok bool
		if image, ok = s.rows(n, 0); !ok {
			return false
		}
	}
	for i, v := range n.Inputs {
		if v == nil {
			continue
		}
		if known, has := s.axes[v]; has && s.inside(v) && known != in[i] {
			return false
		}
		if s.images != nil && image[i] >= 0 && (image[i] > 0 || v.Const != nil || !v.Type.Shape[0].Equal(*s.images)) {
			return false
		}
		if s.images != nil && in[i] >= 0 && image[i] < 0 && v.Const == nil {
			return false
		}
	}
	return true
}

// gather lists the nodes that are computed in pieces, and the nodes that are moved before them. It returns false if
// the nodes cannot be divided so.
func (s *segment) gather(assigned map[*ir.Node]bool) bool {
	for _, n := range s.block.Nodes[s.first : s.last+1] {
		if assigned[n] {
			s.nodes = append(s.nodes, n)
			continue
		}
		// The node moves before the loop, so it must not read a value that comes in pieces.
		for _, v := range valuesOf(n) {
			if v.Node != nil && assigned[v.Node] {
				return false
			}
		}
		s.moved = append(s.moved, n)
	}
	if len(s.nodes) < 2 || !assigned[s.block.Nodes[s.first]] || !assigned[s.block.Nodes[s.last]] {
		return false
	}
	for _, n := range s.nodes {
		if s.leaves(n.Outputs[0]) && !s.leading(n.Outputs[0]) {
			return false
		}
		// A node that reads all of an operand cannot read a value of the loop.
		in, _ := s.rows(n, s.axes[n.Outputs[0]])
		for i, v := range n.Inputs {
			if v != nil && in[i] < 0 && v.Node != nil && assigned[v.Node] {
				return false
			}
		}
	}
	return true
}

// operands calls visit for each operand of a node that comes in pieces.
func (s *segment) operands(n *ir.Node, visit func(i int, v *ir.Value)) {
	in, _ := s.rows(n, s.axes[n.Outputs[0]])
	for i, v := range n.Inputs {
		if v != nil && in[i] >= 0 {
			visit(i, v)
		}
	}
}

// whole estimates the bytes that are alive in the loop in full: operands, results that are read after it, and values
// that only pass by.
func (s *segment) whole() float64 {
	cost := s.through[s.first]
	for _, n := range s.nodes {
		if v := n.Outputs[0]; s.early(v, s.first) {
			cost -= s.bytes[v]
		}
	}
	for _, n := range s.moved {
		for _, v := range n.Outputs {
			if v != nil && s.uses[v] >= s.first {
				cost += s.size[v]
			}
		}
	}
	seen := map[*ir.Value]bool{}
	for _, n := range s.nodes {
		if v := n.Outputs[0]; s.leaves(v) {
			cost += s.size[v]
		}
		s.operands(n, func(_ int, v *ir.Value) {
			if !seen[v] && !s.inside(v) {
				seen[v] = true
				cost += s.size[v] - s.bytes[v] // it now has memory of its own
			}
		})
	}
	return cost
}

// weigh estimates the bytes alive in the loop: those of whole, and one piece of each intermediate result.
func (s *segment) weigh() {
	pieceBytes := func(v *ir.Value) float64 {
		share := float64(s.have[v].Rows) / float64(max(s.extent(v), 1))
		if s.images != nil {
			if n, ok := s.images.Const(); ok {
				share /= float64(max(n, 1))
			}
		}
		if s.inPlace[v] { // a piece of it may be copied
			return s.size[v] * share
		}
		return s.bytes[v] * share
	}
	last := map[*ir.Value]*ir.Node{} // in the loop
	copied := map[*ir.Value]bool{}
	for _, n := range s.nodes {
		s.operands(n, func(_ int, v *ir.Value) {
			last[v] = n
			copied[v] = !s.inside(v) && v.Const == nil && !s.leading(v)
		})
	}
	live, most := 0.0, 0.0
	began := map[*ir.Value]bool{} // copies
	for _, n := range s.nodes {
		s.operands(n, func(_ int, v *ir.Value) {
			if copied[v] && !began[v] {
				began[v] = true
				live += pieceBytes(v)
			}
		})
		live += pieceBytes(n.Outputs[0])
		most = max(most, live)
		s.operands(n, func(_ int, v *ir.Value) {
			if last[v] == n && (s.inside(v) || copied[v]) {
				live -= pieceBytes(v)
				delete(last, v)
			}
		})
	}
	s.cost = s.whole() + most
	s.weighed++
}

// freed is the number of bytes saved at a node before the segment: the memory of concatenations' results is not in use
// there any more.
func (s *segment) freed(at int) (bytes float64) {
	for _, n := range s.nodes {
		if v := n.Outputs[0]; s.early(v, s.first) && s.from[v] <= at {
			bytes += s.bytes[v]
			for _, x := range n.Inputs {
				if !s.inside(x) && x.Node != nil && s.at[x.Node] <= at {
					bytes -= s.size[x]
				}
			}
		}
	}
	return bytes
}

// share is the ratio of the operations that pieces add to all operations.
func (s *segment) share() float64 {
	if s.work == 0 {
		return 0
	}
	return s.more / s.work
}

// chunked describes a segment for the caller of Chunk.
func (s *segment) chunked() Chunked {
	last := s.nodes[len(s.nodes)-1].Outputs[0]
	d := Chunked{Nodes: s.nodes, Pieces: s.pieces, Rows: s.extent(last), Operations: int64(s.more), Share: s.share()}
	for _, n := range s.nodes {
		if v := n.Outputs[0]; !s.leaves(v) {
			d.Bytes = max(d.Bytes, int64(s.size[v]*(1-min(1, float64(s.have[v].Rows)/float64(max(s.extent(v), 1))))))
		}
	}
	return d
}
