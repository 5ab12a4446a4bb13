// Package kept holds arrays, tensors and slices that outlive what they belong to.
package kept

import (
	"context"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

type net struct {
	hidden *array.Array
	last   map[string]*array.Array
	scores []float32
	list   []*array.Array
}

var newest *array.Array

func returned(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("layer", array.In(parent))
	defer s.Close()
	return s.Relu(x) // want `an array is returned, but dies when this function closes the scope from array.NewScope: give it to the outer scope with Return, or Copy its elements`
}

func returnedAfterClose(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("layer", array.In(parent))
	y := s.Relu(s.Add(x, x))
	s.Close()
	return y // want `an array is returned, but dies`
}

func returnedOnOnePath(parent *array.Scope, x *array.Array, deep bool) *array.Array {
	s := array.NewScope("layer", array.In(parent))
	defer s.Close()
	y := s.Relu(x)
	if deep {
		return s.Return(s.Relu(y))
	}
	return y // want `an array is returned, but dies`
}

func returnedInSlice(parent *array.Scope, x *array.Array) []*array.Array {
	s := array.NewScope("layer", array.In(parent))
	defer func() { s.Close() }()
	return []*array.Array{s.Return(s.Relu(x)), s.Sum(x)} // want `is returned, but dies`
}

func returnedInStruct(parent *array.Scope, data []float32) train.Batch {
	s := array.NewScope("batch", array.In(parent))
	defer s.Close()
	return train.Batch{X: array.From(s, data)} // want `is returned, but dies`
}

func returnedFromLoop(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("layers", array.In(parent))
	defer s.Close()
	for range 3 {
		x = s.Relu(x)
	}
	return x // want `an array is returned, but dies`
}

func (n *net) field(parent *array.Scope, x *array.Array) {
	s := array.NewScope("forward", array.In(parent))
	defer s.Close()
	n.hidden = s.Relu(x) // want `an array is kept in a field, but dies when this function closes the scope from array.NewScope`
}

func global(parent *array.Scope, x *array.Array) {
	s := array.NewScope("forward", array.In(parent))
	defer s.Close()
	newest = s.Relu(x) // want `an array is kept in a global variable`
}

func (n *net) inMap(parent *array.Scope, x *array.Array) {
	s := array.NewScope("forward", array.In(parent))
	defer s.Close()
	n.last["x"] = s.Relu(x) // want `an array is kept in a map`
}

func sent(parent *array.Scope, x *array.Array, to chan<- *array.Array) {
	s := array.NewScope("forward", array.In(parent))
	defer s.Close()
	to <- s.Relu(x) // want `an array is kept in a channel`
}

func outsideClosure(parent *array.Scope, x *array.Array) *array.Array {
	var y *array.Array
	func() {
		s := array.NewScope("inner", array.In(parent))
		defer s.Close()
		y = s.Relu(x) // want `an array is kept in a variable outside the closure`
	}()
	return y
}

func (n *net) appended(parent *array.Scope, x *array.Array) {
	s := array.NewScope("forward", array.In(parent))
	defer s.Close()
	n.list = append(n.list, s.Relu(x)) // want `kept in a field`
}

func finish(s *array.Scope, x *array.Array) *array.Array {
	defer s.Close()
	return s.Sum(x) // want `an array is returned, but dies when this function closes the scope s`
}

func forward(s *array.Scope, x *array.Array) *array.Array { return s.Relu(s.Add(x, x)) }

func byHelper(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("helper", array.In(parent))
	defer s.Close()
	return forward(s, x) // want `an array is returned, but dies`
}

func byCompiled(parent *array.Scope, c *array.Compiled, x *array.Array) *array.Array {
	s := array.NewScope("compiled", array.In(parent))
	defer s.Close()
	return c.Call(s, x)[0] // want `is returned, but dies`
}

func viewOfArray(parent *array.Scope, x *array.Array) ([]float32, error) {
	s := array.NewScope("view", array.In(parent))
	defer s.Close()
	return array.View[float32](s.Relu(x)) // want `a slice is returned, but dies when this function closes the scope from array.NewScope: Copy its elements`
}

func tensorOfArray(parent *array.Scope, x *array.Array) *weir.Tensor {
	s := array.NewScope("tensor", array.In(parent))
	defer s.Close()
	return s.Relu(x).Tensor() // want `is returned, but dies`
}

func ofResults(ctx context.Context, p *weir.Program, in weir.Inputs) (*weir.Tensor, error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Get("y"), nil // want `a tensor is returned, but dies when this function closes the results from Program.Run: Copy its elements`
}

func ofOutputs(ctx context.Context, p *weir.Program, in weir.Inputs) (*weir.Tensor, error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var outputs weir.Outputs = r
	return outputs.At(0), nil // want `a tensor is returned, but dies when this function closes the results from Program.Run: Copy its elements`
}

func viewOfResults(ctx context.Context, p *weir.Program, in weir.Inputs) ([]float32, error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	scores, err := weir.View[float32](r.Get("y"))
	if err != nil {
		return nil, err
	}
	return scores, nil // want `is returned, but dies when this function closes the results from Program.Run`
}

func (n *net) viewInField(ctx context.Context, p *weir.Program, in weir.Inputs) error {
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	defer r.Close()
	n.scores, err = weir.View[float32](r.At(0)) // want `is kept in a field, but dies when this function closes the results`
	return err
}

func bytesOfTensor() []byte {
	t, err := weir.New(weir.F32, 3)
	if err != nil {
		return nil
	}
	defer t.Close()
	return t.Bytes() // want `a slice is returned, but dies when this function closes the tensor from weir.New`
}

func outputOfCall(p *weir.Program) (*weir.Tensor, error) {
	c, err := p.NewCall(nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Output("y"), c.Run(context.Background()) // want `a tensor is returned, but dies when this function closes the call`
}

func closedByDefer(path string) (*weir.Model, error) {
	m, err := weir.Load(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m, nil // want `the model from weir.Load is returned, but closed by a defer of this function`
}

func byContext(parent *array.Scope, l nn.Layer, p *nn.Store, x *array.Array) *array.Array {
	s := array.NewScope("context", array.In(parent))
	defer s.Close()
	return nn.One(nn.Inference(s, p), l, x) // want `an array is returned, but dies`
}

func operationOfContext(parent *array.Scope, p *nn.Store, x *array.Array) *array.Array {
	s := array.NewScope("context", array.In(parent))
	defer s.Close()
	c := nn.Inference(s, p)
	return c.Relu(c.Add(x, c.Param("w"))) // want `an array is returned, but dies`
}

func apply(c *nn.Context, x *array.Array) *array.Array { return c.Relu(x) }

func helperOfContext(parent *array.Scope, p *nn.Store, x *array.Array) *array.Array {
	s := array.NewScope("context", array.In(parent))
	defer s.Close()
	return apply(nn.Inference(s, p), x) // want `an array is returned, but dies`
}
