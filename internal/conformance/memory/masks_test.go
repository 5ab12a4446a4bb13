package memory

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// The heads, and the elements of a query, of the models below: few elements, so that a tensor of scores is larger than
// all others together.
const maskHeads, maskSize = 6, 4

// readsHidden is a model whose biases of hidden keys reach the results if they are NaN or +∞, but not after Weir has
// recognised its attention: docs/accuracy.md.
const readsHidden = "choice before the sum"

// maskModels compute the scores of attention, %o, from scaled products, %t, a bias for each head, %p, and the keys that
// a sequence has, as bools in %m and as numbers to add in %a: as models spell them out, and as a mask of the operator
// attention.
var maskModels = map[string]string{
	"sum": `%u: f32[b, 6, n, n] = add(%t, %p)
    %o: f32[b, 6, n, n] = add(%u, %a)`,
	"sum of masks": `%u: f32[b, 6, n, n] = add(%a, %p)
    %o: f32[b, 6, n, n] = add(%t, %u)`,
	"choice": `%u: f32[b, 6, n, n] = add(%t, %p)
    %o: f32[b, 6, n, n] = where(%m, %u, %lowest)`,
	readsHidden: `%u: f32[b, 6, n, n] = where(%m, %t, %never)
    %o: f32[b, 6, n, n] = add(%u, %p)`,
	"operator": `%u: f32[b, 6, n, n] = where(%m, %p, %lowest)
    %w: f32[b, 6, n, n] = transpose(%u) {perm = ints [0, 1, 3, 2]}
    %y: f32[b, 6, n, 4] = attention(%x, %k, %v, %w) {scale = float 0.5, past = sym 0}`,
}

// masked returns a model of layers of attention that share a bias and a mask: a layer's queries are the result of the
// one before.
func masked(t *testing.T, scores string, layers int) *weir.Model {
	t.Helper()
	text := `weir 1
ir @masks {
  dim b in [1, 64]
  dim n in [1, 512]
  main @main(%x: f32[b, 6, n, 4], %k: f32[b, 6, n, 4], %v: f32[b, 6, n, 4], %p: f32[1, 6, n, n], %m: bool[b, 1, 1, n], ` +
		`%a: f32[b, 1, 1, n]) {
    const %c: f32[] = [0.5]
    const %lowest: f32[] = [-3.4028235e+38]
    const %never: f32[] = [-inf]
`
	whole := "    " + scores
	if !strings.Contains(scores, "attention") {
		whole = `    %s: f32[b, 6, n, n] = matmul(%x, %k) {transpose_a = bool false, transpose_b = bool true}
    %t: f32[b, 6, n, n] = mul(%s, %c)
    ` + scores + `
    %w: f32[b, 6, n, n] = softmax(%o) {axis = int 3}
    %y: f32[b, 6, n, 4] = matmul(%w, %v) {transpose_a = bool false, transpose_b = bool false}`
	}
	for i := range layers {
		layer := whole
		for _, name := range strings.Split("s t u o w y", " ") {
			layer = strings.ReplaceAll(layer, "%"+name+":", fmt.Sprintf("%%%s%d:", name, i))
			for _, end := range []string{",", ")"} {
				layer = strings.ReplaceAll(layer, "%"+name+end, fmt.Sprintf("%%%s%d%s", name, i, end))
			}
		}
		if i > 0 {
			layer = strings.ReplaceAll(layer, "(%x", fmt.Sprintf("(%%y%d", i-1))
		}
		text += layer + "\n"
	}
	text += fmt.Sprintf("    return %%y%d\n  }\n}\n", layers-1)
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(text)))
	t.Cleanup(func() { m.Close() })
	return m
}

