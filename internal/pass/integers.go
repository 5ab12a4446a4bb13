package pass

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Integers computes matrix products and convolutions of dequantized bytes from the bytes: the sums are of integers, in
// i32, and are scaled afterwards. The weights must be constants. Scales must be constants, finite and positive, one for
// all elements of the left operand, and one for all or for each output channel of the weights; no sum may leave i32. A
// sum of floats is rounded at each step and a sum of integers is not, so results differ from the model's own by the
// rounding of floats.
func Integers(m *ir.Module) error {
	c := ir.NewInference(m)
	for _, f := range m.Funcs {
		var err error
		func() {
			defer ir.Catch(&err)
			unsigned(ir.NewBuilder(c, f.Body))
		}()
		if err != nil {
			return err
		}
	}
	return apply(m, integers)
}

var integers = []rule{
	{"product of bytes", []string{"matmul"}, productOfBytes},
	{"convolution of bytes", []string{"convolution"}, convolutionOfBytes},
}

// signBit is the number added to signed bytes to make them unsigned.
const signBit = 128

// bytesOf is the operands of a dequantize: bytes, their scales and their zero points.
type bytesOf struct {
	value  *ir.Value
	scales []float64 // one, or one for each index of the axis
	zeros  []int64   // as many as scales, or one
	axis   int
}

// scaleLeast and scaleMost bound the scales: the product of two, and its reciprocal, stay normal numbers of f32.
const scaleLeast, scaleMost = 1e-17, 1e17

// bytesOf returns the bytes that v dequantizes; ok is false if v is something else, or if Integers cannot use its
// scales or zero points.
func (r *rewriting) bytesOf(v *ir.Value) (d bytesOf, ok bool) {
	n := producer(v, "dequantize")
	if n == nil || v.Type.DType != dtype.F32 || n.Attrs.Int("block", 0) != 0 || n.Inputs[1].Type.DType != dtype.F32 {
		return d, false
	}
	if dt := n.Inputs[0].Type.DType; dt != dtype.U8 && dt != dtype.I8 {
		return d, false
	}
	d.value, d.zeros = n.Inputs[0], []int64{0}
	if d.axis = int(n.Attrs.Int("axis", 1)); d.axis < 0 {
		d.axis += len(v.Type.Shape)
	}
	scale := n.Inputs[1].Const
	if scale == nil || scale.Len() == 0 {
		return d, false
	}
	for i := range scale.Len() {
		s := scale.Float(i)
		if !(s >= scaleLeast && s <= scaleMost) {
			return d, false
		}
		d.scales = append(d.scales, s)
	}
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		zero := n.Inputs[2].Const
		if zero == nil || zero.Len() != 1 && zero.Len() != scale.Len() {
			return d, false
		}
		d.zeros = d.zeros[:0]
		for i := range zero.Len() {
			d.zeros = append(d.zeros, zero.Int(i))
		}
	}
	if !slices.ContainsFunc(d.zeros, func(z int64) bool { return z != d.zeros[0] }) {
		d.zeros = d.zeros[:1]
	}
	return d, true
}

// most returns the largest magnitude of a byte less its zero point.
func (d *bytesOf) most() (most int64) {
	dt := d.value.Type.DType
	for _, z := range d.zeros {
		most = max(most, z-dt.MinInt(), int64(dt.MaxInt())-z)
	}
	return most
}

// weightBytes is a constant of bytes that a product reads on its right.
type weightBytes struct {
	bytesOf
	constant *tensor.Tensor
	channels int64
	depth    int64 // products in a sum
}

// weightsOf returns a product's weights, whose channels lie along axis and whose sums have depth products; nil if the
// weights are not dequantized constant bytes with usable scales.
func (r *rewriting) weightsOf(v *ir.Value, axis int, depth int64) *weightBytes {
	d, ok := r.bytesOf(v)
	if !ok || d.value.Const == nil || len(d.scales) > 1 && d.axis != axis {
		return nil
	}
	w := &weightBytes{bytesOf: d, constant: d.value.Const, channels: d.value.Const.Shape()[axis], depth: depth}
	if w.channels < 1 || len(w.scales) > 1 && int64(len(w.scales)) != w.channels {
		return nil
	}
	return w
}

