package ml

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// vectors are support vectors and the kernel that compares the samples with them; rows has count vectors of equal
// length.
type vectors struct {
	kernel         string
	gamma, c0, pow float64
	rows           []float64
	count          int64
}

// vectorsOf reads the kernel and count support vectors from the attributes.
func vectorsOf(c *convert.Call, count int64) vectors {
	v := vectors{kernel: c.StringAttribute("kernel_type", "LINEAR"), rows: c.Floats("support_vectors"), count: count}
	if p := c.Floats("kernel_params"); len(p) > 0 {
		if len(p) != 3 {
			c.Fault("%d kernel_params, there must be 3", len(p))
		}
		v.gamma, v.c0, v.pow = p[0], p[1], p[2]
	}
	if count < 0 || count > 0 && int64(len(v.rows))%count != 0 {
		c.Fault("%d numbers for %d support vectors", len(v.rows), count)
	}
	return v
}

// compared returns the kernel of each sample and each support vector, f64[rows, count].
func compared(c *convert.Call, v vectors) *ir.Value {
	b, wide := c.Builder, dtype.F64
	x := ops.Cast(b, matrix(c), wide)
	width := int64(len(v.rows)) / v.count
	c.Condition(sym.Cond{A: x.Type.Shape[1], Rel: sym.EQ, B: sym.Const(width)},
		"as many features as the support vectors have")
	rows, err := tensor.New(wide, v.count, width)
	if err != nil {
		c.Fail(err)
	}
	squares := make([]float64, v.count)
	for i, e := range v.rows {
		rows.SetFloat(int64(i), e)
		squares[int64(i)/width] += e * e
	}
	dot := ops.MatMul(b, x, b.Constant("vectors", rows), false, true)
	scaled := func() *ir.Value {
		return ops.Binary(b, ops.Add, ops.Binary(b, ops.Mul, dot, c.Scalar(wide, v.gamma)), c.Scalar(wide, v.c0))
	}
	switch v.kernel {
	case "LINEAR":
		return dot
	case "POLY":
		return ops.Binary(b, ops.Pow, scaled(), c.Scalar(wide, v.pow))
	case "SIGMOID":
		return ops.Unary(b, ops.Tanh, scaled())
	case "RBF":
		own := ops.ReduceSum(b, ops.Binary(b, ops.Mul, x, x), true, 1)
		squaredDistance := ops.Binary(b, ops.Sub, ops.Binary(b, ops.Add, own, reals(c, wide, squares)),
			ops.Binary(b, ops.Mul, dot, c.Scalar(wide, 2)))
		return ops.Unary(b, ops.Exp, ops.Binary(b, ops.Mul, squaredDistance, c.Scalar(wide, -v.gamma)))
	}
	c.Fault("kernel_type is %q", v.kernel)
	return nil
}

// affine returns x times a matrix of weights, [len(weights)/columns, columns], plus a shift for each column.
func affine(c *convert.Call, x *ir.Value, weights []float64, shifts []float64) *ir.Value {
	b, columns := c.Builder, int64(len(shifts))
	matrix := ops.Reshape(b, reals(c, dtype.F64, weights), sym.Const(int64(len(weights))/columns), sym.Const(columns))
	return ops.Binary(b, ops.Add, ops.MatMul(b, x, matrix, false, false), reals(c, dtype.F64, shifts))
}

// vectorRegressor converts SVMRegressor: it weighs the kernels, or the features if there are no support vectors.
func vectorRegressor(c *convert.Call) []*ir.Value {
	b, count, weights, shift := c.Builder, c.Int("n_supports", 0), c.Floats("coefficients"), c.Floats("rho")
	if len(weights) == 0 || len(shift) != 1 || count > 0 && int64(len(weights)) != count {
		c.Fault("%d coefficients and %d rho for %d support vectors", len(weights), len(shift), count)
	}
	var y *ir.Value
	if v := vectorsOf(c, count); count > 0 && len(v.rows) > 0 {
		y = affine(c, compared(c, v), weights, shift)
	} else {
		y = affine(c, features(c, int64(len(weights))), weights, shift)
	}
	if c.Int("one_class", 0) != 0 {
		inside := ops.Binary(b, ops.Gt, y, c.Scalar(dtype.F64, 0))
		y = ops.Where(b, inside, c.Scalar(dtype.F64, 1), c.Scalar(dtype.F64, -1))
	}
	return convert.One(ops.Cast(b, transformed(c, y, c.StringAttribute("post_transform", "NONE")), dtype.F32))
}

// features returns the samples as f64, and requires width features.
func features(c *convert.Call, width int64) *ir.Value {
	x := ops.Cast(c.Builder, matrix(c), dtype.F64)
	c.Condition(sym.Cond{A: x.Type.Shape[1], Rel: sym.EQ, B: sym.Const(width)}, "as many coefficients as features")
	return x
}

