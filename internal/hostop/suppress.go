package hostop

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("non_max_suppression", nonMaxSuppression) }

// box is a rectangle, given by its lower and its upper corner.
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

// overlaps reports whether the area of the intersection is more than the given fraction of the union. Each step is
// rounded to 32 bits, so that every machine decides alike.
func (b box) overlaps(other box, fraction float32) bool {
	common := box{max(b.x0, other.x0), max(b.y0, other.y0), min(b.x1, other.x1), min(b.y1, other.y1)}
	if !(common.x1 > common.x0 && common.y1 > common.y0) {
		return false
	}
	shared, first, second := common.area(), b.area(), other.area()
	union := float32(first+second) - shared
	return shared > 0 && first > 0 && second > 0 && union > 0 && shared/union > fraction
}

// nonMaxSuppression selects for each image and class at most `most` boxes in descending order of their scores, without
// those that overlap a selected one. Result 0 has a row of image, class and box for each. Among equal scores the first
// box wins; a NaN is never selected. Result 1, f32[4·most] with most clipped to the number of boxes, and result 2,
// i64[boxes + 2·images·classes·most], are scratch.
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
	fraction, err := scalarInput(c, 2, 0)
	if err != nil {
		return err
	}
	threshold, err := scalarInput(c, 3, 0)
	if err != nil {
		return err
	}
	filtered := len(c.In) > 3 && c.In[3] != nil
	corners, err := c.Result(1, 4*most)
	if err != nil {
		return err
	}
	boxRoom, err := tensor.Data[float32](corners)
	if err != nil {
		return err
	}
	room, err := integers(c, 2, count+2*images*classes*most)
	if err != nil {
		return err
	}
	// for each selected box: the image and the class in one number, and the box
	order, selected := room[:0:count], room[count:count]
	if most == 0 {
		images = 0 // classes without boxes may be many
	}
	for image := range images {
		own := boxes[image*count*4 : (image+1)*count*4]
		for class := range classes {
			score := scores[(image*classes+class)*count:][:count]
			kept := keptBoxes(boxRoom[:0])
			order = order[:0]
			for i, s := range score {
				c.work(1)
				if s == s && (!filtered || s > threshold) {
					order = append(order, int64(i))
				}
			}
			slices.SortFunc(order, c.counted(func(a, b int64) int {
				return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
			}))
			for _, i := range order {
				if int64(len(kept)) == 4*most {
					break
				}
				c.work(int64(4 + len(kept)))
				if b := boxAt(own, i, center); !kept.overlap(b, fraction) {
					kept, selected = append(kept, b.x0, b.y0, b.x1, b.y1), append(selected, image*classes+class, i)
				}
			}
		}
	}
	out, err := c.Result(0, int64(len(selected)/2), 3)
	if err != nil {
		return err
	}
	rows, err := tensor.Data[int64](out)
	if err != nil {
		return err
	}
	for i := range len(selected) / 2 {
		c.work(3)
		rows[3*i], rows[3*i+1], rows[3*i+2] = selected[2*i]/classes, selected[2*i]%classes, selected[2*i+1]
	}
	zero(c, boxRoom)
	zero(c, room)
	return nil
}

// keptBoxes is a list of boxes, four numbers each.
type keptBoxes []float32

// overlap reports whether b overlaps one of the boxes by more than the given fraction.
func (k keptBoxes) overlap(b box, fraction float32) bool {
	for ; len(k) >= 4; k = k[4:] {
		if b.overlaps(box{k[0], k[1], k[2], k[3]}, fraction) {
			return true
		}
	}
	return false
}

// scalarInput returns the only element of an optional f32 input; otherwise if it is absent.
func scalarInput(c *Call, i int, otherwise float32) (float32, error) {
	if i >= len(c.In) || c.In[i] == nil {
		return otherwise, nil
	}
	if c.In[i].Len() != 1 || c.In[i].DType() != dtype.F32 {
		return 0, diag.Inputf("one number is needed, not %s%v", c.In[i].DType(), c.In[i].Shape())
	}
	return float32(c.In[i].Float(0)), nil
}
