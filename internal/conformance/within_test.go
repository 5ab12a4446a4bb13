package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/traced"
	"github.com/weirml/weir/internal/values"
)

// loaded returns the module as a model, with options whose ranges begin at 0.
func (x *trial) loaded() (*weir.Model, weir.Options, error) {
	o := weir.Options{CPU: x.cpu, Threads: 2, Dims: map[string]weir.Range{}}
	m, err := x.build()
	if err != nil {
		return nil, o, err
	}
	seen := map[*ir.Value]bool{}
	for _, v := range m.Main.Body.Results {
		if seen[v] {
			return nil, o, diag.Unsupportedf("a model that returns a value twice")
		}
		seen[v] = true
	}
	for name, size := range x.sizes(m) {
		r, _ := m.Dims.Get(name)
		o.Dims[name.Text()] = weir.Range{Min: 0, Max: min(r.Max, max(size+2, 33))}
	}
	loaded, err := traced.Load("a module of a test", m, false)
	if err != nil {
		return nil, o, err
	}
	return loaded.(*weir.Model), o, nil
}

// kept compiles a model within a budget, or within the one that the refusal names, which it sets.
func kept(ctx context.Context, m *weir.Model, o *weir.Options) (*weir.Program, error) {
	p, err := weir.Compile(ctx, m, *o)
	var over *weir.Error
	if errors.As(err, &over) && errors.Is(err, weir.ErrBudget) && over.Budget > 0 {
		o.Budget = over.Budget
		if p, err = weir.Compile(ctx, m, *o); err != nil {
			return nil, fmt.Errorf("the budget of %d bytes that the error names: %v", o.Budget, err)
		}
	}
	return p, err
}

// within compiles the module as users do, with a budget below its peak by a third of the arena, and runs it. A budget
// that an error names must work, and the measured bytes must be the predicted ones.
func (x *trial) within(ctx context.Context) ([]*tensor.Tensor, error) {
	model, o, err := x.loaded()
	if err != nil {
		return nil, err
	}
	defer model.Close()
	decide := false
	o.Stage = watchData(nil, &decide)
	free, err := weir.Compile(ctx, model, o)
	if err != nil {
		return nil, err
	}
	peak, err := free.Memory().Formula(1).Max()
	arena, failed := free.Memory().Arena.Max()
	if err = errors.Join(err, failed, free.Close()); err != nil {
		return nil, diag.Unsupportedf("a budget for what nothing bounds")
	}
	o.Stage, o.Budget = nil, max(1, peak-arena/3) // data decide nothing that they do not decide without a budget
	p, err := kept(ctx, model, &o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return x.measured(ctx, p, o.Budget, decide)
}

// measured runs a program, and compares its measured memory with the prediction and a budget. decide says that data
// decide the memory of a run.
func (x *trial) measured(ctx context.Context, p *weir.Program, budget int64, decide bool) ([]*tensor.Tensor, error) {
	in := weir.Inputs{}
	for i, info := range p.Inputs() {
		arg, made, err := values.ToArg(values.Of(info.Name, x.args[i]))
		for _, t := range made {
			defer t.Close()
		}
		if err != nil {
			return nil, err
		}
		in[info.Name] = arg
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out []*tensor.Tensor
	for i, info := range p.Outputs() {
		v, err := values.FromResults(r, i, info)
		if err != nil {
			return nil, err
		}
		for _, t := range v.Tensors {
			out = append(out, t.Clone())
		}
	}
	bytes, err := MemoryOf(ctx, p, in)
	if err != nil {
		return nil, err
	}
	if fault := memoryFault(Result{Memory: []Memory{bytes}, DataDecide: decide}); fault != "" {
		return nil, errors.New(fault)
	}
	if bytes.Predicted > budget {
		return nil, fmt.Errorf("%d bytes are predicted within a budget of %d", bytes.Predicted, budget)
	}
	return out, nil
}
