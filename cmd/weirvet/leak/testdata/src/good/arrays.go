package good

import (
	"context"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// 1: returned to the outer scope.
func layer(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("layer", array.In(parent))
	defer s.Close()
	return s.Return(s.Relu(x))
}

// 2: returned first, given back later.
func later(parent *array.Scope, x *array.Array) (*array.Array, error) {
	s := array.NewScope("later", array.In(parent))
	defer s.Close()
	y := s.Relu(x)
	s.Return(y)
	if err := s.Err(); err != nil {
		return nil, err
	}
	return y, nil
}

// 3: several at once.
func two(parent *array.Scope, x *array.Array) (a, b *array.Array) {
	s := array.NewScope("two", array.In(parent))
	defer s.Close()
	a, b = s.Relu(x), s.Sum(x)
	s.Return(a, b)
	return a, b
}

// 4: a list.
func split(parent *array.Scope, x *array.Array) []*array.Array {
	s := array.NewScope("split", array.In(parent))
	defer s.Close()
	parts := s.Split(x, 2)
	s.Return(parts...)
	return parts
}

// 5: a list that grows.
func collected(parent *array.Scope, x *array.Array, n int) []*array.Array {
	s := array.NewScope("collected", array.In(parent))
	defer s.Close()
	var list []*array.Array
	for range n {
		x = s.Relu(x)
		list = append(list, x)
	}
	s.Return(list...)
	return list
}

// 6: transferred.
type model struct {
	scope  *array.Scope
	weight *array.Array
	mean   []float32
}

func (m *model) update(x *array.Array) error {
	s := array.NewScope("update", array.In(m.scope))
	defer s.Close()
	w := s.Add(m.weight, x)
	s.Transfer(w, m.scope)
	m.weight = w
	return s.Err()
}

// 7: what is returned by Return is stored.
func (m *model) step(x *array.Array) {
	s := array.NewScope("step", array.In(m.scope))
	defer s.Close()
	m.weight = s.Return(s.Add(m.weight, x))
}

// 8: elements are copied.
func (m *model) statistics(x *array.Array) (err error) {
	s := array.NewScope("statistics", array.In(m.scope))
	defer s.Close()
	m.mean, err = array.Copy[float32](s.Sum(x, 0))
	return err
}

// 9: a number.
func loss(parent *array.Scope, x *array.Array) (float32, error) {
	s := array.NewScope("loss", array.In(parent))
	defer s.Close()
	return array.Item[float32](s.Sum(x))
}

// 10: an element of a view.
func firstOf(parent *array.Scope, x *array.Array) (float32, error) {
	s := array.NewScope("first", array.In(parent))
	defer s.Close()
	list, err := array.View[float32](s.Relu(x))
	if err != nil {
		return 0, err
	}
	return list[0], nil
}

// 11: the shape.
func shape(parent *array.Scope, x *array.Array) []int {
	s := array.NewScope("shape", array.In(parent))
	defer s.Close()
	return s.Sum(x, 0).Shape()
}

// 12: the operand is returned, which is not the scope's.
func operand(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("operand", array.In(parent))
	defer s.Close()
	if n, _ := array.Item[float32](s.Sum(x)); n > 0 {
		return x
	}
	return nil
}

// 13: computed in the outer scope.
func outer(parent *array.Scope, x *array.Array) *array.Array {
	s := array.NewScope("outer", array.In(parent))
	defer s.Close()
	return parent.Relu(s.Add(x, x))
}

// 14: kept for a time, and let go of.
func (m *model) scratch(x *array.Array) {
	s := array.NewScope("scratch", array.In(m.scope))
	defer s.Close()
	m.weight = s.Relu(x)
	m.step(x)
	m.weight = nil
}

// 15: in a local struct and a local map.
func local(parent *array.Scope, data []float32, t *train.Trainer) error {
	s := array.NewScope("local", array.In(parent))
	defer s.Close()
	b := train.Batch{X: array.From(s, data), Y: array.From(s, data)}
	seen := map[string]*array.Array{"x": b.X}
	seen["y"] = b.Y
	_, err := t.Step(context.Background(), b)
	return err
}

// 16: a worker reads before the scope ends.
func workers(x *array.Array) {
	s := array.NewScope("workers")
	defer s.Close()
	jobs := make(chan *array.Array)
	var wg sync.WaitGroup
	wg.Go(func() {
		for a := range jobs {
			fmt.Println(a.Shape())
		}
	})
	jobs <- s.Relu(x)
	close(jobs)
	wg.Wait()
}

// 17: a scope per batch of a sequence.
func epoch(ctx context.Context, batches iter.Seq[[]float32], t *train.Trainer) error {
	for data := range batches {
		s := array.NewScope("batch")
		m, err := t.Step(ctx, train.Batch{X: array.From(s, data)})
		if closing := s.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return err
		}
		fmt.Println(m.Loss)
	}
	return nil
}

// 18: a sequence that owns its scopes.
func batches(data [][]float32) iter.Seq2[*array.Scope, *array.Array] {
	return func(yield func(*array.Scope, *array.Array) bool) {
		for _, d := range data {
			s := array.NewScope("batch")
			more := yield(s, array.From(s, d))
			s.Close()
			if !more {
				return
			}
		}
	}
}

// 19: traced functions need no Return.
func traced() (*array.Compiled, error) {
	return array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		h := s.Relu(in[0])
		return []*array.Array{s.Sum(h)}
	}, array.Options{Name: "traced"})
}

// 20: a layer of one's own.
type block struct{ inner nn.Layer }

func (b block) Forward(s *array.Scope, x *array.Array) *array.Array {
	return s.Add(x, b.inner.Forward(s, x))
}

