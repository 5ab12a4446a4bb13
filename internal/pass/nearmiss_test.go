package pass

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ir/irtest"
	"github.com/weirml/weir/internal/tensor"
)

// miss is one change of a case of testdata that a pass must notice.
type miss struct {
	what   string
	change func(m *ir.Module)
}

// misses lists the changes of a module: of each attribute, of one element or all of each constant, of the order of two
// operands, and of the readers of a value.
func misses(m *ir.Module) (list []miss) {
	add := func(what string, change func(m *ir.Module)) { list = append(list, miss{what, change}) }
	for i, n := range m.Main.Body.Nodes {
		at := func(m *ir.Module) *ir.Node { return m.Main.Body.Nodes[i] }
		for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
			for _, other := range others(n.Attrs[name]) {
				add(fmt.Sprintf("%s: %s = %v", n.Outputs[0].Name, name, other), func(m *ir.Module) {
					n := at(m)
					n.Attrs = with(n, ir.Attrs{name: other})
				})
			}
		}
		if len(n.Inputs) == 2 && n.Inputs[0] != nil && n.Inputs[1] != nil && n.Inputs[0] != n.Inputs[1] {
			add(n.Outputs[0].Name+": operands the other way round", func(m *ir.Module) {
				n := at(m)
				n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0]
			})
		}
		for k, v := range n.Outputs {
			if !slices.Contains(m.Main.Body.Results, v) {
				add(v.Name+" is read", func(m *ir.Module) { m.Main.Body.Results = append(m.Main.Body.Results, at(m).Outputs[k]) })
			}
		}
	}
	for i, c := range m.Main.Body.Consts {
		if dt := c.Type.DType; c.Const == nil || c.Const.Len() == 0 || !dt.IsFloat() && !dt.IsInt() || dt.Bits() < 8 {
			continue
		}
		for _, by := range []float64{1.02, -1, 0} {
			for _, all := range []bool{false, true} {
				if all && c.Const.Len() == 1 {
					continue
				}
				add(fmt.Sprintf("%s by %g, all %v", c.Name, by, all), func(m *ir.Module) {
					v := m.Main.Body.Consts[i]
					v.Const, v.Known = v.Const.Clone(), nil
					for k := range v.Const.Len() {
						if k == 0 || all {
							scaleElement(v.Const, k, by)
						}
					}
				})
			}
		}
	}
	return list
}

// scaleElement multiplies an element of floats by a factor, and adds a small number to an integer instead.
func scaleElement(t *tensor.Tensor, k int64, by float64) {
	if t.DType().IsFloat() {
		t.SetFloat(k, t.Float(k)*by)
		return
	}
	t.SetInt(k, t.Int(k)+int64(2*by)-1)
}

// others returns other values of an attribute's type.
func others(v any) (list []any) {
	switch v := v.(type) {
	case bool:
		return []any{!v}
	case int64:
		return []any{v + 1, v - 1}
	case float64:
		return []any{v + 0.25, v * 1.02, -v}
	case []int64:
		for i := range v {
			for _, by := range []int64{1, -1} {
				w := slices.Clone(v)
				w[i] += by
				list = append(list, w)
			}
			if i > 0 {
				w := slices.Clone(v)
				w[i-1], w[i] = w[i], w[i-1]
				list = append(list, w)
			}
		}
	}
	return list
}

// inferred infers every node of a module again, after a change.
func inferred(m *ir.Module) (err error) {
	defer ir.Catch(&err)
	c := ir.NewInference(m)
	for _, n := range m.Main.Body.Nodes {
		if len(n.Regions) > 0 {
			continue
		}
		for _, v := range n.Outputs {
			if !v.Bound {
				v.Known = nil
			}
		}
		if err := n.Op.Infer(c, n); err != nil {
			return err
		}
	}
	return ir.Verify(m)
}

// finite reports whether all elements are numbers of ordinary size: no tolerance fits other numbers.
func finite(list []*tensor.Tensor) bool {
	for _, t := range list {
		for i := range t.Len() {
			if x := element(t, i); t.DType() != dtype.Bool && !(x > -1e6 && x < 1e6) {
				return false
			}
		}
	}
	return true
}

// knownMisses holds the changes after which a pass rounds more than this test allows: the reason, by a substring of the
// change's line.
var knownMisses = map[string]string{}

// TestNearMisses makes one change at a time to every case of testdata and runs its pass: the module's results stay the
// same, whether or not a rule still fires.
func TestNearMisses(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	total, still := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			_, rest, _ := strings.Cut("\n"+string(data), "\n== ")
			for _, one := range strings.Split(rest, "\n== ") {
				head, body, _ := strings.Cut(one, "\n")
				source, _, _ := strings.Cut(body, "\n--")
				for _, miss := range misses(irtest.Parse(t, head, source, nil)) {
					before, after := irtest.Parse(t, head, source, nil), irtest.Parse(t, head, source, nil)
					miss.change(before)
					miss.change(after)
					if inferred(before) != nil || inferred(after) != nil {
						continue // the changed module is not valid
					}
					total++
					fires, err := missed(head, before, after)
					if fires {
						still++
					}
					if line := head + ": " + miss.what; err != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(knownMisses)),
						func(k string) bool {
							return strings.Contains(line, k)
						}) {
						t.Errorf("%s: %v\nbefore\n%s\nafter\n%s", line, err, before, after)
					}
				}
			}
		})
	}
	t.Logf("%d changes; rules fire in %d", total, still)
}

// missed runs a case's pass over a module and compares it with the same module before.
func missed(head string, before, after *ir.Module) (fires bool, err error) {
	fired = func(string) { fires = true }
	defer func() { fired = nil }()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	for _, pass := range []func(*ir.Module) error{commands[strings.Fields(head)[0]], Dead} {
		if err := pass(after); err != nil {
			return fires, err
		}
		if err := ir.Verify(after); err != nil {
			return fires, fmt.Errorf("the result: %w", err)
		}
	}
	for seed := range uint64(3) {
		args := irtest.Arguments(before, rand.New(rand.NewPCG(seed, 1)))
		if want, err := ir.Evaluate(before, args, nil); err != nil || !finite(want) {
			continue
		}
		if err := sameResults(before, after, seed); err != nil {
			return fires, fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return fires, nil
}
