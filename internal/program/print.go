package program

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/literal"
	"github.com/weirml/weir/internal/text"
)

// dataAlign is the alignment of weights in the data section.
const dataAlign = 64

var (
	ownershipNames = [...]string{Borrow: "borrow", State: "state"}
	storageNames   = [...]string{Arena: "arena", Results: "results", Spill: "spill"}
)

// String returns the program's text. A weight of more than literal.InlineElements elements is printed as an offset in
// the data section; see Data.
func (p *Program) String() string {
	w := &printer{}
	w.Line("weir 1")
	next := int64(0)
	w.program(p, &next)
	return w.String()
}

// Data returns the contents of the data section: the weights that are not in the text, each with its offset in bytes.
// The section ends with the last; zeros fill the gaps.
func (p *Program) Data() (pieces []Piece, size int64) {
	for i := range p.Weights {
		if w := &p.Weights[i]; p.inline(w) == nil {
			pieces = append(pieces, Piece{Offset: reserve(&size, p.size(w)), Data: w.Data})
		}
	}
	return pieces, size
}

// Piece is a weight's bytes in the data section.
type Piece struct {
	Offset int64
	Data   []byte
}

// reserve reserves bytes of the data section and returns their offset.
func reserve(next *int64, bytes int64) int64 {
	at := (*next + dataAlign - 1) / dataAlign * dataAlign
	*next = at + bytes
	return at
}

// inline returns the elements of a weight that is printed in the text; nil for others.
func (p *Program) inline(w *Weight) *tensor.Tensor {
	if w.Tensor < 0 || w.Tensor >= len(p.Tensors) {
		return nil
	}
	t := &p.Tensors[w.Tensor]
	if t.Strides != nil || t.DType == dtype.String || t.DType == dtype.Invalid {
		return nil
	}
	shape := make([]int64, len(t.Shape))
	for i, e := range t.Shape {
		size, ok := e.Const()
		if !ok {
			return nil
		}
		shape[i] = size
	}
	out, err := tensor.Over(t.DType, shape, w.Data)
	if err != nil || !literal.Inline(out) {
		return nil
	}
	return out
}

// size returns a weight's size in bytes: its contents', or its tensor's if it has no contents.
func (p *Program) size(w *Weight) int64 {
	if w.Data == nil && w.Tensor >= 0 && w.Tensor < len(p.Tensors) {
		if size, ok := p.Tensors[w.Tensor].Bytes().Const(); ok && size > 0 && size < 1<<48 {
			return size
		}
	}
	return int64(len(w.Data))
}

type printer struct{ text.Printer }

