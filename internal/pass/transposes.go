package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Transposes joins transposes in a row to one or none, also across functions of single elements. A transpose that moves
// only axes of 1 becomes a reshape. Axes of 1 are inserted before the other axes are moved, so that heads are always
// split in the same way.
func Transposes(m *ir.Module) error { return apply(m, transposes) }

var transposes = []rule{
	{"transpose of transpose", []string{"transpose"}, transposeOfTranspose},
	{"transpose of axes of one", []string{"transpose"}, transposeOfOnes},
	{"transpose around functions", []string{"transpose"}, transposeAround},
	{"axes of one after transpose", []string{"reshape"}, onesAfterTranspose},
	{"leading axes split after transpose", []string{"reshape"}, splitAfterTranspose},
	{"slice of transpose", []string{"slice"}, sliceOfTranspose},
	{"slice of slice", []string{"slice"}, sliceOfSlice},
	{"rows last", []string{"matmul"}, rowsLast},
}

// permutation returns the perm attribute of a transpose.
func permutation(n *ir.Node) []int64 { return n.Attrs.Ints("perm") }

// identityPermutation reports whether a permutation moves nothing.
func identityPermutation(perm []int64) bool {
	for i, p := range perm {
		if int64(i) != p {
			return false
		}
	}
	return true
}

// composed returns the permutation that applies inner first and then outer.
func composed(outer, inner []int64) []int64 {
	perm := make([]int64, len(outer))
	for i, p := range outer {
		perm[i] = inner[p]
	}
	return perm
}

// turned returns x with its axes permuted: x itself if no axis moves.
func turned(b *ir.Builder, x *ir.Value, perm []int64) *ir.Value {
	if identityPermutation(perm) {
		return x
	}
	return ops.Transpose(b, x, perm...)
}

// transposeOfTranspose joins a transpose of a transpose to one or none.
func transposeOfTranspose(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	perm := permutation(n)
	if inner := producer(n.Inputs[0], "transpose"); inner != nil {
		return turned(b, inner.Inputs[0], composed(perm, permutation(inner)))
	}
	if identityPermutation(perm) {
		return n.Inputs[0]
	}
	return nil
}

// transposeOfOnes replaces a transpose by a reshape if the axes that are not 1 stay in order.
func transposeOfOnes(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	last := int64(-1)
	for _, p := range permutation(n) {
		if isOne(n.Inputs[0].Type.Shape[p]) {
			continue
		}
		if p < last {
			return nil
		}
		last = p
	}
	return ops.Reshape(b, n.Inputs[0], n.Outputs[0].Type.Shape...)
}

// sliceOfTranspose moves a slice before a transpose that only slices read: a slice of queries, keys or values is then a
// view of their common product.
func sliceOfTranspose(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	v := n.Inputs[0]
	turn := producer(v, "transpose")
	if turn == nil || r.owner[turn] != r.block {
		return nil
	}
	readers := 1
	for _, other := range r.after {
		if other.Op.Name() == "slice" && r.current(other.Inputs[0]) == v {
			readers++
		}
	}
	if readers != r.uses[v] { // slices before this one would have been replaced
		return nil
	}
	perm := permutation(turn)
	begin, extent, step := make([]sym.Expr, len(perm)), make([]sym.Expr, len(perm)), make([]int64, len(perm))
	for i, p := range perm {
		begin[p], extent[p], step[p] = n.Attrs.Exprs("begin")[i], n.Attrs.Exprs("extent")[i], n.Attrs.Ints("step")[i]
	}
	return ops.Transpose(b, ops.Slice(b, turn.Inputs[0], begin, extent, step), perm...)
}

// aroundDeepest is the largest number of functions in a row between two transposes.
const aroundDeepest = 8

// transposeAround moves a transpose through a chain of functions of single elements, if each variable operand of the
// chain is a transpose itself: each operand then has one transpose or none.
func transposeAround(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	a := &around{r: r, perm: permutation(n)}
	if n.Inputs[0].Node == nil || n.Inputs[0].Node.Op.Name() == "transpose" || !a.follow(n.Inputs[0], 0) ||
		a.inner == nil {
		return nil
	}
	return a.rebuild(b, n.Inputs[0], n)
}

// around is a chain of functions below a transpose.
type around struct {
	r     *rewriting
	perm  []int64 // of the transpose
	inner []int64 // of the transposes above the chain
}

// follow reports whether v can be computed with its axes permuted.
func (a *around) follow(v *ir.Value, depth int) bool {
	if v.Const != nil {
		return v.Const.Len() <= uniformMost
	}
	n := v.Node
	if n == nil || depth > aroundDeepest || len(v.Type.Shape) != len(a.perm) {
		return false
	}
	if n.Op.Name() == "transpose" {
		if a.inner != nil && !slices.Equal(a.inner, permutation(n)) {
			return false
		}
		a.inner = permutation(n)
		return true
	}
	if a.r.owner[n] != a.r.block || a.r.uses[v] != 1 || len(n.Outputs) != 1 || v.Bound || !single(n) {
		return false
	}
	for _, in := range n.Inputs {
		if in == nil || !a.follow(in, depth+1) {
			return false
		}
	}
	return len(n.Inputs) > 0
}

