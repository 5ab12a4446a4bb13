package executor

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// layout holds a program's formulas, compiled for repeated evaluation over one vector: the dimensions, then the lets.
type layout struct {
	program  *program.Program
	names    []sym.Name
	plans    []plan
	limits   []*sym.Code // by dimension; nil for those of the inputs
	requires []require
	after    [][]require // by dimension: the conditions checked when it is bound
	joint    []joint     // the choices among them, without values
	sizes    []*sym.Code // by storage
	late     []lateLets  // by storage
	alone    []int       // by storage: the only tensor of a late storage, or −1
	tensors  []location
	launches map[*program.Launch][]int
	unknown  map[*program.Launch]bool // the launches with a dimension without a limit
	asks     map[*program.Launch]bool // the launches with a data dimension, which check whether there is enough scratch
	binds    map[*program.Bind]*sym.Code
	decides  bool  // some dimension depends on data
	last     []int // by input: the last step that reads it
	updated  []int // by input: the first step that writes its new value, if it is a state
	states   bool  // some input is a state

	results   []int  // the outputs' storages
	inResults []bool // by tensor: it lies in one of results
	moving    []int  // the tensors in results whose location does not depend on data
	own       []int  // by output: the storage that it has alone, or −1
	home      []int  // by tensor: the element of results that it lies in; −1 if none
	begins    []int  // by storage: the first of the program's own steps that uses it, if it is one of results
}

// lateLets are the lets of late storage.
type lateLets struct {
	lets []*sym.Code
	slot int // index of the first, in values
}

type plan struct {
	when  []require
	lets  []*sym.Code
	slots []int // of the lets, in values: plans may define the names in different orders
}

type require struct {
	a, b    *sym.Code
	cond    program.Require
	decided []int // its data dimensions
}

// location is a tensor's compiled shape, size and offset. It is dynamic if any of these depend on data.
type location struct {
	shape         []*sym.Code
	bytes, offset *sym.Code
	strides       []*sym.Code // those that are not constants
	dynamic       bool
}

// newLayout compiles a program's formulas; an error if one cannot be compiled.
func newLayout(p *program.Program) (*layout, error) {
	l := &layout{program: p, launches: map[*program.Launch][]int{}, unknown: map[*program.Launch]bool{},
		asks: map[*program.Launch]bool{}, binds: map[*program.Bind]*sym.Code{}, alone: p.Alone(), last: lastReads(p),
		updated: firstWrites(p)}
	for _, d := range p.Dims {
		l.names = append(l.names, d.Name)
	}
	for _, let := range p.Plans[0].Lets {
		l.names = append(l.names, let.Name)
	}
	for i := range p.Storages {
		l.late = append(l.late, lateLets{slot: len(l.names)})
		for _, let := range p.Storages[i].Lets {
			l.names = append(l.names, let.Name)
		}
	}
	slots := map[sym.Name]int{}
	for i, name := range l.names {
		slots[name] = i
	}
	c := &compilation{names: sym.NewNames(l.names)}
	for _, d := range p.Dims {
		var code *sym.Code
		if d.Data {
			code, l.decides = c.compile(d.Limit), true
		}
		l.limits = append(l.limits, code)
	}
	l.sortRequires(c)
	for _, from := range p.Plans {
		var to plan
		for _, cond := range from.When {
			to.when = append(to.when, c.require(program.Require{Cond: cond}))
		}
		for _, let := range from.Lets {
			to.lets, to.slots = append(to.lets, c.compile(let.X)), append(to.slots, slots[let.Name])
		}
		l.plans = append(l.plans, to)
	}
	for i, s := range p.Storages {
		l.sizes = append(l.sizes, c.compile(s.Size))
		for _, let := range s.Lets {
			l.late[i].lets = append(l.late[i].lets, c.compile(let.X))
		}
	}
	l.states = slices.ContainsFunc(l.updated, func(at int) bool { return at >= 0 })
	data := map[sym.Name]bool{}
	for _, d := range p.Dims {
		data[d.Name] = d.Data
	}
	for _, t := range p.Tensors {
		l.tensors = append(l.tensors, c.locate(l, t, data))
	}
	l.steps(c, p.Steps)
	l.outputs()
	return l, c.err
}

