package train

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Loss returns one number computed from a network's output and its target; training minimises it. It is called while
// the step is traced. A network with several outputs must end in a layer that combines them into one.
type Loss func(s *array.Scope, out, y *array.Array) *array.Array

// CrossEntropy is the mean cross entropy of logits, whose last axis is the classes. The target is class ids, integers
// without that axis, or distributions, floats of the logits' shape. An id outside of the classes is an error of the
// step.
func CrossEntropy(s *array.Scope, out, y *array.Array) *array.Array {
	return CrossEntropyOf(CrossEntropyOptions{})(s, out, y)
}

// CrossEntropyOptions are settings of a cross entropy.
type CrossEntropyOptions struct {
	Smoothing float64   // the share of the target, from 0 to 1, that is distributed evenly over all classes
	Weights   []float32 // by class; nil: all 1
	// Ignore is a class id whose examples are excluded, if HasIgnore is true.
	Ignore    int
	HasIgnore bool
}

// CrossEntropyOf returns CrossEntropy with settings.
func CrossEntropyOf(o CrossEntropyOptions) Loss {
	return func(s *array.Scope, out, y *array.Array) *array.Array {
		if s.Err() != nil || !fits(s, "cross entropy", out, y, o) {
			return out
		}
		log := s.LogSoftmax(out, -1)
		if y.DType().IsFloat() {
			return o.ofDistributions(s, log, y)
		}
		return o.ofIDs(s, log, y)
	}
}

// fits reports whether logits, targets and options match; it gives the scope an error otherwise.
func fits(s *array.Scope, name string, out, y *array.Array, o CrossEntropyOptions) bool {
	n := out.Rank() - 1
	switch {
	case n < 0 || !out.DType().IsFloat():
		refuse(s, "%s of %v: logits are floats, the last axis their classes", name, out)
	case y.DType().IsFloat() && y.Rank() != n+1:
		refuse(s, "%s of %v by %v: distributions have the logits' shape", name, out, y)
	case !y.DType().IsFloat() && (!y.DType().IsInt() || y.Rank() != n):
		refuse(s, "%s of %v by %v: class ids are integers of the logits' shape without the last axis", name, out, y)
	case o.Weights != nil && len(o.Weights) != out.Dim(-1):
		refuse(s, "%s of %v: there are %d weights", name, out, len(o.Weights))
	default:
		return sameExtents(s, name, out, y, min(n+1, y.Rank()))
	}
	return false
}

// sameExtents reports whether the first axes of two arrays have equal extents; it gives the scope an error otherwise.
func sameExtents(s *array.Scope, name string, out, y *array.Array, axes int) bool {
	for i := range axes {
		if out.Dim(i) != y.Dim(i) {
			refuse(s, "%s of %v by %v: axis %d differs", name, out, y, i)
			return false
		}
	}
	return true
}

// refuse gives a scope an error.
func refuse(s *array.Scope, format string, args ...any) { s.Fail(diag.Inputf(format, args...)) }

// weights returns the classes' weights, of rank 1; nil if all are 1.
func (o *CrossEntropyOptions) weights(s *array.Scope) *array.Array {
	if o.Weights == nil {
		return nil
	}
	return array.From(s, o.Weights)
}

// ofIDs returns the mean over class ids, weighted by class.
func (o *CrossEntropyOptions) ofIDs(s *array.Scope, log, y *array.Array) *array.Array {
	y = s.Cast(y, weir.I64)
	var counts *array.Array
	if o.HasIgnore {
		counts = s.NotEqual(y, array.Scalar(s, int64(o.Ignore)))
		y = s.Where(counts, y, array.Scalar(s, int64(0)))
	}
	hot := oneHot(s, y, log.Dim(-1))
	w := o.weights(s)
	if w != nil {
		log = s.Mul(log, w)
	}
	each := s.Sum(s.Where(hot, log, s.Number(0)), -1)
	if o.Smoothing > 0 {
		spread := s.Mul(s.Sum(log, -1), o.share(s, log))
		each = s.Add(s.Mul(each, s.Number(1-o.Smoothing)), spread)
	}
	if w == nil && !o.HasIgnore {
		return s.Neg(s.Mean(each))
	}
	weight := s.Ones(weir.F32, y.Shape()...)
	if w != nil {
		weight = s.Sum(s.Where(hot, w, s.Number(0)), -1)
	}
	if o.HasIgnore {
		each, weight = s.Where(counts, each, s.Number(0)), s.Where(counts, weight, s.Number(0))
	}
	return s.Neg(s.Div(s.Sum(each), s.Sum(weight)))
}

