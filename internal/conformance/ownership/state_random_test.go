package ownership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// randomStates returns a text of random operators on matrices. Some inputs are states, whose new values are any
// results, computed from old and new values in any order.
func randomStates(random *rand.Rand) string {
	var b strings.Builder
	inputs := 2 + random.IntN(4)
	var values []string
	for i := range inputs {
		values = append(values, fmt.Sprintf("%%x%d", i))
	}
	var body strings.Builder
	count := 1 + random.IntN(12)
	pick := func() string { return values[random.IntN(len(values))] }
	for i := range count {
		name := fmt.Sprintf("%%v%d", i)
		switch random.IntN(7) {
		case 0:
			fmt.Fprintf(&body,
				"    %s: f32[n, n] = matmul(%s, %s) {transpose_a = bool false, transpose_b = bool true}\n", name,
				pick(), pick())
		case 1:
			fmt.Fprintf(&body, "    %s: f32[n, n] = transpose(%s) {perm = ints [1, 0]}\n", name, pick())
		case 2:
			fmt.Fprintf(&body, "    %s: f32[n, n] = tanh(%s)\n", name, pick())
		case 3:
			fmt.Fprintf(&body,
				"    %s: f32[n, n] = if(%%flag) region () { %%a%d: f32[n, n] = neg(%s) return %%a%d } region "+
					"() { return %s }\n", name, i, pick(), i, pick())
		default:
			fmt.Fprintf(&body, "    %s: f32[n, n] = %s(%s, %s)\n", name, []string{"add", "sub", "mul"}[random.IntN(3)],
				pick(),
				pick())
		}
		values = append(values, name)
	}
	results := slices.Clone(values)
	random.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	results = results[:1+random.IntN(min(len(results), 5))]
	b.WriteString("weir 1\nir @m {\n  dim n in [0, 64]\n  main @main(%flag: bool[]")
	for i := range inputs {
		fmt.Fprintf(&b, ", %%x%d: f32[n, n]", i)
	}
	b.WriteString(") {\n")
	order := random.Perm(inputs)
	for i := range min(inputs, len(results)) {
		fmt.Fprintf(&b, "    state %%x%d -> %s\n", order[i], results[i])
	}
	b.WriteString(body.String())
	fmt.Fprintf(&b, "    return %s\n  }\n}\n", strings.Join(results, ", "))
	return b.String()
}

// TestStateRandom: states get the bits that the same values have as outputs, for any order of reads of old and new
// values.
func TestStateRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	apart, together := 0, 0
	for i := range 120 {
		source := randomStates(random)
		o := weir.Options{Threads: 1 + i%2,
			Target: []weir.Target{weir.Best, weir.Portable, weir.Best, weir.Reference}[i%4]}
		if testing.Short() && i > 30 {
			break
		}
		p, q := weirtest.MustCompileText(t, source, o), weirtest.MustCompileText(t,
			stateLines.ReplaceAllString(source, ""), o)
		for _, s := range p.States() {
			if s.InPlace {
				together++
			} else {
				apart++
			}
		}
		sameSteps(t, p, q, weir.Dims{"n": []int64{5, 16, 1, 0}[random.IntN(4)]}, 3, random)
		if t.Failed() {
			t.Fatal(source)
		}
		measured(t, p, weir.Dims{"n": 7})
	}
	if apart == 0 || together == 0 {
		t.Errorf("%d new values were computed in place, %d apart", together, apart)
	}
}
