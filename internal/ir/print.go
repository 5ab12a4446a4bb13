package ir

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor/literal"
	"github.com/weirml/weir/internal/text"
)

// String returns the type's text: f32[n, 3].
func (t Type) String() string { return literal.Type(t.DType, t.Shape) }

// String returns the module's text. Constants of more than literal.InlineElements elements are printed as their size;
// whoever parses the text must supply the contents.
func (m *Module) String() string { return (&printer{}).text(m) }

// FullText returns the module's text with all elements of its constants.
func (m *Module) FullText() string { return (&printer{full: true}).text(m) }

// text returns the text of a module.
func (p *printer) text(m *Module) string {
	p.Line("weir 1")
	p.Block("ir "+text.GlobalName(m.Name), func() { p.module(m) })
	return p.String()
}

type printer struct {
	text.Printer
	full bool // constants are printed with all elements, however many
}

// module prints a module's declarations and functions.
func (p *printer) module(m *Module) {
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		p.Line("meta %q = %q", key, m.Meta[key])
	}
	if m.Dims != nil {
		for _, name := range m.Dims.Names() {
			r, _ := m.Dims.Get(name)
			limit := ""
			if e, ok := m.Limits[name]; ok {
				limit = " limit " + sym.FormatLimit(e)
			}
			if origin := m.Origins[name]; origin != "" {
				limit += " from " + strconv.Quote(origin)
			}
			p.Line("dim %s in [%d, %s]%s", name, r.Min, formatMax(r.Max), limit)
		}
	}
	for _, c := range m.Choices {
		p.Line("%s", c)
	}
	for _, list := range []struct {
		word     string
		requires []Require
	}{{"require", m.Requires}, {"proved", m.Proved}} {
		for _, r := range list.requires {
			about := ""
			if r.Tensor != "" {
				about = " about " + text.LocalName(r.Tensor)
			}
			p.Line("%s %s from %q%s", list.word, r.Cond, r.From, about)
		}
	}
	for _, f := range m.Funcs {
		word := "func"
		if f == m.Main {
			word = "main"
		}
		p.Line("%s %s%s {", word, text.GlobalName(f.Name), formatParams(f.Body))
		p.Indent()
		for _, s := range f.States {
			p.Line("state %s -> %s", text.LocalName(s.In.Name), text.LocalName(f.Body.Results[s.Out].Name))
		}
		p.block(f.Body)
		p.Dedent()
		p.Line("}")
	}
}

// formatMax formats a range's upper end; sym.NoMax is inf.
func formatMax(v int64) string {
	if v == sym.NoMax {
		return "inf"
	}
	return strconv.FormatInt(v, 10)
}

// formatParams formats a block's parameters, between parentheses.
func formatParams(b *Block) string {
	words := make([]string, len(b.Params))
	for i, v := range b.Params {
		words[i] = formatDefinition(v)
	}
	return "(" + strings.Join(words, ", ") + ")"
}

// formatDefinition formats a value's definition: its name, its type, and its known elements.
func formatDefinition(v *Value) string {
	out := text.LocalName(v.Name) + ": " + v.Type.String()
	switch {
	case v.Bound:
		out += " bound " + literal.Index(v.Known)
	case v.Known != nil && v.Const == nil:
		out += " known " + literal.Index(v.Known)
	}
	return out
}

// block prints a block's constants, nodes, statements and results.
func (p *printer) block(b *Block) {
	for _, v := range b.Consts {
		if v.Const != nil && (p.full || literal.Inline(v.Const)) {
			p.Line("const %s = %s", formatDefinition(v), literal.Elements(v.Const))
		} else {
			size, _ := v.bytes()
			p.Line("const %s data %d", formatDefinition(v), size)
		}
	}
	said := b.Statements
	for i, n := range b.Nodes {
		for len(said) > 0 && said[0].At <= i {
			p.statement(said[0])
			said = said[1:]
		}
		p.node(n)
	}
	for _, s := range said {
		p.statement(s)
	}
	p.Line("return%s", formatUses(b.Results))
}

// bytes returns the size in bytes of a constant's contents; false if its type has no constant size.
func (v *Value) bytes() (int64, bool) {
	count := int64(1)
	for _, e := range v.Type.Shape {
		size, ok := e.Const()
		if !ok || size < 0 || size > 0 && count > (1<<62)/size {
			return 0, false
		}
		count *= size
	}
	size, err := v.Type.DType.Bytes(count)
	return size, err == nil
}

// formatUses formats operands, with a space before if there are any.
func formatUses(list []*Value) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = "none"
		if v != nil {
			words[i] = text.LocalName(v.Name)
		}
	}
	if len(words) > 0 {
		words[0] = " " + words[0]
	}
	return strings.Join(words, ", ")
}

// node prints a node with its regions.
func (p *printer) node(n *Node) {
	results := make([]string, len(n.Outputs))
	for i, v := range n.Outputs {
		results[i] = formatDefinition(v)
	}
	line := strings.Join(results, ", ")
	if line == "" {
		line = "none"
	}
	line += " = " + text.Name(n.Op.Name()) + "(" + strings.TrimPrefix(formatUses(n.Inputs), " ") + ")"
	if len(n.Attrs) > 0 {
		line += " " + literal.Attributes(n.Attrs)
	}
	if n.Source != "" {
		line += " source " + strconv.Quote(n.Source)
	}
	line += formatCarves(n.Outputs)
	for _, r := range n.Regions {
		p.Line("%s region %s {", line, formatParams(r))
		p.Indent()
		p.block(r)
		p.Dedent()
		line = "}"
	}
	p.Line("%s", line)
}
