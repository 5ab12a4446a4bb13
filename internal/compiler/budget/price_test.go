package budget_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/compiler/budget"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// examples is the largest batch of these tests' modules.
const examples = 4096

// trainingStep returns the ir text of a net of layers of 8 units over n examples, at least so many, and the derivatives
// of its weights, which are sums over the examples.
func trainingStep(layers, least int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "weir 1\nir @step {\n  dim n in [%d, %d]\n  main @main(%%h0: f32[n, 8]", least, examples)
	for i := range layers {
		fmt.Fprintf(&b, ", %%w%d: f32[8, 8]", i)
	}
	b.WriteString(") {\n    const %one: f32[] = [1]\n")
	for i := range layers {
		fmt.Fprintf(&b, "    %%s%d: f32[n, 8] = matmul(%%h%d, %%w%d)\n    %%h%d: f32[n, 8] = tanh(%%s%d)\n", i, i, i, i+1, i)
	}
	results, g := []string{}, fmt.Sprintf("%%h%d", layers)
	for i := layers - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "    %%q%d: f32[n, 8] = mul(%%h%d, %%h%d)\n    %%p%d: f32[n, 8] = sub(%%one, %%q%d)\n"+
			"    %%d%d: f32[n, 8] = mul(%s, %%p%d)\n", i, i+1, i+1, i, i, i, g, i)
		fmt.Fprintf(&b, "    %%dw%d: f32[8, 8] = matmul(%%h%d, %%d%d) {transpose_a = bool true, "+
			"transpose_b = bool false}\n", i, i, i)
		results = append(results, fmt.Sprintf("%%dw%d", i))
		if g = fmt.Sprintf("%%g%d", i); i > 0 {
			fmt.Fprintf(&b, "    %s: f32[n, 8] = matmul(%%d%d, %%w%d) {transpose_a = bool false, "+
				"transpose_b = bool true}\n", g, i, i)
		}
	}
	fmt.Fprintf(&b, "    return %s\n  }\n}\n", strings.Join(results, ", "))
	return b.String()
}

// within compiles a text within a budget of bytes. It returns the bytes that the program takes and its savings, or the
// fewest bytes that it can take, if they are more than the budget.
func within(t *testing.T, text string, bytes int64) (peak int64, saved []budget.Saving, least int64) {
	t.Helper()
	return withinCalls(t, text, bytes, 1)
}

// withinCalls is within for a number of calls at once.
func withinCalls(t *testing.T, text string, bytes, calls int64) (peak int64, saved []budget.Saving, least int64) {
	t.Helper()
	m, err := ir.Parse(text, ir.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiler.Compile(m, compiler.Options{Machine: compiler.Portable(1),
		Budget: &budget.Budget{Bytes: bytes, Calls: int(calls), Workers: 1}})
	if err != nil {
		t.Fatal(err)
	}
	peak, err = c.Arena.Arena.Add(c.Outputs).Add(c.Scratch).Eval(func(sym.Name) (int64, bool) { return examples, true })
	if err != nil {
		t.Fatal(err)
	}
	peak *= calls
	for _, b := range c.Loop.Buffers {
		if b.Kind == loop.Weight && b.View == nil && !b.Paged {
			peak += b.Data.Size()
		}
	}
	if peak += c.Code.Bytes; peak > bytes {
		return 0, nil, peak
	}
	return peak, c.Saved.Savings, 0
}

// only reports whether there are savings, all of one kind.
func only(kind budget.SavingKind, saved []budget.Saving) bool {
	return len(saved) > 0 && !slices.ContainsFunc(saved, func(s budget.Saving) bool { return s.Kind != kind })
}

// TestRecomputeBeforePieces checks that results of a training step are recomputed as long as that suffices, if the
// batch has more than one possible size, so that a piece is one example. Smaller budgets take pieces, down to the
// smallest that works.
func TestRecomputeBeforePieces(t *testing.T) {
	text := trainingStep(6, 1)
	peak, _, _ := within(t, text, math.MaxInt64/2)
	for _, percent := range []int64{99, 90, 80, 70} {
		if at, saved, _ := within(t, text, peak*percent/100); !only(budget.Recompute, saved) {
			t.Errorf("%d %% of %d bytes: the program takes %d with %v", percent, peak, at, saved)
		}
	}
	for _, bytes := range []int64{peak / 10, smallest(t, text, 4100)} {
		if at, saved, _ := within(t, text, bytes); !only(budget.BatchUp, saved) || saved[0].Pieces != examples {
			t.Errorf("%d of %d bytes: the program takes %d with %v", bytes, peak, at, saved)
		}
	}
}

// TestLargestPieces checks that a training step with a batch of one size is computed in few pieces if the budget allows
// large ones, and that the smallest budget is the same as with a batch of many sizes.
func TestLargestPieces(t *testing.T) {
	text := trainingStep(6, examples)
	peak, _, _ := within(t, text, math.MaxInt64/2)
	for _, share := range []int64{2, 4, 8, 16, 32} {
		at, saved, _ := within(t, text, peak/share)
		if !only(budget.BatchUp, saved) || saved[0].Pieces > 4*share {
			t.Errorf("a 1/%d of %d bytes: the program takes %d with %v", share, peak, at, saved)
		}
	}
	smallest(t, text, 4100)
}

// TestPiecesOfRows checks that a net whose wide results cannot be recomputed for less is computed in pieces, and that
// weights are paged besides within the smallest budget.
func TestPiecesOfRows(t *testing.T) {
	weights := strings.Repeat(", 0.5", 16*256-1)
	text := fmt.Sprintf(`weir 1
ir @wide {
  main @main(%%x: f32[512, 16]) {
    const %%w: f32[16, 256] = [0.5%s]
    const %%u: f32[256, 16] = [0.5%s]
    %%a: f32[512, 256] = matmul(%%x, %%w)
    %%b: f32[512, 256] = tanh(%%a)
    %%c: f32[512, 256] = softmax(%%b) {axis = int 1}
    %%y: f32[512, 16] = matmul(%%c, %%u)
    return %%y
  }
}
`, weights, weights)
	peak, _, _ := within(t, text, math.MaxInt64/2)
	if at, saved, _ := within(t, text, peak/2); !only(budget.BatchUp, saved) || saved[0].Pieces > 8 {
		t.Errorf("half of %d bytes: the program takes %d with %v", peak, at, saved)
	}
	least := smallest(t, text, 77131)
	_, saved, _ := within(t, text, least)
	for _, kind := range []budget.SavingKind{budget.BatchUp, budget.PageIn} {
		if !slices.ContainsFunc(saved, func(s budget.Saving) bool { return s.Kind == kind }) {
			t.Errorf("the smallest budget of %d bytes has no %s: %v", least, kind, saved)
		}
	}
}

// smallest returns the smallest budget that works. It fails if that is more than most bytes, or if a byte less works.
func smallest(t *testing.T, text string, most int64) int64 {
	t.Helper()
	_, _, least := within(t, text, 1)
	if least > most {
		t.Errorf("the smallest budget is %d bytes, want at most %d", least, most)
	}
	if at, _, _ := within(t, text, least); at != least {
		t.Errorf("the program takes %d bytes within its smallest budget of %d", at, least)
	}
	if at, _, _ := within(t, text, least-1); at != 0 {
		t.Errorf("the program takes %d bytes, less than the smallest budget of %d", at, least)
	}
	return least
}
