package budget

import "github.com/weirml/weir/internal/loop"

// MostChoices exports mostChoices.
const MostChoices = mostChoices

// Squeezer exports squeezer to tests in package budget_test, which import the compiler.
type Squeezer struct{ *squeezer }

// NewSqueezer returns a squeezer whose budget leaves arena bytes for the arena, and which tries every set of at most
// choices results.
func NewSqueezer(c Compilation, arena int64, choices int) Squeezer {
	s := newSqueezer(c, Budget{Bytes: arena, Calls: 1, Workers: 1})
	s.choices = choices
	s.bounded()
	s.budget.Bytes += s.fixed + s.weights()
	return Squeezer{s}
}

// Optimal exports optimal.
func (s Squeezer) Optimal(body []loop.Step, arena int64) []loop.Step { return s.optimal(body, arena) }

// Recompute exports improve by recomputing.
func (s Squeezer) Recompute(body []loop.Step, arena int64) []loop.Step {
	return s.improve(Recompute, body, arena)
}

// Live exports live.
func (s Squeezer) Live(body []loop.Step) int64 { return s.live(body) }

// Done exports done.
func (s Squeezer) Done() []Saving { return s.done }
