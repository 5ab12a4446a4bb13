package accuracy

import (
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// TestReductionsBound holds operators that reduce a row, or a window of it, to the bounds of docs/accuracy.md. All but
// the maximum read magnitudes, so that no sum cancels; TestRowsBound has sums that do.
func TestReductionsBound(t *testing.T) {
	const n, window = 500, 5
	reductions := map[string]struct {
		node  *wire.NodeProto
		limit func(want, sum, greatest float64) float64 // of the result, the row's Σ|x| and max|x|
		want  func(x []float64) float64
	}{
		"L1": {weirtest.NodeOf("ReduceL1 x y"), func(y, _, _ float64) float64 { return n * unit * y }, total},
		"SumSquare": {weirtest.NodeOf("ReduceSumSquare x y"), func(y, _, _ float64) float64 {
			return (n+1)*unit*y + n*0x1p-149
		}, squares},
		"L2": {weirtest.NodeOf("ReduceL2 x y"), func(y, _, _ float64) float64 {
			return (n/2+2)*unit*y + 32*0x1p-74
		}, func(x []float64) float64 { return math.Sqrt(squares(x)) }},
		"LogSum": {weirtest.NodeOf("ReduceLogSum x y"), func(y, _, _ float64) float64 {
			return (n + 2 + 2*math.Abs(y)) * unit
		}, func(x []float64) float64 { return math.Log(total(x)) }},
		"LogSumExp": {weirtest.NodeOf("ReduceLogSumExp x y"), func(y, _, greatest float64) float64 {
			return (n + 4 + 2*greatest + 2*math.Abs(y)) * unit
		}, logSumExp},
		"Prod": {weirtest.NodeOf("ReduceProd x y"), func(y, _, _ float64) float64 { return n * unit * y },
			func(x []float64) float64 {
				product := 1.0
				for _, v := range x {
					product *= v
				}
				return product
			}},
		"Pool by squares": {weirtest.NodeOf("GlobalLpPool x y"), func(y, _, _ float64) float64 {
			return (n/2+2)*unit*y + 32*0x1p-74
		}, func(x []float64) float64 { return math.Sqrt(squares(x)) }},
		"Pool by cubes": {weirtest.NodeOf("GlobalLpPool x y", wire.IntAttribute("p", 3)),
			func(y, _, _ float64) float64 {
				return (n + 12 + math.Abs(math.Log(y))) * unit * y
			}, func(x []float64) float64 {
				cubes := 0.0
				for _, v := range x {
					cubes += v * v * v
				}
				return math.Cbrt(cubes)
			}},
		"AveragePool": {weirtest.NodeOf("GlobalAveragePool x y"), func(_, sum, _ float64) float64 {
			return (n + 1) * unit * sum / n
		}, func(x []float64) float64 { return total(x) / n }},
	}
	r := rand.New(rand.NewSource(16))
	for name, c := range reductions {
		inputs := []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(1), wire.Size(n))}
		if strings.HasPrefix(c.node.OpType, "Reduce") {
			c.node.Input = append(c.node.Input, "axes")
		}
		everyLevel(t, oneNode(c.node, inputs, map[string][]int64{"axes": {2}}), weir.Options{},
			func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
				for kind := range weirtest.Rough {
					x := weirtest.Roughly(r, kind, n)
					for i, v := range x {
						if x[i] = float32(math.Abs(float64(v))); name == "Prod" {
							x[i] = float32(math.Exp(0.1 * weirtest.Rough["normal"](r)))
						}
					}
					wide, greatest := wider(x), 0.0
					for _, v := range wide {
						greatest = max(greatest, v)
					}
					want := c.want(wide)
					limit := c.limit(want, total(wide), greatest) + n*0x1p-149
					if got := float64(run(map[string][]float32{"x": x},
						map[string][]int{"x": {1, 1, n}})[0]); !(math.Abs(got-
						want) <= limit) && want < math.MaxFloat32 && (kind != "subnormal" || name != "Pool by cubes") {
						t.Errorf("%s, %s, %s: %g, not %g: %.3g away, at most %.3g", name, cpu, kind, got, want,
							math.Abs(got-want), limit)
					}
				}
			})
	}
	for _, beta := range []float32{0.75, 0.6} {
		node := weirtest.NodeOf("LRN x y", wire.IntAttribute("size", window), wire.FloatAttribute("alpha", 0.5),
			wire.FloatAttribute("beta", beta), wire.FloatAttribute("bias", 1))
		inputs := []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(n), wire.Size(1))}
		everyLevel(t, oneNode(node, inputs, nil), weir.Options{},
			func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
				for kind := range weirtest.Rough {
					x := weirtest.Roughly(r, kind, n)
					for i, got := range run(map[string][]float32{"x": x}, map[string][]int{"x": {1, n, 1}}) {
						around := wider(x[max(i-window/2, 0):min(i+window/2+1, n)])
						want := float64(x[i]) / math.Pow(1+0.5/window*squares(around), float64(beta))
						if limit := (float64(beta)*(window+5)+4)*unit*math.Abs(want) + 0x1p-149; !(math.Abs(float64(got)-want) <= limit) {
							t.Errorf("LRN, %s, %s: y[%d] is %g, not %g: %.3g away, at most %.3g", cpu, kind, i, got,
								want,
								math.Abs(float64(got)-want), limit)
						}
					}
				}
			})
	}
}

// wider returns elements as f64.
func wider(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// total returns the sum of x.
func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// squares returns the sum of the squares of x.
func squares(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}

// logSumExp returns the logarithm of the sum of the exponentials of x.
func logSumExp(x []float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}
