package ops

import (
	"fmt"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A sequence is two tensors, elements and extents, as package tensor defines them.

// init defines the operators sequence_at, sequence_insert, sequence_erase, sequence_concat and sequence_split.
func init() {
	for _, d := range []*Def{
		{Op: "sequence_at", Shape: sequenceAtShape, Samples: sequenceAtSamples},
		{Op: "sequence_insert", Shape: sequenceInsertShape, Samples: sequenceInsertSamples},
		{Op: "sequence_erase", Shape: sequenceEraseShape, Samples: sequenceEraseSamples},
		{Op: "sequence_concat", Shape: sequenceConcatShape, Samples: sequenceConcatSamples},
		{Op: "sequence_split", Shape: sequenceSplitShape, Samples: sequenceSplitSamples},
	} {
		d.Mean, d.Host = hostMean(d.Op), d.Op
		d.NoGrad = listed
		define(d)
	}
}

// List is a sequence: the elements of its tensors, one after the other, and the rank and extents of each tensor.
type List struct{ Elements, Extents *ir.Value }

// extentsWidth is the length of a row of a sequence's extents: the rank, then the extents.
const extentsWidth = 1 + tensor.SequenceRank

// AnyExtent, in a shape that is given to a sequence operator, stands for an extent that is found in a run.
var AnyExtent = sym.Const(-1)

// Pack returns a sequence of tensors of one element type; without tensors, an empty sequence of type dt.
func Pack(b *ir.Builder, dt dtype.DType, list ...*ir.Value) List {
	flat := make([]*ir.Value, len(list))
	var extents []sym.Expr
	for i, v := range list {
		flat[i] = Reshape(b, v, product(v.Type.Shape))
		extents = append(extents, sequenceRow(b, v.Type.Shape)...)
	}
	t := ir.Type{DType: dtype.I64, Shape: []sym.Expr{sym.Const(int64(len(list))), sym.Const(extentsWidth)}}
	if len(list) == 0 {
		return List{b.Constant("elements", tensor.Must(tensor.New(dt, 0))),
			b.Constant("extents", tensor.Must(tensor.New(dtype.I64, 0, extentsWidth)))}
	}
	return List{Concat(b, 0, flat...), Integers(b, t, extents)}
}

// sequenceRow returns the row of extents of a tensor of the shape.
func sequenceRow(b *ir.Builder, shape []sym.Expr) []sym.Expr {
	if len(shape) > tensor.SequenceRank {
		b.Failf("a tensor of rank %d in a sequence, whose tensors may have %d axes", len(shape), tensor.SequenceRank)
	}
	row := make([]sym.Expr, extentsWidth)
	row[0] = sym.Const(int64(len(shape)))
	copy(row[1:], shape)
	return row
}

// Append appends a tensor to a sequence.
func Append(b *ir.Builder, x List, v *ir.Value) List {
	row := Integers(b, ir.Type{DType: dtype.I64, Shape: []sym.Expr{one, sym.Const(extentsWidth)}},
		sequenceRow(b, v.Type.Shape))
	return List{Concat(b, 0, x.Elements, Reshape(b, v, product(v.Type.Shape))), Concat(b, 0, x.Extents, row)}
}

// At returns the tensor at a position (an i64 scalar; negative positions count from the end), of the given shape. A
// tensor of another shape ends the run.
func At(b *ir.Builder, x List, position *ir.Value, shape ...sym.Expr) *ir.Value {
	return b.Op("sequence_at", ir.Attrs{"shape": shape}, x.Elements, x.Extents, position)
}

// Insert inserts v before the tensor at a position (an i64 scalar; the length appends, negative positions count from
// the end).
func Insert(b *ir.Builder, x List, v, position *ir.Value) List {
	n := b.Node("sequence_insert", nil, x.Elements, x.Extents, v, position)
	return List{n.Outputs[0], n.Outputs[1]}
}

// Erase removes the tensor at a position (an i64 scalar).
func Erase(b *ir.Builder, x List, position *ir.Value) List {
	n := b.Node("sequence_erase", nil, x.Elements, x.Extents, position)
	return List{n.Outputs[0], n.Outputs[1]}
}

// Join concatenates a sequence's tensors along an axis of the result, which has the given shape: an axis that the
// tensors have or, with stack, a new one.
func Join(b *ir.Builder, x List, axis int64, stack bool, shape ...sym.Expr) *ir.Value {
	return b.Op("sequence_concat", ir.Attrs{"axis": axis, "stack": stack, "shape": shape}, x.Elements, x.Extents)
}

// Cut splits a tensor along an axis into a sequence of pieces with the given lengths (an i64 vector); without keep,
// pieces of length 1 lose the axis.
func Cut(b *ir.Builder, x, lengths *ir.Value, axis int64, keep bool) List {
	n := b.Node("sequence_split", ir.Attrs{"axis": axis, "keep": keep}, x, lengths)
	return List{n.Outputs[0], n.Outputs[1]}
}

// isSequence checks the number of inputs, that inputs 0 and 1 are a sequence, and that the inputs from index `from` on
// are i64 scalars.
func isSequence(c *ir.Inference, n *ir.Node, inputs, from int) error {
	if err := arity(n, inputs, inputs); err != nil {
		return err
	}
	elements, extents := n.Inputs[0].Type, n.Inputs[1].Type
	if len(elements.Shape) != 1 || elements.DType.Bits()%8 != 0 || extents.DType != dtype.I64 || len(extents.Shape) != 2 {
		return fault(n, "a sequence of %s and %s", elements, extents)
	}
	if err := c.RequireEqual(n, extents.Shape[1], sym.Const(extentsWidth), "rows of a rank and extents"); err != nil {
		return err
	}
	for _, v := range n.Inputs[from:] {
		if v.Type.DType != dtype.I64 || len(v.Type.Shape) != 0 {
			return fault(n, "a position that is %s", v.Type)
		}
	}
	return nil
}

// foundShape returns the attribute shape with a new dimension in place of each AnyExtent. The dimension of a vector is
// at most limit; others are not limited.
func foundShape(c *ir.Inference, n *ir.Node, limit sym.Expr) []sym.Expr {
	shape := slices.Clone(n.Attrs.Exprs("shape"))
	for axis, e := range shape {
		if !e.Equal(AnyExtent) {
			continue
		}
		most := sym.Unlimited
		if len(shape) == 1 {
			most = limit
		}
		shape[axis] = foundAs(c, n, fmt.Sprintf("found%d", axis), fmt.Sprintf("extent%d", axis), most)
	}
	return shape
}

// sequenceAtShape returns the given shape; the extent of a vector is at most the sequence's number of elements.
func sequenceAtShape(c *ir.Inference, n *ir.Node) error {
	if err := isSequence(c, n, 3, 2); err != nil {
		return err
	}
	elements := n.Inputs[0].Type
	n.Result(0, ir.Type{DType: elements.DType, Shape: foundShape(c, n, elements.Shape[0])})
	return nil
}

// sequenceInsertShape adds the tensor's elements and one row of extents.
func sequenceInsertShape(c *ir.Inference, n *ir.Node) error {
	if err := isSequence(c, n, 4, 3); err != nil {
		return err
	}
	elements, extents, x := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	if x.DType != elements.DType || len(x.Shape) > tensor.SequenceRank {
		return fault(n, "%s in a sequence of %s", x, elements.DType)
	}
	n.Result(0, ir.Type{DType: elements.DType, Shape: []sym.Expr{elements.Shape[0].Add(product(x.Shape))}})
	n.Result(1, ir.Type{DType: dtype.I64, Shape: []sym.Expr{extents.Shape[0].Add(one), sym.Const(extentsWidth)}})
	return nil
}

// sequenceEraseShape requires at least one tensor; the number of elements that remain is found in a run.
func sequenceEraseShape(c *ir.Inference, n *ir.Node) error {
	if err := isSequence(c, n, 3, 2); err != nil {
		return err
	}
	elements, extents := n.Inputs[0].Type, n.Inputs[1].Type
	if err := c.Require(n, sym.Cond{A: one, Rel: sym.LE, B: extents.Shape[0]},
		"there is a tensor to take out"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: elements.DType, Shape: []sym.Expr{found(c, n, "left", elements.Shape[0])}})
	n.Result(1, ir.Type{DType: dtype.I64, Shape: []sym.Expr{extents.Shape[0].Sub(one), sym.Const(extentsWidth)}})
	return nil
}

