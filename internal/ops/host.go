package ops

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// hostMean returns the reference of an operator that a function of package hostop computes.
func hostMean(name string) func(*ir.Evaluation, *ir.Node, []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		attrs := make(map[string]any, len(n.Attrs))
		for key, v := range n.Attrs {
			var err error
			switch v := v.(type) {
			case sym.Expr:
				attrs[key], err = e.Int(v)
			case []sym.Expr:
				attrs[key], err = e.Ints(v)
			default:
				attrs[key] = v
			}
			if err != nil {
				return nil, err
			}
		}
		types := make([]dtype.DType, len(n.Outputs))
		for i, v := range n.Outputs {
			types[i] = v.Type.DType
		}
		return hostop.Apply(name, attrs, in, types)
	}
}

// nameAttr returns the dimension that an attribute names.
func nameAttr(n *ir.Node, key string) (sym.Name, bool) {
	return sym.ParseName(n.Attrs.String(key, ""))
}

// NamesAttr returns the dimensions that an attribute names.
func NamesAttr(n *ir.Node, key string) []sym.Name {
	list, _ := n.Attrs[key].([]string)
	names := make([]sym.Name, 0, len(list))
	for _, spelled := range list {
		if name, ok := sym.ParseName(spelled); ok {
			names = append(names, name)
		}
	}
	return names
}

// setNames sets an attribute to the names of dimensions.
func setNames(n *ir.Node, key string, names []sym.Name) {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = name.String()
	}
	n.Attrs[key] = list
}

// found returns an extent that a host function finds, at most limit: a dimension whose name the node keeps.
func found(c *ir.Inference, n *ir.Node, hint string, limit sym.Expr) sym.Expr {
	return foundAs(c, n, "found", hint, limit)
}

// foundAs is found for a node that finds several extents: key is the attribute that keeps the name.
func foundAs(c *ir.Inference, n *ir.Node, key, hint string, limit sym.Expr) sym.Expr {
	if name, ok := nameAttr(n, key); ok {
		return sym.Var(name)
	}
	what := hint
	if n.Source != "" {
		hint = n.Source + "." + hint
	}
	extent := c.Fresh(hint, "the "+what+" that "+diag.Words(n.Source, n.Op.Name())+" finds", 0, limit)
	name, _ := extent.Name()
	n.Attrs[key] = name.String()
	return extent
}
