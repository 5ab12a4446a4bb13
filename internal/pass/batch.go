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
)

// mostParts is the most pieces of a batch whose extent is a number, unless each example is one. Where it is a dimension
// each is.
const mostParts = 32

// mostCuts is how many loops more than sums ask for the block may be divided among.
const mostCuts = 4

// mostDropped is how many of the kept values are compared when one of them has to go.
const mostDropped = 8

// Batched is what is told of a batch that is computed in pieces.
type Batched struct {
	Chunked
	Loops int64 // one behind the other, each over all pieces
}

// Batch has a block computed in pieces of the batch, in loops over some examples at a time. A sum over the whole batch,
// such as the derivative of a weight or a statistic of batch normalization, grows from piece to piece, and what reads
// it waits for the end of its loop: where one sum waits for another, loops follow each other. What a later loop reads
// of an earlier one is kept whole, or computed again piece by piece.
//
// Of the ways that keep no more than so many bytes alive, by an estimate, Batch chooses the one that adds the fewest
// operations, else the one that keeps least alive. done is nil if there is none. undo puts the nodes back.
//
// The batch is the first axis of operands that are no states; its extent may be a dimension. Sums come in another order
// than without pieces.
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

// SumsUp reports whether a module sums up over its batch, as training steps do.
func SumsUp(m *ir.Module) bool {
	b := batchOf(m)
	return b != nil && slices.Contains(slices.Collect(maps.Values(b.roles)), summing)
}

// batchOf is a block and its batch: of the extents that operands begin with, the one of which most bytes come in
// pieces. It is nil if there is none.
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
			chunking = newChunking(m, 0)
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

// given are the operands of a module that have axes and are no states.
func given(m *ir.Module) (list []*ir.Value) {
	for _, v := range m.Main.Body.Params {
		if len(v.Type.Shape) > 0 && !slices.ContainsFunc(m.Main.States, func(s ir.State) bool { return s.In == v }) {
			list = append(list, v)
		}
	}
	return list
}

// restore puts a block's nodes back, and the constants.
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

// role is how a node is computed.
type role int

const (
	once      role = iota
	piecewise      // its result, a piece at a time
	summing        // it sums up over all pieces
)

// batching is a block that is to be computed in pieces of its batch.
type batching struct {
	*chunking
	extent sym.Expr // of the batch
	most   int64    // examples at the dimensions' bounds

	roles map[*ir.Node]role
	// of a node that is not whole, by operand: the axis along which it comes in pieces; −1 if all of it is read
	axes   map[*ir.Node][]int
	cut    map[*ir.Value]int    // the axis of a value that comes in pieces
	cannot map[*ir.Node]bool    // nodes that must be whole
	parted map[*ir.Value][]int  // the axes along which pieces are read of values that are computed once
	forced map[*ir.Value]bool   // values that come in pieces and that somebody reads whole
	level  map[*ir.Node]int     // which loop a node belongs to, or comes before
	work   map[*ir.Node]float64 // operations
	reads  map[*ir.Node][]*ir.Value

	stages   map[int][]*ir.Node // by the loop that they come before: nodes that are not in one
	crossing map[*ir.Value]bool // values that a loop reads behind the place at which the one that makes them ends

	// One way to do it.
	each  int64 // examples of a piece
	kept  map[*ir.Value]bool
	loops []batchLoop
	more  float64 // operations that are done again, as a share of all
	alive float64 // bytes, about
}