// sequenceConcatShape requires an axis of the given shape.
func sequenceConcatShape(c *ir.Inference, n *ir.Node) error {
	if err := isSequence(c, n, 2, 2); err != nil {
		return err
	}
	elements := n.Inputs[0].Type
	if axis, shape := n.Attrs.Int("axis", -1), n.Attrs.Exprs("shape"); axis < 0 || axis >= int64(len(shape)) {
		return fault(n, "axis %d of a result of rank %d", axis, len(shape))
	}
	n.Result(0, ir.Type{DType: elements.DType, Shape: foundShape(c, n, elements.Shape[0])})
	return nil
}

// sequenceSplitShape requires lengths in an i64 vector; the sequence has x's elements, and a row for each length.
func sequenceSplitShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	x, lengths := n.Inputs[0].Type, n.Inputs[1].Type
	axis := n.Attrs.Int("axis", -1)
	if axis < 0 || axis >= int64(len(x.Shape)) || lengths.DType != dtype.I64 || len(lengths.Shape) != 1 ||
		x.DType.Bits()%8 != 0 {
		return fault(n, "%s cut along axis %d by %s", x, axis, lengths)
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: []sym.Expr{product(x.Shape)}})
	n.Result(1, ir.Type{DType: dtype.I64, Shape: []sym.Expr{lengths.Shape[0], sym.Const(extentsWidth)}})
	return nil
}

