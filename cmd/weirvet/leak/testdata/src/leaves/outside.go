package leaves

import "github.com/weirml/weir/array"

func helper(s *array.Scope, x *array.Array) *array.Array { return s.Relu(x) }

type store struct{ t *array.Array }

func helper2(p *store, s *array.Scope, x *array.Array) *array.Array {
	in := array.NewScope("in", array.In(s))
	defer in.Close()
	return in.Return(in.Take(p.t, x, 0))
}

func a(p *store, x *array.Array) ([]float32, error) {
	b := array.NewScope("batch")
	v, err := array.View[float32](b.Relu(x))
	b.Close()
	return v, err // want `dies when this function closes`
}

func a2(p *store, x *array.Array) ([]float32, error) {
	b := array.NewScope("batch")
	v, err := array.View[float32](helper(b, x))
	b.Close()
	return v, err // want `dies when this function closes`
}

func a3(p *store, x *array.Array) ([]float32, error) {
	b := array.NewScope("batch")
	defer b.Close()
	return array.View[float32](helper2(p, b, x)) // want `dies when this function closes`
}

func a4(p *store, x *array.Array) *array.Array {
	b := array.NewScope("batch")
	defer b.Close()
	return helper2(p, b, x) // want `dies when this function closes`
}

func c(x *array.Array, out chan *array.Array) {
	b := array.NewScope("batch")
	defer b.Close()
	out <- b.Relu(x) // want `dies when this function closes`
}

func c2(x *array.Array, out chan *array.Array) {
	go func() {
		b := array.NewScope("batch")
		defer b.Close()
		out <- b.Relu(x) // want `dies when this function closes`
	}()
}

func c3(x *array.Array, out chan *array.Array) {
	b := array.NewScope("batch")
	defer b.Close()
	out <- helper(b, x) // want `dies when this function closes`
}

func c4(p *store, x *array.Array, out chan *array.Array) {
	b := array.NewScope("batch")
	defer b.Close()
	out <- helper2(p, b, x) // want `dies when this function closes`
}

var _ = []any{a, a2, a3, a4, c, c2, c3, c4}
