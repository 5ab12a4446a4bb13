package train

import (
	"math"
	"slices"

	"github.com/weirml/weir/array"
)

// Adafactor is like Adam without the mean of gradients. For a matrix it keeps only the mean squares of rows and
// columns. Settings: Epsilon, WeightDecay.
func Adafactor(rate float64, list ...Setting) Optimiser {
	return &adafactor{settings{rate: rate, epsilon: 1e-3, clip: 1}.set(list)}
}

// adafactor implements Adafactor.
type adafactor struct{ settings }

// least is the lower bound of variances, the square of f32's machine epsilon, as PyTorch's default.
const least = 0x1p-46

func (o *adafactor) String() string { return o.describe("Adafactor") }

func (o *adafactor) check() error { return o.only("Adafactor", "epsilon", "decay") }

// Slots returns the mean squares of rows and columns; of a vector, the mean squares of its elements.
func (o *adafactor) Slots(shape []int) []Slot {
	n := len(shape)
	if n < 2 {
		return []Slot{like("square", shape)}
	}
	rows, columns := slices.Clone(shape), slices.Clone(shape)
	rows[n-1], columns[n-2] = 1, 1
	return []Slot{{Name: "rows", Shape: rows}, {Name: "columns", Shape: columns}}
}

// Scalars returns 4: the weights of the new and the old squares, the relative rate, and the factor of decayed weights.
func (o *adafactor) Scalars() int { return 4 }

// Fill sets the scalars that Scalars lists.
func (o *adafactor) Fill(into []float32, step int64, rate float64) {
	share := math.Pow(float64(step), -0.8)
	into[0], into[1] = float32(share), float32(1-share)
	into[2] = float32(min(rate, 1/math.Sqrt(float64(step))))
	into[3] = float32(1 - rate*o.decay)
}

// Update scales the step by the parameter's root mean square, and limits the step's root mean square to clip.
func (o *adafactor) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	count := float64(u.P.Len())
	size := s.Mul(s.Sqrt(s.Sum(s.Mul(u.P, u.P))), s.Number(1/math.Sqrt(count)))
	alpha := s.Mul(s.Maximum(size, s.Number(o.epsilon)), u.Scalars[2])
	p := o.shrunk(s, u, u.Scalars[3])
	variance, slots := o.variance(s, u)
	d := s.Div(u.G, s.Sqrt(s.Maximum(variance, s.Number(least))))
	norm := s.Mul(s.Sqrt(s.Sum(s.Mul(d, d))), s.Number(1/(math.Sqrt(count)*o.clip)))
	return s.Sub(p, s.Mul(d, s.Div(alpha, s.Maximum(norm, s.Number(1))))), slots
}

// variance returns the estimate of the gradient's squares, and the slots' new values.
func (o *adafactor) variance(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	square := s.Mul(u.G, u.G)
	next := func(old, now *array.Array) *array.Array {
		return s.Add(s.Mul(old, u.Scalars[1]), s.Mul(now, u.Scalars[0]))
	}
	if len(u.Slots) == 1 {
		v := next(u.Slots[0], square)
		return v, []*array.Array{v}
	}
	rows := next(u.Slots[0], meanOf(s, square, -1))
	columns := next(u.Slots[1], meanOf(s, square, -2))
	v := s.Div(s.Mul(rows, columns), s.Maximum(meanOf(s, rows, -2), s.Number(least)))
	return v, []*array.Array{rows, columns}
}

// meanOf returns the mean along an axis, which stays with extent 1.
func meanOf(s *array.Scope, x *array.Array, axis int) *array.Array {
	shape := x.Shape()
	shape[len(shape)+axis] = 1
	return s.Reshape(s.Mean(x, axis), shape...)
}
