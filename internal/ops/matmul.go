package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator matmul.
func init() {
	define(&Def{Op: "matmul", Broadcasts: true, Own: 2, Narrow: matmulNarrow, Products: matmulProducts, Cost: matmulCost,
		Merge: Merging{By: "add", Axes: matmulMergeAxes},
		rows:  rowRule{axes: matmulRowAxes}, Shape: matmulShape, Mean: matmulMean, Samples: matmulSamples, Grad: matmulGrad,
		Lowerings: []Lowering{{Name: "sums", Blocks: true, Build: matmulSums}, {Name: "contract", Build: matmulContract}}})
}

// MatMul multiplies matrices a[…, M, K] and b[…, K, N] over broadcast leading axes. With transposeA, a is stored as […,
// K, M]; with transposeB, b as […, N, K]. Floats narrower than f32 are summed in f32; integers wrap.
func MatMul(b *ir.Builder, x, y *ir.Value, transposeA, transposeB bool) *ir.Value {
	return b.Op("matmul", ir.Attrs{"transpose_a": transposeA, "transpose_b": transposeB}, x, y)
}

// MatMulAs is MatMul of integers of at most 8 bits, signed or unsigned, whose sums and result are of type dt.
func MatMulAs(b *ir.Builder, dt dtype.DType, x, y *ir.Value) *ir.Value {
	return b.Op("matmul", ir.Attrs{"dtype": dt}, x, y)
}

// MatMulAny is MatMul for operands of any rank above 0: a vector on the left is a row, a vector on the right a column,
// and the result drops the axis of 1 that the vector was given.
func MatMulAny(b *ir.Builder, x, y *ir.Value) *ir.Value {
	row, column := len(x.Type.Shape) == 1, len(y.Type.Shape) == 1
	if row {
		x = Reshape(b, x, one, x.Type.Shape[0])
	}
	if column {
		y = Reshape(b, y, y.Type.Shape[0], one)
	}
	z := MatMul(b, x, y, false, false)
	shape := append([]sym.Expr{}, z.Type.Shape...)
	if column {
		shape = shape[:len(shape)-1]
	}
	if row {
		at := len(z.Type.Shape) - 2
		shape = append(shape[:at:at], shape[at+1:]...)
	}
	if row || column {
		z = Reshape(b, z, shape...)
	}
	return z
}

// matmulAxes returns the axes of the rows, of the sum in both operands, and of the columns.
func matmulAxes(n *ir.Node) (m, ka, kb, cols int) {
	ra, rb := len(n.Inputs[0].Type.Shape), len(n.Inputs[1].Type.Shape)
	m, ka = ra-2, ra-1
	if n.Attrs.Bool("transpose_a") {
		m, ka = ka, m
	}
	kb, cols = rb-2, rb-1
	if n.Attrs.Bool("transpose_b") {
		kb, cols = cols, kb
	}
	return m, ka, kb, cols
}

// matmulMergeAxes has one way: along the axis of the sum in both operands.
func matmulMergeAxes(n *ir.Node) [][]int {
	_, ka, kb, _ := matmulAxes(n)
	return [][]int{{ka, kb}}
}

// matmulShape checks types and the axis of the sum and infers the broadcast leading axes, then [M, N].
func matmulShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	a, b := n.Inputs[0].Type, n.Inputs[1].Type
	if len(a.Shape) < 2 || len(b.Shape) < 2 {
		return fault(n, "operands of rank %d and %d, each needs at least 2", len(a.Shape), len(b.Shape))
	}
	out := n.Attrs.DType("dtype")
	if out == dtype.Invalid {
		out = a.DType
		if a.DType != b.DType {
			return fault(n, "operands of types %s and %s", a.DType, b.DType)
		}
	}
	if !numbers(a.DType) || a.DType.IsInt() != b.DType.IsInt() || a.DType.IsInt() != out.IsInt() {
		return fault(n, "operands of types %s and %s", a.DType, b.DType)
	}
	m, ka, kb, cols := matmulAxes(n)
	if err := c.RequireEqual(n, a.Shape[ka], b.Shape[kb], "the axis that a matrix product sums over"); err != nil {
		return err
	}
	shape, err := broadcast(c, n, a.Shape[:len(a.Shape)-2], b.Shape[:len(b.Shape)-2])
	if err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: out, Shape: append(shape, a.Shape[m], b.Shape[cols])})
	return nil
}

