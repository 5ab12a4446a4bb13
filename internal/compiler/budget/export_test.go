package budget

import "github.com/weirml/weir/internal/loop"

// MostExact is mostExact.
const MostExact = mostExact

// Squeezer is a squeezer for tests outside this package, which may compile.
type Squeezer struct{ *squeezer }

// NewSqueezer is a squeezer whose budget leaves so many bytes for the arena, and which tries every choice among so many
// results.
func NewSqueezer(c Compilation, arena int64, exact int) Squeezer {
	s := newSqueezer(c, Budget{Bytes: arena, Calls: 1, Workers: 1})
	s.exact = exact
	s.bounded()
	s.budget.Bytes += s.fixed + s.weights()
	return Squeezer{s}
}

func (s Squeezer) Exactly(body []loop.Step, arena int64) []loop.Step { return s.exactly(body, arena) }
func (s Squeezer) Recompute(body []loop.Step, arena int64) []loop.Step {
	return s.improve(Recompute, body, arena)
}
func (s Squeezer) Live(body []loop.Step) int64 { return s.live(body) }
func (s Squeezer) Done() []Saving              { return s.done }
