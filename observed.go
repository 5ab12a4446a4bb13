package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
)

// PeakWith is what so many calls come to that all do what a measured run did: the certificate with the observed values
// put in. d has the values of the inputs' dimensions. What has a bound is where it was planned, at its bound, and as
// large as it was; a branch that was not taken uses nothing, no weights either. It is at most Peak.
func (m *Memory) PeakWith(calls int, d Dims, seen Measurement) (int64, error) {
	p := m.program.compiled.Program
	at, values := report.Bindings{}, make([]int64, len(p.Dims))
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
	u, err := report.UseOf(p, at, seen.bodies)
	if err != nil {
		return 0, err
	}
	x, err := m.program.enter()
	if err != nil {
		return 0, err
	}
	defer m.program.engine.Leave()
	scratch, err := x.ScratchOf(values, func(l *program.Launch) bool { return u.Launched[l] })
	if err != nil {
		return 0, err
	}
	call := scratch * int64(m.Workers)
	for i, bytes := range u.Reach {
		if p.Storages[i].Kind != program.Spill && p.Storages[i].Device == "" && !m.elsewhere[i] {
			call += bytes
		}
	}
	fixed, err := m.Code.At(nil)
	fixed += m.program.ownHeld()
	for _, w := range p.Weights {
		if u.Tensors[w.Tensor] && !w.Paged && w.Device == "" {
			fixed += int64(len(w.Data))
		}
	}
	return fixed + int64(calls)*call, err
}