// batchLoop is a loop over the pieces.
type batchLoop struct {
	nodes []*ir.Node  // in order
	sums  []*ir.Node  // of nodes: those that sum up
	keep  []*ir.Value // what is kept whole of it
}

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
			if !b.leads(v) { // its pieces do not lie one behind the other
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

// larger reports whether a sum takes more than what it sums up.
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

// rowsOf is how many rows of an axis an example has; ok is false if it is none of the batch's.
func (b *batching) rowsOf(v *ir.Value, axis int) (rows int64, ok bool) {
	rows, ok = v.Type.Shape[axis].Multiple(b.extent)
	return rows, ok && rows > 0
}

// leads reports whether the pieces of a value lie one behind the other.
func (b *batching) leads(v *ir.Value) bool {
	return !slices.ContainsFunc(v.Type.Shape[:b.cut[v]], func(e sym.Expr) bool { return !isOne(e) })
}

// assign finds the role of each node.
func (b *batching) assign() {
	b.roles, b.axes, b.cut, b.parted, b.forced = map[*ir.Node]role{}, map[*ir.Node][]int{}, map[*ir.Value]int{},
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

func (b *batching) force(v *ir.Value) {
	if _, made := b.at[v.Node]; made {
		b.forced[v] = true
	}
}

// take has a node compute its result in pieces of an axis.
func (b *batching) take(n *ir.Node, axis int, in []int) {
	b.roles[n], b.axes[n], b.cut[n.Outputs[0]] = piecewise, in, axis
	b.along(n, in)
}

// along has operands come in pieces too that are made of nothing which does, as far as they can.
func (b *batching) along(n *ir.Node, in []int) {
	for i, v := range n.Inputs {
		if v == nil || in[i] < 0 || b.comes(v) {
			continue
		}
		if b.adopt(v, in[i]); !b.comes(v) {
			b.parted[v] = append(b.parted[v], in[i])
		}
	}
}

// adopt has a value come in pieces of an axis, if it is cheap to compute and made of nothing that does; otherwise a
// piece of it is read of the whole.
func (b *batching) adopt(v *ir.Value, axis int) {
	n := v.Node
	if _, made := b.at[n]; !made || b.cannot[n] || b.roles[n] != once || !lone(n) || !cheap(n) {
		return
	}
	if slices.ContainsFunc(b.parted[v], func(other int) bool { return other != axis }) {
		return
	}
	in, ok := b.fits(n, axis)
	if ok {
		b.take(n, axis, in)
	}
}

// lone reports whether a node has one result, that is not known as a number.
func lone(n *ir.Node) bool {
	return len(n.Outputs) == 1 && n.Outputs[0] != nil && n.Outputs[0].Known == nil && len(n.Regions) == 0
}

// cheap reports whether a node is computed again rather than kept.
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

// fits reports whether a node can be computed in pieces of an axis, each of the same examples of its operands, and of
// their axes in.
func (b *batching) fits(n *ir.Node, axis int) (in []int, ok bool) {
	out, whole := b.rowsOf(n.Outputs[0], axis)
	if !whole {
		return nil, false
	}
	if in, ok = b.rows(n, axis); !ok {
		return nil, false
	}
	const from, to = 3, 5 // any
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
			ops.Span{From: from * out, To: to * out}) != (ops.Span{From: from * rows, To: to * rows}) {
			return nil, false
		}
	}
	return in, true
}

// sums reports whether a node sums up over the batch, and along which axes of its operands.
func (b *batching) sums(n *ir.Node) (in []int, ok bool) {
	merge := ops.Of(n).Merge
	if merge.By == "" || !lone(n) {
		return nil, false
	}
	if dt := n.Outputs[0].Type.DType; dt != dtype.F32 && dt != dtype.F64 &&
		!(dt.IsInt() && dt.Bits() >= 32 && merge.Integers) {
		return nil, false // sums of less would round at each piece
	}
	x := n.Inputs[0]
	at, cut := b.cut[x]
	if n.Op.Name() != "matmul" {
		if !cut || n.Attrs["outer"] != nil || len(n.Inputs) != 1 || !slices.Contains(ops.ReducedAxes(n), at) {
			return nil, false
		}
		return []int{at}, true
	}
	y := n.Inputs[1]
	rank, other := len(x.Type.Shape), len(y.Type.Shape)
	if rank < 2 || other < 2 || slices.ContainsFunc(n.Inputs[2:], func(v *ir.Value) bool { return v != nil }) {
		return nil, false
	}
	in = []int{rank - 1, other - 2}
	if n.Attrs.Bool("transpose_a") {
		in[0]--
	}
	if n.Attrs.Bool("transpose_b") {
		in[1]++
	}
	for i, v := range n.Inputs[:2] {
		if at, cut := b.cut[v]; cut && at != in[i] {
			return nil, false
		}
	}
	rows, ok := b.rowsOf(x, in[0])
	if others, same := b.rowsOf(y, in[1]); !ok || !same || others != rows {
		return nil, false
	}
	return append(in, slices.Repeat([]int{-1}, len(n.Inputs)-2)...), true
}

