package array

import (
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Grad returns the function that computes the derivatives of f's first result, which must have one element of a float
// type, by each of f's inputs: it has as many results as f has inputs. Derivatives by inputs that are not floats are
// zeros.
func Grad(f Func) Func {
	vg := ValueAndGrad(f)
	return func(s *Scope, in ...*Array) []*Array {
		out := vg(s, in...)
		return out[len(out)-len(in):]
	}
}

// ValueAndGrad returns the function that computes f's results, followed by the derivatives of Grad.
func ValueAndGrad(f Func) Func {
	return func(s *Scope, in ...*Array) []*Array {
		return s.traced(func(s *Scope, in ...*Array) []*Array { return s.differentiate(f, in) }, in)
	}
}

// traced runs a function that must be traced: in a trace it calls the function, otherwise it compiles it for these
// arrays.
func (s *Scope) traced(f Func, in []*Array) []*Array {
	if s.stopped() {
		return s.none(max(1, len(in)+1))
	}
	if s.trace != nil {
		return f(s, in...)
	}
	out, err := s.compileAndRun(f, in)
	if err != nil {
		s.failAt("a derivative", err)
		return s.none(max(1, len(in)+1))
	}
	return out
}

// compileAndRun traces a function for its arguments' shapes, and runs its program from the cache.
func (s *Scope) compileAndRun(f Func, in []*Array) (out []*Array, err error) {
	defer recovered(&err, "computing a function")
	specs, err := specsOf(in)
	if err != nil {
		return nil, err
	}
	t, err := traceOf(f, "function", specs)
	if err != nil {
		return nil, err
	}
	p, err := programs.get([]byte(t.b.Module.String()), func() (*ir.Module, error) { return t.b.Module, nil })
	if err != nil {
		return nil, err
	}
	defer programs.done(p)
	tensors := make([]*weir.Tensor, 0, len(in)+len(t.captured))
	for _, a := range append(in[:len(in):len(in)], t.captured...) {
		e, err := a.elements()
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, e)
	}
	return s.launch(p, tensors, nil)
}

// arguments returns copies of the inputs of a function that is differentiated, as new values, so that other uses of its
// arguments are not part of the derivative. It also returns the copies' values, because Assign may change the values of
// the arrays.
func (s *Scope) arguments(in []*Array) (own []*Array, values []*ir.Value) {
	own = make([]*Array, len(in))
	for i, a := range in {
		own[i] = s.one(operation{name: "argument", build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
			return []*ir.Value{same(b, v[0])}
		}}, a)
	}
	if s.failed() {
		return nil, nil
	}
	return own, s.trace.valuesOf(own)
}

// derivative runs f on copies of its inputs, and returns the arrays that build makes from f's results. If there is an
// error, the scope keeps it and there are results arrays without elements.
func (s *Scope) derivative(f Func, in []*Array, results int,
	build func(out, own []*Array, begins []*ir.Value) ([]*Array, error)) []*Array {
	own, begins := s.arguments(in)
	if s.failed() {
		return s.none(results)
	}
	out := f(s, own...)
	if s.failed() {
		return s.none(results)
	}
	for _, y := range out {
		if y.dead(s, "the derivative") {
			return s.none(results)
		}
	}
	grads, err := build(out, own, begins)
	if err != nil {
		s.failAt("the derivative", err)
		return s.none(results)
	}
	return grads
}

// differentiate traces f and its derivatives.
func (s *Scope) differentiate(f Func, in []*Array) []*Array {
	return s.derivative(f, in, 1+len(in), func(out, own []*Array, begins []*ir.Value) ([]*Array, error) {
		if len(out) == 0 {
			return nil, diag.Inputf("the function has no result")
		}
		if n := out[0].Len(); n != 1 || !out[0].dtype.IsFloat() {
			return nil, diag.Inputf("the function's first result is %v; a derivative is of one float", out[0]).
				WithFix("Sum it, or use VJP")
		}
		grads, err := s.trace.pullback(s, out[:1], nil, own, begins)
		return append(append([]*Array(nil), out...), grads...), err
	})
}

// pullback returns the derivatives by the inputs of the sum of the results times the seeds; zeros for inputs that are
// not floats. Nil seeds stand for ones.
func (t *trace) pullback(s *Scope, out, seeds, in []*Array, begins []*ir.Value) (grads []*Array, err error) {
	defer ir.Catch(&err)
	t.b.Source = "gradient"
	var xs, ys, us []*ir.Value
	for i, y := range out {
		if y.dtype.IsFloat() {
			ys = append(ys, t.number(y))
			if seeds != nil {
				us = append(us, t.number(seeds[i]))
			}
		}
	}
	for i, a := range in {
		if a.dtype.IsFloat() {
			xs = append(xs, begins[i])
		}
	}
	values := ops.VJP(t.b, ys, us, xs)
	for _, a := range in {
		if !a.dtype.IsFloat() {
			grads = append(grads, s.Zeros(a.dtype, a.shape...))
			continue
		}
		grads, values = append(grads, t.array(s, values[0])), values[1:]
	}
	return grads, nil
}

// VJP returns the function that computes vector–Jacobian products of f. It takes f's n inputs, followed by a seed for
// each of f's results, of its type and shape. For each input, it returns the derivative of the sum of all results times
// their seeds. Seeds of results that are not floats are not read.
func VJP(f Func, n int) Func {
	return func(s *Scope, in ...*Array) []*Array {
		if s.stopped() || s.few("VJP", in, n) {
			return s.none(n)
		}
		return s.traced(func(s *Scope, in ...*Array) []*Array {
			seeds := in[n:]
			return s.derivative(f, in[:n], n, func(out, own []*Array, begins []*ir.Value) ([]*Array, error) {
				if err := alike("seed", seeds, out); err != nil {
					return nil, err
				}
				return s.trace.pullback(s, out, seeds, own, begins)
			})
		}, in)
	}
}

