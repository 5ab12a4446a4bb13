package pass

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestNarrowRecurrences: the weights that a layer multiplies its states by become narrow if they do not fit the caches
// and the sequences are few; the results stay near those of f32. Directions have scales of their own.
func TestNarrowRecurrences(t *testing.T) {
	const units = 40
	small := target.Portable(1)
	small.Limits.L2 = 4 << 10
	beyond := recipes.CostsOn(small)
	narrowTo := map[string]func(*ir.Module, recipes.Costs) error{"bf16": BF16, "bf16 weights": BF16Weights, "i8": Bytes}
	for _, c := range []struct {
		batch, more string
		costs       recipes.Costs
		narrow      bool
	}{
		{"2", "", beyond, true},
		{"n", "", beyond, true},
		{"9", "", beyond, false},
		{"2", "", onCPU, false},                                    // they stay in the caches
		{"2", "%e: f32[2, 160, 40] = relu(%w)\n  ", beyond, false}, // another node reads them
	} {
		for name, pass := range narrowTo {
			t.Run(fmt.Sprint(c, name), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				weights := func(_ string, dt dtype.DType, shape []int64, _ int64) (*tensor.Tensor, error) {
					x := tensor.Must(tensor.New(dt, shape...))
					for i := range x.Len() {
						scale := 1.0
						if i >= x.Len()/2 {
							scale = 1e-3 // the other direction's
						}
						x.SetFloat(i, r.NormFloat64()*scale/math.Sqrt(units))
					}
					return x, nil
				}
				source := "weir 1\nir @m {\n" + strings.NewReplacer("B", c.batch, "MORE", c.more).Replace(
					`main @main(%x: f32[3, B, 2, 160]) {
  const %w: f32[2, 160, 40] data 51200
  MORE%y: f32[3, 2, B, 40], %h: f32[2, B, 40], %c: f32[2, B, 40] = recurrent(%x, %w) {alpha = floats [0, 0, 0, 0, 0, 0], beta = floats [0, 0, 0, 0, 0, 0], cell = string "lstm", clip = float 0, coupled = bool false, functions = strings ["sigmoid", "tanh", "tanh", "sigmoid", "tanh", "tanh"], reset_after = bool false, reverse = ints [0, 1]}
  return %y, %h, %c
}
}`)
				if c.batch == "n" {
					source = strings.Replace(source, "main @main", "dim n in [1, inf]\nmain @main", 1)
				}
				m, err := ir.Parse(source, ir.ParseOptions{Data: weights})
				if err != nil {
					t.Fatal(err)
				}
				args := irtest.Arguments(m, r)
				dims := map[sym.Name]int64{sym.User("n"): args[0].Shape()[1]}
				want, err := ir.NewEvaluation(maps.Clone(dims)).Run(m.Main.Body, args)
				if err != nil {
					t.Fatal(err)
				}
				if err := pass(m, c.costs); err != nil {
					t.Fatal(err)
				}
				if err := ir.Verify(m); err != nil {
					t.Fatal(err)
				}
				text := m.String()
				got := strings.Contains(text, ": bf16[2, 160, 40]") || strings.Contains(text, ": i8[2, 160, 40]")
				if got != c.narrow {
					t.Errorf("narrow is %v, not %v:\n%s", got, c.narrow, text)
				}
				results, err := ir.NewEvaluation(maps.Clone(dims)).Run(m.Main.Body, args)
				if err != nil {
					t.Fatal(err)
				}
				sequences := args[0].Shape()[1] * units
				for i := range want {
					for k := range want[i].Len() {
						within := 0.01
						if k/sequences%2 == 1 { // the direction with small weights
							within = 2e-5
						}
						if d := math.Abs(want[i].Float(k) - results[i].Float(k)); d > within {
							t.Fatalf("result %d, element %d: %v, not %v", i, k, results[i].Float(k), want[i].Float(k))
						}
					}
				}
			})
		}
	}
}
