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
	Pieces int64      // of the rows; of each image's, where there are several
	Rows   int64      // of the last node's result
	Bytes  int64      // of the largest result between the nodes, that are not there any more
	// Operations is about the arithmetic that is added for rows which several pieces need, Share that as a share of the
	// nodes'.
	Operations int64
	Share      float64
}

// chunkReach is how many nodes before and behind one a stretch may begin and end.
const chunkReach = 32

// mostPieces is the most pieces that a stretch is computed in.
const mostPieces = 16

// Chunk has stretches of nodes around those that wanted names computed in a loop over pieces of an axis — the batch,
// the rows of images or matrices, a sequence — so that what lies between the stretch's operands and its results is
// there a piece at a time. If windows move along the axis a piece has the rows that the next one's windows see, and
// computes those again that the piece before it had. Of the stretches that keep no more than so many bytes alive it
// chooses those that add the fewest operations, else those that keep least alive. undo puts the nodes back. Shapes must
// be numbers along the axis; the batch before it may be a dimension.
func Chunk(m *ir.Module, wanted func(n *ir.Node) bool, allowed float64) (done []Chunked, undo func()) {
	block := m.Main.Body
	before, constants := block.Nodes, block.Consts
	undo = func() { restore(block, before, constants) }
	c := newChunking(m, allowed)
	found := c.best(wanted)
	slices.SortStableFunc(found, func(a, b *stretch) int { return cmp.Compare(b.gain, a.gain) })
	taken := map[*ir.Node]bool{}
	for _, s := range found {
		if slices.ContainsFunc(slices.Concat(s.nodes, s.apart), func(n *ir.Node) bool { return taken[n] }) {
			continue
		}
		if s.build(m, block) {
			done = append(done, s.chunked())
			for _, n := range slices.Concat(s.nodes, s.apart) {
				taken[n] = true
			}
		}
	}
	return done, undo
}

// chunking is what is known of a block whose nodes are to be computed in pieces.
type chunking struct {
	module  *ir.Module
	block   *ir.Block
	allowed float64
	at      map[*ir.Node]int
	uses    map[*ir.Value]int     // the last node that reads a value
	size    map[*ir.Value]float64 // in the arena, at the dimensions' bounds
	// size, or 0 if a value is part of a kernel that makes another of it, or lies in another
	bytes   map[*ir.Value]float64
	through []float64          // by node: what is alive before it and read by it or later
	part    map[*ir.Value]bool // operands that are computed in their place in a result that holds them
	from    map[*ir.Value]int  // of a result that holds its operands: the node that makes the first of those
	known   map[rowsOf]rowsAre
}

type rowsOf struct {
	n    *ir.Node
	axis int
}

type rowsAre struct {
	in []int
	ok bool
}

func newChunking(m *ir.Module, allowed float64) *chunking {
	block := m.Main.Body
	c := &chunking{module: m, block: block, allowed: allowed, at: map[*ir.Node]int{}, uses: map[*ir.Value]int{},
		size: map[*ir.Value]float64{}, bytes: map[*ir.Value]float64{},
		through: make([]float64, len(block.Nodes)+1), part: map[*ir.Value]bool{}, from: map[*ir.Value]int{},
		known: map[rowsOf]rowsAre{}}
	readers := map[*ir.Value]int{}
	for i, n := range block.Nodes {
		c.at[n] = i
		for _, v := range valuesOf(n) {
			c.uses[v] = i
			readers[v]++
		}
	}
	for _, v := range block.Results {
		c.uses[v] = math.MaxInt
		readers[v]++
	}
	until := maps.Clone(c.uses) // the last node that reads a value or what lies in it
	for _, n := range slices.Backward(block.Nodes) {
		if ops.Of(n).Alias {
			until[n.Inputs[0]] = max(until[n.Inputs[0]], until[n.Outputs[0]])
		}
	}
	for i, n := range block.Nodes {
		if !ops.Of(n).Holds {
			continue
		}
		c.from[n.Outputs[0]] = i
		for _, v := range n.Inputs {
			if at, made := c.at[v.Node]; made && !c.part[v] && !looped(v) {
				c.part[v] = true
				c.from[n.Outputs[0]] = min(c.from[n.Outputs[0]], at)
			}
		}
	}
	for i, n := range block.Nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if c.size[v] = 0; !slices.Contains(block.Results, v) { // it is a part of the arena
				c.size[v] = c.bytesOf(v)
			}
			if c.uses[v] < len(block.Nodes) {
				reader := block.Nodes[c.uses[v]]
				joined := readers[v] == 1 && ops.Elementwise(reader) && slices.EqualFunc(reader.Outputs[0].Type.Shape, v.Type.Shape,
					sym.Expr.Equal) &&
					// of several the last
					!slices.ContainsFunc(reader.Inputs, func(x *ir.Value) bool {
						return x != nil && x.Node != nil && c.at[x.Node] > i
					})
				if joined || c.part[v] || ops.Of(n).Alias && n.Inputs[0].Node != nil {
					continue
				}
			}
			c.bytes[v] = c.size[v]
			begin := i + 1
			if from, early := c.from[v]; early {
				begin = from
			}
			for at := begin; at <= min(until[v], len(block.Nodes)-1); at++ {
				c.through[at] += c.bytes[v]
			}
		}
	}
	return c
}

