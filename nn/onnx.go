package nn

import (
	"io"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// WriteONNX writes a trained network's inference computation as an ONNX model with its parameters. The specs describe
// the inputs: extents with names stay dynamic in the model. Specs may be omitted if the network's first layer
// determines its one input, as Linear, Embedding, convolutions and recurrent layers do, and any layer whose method
// Inputs() []array.Spec returns one spec.
func WriteONNX(w io.Writer, net Layer, p *Params, inputs ...array.Spec) error {
	if len(inputs) == 0 {
		spec, ok := inputOf(net)
		if !ok {
			return diag.Inputf("the network does not say what its inputs are").
				WithFix(`give them: array.SpecOf("x", weir.F32, "batch", 784)`)
		}
		inputs = []array.Spec{spec}
	}
	names, buffers := map[*array.Array]string{}, map[*array.Array]bool{}
	for _, s := range p.list {
		names[s.array], buffers[s.array] = s.name, s.buffer
	}
	f := func(s *array.Scope, in ...*array.Array) []*array.Array { return Apply(Inference(s, p), net, in...) }
	name := func(a *array.Array) string { return names[a] }
	return array.WriteONNX(w, f, inputs, name, func(a *array.Array) bool { return buffers[a] })
}

// inputOf returns a network's input, if its first layer determines it.
func inputOf(net Layer) (array.Spec, bool) {
	switch l := net.(type) {
	case interface{ Inputs() []array.Spec }: // a layer of another package
		if list := l.Inputs(); len(list) == 1 {
			return list[0], true
		}
	case *sequential:
		if len(l.layers) > 0 {
			return inputOf(l.layers[0])
		}
	case *linear:
		return array.SpecOf("x", l.dtype, "batch", l.in), true
	case *embedding:
		return array.SpecOf("x", weir.I64, "batch", "positions"), true
	case *recurrent:
		return array.SpecOf("x", l.dtype, "batch", "steps", l.in), true
	case *convolution:
		shape := []any{"batch", l.in}
		for _, name := range [][]any{{"width"}, {"height", "width"}, {"depth", "height", "width"}}[l.axes-1] {
			shape = append(shape, name)
		}
		return array.SpecOf("x", l.dtype, shape...), true
	}
	return array.Spec{}, false
}
