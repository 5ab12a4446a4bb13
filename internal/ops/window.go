package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// CosineWindow returns terms[0] + terms[1]·cos(t) + terms[2]·cos(2t) + …, where t rises from 0 in equal steps and
// reaches 2π at the last of size elements or, for a periodic window, at the element that would follow.
func CosineWindow(b *ir.Builder, dt dtype.DType, size sym.Expr, periodic bool, terms ...float64) *ir.Value {
	period := size
	if !periodic {
		period = size.Sub(one)
	}
	length := Cast(b, Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{period}), dtype.F64)
	turn := Binary(b, loop.Mul, Counting(b, dtype.F64, size), Scalar(b, dtype.F64, 2*math.Pi))
	turn = Binary(b, loop.Div, turn, length)
	sum := Expand(b, Scalar(b, dtype.F64, terms[0]), size)
	for i, term := range terms[1:] {
		wave := Unary(b, loop.Cos, Binary(b, loop.Mul, turn, Scalar(b, dtype.F64, float64(i+1))))
		sum = Binary(b, loop.Add, sum, Binary(b, loop.Mul, wave, Scalar(b, dtype.F64, term)))
	}
	return Cast(b, sum, dt)
}
