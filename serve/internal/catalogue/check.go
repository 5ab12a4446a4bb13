package catalogue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/serve/internal/oip"
)

// check returns an error unless the inputs and outputs that a configuration names are the program's.
func (v *Version) check(c *oip.ModelConfig) error {
	for _, in := range c.Input {
		if err := v.same("input", in.Name, in.DataType, in.Dims, v.Inputs, c.MaxBatchSize > 0); err != nil {
			return err
		}
	}
	for _, out := range c.Output {
		if err := v.same("output", out.Name, out.DataType, out.Dims, v.Outputs, c.MaxBatchSize > 0); err != nil {
			return err
		}
	}
	return nil
}

// same compares an input or output of a configuration with the program's. With batches the configuration leaves the
// first axis out.
func (v *Version) same(what, name string, dt oip.DataType, dims []int64, have []weir.Info, batched bool) error {
	at := slices.IndexFunc(have, func(i weir.Info) bool { return i.Name == name })
	if at < 0 {
		return fmt.Errorf("config.pbtxt has the %s %q, and the model does not", what, name)
	}
	info := have[at]
	if dt != oip.DataType_TYPE_INVALID && dt != oip.ConfigType(info.DType) {
		return fmt.Errorf("config.pbtxt: %s %q is %v, and the model's is %s", what, name, dt, info)
	}
	shape := info.Shape
	if info.Shape == nil {
		return nil
	}
	if batched && len(shape) > 0 {
		shape = shape[1:]
	}
	fits := len(dims) == len(shape)
	for i := range min(len(dims), len(shape)) {
		fits = fits && (dims[i] == -1 || shape[i].Dim != "" || dims[i] == shape[i].Size)
	}
	if !fits && len(dims) > 0 {
		return fmt.Errorf("config.pbtxt: %s %q has dims %v, and the model's is %s", what, name, dims, info)
	}
	return nil
}

// warm runs the requests of the configuration's model_warmup.
func (c *Catalogue) warm(ctx context.Context, v *Version) error {
	for _, w := range v.Config.ModelWarmup {
		for range max(1, int(w.Count)) {
			if err := v.warmOnce(ctx, w); err != nil {
				return fmt.Errorf("warm-up %q: %w", w.Name, err)
			}
		}
	}
	return nil
}

// warmOnce runs the program once.
func (v *Version) warmOnce(ctx context.Context, w *oip.ModelWarmup) (err error) {
	if v.Texts != nil {
		return v.warmTexts(ctx, w)
	}
	in := weir.Inputs{}
	defer func() {
		for _, a := range in {
			a.(*weir.Tensor).Close()
		}
	}()
	for name, spec := range w.Inputs {
		at := slices.IndexFunc(v.Inputs, func(i weir.Info) bool { return i.Name == name })
		if at < 0 {
			return fmt.Errorf("the model has no input %q", name)
		}
		var shape []int
		if v.Config.MaxBatchSize > 0 {
			shape = append(shape, int(max(1, w.BatchSize)))
		}
		for _, d := range spec.Dims {
			shape = append(shape, int(d))
		}
		bytes, err := (&oip.Tensor{Name: name, DType: v.Inputs[at].DType, Shape: shape}).Bytes()
		if err != nil {
			return err
		}
		if err := v.joined.Take(ctx, bytes); err != nil {
			return err
		}
		defer v.joined.Give(bytes)
		t, err := weir.New(v.Inputs[at].DType, shape...)
		if err != nil {
			return err
		}
		in[name] = t
		if err := v.fill(t, spec); err != nil {
			return err
		}
	}
	step, err := v.Sequences.alone(ctx)
	if err != nil {
		return err
	}
	args := maps.Clone(in)
	err = step.Arguments(args)
	if err == nil {
		var out *weir.Results
		if out, err = v.Program.Run(ctx, args); err == nil {
			err = errors.Join(step.Keep(out), out.Close())
		}
	}
	return step.Done(err)
}
