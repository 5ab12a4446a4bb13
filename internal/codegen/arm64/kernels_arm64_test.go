package arm64

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/portable"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// harness returns a harness that compiles with this package for a level of processors.
func harness(t testing.TB, machine target.Machine) kerneltest.Harness {
	return kerneltest.Harness{Machine: machine, Compile: func(m *loop.Module, machine target.Machine) (*target.Code,
		error) {
		code, err := Compile(m, machine)
		if err == nil && code.Release != nil {
			t.Cleanup(func() { code.Release() })
		}
		return code, err
	}}
}

// levels runs a test with the code for each level of processors that this processor has; in a short run for the lowest
// and the highest of them.
func levels(t *testing.T, test func(t *testing.T, h kerneltest.Harness)) {
	var list []target.Machine
	for _, cpu := range []string{"neon", "dotprod", "i8mm", "bf16"} {
		machine, err := target.For(cpu, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(machine.Lacks()) == 0 {
			list = append(list, machine)
		}
	}
	if testing.Short() && len(list) > 2 {
		list = []target.Machine{list[0], list[len(list)-1]}
	}
	for _, machine := range list {
		t.Run(machine.CPU, func(t *testing.T) { test(t, harness(t, machine)) })
	}
}

// lowest runs a test with the code for every processor: what it compiles has no other instructions.
func lowest(t *testing.T, test func(t *testing.T, h kerneltest.Harness)) {
	machine, err := target.For("neon", 1)
	if err != nil {
		t.Fatal(err)
	}
	test(t, harness(t, machine))
}

// The tests from here on run the suites of package kerneltest, which compare kernels with the interpreter.

func TestFunctions(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { some(h).Functions(t) })
}
func TestConversions(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { some(h).Conversions(t) })
}
func TestSpecials(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { some(h).Specials(t) })
}
func TestPowers(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.Powers(t) })
}
func TestQuantisations(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { some(h).Quantisations(t) })
}
func TestFewBits(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.FewBits(t) })
}
func TestCheck(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.Checks(t) })
}
func TestOutside(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.Outside(t) })
}
func TestEarly(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.Early(t) })
}
func TestWide(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.Wide(t); h.Chosen(t) })
}
func TestContractions(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) { some(h).Contractions(t); h.EmptyContractions(t) })
}
func TestCourses(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.Courses(t) })
}
func TestTilesAtOnce(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) { h.TilesAtOnce(t) })
}

// some returns a harness that runs one of several cases in a short run: the interpreter is slow on an emulated
// processor.
func some(h kerneltest.Harness) kerneltest.Harness {
	if testing.Short() && h.Take == nil {
		return h.One(29)
	}
	return h
}

// count returns a number of cases, or less of them in a short run.
func count(all int64) int64 {
	if testing.Short() {
		return all / 20
	}
	return all
}

func TestRandomKernels(t *testing.T) {
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for seed := range count(500) {
			h.Random(t, seed, seed%2 == 1)
		}
	})
}

// TestFewRegisters runs random kernels with so few vector registers that most values are spilled.
func TestFewRegisters(t *testing.T) {
	vectorRegisters = 8
	defer func() { vectorRegisters = 32 }()
	lowest(t, func(t *testing.T, h kerneltest.Harness) {
		for seed := range count(300) {
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
		t.Run("contractions", some(h).Contractions)
		t.Run("empty contractions", h.EmptyContractions)
		for seed := range count(300) {
			t.Run(fmt.Sprint("random", seed), func(t *testing.T) { h.Random(t, 2000+seed, seed%2 == 1) })
		}
	})
}

// TestLanes compares loops in lanes with the interpreter.
func TestLanes(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) {
		some(h).Lanes(t)
		h.Guarded = true
		some(h).Borders(t)
		some(h).Strided(t)
		some(h).One(7).Lanes(t)
	})
}

// TestProducts compares products of all forms with the interpreter: of floats, narrow operands, groups of bytes and
// bf16, with quantised results, and in blocks. A tile has at most eight vectors.
func TestProducts(t *testing.T) {
	rows, widths := []int64{0, 0, 6, 13}, []int64{16, 12, 24, 8, 32}
	levels(t, func(t *testing.T, h kerneltest.Harness) {
		for _, cases := range [][]kerneltest.Product{kerneltest.Products(int(count(200)), rows, widths),
			kerneltest.NarrowProducts(int(count(200)), rows, widths), h.GroupedProducts(int(count(200)), rows, widths),
			h.QuantisedProducts(int(count(240)), rows, widths)} {
			for _, c := range cases {
				t.Run(c.String(), func(t *testing.T) { c.Agree(t, h) })
			}
		}
		h.RaggedBlocks(t)
	})
}

// TestSums compares sums along rows and columns, moves and dot products with the interpreter.
func TestSums(t *testing.T) {
	lowest(t, func(t *testing.T, h kerneltest.Harness) {
		h = some(h)
		h.SumOfAll(t)
		h.ColumnSums(t)
		h.RowSums(t)
		h.DotSums(t)
		h.SmallSums(t)
	})
}

// TestHostile compares hostile kernels with the interpreter.
func TestHostile(t *testing.T) {
	list := []kerneltest.Harness{{Compile: portable.Compile}}
	machine := target.Host(1)
	list = append(list, kerneltest.Harness{Compile: Compile, Machine: machine})
	kerneltest.Hostiles(t, 400, list...)
}
