package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/tensor"
)

// Bytes computes matrix products and convolutions of f32 with constant weights in integers of 8 bits. The weights
// become signed bytes, with a scale for each output channel. Each run makes unsigned bytes of the other operand, with a
// scale for each row of a product, for each position of a convolution with a kernel of 1 × 1, and for each image of
// other convolutions. Sums are exact in i32 and are scaled afterwards.
//
// Each factor of a result's products is off by at most half a step. With n terms, w* the greatest weight of the channel
// and x* the greatest |x| that shares the scale, a result differs by at most w*/254 · Σ|x| + x*/254 · Σ|w| +
// n · w* · x*/254², and by the rounding of floats. If the operand is known not to be negative, 510 replaces 254 for x*.
// If an element of the operand is infinite or NaN, all results that share its scale are infinite or NaN.
//
// The weights that a recurrent layer reads from beyond the caches at each step become bytes with scales too; its states
// stay in f32.
//
// These products stay as they are: short sums, and products with few columns, which bytes do not make faster;
// convolutions in groups, and of few channels, such as pictures; sums that could leave i32; weights that another node
// reads too (but see tiedWeights), which would be held twice; weights with an infinity or NaN.
func Bytes(m *ir.Module, costs recipes.Costs) error {
	p := &bytesPass{costs: costs, tied: tiedWeights(m), made: map[bytesKey]*dynamicBytes{},
		weights: map[*ir.Value]*byteWeights{}}
	return apply(m, []rule{
		{"rows of bytes", []string{"gather"}, p.rows},
		{"product in bytes", []string{"matmul"}, p.product},
		{"convolution in bytes", []string{"convolution"}, p.convolution},
		{"recurrence with bytes", []string{"recurrent"}, p.recurrence},
	})
}

// bytesLeast bounds the greatest magnitude that a scale is computed from: smaller elements become 0, and no reciprocal
// overflows.
const bytesLeast = 1e-30

// bytesPass holds the byte forms that several products may share.
type bytesPass struct {
	costs   recipes.Costs
	tied    map[*ir.Value]bool
	made    map[bytesKey]*dynamicBytes
	weights map[*ir.Value]*byteWeights
}

// bytesKey identifies an operand in a block, and which of its elements share a scale.
type bytesKey struct {
	block *ir.Block
	value *ir.Value
	image bool // all positions of an image share a scale
}

// dynamicBytes are an operand's bytes: an element is scale · (value − zero).
type dynamicBytes struct {
	value, scale *ir.Value
	zero         int64 // 0 or signBit
}

// byteWeights are weights as signed bytes.
type byteWeights struct {
	from, bytes *tensor.Tensor
	axis        int // the channels'
	scales, by  []float32
	summed      []int64 // see sums
	value       *ir.Value
}

// floats32 reports whether all values are of f32.
func floats32(values ...*ir.Value) bool {
	return !slices.ContainsFunc(values, func(v *ir.Value) bool { return v.Type.DType != dtype.F32 })
}

// product rewrites a matrix product with weights; each row of the operand has a scale of its own.
func (p *bytesPass) product(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, w := n.Inputs[0], n.Inputs[1]
	if w.Const == nil || x.Const != nil || r.uses[w] != 1 && !p.tied[w] || len(w.Type.Shape) != 2 ||
		n.Attrs.Bool("transpose_a") || !floats32(x, w, n.Outputs[0]) {
		return nil
	}
	shape, channels := w.Const.Shape(), 1
	if n.Attrs.Bool("transpose_b") {
		channels = 0
	}
	weights := p.of(w, channels, shape[1-channels], shape[channels])
	if weights == nil {
		return nil
	}
	in := p.operand(r, b, x, []int64{int64(len(x.Type.Shape) - 1)}, false)
	sums := b.Op("matmul", with(n, ir.Attrs{"dtype": dtype.I32}), in.value, weights.constant(b, w.Name))
	return weights.scaled(b, in, sums, 0)
}

