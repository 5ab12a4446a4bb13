package weir

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// PeakWith is what so many calls come to that all do what a measured run did: the certificate with the observed values put in. d has the values of the inputs' dimensions.
// What has a bound is where it was planned, at its bound, and as large as it was; a branch that was not taken uses nothing, no weights either. It is at most Peak.
func (m *Memory) PeakWith(calls int, d Dims, seen Measurement) (int64, error) {
	p := m.program.compiled.Program
	at, values := bindings{}, make([]int64, len(p.Dims))
	for i, dim := range p.Dims {
		label := m.program.label(i)
		v, ok := d[label]
		if dim.Data {
			v, ok = seen.Decided[label]
		}
		if !ok {
			return 0, diag.Inputf("dimension %s has no value", label).AtDim(label)
		}
		at[dim.Name], values[i] = v, v
	}
	places, err := placesOf(p, at)
	if err != nil {
		return 0, err
	}
	used, launched := map[int]bool{}, map[*program.Launch]bool{}
	bodies := seen.bodies
	walkBodies(p.Steps, func(program.Step) (ran uint8) {
		if len(bodies) > 0 {
			ran, bodies = bodies[0], bodies[1:]
		}
		return ran
	}, func(s program.Step, did uint8) {
		if l, ok := s.(*program.Launch); ok {
			launched[l] = true
		}
		for _, t := range operands(s, did) {
			for t >= 0 && p.Tensors[t].Place == program.Part {
				t = p.Tensors[t].Of
			}
			used[t] = true
		}
	})
	reach := make([]int64, len(p.Storages))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Place != program.Carved || !used[i] {
			continue
		}
		bytes, err := t.Bytes().Eval(at.lookup)
		if err != nil {
			return 0, err
		}
		offset, err := t.Offset.Eval(places[t.Of])
		if err != nil {
			return 0, err
		}
		if bytes > 0 {
			reach[t.Of] = max(reach[t.Of], offset+bytes)
		}
	}
	x, err := m.program.enter()
	if err != nil {
		return 0, err
	}
	defer m.program.engine.Leave()
	scratch, err := x.ScratchOf(values, func(l *program.Launch) bool { return launched[l] })
	if err != nil {
		return 0, err
	}
	call := scratch * int64(m.Workers)
	for i, bytes := range reach {
		if p.Storages[i].Kind != program.Spill && p.Storages[i].Device == "" && !m.elsewhere[i] {
			call += bytes
		}
	}
	fixed, err := m.Code.At(nil)
	fixed += m.program.ownHeld()
	for _, w := range p.Weights {
		if used[w.Tensor] && !w.Paged && w.Device == "" {
			fixed += int64(len(w.Data))
		}
	}
	return fixed + int64(calls)*call, err
}

// walkBodies visits a program's steps, and asks of each branch and loop what was done of it: its first body 1, a branch's second body or a loop's condition 2. It asks about
// all of them, also about those within a body that was not run; visit, where not nil, is called with the steps that were.
func walkBodies(steps []program.Step, ask func(s program.Step) uint8, visit func(s program.Step, did uint8)) {
	into := func(body []program.Step, ran bool) {
		if ran {
			walkBodies(body, ask, visit)
		} else {
			walkBodies(body, ask, nil)
		}
	}
	for _, step := range steps {
		var did uint8
		branch, isBranch := step.(*program.If)
		loop, isLoop := step.(*program.Loop)
		if isBranch || isLoop {
			did = ask(step)
		}
		if visit != nil {
			visit(step, did)
		}
		switch {
		case isBranch:
			into(branch.Then, did&1 != 0)
			into(branch.Else, did&2 != 0)
		case isLoop:
			into(loop.Body, did&1 != 0)
		}
	}
}

// operands are the tensors that a step itself reads or writes; −1 is none.
func operands(step program.Step, did uint8) []int {
	switch s := step.(type) {
	case *program.Launch:
		return s.Args
	case *program.Host:
		return slices.Concat(s.In, s.Out)
	case *program.Copy:
		return []int{s.To, s.From, s.Pick.Of()}
	case *program.Bind:
		return []int{s.From}
	case *program.If:
		return []int{s.Cond}
	case *program.Loop:
		list := []int{s.Trip}
		if did&2 != 0 {
			list = append(list, s.Cond)
		}
		if did&1 != 0 {
			list = append(list, s.Index)
		}
		return list
	}
	return nil
}

// placesOf gives, for each storage, the names that offsets in it are made of: the plan's, with what data decide at its limit, or late storage's own.
func placesOf(p *program.Program, d bindings) ([]func(name sym.Name) (int64, bool), error) {
	limits := bindings{}
	for _, dim := range p.Dims {
		limits[dim.Name] = d[dim.Name]
	}
	for _, dim := range p.Dims {
		if dim.Data && !dim.Late() {
			v, err := dim.Limit.Eval(limits.lookup)
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
			ok, err := c.Eval(limits.lookup)
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
		own := bindings{}
		lets := plan.Lets
		from := limits
		if s.Late {
			lets, from = s.Lets, d
		}
		for name, v := range from {
			own[name] = v
		}
		for _, l := range lets {
			v, err := l.X.Eval(own.lookup)
			if err != nil {
				return nil, err
			}
			own[l.Name] = v
		}
		out[i] = own.lookup
	}
	return out, nil
}
