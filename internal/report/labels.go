// Package report describes a compiled program to its user: dimensions by their names, the positions and live ranges of
// buffers, and the accesses of a run.
package report

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// Labels are the public names of the dimensions of a program or a module: the model's names, and names that the model
// does not use for dimensions that the compiler made.
type Labels struct {
	Of    map[sym.Name]string // the label of each dimension
	Names map[string]sym.Name // and the dimension of each label
}

// NewLabels returns the labels of dimensions.
func NewLabels(dims []sym.Name) *Labels {
	l := &Labels{sym.Labels(dims), map[string]sym.Name{}}
	for name, label := range l.Of {
		l.Names[label] = name
	}
	return l
}

// LabelsOf returns the labels of a program's dimensions.
func LabelsOf(p *program.Program) *Labels {
	var names []sym.Name
	for _, d := range p.Dims {
		names = append(names, d.Name)
	}
	return NewLabels(names)
}

// Find returns the dimension with a label, or with the name that texts of programs use.
func (l *Labels) Find(label string) (sym.Name, bool) {
	name, ok := l.Names[label]
	if !ok {
		name, ok = sym.ParseName(label)
		_, known := l.Of[name]
		ok = ok && known
	}
	return name, ok
}

// name returns a dimension's name in the user's formulas.
func (l *Labels) name(name sym.Name) sym.Name {
	if label, ok := l.Of[name]; ok {
		return sym.User(label)
	}
	return name
}

// Show returns an expression with the user's names.
func (l *Labels) Show(x sym.Expr) sym.Expr {
	return x.Subst(func(name sym.Name) (sym.Expr, bool) {
		own := l.name(name)
		return sym.Var(own), own != name
	})
}

// Cond returns a condition with the user's names; a dimension that the compiler made has its label, unquoted.
func (l *Labels) Cond(c sym.Cond) sym.Cond {
	made := map[sym.Name]string{}
	for name, label := range l.Of {
		if name.Made() {
			made[name] = label
		}
	}
	return c.Shown(made)
}

// Dims returns a set of dimensions under the user's names.
func (l *Labels) Dims(d *sym.Dims) *sym.Dims {
	out := d.Empty()
	for _, name := range d.Names() {
		r, _ := d.Get(name)
		out.Set(l.name(name), r)
	}
	return out
}

// Values returns a function that looks up a dimension in the user's binding.
func (l *Labels) Values(d map[string]int64) func(name sym.Name) (int64, bool) {
	return func(name sym.Name) (int64, bool) { v, ok := d[l.Of[name]]; return v, ok }
}

// Bindings are values of a program's dimensions.
type Bindings map[sym.Name]int64

// Lookup returns the value of a dimension, if there is one.
func (b Bindings) Lookup(name sym.Name) (int64, bool) { v, ok := b[name]; return v, ok }

// Bindings returns a user's binding as one of the program's dimensions.
func (l *Labels) Bindings(d map[string]int64) Bindings {
	out := Bindings{}
	for name, label := range l.Of {
		if v, ok := d[label]; ok {
			out[name] = v
		}
	}
	return out
}

// Check returns an error if d has a name that is not a dimension.
func (l *Labels) Check(d map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if _, ok := l.Find(name); ok {
			continue
		}
		fix := "the program has no dimensions"
		if known := slices.Sorted(maps.Keys(l.Names)); len(known) > 0 {
			fix = "its dimensions are " + strings.Join(known, ", ")
		}
		return diag.Inputf("the program has no dimension %q", name).AtDim(name).WithFix("%s", fix)
	}
	return nil
}