// levels finds the loop that each node belongs to, where loops end after so many sums that none has to wait for, so
// that not all sums are there at once; false if there are too few sums.
func (b *batching) levels(cuts int) bool {
	places := b.places(cuts)
	if len(places) < cuts {
		return false
	}
	b.level, b.stages, b.crossing = map[*ir.Node]int{}, map[int][]*ir.Node{}, map[*ir.Value]bool{}
	for at, n := range b.block.Nodes {
		if b.roles[n] == once {
			for _, v := range b.reads[n] {
				b.level[n] = max(b.level[n], b.ready(v, false))
			}
			continue
		}
		for _, place := range places {
			if place < at {
				b.level[n]++
			}
		}
		for i, v := range n.Inputs {
			if v == nil {
				continue
			}
			b.level[n] = max(b.level[n], b.ready(v, b.axes[n][i] >= 0))
			if made, inside := b.at[v.Node]; inside && b.comes(v) && slices.ContainsFunc(places, func(place int) bool {
				return made <= place && place < at
			}) {
				b.crossing[v] = true
			}
		}
	}
	first := map[*ir.Value]int{} // the level of the first reader
	for _, n := range slices.Backward(b.block.Nodes) {
		if b.roles[n] == once && b.level[n] == 0 { // what waits for no loop comes where it is read
			least := math.MaxInt
			for _, v := range n.Outputs {
				if at, read := first[v]; read {
					least = min(least, at)
				}
			}
			if least < math.MaxInt {
				b.level[n] = least
			}
		}
		for _, v := range b.reads[n] {
			if at, read := first[v]; !read || b.level[n] < at {
				first[v] = b.level[n]
			}
		}
	}
	for _, n := range b.block.Nodes {
		if b.roles[n] == once {
			b.stages[b.level[n]] = append(b.stages[b.level[n]], n)
		}
	}
	return true
}

// places are the nodes after which loops end, so that about as many bytes of sums grow in each.
func (b *batching) places(cuts int) (places []int) {
	total := 0.0
	for n, role := range b.roles {
		if role == summing {
			total += b.size[n.Outputs[0]]
		}
	}
	sum := 0.0
	for at, n := range b.block.Nodes {
		if b.roles[n] != summing {
			continue
		}
		if sum += b.size[n.Outputs[0]]; len(places) < cuts && sum*float64(cuts+1) >= total*float64(len(places)+1) {
			places = append(places, at)
		}
	}
	return places
}

// ready is the first loop in which a value may be read, or a piece of it.
func (b *batching) ready(v *ir.Value, part bool) int {
	n := v.Node
	if _, made := b.at[n]; !made {
		return 0
	}
	if r := b.roles[n]; r == summing || r == piecewise && !part {
		return b.level[n] + 1
	}
	return b.level[n]
}

// parts are the numbers of examples that a piece may have: they divide the batch, whatever it is.
func (b *batching) parts() (list []int64) {
	extent, fixed := b.extent.Const()
	if !fixed {
		return []int64{1}
	}
	for parts := int64(2); parts <= mostParts && parts < extent; parts++ {
		if extent%parts == 0 {
			list = append(list, extent/parts)
		}
	}
	return append(list, 1)
}

// search is the best of the ways to compute the block with these loops, and of another way: with all dear results kept,
// and with fewer and fewer of them, until no more is alive than is allowed in the smallest pieces.
func (b *batching) search(allowed float64, best *batching) *batching {
	parts := b.parts()
	kept := map[*ir.Value]bool{}
	for _, n := range b.block.Nodes {
		if b.roles[n] == piecewise && b.leads(n.Outputs[0]) && (!cheap(n) || b.crossing[n.Outputs[0]]) {
			kept[n.Outputs[0]] = true
		}
	}
	for {
		for i, each := range parts {
			w, there := b.way(each, kept, nil)
			if len(w.loops) > 0 && (best == nil || w.better(best, allowed)) {
				best = w
			}
			if i < len(parts)-1 {
				continue
			}
			out := b.dropped(w, there)
			if len(w.loops) == 0 || w.alive <= allowed || out == nil {
				return best
			}
			delete(kept, out)
		}
	}
}

// way is the way to compute the block in pieces of so many examples with some values kept, but one. It tells which are
// there in the fullest loop.
func (b *batching) way(each int64, kept map[*ir.Value]bool, but *ir.Value) (w *batching, there map[*ir.Value]bool) {
	next := *b
	next.each, next.kept = each, maps.Clone(kept)
	delete(next.kept, but)
	next.lay()
	return &next, next.weigh()
}