// number is an extent at the dimensions' bounds; 0 if nobody knows it.
func (c *chunking) number(e sym.Expr) float64 {
	v, err := sym.AtLimits(e, c.module.Limits).Eval(func(name sym.Name) (int64, bool) {
		r, ok := c.module.Dims.Get(name)
		return r.Max, ok && r.Max != sym.NoMax
	})
	if err != nil {
		return 0
	}
	return float64(v)
}

// bytesOf is a value's size at the dimensions' bounds.
func (c *chunking) bytesOf(v *ir.Value) float64 {
	return c.number(sym.Product(v.Type.Shape...)) * float64(v.Type.DType.Bits()) / 8
}

// looped reports whether a value is what a loop has laid together, which has memory of its own.
func looped(v *ir.Value) bool {
	for v.Node != nil && ops.Of(v.Node).Alias {
		v = v.Node.Inputs[0]
	}
	return v.Node != nil && v.Node.Op.Name() == "loop"
}

// early reports whether a value lies in memory before a node, although the node that completes it comes later: what is
// before it is computed in its place.
func (c *chunking) early(v *ir.Value, node int) bool {
	from, ok := c.from[v]
	return ok && from < node && c.at[v.Node] >= node
}

// rows is ops.Rows, which is asked many times.
func (c *chunking) rows(n *ir.Node, axis int) (in []int, ok bool) {
	key := rowsOf{n, axis}
	r, known := c.known[key]
	if !known {
		r.in, r.ok = ops.Rows(n, axis)
		c.known[key] = r
	}
	return r.in, r.ok
}

// chosen is a stretch for a node, and how much is about alive there and in the stretch with it.
type chosen struct {
	*stretch
	alive float64
}

// best is the stretches that are best for each wanted node: around it, or around a concatenation behind it in whose
// result it already computes.
func (c *chunking) best(wanted func(n *ir.Node) bool) (found []*stretch) {
	nodes := c.block.Nodes
	whole := make([]float64, len(nodes)) // what is alive at a node, of those that are wanted
	best := make([]chosen, len(nodes))
	for i, n := range nodes {
		if wanted(n) && len(n.Outputs) == 1 && n.Outputs[0] != nil {
			if whole[i] = c.through[i]; !c.early(n.Outputs[0], i) {
				whole[i] += c.bytes[n.Outputs[0]]
			}
		}
	}
	for first := range nodes {
		early, least := len(nodes), c.through[first]
		for last := first; last < min(len(nodes), first+2*chunkReach); last++ {
			if out := nodes[last].Outputs; len(out) == 1 && c.early(out[0], first) {
				early = min(early, c.from[out[0]])
				least -= c.bytes[out[0]]
			}
			if last == first || early > first && slices.Max(whole[first:last+1])*0.9 <= least {
				continue
			}
			c.each(first, last, func(s *stretch) {
				for at := max(first, last-chunkReach+1); at <= min(last, first+chunkReach-1); at++ {
					c.consider(&best[at], chosen{s, s.cost}, 0.9*whole[at])
				}
				for at := early; at < first; at++ {
					c.consider(&best[at], chosen{s, max(s.cost, whole[at]-s.freed(at))}, 0.98*whole[at])
				}
			})
		}
	}
	for at, s := range best {
		if s.stretch != nil {
			s.gain = max(s.gain, whole[at]-s.alive)
			if !slices.Contains(found, s.stretch) {
				found = append(found, s.stretch)
			}
		}
	}
	return found
}

