package train

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/diag"
)

// Optimiser computes new values of parameters from their gradients. SGD, Adam and the other constructors return one;
// you can implement your own. Its methods must depend only on the optimiser's settings, because a step is compiled
// once.
type Optimiser interface {
	// String returns the name and the settings, such as "SGD(rate 0.1, momentum 0.9)". Restore refuses a checkpoint whose
	// optimiser has another name or another setting. A setting that only one of the two strings has counts as 0 or false
	// in the other, so that a new one does not refuse old checkpoints.
	String() string
	// Rate returns the learning rate before the schedule's factor.
	Rate() float64
	// Slots returns the arrays that are kept from step to step for a parameter of a shape.
	Slots(shape []int) []Slot
	// Scalars returns the number of values that Fill computes.
	Scalars() int
	// Fill computes the values that change from step to step and are the same for all parameters. The first step is 1.
	Fill(into []float32, step int64, rate float64)
	// Update returns a parameter's new value and the new values of its slots, as operations of the scope.
	Update(s *array.Scope, u Update) (p *array.Array, slots []*array.Array)
}

// Slot is an array that an optimiser keeps for a parameter, such as a mean of its gradients.
type Slot struct {
	Name  string
	Shape []int
	Value float64 // the initial value of all elements
}

// Update is the input of Optimiser.Update.
type Update struct {
	P, G    *array.Array   // the parameter and its gradient
	Slots   []*array.Array // in the order of Optimiser.Slots
	Scalars []*array.Array // in the order of Optimiser.Fill, each of rank 0
	Decay   bool           // whether the parameter's weights decay
}

// Setting changes a setting of an optimiser.
type Setting func(o *settings)

// settings are the settings of all optimisers; each optimiser reads its own.
type settings struct {
	rate, momentum, beta1, beta2, epsilon, decay, alpha, slope, clip float64
	nesterov, centred                                                bool
	given                                                            []string
}

// Momentum sets the factor of the previous update that is added to each update, for SGD and RMSProp. The default is 0.
func Momentum(x float64) Setting { return func(o *settings) { o.momentum = x; o.note("momentum") } }

// Nesterov makes SGD use Nesterov momentum.
func Nesterov() Setting { return func(o *settings) { o.nesterov = true; o.note("nesterov") } }

// Betas sets the decay factors of the running means, for Adam, AdamW and Lion: b1 for gradients; b2 for their squares,
// or for Lion's stored mean. The defaults are 0.9 and 0.999, for Lion 0.9 and 0.99.
func Betas(b1, b2 float64) Setting {
	return func(o *settings) { o.beta1, o.beta2 = b1, b2; o.note("betas") }
}

// Epsilon sets the number added to denominators, for Adam, AdamW, RMSProp and Adagrad. For Adafactor it is the least
// root mean square of a parameter that scales its steps.
func Epsilon(x float64) Setting { return func(o *settings) { o.epsilon = x; o.note("epsilon") } }

// WeightDecay sets the weight decay. AdamW, Lion and Adafactor multiply a parameter by 1 − rate · x in each step; the
// others add x times the parameter to the gradient.
func WeightDecay(x float64) Setting { return func(o *settings) { o.decay = x; o.note("decay") } }

// Smoothing sets the decay factor of RMSProp's mean square. The default is 0.99.
func Smoothing(x float64) Setting { return func(o *settings) { o.alpha = x; o.note("smoothing") } }

// Centred makes RMSProp divide by the standard deviation of gradients in place of their root mean square.
func Centred() Setting { return func(o *settings) { o.centred = true; o.note("centred") } }

// RateDecay makes Adagrad divide its rate by 1 + x · (step − 1).
func RateDecay(x float64) Setting { return func(o *settings) { o.slope = x; o.note("rate decay") } }

// note records that a setting was given.
func (o *settings) note(name string) { o.given = append(o.given, name) }

// set returns the settings with a list of changes applied.
func (o settings) set(list []Setting) settings {
	for _, f := range list {
		f(&o)
	}
	return o
}

// checker is an optimiser whose settings can be invalid.
type checker interface{ check() error }

// only returns an error if a setting was given that the optimiser does not have, or a setting is negative or NaN.
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

// decayed returns the gradient with the weight decay added.
func (o *settings) decayed(s *array.Scope, u Update) *array.Array {
	if o.decay == 0 || !u.Decay {
		return u.G
	}
	return s.Add(u.G, s.Mul(u.P, s.Number(o.decay)))
}

// shrunk returns the parameter multiplied by factor, which is 1 − rate · decay, if it decays.
func (o *settings) shrunk(s *array.Scope, u Update, factor *array.Array) *array.Array {
	if o.decay == 0 || !u.Decay {
		return u.P
	}
	return s.Mul(u.P, factor)
}

// mix returns old · share + now · (1 − share).
func mix(s *array.Scope, old, now *array.Array, share float64) *array.Array {
	return s.Add(s.Mul(old, s.Number(share)), s.Mul(now, s.Number(1-share)))
}

// settled returns x with subnormal f32 numbers replaced by 0. Without it, moments of parameters that gradients no
// longer reach, as embeddings of words that batches do not contain, would stay subnormal for ever. They change no
// parameter, but CPUs take about ten times as long for such numbers.
func settled(s *array.Scope, x *array.Array) *array.Array {
	return s.Where(s.Less(s.Abs(x), s.Number(0x1p-126)), s.Number(0), x)
}

// like returns a slot of a parameter's shape, initially 0.
func like(name string, shape []int) Slot { return Slot{Name: name, Shape: shape} }

// Rate returns the learning rate.
func (o *settings) Rate() float64 { return o.rate }

// sameSettings reports whether two strings of optimisers have the same name and the same settings; one that only one of
// them has must be 0 or false there.
func sameSettings(a, b string) bool {
	nameA, inA := settingsOf(a)
	nameB, inB := settingsOf(b)
	if nameA != nameB {
		return false
	}
	for _, pair := range [][2]map[string]string{{inA, inB}, {inB, inA}} {
		for name, value := range pair[0] {
			other, has := pair[1][name]
			if has && other != value || !has && value != "0" && value != "false" {
				return false
			}
		}
	}
	return true
}

// settingsOf splits "Name(setting value, …)". A string of another form is a name as a whole.
func settingsOf(text string) (name string, values map[string]string) {
	name, list, ok := strings.Cut(text, "(")
	list, closed := strings.CutSuffix(list, ")")
	if !ok || !closed {
		return text, nil
	}
	values = map[string]string{}
	for _, one := range strings.Split(list, ", ") {
		setting, value, ok := strings.Cut(one, " ")
		if _, twice := values[setting]; !ok || twice {
			return text, nil
		}
		values[setting] = value
	}
	return name, values
}

// describe returns an optimiser's name with its settings.
func (o *settings) describe(name string) string {
	return fmt.Sprintf("%s(rate %v, momentum %v, betas %v %v, epsilon %v, decay %v, alpha %v, slope %v, nesterov %v, "+
		"centred %v)",
		name, o.rate, o.momentum, o.beta1, o.beta2, o.epsilon, o.decay, o.alpha, o.slope, o.nesterov, o.centred)
}
