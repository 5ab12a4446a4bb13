package train

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Loss computes one number from what a network gives and what it should have given; the smaller, the better. It runs in
// a trace. A network with several outputs ends in a layer that makes one of them.
type Loss func(s *array.Scope, out, y *array.Array) *array.Array

// CrossEntropy is the mean cross entropy of logits, whose classes are the last axis. The target is class ids, integers
// without that axis, or distributions, floats of the logits' shape. An id that is no class is an error of the step.
func CrossEntropy(s *array.Scope, out, y *array.Array) *array.Array {
	return CrossEntropyOf(CrossEntropyOptions{})(s, out, y)
}

// CrossEntropyOptions are settings of a cross entropy.
type CrossEntropyOptions struct {
	Smoothing float64   // the share of the target that is spread over all classes
	Weights   []float32 // of the classes; nil: all 1
	// Ignore is a class id that counts for nothing, if HasIgnore says so.
	Ignore    int
	HasIgnore bool
}

// CrossEntropyOf is a cross entropy with settings.
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

// fits checks the shapes of logits and targets.
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

// sameExtents checks the first axes of two arrays, of which they have that many.
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

// weights are the classes' weights, of rank 1; nil if all are 1.
func (o *CrossEntropyOptions) weights(s *array.Scope) *array.Array {
	if o.Weights == nil {
		return nil
	}
	return array.From(s, o.Weights)
}

// ofIDs is the mean over ids, weighted by their classes.
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

// share is what smoothing gives to each class.
func (o *CrossEntropyOptions) share(s *array.Scope, log *array.Array) *array.Array {
	if n := log.Dim(-1); n >= 0 {
		return s.Number(o.Smoothing / float64(n))
	}
	return s.Div(s.Number(o.Smoothing), s.Cast(extent(s, log.Dim(-1)), log.DType()))
}

// extent is an extent as an array of i64, whether it is named or not.
func extent(s *array.Scope, n int) *array.Array {
	if n >= 0 {
		return array.Scalar(s, int64(n))
	}
	return s.Sum(s.Ones(weir.I64, n))
}

// oneHot compares ids, of i64, with each class, along a new last axis. An id that is no class is an error when this is
// run: a take from the classes checks it.
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
	// A take counts negative indices from the end: here they are moved to before the first, and the error names the id.
	ids = s.Where(s.Less(ids, array.Scalar(s, int64(0))), s.Sub(ids, extent(s, classes)), ids)
	before := s.At("class ids")
	ids = s.Take(list, ids, 0)
	s.At(before)
	return s.Equal(s.Reshape(ids, append(ids.Shape(), 1)...), list)
}

// NLL is the mean of the negative log likelihoods, which the network gives as logarithms, of class ids.
func NLL(s *array.Scope, out, y *array.Array) *array.Array {
	var o CrossEntropyOptions
	if s.Err() != nil || !fits(s, "NLL", out, y, o) {
		return out
	}
	return o.ofIDs(s, out, y)
}

// pairs is the mean of a function of an output's and a target's elements, of one shape.
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

// differ is the error of an output and a target with other axes: mostly it is an axis of one element that one of them
// has.
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

// Huber is half the square of differences up to delta, and grows on a straight line beyond.
func Huber(delta float64) Loss {
	return pairs("Huber", func(s *array.Scope, out, y *array.Array) *array.Array {
		d := s.Abs(s.Sub(out, y))
		square := s.Mul(s.Mul(d, d), s.Number(0.5))
		line := s.Mul(s.Sub(d, s.Number(delta/2)), s.Number(delta))
		return s.Where(s.Less(d, s.Number(delta)), square, line)
	})
}

// BCE is the mean cross entropy of probabilities; their logarithms are −100 at least. The derivative is finite for
// probabilities of 0 and 1 too, where that of a logarithm is not: a product p·(1−p) below 10⁻¹² counts as that.
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

// entropies are the cross entropies of probabilities.
func entropies(s *array.Scope, in ...*array.Array) []*array.Array {
	out, y, floor := in[0], in[1], s.Number(-100)
	yes := s.Maximum(s.Log(out), floor)
	no := s.Maximum(s.Log(s.Sub(s.Number(1), out)), floor)
	return []*array.Array{s.Neg(s.Add(s.Mul(y, yes), s.Mul(s.Sub(s.Number(1), y), no)))}
}

// BCEWithLogits is the mean cross entropy of probabilities whose logits the network gives.
func BCEWithLogits(s *array.Scope, out, y *array.Array) *array.Array {
	return pairs("BCE", func(s *array.Scope, out, y *array.Array) *array.Array {
		return s.Sub(s.Softplus(out), s.Mul(out, y)) // no exponential of something large
	})(s, out, y)
}

// KL is the Kullback-Leibler divergence of distributions from those whose logarithms the network gives: the sum along
// the last axis, and the mean over the others.
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

// CosineDistance is the mean of 1 − the cosine between outputs and targets along the last axis.
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

// Triplet is the mean of max(0, |a − p| − |a − n| + margin): a network gives anchors a, positives p and negatives n
// beside each other along axis 1, of extent 3. The target is not read.
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
