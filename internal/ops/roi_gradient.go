package ops

import (
	"maps"
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

// init defines the operators roi_align_back, roi_align_largest and max_roi_pool_largest.
func init() {
	define(&Def{Op: "roi_align_back", Taken: []int{2}, Grad: roiAlignBackGrad, Shape: roiAlignBackShape,
		Mean: roiAlignBackMean, Samples: roiAlignBackSamples,
		Lowerings: []Lowering{{Name: "samples", Onto: true, Build: roiAlignBackNest}}})
	define(&Def{Op: "roi_align_largest", Taken: []int{1}, Grad: roiLargestGrad, Shape: roiAlignLargestShape,
		Mean: roiAlignLargestMean, Samples: roiAlignLargestSamples,
		Lowerings: []Lowering{{Name: "samples", Build: roiAlignLargestNest}}})
	define(&Def{Op: "max_roi_pool_largest", Shape: maxRoiPoolLargestShape, Mean: maxRoiPoolLargestMean,
		Samples:   maxRoiPoolSamples,
		Lowerings: []Lowering{{Name: "bins", Build: maxRoiPoolLargestNest}}})
}

// roiAlignGrad spreads the derivative of a mean over the sampled elements, and passes that of a maximum to the largest
// element. Regions are constants.
func roiAlignGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, regions, images := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	out := make([]*ir.Value, len(n.Inputs))
	if !g.Wants(x) {
		return out
	}
	if !n.Attrs.Bool("max") {
		out[0] = g.Op("roi_align_back", maps.Clone(n.Attrs), g.zeros(x.Type.DType, x.Type.Shape...), up[0], regions, images)
		return out
	}
	found := g.Node("roi_align_largest", maps.Clone(n.Attrs), x, regions, images)
	out[0] = g.toRegions(n, x, found.Outputs[0], g.mul(up[0], found.Outputs[1]))
	return out
}

// maxRoiPoolGrad passes each bin's derivative to the first of its largest elements.
func maxRoiPoolGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, regions := n.Inputs[0], n.Inputs[1]
	if !g.Wants(x) {
		return make([]*ir.Value, 2)
	}
	found := g.Op("max_roi_pool_largest", maps.Clone(n.Attrs), x, regions)
	return []*ir.Value{g.toRegions(n, x, found, up[0]), nil}
}

// toRegions adds derivatives u at indices, which count through one channel of all images of x; −1 adds nothing.
func (g *Gradients) toRegions(n *ir.Node, x, indices, u *ir.Value) *ir.Value {
	b := g.Builder
	channels, first := channelAxis(n)
	shape := x.Type.Shape
	planes := []sym.Expr{shape[channels], shape[0], shape[first], shape[first+1]}
	order, back := []int64{int64(channels), 0, int64(first), int64(first + 1)}, []int64{1, 0, 2, 3}
	if channels == 3 {
		back = []int64{1, 2, 3, 0}
	}
	flat := func(v *ir.Value) *ir.Value {
		v = Transpose(b, v, order...)
		return Reshape(b, v, v.Type.Shape[0], product(v.Type.Shape[1:]))
	}
	nowhere := g.op(loop.Lt, indices, g.integer(sym.Const(0)))
	at, to := flat(g.choose(nowhere, nil, indices)), g.zeros(u.Type.DType, planes[0], product(planes[1:]))
	d := ScatterElements(b, to, at, flat(g.choose(nowhere, nil, u)), 1, "add")
	return Transpose(b, Reshape(b, d, planes...), back...)
}

// roiAlignBackShape is the shape rule of roi_align_back, the transpose of roi_align. It adds the second input, of the
// shape of roi_align's result, to the sampled elements of the first, of the shape of roi_align's input.
func roiAlignBackShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 4, 4); err != nil {
		return err
	}
	into, up := n.Inputs[0].Type, n.Inputs[1].Type
	align := &ir.Node{Op: n.Op, Attrs: n.Attrs, Source: n.Source,
		Inputs: []*ir.Value{n.Inputs[0], n.Inputs[2], n.Inputs[3]}, Outputs: []*ir.Value{{}}}
	if err := roiAlignShape(c, align); err != nil {
		return err
	}
	result := align.Outputs[0].Type
	if n.Attrs.Bool("max") || up.DType != into.DType || len(up.Shape) != len(result.Shape) {
		return fault(n, "%s for regions of %s", up, into)
	}
	for i := range up.Shape {
		if err := c.RequireEqual(n, up.Shape[i], result.Shape[i], "an element for each bin"); err != nil {
			return err
		}
	}
	n.Result(0, into)
	return nil
}

