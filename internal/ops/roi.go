package ops

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators roi_align and max_roi_pool.
func init() {
	define(&Def{Op: "roi_align", Taken: []int{1}, Grad: roiAlignGrad, Shape: roiAlignShape, Mean: roiAlignMean,
		Work: roiAlignWork, Samples: roiAlignSamples, Lowerings: []Lowering{{Name: "samples", Build: roiAlignNest}}})
	define(&Def{Op: "max_roi_pool", Taken: []int{1}, Grad: maxRoiPoolGrad, Shape: maxRoiPoolShape, Mean: maxRoiPoolMean,
		Samples: maxRoiPoolSamples, Lowerings: []Lowering{{Name: "bins", Build: maxRoiPoolNest}}})
}

// RoiAlignment holds the attributes of RoiAlign.
type RoiAlignment struct {
	Height, Width int64   // bins of a region
	Ratio         int64   // samples along each axis of a bin; 0: as many as elements that the bin covers
	Scale         float64 // of the regions' coordinates to x's elements
	Max           bool    // return the largest weighted element of a bin's samples, not their mean
	Half          bool    // coordinates are of elements' centers; otherwise regions cover at least one element
}

// mostSamples bounds the samples along an axis of one bin.
const mostSamples = 1 << 12

// RoiAlign (He et al., Mask R-CNN, 2017) samples regions of x[N, C, H, W] in bins, interpolating linearly: [R, C,
// Height, Width]. A row of regions[R, 4] is x, y, x, y; images[R] is the index of the region's image.
func RoiAlign(b *ir.Builder, x, regions, images *ir.Value, a RoiAlignment) *ir.Value {
	attrs := ir.Attrs{"height": a.Height, "width": a.Width, "ratio": a.Ratio, "scale": a.Scale, "max": a.Max,
		"half": a.Half}
	if len(x.Type.Shape) != 4 || !manyChannels(x.Type.Shape[1]) {
		return b.Op("roi_align", attrs, x, regions, images)
	}
	// With channels last, a sample reads the elements of all channels from consecutive memory.
	attrs["last"] = true
	return Transpose(b, b.Op("roi_align", attrs, Transpose(b, x, 0, 2, 3, 1), regions, images), 0, 3, 1, 2)
}

// manyChannels reports whether there are enough channels for reading them side by side to be worth two transposes.
func manyChannels(channels sym.Expr) bool {
	n, fixed := channels.Const()
	return !fixed || n >= 8
}

// channelAxis returns the axis of the channels of an operator that samples, and the first of its spatial axes; with the
// attribute last, the channels follow the spatial axes.
func channelAxis(n *ir.Node) (channels, first int) {
	if n.Attrs.Bool("last") {
		return len(n.Inputs[0].Type.Shape) - 1, 1
	}
	return 1, 2
}

// MaxRoiPool (Girshick, Fast R-CNN, 2015) returns the largest element in each of height × width bins of regions of x[N,
// C, H, W], 0 for an empty bin: [R, C, height, width]. A row of regions[R, 5] is the image's index, then x, y, x, y,
// which are scaled and rounded to full elements.
func MaxRoiPool(b *ir.Builder, x, regions *ir.Value, height, width int64, scale float64) *ir.Value {
	return b.Op("max_roi_pool", ir.Attrs{"height": height, "width": width, "scale": scale}, x, regions)
}

