package ops

import (
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// composed builds a function of the given tensors and evaluates it, once with their extents as numbers and once as
// named dimensions.
func composed(t *testing.T, in []*tensor.Tensor, build func(b *ir.Builder, x []*ir.Value) *ir.Value) *tensor.Tensor {
	t.Helper()
	var first *tensor.Tensor
	for _, symbolic := range []bool{false, true} {
		x := newSampled(Sample{Inputs: in}, symbolic)
		err := func() (err error) {
			defer ir.Catch(&err)
			x.module.Main.Body.Results = []*ir.Value{build(x.build, x.inputs)}
			return ir.Verify(x.module)
		}()
		if err != nil {
			t.Fatalf("symbolic %v: %v", symbolic, err)
		}
		out, err := ir.Evaluate(x.module, x.args, nil)
		if err != nil {
			t.Fatalf("symbolic %v: %v", symbolic, err)
		}
		if first == nil {
			first = out[0]
		} else if !first.Equal(out[0]) {
			t.Fatalf("with named dimensions it is %v, not %v", out[0], first)
		}
	}
	return first
}

// referenceEinsum sums the products over every value of every letter; equations have neither spaces nor an ellipsis.
func referenceEinsum(equation string, in []*tensor.Tensor) *tensor.Tensor {
	left, right, _ := strings.Cut(equation, "->")
	operands := strings.Split(left, ",")
	size := map[rune]int64{}
	var letters []rune
	for i, labels := range operands {
		for axis, label := range labels {
			if _, known := size[label]; !known {
				letters = append(letters, label)
			}
			size[label] = max(size[label], in[i].Shape()[axis])
		}
	}
	flatIndex := func(labels string, shape []int64, at map[rune]int64) int64 {
		flat := int64(0)
		for axis, label := range labels {
			flat *= shape[axis]
			if shape[axis] != 1 {
				flat += at[label]
			}
		}
		return flat
	}
	var shape, all []int64
	for _, label := range right {
		shape = append(shape, size[label])
	}
	for _, label := range letters {
		all = append(all, size[label])
	}
	out := tensor.Must(tensor.New(dtype.F64, shape...))
	tensor.Each(all, func(index []int64) {
		at, value := map[rune]int64{}, 1.0
		for i, label := range letters {
			at[label] = index[i]
		}
		for i, labels := range operands {
			value *= in[i].Float(flatIndex(labels, in[i].Shape(), at))
		}
		to := flatIndex(right, shape, at)
		out.SetFloat(to, out.Float(to)+value)
	})
	return out
}

// TestEinsum compares Einsum with sums over all values of all letters: products, sums, diagonals, transposes, broadcast
// axes and ellipses.
func TestEinsum(t *testing.T) {
	// expanded is the equation with the letters XY for its ellipsis; "" if it has none.
	tests := []struct {
		equation, expanded string
		shapes             [][]int64
	}{
		{"ij,jk->ik", "", [][]int64{{2, 3}, {3, 4}}},
		{"ij,jk", "ij,jk->ik", [][]int64{{2, 3}, {3, 4}}},
		{"ba", "ba->ab", [][]int64{{2, 3}}},
		{"ij->", "", [][]int64{{2, 3}}},
		{"ij->j", "", [][]int64{{2, 3}}},
		{"ii->i", "", [][]int64{{3, 3}}},
		{"ii", "ii->", [][]int64{{3, 3}}},
		{"iji->ji", "", [][]int64{{3, 2, 3}}},
		{"i,j->ij", "", [][]int64{{3}, {2}}},
		{"i,i->", "", [][]int64{{3}, {3}}},
		{"bij, bjk -> bik", "bij,bjk->bik", [][]int64{{2, 3, 4}, {2, 4, 5}}},
		{"bhqd,bhkd->bhqk", "", [][]int64{{2, 3, 4, 5}, {2, 3, 6, 5}}},
		{"bqhd,bkhd->bhqk", "", [][]int64{{2, 4, 3, 5}, {2, 6, 3, 5}}},
		{"ij,jk,kl->il", "", [][]int64{{2, 3}, {3, 4}, {4, 2}}},
		{"ab,cb,db->acd", "", [][]int64{{2, 5}, {3, 5}, {4, 5}}},
		{"abc,cd->abd", "", [][]int64{{2, 3, 4}, {4, 5}}},
		{"ab,b->a", "", [][]int64{{2, 3}, {3}}},
		{"...ij,...jk->...ik", "XYij,XYjk->XYik", [][]int64{{2, 3, 2, 3}, {2, 3, 3, 4}}},
		{"...i->...", "XYi->XY", [][]int64{{2, 3, 4}}},
		{"i...->...", "iXY->XY", [][]int64{{2, 3, 4}}},
		{"...,...", "XY,XY->XY", [][]int64{{2, 3}, {2, 3}}},
		{"i...,j...->ij...", "iXY,jXY->ijXY", [][]int64{{2, 3, 4}, {5, 3, 4}}},
		{"ij,jk->ik", "", [][]int64{{2, 1}, {3, 4}}},
		{"aabb->ab", "", [][]int64{{2, 2, 3, 3}}},
		{"ij,ij->", "", [][]int64{{0, 3}, {0, 3}}},
		{"Ab,bC->CA", "", [][]int64{{2, 3}, {3, 4}}},
	}
	r := rand.New(rand.NewSource(1))
	for _, test := range tests {
		var in []*tensor.Tensor
		for _, shape := range test.shapes {
			in = append(in, sampleNormal(r, dtype.F64, shape...))
		}
		expanded := test.expanded
		if expanded == "" {
			expanded = test.equation
		}
		got := composed(t, in, func(b *ir.Builder, x []*ir.Value) *ir.Value { return Einsum(b, test.equation, x...) })
		if err := compareSample(got, referenceEinsum(expanded, in), 0); err != nil {
			t.Errorf("%s of %v: %v", test.equation, test.shapes, err)
		}
	}
}

// TestEinsumRefuses shows that equations fail whose letters do not fit the operand or the result, or are not letters.
func TestEinsumRefuses(t *testing.T) {
	for _, equation := range []string{"ij", "ijk->i", "ij,jk->ik", "ij->z", "ij->ii", "i1->i", "i..j->i"} {
		x := newSampled(Sample{Inputs: []*tensor.Tensor{tensor.Must(tensor.New(dtype.F32, 2, 3))}}, false)
		err := func() (err error) {
			defer ir.Catch(&err)
			Einsum(x.build, equation, x.inputs...)
			return nil
		}()
		if (err == nil) != (equation == "ij") {
			t.Errorf("%s: %v", equation, err)
		}
	}
}

// TestAttention compares Attention with its definition: shared heads, a mask, lengths, a soft cap, with and without the
// causal order.
func TestAttention(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	const batch, heads, groups, queries, keys, size, values = 2, 4, 2, 3, 5, 6, 7
	q, k, v := sampleNormal(r, dtype.F64, batch, heads, queries, size),
		sampleNormal(r, dtype.F64, batch, groups, keys, size), sampleNormal(r, dtype.F64, batch, groups, keys, values)
	mask := tensor.Must(tensor.New(dtype.Bool, queries, keys))
	for i := range mask.Len() {
		mask.SetInt(i, int64(r.Intn(3)))
	}
	for i := range int64(queries) {
		mask.SetInt(i*keys, 1) // every query sees a key
	}
	lengths := tensor.Of[int64](5, 3)
	for _, causal := range []bool{false, true} {
		s := AttentionSettings{Causal: causal, Softcap: 2, Past: sym.Const(1)}
		got := composed(t, []*tensor.Tensor{q, k, v, mask, lengths}, func(b *ir.Builder, x []*ir.Value) *ir.Value {
			y, _ := Attention(b, AttentionOperands{Query: x[0], Key: x[1], Value: x[2], Mask: x[3], Lengths: x[4]}, s)
			return y
		})
		want := tensor.Must(tensor.New(dtype.F64, batch, heads, queries, values))
		tensor.Each([]int64{batch, heads, queries}, func(at []int64) {
			group := at[0]*groups + at[1]/(heads/groups)
			weights, total := make([]float64, keys), 0.0
			for j := range int64(keys) {
				score := 0.0
				for d := range int64(size) {
					score += q.Float(((at[0]*heads+at[1])*queries+at[2])*size+d) * k.Float((group*keys+j)*size+d)
				}
				score = 2 * math.Tanh(score/math.Sqrt(size)/2)
				if mask.Int(at[2]*keys+j) != 0 && j < lengths.Int(at[0]) && (!causal || j <= at[2]+1) {
					weights[j] = math.Exp(score)
				}
				total += weights[j]
			}
			for e := range int64(values) {
				sum := 0.0
				for j := range int64(keys) {
					sum += weights[j] / total * v.Float((group*keys+j)*values+e)
				}
				want.SetFloat(((at[0]*heads+at[1])*queries+at[2])*values+e, sum)
			}
		})
		if err := compareSample(got, want, 0); err != nil {
			t.Errorf("causal %v: %v", causal, err)
		}
	}
}

// TestMatMulInteger compares products of quantised matrices with their definition, for zero points of all elements, of
// rows and of columns.
func TestMatMulInteger(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	x, y := sampleIntegers(r, dtype.U8, 2, 3, 4), sampleIntegers(r, dtype.I8, 4, 5)
	for _, zeros := range []struct{ x, y *tensor.Tensor }{
		{tensor.Scalar[uint8](3), tensor.Scalar[int8](-2)},
		{tensor.Of[uint8](1, 2, 3), tensor.Of[int8](1, -2, 3, -4, 5)},
		{tensor.Of[uint8](7), tensor.Scalar[int8](0)},
	} {
		got := composed(t, []*tensor.Tensor{x, zeros.x, y, zeros.y}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			return MatMulInteger(b, v[0], v[1], v[2], v[3])
		})
		want := tensor.Must(tensor.New(dtype.I32, 2, 3, 5))
		flat := int64(0)
		tensor.Each(want.Shape(), func(at []int64) {
			sum := int64(0)
			for k := range int64(4) {
				sum += (x.Int((at[0]*3+at[1])*4+k) - zeros.x.Int(at[1]%zeros.x.Len())) * (y.Int(k*5+at[2]) -
					zeros.y.Int(at[2]%zeros.y.Len()))
			}
			want.SetInt(flat, sum)
			flat++
		})
		if !got.Equal(want) {
			t.Errorf("zero points %v and %v: %v, not %v", zeros.x, zeros.y, got, want)
		}
	}
}

