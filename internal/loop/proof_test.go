package loop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// proof returns the module of a text in testdata/proofs. These texts show that the language can express the kernels
// that code generators need. Each is verified without an unproved bound, printed, parsed, and run; the test computes
// the expected results directly.
func proof(t *testing.T, name string) *Module {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "proofs", name+".weir"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(data), "\n"); lines > 80 {
		t.Errorf("%s has %d lines", name, lines)
	}
	m, err := Parse(string(data), ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unproved, err := VerifyModule(m)
	if err != nil || unproved != nil {
		t.Fatalf("%v\n%s", err, strings.Join(unproved, "\n"))
	}
	again, err := Parse(m.String(), ParseOptions{})
	if err != nil || again.String() != m.String() {
		t.Fatalf("%v\n%s\nbecomes\n%s", err, m, again)
	}
	return again
}

// noise returns a tensor of small random numbers that f16 and bf16 represent exactly.
func noise(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Len() {
		if dt.IsInt() {
			t.SetInt(i, int64(r.Uint64()))
		} else {
			t.SetFloat(i, float64(r.IntN(65)-32)/16)
		}
	}
	return t
}

// at returns an element by its index.
func at(t *tensor.Tensor, index ...int64) float64 {
	return t.Float(tensor.Offset(tensor.Strides(t.Shape()), index))
}

// close32 fails the test if an element differs from want by more than tolerance · (1 + |want|).
func close32(t *testing.T, what string, got *tensor.Tensor, want func(index []int64) float64, tolerance float64) {
	t.Helper()
	tensor.Each(got.Shape(), func(index []int64) {
		g, w := at(got, index...), want(index)
		if !(math.Abs(g-w) <= tolerance*(1+math.Abs(w))) && !t.Failed() {
			t.Errorf("%s: element %v is %v, want %v", what, index, g, w)
		}
	})
}