// program prints a program; next is the next free offset of the data section.
func (w *printer) program(p *Program, next *int64) {
	w.Block("program "+text.GlobalName(p.Name), func() {
		for _, d := range p.Dims {
			limit := ""
			if d.Data {
				limit = " data limit " + sym.FormatLimit(d.Limit)
			}
			if d.Origin != "" {
				limit += " from " + strconv.Quote(d.Origin)
			}
			w.Line("dim %s in [%d, %s]%s", d.Name, d.Range.Min, formatMax(d.Range.Max), limit)
		}
		for _, r := range p.Requires {
			about := ""
			if r.Tensor != "" {
				about = " about " + text.LocalName(r.Tensor)
			}
			w.Line("require %s from %q%s", r.Cond, r.From, about)
		}
		for _, s := range p.Storages {
			w.storage(s)
		}
		for _, plan := range p.Plans {
			when := ""
			if len(plan.When) > 0 {
				when = " when " + strings.Trim(literal.List(plan.When, sym.Cond.String), "[]")
			}
			w.Block("plan"+when, func() { w.lets(plan.Lets) })
		}
		for i := range p.Tensors {
			w.Line("%s", p.formatTensor(&p.Tensors[i]))
		}
		for i := range p.Weights {
			weight := &p.Weights[i]
			line := fmt.Sprintf("weight %q %s", weight.Name, p.name(weight.Tensor))
			if weight.Paged {
				line += " paged"
			}
			line += device(weight.Device)
			if t := p.inline(weight); t != nil {
				w.Line("%s = %s", line, literal.Elements(t))
			} else {
				size := p.size(weight)
				w.Line("%s data %d at %d", line, size, reserve(next, size))
			}
		}
		for _, k := range p.Kernels {
			w.Line("kernel %s", text.GlobalName(k))
		}
		for _, s := range p.Streams {
			w.Line("stream %s%s", text.GlobalName(s.Name), device(s.Device))
		}
		for _, e := range p.Events {
			w.Line("event %s", text.GlobalName(e))
		}
		for _, port := range p.Inputs {
			elements := ""
			if port.Elements != nil {
				names := make([]string, len(port.Elements))
				for i, d := range port.Elements {
					names[i] = p.dim(d)
				}
				elements = " elements (" + strings.Join(names, ", ") + ")"
			}
			gives := ""
			if port.Gives != nil {
				names := make([]string, len(port.Gives))
				for i, t := range port.Gives {
					names[i] = p.name(t)
				}
				gives = " gives (" + strings.Join(names, ", ") + ")"
			}
			w.Line("input %q = %s %s%s%s%s", port.Name, p.name(port.Tensor), ownershipNames[port.Ownership],
				device(port.Device), elements, gives)
		}
		for _, port := range p.Outputs {
			w.Line("output %q = %s %s", port.Name, p.name(port.Tensor), ownershipNames[port.Ownership])
		}
		w.Block("body", func() { w.steps(p, p.Steps) })
	})
}

// storage prints a storage's line and its lets.
func (w *printer) storage(s Storage) {
	late := ""
	if s.Late {
		late = "late "
	}
	line := fmt.Sprintf("storage %s: %s%s bytes %s align %d%s", text.LocalName(s.Name), late, storageNames[s.Kind], s.Size,
		s.Align, device(s.Device))
	if len(s.Lets) == 0 {
		w.Line("%s", line)
		return
	}
	w.Block(line, func() { w.lets(s.Lets) })
}

// lets prints names and values, one a line.
func (w *printer) lets(lets []Let) {
	for _, l := range lets {
		w.Line("let %s = %s", l.Name, l.X)
	}
}

// formatMax formats a range's upper end; sym.NoMax is inf.
func formatMax(v int64) string {
	if v == sym.NoMax {
		return "inf"
	}
	return strconv.FormatInt(v, 10)
}

// device formats a device; "" if it is the host.
func device(name string) string {
	if name == "" {
		return ""
	}
	return " on " + strconv.Quote(name)
}

// source formats the name of a model's node; "" if there is none.
func source(s string) string {
	if s == "" {
		return ""
	}
	return " source " + strconv.Quote(s)
}

// formatTensor formats a tensor's declaration.
func (p *Program) formatTensor(t *Tensor) string {
	line := "tensor " + text.LocalName(t.Name) + ": " + literal.Type(t.DType, t.Shape)
	if t.Strides != nil {
		line += " strides " + literal.Index(t.Strides)
	}
	if t.Reserved {
		line += " reserved"
	}
	switch t.Class {
	case Argument:
		line += " argument"
	case Constant:
		line += " constant"
	case Carved:
		line += " in " + p.storageName(t.Of) + " at " + t.Offset.String()
	case View:
		line += " part of " + p.name(t.Of) + " at " + t.Offset.String()
	}
	return line + source(t.Source)
}

// pick formats element i of a list; "none" if i is out of range.
func pick[T any](i int, list []T, format func(T) string) string {
	if i < 0 || i >= len(list) {
		return "none"
	}
	return format(list[i])
}

// name returns a tensor's name; "none" for −1.
func (p *Program) name(i int) string {
	return pick(i, p.Tensors, func(t Tensor) string { return text.LocalName(t.Name) })
}

// storageName returns a storage's name; "none" for an index out of range.
func (p *Program) storageName(i int) string {
	return pick(i, p.Storages, func(s Storage) string { return text.LocalName(s.Name) })
}

