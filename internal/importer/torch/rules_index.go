package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

func init() {
	add(map[string]rule{
		"aten.embedding.default": embedding, "aten.index_select.default": indexSelect, "aten.gather.default": gather,
		"aten.index.Tensor": index, "aten.index_put.default": indexPut, "aten.scatter.src": scatter("none"),
		"aten.scatter.value": scatter("none"), "aten.scatter_add.default": scatter("add"),
	})
}

func embedding(c *call) []*ir.Value {
	return one(ops.Gather(c.Builder, c.tensor("weight"), c.tensor("indices"), 0))
}

func indexSelect(c *call) []*ir.Value {
	x := c.tensor("self")
	if len(x.Type.Shape) == 0 {
		return one(ops.Reshape(c.Builder, ops.Gather(c.Builder, ops.Reshape(c.Builder, x, unit), c.tensor("index"), 0)))
	}
	return one(ops.Gather(c.Builder, x, c.tensor("index"), int64(c.axis("dim", 0, len(x.Type.Shape)))))
}

func gather(c *call) []*ir.Value {
	x := c.tensor("self")
	return one(ops.GatherElements(c.Builder, x, c.tensor("index"), int64(c.axis("dim", 0, len(x.Type.Shape)))))
}

// places are the positions that indices beside each other give: [..., n], n the number of indices.
func (c *call) places(indices []*ir.Value) *ir.Value {
	all := indices[0]
	for _, v := range indices[1:] {
		all = c.binary(ops.Add, all, c.binary(ops.Mul, v, c.like(v, 0)))
	}
	shape := append(append([]sym.Expr{}, all.Type.Shape...), unit)
	parts := make([]*ir.Value, len(indices))
	for i, v := range indices {
		parts[i] = ops.Reshape(c.Builder, ops.Expand(c.Builder, v, all.Type.Shape...), shape...)
	}
	return ops.Concat(c.Builder, int64(len(shape)-1), parts...)
}

// indices are the index tensors of a node, as positions from 0 on, and the axis of the first; they stand beside each
// other.
func (c *call) indices(x *ir.Value) (list []*ir.Value, first int) {
	first = -1
	for i, v := range c.optionals("indices") {
		if v == nil {
			continue
		}
		if v.Type.DType == dtype.Bool || v.Type.DType == dtype.U8 {
			c.Fail(diag.Unsupportedf("an index that is a mask: how much it takes, data decide"))
		}
		if first < 0 {
			first = i
		}
		if i != first+len(list) {
			c.Fail(diag.Unsupportedf("indices with a whole axis between them"))
		}
		v = ops.Cast(c.Builder, v, dtype.I64)
		extent := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{x.Type.Shape[i]})
		list = append(list, ops.Where(c.Builder, c.binary(ops.Lt, v, c.like(v, 0)), c.binary(ops.Add, v, extent), v))
	}
	if first < 0 {
		c.Fail(diag.Inputf("no index is given"))
	}
	return list, first
}

func index(c *call) []*ir.Value {
	x := c.tensor("self")
	list, first := c.indices(x)
	if len(list) == 1 {
		return one(ops.Gather(c.Builder, x, list[0], int64(first)))
	}
	if first > 0 { // the indexed axes come first, and their results go back
		rank := len(x.Type.Shape)
		perm := []int64{}
		for i := range rank {
			perm = append(perm, int64((i+first)%rank))
		}
		y := ops.GatherND(c.Builder, ops.Transpose(c.Builder, x, perm...), c.places(list), 0)
		n := len(y.Type.Shape)
		back := make([]int64, n)
		for i := range back {
			back[i] = int64((i + n - first) % n)
		}
		return one(ops.Transpose(c.Builder, y, back...))
	}
	return one(ops.GatherND(c.Builder, x, c.places(list), 0))
}

func indexPut(c *call) []*ir.Value {
	x, values := c.tensor("self"), c.tensor("values")
	list, first := c.indices(x)
	if first > 0 {
		c.Fail(diag.Unsupportedf("an assignment to indices of axis %d on", first))
	}
	at := c.places(list)
	shape := append(append([]sym.Expr{}, at.Type.Shape[:len(at.Type.Shape)-1]...), x.Type.Shape[len(list):]...)
	how := "none"
	if c.bool("accumulate", false) {
		how = "add"
	}
	return one(ops.ScatterND(c.Builder, x, at, ops.Expand(c.Builder, ops.Cast(c.Builder, values, x.Type.DType), shape...), how))
}

// scatter is a rule for assignments along an axis.
func scatter(how string) rule {
	return func(c *call) []*ir.Value {
		x, at := c.tensor("self"), c.tensor("index")
		var from *ir.Value
		if c.has("src") {
			from = c.tensor("src")
			begin, step := make([]sym.Expr, len(at.Type.Shape)), make([]int64, len(at.Type.Shape))
			for i := range begin {
				begin[i], step[i] = sym.Const(0), 1
			}
			from = ops.Slice(c.Builder, from, begin, at.Type.Shape, step)
		} else {
			from = ops.Expand(c.Builder, c.number("value", x.Type.DType), at.Type.Shape...)
		}
		return one(ops.ScatterElements(c.Builder, x, at, from, int64(c.axis("dim", 0, len(x.Type.Shape))), how))
	}
}