// roiShape is the shape rule that the operators on regions share; columns is the length of a region's row.
func roiShape(c *ir.Inference, n *ir.Node, columns int64) error {
	x, regions := n.Inputs[0].Type, n.Inputs[1].Type
	height, width := n.Attrs.Int("height", 0), n.Attrs.Int("width", 0)
	if !floats(x.DType) || regions.DType != x.DType || len(x.Shape) != 4 || len(regions.Shape) != 2 {
		return fault(n, "regions %s of %s", regions, x)
	}
	if height < 1 || width < 1 || height > 1<<20 || width > 1<<20 ||
		!(math.Abs(n.Attrs.Float("scale", 1)) < math.MaxFloat32) {
		return fault(n, "%d × %d bins of regions scaled by %v", height, width, n.Attrs.Float("scale", 1))
	}
	if err := c.RequireEqual(n, regions.Shape[1], sym.Const(columns), "the numbers of a region"); err != nil {
		return err
	}
	channels, first := channelAxis(n)
	for i := first; i < first+2; i++ {
		if err := c.Require(n, sym.Cond{A: one, Rel: sym.LE, B: x.Shape[i]}, "there is something to sample"); err != nil {
			return err
		}
	}
	shape := []sym.Expr{regions.Shape[0], sym.Const(height), sym.Const(width)}
	n.Result(0, ir.Type{DType: x.DType, Shape: slices.Insert(shape, channels, x.Shape[channels])})
	return nil
}

// roiAlignShape requires an image for each region; the rest is roiShape.
func roiAlignShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 3); err != nil {
		return err
	}
	images := n.Inputs[2].Type
	if !integers(images.DType) || len(images.Shape) != 1 {
		return fault(n, "images' numbers %s", images)
	}
	if ratio := n.Attrs.Int("ratio", 0); ratio < 0 || ratio > mostSamples {
		return fault(n, "%d samples along an axis of a bin", ratio)
	}
	if regions := n.Inputs[1].Type; len(regions.Shape) == 2 {
		if err := c.RequireEqual(n, images.Shape[0], regions.Shape[0], "an image for each region"); err != nil {
			return err
		}
	}
	return roiShape(c, n, 4)
}

// roiAlignWork returns two operations for each weighted element; bins whose samples a run counts have one at least.
func roiAlignWork(n *ir.Node) sym.Expr {
	ratio := max(n.Attrs.Int("ratio", 0), 1)
	return product(n.Outputs[0].Type.Shape).Mul(sym.Const(8 * ratio * ratio))
}

// roiAxis is one axis of a region for the reference: where its bins begin, their size, and the samples of each.
type roiAxis struct {
	begin, bin float64
	samples    int64
}

// roiAxisOf returns an axis of a region from its two coordinates. Each step is rounded to the regions' type, as the
// lowering does, since rounding decides the number of samples.
func roiAxisOf(n *ir.Node, low, high float64, bins int64, round func(float64) float64) (roiAxis, error) {
	scale, offset := round(n.Attrs.Float("scale", 1)), 0.0
	if n.Attrs.Bool("half") {
		offset = 0.5
	}
	begin, end := round(round(low*scale)-offset), round(round(high*scale)-offset)
	size := round(end - begin)
	if !n.Attrs.Bool("half") && !(size > 1) {
		size = 1
	}
	a := roiAxis{begin: begin, bin: round(size / float64(bins)), samples: n.Attrs.Int("ratio", 0)}
	if a.samples == 0 {
		count := math.Ceil(a.bin)
		if !(count <= mostSamples) {
			return a, diag.Inputf("%s: %v", tooManySamples, count).AtNode(n.Source, n.Op.Name())
		}
		a.samples = int64(max(count, 0))
	}
	return a, nil
}

const tooManySamples = "the samples along an axis of a region's bin"

// taps returns the elements around sample i of a bin; they are not inside if the sample lies more than one element
// outside.
func (a roiAxis) taps(bin, i, extent int64, round func(float64) float64) []tapOf {
	at := round(round(a.begin+round(float64(bin)*a.bin)) + round(round((float64(i)+0.5)*a.bin)/float64(a.samples)))
	inside := at >= -1 && at <= float64(extent)
	at = min(max(at, 0), float64(extent-1))
	low := boundedIntegerOf(math.Floor(at), extent, 1)
	upper := round(at - float64(low))
	return []tapOf{{min(max(low, 0), extent-1), round(1 - upper), inside}, {min(max(low+1, 0), extent-1), upper, inside}}
}

