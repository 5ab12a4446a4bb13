package array

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Grad is the function that computes the derivatives of f's first result, which must have one element of a float type, by
// each of f's inputs: as many results as f has inputs. Inputs that are not floats have derivatives of zeros.
func Grad(f Func) Func {
	vg := ValueAndGrad(f)
	return func(s *Scope, in ...*Array) []*Array {
		out := vg(s, in...)
		return out[len(out)-len(in):]
	}
}

// ValueAndGrad is the function that computes f's results, and after them the derivatives that Grad gives.
func ValueAndGrad(f Func) Func {
	return func(s *Scope, in ...*Array) []*Array {
		return s.traced(func(s *Scope, in ...*Array) []*Array { return s.differentiate(f, in) }, in)
	}
}

// traced runs a function that must be traced: in a trace at once, else by compiling it for these arrays.
func (s *Scope) traced(f Func, in []*Array) []*Array {
	if s.failed() {
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

// compileAndRun traces a function at the shapes of its arguments, and runs the program of the cache that computes it.
func (s *Scope) compileAndRun(f Func, in []*Array) (out []*Array, err error) {
	defer diag.Recover(&err, "computing a function")
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
	return s.launch(p, tensors)
}

// differentiate traces f and its derivatives.
func (s *Scope) differentiate(f Func, in []*Array) []*Array {
	t := s.trace
	// The function gets values of its own, so that what it reads of its arguments otherwise is no part of the derivative.
	own := make([]*Array, len(in))
	for i, a := range in {
		own[i] = s.one(operation{name: "argument", build: func(b *ir.Builder, v []*ir.Value) []*ir.Value { return []*ir.Value{same(b, v[0])} }}, a)
	}
	if s.failed() {
		return s.none(1 + len(in))
	}
	begins := t.valuesOf(own) // Assign may give the arrays others
	out := f(s, own...)
	if s.failed() {
		return s.none(len(out) + len(in))
	}
	if len(out) == 0 || out[0].dead(s, "the derivative") {
		s.failAt("the derivative", diag.Inputf("the function has no result"))
		return s.none(1 + len(in))
	}
	if n := out[0].Len(); n != 1 || !out[0].dtype.IsFloat() {
		s.failAt("the derivative", diag.Inputf("the function's first result is %v; a derivative is of one float", out[0]).WithFix("Sum it, or use VJP"))
		return s.none(len(out) + len(in))
	}
	grads, err := t.gradient(s, out[0], own, begins)
	if err != nil {
		s.failAt("the derivative", err)
		return s.none(len(out) + len(in))
	}
	return append(append([]*Array(nil), out...), grads...)
}

func (t *trace) gradient(s *Scope, y *Array, in []*Array, begins []*ir.Value) (out []*Array, err error) {
	defer ir.Catch(&err)
	var xs []*ir.Value
	for i, a := range in {
		if a.dtype.IsFloat() {
			xs = append(xs, begins[i])
		}
	}
	t.b.Source = "gradient"
	grads := ops.Gradient(t.b, t.operand(y), xs)
	k := 0
	for i, a := range in {
		if !a.dtype.IsFloat() {
			out = append(out, s.Zeros(a.dtype, a.shape...))
			continue
		}
		if grads[k] == nil {
			return nil, fmt.Errorf("no derivative by input %d", i)
		}
		out = append(out, t.array(s, grads[k]))
		k++
	}
	return out, nil
}
