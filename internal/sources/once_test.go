package sources

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
)

// TestOnce: a model that is compiled once gives its own module to the compiler, and any other model a copy.
func TestOnce(t *testing.T) {
	const text = "weir 1 ir @m {\n  main @main(%x: f32[3]) {\n    %y: f32[3] = exp(%x)\n    return %y\n  }\n}\n"
	for _, once := range []bool{false, true} {
		m, err := ir.Parse(text, ir.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		model := OfModule("a test", m, once)
		if in := model.Inputs(); len(in) != 1 || in[0].Name != "x" || in[0].Type.DType != dtype.F32 {
			t.Fatalf("inputs %v", in)
		}
		b, err := model.Build(t.Context(), Asked{})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Module.String(); (b.Module == m) != once || got != m.String() {
			t.Errorf("once %t: built %p of %p:\n%s", once, b.Module, m, got)
		}
		if _, err = model.Build(t.Context(), Asked{}); (err != nil) != once {
			t.Errorf("once %t: the second compilation gives error %v", once, err)
		}
	}
}
