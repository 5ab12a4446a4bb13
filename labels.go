package weir

import (
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// labels are what callers call the dimensions of a program or a module: those of the model by the model's names, and those that the compiler made by names that the
// model does not have.
type labels struct {
	of    map[sym.Name]string
	names map[string]sym.Name
}

func newLabels(dims []sym.Name) *labels {
	l := &labels{sym.Labels(dims), map[string]sym.Name{}}
	for name, label := range l.of {
		l.names[label] = name
	}
	return l
}

// labelsOf are the labels of a program's dimensions.
func labelsOf(p *program.Program) *labels {
	var names []sym.Name
	for _, d := range p.Dims {
		names = append(names, d.Name)
	}
	return newLabels(names)
}

// find is the dimension that a caller calls so, or that texts write so.
func (l *labels) find(label string) (sym.Name, bool) {
	name, ok := l.names[label]
	if !ok {
		name, ok = sym.ParseName(label)
		_, known := l.of[name]
		ok = ok && known
	}
	return name, ok
}

// name is the dimension as callers' formulas have it.
func (l *labels) name(name sym.Name) sym.Name {
	if label, ok := l.of[name]; ok {
		return sym.User(label)
	}
	return name
}

// show is an expression as callers see it.
func (l *labels) show(x sym.Expr) sym.Expr {
	return x.Subst(func(name sym.Name) (sym.Expr, bool) {
		own := l.name(name)
		return sym.Var(own), own != name
	})
}

// cond is a condition as callers see it: what the compiler made is written by its label, as it is.
func (l *labels) cond(c sym.Cond) sym.Cond {
	made := map[sym.Name]string{}
	for name, label := range l.of {
		if name.Made() {
			made[name] = label
		}
	}
	return c.Shown(made)
}

// dims is a set of dimensions as callers' formulas have them.
func (l *labels) dims(d *sym.Dims) *sym.Dims {
	out := d.Empty()
	for _, name := range d.Names() {
		r, _ := d.Get(name)
		out.Set(l.name(name), r)
	}
	return out
}

// values gives the dimensions of an expression the values that a caller has for them.
func (l *labels) values(d Dims) func(name sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) { v, ok := d[l.of[name]]; return v, ok }
}

// bindings are values of dimensions inside the program.
type bindings map[sym.Name]int64

func (b bindings) lookup(name sym.Name) (int64, bool) { v, ok := b[name]; return v, ok }

// bindings are the values that a caller has.
func (l *labels) bindings(d Dims) bindings {
	out := bindings{}
	for name, label := range l.of {
		if v, ok := d[label]; ok {
			out[name] = v
		}
	}
	return out
}

// label is what callers call a dimension of the program.
func (p *Program) label(dim int) string { return p.labels.of[p.compiled.Program.Dims[dim].Name] }
