package lanes

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Tile emits a tile's body, and a second version for tiles of the interior if that saves comparisons.
func (e *Emitter) Tile(n loop.Nest) {
	edge, done := e.Label(), e.Label()
	inside := map[sym.Name]sym.Range{}
	for _, f := range n.Loops {
		extent, ok := f.Extent.Const()
		if !ok {
			continue
		}
		if first, end, ok := e.interior(f.Var, extent, n.Body); ok {
			inside[f.Var] = sym.Range{Min: first, Max: end - 1}
			e.CompareNumber(e.IntegerOf(sym.Var(f.Var)), first)
			e.JumpIf(Less, edge)
			e.CompareNumber(e.IntegerOf(sym.Var(f.Var)), end)
			e.JumpIf(GreaterOrEqual, edge)
		}
	}
	version := func() {
		s := e.Open(n.Body)
		e.body(n.Body)
		body := e.Close()
		e.Place(s, body)
	}
	if len(inside) > 0 {
		before := map[sym.Name]sym.Range{}
		for name, r := range inside {
			before[name], _ = e.Kernel.Ranges.Get(name)
			e.Kernel.Ranges.Set(name, r)
		}
		version()
		for name, r := range before {
			e.Kernel.Ranges.Set(name, r)
		}
		e.Jump(done)
		e.Bind(edge)
		version()
		e.Bind(done)
		return
	}
	e.body(n.Body)
}

// nameOfWord returns a name whose value is in a word of the frame.
func nameOfWord(word int) Name { return Name{word: word} }

// Note records, once, that something is done in a slower way than the schedule intended.
func (k *KernelEmitter) Note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(k.slower, note) {
		k.slower = append(k.slower, note)
	}
}