// matmulMean is the reference: each element is one sum, in 64 bits.
func matmulMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	a, b := in[0], in[1]
	m, ka, kb, cols := matmulAxes(n)
	rank := out.Rank()
	depth := a.Shape()[ka]
	sa, sb := tensor.Strides(a.Shape()), tensor.Strides(b.Shape())
	flat := int64(0)
	integer := out.DType().IsInt()
	tensor.Each(out.Shape(), func(index []int64) {
		x := matrixAt(index[:rank-2], a.Shape()[:a.Rank()-2], a.Shape()[a.Rank()-2]*a.Shape()[a.Rank()-1]) +
			index[rank-2]*sa[m]
		y := matrixAt(index[:rank-2], b.Shape()[:b.Rank()-2], b.Shape()[b.Rank()-2]*b.Shape()[b.Rank()-1]) +
			index[rank-1]*sb[cols]
		if integer {
			sum := int64(0)
			for k := int64(0); k < depth; k++ {
				sum += a.Int(x+k*sa[ka]) * b.Int(y+k*sb[kb])
			}
			out.SetInt(flat, sum)
		} else {
			sum := 0.0
			for k := int64(0); k < depth; k++ {
				sum += a.Float(x+k*sa[ka]) * b.Float(y+k*sb[kb])
			}
			out.SetFloat(flat, sum)
		}
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// matrixAt returns the offset of the matrix, of size elements, that a leading index selects from a stack with the given
// leading shape, with broadcasting.
func matrixAt(index, leading []int64, size int64) int64 {
	return broadcastFlat(index, leading) * size
}

// matmulContract lowers a matrix product: one product per index of the leading axes; leading axes along which the right
// operand does not vary become rows.
func matmulContract(k *Nest, n *ir.Node) {
	a, b, out := k.In[0], k.In[1], k.Out[0]
	m, ka, kb, cols := matmulAxes(n)
	rank := len(out.Shape)
	columns, depth := out.Shape[rank-1], a.Shape[ka]
	leadA, leadB := a.Shape[:len(a.Shape)-2], b.Shape[:len(b.Shape)-2]
	// The last leading axes that only the left operand has join the rows, if the left one's rows
	// follow one another.
	joined := 0
	if !n.Attrs.Bool("transpose_a") {
		for joined < len(leadA) && (joined >= len(leadB) || isOne(leadB[len(leadB)-1-joined])) {
			joined++
		}
		for joined > 0 && isOne(leadA[len(leadA)-joined]) {
			joined--
		}
	}
	lead, inner := out.Shape[:rank-2-joined], out.Shape[rank-2-joined:rank-1]
	rows := product(inner)
	if joined > 0 {
		leadA = leadA[:len(leadA)-joined]
		k.Reshape(a, append(append([]sym.Expr{}, leadA...), rows, depth)...)
		m, ka = len(leadA), len(leadA)+1
	}
	k.Nest(loop.Each, "b", lead, func(batch []sym.Expr) {
		acc := k.Local("acc", out.DType.Accumulator(), rows, columns)
		k.Nest(loop.Each, "z", acc.Shape, func(at []sym.Expr) { k.Store(acc, at, loop.Number(acc.DType, 0)) })
		atB := broadcastIndex(append(append([]sym.Expr{}, batch...), zeros(joined)...), leadB)
		k.Contract(rows, columns, depth,
			acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			a.Tile(append(broadcastIndex(batch, leadA), zeros(2)...), unit(len(a.Shape), m, one), unit(len(a.Shape), ka, one)),
			b.Tile(append(atB, zeros(2)...), unit(len(b.Shape), kb, one), unit(len(b.Shape), cols, one)))
		k.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
			to := append(append([]sym.Expr{}, batch...), sym.Unravel(at[0], inner)...)
			k.Store(out, append(to, at[1]), loop.Convert(out.DType, acc.Load(at...)))
		})
	})
}