// fits reports whether no sum of products with a left operand leaves i32.
func (w *weightBytes) fits(x *bytesOf) bool {
	return len(x.scales) == 1 && len(x.zeros) == 1 && w.depth <= math.MaxInt32/(x.most()*w.most())
}

// signed makes unsigned weights signed, and adapts their zero points: the machine multiplies unsigned bytes by signed
// bytes.
func (w *weightBytes) signed(b *ir.Builder) {
	if w.value.Type.DType != dtype.U8 {
		return
	}
	from := w.constant
	t, err := ops.SignedBytes(from)
	if err != nil {
		b.Fail(err)
	}
	settled(t)
	w.value, w.constant, w.zeros = b.Constant(w.value.Name, t), t, slices.Clone(w.zeros)
	for i := range w.zeros {
		w.zeros[i] -= signBit
	}
}

// zeroOf returns the zero point of a channel.
func (w *weightBytes) zeroOf(channel int64) int64 {
	return w.zeros[min(channel, int64(len(w.zeros)-1))]
}

// sums returns the sum of each channel's weights as they are stored.
func (w *weightBytes) sums(axis int) []int64 {
	t, release := tensor.Temporary(w.constant.DType(), w.constant.Shape()...)
	defer release()
	w.constant.Fill(t, 0, 0, t.Shape()[0])
	inner, signed, sums := int64(1), t.DType().IsSigned(), make([]int64, w.channels)
	for _, extent := range t.Shape()[axis+1:] {
		inner *= extent
	}
	data := t.Bytes()
	for at := int64(0); at < int64(len(data)); at += inner {
		channel, sum := at/inner%w.channels, int64(0)
		for _, v := range data[at : at+inner] {
			if signed {
				sum += int64(int8(v))
			} else {
				sum += int64(v)
			}
		}
		sums[channel] += sum
	}
	return sums
}

// perChannel returns a constant of the elements that of gives for the channels, or of one element if they are all
// equal. The constant is broadcast along the channels' axis of a result; after is the number of axes after that axis.
func (w *weightBytes) perChannel(b *ir.Builder, name string, dt dtype.DType, after int,
	of func(channel int64) float64) *ir.Value {
	count := int64(1)
	for i := range w.channels {
		if of(i) != of(0) {
			count = w.channels
			break
		}
	}
	var shape []int64
	if count > 1 {
		shape = append(shape, count)
		for range after {
			shape = append(shape, 1)
		}
	}
	t, err := tensor.New(dt, shape...)
	if err != nil {
		b.Fail(err)
	}
	for i := range count {
		if dt.IsInt() {
			t.SetInt(i, int64(of(i)))
		} else {
			t.SetFloat(i, of(i))
		}
	}
	return b.Constant(name, t)
}

// scaled makes the product of the dequantized floats from the sums Σ x·w, in i32, of the stored bytes:
// Σ (x − x₀)·(w − w₀) is Σ x·w − w₀·Σ (x − x₀) − x₀·Σ w. perWeight is Σ (x − x₀), broadcast to the sums; nil if w₀ is
// 0.
func (w *weightBytes) scaled(b *ir.Builder, x *bytesOf, sums, perWeight *ir.Value, axis, after int) *ir.Value {
	if perWeight != nil {
		zeros := w.perChannel(b, "zeros", dtype.I32, after, func(i int64) float64 { return float64(w.zeroOf(i)) })
		sums = ops.Binary(b, ops.Sub, sums, ops.Binary(b, ops.Mul, perWeight, zeros))
	}
	if zero := x.zeros[0]; zero != 0 {
		of := w.sums(axis)
		off := w.perChannel(b, "sums", dtype.I32, after, func(i int64) float64 { return float64(zero * of[i]) })
		sums = ops.Binary(b, ops.Sub, sums, off)
	}
	scales := w.perChannel(b, "scales", dtype.F32, after, func(i int64) float64 {
		return x.scales[0] * w.scales[min(i, int64(len(w.scales)-1))]
	})
	return ops.Binary(b, ops.Mul, ops.Cast(b, sums, dtype.F32), scales)
}

