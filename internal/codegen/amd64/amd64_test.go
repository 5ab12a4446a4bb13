package amd64

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// harness returns a harness that compiles with this package for a level of processors. It skips the test if this
// processor does not have the level.
func harness(t testing.TB, cpu string) kerneltest.Harness {
	t.Helper()
	machine, err := target.Select(cpu, 1)
	if err != nil {
		t.Skip(err)
	}
	return kerneltest.Harness{Machine: machine, Compile: func(m *loop.Module, machine target.Machine) (*target.Code,
		error) {
		code, err := Compile(m, machine)
		if err == nil && code.Release != nil {
			t.Cleanup(func() { code.Release() })
		}
		return code, err
	}}
}

// dotLevels runs a test with the code for each way to add up products of small integers.
func dotLevels(t *testing.T, test func(t *testing.T, h kerneltest.Harness)) {
	for _, cpu := range []string{"avx2", "avxvnni", "avx512", "avx512vnni"} {
		t.Run(cpu, func(t *testing.T) { test(t, harness(t, cpu)) })
	}
}

// levels runs a test with the code for each level of processors that this processor has, and for AVX-512 once more with
// the register tile of the other maker's processors.
func levels(t *testing.T, test func(t *testing.T, h kerneltest.Harness)) {
	for _, cpu := range []string{"avx2", "avx512"} {
		t.Run(cpu, func(t *testing.T) { test(t, harness(t, cpu)) })
	}
	t.Run("avx512, another tile", func(t *testing.T) {
		h := harness(t, "avx512")
		tiles := map[bool]target.Tile{true: {Rows: 14, Columns: 32}, false: {Rows: 8, Columns: 48}}
		was := h.Machine.Halves()
		h.Machine.Tile = tiles[was]
		if h.Machine.Halves() == was {
			t.Fatal("tiles are not as package target has them")
		}
		test(t, h)
	})
}

// The tests from here on run the suites of package kerneltest, which compare kernels with the interpreter, for each
// level of processors.

func TestFunctions(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Functions(t) })
}
func TestConversions(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Conversions(t) })
}
func TestSpecials(t *testing.T) {
	for _, cpu := range []string{"avx2", "avx512"} {
		t.Run(cpu, func(t *testing.T) { harness(t, cpu).Specials(t) })
	}
}
func TestPowers(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Powers(t) })
}
func TestQuantisations(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Quantisations(t) })
}
func TestFewBits(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.FewBits(t) })
}
func TestCheck(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Checks(t) })
}
func TestOutside(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Outside(t) })
}
func TestEarly(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Early(t) })
}
func TestWide(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Wide(t); h.Chosen(t) })
}
func TestContractions(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Contractions(t); h.EmptyContractions(t) })
}
func TestCourses(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Courses(t) })
}

func TestSumOfAll(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.SumOfAll(t) })
}
func TestColumnSums(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.ColumnSums(t) })
}
func TestRowSums(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.RowSums(t) })
}
func TestNarrowSteps(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.NarrowSteps(t) })
}
func TestMoves(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Moves(t) })
}
func TestSmallSums(t *testing.T) {
	dotLevels(t, func(t *testing.T, h kerneltest.Harness) { h.SmallSums(t) })
}
func TestDotSums(t *testing.T) {
	dotLevels(t, func(t *testing.T, h kerneltest.Harness) { h.DotSums(t) })
}
func TestElementsApart(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.ElementsApart(t) })
}
func TestBroadcastOperands(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.BroadcastOperands(t) })
}
func TestConversionsInLanes(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.ConversionsInLanes(t) })
}
func TestPacked(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.Packed(t) })
}
func TestRaggedBlocks(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.RaggedBlocks(t) })
}

func TestTilesAtOnce(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { h.TilesAtOnce(t) })
}

func TestRandomKernels(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for seed := range int64(500) {
			h.Random(t, seed, seed%2 == 1)
		}
	})
}

// TestFewRegisters runs random kernels with so few vector registers that most values are spilled.
func TestFewRegisters(t *testing.T) {
	for _, i := range []*isa{avx2, avx512} {
		defer func(n int) { i.registers = n }(i.registers)
		i.registers = 6
	}
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for seed := range int64(300) {
			h.Random(t, 1000+seed, seed%2 == 1)
		}
	})
}

// TestGuarded compares kernels with the interpreter while their operands lie beside pages that fault.
func TestGuarded(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		h.Guarded = true
		t.Run("functions", func(t *testing.T) { h.One(3).Functions(t) })
		t.Run("checks", h.Checks)
		t.Run("contractions", h.Contractions)
		t.Run("empty contractions", h.EmptyContractions)
		for seed := range int64(300) {
			t.Run(fmt.Sprint("random", seed), func(t *testing.T) { h.Random(t, 2000+seed, seed%2 == 1) })
		}
		for _, c := range kerneltest.Products(100, []int64{0, 6, 13}, []int64{16, 24, 8, 64, 40, 48}) {
			t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
		}
	})
}

// TestLanes compares loops in lanes with the interpreter. If the processor has AVX-512, all of them must be done in
// lanes.
func TestLanes(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		compile := h.Compile
		h.Compile = func(m *loop.Module, machine target.Machine) (*target.Code, error) {
			code, err := compile(m, machine)
			if err == nil && h.Machine.VectorBytes == 64 {
				for _, k := range code.Kernels {
					if slower := k.(*lanes.Kernel).Slower; len(slower) > 0 {
						t.Error(slower)
					}
				}
			}
			return code, err
		}
		h.Lanes(t)
		h.Guarded = true
		h.Borders(t)
		h.Strided(t)
		h.One(7).Lanes(t)
	})
}
