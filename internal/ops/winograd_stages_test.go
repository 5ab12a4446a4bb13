package ops

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/winograd"
)

// inStages returns the convolution of x, [1, H, W, C], with w, [3, 3, C, O], padded by 1, as the lowerings of the
// stages compute it.
func inStages(t *testing.T, x, w *tensor.Tensor, tile int64) *tensor.Tensor {
	t.Helper()
	channels, filters := w.Shape()[2], w.Shape()[3]
	weights, _ := tensor.Data[float32](w)
	transformed := make([]float32, (tile+2)*(tile+2)*channels*filters)
	winograd.Weights(transformed, weights, channels, filters, tile)
	u := tensor.Must(tensor.FromSlice(transformed, (tile+2)*(tile+2), channels, filters))
	turned := func(x *tensor.Tensor, perm ...int64) *tensor.Tensor {
		return tensor.Must(tensor.Permuted(x, x.Shape(), perm)).Clone()
	}
	s := newSampled(Sample{Inputs: []*tensor.Tensor{turned(x, 0, 3, 1, 2), u, turned(w, 3, 2, 0, 1)}}, false)
	pad := ir.Constants([]int64{1, 1})
	var y *ir.Value
	err := func() (err error) {
		defer ir.Catch(&err)
		y = WinogradStages(s.build, s.inputs[0], s.inputs[1], s.inputs[2], nil, tile, pad, pad)
		return nil
	}()
	if err != nil {
		t.Fatal(err)
	}
	values := map[*ir.Value]*tensor.Tensor{}
	for i, v := range s.inputs {
		values[v] = s.args[i]
	}
	for _, n := range s.module.Main.Body.Nodes {
		values[n.Outputs[0]] = lowered(t, s, n, values)
	}
	return turned(values[y], 0, 2, 3, 1)
}

// lowered returns the result of a node, computed by its lowering for blocks of threads, or as a view.
func lowered(t *testing.T, s *sampled, n *ir.Node, values map[*ir.Value]*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	e := ir.NewEvaluation(nil)
	shape, err := e.Ints(n.Outputs[0].Type.Shape)
	if err != nil {
		t.Fatal(err)
	}
	got := tensor.Must(tensor.New(n.Outputs[0].Type.DType, shape...))
	low := Of(n).LoweringOf(n, s.module.Dims, true)
	if low == nil {
		copy(got.Bytes(), values[n.Inputs[0]].Bytes())
		return got
	}
	k := &Nest{Builder: loop.NewBuilder("stage"), D: s.module.Dims}
	var operands []loop.Data
	for _, v := range n.Inputs {
		k.In = append(k.In, k.Param("x", loop.Read, v.Type.DType, v.Type.Shape))
		operands = append(operands, loop.Data{DType: v.Type.DType, Bytes: values[v].Bytes()})
	}
	k.Out = append(k.Out, k.Param("y", loop.Write, dtype.F32, n.Outputs[0].Type.Shape))
	low.Lower(k, n)
	if err := loop.Interpret(k.Finish(), append(operands, loop.Data{DType: got.DType(), Bytes: got.Bytes()}),
		nil); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestWinogradStagesBound is TestWinogradBound for the stages.
func TestWinogradStagesBound(t *testing.T) { testWinogradBound(t, nil, inStages) }
