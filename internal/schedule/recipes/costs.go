package recipes

import (
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// Costs answers what passes ask about recipes on a machine, before they choose how values are laid out.
type Costs struct{ sizes target.Sizes }

// CostsOn returns the costs on a machine.
func CostsOn(m target.Machine) Costs { return Costs{m.Sizes()} }

// Lanes returns the number of neighbouring elements of 32 bits that are computed together.
func (c Costs) Lanes() int64 { return c.sizes.Lanes }

// MovedCost returns the cost of moving a computed vector, in multiplications of vectors.
func (c Costs) MovedCost() int64 { return 8 }

// BytesPay reports whether a product of bytes may take less time than the product of floats, given its sums' terms and
// its columns.
func (c Costs) BytesPay(depth, columns int64) bool {
	return depth >= 2*c.sizes.Lanes && columns >= c.sizes.Lanes
}

// BytesPayFor reports whether BytesPay holds for convolutions of images with so many channels: pictures have too few.
func (c Costs) BytesPayFor(channels int64) bool { return channels >= c.sizes.Lanes/2 }

// fewRows is the largest number of rows that a product multiplies with weights in the time that reading them from
// beyond the caches takes.
const fewRows = 8

// NarrowPays reports whether weights of f32, which each step of a recurrent layer multiplies with the states of all
// sequences, take less time in a narrower type: if they do not stay in a worker's caches from step to step, and the
// sequences are few.
func (c Costs) NarrowPays(bytes int64, sequences sym.Expr, d *sym.Dims) bool {
	return bytes > c.sizes.Streamed && likely(sequences, 1, d) <= fewRows
}

// ColumnsPay reports whether a transposed convolution may take less time as one product whose columns are the elements
// of the kernel for all output channels, which are added up: elements is their number, filters that of the output
// channels, inner that of the input channels. With few of these, the additions take longer than the product.
func (c Costs) ColumnsPay(filters, inner, elements int64) bool {
	return filters <= c.sizes.Lanes/4 && inner >= c.sizes.Lanes && elements <= 3*c.sizes.Lanes
}

// PieceFits reports whether a recipe for an operator computes a piece of the result, with that many rows along an axis,
// in no more scratch than the entire result. in and out are the shapes of the operands and of the result.
func (c Costs) PieceFits(op string, attrs map[string]any, in [][]sym.Expr, out []sym.Expr, axis int, rows int64) bool {
	if op != "winograd" || axis != 1 {
		return true
	}
	tile, _ := attrs["tile"].(int64)
	begin, _ := attrs["begin"].([]sym.Expr)
	return c.winogradPieceFits(in[0], out, in[2], begin, tile, rows)
}