// productOfBytes rewrites a matrix product of dequantized bytes with dequantized weights.
func productOfBytes(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if n.Attrs.DType("dtype") != dtype.Invalid || n.Attrs.Bool("transpose_a") {
		return nil
	}
	x, ok := r.bytesOf(n.Inputs[0])
	shape := n.Inputs[1].Type.Shape
	rank := len(shape)
	columns, rows := rank-1, rank-2
	if n.Attrs.Bool("transpose_b") {
		columns, rows = rows, columns
	}
	depth, known := shape[rows].Const()
	if !ok || !known || rank != 2 || x.value.Const != nil {
		return nil
	}
	w := r.weightsOf(n.Inputs[1], columns, depth)
	if w == nil || !w.fits(&x) {
		return nil
	}
	w.signed(b)
	sums := b.Op("matmul", with(n, ir.Attrs{"dtype": dtype.I32}), x.value, w.value)
	var each *ir.Value
	if len(w.zeros) > 1 || w.zeros[0] != 0 {
		wide := ops.Cast(b, x.value, dtype.I32)
		if zero := x.zeros[0]; zero != 0 {
			wide = ops.Binary(b, ops.Sub, wide, b.Constant("zero", tensor.Scalar(int32(zero))))
		}
		each = ops.ReduceSum(b, wide, true, int64(len(x.value.Type.Shape)-1))
	}
	return w.scaled(b, &x, sums, each, columns, 0)
}

// convolutionOfBytes rewrites a convolution of dequantized bytes with dequantized weights. It pads the bytes with the
// zero point, which stands for the 0 that the model pads with.
func convolutionOfBytes(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, ok := r.bytesOf(n.Inputs[0])
	if !ok || n.Attrs.DType("dtype") != dtype.Invalid || ops.Last(n) || ops.HasHoles(n) || x.value.Const != nil {
		return nil
	}
	depth := int64(1)
	for _, e := range n.Inputs[1].Type.Shape[1:] {
		extent, known := e.Const()
		if !known {
			return nil
		}
		depth = times(depth, extent)
	}
	w, groups := r.weightsOf(n.Inputs[1], 0, depth), n.Attrs.Int("groups", 1)
	if w == nil || !w.fits(&x) {
		return nil
	}
	w.signed(b)
	rank := len(n.Outputs[0].Type.Shape)
	attrs := with(n, ir.Attrs{"dtype": dtype.I32})
	from := padded(b, x.value, x.zeros[0], attrs, 1)
	sums := b.Op("convolution", attrs, from, w.value)
	var each *ir.Value
	if len(w.zeros) > 1 || w.zeros[0] != 0 {
		zero := tensor.Must(tensor.New(x.value.Type.DType))
		zero.SetInt(0, x.zeros[0])
		each = ops.WindowSums(b, from, b.Constant("zero", zero), w.value, attrs, groups)
	}
	y := w.scaled(b, &x, sums, each, 0, rank-2)
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		y = ops.Binary(b, ops.Add, y, ops.AlongAxis(b, n.Inputs[2], 1, rank))
	}
	return y
}

// hasPadding reports whether a convolution with these attributes has padding.
func hasPadding(attrs ir.Attrs) bool {
	some := func(e sym.Expr) bool { return !e.Equal(sym.Const(0)) }
	return slices.ContainsFunc(attrs.Exprs("begin"), some) || slices.ContainsFunc(attrs.Exprs("end"), some)
}

// padded returns the bytes that a convolution reads, padded with their zero point, and removes the padding from the
// convolution's attributes. If the zero point is 0, the convolution itself pads. channels is the axis of the channels.
func padded(b *ir.Builder, x *ir.Value, zero int64, attrs ir.Attrs, channels int) *ir.Value {
	if zero == 0 || !hasPadding(attrs) {
		return x
	}
	value := tensor.Must(tensor.New(x.Type.DType))
	value.SetInt(0, zero)
	rank := len(x.Type.Shape)
	around := func(list []sym.Expr) []sym.Expr {
		all := append([]sym.Expr{{}}, list...)
		return slices.Insert(all, channels, sym.Expr{})
	}
	y := ops.Pad(b, x, b.Constant("zero", value), "constant", around(attrs.Exprs("begin")), around(attrs.Exprs("end")))
	attrs["begin"], attrs["end"] = make([]sym.Expr, rank-2), make([]sym.Expr, rank-2)
	return y
}

