package hostop

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// init defines trees, in the type of the samples.
func init() {
	register("trees", func(c *Call) error {
		if len(c.In) < 6 || len(c.In) > 7 {
			return diag.Inputf("trees of %d tables", len(c.In))
		}
		switch c.In[0].DType().Size() {
		case 4:
			return trees[float32](c)
		case 8:
			return trees[float64](c)
		}
		return diag.Inputf("trees for samples of %s", c.In[0].DType())
	})
}

// TreeNode is one entry of the table of nodes. A sample whose feature is above the split continues at Left + 1,
// another at Left; NaN continues at Left + Info&1. A leaf's successor is itself: its split is +Inf, and Info is twice
// its number.
type TreeNode[T float32 | float64] struct {
	Split               T
	Feature, Left, Info int32
}

// TreeNodeWords returns the size of a TreeNode in words of four bytes, for a split of so many bytes.
func TreeNodeWords(bytes int) int64 {
	if bytes == 8 {
		return int64(unsafe.Sizeof(TreeNode[float64]{})) / 4
	}
	return int64(unsafe.Sizeof(TreeNode[float32]{})) / 4
}

// aggregate is the way in which the weights of a target are combined: summed if no field is set.
type aggregate struct{ least, most, mean bool }

// aggregates has the aggregates by their names in ONNX.
var aggregates = map[string]aggregate{"sum": {}, "average": {mean: true}, "min": {least: true}, "max": {most: true}}

// treeBlock is the number of rows that descend one tree while its nodes are in the cache.
const treeBlock = 128

// treeLanes is the number of interleaved walks; their loads overlap.
const treeLanes = 8

// forest has the operands of trees.
type forest[T real] struct {
	x               []T
	width           int // features of a row
	roots           []int32
	nodes           []TreeNode[T]
	begins, targets []int32
	weights, base   []T
	count           int64 // targets
	how             aggregate
	proved          bool // every node refers to nodes and features that exist
}

// trees sends each row of input 0, x[N, F], down every tree. Input 1 has the roots' indices among the nodes, input 2
// the nodes, each a TreeNode as words of i32. Inputs 3 to 5 are the leaves: the index of each leaf's first target,
// with the end; the targets; and their weights, of x's type. If input 3 is empty, each leaf has a weight for every
// target. Result 0 combines the weights by the attribute aggregate for each of the attribute targets, plus input 6, if
// present.
func trees[T real](c *Call) error {
	f, err := newForest[T](c)
	if err != nil {
		return err
	}
	rows := c.In[0].Shape()[0]
	out, err := c.Result(0, rows, f.count)
	if err != nil {
		return err
	}
	sums, err := tensor.Data[T](out)
	if err != nil {
		return err
	}
	if f.sparse() && (f.how.least || f.how.most) {
		if err := c.heap(min(rows, treeBlock) * f.count); err != nil {
			return err
		}
		given := make([]bool, min(rows, treeBlock)*f.count)
		return f.blocks(c, 0, rows, sums, given)
	}
	if rows >= treeLanes && rows*int64(len(f.roots)) >= int64(len(f.nodes)) { // otherwise the walks check each node
		f.prove(c)
	}
	const unit = 4 * treeLanes
	return c.split((rows+unit-1)/unit, unit*16*int64(len(f.roots)), func(c *Call, from, to int64) error {
		return f.blocks(c, from*unit, min(to*unit, rows), sums, nil)
	})
}

