package transformers

import (
	"math"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Bound requires of an imported module that its tables of positions have a row for each token, if texts have as many
// tokens as the inputs. In models of RoBERTa's kind, data decide the positions: the tokens that are no padding are
// counted.
func Bound(m *ir.Module) error {
	c := counting{spans: map[*ir.Value]span{}, padding: map[*ir.Value]bool{}}
	for _, p := range m.Main.Body.Params {
		switch p.Name {
		case InputIDs:
			c.ids = p
		case AttentionMask:
			c.spans[p] = token
		}
	}
	inference := ir.NewInference(m)
	for _, n := range m.Main.Body.Nodes {
		if n.Op.Name() != "gather" {
			c.add(n)
			continue
		}
		rows, fixed := n.Inputs[0].Type.Shape[n.Attrs.Int("axis", 0)].Const()
		at, known := c.spans[n.Inputs[1]]
		if _, number := at.most.Const(); !known || !fixed || number {
			continue
		}
		err := inference.RequireOf(n.Source, n.Op.Name(), n.Line, sym.Cond{A: at.most, B: sym.Const(rows - 1)},
			"every position has an embedding")
		if err != nil {
			return err
		}
	}
	return nil
}

// counting finds how far values count for texts that have as many tokens as the inputs.
type counting struct {
	ids     *ir.Value // the input
	spans   map[*ir.Value]span
	padding map[*ir.Value]bool // values that are true for padding, and false for other tokens
}

// span is the least element of a value, which padding has in most models, and the greatest, which the last token has.
type span struct {
	least int64
	most  sym.Expr
}

// token is the span of values that are 1 for tokens and 0 for padding.
var token = span{0, sym.Const(1)}

// number returns the element of a constant that has one integer.
func number(v *ir.Value) (int64, bool) {
	if v == nil {
		return 0, false
	}
	if t := v.Const; t != nil && !t.Pending() && t.Len() == 1 && t.DType().IsInt() {
		return t.Int(0), true
	}
	if len(v.Known) == 1 {
		return v.Known[0].Const()
	}
	return 0, false
}

// add finds what a node's result counts.
func (c *counting) add(n *ir.Node) {
	if len(n.Outputs) != 1 || len(n.Inputs) == 0 || n.Inputs[0] == nil {
		return
	}
	name, out, x := n.Op.Name(), n.Outputs[0], n.Inputs[0]
	a, counts := c.spans[x]
	if len(n.Inputs) == 2 {
		c.combine(name, out, x, n.Inputs[1])
		return
	}
	switch {
	case name == "not" && c.padding[x]:
		c.spans[out] = token
	case name == "where" && c.padding[x]: // what padding has does not matter
		c.keep(out, n.Inputs[2])
	case name == "where" && counts:
		c.keep(out, n.Inputs[1])
	case name == "cumsum":
		axis := n.Attrs.Int("axis", 0)
		if counts && a.least == 0 && !n.Attrs.Bool("exclusive") && !n.Attrs.Bool("reverse") {
			c.spans[out] = span{0, a.most.Mul(out.Type.Shape[axis])}
		}
	case ops.Of(n).Alias || name == "cast" || name == "expand" || name == "transpose":
		c.keep(out, x)
		c.padding[out] = c.padding[x]
	}
}

// keep gives a value the span of another.
func (c *counting) keep(out, of *ir.Value) {
	if a, ok := c.spans[of]; ok {
		c.spans[out] = a
	}
}

// mostOffset is the largest number that positions are counted from.
const mostOffset = math.MaxInt32

// combine finds what the result of an operator of two values counts.
func (c *counting) combine(name string, out, x, y *ir.Value) {
	k, fixed := number(y)
	if !fixed && (name == "add" || name == "eq" || name == "ne") {
		x, y = y, x
		k, fixed = number(y)
	}
	a, counts := c.spans[x]
	isToken := counts && a.least == 0 && a.most.Equal(token.most)
	switch name {
	case "eq", "ne":
		switch {
		case !fixed:
		case x == c.ids && name == "ne", isToken && (k == 0) == (name == "ne") && (k == 0 || k == 1):
			c.spans[out] = token
		case x == c.ids, isToken && (k == 0 || k == 1):
			c.padding[out] = true
		}
	case "mul":
		if b, also := c.spans[y]; counts && also && a.least == 0 && b.least == 0 {
			c.spans[out] = span{0, a.most.Mul(b.most)}
		}
	case "add", "sub":
		if name == "sub" {
			k = -k
		}
		if counts && fixed && max(k, -k, a.least, -a.least) <= mostOffset {
			c.spans[out] = span{a.least + k, a.most.Add(sym.Const(k))}
		}
	}
}
