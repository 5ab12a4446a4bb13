package amd64

import (
	"testing"

	"github.com/weirml/weir/internal/codegen/kernelcheck"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// harness compiles with this package for this machine; levels says with which instruction sets.
func harness(t testing.TB) kernelcheck.Harness {
	t.Helper()
	machine, err := target.Select("native", 1)
	if err != nil {
		t.Skip(err)
	}
	return kernelcheck.Harness{Machine: machine, Compile: func(m *loop.Module, machine target.Machine) (*target.Code, error) {
		code, err := Compile(m, machine)
		if err == nil && code.Release != nil {
			t.Cleanup(func() { code.Release() })
		}
		return code, err
	}}
}

func TestFunctions(t *testing.T)    { harness(t).Functions(t) }
func TestPowers(t *testing.T)       { harness(t).Powers(t) }
func TestCheck(t *testing.T)        { harness(t).Checks(t) }
func TestContractions(t *testing.T) { harness(t).Contractions(t) }
func TestTilesAtOnce(t *testing.T)  { harness(t).TilesAtOnce(t) }

func TestRandomKernels(t *testing.T) {
	for seed := range int64(500) {
		harness(t).Random(t, seed, seed%2 == 1)
	}
}

// TestFewRegisters runs random kernels with so few vector registers that most values are spilled.
func TestFewRegisters(t *testing.T) {
	defer func(n int) { avx2.registers = n }(avx2.registers)
	avx2.registers = 6
	for seed := range int64(300) {
		harness(t).Random(t, 1000+seed, seed%2 == 1)
	}
}
