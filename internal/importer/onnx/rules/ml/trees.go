package ml

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// ensemble holds trees as a file has them: nodes in any order. A child is a node's index, or the complement of a leaf's
// index.
type ensemble struct {
	roots  []int64
	nodes  []treeNode
	leaves int64
}

// treeNode compares a feature with split by mode and leads to the child yes or no.
type treeNode struct {
	feature int64
	mode    uint8
	split   float64
	yes, no int64
}

// forest orders the nodes so that each comes after its parents, and drops nodes that no root reaches. A cycle, or a
// child that does not exist, is the file's fault.
func forest(c *convert.Call, g *ensemble) *ops.Forest {
	const unseen, open, done = 0, 1, 2
	state := make([]uint8, len(g.nodes))
	var last []int64 // the reached nodes, each after its descendants
	check := func(at int64) bool {
		if at >= int64(len(g.nodes)) || ^at >= g.leaves {
			c.Fault("a tree leads to node or leaf %d, which does not exist", at)
		}
		return at >= 0
	}
	for _, root := range g.roots {
		stack := []int64{}
		if check(root) {
			stack = append(stack, root)
		}
		for len(stack) > 0 {
			at := stack[len(stack)-1]
			if state[at] != unseen {
				stack = stack[:len(stack)-1]
				if state[at] == open {
					state[at] = done
					last = append(last, at)
				}
				continue
			}
			state[at] = open
			for _, child := range []int64{g.nodes[at].yes, g.nodes[at].no} {
				if !check(child) || state[child] == done {
					continue
				}
				if state[child] == open {
					c.Fault("node %d of a tree leads back to node %d", at, child)
				}
				stack = append(stack, child)
			}
		}
	}
	slices.Reverse(last)
	number := make([]int32, len(g.nodes))
	for i, at := range last {
		number[at] = int32(i)
	}
	child := func(at int64) int32 {
		if at < 0 {
			return int32(at)
		}
		return number[at]
	}
	f := &ops.Forest{}
	for _, root := range g.roots {
		f.Roots = append(f.Roots, child(root))
	}
	for _, at := range last {
		n := g.nodes[at]
		if n.feature < 0 || n.feature > math.MaxInt32 {
			c.Fault("a node looks at feature %d", n.feature)
		}
		f.Features, f.Modes, f.Splits = append(f.Features, int32(n.feature)), append(f.Modes, n.mode),
			append(f.Splits, n.split)
		f.Children = append(f.Children, child(n.yes), child(n.no))
	}
	return f
}

// samples returns input 0 as matrix does, and requires a column for each feature that the trees read.
func samples(c *convert.Call, f *ops.Forest) *ir.Value {
	x := matrix(c)
	if len(f.Features) > 0 {
		c.Condition(sym.Cond{A: sym.Const(int64(slices.Max(f.Features)) + 1), Rel: sym.LE, B: x.Type.Shape[1]},
			"the features that the trees read")
	}
	return x
}

// matrix returns input 0 as [rows, features], f64 if the input is f64 and otherwise f32; a vector becomes one row.
func matrix(c *convert.Call) *ir.Value {
	x := c.Input(0)
	dt := x.Type.DType
	switch {
	case len(x.Type.Shape) == 1:
		x = ops.Reshape(c.Builder, x, sym.Const(1), x.Type.Shape[0])
	case len(x.Type.Shape) != 2:
		c.Fault("samples %s, they must be a matrix", x.Type)
	}
	if !dt.IsInt() && !dt.IsFloat() {
		c.Fault("samples of type %s", dt)
	}
	if dt == dtype.F64 {
		return x
	}
	return ops.Cast(c.Builder, x, dtype.F32)
}

// numbersOf returns the numbers of an attribute: floats under its name, or a tensor under its name and _as_tensor; nil
// if both are absent.
func numbersOf(c *convert.Call, name string) []float64 {
	t := c.Tensor(name + "_as_tensor")
	if t == nil {
		return c.Floats(name)
	}
	if !t.DType().IsFloat() {
		c.Fault("attribute %s_as_tensor is of type %s", name, t.DType())
	}
	out := make([]float64, t.Len())
	for i := range out {
		out[i] = t.Float(int64(i))
	}
	return out
}

