package hostop

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("unique", unique) }

// unique returns the distinct slices along an axis: the slices, the first occurrence of each, the index of each slice
// of x among them, and their counts. They ascend, or are in the order of their first occurrence. Result 4,
// i64[2·extent], is scratch.
func unique(c *Call) error {
	x := c.In[0]
	shape, axis := slices.Clone(x.Shape()), int(c.Attrs["axis"].(int64))
	extent := shape[axis]
	// Element e of slice a is at (e/after·extent + a)·after + e%after.
	before, _ := tensor.Count(shape[:axis])
	after, _ := tensor.Count(shape[axis+1:])
	run, err := integers(c, 2, extent)
	if err != nil {
		return err
	}
	room, err := integers(c, 4, 2*extent)
	if err != nil {
		return err
	}
	sorted, first := room[:extent], room[extent:]
	count := int64(0)
	if before*after <= mostColumns && before*after > 0 && x.DType() != dtype.String && !x.DType().IsComplex() &&
		extent <= mostEntries {
		count = sortedRuns(c, x, run, sorted, first, before, after)
	} else {
		count = comparedRuns(c, x, run, sorted, first, before, after)
	}
	first, rank := first[:count], sorted[:count] // of each run; rank is its index in the result
	if keep, _ := c.Attrs["sorted"].(bool); keep {
		for r := range rank {
			c.work(1)
			rank[r] = int64(r)
		}
	} else {
		rankByAppearance(c, rank, run)
	}
	shape[axis] = count
	values, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	for r, s := range first {
		for outer := range before {
			c.work(4 + 4*after)
			for inner := range after {
				moveElement(values, (outer*count+rank[r])*after+inner, x, (outer*extent+s)*after+inner)
			}
		}
	}
	if err := uniqueIndices(c, first, rank, run); err != nil {
		return err
	}
	zero(c, room)
	return nil
}

// mostColumns is the largest number of elements of a slice that are sorted by radix, one after the other; larger
// slices are compared.
const mostColumns = 16

// sortedRuns numbers the runs of equal slices in ascending order, and returns their count: run receives the number of
// each slice's run, first the first slice of each run. sorted is scratch. Slice a begins a·after elements after slice
// 0.
func sortedRuns(c *Call, x *tensor.Tensor, run, sorted, first []int64, before, after int64) int64 {
	keys, list := keysOf(x, false), entries(sorted)
	// begin returns the index of column i of slice 0.
	begin := func(i int64) int64 { return i/after*int64(len(run))*after + i%after }
	columns := before * after
	var chunk [512]uint64
	for at := 0; at < len(list); at += len(chunk) {
		piece := chunk[:min(len(chunk), len(list)-at)]
		c.work(int64(len(piece)))
		keys.read(piece, begin(columns-1)+int64(at)*after, after)
		for i, key := range piece {
			list[at+i] = key<<32 | uint64(at+i)
		}
	}
	for column := columns - 1; column >= 0; column-- {
		if column < columns-1 && !keys.wide {
			from := begin(column)
			for i, e := range list {
				c.work(2)
				list[i] = keys.one(from+indexOf(e)*after)<<32 | e&math.MaxUint32
			}
		}
		keys.sort(c, list, entries(first), begin(column), after)
	}
	// differ reports whether two slices differ.
	differ := func(a, b int64) bool {
		for column := range columns {
			if from := begin(column); keys.one(from+a*after) != keys.one(from+b*after) {
				return true
			}
		}
		return false
	}
	count, last := int64(0), entry(0)
	for i, e := range list {
		c.work(2 + columns)
		s := indexOf(e)
		if i == 0 || e>>32 != last>>32 || (keys.wide || columns > 1) && differ(s, indexOf(last)) {
			first[count] = s
			count++
		}
		last = e
		run[s] = count - 1
	}
	return count
}

// comparedRuns is sortedRuns for slices of elements of any type.
func comparedRuns(c *Call, x *tensor.Tensor, run, sorted, first []int64, before, after int64) int64 {
	extent := int64(len(run))
	elements := c.counted(comparing(x))
	order := func(a, b int64) int {
		for outer := range before {
			from := outer * extent * after
			for inner := range after {
				if by := elements(from+a*after+inner, from+b*after+inner); by != 0 {
					return by
				}
			}
		}
		return 0
	}
	if before == 1 && after == 1 {
		order = elements
	}
	for i := range sorted {
		c.work(1)
		sorted[i] = int64(i)
	}
	slices.SortFunc(sorted, func(a, b int64) int {
		c.work(1)
		if by := order(a, b); by != 0 {
			return by
		}
		return int(a - b)
	})
	// The first appearance comes first in each run of equal slices.
	count := int64(0)
	for i, s := range sorted {
		c.work(1)
		if i == 0 || order(sorted[i-1], s) != 0 {
			first[count] = s
			count++
		}
		run[s] = count - 1
	}
	return count
}

// rankByAppearance ranks runs in the order of their first slices.
func rankByAppearance(c *Call, rank, run []int64) {
	for r := range rank {
		c.work(1)
		rank[r] = -1
	}
	next := int64(0)
	for _, r := range run {
		c.work(1)
		if rank[r] < 0 {
			rank[r] = next
			next++
		}
	}
}

// uniqueIndices writes the first occurrence and the count of each distinct slice, and turns runs into ranks.
func uniqueIndices(c *Call, first, rank, run []int64) error {
	indices, err := integers(c, 1, int64(len(first)))
	if err != nil {
		return err
	}
	counts, err := integers(c, 3, int64(len(first)))
	if err != nil {
		return err
	}
	zero(c, counts)
	for r, s := range first {
		c.work(1)
		indices[rank[r]] = s
	}
	for i, r := range run {
		c.work(1)
		run[i] = rank[r]
		counts[rank[r]]++
	}
	return nil
}

// integers allocates result i as a vector of i64.
func integers(c *Call, i int, extent int64) ([]int64, error) {
	t, err := c.Result(i, extent)
	if err != nil {
		return nil, err
	}
	return tensor.Data[int64](t)
}
