package lanestest

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// machines runs a test with machines of several vectors, with all that a machine may have and with as little as it
// must have. The harness runs one of each `of` cases. Most kernels must be done in lanes.
func machines(t *testing.T, of int, test func(t *testing.T, h kerneltest.Harness)) {
	for _, m := range []Machine{{Lanes: 4}, {Lanes: 8, Most: true}, {Lanes: 16, Most: true}, {Lanes: 4, Most: true},
		{Lanes: 8}} {
		t.Run(fmt.Sprintf("%d lanes, most %v", m.Lanes, m.Most), func(t *testing.T) {
			compiled, portable := 0, []string(nil)
			h := kerneltest.Harness{Machine: target.Machine{VectorBytes: 4 * m.Lanes}, Compile: func(module *loop.Module,
				machine target.Machine) (*target.Code, error) {
				code, left, err := m.Compile(module, machine)
				compiled += len(module.Kernels) - len(left)
				portable = append(portable, left...)
				return code, err
			}}
			test(t, h.One(of))
			if len(portable)*2 > compiled { // functions of f64, products, and a few others
				t.Errorf("%d kernels are done in lanes, and these are not: %v", compiled, portable)
			}
		})
	}
}

// The tests from here on run the suites of package kerneltest, which compare kernels with the interpreter of package
// loop.

func TestFunctions(t *testing.T) {
	machines(t, 7, func(t *testing.T, h kerneltest.Harness) { h.Functions(t) })
}
func TestConversions(t *testing.T) {
	machines(t, 3, func(t *testing.T, h kerneltest.Harness) { h.Conversions(t) })
}
func TestSpecials(t *testing.T) {
	machines(t, 9, func(t *testing.T, h kerneltest.Harness) { h.Specials(t) })
}
func TestPowers(t *testing.T) {
	machines(t, 3, func(t *testing.T, h kerneltest.Harness) { h.Powers(t) })
}
func TestQuantisations(t *testing.T) {
	machines(t, 3, func(t *testing.T, h kerneltest.Harness) { h.Quantisations(t) })
}
func TestFewBits(t *testing.T) {
	machines(t, 3, func(t *testing.T, h kerneltest.Harness) { h.FewBits(t) })
}
func TestChecks(t *testing.T) {
	machines(t, 1, func(t *testing.T, h kerneltest.Harness) { h.Checks(t); h.Outside(t); h.Early(t) })
}
func TestWide(t *testing.T) {
	machines(t, 3, func(t *testing.T, h kerneltest.Harness) { h.Wide(t); h.Chosen(t) })
}
func TestLanes(t *testing.T) {
	machines(t, 3, func(t *testing.T, h kerneltest.Harness) { h.Lanes(t); h.Borders(t); h.Strided(t) })
}
func TestRandomKernels(t *testing.T) {
	machines(t, 1, func(t *testing.T, h kerneltest.Harness) {
		for seed := range int64(60) {
			h.Random(t, seed, seed%2 == 1)
		}
	})
}
