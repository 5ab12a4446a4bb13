package torch

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{"aten._embedding_bag.default": bags, "aten._embedding_bag_forward_only.default": bags})
}

// bagModes are the reductions of the rows of a bag, by PyTorch's numbers.
var bagModes = []string{"sum", "mean", "max"}

// bags is a rule for the sum, the mean or the maximum of the rows in each bag; offsets has the index at which each bag
// begins. Its further results are for torch's backward pass: the bag of each index, which is empty if the file declares
// it so; the number of rows in each bag, for means and maxima; and the indices of the greatest elements.
func bags(c *call) []*ir.Value {
	table, indices, offsets := c.tensor("weight"), c.tensor("indices"), c.tensor("offsets")
	if len(table.Type.Shape) != 2 || len(indices.Type.Shape) != 1 || len(offsets.Type.Shape) != 1 {
		c.Fail(diag.Inputf("bags of %s: indices %s from offsets %s on", table.Type, indices.Type, offsets.Type))
	}
	rows := ops.Gather(c.Builder, table, c.positions("indices"), 0) // an index outside of the table is an error
	indices, offsets = ops.Cast(c.Builder, indices, dtype.I64), c.positions("offsets")
	mode, n, count := c.word("mode", bagModes), indices.Type.Shape[0], offsets.Type.Shape[0]
	if c.bool("include_last_offset", false) {
		count = c.Dims().Simplify(count.Sub(unit))
		c.require(sym.Cond{A: sym.Const(0), Rel: sym.LE, B: count}, "there is an offset")
		offsets = ops.SliceAxis(c.Builder, offsets, 0, sym.Const(0), count)
	}
	of := c.bagOf(offsets, n)
	bag := ops.Reshape(c.Builder, ops.Cast(c.Builder, of, dtype.U64), n, unit) // before the first bag: an error
	kept := ops.Expand(c.Builder, ops.Scalar(c.Builder, dtype.I64, 1), n)
	if padding := c.int("padding_idx", -1); padding >= 0 {
		kept = ops.Cast(c.Builder, c.binary(ops.Ne, indices, c.like(indices, float64(padding))), dtype.I64)
	}
	zeros := ops.Expand(c.Builder, ops.Scalar(c.Builder, dtype.I64, 0), count)
	sizes := ops.ScatterND(c.Builder, zeros, bag, kept, "add")
	if weights := c.optional("per_sample_weights"); weights != nil {
		if mode != "sum" {
			c.Fail(diag.Inputf("weights of the rows of a %s", mode))
		}
		rows = c.binary(ops.Mul, rows, ops.Reshape(c.Builder, weights, n, unit))
	}
	kept, each := ops.Reshape(c.Builder, kept, n, unit), ops.Reshape(c.Builder, sizes, count, unit)
	y, greatest := c.reduceBags(mode, rows, bag, kept, each), sizes
	switch mode {
	case "sum":
		sizes, greatest = zeros, zeros
	case "max":
		greatest = c.greatest(y, rows, bag, kept, each, indices)
	}
	return []*ir.Value{y, c.inDeclaredShape(1, of), sizes, greatest}
}

// bagOf returns the bag of each of n indices: the number of offsets at or before it, minus 1.
func (c *call) bagOf(offsets *ir.Value, n sym.Expr) *ir.Value {
	begins := ops.Expand(c.Builder, ops.Scalar(c.Builder, dtype.I64, 0), n.Add(unit))
	ones := ops.Expand(c.Builder, ops.Scalar(c.Builder, dtype.I64, 1), offsets.Type.Shape...)
	begins = ops.ScatterElements(c.Builder, begins, offsets, ones, 0, "add")
	upTo := ops.CumSum(c.Builder, ops.SliceAxis(c.Builder, begins, 0, sym.Const(0), n), 0, false, false)
	return c.binary(ops.Sub, upTo, c.like(upTo, 1))
}

// reduceBags reduces the kept rows of each bag to one row. A bag without rows is zero.
func (c *call) reduceBags(mode string, rows, bag, kept, sizes *ir.Value) *ir.Value {
	shape := []sym.Expr{sizes.Type.Shape[0], rows.Type.Shape[1]}
	kept = c.binary(ops.Ne, kept, c.like(kept, 0))
	if mode == "max" {
		lowest := c.like(rows, math.Inf(-1))
		rows = ops.Where(c.Builder, kept, rows, lowest)
		y := ops.ScatterND(c.Builder, ops.Expand(c.Builder, lowest, shape...), bag, rows, "max")
		return ops.Where(c.Builder, c.binary(ops.Eq, sizes, c.like(sizes, 0)), c.like(y, 0), y)
	}
	none := c.like(rows, 0)
	rows = ops.Where(c.Builder, kept, rows, none)
	y := ops.ScatterND(c.Builder, ops.Expand(c.Builder, none, shape...), bag, rows, "add")
	if mode == "sum" {
		return y
	}
	return c.binary(ops.Div, y, ops.Cast(c.Builder, c.binary(ops.Max, sizes, c.like(sizes, 1)), y.Type.DType))
}

// greatest returns the index of the greatest element in each column of a bag, the first of equal ones; 0 for a bag
// without rows.
func (c *call) greatest(y, rows, bag, kept, sizes, indices *ir.Value) *ir.Value {
	n, shape := rows.Type.Shape[0], y.Type.Shape
	own := ops.GatherND(c.Builder, y, bag, 0)
	found := c.binary(ops.And, c.binary(ops.Eq, rows, own), c.binary(ops.Ne, kept, c.like(kept, 0)))
	number := ops.Reshape(c.Builder, ops.Counting(c.Builder, dtype.I64, n), n, unit)
	none := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{n})
	number = ops.Where(c.Builder, found, number, none)
	first := ops.ScatterND(c.Builder, ops.Expand(c.Builder, none, shape...), bag, number, "min")
	padded := ops.Pad(c.Builder, indices, nil, "constant", []sym.Expr{sym.Const(0)}, []sym.Expr{unit})
	return ops.Where(c.Builder, c.binary(ops.Eq, sizes, c.like(sizes, 0)), c.like(first, 0),
		ops.Gather(c.Builder, padded, first, 0))
}

// inDeclaredShape returns a result in the shape that the file declares: torch's result may have no elements.
func (c *call) inDeclaredShape(result int, v *ir.Value) *ir.Value {
	if result >= len(c.node.Outputs) {
		return v
	}
	var n named
	if out := c.node.Outputs[result]; out.kind != "as_tensor" || out.into(&n) != nil {
		return v
	}
	t, err := c.typeOf(n.Name, c.symbol)
	if err != nil || len(t.Shape) == 0 {
		return v
	}
	if len(t.Shape) == len(v.Type.Shape) {
		if k, ok := product(t.Shape).Const(); !ok || k > 0 {
			return v
		}
	}
	return ops.Expand(c.Builder, c.like(v, 0), t.Shape...)
}