func predict(l nn.Layer, parent *array.Scope, data []float32) ([]float32, error) {
	s := array.NewScope("predict", array.In(parent))
	defer s.Close()
	return array.Copy[float32](l.Forward(s, array.From(s, data)))
}

// 21: a function of a scope.
func apply(s *array.Scope, x *array.Array, fs ...func(*array.Scope, *array.Array) *array.Array) *array.Array {
	for _, f := range fs {
		x = f(s, x)
	}
	return x
}

func applied(x *array.Array) error {
	s := array.NewScope("applied")
	defer s.Close()
	fmt.Println(apply(s, x, layer, outer).Shape())
	s.Dump(os.Stdout)
	return s.Err()
}

// 22: loans end with the scope.
func lent(parent *array.Scope, w *array.Array) error {
	child := array.NewScope("child", array.In(parent))
	parent.Lend(w, child)
	fmt.Println(child.Relu(w).Shape())
	return child.Close()
}

// 23: an array is closed before its scope.
func closedEarly(s *array.Scope, n int) {
	x := s.Zeros(weir.F32, 2)
	for range n {
		y := s.Add(x, x)
		x.Close()
		x = y
	}
}

// 24: results that a later run consumes.
func consumed(ctx context.Context, forward, backward *weir.Program, in weir.Inputs) error {
	kept, err := forward.Run(ctx, in)
	if err != nil {
		return err
	}
	r, err := backward.Run(ctx, weir.Inputs{"h": weir.Consume(kept.Get("h")), "x": in["x"]})
	if err != nil {
		return err
	}
	return r.Close()
}

// 25: a tensor that is given away.
func given(ctx context.Context, p *weir.Program) error {
	t, err := weir.New(weir.F32, 2)
	if err != nil {
		return err
	}
	r, err := p.Run(ctx, weir.Inputs{"x": weir.Donate(t)})
	if err != nil {
		return err
	}
	return r.Close()
}

// 26: inputs that are returned hold their tensors.
func inputs() (weir.Inputs, error) {
	x, err := weir.New(weir.F32, 2)
	if err != nil {
		return nil, err
	}
	return weir.Inputs{"x": x}, nil
}

// 27: inputs that are closed one by one.
func inputsClosed(ctx context.Context, p *weir.Program) error {
	in := weir.Inputs{}
	defer func() {
		for _, a := range in {
			if t, ok := a.(*weir.Tensor); ok {
				t.Close()
			}
		}
	}()
	for _, info := range p.Outputs() {
		t, err := weir.New(weir.F32, 2)
		if err != nil {
			return err
		}
		in[info.Name] = t
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	return r.Close()
}

// 28: inputs of a loop, closed at the end.
func inputsDeferred(ctx context.Context, p *weir.Program) error {
	in := weir.Inputs{}
	for _, info := range p.Outputs() {
		t, err := weir.New(weir.F32, 2)
		if err != nil {
			return err
		}
		defer t.Close()
		in[info.Name] = t
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	defer r.Close()
	return nil
}

// 29: the tensors of results are handed on.
func output(ctx context.Context, p *weir.Program, in weir.Inputs) (*weir.Tensor, error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	return r.Get("y"), nil
}

// 30: memory of Go needs no end.
func fromSlice(ctx context.Context, p *weir.Program) error {
	x, err := weir.FromSlice([]float32{1, 2}, 2)
	if err != nil {
		return err
	}
	r, err := p.Run(ctx, weir.Inputs{"x": x})
	if err != nil {
		return err
	}
	return r.Close()
}

// 31: results that the caller looks at with a function.
func visit(ctx context.Context, p *weir.Program, in weir.Inputs, look func(y []float32) error) error {
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	defer r.Close()
	y, err := weir.View[float32](r.Get("y"))
	if err != nil {
		return err
	}
	return look(y)
}

// 33: elements are appended to a slice of Go's.
func cloned(ctx context.Context, p *weir.Program, in weir.Inputs) ([]float32, error) {
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	y, err := weir.View[float32](r.Get("y"))
	return append([]float32(nil), y...), err
}

// 32: meant so.
func meant() {
	array.NewScope("forever") //weirvet:ignore it lives as long as the process
	//weirvet:ignore so does this
	s := array.NewScope("forever too")
	fmt.Println(s.Err())
}

// 34: a layer that computes in a context, whoever closes its scope.
func inContextOf(c *nn.Context, l nn.Layer, x *array.Array) *array.Array {
	return c.Add(x, nn.One(c, l, x))
}

func predicted(parent *array.Scope, l nn.Layer, p *nn.Store, x *array.Array) *array.Array {
	s := array.NewScope("predicted", array.In(parent))
	defer s.Close()
	return s.Return(inContextOf(nn.Inference(s, p), l, x))
}

// 35: a parameter belongs to the store.
func weight(parent *array.Scope, p *nn.Store) *array.Array {
	s := array.NewScope("weight", array.In(parent))
	defer s.Close()
	return nn.Inference(s, p).Param("weight")
}

// carried has each turn close the scope of the turn before it.
func carried(n int) float32 {
	last := array.NewScope("first")
	x := array.From(last, []float32{1, 2})
	for range n {
		s := array.NewScope("turn")
		x = s.Add(x, x)
		last.Close()
		last = s
	}
	defer last.Close()
	v, _ := array.Item[float32](x)
	return v
}

// carriedDeferred does so with a variable that a defer closes.
func carriedDeferred(list [][]float32) error {
	last := array.NewScope("first")
	defer func() { last.Close() }()
	for _, data := range list {
		s := array.NewScope("turn")
		array.From(s, data).Shape()
		if err := s.Err(); err != nil {
			s.Close()
			return err
		}
		last.Close()
		last = s
	}
	return nil
}