// roiAlignBackGrad differentiates an operator that is linear in both inputs: 1 by the first, roi_align by the second.
func roiAlignBackGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	out := make([]*ir.Value, 4)
	if out[0] = up[0]; g.Wants(n.Inputs[1]) {
		out[1] = g.Op("roi_align", maps.Clone(n.Attrs), up[0], n.Inputs[2], n.Inputs[3])
	}
	return out
}

// roiAlignBackMean adds to each sampled element its share of the derivative, in f64.
func roiAlignBackMean(_ *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, up, regions, images := in[0].Clone(), in[1], in[2], in[3]
	strides, round, flat := tensor.Strides(out.Shape()), rounding(regions.DType()), int64(0)
	channels, first := channelAxis(n)
	sums := make([]float64, out.Len())
	var err error
	tensor.Each(up.Shape(), func(o []int64) {
		if err != nil {
			return
		}
		axes, image, wrong := roiAxesOf(n, out, regions, images, o, up.Shape(), round)
		if err = wrong; err != nil {
			return
		}
		share := up.Float(flat) / float64(max(axes[0].samples*axes[1].samples, 1))
		flat++
		from := image*strides[0] + o[channels]*strides[channels]
		for i := range axes[0].samples {
			for j := range axes[1].samples {
				for _, t := range axes[0].taps(o[first], i, out.Shape()[first], round) {
					for _, u := range axes[1].taps(o[first+1], j, out.Shape()[first+1], round) {
						if t.inside && u.inside {
							sums[from+t.at*strides[first]+u.at*strides[first+1]] += t.weight * u.weight * share
						}
					}
				}
			}
		}
	})
	for i, v := range sums {
		out.SetFloat(int64(i), out.Float(int64(i))+v)
	}
	return []*tensor.Tensor{out}, err
}

// roiAxesOf returns the axes of the bin, and the image, of the result at index o, given the result's shape.
func roiAxesOf(n *ir.Node, x, regions, images *tensor.Tensor, o, shape []int64,
	round func(float64) float64) (axes [2]roiAxis, image int64, err error) {
	_, first := channelAxis(n)
	if image = images.Int(o[0]); image < 0 || image >= x.Shape()[0] {
		return axes, image, diag.Inputf("image %d of %d", image, x.Shape()[0]).AtNode(n.Source, n.Op.Name())
	}
	for i := range axes {
		low, high := regions.Float(4*o[0]+int64(1-i)), regions.Float(4*o[0]+int64(3-i))
		if axes[i], err = roiAxisOf(n, low, high, shape[first+i], round); err != nil {
			return axes, image, err
		}
	}
	return axes, image, nil
}

// roiAlignBackNest adds the derivatives region by region, in order; the channels are independent.
func roiAlignBackNest(k *Nest, n *ir.Node) {
	up, regions, images, out := k.In[1], k.In[2], k.In[3], k.Out[0]
	dt := computing(out.DType)
	axis, first := channelAxis(n)
	k.Each("c", out.Shape[axis], func(c sym.Expr) {
		sums := k.Local("sums", dt, out.Shape[0], out.Shape[first], out.Shape[first+1])
		at := func(to []sym.Expr) []sym.Expr { return slices.Insert(slices.Clone(to), axis, c) }
		k.Nest(loop.Each, "z", sums.Shape, func(to []sym.Expr) { k.Store(sums, to, loop.Number(dt, 0)) })
		k.Nest(loop.Serial, "o", []sym.Expr{up.Shape[0], up.Shape[first], up.Shape[first+1]}, func(o []sym.Expr) {
			image := k.roiImage(images, o[0], out.Shape[0])
			axes := k.roiBin(n, dt, regions, o, up.Shape[first:])
			count := axes[0].samples.Mul(axes[1].samples)
			share := k.Let("share", loop.Apply2(loop.Div, loop.Convert(dt, up.Load(at(o)...)), extentAs(dt, count.Max(one))))
			k.Serial("i", axes[0].samples, func(i sym.Expr) {
				rows := axes[0].taps(k, i, out.Shape[first])
				k.Serial("j", axes[1].samples, func(j sym.Expr) {
					for _, corner := range k.corners(dt, [][]tap{rows, axes[1].taps(k, j, out.Shape[first+1])}) {
						to := append([]sym.Expr{image}, corner.at...)
						term := loop.Choose(corner.inside, times(corner.weight, share), loop.Number(dt, 0))
						k.Store(sums, to, plus(sums.Load(to...), term))
					}
				})
			})
		})
		k.Nest(loop.Each, "s", sums.Shape, func(to []sym.Expr) {
			v := plus(loop.Convert(dt, out.Load(at(to)...)), sums.Load(to...))
			k.Store(out, at(to), loop.Convert(out.DType, v))
		})
	})
}

