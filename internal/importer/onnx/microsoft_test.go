package onnx

import (
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// microsoftNode returns the results of one node of com.microsoft, or of ai.onnx if the name begins with a colon.
func microsoftNode(name string, in []*tensor.Tensor, attrs ...*wire.AttributeProto) ([]*tensor.Tensor, error) {
	n := &wire.NodeProto{OpType: name, Domain: "com.microsoft", Attribute: attrs}
	if name, ok := strings.CutPrefix(name, ":"); ok {
		n.OpType, n.Domain = name, ""
	}
	m := single(n, 1, in...)
	m.Opsets[""] = 23
	return evaluate(m)
}

// random returns an f32 tensor of normally distributed numbers.
func random(r *rand.Rand, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(tensor.Of[float32]().DType(), shape...))
	for i := range t.Len() {
		t.SetFloat(i, r.NormFloat64())
	}
	return t
}

// permuted returns a tensor of a new shape whose elements are t's; at returns the flat index of the source of each.
func permuted(t *tensor.Tensor, shape []int64, at func(index []int64) int64) *tensor.Tensor {
	out := tensor.Must(tensor.New(t.DType(), shape...))
	index := make([]int64, len(shape))
	for i := range out.Len() {
		out.SetFloat(i, t.Float(at(index)))
		for axis := len(shape) - 1; axis >= 0; axis-- {
			if index[axis]++; index[axis] < shape[axis] {
				break
			}
			index[axis] = 0
		}
	}
	return out
}

// spellings are two ways to compute the same tensor.
type spellings struct {
	name       string
	one, other func() ([]*tensor.Tensor, error)
}