// roiAlignMean averages, or takes the largest of, the weighted elements around each sample.
func roiAlignMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, regions, images, round := in[0], in[1], in[2], rounding(in[1].DType())
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	channels, first := channelAxis(n)
	extents := x.Shape()[first:]
	tensor.Each(out.Shape(), func(o []int64) {
		if err != nil {
			return
		}
		axes, image, wrong := roiAxesOf(n, x, regions, images, o, out.Shape(), round)
		if err = wrong; err != nil {
			return
		}
		from, sum, most := image*strides[0]+o[channels]*strides[channels], 0.0, math.Inf(-1)
		for i := range axes[0].samples {
			rows := axes[0].taps(o[first], i, extents[0], round)
			for j := range axes[1].samples {
				columns := axes[1].taps(o[first+1], j, extents[1], round)
				sum += weighedOf(x, strides[first:], from, [][]tapOf{rows, columns})
				for _, t := range rows {
					for _, u := range columns {
						most = max(most, weighedOf(x, strides[first:], from, [][]tapOf{{t}, {u}}))
					}
				}
			}
		}
		if count := axes[0].samples * axes[1].samples; count == 0 {
			sum, most = 0, 0
		} else {
			sum /= float64(count)
		}
		if n.Attrs.Bool("max") {
			sum = most
		}
		out.SetFloat(flat, sum)
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// roiAlignNest finds the samples of a bin once for all channels if these are last: it keeps their totals in a local
// buffer. Otherwise the channels are few, and each finds the samples of many bins side by side.
func roiAlignNest(k *Nest, n *ir.Node) {
	x, regions, images, out := k.In[0], k.In[1], k.In[2], k.Out[0]
	dt, largest := computing(x.DType), n.Attrs.Bool("max")
	axis, first := channelAxis(n)
	channels := x.Shape[axis]
	begin := loop.Expr(loop.Number(dt, 0))
	if largest {
		begin = loop.Lowest(dt)
	}
	k.Each("r", out.Shape[0], func(region sym.Expr) {
		image := k.roiImage(images, region, x.Shape[0])
		axes := k.roiAxes(n, dt, regions, region, out.Shape[first:])
		samples := func(bin []sym.Expr, each func(corners []corner)) {
			down := axes[0].of(k, bin[0])
			across := axes[1].of(k, bin[1])
			k.Serial("i", down.samples, func(i sym.Expr) {
				rows := down.taps(k, i, x.Shape[first])
				k.Serial("j", across.samples, func(j sym.Expr) {
					each(k.corners(dt, [][]tap{rows, across.taps(k, j, x.Shape[first+1])}))
				})
			})
		}
		joined := func(total loop.Expr, c sym.Expr, corners []corner) loop.Expr {
			if !largest {
				return plus(total, weighed(x, dt, image, c, axis, corners))
			}
			for i := range corners {
				total = loop.Apply2(loop.Max, total, weighed(x, dt, image, c, axis, corners[i:i+1]))
			}
			return total
		}
		store := func(bin []sym.Expr, c sym.Expr, v loop.Expr) {
			count := axes[0].samples.Mul(axes[1].samples)
			if !largest {
				v = loop.Apply2(loop.Div, v, extentAs(dt, count.Max(one)))
			} else {
				v = loop.Choose(loop.Apply2(loop.Eq, loop.At(count), loop.Integer(dtype.I64, 0)), like(v, 0), v)
			}
			to := slices.Insert([]sym.Expr{region, bin[0], bin[1]}, axis, c)
			k.Store(out, to, loop.Convert(out.DType, v))
		}
		if axis == 1 {
			k.Nest(loop.Each, "o", out.Shape[1:], func(o []sym.Expr) {
				total := k.Var("total", begin)
				samples(o[1:], func(corners []corner) { k.Set(total, joined(total, o[0], corners)) })
				store(o[1:], o[0], total)
			})
			return
		}
		k.Nest(loop.Each, "o", out.Shape[first:first+2], func(o []sym.Expr) {
			total := k.Local("total", dt, channels)
			k.Each("z", channels, func(c sym.Expr) { k.Store(total, []sym.Expr{c}, begin) })
			samples(o, func(corners []corner) {
				inside := corners[0].inside // as all corners are
				add := func() {
					k.Each("c", channels, func(c sym.Expr) {
						k.Store(total, []sym.Expr{c}, joined(total.Load(c), c, corners))
					})
				}
				if largest {
					add() // an element outside counts as 0, which may be the largest
					return
				}
				for i := range corners {
					corners[i].inside = nil
				}
				k.When(inside, add, nil)
			})
			k.Each("s", channels, func(c sym.Expr) { store(o, c, total.Load(c)) })
		})
	})
}

// roiLoop is roiAxis in a kernel.
type roiLoop struct {
	begin, bin loop.Expr // where the region, or one of its bins, begins, and the size of a bin
	samples    sym.Expr
}

// of returns the axis of one bin.
func (a roiLoop) of(k *Nest, bin sym.Expr) roiLoop {
	a.begin = k.Let("begin", plus(a.begin, times(extentAs(a.begin.DType(), bin), a.bin)))
	return a
}

// roiLoop computes an axis of a region from its two coordinates; too many samples end the run.
func (k *Nest) roiLoop(n *ir.Node, low, high loop.Expr, bins sym.Expr) roiLoop {
	number := func(x float64) loop.Expr { return like(low, x) }
	half, scale := n.Attrs.Bool("half"), number(n.Attrs.Float("scale", 1))
	begin, end := times(low, scale), times(high, scale)
	if half {
		begin, end = minus(begin, number(0.5)), minus(end, number(0.5))
	}
	begin = k.Let("begin", begin)
	size := k.Let("size", minus(end, begin))
	if !half {
		size = k.Let("size", loop.Choose(less(number(1), size), size, number(1)))
	}
	width := k.Let("bin", loop.Apply2(loop.Div, size, extentAs(low.DType(), bins)))
	a := roiLoop{begin: begin, bin: width, samples: sym.Const(n.Attrs.Int("ratio", 0))}
	if n.Attrs.Int("ratio", 0) == 0 {
		count := k.Let("count", loop.Apply(loop.Ceil, width))
		wrong := number(mostSamples + 1)
		count = k.Let("count", loop.Choose(loop.Apply2(loop.Le, count, number(mostSamples)),
			loop.Apply2(loop.Max, count, number(0)), wrong))
		a.samples = k.Check("samples", loop.Convert(dtype.I64, count), sym.Const(0), sym.Const(mostSamples), tooManySamples)
	}
	return a
}

// taps returns the elements around sample i.
func (a roiLoop) taps(k *Nest, i, extent sym.Expr) []tap {
	dt := a.begin.DType()
	number := func(x float64) loop.Expr { return loop.Number(dt, x) }
	step := loop.Apply2(loop.Div, times(plus(extentAs(dt, i), number(0.5)), a.bin), extentAs(dt, a.samples))
	at := k.Let("at", plus(a.begin, step))
	inside := k.Let("inside", loop.Apply2(loop.And, loop.Apply2(loop.Ge, at, number(-1)),
		loop.Apply2(loop.Le, at, extentAs(dt, extent))))
	at = k.Let("at", loop.Apply2(loop.Min, loop.Apply2(loop.Max, at, number(0)), extentAs(dt, extent.Sub(one))))
	floor := k.Let("floor", loop.Apply(loop.Floor, at))
	low := k.boundedInteger(floor, extent, 1)
	upper := k.Let("w", minus(at, floor))
	return []tap{{at: k.clamped(low, extent), weight: k.Let("w", minus(number(1), upper)), inside: inside},
		{at: k.clamped(plus(low, loop.Integer(dtype.I64, 1)), extent), weight: upper, inside: inside}}
}

// roiAlignSamples covers each combination of max, half, scale and a fixed ratio, with channels first and last, for
// regions partly outside the image.
func roiAlignSamples(r *rand.Rand) (out []Sample) {
	for kind := range 16 {
		for i, shape := range [][]int64{{2, 3, 5, 6}, {1, 1, 1, 1}, {3, 2, 4, 3}} {
			attrs := ir.Attrs{"height": int64(1 + i), "width": int64(3 - i), "ratio": int64(kind / 8 * 2),
				"scale": []float64{1, 0.75}[kind/4%2], "max": kind%2 == 1, "half": kind/2%2 == 1, "last": i == 2 && kind%3 > 0}
			dt := floatTypes[i%2]
			regions := sampleNormal(r, dt, 4, 4)
			for j := range regions.Len() {
				regions.SetFloat(j, regions.Float(j)*2+float64(j%4/2)*4)
			}
			images := tensor.Must(tensor.New(dtype.I64, 4))
			for j := range images.Len() {
				images.SetInt(j, r.Int63n(shape[0]))
			}
			out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...), regions, images}})
		}
	}
	return out
}

