package train

import (
	"context"

	"github.com/weirml/weir"
)

// Measure returns the memory that an update on a batch uses. Nothing changes.
func Measure(ctx context.Context, t *Trainer, b Batch) (weir.Measurement, error) {
	in := weir.Inputs{}
	for i, arg := range t.arguments(t.update) {
		in[t.update.inputs[i].Name] = arg
	}
	for i := range t.update.specs {
		in[t.update.inputs[t.update.batch+i].Name] = b.get(i).Tensor()
	}
	return t.update.compiled.Program().Measure(ctx, in)
}

// Constants returns the bytes of the constants of all programs of a step.
func (t *Trainer) Constants() (bytes int64) {
	for _, p := range t.programs() {
		n, err := p.compiled.Memory().Weights.At(nil)
		if err != nil {
			panic(err)
		}
		bytes += n
	}
	return bytes
}
