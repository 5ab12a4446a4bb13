package pass

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
)

// everyCount is the number of pieces of a batch up to which every number is tried; beyond it, only doubles are tried.
const everyCount = 32

// mostCuts is the most loops into which the block may be divided beyond the loops that its sums require.
const mostCuts = 4

// mostDropped is the number of kept values that are compared to choose one that is computed again instead.
const mostDropped = 8

// Batched describes a batch that is computed in pieces.
type Batched struct {
	Chunked
	Loops int64 // one after another, each over all pieces
}

// Batch divides the computation of main into pieces of the batch, in loops over some examples at a time. A sum over the
// batch, such as the derivative of a weight or a statistic of batch normalization, grows from piece to piece, and its
// readers come after its loop: if one sum depends on another, there are several loops. A value that a later loop reads
// of an earlier one is kept in full, or computed again piece by piece.
//
// Among the ways that keep at most allowed bytes alive, by an estimate, Batch chooses the one that adds the fewest
// operations; if there is none, the one that keeps the fewest bytes alive. done is nil if the block cannot be divided.
// undo restores the nodes.
//
// The batch is the first axis of operands that are not states; its extent may be a dimension. A piece is one example
// unless the dimension has only one value. Sums add up in another order than without pieces.
func Batch(m *ir.Module, allowed float64) (done *Batched, undo func()) {
	block := m.Main.Body
	before, constants := block.Nodes, block.Consts
	undo = func() { restore(block, before, constants) }
	b := batchOf(m)
	if b == nil || b.most < 2 {
		return nil, undo
	}
	var best *batching
	for cuts := 0; cuts <= mostCuts && b.levels(cuts); cuts++ {
		best = b.search(allowed, best)
	}
	if best == nil || !best.build(block) {
		return nil, undo
	}
	return best.batched(), undo
}

// SumsUp reports whether a module sums over its batch, as training steps do.
func SumsUp(m *ir.Module) bool {
	b := batchOf(m)
	return b != nil && slices.Contains(slices.Collect(maps.Values(b.roles)), summing)
}

// batchOf chooses the batch of the main block: among the first extents of operands, the one for which the most bytes
// come in pieces. It returns nil if there is none.
func batchOf(m *ir.Module) (best *batching) {
	var seen []sym.Expr
	var chunking *chunking
	most := 0.0
	for _, v := range given(m) {
		extent := v.Type.Shape[0]
		if isOne(extent) || slices.ContainsFunc(seen, extent.Equal) {
			continue
		}
		if seen = append(seen, extent); chunking == nil {
			chunking = newChunking(m, recipes.Costs{}, 0)
		}
		b, bytes := newBatching(chunking, extent), 0.0
		for v := range b.cut {
			bytes += b.size[v]
		}
		if best == nil || bytes > most {
			best, most = b, bytes
		}
	}
	return best
}

// given returns the operands of a module that have axes and are not states.
func given(m *ir.Module) (list []*ir.Value) {
	for _, v := range m.Main.Body.Params {
		if len(v.Type.Shape) > 0 && !slices.ContainsFunc(m.Main.States, func(s ir.State) bool { return s.In == v }) {
			list = append(list, v)
		}
	}
	return list
}

// role is how a node is computed.
type role int

const (
	once      role = iota
	piecewise      // its result is computed a piece at a time
	summing        // it sums over all pieces
)

// batching is a block that is to be computed in pieces of its batch.
type batching struct {
	*chunking
	extent sym.Expr // of the batch
	most   int64    // examples at the dimensions' bounds

	roles map[*ir.Node]role
	// by node in a loop and operand: the axis along which the operand comes in pieces; −1 if all of it is read
	axes   map[*ir.Node][]int
	cut    map[*ir.Value]int    // by value that comes in pieces: its axis
	cannot map[*ir.Node]bool    // nodes that must be computed once
	sliced map[*ir.Value][]int  // by value that is computed once: the axes along which pieces of it are read
	forced map[*ir.Value]bool   // values that come in pieces and that a node or a result needs in full
	level  map[*ir.Node]int     // index of the loop that a node belongs to, or comes before
	work   map[*ir.Node]float64 // operations
	reads  map[*ir.Node][]*ir.Value

	stages   map[int][]*ir.Node // by index of the loop that they come before: nodes that are in no loop
	crossing map[*ir.Value]bool // values that a loop reads after the end of the loop that makes them

	// One candidate:
	each  int64 // examples of a piece
	kept  map[*ir.Value]bool
	loops []batchLoop
	more  float64 // ratio of the operations that are done again to all operations
	alive float64 // estimate of the bytes alive
}

// batchLoop is a loop over the pieces.
type batchLoop struct {
	nodes []*ir.Node  // in order
	sums  []*ir.Node  // the nodes that sum
	keep  []*ir.Value // the values that are kept in full
}

// newBatching finds the role of each node if the batch has the given extent.
func newBatching(chunking *chunking, extent sym.Expr) *batching {
	b := &batching{chunking: chunking, extent: extent, cannot: map[*ir.Node]bool{}, work: map[*ir.Node]float64{},
		reads: map[*ir.Node][]*ir.Value{}}
	b.most = int64(b.number(extent))
	for _, n := range b.block.Nodes {
		b.reads[n] = valuesOf(n)
		if len(n.Outputs) == 1 && n.Outputs[0] != nil {
			b.work[n] = operationsAt(n, b.number)
		}
	}
	for again := true; again; {
		b.assign()
		again = false
		for v := range b.forced {
			if !b.leads(v) { // its pieces are not contiguous
				b.cannot[v.Node], again = true, true
			}
		}
		for n, role := range b.roles {
			if role == summing && b.larger(n) {
				b.cannot[n], again = true, true
			}
		}
	}
	return b
}

// batched describes a candidate for the caller of Batch.
func (b *batching) batched() *Batched {
	d := &Batched{Chunked: Chunked{Pieces: (b.most + b.each - 1) / b.each, Rows: b.most, Share: b.more}}
	seen := map[*ir.Node]bool{}
	for _, l := range b.loops {
		if len(l.nodes) > 0 {
			d.Loops++
		}
		for _, n := range l.nodes {
			if d.Operations += int64(b.work[n]); seen[n] {
				continue
			}
			seen[n] = true
			d.Operations -= int64(b.work[n])
			if d.Nodes = append(d.Nodes, n); b.roles[n] == piecewise && !slices.Contains(l.keep, n.Outputs[0]) {
				d.Bytes = max(d.Bytes, int64(b.size[n.Outputs[0]]))
			}
		}
	}
	return d
}
