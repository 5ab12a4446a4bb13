package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator non_max_suppression.
func init() {
	define(&Def{Op: "non_max_suppression", NoGrad: "a choice", Shape: suppressShape, Mean: hostMean("non_max_suppression"),
		Host: "non_max_suppression", Samples: suppressSamples})
}

// NonMaxSuppression selects, for boxes[N, B, 4] with scores[N, C, B] (both f32), at most `most` boxes of each image and
// class in descending order of their scores. It leaves out boxes whose overlap with a selected box (intersection over
// union) exceeds overlap (nil: 0), and those whose score does not exceed threshold (nil: none). A box is two opposite
// corners y, x, y, x or, with center, its center x, y, width and height. The result, [found, 3], has rows of image,
// class and box.
func NonMaxSuppression(b *ir.Builder, boxes, scores, overlap, threshold *ir.Value, most sym.Expr,
	center bool) *ir.Value {
	inputs := []*ir.Value{boxes, scores, overlap, threshold}
	for inputs[len(inputs)-1] == nil {
		inputs = inputs[:len(inputs)-1]
	}
	return b.Node("non_max_suppression", ir.Attrs{"most": most, "center": center}, inputs...).Outputs[0]
}

// suppressShape requires a score of each class for each box; the number of selected boxes is found in a run.
func suppressShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 4); err != nil {
		return err
	}
	boxes, scores := n.Inputs[0].Type, n.Inputs[1].Type
	if boxes.DType != dtype.F32 || scores.DType != dtype.F32 || len(boxes.Shape) != 3 || len(scores.Shape) != 3 {
		return fault(n, "boxes %s with scores %s; both are f32 of rank 3", boxes, scores)
	}
	for _, pair := range [][2]sym.Expr{{boxes.Shape[0], scores.Shape[0]}, {boxes.Shape[1], scores.Shape[2]},
		{boxes.Shape[2], sym.Const(4)}} {
		if err := c.RequireEqual(n, pair[0], pair[1], "a score of each class for each box of four numbers"); err != nil {
			return err
		}
	}
	for i := 2; i < len(n.Inputs); i++ {
		v := n.Inputs[i]
		if v == nil {
			continue
		}
		if v.Type.DType != dtype.F32 {
			return fault(n, "a threshold %s, it must be f32", v.Type)
		}
		if err := c.RequireEqual(n, product(v.Type.Shape), one, "a threshold is one number"); err != nil {
			return err
		}
	}
	most, ok := n.Attrs["most"].(sym.Expr)
	if !ok {
		return fault(n, "the number of boxes for each class is missing")
	}
	each := c.Dims().Simplify(most.Max(sym.Const(0)).Min(scores.Shape[2]))
	limit := scores.Shape[0].Mul(scores.Shape[1]).Mul(each)
	n.Result(0, ir.Type{DType: dtype.I64, Shape: []sym.Expr{found(c, n, "count", limit), sym.Const(3)}})
	// Results 1 and 2 are scratch memory, which is zero after the call.
	n.Result(1, ir.Type{DType: dtype.F32, Shape: []sym.Expr{each.Mul(sym.Const(4))}})
	n.Result(2, ir.Type{DType: dtype.I64, Shape: []sym.Expr{scores.Shape[2].Add(limit.Mul(sym.Const(2)))}})
	return nil
}

// suppressSamples covers boxes with each optional input, by corners and by center, and no boxes, images or results.
func suppressSamples(r *rand.Rand) (out []Sample) {
	for _, c := range []struct{ images, classes, boxes, most int64 }{{1, 1, 1, 3}, {2, 3, 9, 4}, {1, 2, 7, 100},
		{2, 2, 5, 0}, {1, 2, 5, -1}, {1, 1, 0, 2}, {0, 1, 3, 2}} {
		for kind := range 4 {
			boxes := sampleNormal(r, dtype.F32, c.images, c.boxes, 4)
			for i := range boxes.Len() {
				boxes.SetFloat(i, boxes.Float(i)+float64(2*(kind%2)*int(i%4/2)))
			}
			scores := sampleFloats(r, dtype.F32, c.images, c.classes, c.boxes)
			inputs := []*tensor.Tensor{boxes, scores}
			if kind > 0 {
				inputs = append(inputs, tensor.Of(float32(0.3)))
			}
			if kind > 1 {
				inputs = append(inputs, tensor.Scalar(float32(-0.2)))
			}
			out = append(out, Sample{Attrs: ir.Attrs{"most": sym.Const(c.most), "center": kind%2 == 1}, Inputs: inputs})
		}
	}
	return out
}
