// Package sliding is what convolutions and poolings share, in operators and in their recipes: the geometry of the
// window, groups of channels, and accumulators.
package sliding

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Window is the geometry of a convolution or a pooling, by spatial axis.
type Window struct {
	Kernel, Strides, Dilations []int64
	Begin, End                 []sym.Expr // padding before and after, per axis
}

// Attrs returns the window as a node's attributes.
func (w Window) Attrs() map[string]any {
	return map[string]any{"kernel": w.Kernel, "strides": w.Strides, "dilations": w.Dilations, "begin": w.Begin,
		"end": w.End}
}

// Unpadded reports whether the input has no padding along an axis.
func (w Window) Unpadded(axis int) bool {
	return w.Begin[axis].Equal(sym.Expr{}) && w.End[axis].Equal(sym.Expr{})
}

// Extent returns the number of elements from the first to the last that the window covers along an axis.
func (w Window) Extent(axis int) int64 { return (w.Kernel[axis]-1)*w.Dilations[axis] + 1 }

// Positions returns the number of positions of the window along an axis of the given extent, all of them inside the
// padded input.
func (w Window) Positions(axis int, extent sym.Expr) sym.Expr {
	room := extent.Add(w.Begin[axis]).Add(w.End[axis]).Sub(sym.Const(w.Extent(axis)))
	return room.FloorDiv(sym.Const(w.Strides[axis])).Add(sym.Const(1))
}

// Source returns the input position that kernel position k reads for output position o; it may lie in the padding.
func (w Window) Source(axis int, o, k sym.Expr) sym.Expr {
	return o.Mul(sym.Const(w.Strides[axis])).Add(k.Mul(sym.Const(w.Dilations[axis]))).Sub(w.Begin[axis])
}

// Inside returns the test that position p of an axis lies in [0, extent); nil if the window never leaves the input
// along the axis.
func (w Window) Inside(axis int, p, extent sym.Expr) loop.Expr {
	if w.Unpadded(axis) {
		return nil
	}
	return loop.Inside(p, sym.Const(0), extent)
}

// Seen returns the number of output positions that read the input at kernel position k of an axis. With named extents
// the number is right if the input is at least as long as the window, and an estimate if the window has strides.
func (w Window) Seen(axis int, k int64, size, out sym.Expr) sym.Expr {
	if w.Unpadded(axis) {
		return out
	}
	stride, at := sym.Const(w.Strides[axis]), sym.Const(k*w.Dilations[axis])
	before := w.Begin[axis].Sub(at).CeilDiv(stride).Max(sym.Const(0))
	if _, known := size.Const(); known {
		end := size.Add(w.Begin[axis]).Sub(at).CeilDiv(stride).Min(out)
		return end.Sub(before).Max(sym.Const(0))
	}
	after := at.Add(w.End[axis]).Sub(sym.Const(w.Extent(axis) - 1)).CeilDiv(stride).Max(sym.Const(0))
	return out.Sub(before).Sub(after).Max(sym.Const(0))
}

// GroupOf returns the number of channels of a group; groups must divide channels.
func GroupOf(channels sym.Expr, groups int64) sym.Expr { return channels.FloorDiv(sym.Const(groups)) }

// Grouped writes body in a loop over the groups; a single group needs no loop.
func Grouped(b *loop.Builder, groups int64, body func(group sym.Expr)) {
	if groups == 1 {
		body(sym.Expr{})
		return
	}
	b.Each("g", sym.Const(groups), body)
}

// Biased declares an accumulator of rows × columns; row i starts with bias[first + i], or 0 if bias is nil.
func Biased(b *loop.Builder, bias *loop.Memory, dt dtype.DType, first, rows, columns sym.Expr) *loop.Memory {
	acc := b.Local("acc", dt, rows, columns)
	b.Nest(loop.Each, "z", acc.Shape, func(at []sym.Expr) {
		start := loop.Expr(loop.Number(dt, 0))
		if bias != nil {
			start = loop.Convert(dt, bias.Load(first.Add(at[0])))
		}
		b.Store(acc, at, start)
	})
	return acc
}