// ofDistributions returns the mean over target distributions.
func (o *CrossEntropyOptions) ofDistributions(s *array.Scope, log, y *array.Array) *array.Array {
	y = s.Cast(y, log.DType())
	if o.Smoothing > 0 {
		y = s.Add(s.Mul(y, s.Number(1-o.Smoothing)), o.share(s, log))
	}
	if w := o.weights(s); w != nil {
		log = s.Mul(log, w)
	}
	return s.Neg(s.Mean(s.Sum(s.Mul(log, y), -1)))
}

// share returns the probability that smoothing adds to each class.
func (o *CrossEntropyOptions) share(s *array.Scope, log *array.Array) *array.Array {
	if n := log.Dim(-1); n >= 0 {
		return s.Number(o.Smoothing / float64(n))
	}
	return s.Div(s.Number(o.Smoothing), s.Cast(extent(s, log.Dim(-1)), log.DType()))
}

// extent returns an extent as an i64; n may be a named extent.
func extent(s *array.Scope, n int) *array.Array {
	if n >= 0 {
		return array.Scalar(s, int64(n))
	}
	return s.Sum(s.Ones(weir.I64, n))
}

// oneHot compares ids, of i64, with each class, along a new last axis. An id outside of the classes is an error when
// the program runs, because a Take from the classes checks it.
func oneHot(s *array.Scope, ids *array.Array, classes int) *array.Array {
	if classes == 0 {
		refuse(s, "there are no classes: the last axis of the logits is empty")
		return s.Dead()
	}
	var list *array.Array
	if classes < 0 {
		list = s.Iota(weir.I64, classes)
	} else {
		numbers := make([]int64, classes)
		for i := range numbers {
			numbers[i] = int64(i)
		}
		list = array.From(s, numbers)
	}
	// Take counts negative indices from the end. Subtracting the extent makes them invalid, and the error names the id.
	ids = s.Where(s.Less(ids, array.Scalar(s, int64(0))), s.Sub(ids, extent(s, classes)), ids)
	before := s.At("class ids")
	ids = s.Take(list, ids, 0)
	s.At(before)
	return s.Equal(s.Reshape(ids, append(ids.Shape(), 1)...), list)
}

// NLL is the mean negative log likelihood of class ids. The network's outputs are log probabilities.
func NLL(s *array.Scope, out, y *array.Array) *array.Array {
	var o CrossEntropyOptions
	if s.Err() != nil || !fits(s, "NLL", out, y, o) {
		return out
	}
	return o.ofIDs(s, out, y)
}

// pairs returns a loss: the mean of f over the elements of an output and a target of the same shape. Errors contain
// name.
func pairs(name string, f func(s *array.Scope, out, y *array.Array) *array.Array) Loss {
	return func(s *array.Scope, out, y *array.Array) *array.Array {
		switch {
		case s.Err() != nil:
			return out
		case out.Rank() != y.Rank():
			s.Fail(differ(name, out, y))
			return out
		case !sameExtents(s, name, out, y, out.Rank()):
			return out
		}
		return s.Mean(f(s, out, s.Cast(y, out.DType())))
	}
}

// differ returns the error that an output and a target have different shapes. If only one of them has a last axis of
// extent 1, it says how to add or remove the axis.
func differ(name string, out, y *array.Array) error {
	e := diag.Inputf("%s of %v by %v: their shapes differ", name, out, y)
	switch {
	case out.Rank() == y.Rank()+1 && out.Dim(-1) == 1:
		return e.WithFix("give the target such an axis too, as train.Column(y, 1) does")
	case y.Rank() == out.Rank()+1 && y.Dim(-1) == 1:
		return e.WithFix("give the target without that axis, as train.Column(y) does")
	}
	return e
}

// MSE is the mean of squared differences.
func MSE(s *array.Scope, out, y *array.Array) *array.Array {
	return pairs("MSE", func(s *array.Scope, out, y *array.Array) *array.Array {
		d := s.Sub(out, y)
		return s.Mul(d, d)
	})(s, out, y)
}

// L1 is the mean of absolute differences.
func L1(s *array.Scope, out, y *array.Array) *array.Array {
	return pairs("L1", func(s *array.Scope, out, y *array.Array) *array.Array { return s.Abs(s.Sub(out, y)) })(s, out, y)
}

// Huber is the mean of a function of the differences: half the square up to delta, and linear beyond.
func Huber(delta float64) Loss {
	return pairs("Huber", func(s *array.Scope, out, y *array.Array) *array.Array {
		d := s.Abs(s.Sub(out, y))
		square := s.Mul(s.Mul(d, d), s.Number(0.5))
		line := s.Mul(s.Sub(d, s.Number(delta/2)), s.Number(delta))
		return s.Where(s.Less(d, s.Number(delta)), square, line)
	})
}