// newForest reads and checks the operands, or returns ErrInput.
func newForest[T real](c *Call) (*forest[T], error) {
	f := &forest[T]{}
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	var words []int32
	var err error
	f.x, err = tensor.Data[T](c.In[0])
	note(err)
	for _, table := range []struct {
		to *[]int32
		at int
	}{{&f.roots, 1}, {&words, 2}, {&f.begins, 3}, {&f.targets, 4}} {
		*table.to, err = tensor.Data[int32](c.In[table.at])
		note(err)
	}
	f.weights, err = tensor.Data[T](c.In[5])
	note(err)
	if len(c.In) > 6 && c.In[6] != nil {
		f.base, err = tensor.Data[T](c.In[6])
		note(err)
	}
	if first != nil {
		return nil, first
	}
	name, _ := c.Attrs["aggregate"].(string)
	known := false
	if f.how, known = aggregates[name]; !known {
		return nil, diag.Inputf("trees cannot be combined by %q", name)
	}
	f.count, _ = c.Attrs["targets"].(int64)
	if f.base != nil && int64(len(f.base)) != f.count {
		return nil, diag.Inputf("%d base values for %d targets", len(f.base), f.count)
	}
	size := int(unsafe.Sizeof(TreeNode[T]{}))
	if len(words)*4%size != 0 || f.sparse() && len(f.targets) != len(f.weights) {
		return nil, diag.Inputf("the lengths of the trees' tables disagree")
	}
	if len(words) > 0 {
		at := unsafe.Pointer(unsafe.SliceData(words))
		if uintptr(at)%unsafe.Alignof(TreeNode[T]{}) != 0 {
			return nil, diag.Internalf("the nodes of trees are not aligned")
		}
		f.nodes = unsafe.Slice((*TreeNode[T])(at), len(words)*4/size)
	}
	if f.width = int(c.In[0].Shape()[1]); f.width == 0 {
		f.x = []T{0} // leaves read a feature too
	}
	return f, nil
}

// prove sets proved if every walk that begins at a root stays within the tables.
func (f *forest[T]) prove(c *Call) {
	if f.width == 0 {
		return
	}
	bad := false
	for _, root := range f.roots {
		bad = bad || uint(root) >= uint(len(f.nodes))
	}
	c.work(int64(len(f.roots) + len(f.nodes)))
	for i := range f.nodes {
		n := &f.nodes[i]
		last := int64(n.Left)
		if n.Split < T(math.Inf(1)) || n.Info&1 != 0 {
			last++
		}
		if n.Left < 0 || last >= int64(len(f.nodes)) || uint(n.Feature) >= uint(f.width) {
			bad = true
		}
	}
	f.proved = !bad
}

// sparse reports whether leaves list their targets.
func (f *forest[T]) sparse() bool { return len(f.begins) > 0 }

// blocks computes rows [from, to).
func (f *forest[T]) blocks(c *Call, from, to int64, sums []T, given []bool) error {
	for first := from; first < to; first += treeBlock {
		end := min(first+treeBlock, to)
		y := sums[first*f.count : end*f.count]
		f.begin(c, y, given)
		row := first + (end-first)/treeLanes*treeLanes
		if err := f.across(c, first, row, y, given); err != nil {
			return err
		}
		for ; row < end; row++ {
			if err := f.along(c, row, y[(row-first)*f.count:(row-first+1)*f.count],
				flagsOf(given, row-first, f.count)); err != nil {
				return err
			}
		}
		f.end(c, y)
	}
	return nil
}

// flagsOf returns the flags of a row's count targets; nil if there are no flags.
func flagsOf(given []bool, row, count int64) []bool {
	if given == nil {
		return nil
	}
	return given[row*count : (row+1)*count]
}

// begin sets the results of a block to the neutral element of the aggregate.
func (f *forest[T]) begin(c *Call, y []T, given []bool) {
	zero(c, y)
	zero(c, given)
	if bound := T(math.Inf(1)); !f.sparse() && len(f.roots) > 0 && (f.how.least || f.how.most) {
		if f.how.most {
			bound = -bound
		}
		for i := range y {
			c.work(1)
			y[i] = bound
		}
	}
}