// JVP returns the function that computes Jacobian–vector products of f. It takes f's n inputs, followed by a tangent
// for each, of its type and shape. For each of f's results, it returns the derivative along the tangents. It
// differentiates twice: a VJP is linear in its seeds, and its derivative by them is the Jacobian (Townsend: A new trick
// for calculating Jacobian vector products, 2017).
func JVP(f Func, n int) Func {
	return func(s *Scope, in ...*Array) []*Array {
		if s.stopped() || s.few("JVP", in, 2*n) {
			return s.none(1)
		}
		return s.traced(func(s *Scope, in ...*Array) []*Array {
			tangents := in[n:]
			return s.derivative(f, in[:n], 1, func(out, own []*Array, begins []*ir.Value) ([]*Array, error) {
				if err := alike("tangent", tangents, in[:n]); err != nil {
					return nil, err
				}
				seeds, ends := s.arguments(s.zerosLike(out))
				if s.failed() {
					return nil, s.Err()
				}
				grads, err := s.trace.pullback(s, out, seeds, own, begins)
				if err != nil {
					return nil, err
				}
				return s.trace.pullback(s, grads, tangents, seeds, ends)
			})
		}, in)
	}
}

// zerosLike returns zeros of the types and shapes of arrays.
func (s *Scope) zerosLike(list []*Array) []*Array {
	out := make([]*Array, len(list))
	for i, a := range list {
		out[i] = s.Zeros(a.dtype, a.shape...)
	}
	return out
}

// few reports whether there are fewer arrays than a function needs, and gives the scope the error.
func (s *Scope) few(op string, in []*Array, n int) bool {
	if len(in) < n {
		s.failAt(op, diag.Inputf("%d arrays are given, at least %d are needed", len(in), n))
		return true
	}
	return false
}

// alike returns an error unless arrays have the types and shapes of others. what names them in the error.
func alike(what string, list, want []*Array) error {
	if len(list) != len(want) {
		return diag.Inputf("there are %d of kind %s for %d arrays", len(list), what, len(want))
	}
	for i, a := range list {
		if a == nil || a.dtype != want[i].dtype || !slices.Equal(a.shape, want[i].shape) {
			return diag.Inputf("%s %d is %v, and is to be like %v", what, i, a, want[i])
		}
	}
	return nil
}

// Stop returns x as a constant for derivatives: they do not pass through it.
func (s *Scope) Stop(x *Array) *Array {
	return s.one(operation{name: "stop", build: func(b *ir.Builder, in []*ir.Value) []*ir.Value {
		return []*ir.Value{ops.Stop(b, in[0])}
	}}, x)
}

// Custom returns f with an explicit derivative. back receives f's inputs, its results, and the derivatives by the
// results, nil for a result that is not used. It returns the derivatives by the inputs, nil for an input that has none.
// It must not read intermediate arrays of f.
func Custom(f Func, back func(s *Scope, in, out, up []*Array) []*Array) Func {
	return func(s *Scope, in ...*Array) []*Array {
		out := f(s, in...)
		if s.failed() || s.trace == nil {
			return out
		}
		marked, err := s.trace.custom(s, in, out, back)
		if err != nil {
			s.failAt("a custom derivative", err)
			return s.none(len(out))
		}
		return marked
	}
}

// custom marks f's results with the derivative that back builds.
func (t *trace) custom(s *Scope, in, out []*Array, back func(s *Scope, in, out, up []*Array) []*Array) (marked []*Array,
	err error) {
	defer ir.Catch(&err)
	var xs, ys []*ir.Value
	for _, a := range in {
		xs = append(xs, t.number(a))
	}
	for _, a := range out {
		ys = append(ys, t.number(a))
	}
	for _, v := range ops.Custom(t.b, ys, xs, func(b *ir.Builder, up []*ir.Value) []*ir.Value {
		return t.customBack(b, xs, ys, up, back)
	}) {
		marked = append(marked, t.array(s, v))
	}
	return marked, nil
}

// customBack runs back in the trace, at the point where the derivative is built.
func (t *trace) customBack(b *ir.Builder, xs, ys, up []*ir.Value,
	back func(s *Scope, in, out, up []*Array) []*Array) []*ir.Value {
	before := t.b
	t.b = b
	s := NewScope("a custom derivative")
	s.trace = t
	defer func() {
		s.Close()
		t.b = before
	}()
	arrays := func(values []*ir.Value) []*Array {
		list := make([]*Array, len(values))
		for i, v := range values {
			if v != nil {
				list[i] = t.array(s, v)
			}
		}
		return list
	}
	grads := back(s, arrays(xs), arrays(ys), arrays(up))
	if err := s.Err(); err != nil {
		b.Fail(err)
	}
	if len(grads) != len(xs) {
		b.Failf("%d derivatives by %d inputs", len(grads), len(xs))
	}
	values := make([]*ir.Value, len(grads))
	for i, a := range grads {
		if a == nil {
			continue
		}
		if values[i] = t.number(a); values[i].Type.String() != xs[i].Type.String() {
			b.Failf("the derivative by input %d is %v, the input %v", i, values[i].Type, xs[i].Type)
		}
	}
	if err := s.Close(); err != nil {
		b.Fail(err)
	}
	return values
}