// rows rewrites a gather of an embedding's rows if a product reads the embedding's bytes too.
func (p *bytesPass) rows(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	w := n.Inputs[0]
	if !p.tied[w] || !floats32(w, n.Outputs[0]) {
		return nil
	}
	shape := w.Const.Shape()
	weights := p.of(w, 0, shape[1], shape[0])
	if weights == nil {
		return nil
	}
	scales, err := tensor.FromSlice(weights.scales, shape[0], 1)
	if err != nil {
		b.Fail(err)
	}
	row := ops.Cast(b, ops.Gather(b, weights.constant(b, w.Name), n.Inputs[1], 0), dtype.F32)
	return ops.Binary(b, ops.Mul, row, ops.Gather(b, b.Constant("scales", scales), n.Inputs[1], 0))
}

// recurrence makes bytes of the weights by which a recurrent layer multiplies its states, with a scale for each gate of
// each unit. The states stay in f32: at each step the weights are read, and their bytes are what takes time.
func (p *bytesPass) recurrence(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	w := n.Inputs[1]
	if !r.narrowable(n, p.costs) {
		return nil
	}
	shape := w.Const.Shape()
	directions, gates, units := shape[0], shape[1], shape[2]
	rows, err := w.Const.Reshape(times(directions, gates), units)
	if err != nil {
		b.Fail(err)
	}
	weights := bytesOfWeights(rows, 0)
	if weights == nil {
		return nil
	}
	bytes, err := weights.bytes.Reshape(shape...)
	if err != nil {
		b.Fail(err)
	}
	scales, err := tensor.FromSlice(weights.scales, directions, gates)
	if err != nil {
		b.Fail(err)
	}
	in := slices.Clone(n.Inputs)
	in[1] = b.Constant(w.Name, bytes)
	for len(in) <= ops.RecurrentScales {
		in = append(in, nil)
	}
	in[ops.RecurrentScales] = b.Constant("scales", scales)
	return b.Node("recurrent", n.Attrs, in...).Outputs[0]
}

// constant returns the bytes as a value, which all readers share.
func (w *byteWeights) constant(b *ir.Builder, name string) *ir.Value {
	if w.value == nil {
		w.value = b.Constant(name, w.bytes)
	}
	return w.value
}

// convolution rewrites a convolution with weights. If the kernel is 1 × 1 and sees each position once, each position
// has a scale of its own.
func (p *bytesPass) convolution(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, w := n.Inputs[0], n.Inputs[1]
	if w.Const == nil || x.Const != nil || r.uses[w] != 1 || ops.HasHoles(n) || n.Attrs.Int("groups", 1) != 1 ||
		n.Attrs.DType("dtype") != dtype.Invalid || !floats32(x, w, n.Outputs[0]) {
		return nil
	}
	rank := len(x.Type.Shape)
	shape, filters, inputs, channels, after := w.Const.Shape(), 0, 1, 1, rank-2
	if ops.Last(n) {
		filters, inputs, channels, after = rank-1, rank-2, rank-1, 0
	}
	if !p.costs.BytesPayFor(shape[inputs]) {
		return nil
	}
	depth := int64(1)
	for i, extent := range shape {
		if i != filters {
			depth = times(depth, extent)
		}
	}
	weights := p.of(w, filters, depth, shape[filters])
	if weights == nil {
		return nil
	}
	more := func(i int64) bool { return i != 1 }
	each := !hasPadding(n.Attrs) && !slices.ContainsFunc(n.Attrs.Ints("kernel"), more) &&
		!slices.ContainsFunc(n.Attrs.Ints("strides"), more)
	axes := []int64{int64(channels)}
	for i := 1; i < rank && !each; i++ {
		if i != channels {
			axes = append(axes, int64(i))
		}
	}
	in := p.operand(r, b, x, axes, !each)
	attrs := with(n, ir.Attrs{"dtype": dtype.I32})
	from := padded(b, in.value, in.zero, attrs, channels)
	y := weights.scaled(b, in, b.Op("convolution", attrs, from, weights.constant(b, w.Name)), after)
	if len(n.Inputs) > 2 && n.Inputs[2] != nil {
		y = ops.Binary(b, ops.Add, y, ops.AlongAxis(b, n.Inputs[2], channels, rank))
	}
	return y
}

