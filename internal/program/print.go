package program

import (
	"fmt"

	"github.com/weirml/weir/internal/text"
)

// String is the program as text.
func (p *Program) String() string {
	var w text.Printer
	w.Line("program @%s {", p.Name)
	w.Indent()
	for _, d := range p.Dims {
		w.Line("dim %s %s", d.Name, d.Range)
	}
	for _, s := range p.Storages {
		w.Line("storage %%%s: %s bytes align %d", s.Name, s.Size, s.Align)
	}
	for _, plan := range p.Plans {
		w.Line("plan %v {", plan.When)
		for _, l := range plan.Lets {
			w.Line("  let %s = %s", l.Name, l.X)
		}
		w.Line("}")
	}
	p.print(&w, p.Steps)
	w.Dedent()
	w.Line("}")
	return w.String()
}

func (p *Program) names(tensors []int) string {
	out := ""
	for i, t := range tensors {
		if i > 0 {
			out += ", "
		}
		if t < 0 {
			out += "_"
		} else {
			out += "%" + p.Tensors[t].Name
		}
	}
	return out
}

func (p *Program) print(w *text.Printer, steps []Step) {
	for _, step := range steps {
		switch s := step.(type) {
		case *Carve:
			t := p.Tensors[s.Tensor]
			w.Line("%%%s = carve %%%s at %s: %s%v", t.Name, p.Storages[t.Of].Name, t.Offset, t.DType, t.Shape)
		case *Release:
			w.Line("release %s", p.names(s.Tensors))
		case *Launch:
			w.Line("launch @%s(%s)", p.Kernels[s.Kernel], p.names(s.Args))
		case *Host:
			w.Line("%s = host %s(%s)", p.names(s.Out), s.Op, p.names(s.In))
		case *Bind:
			w.Line("bind %s = %s[%d] or %s", p.Dims[s.Dim].Name, p.names([]int{s.From}), s.At, s.Value)
		case *If:
			w.Line("if %s {", p.names([]int{s.Cond}))
			w.Indent()
			p.print(w, s.Then)
			w.Dedent()
			w.Line("} else {")
			w.Indent()
			p.print(w, s.Else)
			w.Dedent()
			w.Line("}")
		case *Loop:
			w.Line("%s", fmt.Sprintf("loop trip %s while %s index %s {", p.names([]int{s.Trip}), p.names([]int{s.Cond}), p.names([]int{s.Index})))
			w.Indent()
			p.print(w, s.Body)
			w.Dedent()
			w.Line("}")
		case *Copy:
			w.Line("copy %s to %s", p.names([]int{s.From}), p.names([]int{s.To}))
		}
	}
}
