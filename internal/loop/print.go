package loop

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
)

// printer writes statements, one a line.
type printer struct {
	text.Printer
}

var (
	accessNames = [...]string{Read: "read", Write: "write", Update: "update", Work: "work"}
	loopNames   = [...]string{Each: "each", Serial: "for", Parallel: "parallel", Vector: "vector", Block: "block",
		Thread: "thread"}
	kindNames = [...]string{Temp: "temp", Input: "input", Output: "output", Weight: "weight", Spill: "spill"}
)

// String returns the printed name of the access.
func (a Access) String() string { return nameOf(accessNames[:], int(a)) }

// String returns the loop's keyword.
func (k LoopKind) String() string { return nameOf(loopNames[:], int(k)) }

// String returns the printed name of the kind.
func (k BufferKind) String() string { return nameOf(kindNames[:], int(k)) }

// nameOf returns names[i], or a placeholder for a value out of range.
func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown(" + strconv.Itoa(i) + ")"
}

// String returns the kernel's printed text.
func (k *Kernel) String() string {
	var p printer
	p.kernel(k)
	return p.String()
}

// Text returns the printed text of a list of statements, for debugging.
func Text(body []Stmt) string {
	var p printer
	p.body(body)
	return p.String()
}

// kernel writes a kernel.
func (p *printer) kernel(k *Kernel) {
	params := make([]string, len(k.Params))
	for i, q := range k.Params {
		strides := ""
		if q.Strides != nil {
			strides = " strides " + formatIndex(q.Strides)
		}
		params[i] = text.LocalName(q.Name) + ": " + formatType(q.DType, q.Shape) + strides + " " + q.Access.String()
	}
	dims := make([]string, len(k.Dims))
	for i, name := range k.Dims {
		dims[i] = name.String()
	}
	line := fmt.Sprintf("kernel %s(%s) dims(%s)", text.GlobalName(k.Name), strings.Join(params, ", "),
		strings.Join(dims, ", "))
	if !k.Work.Equal(sym.Const(0)) {
		line += " work " + k.Work.String()
	}
	if m := k.Meaning; m != nil {
		line += " means " + strconv.Quote(m.Op) + cmp.Or(formatAttributes(m.Attrs), " {}")
	}
	p.Block(line+source(k.Source), func() { p.body(k.Body) })
}

// source returns the source clause of a kernel or a step; empty without a source.
func source(from string) string {
	if from == "" {
		return ""
	}
	return " source " + strconv.Quote(from)
}

// body writes a list of statements.
func (p *printer) body(body []Stmt) {
	for _, s := range body {
		p.statement(s)
	}
}

// statement writes a statement and its bodies.
func (p *printer) statement(s Stmt) {
	switch s := s.(type) {
	case *For:
		p.Block(fmt.Sprintf("%s %s < %s", s.Kind, s.Var, s.Extent), func() { p.body(s.Body) })
	case *Let:
		p.Line("let %s = %s", text.LocalName(s.Name), formatExpr(s.X, false))
	case *Var:
		p.Line("var %s: %s = %s", text.LocalName(s.Name), s.X.DType(), formatExpr(s.X, true))
	case *Set:
		p.Line("%s = %s", text.LocalName(s.Name), formatExpr(s.X, true))
	case *Reduce:
		p.Line("%s %s= %s", text.LocalName(s.Name), s.Op, formatExpr(s.X, true))
	case *Check:
		word := "check"
		if s.Guard {
			word = "guard"
		}
		p.Line("%s %s = %s in [%s, %s] %s", word, s.Name, formatExpr(s.X, false), s.Min, s.Max, strconv.Quote(s.What))
	case *Store:
		where := ""
		if s.Mask != nil {
			where = " where " + formatExpr(s.Mask, false)
		}
		p.Line("store %s%s = %s%s", text.LocalName(s.To), formatIndex(s.Index), formatExpr(s.X, true), where)
	case *When:
		p.Line("when %s {", formatExpr(s.Cond, false))
		p.Indent()
		p.body(s.Then)
		p.Dedent()
		if len(s.Else) > 0 {
			p.Line("} else {")
			p.Indent()
			p.body(s.Else)
			p.Dedent()
		}
		p.Line("}")
	case *Local:
		keyword := "local"
		if s.Space == Shared {
			keyword = "shared"
		}
		p.Line("%s %s: %s", keyword, text.LocalName(s.Name), formatType(s.DType, s.Shape))
	case *Contract:
		p.contract(s)
	default:
		p.Line("unknown %T", s)
	}
}