// operand makes bytes of a value. The elements along axes, of which the first is the channels' axis, share a scale,
// which their greatest magnitude gives.
func (p *bytesPass) operand(r *rewriting, b *ir.Builder, x *ir.Value, axes []int64, image bool) *dynamicBytes {
	at := bytesKey{r.block, x, image}
	if d := p.made[at]; d != nil {
		return d
	}
	number := func(v float64) *ir.Value { return ops.Scalar(b, dtype.F32, v) }
	d, most, top := &dynamicBytes{}, x, 255.
	if !notNegative(x, notNegativeDepth) {
		d.zero, top = signBit, 127
		most = ops.Unary(b, ops.Abs, x)
	}
	most = ops.ReduceMax(b, most, true, axes[0])
	if len(axes) > 1 {
		most = ops.ReduceMax(b, most, true, axes[1:]...)
	}
	most = ops.Binary(b, ops.Max, most, number(bytesLeast))
	d.scale = ops.Binary(b, ops.Div, most, number(top))
	y := ops.Unary(b, ops.Round, ops.Binary(b, ops.Mul, x, ops.Binary(b, ops.Div, number(top), most)))
	if d.zero != 0 {
		y = ops.Binary(b, ops.Add, y, number(float64(d.zero)))
	}
	y = ops.Binary(b, ops.Max, ops.Binary(b, ops.Min, y, number(255)), number(0))
	d.value = ops.Cast(b, y, dtype.U8)
	p.made[at] = d
	return d
}

// scaled makes floats of the sums of bytes. after is the number of axes after the channels' axis.
func (w *byteWeights) scaled(b *ir.Builder, x *dynamicBytes, sums *ir.Value, after int) *ir.Value {
	channels := weightBytes{channels: int64(len(w.scales))}
	if x.zero != 0 {
		of := w.sums()
		off := channels.perChannel(b, "sums", dtype.I32, after, func(i int64) float64 { return float64(x.zero * of[i]) })
		sums = ops.Binary(b, ops.Sub, sums, off)
	}
	scales := channels.perChannel(b, "scales", dtype.F32, after, func(i int64) float64 { return float64(w.scales[i]) })
	return ops.Binary(b, ops.Mul, ops.Binary(b, ops.Mul, ops.Cast(b, sums, dtype.F32), scales), x.scale)
}

// of returns the bytes of weights whose channels lie along axis; nil if the weights must stay as they are.
func (p *bytesPass) of(v *ir.Value, axis int, depth, columns int64) *byteWeights {
	if !p.costs.BytesPay(depth, columns) || depth > math.MaxInt32/(255*127) {
		return nil
	}
	w, seen := p.weights[v]
	if !seen {
		w = bytesOfWeights(v.Const, axis)
		p.weights[v] = w
	}
	return w
}

// slabBytes is the approximate number of bytes of a constant that are read at once.
const slabBytes = 4 << 20

// slabs visits a constant's elements in slabs along its major axis. first is the slab's first index along the axis
// channels.
func slabs(t *tensor.Tensor, channels int, visit func(slab []float32, shape []int64, first int64)) {
	axis := t.Major()
	extent := t.Shape()[axis]
	step := max(1, slabBytes*extent/max(1, 4*t.Len()))
	for begin := int64(0); begin < extent; begin += step {
		shape := slices.Clone(t.Shape())
		shape[axis] = min(step, extent-begin)
		slab, release := tensor.Temporary(dtype.F32, shape...)
		t.Fill(slab, axis, begin, begin+shape[axis])
		first := int64(0)
		if axis == channels {
			first = begin
		}
		visit(floats(slab), shape, first)
		release()
	}
}

// eachChannel visits runs of adjacent elements of a slab: one element of each channel if the channels' axis is the
// last, or else the adjacent elements of one channel.
func eachChannel(slab []float32, shape []int64, axis int, run func(at int, values []float32, channel int64)) {
	inner, channels := int64(1), shape[axis]
	for _, extent := range shape[axis+1:] {
		inner *= extent
	}
	along := lastAxis(shape, axis)
	if along {
		inner = channels
	}
	for at, channel := int64(0), int64(0); at < int64(len(slab)); at += inner {
		run(int(at), slab[at:at+inner], channel)
		if channel++; along || channel == channels {
			channel = 0
		}
	}
}

// roundAt, added to a number, leaves the nearest integer, half to even, in the last bits of the sum.
const roundAt = 1.5 * (1 << 23)

// toByte returns v · by, which must be at most 127 in magnitude, as the nearest integer.
func toByte(v, by float32) int8 {
	product := float32(v * by)
	return int8(math.Float32bits(product + roundAt))
}

