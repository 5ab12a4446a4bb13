package accuracy

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/cmplx"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// unit is half the distance of 1 and the next f32: the relative error of one rounding.
const unit = 0x1p-24

// everyLevel compiles a model for each level of vector instructions that this processor has, and for portable code, and
// calls a function with the level and a function that runs the program.
func everyLevel(t *testing.T, data []byte, o weir.Options,
	each func(cpu string, run func(in map[string][]float32, shapes map[string][]int) []float32)) {
	t.Helper()
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(data))
	defer m.Close()
	for _, cpu := range []string{"avx2", "avx512", "avx512vnni", "avx512bf16", "avx512amx",
		"neon", "dotprod", "i8mm", "bf16", "portable"} {
		o.CPU = cpu
		p, err := weir.Compile(t.Context(), m, o)
		if errors.Is(err, weir.ErrUnsupported) {
			t.Logf("%s: %v", cpu, err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		each(cpu, func(in map[string][]float32, shapes map[string][]int) []float32 {
			inputs := weir.Inputs{}
			for name, x := range in {
				given := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, shapes[name]...))
				defer given.Close()
				inputs[name] = given
			}
			results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), inputs))
			defer results.Close()
			return weirtest.Copy[float32](t, results.Get("y"))
		})
		p.Close()
	}
}

// TestAttentionBound holds attention in blocks to its bound. The sums of scores are rounded, which exp turns into a
// factor; the products with values are rounded as sums are.
func TestAttentionBound(t *testing.T) {
	const queries, keys, size, values = 5, 300, 16, 8
	source := fmt.Sprintf(`weir 1
ir @attention {
main @main(%%q: f32[1, 1, %d, %d], %%k: f32[1, 1, %d, %d], %%v: f32[1, 1, %d, %d]) {
  %%y: f32[1, 1, %d, %d] = attention(%%q, %%k, %%v) {scale = float 0.25}
  return %%y
}
}
`, queries, size, keys, size, keys, values, queries, values)
	r := rand.New(rand.NewSource(3))
	everyLevel(t, []byte(source), weir.Options{},
		func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
			for kind := range weirtest.Rough {
				q, k, v := weirtest.Roughly(r, "normal", queries*size), weirtest.Roughly(r, kind,
					keys*size), weirtest.Roughly(r, kind, keys*values)
				y := run(map[string][]float32{"q": q, "k": k, "v": v},
					map[string][]int{"q": {1, 1, queries, size}, "k": {1, 1, keys, size}, "v": {1, 1, keys, values}})
				for i := range queries {
					scores, apart, most := make([]float64, keys), 0.0, math.Inf(-1)
					for j := range keys {
						magnitude := 0.0
						for d := range size {
							product := 0.25 * float64(q[i*size+d]) * float64(k[j*size+d])
							scores[j] += product
							magnitude += math.Abs(product)
						}
						apart, most = max(apart, (size+2)*unit*magnitude), max(most, scores[j])
					}
					total := 0.0
					for j := range keys {
						total += math.Exp(scores[j] - most)
					}
					for e := range values {
						want, magnitude, factor := 0.0, 0.0, 0.0
						for j := range keys {
							share := math.Exp(scores[j]-most) / total
							x := float64(v[j*values+e])
							want, magnitude = want+share*x, magnitude+share*math.Abs(x)
							factor += share * math.Abs(x) * (most - scores[j])
						}
						got := float64(y[i*values+e])
						limit := magnitude*(math.Expm1(2*apart)+(2*keys+16)*unit) + 2*unit*factor + 0x1p-126*keys
						if off := math.Abs(got - want); !(off <= limit) {
							t.Errorf("%s, %s: y[%d, %d] is %g, not %g: %.3g away, at most %.3g", cpu, kind, i, e, got,
								want, off, limit)
						}
					}
				}
			}
		})
}