// microsoftSpellings returns forms of operators that onnxruntime's CPU provider does not run, each beside a form that
// testdata/onnx/microsoft_* compares with onnxruntime.
//
//weir:table
func microsoftSpellings() []spellings {
	r := rand.New(rand.NewSource(1))
	const batch, steps, heads, size = 2, 3, 2, 4
	three := random(r, batch, steps, heads, 3, size)
	pack := func(packed *tensor.Tensor, count, which int64) *tensor.Tensor {
		return permuted(packed, []int64{batch, steps, heads * size}, func(i []int64) int64 {
			return (((i[0]*steps+i[1])*heads+i[2]/size)*count+which)*size + i[2]%size
		})
	}
	two := permuted(three, []int64{batch, steps, heads, 2, size}, func(i []int64) int64 {
		return (((i[0]*steps+i[1])*heads+i[2])*3+i[3]+1)*size + i[4]
	})
	number, count := wire.IntAttribute("num_heads", heads), wire.IntAttribute("unidirectional", 1)
	x, w, b := random(r, batch, steps, 5), random(r, 5, 3*heads*size), random(r, 3*heads*size)
	pairs := tensor.Must(tensor.Of[int32](1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 1).Reshape(batch, steps,
		steps))
	large := permuted(pairs, []int64{batch, 1, 5, 5}, func(i []int64) int64 {
		return (i[0]*steps+min(i[2], steps-1))*steps + min(i[3], steps-1)
	})
	row := tensor.Must(tensor.Of[int32](0, 1, 1, 1, 1, 0).Reshape(batch, steps))
	scale := random(r, 5)
	image, gamma, beta, residual := random(r, 2, 4, 3, 5), random(r, 4), random(r, 4), random(r, 2, 4)
	last := permuted(image, []int64{2, 3, 5, 4}, func(i []int64) int64 { return ((i[0]*4+i[3])*3+i[1])*5 + i[2] })
	lifted := permuted(image, []int64{2, 3, 5, 4}, func(i []int64) int64 { return ((i[0]*4+i[3])*3+i[1])*5 + i[2] })
	for i := range lifted.Len() {
		lifted.SetFloat(i, lifted.Float(i)+residual.Float(i/60*4+i%4)+beta.Float(i%4))
	}
	groups, silu := wire.IntAttribute("groups", 2), wire.IntAttribute("activation", 1)
	return []spellings{
		{"packed queries, keys and values", func() ([]*tensor.Tensor, error) {
			return microsoftNode("MultiHeadAttention", []*tensor.Tensor{three}, number, count)
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode("MultiHeadAttention", []*tensor.Tensor{pack(three, 3, 0), pack(three, 3, 1), pack(three, 3, 2)},
				number, count)
		}},
		{"packed keys and values", func() ([]*tensor.Tensor, error) {
			return microsoftNode("MultiHeadAttention", []*tensor.Tensor{pack(three, 3, 0), two}, number)
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode("MultiHeadAttention", []*tensor.Tensor{pack(three, 3, 0), pack(three, 3, 1), pack(three, 3, 2)},
				number)
		}},
		{"a mask larger than needed", func() ([]*tensor.Tensor, error) {
			return microsoftNode("Attention", []*tensor.Tensor{x, w, b, large}, number)
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode("Attention", []*tensor.Tensor{x, w, b, pairs}, number)
		}},
		{"a mask of ends and beginnings", func() ([]*tensor.Tensor, error) {
			return microsoftNode("Attention", []*tensor.Tensor{x, w, b, tensor.Of[int32](3, 2, 1, 0)}, number)
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode("Attention", []*tensor.Tensor{x, w, b, row}, number)
		}},
		{"SimplifiedLayerNormalization", func() ([]*tensor.Tensor, error) {
			return microsoftNode(":SimplifiedLayerNormalization", []*tensor.Tensor{x, scale})
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode(":RMSNormalization", []*tensor.Tensor{x, scale})
		}},
		{"a product and its activation", func() ([]*tensor.Tensor, error) {
			return microsoftNode("FusedMatMulActivation", []*tensor.Tensor{x, w}, wire.StringAttribute("activation", "Relu"))
		}, func() ([]*tensor.Tensor, error) {
			y, err := microsoftNode("FusedMatMul", []*tensor.Tensor{x, w})
			if err != nil {
				return nil, err
			}
			return microsoftNode(":Relu", y)
		}},
		{"groups of channels that come first", func() ([]*tensor.Tensor, error) {
			return microsoftNode("GroupNorm", []*tensor.Tensor{image, gamma, beta}, groups, wire.IntAttribute("activation", 0),
				wire.IntAttribute("channels_last", 0))
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode(":GroupNormalization", []*tensor.Tensor{image, gamma, beta}, wire.IntAttribute("num_groups", 2))
		}},
		{"groups of channels that come last", func() ([]*tensor.Tensor, error) {
			return microsoftNode("GroupNorm", []*tensor.Tensor{last, gamma, beta}, groups, silu)
		}, func() ([]*tensor.Tensor, error) {
			y, err := microsoftNode("GroupNorm", []*tensor.Tensor{image, gamma, beta}, groups,
				wire.IntAttribute("activation", 0), wire.IntAttribute("channels_last", 0))
			if err != nil {
				return nil, err
			}
			if y, err = microsoftNode(":Transpose", y, wire.IntsAttribute("perm", 0, 2, 3, 1)); err != nil {
				return nil, err
			}
			return microsoftNode("QuickGelu", y, wire.FloatAttribute("alpha", 1))
		}},
		{"groups of a sum", func() ([]*tensor.Tensor, error) {
			return microsoftNode("SkipGroupNorm", []*tensor.Tensor{last, gamma, beta, residual, beta}, groups, silu)
		}, func() ([]*tensor.Tensor, error) {
			return microsoftNode("GroupNorm", []*tensor.Tensor{lifted, gamma, beta}, groups, silu)
		}},
		{"a gate", func() ([]*tensor.Tensor, error) {
			return microsoftNode("BiasSplitGelu", []*tensor.Tensor{tensor.Of[float32](2, 3, 1, -1),
				tensor.Of[float32](1, 0, 0, 0)})
		}, func() ([]*tensor.Tensor, error) {
			y, err := microsoftNode("Gelu", []*tensor.Tensor{tensor.Of[float32](1, -1)})
			if err != nil {
				return nil, err
			}
			// The first half is 3 and 3.
			return microsoftNode("BiasAdd", []*tensor.Tensor{y[0], y[0], y[0]})
		}},
	}
}

