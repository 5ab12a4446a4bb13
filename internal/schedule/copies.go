package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Copies lists the kernels and steps of a module that only copy elements, one line each: the bytes written, the source,
// the destination, and why the copy remains. kept is the map that Options.Kept was.
func Copies(m *loop.Module, kept map[string]string) string {
	s := &scheduler{module: m, dims: m.Dims, kept: kept}
	if s.dims == nil {
		s.dims = sym.NewDims()
	}
	s.countUses()
	var lines strings.Builder
	count, total := 0, zero
	s.eachList(&m.Body, func(list *[]loop.Step) {
		for _, step := range *list {
			for _, c := range s.copies(step) {
				bytes := sym.Product(c.to.Shape...).Mul(sym.Const(int64(c.to.DType.Bits()))).FloorDiv(sym.Const(8))
				count, total = count+1, total.Add(bytes)
				fmt.Fprintf(&lines, "%s bytes  %s to %%%s  %s: %s\n", bytes, c.from, c.to.Name, stepName(step), c.why)
			}
		}
	})
	fmt.Fprintf(&lines, "%d copies, %s bytes\n", count, total)
	return lines.String()
}

// moving is one copy of a step, and the reason for it.
type moving struct {
	from string
	to   *loop.Buffer
	why  string
}

// stepName returns the name of a step in the list, with the model's nodes.
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

// copies returns the copies that a step makes, one for each buffer that it writes; none if it computes something.
func (s *scheduler) copies(step loop.Step) (list []moving) {
	if c, ok := step.(*loop.Copy); ok {
		why := "kernels that read it need its elements in order"
		if c.To.Root().Kind == loop.Output {
			why = "the result has storage of its own, and its source has other readers"
		}
		return []moving{{"%" + c.From.Name, c.To, why}}
	}
	l, ok := step.(*loop.Launch)
	if !ok {
		return nil
	}
	stores := movesOf(l.Kernel)
	args := map[string]*loop.Buffer{}
	for i, p := range l.Kernel.Params {
		args[p.Name] = l.Args[i]
	}
	for i, p := range l.Kernel.Params {
		if p.Access == loop.Read {
			continue
		}
		to := l.Args[i]
		var moves []*loop.Load
		var sources []*loop.Buffer
		var names, reasons []string
		for _, store := range stores {
			move := store.X.(*loop.Load)
			from := args[move.From]
			if store.To != p.Name || from == nil {
				continue
			}
			if moves = append(moves, move); slices.Contains(sources, from) {
				continue
			}
			sources, names = append(sources, from), append(names, "%"+from.Name)
			if why := s.kept[keptKey(from, to)]; why != "" && !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
		}
		if len(sources) == 0 {
			continue
		}
		elements := func(b *loop.Buffer) sym.Expr { return sym.Product(b.Shape...) }
		repeated := len(sources) == 1 && s.dims.LT(elements(sources[0]), elements(to)) == sym.Yes
		why := strings.Join(reasons, "; ")
		if why == "" || repeated {
			why = s.whyCopied(to, moves, len(sources), repeated)
		}
		list = append(list, moving{strings.Join(names, ", "), to, why})
	}
	return list
}

// movesOf returns a kernel's stores if each stores a loaded element; nil if the kernel does anything else.
func movesOf(k *loop.Kernel) []*loop.Store {
	var stores []*loop.Store
	only := true
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		switch stmt := stmt.(type) {
		case *loop.Store:
			_, ok := stmt.X.(*loop.Load)
			only = only && ok
			stores = append(stores, stmt)
		case *loop.For, *loop.Local:
		default:
			only = false
		}
		return only
	})
	if !only {
		return nil
	}
	return stores
}

// whyCopied returns the reason for a kernel that only copies.
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
		return "the copied elements are surrounded by padding"
	case hosts > 0:
		return "a host operator reads it, and needs its elements in order"
	case sources > 1:
		return "its reader needs the pieces as one buffer, and they have other readers or producers"
	case repeated:
		return "its reader needs the repeated elements"
	case products > 0 && u.viewed:
		return "a product reads it in a shape that its source cannot have"
	case products > 0:
		return "a product needs contiguous elements, which are strided in the source"
	case len(u.readers) > 1:
		return fmt.Sprintf("%d kernels read it", len(u.readers))
	case u.viewed:
		return "it is read in another shape, in the order after the copy"
	}
	return "its reader needs another order of loops"
}