// BCE is the mean binary cross entropy of probabilities, with logarithms limited to at least −100. Its derivative is
// finite for probabilities of 0 and 1 too: it is computed with p·(1−p) limited to at least 10⁻¹².
func BCE(s *array.Scope, out, y *array.Array) *array.Array {
	return pairs("BCE", func(s *array.Scope, out, y *array.Array) *array.Array {
		return array.Custom(entropies, func(s *array.Scope, in, _, up []*array.Array) []*array.Array {
			p, y := in[0], in[1]
			no := s.Sub(s.Number(1), p)
			spread := s.Maximum(s.Mul(p, no), s.Number(1e-12))
			floor := s.Number(-100)
			byTarget := s.Sub(s.Maximum(s.Log(no), floor), s.Maximum(s.Log(p), floor))
			return []*array.Array{s.Mul(up[0], s.Div(s.Sub(p, y), spread)), s.Mul(up[0], byTarget)}
		})(s, out, y)[0]
	})(s, out, y)
}

// entropies returns the binary cross entropies of probabilities.
func entropies(s *array.Scope, in ...*array.Array) []*array.Array {
	out, y, floor := in[0], in[1], s.Number(-100)
	yes := s.Maximum(s.Log(out), floor)
	no := s.Maximum(s.Log(s.Sub(s.Number(1), out)), floor)
	return []*array.Array{s.Neg(s.Add(s.Mul(y, yes), s.Mul(s.Sub(s.Number(1), y), no)))}
}

// BCEWithLogits is the mean binary cross entropy of probabilities, given as logits.
func BCEWithLogits(s *array.Scope, out, y *array.Array) *array.Array {
	return pairs("BCE", func(s *array.Scope, out, y *array.Array) *array.Array {
		return s.Sub(s.Softplus(out), s.Mul(out, y)) // avoids the exponential of a large number
	})(s, out, y)
}

// KL is the Kullback–Leibler divergence of target distributions from the network's, given as log probabilities: the sum
// along the last axis, averaged over the others.
func KL(s *array.Scope, out, y *array.Array) *array.Array {
	if out.Rank() == 0 {
		refuse(s, "KL of %v: its last axis are the classes", out)
		return out
	}
	each := pairs("KL", func(s *array.Scope, out, y *array.Array) *array.Array {
		positive := s.Greater(y, s.Number(0))
		log := s.Log(s.Where(positive, y, s.Number(1)))
		return s.Mul(y, s.Sub(log, out))
	})(s, out, y)
	if n := out.Dim(-1); n >= 0 {
		return s.Mul(each, s.Number(float64(n)))
	}
	return s.Mul(each, s.Cast(extent(s, out.Dim(-1)), out.DType()))
}

// Hinge is the mean of max(0, margin − y·out), for targets of −1 and 1.
func Hinge(margin float64) Loss {
	return pairs("hinge", func(s *array.Scope, out, y *array.Array) *array.Array {
		return s.Relu(s.Sub(s.Number(margin), s.Mul(out, y)))
	})
}

// CosineDistance is the mean of 1 − cos(output, target), with vectors along the last axis.
func CosineDistance(s *array.Scope, out, y *array.Array) *array.Array {
	if s.Err() != nil || out.Rank() != y.Rank() || !sameExtents(s, "cosine", out, y, out.Rank()) {
		if s.Err() == nil {
			s.Fail(differ("cosine", out, y))
		}
		return out
	}
	y = s.Cast(y, out.DType())
	dot := s.Sum(s.Mul(out, y), -1)
	sizes := s.Mul(s.Sum(s.Mul(out, out), -1), s.Sum(s.Mul(y, y), -1))
	return s.Mean(s.Sub(s.Number(1), s.Div(dot, s.Sqrt(s.Maximum(sizes, s.Number(1e-16))))))
}

// Triplet is the mean of max(0, |a − p| − |a − n| + margin). The network's output is [batch, 3, features]: along axis 1
// the anchor a, the positive p and the negative n. The target is not read.
func Triplet(margin float64) Loss {
	return func(s *array.Scope, out, _ *array.Array) *array.Array {
		if s.Err() != nil {
			return out
		}
		if out.Rank() != 3 || out.Dim(1) != 3 {
			refuse(s, "triplet of %v: it takes [batch, 3, features]", out)
			return out
		}
		// Differences of neighbours are products with a constant matrix: a − p, and a − n.
		d := s.MatMul(array.From(s, []float32{1, -1, 0, 1, 0, -1}, 2, 3), out)
		d = s.Add(d, s.Number(1e-6))
		distance := s.Sqrt(s.Sum(s.Mul(d, d), -1))
		signed := s.Sum(s.Mul(distance, array.From(s, []float32{1, -1})), -1)
		return s.Mean(s.Relu(s.Add(signed, s.Number(margin))))
	}
}
