package pass

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
)

// Chunked describes a segment of nodes that is now computed in pieces.
type Chunked struct {
	Nodes  []*ir.Node // the nodes before the pass
	Pieces int64      // number of pieces of the rows; of each image's rows if there are several images
	Rows   int64      // of the last node's result
	Bytes  int64      // of the largest intermediate result, less the bytes of one piece of it
	// Operations is an estimate of the arithmetic added for rows that several pieces compute; Share is its ratio to the
	// arithmetic of the nodes.
	Operations int64
	Share      float64
}

// chunkReach is how many nodes before a wanted node a segment may begin, and how many after it the segment may end.
const chunkReach = 32

// mostPieces is the largest number of pieces of a segment.
const mostPieces = 16

// Chunk replaces segments of nodes, each around a node for which wanted is true, by loops over pieces of an axis: the
// batch, the rows of images or matrices, a sequence. Only one piece of each intermediate result is then in memory. If
// windows move along the axis, neighbouring pieces overlap, and each computes the shared rows again. Among the segments
// that keep at most allowed bytes alive Chunk chooses those that add the fewest operations; if there is none, those
// that keep the fewest bytes alive. undo restores the nodes. Extents along the axis must be numbers; the batch before
// it may be a dimension.
func Chunk(m *ir.Module, costs recipes.Costs, wanted func(n *ir.Node) bool, allowed float64) (done []Chunked,
	undo func()) {
	block := m.Main.Body
	before, constants := block.Nodes, block.Consts
	undo = func() { restore(block, before, constants) }
	c := newChunking(m, costs, allowed)
	found := c.best(wanted)
	slices.SortStableFunc(found, func(a, b *segment) int { return cmp.Compare(b.gain, a.gain) })
	taken := map[*ir.Node]bool{}
	for _, s := range found {
		if slices.ContainsFunc(slices.Concat(s.nodes, s.moved), func(n *ir.Node) bool { return taken[n] }) {
			continue
		}
		if s.build(m, block) {
			done = append(done, s.chunked())
			for _, n := range slices.Concat(s.nodes, s.moved) {
				taken[n] = true
			}
		}
	}
	return done, undo
}

// chunking holds the facts about a block whose nodes are to be computed in pieces.
type chunking struct {
	module  *ir.Module
	block   *ir.Block
	costs   recipes.Costs
	allowed float64
	at      map[*ir.Node]int
	uses    map[*ir.Value]int     // the last node that reads a value
	size    map[*ir.Value]float64 // bytes in the arena, at the dimensions' bounds
	// size, or 0 if the value has no memory of its own: the kernel that reads it computes it, or it is an alias
	bytes   map[*ir.Value]float64
	through []float64          // by node: bytes made before it and read by it or later
	inPlace map[*ir.Value]bool // operands that are computed directly in the memory of the result that holds them
	from    map[*ir.Value]int  // of a result that holds its operands: the node that makes the first operand
	known   map[rowsOf]rowsAre
	// exhaustive: segments that cannot be chosen are examined too; weighed counts those examined. Both are for tests.
	exhaustive bool
	weighed    int
}

type rowsOf struct {
	n    *ir.Node
	axis int
}

type rowsAre struct {
	in []int
	ok bool
}

// newChunking finds the sizes and live ranges of the values of m's main block. allowed is in bytes.
func newChunking(m *ir.Module, costs recipes.Costs, allowed float64) *chunking {
	block := m.Main.Body
	c := &chunking{module: m, block: block, costs: costs, allowed: allowed, at: map[*ir.Node]int{},
		uses: map[*ir.Value]int{},
		size: map[*ir.Value]float64{}, bytes: map[*ir.Value]float64{},
		through: make([]float64, len(block.Nodes)+1), inPlace: map[*ir.Value]bool{}, from: map[*ir.Value]int{},
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
	until := maps.Clone(c.uses) // the last node that reads a value or an alias of it
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
			if at, made := c.at[v.Node]; made && !c.inPlace[v] && !ownMemory(v) {
				c.inPlace[v] = true
				c.from[n.Outputs[0]] = min(c.from[n.Outputs[0]], at)
			}
		}
	}
	for i, n := range block.Nodes {
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			if c.size[v] = 0; !slices.Contains(block.Results, v) { // the value lies in the arena
				c.size[v] = c.bytesOf(v)
			}
			if c.uses[v] < len(block.Nodes) {
				reader := block.Nodes[c.uses[v]]
				joined := readers[v] == 1 && ops.Elementwise(reader) && slices.EqualFunc(reader.Outputs[0].Type.Shape, v.Type.Shape,
					sym.Expr.Equal) &&
					// Of several operands, only the last one computed becomes part of the reader's kernel.
					!slices.ContainsFunc(reader.Inputs, func(x *ir.Value) bool {
						return x != nil && x.Node != nil && c.at[x.Node] > i
					})
				if joined || c.inPlace[v] || ops.Of(n).Alias && n.Inputs[0].Node != nil {
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

// number is an extent at the dimensions' bounds; 0 if it is unknown.
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

// ownMemory reports whether a value, or the value that it is an alias of, has memory of its own.
func ownMemory(v *ir.Value) bool {
	for v.Node != nil && ops.Of(v.Node).Alias {
		v = v.Node.Inputs[0]
	}
	return v.Node != nil && ops.Of(v.Node).OwnMemory
}

// early reports whether a value's memory is in use before a node, although the node that completes the value comes
// later: an operand that an earlier node made lies there.
func (c *chunking) early(v *ir.Value, node int) bool {
	from, ok := c.from[v]
	return ok && from < node && c.at[v.Node] >= node
}

// rows returns the result of ops.Rows, which it computes once for each node and axis.
func (c *chunking) rows(n *ir.Node, axis int) (in []int, ok bool) {
	key := rowsOf{n, axis}
	r, known := c.known[key]
	if !known {
		r.in, r.ok = ops.Rows(n, axis)
		c.known[key] = r
	}
	return r.in, r.ok
}

// valuesOf returns the values that a node and its regions read.
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