// contract writes each tile's index as one expression over a name for the row and a name for the column.
func (p *printer) contract(s *Contract) {
	used := map[sym.Name]bool{}
	for _, e := range Integers(s) {
		for _, name := range e.Vars() {
			used[name] = true
		}
	}
	var names [3]sym.Name
	for i, hint := range []string{"r", "c", "k"} {
		names[i] = sym.Bound(hint)
		for n := 1; used[names[i]]; n++ {
			names[i] = sym.Bound(hint + strconv.Itoa(n))
		}
	}
	row, col, inner := sym.Var(names[0]), sym.Var(names[1]), sym.Var(names[2])
	tile := func(t *Tile, r, c sym.Expr) string {
		index := make([]sym.Expr, len(t.Origin))
		for d := range index {
			index[d] = t.Origin[d].Add(t.Row[d].Mul(r)).Add(t.Col[d].Mul(c))
		}
		return text.LocalName(t.Buffer) + formatIndex(index)
	}
	p.Line("contract %s += %s * %s for %s < %s, %s < %s, %s < %s",
		tile(&s.C, row, col), tile(&s.A, row, inner), tile(&s.B, inner, col), row, s.M, col, s.N, inner, s.K)
}

// formatIndex returns [i, j + 1].
func formatIndex(index []sym.Expr) string {
	list := make([]string, len(index))
	for i, e := range index {
		list[i] = e.String()
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// formatType returns f32[n, 10]; f32[] for a single element.
func formatType(dt dtype.DType, shape []sym.Expr) string { return dt.String() + formatIndex(shape) }

// formatExpr returns the text of an expression. If typed, the context decides the type, and a constant is written
// without it.
func formatExpr(e Expr, typed bool) string {
	switch e := e.(type) {
	case *Const:
		if typed {
			return formatConst(e)
		}
		return e.Type.String() + "(" + formatConst(e) + ")"
	case *Ref:
		return text.LocalName(e.Name)
	case *Index:
		return "index(" + e.X.String() + ")"
	case *Load:
		where := ""
		if e.Mask != nil && e.Else != nil {
			where = " if " + formatExpr(e.Mask, false) + " else " + formatExpr(e.Else, true)
		}
		return "load " + text.LocalName(e.From) + formatIndex(e.Index) + where
	case *Unary:
		return e.Op.String() + "(" + formatExpr(e.X, false) + ")"
	case *Binary:
		x, y := formatPair(e.X, e.Y)
		return e.Op.String() + "(" + x + ", " + y + ")"
	case *Select:
		x, y := formatPair(e.X, e.Y)
		return "select(" + formatExpr(e.Cond, false) + ", " + x + ", " + y + ")"
	case *Cast:
		wrap := ""
		if e.Wrap {
			wrap = ", wrap"
		}
		return "cast(" + e.Type.String() + ", " + formatExpr(e.X, false) + wrap + ")"
	}
	return fmt.Sprintf("unknown %T", e)
}

// formatPair returns the texts of two operands of one type: if just one of them is a constant, the other states the
// type.
func formatPair(x, y Expr) (string, string) {
	_, constX := x.(*Const)
	_, constY := y.(*Const)
	return formatExpr(x, constX && !constY), formatExpr(y, constY && !constX)
}

// formatConst returns a constant without its type: a number, true or false, or the bits of a complex number.
func formatConst(c *Const) string {
	switch {
	case c.Type == dtype.Bool:
		return strconv.FormatBool(c.Bits != 0)
	case c.Type == dtype.U64:
		return strconv.FormatUint(c.Bits, 10)
	case c.Type.IsInt():
		return strconv.FormatInt(ToInt(c.Type, c.Bits), 10)
	case !c.Type.IsFloat():
		return "bits(" + strconv.FormatUint(c.Bits, 10) + ")"
	}
	x := ToFloat(c.Type, c.Bits)
	switch {
	case math.IsNaN(x) && FromFloat(c.Type, math.NaN()) == c.Bits:
		return "nan"
	case math.IsNaN(x) || FromFloat(c.Type, x) != c.Bits:
		return "bits(" + strconv.FormatUint(c.Bits, 10) + ")" // a NaN other than the usual one
	case c.Type == dtype.F64:
		return text.Float(x)
	}
	return text.FormatFloat(x, 32)
}
