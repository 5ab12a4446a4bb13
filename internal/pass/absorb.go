package pass

import (
	"maps"

	"github.com/weirml/weir/internal/ir"
)

// Absorb lets matrix products read an operand that is a transpose of its last two axes as it lies: a weight that is
// used both ways is held once.
func Absorb(m *ir.Module) error {
	for _, f := range m.Funcs {
		absorb(f.Body)
	}
	return nil
}

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

// swapped is what v is a transpose of, with the last two axes swapped and the others in place; nil if it is none.
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
