package nn

import (
	"math"
	"math/rand/v2"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Initializer gives a parameter its first elements. It is told the shape as PyTorch has it: [out, in, …].
type Initializer struct {
	fill func(r *rand.Rand, t *weir.Tensor, shape []int) error
}

// Fill is an initialiser in Go: it writes out, the elements in row-major order of the shape, and draws from r.
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

// store writes an element.
func store(t *weir.Tensor, i int64, x float64) {
	if dt := t.DType(); dt.IsFloat() {
		dtype.StoreFloat(dt, t.Bytes(), i, x)
	} else {
		dtype.StoreInt(dt, t.Bytes(), i, int64(x))
	}
}

// each is an initialiser whose elements are drawn one by one.
func each(draw func(shape []int) func(r *rand.Rand) float64) Initializer {
	return Fill(func(r *rand.Rand, shape []int, out []float32) {
		next := draw(shape)
		for i := range out {
			out[i] = float32(next(r))
		}
	})
}

// Constant gives every element a value.
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

// Zeros gives zeros.
func Zeros() Initializer { return Constant(0) }

// Ones gives ones.
func Ones() Initializer { return Constant(1) }

// Elements gives the elements of a tensor, which must have the parameter's type and, as files have it, shape.
func Elements(from *weir.Tensor) Initializer {
	return Initializer{func(_ *rand.Rand, t *weir.Tensor, shape []int) error {
		if from.DType() != t.DType() || from.Len() != t.Len() {
			return diag.Inputf("%v are the elements of a parameter that is %v of shape %v", from, t.DType(), shape)
		}
		copy(t.Bytes(), from.Bytes())
		return nil
	}}
}

// Uniform draws from lo to hi.
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

// TruncatedNormal draws from the normal distribution, and again what lies outside of lo..hi.
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

// cumulative is the share of the normal distribution below x.
func cumulative(x float64) float64 { return (1 + math.Erf(x/math.Sqrt2)) / 2 }

func failing(err error) Initializer {
	return Initializer{func(*rand.Rand, *weir.Tensor, []int) error { return err }}
}

// fans are how many elements of the input one of the output depends on, and the other way round.
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

// uniformBy draws from −b to b, where b comes from the fans.
func uniformBy(bound func(in, out float64) float64) Initializer {
	return each(func(shape []int) func(r *rand.Rand) float64 {
		b := bound(fans(shape))
		return func(r *rand.Rand) float64 { return b * (2*r.Float64() - 1) }
	})
}

// normalBy draws from a normal distribution whose deviation comes from the fans.
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

// KaimingUniform keeps the variance of values through a layer whose activation is a rectifier with this slope below
// zero (He and others, 2015): 0 for Relu.
func KaimingUniform(slope float64) Initializer {
	return uniformBy(func(in, _ float64) float64 { return math.Sqrt(6 / ((1 + slope*slope) * max(in, 1))) })
}

// KaimingNormal is KaimingUniform with a normal distribution.
func KaimingNormal(slope float64) Initializer {
	return normalBy(func(in, _ float64) float64 { return math.Sqrt(2 / ((1 + slope*slope) * max(in, 1))) })
}

// byFan is what PyTorch's linear and convolution layers begin with: uniform, within 1/√fan.
func byFan() Initializer { return KaimingUniform(math.Sqrt(5)) }

// within draws uniformly from −1/√n to 1/√n.
func within(n float64) Initializer {
	b := 1 / math.Sqrt(max(n, 1))
	return Uniform(-b, b)
}

// Orthogonal gives a matrix, of the first axis by the others, whose rows or columns are orthogonal and as long as gain.
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

// orthonormal draws vectors that are orthogonal to each other and of length 1, by Gram and Schmidt, twice for the
// rounding.
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
