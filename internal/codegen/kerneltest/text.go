package kerneltest

import (
	"strings"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text/goldentest"
)

// Texts runs the cases of testdata/*.txt: a line "== MACHINE: title", the ranges of a kernel's dimensions and the
// kernel, a line "--", and the text that show returns for its code. of returns the harness for a machine's name; if
// runs is true, the code also runs, and its results must be the interpreter's.
func Texts(t *testing.T, rewrite bool, of func(t *testing.T, name string) (h Harness, runs bool),
	show func(t *testing.T, h Harness, m *loop.Module) string) {
	goldentest.Run(t, rewrite, func(t *testing.T, head, source string) string {
		name, _, titled := strings.Cut(head, ": ")
		if !titled {
			t.Fatalf("%s: it does not begin with MACHINE: ", head)
		}
		m, err := loop.Parse("weir 1\nloop @m {\n"+source+"\nbody { } }", loop.ParseOptions{})
		if err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		if len(m.Kernels) != 1 {
			t.Fatalf("%s: %d kernels, want one", head, len(m.Kernels))
		}
		k := m.Kernels[0]
		if _, err := loop.Verify(k, m.Dims); err != nil {
			t.Fatalf("%s: %v", head, err)
		}
		h, runs := of(t, name)
		for _, n := range []int64{1, 3, 21} {
			dims := map[sym.Name]int64{}
			for _, name := range k.Dims {
				r, _ := m.Dims.Get(name)
				dims[name] = min(max(n, r.Min), r.Max)
			}
			var operands []*tensor.Tensor
			for _, p := range k.Params {
				x := Operand(t, p, dims)
				fillSmall(x)
				operands = append(operands, x)
			}
			if runs {
				h.Agree(t, k, dims, operands, 1e-4, 1)
			}
		}
		return show(t, h, m)
	})
}

// LimitsOf is a harness for Texts: of a device with limits, whose code does not run.
func LimitsOf(t *testing.T, limits string) (h Harness, runs bool) {
	machine, err := target.ParseLimits(limits)
	if err != nil {
		t.Fatal(err)
	}
	return Harness{Machine: machine}, false
}

// fillSmall sets a tensor's elements to small numbers, of both signs if the type has them.
func fillSmall(x *tensor.Tensor) {
	for i := range x.Len() {
		v := i*7%13 - 5
		switch dt := x.DType(); {
		case dt.IsFloat():
			x.SetFloat(i, float64(v)/4)
		case dt.IsSigned():
			x.SetInt(i, v)
		default:
			x.SetInt(i, max(v, 0))
		}
	}
}
