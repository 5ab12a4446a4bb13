package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator couple.
func init() {
	define(&Def{Op: "couple", NoGrad: "probabilities that an iteration finds", Shape: coupleShape,
		Mean: hostMean("couple"), Host: "couple", Samples: coupleSamples})
}

// Couple computes class probabilities [rows, classes] from pairs[rows, classes·(classes − 1)/2], f64: the probability
// of the first class in each pair 0 and 1, 0 and 2, …, 1 and 2, …
func Couple(b *ir.Builder, pairs *ir.Value, classes int64) *ir.Value {
	return b.Node("couple", ir.Attrs{"classes": classes}, pairs).Outputs[0]
}

// coupleShape checks that there is a probability for each pair and infers [rows, classes] and a workspace.
func coupleShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	pairs, classes := n.Inputs[0].Type, n.Attrs.Int("classes", 0)
	if pairs.DType != dtype.F64 || len(pairs.Shape) != 2 || classes < 1 || classes > 1<<14 {
		return fault(n, "%d classes from pairs %s", classes, pairs)
	}
	if err := c.RequireEqual(n, pairs.Shape[1], sym.Const(classes*(classes-1)/2),
		"a probability for each pair of classes"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: dtype.F64, Shape: []sym.Expr{pairs.Shape[0], sym.Const(classes)}})
	// scratch memory, which is zero after the call
	n.Result(1, ir.Type{DType: dtype.F64, Shape: []sym.Expr{sym.Const((classes + 1) * classes)}})
	return nil
}

// coupleSamples returns probabilities for several numbers of classes and rows.
func coupleSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, classes := range []int64{1, 2, 3, 6} {
		for _, rows := range []int64{0, 1, 7} {
			pairs := tensor.Must(tensor.New(dtype.F64, rows, classes*(classes-1)/2))
			for i := range pairs.Len() {
				pairs.SetFloat(i, 1e-7+r.Float64()*(1-2e-7))
			}
			out = append(out, Sample{Attrs: ir.Attrs{"classes": classes}, Inputs: []*tensor.Tensor{pairs}})
		}
	}
	return out
}