// matmulSums lowers a matrix product to one sum for each element of the result.
func matmulSums(k *Nest, n *ir.Node) {
	a, b, out := k.In[0], k.In[1], k.Out[0]
	m, ka, kb, cols := matmulAxes(n)
	rank, dt := len(out.Shape), out.DType.Accumulator()
	matrix := func(x *loop.Memory, batch []sym.Expr, axisA, axisB int, atA, atB sym.Expr) loop.Expr {
		index := append(broadcastIndex(batch, x.Shape[:len(x.Shape)-2]), sym.Expr{}, sym.Expr{})
		index[axisA], index[axisB] = atA, atB
		return loop.Convert(dt, x.Load(index...))
	}
	k.Nest(loop.Each, "o", out.Shape, func(at []sym.Expr) {
		batch, row, column := at[:rank-2], at[rank-2], at[rank-1]
		sum := k.Var("sum", loop.Number(dt, 0))
		k.Serial("k", a.Shape[ka], func(step sym.Expr) {
			k.Reduce(sum, loop.Add, loop.Apply2(loop.Mul, matrix(a, batch, m, ka, row, step),
				matrix(b, batch, kb, cols, step, column)))
		})
		k.Store(out, at, loop.Convert(out.DType, sum))
	})
}

// matmulSamples returns operands of several shapes, types and layouts.
func matmulSamples(r *rand.Rand) []Sample {
	var out []Sample
	shapes := [][2][]int64{{{3, 5}, {5, 4}}, {{2, 3, 5}, {5, 4}}, {{2, 3, 4, 5}, {5, 6}}, {{2, 3, 4}, {2, 4, 5}},
		{{2, 1, 3, 4}, {3, 4, 2}}, {{4, 3, 2}, {1, 2, 5}},
		{{2, 3, 2, 4}, {2, 1, 4, 3}}, {{1, 7}, {3, 7, 2}}, {{3, 1, 2, 4}, {4, 5}}, {{3, 1, 1, 4}, {1, 4, 5}},
		{{0, 3}, {3, 2}}, {{2, 0}, {0, 3}}, {{3, 2}, {2, 0}}, {{2, 0, 3}, {3, 2}}}
	for i, s := range shapes {
		for j, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.I32, dtype.I64, dtype.U32} {
			if j > 0 && i > 3 {
				continue
			}
			out = append(out, Sample{Attrs: ir.Attrs{}, Inputs: []*tensor.Tensor{sampleOf(r, dt, s[0]...),
				sampleOf(r, dt, s[1]...)}})
		}
	}
	for _, transposed := range []ir.Attrs{{"transpose_a": true}, {"transpose_b": true},
		{"transpose_a": true, "transpose_b": true}} {
		a, b := []int64{2, 3, 4}, []int64{4, 5}
		if transposed.Bool("transpose_a") {
			a = []int64{2, 4, 3}
		}
		if transposed.Bool("transpose_b") {
			b = []int64{5, 4}
		}
		out = append(out, Sample{Attrs: transposed, Inputs: []*tensor.Tensor{sampleFloats(r, dtype.F32, a...),
			sampleNormal(r, dtype.F32, b...)}})
	}
	return append(out, Sample{Attrs: ir.Attrs{"dtype": dtype.I32},
		Inputs: []*tensor.Tensor{sampleOf(r, dtype.U8, 3, 4), sampleOf(r, dtype.I8, 4, 2)}})
}

// matmulGrad returns the gradient of X·Y: U·Yᵀ by X and Xᵀ·U by Y, transposed for an operand that is stored transposed.
func matmulGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, y, u := n.Inputs[0], n.Inputs[1], Cast(g.Builder, up[0], n.Inputs[0].Type.DType)
	turnedX, turnedY := n.Attrs.Bool("transpose_a"), n.Attrs.Bool("transpose_b")
	out := make([]*ir.Value, 2)
	switch {
	case g.Wants(x) && turnedX:
		out[0] = g.product(x, y, u, turnedY, true)
	case g.Wants(x):
		out[0] = g.product(x, u, y, false, !turnedY)
	}
	switch {
	case g.Wants(y) && turnedY:
		out[1] = g.product(y, u, x, true, turnedX)
	case g.Wants(y):
		out[1] = g.product(y, x, u, !turnedX, false)
	}
	return out
}

