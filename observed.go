package weir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
)

// PeakWith returns the bytes of a number of calls that all do the same as a measured run: the certificate with the
// observed sizes. d has the values of the inputs' dimensions. A bounded size stays at its planned offset, but has its
// observed size; a branch that was not taken counts nothing, its weights included. It is at most Peak.
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
	x, err := m.program.session.Enter()
	if err != nil {
		return 0, err
	}
	defer m.program.session.Leave()
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
	fixed += m.program.session.OwnBytes()
	for _, w := range p.Weights {
		if u.Tensors[w.Tensor] && !w.Paged && w.Device == "" {
			fixed += int64(len(w.Data))
		}
	}
	return fixed + int64(calls)*call, err
}