// single reports whether an operator is a function of single elements of its operands, with broadcasting.
func single(n *ir.Node) bool {
	return ops.Elementwise(n)
}

// rebuild computes v permuted by the outer permutation, from the operands of the inner transposes.
func (a *around) rebuild(b *ir.Builder, v *ir.Value, n *ir.Node) *ir.Value {
	if v.Const != nil {
		rank := len(a.perm)
		if v.Const.Len() == 1 {
			return v
		}
		shape := slices.Clone(v.Type.Shape)
		for len(shape) < rank {
			shape = slices.Insert(shape, 0, sym.Const(1))
		}
		if len(shape) != len(v.Type.Shape) {
			v = ops.Reshape(b, v, shape...)
		}
		return turned(b, v, a.perm)
	}
	if v.Node.Op.Name() == "transpose" {
		return turned(b, v.Node.Inputs[0], composed(a.perm, a.inner))
	}
	in := make([]*ir.Value, len(v.Node.Inputs))
	for i, x := range v.Node.Inputs {
		in[i] = a.rebuild(b, x, n)
	}
	source := b.Source
	b.Source = v.Node.Source
	defer func() { b.Source = source }()
	return b.Op(v.Node.Op.Name(), v.Node.Attrs, in...)
}

// onesAfterTranspose moves a reshape that inserts or removes axes of 1 before a transpose.
func onesAfterTranspose(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner := producer(n.Inputs[0], "transpose")
	if inner == nil || r.uses[n.Inputs[0]] != 1 {
		return nil
	}
	x, out := inner.Inputs[0], n.Outputs[0].Type.Shape
	// The axes of x that are not 1, in the order of the result.
	var moved []int64
	for _, p := range permutation(inner) {
		if !isOne(x.Type.Shape[p]) {
			moved = append(moved, p)
		}
	}
	sorted := slices.Sorted(slices.Values(moved))
	// An axis of 1 keeps the number of other axes before it if these are the same axes in x; else it moves to the last
	// position before which they are.
	slots := make([][]int, len(sorted)+1) // axes of the result
	at, slot := 0, 0
	for i, extent := range out {
		if isOne(extent) {
			slots[slot] = append(slots[slot], i)
			continue
		}
		if at == len(moved) || r.Dims().EQ(extent, x.Type.Shape[moved[at]]) != sym.Yes {
			return nil // more than axes of 1 change
		}
		at++
		if slices.Max(moved[:at]) == sorted[at-1] {
			slot = at
		}
	}
	if at != len(moved) {
		return nil
	}
	perm := make([]int64, len(out))
	var shape []sym.Expr
	positions := map[int64]int64{} // by axis of x: the axis of the reshaped x
	for s := range slots {
		for _, i := range slots[s] {
			perm[i] = int64(len(shape))
			shape = append(shape, sym.Const(1))
		}
		if s < len(sorted) {
			positions[sorted[s]] = int64(len(shape))
			shape = append(shape, x.Type.Shape[sorted[s]])
		}
	}
	at = 0
	for i, extent := range out {
		if !isOne(extent) {
			perm[i] = positions[moved[at]]
			at++
		}
	}
	return turned(b, ops.Reshape(b, x, shape...), perm)
}

// splitAfterTranspose moves a reshape that splits the first axis before a transpose that leaves the axis first: models
// often join the axis only for the transpose.
func splitAfterTranspose(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	t := producer(n.Inputs[0], "transpose")
	if t == nil || r.uses[n.Inputs[0]] != 1 || permutation(t)[0] != 0 {
		return nil
	}
	perm, from, out := permutation(t), t.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	kept := len(perm) - 1
	lead := len(out) - kept
	if kept < 2 || lead < 2 || !sameShape(r.Dims(), out[lead:], t.Outputs[0].Type.Shape[1:]) {
		return nil
	}
	shape := append(slices.Clone(out[:lead]), from[1:]...)
	x := t.Inputs[0]
	if joined := producer(x, "reshape"); joined != nil && sameShape(r.Dims(), joined.Inputs[0].Type.Shape, shape) {
		x = joined.Inputs[0]
	} else {
		x = ops.Reshape(b, x, shape...)
	}
	wide := make([]int64, len(out))
	for i := range wide {
		wide[i] = int64(i)
		if i >= lead {
			wide[i] = perm[i-lead+1] + int64(lead) - 1
		}
	}
	return turned(b, x, wide)
}

// rowsLast changes a transpose that moves the operand's last axis to the axis before it: the axis stays last, and the
// product reads the operand transposed, so that rows stay contiguous when they are copied.
func rowsLast(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inputs := slices.Clone(n.Inputs)
	attrs := ir.Attrs{}
	for name, a := range n.Attrs {
		attrs[name] = a
	}
	changed := false
	for i, flag := range []string{"transpose_a", "transpose_b"} {
		t := producer(n.Inputs[i], "transpose")
		if t == nil || r.uses[n.Inputs[i]] != 1 {
			continue
		}
		perm := slices.Clone(permutation(t))
		rank := len(perm)
		if perm[rank-2] != int64(rank-1) {
			continue
		}
		perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
		inputs[i], changed = turned(b, t.Inputs[0], perm), true
		attrs[flag] = !n.Attrs.Bool(flag)
	}
	if !changed {
		return nil
	}
	return b.Op("matmul", attrs, inputs...)
}
