// Package report derives from a compiled program what its user is told: dimensions by their names, where buffers lie
// and when, and what a run really reached of them.
package report

import (
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Labels are what callers call the dimensions of a program or a module: those of the model by the model's names, and
// those that the compiler made by names that the model does not have.
type Labels struct {
	Of    map[sym.Name]string // the label of each dimension
	Names map[string]sym.Name // and the dimension of each label
}

// NewLabels are the labels of these dimensions.
func NewLabels(dims []sym.Name) *Labels {
	l := &Labels{sym.Labels(dims), map[string]sym.Name{}}
	for name, label := range l.Of {
		l.Names[label] = name
	}
	return l
}

// LabelsOf are the labels of a program's dimensions.
func LabelsOf(p *program.Program) *Labels {
	var names []sym.Name
	for _, d := range p.Dims {
		names = append(names, d.Name)
	}
	return NewLabels(names)
}

// Find is the dimension that a caller calls so, or that texts write so.
func (l *Labels) Find(label string) (sym.Name, bool) {
	name, ok := l.Names[label]
	if !ok {
		name, ok = sym.ParseName(label)
		_, known := l.Of[name]
		ok = ok && known
	}
	return name, ok
}

// name is the dimension as callers' formulas have it.
func (l *Labels) name(name sym.Name) sym.Name {
	if label, ok := l.Of[name]; ok {
		return sym.User(label)
	}
	return name
}

// Show is an expression as callers see it.
func (l *Labels) Show(x sym.Expr) sym.Expr {
	return x.Subst(func(name sym.Name) (sym.Expr, bool) {
		own := l.name(name)
		return sym.Var(own), own != name
	})
}

// Cond is a condition as callers see it: what the compiler made is written by its label, as it is.
func (l *Labels) Cond(c sym.Cond) sym.Cond {
	made := map[sym.Name]string{}
	for name, label := range l.Of {
		if name.Made() {
			made[name] = label
		}
	}
	return c.Shown(made)
}

// Dims is a set of dimensions as callers' formulas have them.
func (l *Labels) Dims(d *sym.Dims) *sym.Dims {
	out := d.Empty()
	for _, name := range d.Names() {
		r, _ := d.Get(name)
		out.Set(l.name(name), r)
	}
	return out
}

// Values gives the dimensions of an expression the values that a caller has for them.
func (l *Labels) Values(d map[string]int64) func(name sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) { v, ok := d[l.Of[name]]; return v, ok }
}

// Bindings are values of dimensions inside the program.
type Bindings map[sym.Name]int64

func (b Bindings) Lookup(name sym.Name) (int64, bool) { v, ok := b[name]; return v, ok }

// Bindings are the values that a caller has.
func (l *Labels) Bindings(d map[string]int64) Bindings {
	out := Bindings{}
	for name, label := range l.Of {
		if v, ok := d[label]; ok {
			out[name] = v
		}
	}
	return out
}
