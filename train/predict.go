package train

import (
	"context"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/nn"
)

// predictor is the network compiled for inference.
type predictor struct {
	program *program
}

// close frees the code and memory.
func (p *predictor) close() error {
	if p == nil {
		return nil
	}
	return p.program.close()
}

// Predict returns the network's first result, computed for inference: without dropout, and with the running statistics.
// The result is a view, which is invalid after the next Predict or Evaluate.
func (t *Trainer) Predict(ctx context.Context, x ...*array.Array) (y *weir.Tensor, err error) {
	defer diag.Recover(&err, "predicting")
	if err := t.use(); err != nil {
		return nil, err
	}
	defer t.alone.Unlock()
	if len(x) == 0 {
		return nil, diag.Inputf("no arrays are given").WithFix("give those that the network takes")
	}
	return t.predict(ctx, &Batch{X: x[0], More: x[1:]})
}

// predict is Predict for a caller that has locked the trainer.
func (t *Trainer) predict(ctx context.Context, b *Batch) (*weir.Tensor, error) {
	if t.predicted == nil {
		if err := t.compilePredictor(b); err != nil {
			return nil, err
		}
	}
	p := t.predicted.program
	if err := p.prepare(t, b); err != nil {
		return nil, err
	}
	if err := p.call.Run(ctx); err != nil {
		return nil, err
	}
	return p.call.Output(p.results[0]), nil
}

// compilePredictor compiles the network for batches of b's types and shapes, or for Options.Inputs if their number
// fits.
func (t *Trainer) compilePredictor(b *Batch) error {
	specs, err := t.specs(Batch{X: b.X, More: b.More})
	if err != nil {
		return err
	}
	inputs := t.options.Inputs
	if targeted(inputs) {
		inputs = inputs[:len(inputs)-1]
	}
	if len(inputs) == len(specs) {
		specs = inputs
	}
	p := &program{specs: specs}
	o := array.Options{Name: "network", Compile: t.options.Compile}
	o.Compile.Threads = max(t.options.Threads, o.Compile.Threads)
	var read []state
	for _, list := range [][]state{t.states, t.frozen} {
		for _, s := range list {
			if s.kind == parameter || s.kind == buffer {
				read = append(read, s)
				o.Inputs = append(o.Inputs, specOf(s))
			}
		}
	}
	p.batch = len(o.Inputs)
	o.Inputs = append(o.Inputs, specs...)
	p.compiled, err = array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		c := nn.Inference(s, t.params)
		for i, st := range read {
			value := in[i]
			if st.kind == parameter {
				value = t.narrow(s, in[i:i+1])[0]
			}
			c.Bind(st.name, value)
		}
		return []*array.Array{s.Cast(nn.One(c, t.net, t.narrow(s, in[p.batch:])...), weir.F32)}
	}, o)
	if err != nil {
		return err
	}
	p.inputs, p.results = p.compiled.Program().Inputs(), []string{p.compiled.Program().Outputs()[0].Name}
	p.read = read
	p.name()
	t.predicted = &predictor{p}
	return nil
}
