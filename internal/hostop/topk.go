package hostop

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("topk", topk) }

// topk finds the k largest (or smallest) elements along an axis and where they stand, in order; of equal ones the first comes first.
// Result 2, i64[k], is room.
func topk(c *Call) error {
	x := c.In[0]
	axis, k := int(c.Attrs["axis"].(int64)), c.Attrs["k"].(int64)
	shape := slices.Clone(x.Shape())
	extent := shape[axis]
	if k < 0 || k > extent {
		return diag.Inputf("%d of %d elements", k, extent)
	}
	shape[axis] = k
	values, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	indices, err := c.Result(1, shape...)
	if err != nil {
		return err
	}
	room, err := integers(c, 2, k)
	if err != nil || values.Len() == 0 {
		zero(c, room)
		return err
	}
	order := c.counted(comparing(x))
	largest, _ := c.Attrs["largest"].(bool)
	step := tensor.Strides(x.Shape())[axis]
	before := func(a, b, begin int64) bool {
		by := order(begin+a*step, begin+b*step)
		if largest {
			by = -by
		}
		return by < 0 || by == 0 && a < b
	}
	kept, from, stride := room[:0], tensor.Strides(x.Shape()), tensor.Strides(shape)
	rows := slices.Clone(shape)
	rows[axis] = 1
	tensor.Each(rows, func(at []int64) {
		c.work(32)
		begin := tensor.Offset(from, at)
		kept = kept[:0]
		// The kept ones are a heap, the last of them on top.
		for i := range extent {
			switch {
			case int64(len(kept)) < k:
				kept = append(kept, i)
				siftUp(kept, func(a, b int64) bool { return before(b, a, begin) })
			case before(i, kept[0], begin):
				kept[0] = i
				siftDown(kept, func(a, b int64) bool { return before(b, a, begin) })
			}
		}
		slices.SortFunc(kept, func(a, b int64) int {
			if before(a, b, begin) {
				return -1
			}
			return 1
		})
		to := tensor.Offset(stride, at)
		for i, s := range kept {
			c.work(4)
			moveElement(values, to+int64(i)*stride[axis], x, begin+s*step)
			indices.SetInt(to+int64(i)*stride[axis], s)
		}
	})
	zero(c, room)
	return nil
}

// siftUp restores a heap whose last element is new: above(a, b) says that a belongs nearer to the top.
func siftUp(heap []int64, above func(a, b int64) bool) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !above(heap[i], heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

// siftDown restores a heap whose first element is new.
func siftDown(heap []int64, above func(a, b int64) bool) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && above(heap[child+1], heap[child]) {
			child++
		}
		if !above(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

// moveElement copies one element between tensors of one type.
func moveElement(to *tensor.Tensor, i int64, from *tensor.Tensor, j int64) {
	dt := to.DType()
	switch {
	case dt == dtype.String:
		to.Strings()[i] = from.Strings()[j]
	case dt.IsSubByte() && dt.IsFloat():
		to.SetFloat(i, from.Float(j))
	case dt.IsSubByte():
		to.SetInt(i, from.Int(j))
	default:
		size := int64(dt.Size())
		copy(to.Bytes()[i*size:(i+1)*size], from.Bytes()[j*size:])
	}
}