// unsigned makes signed bytes unsigned, with a zero point that is greater by 128, if they are quantised, only moved,
// and dequantized, and no other node reads them. All results stay the same, and the machine multiplies unsigned bytes
// by signed weights.
func unsigned(b *ir.Builder) {
	users := map[*ir.Value][]*ir.Node{}
	results, zeros := map[*ir.Value]bool{}, map[string]*ir.Value{}
	var quantizes []*ir.Node
	var walk func(b *ir.Block)
	walk = func(b *ir.Block) {
		for _, v := range b.Results {
			results[v] = true
		}
		for _, n := range b.Nodes {
			for _, v := range n.Inputs {
				users[v] = append(users[v], n)
			}
			if n.Op.Name() == "quantize" && n.Outputs[0].Type.DType == dtype.I8 {
				quantizes = append(quantizes, n)
			}
			for _, region := range n.Regions {
				walk(region)
			}
		}
	}
	walk(b.Block)
	for _, n := range quantizes {
		if nodes, ok := signedReaders(n, users, results); ok {
			for _, n := range nodes {
				moveOver(b, n, zeros)
			}
		}
	}
}

// signedMost is the largest number of nodes that are followed from a quantize to its dequantizes.
const signedMost = 256

// signedReaders returns the nodes from a quantize to the dequantizes of its result, both included; ok is false if
// another node reads the bytes, or if a zero point is not a constant.
func signedReaders(q *ir.Node, users map[*ir.Value][]*ir.Node, results map[*ir.Value]bool) (nodes []*ir.Node, ok bool) {
	for nodes = []*ir.Node{q}; len(nodes) <= signedMost; {
		done := true
		for _, n := range nodes {
			if n.Op.Name() == "dequantize" {
				if !knownZero(n) {
					return nil, false
				}
				continue
			}
			if n == q && !knownZero(n) || results[n.Outputs[0]] || n.Outputs[0].Bound || n.Outputs[0].Known != nil {
				return nil, false
			}
			for _, user := range users[n.Outputs[0]] {
				if user.Op.Name() != "dequantize" && !ops.Of(user).Picks || user.Inputs[0] != n.Outputs[0] ||
					slices.Contains(user.Inputs[1:], n.Outputs[0]) {
					return nil, false
				}
				if !slices.Contains(nodes, user) {
					nodes, done = append(nodes, user), false
				}
			}
		}
		if done {
			return nodes, true
		}
	}
	return nil, false
}

// knownZero reports whether the zero point of a quantize or a dequantize is a constant, or 0 for scales of a fixed
// shape.
func knownZero(n *ir.Node) bool {
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		return n.Inputs[2].Const != nil && n.Inputs[2].Type.DType == dtype.I8
	}
	_, ok := fixed(n.Inputs[1].Type.Shape)
	return ok && n.Inputs[1].Const != nil
}

// moveOver makes a node work on unsigned bytes instead of signed bytes. zeros holds the zero points made so far.
func moveOver(b *ir.Builder, n *ir.Node, zeros map[string]*ir.Value) {
	switch n.Op.Name() {
	case "dequantize":
	case "quantize":
		n.Outputs[0].Type.DType, n.Attrs = dtype.U8, with(n, ir.Attrs{"to": dtype.U8})
	default:
		n.Outputs[0].Type.DType = dtype.U8
		return
	}
	of := n.Inputs[1].Const
	var given *tensor.Tensor
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		given = n.Inputs[2].Const
		of = given
	}
	zero := tensor.Must(tensor.New(dtype.U8, of.Shape()...))
	for i := range zero.Len() {
		z := int64(signBit)
		if given != nil {
			z += given.Int(i)
		}
		zero.SetInt(i, z)
	}
	key := fmt.Sprint(zero.Shape(), zero.Bytes())
	if zeros[key] == nil {
		zeros[key] = b.Constant("zero", zero)
	}
	n.Inputs = append(slices.Clone(n.Inputs[:2]), zeros[key])
}