// TestMicrosoftSpellings compares forms of operators that onnxruntime does not run with forms that it runs.
func TestMicrosoftSpellings(t *testing.T) {
	for _, c := range microsoftSpellings() {
		got, err := c.one()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want, err := c.other()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err := tensor.Compare(got[0], want[0], 1e-5, 1e-6); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestMicrosoftNumbers compares products of packed weights, and means, with their definitions.
func TestMicrosoftNumbers(t *testing.T) {
	// A row of 32 weights of 4 bits in two blocks; every index names the block whose scale it has.
	weights, groups := make([]byte, 16), make([]int32, 32)
	x := make([]float32, 32)
	want := 0.0
	scales, zeros := []float32{0.5, 2}, byte(3|10<<4)
	for k := range x {
		q := byte(k*7) & 15
		weights[k/2] |= q << (4 * (k & 1))
		groups[k] = int32(k & 1)
		x[k] = float32(k%5) - 2
		zero := zeros >> (4 * groups[k]) & 15
		want += float64(x[k]) * (float64(q) - float64(zero)) * float64(scales[groups[k]])
	}
	attrs := []*wire.AttributeProto{wire.IntAttribute("K", 32), wire.IntAttribute("N", 1), wire.IntAttribute("bits", 4),
		wire.IntAttribute("block_size", 16)}
	in := []*tensor.Tensor{floats([]int64{1, 32}, x...), tensor.Must(tensor.Of(weights...).Reshape(1, 2, 8)),
		tensor.Of(scales...), tensor.Of(zeros), tensor.Of(groups...)}
	out, err := microsoftNode("MatMulNBits", in, attrs...)
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].Float(0); math.Abs(got-want) > 1e-3 {
		t.Errorf("MatMulNBits by groups is %v, want %v", got, want)
	}

	// (130 + 133 + 139 − 3·120)·0.05 / 3 = 0.7, which is 14 steps of 0.05 above 100.
	out, err = microsoftNode("QLinearReduceMean", []*tensor.Tensor{tensor.Of[uint8](130, 133, 139),
		tensor.Scalar[float32](.05), tensor.Scalar[uint8](120), tensor.Scalar[float32](.05), tensor.Scalar[uint8](100)},
		wire.IntsAttribute("axes", 0), wire.IntAttribute("keepdims", 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].Int(0); got != 114 {
		t.Errorf("QLinearReduceMean is %d, want 114", got)
	}
}

// TestMicrosoftRefusals shows that errors name the unsupported feature, or the fault of a node.
func TestMicrosoftRefusals(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	q, heads, groups := random(r, 1, 2, 8), wire.IntAttribute("num_heads", 2), wire.IntAttribute("kv_num_heads", 2)
	length, total := tensor.Of[int32](1), tensor.Scalar[int32](2)
	for _, c := range []struct {
		name  string
		in    []*tensor.Tensor
		attrs []*wire.AttributeProto
		want  string
	}{
		{"GroupQueryAttention", []*tensor.Tensor{q, q, q, nil, nil, length, total},
			[]*wire.AttributeProto{heads, groups, wire.IntAttribute("sliding_window_cache", 1)}, "sliding_window_cache = 1"},
		{"GroupQueryAttention", []*tensor.Tensor{q, q, q, nil, nil, length, total, nil, nil, nil, nil, nil, length},
			[]*wire.AttributeProto{heads, groups}, "input 12"},
		{"GroupQueryAttention", []*tensor.Tensor{q, q, q, nil, nil, length, total}, []*wire.AttributeProto{heads},
			"kv_num_heads is missing"},
		{"MultiHeadAttention", []*tensor.Tensor{q, q, q, nil, nil, nil, nil, nil, nil, length}, []*wire.AttributeProto{heads},
			"input 9"},
		{"MultiHeadAttention", []*tensor.Tensor{q}, []*wire.AttributeProto{heads}, "keys or values are missing"},
		{"Attention", []*tensor.Tensor{q, random(r, 8, 24)}, []*wire.AttributeProto{heads, wire.IntAttribute("do_rotary", 1)},
			"do_rotary = 1"},
		{"Attention", []*tensor.Tensor{q, random(r, 8, 24), nil, tensor.Of[int32](1, 2, 3, 4, 5)},
			[]*wire.AttributeProto{heads}, "a mask"},
		{"FusedConv", []*tensor.Tensor{random(r, 1, 1, 3), random(r, 1, 1, 1)},
			[]*wire.AttributeProto{wire.StringAttribute("activation", "Sine")}, `activation "Sine"`},
		{"FusedConv", []*tensor.Tensor{q}, nil, "1 inputs where the operator has 2 to 4"},
		{"QuickGelu", []*tensor.Tensor{q}, []*wire.AttributeProto{wire.IntAttribute("alpha", 2)},
			"the attribute alpha is of type int, not float"},
		{"QuickGelu", []*tensor.Tensor{q}, []*wire.AttributeProto{wire.FloatAttribute("beta", 2)}, `no attribute "beta"`},
		{"CDist", []*tensor.Tensor{random(r, 2, 2), random(r, 2, 2)},
			[]*wire.AttributeProto{wire.StringAttribute("metric", "cosine")}, `metric "cosine"`},
		{"BeamSearch", []*tensor.Tensor{q}, nil, "operators com.microsoft:BeamSearch"},
	} {
		if _, err := microsoftNode(c.name, c.in, c.attrs...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.want)
		}
	}
}
