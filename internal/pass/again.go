package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Limits that decide which values are computed again.
const (
	againFar     = 24        // the least number of nodes between two readers of a value
	againFull    = 0.5       // the least ratio to the peak of the bytes alive between the two readers
	againPart    = 1.0 / 256 // the least ratio to the peak of a value's bytes
	againBytes   = 1 << 14   // the least bytes of a value
	againSmall   = 1.0 / 16  // an operand of at most this share of a value's bytes may be kept alive for the value
	againReaders = 8         // the most readers that compute a value again
	againNodes   = 16        // the most nodes that compute a value again
	againSamples = 64        // the assumed extent of dimensions without bounds
	againDearest = 40        // the most functions of an element; a function of many instructions counts as againDear
	againDear    = 10
)

// Again computes functions of single elements again for readers that come much later, if the memory is full in between
// and the operands are alive there anyway: an activation, for example, whose operand the backward pass reads too. The
// readers' kernels then compute the values.
func Again(m *ir.Module) (err error) {
	defer ir.Catch(&err)
	a := newAgain(m)
	if a == nil {
		return nil
	}
	for i, n := range a.block.Nodes {
		for _, v := range n.Outputs {
			if v != nil {
				a.value(i, v)
			}
		}
	}
	a.insert()
	return nil
}

// again holds the live ranges of a block's values, and the nodes to be inserted. A position is a node's index.
type again struct {
	module  *ir.Module
	block   *ir.Block
	b       *ir.Builder
	at      map[*ir.Node]int
	readers map[*ir.Value][]int // positions of a value's readers, ascending, without repetition; the end for a result
	root    map[*ir.Value]*ir.Value
	until   map[*ir.Value]int // by root: the last position at which the root or an alias of it is read
	bytes   map[*ir.Value]float64
	live    []float64 // bytes alive, by position
	peak    float64
	before  map[int][]*ir.Node              // by position: the new nodes that come before the node there
	made    map[int]map[*ir.Value]*ir.Value // by position: the values that are computed again for the node there
}

// newAgain finds the live ranges in m's main block; nil if the block is too short.
func newAgain(m *ir.Module) *again {
	block := m.Main.Body
	if len(block.Nodes) <= againFar {
		return nil
	}
	a := &again{module: m, block: block, at: map[*ir.Node]int{}, readers: map[*ir.Value][]int{},
		root: map[*ir.Value]*ir.Value{}, until: map[*ir.Value]int{}, bytes: map[*ir.Value]float64{},
		live: make([]float64, len(block.Nodes)), before: map[int][]*ir.Node{}, made: map[int]map[*ir.Value]*ir.Value{}}
	value := func(name sym.Name) (int64, bool) {
		r, ok := m.Dims.Get(name)
		return min(max(againSamples, r.Min), r.Max), ok
	}
	for i, n := range block.Nodes {
		a.at[n] = i
		for _, v := range valuesOf(n) {
			if list := a.readers[v]; len(list) == 0 || list[len(list)-1] != i {
				a.readers[v] = append(list, i)
			}
		}
		for _, v := range n.Outputs {
			if v == nil {
				continue
			}
			count, err := sym.AtLimits(sym.Product(v.Type.Shape...), m.Limits).Eval(value)
			if err != nil {
				count = 0
			}
			a.bytes[v] = float64(count) * float64(v.Type.DType.Bits()) / 8
			if a.root[v] = v; ops.Of(n).Alias {
				a.root[v] = a.rootOf(n.Inputs[0])
			}
		}
	}
	for _, v := range block.Results {
		a.readers[v] = append(a.readers[v], len(block.Nodes))
	}
	for v, list := range a.readers {
		r := a.rootOf(v)
		a.until[r] = max(a.until[r], list[len(list)-1])
	}
	for v, r := range a.root {
		if v != r || slices.Contains(block.Results, v) {
			continue
		}
		for i := a.at[v.Node]; i <= min(a.until[v], len(a.live)-1); i++ {
			a.live[i] += a.bytes[v]
		}
	}
	a.peak = slices.Max(a.live)
	return a
}

// rootOf returns the value whose memory v has: v, unless v is an alias.
func (a *again) rootOf(v *ir.Value) *ir.Value {
	if r := a.root[v]; r != nil {
		return r
	}
	return v
}

// quick reports whether a node has one result that may be computed again for a late reader.
func quick(n *ir.Node) bool {
	return lone(n) && (ops.Elementwise(n) || ops.Of(n).Recompute.Has(ops.Late))
}

