package pass

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/tensor"
)

// Dequantized computes the dequantize of constant integers while compiling. Fold leaves it, since the result is larger
// than the integers; but each run would compute it again, and a convolution or a product needs constant weights to lay
// out. A tensor from which a node reads only rows or a slice stays as integers.
func Dequantized(m *ir.Module) error {
	partlyRead := map[*ir.Value]bool{}
	for _, f := range m.Funcs {
		partlyReadIn(f.Body, partlyRead)
	}
	return apply(m, []rule{{"weights of integers", []string{"dequantize"},
		func(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			if partlyRead[n.Outputs[0]] {
				return nil
			}
			d := dequantizedOf(n)
			if d == nil {
				return nil
			}
			t, err := d.tensor()
			if err != nil {
				b.Fail(err)
			}
			return b.Constant(n.Outputs[0].Name, t)
		}}})
}

// partlyReadIn finds the values of which a node reads only some rows or a slice, such as an embedding.
func partlyReadIn(b *ir.Block, partlyRead map[*ir.Value]bool) {
	for _, n := range b.Nodes {
		if ops.Of(n).Selects {
			partlyRead[n.Inputs[0]] = true
		}
		for _, region := range n.Regions {
			partlyReadIn(region, partlyRead)
		}
	}
}

// dequantized is a dequantize of constants.
type dequantized struct {
	from   *tensor.Tensor
	to     dtype.DType
	scales []float32
	shared []int64 // the shape of the scales
	zeros  []int64 // as many as scales, or none
	axis   int
	block  int64
}

// dequantizedOf returns a dequantize node's operands; nil if they are not constant integers of at most 16 bits with
// constant scales of floats of at most 32 bits.
func dequantizedOf(n *ir.Node) *dequantized {
	x, scale := n.Inputs[0], n.Inputs[1]
	if x.Const == nil || scale.Const == nil || x.Const.Rank() == 0 || !x.Type.DType.IsInt() || x.Type.DType.Bits() > 16 ||
		!floatsOf(scale) || !floatsOf(n.Outputs[0]) {
		return nil
	}
	d := &dequantized{from: x.Const, to: n.Outputs[0].Type.DType, shared: scale.Const.Shape(),
		axis: int(n.Attrs.Int("axis", 1)), block: n.Attrs.Int("block", 0)}
	if d.axis < 0 {
		d.axis += d.from.Rank()
	}
	for i := range scale.Const.Len() {
		d.scales = append(d.scales, float32(scale.Const.Float(i)))
	}
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		zero := n.Inputs[2].Const
		if zero == nil || zero.Len() != scale.Const.Len() {
			return nil
		}
		for i := range zero.Len() {
			d.zeros = append(d.zeros, zero.Int(i))
		}
	}
	return d
}

// tensor returns the dequantized numbers, which are computed when they are first read.
func (d *dequantized) tensor() (*tensor.Tensor, error) {
	return tensor.Deferred(d.to, d.from.Shape(), d.from, d.from.Major(),
		func(out *tensor.Tensor, axis int, begin, end int64) {
			integer := func(i int64) int64 { return d.from.Int(d.flat(out.Shape(), axis, begin, i)) }
			if d.from.DType().Bits() >= 8 {
				slab, release := tensor.Temporary(d.from.DType(), out.Shape()...)
				defer release()
				d.from.Fill(slab, axis, begin, end)
				integer = slab.Int
			}
			at := make([]int64, out.Rank())
			for i := range out.Len() {
				at[axis] += begin
				s := d.scaleAt(at)
				at[axis] -= begin
				v := integer(i)
				if d.zeros != nil {
					v -= d.zeros[s]
				}
				out.SetFloat(i, float64(float32(v)*d.scales[s]))
				for k := len(at) - 1; k >= 0; k-- {
					if at[k]++; at[k] < out.Shape()[k] {
						break
					}
					at[k] = 0
				}
			}
		})
}

// flat converts the flat index i in a piece of the tensor, which begins at index begin of an axis, to the flat index in
// the tensor.
func (d *dequantized) flat(slab []int64, axis int, begin, i int64) int64 {
	inner := int64(1)
	for _, extent := range slab[axis:] {
		inner *= extent
	}
	full := inner / slab[axis] * d.from.Shape()[axis]
	return i/inner*full + begin*(inner/slab[axis]) + i%inner
}

// scaleAt returns the flat index of the scale of the element at an index.
func (d *dequantized) scaleAt(at []int64) int64 {
	switch {
	case len(d.scales) == 1:
		return 0
	case d.block == 0:
		return at[d.axis]
	}
	flat := int64(0)
	for axis, i := range at {
		if axis == d.axis {
			i /= d.block
		}
		flat = flat*d.shared[axis] + i
	}
	return flat
}