// treeModes are the names of comparisons. From version 5 on comparisons are numbers: indices of this list, or
// treeMember.
var treeModes = []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}

var treeTests = []string{"<=", "<", ">=", ">", "==", "!="}

// treeMember is the comparison that asks whether the feature is one of several members.
const treeMember = 6

// treeID identifies a node as versions 1 to 4 do: by the numbers of its tree and of the node within the tree.
type treeID struct{ tree, node int64 }

// readTrees reads the trees of versions 1 to 4. The first node of each tree is its root. The attributes that begin with
// prefix hold the weights that leaves add to targets.
func readTrees(c *convert.Call, prefix string, targets int64) *ops.Forest {
	names := treeIDs(c, "nodes_treeids", "nodes_nodeids")
	features, modes, splits := c.Ints("nodes_featureids"), c.Strings("nodes_modes"), numbersOf(c, "nodes_values")
	yes, no, missing := c.Ints("nodes_truenodeids"), c.Ints("nodes_falsenodeids"),
		c.Ints("nodes_missing_value_tracks_true")
	for _, n := range []int{len(features), len(modes), len(splits), len(yes), len(no)} {
		if n != len(names) {
			c.Fault("lists of %d and %d elements describe the same nodes", n, len(names))
		}
	}
	g := &ensemble{nodes: make([]treeNode, len(names))}
	at := make(map[treeID]int64, len(names))
	var leaves []treeID
	seen := map[int64]bool{}
	for i, name := range names {
		if _, twice := at[name]; twice {
			c.Fault("tree %d has two nodes %d", name.tree, name.node)
		}
		at[name] = int64(i)
		if modes[i] == "LEAF" {
			leaves = append(leaves, name)
			at[name] = ^int64(len(leaves) - 1)
		}
		if !seen[name.tree] {
			seen[name.tree] = true
			g.roots = append(g.roots, at[name])
		}
	}
	g.leaves = int64(len(leaves))
	for i, name := range names {
		mode := slices.Index(treeModes, modes[i])
		if mode < 0 {
			if modes[i] != "LEAF" {
				c.Fault("a node compares by %q", modes[i])
			}
			continue
		}
		n := treeNode{feature: features[i], mode: ops.TreeModes[treeTests[mode]], split: splits[i]}
		if i < len(missing) && missing[i] != 0 {
			n.mode += ops.TreeMissing
		}
		for _, way := range []struct {
			to   *int64
			node int64
		}{{&n.yes, yes[i]}, {&n.no, no[i]}} {
			child, ok := at[treeID{name.tree, way.node}]
			if !ok {
				c.Fault("tree %d has no node %d", name.tree, way.node)
			}
			*way.to = child
		}
		g.nodes[i] = n
	}
	f := forest(c, g)
	leavesOf(c, f, leaves, prefix, targets)
	return f
}

// treeIDs pairs two attributes, which must have the same length.
func treeIDs(c *convert.Call, trees, nodes string) []treeID {
	a, b := c.Ints(trees), c.Ints(nodes)
	if len(a) != len(b) {
		c.Fault("%d %s and %d %s", len(a), trees, len(b), nodes)
	}
	out := make([]treeID, len(a))
	for i := range a {
		out[i] = treeID{a[i], b[i]}
	}
	return out
}

// leavesOf fills f's Begins, Targets and Weights: the weights that each leaf adds to targets.
func leavesOf(c *convert.Call, f *ops.Forest, leaves []treeID, prefix string, targets int64) {
	names, ids, weights := treeIDs(c, prefix+"_treeids", prefix+"_nodeids"), c.Ints(prefix+"_ids"),
		numbersOf(c, prefix+"_weights")
	if len(ids) != len(names) || len(weights) != len(names) {
		c.Fault("%d %s_ids and %d weights for %d nodes", len(ids), prefix, len(weights), len(names))
	}
	gives := make(map[treeID][]int, len(leaves))
	for i, name := range names {
		if ids[i] < 0 || ids[i] >= targets {
			c.Fault("a leaf gives to %s %d of %d", prefix, ids[i], targets)
		}
		gives[name] = append(gives[name], i)
	}
	f.Begins = []int32{0}
	for _, name := range leaves {
		for _, i := range gives[name] {
			f.Targets, f.Weights = append(f.Targets, int32(ids[i])), append(f.Weights, weights[i])
		}
		f.Begins = append(f.Begins, int32(len(f.Targets)))
	}
}