// consider takes what is better, and keeps less alive than so much.
func (c *chunking) consider(best *chosen, other chosen, less float64) {
	if other.alive < less && (best.stretch == nil || c.better(other, *best)) {
		*best = other
	}
}

// better reports whether a stretch is better than another: where neither keeps little enough alive, twice the
// operations must halve what is.
func (c *chunking) better(s, than chosen) bool {
	if fits := s.alive <= c.allowed; fits != (than.alive <= c.allowed) {
		return fits
	} else if fits && math.Abs(s.more-than.more) > 0.01*s.work {
		return s.more < than.more
	}
	return s.alive*(1+s.share()) < 0.98*than.alive*(1+than.share())
}

// each visits the ways to compute nodes from first to last in pieces.
func (c *chunking) each(first, last int, visit func(s *stretch)) {
	n := c.block.Nodes[last]
	if len(n.Outputs) != 1 || n.Outputs[0] == nil {
		return
	}
	for axis := range n.Outputs[0].Type.Shape {
		extent, ok := n.Outputs[0].Type.Shape[axis].Const()
		if !ok || extent < 2 {
			continue
		}
		s := &stretch{chunking: c, first: first, last: last}
		if !s.spread(n, axis) {
			continue
		}
		for pieces := int64(mostPieces); pieces >= 2; pieces /= 2 {
			if way := *s; way.lay(pieces) {
				way.weigh()
				visit(&way)
				if way.more == 0 {
					break // fewer pieces keep more alive, and save nothing
				}
			}
		}
	}
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

// stretch is nodes [first, last] of a block, of which nodes are computed in pieces; the others are moved before them.
type stretch struct {
	*chunking
	first, last int
	nodes       []*ir.Node
	apart       []*ir.Node
	axes        map[*ir.Value]int // by value that comes in pieces: the axis
	// each piece is of one of so many images, along the first axis; nil: there is none before the axis
	images     *sym.Expr
	pieces     int64
	have       map[*ir.Value]ops.Piece
	cost, gain float64 // bytes alive at once, and how many fewer that is
	work, more float64 // operations, and those that are done again
}

func (s *stretch) inside(v *ir.Value) bool {
	at, ok := s.at[v.Node]
	return ok && at >= s.first && at <= s.last
}

// leaves reports whether a value is read behind the stretch.
func (s *stretch) leaves(v *ir.Value) bool { return s.uses[v] > s.last }

// leading reports whether the pieces of a value lie one behind the other.
func (s *stretch) leading(v *ir.Value) bool {
	before := v.Type.Shape[:s.axes[v]]
	if s.images != nil {
		before = before[1:]
	}
	return !slices.ContainsFunc(before, func(e sym.Expr) bool { return !isOne(e) })
}

// extent is the number of rows of a value that comes in pieces.
func (s *stretch) extent(v *ir.Value) int64 {
	n, _ := v.Type.Shape[s.axes[v]].Const()
	return n
}

// spread finds the axis of every value of the stretch that comes in pieces, from one node's; false if the nodes do
// not allow it.
func (s *stretch) spread(from *ir.Node, axis int) bool {
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

// agrees reports whether the axes of a node's operands, by which it comes in pieces, are those that the operands have,
// and images are computed apart.
func (s *stretch) agrees(n *ir.Node, in []int) bool {
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

// gather lists the nodes that come in pieces, and those that go before them; false if it cannot be so.
func (s *stretch) gather(assigned map[*ir.Node]bool) bool {
	for _, n := range s.block.Nodes[s.first : s.last+1] {
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
	if len(s.nodes) < 2 || !assigned[s.block.Nodes[s.first]] || !assigned[s.block.Nodes[s.last]] {
		return false
	}
	for _, n := range s.nodes {
		if s.leaves(n.Outputs[0]) && !s.leading(n.Outputs[0]) {
			return false
		}
		// Whoever needs all of an operand cannot have it from within.
		in, _ := s.rows(n, s.axes[n.Outputs[0]])
		for i, v := range n.Inputs {
			if v != nil && in[i] < 0 && v.Node != nil && assigned[v.Node] {
				return false
			}
		}
	}
	return true
}

// operands visits the operands of a node that come in pieces.
func (s *stretch) operands(n *ir.Node, visit func(i int, v *ir.Value)) {
	in, _ := s.rows(n, s.axes[n.Outputs[0]])
	for i, v := range n.Inputs {
		if v != nil && in[i] >= 0 {
			visit(i, v)
		}
	}
}

// weigh finds about how much is alive in the loop: operands and results whole, what is between them by pieces.
func (s *stretch) weigh() {
	s.cost = s.through[s.first]
	for _, n := range s.nodes {
		if v := n.Outputs[0]; s.early(v, s.first) {
			s.cost -= s.bytes[v]
		}
	}
	for _, n := range s.apart {
		for _, v := range n.Outputs {
			if v != nil && s.uses[v] >= s.first {
				s.cost += s.size[v]
			}
		}
	}
	part := func(v *ir.Value) float64 {
		share := float64(s.have[v].Rows) / float64(max(s.extent(v), 1))
		if s.images != nil {
			if n, ok := s.images.Const(); ok {
				share /= float64(max(n, 1))
			}
		}
		if s.part[v] { // a piece of it may be copied
			return s.size[v] * share
		}
		return s.bytes[v] * share
	}
	last := map[*ir.Value]*ir.Node{} // in the loop
	copied := map[*ir.Value]bool{}
	seen := map[*ir.Value]bool{}
	for _, n := range s.nodes {
		if v := n.Outputs[0]; s.leaves(v) {
			s.cost += s.size[v]
		}
		s.operands(n, func(_ int, v *ir.Value) {
			last[v] = n
			if !seen[v] && !s.inside(v) {
				seen[v], copied[v] = true, v.Const == nil && !s.leading(v)
				s.cost += s.size[v] - s.bytes[v] // it is not part of a kernel any more
			}
		})
	}
	live, most := 0.0, 0.0
	for _, n := range s.nodes {
		s.operands(n, func(_ int, v *ir.Value) {
			if copied[v] && seen[v] {
				seen[v] = false
				live += part(v)
			}
		})
		live += part(n.Outputs[0])
		most = max(most, live)
		s.operands(n, func(_ int, v *ir.Value) {
			if last[v] == n && (s.inside(v) || copied[v]) {
				live -= part(v)
				delete(last, v)
			}
		})
	}
	s.cost += most
}

// freed is how much less is alive at a node before the stretch: results of concatenations that are not there as a
// whole.
func (s *stretch) freed(at int) (bytes float64) {
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

// share is what pieces add to the operations, as a share of them.
func (s *stretch) share() float64 {
	if s.work == 0 {
		return 0
	}
	return s.more / s.work
}

// chunked is what is told of a stretch.
func (s *stretch) chunked() Chunked {
	last := s.nodes[len(s.nodes)-1].Outputs[0]
	d := Chunked{Nodes: s.nodes, Pieces: s.pieces, Rows: s.extent(last), Operations: int64(s.more), Share: s.share()}
	for _, n := range s.nodes {
		if v := n.Outputs[0]; !s.leaves(v) {
			d.Bytes = max(d.Bytes, int64(s.size[v]*(1-min(1, float64(s.have[v].Rows)/float64(max(s.extent(v), 1))))))
		}
	}
	return d
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
	out := &ir.Block{Consts: slices.Clip(block.Consts)}
	b := ir.NewBuilder(ir.NewInference(m), out)
	b.Source = s.nodes[0].Source
	trips := sym.Const(s.pieces)
	if s.images != nil {
		trips = trips.Mul(*s.images)
	}
	trip := tripCount(b, trips)
	p := &pieced{stretch: s, now: map[*ir.Value]*ir.Value{}, alone: map[*ir.Value]*ir.Value{}}
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
	whole := ops.LoopLaid(b, body, trip, at, extent)
	for i, n := range leave {
		v := n.Outputs[0]
		b.Source = n.Source
		becomes(b, v, reshapedTo(b, whole[i], v.Type.Shape))
	}
	block.Consts = out.Consts
	block.Nodes = slices.Concat(was[:first], s.apart, out.Nodes, was[last+1:])
	return true
}

// tripCount is how often a loop over pieces runs.
func tripCount(b *ir.Builder, trips sym.Expr) *ir.Value {
	if count, fixed := trips.Const(); fixed {
		return b.Constant("pieces", tensor.Must(tensor.FromSlice([]int64{count})))
	}
	return ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{trips})
}

// goesOn is the condition of a loop that ends after its trips.
func goesOn(body *ir.Builder) *ir.Value {
	one := tensor.Must(tensor.New(dtype.Bool, 1))
	one.SetInt(0, 1)
	return body.Constant("again", one)
}

// becomes has a value be what another one is, so that who reads it need not change.
func becomes(b *ir.Builder, v, made *ir.Value) {
	if made.Node == nil || !slices.EqualFunc(made.Type.Shape, v.Type.Shape, sym.Expr.Equal) {
		b.Failf("the pieces of %s come together as %s", v.Name, made.Type)
	}
	made.Node.Outputs[made.Index] = v
	v.Node, v.Index = made.Node, made.Index
}

// reshapedTo is a value in a shape, the value itself where it has it.
func reshapedTo(b *ir.Builder, v *ir.Value, shape []sym.Expr) *ir.Value {
	if slices.EqualFunc(v.Type.Shape, shape, sym.Expr.Equal) {
		return v
	}
	return ops.Reshape(b, v, shape...)
}

// pieced is the body of a stretch's loop as it is built.
type pieced struct {
	*stretch
	*ir.Builder
	index, image sym.Expr
	now          map[*ir.Value]*ir.Value // pieces, by value
	alone        map[*ir.Value]*ir.Value // images, of values that do not come in pieces
}

// steps is a list of numbers by piece.
func (p *pieced) steps(values []int64) sym.Expr {
	e, ok := ops.Steps(values, p.index)
	if !ok {
		p.Failf("the pieces begin at too irregular rows")
	}
	return e
}

// node computes a node's piece.
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
		list[i], cut.In[i] = p.part(x, list[i])
		if !ops.RowsLoose(n, axis, i) {
			list[i], cut.In[i] = p.just(n, i, list[i], cut.In[i])
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

// part is the piece of an operand, of which whole is what there is of it.
func (p *pieced) part(v, whole *ir.Value) (*ir.Value, ops.Piece) {
	have := p.have[v]
	if p.now[v] == nil {
		p.now[v] = p.cut(whole, p.axes[v], p.steps(have.First), have.Rows)
	}
	return p.now[v], have
}

// just is the part of an operand's piece that a node's result is made of.
func (p *pieced) just(n *ir.Node, i int, part *ir.Value, have ops.Piece) (*ir.Value, ops.Piece) {
	out := n.Outputs[0]
	axis := p.axes[out]
	in, _ := p.rows(n, axis)
	want, later := ops.Piece{}, make([]int64, p.pieces)
	for k, first := range p.have[out].First {
		seen := ops.RowsSeen(n, axis, i, ops.Span{From: first, To: first + p.have[out].Rows})
		want.First, want.Rows = append(want.First, seen.From), seen.To-seen.From
		later[k] = seen.From - have.First[k]
	}
	return p.cut(part, in[i], p.steps(later), want.Rows), want
}

// cut is some rows of a value; the value itself where they are all.
func (p *pieced) cut(v *ir.Value, axis int, begin sym.Expr, rows int64) *ir.Value {
	if extent, ok := v.Type.Shape[axis].Const(); ok && extent == rows && begin.Equal(sym.Const(0)) {
		return v
	}
	return ops.SliceAxis(p.Builder, v, axis, begin, sym.Const(rows))
}
