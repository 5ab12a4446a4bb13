package ops

import (
	le "encoding/binary"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// convolutionWork returns two operations for each channel and each pair of an output position and a kernel position
// that reads the input. Products with padding and with holes of constant weights are not counted.
func convolutionWork(n *ir.Node) sym.Expr {
	axes := len(n.Inputs[0].Type.Shape) - 2
	w, err := windowOf(n, axes)
	if err != nil {
		return sym.Expr{}
	}
	size, out, weights := planar(n, n.Inputs[0].Type.Shape), planar(n, n.Outputs[0].Type.Shape),
		filter(n, n.Inputs[1].Type.Shape)
	seen := make([][]sym.Expr, axes) // by axis, for each position of the kernel: the output positions that see the input
	for i := range axes {
		for k := range w.Kernel[i] {
			seen[i] = append(seen[i], w.Seen(i, k, size[2+i], out[2+i]))
		}
	}
	each := sym.Product(sym.Const(2), out[0], out[1], weights[1]) // of a pair
	if HasHoles(n) && n.Inputs[1].Const != nil {
		return throughHoles(n.Inputs[1].Const, w, seen, out[0])
	}
	for i := range axes {
		each = each.Mul(sym.Sum(seen[i]...))
	}
	return each
}

// throughHoles returns two operations for each weight that is not a hole and each output position that reads the input
// through it.
func throughHoles(weights *tensor.Tensor, w Window, seen [][]sym.Expr, images sym.Expr) sym.Expr {
	if weights.Len() == 0 {
		return sym.Expr{}
	}
	t, release := tensor.Temporary(weights.DType(), weights.Shape()...)
	defer release()
	weights.Fill(t, 0, 0, t.Shape()[0])
	taps := int64(1)
	for _, extent := range w.Kernel {
		taps *= extent
	}
	data, total := t.Bytes(), sym.Const(0)
	perTap := int64(len(data)) / taps
	for tap := range taps {
		count := int64(0)
		for rest := data[tap*perTap:][:perTap]; len(rest) >= 4; rest = rest[4:] {
			if le.LittleEndian.Uint32(rest) != 0 {
				count++
			}
		}
		pairs, rest := sym.Const(2*count), tap
		for i := len(w.Kernel) - 1; i >= 0; i-- {
			pairs = pairs.Mul(seen[i][rest%w.Kernel[i]])
			rest /= w.Kernel[i]
		}
		total = total.Add(pairs)
	}
	return total.Mul(images)
}

// winogradWork returns the work of the direct convolution that the node stands for.
func winogradWork(n *ir.Node) sym.Expr {
	x, out := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	last := len(x) - 1
	planes, _ := winogradKernel(n).Const()
	kernel := []int64{planes, 3, 3}[4-last:]
	w := Window{Kernel: kernel, Strides: []int64{1, 1, 1}, Dilations: []int64{1, 1, 1}, Begin: n.Attrs.Exprs("begin"),
		End: n.Attrs.Exprs("end")}
	work := sym.Product(sym.Const(2), out[0], out[last], x[last])
	for i, kernel := range kernel {
		pairs := sym.Const(0)
		for k := range kernel {
			pairs = pairs.Add(w.Seen(i, k, x[1+i], out[1+i]))
		}
		work = work.Mul(pairs)
	}
	return work
}
