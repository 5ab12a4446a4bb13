package hostop

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("non_max_suppression", nonMaxSuppression) }

// box is a rectangle by its corners, the lower ones first.
type box struct{ x0, y0, x1, y1 float32 }

// boxAt reads box i: two opposite corners (y, x, y, x), or the center, width and height.
func boxAt(boxes []float32, i int64, center bool) box {
	b := boxes[4*i : 4*i+4]
	if center {
		w, h := b[2]/2, b[3]/2
		return box{b[0] - w, b[1] - h, b[0] + w, b[1] + h}
	}
	return box{min(b[1], b[3]), min(b[0], b[2]), max(b[1], b[3]), max(b[0], b[2])}
}

func (b box) area() float32 { return float32(b.x1-b.x0) * float32(b.y1-b.y0) }

// overlaps reports whether the boxes' intersection is more than a part of their union. Each step is rounded to 32 bits, so that the border is
// the same everywhere.
func (b box) overlaps(other box, part float32) bool {
	common := box{max(b.x0, other.x0), max(b.y0, other.y0), min(b.x1, other.x1), min(b.y1, other.y1)}
	if !(common.x1 > common.x0 && common.y1 > common.y0) {
		return false
	}
	shared, first, second := common.area(), b.area(), other.area()
	union := float32(first+second) - shared
	return shared > 0 && first > 0 && second > 0 && union > 0 && shared/union > part
}

// nonMaxSuppression selects, for each image and class, boxes in descending order of their scores, at most `most`, leaving out those that overlap a
// selected one: rows of image, class and box. Of equal scores the first box comes first; NaN is no score.
func nonMaxSuppression(c *Call) error {
	boxes, err := tensor.Data[float32](c.In[0])
	if err != nil {
		return err
	}
	scores, err := tensor.Data[float32](c.In[1])
	if err != nil {
		return err
	}
	images, classes, count := c.In[1].Shape()[0], c.In[1].Shape()[1], c.In[1].Shape()[2]
	center, _ := c.Attrs["center"].(bool)
	most := min(max(c.Attrs["most"].(int64), 0), count)
	part, err := scalarInput(c, 2, 0)
	if err != nil {
		return err
	}
	threshold, err := scalarInput(c, 3, 0)
	if err != nil {
		return err
	}
	filtered := len(c.In) > 3 && c.In[3] != nil
	var selected [][3]int64
	order := make([]int64, 0, count)
	kept := make([]box, 0, most)
	for image := range images {
		own := boxes[image*count*4 : (image+1)*count*4]
		for class := range classes {
			score := scores[(image*classes+class)*count:][:count]
			order, kept = order[:0], kept[:0]
			for i, s := range score {
				c.work(1)
				if s == s && (!filtered || s > threshold) {
					order = append(order, int64(i))
				}
			}
			slices.SortStableFunc(order, c.counted(func(a, b int64) int { return cmp.Compare(score[b], score[a]) }))
			for _, i := range order {
				if int64(len(kept)) == most {
					break
				}
				c.work(4 * int64(1+len(kept)))
				b := boxAt(own, i, center)
				if !slices.ContainsFunc(kept, func(other box) bool { return b.overlaps(other, part) }) {
					kept, selected = append(kept, b), append(selected, [3]int64{image, class, i})
				}
			}
		}
	}
	out, err := c.Result(0, int64(len(selected)), 3)
	if err != nil {
		return err
	}
	for i, row := range selected {
		c.work(3)
		for j, v := range row {
			out.SetInt(int64(3*i+j), v)
		}
	}
	return nil
}

// scalarInput is the only element of an optional f32 input.
func scalarInput(c *Call, i int, otherwise float32) (float32, error) {
	if i >= len(c.In) || c.In[i] == nil {
		return otherwise, nil
	}
	if c.In[i].Len() != 1 || c.In[i].DType() != dtype.F32 {
		return 0, diag.Inputf("one number is needed, not %s%v", c.In[i].DType(), c.In[i].Shape())
	}
	return float32(c.In[i].Float(0)), nil
}