// TestBatchNormalizationBound holds statistics that are folded into one factor and one summand to their bound, alone
// and within a convolution of 1 × 1. Some means are far larger than their deviations.
func TestBatchNormalizationBound(t *testing.T) {
	const channels, places = 24, 50
	r := rand.New(rand.NewSource(4))
	for kind := range weirtest.Rough {
		w, scale, bias, mean := weirtest.Roughly(r, "normal", channels*channels), weirtest.Roughly(r, "normal",
			channels),
			weirtest.Roughly(r, kind, channels), weirtest.Roughly(r, kind, channels)
		variance := make([]float32, channels)
		for i := range variance {
			variance[i] = float32(math.Exp(r.NormFloat64() * 3))
		}
		identity := make([]float32, channels*channels)
		for i := range channels {
			identity[i*channels+i] = 1
		}
		for _, folded := range []bool{false, true} {
			g := &wire.GraphProto{Name: "g"}
			for _, c := range []struct {
				name  string
				data  []float32
				shape []int64
			}{{"w", w, []int64{channels, channels, 1, 1}}, {"scale", scale, []int64{channels}},
				{"bias", bias, []int64{channels}}, {"mean", mean, []int64{channels}}, {"variance", variance,
					[]int64{channels}}} {
				g.Initializer = append(g.Initializer,
					&wire.TensorProto{Name: c.name, DataType: wire.FloatType, Dims: c.shape,
						RawData: weirtest.RawFloats(c.data)})
			}
			norm := &wire.NodeProto{OpType: "BatchNormalization", Name: "norm",
				Input: []string{"x", "scale", "bias", "mean", "variance"}, Output: []string{"y"}}
			weights, terms := identity, 0.0
			if folded {
				weights, terms = w, channels
				norm.Input[0] = "c"
				g.Node = append(g.Node, &wire.NodeProto{OpType: "Conv", Name: "conv", Input: []string{"x", "w"},
					Output: []string{"c"}})
			}
			g.Node = append(g.Node, norm)
			g.Input = []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(channels),
				wire.Size(places),
				wire.Size(1))}
			g.Output = []*wire.ValueInfoProto{{Name: "y"}}
			data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}},
				Graph: g}).Marshal()
			everyLevel(t, data, weir.Options{},
				func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
					x := weirtest.Roughly(r, kind, channels*places)
					y := run(map[string][]float32{"x": x}, map[string][]int{"x": {1, channels, places, 1}})
					for at := range y {
						o, place := at/places, at%places
						factor := float64(scale[o]) / math.Sqrt(float64(variance[o])+float64(float32(1e-5)))
						sum, magnitude := 0.0, math.Abs(float64(mean[o]))
						for c := range channels {
							product := float64(weights[o*channels+c]) * float64(x[c*places+place])
							sum, magnitude = sum+product, magnitude+math.Abs(product)
						}
						want, got, added := (sum-float64(mean[o]))*factor+float64(bias[o]), float64(y[at]), math.Abs(float64(bias[o]))
						limit := (terms+4)*unit*(magnitude*math.Abs(factor)+added) + channels*0x1p-149*(1+math.Abs(factor))
						if off := math.Abs(got - want); !(off <= limit) {
							t.Errorf("%s, %s, folded %v: y[%d, %d] is %g, not %g: %.3g away, at most %.3g", cpu, kind,
								folded, o, place, got,
								want, off, limit)
						}
					}
				})
		}
	}
}

// TestPrecisionBound holds products in bf16 to their bound: both operands are rounded to 8 bits, and sums are f32.
func TestPrecisionBound(t *testing.T) {
	const rows, depth, columns = 7, 96, 33
	r := rand.New(rand.NewSource(5))
	for _, kind := range []string{"normal", "large", "wide", "far", "outliers"} {
		w := weirtest.Roughly(r, kind, depth*columns)
		g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{{OpType: "MatMul", Name: "product",
			Input: []string{"x", "w"}, Output: []string{"y"}}},
			Initializer: []*wire.TensorProto{{Name: "w", DataType: wire.FloatType, Dims: []int64{depth, columns},
				RawData: weirtest.RawFloats(w)}},
			Input:  []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(rows), wire.Size(depth))},
			Output: []*wire.ValueInfoProto{{Name: "y"}}}
		data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}},
			Graph: g}).Marshal()
		everyLevel(t, data, weir.Options{Precision: weir.BF16},
			func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
				x := weirtest.Roughly(r, kind, rows*depth)
				y := run(map[string][]float32{"x": x}, map[string][]int{"x": {rows, depth}})
				for i := range rows {
					for j := range columns {
						want, magnitude := 0.0, 0.0
						for c := range depth {
							product := float64(x[i*depth+c]) * float64(w[c*columns+j])
							want, magnitude = want+product, magnitude+math.Abs(product)
						}
						if off := math.Abs(float64(y[i*columns+j]) - want); !(off <= 0x1p-7*magnitude) {
							t.Errorf("%s, %s: y[%d, %d] is %g, not %g: %.3g of the sum of magnitudes away", cpu, kind,
								i, j, y[i*columns+j],
								want, off/magnitude)
						}
					}
				}
			})
	}
}