// maxRoiPoolShape is roiShape with five numbers for each region.
func maxRoiPoolShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	return roiShape(c, n, 5)
}

// roundAway returns the nearest integer; of two, the one farther from 0.
func roundAway(x float64) float64 { return math.Trunc(x + math.Copysign(0.5, x)) }

// maxRoiBin returns the elements [begin, end) of one bin along an axis.
func maxRoiBin(low, high, scale float64, bin, bins, extent int64, round func(float64) float64) (begin, end int64) {
	first, last := roundAway(round(low*scale)), roundAway(round(high*scale))
	size := round(round(last-first) + 1)
	if !(size > 1) {
		size = 1 // also if a corner is NaN
	}
	width := round(size / float64(bins))
	clamp := func(x float64) int64 { return min(max(boundedIntegerOf(round(x+first), extent, 1), 0), extent) }
	return clamp(math.Floor(round(float64(bin) * width))), clamp(math.Ceil(round(float64(bin+1) * width)))
}

// maxRoiPoolMean returns the element that maxRoiPoolEach finds for each bin.
func maxRoiPoolMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	flat := int64(0)
	err = maxRoiPoolEach(n, in[0], in[1], out.Shape(), func(most int64) {
		if out.SetFloat(flat, 0); most >= 0 {
			out.SetFloat(flat, in[0].Float(most))
		}
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// maxRoiPoolEach calls each with the index in x of the largest element of each bin of a result's shape, in order; −1
// for an empty bin.
func maxRoiPoolEach(n *ir.Node, x, regions *tensor.Tensor, shape []int64, each func(most int64)) (err error) {
	round := rounding(regions.DType())
	scale, strides := round(n.Attrs.Float("scale", 1)), tensor.Strides(x.Shape())
	tensor.Each(shape, func(o []int64) {
		row := func(i int) float64 { return regions.Float(5*o[0] + int64(i)) }
		image := boundedIntegerOf(row(0), x.Shape()[0], 1)
		if image < 0 || image >= x.Shape()[0] {
			err = diag.Inputf("image %d of %d", image, x.Shape()[0]).AtNode(n.Source, n.Op.Name())
			return
		}
		top, bottom := maxRoiBin(row(2), row(4), scale, o[2], shape[2], x.Shape()[2], round)
		left, right := maxRoiBin(row(1), row(3), scale, o[3], shape[3], x.Shape()[3], round)
		most, where := math.Inf(-1), int64(-1)
		for i := top; i < bottom; i++ {
			for j := left; j < right; j++ {
				at := image*strides[0] + o[1]*strides[1] + i*strides[2] + j*strides[3]
				if v := x.Float(at); where < 0 || v > most || v != v && most == most {
					most, where = v, at
				}
			}
		}
		each(where)
	})
	return err
}

// maxRoiPoolNest reduces each bin by Max, for all channels of a bin in turn.
func maxRoiPoolNest(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	k.maxRoiBins(n, x, k.In[1], out.Shape, func(o []sym.Expr, image sym.Expr, from, extents []sym.Expr) {
		k.Each("c", x.Shape[1], func(c sym.Expr) {
			most := k.Var("most", loop.Lowest(x.DType))
			k.Nest(loop.Serial, "i", extents, func(at []sym.Expr) {
				k.Reduce(most, loop.Max, x.Load(image, c, from[0].Add(at[0]), from[1].Add(at[1])))
			})
			empty := loop.Apply2(loop.Or, loop.Apply2(loop.Le, loop.At(extents[0]), loop.Integer(dtype.I64, 0)),
				loop.Apply2(loop.Le, loop.At(extents[1]), loop.Integer(dtype.I64, 0)))
			k.Store(out, []sym.Expr{o[0], c, o[1], o[2]}, loop.Choose(empty, loop.Number(x.DType, 0), most))
		})
	})
}

// maxRoiBins writes the loop over the bins of a result's shape. body gets the region and its bin in o, the bin's first
// element in from, and its numbers of elements in extents.
func (k *Nest) maxRoiBins(n *ir.Node, x, regions *loop.Memory, shape []sym.Expr,
	body func(o []sym.Expr, image sym.Expr, from, extents []sym.Expr)) {
	dt := computing(x.DType)
	number := func(v float64) loop.Expr { return loop.Number(dt, v) }
	scale := number(n.Attrs.Float("scale", 1))
	k.Nest(loop.Each, "o", []sym.Expr{shape[0], shape[2], shape[3]}, func(o []sym.Expr) {
		row := func(i int) loop.Expr { return loop.Convert(dt, regions.Load(o[0], sym.Const(int64(i)))) }
		image := k.Check("image", k.boundedInteger(row(0), x.Shape[0], 1), sym.Const(0), x.Shape[0].Sub(one),
			"the number of a region's image")
		rounded := func(v loop.Expr) loop.Expr {
			v = k.Let("r", times(v, scale))
			return k.Let("r", loop.Apply(loop.Trunc, plus(v, loop.Choose(less(v, number(0)), number(-0.5), number(0.5)))))
		}
		var from [2]sym.Expr
		var extents []sym.Expr
		for i := range from {
			bin, bins, extent := o[1+i], shape[2+i], x.Shape[2+i]
			first, last := rounded(row(2-i)), rounded(row(4-i))
			size := plus(minus(last, first), number(1))
			width := k.Let("width", loop.Apply2(loop.Div, loop.Choose(less(number(1), size), size, number(1)),
				extentAs(dt, bins)))
			bound := func(v loop.Expr) sym.Expr {
				at := k.boundedInteger(plus(v, first), extent, 1)
				at = loop.Apply2(loop.Max, loop.Apply2(loop.Min, at, loop.At(extent)), loop.Integer(dtype.I64, 0))
				return k.Check("p", at, sym.Const(0), extent, within)
			}
			begin := bound(loop.Apply(loop.Floor, times(extentAs(dt, bin), width)))
			end := bound(loop.Apply(loop.Ceil, times(extentAs(dt, bin.Add(one)), width)))
			from[i], extents = begin, append(extents, end.Sub(begin))
		}
		body(o, image, from[:], extents)
	})
}

// maxRoiPoolSamples covers images of several sizes, with regions partly outside, scaled and not.
func maxRoiPoolSamples(r *rand.Rand) (out []Sample) {
	for i, shape := range [][]int64{{2, 3, 5, 6}, {1, 1, 1, 1}, {3, 2, 4, 3}, {2, 2, 9, 9}} {
		for _, dt := range []dtype.DType{dtype.F32, dtype.F64} {
			regions := sampleNormal(r, dt, 4, 5)
			for j := range regions.Len() {
				regions.SetFloat(j, regions.Float(j)*3+float64(j%5/3)*4)
				if j%5 == 0 {
					regions.SetFloat(j, float64(r.Int63n(shape[0])))
				}
			}
			out = append(out, Sample{Attrs: ir.Attrs{"height": int64(1 + i), "width": int64(2), "scale": []float64{1, 0.5}[i%2]},
				Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...), regions}})
		}
	}
	return out
}
