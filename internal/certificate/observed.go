package certificate

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/sym"
)

// Observed returns the bytes that a run with the observed sizes takes: of the weights that it read, and of its call
// with scratch for each worker. size returns the observed size of a dimension, by public name; data tells whether data
// determine it, and joint has the sizes that dimensions had together. bodies has the branches and loops that ran, as
// report.UseOf takes them, and elsewhere the storages in the caller's memory.
func Observed(x *executor.Executable, p *program.Program, labels *report.Labels, workers int, bodies []uint8,
	joint []executor.Joint, elsewhere map[int]bool, size func(label string, data bool) (int64, bool)) (weights,
	call int64, err error) {
	at, values := report.Bindings{}, make([]int64, len(p.Dims))
	for i, dim := range p.Dims {
		label := labels.Of[dim.Name]
		v, ok := size(label, dim.Data)
		if !ok {
			return 0, 0, diag.Inputf("dimension %s has no value", label).AtDim(label)
		}
		at[dim.Name], values[i] = v, v
	}
	u, err := report.UseOf(p, at, bodies, joint)
	if err != nil {
		return 0, 0, err
	}
	scratch, err := x.ScratchOf(values, func(l *program.Launch) bool {
		return u.Launched[l] && !report.Jointly(dimsOf(p, l), joint)
	})
	if err != nil {
		return 0, 0, err
	}
	for l := range u.Launched {
		if names := dimsOf(p, l); report.Jointly(names, joint) {
			err := report.Together(names, at, joint, func(at report.Bindings) error {
				for i, dim := range p.Dims {
					values[i] = at[dim.Name]
				}
				more, err := x.ScratchOf(values, func(other *program.Launch) bool { return other == l })
				scratch = max(scratch, more)
				return err
			})
			if err != nil {
				return 0, 0, err
			}
		}
	}
	call = scratch * int64(workers)
	for i, bytes := range u.Reach {
		if p.Storages[i].Kind != program.Spill && p.Storages[i].Device == "" && !elsewhere[i] {
			call += bytes
		}
	}
	for _, w := range p.Weights {
		if u.Tensors[w.Tensor] && !w.Paged && w.Device == "" {
			weights += int64(len(w.Data))
		}
	}
	return weights, call, nil
}

// dimsOf returns the dimensions of a launch.
func dimsOf(p *program.Program, l *program.Launch) (names []sym.Name) {
	for _, d := range l.Dims {
		names = append(names, p.Dims[d].Name)
	}
	return names
}
