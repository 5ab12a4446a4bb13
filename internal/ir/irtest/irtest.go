// Package irtest has the parts of text cases about modules of ir, for tests of the packages that rewrite or lower them.
package irtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Parse parses the declarations of a module and verifies it, after prepare has changed it; prepare may be nil. head
// names the case in the test's failure.
func Parse(t *testing.T, head, source string, prepare func(*ir.Module) error) *ir.Module {
	t.Helper()
	m, err := ir.Parse("weir 1\nir @m {\n"+source+"\n}", ir.ParseOptions{})
	if err == nil && prepare != nil {
		err = prepare(m)
	}
	if err == nil {
		err = ir.Verify(m)
	}
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	return m
}

// Arguments draws tensors for the parameters of main. Each dimension gets an extent of its range, at most 5 more than
// the least.
func Arguments(m *ir.Module, r *rand.Rand) (list []*tensor.Tensor) {
	dims := map[sym.Name]int64{}
	for _, name := range m.Dims.Names() {
		d, _ := m.Dims.Get(name)
		dims[name] = d.Min + r.Int64N(min(d.Max-d.Min, 5)+1)
	}
	for _, p := range m.Main.Body.Params {
		shape := make([]int64, len(p.Type.Shape))
		for i, e := range p.Type.Shape {
			shape[i], _ = e.Eval(func(name sym.Name) (int64, bool) { v, ok := dims[name]; return v, ok })
		}
		x := tensor.Must(tensor.New(p.Type.DType, shape...))
		for i := range x.Len() {
			switch {
			case p.Type.DType.IsFloat():
				x.SetFloat(i, math.Round(r.NormFloat64()*64)/64)
			case p.Type.DType == dtype.Bool:
				x.SetInt(i, r.Int64N(2))
			case p.Type.DType == dtype.U8:
				x.SetInt(i, r.Int64N(256))
			default:
				x.SetInt(i, r.Int64N(3))
			}
		}
		list = append(list, x)
	}
	return list
}