// end turns the combined weights of a block into its results.
func (f *forest[T]) end(c *Call, y []T) {
	if !f.how.mean && f.base == nil {
		return
	}
	c.work(int64(len(y)))
	for i := range y {
		if f.how.mean {
			y[i] /= T(len(f.roots))
		}
		if f.base != nil {
			y[i] += f.base[int64(i)%f.count]
		}
	}
}

// across sends rows [from, to), which fill the lanes, down one tree after the other. y and given begin at row from.
func (f *forest[T]) across(c *Call, from, to int64, y []T, given []bool) error {
	var at [treeLanes]int32
	var base [treeLanes]int
	missing := f.missing(c, from, to)
	single := f.count == 1 && !f.sparse() && !f.how.least && !f.how.most
	for _, root := range f.roots {
		for row := from; row < to; row += treeLanes {
			for j := range at {
				at[j], base[j] = root, f.row(row+int64(j))
			}
			var err error
			if f.proved && !missing {
				err = f.hurry(c, &at, row)
			} else {
				err = f.descend(c, &at, &base, missing)
			}
			if err != nil {
				return err
			}
			if single {
				sums := y[row-from:][:treeLanes]
				for j, node := range at {
					leaf := uint(f.nodes[node].Info) / 2
					if leaf >= uint(len(f.weights)) {
						return diag.Inputf("a tree ends at leaf %d of %d", leaf, len(f.weights))
					}
					sums[j] += f.weights[leaf]
				}
				continue
			}
			for j, node := range at {
				lane := row + int64(j) - from
				if err := f.give(node, y[lane*f.count:(lane+1)*f.count], flagsOf(given, lane, f.count)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// along sends one row down as many trees at once as there are lanes. It combines the trees' weights in their order.
func (f *forest[T]) along(c *Call, row int64, y []T, given []bool) error {
	var at [treeLanes]int32
	var base [treeLanes]int
	for j := range base {
		base[j] = f.row(row)
	}
	missing := f.missing(c, row, row+1)
	for roots := f.roots; len(roots) > 0; {
		taken := copy(at[:], roots)
		for j := taken; j < treeLanes; j++ {
			at[j] = roots[0]
		}
		if err := f.descend(c, &at, &base, missing); err != nil {
			return err
		}
		for _, node := range at[:taken] {
			if err := f.give(node, y, given); err != nil {
				return err
			}
		}
		roots = roots[taken:]
	}
	return nil
}

// row returns the index of a row's first feature.
func (f *forest[T]) row(row int64) int { return int(row) * f.width }

// missing reports whether a feature of rows [from, to) is NaN.
func (f *forest[T]) missing(c *Call, from, to int64) bool {
	c.work((to - from) * int64(f.width))
	for _, v := range f.x[f.row(from):f.row(to)] {
		if v != v {
			return true
		}
	}
	return false
}

// descend moves each lane from a node to a leaf. No branch depends on a comparison, so that the lanes' loads overlap.
func (f *forest[T]) descend(c *Call, at *[treeLanes]int32, base *[treeLanes]int, missing bool) error {
	if missing {
		return f.descendMissing(c, at, base)
	}
	nodes, x := f.nodes, f.x
	for range len(nodes) + 1 {
		c.work(2 * treeLanes)
		moved := int32(0)
		for j, i := range at {
			if uint(i) >= uint(len(nodes)) {
				return f.astray(i)
			}
			n := &nodes[i]
			feature := base[j] + int(n.Feature)
			if uint(feature) >= uint(len(x)) {
				return f.astray(i)
			}
			above := int32(0)
			if x[feature] > n.Split {
				above = 1
			}
			next := n.Left + above
			moved |= next ^ i
			at[j] = next
		}
		if moved == 0 {
			return nil
		}
	}
	return diag.Inputf("a tree has a cycle")
}

// hurry is descend for consecutive rows without NaN, beginning with row, through tables that are proved.
func (f *forest[T]) hurry(c *Call, at *[treeLanes]int32, row int64) error {
	node, number := unsafe.Sizeof(TreeNode[T]{}), unsafe.Sizeof(T(0))
	nodes, width := unsafe.Pointer(unsafe.SliceData(f.nodes)), uintptr(f.width)*number
	x := unsafe.Pointer(&f.x[f.row(row)])
	for range len(f.nodes)/2 + 1 {
		c.work(4 * treeLanes)
		moved := int32(0)
		for range 2 {
			moved = 0
			row := x
			for j := range at {
				i := at[j]
				n := (*TreeNode[T])(unsafe.Add(nodes, uintptr(uint32(i))*node))
				above := int32(0)
				if *(*T)(unsafe.Add(row, uintptr(uint32(n.Feature))*number)) > n.Split {
					above = 1
				}
				next := n.Left + above
				at[j] = next
				moved |= next ^ i
				if j < treeLanes-1 {
					row = unsafe.Add(row, width)
				}
			}
		}
		if moved == 0 {
			return nil
		}
	}
	return diag.Inputf("a tree has a cycle")
}

// descendMissing is descend for features that may be NaN.
func (f *forest[T]) descendMissing(c *Call, at *[treeLanes]int32, base *[treeLanes]int) error {
	nodes, x := f.nodes, f.x
	for range len(nodes) + 1 {
		c.work(2 * treeLanes)
		moved := int32(0)
		for j, i := range at {
			if uint(i) >= uint(len(nodes)) {
				return f.astray(i)
			}
			n := &nodes[i]
			feature := base[j] + int(n.Feature)
			if uint(feature) >= uint(len(x)) {
				return f.astray(i)
			}
			v, above, none := x[feature], int32(0), int32(0)
			if v > n.Split {
				above = 1
			}
			if v != v {
				none = 1
			}
			next := n.Left + (above | n.Info&none)
			moved |= next ^ i
			at[j] = next
		}
		if moved == 0 {
			return nil
		}
	}
	return diag.Inputf("a tree has a cycle")
}

// astray returns the error for a node or a feature that is not in the tables.
func (f *forest[T]) astray(i int32) error {
	if uint(i) >= uint(len(f.nodes)) {
		return diag.Inputf("a tree refers to node %d of %d", i, len(f.nodes))
	}
	return diag.Inputf("a tree refers to feature %d of %d", f.nodes[i].Feature, f.width)
}

// give combines the weights of a leaf with the targets of a row.
func (f *forest[T]) give(node int32, y []T, given []bool) error {
	leaf := int(f.nodes[node].Info) / 2
	if !f.sparse() {
		if leaf < 0 || (leaf+1)*len(y) > len(f.weights) {
			return diag.Inputf("a tree ends at leaf %d of %d", leaf, len(f.weights)/max(1, len(y)))
		}
		w := f.weights[leaf*len(y):][:len(y)]
		switch {
		case f.how.least:
			for i := range y {
				y[i] = min(y[i], w[i])
			}
		case f.how.most:
			for i := range y {
				y[i] = max(y[i], w[i])
			}
		default:
			for i := range y {
				y[i] += w[i]
			}
		}
		return nil
	}
	if leaf < 0 || leaf+1 >= len(f.begins) || f.begins[leaf] < 0 || int(f.begins[leaf+1]) > len(f.targets) {
		return diag.Inputf("a tree ends at leaf %d of %d", leaf, len(f.begins)-1)
	}
	for i := f.begins[leaf]; i < f.begins[leaf+1]; i++ {
		to, w := f.targets[i], f.weights[i]
		switch {
		case to < 0 || int(to) >= len(y):
			return diag.Inputf("a leaf has a weight for target %d of %d", to, len(y))
		case given == nil:
			y[to] += w
		case !given[to]:
			y[to], given[to] = w, true
		case f.how.least:
			y[to] = min(y[to], w)
		case f.how.most:
			y[to] = max(y[to], w)
		}
	}
	return nil
}