// dropped is the value that is not kept any more: of the largest that are there in the fullest loop the one that costs
// least for the bytes that are saved; nil if there is none.
func (b *batching) dropped(w *batching, there map[*ir.Value]bool) (out *ir.Value) {
	var large []*ir.Value
	for v := range w.kept {
		if there[v] && !b.forced[v] {
			large = append(large, v)
		}
	}
	slices.SortFunc(large, func(x, y *ir.Value) int {
		return cmp.Or(cmp.Compare(b.size[y], b.size[x]), cmp.Compare(b.at[x.Node], b.at[y.Node]))
	})
	var best *batching
	for _, v := range large[:min(len(large), mostDropped)] {
		next, _ := b.way(w.each, w.kept, v)
		if best == nil || next.price(w) < best.price(w) {
			best, out = next, v
		}
	}
	return out
}

// price is how many operations more a way takes than another for each byte that it keeps alive less, or than one byte
// where it keeps no fewer.
func (b *batching) price(than *batching) float64 {
	return (b.more - than.more + 1e-9) / max(than.alive-b.alive, 1)
}

// lay finds what each loop computes.
func (b *batching) lay() {
	last := 0
	for _, n := range b.block.Nodes {
		if b.roles[n] != once {
			last = max(last, b.level[n])
		}
	}
	b.loops = make([]batchLoop, last+1)
	wanted := maps.Clone(b.forced)
	base := 0.0
	total, counted := 0.0, map[*ir.Node]bool{}
	for at := last; at >= 0; at-- {
		in := map[*ir.Node]bool{}
		var visit func(n *ir.Node)
		visit = func(n *ir.Node) {
			if in[n] {
				return
			}
			in[n] = true
			for i, v := range n.Inputs {
				if v == nil || b.axes[n][i] < 0 || !b.comes(v) {
					continue
				}
				if _, made := b.at[v.Node]; !made {
					continue
				}
				if (b.kept[v] || b.forced[v]) && b.level[v.Node] < at {
					wanted[v] = true
					continue
				}
				visit(v.Node)
			}
		}
		for _, n := range b.block.Nodes {
			if b.level[n] == at && (b.roles[n] == summing || b.roles[n] == piecewise && wanted[n.Outputs[0]]) {
				visit(n)
			}
		}
		l := &b.loops[at]
		for _, n := range b.block.Nodes {
			if !in[n] {
				continue
			}
			l.nodes = append(l.nodes, n)
			if total += b.work[n]; !counted[n] {
				counted[n], base = true, base+b.work[n]
			}
			if b.roles[n] == summing {
				l.sums = append(l.sums, n)
			} else if v := n.Outputs[0]; wanted[v] && b.level[n] == at {
				l.keep = append(l.keep, v)
			}
		}
	}
	if b.more = 0; base > 0 {
		b.more = total/base - 1
	}
	if !slices.ContainsFunc(b.loops, func(l batchLoop) bool { return len(l.nodes) > 1 }) {
		b.loops = nil
	}
}

// weigh finds about how much is alive in the fullest loop, and which values are there whole. Nodes that are in no loop
// get another order later, and are parts of kernels.
func (b *batching) weigh() (there map[*ir.Value]bool) {
	type span struct{ first, last int }
	spans := map[*ir.Value]*span{}
	last := map[*ir.Value]int{} // the place of the last reader
	until := func(v *ir.Value, at int) {
		last[v] = max(last[v], at)
		if s := spans[v]; s != nil {
			s.last = max(s.last, at)
		}
	}
	var inside []float64 // by place: pieces
	visit := func(once func(n *ir.Node, at int), loop func(l *batchLoop, at int)) {
		at := 0
		for level := range len(b.loops) + 1 {
			for _, n := range b.stages[level] {
				once(n, at)
				at++
			}
			if level < len(b.loops) && len(b.loops[level].nodes) > 0 {
				loop(&b.loops[level], at)
				at++
			}
		}
	}
	visit(func(n *ir.Node, at int) {
		inside = append(inside, 0)
		for _, v := range n.Outputs {
			if v != nil {
				spans[v] = &span{at, at}
			}
		}
	}, func(l *batchLoop, at int) {
		inside = append(inside, max(1, b.within(*l)))
		for _, n := range l.sums {
			spans[n.Outputs[0]] = &span{at, at}
		}
		for _, v := range l.keep {
			spans[v] = &span{at, at}
		}
	})
	visit(func(n *ir.Node, at int) {
		for _, v := range b.reads[n] {
			until(v, at)
		}
	}, func(l *batchLoop, at int) {
		for _, n := range l.nodes {
			for _, v := range n.Inputs {
				if v != nil {
					until(v, at)
				}
			}
		}
	})
	for _, n := range slices.Backward(b.block.Nodes) { // what lies in another keeps it
		if ops.Of(n).Alias && b.roles[n] == once && spans[n.Outputs[0]] != nil {
			until(n.Inputs[0], spans[n.Outputs[0]].last)
		}
	}
	live := make([]float64, len(inside)+1)
	for v, s := range spans {
		live[s.first] += b.wholeBytes(v)
		live[s.last+1] -= b.wholeBytes(v)
	}
	for _, s := range b.module.Main.States { // what a state becomes lies apart as long as its old value is read
		v := b.block.Results[s.Out]
		if at := spans[v]; at != nil && last[s.In] > at.first {
			live[at.first] += b.bytesOf(v)
			live[last[s.In]+1] -= b.bytesOf(v)
		}
	}
	b.alive = -1
	sum, fullest := 0.0, 0
	for at, pieces := range inside {
		if sum += live[at]; pieces > 0 && sum+pieces > b.alive {
			b.alive, fullest = sum+pieces, at
		}
	}
	there = map[*ir.Value]bool{}
	for v, s := range spans {
		there[v] = s.first <= fullest && fullest <= s.last
	}
	return there
}

