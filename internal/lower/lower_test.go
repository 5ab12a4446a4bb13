package lower

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text/goldentest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected results in testdata")

// TestText runs the cases of testdata/*.txt: a line "== title", the declarations of an ir module, a line "--", and the
// loop module that it is lowered to. If the title begins with "expanded:", composed operators are expanded first; if it
// begins with "blocks:", the module is lowered for a machine with blocks of threads. For random
// arguments of random shapes, the loops' results equal those of the ir.
func TestText(t *testing.T) { goldentest.Run(t, *rewrite, runCase) }

// runCase lowers one case, compares its results with the interpreter's, and returns the loop module's text.
func runCase(t *testing.T, head, source string) string {
	t.Helper()
	var prepare func(*ir.Module) error
	if strings.HasPrefix(head, "expanded:") {
		prepare = pass.Expand
	}
	from := irtest.Parse(t, head, source, prepare)
	to, err := For(from, strings.HasPrefix(head, "blocks:"))
	if err != nil {
		return err.Error()
	}
	if _, err := loop.VerifyModule(to); err != nil {
		t.Fatalf("%s: the loops: %v\n%s", head, err, to)
	}
	ran := 0
	for seed := range uint64(8) {
		runs, err := sameResults(from, to, seed)
		if err != nil {
			t.Errorf("%s: seed %d: %v\n%s", head, seed, err, to)
		}
		if runs {
			ran++
		}
	}
	if ran == 0 {
		t.Errorf("%s: the arguments of every seed are refused", head)
	}
	return strings.TrimSuffix(strings.TrimPrefix(to.String(), "weir 1\nloop @m {\n"), "}\n")
}

// sameResults evaluates a module and interprets its loops on random arguments of random shapes. runs is false if both
// refuse the arguments.
func sameResults(from *ir.Module, to *loop.Module, seed uint64) (runs bool, err error) {
	in := irtest.Arguments(from, rand.New(rand.NewPCG(seed, 1)))
	want, wantErr := ir.Evaluate(from, in, nil)
	named := map[string]*tensor.Tensor{}
	for i, p := range from.Main.Body.Params {
		named[p.Name] = in[i]
	}
	got, gotErr := (&loop.Runner{Host: runHost}).Run(to, named)
	if wantErr != nil && gotErr != nil {
		return false, nil
	}
	if wantErr != nil || gotErr != nil {
		return false, fmt.Errorf("ir: %v; loops: %v", wantErr, gotErr)
	}
	for _, b := range to.Buffers {
		if b.Kind != loop.Output {
			continue
		}
		tolerance := map[dtype.DType]float64{dtype.F16: 4e-3, dtype.BF16: 3e-2, dtype.F64: 1e-9}[b.DType]
		if tolerance = cmp.Or(tolerance, 1e-5); !b.DType.IsFloat() {
			tolerance = 0
		}
		if err := tensor.Compare(got[b.Name], want[0], tolerance, tolerance); err != nil {
			return true, fmt.Errorf("%%%s: %w", b.Name, err)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		return true, fmt.Errorf("%d results have no output buffer", len(want))
	}
	return true, nil
}

// runHost computes a host step.
func runHost(s *loop.Host, in []*tensor.Tensor, dims func(sym.Name) (int64, bool)) ([]*tensor.Tensor, error) {
	attrs := map[string]any{}
	for key, v := range s.Attrs {
		attrs[key] = v
		if e, ok := v.(sym.Expr); ok {
			value, err := e.Eval(dims)
			if err != nil {
				return nil, err
			}
			attrs[key] = value
		}
	}
	var types []dtype.DType
	for _, b := range s.Out {
		types = append(types, b.DType)
	}
	return hostop.Apply(s.Op, attrs, in, types)
}
