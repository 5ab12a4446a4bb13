package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
)

// PeakWith is what so many calls come to that all find the given values for the dimensions which data decide, as Measurement.Decided has them: the certificate with
// observed values put in. It is at most Peak, which takes what has a bound at its bound. Of a branch it takes what either side uses.
func (m *Memory) PeakWith(calls int, d Dims) (int64, error) {
	p := m.program.compiled.Program
	at := Dims{}
	for _, dim := range p.Dims {
		v, ok := d[dim.Name]
		if !ok {
			return 0, diag.Inputf("dimension %s has no value", dim.Name).AtDim(dim.Name)
		}
		at[dim.Name] = v
	}
	places, err := placesOf(p, at)
	if err != nil {
		return 0, err
	}
	reach := make([]int64, len(p.Storages))
	value := lookup(at)
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Place != program.Carved {
			continue
		}
		bytes, err := t.Bytes().Eval(value)
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
	scratch, err := m.program.executable.ScratchWith(valuesOf(p, at))
	if err != nil {
		return 0, err
	}
	call := scratch * int64(m.Workers)
	for _, bytes := range reach {
		call += bytes
	}
	fixed, err := Size{m.Weights.x.Add(m.Code.x), m.Weights.dims}.At(nil)
	return fixed + int64(calls)*call, err
}

func lookup(d Dims) func(name string) (int64, bool) {
	return func(name string) (int64, bool) { v, ok := d[name]; return v, ok }
}

func valuesOf(p *program.Program, d Dims) []int64 {
	values := make([]int64, len(p.Dims))
	for i, dim := range p.Dims {
		values[i] = d[dim.Name]
	}
	return values
}

// placesOf gives, for each storage, the names that offsets in it are made of: the plan's, with what data decide at its limit, or late storage's own.
func placesOf(p *program.Program, d Dims) ([]func(name string) (int64, bool), error) {
	limits := Dims{}
	for _, dim := range p.Dims {
		limits[dim.Name] = d[dim.Name]
	}
	for _, dim := range p.Dims {
		if dim.Data && !dim.Late() {
			v, err := dim.Limit.Eval(lookup(limits))
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
			ok, err := c.Eval(lookup(limits))
			if err != nil {
				return nil, err
			}
			applies = applies && ok
		}
		if applies {
			plan = p.Plans[i]
		}
	}
	out := make([]func(name string) (int64, bool), len(p.Storages))
	for i, s := range p.Storages {
		own := Dims{}
		lets := plan.Lets
		from := limits
		if s.Late {
			lets, from = s.Lets, d
		}
		for name, v := range from {
			own[name] = v
		}
		for _, l := range lets {
			v, err := l.X.Eval(lookup(own))
			if err != nil {
				return nil, err
			}
			own[l.Name] = v
		}
		out[i] = lookup(own)
	}
	return out, nil
}