// TestQuantisedProductsBound holds products of dequantized bytes to their bound, with zero points and a scale for each
// column. The integer sums are exact; the scales, the sum as f32 and its product with the scales are rounded. Depths
// are odd and larger than a register can add up at once, and bytes are at both ends of their range.
func TestQuantisedProductsBound(t *testing.T) {
	const rows, columns, scale = 7, 33, 0.0371
	r := rand.New(rand.NewSource(7))
	for _, depth := range []int{1, 3, 97, 1030} {
		for _, form := range []struct {
			dtype string
			least int
			zero  int
		}{{"u8", 0, 0}, {"u8", 0, 131}, {"i8", -128, 0}, {"i8", -128, 44}} {
			w, weights, zeros, scales := make([]int, depth*columns), []string{}, []string{}, []string{}
			for i := range w {
				w[i] = []int{r.Intn(256), 0, 255}[r.Intn(3)]
				weights = append(weights, fmt.Sprint(w[i]))
			}
			of := func(column int) (zero int, scale float64) {
				return (100 + 5*column) % 256, float64(float32(0.01 + 0.002*float64(column)))
			}
			for j := range columns {
				zero, scale := of(j)
				zeros, scales = append(zeros, fmt.Sprint(zero)), append(scales, fmt.Sprint(float32(scale)))
			}
			source := fmt.Sprintf(`weir 1
ir @quantised {
main @main(%%x: f32[%[1]d, %[2]d]) {
  const %%s: f32[] = [%[4]g]
  const %%z: %[5]s[] = [%[6]d]
  const %%w: u8[%[2]d, %[3]d] = [%[7]s]
  const %%v: f32[%[3]d] = [%[8]s]
  const %%n: u8[%[3]d] = [%[9]s]
  %%q: %[5]s[%[1]d, %[2]d] = quantize(%%x, %%s, %%z) {axis = int 1, block = int 0, precision = dtype invalid,
	to = dtype %[5]s, wrap = bool false}
  %%d: f32[%[1]d, %[2]d] = dequantize(%%q, %%s, %%z) {axis = int 1, block = int 0, to = dtype f32}
  %%e: f32[%[2]d, %[3]d] = dequantize(%%w, %%v, %%n) {axis = int 1, block = int 0, to = dtype f32}
  %%y: f32[%[1]d, %[3]d] = matmul(%%d, %%e) {transpose_a = bool false, transpose_b = bool false}
  return %%y
}
}
`, rows, depth, columns, float32(scale), form.dtype, form.zero, strings.Join(weights, ", "), strings.Join(scales, ", "), strings.Join(zeros, ", "))
			everyLevel(t, []byte(source), weir.Options{},
				func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
					x, bytes := make([]float32, rows*depth), make([]int, rows*depth)
					for i := range x {
						bytes[i] = form.least + []int{r.Intn(256), 0, 255}[r.Intn(3)]
						x[i] = float32(bytes[i]-form.zero) * scale
					}
					y := run(map[string][]float32{"x": x}, map[string][]int{"x": {rows, depth}})
					for i := range rows {
						for j := range columns {
							want, magnitude := 0.0, 0.0
							zero, by := of(j)
							for c := range depth {
								product := float64(bytes[i*depth+c]-form.zero) * float64(float32(scale)) * float64(w[c*columns+j]-zero) * by
								want, magnitude = want+product, magnitude+math.Abs(product)
							}
							if off := math.Abs(float64(y[i*columns+j]) - want); !(off <= 3*0x1p-24*magnitude) {
								t.Fatalf("%s, %d of %s less %d: y[%d, %d] is %g, not %g: %.3g of the sum of magnitudes away", cpu, depth,
									form.dtype, form.zero, i, j, y[i*columns+j], want, off/magnitude)
							}
						}
					}
				})
		}
	}
}

