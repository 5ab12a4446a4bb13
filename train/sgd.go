package train

import "github.com/weirml/weir/array"

// SGD updates by the negative gradient. Settings: Momentum, Nesterov, WeightDecay.
func SGD(rate float64, list ...Setting) Optimiser {
	return &sgd{settings{rate: rate}.set(list)}
}

// sgd implements SGD.
type sgd struct{ settings }

func (o *sgd) String() string { return o.describe("SGD") }

func (o *sgd) check() error { return o.only("SGD", "momentum", "nesterov", "decay") }

// Slots returns the momentum, if the settings have one.
func (o *sgd) Slots(shape []int) []Slot {
	if o.momentum == 0 {
		return nil
	}
	return []Slot{like("momentum", shape)}
}

func (o *sgd) Scalars() int { return 1 }

func (o *sgd) Fill(into []float32, step int64, rate float64) { into[0] = float32(rate) }

// Update returns the parameter and, if there is one, the momentum after a step.
func (o *sgd) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	g := o.decayed(s, u)
	if o.momentum == 0 {
		return s.Sub(u.P, s.Mul(g, u.Scalars[0])), nil
	}
	m := settled(s, s.Add(s.Mul(u.Slots[0], s.Number(o.momentum)), g))
	d := m
	if o.nesterov {
		d = s.Add(g, s.Mul(m, s.Number(o.momentum)))
	}
	return s.Sub(u.P, s.Mul(d, u.Scalars[0])), []*array.Array{m}
}

// Lion updates by the sign of a running mean of gradients. Settings: Betas, WeightDecay.
func Lion(rate float64, list ...Setting) Optimiser {
	return &lion{settings{rate: rate, beta1: 0.9, beta2: 0.99}.set(list)}
}

// lion implements Lion.
type lion struct{ settings }

func (o *lion) String() string { return o.describe("Lion") }

func (o *lion) check() error { return o.only("Lion", "betas", "decay") }

func (o *lion) Slots(shape []int) []Slot { return []Slot{like("mean", shape)} }

func (o *lion) Scalars() int { return 2 }

func (o *lion) Fill(into []float32, step int64, rate float64) {
	into[0], into[1] = float32(rate), float32(1-rate*o.decay)
}

// Update returns the parameter and the mean after a step.
func (o *lion) Update(s *array.Scope, u Update) (*array.Array, []*array.Array) {
	p, m := o.shrunk(s, u, u.Scalars[1]), u.Slots[0]
	d := s.Sign(mix(s, m, u.G, o.beta1))
	return s.Sub(p, s.Mul(d, u.Scalars[0])), []*array.Array{mix(s, m, u.G, o.beta2)}
}