// product returns the derivative by an operand of a product, which is a product too. If all leading axes of the operand
// were repeated, those of the factors become rows, or summed ones, of a single product.
func (g *Gradients) product(by, x, y *ir.Value, turnedX, turnedY bool) *ir.Value {
	rank := len(x.Type.Shape)
	leading := func(v *ir.Value) []sym.Expr { return Settled(g.Dims(), v.Type.Shape[:rank-1]) }
	if len(by.Type.Shape) == 2 && rank > 2 && len(y.Type.Shape) == rank && turnedX && !turnedY &&
		slices.EqualFunc(leading(x), leading(y), func(a, b sym.Expr) bool { return g.Dims().EQ(a, b) == sym.Yes }) {
		x, y = rowsTogether(g.Builder, x), rowsTogether(g.Builder, y)
	}
	return MatMul(g.Builder, x, y, turnedX, turnedY)
}

// rowsTogether reshapes matrices to one matrix of all their rows.
func rowsTogether(b *ir.Builder, x *ir.Value) *ir.Value {
	last := len(x.Type.Shape) - 1
	return Reshape(b, x, product(x.Type.Shape[:last]), x.Type.Shape[last])
}

// matmulRowAxes reports whether the product can be computed slice by slice along an axis: rows and leading axes, not
// columns.
func matmulRowAxes(n *ir.Node, axis int, in []int, aligned func(*ir.Value, int) int) bool {
	a, b, rank := n.Inputs[0], n.Inputs[1], len(n.Outputs[0].Type.Shape)
	if len(a.Type.Shape) < 2 || len(b.Type.Shape) < 2 {
		return false
	}
	switch axis {
	case rank - 1:
		return false // slices of columns would slice the weights
	case rank - 2:
		in[0] = len(a.Type.Shape) - 2
		if n.Attrs.Bool("transpose_a") {
			in[0]++
		}
	default:
		in[0], in[1] = aligned(a, rank), aligned(b, rank)
	}
	return true
}

// matmulProducts returns the size of one matrix of the right operand, which is more than the products of one sum.
func matmulProducts(n *ir.Node) int64 {
	each := int64(1)
	shape := n.Inputs[1].Const.Shape()
	for _, extent := range shape[max(len(shape)-2, 0):] {
		each *= extent
	}
	return each
}

// matmulCost counts a multiplication and an addition for each product.
func matmulCost(n *ir.Node, size func(...sym.Expr) float64) float64 {
	x := n.Inputs[0].Type.Shape
	inner := x[len(x)-1]
	if n.Attrs.Bool("transpose_a") {
		inner = x[len(x)-2]
	}
	return 2 * size(n.Outputs[0].Type.Shape...) * size(inner)
}

// matmulNarrow returns the sections of the operands that a section of the result needs: rows of the left one, columns
// of the right one.
func matmulNarrow(p NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	x, y := n.Inputs[0], n.Inputs[1]
	last := len(want) - 1
	if p.Shared(x) {
		want[last-1] = AxisSection{}
	}
	if p.Shared(y) {
		want[last] = AxisSection{}
	}
	side := func(v *ir.Value, own AxisSection, turned bool, at int) Section {
		rank := len(v.Type.Shape)
		in := append(broadcastSection(v, want)[:rank-2:rank-2], AxisSection{}, AxisSection{})
		if turned {
			at = 1 - at
		}
		in[rank-2+at] = own
		return in
	}
	return Reading{Made: want, In: []Section{side(x, want[last-1], n.Attrs.Bool("transpose_a"), 0),
		side(y, want[last], n.Attrs.Bool("transpose_b"), 1)}}, true
}
