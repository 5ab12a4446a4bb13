package conformance

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// runtimeForms are nodes whose inputs after the first decide the shape of the result. If wrong, the inputs break a
// rule, and a run must refuse them.
var runtimeForms = []struct {
	op     string
	shape  []int64
	inputs [][]int64 // nil: absent
	ints   map[string]int64
	wrong  bool
}{
	{op: "CumSum", shape: []int64{2, 3, 4}, inputs: [][]int64{{0}}},
	{op: "CumSum", shape: []int64{2, 3, 4}, inputs: [][]int64{{-1}}, ints: map[string]int64{"reverse": 1, "exclusive": 1}},
	{op: "CumSum", shape: []int64{2, 3, 4}, inputs: [][]int64{{3}}, wrong: true},
	{op: "Squeeze", shape: []int64{1, 3, 1, 2}, inputs: [][]int64{{2, 0}}},
	{op: "Squeeze", shape: []int64{1, 3, 1, 2}, inputs: [][]int64{{-2}}},
	{op: "Squeeze", shape: []int64{1, 3, 1, 2}, inputs: [][]int64{{1}}, wrong: true},
	{op: "Squeeze", shape: []int64{1, 3, 1, 2}, inputs: [][]int64{{0, -4}}, wrong: true},
	{op: "Unsqueeze", shape: []int64{3, 2}, inputs: [][]int64{{3, 1}}},
	{op: "Unsqueeze", shape: []int64{3, 2}, inputs: [][]int64{{-1}}},
	{op: "Unsqueeze", shape: []int64{3, 2}, inputs: [][]int64{{1, 1}}, wrong: true},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{1, -3}, {9223372036854775807, -1}, {2, 0}, {1, 1}}},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{4, 0}, {-9223372036854775808, 4}, {0, -2}, {-2, 3}}},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{3}, {1}, {0}, {1}}},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{1, 0}, {3, 2}}},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{1}, {3}, {0}, {0}}, wrong: true},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{1, 1}, {3, 3}, {0, 0}, {1, 1}}, wrong: true},
	{op: "Slice", shape: []int64{5, 4, 3}, inputs: [][]int64{{1}, {3}, {-4}, {1}}, wrong: true},
	{op: "Pad", shape: []int64{2, 3}, inputs: [][]int64{{1, 2, 0, 1}, nil, {1, 0}}},
	{op: "Pad", shape: []int64{2, 3}, inputs: [][]int64{{-1, 2}, nil, {-1}}},
	{op: "Pad", shape: []int64{2, 3}, inputs: [][]int64{{1, 2}, nil, {2}}, wrong: true},
	{op: "ReduceSum", shape: []int64{2, 3, 4}, inputs: [][]int64{{1, -3}}},
	{op: "ReduceSum", shape: []int64{2, 3, 4}, inputs: [][]int64{{1}}, ints: map[string]int64{"keepdims": 0}},
	{op: "ReduceMax", shape: []int64{2, 3, 4}, inputs: [][]int64{{0, 2}}, ints: map[string]int64{"keepdims": 0}},
	{op: "ReduceSum", shape: []int64{2, 3, 4}, inputs: [][]int64{{4}}, wrong: true},
	{op: "Reshape", shape: []int64{2, 3, 4}, inputs: [][]int64{{0, -1}}},
	{op: "Reshape", shape: []int64{2, 3, 4}, inputs: [][]int64{{4, 3, 2}}},
	{op: "Reshape", shape: []int64{0, 3, 4}, inputs: [][]int64{{3, 0, 4}}, ints: map[string]int64{"allowzero": 1}},
	{op: "Reshape", shape: []int64{2, 3, 4}, inputs: [][]int64{{5, -1}}, wrong: true},
	{op: "Reshape", shape: []int64{2, 3, 4}, inputs: [][]int64{{-1, -1}}, wrong: true},
	{op: "Reshape", shape: []int64{2, 3, 4}, inputs: [][]int64{{-2, 3, 4}}, wrong: true},
	{op: "Expand", shape: []int64{3, 1}, inputs: [][]int64{{2, 1, 4}}},
	{op: "Expand", shape: []int64{3, 1}, inputs: [][]int64{{2, 3, 4}}},
	{op: "Expand", shape: []int64{3, 1}, inputs: [][]int64{{2, 2, 4}}, wrong: true},
	{op: "Tile", shape: []int64{3, 2}, inputs: [][]int64{{2, 3}}},
	{op: "Tile", shape: []int64{3, 2}, inputs: [][]int64{{-1, 3}}, wrong: true},
	{op: "TopK", shape: []int64{3, 5}, inputs: [][]int64{{2}}},
	{op: "TopK", shape: []int64{3, 5}, inputs: [][]int64{{6}}, wrong: true},
}

