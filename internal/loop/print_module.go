package loop

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text"
)

// inlineElements is the largest number of elements of a tensor whose contents are printed.
const inlineElements = 16

// String returns the module's printed text. Of weights with more than 16 elements, it gives only the size.
func (m *Module) String() string {
	var p printer
	p.Line("weir 1")
	p.Block("loop "+text.GlobalName(m.Name), func() { p.module(m) })
	return p.String()
}

// module writes a module.
func (p *printer) module(m *Module) {
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
	for _, r := range m.Requires {
		from := ""
		if r.From != "" {
			from = " from " + strconv.Quote(r.From)
		}
		if r.Tensor != "" {
			from += " about " + text.LocalName(r.Tensor)
		}
		p.Line("require %s%s", r.Cond, from)
	}
	for _, b := range m.Buffers {
		p.buffer(b)
	}
	for _, k := range m.Kernels {
		p.kernel(k)
	}
	p.Block("body", func() { p.steps(m.Body) })
}

// formatMax returns the upper end of a range; inf if there is none.
func formatMax(v int64) string {
	if v == sym.NoMax {
		return "inf"
	}
	return strconv.FormatInt(v, 10)
}

// buffer writes a buffer's declaration.
func (p *printer) buffer(b *Buffer) {
	line := "buffer " + text.LocalName(b.Name) + ": " + formatType(b.DType, b.Shape) + " " + b.Kind.String()
	if b.Paged {
		line += " paged"
	}
	if b.Reserved {
		line += " reserved"
	}
	if b.Device != "" {
		line += " device " + strconv.Quote(b.Device)
	}
	if b.State != nil {
		line += " state " + text.LocalName(b.State.Name)
	}
	if v := b.View; v != nil {
		line += fmt.Sprintf(" view %s offset %s", text.LocalName(v.Of.Name), v.Offset)
		if v.Strides != nil {
			line += " strides " + formatIndex(v.Strides)
		}
	}
	if t := b.Data; t != nil {
		if inline(t) {
			line += " = " + formatElements(t)
		} else {
			line += fmt.Sprintf(" data %d", t.Size())
		}
	}
	if len(b.Elements) > 0 {
		line += " elements (" + strings.Trim(formatList(b.Elements, sym.Name.String), "[]") + ")"
	}
	p.Line("%s%s", line, source(b.Source))
}

// inline reports whether a tensor's contents are printed.
func inline(t *tensor.Tensor) bool {
	return t.DType() == dtype.String || t.Len() <= inlineElements && Scalar(t.DType())
}

// formatElements returns a tensor's elements in brackets.
func formatElements(t *tensor.Tensor) string {
	list := make([]string, t.Len())
	for i := range list {
		if t.DType() == dtype.String {
			list[i] = strconv.Quote(t.Strings()[i])
		} else {
			list[i] = formatConst(&Const{t.DType(), loadBits(t.DType().Bits(), t.Bytes(), int64(i))})
		}
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// steps writes a list of steps.
func (p *printer) steps(body []Step) {
	for _, s := range body {
		p.step(s)
	}
}

// step writes a step and its bodies.
func (p *printer) step(s Step) {
	switch s := s.(type) {
	case *Launch:
		device := ""
		if s.Device != "" {
			device = " device " + strconv.Quote(s.Device)
		}
		p.Line("launch %s%s%s%s", text.GlobalName(s.Kernel.Name), formatBuffers(s.Args), device, source(s.Source))
	case *Host:
		p.Line("host %s%s -> %s%s%s", strconv.Quote(s.Op), formatBuffers(s.In), formatBuffers(s.Out),
			formatAttributes(s.Attrs), source(s.Source))
	case *Bind:
		from := s.Value.String()
		if s.From != nil {
			from = fmt.Sprintf("%s[%d]", text.LocalName(s.From.Name), s.At)
		}
		p.Line("bind %s = %s%s", s.Dim, from, source(s.Source))
	case *If:
		p.Line("if %s%s {", text.LocalName(s.Cond.Name), source(s.Source))
		p.nested(s.Then)
		if len(s.Else) > 0 {
			p.Line("} else {")
			p.nested(s.Else)
		}
		p.Line("}")
	case *Loop:
		line := "loop"
		for _, part := range []struct {
			word   string
			buffer *Buffer
		}{{"trip", s.Trip}, {"cond", s.Cond}, {"index", s.Index}} {
			if part.buffer != nil {
				line += " " + part.word + " " + text.LocalName(part.buffer.Name)
			}
		}
		if !s.Count.None() {
			line += " count " + s.Count.String()
		}
		p.Block(line+source(s.Source), func() { p.steps(s.Body) })
	case *Copy:
		rows := ""
		if s.Pick != nil {
			rows = fmt.Sprintf("[%s of %d]%s", text.LocalName(s.Pick.Index.Name), s.Pick.Rows, source(s.Pick.Source))
		}
		p.Line("copy %s = %s%s", text.LocalName(s.To.Name), text.LocalName(s.From.Name), rows)
	default:
		p.Line("unknown %T", s)
	}
}

// formatAttributes returns attributes in braces, sorted by name; nothing for nil.
func formatAttributes(attrs map[string]any) string {
	if attrs == nil {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		list = append(list, text.Name(name)+" = "+formatAttribute(attrs[name]))
	}
	return " {" + strings.Join(list, ", ") + "}"
}

// nested writes a list of steps, indented.
func (p *printer) nested(body []Step) {
	p.Indent()
	p.steps(body)
	p.Dedent()
}

// formatBuffers returns buffers' names in parentheses; none for nil.
func formatBuffers(list []*Buffer) string {
	names := make([]string, len(list))
	for i, b := range list {
		names[i] = "none"
		if b != nil {
			names[i] = text.LocalName(b.Name)
		}
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// formatAttribute returns a type word and the value.
func formatAttribute(v any) string {
	switch v := v.(type) {
	case int64:
		return "int " + strconv.FormatInt(v, 10)
	case []int64:
		return "ints " + formatList(v, func(x int64) string { return strconv.FormatInt(x, 10) })
	case float64:
		return "float " + text.Float(v)
	case []float64:
		return "floats " + formatList(v, text.Float)
	case bool:
		return "bool " + strconv.FormatBool(v)
	case string:
		return "string " + strconv.Quote(v)
	case []string:
		return "strings " + formatList(v, strconv.Quote)
	case sym.Expr:
		return "sym " + v.String()
	case []sym.Expr:
		return "syms " + formatIndex(v)
	case dtype.DType:
		return "dtype " + v.String()
	case *tensor.Tensor:
		shape := make([]sym.Expr, v.Rank())
		for i, extent := range v.Shape() {
			shape[i] = sym.Const(extent)
		}
		head := "tensor " + formatType(v.DType(), shape)
		if inline(v) {
			return head + " = " + formatElements(v)
		}
		return head + " base64 " + strconv.Quote(base64.StdEncoding.EncodeToString(v.Bytes()))
	}
	return fmt.Sprintf("unknown %T", v)
}

// formatList returns a list in brackets.
func formatList[T any](list []T, format func(T) string) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = format(x)
	}
	return "[" + strings.Join(words, ", ") + "]"
}
