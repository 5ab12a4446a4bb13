package pass

import "github.com/weirml/weir/internal/ir"

// tiedWeights finds the constant matrices whose only readers are one product, which reads them transposed ([N, K]), and
// gathers of rows: an embedding that is also the weights of the last product. Both may read the same narrower elements,
// so that the matrix is held once.
func tiedWeights(m *ir.Module) map[*ir.Value]bool {
	tied, other := map[*ir.Value]bool{}, map[*ir.Value]bool{}
	products, gathers := map[*ir.Value]int{}, map[*ir.Value]int{}
	var walk func(b *ir.Block)
	walk = func(b *ir.Block) {
		for _, v := range b.Results {
			other[v] = true
		}
		for _, n := range b.Nodes {
			for i, v := range n.Inputs {
				if v == nil || v.Const == nil || len(v.Type.Shape) != 2 {
					continue
				}
				switch {
				case i == 1 && n.Op.Name() == "matmul" && n.Attrs.Bool("transpose_b"):
					products[v]++
				case i == 0 && n.Op.Name() == "gather" && n.Attrs.Int("axis", 0) == 0 && len(n.Inputs) == 2 && n.Inputs[1] != v:
					gathers[v]++
				default:
					other[v] = true
				}
			}
			for _, region := range n.Regions {
				walk(region)
			}
		}
	}
	for _, f := range m.Funcs {
		walk(f.Body)
	}
	for v, count := range products {
		if count == 1 && gathers[v] > 0 && !other[v] {
			tied[v] = true
		}
	}
	return tied
}
