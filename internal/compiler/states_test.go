package compiler

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/program"
)

// TestKeepsStates shows that loops whose order of steps does not allow a state to be replaced in place are refused.
func TestKeepsStates(t *testing.T) {
	for _, c := range []struct{ body, refused string }{
		{"copy %y = %w copy %u = %x", ""},
		{"copy %y = %w copy %u = %w", ""}, // onto itself
		{"copy %u = %x copy %y = %w", "w is read after u is written over it"},
		{"copy %u = %w copy %y = %w", "w is read after u is written over it"},
		{"launch @turn(%w, %u) copy %y = %x", "w is read after u is written over it"},
		{"launch @negate(%w, %u) copy %y = %u", ""},
		{"copy %y = %x if %c { copy %u = %w } else { copy %u = %x }", "w is read after u is written over it"},
	} {
		m, err := loop.Parse(`weir 1 loop @m {
			buffer %c: bool[] input
			buffer %x: f32[2] input
			buffer %w: f32[2] input
			buffer %u: f32[2] output state %w
			buffer %y: f32[2] output
			kernel @turn(%a: f32[2] read, %b: f32[2] write) dims () { each i < 2 { store %b[i] = load %a[1 - i] } }
			kernel @negate(%a: f32[2] read, %b: f32[2] write) dims () { each i < 2 { store %b[i] = neg(load %a[i]) } }
			body { `+c.body+` } }`, loop.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := loop.VerifyModule(m); err != nil {
			t.Fatal(err)
		}
		at := live.Ranges(m)
		made := &Compiled{Loop: m, time: at}
		p, err := assemble(m, at, func(a *assembly) error { return made.layout(a, search) })
		if c.refused != "" {
			if !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", c.body, err)
			}
			continue
		}
		if err != nil || p.Verify() != nil || p.Inputs[2].Ownership != program.State || p.NewValue(2) != 0 {
			t.Errorf("%s: %v\n%s", c.body, err, p)
		}
	}
}
