package array

import (
	"fmt"
	"slices"
	"sync"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Func is a function of arrays that computes in the given scope. Jit and Grad trace it: there it must not read
// elements, and must build the same computation whenever it is called with arrays of the same types.
type Func func(s *Scope, in ...*Array) []*Array

// trace builds a module from the operations of a scope.
type trace struct {
	b        *ir.Builder // of the block under construction
	body     *ir.Block   // of main
	inputs   []*Array    // the function's inputs
	captured []*Array    // arrays of other scopes that the function reads: they follow the inputs
	values   map[*Array]*ir.Value
	extents  []sym.Expr // the named extents
	building sync.Mutex // held by the operation that is being added
}

// newTrace begins a module.
func newTrace(name string) *trace {
	body := &ir.Block{}
	m := &ir.Module{Name: name, Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}, Meta: map[string]string{}}
	m.Funcs = []*ir.Func{m.Main}
	return &trace{b: ir.NewBuilder(ir.NewInference(m), body), body: body, values: map[*Array]*ir.Value{}}
}

// Named extents have the codes firstExtent + i · extentStep. Any other negative number is the result of arithmetic.
const (
	firstExtent = -1 << 30
	extentStep  = 7919
)

// code returns an extent's number in shapes.
func (t *trace) code(e sym.Expr) int {
	if v, ok := e.Const(); ok {
		return int(v)
	}
	i := slices.IndexFunc(t.extents, e.Equal)
	if i < 0 {
		i, t.extents = len(t.extents), append(t.extents, e)
	}
	return firstExtent + i*extentStep
}

// extent returns an extent of a shape as text.
func (t *trace) extent(code int) string {
	if e, ok := t.expr(code); ok {
		return e.String()
	}
	return fmt.Sprint(code)
}

// expr returns the extent with a number in shapes; ok is false if there is none.
func (t *trace) expr(code int) (e sym.Expr, ok bool) {
	if code >= 0 {
		return sym.Const(int64(code)), true
	}
	i := code - firstExtent
	if i < 0 || i%extentStep != 0 || i/extentStep >= len(t.extents) {
		return sym.Expr{}, false
	}
	return t.extents[i/extentStep], true
}

// array returns an array of the scope that represents a value.
func (t *trace) array(s *Scope, v *ir.Value) *Array {
	a := &Array{dtype: v.Type.DType, shape: make([]int, len(v.Type.Shape)), value: v, of: t, made: here()}
	for i, e := range v.Type.Shape {
		a.shape[i] = t.code(e)
	}
	if err := s.own(a); err != nil {
		s.fail(err)
	}
	return a
}

// param adds an input of the function.
func (t *trace) param(s *Scope, name string, dt weir.DType, shape []sym.Expr) *Array {
	v := &ir.Value{Name: t.b.Name(name), Type: ir.Type{DType: dt, Shape: shape}}
	t.body.Params = append(t.body.Params, v)
	return t.array(s, v)
}

// operand returns an operand's value: for an array of another scope, an additional input.
func (t *trace) operand(a *Array) *ir.Value {
	if a.of == t {
		return a.value
	}
	if v := t.values[a]; v != nil {
		return v
	}
	shape := make([]int64, len(a.shape))
	for i, e := range a.shape {
		shape[i] = int64(e)
	}
	v := &ir.Value{Name: t.b.Name(fmt.Sprintf("c%d", len(t.captured))),
		Type: ir.Type{DType: a.dtype, Shape: ir.Constants(shape)}}
	t.body.Params = append(t.body.Params, v)
	t.captured, t.values[a] = append(t.captured, a), v
	return v
}

// params adds the inputs that specs describe.
func (t *trace) params(s *Scope, inputs []Spec) error {
	for i, in := range inputs {
		shape, err := t.exprs(in.Shape)
		if err != nil {
			return diag.As(err, weir.ErrInput).AtTensor(in.Name)
		}
		if in.Name == "" {
			in.Name = fmt.Sprintf("x%d", i)
		}
		t.inputs = append(t.inputs, t.param(s, in.Name, in.DType, shape))
	}
	return nil
}

