package ir_test

import (
	"strings"
	"testing"

	"github.com/weirml/weir/internal/ir"
)

// TestStateOfUndefined: a state that names no value, or no result, is told at its own line.
func TestStateOfUndefined(t *testing.T) {
	for state, want := range map[string]string{"%x -> %nothing": "4:17: %nothing", "%nothing -> %x": "4:11: %nothing",
		"%x -> %c": "4:11: state %x becomes %c"} {
		text := "weir 1\nir @g {\n  main @main(%x: f32[2], %c: f32[2]) {\n    state " + state + "\n    return %x\n  }\n}\n"
		_, err := ir.Parse(text, ir.ParseOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("state %s: %v, want %s", state, err, want)
		}
	}
}
