package weir

import "github.com/weirml/weir/internal/certificate"

// PeakWith returns the bytes of a number of calls that all do the same as a measured run: the certificate with the
// observed sizes. d has the values of the inputs' dimensions. A bounded size stays at its planned offset, but has its
// observed size; a branch that was not taken counts nothing, its weights included. It is at most Peak.
func (m *Memory) PeakWith(calls int, d Dims, seen Measurement) (int64, error) {
	x, err := m.program.session.Enter()
	if err != nil {
		return 0, err
	}
	defer m.program.session.Leave()
	weights, call, err := certificate.Observed(x, m.program.compiled.Program, m.program.labels, m.Workers, seen.bodies,
		seen.joint,
		m.elsewhere, func(label string, data bool) (v int64, ok bool) {
			if data {
				v, ok = seen.Decided[label]
			} else {
				v, ok = d[label]
			}
			return v, ok
		})
	if err != nil {
		return 0, err
	}
	code, err := m.Code.At(nil)
	return code + m.program.session.OwnBytes() + weights + int64(calls)*call, err
}
