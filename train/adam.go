package train

import (
	"math"

	"github.com/weirml/weir/array"
)

// Adam updates by the running mean of gradients divided by the root of the running mean of their squares. Settings:
// Betas, Epsilon, WeightDecay, which is added to the gradient.
func Adam(rate float64, list ...Setting) Optimiser {
	return &adam{settings: settings{rate: rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8}.set(list)}
}

// AdamW is Adam with decoupled weight decay, 0.01 by default: it shrinks the parameter and does not enter the gradient.
func AdamW(rate float64, list ...Setting) Optimiser {
	return &adam{settings: settings{rate: rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01}.set(list),
		decoupled: true}
}

// adam implements Adam and AdamW.
type adam struct {
	settings
	decoupled bool // the decay is decoupled from the gradient
}

// name returns the constructor's name.
func (o *adam) name() string {
	if o.decoupled {
		return "AdamW"
	}
	return "Adam"
}

func (o *adam) String() string { return o.describe(o.name()) }

func (o *adam) check() error { return o.only(o.name(), "betas", "epsilon", "decay") }

// Slots returns the running means of gradients and of their squares.
func (o *adam) Slots(shape []int) []Slot {
	return []Slot{like("mean", shape), like("square", shape)}
}

// Scalars returns 3: the rate over the mean's bias correction, the root of the square's bias correction, and the factor
// of decayed weights.
func (o *adam) Scalars() int { return 3 }

// Fill sets the scalars that Scalars lists.
func (o *adam) Fill(into []float32, step int64, rate float64) {
	into[0] = float32(rate / (1 - math.Pow(o.beta1, float64(step))))
	into[1] = float32(math.Sqrt(1 - math.Pow(o.beta2, float64(step))))
	into[2] = float32(1 - rate*o.decay)
}

// Update returns the parameter and both running means after a step.
func (o *adam) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	p, g := u.P, u.G
	if o.decoupled {
		p = o.shrunk(s, u, u.Scalars[2])
	} else {
		g = o.decayed(s, u)
	}
	m := settled(s, mix(s, u.Slots[0], g, o.beta1))
	v := settled(s, mix(s, u.Slots[1], s.Mul(g, g), o.beta2))
	root := s.Add(s.Div(s.Sqrt(v), u.Scalars[1]), s.Number(o.epsilon))
	return s.Sub(p, s.Mul(u.Scalars[0], s.Div(m, root))), []*array.Array{m, v}
}

// RMSProp updates by the gradient divided by the root of the running mean of its squares. Settings: Smoothing, Epsilon,
// Momentum, Centred, WeightDecay.
func RMSProp(rate float64, list ...Setting) Optimiser {
	return &rmsProp{settings{rate: rate, alpha: 0.99, epsilon: 1e-8}.set(list)}
}

// rmsProp implements RMSProp.
type rmsProp struct{ settings }

func (o *rmsProp) String() string { return o.describe("RMSProp") }

func (o *rmsProp) check() error {
	return o.only("RMSProp", "smoothing", "epsilon", "momentum", "centred", "decay")
}

// Slots returns the mean square and, if the settings need them, the mean and the momentum.
func (o *rmsProp) Slots(shape []int) []Slot {
	list := []Slot{like("square", shape)}
	if o.centred {
		list = append(list, like("mean", shape))
	}
	if o.momentum > 0 {
		list = append(list, like("momentum", shape))
	}
	return list
}

func (o *rmsProp) Scalars() int { return 1 }

func (o *rmsProp) Fill(into []float32, step int64, rate float64) { into[0] = float32(rate) }

// Update returns the parameter and the slots after a step.
func (o *rmsProp) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	g := o.decayed(s, u)
	v := settled(s, mix(s, u.Slots[0], s.Mul(g, g), o.alpha))
	slots, variance := []*array.Array{v}, v
	if o.centred {
		m := settled(s, mix(s, u.Slots[1], g, o.alpha))
		slots, variance = append(slots, m), s.Sub(v, s.Mul(m, m))
	}
	d := s.Div(g, s.Add(s.Sqrt(variance), s.Number(o.epsilon)))
	if o.momentum > 0 {
		d = settled(s, s.Add(s.Mul(u.Slots[len(u.Slots)-1], s.Number(o.momentum)), d))
		slots = append(slots, d)
	}
	return s.Sub(u.P, s.Mul(d, u.Scalars[0])), slots
}

// Adagrad updates by the gradient divided by the root of the sum of all its squares. Settings: Epsilon, RateDecay,
// WeightDecay.
func Adagrad(rate float64, list ...Setting) Optimiser {
	return &adagrad{settings{rate: rate, epsilon: 1e-10}.set(list)}
}

// adagrad implements Adagrad.
type adagrad struct{ settings }

func (o *adagrad) String() string { return o.describe("Adagrad") }

func (o *adagrad) check() error { return o.only("Adagrad", "epsilon", "rate decay", "decay") }

func (o *adagrad) Slots(shape []int) []Slot { return []Slot{like("sum", shape)} }

func (o *adagrad) Scalars() int { return 1 }

func (o *adagrad) Fill(into []float32, step int64, rate float64) {
	into[0] = float32(rate / (1 + float64(step-1)*o.slope))
}

// Update returns the parameter and the sum of squares after a step.
func (o *adagrad) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	g := o.decayed(s, u)
	sum := s.Add(u.Slots[0], s.Mul(g, g))
	d := s.Div(g, s.Add(s.Sqrt(sum), s.Number(o.epsilon)))
	return s.Sub(u.P, s.Mul(d, u.Scalars[0])), []*array.Array{sum}
}
