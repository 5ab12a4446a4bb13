package hostop

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("interpret", interpret) }

// Interpreter computes the results of a model from its inputs, on Go's heap. If ask is not nil, its error ends the
// work.
type Interpreter interface {
	Interpret(in []*tensor.Tensor, ask func() error) ([]*tensor.Tensor, error)
}

// interpret runs the Interpreter in the attribute "model", the only step of a reference program. No file can hold one.
func interpret(c *Call) error {
	model, ok := c.Attrs["model"].(Interpreter)
	if !ok {
		return diag.Inputf("interpret without a model")
	}
	out, err := model.Interpret(c.In, c.Ask)
	if err != nil {
		return err
	}
	if len(out) != len(c.Types) {
		return diag.Inputf("%d results, %d are expected", len(out), len(c.Types))
	}
	for i, t := range out {
		if t.DType() != c.Types[i] {
			return diag.Inputf("result %d is %s, %s is expected", i, t.DType(), c.Types[i])
		}
		to, err := c.Result(i, t.Shape()...)
		if err != nil {
			return err
		}
		copy(to.Bytes(), t.Bytes())
	}
	return nil
}
