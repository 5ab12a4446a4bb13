package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator trees.
func init() {
	define(&Def{Op: "trees", NoGrad: "constant between the values at which trees branch", Shape: treesShape,
		Mean: hostMean("trees"), Host: "trees", Samples: treesSamples})
}

// Forest is decision trees in tables. A root or child of at least 0 is the index of a node, which follows its parent; a
// negative one is the complement (^) of the index of a leaf.
type Forest struct {
	Roots    []int32
	Features []int32   // of each node: the index of the feature that it compares
	Modes    []uint8   // of each node: the comparison, see TreeModes
	Splits   []float64 // of each node: the number that the feature is compared with
	Children []int32   // of each node, two: where to go if the comparison holds, and if not
	Begins   []int32   // of each leaf: the index of its first target; then the end of the last leaf's
	Targets  []int32
	Weights  []float64 // of each target: the leaf's weight for it
}

// Trees sends each row of x[N, F], f32 or f64, down every tree: [N, targets], the sum, average, min or max (the
// aggregate) of the leaves' weights, plus base if it is not nil. A target without weights is 0. Comparisons and sums
// are in x's type, with the trees in their order, since rounding decides whether a vote is a tie.
func Trees(b *ir.Builder, x *ir.Value, f *Forest, targets int64, aggregate string, base []float64) *ir.Value {
	names := []string{"roots", "nodes", "leaves", "targets", "weights", "base"}
	in := []*ir.Value{x}
	for i, table := range forestTables(x.Type.DType, f, targets, base) {
		in = append(in, b.Constant(names[i], table))
	}
	return b.Op("trees", ir.Attrs{"targets": targets, "aggregate": aggregate}, in...)
}

// forestTables returns the operands of the operator after the samples, whose type is dt.
func forestTables(dt dtype.DType, f *Forest, targets int64, base []float64) []*tensor.Tensor {
	p := packForest(dt, f)
	words := hostop.TreeNodeWords(dt.Size())
	begins, to := f.Begins, f.Targets
	if f.dense(targets) {
		begins, to = nil, nil
	}
	tables := []*tensor.Tensor{int32Tensor(p.roots), int32Tensor(p.words, int64(len(p.words))/words, words),
		int32Tensor(begins),
		int32Tensor(to), realTensor(dt, f.Weights)}
	if base != nil {
		tables = append(tables, realTensor(dt, base))
	}
	return tables
}

// int32Tensor returns a tensor of x; without a shape, a vector.
func int32Tensor(x []int32, shape ...int64) *tensor.Tensor {
	if shape == nil {
		shape = []int64{int64(len(x))}
	}
	return tensor.Must(tensor.FromSlice(x, shape...))
}

// dense reports whether each leaf has one weight for every target, in order.
func (f *Forest) dense(targets int64) bool {
	if targets == 0 || int64(len(f.Targets)) != targets*int64(len(f.Begins)-1) {
		return false
	}
	for i, to := range f.Targets {
		if int64(to) != int64(i)%targets {
			return false
		}
	}
	for i, begin := range f.Begins {
		if int64(begin) != int64(i)*targets {
			return false
		}
	}
	return true
}

// realTensor returns a tensor of x, rounded to type dt; without a shape, a vector.
func realTensor(dt dtype.DType, x []float64, shape ...int64) *tensor.Tensor {
	if shape == nil {
		shape = []int64{int64(len(x))}
	}
	t := tensor.Must(tensor.New(dt, shape...))
	for i, v := range x {
		t.SetFloat(int64(i), v)
	}
	return t
}

// treesShape checks the types of the tables. Their contents are constants that Trees makes.
func treesShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 6, 7); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	types := []dtype.DType{x.DType, dtype.I32, dtype.I32, dtype.I32, dtype.I32, x.DType, x.DType}
	for i, v := range n.Inputs {
		rank := 1
		if i == 0 || i == 2 {
			rank = 2
		}
		if v != nil && (v.Type.DType != types[i] || len(v.Type.Shape) != rank) || v == nil && i < 6 {
			return fault(n, "input %d of trees is %s", i, v.Type)
		}
	}
	targets := n.Attrs.Int("targets", 0)
	if x.DType != dtype.F32 && x.DType != dtype.F64 || targets < 0 {
		return fault(n, "trees for %s with %d targets", x, targets)
	}
	if err := c.RequireEqual(n, n.Inputs[2].Type.Shape[1], sym.Const(hostop.TreeNodeWords(x.DType.Size())),
		"the words of a node"); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: []sym.Expr{x.Shape[0], sym.Const(targets)}})
	return nil
}

// sampleForest grows trees of a few nodes at random over the features, with leaves that have one or two targets.
func sampleForest(r *rand.Rand, roots, features, targets int) *Forest {
	f := &Forest{Begins: []int32{0}}
	leaf := func() int32 {
		for range 1 + r.Intn(2) {
			f.Targets, f.Weights = append(f.Targets, int32(r.Intn(targets))), append(f.Weights, r.NormFloat64())
		}
		f.Begins = append(f.Begins, int32(len(f.Targets)))
		return ^int32(len(f.Begins) - 2)
	}
	var grow func(depth int) int32
	grow = func(depth int) int32 {
		if depth == 0 || r.Intn(5) == 0 {
			return leaf()
		}
		at := int32(len(f.Features))
		f.Features = append(f.Features, int32(r.Intn(features)))
		f.Modes = append(f.Modes, uint8(r.Intn(6))+uint8(r.Intn(2))*TreeMissing)
		f.Splits = append(f.Splits, math.Round(2*r.NormFloat64())/2)
		f.Children = append(f.Children, 0, 0)
		yes, no := grow(depth-1), grow(depth-1)
		f.Children[2*at], f.Children[2*at+1] = yes, no
		return at
	}
	for range roots {
		f.Roots = append(f.Roots, grow(4))
	}
	return f
}

// treesSamples covers each aggregate in both types, with and without a base, with features equal to a split.
func treesSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, aggregate := range []string{"sum", "average", "min", "max"} {
		for j, dt := range []dtype.DType{dtype.F32, dtype.F64} {
			f := sampleForest(r, 1+4*i, 3, 4)
			x := sampleFloats(r, dt, int64(4*(i+j)), 3)
			for k := range x.Len() {
				x.SetFloat(k, math.Round(2*x.Float(k))/2) // some are equal to a split
			}
			var base []float64
			if i%2 == 0 {
				base = []float64{0.5, -1, 0, 3}
			}
			in := append([]*tensor.Tensor{x}, forestTables(dt, f, 4, base)...)
			out = append(out, Sample{Attrs: ir.Attrs{"targets": int64(4), "aggregate": aggregate}, Inputs: in,
				Constant: []int{1, 2, 3, 4, 5, 6}})
		}
	}
	return out
}
