package report

import (
	"slices"
	"strings"

	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// WalkBodies visits a program's steps. ask returns the executed bodies of a branch or loop as bits: 1 for the first
// body, 2 for the second body of a branch or the condition of a loop. It is called for all of them, also in bodies that
// were not executed; visit, if not nil, is called for the executed steps.
func WalkBodies(steps []program.Step, ask func(s program.Step) uint8, visit func(s program.Step, did uint8)) {
	for _, step := range steps {
		var did uint8
		switch step.(type) {
		case *program.If, *program.Loop:
			did = ask(step)
		}
		if visit != nil {
			visit(step, did)
		}
		for i, body := range program.Bodies(step) {
			if did&(1<<i) != 0 {
				WalkBodies(body, ask, visit)
			} else {
				WalkBodies(body, ask, nil)
			}
		}
	}
}

// operands visits the tensors that an executed step itself reads or writes. A loop uses its condition and its index
// only if did says so.
func operands(step program.Step, did uint8, visit func(tensor int)) {
	l, ok := step.(*program.Loop)
	if !ok {
		program.Operands(step, visit)
		return
	}
	used := program.Loop{Trip: l.Trip, Cond: -1, Index: -1}
	if did&2 != 0 {
		used.Cond = l.Cond
	}
	if did&1 != 0 {
		used.Index = l.Index
	}
	program.Operands(&used, visit)
}

// offsetNames returns, for each storage, the values of the names in its offsets: from the plan, with data-dependent
// sizes at their bounds, or from the plan of the late storage.
func offsetNames(p *program.Program, d Bindings) ([]func(name sym.Name) (int64, bool), error) {
	limits := Bindings{}
	for _, dim := range p.Dims {
		limits[dim.Name] = d[dim.Name]
	}
	for _, dim := range p.Dims {
		if dim.Data && !dim.Late() {
			v, err := dim.Limit.Eval(limits.Lookup)
			if err != nil {
				return nil, err
			}
			limits[dim.Name] = min(v, dim.Range.Max)
		}
	}
	plan := p.Plans[len(p.Plans)-1]
	for i := len(p.Plans) - 1; i >= 0; i-- {
		applies := true
		for _, c := range p.Plans[i].When {
			ok, err := c.Eval(limits.Lookup)
			if err != nil {
				return nil, err
			}
			applies = applies && ok
		}
		if applies {
			plan = p.Plans[i]
		}
	}
	out := make([]func(name sym.Name) (int64, bool), len(p.Storages))
	for i, s := range p.Storages {
		own := Bindings{}
		lets := plan.Lets
		from := limits
		if s.Late {
			lets, from = s.Lets, d
		}
		for name, v := range from {
			own[name] = v
		}
		for _, l := range lets {
			v, err := l.X.Eval(own.Lookup)
			if err != nil {
				return nil, err
			}
			own[l.Name] = v
		}
		out[i] = own.Lookup
	}
	return out, nil
}

// Once removes duplicates from a list of nodes.
func Once(nodes string) string {
	var list []string
	for _, n := range strings.Split(nodes, ", ") {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return strings.Join(list, ", ")
}

// Use is the use of a program by a run.
type Use struct {
	Tensors  map[int]bool             // tensors that a step read or wrote; for a view, its base
	Launched map[*program.Launch]bool // the executed launches
	Reach    []int64                  // by storage: the end of the last used tensor, in bytes
}

// UseOf returns a run's use of a program, for values of its dimensions. bodies has the executed bodies of each branch
// and loop, in the order in which WalkBodies asks; joint has values that dimensions had together.
func UseOf(p *program.Program, at Bindings, bodies []uint8, joint []executor.Joint) (*Use, error) {
	names, err := offsetNames(p, at)
	if err != nil {
		return nil, err
	}
	u := &Use{Tensors: map[int]bool{}, Launched: map[*program.Launch]bool{}, Reach: make([]int64, len(p.Storages))}
	WalkBodies(p.Steps, func(program.Step) (ran uint8) {
		if len(bodies) > 0 {
			ran, bodies = bodies[0], bodies[1:]
		}
		return ran
	}, func(s program.Step, did uint8) {
		if l, ok := s.(*program.Launch); ok {
			u.Launched[l] = true
		}
		operands(s, did, func(t int) { u.Tensors[p.Root(t)] = true })
	})
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Class != program.Carved || !u.Tensors[i] {
			continue
		}
		bytes, _, err := largest(t, at, joint)
		if err != nil {
			return nil, err
		}
		offset, err := t.Offset.Eval(names[t.Of])
		if err != nil {
			return nil, err
		}
		if bytes > 0 {
			u.Reach[t.Of] = max(u.Reach[t.Of], offset+bytes)
		}
	}
	return u, nil
}
