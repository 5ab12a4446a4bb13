package hostop

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	register("trees", func(c *Call) error {
		if c.In[0].DType() == dtype.F64 {
			return trees[float64](c)
		}
		return trees[float32](c)
	})
}

// The comparisons of a node, each of the sample's feature with the node's split. One that is not met leads to the node's second child.
const (
	TreeLE = iota
	TreeLT
	TreeGE
	TreeGT
	TreeEQ
	TreeNE
	// TreeMissing, added to a comparison, has NaN meet it.
	TreeMissing = 8
)

// treeTest compares, by the number of the comparison.
func treeTest[T real](mode uint8, x, split T) bool {
	switch mode &^ TreeMissing {
	case TreeLE:
		return x <= split || mode&TreeMissing != 0 && x != x
	case TreeLT:
		return x < split || mode&TreeMissing != 0 && x != x
	case TreeGE:
		return x >= split || mode&TreeMissing != 0 && x != x
	case TreeGT:
		return x > split || mode&TreeMissing != 0 && x != x
	case TreeEQ:
		return x == split || mode&TreeMissing != 0 && x != x
	}
	return x != split || mode&TreeMissing != 0 && x != x
}

// aggregate says how what the trees give a target is combined: as a sum where nothing else is said.
type aggregate struct{ least, most, mean bool }

var aggregates = map[string]aggregate{"sum": {}, "average": {mean: true}, "min": {least: true}, "max": {most: true}}

// trees sends each row of input 0, x[N, F], down every tree. The trees are flat: input 1 is the roots, i32; inputs 2 to 5 are the nodes' features i32, comparisons u8, splits of x's
// type, and children i32[nodes, 2]. A child or root of at least 0 is a node, which comes after its parent; another is the complement of a leaf. Inputs 6 to 8 are the leaves, i32: where
// each one's targets begin, with the end; the targets, i32; and their weights, of x's type. Result 0 is what attribute aggregate makes of each of the attribute targets, plus input 9,
// where present.
func trees[T real](c *Call) error {
	count, _ := c.Attrs["targets"].(int64)
	name, _ := c.Attrs["aggregate"].(string)
	how, known := aggregates[name]
	if !known {
		return diag.Inputf("trees are not combined by %q", name)
	}
	f, err := newForest[T](c.In)
	if err != nil {
		return err
	}
	rows, width := c.In[0].Shape()[0], c.In[0].Shape()[1]
	out, err := c.Result(0, rows, count)
	if err != nil {
		return err
	}
	sums, err := tensor.Data[T](out)
	if err != nil {
		return err
	}
	var base []T
	if len(c.In) > 9 && c.In[9] != nil {
		if base, err = tensor.Data[T](c.In[9]); err != nil || int64(len(base)) != count {
			return diag.Inputf("%d values to begin with for %d targets", len(base), count)
		}
	}
	if err := c.heap(min(rows, treeBlock) * count); err != nil {
		return err
	}
	given := make([]bool, min(rows, treeBlock)*count)
	f.call = c
	for first := int64(0); first < rows; first += treeBlock {
		end := min(first+treeBlock, rows)
		y := sums[first*count : end*count]
		zero(c, y)
		zero(c, given)
		for _, root := range f.roots {
			for row := first; row < end; row++ {
				leaf, err := f.leaf(f.x[row*width:(row+1)*width], root)
				if err != nil {
					return err
				}
				at := (row - first) * count
				if err := f.give(leaf, y[at:at+count], given[at:at+count], how); err != nil {
					return err
				}
			}
		}
		for i := range y {
			c.work(2)
			if how.mean {
				y[i] /= T(len(f.roots))
			}
			if base != nil {
				y[i] += base[int64(i)%count]
			}
		}
	}
	return nil
}

// treeBlock is the rows that go down a tree one after the other, while its nodes are at hand.
const treeBlock = 128

// give combines what a leaf gives with what a row's targets have been given.
func (f *forest[T]) give(leaf int32, y []T, given []bool, how aggregate) error {
	for i := f.begins[leaf]; i < f.begins[leaf+1]; i++ {
		f.call.work(1)
		to, w := f.targets[i], f.weights[i]
		switch {
		case to < 0 || int(to) >= len(y):
			return diag.Inputf("a leaf gives to target %d of %d", to, len(y))
		case !given[to]:
			y[to], given[to] = w, true
		case how.least:
			y[to] = min(y[to], w)
		case how.most:
			y[to] = max(y[to], w)
		default:
			y[to] += w
		}
	}
	return nil
}

// forest is the operands of trees.
type forest[T real] struct {
	call            *Call
	x               []T
	roots, features []int32
	modes           []uint8
	splits          []T
	children        []int32
	begins, targets []int32
	weights         []T
}

func newForest[T real](in []*tensor.Tensor) (*forest[T], error) {
	f := &forest[T]{}
	var first error
	whole := func(i int, to *[]int32) {
		data, err := tensor.Data[int32](in[i])
		if *to = data; err != nil && first == nil {
			first = err
		}
	}
	real := func(i int, to *[]T) {
		data, err := tensor.Data[T](in[i])
		if *to = data; err != nil && first == nil {
			first = err
		}
	}
	real(0, &f.x)
	whole(1, &f.roots)
	whole(2, &f.features)
	f.modes = in[3].Bytes()
	real(4, &f.splits)
	whole(5, &f.children)
	whole(6, &f.begins)
	whole(7, &f.targets)
	real(8, &f.weights)
	if first != nil {
		return nil, first
	}
	if n := len(f.features); len(f.modes) != n || len(f.splits) != n || len(f.children) != 2*n || len(f.begins) == 0 || len(f.targets) != len(f.weights) {
		return nil, diag.Inputf("tables of trees whose lengths disagree")
	}
	return f, nil
}

// leaf is where a row ends: each step leads to a later node, so that it ends.
func (f *forest[T]) leaf(x []T, at int32) (int32, error) {
	for at >= 0 {
		f.call.work(4)
		if int(at) >= len(f.features) || int(f.features[at]) >= len(x) || f.features[at] < 0 {
			return 0, diag.Inputf("a tree looks for node %d of %d, or for a feature beyond the %d that there are", at, len(f.features), len(x))
		}
		child := 2 * at
		if !treeTest(f.modes[at], x[f.features[at]], f.splits[at]) {
			child++
		}
		next := f.children[child]
		if next >= 0 && next <= at {
			return 0, diag.Inputf("node %d of a tree leads back to %d", at, next)
		}
		at = next
	}
	leaf := ^at
	if int(leaf)+1 >= len(f.begins) || f.begins[leaf] < 0 || f.begins[leaf+1] > int32(len(f.targets)) {
		return 0, diag.Inputf("a tree ends at leaf %d of %d", leaf, len(f.begins)-1)
	}
	return leaf, nil
}
