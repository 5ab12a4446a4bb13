package executor

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Joint has the values that dimensions had together in a watched run: those of one choice of program.Chosen.
type Joint struct {
	Names  []sym.Name
	Values [][]int64
}

// joint is a Joint whose values are recorded when the last of its dimensions is bound.
type joint struct {
	Joint
	dims []int
	last int
}

// mostJoint limits the values that a Joint keeps. All further ones are combined into one that is as large as each.
const mostJoint = 64

// together records the values of the choices whose last dimension has been bound.
func (w *Watch) together(values []int64, dim int) {
	for i := range w.joint {
		j := &w.joint[i]
		if j.last != dim {
			continue
		}
		now := make([]int64, len(j.dims))
		for k, d := range j.dims {
			now[k] = values[d]
		}
		switch last := len(j.Values) - 1; {
		case slices.ContainsFunc(j.Values, func(seen []int64) bool { return slices.Equal(seen, now) }):
		case last+1 < mostJoint:
			j.Values = append(j.Values, now)
		default:
			for k, v := range now {
				j.Values[last][k] = max(j.Values[last][k], v)
			}
		}
	}
}