// sampleSequence returns a sequence of random tensors of the given shapes.
func sampleSequence(r *rand.Rand, dt dtype.DType, shapes ...[]int64) []*tensor.Tensor {
	var list []*tensor.Tensor
	for _, shape := range shapes {
		list = append(list, sampleOf(r, dt, shape...))
	}
	elements, extents, err := tensor.PackSequence(tensor.New, dt, list...)
	if err != nil {
		panic(err)
	}
	return []*tensor.Tensor{elements, extents}
}

// sampleShapes are the shapes of sequences' tensors: equal, of different lengths, without elements.
var sampleShapes = [][][]int64{{{2, 3}, {2, 3}}, {{2, 1}, {2, 4}, {2, 0}}, {{5}, {3}}, {{4}}, {{0, 3}}}

// sequenceAtSamples takes out the tensor at each position, with the shape given and with AnyExtent.
func sequenceAtSamples(r *rand.Rand) (out []Sample) {
	for _, shapes := range sampleShapes {
		for _, dt := range []dtype.DType{dtype.F32, dtype.I64, dtype.Bool} {
			for at := -len(shapes); at < len(shapes); at++ {
				free := make([]sym.Expr, len(shapes[0]))
				for i := range free {
					free[i] = AnyExtent
				}
				seq := append(sampleSequence(r, dt, shapes...), tensor.Scalar(int64(at)))
				out = append(out, Sample{Inputs: seq, Attrs: ir.Attrs{"shape": free}})
				shape := shapes[(at+len(shapes))%len(shapes)]
				out = append(out, Sample{Inputs: seq, Attrs: ir.Attrs{"shape": ir.Constants(shape)}})
			}
		}
	}
	return out
}

// sequenceInsertSamples inserts at each position of each sequence, an empty one among them.
func sequenceInsertSamples(r *rand.Rand) (out []Sample) {
	for _, shapes := range append(sampleShapes, nil) {
		for at := -len(shapes); at <= len(shapes); at++ {
			for _, shape := range [][]int64{{}, {3}, {2, 2}, {0}} {
				out = append(out, Sample{Inputs: append(sampleSequence(r, dtype.F16, shapes...), sampleOf(r, dtype.F16, shape...),
					tensor.Scalar(int64(at)))})
			}
		}
	}
	return out
}

// sequenceEraseSamples removes the tensor at each position.
func sequenceEraseSamples(r *rand.Rand) (out []Sample) {
	for _, shapes := range sampleShapes {
		for at := -len(shapes); at < len(shapes); at++ {
			out = append(out, Sample{Inputs: append(sampleSequence(r, dtype.I32, shapes...), tensor.Scalar(int64(at)))})
		}
	}
	return out
}

// sequenceConcatSamples concatenates and stacks along each axis, with tensors that have no elements among them.
func sequenceConcatSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct {
		shapes [][]int64
		axis   int64
		stack  bool
	}{
		{[][]int64{{2, 3}, {2, 1}, {2, 0}}, 1, false}, {[][]int64{{2, 3}, {1, 3}}, 0, false}, {[][]int64{{3}, {3}}, 0, true},
		{[][]int64{{3, 2}, {3, 2}}, 1, true},
		{[][]int64{{3, 2}, {3, 2}}, 2, true}, {[][]int64{{}, {}}, 0, true}, {[][]int64{{0, 2}}, 1, false},
		{[][]int64{{2, 2, 2}, {2, 3, 2}}, 1, false},
	} {
		rank := len(c.shapes[0])
		if c.stack {
			rank++
		}
		free := make([]sym.Expr, rank)
		for i := range free {
			free[i] = AnyExtent
		}
		for _, dt := range []dtype.DType{dtype.F32, dtype.U8} {
			out = append(out, Sample{Inputs: sampleSequence(r, dt, c.shapes...),
				Attrs: ir.Attrs{"axis": c.axis, "stack": c.stack, "shape": free}})
		}
	}
	return out
}

// sequenceSplitSamples splits along a first and a second axis, keeps and drops the axis, and covers pieces of length 0
// and no pieces.
func sequenceSplitSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct {
		shape, lengths []int64
		axis           int64
		keep           bool
	}{
		{[]int64{3, 6}, []int64{2, 4}, 1, true}, {[]int64{3, 6}, []int64{1, 0, 2}, 0, true},
		{[]int64{3, 2, 2}, []int64{1, 1}, 1, false}, {[]int64{3}, []int64{1, 1, 1}, 0, false},
		{[]int64{0, 2}, []int64{}, 0, true}, {[]int64{2, 0}, []int64{1, 1}, 0, true},
	} {
		out = append(out, Sample{Inputs: []*tensor.Tensor{sampleOf(r, dtype.F32, c.shape...), tensor.Of(c.lengths...)},
			Attrs: ir.Attrs{"axis": c.axis, "keep": c.keep}})
	}
	return out
}
