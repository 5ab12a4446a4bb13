package ops

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator call.
func init() {
	define(&Def{Op: "call", Shape: callShape, Mean: callMean, Expand: callExpand})
}

// callee returns the function that a node calls, or an error if it does not exist or, through calls, calls itself.
func callee(m *ir.Module, n *ir.Node) (*ir.Func, error) {
	name := n.Attrs.String("function", "")
	if m == nil || m.Func(name) == nil {
		return nil, fault(n, "there is no function %q", name)
	}
	f := m.Func(name)
	if reaches(m, f.Body, f, map[*ir.Func]bool{}) {
		return nil, fault(n, "function %q calls itself", name)
	}
	return f, nil
}

// reaches reports whether a call in the block leads to target, directly or through other functions; seen holds the
// functions already visited.
func reaches(m *ir.Module, b *ir.Block, target *ir.Func, seen map[*ir.Func]bool) bool {
	return slices.ContainsFunc(b.Nodes, func(n *ir.Node) bool {
		if n.Op.Name() == "call" {
			f := m.Func(n.Attrs.String("function", ""))
			if f == target {
				return true
			}
			if f != nil && !seen[f] {
				seen[f] = true
				if reaches(m, f.Body, target, seen) {
					return true
				}
			}
		}
		return slices.ContainsFunc(n.Regions, func(r *ir.Block) bool { return reaches(m, r, target, seen) })
	})
}

// substitution returns a function that replaces the dimensions of f's parameters by those of the call's arguments.
func substitution(f *ir.Func, n *ir.Node) (func(sym.Expr) sym.Expr, error) {
	types := make([]ir.Type, len(n.Inputs))
	for i, v := range n.Inputs {
		if v == nil {
			return nil, fault(n, "argument %d is missing", i)
		}
		types[i] = v.Type
	}
	actuals, err := f.Actuals(types)
	if err != nil {
		return nil, fault(n, "%v", err)
	}
	return func(e sym.Expr) sym.Expr {
		return e.Subst(func(name sym.Name) (sym.Expr, bool) { x, ok := actuals[name]; return x, ok })
	}, nil
}

// callShape checks the arguments against the parameters and infers the function's results with the dimensions replaced.
// It refuses results whose extents data decide.
func callShape(c *ir.Inference, n *ir.Node) error {
	f, err := callee(c.Module, n)
	if err != nil {
		return err
	}
	put, err := substitution(f, n)
	if err != nil {
		return err
	}
	for i, p := range f.Body.Params {
		for axis, e := range p.Type.Shape {
			if err := c.RequireEqual(n, n.Inputs[i].Type.Shape[axis], put(e),
				"the extents of an argument are those of the parameter"); err != nil {
				return err
			}
		}
	}
	for i, v := range f.Body.Results {
		t := v.Type
		t.Shape = make([]sym.Expr, len(v.Type.Shape))
		for axis, e := range v.Type.Shape {
			for _, name := range e.Vars() {
				if _, decided := c.Module.Limits[name]; decided {
					return diag.Unsupportedf("a function whose result has the extent %s, which data decide", e).AtNode(n.Source,
						"call")
				}
			}
			t.Shape[axis] = put(e)
		}
		n.Result(i, t)
	}
	return nil
}

// callMean runs the called function.
func callMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	f, err := callee(e.Module, n)
	if err != nil {
		return nil, err
	}
	return e.Call(f, in)
}

// callExpand replaces the call by a copy of the function's nodes.
func callExpand(b *ir.Builder, n *ir.Node) []*ir.Value {
	f, err := callee(b.Module, n)
	if err != nil {
		b.Fail(err)
	}
	put, err := substitution(f, n)
	if err != nil {
		b.Fail(err)
	}
	values := map[*ir.Value]*ir.Value{nil: nil}
	for i, p := range f.Body.Params {
		values[p] = n.Inputs[i]
	}
	for _, c := range f.Body.Consts {
		values[c] = b.Constant(c.Name, c.Const)
	}
	for _, from := range f.Body.Nodes {
		if len(from.Regions) > 0 {
			b.Fail(diag.Unsupportedf("a call of %q, which has branches or loops", f.Name).AtNode(n.Source, "call"))
		}
		attrs := ir.Attrs{}
		for name, a := range from.Attrs {
			switch a := a.(type) {
			case sym.Expr:
				attrs[name] = put(a)
			case []sym.Expr:
				list := make([]sym.Expr, len(a))
				for i, e := range a {
					list[i] = put(e)
				}
				attrs[name] = list
			default:
				attrs[name] = a
			}
		}
		inputs := make([]*ir.Value, len(from.Inputs))
		for i, v := range from.Inputs {
			inputs[i] = values[v]
		}
		to := b.Node(from.Op.Name(), attrs, inputs...)
		for i, v := range from.Outputs {
			values[v] = to.Outputs[i]
		}
	}
	results := make([]*ir.Value, len(f.Body.Results))
	for i, v := range f.Body.Results {
		results[i] = values[v]
	}
	return results
}