// roiImage loads the index of a region's image, which must be less than count.
func (k *Nest) roiImage(images *loop.Memory, region, count sym.Expr) sym.Expr {
	return k.Check("image", loop.Convert(dtype.I64, images.Load(region)), sym.Const(0), count.Sub(one),
		"the number of a region's image")
}

// roiAxes returns the two axes of a region.
func (k *Nest) roiAxes(n *ir.Node, dt dtype.DType, regions *loop.Memory, region sym.Expr,
	bins []sym.Expr) (axes [2]roiLoop) {
	number := func(column int) loop.Expr { return loop.Convert(dt, regions.Load(region, sym.Const(int64(column)))) }
	for i := range axes {
		axes[i] = k.roiLoop(n, number(1-i), number(3-i), bins[i])
	}
	return axes
}

// roiBin returns the two axes of bin o[1:] of region o[0].
func (k *Nest) roiBin(n *ir.Node, dt dtype.DType, regions *loop.Memory, o, bins []sym.Expr) [2]roiLoop {
	axes := k.roiAxes(n, dt, regions, o[0], bins)
	return [2]roiLoop{axes[0].of(k, o[1]), axes[1].of(k, o[2])}
}

// roiAlignBackSamples are those of roi_align without max, with a derivative for each result.
func roiAlignBackSamples(r *rand.Rand) (out []Sample) {
	for _, s := range roiAlignSamples(r) {
		if s.Attrs.Bool("max") {
			continue
		}
		x, regions := s.Inputs[0], s.Inputs[1]
		up := []int64{regions.Shape()[0], x.Shape()[1], s.Attrs.Int("height", 1), s.Attrs.Int("width", 1)}
		if s.Attrs.Bool("last") {
			up = []int64{up[0], up[2], up[3], x.Shape()[3]}
		}
		s.Inputs = []*tensor.Tensor{x, sampleNormal(r, x.DType(), up...), regions, s.Inputs[2]}
		out = append(out, s)
	}
	return out
}

// roiAlignLargestShape is the shape rule of roi_align_largest. For each result of roi_align with max, the operator
// returns the index, in one channel of all images, of the element that is largest when weighted (the first of several;
// −1 if it lies outside), and its weight.
func roiAlignLargestShape(c *ir.Inference, n *ir.Node) error {
	if err := roiAlignShape(c, n); err != nil {
		return err
	}
	t := n.Outputs[0].Type
	n.Result(0, ir.Type{DType: dtype.I64, Shape: t.Shape})
	n.Result(1, t)
	return nil
}

// roiLargestGrad returns no derivatives: a small change of the elements changes neither index nor weight.
func roiLargestGrad(_ *Gradients, n *ir.Node, _ []*ir.Value) []*ir.Value {
	return make([]*ir.Value, len(n.Inputs))
}

// roiAlignLargestMean computes the samples of roiAlignMean and returns the largest one's index and weight.
func roiAlignLargestMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	at, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	weights, err := result(e, n, 1)
	if err != nil {
		return nil, err
	}
	x, regions, images, flat := in[0], in[1], in[2], int64(0)
	strides, round := tensor.Strides(x.Shape()), rounding(regions.DType())
	channels, first := channelAxis(n)
	extents := x.Shape()[first:]
	tensor.Each(at.Shape(), func(o []int64) {
		if err != nil {
			return
		}
		axes, image, wrong := roiAxesOf(n, x, regions, images, o, at.Shape(), round)
		if err = wrong; err != nil {
			return
		}
		most, where, weight := math.Inf(-1), int64(-1), 0.0
		for i := range axes[0].samples {
			for j := range axes[1].samples {
				for _, t := range axes[0].taps(o[first], i, extents[0], round) {
					for _, u := range axes[1].taps(o[first+1], j, extents[1], round) {
						v, index := 0.0, int64(-1)
						if t.inside && u.inside {
							index = (image*extents[0]+t.at)*extents[1] + u.at
							v = round(round(t.weight*u.weight) * x.Float(image*strides[0]+o[channels]*strides[channels]+t.at*strides[first]+
								u.at*strides[first+1]))
						}
						if v > most || v != v && most == most {
							most, where, weight = v, index, t.weight*u.weight
						}
					}
				}
			}
		}
		at.SetInt(flat, where)
		weights.SetFloat(flat, weight)
		flat++
	})
	return []*tensor.Tensor{at, weights}, err
}