// vectorClassifier converts SVMClassifier: every two classes compete, and the class with the most wins is the label.
// The scores are those of the competitions, or probabilities if the file has prob_a. If there are no support vectors,
// each class has coefficients for the features.
func vectorClassifier(c *convert.Call) []*ir.Value {
	b, labels, post := c.Builder, labelsOf(c, "classlabels_ints"), c.StringAttribute("post_transform", "NONE")
	weights, shifts, counts := c.Floats("coefficients"), c.Floats("rho"), c.Ints("vectors_per_class")
	total := int64(0)
	for _, n := range counts {
		if n < 0 || n > int64(len(weights)) {
			c.Fault("a class of %d support vectors, with %d coefficients", n, len(weights))
		}
		total += n
	}
	classes := max(labels.count, 1)
	if total == 0 {
		if len(weights) == 0 || int64(len(weights))%classes != 0 || len(shifts) == 0 {
			c.Fault("%d coefficients and %d rho for %d classes", len(weights), len(shifts), classes)
		}
		return vectorless(c, labels, weights, shifts, post)
	}
	pairs := classes * (classes - 1) / 2
	if classes < 2 || int64(len(counts)) != classes || int64(len(weights)) != (classes-1)*total ||
		int64(len(shifts)) != pairs {
		c.Fault("%d coefficients and %d rho for %d support vectors of %d classes", len(weights), len(shifts), total, classes)
	}
	v := vectorsOf(c, total)
	if len(v.rows) == 0 {
		c.Fault("there are no support vectors")
	}
	table, wins := competitions(counts, weights, total)
	scores := affine(c, compared(c, v), table, shifts)
	// Each competition is a vote for its first class or its second.
	won := ops.Cast(b, ops.Binary(b, ops.Gt, scores, c.Scalar(dtype.F64, 0)), dtype.F64)
	votes := affine(c, won, wins, losses(wins, classes))
	label := labelled(c, ops.ArgMax(b, votes, 1, false, false, false), labels)
	switch {
	case c.Has("prob_a"):
		scores = pairwiseProbabilities(c, scores, classes)
	case classes == 2:
		scores = twoClasses(c, scores, false, post)
	}
	return []*ir.Value{label, ops.Cast(b, transformed(c, scores, post), dtype.F32)}
}

// competitions returns two matrices: the weight of each vector in each competition of two classes, [total, pairs]; and
// for each competition 1 for its first class and −1 for its second, [pairs, classes], by which the votes change if the
// first class wins rather than the second. In the file weights[k, v] is the weight of vector v against the k-th of the
// other classes.
func competitions(counts []int64, weights []float64, total int64) (table, wins []float64) {
	classes := int64(len(counts))
	begins := make([]int64, classes+1)
	for i, n := range counts {
		begins[i+1] = begins[i] + n
	}
	pairs := classes * (classes - 1) / 2
	table, wins = make([]float64, total*pairs), make([]float64, pairs*classes)
	pair := int64(0)
	for i := range classes {
		for j := i + 1; j < classes; j++ {
			for v := begins[i]; v < begins[i+1]; v++ {
				table[v*pairs+pair] = weights[(j-1)*total+v]
			}
			for v := begins[j]; v < begins[j+1]; v++ {
				table[v*pairs+pair] = weights[i*total+v]
			}
			wins[pair*classes+i], wins[pair*classes+j] = 1, -1
			pair++
		}
	}
	return table, wins
}

// losses returns the votes of each class if the second class wins every competition.
func losses(wins []float64, classes int64) []float64 {
	out := make([]float64, classes)
	for i, w := range wins {
		if w < 0 {
			out[int64(i)%classes]++
		}
	}
	return out
}

// pairwiseProbabilities returns the probabilities of the classes from the scores of competitions: prob_a and prob_b
// turn each score into the probability that the first class wins.
func pairwiseProbabilities(c *convert.Call, scores *ir.Value, classes int64) *ir.Value {
	b, wide := c.Builder, dtype.F64
	slopes, shifts := c.Floats("prob_a"), c.Floats("prob_b")
	if pairs := classes * (classes - 1) / 2; int64(len(slopes)) != pairs || int64(len(shifts)) != pairs {
		c.Fault("%d prob_a and %d prob_b for %d classes", len(slopes), len(shifts), classes)
	}
	for i := range slopes {
		slopes[i], shifts[i] = -slopes[i], -shifts[i]
	}
	p := ops.Unary(b, ops.Sigmoid, ops.Binary(b, ops.Add, ops.Binary(b, ops.Mul, scores, reals(c, wide, slopes)),
		reals(c, wide, shifts)))
	const least = 1e-7
	p = ops.Binary(b, ops.Min, ops.Binary(b, ops.Max, p, c.Scalar(wide, least)), c.Scalar(wide, 1-least))
	return ops.Couple(b, p, classes)
}

// vectorless scores each class by coefficients of its own for the features.
func vectorless(c *convert.Call, labels classLabels, weights, shifts []float64, post string) []*ir.Value {
	classes := max(labels.count, 1)
	width := int64(len(weights)) / classes
	columns, all := make([]float64, len(weights)), make([]float64, classes)
	for i, w := range weights {
		columns[int64(i)%width*classes+int64(i)/width] = w
	}
	for i := range all {
		all[i] = shifts[0]
	}
	scores := affine(c, features(c, width), columns, all)
	return classified(c, scores, labels, post)
}
