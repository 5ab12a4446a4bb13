package schedule

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// fewTurns is how often a nest of loops may run outside lanes without a reason being told.
const fewTurns = 64

// OutOfLanes says why nests of a scheduled kernel are done in no lanes: one reason for each nest that runs often, but
// for products, and holds no vector loop. A machine without vectors has none.
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

// inLanes reports whether statements hold a vector loop or a product.
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

// outOfLanes is the reason of one nest; empty if it seldom runs.
func (c *coster) outOfLanes(k *loop.Kernel, f *loop.For) string {
	if turns(f, c.dims) < fewTurns {
		return ""
	}
	possible := false
	loop.Walk([]loop.Stmt{f}, func(s loop.Stmt) bool {
		inner, is := s.(*loop.For)
		possible = possible || is && c.canBeVector(inner)
		return true
	})
	if !possible {
		return fmt.Sprintf("loop %s is not put in lanes: no loop of its nest can be, for each carries a value from one "+
			"turn to the next, or branches or counts by lane", f.Var)
	}
	next := k.Clone()
	if chooseVectors(c.scheduler, next) {
		if over := Fit(next, c.machine, c.dims); len(over) > 0 {
			return fmt.Sprintf("loop %s is not put in lanes: that would take %s", f.Var, over[0])
		}
	}
	return fmt.Sprintf("loop %s is not put in lanes: it is estimated to take no less time in them", f.Var)
}

// turns is how often the innermost body of a nest runs at most.
func turns(f *loop.For, dims *sym.Dims) int64 {
	inside := int64(1)
	loop.Walk(f.Body, func(s loop.Stmt) bool {
		inner, is := s.(*loop.For)
		if is {
			inside = max(inside, turns(inner, dims))
		}
		return !is
	})
	return min(max(upper(f.Extent, dims), 0), 1<<20) * inside
}
