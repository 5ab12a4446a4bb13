package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator that package ir calls PlaceOp.
func init() {
	define(&Def{Op: ir.PlaceOp, Shape: placeShape, Mean: placeMean})
}

// Place returns the attributes of a node that names a value in a storage which the model's text lays out: the storage's
// name and bytes, the offset in it, and the value's name, which keeps two such nodes from being merged. Package lower
// has the value written at that offset.
func Place(v *ir.Value) ir.Attrs {
	s := v.Carve.Storage
	return ir.Attrs{"storage": s.Name, "bytes": s.Bytes, "offset": v.Carve.Offset, "value": v.Name}
}

// placeShape requires one input; the result has its type and its known elements.
func placeShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	n.Result(0, n.Inputs[0].Type).Known = n.Inputs[0].Known
	return nil
}

func placeMean(_ *ir.Evaluation, _ *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return in, nil
}

// LiesIn returns the input in whose memory a result may lie, if the operator, or its expansion, computes nothing. It
// implements ir.Viewer.
func (d *Def) LiesIn(n *ir.Node, output int, dims *sym.Dims) (input int, ok bool) {
	if d.View != nil && output == 0 {
		if v := d.View(n, dims); v != nil {
			return v.Of, true
		}
	}
	if d.Expand == nil || !d.NeedsExpansion(n, dims, false) {
		return 0, false
	}
	root := expansionOf(d, n, dims, output)
	for i, x := range n.Inputs {
		if x != nil && x == root {
			return i, true
		}
	}
	return 0, false
}

// expansionOf expands the node in a scratch module and returns the value there that is the output; nil if there is no
// expansion.
func expansionOf(d *Def, n *ir.Node, dims *sym.Dims, output int) (root *ir.Value) {
	scratch := &ir.Module{Dims: dims.Clone(), Limits: map[sym.Name]sym.Expr{}, Main: &ir.Func{Body: &ir.Block{}}}
	var err error
	defer ir.Catch(&err)
	results := d.Expand(ir.NewBuilder(ir.NewInference(scratch), &ir.Block{}), n)
	if output >= len(results) || results[output] == nil {
		return nil
	}
	root = results[output]
	for root.Node != nil && root.Node != n && root.Const == nil && !slices.Contains(n.Inputs, root) {
		inner, ok := root.Node.Op.(*Def)
		if !ok {
			return nil
		}
		at, ok := inner.LiesIn(root.Node, root.Index, scratch.Dims)
		if !ok {
			return nil
		}
		root = root.Node.Inputs[at]
	}
	return root
}

// NeedsExpansion reports whether a node has neither a view nor a lowering for a machine with blocks of threads or
// without.
func (d *Def) NeedsExpansion(n *ir.Node, dims *sym.Dims, blocks bool) bool {
	if d.View != nil && d.View(n, dims) != nil {
		return false
	}
	return d.LoweringOf(n, dims, blocks) == nil
}
