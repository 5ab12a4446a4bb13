package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// MatMulInteger is the product of x − xZero and y − yZero, integers of 8 bits, in i32. The zero points may be nil for 0; xZero has one element, or one for each row of x, yZero
// one, or one for each column of y. The product is of the operands as they are; what the zero points change is added to it, from sums along the shared axis.
func MatMulInteger(b *ir.Builder, x, xZero, y, yZero *ir.Value) *ir.Value {
	row, column := len(x.Type.Shape) == 1, len(y.Type.Shape) == 1
	if row {
		x = Reshape(b, x, one, x.Type.Shape[0])
	}
	if column {
		y = Reshape(b, y, y.Type.Shape[0], one)
	}
	z := MatMulAs(b, dtype.I32, x, y)
	if !isZeroPoint(xZero) {
		sums := ReduceSum(b, Cast(b, y, dtype.I32), true, int64(len(y.Type.Shape)-2))
		z = Binary(b, loop.Sub, z, Binary(b, loop.Mul, zeroAlong(b, xZero, 1, len(x.Type.Shape)), sums))
	}
	if !isZeroPoint(yZero) {
		wide := Cast(b, x, dtype.I32)
		if !isZeroPoint(xZero) {
			wide = Binary(b, loop.Sub, wide, zeroAlong(b, xZero, 1, len(x.Type.Shape)))
		}
		sums := ReduceSum(b, wide, true, int64(len(x.Type.Shape)-1))
		z = Binary(b, loop.Sub, z, Binary(b, loop.Mul, sums, zeroAlong(b, yZero, 0, len(y.Type.Shape))))
	}
	if row || column {
		shape := append([]sym.Expr{}, z.Type.Shape[:len(z.Type.Shape)-2]...)
		if !row {
			shape = append(shape, z.Type.Shape[len(z.Type.Shape)-2])
		}
		if !column {
			shape = append(shape, z.Type.Shape[len(z.Type.Shape)-1])
		}
		z = Reshape(b, z, shape...)
	}
	return z
}

// isZeroPoint reports whether a zero point is known to be 0 throughout.
func isZeroPoint(zero *ir.Value) bool {
	if zero == nil {
		return true
	}
	for _, e := range zero.Known {
		if v, ok := e.Const(); !ok || v != 0 {
			return false
		}
	}
	return zero.Known != nil
}

// zeroAlong is a zero point as i32, placed so that it is broadcast along the axis that is `after` axes before the last one.
func zeroAlong(b *ir.Builder, zero *ir.Value, after, rank int) *ir.Value {
	wide := Cast(b, zero, dtype.I32)
	switch {
	case len(zero.Type.Shape) == 0 || len(zero.Type.Shape) == rank:
		return wide
	case isOne(product(zero.Type.Shape)):
		return Reshape(b, wide)
	case after > 0:
		return Reshape(b, wide, append(append([]sym.Expr{}, zero.Type.Shape...), one)...)
	}
	return wide
}

// ConvolutionInteger is Convolution of x − xZero and w − wZero, integers of 8 bits, in i32; padding is 0 after the subtraction. xZero has one element, wZero one, or one for
// each output channel; either may be nil for 0. bias, of type i32, may be nil.
func ConvolutionInteger(b *ir.Builder, x, xZero, w, wZero, bias *ir.Value, window Window, groups int64) *ir.Value {
	shifted := func(v, zero *ir.Value) *ir.Value {
		if isZeroPoint(zero) {
			return v
		}
		zero = Cast(b, zero, dtype.I32)
		if len(zero.Type.Shape) > 0 {
			zero = AlongAxis(b, zero, 0, len(v.Type.Shape))
		}
		if isOne(product(zero.Type.Shape)) {
			zero = Reshape(b, zero)
		}
		return Binary(b, loop.Sub, Cast(b, v, dtype.I32), zero)
	}
	y := ConvolutionAs(b, dtype.I32, shifted(x, xZero), shifted(w, wZero), window, groups)
	if bias != nil {
		y = Binary(b, loop.Add, y, AlongAxis(b, bias, 1, len(y.Type.Shape)))
	}
	return y
}

// Requantize is a product of quantised operands, in i32, as quantised numbers again: sums times the operands' scales over the result's scale. scale is x's and w's scales'
// product, broadcast to the sums; outScale and outZero have one element, or one for each index of the axis.
func Requantize(b *ir.Builder, sums, scale, outScale, outZero *ir.Value, q Quantization) *ir.Value {
	real := Binary(b, loop.Mul, Cast(b, sums, dtype.F32), scale)
	return Quantize(b, real, outScale, outZero, outZero.Type.DType, dtype.Invalid, q, false)
}

// DynamicQuantize quantises x (f32) to u8 by the range of its elements, 0 included: the elements, the scale and the zero point.
func DynamicQuantize(b *ir.Builder, x *ir.Value) (y, scale, zero *ir.Value) {
	dt := x.Type.DType
	axes := make([]int64, len(x.Type.Shape))
	for i := range axes {
		axes[i] = int64(i)
	}
	none := Scalar(b, dt, 0)
	high := Binary(b, loop.Max, ReduceMax(b, x, false, axes...), none)
	low := Binary(b, loop.Min, Reduce(b, "reduce_min", x, false, axes...), none)
	span := Binary(b, loop.Sub, high, low)
	scale = Binary(b, loop.Div, Where(b, Binary(b, loop.Eq, span, none), Scalar(b, dt, 255), span), Scalar(b, dt, 255))
	zero = Unary(b, loop.Round, Binary(b, loop.Div, Binary(b, loop.Sub, none, low), scale))
	zero = Cast(b, Binary(b, loop.Max, none, Binary(b, loop.Min, zero, Scalar(b, dt, 255))), dtype.U8)
	return Quantize(b, x, scale, zero, dtype.U8, dtype.Invalid, Quantization{}, false), scale, zero
}
