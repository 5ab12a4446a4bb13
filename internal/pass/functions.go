package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// dropFunctions removes the functions that main does not call any more, with their own dimensions, which a run does not
// bind. Conditions on those go too: if a call was expanded, its nodes require the same of the call's dimensions.
func dropFunctions(m *ir.Module) {
	if len(m.Funcs) < 2 {
		return
	}
	kept := map[*ir.Func]bool{}
	var keep func(f *ir.Func)
	var calls func(b *ir.Block)
	keep = func(f *ir.Func) {
		if f != nil && !kept[f] {
			kept[f] = true
			calls(f.Body)
		}
	}
	calls = func(b *ir.Block) {
		for _, n := range b.Nodes {
			if n.Op.Name() == "call" {
				keep(m.Func(n.Attrs.String("function", "")))
			}
			for _, r := range n.Regions {
				calls(r)
			}
		}
	}
	keep(m.Main)
	gone := map[sym.Name]bool{}
	for _, f := range m.Funcs {
		if !kept[f] {
			for name := range f.Formals() {
				gone[name] = true
			}
		}
	}
	for f := range kept {
		for _, p := range f.Body.Params {
			for _, e := range p.Type.Shape {
				for _, name := range e.Vars() {
					delete(gone, name)
				}
			}
		}
	}
	m.Funcs = slices.DeleteFunc(m.Funcs, func(f *ir.Func) bool { return !kept[f] })
	dims := m.Dims.Empty()
	for _, name := range m.Dims.Names() {
		if r, _ := m.Dims.Get(name); !gone[name] {
			dims.Set(name, r)
		}
	}
	m.Dims = dims
	m.Choices = choicesWithout(m.Choices, func(name sym.Name) bool { return gone[name] })
	for _, list := range []*[]ir.Require{&m.Requires, &m.Proved} {
		*list = slices.DeleteFunc(*list, func(r ir.Require) bool {
			return slices.ContainsFunc(slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()), func(name sym.Name) bool {
				return gone[name]
			})
		})
	}
}
