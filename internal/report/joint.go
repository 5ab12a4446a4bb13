package report

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
)

// mentioned returns the first of joint that has values of several of the names.
func mentioned(names []sym.Name, joint []executor.Joint) (j executor.Joint, rest []executor.Joint, ok bool) {
	for i, j := range joint {
		count := 0
		for _, name := range j.Names {
			if slices.Contains(names, name) {
				count++
			}
		}
		if count > 1 && len(j.Values) > 0 {
			return j, joint[i+1:], true
		}
	}
	return j, nil, false
}

// Jointly reports whether joint has values of several of the names.
func Jointly(names []sym.Name, joint []executor.Joint) bool {
	_, _, ok := mentioned(names, joint)
	return ok
}

// Together calls visit for all values that names have together, each with those of all other dimensions in at.
func Together(names []sym.Name, at Bindings, joint []executor.Joint, visit func(at Bindings) error) error {
	j, rest, ok := mentioned(names, joint)
	if !ok {
		return visit(at)
	}
	for _, values := range j.Values {
		now := maps.Clone(at)
		for i, name := range j.Names {
			now[name] = values[i]
		}
		if err := Together(names, now, rest, visit); err != nil {
			return err
		}
	}
	return nil
}

// largest returns the most bytes of a tensor for the values of joint, and the values for which it has them.
func largest(t *program.Tensor, at Bindings, joint []executor.Joint) (bytes int64, with Bindings, err error) {
	e := t.Bytes()
	bytes = -1
	err = Together(e.Vars(), at, joint, func(now Bindings) error {
		n, err := e.Eval(now.Lookup)
		if n > bytes {
			bytes, with = n, now
		}
		return err
	})
	return max(bytes, 0), with, err
}

// Cases returns the values that a program's choices allow, for values of the inputs' dimensions. given tells the data
// dimensions whose values are known: choices of these are left out.
func Cases(p *program.Program, at Bindings, given func(name sym.Name) bool) (joint []executor.Joint, err error) {
	for _, c := range p.Chosen() {
		if slices.ContainsFunc(c.Names, given) {
			continue
		}
		j := executor.Joint{Names: c.Names}
		for _, list := range c.Cases {
			values := make([]int64, len(list))
			for i, x := range list {
				if values[i], err = x.Eval(at.Lookup); err != nil {
					return nil, err
				}
			}
			j.Values = append(j.Values, values)
		}
		joint = append(joint, j)
	}
	return joint, nil
}