// compilation compiles formulas and keeps the first error.
type compilation struct {
	names *sym.Names
	err   error
}

// compile compiles a formula.
func (c *compilation) compile(e sym.Expr) *sym.Code {
	code, err := c.names.Compile(e)
	if err != nil && c.err == nil {
		c.err = err
	}
	return code
}

// require compiles a condition.
func (c *compilation) require(r program.Require) require {
	return require{a: c.compile(r.Cond.A), b: c.compile(r.Cond.B), cond: r}
}

// locate compiles a tensor's shape, size, strides and offset. data holds the data dimensions.
func (c *compilation) locate(l *layout, t program.Tensor, data map[sym.Name]bool) location {
	p := location{}
	depends := func(e sym.Expr) {
		for _, name := range e.Vars() {
			p.dynamic = p.dynamic || data[name]
		}
	}
	for _, e := range t.Shape {
		p.shape = append(p.shape, c.compile(e))
		depends(e)
	}
	p.bytes = c.compile(t.Bytes())
	for _, e := range t.Strides {
		if v, ok := e.Const(); !ok || v < 0 {
			p.strides = append(p.strides, c.compile(e))
		}
	}
	switch t.Class {
	case program.Carved:
		p.offset = c.compile(t.Offset)
		p.dynamic = p.dynamic || l.program.Storages[t.Of].Late
	case program.View:
		p.offset = c.compile(t.Offset)
		depends(t.Offset)
		p.dynamic = p.dynamic || l.tensors[t.Of].dynamic || l.program.Tensors[t.Of].Class == program.Argument
	case program.Argument:
		// Its address is known when it is lent.
	}
	return p
}

// steps records the launches' dimensions and compiles the values of Bind steps.
func (l *layout) steps(c *compilation, steps []program.Step) {
	program.Walk(steps, func(step program.Step) {
		switch s := step.(type) {
		case *program.Launch:
			l.launches[s] = s.Dims
			for _, d := range s.Dims {
				l.unknown[s] = l.unknown[s] || l.program.AwaitsData(d)
				l.asks[s] = l.asks[s] || l.program.Dims[d].Data
			}
		case *program.Bind:
			if s.From < 0 {
				l.binds[s] = c.compile(s.Value)
			}
		}
	})
}

// evaluate fills the vector of values at entry: the inputs' dimensions as given, data dimensions at their limits, and
// the lets of the plan that applies. A condition that does not hold is an input error.
func (l *layout) evaluate(values, dims []int64) error {
	copy(values, dims)
	for i, d := range l.program.Dims {
		if l.limits[i] == nil && (values[i] < d.Range.Min || values[i] > d.Range.Max) {
			return l.program.Outside(i, values[i])
		}
	}
	for _, r := range l.requires {
		if ok, err := r.holds(values); err != nil || !ok {
			return l.refused(&r, values)
		}
	}
	for i, code := range l.limits {
		if code != nil && !l.program.AwaitsData(i) {
			v, err := code.Eval(values)
			if err != nil {
				return err
			}
			values[i] = v
		}
	}
	for _, p := range l.plans {
		ok, err := p.applies(values)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for i, code := range p.lets {
			v, err := code.Eval(values)
			if err != nil {
				return err
			}
			values[p.slots[i]] = v
		}
		return nil
	}
	panic(diag.Internalf("no plan applies to %v", dims))
}

// applies reports whether all conditions of a plan hold.
func (p *plan) applies(values []int64) (bool, error) {
	for _, r := range p.when {
		if ok, err := r.holds(values); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// holds evaluates a condition.
func (r *require) holds(values []int64) (bool, error) {
	a, err := r.a.Eval(values)
	if err != nil {
		return false, err
	}
	b, err := r.b.Eval(values)
	if err != nil {
		return false, err
	}
	return r.cond.Cond.Rel.Holds(a, b), nil
}

// refused returns the error of a condition that does not hold at the values.
func (l *layout) refused(r *require, values []int64) error {
	return l.program.Broken(r.cond, func(name sym.Name) (int64, bool) {
		for i, d := range l.program.Dims {
			if d.Name == name {
				return values[i], true
			}
		}
		return 0, false
	})
}