// TestDeterminantBound holds determinants to n³ · 2ⁿ · 2⁻⁵³ times the product of the rows' lengths, plus one rounding:
// elimination with the largest pivot of each column lets elements grow by at most a factor of two in each step.
func TestDeterminantBound(t *testing.T) {
	const n = 8
	source := fmt.Sprintf(`weir 1
ir @determinant {
main @main(%%x: f32[%d, %d]) {
  %%y: f32[] = determinant(%%x)
  return %%y
}
}
`, n, n)
	matrices := map[string]func(r *rand.Rand) []float32{
		"Hilbert's": func(*rand.Rand) []float32 {
			x := make([]float32, n*n)
			for i := range x {
				x[i] = 1 / float32(i/n+i%n+1)
			}
			return x
		},
		"almost singular": func(r *rand.Rand) []float32 {
			x := weirtest.Roughly(r, "normal", n*n)
			for j := range n {
				x[n+j] = x[j] * (1 + 1e-6*float32(r.NormFloat64()))
			}
			return x
		},
		"singular": func(r *rand.Rand) []float32 {
			x := weirtest.Roughly(r, "normal", n*n)
			copy(x[n:2*n], x[:n])
			return x
		},
	}
	for kind := range weirtest.Rough {
		matrices[kind] = func(r *rand.Rand) []float32 { return weirtest.Roughly(r, kind, n*n) }
	}
	r := rand.New(rand.NewSource(6))
	everyLevel(t, []byte(source), weir.Options{},
		func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
			for kind, matrix := range matrices {
				x := matrix(r)
				rows := 1.0
				for i := range n {
					square := 0.0
					for _, v := range x[i*n : (i+1)*n] {
						square += float64(v) * float64(v)
					}
					rows *= math.Sqrt(square)
				}
				want, _ := exactDeterminant(x, n).Float64()
				limit := n*n*n*float64(1<<n)*0x1p-53*rows + unit*math.Abs(want) + 0x1p-149
				if got := float64(run(map[string][]float32{"x": x}, map[string][]int{"x": {n, n}})[0]); !(math.Abs(got-
					want) <= limit) && math.Abs(want) < math.MaxFloat32 {
					t.Errorf("%s, %s: %g, not %g: at most %.3g away", cpu, kind, got, want, limit)
				}
			}
		})
}

// exactDeterminant returns the determinant by elimination in fractions.
func exactDeterminant(x []float32, n int) *big.Rat {
	a := make([]*big.Rat, n*n)
	for i, v := range x {
		a[i] = new(big.Rat).SetFloat64(float64(v))
	}
	det := big.NewRat(1, 1)
	for k := range n {
		row := k
		for row < n && a[row*n+k].Sign() == 0 {
			row++
		}
		if row == n {
			return new(big.Rat)
		}
		if row != k {
			det.Neg(det)
			for j := range n {
				a[k*n+j], a[row*n+j] = a[row*n+j], a[k*n+j]
			}
		}
		det.Mul(det, a[k*n+k])
		for i := k + 1; i < n; i++ {
			factor := new(big.Rat).Quo(a[i*n+k], a[k*n+k])
			for j := k; j < n; j++ {
				a[i*n+j] = new(big.Rat).Sub(a[i*n+j], new(big.Rat).Mul(factor, a[k*n+j]))
			}
		}
	}
	return det
}

