package lanes

import (
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/loop"
)

// Nest emits a nest: a loop over the tiles from tile on and before end, in which the parallel loops' variables are
// found from the tile's number. The innermost loop's variable changes fastest. It returns the label at which the loop
// begins again.
func (e *Emitter) Nest(n loop.Nest, tile, end regalloc.Reg) (again regalloc.Label) {
	scope := e.Open(n.Body)
	rest := tile
	for i := len(n.Loops) - 1; i >= 0; i-- {
		f := n.Loops[i]
		register := rest
		if i > 0 {
			rest, register = e.Divided(rest, e.IntegerOf(f.Extent))
		} else {
			register = e.CopyOf(rest)
		}
		e.Names[f.Var] = Name{Depth: scope.Depth, Register: register}
	}
	scope.Certain = true
	e.Tile(n)
	body := e.Close()
	again = e.Label()
	over := e.Label()
	e.CompareNumbers(tile, end)
	e.JumpIf(GreaterOrEqual, over)
	e.AppendCode(scope.Head)
	e.Bind(again)
	e.AppendCode(body)
	e.IntegerNumber(Add, tile, 1)
	e.CompareNumbers(tile, end)
	e.JumpIf(Less, again)
	e.Bind(over)
	e.Return(0)
	return again
}
