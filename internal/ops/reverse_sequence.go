package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator reverse_sequence.
func init() {
	define(&Def{Op: "reverse_sequence", Grad: reverseSequenceGrad, Shape: reverseSequenceShape, Mean: reverseSequenceMean,
		Samples:   reverseSequenceSamples,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: reverseSequenceMap}}})
}

// ReverseSequence reverses the first lengths[i] elements along the time axis, for each index i of the batch axis.
func ReverseSequence(b *ir.Builder, x, lengths *ir.Value, batch, time int64) *ir.Value {
	return b.Op("reverse_sequence", ir.Attrs{"batch": batch, "time": time}, x, lengths)
}

// reverseSequenceAxes returns the batch and time axes, which must differ.
func reverseSequenceAxes(n *ir.Node) (batch, time int, err error) {
	rank := len(n.Inputs[0].Type.Shape)
	if batch, err = axisOf(n, n.Attrs.Int("batch", 1), rank); err != nil {
		return 0, 0, err
	}
	if time, err = axisOf(n, n.Attrs.Int("time", 0), rank); err == nil && time == batch {
		err = fault(n, "one axis is both the batch and the time")
	}
	return batch, time, err
}

// reverseSequenceShape requires one integer length for each sequence of the batch.
func reverseSequenceShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	x, lengths := n.Inputs[0].Type, n.Inputs[1].Type
	if err := indexed(n); err != nil {
		return err
	}
	batch, _, err := reverseSequenceAxes(n)
	if err != nil {
		return err
	}
	if len(lengths.Shape) != 1 {
		return fault(n, "lengths of rank %d", len(lengths.Shape))
	}
	if err := c.RequireEqual(n, lengths.Shape[0], x.Shape[batch], "one length for each sequence"); err != nil {
		return err
	}
	n.Result(0, x)
	return nil
}

// reverseSequenceMean fails if a length is not between 0 and the time axis's extent.
func reverseSequenceMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	batch, time, err := reverseSequenceAxes(n)
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(out.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		if err != nil {
			return
		}
		length := in[1].Int(at[batch])
		if length < 0 || length > out.Shape()[time] {
			err = fault(n, "a sequence of length %d in an axis of %d", length, out.Shape()[time])
			return
		}
		from := at[time]
		if from < length {
			from = length - 1 - from
		}
		moveElement(out, flat, in[0], flat+(from-at[time])*strides[time])
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// reverseSequenceMap loads each element from its mirrored position; a length outside its range ends the run.
func reverseSequenceMap(k *Nest, n *ir.Node) {
	x, lengths, out := k.In[0], k.In[1], k.Out[0]
	batch, time, _ := reverseSequenceAxes(n)
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		length := k.Check("n", loop.Convert(dtype.I64, lengths.Load(at[batch])), sym.Const(0), x.Shape[time],
			"the length of a sequence")
		// Beyond the length, the mirrored position is negative.
		mirror := length.Sub(one).Sub(at[time])
		from := append([]sym.Expr{}, at...)
		from[time] = k.Check("t", loop.Choose(loop.Apply2(loop.Lt, loop.At(at[time]), loop.At(length)), loop.At(mirror),
			loop.At(at[time])),
			sym.Const(0), x.Shape[time].Sub(one), outside)
		k.Store(out, at, x.Load(from...))
	})
}
