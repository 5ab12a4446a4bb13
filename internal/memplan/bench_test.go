package memplan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// network makes the buffers of a chain of layers with branches and skips, like those of an inference graph for the
// planner.
func network(layers int, dims ...string) memplan.Problem {
	random := rand.New(rand.NewPCG(5, 5))
	p := memplan.Problem{Dims: sym.NewDims(), Steps: layers + 1}
	batch := sym.Const(1)
	for _, name := range dims {
		p.Dims.Set(sym.User(name), sym.Range{Min: 1, Max: 512})
		batch = batch.Mul(sym.Dim(name))
	}
	for i := range layers {
		size := batch.Mul(sym.Const(int64(4 * []int{10, 64, 77, 128, 1000, 3136, 12544}[random.IntN(7)])))
		if len(dims) > 1 && random.IntN(6) == 0 {
			size = size.Mul(sym.Dim(dims[1])) // attention's scores
		}
		last := i + 1
		if random.IntN(3) == 0 {
			last = min(layers, i+1+random.IntN(8))
		}
		if random.IntN(40) == 0 {
			last = min(layers, i+1+random.IntN(layers/2)) // a long skip
		}
		p.Buffers = append(p.Buffers, memplan.Buffer{Name: fmt.Sprint("t", i), Size: size, First: i, Last: last})
	}
	return p
}

// BenchmarkPlan plans networks of several sizes.
func BenchmarkPlan(b *testing.B) {
	for name, p := range map[string]memplan.Problem{
		"static":     network(1000),
		"batch":      network(1000, "n"),
		"batch, seq": network(1000, "n", "s"),
		"random":     randomProblem(rand.New(rand.NewPCG(1, 1)), recipe{buffers: 1000, steps: 400}),
		"random, two": randomProblem(rand.New(rand.NewPCG(1, 1)),
			recipe{buffers: 1000, steps: 400, dims: []string{"n", "m"}}),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, err := memplan.Plan(p, memplan.Options{})
				if err != nil {
					b.Fatal(err)
				}
				text := s.Arena.String()
				b.ReportMetric(float64(len(text)), "formula-bytes")
				b.ReportMetric(float64(len(s.Layouts)), "layouts")
				c, err := s.Certify(func(sym.Name) (int64, bool) { return 64, true })
				if err == nil {
					b.ReportMetric(100*c.Gap, "gap-%")
				}
			}
		})
	}
}

// BenchmarkEval evaluates the offsets of a planned network.
func BenchmarkEval(b *testing.B) {
	p := network(1000, "n", "s")
	s, err := memplan.Plan(p, memplan.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, err := s.Evaluator(users("n", "s"))
	if err != nil {
		b.Fatal(err)
	}
	offsets, values := make([]int64, len(p.Buffers)), []int64{8, 128}
	for b.Loop() {
		if _, _, err := e.Eval(values, offsets); err != nil {
			b.Fatal(err)
		}
	}
}