// treeAggregates are the names of the functions that combine trees; from version 5 on they are indices of this list.
var treeAggregates = []string{"AVERAGE", "SUM", "MIN", "MAX"}

var treeAggregateNames = []string{"average", "sum", "min", "max"}

// treeRegressor converts TreeEnsembleRegressor; the results are f32.
func treeRegressor(c *convert.Call) []*ir.Value {
	how := slices.Index(treeAggregates, c.StringAttribute("aggregate_function", "SUM"))
	targets := c.Int("n_targets", 1)
	if how < 0 || targets < 1 || targets > convert.ExtentLimit {
		c.Fault("%d targets of trees combined by %q", targets, c.StringAttribute("aggregate_function", "SUM"))
	}
	f := readTrees(c, "target", targets)
	y := ops.Trees(c.Builder, samples(c, f), f, targets, treeAggregateNames[how], base(c, targets))
	return convert.One(ops.Cast(c.Builder, transformed(c, y, c.StringAttribute("post_transform", "NONE")), dtype.F32))
}

// base returns the value at which each target begins; nil if all begin at 0. A single base value holds for all targets.
func base(c *convert.Call, targets int64) []float64 {
	base := numbersOf(c, "base_values")
	if base != nil && int64(len(base)) != targets && len(base) != 1 {
		c.Fault("%d base values for %d targets", len(base), targets)
	}
	for base != nil && int64(len(base)) < targets {
		base = append(base, base[0])
	}
	return base
}

// treeClassifier converts TreeEnsembleClassifier. If there are at most two classes and all weights belong to one of
// them, the other class's score is 1 − score if no weight is negative, otherwise −score.
func treeClassifier(c *convert.Call) []*ir.Value {
	labels := labelsOf(c, "classlabels_int64s")
	classes := max(labels.count, 1)
	f := readTrees(c, "class", classes)
	single := classes <= 2 && len(f.Targets) > 0 && !slices.ContainsFunc(f.Targets, func(to int32) bool {
		return to != f.Targets[0]
	})
	post := c.StringAttribute("post_transform", "NONE")
	if !single {
		scores := ops.Trees(c.Builder, samples(c, f), f, classes, "sum", base(c, classes))
		return classified(c, scores, labels, post)
	}
	clear(f.Targets)
	base := numbersOf(c, "base_values")
	if len(base) > 1 {
		base = base[len(base)-1:]
	}
	score := ops.Trees(c.Builder, samples(c, f), f, 1, "sum", base)
	shares := !slices.ContainsFunc(f.Weights, func(w float64) bool { return w < 0 })
	return classified(c, twoClasses(c, score, shares, post), labels, post)
}

// treeEnsemble converts TreeEnsemble, of version 5, whose children are indices among the nodes or leaves of all trees.
func treeEnsemble(c *convert.Call) []*ir.Value {
	how, post, targets := c.Int("aggregate_function", 1), c.Int("post_transform", 0), c.Int("n_targets", 1)
	if how < 0 || how >= int64(len(treeAggregates)) || post < 0 || post >= int64(len(transforms)) || targets < 1 ||
		targets > convert.ExtentLimit {
		c.Fault("%d targets of trees, aggregate_function %d and post_transform %d", targets, how, post)
	}
	g := &ensemble{roots: c.Ints("tree_roots")}
	ids, weights := c.Ints("leaf_targetids"), tensorNumbers(c, "leaf_weights")
	if len(ids) != len(weights) {
		c.Fault("%d leaf_targetids and %d leaf_weights", len(ids), len(weights))
	}
	g.leaves = int64(len(ids))
	members(c, g)
	f := forest(c, g)
	f.Begins, f.Weights = []int32{0}, weights
	for i, id := range ids {
		if id < 0 || id >= targets {
			c.Fault("a leaf gives to target %d of %d", id, targets)
		}
		f.Targets, f.Begins = append(f.Targets, int32(id)), append(f.Begins, int32(i+1))
	}
	y := ops.Trees(c.Builder, samples(c, f), f, targets, treeAggregateNames[how], nil)
	return convert.One(ops.Cast(c.Builder, transformed(c, y, transforms[post]), c.Input(0).Type.DType))
}

