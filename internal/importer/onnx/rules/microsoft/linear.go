package microsoft

import (
	"slices"

	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Products and convolutions of com.microsoft, fused with the operators that follow them.

// activationSettings has the attributes of activations that only fused operators have; core.ActivationRules has the
// others.
var activationSettings = map[string][2]string{"ScaledTanh": {"alpha", "beta"}, "ParametricSoftplus": {"alpha", "beta"},
	"Clip": {"min", "max"}}

// activated applies the activation of a name, "" for none, to y. setting returns the i-th setting of the activation,
// whose attribute is called name; ok is false if the model does not give it.
func activated(c *convert.Call, y *ir.Value, name string,
	setting func(i int, name string) (x float64, ok bool)) *ir.Value {
	if name == "" {
		return y
	}
	if f, ok := core.UnaryRules[name]; ok {
		return ops.Unary(c.Builder, f, y)
	}
	row, known := core.ActivationRules[name]
	names, ok := activationSettings[name]
	if !known && !ok {
		c.Refuse("activation %q", name)
	}
	set, given := [2]float64{row.A, row.B}, [2]bool{}
	if known {
		names = [2]string{row.Alpha, row.Beta}
	}
	for i, name := range names {
		if name == "" {
			continue
		}
		if x, ok := setting(i, name); ok {
			set[i], given[i] = x, true
		}
	}
	switch name {
	case "Clip":
		for i, f := range []ops.BinaryFunction{ops.Max, ops.Min} {
			if given[i] {
				y = ops.Binary(c.Builder, f, y, ops.Scalar(c.Builder, y.Type.DType, set[i]))
			}
		}
		return y
	case "ScaledTanh":
		return core.Scaled(c, ops.Unary(c.Builder, ops.Tanh, core.Scaled(c, y, set[1])), set[0])
	case "ParametricSoftplus":
		return core.Scaled(c, ops.Activation(c.Builder, "softplus", core.Scaled(c, y, set[1])), set[0])
	}
	return ops.ActivationWith(c.Builder, row.Op, y, set[0], set[1])
}

// fusedSetting returns a setting function that reads the attributes activation_ and the setting's name.
func fusedSetting(c *convert.Call) func(i int, name string) (float64, bool) {
	return func(_ int, name string) (float64, bool) {
		return c.Float("activation_"+name, 0), c.Has("activation_" + name)
	}
}

// fusedProduct is alpha · A · B. transA and transB exchange an operand's last two axes; transBatchA and transBatchB
// move its first axis to the position before the last.
func fusedProduct(c *convert.Call) *ir.Value {
	operand := func(i int, batch, turn string) (*ir.Value, bool) {
		v := c.Input(i)
		rank := len(v.Type.Shape)
		if c.Int(batch, 0) != 0 {
			if rank < 3 {
				c.Fault("%s of a tensor of rank %d", batch, rank)
			}
			perm := convert.AllAxes(rank)
			perm = append(append(slices.Clone(perm[1:rank-1]), 0), perm[rank-1])
			v = ops.Transpose(c.Builder, v, perm...)
		}
		return v, c.Int(turn, 0) != 0 && rank > 1
	}
	x, turnA := operand(0, "transBatchA", "transA")
	y, turnB := operand(1, "transBatchB", "transB")
	var z *ir.Value
	if len(x.Type.Shape) > 1 && len(y.Type.Shape) > 1 {
		z = ops.MatMul(c.Builder, x, y, turnA, turnB)
	} else {
		z = ops.MatMulAny(c.Builder, transposeIf(c, x, turnA), transposeIf(c, y, turnB))
	}
	if alpha := c.Float("alpha", 1); alpha != 1 {
		z = core.Scaled(c, z, alpha)
	}
	return z
}

// transposeIf exchanges the last two axes of v if turn is true.
func transposeIf(c *convert.Call, v *ir.Value, turn bool) *ir.Value {
	if !turn {
		return v
	}
	perm := convert.AllAxes(len(v.Type.Shape))
	last := len(perm) - 1
	if last < 1 {
		c.Fault("%s, a tensor of rank %d, to be transposed", v.Name, len(perm))
	}
	perm[last], perm[last-1] = perm[last-1], perm[last]
	return ops.Transpose(c.Builder, v, perm...)
}

// fusedProductActivation converts FusedMatMulActivation.
func fusedProductActivation(c *convert.Call) []*ir.Value {
	return convert.One(activated(c, fusedProduct(c), c.StringAttribute("activation", ""), fusedSetting(c)))
}

// fusedGemm converts FusedGemm.
func fusedGemm(c *convert.Call) []*ir.Value {
	return convert.One(activated(c, core.Gemm(c)[0], c.StringAttribute("activation", ""), fusedSetting(c)))
}

// fusedConv is a convolution, to which a tensor may be added, followed by an activation.
func fusedConv(c *convert.Call) []*ir.Value {
	settings := c.Floats("activation_params")
	return convert.One(activated(c, plus(c, core.Conv(c)[0], c.Optional(3)), c.StringAttribute("activation", ""),
		func(i int, _ string) (float64, bool) {
			if i >= len(settings) {
				return 0, false
			}
			return settings[i], true
		}))
}

// channelsFirst returns x with its channels as axis 1, and a function that moves them back in a result. It moves
// nothing unless channels_last is set.
func channelsFirst(c *convert.Call, x *ir.Value) (first *ir.Value, back func(*ir.Value) *ir.Value) {
	rank := len(x.Type.Shape)
	if c.Int("channels_last", 0) == 0 {
		return x, func(y *ir.Value) *ir.Value { return y }
	}
	if rank < 3 {
		c.Fault("an input of rank %d", rank)
	}
	axes := convert.AllAxes(rank)
	there := append([]int64{0, int64(rank - 1)}, axes[1:rank-1]...)
	again := append(append([]int64{0}, axes[2:]...), 1)
	return ops.Transpose(c.Builder, x, there...), func(y *ir.Value) *ir.Value {
		return ops.Transpose(c.Builder, y, again...)
	}
}

func fusedMatMul(c *convert.Call) []*ir.Value { return convert.One(fusedProduct(c)) }

// gemmFastGelu converts GemmFastGelu: the product, plus a bias if there is one, followed by gelu's approximation by
// tanh.
func gemmFastGelu(c *convert.Call) []*ir.Value {
	y := plus(c, ops.MatMulAny(c.Builder, c.Input(0), c.Input(1)), c.Optional(2))
	return convert.One(ops.Activation(c.Builder, "gelu_tanh", y))
}
