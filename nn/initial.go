package nn

import (
	"math"
	"math/rand/v2"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Initializer sets a parameter's initial elements. It receives the shape as in PyTorch: [out, in, …].
type Initializer struct {
	fill func(r *rand.Rand, t *weir.Tensor, shape []int) error
}

// Fill is an initialiser in Go: f writes out, the elements in row-major order of the shape, and draws from r.
func Fill(f func(r *rand.Rand, shape []int, out []float32)) Initializer {
	return Initializer{func(r *rand.Rand, t *weir.Tensor, shape []int) error {
		if t.DType() == weir.F32 {
			out, err := weir.View[float32](t)
			if err == nil {
				f(r, shape, out)
			}
			return err
		}
		out := make([]float32, t.Len())
		f(r, shape, out)
		for i, x := range out {
			store(t, int64(i), float64(x))
		}
		return nil
	}}
}

// store sets an element, converted to the tensor's type.
func store(t *weir.Tensor, i int64, x float64) {
	if dt := t.DType(); dt.IsFloat() {
		dtype.StoreFloat(dt, t.Bytes(), i, x)
	} else {
		dtype.StoreInt(dt, t.Bytes(), i, int64(x))
	}
}

// each returns an initialiser that draws the elements one by one.
func each(draw func(shape []int) func(r *rand.Rand) float64) Initializer {
	return Fill(func(r *rand.Rand, shape []int, out []float32) {
		next := draw(shape)
		for i := range out {
			out[i] = float32(next(r))
		}
	})
}

// Constant sets every element to x.
func Constant(x float64) Initializer {
	return Initializer{func(_ *rand.Rand, t *weir.Tensor, _ []int) error {
		if x == 0 {
			clear(t.Bytes())
			return nil
		}
		for i := range t.Len() {
			store(t, int64(i), x)
		}
		return nil
	}}
}

// Zeros sets every element to 0.
func Zeros() Initializer { return Constant(0) }

// Ones sets every element to 1.
func Ones() Initializer { return Constant(1) }

// Elements copies the elements of a tensor, which must have the parameter's type and its shape in files.
func Elements(from *weir.Tensor) Initializer {
	return Initializer{func(_ *rand.Rand, t *weir.Tensor, shape []int) error {
		if from.DType() != t.DType() || from.Len() != t.Len() {
			return diag.Inputf("%v are the elements of a parameter that is %v of shape %v", from, t.DType(), shape)
		}
		copy(t.Bytes(), from.Bytes())
		return nil
	}}
}

// Uniform draws from the uniform distribution between lo and hi.
func Uniform(lo, hi float64) Initializer {
	return each(func([]int) func(r *rand.Rand) float64 {
		return func(r *rand.Rand) float64 { return lo + (hi-lo)*r.Float64() }
	})
}

// Normal draws from the normal distribution.
func Normal(mean, deviation float64) Initializer {
	return each(func([]int) func(r *rand.Rand) float64 {
		return func(r *rand.Rand) float64 { return mean + deviation*r.NormFloat64() }
	})
}

// TruncatedNormal draws from the normal distribution restricted to [lo, hi].
func TruncatedNormal(mean, deviation, lo, hi float64) Initializer {
	if deviation <= 0 || hi < lo || hi < mean-8*deviation || lo > mean+8*deviation {
		return failing(diag.Inputf("a truncated normal distribution of mean %v and deviation %v on %v..%v", mean, deviation,
			lo, hi))
	}
	low, high := cumulative((lo-mean)/deviation), cumulative((hi-mean)/deviation)
	return each(func([]int) func(r *rand.Rand) float64 {
		return func(r *rand.Rand) float64 {
			u := low + (high-low)*r.Float64()
			return min(max(mean+deviation*math.Sqrt2*math.Erfinv(2*u-1), lo), hi)
		}
	})
}

// cumulative returns the standard normal distribution's probability of a value below x.
func cumulative(x float64) float64 { return (1 + math.Erf(x/math.Sqrt2)) / 2 }

// failing returns an initialiser that only returns an error.
func failing(err error) Initializer {
	return Initializer{func(*rand.Rand, *weir.Tensor, []int) error { return err }}
}

// fans returns the fan-in, the number of input elements that one output element depends on, and the fan-out, the number
// of output elements that depend on one input element.
func fans(shape []int) (in, out float64) {
	if len(shape) < 2 {
		n := 1
		if len(shape) == 1 {
			n = shape[0]
		}
		return float64(n), float64(n)
	}
	field := 1
	for _, e := range shape[2:] {
		field *= e
	}
	return float64(shape[1] * field), float64(shape[0] * field)
}

// uniformBy draws uniformly between −b and b, with b computed from the fans.
func uniformBy(bound func(in, out float64) float64) Initializer {
	return each(func(shape []int) func(r *rand.Rand) float64 {
		b := bound(fans(shape))
		return func(r *rand.Rand) float64 { return b * (2*r.Float64() - 1) }
	})
}

// normalBy draws from a normal distribution of mean 0, with its deviation computed from the fans.
func normalBy(deviation func(in, out float64) float64) Initializer {
	return each(func(shape []int) func(r *rand.Rand) float64 {
		d := deviation(fans(shape))
		return func(r *rand.Rand) float64 { return d * r.NormFloat64() }
	})
}

// XavierUniform keeps the variance of values and derivatives through a layer (Glorot and Bengio, 2010).
func XavierUniform(gain float64) Initializer {
	return uniformBy(func(in, out float64) float64 { return gain * math.Sqrt(6/max(in+out, 1)) })
}

// XavierNormal is XavierUniform with a normal distribution.
func XavierNormal(gain float64) Initializer {
	return normalBy(func(in, out float64) float64 { return gain * math.Sqrt(2/max(in+out, 1)) })
}

// KaimingUniform keeps the variance of values through a layer whose activation is a leaky rectifier: slope is its slope
// below zero, 0 for Relu (He and others, 2015).
func KaimingUniform(slope float64) Initializer {
	return uniformBy(func(in, _ float64) float64 { return math.Sqrt(6 / ((1 + slope*slope) * max(in, 1))) })
}

// KaimingNormal is KaimingUniform with a normal distribution.
func KaimingNormal(slope float64) Initializer {
	return normalBy(func(in, _ float64) float64 { return math.Sqrt(2 / ((1 + slope*slope) * max(in, 1))) })
}

// byFan is PyTorch's default for linear and convolution layers: uniform within ±1/√fan-in.
func byFan() Initializer { return KaimingUniform(math.Sqrt(5)) }

// within draws uniformly between −1/√n and 1/√n.
func within(n float64) Initializer {
	b := 1 / math.Sqrt(max(n, 1))
	return Uniform(-b, b)
}

// Orthogonal makes a matrix, of the first axis by all others, whose rows or columns, whichever are fewer, are
// orthogonal and of length gain.
func Orthogonal(gain float64) Initializer {
	return Fill(func(r *rand.Rand, shape []int, out []float32) {
		if len(shape) == 0 || len(out) == 0 {
			return
		}
		rows := shape[0]
		columns := len(out) / rows
		short, long := min(rows, columns), max(rows, columns)
		for i, v := range orthonormal(r, short, long) {
			for k, x := range v {
				if rows <= columns {
					out[i*columns+k] = float32(gain * x)
				} else {
					out[k*columns+i] = float32(gain * x)
				}
			}
		}
	})
}

// orthonormal draws vectors that are orthogonal to each other and of length 1, by the Gram–Schmidt process, applied
// twice to reduce rounding errors.
func orthonormal(r *rand.Rand, count, length int) [][]float64 {
	list := make([][]float64, 0, count)
	for len(list) < count {
		v := make([]float64, length)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		for range 2 {
			for _, w := range list {
				along(v, w, -dot(v, w))
			}
		}
		size := math.Sqrt(dot(v, v))
		if size < 1e-6 {
			continue
		}
		for i := range v {
			v[i] /= size
		}
		list = append(list, v)
	}
	return list
}

// dot returns the inner product.
func dot(v, w []float64) (sum float64) {
	for i, x := range v {
		sum += x * w[i]
	}
	return sum
}

// along adds a multiple of w to v.
func along(v, w []float64, by float64) {
	for i, x := range w {
		v[i] += by * x
	}
}
