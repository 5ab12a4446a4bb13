package array

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// MatMul is the product of matrices in the last two axes, broadcast over the others; an operand of rank 1 is a row on the
// left, a column on the right, and the result does not have that axis.
func (s *Scope) MatMul(x, y *Array) *Array {
	return s.one(operation{name: "matmul", build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		p, q := common(b, in[0], in[1])
		return []*ir.Value{ops.MatMulAny(b, p, q)}
	}}, x, y)
}
