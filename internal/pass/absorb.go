package pass

import (
	"maps"

	"github.com/weirml/weir/internal/ir"
)

// Absorb removes transposes of the last two axes of a matrix product's operand: the product reads the operand before
// the transpose, so that a weight used both ways is held once.
func Absorb(m *ir.Module) error {
	for _, f := range m.Funcs {
		absorb(f.Body)
	}
	return nil
}

// absorb is Absorb for a block and its regions.
func absorb(b *ir.Block) {
	for _, n := range b.Nodes {
		for _, region := range n.Regions {
			absorb(region)
		}
		if n.Op.Name() != "matmul" {
			continue
		}
		for i, flag := range []string{"transpose_a", "transpose_b"} {
			if from := swapped(n.Inputs[i]); from != nil {
				n.Attrs = maps.Clone(n.Attrs)
				n.Attrs[flag] = !n.Attrs.Bool(flag)
				n.Inputs[i] = from
			}
		}
	}
}

// swapped returns the value whose last two axes v swaps; nil if v is not such a transpose.
func swapped(v *ir.Value) *ir.Value {
	if v.Node == nil || v.Const != nil || v.Node.Op.Name() != "transpose" {
		return nil
	}
	perm := v.Node.Attrs.Ints("perm")
	rank := len(perm)
	if rank < 2 {
		return nil
	}
	for i, p := range perm {
		want := int64(i)
		if i >= rank-2 {
			want = int64(2*rank - 3 - i)
		}
		if p != want {
			return nil
		}
	}
	return v.Node.Inputs[0]
}
