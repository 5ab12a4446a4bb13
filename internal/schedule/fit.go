package schedule

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// What a kernel may need, beside its locals. The portable generator packs a contraction's operands into panels of this size
// for elements of eight bytes, and keeps the strips of a vector loop within the first-level cache as long as they are few.
const (
	panelBytes   = 512 << 10
	stripBytes   = 64 << 10
	mostStrips   = 96
	mostParams   = 48
	usualScratch = 8 << 20 // where the machine names no limit
)

// Fit is the accountant of what a kernel needs of a machine: nil where it fits, otherwise what is too much. Locals count at the upper
// bounds of the dimensions, and where they have none, at 1024.
func Fit(k *loop.Kernel, machine target.Machine, dims *sym.Dims) error {
	if len(k.Params) > mostParams {
		return fmt.Errorf("%d operands, at most %d", len(k.Params), mostParams)
	}
	bytes := int64(0)
	contracts, strips := false, 0
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Contract:
			contracts = true
		case *loop.For:
			if s.Kind == loop.Vector {
				strips = max(strips, stripsOf(s.Body))
			}
		}
		return true
	})
	if strips > mostStrips {
		return fmt.Errorf("%d strips, at most %d", strips, mostStrips)
	}
	bytes += stripBytes
	if contracts {
		bytes += panelBytes
	}
	locals := upper(loop.Scratch(k), dims)
	limit := machine.ScratchMax
	if limit <= 0 {
		limit = usualScratch
	}
	if locals > limit || bytes+locals > limit {
		return fmt.Errorf("%d bytes of scratch, at most %d", bytes+locals, limit)
	}
	return nil
}

// upper is an expression's value with every dimension at its upper bound; without one, at 1024 or the lower bound.
func upper(e sym.Expr, dims *sym.Dims) int64 {
	v, err := e.Eval(func(name string) (int64, bool) {
		r, ok := dims.Get(name)
		if !ok {
			return 1024, true
		}
		if r.Max > 1<<40 {
			return max(r.Min, 1024), true
		}
		return r.Max, true
	})
	if err != nil {
		return math.MaxInt64
	}
	return v
}

// stripsOf counts the values that a vector loop's body may keep at once: named ones, and the deepest expression's.
func stripsOf(body []loop.Stmt) int {
	named, deepest := 0, 0
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s.(type) {
		case *loop.Let, *loop.Var, *loop.Check:
			named++
		}
		for _, e := range loop.Values(s) {
			deepest = max(deepest, depth(e))
		}
		return true
	})
	return named + deepest
}

func depth(e loop.Expr) int {
	d := 0
	for i, x := range loop.Operands(e) {
		d = max(d, depth(x)+min(i, 1))
	}
	return max(d, 1)
}
