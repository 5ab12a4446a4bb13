package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
)

// The comparisons of a sample's feature with a node's split. A comparison that does not hold leads to the
// node's second child.
const (
	treeLE = iota
	treeLT
	treeGE
	treeGT
	treeEQ
	treeNE
	// TreeMissing, added to a comparison, makes it hold for NaN.
	TreeMissing = 8
)

// TreeModes are the comparisons of a node, by their symbol.
var TreeModes = map[string]uint8{"<=": treeLE, "<": treeLT, ">=": treeGE, ">": treeGT, "==": treeEQ, "!=": treeNE}

// packedForest is a forest in the operator's form: every comparison is whether a feature exceeds a split, a node's
// children are adjacent, and leaves are nodes.
type packedForest struct {
	f     *Forest
	dt    dtype.DType
	size  int32 // words of a node
	roots []int32
	words []int32
	index []int32 // by node of f: the index of its packed node; −1 if it has none yet
	open  []openNode
}

// openNode is a packed node whose index is known, and whose children are not packed yet: a node of f, or the second
// half of one that tests for equality.
type openNode struct {
	index, node int32
	second      bool
}

// packForest packs the nodes for samples of type dt.
func packForest(dt dtype.DType, f *Forest) *packedForest {
	p := &packedForest{f: f, dt: dt, size: int32(hostop.TreeNodeWords(dt.Size())), index: make([]int32, len(f.Features))}
	for i := range p.index {
		p.index[i] = -1
	}
	for _, root := range f.Roots {
		if root >= 0 && p.index[root] >= 0 {
			p.roots = append(p.roots, p.index[root])
			continue
		}
		at := p.take(1)
		p.roots = append(p.roots, at)
		p.child(at, root)
		for len(p.open) > 0 {
			last := p.open[len(p.open)-1]
			p.open = p.open[:len(p.open)-1]
			p.divide(last)
		}
	}
	return p
}

// take reserves count adjacent nodes and returns the index of the first.
func (p *packedForest) take(count int32) int32 {
	at := int32(len(p.words) / int(p.size))
	p.words = append(p.words, make([]int32, int(count)*int(p.size))...)
	return at
}

// set writes a node.
func (p *packedForest) set(at int32, split float64, feature, left, info int32) {
	n := p.words[int(at)*int(p.size):][:p.size]
	if p.dt == dtype.F64 {
		bits := math.Float64bits(split)
		n[0], n[1] = int32(uint32(bits)), int32(uint32(bits>>32))
		n = n[2:]
	} else {
		n[0] = int32(math.Float32bits(float32(split)))
		n = n[1:]
	}
	n[0], n[1], n[2] = feature, left, info
}

// child writes node at for one of f's nodes or leaves, or leaves it open.
func (p *packedForest) child(at, child int32) {
	switch {
	case child < 0:
		p.set(at, math.Inf(1), 0, at, 2*^child)
	case p.index[child] >= 0: // another parent's as well
		p.set(at, math.Inf(1), 0, p.index[child], 0)
	default:
		p.index[child] = at
		p.open = append(p.open, openNode{index: at, node: child})
	}
}

// divide writes an open node and reserves its children.
func (p *packedForest) divide(o openNode) {
	f, inf := p.f, math.Inf(1)
	mode, missing := f.Modes[o.node]&^TreeMissing, f.Modes[o.node]&TreeMissing != 0
	yes, no := f.Children[2*o.node], f.Children[2*o.node+1]
	split := f.Splits[o.node]
	if p.dt != dtype.F64 {
		split = float64(float32(split))
	}
	if mode == treeNE { // NaN is unlike everything
		mode, yes, no, missing = treeEQ, no, yes, false
	}
	left := p.take(2)
	// put sends features not above the split to low, others to high, and NaN to yes if the comparison holds for it.
	put := func(split float64, low, high int32) {
		info := int32(0)
		if missing == (high == yes) {
			info = 1
		}
		p.set(o.index, split, f.Features[o.node], left, info)
		p.child(left+1, high)
		p.child(left, low)
	}
	before := p.before(split)
	switch {
	case split != split, mode == treeLT && math.IsInf(split, -1):
		put(inf, no, yes) // nothing but NaN
	case mode == treeGE && math.IsInf(split, -1):
		put(inf, yes, no) // everything but NaN
	case mode == treeLE, mode == treeEQ && math.IsInf(split, -1):
		put(split, yes, no)
	case mode == treeLT:
		put(before, yes, no)
	case mode == treeGE:
		put(before, no, yes)
	case mode == treeGT:
		put(split, no, yes)
	case o.second:
		put(before, no, yes)
	default: // equal: not above the split, and above the next smaller number
		info := int32(1)
		if missing {
			info = 0
		}
		p.set(o.index, split, f.Features[o.node], left, info)
		p.child(left+1, no)
		p.open = append(p.open, openNode{index: left, node: o.node, second: true})
	}
}

// before returns the next smaller number of the samples' type.
func (p *packedForest) before(x float64) float64 {
	if p.dt == dtype.F64 {
		return math.Nextafter(x, math.Inf(-1))
	}
	return float64(math.Nextafter32(float32(x), float32(math.Inf(-1))))
}