// names returns the names of tensors, separated by commas.
func (p *Program) names(tensors []int) string {
	words := make([]string, len(tensors))
	for i, t := range tensors {
		words[i] = p.name(t)
	}
	return strings.Join(words, ", ")
}

// dim returns a dimension's name; "none" for an index out of range.
func (p *Program) dim(i int) string {
	return pick(i, p.Dims, func(d Dim) string { return d.Name.String() })
}

// event returns an event's name; "none" for an index out of range.
func (p *Program) event(i int) string { return pick(i, p.Events, text.GlobalName) }

// stream formats the stream of a step; "" for the program's own order.
func (p *Program) stream(i int) string {
	if i == 0 {
		return ""
	}
	return " on " + pick(i-1, p.Streams, func(s Stream) string { return text.GlobalName(s.Name) })
}

// steps prints a list of steps.
func (w *printer) steps(p *Program, steps []Step) {
	for _, step := range steps {
		w.step(p, step)
	}
}

// step prints one step, with its bodies.
func (w *printer) step(p *Program, step Step) {
	switch s := step.(type) {
	case *Carve:
		over := ""
		if len(s.Over) > 0 {
			over = " over " + p.names(s.Over)
		}
		w.Line("carve %s%s", p.name(s.Tensor), over)
	case *Release:
		w.Line("release %s", p.names(s.Tensors))
	case *Take:
		w.Line("take %s", p.storageName(s.Storage))
	case *Launch:
		args := make([]string, len(s.Args))
		for i, t := range s.Args {
			args[i] = p.name(t)
			if i < len(s.Writes) && s.Writes[i] {
				args[i] = "write " + args[i]
			}
		}
		dims := make([]string, len(s.Dims))
		for i, d := range s.Dims {
			dims[i] = p.dim(d)
		}
		w.Line("launch %s(%s) dims (%s)%s%s", pick(s.Kernel, p.Kernels, text.GlobalName), strings.Join(args, ", "),
			strings.Join(dims, ", "), p.stream(s.Stream), source(s.Source))
	case *Host:
		attrs := ""
		if len(s.Attrs) > 0 {
			attrs = " " + literal.Attributes(s.Attrs)
		}
		w.Line("host %q(%s) -> (%s)%s%s", s.Op, p.names(s.In), p.names(s.Out), attrs, source(s.Source))
	case *Bind:
		value := s.Value.String()
		if s.From >= 0 {
			value = fmt.Sprintf("%s[%d]", p.name(s.From), s.At)
		}
		w.Line("bind %s = %s%s", p.dim(s.Dim), value, source(s.Source))
	case *If:
		w.Line("if %s%s {", p.name(s.Cond), source(s.Source))
		w.nested(p, s.Then)
		w.Line("} else {")
		w.nested(p, s.Else)
		w.Line("}")
	case *Loop:
		line := "loop"
		for _, operand := range []struct {
			word   string
			tensor int
		}{{"trip", s.Trip}, {"cond", s.Cond}, {"index", s.Index}} {
			if operand.tensor >= 0 {
				line += " " + operand.word + " " + p.name(operand.tensor)
			}
		}
		if s.Count >= 0 {
			line += " count " + p.dim(s.Count)
		}
		w.Block(line+source(s.Source), func() { w.steps(p, s.Body) })
	case *Copy:
		rows, node := "", ""
		if s.Pick != nil {
			rows, node = fmt.Sprintf("[%s of %d]", p.name(s.Pick.Index), s.Pick.Rows), source(s.Pick.Source)
		}
		w.Line("copy %s = %s%s%s%s", p.name(s.To), p.name(s.From), rows, p.stream(s.Stream), node)
	case *Record:
		w.Line("record %s%s", p.event(s.Event), p.stream(s.Stream))
	case *Wait:
		w.Line("wait %s%s", p.event(s.Event), p.stream(s.Stream))
	}
}

// nested prints steps one level deeper.
func (w *printer) nested(p *Program, steps []Step) {
	w.Indent()
	w.steps(p, steps)
	w.Dedent()
}