// roiAlignLargestNest keeps the largest weighted element, its index and its weight in variables.
func roiAlignLargestNest(k *Nest, n *ir.Node) {
	x, regions, images, at, weights := k.In[0], k.In[1], k.In[2], k.Out[0], k.Out[1]
	dt := computing(x.DType)
	axis, first := channelAxis(n)
	k.Nest(loop.Each, "o", []sym.Expr{at.Shape[0], at.Shape[axis], at.Shape[first], at.Shape[first+1]},
		func(all []sym.Expr) {
			c, o := all[1], []sym.Expr{all[0], all[2], all[3]}
			image := k.roiImage(images, o[0], x.Shape[0])
			axes := k.roiBin(n, dt, regions, o, at.Shape[first:])
			most, where, weight := k.Var("most", loop.Lowest(dt)), k.Var("where", loop.Integer(dtype.I64, -1)),
				k.Var("weight", loop.Number(dt, 0))
			k.Serial("i", axes[0].samples, func(i sym.Expr) {
				rows := axes[0].taps(k, i, x.Shape[first])
				k.Serial("j", axes[1].samples, func(j sym.Expr) {
					for _, near := range k.corners(dt, [][]tap{rows, axes[1].taps(k, j, x.Shape[first+1])}) {
						v := k.Let("v", weighed(x, dt, image, c, axis, []corner{near}))
						number := image.Mul(x.Shape[first]).Add(near.at[0]).Mul(x.Shape[first+1]).Add(near.at[1])
						k.larger(most, v, func(larger loop.Expr) {
							k.Set(where, loop.Choose(larger, loop.Choose(near.inside, loop.At(number), loop.Integer(dtype.I64, -1)), where))
							k.Set(weight, loop.Choose(larger, near.weight, weight))
						})
					}
				})
			})
			to := slices.Insert(slices.Clone(o), axis, c)
			k.Store(at, to, where)
			k.Store(weights, to, loop.Convert(weights.DType, weight))
		})
}

// larger sets most to v if v is larger, or the first NaN; before that, then writes the statements that depend on
// whether it is.
func (k *Nest) larger(most *loop.Ref, v loop.Expr, then func(larger loop.Expr)) {
	unordered := loop.Apply2(loop.And, loop.Apply2(loop.Ne, v, v), loop.Apply2(loop.Eq, most, most))
	larger := k.Let("larger", loop.Apply2(loop.Or, less(most, v), unordered))
	then(larger)
	k.Set(most, loop.Choose(larger, v, most))
}

// roiAlignLargestSamples are those of roi_align with max.
func roiAlignLargestSamples(r *rand.Rand) []Sample {
	return slices.DeleteFunc(roiAlignSamples(r), func(s Sample) bool { return !s.Attrs.Bool("max") })
}

// maxRoiPoolLargestShape is the shape rule of max_roi_pool_largest. For each result of max_roi_pool, the operator
// returns the index, in one channel of all images, of the largest element, the first of several; −1 for an empty bin.
func maxRoiPoolLargestShape(c *ir.Inference, n *ir.Node) error {
	if err := maxRoiPoolShape(c, n); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: dtype.I64, Shape: n.Outputs[0].Type.Shape})
	return nil
}

// maxRoiPoolLargestMean removes the channel from the indices that maxRoiPoolEach finds.
func maxRoiPoolLargestMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	at, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	flat, strides := int64(0), tensor.Strides(in[0].Shape())
	err = maxRoiPoolEach(n, in[0], in[1], at.Shape(), func(most int64) {
		if most >= 0 { // without the channel
			most = most/strides[0]*strides[1] + most%strides[1]
		}
		at.SetInt(flat, most)
		flat++
	})
	return []*tensor.Tensor{at}, err
}

// maxRoiPoolLargestNest keeps the largest element of each bin and its index in variables.
func maxRoiPoolLargestNest(k *Nest, n *ir.Node) {
	x, at := k.In[0], k.Out[0]
	k.maxRoiBins(n, x, k.In[1], at.Shape, func(o []sym.Expr, image sym.Expr, from, extents []sym.Expr) {
		k.Each("c", x.Shape[1], func(c sym.Expr) {
			most, where := k.Var("most", loop.Lowest(x.DType)), k.Var("where", loop.Integer(dtype.I64, -1))
			k.Nest(loop.Serial, "i", extents, func(i []sym.Expr) {
				row, column := from[0].Add(i[0]), from[1].Add(i[1])
				flat := image.Mul(x.Shape[2]).Add(row).Mul(x.Shape[3]).Add(column)
				first := k.Let("first", loop.Apply2(loop.Lt, where, loop.Integer(dtype.I64, 0)))
				v := k.Let("v", x.Load(image, c, row, column))
				k.larger(most, v, func(larger loop.Expr) {
					k.Set(where, loop.Choose(loop.Apply2(loop.Or, first, larger), loop.At(flat), where))
				})
			})
			k.Store(at, []sym.Expr{o[0], c, o[1], o[2]}, where)
		})
	})
}
