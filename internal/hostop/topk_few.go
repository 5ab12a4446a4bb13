package hostop

import "github.com/weirml/weir/internal/tensor"

// fewMost is the largest k for which the elements of a row are kept in order as they are found.
const fewMost = 16

// fewLines is the number of adjacent rows that are read together.
const fewLines = 64

// few is a sorted list of the first elements of a row so far.
type few struct {
	keys      [fewMost]uint64
	positions [fewMost]int64
	count     int
}

// put inserts an element that precedes the k-th, or any element if there are fewer than k.
func (f *few) put(key uint64, position int64, k int) {
	if f.count < k {
		f.count++
	}
	at := f.count - 1
	for ; at > 0 && f.keys[at-1] > key; at-- {
		f.keys[at], f.positions[at] = f.keys[at-1], f.positions[at-1]
	}
	f.keys[at], f.positions[at] = key, position
}

// topkFew is topk for k of at most fewMost: it runs on all workers and needs no scratch.
func topkFew(c *Call, x, values, indices *tensor.Tensor, axis int, k int64, largest bool) error {
	shape := x.Shape()
	extent := shape[axis]
	outer, _ := tensor.Count(shape[:axis])
	step, _ := tensor.Count(shape[axis+1:])
	positions, err := tensor.Data[int64](indices)
	if err != nil {
		return err
	}
	keys := keysOf(x, largest)
	groups := (step + fewLines - 1) / fewLines // of adjacent rows
	return c.split(outer*groups, extent*min(step, fewLines), func(c *Call, from, to int64) error {
		var lines [fewLines]few
		var chunk [256]uint64
		for group := from; group < to; group++ {
			first := group % groups * fewLines
			begin := group/groups*extent*step + first
			count := min(step-first, fewLines)
			for j := range lines[:count] {
				lines[j].count = 0
			}
			if step == 1 {
				lines[0].along(c, keys, chunk[:], begin, extent, int(k))
			} else {
				for i := range extent {
					piece := chunk[:count]
					c.work(count)
					keys.read(piece, begin+i*step, 1)
					for j, key := range piece {
						if f := &lines[j]; f.count < int(k) || key < f.keys[k-1] {
							f.put(key, i, int(k))
						}
					}
				}
			}
			for j := range lines[:count] {
				found, at := lines[j].positions[:k], group/groups*k*step+first+int64(j)
				takeElements(c, values, x, found, at, step, begin+int64(j), step)
				for i, position := range found {
					positions[at+int64(i)*step] = position
				}
			}
		}
		return nil
	})
}

// along finds the first k elements of a row of contiguous elements.
func (f *few) along(c *Call, keys *keys, chunk []uint64, begin, extent int64, k int) {
	for first := int64(0); first < extent; first += int64(len(chunk)) {
		piece := chunk[:min(int64(len(chunk)), extent-first)]
		c.work(int64(len(piece)))
		keys.read(piece, begin+first, 1)
		for i, key := range piece {
			if f.count < k || key < f.keys[k-1] {
				f.put(key, first+int64(i), k)
			}
		}
	}
}
