package hostop

import (
	"slices"

	"github.com/weirml/weir/internal/tensor"
)

func init() { register("unique", unique) }

// unique finds the different slices along an axis: the slices, where each stands first, which of them each
// slice of x is, and how often each occurs. They come in ascending order, or in that of their first appearance.
func unique(c *Call) error {
	x := c.In[0]
	shape, axis := slices.Clone(x.Shape()), int(c.Attrs["axis"].(int64))
	strides, extent := tensor.Strides(shape), shape[axis]
	// What one slice holds: the offsets of its elements.
	var inner []int64
	rest := slices.Clone(shape)
	rest[axis] = 1
	tensor.Each(rest, func(at []int64) {
		c.work(4)
		inner = append(inner, tensor.Offset(strides, at))
	})
	elements := c.counted(comparing(x))
	order := func(a, b int64) int {
		c.work(1)
		for _, o := range inner {
			if by := elements(o+a*strides[axis], o+b*strides[axis]); by != 0 {
				return by
			}
		}
		return 0
	}
	sorted := make([]int64, extent)
	for i := range sorted {
		c.work(1)
		sorted[i] = int64(i)
	}
	slices.SortStableFunc(sorted, order)
	// Stable sorting puts the first appearance first in each run of equal slices.
	var first []int64
	run := make([]int64, extent)
	for i, s := range sorted {
		if i == 0 || order(sorted[i-1], s) != 0 {
			first = append(first, s)
		}
		run[s] = int64(len(first) - 1)
	}
	rank := make([]int64, len(first)) // of each run, in the result
	inOrder := make([]int64, len(first))
	for i := range inOrder {
		c.work(1)
		inOrder[i] = int64(i)
	}
	if keep, _ := c.Attrs["sorted"].(bool); !keep {
		slices.SortFunc(inOrder, c.counted(func(a, b int64) int { return int(first[a] - first[b]) }))
	}
	for i, r := range inOrder {
		c.work(1)
		rank[r] = int64(i)
	}
	shape[axis] = int64(len(first))
	values, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	to := tensor.Strides(shape)
	for i, r := range inOrder {
		flat := 0
		tensor.Each(rest, func(at []int64) {
			c.work(4)
			moveElement(values, tensor.Offset(to, at)+int64(i)*to[axis], x, inner[flat]+first[r]*strides[axis])
			flat++
		})
	}
	return uniqueIndices(c, first, inOrder, rank, run)
}

// uniqueIndices writes the three lists that go with the slices.
func uniqueIndices(c *Call, first, inOrder, rank, run []int64) error {
	indices, err := c.Result(1, int64(len(first)))
	if err != nil {
		return err
	}
	inverse, err := c.Result(2, int64(len(run)))
	if err != nil {
		return err
	}
	counts, err := c.Result(3, int64(len(first)))
	if err != nil {
		return err
	}
	for i, r := range inOrder {
		c.work(2)
		indices.SetInt(int64(i), first[r])
		counts.SetInt(int64(i), 0)
	}
	for i, r := range run {
		c.work(4)
		inverse.SetInt(int64(i), rank[r])
		counts.SetInt(rank[r], counts.Int(rank[r])+1)
	}
	return nil
}