// maskArguments draws arguments. The last sequence of several has no key at all; with special, biases are extreme here
// and there, and with nan also NaN, +∞ or near it.
func maskArguments(t *testing.T, r *rand.Rand, b, n int, special, nan bool) weir.Inputs {
	t.Helper()
	in := weir.Inputs{}
	float := func(name string, shape ...int) []float32 {
		x := weirtest.Must[*weir.Tensor](t)(weir.New(weir.F32, shape...))
		t.Cleanup(func() { x.Close() })
		in[name] = x
		list := weirtest.View[float32](t, x)
		for i := range list {
			list[i] = float32(r.NormFloat64())
		}
		return list
	}
	for _, name := range []string{"x", "k", "v"} {
		float(name, b, maskHeads, n, maskSize)
	}
	bias, added := float("p", 1, maskHeads, n, n), float("a", b, 1, 1, n)
	m := weirtest.Must[*weir.Tensor](t)(weir.New(weir.Bool, b, 1, 1, n))
	t.Cleanup(func() { m.Close() })
	in["m"] = m
	seen := weirtest.View[bool](t, m)
	for i := range seen {
		if seen[i] = (i%n == 0 || r.IntN(4) > 0) && (b == 1 || i/n < b-1); seen[i] {
			added[i] = 0
		} else {
			added[i] = -math.MaxFloat32
		}
	}
	inf := float32(math.Inf(1))
	for i := 0; special && i < len(bias); i += 1 + r.IntN(3*n) {
		if bias[i] = []float32{-inf, -math.MaxFloat32, 1e-40}[r.IntN(3)]; nan && r.IntN(2) == 0 {
			bias[i] = []float32{inf, float32(math.NaN()), 3e38}[r.IntN(3)]
		}
	}
	if special { // a row of −∞
		for i := range n {
			bias[(len(bias)/n/2)*n+i] = -inf
		}
	}
	return in
}

// TestMasks: attention with a bias for each head and a mask for each sequence computes what the interpreter does, takes
// the memory of its certificate, and never holds the bias and the mask joined, however a model writes them, at every
// level of instructions: also for a sequence without any key, and for biases that are infinite or NaN.
func TestMasks(t *testing.T) {
	for name, scores := range maskModels {
		t.Run(name, func(t *testing.T) {
			m := masked(t, scores, 2)
			programs := map[string]*weir.Program{}
			for _, cpu := range []string{"native", "avx512", "avx2", "portable", "reference"} {
				o := weir.Options{CPU: cpu, Threads: 2}
				if cpu == "reference" {
					o = weir.Options{Target: weir.Reference}
				}
				p, err := weir.Compile(t.Context(), m, o)
				if errors.Is(err, weir.ErrUnsupported) {
					t.Logf("no such processor: %v", err)
					continue
				}
				programs[cpu] = weirtest.Must[*weir.Program](t)(p, err)
				t.Cleanup(func() { p.Close() })
			}
			for i, size := range [][2]int{{1, 1}, {3, 2}, {2, 5}, {5, 17}, {3, 100}, {1, 173}} {
				r := rand.New(rand.NewPCG(uint64(i), 7))
				for _, special := range []bool{false, true} {
					in := maskArguments(t, r, size[0], size[1], special, name != readsHidden)
					want := maskResult(t, programs["reference"], in)
					for cpu, p := range programs {
						for k, x := range maskResult(t, p, in) {
							if d := math.Abs(float64(x - want[k])); !(d <= 2e-5) && (x == x || want[k] == want[k]) {
								t.Fatalf("%s, %v, special %v: element %d is %g, not %g", cpu, size, special, k, x, want[k])
							}
						}
						if !special && cpu != "reference" {
							joinsNothing(t, cpu, p, in, size[0], size[1])
						}
					}
				}
			}
		})
	}
}

// maskResult returns what a program computes.
func maskResult(t *testing.T, p *weir.Program, in weir.Inputs) []float32 {
	t.Helper()
	r := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), in))
	defer r.Close()
	return weirtest.Copy[float32](t, r.At(0))
}

// joinsNothing checks that a program takes the memory of its certificate, and that its arena is smaller than a bias for
// each sequence.
func joinsNothing(t *testing.T, cpu string, p *weir.Program, in weir.Inputs, b, n int) {
	t.Helper()
	dims := weir.Dims{"b": int64(b), "n": int64(n)}
	measured := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), in))
	if peak := weirtest.Must[int64](t)(p.Memory().Peak(1, dims)); peak != measured.Peak(1) {
		t.Errorf("%s, %d × %d: predicted %d, measured %d bytes", cpu, b, n, peak, measured.Peak(1))
	}
	joined := int64(4 * b * maskHeads * n * n)
	if arena := weirtest.Must[int64](t)(p.Memory().Arena.At(dims)); b > 2 && n >= 100 && arena >= joined {
		t.Errorf("%s, %d × %d: an arena of %d bytes; a bias for each sequence has %d", cpu, b, n, arena, joined)
	}
}
