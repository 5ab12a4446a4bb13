package ir

import (
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Evaluation is one interpretation of a module: the values of its dimensions, and of the tensors in scope.
// It is the reference that everything faster is compared with.
type Evaluation struct {
	Module *Module // whose functions may be called; nil: none
	Dims   map[string]int64
	Keep   func(v *Value, t *tensor.Tensor) // called with each value as it is computed, where not nil
	values map[*Value]*tensor.Tensor
	depth  int // of calls
}

// NewEvaluation begins an interpretation with the given values of dimensions, which it adds to.
func NewEvaluation(dims map[string]int64) *Evaluation {
	return &Evaluation{Dims: dims, values: map[*Value]*tensor.Tensor{}}
}

// Evaluate interprets the module's main function on its inputs.
func Evaluate(m *Module, inputs []*tensor.Tensor, keep func(*Value, *tensor.Tensor)) ([]*tensor.Tensor, error) {
	e := &Evaluation{Module: m, Dims: map[string]int64{}, Keep: keep, values: map[*Value]*tensor.Tensor{}}
	params := m.Main.Body.Params
	if len(inputs) != len(params) {
		return nil, diag.Inputf("%d inputs for %d parameters", len(inputs), len(params))
	}
	for i, p := range params {
		if err := e.bind(p, inputs[i]); err != nil {
			return nil, err
		}
	}
	for _, name := range m.Dims.Names() {
		if v, ok := e.Dims[name]; ok {
			if r, _ := m.Dims.Get(name); v < r.Min || v > r.Max {
				return nil, diag.Inputf("dimension %s is %d, outside %d to %d", name, v, r.Min, r.Max)
			}
		}
	}
	for _, r := range m.Requires {
		// One that names what is bound later cannot be decided yet.
		if ok, err := r.Cond.Eval(func(name string) (int64, bool) { v, ok := e.Dims[name]; return v, ok }); err == nil && !ok {
			return nil, diag.Inputf("%s does not hold (from %s)", r.Cond, r.From)
		}
	}
	return e.Run(m.Main.Body, inputs)
}

// bind gives the parameter's free dimensions their values, and checks the others.
func (e *Evaluation) bind(p *Value, t *tensor.Tensor) error {
	if t.DType() != p.Type.DType || t.Rank() != len(p.Type.Shape) {
		return diag.Inputf("%s is %s%v, not %s", p.Name, t.DType(), t.Shape(), p.Type).AtTensor(p.Name)
	}
	for pass := 0; pass < 2; pass++ {
		for axis, extent := range p.Type.Shape {
			got := t.Shape()[axis]
			if name, ok := extent.Name(); ok {
				if _, bound := e.Dims[name]; !bound {
					e.Dims[name] = got
				}
			}
			if pass == 1 {
				want, err := e.Int(extent)
				if err != nil {
					return err
				}
				if want != got {
					return diag.Inputf("%s has %d along axis %d, where %s is %d", p.Name, got, axis, extent, want).AtTensor(p.Name)
				}
			}
		}
	}
	return nil
}

// Int evaluates a symbolic integer in this run's dimensions.
func (e *Evaluation) Int(x sym.Expr) (int64, error) {
	return x.Eval(func(name string) (int64, bool) { v, ok := e.Dims[name]; return v, ok })
}

// Ints evaluates several.
func (e *Evaluation) Ints(xs []sym.Expr) ([]int64, error) {
	out := make([]int64, len(xs))
	for i, x := range xs {
		v, err := e.Int(x)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// Run interprets a block on its arguments, in the scope of the values computed so far; regions are run by their
// operator's Eval through it.
func (e *Evaluation) Run(b *Block, args []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if len(args) != len(b.Params) {
		return nil, diag.Inputf("%d arguments for %d parameters", len(args), len(b.Params))
	}
	for i, p := range b.Params {
		if err := e.set(p, args[i]); err != nil {
			return nil, err
		}
	}
	for _, c := range b.Consts {
		if c.Const == nil {
			return nil, diag.Inputf("a constant without contents").AtTensor(c.Name)
		}
		e.values[c] = c.Const
	}
	for _, n := range b.Nodes {
		in := make([]*tensor.Tensor, len(n.Inputs))
		for i, v := range n.Inputs {
			if v != nil {
				in[i] = e.values[v]
			}
		}
		out, err := n.Op.Eval(e, n, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Op.Name(), err)
		}
		for i, v := range n.Outputs {
			if err := e.set(v, out[i]); err != nil {
				return nil, err
			}
		}
	}
	results := make([]*tensor.Tensor, len(b.Results))
	for i, v := range b.Results {
		results[i] = e.values[v]
	}
	return results, nil
}

// set records a value, and binds the dimensions that it decides: fresh dimensions of its shape, and its elements where they are Bound.
func (e *Evaluation) set(v *Value, t *tensor.Tensor) error {
	e.values[v] = t
	if t == nil {
		return nil
	}
	for axis, extent := range v.Type.Shape {
		if name, ok := extent.Name(); ok && axis < t.Rank() {
			e.Dims[name] = t.Shape()[axis]
		}
	}
	if v.Bound {
		for i, x := range v.Known {
			if name, ok := x.Name(); ok {
				e.Dims[name] = t.Int(int64(i))
			}
		}
	}
	if e.Keep != nil {
		e.Keep(v, t)
	}
	return nil
}
