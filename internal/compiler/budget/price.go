package budget

import (
	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// seconds estimates the time that steps take on one core, at the dimensions' upper bounds. A launch takes as long as
// its arithmetic or as the bytes that it must at least move, whichever is more, and launchSeconds besides; a copy takes
// as long as its bytes from memory or from a file. Steps of the host count nothing.
func (s *squeezer) seconds(steps []loop.Step) (total float64) {
	for _, step := range steps {
		switch step := step.(type) {
		case *loop.Launch:
			cost := loop.CostOf(step.Kernel)
			operations, bytes := s.number(cost.Operations), s.number(cost.Footprint.Min(cost.Read.Add(cost.Written)))
			total += launchSeconds + max(operations/operationsPerSecond, bytes/memoryBytesPerSecond)
		case *loop.Copy:
			bytes := s.number(live.BytesOf(step.To, sym.Product(step.To.Shape...)))
			if step.From.Away() || step.To.Away() {
				total += bytes / fileBytesPerSecond
			} else {
				total += launchSeconds + bytes/memoryBytesPerSecond
			}
		case *loop.If:
			total += max(s.seconds(step.Then), s.seconds(step.Else))
		case *loop.Loop:
			total += s.iterations(step) * s.seconds(step.Body)
		}
	}
	return total
}

// number is an expression at the dimensions' upper bounds; 0 if it has none.
func (s *squeezer) number(x sym.Expr) float64 {
	n, err := sym.AtLimits(x, s.m.Limits).Eval(s.value)
	if err != nil {
		return 0
	}
	return float64(n)
}

// iterations is the most iterations of a loop that its trip count, or a dimension bound to its index, tells; else 1.
func (s *squeezer) iterations(l *loop.Loop) float64 {
	if l.Trip != nil && l.Trip.Data != nil {
		return float64(l.Trip.Data.Int(0))
	}
	if !l.Count.None() {
		return max(1, s.number(sym.Var(l.Count)))
	}
	for _, step := range l.Body {
		if b, is := step.(*loop.Bind); is && l.Index != nil && b.From != nil && b.From.Root() == l.Index.Root() {
			return s.number(sym.Var(b.Dim)) + 1
		}
	}
	return 1
}
