package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// naming says which extents of a model's inputs become dimensions, and their names.
type naming struct {
	name string
	of   func(input string, axis int, extent int64) string // "": it stays a number
}

// TestSymbolic runs ONNX's own cases with the extents of their inputs made dimensions. Cases that compile must give the
// same results; if two dimensions have to be equal and the data have 1 and n, the run is refused at its entry.
func TestSymbolic(t *testing.T) {
	data := official(t)
	for _, n := range []naming{
		{"each its own name", func(input string, axis int, _ int64) string { return fmt.Sprintf("%s_%d", input, axis) }},
		{"equal extents one name, and 1 a number", func(_ string, _ int, extent int64) string {
			if extent == 1 {
				return ""
			}
			return fmt.Sprintf("n%d", extent)
		}},
	} {
		t.Run(n.name, func(t *testing.T) { n.sweep(t, data) })
	}
}

// sweep runs all cases in data with extents named.
func (n naming) sweep(t *testing.T, data string) {
	var dirs []string
	for _, kind := range []string{"node", "simple", "pytorch-operator", "pytorch-converted"} {
		dirs = append(dirs, filepath.Join(data, kind))
	}
	all, err := Find(dirs)
	if err != nil {
		t.Fatal(err)
	}
	all = weirtest.Part(all, 8)
	root := t.TempDir()
	var cases []Case
	for _, c := range all {
		changed, err := n.rewrite(c, filepath.Join(root, c.Name))
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			rewritten, err := Find([]string{filepath.Join(root, c.Name)})
			if err != nil || len(rewritten) != 1 {
				t.Fatal(c.Name, len(rewritten), err)
			}
			rewritten[0].Rtol = c.Rtol
			cases = append(cases, rewritten[0])
		}
	}
	passed, unequal, reasons := 0, 0, map[string]int{}
	for _, r := range runAll(t, cases, weir.Options{}) {
		switch {
		case r.Verdict == Pass:
			passed++
		case r.Verdict == Refused:
			reasons[reason(r.Why)]++
		case strings.Contains(r.Why, " does not hold: "):
			unequal++
		default:
			t.Errorf("%s: %s", r.Name, r.Why)
		}
	}
	t.Logf("%d of %d cases have dimensions: %d pass, %d are refused at entry by a condition", len(cases), len(all), passed,
		unequal)
	var rows []string
	for why, count := range reasons {
		rows = append(rows, fmt.Sprintf("%4d %s", count, why))
	}
	sort.Sort(sort.Reverse(sort.StringSlice(rows)))
	t.Logf("not compiled:\n%s", strings.Join(rows, "\n"))
}

// reason returns a refusal without the names of its model.
func reason(why string) string {
	if at := strings.Index(why, "model.onnx: "); at >= 0 {
		why = why[at+len("model.onnx: "):]
	}
	if len(why) > 160 {
		why = why[:160]
	}
	return why
}

// rewrite copies a case with its inputs' extents renamed, and without the declared shapes of its outputs and inner
// tensors. It reports whether there was an extent to rename.
func (n naming) rewrite(c Case, dir string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, "model.onnx"))
	if err != nil {
		return false, err
	}
	m, err := wire.ParseModel(text)
	if err != nil {
		return false, err
	}
	changed := false
	for _, in := range m.Graph.Input {
		if in.Type == nil || in.Type.TensorType == nil || in.Type.TensorType.Shape == nil {
			continue
		}
		for axis, d := range in.Type.TensorType.Shape.Dim {
			if d.Param != "" {
				continue
			}
			if name := n.of(in.Name, axis, d.Value); name != "" {
				in.Type.TensorType.Shape.Dim[axis] = &wire.Dimension{Param: name}
				changed = true
			}
		}
	}
	m.Graph.ValueInfo = nil
	for _, out := range m.Graph.Output {
		if out.Type != nil && out.Type.TensorType != nil {
			out.Type.TensorType.Shape = nil
		}
	}
	if !changed {
		return false, nil
	}
	if err := os.CopyFS(dir, os.DirFS(c.Dir)); err != nil {
		return false, err
	}
	if err := os.Remove(filepath.Join(dir, "model.onnx")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	return true, os.WriteFile(filepath.Join(dir, "model.onnx"), m.Marshal(), 0o644)
}