// TestConvolutionInteger compares convolutions of quantised operands with their definition: groups, padding, weights
// that are constant and computed, zero points for all and for each channel.
func TestConvolutionInteger(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	window := Window{Kernel: []int64{2, 3}, Strides: []int64{2, 1}, Dilations: []int64{1, 2},
		Begin: ir.Constants([]int64{1, 0}), End: ir.Constants([]int64{0, 3})}
	for range 60 {
		types := []dtype.DType{dtype.U8, dtype.I8}
		xType, wType, groups := types[r.Intn(2)], types[r.Intn(2)], []int64{1, 2, 4}[r.Intn(3)]
		x, w := sampleIntegers(r, xType, 2, 4, 5, 6), sampleIntegers(r, wType, 8, 4/groups, 2, 3)
		zero := func(dt dtype.DType, shape ...int64) *tensor.Tensor {
			z := sampleIntegers(r, dt, shape...)
			for i := range z.Len() {
				if n := r.Intn(5); n < 2 {
					z.SetInt(i, []int64{0, 128 & int64(dt.MaxInt())}[n])
				}
			}
			return z
		}
		xZero, wZero := zero(xType), zero(wType, [][]int64{{}, {1}, {8}}[r.Intn(3)]...)
		constant := r.Intn(2) == 0
		list := []*tensor.Tensor{x, xZero, w, wZero}
		if constant {
			list = list[:1]
		}
		got := composed(t, list, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			if constant {
				v = append(v, b.Constant("x0", xZero), b.Constant("w", w), b.Constant("w0", wZero))
			}
			return ConvolutionInteger(b, v[0], v[1], v[2], v[3], nil, window, groups)
		})
		want := tensor.Must(tensor.New(dtype.I32, 2, 8, 3, 5))
		flat := int64(0)
		tensor.Each(want.Shape(), func(at []int64) {
			sum, inputs := int64(0), 4/groups
			tensor.Each([]int64{inputs, 2, 3}, func(k []int64) {
				row, column := at[2]*2-1+k[1], at[3]+2*k[2]
				if row < 0 || row >= 5 || column >= 6 {
					return
				}
				channel := at[1]/(8/groups)*inputs + k[0]
				sum += (x.Int(((at[0]*4+channel)*5+row)*6+column) - xZero.Int(0)) *
					(w.Int(((at[1]*inputs+k[0])*2+k[1])*3+k[2]) - wZero.Int(at[1]%wZero.Len()))
			})
			want.SetInt(flat, sum)
			flat++
		})
		if !got.Equal(want) {
			t.Errorf("%s by %s in %d groups, constant %v, zero points %v and %v: %v, not %v", xType, wType, groups, constant,
				xZero, wZero, got, want)
		}
	}
}
