package train

import (
	"math"

	"github.com/weirml/weir/array"
)

// Adam steps by a mean of gradients, divided by the root of a mean of their squares; settings: Betas, Epsilon,
// WeightDecay, which is added to the gradient.
func Adam(rate float64, list ...Setting) Optimiser {
	return &adam{settings: settings{rate: rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8}.set(list)}
}

// AdamW is Adam with a weight decay apart from the gradient, of 0.01 unless WeightDecay says otherwise.
func AdamW(rate float64, list ...Setting) Optimiser {
	return &adam{settings: settings{rate: rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01}.set(list),
		apart: true}
}

type adam struct {
	settings
	apart bool // the decay is apart from the gradient
}

func (o *adam) name() string {
	if o.apart {
		return "AdamW"
	}
	return "Adam"
}

func (o *adam) String() string { return o.text(o.name()) }

func (o *adam) check() error { return o.only(o.name(), "betas", "epsilon", "decay") }

func (o *adam) Slots(shape []int) []Slot {
	return []Slot{like("mean", shape), like("square", shape)}
}

// Scalars are the rate over the mean's correction, the root of the square's correction, and what decay leaves of a
// weight.
func (o *adam) Scalars() int { return 3 }

func (o *adam) Fill(into []float32, step int64, rate float64) {
	into[0] = float32(rate / (1 - math.Pow(o.beta1, float64(step))))
	into[1] = float32(math.Sqrt(1 - math.Pow(o.beta2, float64(step))))
	into[2] = float32(1 - rate*o.decay)
}

func (o *adam) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	p, g := u.P, u.G
	if o.apart {
		p = o.shrunk(s, u, u.Scalars[2])
	} else {
		g = o.decayed(s, u)
	}
	m := settled(s, mix(s, u.Slots[0], g, o.beta1))
	v := settled(s, mix(s, u.Slots[1], s.Mul(g, g), o.beta2))
	root := s.Add(s.Div(s.Sqrt(v), u.Scalars[1]), s.Number(o.epsilon))
	return s.Sub(p, s.Mul(u.Scalars[0], s.Div(m, root))), []*array.Array{m, v}
}

// RMSProp steps by the gradient divided by the root of a mean of squares; settings: Smoothing, Epsilon, Momentum,
// Centred, WeightDecay.
func RMSProp(rate float64, list ...Setting) Optimiser {
	return &rmsProp{settings{rate: rate, alpha: 0.99, epsilon: 1e-8}.set(list)}
}

type rmsProp struct{ settings }

func (o *rmsProp) String() string { return o.text("RMSProp") }

func (o *rmsProp) check() error {
	return o.only("RMSProp", "smoothing", "epsilon", "momentum", "centred", "decay")
}

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

// Adagrad steps by the gradient divided by the root of the sum of all squares; settings: Epsilon, RateDecay,
// WeightDecay.
func Adagrad(rate float64, list ...Setting) Optimiser {
	return &adagrad{settings{rate: rate, epsilon: 1e-10}.set(list)}
}

type adagrad struct{ settings }

func (o *adagrad) String() string { return o.text("Adagrad") }

func (o *adagrad) check() error { return o.only("Adagrad", "epsilon", "rate decay", "decay") }

func (o *adagrad) Slots(shape []int) []Slot { return []Slot{like("sum", shape)} }

func (o *adagrad) Scalars() int { return 1 }

func (o *adagrad) Fill(into []float32, step int64, rate float64) {
	into[0] = float32(rate / (1 + float64(step-1)*o.slope))
}

func (o *adagrad) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	g := o.decayed(s, u)
	sum := s.Add(u.Slots[0], s.Mul(g, g))
	d := s.Div(g, s.Add(s.Sqrt(sum), s.Number(o.epsilon)))
	return s.Sub(u.P, s.Mul(d, u.Scalars[0])), []*array.Array{sum}
}
