// Package leaves has one function for each way in which an array leaves its scope, or stays in one that lives longer,
// and functions that look alike but leak nothing.
package leaves

import (
	"sync"

	"github.com/weirml/weir/array"
)

type model struct {
	scope *array.Scope
	table *array.Array
	mu    sync.Mutex
}

var global = array.NewScope("global")

// operations on the model's scope
func m1(p *model, s *array.Scope, x *array.Array) *array.Array { return p.scope.Take(p.table, x, 0) } // want `grows with each call`
func (p *model) m2(x *array.Array) ([]float32, error) {
	return array.Copy[float32](p.scope.Relu(x)) // want `grows with each call`
}
func m3(p *model, data []float32) ([]float32, error) {
	s := array.NewScope("r", array.In(p.scope))
	defer s.Close()
	x := array.From(p.scope, data) // want `grows with each call`
	return array.Copy[float32](s.Relu(x))
}
func m4(s *array.Scope, w, x *array.Array) *array.Array { return w.Scope().MatMul(x, w) }              // want `grows with each call`
func m5(x *array.Array) ([]float32, error)              { return array.Copy[float32](global.Relu(x)) } // want `grows with each call`
func (p *model) m6(x *array.Array, n int) (out [][]float32) {
	for range n {
		ms := p.scope
		y := ms.Relu(x) // want `grows with each call`
		v, _ := array.Copy[float32](y)
		out = append(out, v)
	}
	return out
}
func (p *model) m7(x *array.Array) func() ([]float32, error) {
	return func() ([]float32, error) { return array.Copy[float32](p.scope.Relu(x)) } // want `grows with each call`
}
func (p *model) m8(s *array.Scope, x *array.Array) *array.Array {
	return s.Relu(helper(p.scope, x)) // want `grows with each call`
}

// closures
func k1(x *array.Array) func() ([]float32, error) {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	return func() ([]float32, error) { return array.Copy[float32](y) } // want `dies when this function closes`
}
func k2(x *array.Array) func() *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return func() *array.Array { return s.Relu(x) } // want `dies when this function closes`
}
func k3(x *array.Array) (get func() *array.Array) {
	s := array.NewScope("s")
	y := s.Relu(x)
	get = func() *array.Array { return y }
	s.Close()
	return get // want `dies when this function closes`
}

type lazy struct{ f func() *array.Array }

func (l *lazy) k4(x *array.Array) {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	l.f = func() *array.Array { return y } // want `dies when this function closes`
}
func k5(x *array.Array) *lazy {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	return &lazy{func() *array.Array { return y }} // want `dies when this function closes`
}

// method values
func v1(x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	relu := s.Relu
	return relu(x) // want `dies when this function closes`
}
func v2(x *array.Array) func(*array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return s.Relu // want `dies when this function closes`
}

// structs and slices
type out struct{ y *array.Array }

func s1(x *array.Array) *out {
	s := array.NewScope("s")
	defer s.Close()
	return &out{y: s.Relu(x)} // want `dies when this function closes`
}
func s2(x *array.Array) out {
	s := array.NewScope("s")
	defer s.Close()
	return out{s.Relu(x)} // want `dies when this function closes`
}
func s3(x *array.Array) []*array.Array {
	s := array.NewScope("s")
	defer s.Close()
	list := make([]*array.Array, 3)
	for i := range list {
		list[i] = s.Relu(x)
	}
	return list // want `dies when this function closes`
}
func s4(x *array.Array) any {
	s := array.NewScope("s")
	defer s.Close()
	return s.Relu(x) // want `dies when this function closes`
}
func s5(x *array.Array, c chan out) {
	s := array.NewScope("s")
	defer s.Close()
	c <- out{s.Relu(x)} // want `dies when this function closes`
}
func s6(x *array.Array) map[string]out {
	s := array.NewScope("s")
	defer s.Close()
	return map[string]out{"a": {s.Relu(x)}} // want `dies when this function closes`
}
func pairOf(s *array.Scope, x *array.Array) (out, error) { return out{s.Relu(x)}, nil }
func s7(x *array.Array) (out, error) {
	s := array.NewScope("s")
	defer s.Close()
	return pairOf(s, x) // want `dies when this function closes`
}
func listOf(s *array.Scope, x *array.Array) []*array.Array {
	return []*array.Array{s.Relu(x), s.Add(x, x)}
}
func s8(x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return listOf(s, x)[0] // want `dies when this function closes`
}
func s9(x *array.Array) (y *array.Array) {
	s := array.NewScope("s")
	defer func() { s.Close() }()
	y = s.Relu(x)
	return // want `dies when this function closes`
}

// helpers
func sub2(s *array.Scope, x *array.Array) (y *array.Array, err error) {
	in := array.NewScope("in", array.In(s))
	defer in.Close()
	y = in.Relu(x)
	in.Return(y)
	return y, in.Err()
}
func h1(x *array.Array) (*array.Array, error) {
	s := array.NewScope("s")
	defer s.Close()
	return sub2(s, x) // want `dies when this function closes`
}
func sub3(s *array.Scope, x *array.Array) *array.Array {
	in := array.NewScope("in")
	defer in.Close()
	y := in.Relu(x)
	in.Transfer(y, s)
	return y
}
func h2(x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	y := sub3(s, x)
	return y // want `dies when this function closes`
}

type layer interface {
	Forward(s *array.Scope, x *array.Array) *array.Array
}