// TestRuntimeForms runs the nodes with the inputs as arguments and as constants: the results are the same, and the
// measured bytes are the predicted ones. Wrong inputs are ErrInput before anything is computed.
func TestRuntimeForms(t *testing.T) {
	for i, c := range runtimeForms {
		t.Run(fmt.Sprint(i, " ", c.op, c.inputs), func(t *testing.T) {
			x, err := tensor.New(weir.F32, c.shape...)
			if err != nil {
				t.Fatal(err)
			}
			for k := range x.Len() {
				x.SetFloat(k, float64(k*7%11))
			}
			given := map[string]*tensor.Tensor{"x": x}
			n := &wire.NodeProto{OpType: c.op, Name: "n", Input: []string{"x"}, Output: []string{"y"}}
			if c.op == "TopK" {
				n.Output = append(n.Output, "i")
			}
			for k, list := range c.inputs {
				name := fmt.Sprint("a", k)
				if list == nil {
					name = ""
				} else {
					given[name] = tensor.Of(list...)
				}
				n.Input = append(n.Input, name)
			}
			for name, v := range c.ints {
				n.Attribute = append(n.Attribute, &wire.AttributeProto{Name: name, Type: wire.AttributeInt, I: v})
			}
			run := func(constants bool) (*tensor.Tensor, error) {
				g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{n}, Output: []*wire.ValueInfoProto{{Name: "y"}}}
				in := weir.Inputs{}
				for _, name := range n.Input {
					v := given[name]
					if v == nil {
						continue
					}
					if constants && name != "x" {
						g.Initializer = append(g.Initializer, wire.FromTensor(name, v))
						continue
					}
					var dims []*wire.Dimension
					for _, s := range v.Shape() {
						dims = append(dims, wire.Size(s))
					}
					g.Input = append(g.Input, wire.TensorValue(name, wire.DataTypeOf(v.DType()), dims...))
					if in[name], err = values.ToWeir(v); err != nil {
						return nil, err
					}
				}
				m, err := weir.LoadBytes((&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}},
					Graph: g}).Marshal())
				if err != nil {
					return nil, err
				}
				defer m.Close()
				p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 2})
				if err != nil {
					return nil, err
				}
				defer p.Close()
				r, err := p.Run(t.Context(), in)
				if err != nil {
					return nil, err
				}
				defer r.Close()
				memory, err := MemoryOf(t.Context(), p, in)
				if err != nil {
					return nil, err
				}
				if memory.Measured != memory.Predicted {
					t.Errorf("predicted %d bytes, measured %d", memory.Predicted, memory.Measured)
				}
				out, err := values.FromWeir(r.At(0))
				if err != nil {
					return nil, err
				}
				return out.Clone(), nil
			}
			got, err := run(false)
			if c.wrong {
				if !errors.Is(err, weir.ErrInput) {
					t.Errorf("it gives %v, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := run(true)
			if err != nil {
				t.Fatal(err)
			}
			if err := tensor.Compare(got, want, 0, 0); err != nil {
				t.Error(err)
			}
		})
	}
}