// lastAxis reports whether all axes after an axis have extent 1.
func lastAxis(shape []int64, axis int) bool {
	return !slices.ContainsFunc(shape[axis+1:], func(extent int64) bool { return extent != 1 })
}

// bytesOfWeights returns weights, whose channels lie along axis, as bytes; nil if an element is infinite or NaN.
func bytesOfWeights(t *tensor.Tensor, axis int) *byteWeights {
	channels, along := t.Shape()[axis], lastAxis(t.Shape(), axis)
	w := &byteWeights{from: t, axis: axis, scales: make([]float32, channels), by: make([]float32, channels)}
	most := make([]uint32, channels) // the bits of the greatest magnitudes: NaN is beyond infinity
	slabs(t, axis, func(slab []float32, shape []int64, first int64) {
		eachChannel(slab, shape, axis, func(_ int, values []float32, channel int64) {
			if along {
				each := most[first:][:len(values)]
				for i, v := range values {
					each[i] = max(each[i], magnitude(v))
				}
				return
			}
			m := most[first+channel]
			for _, v := range values {
				m = max(m, magnitude(v))
			}
			most[first+channel] = m
		})
	})
	for i, bits := range most {
		m := math.Float32frombits(bits)
		if !(m <= math.MaxFloat32) {
			return nil
		}
		m = max(m, bytesLeast)
		w.scales[i], w.by[i] = m/127, 127/m
	}
	var err error
	w.bytes, err = tensor.Deferred(dtype.I8, t.Shape(), t, t.Major(), w.fill)
	if err != nil {
		return nil
	}
	return w
}

// magnitude returns the bits of |v|, which have the order of the magnitudes.
func magnitude(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }

// fill writes the bytes with the indices from begin to end along an axis.
func (w *byteWeights) fill(to *tensor.Tensor, along int, begin, end int64) {
	slab, release := tensor.Temporary(dtype.F32, to.Shape()...)
	defer release()
	w.from.Fill(slab, along, begin, end)
	first := int64(0)
	if along == w.axis {
		first = begin
	}
	out, last := to.Bytes(), lastAxis(w.from.Shape(), w.axis)
	eachChannel(floats(slab), to.Shape(), w.axis, func(at int, values []float32, channel int64) {
		out := out[at:][:len(values)]
		if last {
			by := w.by[first:][:len(values)]
			for i, v := range values {
				out[i] = byte(toByte(v, by[i]))
			}
			return
		}
		by := w.by[first+channel]
		for i, v := range values {
			out[i] = byte(toByte(v, by))
		}
	})
}

// sums returns the sum of each channel's bytes.
func (w *byteWeights) sums() []int64 {
	if w.summed != nil {
		return w.summed
	}
	w.summed = make([]int64, len(w.scales))
	last := lastAxis(w.from.Shape(), w.axis)
	slabs(w.from, w.axis, func(slab []float32, shape []int64, first int64) {
		eachChannel(slab, shape, w.axis, func(_ int, values []float32, channel int64) {
			if last {
				by, sums := w.by[first:][:len(values)], w.summed[first:][:len(values)]
				for i, v := range values {
					sums[i] += int64(toByte(v, by[i]))
				}
				return
			}
			by, sum := w.by[first+channel], int64(0)
			for _, v := range values {
				sum += int64(toByte(v, by))
			}
			w.summed[first+channel] += sum
		})
	})
	return w.summed
}

// notNegativeDepth is the longest chain of nodes that is followed to prove that elements are not negative.
const notNegativeDepth = 8

// notNegative reports whether no element of a value is less than 0; NaN may be among them.
func notNegative(v *ir.Value, depth int) bool {
	n := v.Node
	if n == nil || depth == 0 || len(n.Regions) > 0 {
		return false
	}
	rule := ops.Of(n).NotNegative
	return rule != nil && rule(n, func(v *ir.Value) bool {
		return v != nil && (notNegative(v, depth-1) || positiveConstant(v))
	})
}

// positiveConstant reports whether a value is a small constant without negative elements.
func positiveConstant(v *ir.Value) bool {
	if v == nil || v.Const == nil || v.Const.Len() > 1<<12 || v.Const.Pending() || !v.Type.DType.IsFloat() {
		return false
	}
	for i := range v.Const.Len() {
		if !(v.Const.Float(i) >= 0) {
			return false
		}
	}
	return true
}
