package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// mostTried is how far from a dimension's value one is looked for that mends a condition.
const mostTried = 4096

// names are the dimensions of a condition, sorted.
func (r Require) names() []sym.Name {
	names := slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars())
	slices.SortFunc(names, sym.Name.Compare)
	return slices.Compact(names)
}

// Broken is the error of a condition that does not hold at the values of its dimensions, or cannot be evaluated there.
// It names the values, the tensor and the place that the condition is from, and the nearest value of an input's
// dimension that mends it.
func (p *Program) Broken(r Require, value func(name sym.Name) (int64, bool)) *diag.Error {
	names, words := r.names(), r.Cond.Words()
	var at []string
	for _, name := range names {
		if v, ok := value(name); ok && len(at) < 8 {
			at = append(at, fmt.Sprintf("%s = %d", name.Text(), v))
		}
	}
	with := strings.Join(at, ", ")
	a, fault := r.Cond.A.Eval(value)
	b, err := r.Cond.B.Eval(value)
	if fault == nil {
		fault = err
	}
	var e *diag.Error
	_, plain := r.Cond.A.Name()
	if !plain {
		_, plain = r.Cond.B.Name()
	}
	switch {
	case fault != nil:
		e = diag.Inputf("%s cannot be evaluated with %s: %v (from %s)", words, with, fault, r.From)
	case words != r.Cond.String():
		e = diag.Inputf("%s does not hold: %s (from %s)", words, with, r.From)
	case len(names) == 0 || len(names) == 1 && plain:
		e = diag.Inputf("%s does not hold: %d against %d (from %s)", words, a, b, r.From)
	default:
		e = diag.Inputf("%s does not hold: %d against %d, with %s (from %s)", words, a, b, with, r.From)
	}
	e.Tensor = r.Tensor
	if len(names) == 1 {
		e.Dim = names[0].Text()
	}
	if fix := p.mending(r, names, value); fix != "" {
		e = e.WithFix("%s", fix)
	}
	return e
}

// mending names the value nearest to its own of a dimension at which, the others being as they are, a condition holds:
// of the first of the dimensions that has one. It is empty if there is none nearby, or if data decide a dimension.
func (p *Program) mending(r Require, names []sym.Name, value func(name sym.Name) (int64, bool)) string {
	for _, name := range names {
		if i := p.dimAt(name); i < 0 || p.Dims[i].Data {
			return ""
		}
	}
	for _, name := range names {
		d := p.Dims[p.dimAt(name)]
		now, _ := value(name)
		holds := func(v int64) bool {
			if v < d.Range.Min || v > d.Range.Max {
				return false
			}
			ok, err := r.Cond.Eval(func(other sym.Name) (int64, bool) {
				if other == name {
					return v, true
				}
				return value(other)
			})
			return err == nil && ok
		}
		for step := int64(1); step <= mostTried; step++ {
			for _, v := range []int64{now - step, now + step} {
				if holds(v) {
					if len(names) == 1 {
						return fmt.Sprintf("the nearest that does is %s = %d", name, v)
					}
					return fmt.Sprintf("with the others as they are, %s = %d does", name, v)
				}
			}
		}
	}
	return ""
}

// dimAt is the index of a dimension, −1 if there is none of the name.
func (p *Program) dimAt(name sym.Name) int {
	return slices.IndexFunc(p.Dims, func(d Dim) bool { return d.Name == name })
}

// Outside is the error of an input's dimension whose value its range leaves out: the condition that has narrowed the
// range, if there is one that breaks.
func (p *Program) Outside(dim int, v int64) *diag.Error {
	d := p.Dims[dim]
	for _, r := range p.Requires {
		at := func(name sym.Name) (int64, bool) { return v, name == d.Name }
		if names := r.names(); len(names) == 1 && names[0] == d.Name {
			if ok, err := r.Cond.Eval(at); err != nil || !ok {
				return p.Broken(r, at)
			}
		}
	}
	return diag.Inputf("it is %d, outside %s", v, d.Range).AtDim(d.Name.Text())
}

// Admits returns why a run with these values of the inputs' dimensions would be refused at its entry, nil if it would
// not. Values may be missing: what is about them is left out.
func (p *Program) Admits(value func(name sym.Name) (int64, bool)) error {
	for i, d := range p.Dims {
		if v, given := value(d.Name); given && !d.Data && (v < d.Range.Min || v > d.Range.Max) {
			return p.Outside(i, v)
		}
	}
	for _, r := range p.Requires {
		known := true
		for _, name := range r.names() {
			_, given := value(name)
			i := p.dimAt(name)
			known = known && given && i >= 0 && !p.Dims[i].Data
		}
		if !known {
			continue
		}
		if ok, err := r.Cond.Eval(value); err != nil || !ok {
			return p.Broken(r, value)
		}
	}
	return nil
}
