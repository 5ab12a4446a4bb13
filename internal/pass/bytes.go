package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/tensor"
)

// Bytes has matrix products and convolutions of f32 with constant weights done in integers of 8 bits: the weights
// become signed bytes, with a scale for each output channel, and the other operand unsigned ones in each run, with a
// scale for each row of a product, each position of a convolution with a kernel of 1 × 1, and each image of others.
// Sums are exact in i32 and are scaled afterwards.
//
// Of a result, the product of |x| and |w| that is off by half a step each: with n terms, w* the greatest weight of the
// channel and x* the greatest |x| that shares the scale, it differs by at most w*/254 · Σ|x| + x*/254 · Σ|w| +
// n · w* · x*/254², and what floats round. Operands that are known not to be negative have 510 in the place of 254 for
// x*. An infinity or NaN among them makes no result finite that shares its scale.
//
// These stay as they are: sums of fewer than bytesDepth terms, and fewer than bytesColumns results of each, which bytes
// do not make faster; convolutions in groups, and of fewer than bytesChannels channels, as of pictures; sums that could
// leave i32; weights that something else reads (but see tiedWeights), which would be held twice, or with an infinity or
// NaN.
func Bytes(m *ir.Module) error {
	p := &bytesPass{tied: tiedWeights(m), made: map[bytesPlace]*dynamicBytes{}, weights: map[*ir.Value]*byteWeights{}}
	return apply(m, []rule{
		{"rows of bytes", []string{"gather"}, p.rows},
		{"product in bytes", []string{"matmul"}, p.product},
		{"convolution in bytes", []string{"convolution"}, p.convolution},
	})
}

const (
	bytesDepth    = 32
	bytesColumns  = 16
	bytesChannels = 8
)

// bytesLeast is the least number that a scale is made of: smaller elements become 0, and no reciprocal overflows.
const bytesLeast = 1e-30

// bytesPass remembers what several products read.
type bytesPass struct {
	tied    map[*ir.Value]bool
	made    map[bytesPlace]*dynamicBytes
	weights map[*ir.Value]*byteWeights
}

// bytesPlace is an operand in a block, under one way to share scales.
type bytesPlace struct {
	block *ir.Block
	value *ir.Value
	whole bool
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

func floats32(values ...*ir.Value) bool {
	return !slices.ContainsFunc(values, func(v *ir.Value) bool { return v.Type.DType != dtype.F32 })
}

// product is a matrix product with weights, whose rows have a scale each.
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

// rows gives rows of an embedding whose bytes a product reads too.
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

// constant is the bytes as a value, the same for all that read them.
func (w *byteWeights) constant(b *ir.Builder, name string) *ir.Value {
	if w.value == nil {
		w.value = b.Constant(name, w.bytes)
	}
	return w.value
}

// convolution is a convolution with weights. A kernel of 1 × 1 that sees each position once has a scale for each
// position.
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
	if shape[inputs] < bytesChannels {
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

// operand makes bytes of a value: of the elements along some axes, the first of which are channels, the greatest
// magnitude gives their scale.
func (p *bytesPass) operand(r *rewriting, b *ir.Builder, x *ir.Value, axes []int64, whole bool) *dynamicBytes {
	at := bytesPlace{r.block, x, whole}
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

// scaled makes floats of the sums of bytes, whose channels' axis has so many others after it.
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

// of makes bytes of weights whose channels are an axis; nil if they are to stay.
func (p *bytesPass) of(v *ir.Value, axis int, depth, columns int64) *byteWeights {
	if depth < bytesDepth || columns < bytesColumns || depth > math.MaxInt32/(255*127) {
		return nil
	}
	w, seen := p.weights[v]
	if !seen {
		w = bytesOfWeights(v.Const, axis)
		p.weights[v] = w
	}
	return w
}

// slabBytes is about how many bytes of a constant are looked at at once.
const slabBytes = 4 << 20

// slabs visits a constant's elements in parts along its major axis, each with where along an axis, its channels, it
// begins.
func slabs(t *tensor.Tensor, channels int, visit func(part []float32, shape []int64, first int64)) {
	axis := t.Major()
	extent := t.Shape()[axis]
	step := max(1, slabBytes*extent/max(1, 4*t.Len()))
	for begin := int64(0); begin < extent; begin += step {
		shape := slices.Clone(t.Shape())
		shape[axis] = min(step, extent-begin)
		part, release := tensor.Temporary(dtype.F32, shape...)
		t.Fill(part, axis, begin, begin+shape[axis])
		first := int64(0)
		if axis == channels {
			first = begin
		}
		visit(floats(part), shape, first)
		release()
	}
}

// eachChannel visits runs of elements of a part: along the channels, one of each, if their axis is the last; or else
// those of one channel that lie side by side.
func eachChannel(part []float32, shape []int64, axis int, run func(at int, values []float32, channel int64)) {
	inner, channels := int64(1), shape[axis]
	for _, extent := range shape[axis+1:] {
		inner *= extent
	}
	along := lastAxis(shape, axis)
	if along {
		inner = channels
	}
	for at, channel := int64(0), int64(0); at < int64(len(part)); at += inner {
		run(int(at), part[at:at+inner], channel)
		if channel++; along || channel == channels {
			channel = 0
		}
	}
}

// roundAt is added to a number and makes its last bits the nearest integer, half to even.
const roundAt = 1.5 * (1 << 23)

// toByte is v · by, at most 127 in magnitude, as an integer.
func toByte(v, by float32) int8 {
	product := float32(v * by)
	return int8(math.Float32bits(product + roundAt))
}

// lastAxis reports whether an axis has no elements side by side after it.
func lastAxis(shape []int64, axis int) bool {
	return !slices.ContainsFunc(shape[axis+1:], func(extent int64) bool { return extent != 1 })
}

// bytesOfWeights is nil if an element is infinite or NaN.
func bytesOfWeights(t *tensor.Tensor, axis int) *byteWeights {
	channels, along := t.Shape()[axis], lastAxis(t.Shape(), axis)
	w := &byteWeights{from: t, axis: axis, scales: make([]float32, channels), by: make([]float32, channels)}
	most := make([]uint32, channels) // the bits of the greatest magnitudes: NaN is beyond infinity
	slabs(t, axis, func(part []float32, shape []int64, first int64) {
		eachChannel(part, shape, axis, func(_ int, values []float32, channel int64) {
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

// magnitude is the bits of |v|, which are in the order of magnitudes.
func magnitude(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }

// fill writes a part of the bytes.
func (w *byteWeights) fill(to *tensor.Tensor, along int, begin, end int64) {
	part, release := tensor.Temporary(dtype.F32, to.Shape()...)
	defer release()
	w.from.Fill(part, along, begin, end)
	first := int64(0)
	if along == w.axis {
		first = begin
	}
	out, last := to.Bytes(), lastAxis(w.from.Shape(), w.axis)
	eachChannel(floats(part), to.Shape(), w.axis, func(at int, values []float32, channel int64) {
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

// sums are the sums of each channel's bytes.
func (w *byteWeights) sums() []int64 {
	if w.summed != nil {
		return w.summed
	}
	w.summed = make([]int64, len(w.scales))
	last := lastAxis(w.from.Shape(), w.axis)
	slabs(w.from, w.axis, func(part []float32, shape []int64, first int64) {
		eachChannel(part, shape, w.axis, func(_ int, values []float32, channel int64) {
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

// notNegativeDepth is how many nodes are looked through for one that says that elements are not negative.
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
