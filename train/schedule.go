package train

import (
	"math"
	"strconv"
)

// Schedule returns the factor of a step's learning rate. Steps count from 1.
type Schedule func(step int64) float64

// Constant leaves the rate unchanged.
func Constant() Schedule { return func(int64) float64 { return 1 } }

// StepDecay multiplies the rate by factor after each run of the given number of steps.
func StepDecay(every int64, factor float64) Schedule {
	return func(step int64) float64 { return math.Pow(factor, float64((step-1)/max(every, 1))) }
}

// Exponential multiplies the rate by factor after each step.
func Exponential(factor float64) Schedule {
	return func(step int64) float64 { return math.Pow(factor, float64(step-1)) }
}

// Cosine falls from 1 to least along half a cosine over a number of steps, and then stays at least.
func Cosine(steps int64, least float64) Schedule {
	return func(step int64) float64 { return falling(share(step-1, steps), 1, least) }
}

// Linear falls from 1 to least in a straight line over a number of steps, and then stays at least.
func Linear(steps int64, least float64) Schedule {
	return func(step int64) float64 { return 1 + (least-1)*share(step-1, steps) }
}

// Warmup rises to 1 in a straight line over a number of steps, and then follows another schedule from its step 1 on.
func Warmup(steps int64, then Schedule) Schedule {
	return func(step int64) float64 {
		if step <= steps {
			return float64(step) / float64(steps)
		}
		return then(step - steps)
	}
}

// OneCycle rises from 1/25 to 1 over the first 30% of the steps, and falls to 1/250,000 over the rest, both along half
// a cosine.
func OneCycle(steps int64) Schedule {
	return func(step int64) float64 {
		top := 0.3*float64(steps) - 1
		if at := float64(step - 1); at < top {
			return falling(at/top, 1.0/25, 1)
		} else {
			return falling(min((at-top)/(float64(steps)-1-top), 1), 1, 1.0/250_000)
		}
	}
}

// share returns the fraction done / steps, at most 1.
func share(done, steps int64) float64 {
	if done >= steps {
		return 1
	}
	return float64(done) / float64(steps)
}

// falling returns the value at a fraction, from 0 to 1, of half a cosine between two values.
func falling(at, from, to float64) float64 { return to + (from-to)*(1+math.Cos(math.Pi*at))/2 }

// lowest is the least measure observed, and the number of measures since. Checkpoints contain it.
type lowest struct {
	Value number `json:"value"`
	Waits int    `json:"waits"`
}

// after returns the state after another measure; l is nil before the first. A measure below limit, a function of the
// least so far, is the new least. NaN never is, and after a first NaN any number is.
func (l *lowest) after(measure float64, limit func(least float64) float64) *lowest {
	switch {
	case l == nil && math.IsNaN(measure):
		return &lowest{Value: number(math.Inf(1)), Waits: 1}
	case l != nil && !(measure < limit(float64(l.Value))):
		return &lowest{Value: l.Value, Waits: l.Waits + 1}
	}
	return &lowest{Value: number(measure)}
}

// number is a float64 in JSON, infinite or not.
type number float64

// MarshalText writes all digits.
func (x number) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(x), 'g', -1, 64), nil
}

// UnmarshalText reads a number written by MarshalText.
func (x *number) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	*x = number(v)
	return err
}

// Plateau lowers the learning rate when a measure has stopped falling. The checkpoints that Fit writes contain its
// factor and its count of measures that did not fall.
type Plateau struct {
	Factor   float64 // the rate is multiplied by it
	Patience int     // the number of measures that may fail to fall
	Least    float64 // the lower bound of Trainer.Factor
	Margin   float64 // the relative amount by which a measure must fall to count

	seen *lowest // nil: nothing
}

// Observe takes a measure, such as a validation loss. It reports whether it lowered the rate.
func (p *Plateau) Observe(t *Trainer, measure float64) bool {
	p.seen = p.seen.after(measure, func(least float64) float64 { return least * (1 - p.Margin) })
	if p.seen.Waits == 0 || p.seen.Waits <= p.Patience {
		return false
	}
	p.seen.Waits = 0
	before := t.Factor()
	t.SetFactor(max(before*p.Factor, p.Least))
	return t.Factor() < before
}

// EarlyStopping ends training when a measure has stopped falling. The checkpoints that Fit writes contain its count of
// measures that did not fall.
type EarlyStopping struct {
	Patience int     // the number of measures that may fail to fall
	Margin   float64 // by how much it must fall to count

	seen *lowest // nil: nothing
}

// Observe takes a measure; it reports whether to stop.
func (e *EarlyStopping) Observe(measure float64) bool {
	e.seen = e.seen.after(measure, func(least float64) float64 { return least - e.Margin })
	return e.seen.Waits > 0 && e.seen.Waits > e.Patience
}

// Best returns the least measure so far; 0 before the first.
func (e *EarlyStopping) Best() float64 {
	if e.seen == nil {
		return 0
	}
	return float64(e.seen.Value)
}
