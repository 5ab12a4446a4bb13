package pass

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text/goldentest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// commands are the passes that testdata runs, by the name that a case begins with.
var commands = map[string]func(*ir.Module) error{
	"absorb": Absorb, "again": Again, "marks": Marks, "blocks": weighed(Blocks), "dequantized": Dequantized,
	"halves":      Halves,
	"activations": Activations, "attention": Attention, "reductions": Reductions, "rotary": Rotary, "scales": Scales,
	"scattered": Scattered, "factored": Factored, "groups": Groups, "shared": Shared, "quantised": Quantised,
	"integers": Integers, "transposes": Transposes, "branches": Branches, "common": Common, "dead": Dead, "expand": Expand,
	"fold": Fold, "identities": Identities, "joined": Joined, "repeats": weighed(Repeats), "layout": weighed(Layout),
	"beside": func(m *ir.Module) error {
		return errors.Join(Layout(m, onCPU), Beside(m, onCPU))
	}, "exactly": weighed(LayoutWithoutHoles), "winograd2": inTilesOf(2), "winograd4": inTilesOf(4),
	"stages2": inStagesOf(2),
	"stages4": inStagesOf(4), "narrow": Narrow, "chunk": chunkAll,
}

// onCPU are the costs on a processor.
var onCPU = recipes.CostsOn(target.Portable(1))

// weighed is a pass with these costs.
func weighed(run func(m *ir.Module, costs recipes.Costs) error) func(*ir.Module) error {
	return func(m *ir.Module) error { return run(m, onCPU) }
}

// inTilesOf is Layout, and then Winograd with tiles of one size.
func inTilesOf(tile int64) func(*ir.Module) error {
	return func(m *ir.Module) error { return errors.Join(Layout(m, onCPU), WinogradAs(m, onCPU, tile)) }
}

// inStagesOf is WinogradForBlocks with tiles of one size.
func inStagesOf(tile int64) func(*ir.Module) error {
	return func(m *ir.Module) error { return WinogradForBlocksAs(m, tile) }
}

// TestText runs the cases of testdata/*.txt: a line "== pass title", the declarations of a module, a line "--", the
// rules that fired, and the module after the pass and Dead. What a case computes before and after is the same for
// random arguments of random shapes.
func TestText(t *testing.T) {
	goldentest.Run(t, *rewrite, runCase)
}

func runCase(t *testing.T, head, source string) string {
	run := commands[strings.Fields(head)[0]]
	if run == nil {
		t.Fatalf("%s: no such pass", head)
	}
	before, after := irtest.Parse(t, head, source, nil), irtest.Parse(t, head, source, nil)
	var names []string
	fired = func(rule string) { names = append(names, rule) }
	defer func() { fired = nil }()
	for _, pass := range []func(*ir.Module) error{run, Dead} {
		text, digest := after.String(), after.Digest()
		if err := pass(after); err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		if changed := after.String() != text; changed && after.Digest() == digest {
			t.Errorf("%s: the module has changed, and its digest has not: it would not be verified", head)
		}
		if err := ir.Verify(after); err != nil {
			t.Fatalf("%s: the result: %v\n%s", head, err, after)
		}
	}
	for seed := range uint64(6) {
		if err := sameResults(before, after, seed); err != nil {
			t.Errorf("%s: seed %d: %v\n%s", head, seed, err, after)
		}
	}
	text := strings.TrimSuffix(strings.TrimPrefix(after.String(), "weir 1\nir @m {\n"), "}\n")
	if len(names) > 0 {
		text = "fires " + strings.Join(names, ", ") + "\n" + text
	}
	return text
}

// sameResults evaluates two modules with the same parameters on random arguments of random shapes.
func sameResults(before, after *ir.Module, seed uint64) error {
	args := irtest.Arguments(before, rand.New(rand.NewPCG(seed, 1)))
	want, err := ir.Evaluate(before, args, nil)
	if err != nil {
		return fmt.Errorf("before: %w", err)
	}
	got, err := ir.Evaluate(after, args, nil)
	if err != nil {
		return fmt.Errorf("after: %w", err)
	}
	for i := range want {
		tolerance := map[dtype.DType]float64{dtype.F16: 4e-3, dtype.BF16: 3e-2, dtype.F64: 1e-6}[want[i].DType()]
		tolerance = max(tolerance, 1e-5)
		if !want[i].DType().IsFloat() {
			tolerance = 0
		}
		if err := tensor.Compare(got[i], want[i], tolerance, tolerance); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}

// TestUnbuilt has each node of the cases of Layout, in its turn, turn out not to be buildable with its channels last:
// the module stays valid and computes the same.
func TestUnbuilt(t *testing.T) {
	defer func() { unbuilt = nil }()
	count := 0
	for head, source := range cases(t, "testdata/layout.txt") {
		before := irtest.Parse(t, head, source, nil)
		for k := 0; ; k++ {
			at := -1
			unbuilt = func(*ir.Node) bool { at++; return at == k }
			after := irtest.Parse(t, head, source, nil)
			if err := Layout(after, onCPU); err != nil {
				t.Fatalf("%s: %v", head, err)
			}
			if at < k {
				break
			}
			count++
			if err := ir.Verify(after); err != nil {
				t.Errorf("%s without node %d: %v\n%s", head, k, err, after)
				continue
			}
			for seed := range uint64(2) {
				if err := sameResults(before, after, seed); err != nil {
					t.Errorf("%s without node %d: %v\n%s", head, k, err, after)
				}
			}
		}
	}
	if count < 30 {
		t.Errorf("only %d nodes", count)
	}
}

// cases are the cases of a file: source by head.
func cases(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, one := range strings.Split("\n"+string(data), "\n== ")[1:] {
		head, body, _ := strings.Cut(one, "\n")
		list[head], _, _ = strings.Cut(body, "\n--\n")
	}
	return list
}

// TestNames holds passes to ir.Value.TakeName: one that sets a name itself may leave two values of one name.
func TestNames(t *testing.T) {
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		tree, err := goparser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok {
				for _, to := range a.Lhs {
					if s, ok := to.(*ast.SelectorExpr); ok && s.Sel.Name == "Name" {
						t.Errorf("%s sets a Name", file)
					}
				}
			}
			return true
		})
	}
}

// TestRules holds every rule to a case in which it fires.
func TestRules(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	var names []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if list, ok := strings.CutPrefix(strings.TrimSpace(line), "fires "); ok {
				names = append(names, strings.Split(list, ", ")...)
			}
		}
	}
	for _, op := range ir.Ops() {
		def, name := op.(*ops.Def), op.Name()
		// reductions share a rule
		if def.Narrow == nil || def.Elementwise || strings.HasPrefix(name, "reduce_") {
			continue
		}
		if !slices.Contains(names, "less "+name) {
			t.Errorf("no case in testdata has slices move up through %s", name)
		}
	}
	for _, table := range tables {
		for _, rule := range table {
			if !slices.Contains(names, rule.name) {
				t.Errorf("no case in testdata has rule %q fire", rule.name)
			}
		}
	}
}

// tables are all rules.
var tables = [][]rule{identities, activations, reductions, transposes, rotary, attentions, scales, quantised, integers,
	joined, repeatsBy(onCPU)}

// chunkAll is Chunk around every node.
func chunkAll(m *ir.Module) error {
	Chunk(m, onCPU, func(*ir.Node) bool { return true }, 0)
	return nil
}
