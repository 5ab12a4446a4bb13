package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Identities removes nodes that change nothing: sums with 0, products with 1, slices of all elements, padding by 0
// elements, concatenations of one operand, casts to the same type, reshapes to the same shape. It joins two reshapes or
// slices in a row to one, and two casts if the first loses nothing.
func Identities(m *ir.Module) error { return apply(m, identities) }

var identities = []rule{
	{"neutral", []string{"add", "sub", "mul", "div", "pow"}, neutral},
	{"same shape", []string{"reshape", "expand"}, sameShaped},
	{"reshape of reshape", []string{"reshape"}, reshaped},
	{"reduction kept", []string{"reshape"}, reductionKept},
	{"expand of one", []string{"add", "sub", "mul", "div", "where", "max", "min", "expand"}, expanded},
	{"whole slice", []string{"slice"}, fullSlice},
	{"slice of slice", []string{"slice"}, sliceOfSlice},
	{"slice of concat", []string{"slice"}, sliceOfConcat},
	{"pad by nothing", []string{"pad"}, padByNothing},
	{"concat of one", []string{"concat"}, concatOfOne},
	{"same cast", []string{"cast"}, sameCast},
	{"negated twice", []string{"neg"}, twice("neg")},
	{"not twice", []string{"not"}, twice("not")},
	{"choice of one", []string{"where"}, choiceOfOne},
}

// neutral drops an operand that is the operation's neutral element. x + 0 equals x except for the sign of a zero.
func neutral(_ *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value {
	x, y := n.Inputs[0], n.Inputs[1]
	of := ops.Of(n)
	unit := *of.Neutral
	if c, ok := uniform(y); ok && c == unit {
		return x
	}
	if c, ok := uniform(x); ok && c == unit && of.Commutative {
		return y
	}
	return nil
}

// sameShaped returns the operand, which has the shape of the result.
func sameShaped(_ *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value { return n.Inputs[0] }

// producer returns the node that computes v if it applies the operator name and has one result; nil otherwise.
func producer(v *ir.Value, name string) *ir.Node {
	if v == nil || v.Const != nil || v.Node == nil || v.Node.Op.Name() != name || len(v.Node.Outputs) != 1 {
		return nil
	}
	return v.Node
}

// reshaped joins a reshape of a reshape to one.
func reshaped(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if inner := producer(n.Inputs[0], "reshape"); inner != nil {
		return ops.Reshape(b, inner.Inputs[0], n.Attrs.Exprs("shape")...)
	}
	return nil
}

// reductionKept replaces a reduction that drops its axes, and the reshape that adds them again as 1, by one reduction
// that keeps its axes.
func reductionKept(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner := n.Inputs[0].Node
	if n.Inputs[0].Const != nil || inner == nil || len(inner.Inputs) != 1 || inner.Attrs["keep"] != false ||
		r.uses[n.Inputs[0]] != 1 || r.owner[inner] != r.block {
		return nil
	}
	axes := inner.Attrs.Ints("axes")
	rank := len(inner.Inputs[0].Type.Shape)
	if len(axes) == 0 || len(n.Outputs[0].Type.Shape) != rank {
		return nil
	}
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if !isOne(n.Outputs[0].Type.Shape[a]) {
			return nil
		}
	}
	return b.Op(inner.Op.Name(), with(inner, ir.Attrs{"keep": true}), inner.Inputs[0])
}

// expanded reads the operand of an expand directly: the operation broadcasts it by itself.
func expanded(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inputs, changed := slices.Clone(n.Inputs), false
	for i, v := range inputs {
		if e := producer(v, "expand"); e != nil {
			inputs[i], changed = e.Inputs[0], true
			if n.Op.Name() != "expand" && !r.broadcasts(inputs, n.Outputs[0].Type.Shape) {
				inputs[i] = v
				return nil
			}
		}
	}
	if !changed {
		return nil
	}
	return b.Op(n.Op.Name(), n.Attrs, inputs...)
}

// broadcasts reports whether operands broadcast to a shape for certain: along each axis one of them has its extent.
func (r *rewriting) broadcasts(operands []*ir.Value, shape []sym.Expr) bool {
	for axis, extent := range shape {
		full := isOne(extent)
		for _, v := range operands {
			at := axis - len(shape) + len(v.Type.Shape)
			full = full || at >= 0 && v.Type.Shape[at].Equal(extent)
		}
		if !full {
			return false
		}
	}
	return true
}

// steps reports whether every step of a slice is 1.
func steps(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Attrs.Ints("step"), func(s int64) bool { return s != 1 })
}

