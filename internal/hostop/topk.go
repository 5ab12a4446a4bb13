package hostop

import (
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("topk", topk) }

// topk's scratch has TopKRoomTimes·k + TopKRoomPlus elements, but at most twice the extent of the axis: one half
// collects entries until it is full and is sorted, the other half is scratch of the sort.
const (
	TopKRoomTimes = 4
	TopKRoomPlus  = 512
)

// topk returns the k largest (or smallest) elements along an axis, in order, and their indices; equal elements
// keep their order. Result 2, i64[min(TopKRoomTimes·k + TopKRoomPlus, 2·extent)], is scratch.
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
	room, err := integers(c, 2, min(TopKRoomTimes*k+TopKRoomPlus, 2*extent))
	if err != nil || values.Len() == 0 {
		zero(c, room)
		return err
	}
	largest, _ := c.Attrs["largest"].(bool)
	if k <= fewMost && extent <= mostEntries {
		zero(c, room)
		return topkFew(c, x, values, indices, axis, k, largest)
	}
	positions, err := tensor.Data[int64](indices)
	if err != nil {
		return err
	}
	step := tensor.Strides(x.Shape())[axis]
	var row func(begin int64) []int64
	if extent <= mostEntries {
		row = sortedRows(c, keysOf(x, largest), room, extent, k, step)
	} else {
		row = heapedRows(c, x, largest, room, extent, k, step)
	}
	from, stride := tensor.Strides(x.Shape()), tensor.Strides(shape)
	rows := slices.Clone(shape)
	rows[axis] = 1
	tensor.Each(rows, func(at []int64) {
		c.work(32)
		begin, to := tensor.Offset(from, at), tensor.Offset(stride, at)
		kept := row(begin)
		takeElements(c, values, x, kept, to, stride[axis], begin, step)
		for i, s := range kept {
			positions[to+int64(i)*stride[axis]] = s
		}
	})
	zero(c, room)
	return nil
}

// sortedRows returns a function that finds the k first elements of a row by their keys: it collects the elements below
// the k-th so far, and sorts them when their half of room is full.
func sortedRows(c *Call, keys *keys, room []int64, extent, k, step int64) func(begin int64) []int64 {
	half := entries(room[:len(room)/2])
	other := entries(room[len(room)/2:])
	var chunk [512]uint64
	return func(begin int64) []int64 {
		list, limit, full := half[:0], uint64(0), false
		for first := int64(0); first < extent; first += int64(len(chunk)) {
			piece := chunk[:min(int64(len(chunk)), extent-first)]
			c.work(int64(len(piece)))
			keys.read(piece, begin+first*step, step)
			for i, key := range piece {
				if full && key >= limit {
					continue
				}
				if len(list) == len(half) {
					keys.sort(c, list, other, begin, step)
					list, full = list[:k], true
					if limit = keys.one(begin + step*indexOf(list[k-1])); key >= limit {
						continue
					}
				}
				list = append(list, key<<32|uint64(first+int64(i)))
			}
		}
		keys.sort(c, list, other, begin, step)
		kept := room[:k] // overwrites the entries
		for i, e := range list[:k] {
			kept[i] = indexOf(e)
		}
		return kept
	}
}

// heapedRows is sortedRows for axes of any extent: it keeps k elements in a heap whose top is the last in order.
func heapedRows(c *Call, x *tensor.Tensor, largest bool, room []int64, extent, k,
	step int64) func(begin int64) []int64 {
	order := c.counted(comparing(x))
	before := func(a, b, begin int64) bool {
		by := order(begin+a*step, begin+b*step)
		if largest {
			by = -by
		}
		return by < 0 || by == 0 && a < b
	}
	return func(begin int64) []int64 {
		kept := room[:0]
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
		return kept
	}
}

// takeElements copies elements begin + step·p of from, for each p of positions, to elements at, at + stride, … of to.
func takeElements(c *Call, to, from *tensor.Tensor, positions []int64, at, stride, begin, step int64) {
	c.work(int64(len(positions)))
	switch from.DType().Size() {
	case 4:
		moveAll[uint32](to, from, positions, at, stride, begin, step)
	case 8:
		moveAll[uint64](to, from, positions, at, stride, begin, step)
	default:
		for i, s := range positions {
			c.work(4)
			moveElement(to, at+int64(i)*stride, from, begin+step*s)
		}
	}
}

// moveAll is takeElements for elements of the size of T.
func moveAll[T uint32 | uint64](to, from *tensor.Tensor, positions []int64, at, stride, begin, step int64) {
	a, b := words[T](to), words[T](from)
	if a == nil || b == nil { // the elements are not aligned
		for i, s := range positions {
			moveElement(to, at+int64(i)*stride, from, begin+step*s)
		}
		return
	}
	for _, s := range positions {
		a[at] = b[begin+step*s]
		at += stride
	}
}

// words returns a tensor's elements as words of their size; nil if they are not aligned.
func words[T uint32 | uint64](t *tensor.Tensor) []T {
	data := t.Bytes()
	at := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(at)%unsafe.Alignof(T(0)) != 0 {
		return nil
	}
	return unsafe.Slice((*T)(at), len(data)/int(unsafe.Sizeof(T(0))))
}

// siftUp restores the heap after its last element is added; above(a, b) reports whether a belongs nearer to the top.
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

// siftDown restores the heap after its first element is replaced.
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
