package pass

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/tensor/literal"
)

// commonBytes is the size up to which constants are compared by their contents.
const commonBytes = 4 << 10

// Common removes repeated computations: of the nodes in a block and the blocks inside it that apply the same operator
// with the same attributes to the same values, only the first stays; of small constants with the same contents
// likewise. Nodes with regions stay, and nodes that decide dimensions.
func Common(m *ir.Module) error {
	for _, f := range m.Funcs {
		c := &common{replaced: map[*ir.Value]*ir.Value{}, numbers: map[*ir.Value]int{}}
		c.block(f.Body, nil)
	}
	return nil
}

// common is the state of Common for one function.
type common struct {
	replaced map[*ir.Value]*ir.Value
	numbers  map[*ir.Value]int // identifies values in keys
}

// scope holds the nodes and constants of a block so far, and of the blocks around it.
type scope struct {
	outer  *scope
	nodes  map[string]*ir.Node
	consts map[string][]*ir.Value
}

// current returns the value that replaces v, or v.
func (c *common) current(v *ir.Value) *ir.Value {
	if first := c.replaced[v]; first != nil {
		return first
	}
	return v
}

// block removes repeated computations from a block and its regions.
func (c *common) block(b *ir.Block, outer *scope) {
	s := &scope{outer: outer, nodes: map[string]*ir.Node{}, consts: map[string][]*ir.Value{}}
	kept := b.Consts[:0]
	for _, v := range b.Consts {
		if first := s.constant(v); first != nil {
			c.replaced[v] = first
			continue
		}
		kept = append(kept, v)
	}
	b.Consts = kept
	nodes := b.Nodes[:0]
	for _, n := range b.Nodes {
		for i, v := range n.Inputs {
			n.Inputs[i] = c.current(v)
		}
		for _, region := range n.Regions {
			c.block(region, s)
		}
		if len(n.Regions) == 0 {
			key := c.key(n)
			if first := s.node(key); first != nil && sameOutputs(first, n) {
				for i, v := range n.Outputs {
					c.replaced[v] = first.Outputs[i]
				}
				continue
			}
			s.nodes[key] = n
		}
		nodes = append(nodes, n)
	}
	b.Nodes = nodes
	for i, v := range b.Results {
		b.Results[i] = c.current(v)
	}
}

// key is equal for nodes that apply the same operator to the same values with the same attributes.
func (c *common) key(n *ir.Node) string {
	var s strings.Builder
	s.WriteString(n.Op.Name())
	operands := make([]int, len(n.Inputs))
	for i, v := range n.Inputs {
		if v != nil {
			if c.numbers[v] == 0 {
				c.numbers[v] = len(c.numbers) + 1
			}
			operands[i] = c.numbers[v]
		}
	}
	if ops.Of(n).Commutative {
		slices.Sort(operands)
	}
	fmt.Fprint(&s, operands)
	s.WriteString(literal.Attributes(n.Attrs))
	return s.String()
}

// node returns the earlier node with a key, or nil.
func (s *scope) node(key string) *ir.Node {
	for ; s != nil; s = s.outer {
		if n := s.nodes[key]; n != nil {
			return n
		}
	}
	return nil
}

// constant finds a constant with the contents of v, and notes v if there is none.
func (s *scope) constant(v *ir.Value) *ir.Value {
	if v.Const == nil || v.Const.DType().String() == "string" || v.Const.Size() > commonBytes {
		return nil
	}
	key := literal.Type(v.Type.DType, v.Type.Shape)
	for at := s; at != nil; at = at.outer {
		for _, first := range at.consts[key] {
			if bytes.Equal(first.Const.Bytes(), v.Const.Bytes()) {
				return first
			}
		}
	}
	if known := s.consts[key]; len(known) < 64 { // a limit, so that the work stays linear
		s.consts[key] = append(known, v)
	}
	return nil
}

// sameOutputs reports whether the outputs of two nodes have the same types, with equal extents. Nodes that decide
// dimensions do not.
func sameOutputs(a, b *ir.Node) bool {
	if len(a.Outputs) != len(b.Outputs) {
		return false
	}
	for i, x := range a.Outputs {
		y := b.Outputs[i]
		if x.Bound || y.Bound || x.Type.DType != y.Type.DType || len(x.Type.Shape) != len(y.Type.Shape) {
			return false
		}
		for axis, e := range x.Type.Shape {
			if !e.Equal(y.Type.Shape[axis]) {
				return false
			}
		}
	}
	return true
}
