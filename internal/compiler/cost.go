package compiler

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Cost is what one launch of a kernel comes to, over the inputs' dimensions: where data decide, at the limit.
type Cost struct {
	Operations sym.Expr // additions, multiplications and functions of single elements
	Bytes      sym.Expr // what must at least be moved: of the operands once, or of the loads and stores where those are fewer
}

// Cost estimates kernel i of the program.
func (c *Compiled) Cost(i int) Cost {
	cost := loop.CostOf(c.Loop.Kernels[i])
	return Cost{Operations: sym.AtLimits(cost.Operations, c.Loop.Limits), Bytes: sym.AtLimits(cost.Footprint.Min(cost.Read.Add(cost.Written)), c.Loop.Limits)}
}

// Backend names the code generator that made kernel i: the machine's, unless the kernel itself says that it is another's.
func (c *Compiled) Backend(i int) string {
	if k, ok := c.Code.Kernels[i].(interface{ Backend() string }); ok {
		return k.Backend()
	}
	return c.Code.Machine.Name
}
