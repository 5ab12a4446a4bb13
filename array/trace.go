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

// Func is a function of arrays: it computes in the scope that it is given. Jit and Grad run it over a scope that
// traces: it must not read elements there, and must compute the same whenever it is called with arrays of these types.
type Func func(s *Scope, in ...*Array) []*Array

// trace builds a module from the operations of a scope.
type trace struct {
	b        *ir.Builder // of the block that is being built
	body     *ir.Block   // of main
	inputs   []*Array    // that the function is given
	captured []*Array    // arrays of other scopes that it reads: inputs after those
	values   map[*Array]*ir.Value
	extents  []sym.Expr // that are named
	building sync.Mutex // held by the operation that is being added
}

// newTrace begins a module.
func newTrace(name string) *trace {
	body := &ir.Block{}
	m := &ir.Module{Name: name, Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}, Meta: map[string]string{}}
	m.Funcs = []*ir.Func{m.Main}
	return &trace{b: ir.NewBuilder(ir.NewInference(m), body), body: body, values: map[*Array]*ir.Value{}}
}

// The numbers that stand for named extents: those that are not of this form were computed with.
const (
	firstExtent = -1 << 30
	extentStep  = 7919
)

// code is the number that stands for an extent in shapes.
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

// extent is what a number of a shape says, in words.
func (t *trace) extent(code int) string {
	if e, ok := t.expr(code); ok {
		return e.String()
	}
	return fmt.Sprint(code)
}

// expr is the extent that a number of a shape stands for; ok is false if it stands for none.
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

// array is an array that stands for a value; the scope owns it.
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

// of is an operand's value: that of an array of the trace, or an input for an array of another scope.
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

// run traces f: the arrays it gives are the results, in this order, of the module.
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

// result is a value of its own for a result, which is no input and no other result.
func (t *trace) result(a *Array, name string) *ir.Value {
	v := same(t.b, t.number(a))
	v.Name = t.b.Name(name)
	t.body.Results = append(t.body.Results, v)
	return v
}

// number is an operand's value; a number is of f32.
func (t *trace) number(a *Array) *ir.Value {
	if a.weak {
		return scalar(t.b, weir.F32, a.number)
	}
	return t.operand(a)
}

// same is a new value with the elements of another.
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

// constant is an array of the trace with contents that are known.
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

// build is constant for who has the trace; what the builder refuses, as extents that it cannot hold, is an error.
func (t *trace) build(s *Scope, c *tensor.Tensor) (a *Array, err error) {
	defer diag.Recover(&err, "making a constant")
	return t.array(s, t.b.Constant("c", c)), nil
}

// crowded is the error of two operations that are added to a trace at once.
func crowded() error {
	return diag.Inputf("another goroutine is computing in the trace").
		WithFix("a function that is traced computes in one goroutine")
}

// Spec describes an input of a function that is compiled before it is called.
type Spec struct {
	Name  string // "": by its place, x0, x1, …
	DType weir.DType
	Shape []weir.Extent // a number, or a name: the function is compiled for every value of it
}

// Of is a Spec of an element type and extents, each an int, or a string that names the extent.
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

// exprs are a spec's extents; names that are new become dimensions of the module.
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
