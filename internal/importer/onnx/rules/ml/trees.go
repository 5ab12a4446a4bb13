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

// grove is trees as a file has them: nodes in any order, whose children are nodes, or leaves as complements of their
// numbers.
type grove struct {
	roots  []int64
	nodes  []treeNode
	leaves int64
}

type treeNode struct {
	feature int64
	mode    uint8
	split   float64
	yes, no int64
}

// forest orders the nodes so that each comes after its parents; what no root leads to is left out. A node that leads
// back to itself is the file's fault, as is a child that is not there.
func forest(c *convert.Call, g *grove) *ops.Forest {
	const unseen, open, done = 0, 1, 2
	state := make([]uint8, len(g.nodes))
	var last []int64 // in the order in which their descendants are complete
	check := func(at int64) bool {
		if at >= int64(len(g.nodes)) || ^at >= g.leaves {
			c.Fault("a tree leads to node or leaf %d, and there is none", at)
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
	place := func(at int64) int32 {
		if at < 0 {
			return int32(at)
		}
		return number[at]
	}
	f := &ops.Forest{}
	for _, root := range g.roots {
		f.Roots = append(f.Roots, place(root))
	}
	for _, at := range last {
		n := g.nodes[at]
		if n.feature < 0 || n.feature > math.MaxInt32 {
			c.Fault("a node looks at feature %d", n.feature)
		}
		f.Features, f.Modes, f.Splits = append(f.Features, int32(n.feature)), append(f.Modes, n.mode),
			append(f.Splits, n.split)
		f.Children = append(f.Children, place(n.yes), place(n.no))
	}
	return f
}

// samples is input 0 as a matrix of f32, or f64 if it is that, wide enough for the features of the trees.
func samples(c *convert.Call, f *ops.Forest) *ir.Value {
	x := matrix(c)
	if len(f.Features) > 0 {
		c.Condition(sym.Cond{A: sym.Const(int64(slices.Max(f.Features)) + 1), Rel: sym.LE, B: x.Type.Shape[1]},
			"the features that the trees look at")
	}
	return x
}

// matrix is input 0 as [rows, features] of f32, or f64 if it is that; a vector is one row.
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

// numbersOf is a list of numbers that an attribute holds as floats, or under the name with _as_tensor as a tensor; nil
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

// treeModes are the spellings of comparisons. From version 5 on they are numbers, in this order, and a sixth that tests
// whether a feature is among members.
var treeModes = []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"}

var treeTests = []string{"<=", "<", ">=", ">", "==", "!="}

const treeMember = 6

type treePlace struct{ tree, node int64 }

// numbered reads the trees of versions 1 to 4: nodes named by numbers of trees and of their nodes, of which a tree's
// first is its root; and what leaves give to targets, in attributes that begin with prefix.
func numbered(c *convert.Call, prefix string, targets int64) *ops.Forest {
	names := places(c, "nodes_treeids", "nodes_nodeids")
	features, modes, splits := c.Ints("nodes_featureids"), c.Strings("nodes_modes"), numbersOf(c, "nodes_values")
	yes, no, missing := c.Ints("nodes_truenodeids"), c.Ints("nodes_falsenodeids"),
		c.Ints("nodes_missing_value_tracks_true")
	for _, n := range []int{len(features), len(modes), len(splits), len(yes), len(no)} {
		if n != len(names) {
			c.Fault("lists of %d and %d elements describe the same nodes", n, len(names))
		}
	}
	g := &grove{nodes: make([]treeNode, len(names))}
	at := make(map[treePlace]int64, len(names))
	var leaves []treePlace
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
			child, ok := at[treePlace{name.tree, way.node}]
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

// places pairs two lists of one length.
func places(c *convert.Call, trees, nodes string) []treePlace {
	a, b := c.Ints(trees), c.Ints(nodes)
	if len(a) != len(b) {
		c.Fault("%d %s and %d %s", len(a), trees, len(b), nodes)
	}
	out := make([]treePlace, len(a))
	for i := range a {
		out[i] = treePlace{a[i], b[i]}
	}
	return out
}

// leavesOf enters what each leaf gives.
func leavesOf(c *convert.Call, f *ops.Forest, leaves []treePlace, prefix string, targets int64) {
	names, ids, weights := places(c, prefix+"_treeids", prefix+"_nodeids"), c.Ints(prefix+"_ids"),
		numbersOf(c, prefix+"_weights")
	if len(ids) != len(names) || len(weights) != len(names) {
		c.Fault("%d %s_ids and %d weights for %d nodes", len(ids), prefix, len(weights), len(names))
	}
	gives := make(map[treePlace][]int, len(leaves))
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

// treeAggregates are the spellings of what combines trees; from version 5 on they are the numbers of this list.
var treeAggregates = []string{"AVERAGE", "SUM", "MIN", "MAX"}

var treeAggregateNames = []string{"average", "sum", "min", "max"}

func treeRegressor(c *convert.Call) []*ir.Value {
	how := slices.Index(treeAggregates, c.StringAttribute("aggregate_function", "SUM"))
	targets := c.Int("n_targets", 1)
	if how < 0 || targets < 1 || targets > convert.ExtentLimit {
		c.Fault("%d targets of trees combined by %q", targets, c.StringAttribute("aggregate_function", "SUM"))
	}
	f := numbered(c, "target", targets)
	y := ops.Trees(c.Builder, samples(c, f), f, targets, treeAggregateNames[how], base(c, targets))
	return convert.One(ops.Cast(c.Builder, transformed(c, y, c.StringAttribute("post_transform", "NONE")), dtype.F32))
}

// base is what a target begins with; nil if that is 0.
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

// treeClassifier: where all weights of two classes are for one of them, the other class has what is left: 1 less the
// score if all weights are shares, otherwise its negative.
func treeClassifier(c *convert.Call) []*ir.Value {
	labels := labelsOf(c, "classlabels_int64s")
	classes := max(labels.count, 1)
	f := numbered(c, "class", classes)
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

// treeEnsemble is the operator of version 5, whose children are numbered among all trees.
func treeEnsemble(c *convert.Call) []*ir.Value {
	how, post, targets := c.Int("aggregate_function", 1), c.Int("post_transform", 0), c.Int("n_targets", 1)
	if how < 0 || how >= int64(len(treeAggregates)) || post < 0 || post >= int64(len(transforms)) || targets < 1 ||
		targets > convert.ExtentLimit {
		c.Fault("%d targets of trees, aggregate_function %d and post_transform %d", targets, how, post)
	}
	g := &grove{roots: c.Ints("tree_roots")}
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

// tensorNumbers are the elements of a tensor attribute, which must be present.
func tensorNumbers(c *convert.Call, name string) []float64 {
	t := c.Tensor(name)
	if t == nil || !t.DType().IsFloat() && !t.DType().IsInt() {
		c.Fault("attribute %s, a tensor of numbers, is missing", name)
	}
	return listed(t)
}

func listed(t *tensor.Tensor) []float64 {
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

// members reads the nodes of version 5. One that asks whether a feature is among members becomes a chain of nodes, one
// for each member; the members stand in the order of the nodes that ask for them, each node's before a NaN.
func members(c *convert.Call, g *grove) {
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
			members = g.among(i, n, members)
			continue
		}
		g.nodes[i] = n
	}
}

// among makes a chain of nodes of n, at i, which looks for a feature among the first of the members; it returns the
// members after them. Of no members none is equal to the feature.
func (g *grove) among(i int, n treeNode, members []float64) []float64 {
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