// runProof interprets a module, and fails the test on an error.
func runProof(t *testing.T, m *Module, inputs map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	got, err := (&Runner{}).Run(m, inputs)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestProofGemm: the packed product gelu(x·w + bias) equals the formula in float64 within 1e-5: for matrices smaller
// than a tile of 6 × 16, of one tile, and with incomplete tiles, and for a depth of 0.
func TestProofGemm(t *testing.T) {
	m, r := proof(t, "gemm"), rand.New(rand.NewPCG(1, 1))
	for _, d := range [][3]int64{{1, 1, 1}, {6, 16, 8}, {13, 35, 7}, {5, 17, 0}, {12, 15, 40}} {
		x, w, bias := noise(r, dtype.F32, d[0], d[2]), noise(r, dtype.F32, d[2], d[1]), noise(r, dtype.F32, d[1])
		got := runProof(t, m, map[string]*tensor.Tensor{"x": x, "w": w, "bias": bias})
		close32(t, fmt.Sprint(d), got["y"], func(index []int64) float64 {
			v := at(bias, index[1])
			for k := range d[2] {
				v += at(x, index[0], k) * at(w, k, index[1])
			}
			return 0.5 * v * math.Erfc(-v/math.Sqrt2)
		}, 1e-5)
	}
}

// TestProofAttention: causal attention with an online softmax equals the softmax formula in float64 within 1e-5: for 1
// to 3 heads, for as many keys as queries and for more, and for numbers of keys that blocks of 4 do not divide.
func TestProofAttention(t *testing.T) {
	m, r := proof(t, "attention"), rand.New(rand.NewPCG(2, 2))
	for _, d := range [][3]int64{{1, 1, 1}, {2, 5, 5}, {1, 3, 9}, {3, 1, 6}} {
		h, s, n := d[0], d[1], d[2]
		q, k, v := noise(r, dtype.F32, h, s, 8), noise(r, dtype.F32, h, n, 8), noise(r, dtype.F32, h, n, 8)
		got := runProof(t, m, map[string]*tensor.Tensor{"q": q, "k": k, "v": v})
		close32(t, fmt.Sprint(d), got["y"], func(index []int64) float64 {
			head, i := index[0], index[1]
			top, bottom := 0.0, 0.0
			for j := range i + n - s + 1 {
				dot := 0.0
				for c := range int64(8) {
					dot += at(q, head, i, c) * at(k, head, j, c)
				}
				e := math.Exp(dot / math.Sqrt(8))
				top += e * at(v, head, j, index[2])
				bottom += e
			}
			return top / bottom
		}, 1e-5)
	}
}

// TestProofWinograd: the 3 × 3 convolution by Winograd's method equals the direct sum in float64 within 1e-5: for
// images of 1 × 1, of even and of odd extents, and for 1 to 4 channels.
func TestProofWinograd(t *testing.T) {
	m, r := proof(t, "winograd"), rand.New(rand.NewPCG(3, 3))
	for _, d := range [][4]int64{{1, 1, 1, 1}, {2, 3, 4, 6}, {3, 2, 7, 5}, {1, 4, 1, 8}} {
		c, o, h, w := d[0], d[1], d[2], d[3]
		x, g := noise(r, dtype.F32, c, h, w), noise(r, dtype.F32, o, c, 3, 3)
		got := runProof(t, m, map[string]*tensor.Tensor{"x": x, "g": g})
		close32(t, fmt.Sprint(d), got["y"], func(index []int64) float64 {
			sum := 0.0
			for ch := range c {
				for p := range int64(3) {
					for q := range int64(3) {
						i, j := index[1]+p-1, index[2]+q-1
						if i >= 0 && i < h && j >= 0 && j < w {
							sum += at(x, ch, i, j) * at(g, index[0], ch, p, q)
						}
					}
				}
			}
			return sum
		}, 1e-5)
	}
}

// TestProofTiles: the blur in tiles equals the mean of 3 × 3 neighbours with repeated edges, within 1e-5: for images
// smaller than a tile of 8 × 32, of one tile, and with incomplete tiles.
func TestProofTiles(t *testing.T) {
	m, r := proof(t, "tiles"), rand.New(rand.NewPCG(4, 4))
	for _, d := range [][2]int64{{1, 1}, {8, 32}, {17, 33}, {9, 70}} {
		x := noise(r, dtype.F32, d[0], d[1])
		got := runProof(t, m, map[string]*tensor.Tensor{"x": x})
		close32(t, fmt.Sprint(d), got["y"], func(index []int64) float64 {
			sum := 0.0
			for p := range int64(3) {
				for q := range int64(3) {
					sum += at(x, max(0, min(d[0]-1, index[0]+p-1)), max(0, min(d[1]-1, index[1]+q-1)))
				}
			}
			return sum / 9
		}, 1e-5)
	}
}

// TestProofContraction: contractions of bf16, with the second operand transposed, equal the sums in float64 within
// 1e-6, and contractions of u8 by i8 equal the sums in int32: for sizes smaller than a tile of 16 × 16 × 32, of one
// tile, and with incomplete tiles.
func TestProofContraction(t *testing.T) {
	m, r := proof(t, "contraction"), rand.New(rand.NewPCG(5, 5))
	for _, d := range [][3]int64{{1, 1, 1}, {16, 16, 32}, {17, 31, 33}, {40, 5, 64}} {
		inputs := map[string]*tensor.Tensor{
			"a": noise(r, dtype.BF16, d[0], d[2]), "b": noise(r, dtype.BF16, d[1], d[2]), "p": noise(r, dtype.U8, d[0], d[2]),
			"q": noise(r, dtype.I8, d[2], d[1]),
		}
		got := runProof(t, m, inputs)
		close32(t, fmt.Sprint(d), got["c"], func(index []int64) float64 {
			sum := 0.0
			for k := range d[2] {
				sum += at(inputs["a"], index[0], k) * at(inputs["b"], index[1], k)
			}
			return sum
		}, 1e-6)
		close32(t, fmt.Sprint(d), got["r"], func(index []int64) float64 {
			sum := int32(0)
			for k := range d[2] {
				sum += int32(inputs["p"].Int(index[0]*d[2]+k)) * int32(inputs["q"].Int(k*d[1]+index[1]))
			}
			return float64(sum)
		}, 0)
	}
}