// value computes a value again for its late readers, if that saves enough and is cheap enough.
func (a *again) value(at int, v *ir.Value) {
	if !quick(v.Node) || a.bytes[v] < againBytes || a.bytes[v] < againPart*a.peak {
		return
	}
	readers := a.readers[v]
	split, fullest := 0, againFull*a.peak
	for i := 1; i < len(readers); i++ {
		if readers[i]-readers[i-1] <= againFar || readers[i] == len(a.block.Nodes) {
			continue
		}
		if most := slices.Max(a.live[readers[i-1]+1 : readers[i]]); most >= fullest {
			split, fullest = i, most
		}
	}
	if split == 0 || len(readers)-split > againReaders || readers[len(readers)-1] == len(a.block.Nodes) {
		return
	}
	late := readers[split:]
	var chains [][]*ir.Node
	for _, reader := range late {
		c := chain{again: a, at: reader, small: againSmall * a.bytes[v], has: map[*ir.Node]bool{}}
		if len(a.block.Nodes[reader].Regions) > 0 || !c.add(v) || c.functions > againDearest {
			return
		}
		chains = append(chains, c.nodes)
	}
	for i, reader := range late {
		a.compute(reader, v, chains[i])
	}
	a.readers[v] = readers[:split:split]
	a.settle(a.rootOf(v))
}

// settle updates the last position at which a root is read.
func (a *again) settle(root *ir.Value) {
	a.until[root] = -1
	for v, list := range a.readers {
		if a.rootOf(v) == root && len(list) > 0 {
			a.until[root] = max(a.until[root], list[len(list)-1])
		}
	}
}

// chain lists, in order, the nodes that compute a value again for the node at position at.
type chain struct {
	*again
	at        int
	small     float64 // bytes of an operand that may be kept alive for it
	nodes     []*ir.Node
	has       map[*ir.Node]bool
	functions int
}

// add adds the nodes that compute a value; false if an operand is not alive any more and cannot be computed again.
func (c *chain) add(v *ir.Value) bool {
	n := v.Node
	if c.has[n] {
		return true
	}
	if !quick(n) || len(c.nodes) >= againNodes {
		return false
	}
	for _, x := range n.Inputs {
		if x == nil || x.Node == nil {
			continue
		}
		if _, own := c.again.at[x.Node]; !own {
			return false
		}
		if root := c.rootOf(x); c.bytes[root] <= c.small || c.until[root] >= c.at {
			continue
		}
		if !c.add(x) {
			return false
		}
	}
	c.has[n] = true
	c.nodes = append(c.nodes, n)
	if ops.Elementwise(n) {
		c.functions++
		if ops.Dear(n) {
			c.functions += againDear
		}
	}
	return true
}

// compute copies the nodes of a chain before the node at a position, which then reads the copy of v.
func (a *again) compute(at int, v *ir.Value, nodes []*ir.Node) {
	made := a.made[at]
	if made == nil {
		made = map[*ir.Value]*ir.Value{}
		a.made[at] = made
	}
	into := &ir.Block{}
	if a.b == nil {
		a.b = ir.NewBuilder(ir.NewInference(a.module), into)
	}
	b := *a.b
	b.Block = into
	for _, n := range nodes {
		out := n.Outputs[0]
		if made[out] != nil {
			continue
		}
		inputs := slices.Clone(n.Inputs)
		for i, x := range inputs {
			if x == nil {
				continue
			}
			if other := made[x]; other != nil {
				inputs[i] = other
				continue
			}
			// Its live range now reaches at least to here.
			list := a.readers[x]
			if i, found := slices.BinarySearch(list, at); !found {
				a.readers[x] = slices.Insert(slices.Clone(list), i, at)
			}
			root := a.rootOf(x)
			a.until[root] = max(a.until[root], at)
		}
		b.Source = n.Source
		made[out] = b.Op(n.Op.Name(), n.Attrs, inputs...)
	}
	a.before[at] = append(a.before[at], into.Nodes...)
	reader := a.block.Nodes[at]
	reader.Inputs = slices.Clone(reader.Inputs)
	for i, x := range reader.Inputs {
		if x == v {
			reader.Inputs[i] = made[v]
		}
	}
}

// insert puts the new nodes before their readers.
func (a *again) insert() {
	if len(a.before) == 0 {
		return
	}
	var nodes []*ir.Node
	for i, n := range a.block.Nodes {
		nodes = append(append(nodes, a.before[i]...), n)
	}
	a.block.Nodes = nodes
}
