package train

import (
	"fmt"

	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Optimiser says how parameters follow their gradients. SGD, Adam and the others make one; who needs another implements
// this. Its methods must depend on nothing but the optimiser's own settings, since a step is compiled once.
type Optimiser interface {
	// String is the name and the settings: a checkpoint of another optimiser is refused.
	String() string
	// Rate is the learning rate that a schedule multiplies.
	Rate() float64
	// Slots are what is kept of a parameter of a shape from step to step.
	Slots(shape []int) []Slot
	// Scalars is the number of values that Fill gives.
	Scalars() int
	// Fill computes what changes from step to step, and is the same for all parameters. The first step is 1.
	Fill(into []float32, step int64, rate float64)
	// Update computes a parameter's new value, and those of its slots, as operations of the scope.
	Update(s *array.Scope, u Update) (p *array.Array, slots []*array.Array)
}

// Slot is something that an optimiser keeps of a parameter, such as a mean of its gradients.
type Slot struct {
	Name  string
	Shape []int
	Value float64 // at the beginning
}

// Update is what an optimiser computes a parameter's new value from.
type Update struct {
	P, G    *array.Array
	Slots   []*array.Array // as Optimiser.Slots has them
	Scalars []*array.Array // as Optimiser.Fill has them, each of rank 0
	Decay   bool           // the parameter's weights are to decay
}

// Setting changes a setting of an optimiser.
type Setting func(o *settings)

// settings are those of all optimisers; each reads its own.
type settings struct {
	rate, momentum, beta1, beta2, epsilon, decay, alpha, slope, clip float64
	nesterov, centred                                                bool
	given                                                            []string
}

// Momentum is the share of the update before that is added to each: for SGD and RMSProp. The default is 0.
func Momentum(x float64) Setting { return func(o *settings) { o.momentum = x; o.note("momentum") } }

// Nesterov has SGD look ahead along its momentum.
func Nesterov() Setting { return func(o *settings) { o.nesterov = true; o.note("nesterov") } }

// Betas are the shares of the means before that Adam, AdamW and Lion keep: of gradients, and of their squares.
func Betas(b1, b2 float64) Setting {
	return func(o *settings) { o.beta1, o.beta2 = b1, b2; o.note("betas") }
}

// Epsilon is what is added to denominators: for Adam, AdamW, RMSProp and Adagrad. Of Adafactor it is the least root
// mean square of a parameter that scales its steps.
func Epsilon(x float64) Setting { return func(o *settings) { o.epsilon = x; o.note("epsilon") } }

// WeightDecay is the share of a parameter, times the rate, that each step takes off: for AdamW, Lion and Adafactor. For
// the others it is added to the gradient, times the parameter.
func WeightDecay(x float64) Setting { return func(o *settings) { o.decay = x; o.note("decay") } }

// Smoothing is the share of the mean square before that RMSProp keeps. The default is 0.99.
func Smoothing(x float64) Setting { return func(o *settings) { o.alpha = x; o.note("smoothing") } }

// Centred has RMSProp divide by the deviation of gradients rather than by their size.
func Centred() Setting { return func(o *settings) { o.centred = true; o.note("centred") } }

// RateDecay has Adagrad divide its rate by 1 + x · steps.
func RateDecay(x float64) Setting { return func(o *settings) { o.slope = x; o.note("rate decay") } }

func (o *settings) note(name string) { o.given = append(o.given, name) }

// set applies settings on top of defaults.
func (o settings) set(list []Setting) settings {
	for _, f := range list {
		f(&o)
	}
	return o
}

// checker is an optimiser whose settings can be wrong.
type checker interface{ check() error }

// only is an error if a setting was given that is not among those that mean something.
func (o *settings) only(name string, known ...string) error {
	for _, g := range o.given {
		found := false
		for _, k := range known {
			found = found || g == k
		}
		if !found {
			return diag.Inputf("%s has no %s", name, g).WithFix("it has %v", known)
		}
	}
	for _, x := range []float64{o.rate, o.momentum, o.beta1, o.beta2, o.epsilon, o.decay, o.alpha, o.slope} {
		if !(x >= 0) {
			return diag.Inputf("a setting of %s is %v", name, x).WithFix("they are 0 or more")
		}
	}
	return nil
}

// decayed adds the decay to a gradient.
func (o *settings) decayed(s *array.Scope, u Update) *array.Array {
	if o.decay == 0 || !u.Decay {
		return u.G
	}
	return s.Add(u.G, s.Mul(u.P, s.Number(o.decay)))
}

// shrunk takes the share of a decay off a parameter: factor is 1 − rate · decay.
func (o *settings) shrunk(s *array.Scope, u Update, factor *array.Array) *array.Array {
	if o.decay == 0 || !u.Decay {
		return u.P
	}
	return s.Mul(u.P, factor)
}

// mix is old · share + new · (1 − share).
func mix(s *array.Scope, old, now *array.Array, share float64) *array.Array {
	return s.Add(s.Mul(old, s.Number(share)), s.Mul(now, s.Number(1-share)))
}

// settled is what is kept from step to step, or 0 if that is no normal number of f32. What no gradient reaches any
// more, as the rows of words that batches do not have, would otherwise stay a subnormal number for ever: no parameter
// changes by it, but processors take some ten times as long with such numbers.
func settled(s *array.Scope, x *array.Array) *array.Array {
	return s.Where(s.Less(s.Abs(x), s.Number(0x1p-126)), s.Number(0), x)
}

// like is a slot of a parameter's own shape.
func like(name string, shape []int) Slot { return Slot{Name: name, Shape: shape} }

// Rate is the learning rate.
func (o *settings) Rate() float64 { return o.rate }

// text is an optimiser's name with its settings.
func (o *settings) text(name string) string {
	return fmt.Sprintf("%s(rate %v, momentum %v, betas %v %v, epsilon %v, decay %v, alpha %v, slope %v, nesterov %v, "+
		"centred %v)",
		name, o.rate, o.momentum, o.beta1, o.beta2, o.epsilon, o.decay, o.alpha, o.slope, o.nesterov, o.centred)
}
