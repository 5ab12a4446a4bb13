package executor

import (
	"slices"

	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// A condition on the inputs' dimensions is checked at entry. A condition with data dimensions is checked when the last
// of them has been bound, before anything is computed with it.

// sortRequires groups the program's conditions by the dimension after whose binding they are checked; those on the
// inputs' dimensions are checked at entry.
func (l *layout) sortRequires(c *compilation) {
	order := map[int]int{}
	l.bound(l.program.Steps, order)
	index, limited := map[sym.Name]int{}, map[sym.Name]bool{}
	for i, d := range l.program.Dims {
		if d.Data {
			index[d.Name], limited[d.Name] = i, !d.Late()
		}
	}
	data := func(name sym.Name) bool { return limited[name] }
	l.after = make([][]require, len(l.program.Dims))
	for _, r := range l.program.Requires {
		last, decided := -1, []int(nil)
		for _, name := range slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()) {
			d, ok := index[name]
			if !ok {
				continue
			}
			decided = append(decided, d)
			if last < 0 || order[d] > order[last] {
				last = d
			}
		}
		if last < 0 {
			l.requires = append(l.requires, c.require(r))
		} else {
			waits := c.require(r)
			waits.decided = decided
			l.after[last] = append(l.after[last], waits)
			if choice, ok := sym.ChoiceOf(r.Cond, data); ok {
				j := joint{Joint: Joint{Names: choice.Names}, last: last}
				for _, name := range choice.Names {
					j.dims = append(j.dims, index[name])
				}
				l.joint = append(l.joint, j)
			}
		}
	}
}

// relies checks the conditions that a kernel's proofs may use: those whose data dimensions are all in dims. A compiled
// program binds all of them before it launches, and they are checked there; another program might bind only some.
func (c *Call) relies(dims []int) error {
	for _, d := range dims {
		for i := range c.x.layout.after[d] {
			r := &c.x.layout.after[d][i]
			if !r.within(dims) {
				continue
			}
			if ok, err := r.holds(c.values); err != nil || !ok {
				return c.x.layout.refused(r, c.values)
			}
		}
	}
	return nil
}

// within reports whether all of a condition's data dimensions are in dims.
func (r *require) within(dims []int) bool {
	return !slices.ContainsFunc(r.decided, func(d int) bool { return !slices.Contains(dims, d) })
}

// bound numbers the dimensions that steps bind, by the last step that binds each.
func (l *layout) bound(steps []program.Step, order map[int]int) {
	number := 0
	mark := func(dim int) { number++; order[dim] = number }
	var walk func(steps []program.Step)
	walk = func(steps []program.Step) {
		for _, step := range steps {
			for _, body := range program.Bodies(step) {
				walk(body)
			}
			switch s := step.(type) {
			case *program.Bind:
				mark(s.Dim)
			case *program.Host:
				for _, t := range s.Out {
					for _, e := range l.program.Tensors[t].Shape {
						for i, d := range l.program.Dims {
							if name, ok := e.Name(); ok && d.Data && d.Name == name {
								mark(i)
							}
						}
					}
				}
			case *program.Loop:
				if s.Count >= 0 {
					mark(s.Count)
				}
			}
		}
	}
	walk(steps)
}

// decided checks the conditions that waited for a dimension's value.
func (c *Call) decided(dim int) error {
	if c.watch != nil {
		if v := c.values[dim]; !c.watch.has[dim] || v > c.watch.decided[dim] {
			c.watch.decided[dim], c.watch.has[dim] = v, true
		}
		c.watch.together(c.values, dim)
	}
	for i := range c.x.layout.after[dim] {
		r := &c.x.layout.after[dim][i]
		if ok, err := r.holds(c.values); err != nil || !ok {
			return c.x.layout.refused(r, c.values)
		}
	}
	return nil
}
