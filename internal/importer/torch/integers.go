package torch

import (
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// integers has the functions of integers and of tensors' shapes, by the names of their nodes.
var integers = map[string]func(c *call) sym.Expr{
	"_operator.add":      pairOfIntegers(sym.Expr.Add),
	"_operator.sub":      pairOfIntegers(sym.Expr.Sub),
	"_operator.mul":      pairOfIntegers(sym.Expr.Mul),
	"_operator.floordiv": quotient(sym.Expr.FloorDiv),
	"_operator.mod":      quotient(sym.Expr.Mod),
	"_operator.neg":      func(c *call) sym.Expr { return c.sym("a").Neg() },
	"torch.sym_max":      pairOfIntegers(sym.Expr.Max),
	"torch.sym_min":      pairOfIntegers(sym.Expr.Min),

	"aten.sym_size.int":               func(c *call) sym.Expr { return c.ofAxis(c.tensor("self").Type.Shape) },
	"aten.sym_numel.default":          func(c *call) sym.Expr { return product(c.tensor("self").Type.Shape) },
	"aten.sym_stride.int":             func(c *call) sym.Expr { return c.ofAxis(c.strides("self")) },
	"aten.sym_storage_offset.default": func(c *call) sym.Expr { return c.offset("self") },
}

// pairOfIntegers returns a function of the integers a and b.
func pairOfIntegers(f func(a, b sym.Expr) sym.Expr) func(c *call) sym.Expr {
	return func(c *call) sym.Expr { return f(c.sym("a"), c.sym("b")) }
}

// quotient returns a function of the integers a and b; it refuses a b that is known to be 0.
func quotient(f func(a, b sym.Expr) sym.Expr) func(c *call) sym.Expr {
	return func(c *call) sym.Expr {
		b := c.sym("b")
		if n, ok := b.Const(); ok && n == 0 {
			c.Fail(diag.Inputf("a quotient by 0"))
		}
		return f(c.sym("a"), b)
	}
}

// ofAxis returns the entry for the axis dim in a list with an entry for each axis.
func (c *call) ofAxis(list []sym.Expr) sym.Expr {
	if len(list) == 0 {
		c.Fail(diag.Inputf("an axis of a tensor that has none"))
	}
	return list[c.axis("dim", 0, len(list))]
}

// integer records a node's only result, an integer, by its name.
func (g *graph) integer(n *nodeJSON, e sym.Expr) error {
	if len(n.Outputs) != 1 {
		return diag.Inputf("%d results", len(n.Outputs))
	}
	var as namedNumber
	if n.Outputs[0].kind != "as_sym_int" {
		return diag.Unsupportedf("a result of the kind %s", n.Outputs[0].kind)
	}
	if err := n.Outputs[0].into(&as); err != nil {
		return err
	}
	g.ints[as.Name] = g.Dims().Simplify(e)
	return nil
}

// meta returns the file's description of the tensor that an argument names.
func (c *call) meta(name string) (meta tensorMeta, ok bool) {
	var n named
	if a := c.args[name]; a == nil || a.kind != "as_tensor" || a.into(&n) != nil {
		return meta, false
	}
	meta, ok = c.json.Tensors[n.Name]
	return meta, ok
}

// strides returns the strides of a tensor in the file; if the file has none, those of row-major order.
func (c *call) strides(name string) []sym.Expr {
	shape := c.tensor(name).Type.Shape
	list := make([]sym.Expr, len(shape))
	if meta, ok := c.meta(name); ok && len(meta.Strides) == len(shape) {
		for i, s := range meta.Strides {
			e, err := c.extent(s, c.symbol)
			if err != nil {
				c.Fail(err)
			}
			list[i] = e
		}
		return list
	}
	for i := range list {
		list[i] = product(shape[i+1:])
	}
	return list
}

// offset returns the index of a tensor's first element in its storage in the file; 0 if the file has none.
func (c *call) offset(name string) sym.Expr {
	meta, ok := c.meta(name)
	if !ok || meta.StorageOffset.Int == nil && meta.StorageOffset.Expr == nil {
		return sym.Const(0)
	}
	e, err := c.extent(meta.StorageOffset, c.symbol)
	if err != nil {
		c.Fail(err)
	}
	return e
}

// learn records which of torch's symbols, for sizes that data decide, are a result's extents.
func (g *graph) learn(name string, v *ir.Value) {
	sizes := g.json.Tensors[name].Sizes
	if v == nil || len(sizes) != len(v.Type.Shape) {
		return
	}
	for i, s := range sizes {
		if s.Expr == nil {
			continue
		}
		symbol := symbolOf(s.Expr.Text)
		if _, ok := g.decided[symbol]; !ok && strings.HasPrefix(symbol, "u") && g.items[symbol] == nil {
			g.decided[symbol] = v.Type.Shape[i]
		}
	}
}

// item turns a tensor's only element into a size; torch must know it to be at least 0.
func (g *graph) item(name string, v *ir.Value) (sym.Expr, error) {
	r := g.program.Ranges[name]
	if r.Min == nil || *r.Min < 0 {
		return sym.Expr{}, diag.Unsupportedf("the size %s, which data decide and may be negative", name).AtDim(name).
			WithFix("torch._check(size >= 0) in the model")
	}
	most := sym.Unlimited
	if r.Max != nil && *r.Max < 1<<31 {
		most = sym.Const(max(*r.Max, *r.Min))
	}
	list, err := g.ElementsWithin(v, g.Source, *r.Min, most)
	if err != nil {
		return sym.Expr{}, err
	}
	if len(list) != 1 {
		return sym.Expr{}, diag.Inputf("a size of %d elements", len(list))
	}
	g.decided[name] = list[0]
	return list[0], nil
}