func h3(l layer, x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return l.Forward(s, x) // want `dies when this function closes`
}
func h4(f func(s *array.Scope, x *array.Array) *array.Array, x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return f(s, x) // want `dies when this function closes`
}
func gen[T any](s *array.Scope, x *array.Array, _ T) *array.Array { return s.Relu(x) }
func h5(x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return gen(s, x, 3) // want `dies when this function closes`
}
func h6(x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	f := func(x *array.Array) *array.Array { return s.Relu(x) }
	return f(x) // want `dies when this function closes`
}
func deep(s *array.Scope, x *array.Array) *array.Array {
	in := array.NewScope("in", array.In(s))
	defer in.Close()
	return in.Return(helper(in, x))
}
func h7(x *array.Array) *array.Array {
	s := array.NewScope("s")
	defer s.Close()
	return deep(s, x) // want `dies when this function closes`
}

// loans
func l1(p *model, x *array.Array) error {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	s.Lend(y, p.scope) // want `is lent to a scope that stays open`
	return s.Err()
}
func l2(p *model, x *array.Array) error {
	s := array.NewScope("s")
	y := s.Relu(x)
	s.Lend(y, global) // want `is lent to a scope that stays open`
	return s.Close()
}
func l3(p *model, to *array.Scope, x *array.Array) error {
	s := array.NewScope("s")
	defer s.Close()
	s.Lend(s.Relu(x), to) // want `is lent to a scope that stays open`
	return s.Err()
}
func l4(p *model) { p.scope.Lend(p.table, global) } // want `is lent to a scope that outlives`

// goroutines
func g1(x *array.Array) {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	go func() { array.Copy[float32](y) }() // want `dies when this function closes`
}
func g2(x *array.Array, f func(*array.Array)) {
	s := array.NewScope("s")
	defer s.Close()
	go f(s.Relu(x)) // want `dies when this function closes`
}

// embedded
type request struct {
	*array.Scope
	id int
}

func e1(x *array.Array) *array.Array {
	r := request{Scope: array.NewScope("r")}
	defer r.Close()
	return r.Relu(x) // want `dies when this function closes`
}
func e2(x *array.Array) *array.Array {
	r := &request{Scope: array.NewScope("r")}
	defer r.Close()
	return r.Relu(x) // want `dies when this function closes`
}
func e3(x *array.Array) int {
	r := &request{Scope: array.NewScope("r")} // want `is not closed if the function returns`
	return r.Relu(x).Dim(0)
}

type context struct {
	s    *array.Scope
	last *array.Array
}

func (c *context) o1(x *array.Array) *array.Array { return c.s.Relu(c.s.Add(x, x)) }
func (c *context) o2(x *array.Array) {
	c.last = c.s.Relu(x)
}
func newModel(data []float32) *model {
	m := &model{scope: array.NewScope("model")}
	m.table = array.From(m.scope, data)
	w := m.scope.Relu(m.table)
	m.table = m.scope.Add(w, w)
	m.scope.Cap()
	return m
}
func (p *model) o3(x *array.Array) {
	s := array.NewScope("s")
	defer s.Close()
	w := p.scope.Add(p.table, s.Relu(x))
	p.table.Close()
	p.table = w
}
func (p *model) o4(x *array.Array) ([]float32, error) {
	y := p.scope.Relu(x)
	defer y.Close()
	return array.Copy[float32](y)
}
func o5(p *model, x *array.Array) ([]float32, error) {
	s := array.NewScope("s", array.In(p.scope))
	defer s.Close()
	l := p.scope.Lend(p.table, s)
	defer l.Close()
	return array.Copy[float32](s.MatMul(x, p.table))
}
func o6(p *model, x *array.Array) error {
	s := array.NewScope("s")
	defer s.Close()
	l := s.Lend(s.Relu(x), p.scope)
	return l.Close()
}
func o7(s *array.Scope, x *array.Array) *array.Array { return s.Add(x, x.Scope().Number(2)) }
func o8(x *array.Array) {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	done := make(chan bool)
	go func() { array.Copy[float32](y); close(done) }()
	<-done
}
func o9(x *array.Array) error {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	show := func() []int { return y.Shape() }
	show()
	return s.Err()
}
func o10(x *array.Array) []*array.Array {
	s := array.NewScope("s", array.In(global))
	defer s.Close()
	list := make([]*array.Array, 3)
	for i := range list {
		list[i] = s.Return(s.Relu(x))
	}
	return list
}
func o11(x *array.Array) []*array.Array {
	s := array.NewScope("s", array.In(global))
	defer s.Close()
	list := make([]*array.Array, 3)
	for i := range list {
		list[i] = s.Relu(x)
	}
	s.Return(list...)
	return list
}
func o12(x *array.Array) out {
	s := array.NewScope("s", array.In(global))
	defer s.Close()
	o := out{y: s.Relu(x)}
	s.Return(o.y)
	return o
}
func o13(x *array.Array) int {
	r := request{Scope: array.NewScope("r")}
	defer r.Close()
	return r.Relu(x).Dim(0)
}
func o14() *request {
	r := &request{Scope: array.NewScope("r")}
	r.id = 3
	return r
}
func o15(x *array.Array) {
	s := array.NewScope("s")
	defer s.Close()
	y := s.Relu(x)
	var all sync.WaitGroup
	all.Add(1)
	go func() { defer all.Done(); array.Copy[float32](y) }()
	all.Wait()
}
func o16(p *model, s *array.Scope, x *array.Array) *array.Array {
	p.table = p.scope.Add(p.table, x)
	return s.Relu(p.table)
}
func o17(x *array.Array) func() error {
	s := array.NewScope("s")
	y := s.Relu(x)
	return func() error { y.Shape(); return s.Close() }
}
