package schedule

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// fewIterations is the number of iterations below which no reason is given for a nest outside of lanes.
const fewIterations = 64

// OutOfLanes returns one reason for each nest of a scheduled kernel that runs often and contains neither a vector loop
// nor a product. On a machine without vectors it returns none.
func OutOfLanes(k *loop.Kernel, machine target.Machine, dims *sym.Dims) (reasons []string) {
	if machine.VectorBytes == 0 || neverRuns(k) || forBlocks(k) {
		return nil
	}
	s := &scheduler{module: &loop.Module{Dims: dims}, machine: machine, dims: dims, free: k.Dims}
	c := s.coster(k)
	var visit func(body []loop.Stmt)
	visit = func(body []loop.Stmt) {
		for _, stmt := range body {
			f, nest := stmt.(*loop.For)
			switch {
			case nest && f.Kind == loop.Vector:
			case nest && !inLanes(f.Body):
				if why := c.outOfLanes(k, f); why != "" && !slices.Contains(reasons, why) {
					reasons = append(reasons, why)
				}
			default:
				for _, inner := range loop.Bodies(stmt) {
					visit(*inner)
				}
			}
		}
	}
	visit(k.Body)
	return reasons
}

// inLanes reports whether statements contain a vector loop or a product.
func inLanes(body []loop.Stmt) (found bool) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.For:
			found = found || s.Kind == loop.Vector
		case *loop.Contract:
			found = true
		}
		return !found
	})
	return found
}

// outOfLanes returns the reason for one nest; empty if it seldom runs.
func (c *coster) outOfLanes(k *loop.Kernel, f *loop.For) string {
	if mostIterations(f, c.dims) < fewIterations {
		return ""
	}
	possible := false
	loop.Walk([]loop.Stmt{f}, func(s loop.Stmt) bool {
		inner, is := s.(*loop.For)
		possible = possible || is && c.canBeVector(inner)
		return true
	})
	if !possible {
		return fmt.Sprintf("loop %s does not run in lanes: no loop of its nest can, since each carries a value from one "+
			"iteration to the next, or has branches or loops that depend on the lane", f.Var)
	}
	next := k.Clone()
	if chooseVectors(c.scheduler, next) {
		if over := Fit(next, c.machine, c.dims); len(over) > 0 {
			return fmt.Sprintf("loop %s does not run in lanes: that would take %s", f.Var, over[0])
		}
	}
	return fmt.Sprintf("loop %s does not run in lanes: by the estimate it would be no faster", f.Var)
}

// mostIterations returns how often the innermost body of a nest runs at most.
func mostIterations(f *loop.For, dims *sym.Dims) int64 {
	inside := int64(1)
	loop.Walk(f.Body, func(s loop.Stmt) bool {
		inner, is := s.(*loop.For)
		if is {
			inside = max(inside, mostIterations(inner, dims))
		}
		return !is
	})
	return min(max(upper(f.Extent, dims), 0), 1<<20) * inside
}
