package ops

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// MatMulInteger returns the product of x − xZero and y − yZero, integers of 8 bits, in i32. The zero points may be nil
// for 0; xZero has one element, or one for each row of x, yZero one, or one for each column of y. It multiplies the
// operands without their zero points, and corrects the product by sums along the shared axis.
func MatMulInteger(b *ir.Builder, x, xZero, y, yZero *ir.Value) *ir.Value {
	row, column := len(x.Type.Shape) == 1, len(y.Type.Shape) == 1
	if row {
		x = Reshape(b, x, one, x.Type.Shape[0])
	}
	if column {
		y = Reshape(b, y, y.Type.Shape[0], one)
	}
	given := y
	y, yZero = signed(b, y, yZero)
	z := MatMulAs(b, dtype.I32, x, y)
	if !isZeroPoint(xZero) {
		sums := sumsOf(b, y, given, len(y.Type.Shape)-2, len(y.Type.Shape)-2)
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

// isZeroPoint reports whether a zero point is known to be 0 for all elements.
func isZeroPoint(zero *ir.Value) bool { return zero == nil || isThroughout(zero, 0) }

// isThroughout reports whether all elements of a zero point are known and equal value.
func isThroughout(zero *ir.Value, value int64) bool {
	if t := zero.Const; t != nil && !t.Pending() {
		for i := range t.Len() {
			if t.Int(i) != value {
				return false
			}
		}
		return true
	}
	for _, e := range zero.Known {
		if v, ok := e.Const(); !ok || v != value {
			return false
		}
	}
	return zero.Known != nil
}

// SignedBytes returns a tensor of u8, not a scalar, minus 128 as a tensor of i8. Its elements are computed when they
// are read.
func SignedBytes(from *tensor.Tensor) (*tensor.Tensor, error) {
	return tensor.Deferred(dtype.I8, from.Shape(), from, from.Major(),
		func(to *tensor.Tensor, axis int, begin, end int64) {
			piece, release := tensor.Temporary(dtype.U8, to.Shape()...)
			defer release()
			from.Fill(piece, axis, begin, end)
			out := to.Bytes()
			for i, v := range piece.Bytes() {
				out[i] = v ^ 1<<7
			}
		})
}

// signed returns constant unsigned numbers with a zero point, as weights often are, as signed numbers with their zero
// point, nil if that is 0. Computed numbers are converted only if the resulting zero point is nil; other values are
// returned unchanged. The elements of a constant are computed when they are read.
func signed(b *ir.Builder, x, zero *ir.Value) (*ir.Value, *ir.Value) {
	const half = 128
	if zero == nil || x.Type.DType != dtype.U8 || zero.Type.DType != dtype.U8 || isZeroPoint(zero) {
		return x, zero
	}
	turned := func(v *ir.Value) *ir.Value {
		return BitCast(b, Binary(b, loop.Xor, v, Cast(b, Scalar(b, dtype.F32, half), dtype.U8)), dtype.I8)
	}
	from, centred := x.Const, isThroughout(zero, half)
	if from == nil || from.Pending() || from.Rank() == 0 {
		if !centred {
			return x, zero
		}
		return turned(x), nil
	}
	t, err := SignedBytes(from)
	if err != nil {
		b.Fail(err)
	}
	if x = b.Constant(x.Name, t); centred {
		return x, nil
	}
	return x, turned(zero)
}

// sumsOf returns the sums of y's elements, integers of 8 bits, over its axes from first to last, which stay with an
// extent of 1, in i32. given is y before it was signed. The sums of a constant are computed here, since passes would
// write it in 32 bits first.
func sumsOf(b *ir.Builder, y, given *ir.Value, first, last int) *ir.Value {
	t := given.Const
	if t == nil || t.Pending() || t.DType().Bits() != 8 {
		axes := make([]int64, 0, last-first+1)
		for axis := first; axis <= last; axis++ {
			axes = append(axes, int64(axis))
		}
		return ReduceSum(b, Cast(b, y, dtype.I32), true, axes...)
	}
	shape, rows, columns := slices.Clone(t.Shape()), int64(1), int64(1)
	for axis, n := range t.Shape() {
		if axis > last {
			columns *= n
		} else if axis >= first {
			shape[axis] = 1
			rows *= n
		}
	}
	out, err := tensor.New(dtype.I32, shape...)
	if err != nil {
		b.Fail(err)
	}
	start := int64(0)
	if y != given {
		start = -128 * rows
	}
	data, sums := t.Bytes(), make([]int32, columns)
	for at := int64(0); at < out.Len(); at += columns {
		clear(sums)
		for range rows {
			addBytes(sums, data[:columns], t.DType().IsSigned())
			data = data[columns:]
		}
		for i, sum := range sums {
			out.SetInt(at+int64(i), int64(sum)+start)
		}
	}
	return b.Constant("sums", out)
}

// addBytes adds bytes to sums, one to each.
func addBytes(sums []int32, data []byte, signed bool) {
	if signed {
		for i, v := range data {
			sums[i] += int32(int8(v))
		}
		return
	}
	for i, v := range data {
		sums[i] += int32(v)
	}
}

// zeroAlong returns a zero point as i32, reshaped so that it broadcasts along the axis that is `after` axes before the
// last one.
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

// ConvolutionInteger returns the convolution of x − xZero and w − wZero, integers of 8 bits, in i32; padding is 0 after
// the subtraction. xZero has one element, wZero one, or one for each output channel; either may be nil for 0. bias, of
// type i32, may be nil. It convolves the operands without their zero points, with x padded by its zero point, and
// subtracts the share of the zero points in each result.
func ConvolutionInteger(b *ir.Builder, x, xZero, w, wZero, bias *ir.Value, window Window, groups int64) *ir.Value {
	if xZero != nil && xZero.Type.DType != x.Type.DType {
		b.Failf("the zero point of a convolution's %s is %s", x.Type, xZero.Type)
	}
	given, rank := w, len(x.Type.Shape)
	w, wZero = signed(b, w, wZero)
	padded := func(e sym.Expr) bool { return !isZero(e) }
	if !isZeroPoint(xZero) && (slices.ContainsFunc(window.Begin, padded) || slices.ContainsFunc(window.End, padded)) {
		none := make([]sym.Expr, 2, rank)
		x = Pad(b, x, Reshape(b, xZero), "constant", append(slices.Clone(none), window.Begin...),
			append(slices.Clone(none), window.End...))
		window.Begin, window.End = make([]sym.Expr, rank-2), make([]sym.Expr, rank-2)
	}
	y := ConvolutionAs(b, dtype.I32, x, w, window, groups)
	if !isZeroPoint(wZero) {
		each := WindowSums(b, x, xZero, w, window.Attrs(), groups)
		y = Binary(b, loop.Sub, y, Binary(b, loop.Mul, each, perChannel(b, wZero, rank)))
	}
	if !isZeroPoint(xZero) {
		more := zeroShare(b, xZero, w, given)
		if bias != nil {
			bias = Binary(b, loop.Sub, bias, more)
		} else {
			bias = Unary(b, loop.Neg, more)
		}
	}
	return biased(b, y, bias)
}

// WindowSums returns the sum of x − xZero, integers of 8 bits, over the window at each position of a convolution with
// weights w, [N, O or 1, …] in i32. attrs has the window, without padding unless xZero is 0, and xZero has one element,
// or is nil for 0. Without groups, the channels are summed before the windows.
func WindowSums(b *ir.Builder, x, xZero, w *ir.Value, attrs ir.Attrs, groups int64) *ir.Value {
	attrs = maps.Clone(attrs)
	attrs["groups"], attrs["dtype"] = groups, dtype.I32
	if groups > 1 {
		filter := ones(b, dtype.I8, w.Type.Shape)
		y := b.Op("convolution", attrs, x, filter)
		if !isZeroPoint(xZero) {
			y = Binary(b, loop.Sub, y, AlongAxis(b, zeroShare(b, xZero, filter, filter), 1, len(y.Type.Shape)))
		}
		return y
	}
	wide := Cast(b, x, dtype.I32)
	if !isZeroPoint(xZero) {
		wide = Binary(b, loop.Sub, wide, Reshape(b, Cast(b, xZero, dtype.I32)))
	}
	shape := slices.Clone(w.Type.Shape)
	shape[0], shape[1] = one, one
	return b.Op("convolution", attrs, ReduceSum(b, wide, true, 1), ones(b, dtype.I32, shape))
}

// ones returns a tensor of ones, a constant if its shape is known.
func ones(b *ir.Builder, dt dtype.DType, shape []sym.Expr) *ir.Value {
	sizes, known := constants(shape)
	if !known {
		sizes = nil
	}
	t, err := tensor.New(dt, sizes...)
	if err != nil {
		b.Fail(err)
	}
	for i := range t.Len() {
		t.SetInt(i, 1)
	}
	if !known {
		return Fill(b, t, shape...)
	}
	return b.Constant("ones", t)
}

// zeroShare returns the share of x's zero point in each output channel of a convolution: xZero · Σ w, [O].
func zeroShare(b *ir.Builder, xZero, w, given *ir.Value) *ir.Value {
	sums := sumsOf(b, w, given, 1, len(w.Type.Shape)-1)
	return Binary(b, loop.Mul, Reshape(b, sums, w.Type.Shape[0]), Reshape(b, Cast(b, xZero, dtype.I32)))
}

// perChannel returns a convolution's zero points of weights, in i32, reshaped so that they broadcast along its
// channels.
func perChannel(b *ir.Builder, zero *ir.Value, rank int) *ir.Value {
	wide := Cast(b, zero, dtype.I32)
	if isOne(product(zero.Type.Shape)) {
		return Reshape(b, wide)
	}
	return AlongAxis(b, wide, 1, rank)
}

// biased adds bias to the channels of y; bias may be nil.
func biased(b *ir.Builder, y, bias *ir.Value) *ir.Value {
	if bias == nil {
		return y
	}
	return Binary(b, loop.Add, y, AlongAxis(b, bias, 1, len(y.Type.Shape)))
}

// Requantize quantises a product of quantised operands, in i32, again: sums times the operands' scales over the
// result's scale. scale is the product of x's and w's scales, broadcast to the sums; outScale and outZero have one
// element, or one for each index of the axis.
func Requantize(b *ir.Builder, sums, scale, outScale, outZero *ir.Value, q Quantization) *ir.Value {
	real := Binary(b, loop.Mul, Cast(b, sums, dtype.F32), scale)
	return Quantize(b, real, outScale, outZero, outZero.Type.DType, dtype.Invalid, q, false)
}

// DynamicQuantize quantises x (f32) to u8 by the range of its elements, extended to 0. It returns the elements, the
// scale and the zero point.
func DynamicQuantize(b *ir.Builder, x *ir.Value) (y, scale, zero *ir.Value) {
	dt := x.Type.DType
	axes := make([]int64, len(x.Type.Shape))
	for i := range axes {
		axes[i] = int64(i)
	}
	none := Scalar(b, dt, 0)
	high := Binary(b, loop.Max, ReduceMax(b, x, false, axes...), none)
	low := Binary(b, loop.Min, Reduce(b, "reduce_min", x, false, axes...), none)
	extent := Binary(b, loop.Sub, high, low)
	scale = Binary(b, loop.Div, Where(b, Binary(b, loop.Eq, extent, none), Scalar(b, dt, 255), extent), Scalar(b, dt, 255))
	zero = Unary(b, loop.Round, Binary(b, loop.Div, Binary(b, loop.Sub, none, low), scale))
	zero = Cast(b, Binary(b, loop.Max, none, Binary(b, loop.Min, zero, Scalar(b, dt, 255))), dtype.U8)
	return Quantize(b, x, scale, zero, dtype.U8, dtype.Invalid, Quantization{}, false), scale, zero
}
