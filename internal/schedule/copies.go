package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Copies lists what a module only moves or repeats, computing nothing: a line for each such kernel or step with the bytes that it writes, from where to where, and why
// it is left.
func Copies(m *loop.Module) string {
	s := &scheduler{module: m, dims: m.Dims}
	s.countUses()
	var lines strings.Builder
	count, total := 0, zero
	s.eachList(&m.Body, func(list *[]loop.Step) {
		for _, step := range *list {
			from, to, why := s.copies(step)
			if why == "" {
				continue
			}
			bytes := sym.Product(to.Shape...).Mul(sym.Const(int64(to.DType.Bits()))).FloorDiv(sym.Const(8))
			count, total = count+1, total.Add(bytes)
			fmt.Fprintf(&lines, "%s bytes  %s to %%%s  %s: %s\n", bytes, from, to.Name, stepName(step), why)
		}
	})
	fmt.Fprintf(&lines, "%d copies, %s bytes\n", count, total)
	return lines.String()
}

// stepName is what a step is called in the list, with the model's nodes.
func stepName(step loop.Step) string {
	l, ok := step.(*loop.Launch)
	switch {
	case !ok:
		return "copy"
	case l.Source == "":
		return "@" + l.Kernel.Name
	}
	return fmt.Sprintf("@%s (%s)", l.Kernel.Name, l.Source)
}

// copies says what a step copies and why; why is empty where it computes something.
func (s *scheduler) copies(step loop.Step) (from string, to *loop.Buffer, why string) {
	if c, ok := step.(*loop.Copy); ok {
		why = "kernels that read it want its elements in order"
		if c.To.Root().Kind == loop.Output {
			why = "the result has storage of its own, and what it is of is not made for it alone"
		}
		return "%" + c.From.Name, c.To, why
	}
	l, ok := step.(*loop.Launch)
	if !ok {
		return "", nil, ""
	}
	moves := movesOf(l.Kernel)
	if moves == nil {
		return "", nil, ""
	}
	var names []string
	repeated := false
	for i, p := range l.Kernel.Params {
		if p.Access == loop.Read {
			names = append(names, "%"+l.Args[i].Name)
		} else {
			to = l.Args[i]
		}
	}
	if to == nil || len(names) == 0 {
		return "", nil, ""
	}
	if len(names) == 1 {
		elements := func(b *loop.Buffer) sym.Expr { return sym.Product(b.Shape...) }
		source := l.Args[slices.IndexFunc(l.Kernel.Params, func(p *loop.Param) bool { return p.Access == loop.Read })]
		repeated = s.dims.LT(elements(source), elements(to)) == sym.Yes
	}
	return strings.Join(names, ", "), to, s.whyCopied(to, moves, len(names), repeated)
}

// movesOf is the loads that a kernel stores as they are; nil where it does anything else.
func movesOf(k *loop.Kernel) []*loop.Load {
	var loads []*loop.Load
	only := true
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		switch stmt := stmt.(type) {
		case *loop.Store:
			l, ok := stmt.X.(*loop.Load)
			only = only && ok
			loads = append(loads, l)
		case *loop.For, *loop.Local:
		default:
			only = false
		}
		return only
	})
	if !only {
		return nil
	}
	return loads
}

// whyCopied is the reason for a kernel that only moves elements.
func (s *scheduler) whyCopied(to *loop.Buffer, moves []*loop.Load, sources int, repeated bool) string {
	u := s.usesOf(to)
	products, hosts := 0, 0
	for _, reader := range u.readers {
		l, ok := reader.(*loop.Launch)
		if !ok {
			hosts++
		} else if contracts(l.Kernel) {
			products++
		}
	}
	switch {
	case to.Root().Kind == loop.Output:
		return "the result has storage of its own"
	case slices.ContainsFunc(moves, func(l *loop.Load) bool { return l.Mask != nil }):
		return "there are elements around what is moved that are not of it"
	case hosts > 0:
		return "what reads it is no kernel, and wants its elements in order"
	case sources > 1:
		return "what reads it wants the pieces as one, and they are read or made elsewhere too"
	case repeated:
		return "what reads it wants elements as often as they are repeated"
	case products > 0 && u.viewed:
		return "a product reads it under a shape that what it is moved from cannot have"
	case products > 0:
		return "a product reads elements side by side that lie apart where they are moved from"
	case len(u.readers) > 1:
		return fmt.Sprintf("%d kernels read it", len(u.readers))
	case u.viewed:
		return "it is read under another shape, in the order that it is moved to"
	}
	return "what reads it needs another order of loops"
}