// tensorNumbers returns the elements of a tensor attribute, which must be present.
func tensorNumbers(c *convert.Call, name string) []float64 {
	t := c.Tensor(name)
	if t == nil || !t.DType().IsFloat() && !t.DType().IsInt() {
		c.Fault("attribute %s, a tensor of numbers, is missing", name)
	}
	return floatsOf(t)
}

// floatsOf returns the elements of a tensor of floats or integers.
func floatsOf(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Len())
	for i := range out {
		if t.DType().IsFloat() {
			out[i] = t.Float(int64(i))
		} else {
			out[i] = float64(t.Int(int64(i)))
		}
	}
	return out
}

// members reads the nodes of version 5. A node that tests membership becomes a chain of nodes, one for each member. The
// members of all these nodes are in one list, in the order of the nodes; NaN ends each node's members.
func members(c *convert.Call, g *ensemble) {
	features, modes, splits := c.Ints("nodes_featureids"), tensorNumbers(c, "nodes_modes"),
		tensorNumbers(c, "nodes_splits")
	yes, no, missing := c.Ints("nodes_truenodeids"), c.Ints("nodes_falsenodeids"),
		c.Ints("nodes_missing_value_tracks_true")
	leafYes, leafNo := c.Ints("nodes_trueleafs"), c.Ints("nodes_falseleafs")
	for _, n := range []int{len(modes), len(splits), len(yes), len(no), len(leafYes), len(leafNo)} {
		if n != len(features) {
			c.Fault("lists of %d and %d elements describe the same nodes", n, len(features))
		}
	}
	var members []float64
	if c.Has("membership_values") {
		members = tensorNumbers(c, "membership_values")
	}
	child := func(at, leaf int64) int64 {
		if at < 0 {
			c.Fault("a tree leads to node or leaf %d", at)
		}
		if leaf != 0 {
			return ^at
		}
		return at
	}
	g.nodes = make([]treeNode, len(features), len(features)+len(members))
	for i := range g.nodes {
		n := treeNode{feature: features[i], split: splits[i], yes: child(yes[i], leafYes[i]), no: child(no[i], leafNo[i])}
		mode := int64(modes[i])
		if mode < 0 || mode > treeMember {
			c.Fault("a node compares by %d", mode)
		}
		if mode < treeMember {
			n.mode = ops.TreeModes[treeTests[mode]]
		}
		if i < len(missing) && missing[i] != 0 {
			n.mode += ops.TreeMissing
		}
		if mode == treeMember {
			members = g.testMembers(i, n, members)
			continue
		}
		g.nodes[i] = n
	}
}

// testMembers replaces node i, which tests whether n's feature is one of the members up to the first NaN, by a chain of
// nodes that test equality. It returns the members after the NaN. If there are no members, the node compares with NaN,
// which nothing equals.
func (g *ensemble) testMembers(i int, n treeNode, members []float64) []float64 {
	n.mode += ops.TreeModes["=="]
	end := slices.IndexFunc(members, math.IsNaN)
	rest := members[len(members):]
	if end >= 0 {
		members, rest = members[:end], members[end+1:]
	}
	if len(members) == 0 {
		members = []float64{math.NaN()}
	}
	no := n.no
	for k, member := range members {
		n.split = member
		n.no = no
		if k+1 < len(members) {
			n.no = int64(len(g.nodes))
			if k > 0 {
				n.no++
			}
		}
		if k == 0 {
			g.nodes[i] = n
		} else {
			g.nodes = append(g.nodes, n)
		}
	}
	return rest
}