// fullSlice drops a slice of all elements.
func fullSlice(r *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value {
	for i, begin := range n.Attrs.Exprs("begin") {
		at, ok := begin.Const()
		switch step := n.Attrs.Ints("step")[i]; {
		case isOne(n.Inputs[0].Type.Shape[i]) && isOne(n.Outputs[0].Type.Shape[i]):
		case !ok || at != 0 || step != 1:
			return nil
		}
	}
	return n.Inputs[0]
}

// sliceOfSlice joins a slice of a slice to one.
func sliceOfSlice(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner := producer(n.Inputs[0], "slice")
	if inner == nil || r.uses[n.Inputs[0]] != 1 { // the inner slice stays for its other readers
		return nil
	}
	begin, step := slices.Clone(inner.Attrs.Exprs("begin")), slices.Clone(inner.Attrs.Ints("step"))
	for i, at := range n.Attrs.Exprs("begin") {
		begin[i] = r.Dims().Simplify(begin[i].Add(at.Mul(sym.Const(step[i]))))
		step[i] *= n.Attrs.Ints("step")[i]
		if step[i] > 1<<31 || step[i] < -1<<31 {
			return nil
		}
	}
	return ops.Slice(b, inner.Inputs[0], begin, n.Attrs.Exprs("extent"), step)
}

// piecesMost is the most operands of a concatenation that are searched for the operand that a slice takes.
const piecesMost = 64

// sliceOfConcat replaces a slice of a concatenation by the one operand, or the slice of it, that it takes.
func sliceOfConcat(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner := producer(n.Inputs[0], "concat")
	if inner == nil || !steps(n) || len(inner.Inputs) > piecesMost {
		return nil
	}
	rank := len(n.Outputs[0].Type.Shape)
	axis := int(inner.Attrs.Int("axis", 0))
	if axis < 0 {
		axis += rank
	}
	begin, extent := n.Attrs.Exprs("begin"), n.Attrs.Exprs("extent")
	from := sym.Const(0)
	for _, piece := range inner.Inputs {
		end := from.Add(piece.Type.Shape[axis])
		if r.Dims().LE(from, begin[axis]) == sym.Yes && r.Dims().LE(begin[axis].Add(extent[axis]), end) == sym.Yes {
			at := slices.Clone(begin)
			at[axis] = r.Dims().Simplify(begin[axis].Sub(from))
			return ops.Slice(b, piece, at, extent, n.Attrs.Ints("step"))
		}
		from = end
	}
	return nil
}

// padByNothing drops a padding by 0 elements.
func padByNothing(_ *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value {
	for _, e := range slices.Concat(n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")) {
		if v, ok := e.Const(); !ok || v != 0 {
			return nil
		}
	}
	return n.Inputs[0]
}

// concatOfOne drops a concatenation of one operand.
func concatOfOne(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	axis := n.Attrs.Int("axis", 0)
	if axis < 0 {
		axis += int64(len(n.Outputs[0].Type.Shape))
	}
	kept := slices.DeleteFunc(slices.Clone(n.Inputs), func(v *ir.Value) bool {
		size, ok := v.Type.Shape[axis].Const()
		return ok && size == 0
	})
	switch {
	case len(kept) == 1:
		return kept[0]
	case len(kept) == 0 || len(kept) == len(n.Inputs):
		return nil
	}
	return ops.Concat(b, axis, kept...)
}

// holdsEvery reports whether type to holds every number of type from.
func holdsEvery(from, to dtype.DType) bool {
	wider := map[dtype.DType][]dtype.DType{
		dtype.F16: {dtype.F32, dtype.F64}, dtype.BF16: {dtype.F32, dtype.F64}, dtype.F32: {dtype.F64},
		dtype.Bool: {dtype.F16, dtype.F32, dtype.F64, dtype.I32, dtype.I64, dtype.U8, dtype.I8},
		dtype.I8:   {dtype.I16, dtype.I32, dtype.I64, dtype.F16, dtype.F32, dtype.F64},
		dtype.U8:   {dtype.I16, dtype.U16, dtype.I32, dtype.U32, dtype.I64, dtype.F16, dtype.F32, dtype.F64},
		dtype.I16:  {dtype.I32, dtype.I64, dtype.F32, dtype.F64}, dtype.I32: {dtype.I64, dtype.F64},
	}
	return slices.Contains(wider[from], to)
}

// sameCast drops casts to the same type, and casts through a type that holds every number of the first type.
func sameCast(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, to := n.Inputs[0], n.Outputs[0].Type.DType
	if x.Type.DType == to {
		return x
	}
	inner := producer(x, "cast")
	if inner == nil || !holdsEvery(inner.Inputs[0].Type.DType, x.Type.DType) {
		return nil
	}
	if inner.Inputs[0].Type.DType == to {
		return inner.Inputs[0]
	}
	return b.Op("cast", n.Attrs, inner.Inputs[0])
}

// twice drops two applications in a row of an operator that undoes itself.
func twice(name string) func(*rewriting, *ir.Builder, *ir.Node) *ir.Value {
	return func(_ *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value {
		if inner := producer(n.Inputs[0], name); inner != nil {
			return inner.Inputs[0]
		}
		return nil
	}
}

// choiceOfOne replaces a choice whose condition is constant for all elements, or whose two operands are the same.
func choiceOfOne(_ *rewriting, _ *ir.Builder, n *ir.Node) *ir.Value {
	if n.Inputs[1] == n.Inputs[2] {
		return n.Inputs[1]
	}
	cond := n.Inputs[0]
	if cond.Const == nil || cond.Const.Len() == 0 || cond.Const.Len() > uniformMost {
		return nil
	}
	first := cond.Const.Int(0)
	for i := int64(1); i < cond.Const.Len(); i++ {
		if cond.Const.Int(i) != first {
			return nil
		}
	}
	if first != 0 {
		return n.Inputs[1]
	}
	return n.Inputs[2]
}
