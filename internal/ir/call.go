package ir

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text"
)

// deepestCall bounds how deep calls of functions may nest in an evaluation.
const deepestCall = 200

// Func returns the function of a name; nil if there is none.
func (m *Module) Func(name string) *Func {
	for _, f := range m.Funcs {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Formals returns a function's own dimensions: those that are an entire extent of a parameter. Each call binds them to
// the extents of its arguments.
func (f *Func) Formals() map[sym.Name]bool {
	formals := map[sym.Name]bool{}
	for _, p := range f.Body.Params {
		for _, e := range p.Type.Shape {
			if name, ok := e.Name(); ok {
				formals[name] = true
			}
		}
	}
	return formals
}

// Actuals returns the values of a function's own dimensions for arguments of the given types, or an error if element
// types or ranks differ from the parameters'. The caller must require that the other extents agree.
func (f *Func) Actuals(types []Type) (map[sym.Name]sym.Expr, error) {
	if len(types) != len(f.Body.Params) {
		return nil, diag.Inputf("%d arguments for %d parameters of %s", len(types), len(f.Body.Params),
			text.GlobalName(f.Name))
	}
	actuals := map[sym.Name]sym.Expr{}
	for i, p := range f.Body.Params {
		if t := types[i]; t.DType != p.Type.DType || len(t.Shape) != len(p.Type.Shape) {
			return nil, diag.Inputf("argument %d is %s, %s takes %s", i, t, text.GlobalName(f.Name), p.Type)
		}
		for axis, e := range p.Type.Shape {
			if name, ok := e.Name(); ok {
				if _, taken := actuals[name]; !taken {
					actuals[name] = types[i].Shape[axis]
				}
			}
		}
	}
	return actuals, nil
}

// Call interprets a function on arguments, with its own dimensions.
func (e *Evaluation) Call(f *Func, args []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if e.depth >= deepestCall {
		return nil, diag.Inputf("calls nest more than %d deep", deepestCall)
	}
	if len(args) != len(f.Body.Params) {
		return nil, diag.Inputf("%d arguments for %d parameters", len(args), len(f.Body.Params))
	}
	formals := f.Formals()
	inner := &Evaluation{Module: e.Module, Dims: map[sym.Name]int64{}, Keep: e.Keep, Ask: e.Ask,
		values: map[*Value]*tensor.Tensor{}, depth: e.depth + 1}
	for name, v := range e.Dims {
		if !formals[name] {
			inner.Dims[name] = v
		}
	}
	for i, p := range f.Body.Params {
		if err := inner.bind(p, args[i]); err != nil {
			return nil, err
		}
	}
	return inner.Run(f.Body, args)
}