// run traces f; the arrays that it returns are the module's results in the same order.
func (t *trace) run(s *Scope, f Func) (results []*ir.Value, err error) {
	defer ir.Catch(&err)
	out := f(s, t.inputs...)
	if err := s.Err(); err != nil {
		return nil, err
	}
	for i, a := range out {
		if a.dead(s, "a result") {
			return nil, s.Err()
		}
		results = append(results, t.result(a, fmt.Sprintf("y%d", i)))
	}
	return results, nil
}

// result adds a result to the module, as a new value, because a result must not be an input or another result.
func (t *trace) result(a *Array, name string) *ir.Value {
	v := same(t.b, t.number(a))
	v.Name = t.b.Name(name)
	t.body.Results = append(t.body.Results, v)
	return v
}

// number returns an operand's value; a number becomes an f32.
func (t *trace) number(a *Array) *ir.Value {
	if a.weak {
		return scalar(t.b, weir.F32, a.number)
	}
	return t.operand(a)
}

// same returns a new value with the elements of another.
func same(b *ir.Builder, v *ir.Value) *ir.Value {
	return b.Op("reshape", ir.Attrs{"shape": slices.Clone(v.Type.Shape)}, v)
}

// apply builds an operation into the trace.
func (t *trace) apply(s *Scope, o *operation, in []*Array) (out []*Array, err error) {
	defer ir.Catch(&err)
	if !t.building.TryLock() {
		return nil, crowded()
	}
	defer t.building.Unlock()
	values := make([]*ir.Value, len(in))
	for i, a := range in {
		if a != nil {
			values[i] = t.operand(a)
		}
	}
	sizes, err := s.extents(o.sizes)
	if err != nil {
		return nil, err
	}
	t.b.Source = o.name
	for _, v := range o.made(t.b, values, sizes, fixedNumbers(o.numbers)) {
		out = append(out, t.array(s, v))
	}
	return out, nil
}

// constant returns an array of the trace with known elements.
func (t *trace) constant(s *Scope, c *tensor.Tensor) *Array {
	if !t.building.TryLock() {
		return s.refuse("constant", crowded())
	}
	defer t.building.Unlock()
	a, err := t.build(s, c)
	if err != nil {
		return s.refuse("constant", err)
	}
	return a
}

// build is constant for a caller that holds the lock; a panic of the builder, as for extents that are too large, is an
// error.
func (t *trace) build(s *Scope, c *tensor.Tensor) (a *Array, err error) {
	defer diag.Recover(&err, "making a constant")
	return t.array(s, t.b.Constant("c", c)), nil
}

// crowded returns the error of two operations that are added to a trace at the same time.
func crowded() error {
	return diag.Inputf("another goroutine is computing in the trace").
		WithFix("a function that is traced computes in one goroutine")
}

// Spec describes an input of a function that is compiled before its first call.
type Spec struct {
	Name  string // "": by its index, x0, x1, …
	DType weir.DType
	Shape []weir.Extent // numbers, or names: the function is compiled for all values of a named extent
}

// SpecOf returns a Spec of an element type and extents: each is an int, or a string that names the extent.
func SpecOf(name string, dt weir.DType, shape ...any) Spec {
	p := Spec{Name: name, DType: dt}
	for _, e := range shape {
		switch e := e.(type) {
		case int:
			p.Shape = append(p.Shape, weir.Extent{Size: int64(e)})
		case string:
			p.Shape = append(p.Shape, weir.Extent{Size: -1, Dim: e})
		default:
			p.Shape = append(p.Shape, weir.Extent{Size: -1, Dim: fmt.Sprint("?", e)})
		}
	}
	return p
}

// exprs returns a spec's extents; new names become dimensions of the module.
func (t *trace) exprs(shape []weir.Extent) ([]sym.Expr, error) {
	out := make([]sym.Expr, len(shape))
	dims := t.b.Dims()
	for i, e := range shape {
		if e.Dim == "" {
			if e.Size < 0 {
				return nil, diag.Inputf("an extent of %d", e.Size)
			}
			out[i] = sym.Const(e.Size)
			continue
		}
		expr, err := sym.Parse(e.Dim)
		if err != nil {
			return nil, diag.Inputf("extent %q: %v", e.Dim, err)
		}
		for _, name := range expr.Vars() {
			if _, known := dims.Get(name); !known {
				dims.Set(name, sym.Range{Min: 0, Max: sym.NoMax})
			}
		}
		out[i] = expr
	}
	return out, nil
}
