package hostop

import (
	"math"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// TestMersenne compares with numbers that NumPy 2.4.6 draws from RandomState(seed): elements 0, 1, 623 and 1000 of
// rand(1001) and of randn(1001), and binomial(1, linspace(0, 1, 41)).
func TestMersenne(t *testing.T) {
	for _, c := range []struct {
		seed            uint32
		uniforms, gauss [4]float64
		trials          string
	}{
		{0, [4]float64{0.5488135039273248, 0.7151893663724195, 0.8130538632474607, 0.5928802707811576},
			[4]float64{1.764052345967664, 0.4001572083672233, -0.30224973045507003, 0.555962679709798},
			"00000001101001000111101010101111111111111"},
		{42, [4]float64{0.3745401188473625, 0.9507143064099162, 0.4845229851910213, 0.18513292883861965},
			[4]float64{0.4967141530112327, -0.13826430117118466, 1.3454200461549777, 1.3993554365860021},
			"00000001000110000000111110111111100111111"},
		{1<<32 - 1, [4]float64{0.0976320289940138, 0.9123828453026218, 0.16177415711968401, 0.9783407784257938},
			[4]float64{0.6484086742306527, 0.6693235306338161, -1.1411635092724524, -0.7083537506423528},
			"00000100101000111001000011101101111111111"},
	} {
		u, g, b := newMersenne(c.seed), newMersenne(c.seed), newMersenne(c.seed)
		at := 0
		for i := range 1001 {
			x, y := u.uniform(), g.gauss()
			if i != 0 && i != 1 && i != 623 && i != 1000 {
				continue
			}
			if x != c.uniforms[at] || math.Abs(y-c.gauss[at]) > 1e-15 {
				t.Errorf("seed %d, number %d: %v and %v, want %v and %v", c.seed, i, x, y, c.uniforms[at], c.gauss[at])
			}
			at++
		}
		for i := range c.trials {
			if got := b.bernoulli(float64(i) / 40); got != int64(c.trials[i]-'0') {
				t.Errorf("seed %d, trial %d: %d, want %c", c.seed, i, got, c.trials[i])
			}
		}
	}
}

// drawTest applies a drawing operator and returns its result 0.
func drawTest(t *testing.T, name string, dt dtype.DType, attrs map[string]any, in ...*tensor.Tensor) *tensor.Tensor {
	types := []dtype.DType{dt, dtype.F64}
	out, err := Apply(name, attrs, in, types)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// chiSquare returns Pearson's statistic of counts against the expected ones.
func chiSquare(counts []int, expected []float64) float64 {
	sum := 0.0
	for i, n := range counts {
		d := float64(n) - expected[i]
		sum += d * d / expected[i]
	}
	return sum
}

// TestDrawDistribution checks the means and variances of 20 000 numbers, and their counts over bins of equal
// probability: a correct generator fails it for about one seed in 10 000.
func TestDrawDistribution(t *testing.T) {
	const n, bins = 20000, 16
	for _, c := range []struct {
		name           string
		factor, offset float64
		mean, variance float64
		share          func(x float64) float64 // the probability of a smaller number
	}{
		{"draw_uniform", 4, -1, 1, 16.0 / 12, func(x float64) float64 { return (x + 1) / 4 }},
		{"draw_normal", 3, 2, 2, 9, func(x float64) float64 { return 0.5 * math.Erfc(-(x-2)/(3*math.Sqrt2)) }},
	} {
		for _, dt := range []dtype.DType{dtype.F32, dtype.F64} {
			x := drawTest(t, c.name, dt, map[string]any{"seed": int64(5), "shape": []int64{n}, "factor": c.factor,
				"offset": c.offset})
			sum, square := 0.0, 0.0
			counts, expected := make([]int, bins), make([]float64, bins)
			for i := range int64(n) {
				v := x.Float(i)
				sum, square = sum+v, square+v*v
				at := int(c.share(v) * bins)
				if at < 0 || at >= bins {
					t.Fatalf("%s: %v is outside", c.name, v)
				}
				counts[at]++
			}
			for i := range expected {
				expected[i] = float64(n) / bins
			}
			mean := sum / n
			variance := square/n - mean*mean
			if math.Abs(mean-c.mean) > 4*math.Sqrt(c.variance/n) || math.Abs(variance/c.variance-1) > 0.045 {
				t.Errorf("%s: mean %v and variance %v, want %v and %v", c.name, mean, variance, c.mean, c.variance)
			}
			if chi := chiSquare(counts, expected); chi > 44.3 { // 15 degrees of freedom
				t.Errorf("%s: χ² = %v over %v", c.name, chi, counts)
			}
		}
	}
}

// TestDrawOutcomes compares the frequency of each outcome with its probability.
func TestDrawOutcomes(t *testing.T) {
	const n = 20000
	for _, p := range []float64{0, 0.1, 0.5, 0.75, 1} {
		share := tensor.Must(tensor.New(dtype.F64, n))
		for i := range int64(n) {
			share.SetFloat(i, p)
		}
		ones := drawTest(t, "draw_bernoulli", dtype.I64, map[string]any{"seed": int64(11)}, share)
		kept := drawTest(t, "draw_kept", dtype.Bool, map[string]any{"seed": int64(12), "shape": []int64{n}},
			tensor.Scalar(1-p))
		for name, x := range map[string]*tensor.Tensor{"ones": ones, "kept": kept} {
			count := int64(0)
			for i := range int64(n) {
				count += x.Int(i)
			}
			if distance := math.Abs(float64(count) - n*p); distance > 4*math.Sqrt(n*p*(1-p)) {
				t.Errorf("%s: %d of %d at probability %v", name, count, n, p)
			}
		}
	}
	weights := []float64{1, 2, 4, 0, 9}
	logs := tensor.Must(tensor.New(dtype.F64, 2, 5))
	expected := make([]float64, 0, 4)
	for i, w := range weights {
		logs.SetFloat(int64(i), math.Log(w)+100)
		logs.SetFloat(int64(i+5), math.Log(w)-1000)
		if w > 0 {
			expected = append(expected, n*w/16)
		}
	}
	x := drawTest(t, "draw_classes", dtype.I32, map[string]any{"seed": int64(13), "count": int64(n)}, logs)
	for row := range int64(2) {
		counts := make([]int, 5)
		for i := range int64(n) {
			counts[x.Int(row*n+i)]++
		}
		if counts[3] != 0 {
			t.Errorf("a class of probability 0 was drawn %d times", counts[3])
		}
		if chi := chiSquare(append(counts[:3:3], counts[4]), expected); chi > 21.1 { // 3 degrees of freedom
			t.Errorf("row %d: χ² = %v over %v", row, chi, counts)
		}
	}
}

// TestDrawRefuses checks that probabilities outside [0, 1], classes without any probability, and NaN are refused.
func TestDrawRefuses(t *testing.T) {
	for name, in := range map[string]*tensor.Tensor{
		"draw_bernoulli": tensor.Of(0.5, 1.5),
		"draw_classes":   tensor.Must(tensor.FromSlice([]float64{math.Inf(-1), math.Inf(-1)}, 1, 2)),
	} {
		for _, x := range []*tensor.Tensor{in, tensor.Must(tensor.FromSlice([]float64{math.NaN(), 0}, in.Shape()...))} {
			if _, err := Apply(name, map[string]any{"count": int64(1)}, []*tensor.Tensor{x},
				[]dtype.DType{dtype.I64, dtype.F64}); err == nil {
				t.Errorf("%s takes %v", name, x)
			}
		}
	}
}
