package program

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// mostTried is the largest distance from a dimension's value at which mending looks for a value that meets a condition.
const mostTried = 4096

// mostWords is the number of letters up to which an error has a condition as it is. Of a longer one, the error has what
// sym.Cond.At returns.
const mostWords = 60

// Broken returns the error of a condition that does not hold at the dimensions' values, or cannot be evaluated there.
// It names the values, the tensor, the condition's origin, and the nearest value of an input's dimension that meets it.
func (p *Program) Broken(r Require, value func(name sym.Name) (int64, bool)) *diag.Error {
	labels := p.Labels()
	names, cond := r.Cond.Vars(), r.Cond
	if at, ok := cond.At(value); ok && len(cond.Shown(labels).Words()) > mostWords {
		cond = at
	}
	shown := cond.Shown(labels)
	words := shown.Words()
	with := sym.Bindings(names, labels, p.origins(), sym.Numbers(value))
	a, fault := cond.A.Eval(value)
	b, err := cond.B.Eval(value)
	if fault == nil {
		fault = err
	}
	var e *diag.Error
	_, plain := cond.A.Name()
	if !plain {
		_, plain = cond.B.Name()
	}
	switch {
	case fault != nil:
		e = diag.Inputf("%s cannot be evaluated with %s: %v", words, with, fault)
	case words != shown.String():
		e = diag.Inputf("%s does not hold: %s", words, with)
	case len(names) == 0:
		e = diag.Inputf("%s does not hold: %d against %d", words, a, b)
	case len(names) == 1 && plain:
		e = diag.Inputf("%s does not hold: %s", words, with)
	default:
		e = diag.Inputf("%s does not hold: %d against %d, with %s", words, a, b, with)
	}
	e = e.From(r.From)
	e.Tensor = r.Tensor
	if len(names) == 1 {
		e.Dim = labels[names[0]]
	}
	if fix := p.mending(r, names, labels, value); fix != "" {
		e = e.WithFix("%s", fix)
	}
	return e
}

// mending returns advice: the value nearest to its present one at which one dimension, the others unchanged, meets a
// condition. It tries the dimensions in order. It returns "" if no value within mostTried does, or if data decide a
// dimension.
func (p *Program) mending(r Require, names []sym.Name, labels map[sym.Name]string,
	value func(name sym.Name) (int64, bool)) string {
	for _, name := range names {
		if i := p.dimAt(name); i < 0 || p.Dims[i].Data {
			return ""
		}
	}
	for _, name := range names {
		d := p.Dims[p.dimAt(name)]
		now, _ := value(name)
		holds := func(v int64) bool {
			if v < max(d.Range.Min, 1) || v > d.Range.Max { // a size of 0 leaves nothing to compute
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
						return fmt.Sprintf("the nearest that does is %s = %d", sym.Var(name).Shown(labels), v)
					}
					return fmt.Sprintf("with the others as they are, %s = %d does", sym.Var(name).Shown(labels), v)
				}
			}
		}
	}
	return ""
}

// dimAt returns the index of a dimension; −1 if there is none of the name.
func (p *Program) dimAt(name sym.Name) int {
	return slices.IndexFunc(p.Dims, func(d Dim) bool { return d.Name == name })
}

// Labels returns the dimensions' names for messages.
func (p *Program) Labels() map[sym.Name]string {
	names := make([]sym.Name, len(p.Dims))
	for i, d := range p.Dims {
		names[i] = d.Name
	}
	return sym.Labels(names)
}

// origins returns, by dimension, the words for its origin; see Dim.Origin.
func (p *Program) origins() map[sym.Name]string {
	of := map[sym.Name]string{}
	for _, d := range p.Dims {
		of[d.Name] = d.Origin
	}
	return of
}

// Beyond returns the error of a dimension whose value is outside a range, with the dimension's origin.
func (p *Program) Beyond(dim int, v int64, r sym.Range) *diag.Error {
	d := p.Dims[dim]
	return diag.Inputf("it is %d, outside %s", v, r).AtDim(p.Labels()[d.Name]).Found(d.Origin)
}

// Outside returns the error of an input's dimension whose value is outside its range: that of the condition which
// narrowed the range, if one breaks, else Beyond.
func (p *Program) Outside(dim int, v int64) *diag.Error {
	d := p.Dims[dim]
	for _, r := range p.Requires {
		at := func(name sym.Name) (int64, bool) { return v, name == d.Name }
		if names := r.Cond.Vars(); len(names) == 1 && names[0] == d.Name {
			if ok, err := r.Cond.Eval(at); err != nil || !ok {
				return p.Broken(r, at)
			}
		}
	}
	return p.Beyond(dim, v, d.Range)
}

// Oversize returns the error of a tensor whose size in bytes overflows 64 bits at the dimensions' values; nil if there
// is none. It leaves out tensors with a dimension without a value.
func (p *Program) Oversize(value func(name sym.Name) (int64, bool)) *diag.Error {
	for i := range p.Tensors {
		t := &p.Tensors[i]
		bytes := t.Bytes()
		if _, err := bytes.Eval(value); !errors.Is(err, sym.ErrOverflow) {
			continue
		}
		labels := p.Labels()
		with := sym.Bindings(bytes.Vars(), labels, p.origins(), sym.Numbers(value))
		return diag.Inputf("%s bytes are more than 64 bits count, with %s", bytes.Shown(labels), with).
			AtTensor(cmp.Or(t.Source, t.Name)).WithFix("give the dimensions smaller values")
	}
	return nil
}

// Admits returns the error with which a run at these values of the inputs' dimensions would be refused at entry; nil if
// it would start. It leaves out conditions on dimensions without a value.
func (p *Program) Admits(value func(name sym.Name) (int64, bool)) error {
	for i, d := range p.Dims {
		if v, given := value(d.Name); given && !d.Data && (v < d.Range.Min || v > d.Range.Max) {
			return p.Outside(i, v)
		}
	}
	for _, r := range p.Requires {
		known := true
		for _, name := range r.Cond.Vars() {
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
	if e := p.Oversize(value); e != nil {
		return e
	}
	return nil
}