// TestActivationsBound holds functions that are composed of others to 8 · u · (|x| + |y|).
func TestActivationsBound(t *testing.T) {
	const n = 3000
	softplus := func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
	exponential := func(alpha, gamma float64) func(x float64) float64 {
		return func(x float64) float64 {
			if x > 0 {
				return gamma * x
			}
			return gamma * alpha * math.Expm1(x)
		}
	}
	functions := []struct {
		node *wire.NodeProto
		want func(x float64) float64
	}{
		{weirtest.NodeOf("Gelu x y"), func(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }},
		{weirtest.NodeOf("Gelu x y", wire.StringAttribute("approximate", "tanh")), func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}},
		{weirtest.NodeOf("Softplus x y"), softplus},
		{weirtest.NodeOf("Mish x y"), func(x float64) float64 { return x * math.Tanh(softplus(x)) }},
		{weirtest.NodeOf("Swish x y"), func(x float64) float64 { return x / (1 + math.Exp(-x)) }},
		{weirtest.NodeOf("Elu x y"), exponential(1, 1)},
		{weirtest.NodeOf("Selu x y"), exponential(1.67326319217681884765625, 1.05070102214813232421875)},
		{weirtest.NodeOf("Celu x y"), exponential(1, 1)},
		{weirtest.NodeOf("Softsign x y"), func(x float64) float64 { return x / (1 + math.Abs(x)) }},
		{weirtest.NodeOf("HardSigmoid x y"),
			func(x float64) float64 { return max(0, min(1, float64(float32(0.2))*x+0.5)) }},
		{weirtest.NodeOf("HardSwish x y"), func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) }},
	}
	r := rand.New(rand.NewSource(17))
	for _, f := range functions {
		data := oneNode(f.node, []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(n))}, nil)
		everyLevel(t, data, weir.Options{},
			func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
				for kind := range weirtest.Rough {
					x := weirtest.Roughly(r, kind, n)
					for i, got := range run(map[string][]float32{"x": x}, map[string][]int{"x": {n}}) {
						v := float64(x[i])
						want := f.want(v)
						if limit := 8*unit*(math.Abs(v)+math.Abs(want)) + 0x1p-126; !(math.Abs(float64(got)-want) <= limit) {
							t.Errorf("%s, %s, %s: of %g it is %g, not %g: %.3g away, at most %.3g", f.node.OpType, cpu,
								kind, v, got, want,
								math.Abs(float64(got)-want), limit)
						}
					}
				}
			})
	}
}

// TestFourierBound holds transforms of small factors, of a large prime factor and of a prime length to their bound.
// Forward transforms are computed in f64, backward ones in f32.
func TestFourierBound(t *testing.T) {
	r := rand.New(rand.NewSource(18))
	for _, n := range []int{512, 105, 244, 1009} {
		roots := make([]complex128, n)
		for k := range roots {
			roots[k] = cmplx.Rect(1, -2*math.Pi*float64(k)/float64(n))
		}
		for _, inverse := range []bool{false, true} {
			node := weirtest.NodeOf("DFT x y", wire.IntAttribute("inverse", map[bool]int64{true: 1}[inverse]))
			data := oneNode(node, []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(1), wire.Size(int64(n)),
				wire.Size(2))}, nil)
			everyLevel(t, data, weir.Options{},
				func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
					for kind := range weirtest.Rough {
						x := weirtest.Roughly(r, kind, 2*n)
						norm, y := math.Sqrt(squares(wider(x))), run(map[string][]float32{"x": x},
							map[string][]int{"x": {1, n, 2}})
						for k := range n {
							want := complex128(0)
							for j := range n {
								root := roots[j*k%n]
								if inverse {
									root = cmplx.Conj(root) / complex(float64(n), 0)
								}
								want += complex(float64(x[2*j]), float64(x[2*j+1])) * root
							}
							limit := unit*cmplx.Abs(want) + 32*math.Log2(float64(n))*0x1p-53*math.Sqrt(float64(n))*norm + 0x1p-149
							if inverse {
								limit = 32*math.Log2(float64(n))*unit*norm/math.Sqrt(float64(n)) + 0x1p-149
							}
							if off := cmplx.Abs(complex(float64(y[2*k]), float64(y[2*k+1])) - want); !(off <= limit) {
								t.Errorf("length %d, inverse %v, %s, %s: y[%d] is %.3g away, at most %.3g", n, inverse, cpu,
									kind, k, off, limit)
							}
						}
					}
				})
		}
	}
}