// wholeBytes is what a value takes that is there whole.
func (b *batching) wholeBytes(v *ir.Value) float64 {
	if b.roles[v.Node] == once {
		return b.bytes[v]
	}
	return b.size[v]
}

// within is about how much of pieces is alive at once in a loop.
func (b *batching) within(l batchLoop) (most float64) {
	share := float64(b.each) / float64(b.most)
	last := map[*ir.Value]int{}
	for i, n := range l.nodes {
		for _, v := range n.Inputs {
			last[v] = i
		}
	}
	live, ends := 0.0, map[int]float64{}
	for i, n := range l.nodes {
		if b.roles[n] == piecewise && !slices.Contains(l.keep, n.Outputs[0]) {
			bytes := share * b.bytes[n.Outputs[0]]
			live += bytes
			ends[last[n.Outputs[0]]] += bytes
		}
		most = max(most, live)
		live -= ends[i]
	}
	return most
}

// better reports whether a way is better than another.
func (b *batching) better(than *batching, allowed float64) bool {
	if fits := b.alive <= allowed; fits != (than.alive <= allowed) {
		return fits
	} else if !fits {
		return b.alive < than.alive
	}
	return b.cost() < than.cost()
}

// cost is about how much longer the block takes, as a share. Smaller pieces cost something too: each reads all weights.
func (b *batching) cost() float64 { return b.more + 0.01*float64(b.most)/float64(b.each) }

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

// build puts the loops in the nodes' place.
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

// loop builds a loop.
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
	type part struct {
		of   *ir.Value
		axis int
	}
	now := map[part]*ir.Value{}
	sums := make([]*ir.Value, len(l.sums))
	for _, n := range l.nodes {
		in.Source = n.Source
		list := slices.Clone(n.Inputs)
		for i, v := range n.Inputs {
			if v == nil || b.axes[n][i] < 0 {
				continue
			}
			p := part{v, b.axes[n][i]}
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
			sums[at] = in.Op(merge.By, nil, body.Params[2+at], in.Node(cmp.Or(merge.Part, n.Op.Name()), attrs, list...).
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
		now[part{v, axis}] = made
	}
	body.Results = append([]*ir.Value{goesOn(in)}, sums...)
	var at, extents []sym.Expr
	for _, v := range l.keep {
		rows, _ := b.rowsOf(v, b.cut[v])
		at, extents = append(at, first.Mul(sym.Const(rows))), append(extents, v.Type.Shape[b.cut[v]])
		piece := now[part{v, b.cut[v]}]
		body.Results = append(body.Results, reshapedTo(in, piece, piece.Type.Shape[b.cut[v]:]))
	}
	made := ops.LoopLaid(to, body, trip, at, extents, begin...)
	for i, n := range l.sums {
		to.Source = n.Source
		is := made[i]
		if ops.Of(n).Merge.Part != "" {
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

// startOf is what a sum is before the first piece.
func startOf(to *ir.Builder, n *ir.Node) *ir.Value {
	t := n.Outputs[0].Type
	return ops.Expand(to, ops.Scalar(to, t.DType, ops.Of(n).Merge.Start()), t.Shape...)
}
