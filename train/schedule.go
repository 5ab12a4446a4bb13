package train

import "math"

// Schedule is what the learning rate of a step is multiplied by. Steps count from 1.
type Schedule func(step int64) float64

// Constant leaves the rate as it is.
func Constant() Schedule { return func(int64) float64 { return 1 } }

// StepDecay multiplies the rate by factor after every so many steps.
func StepDecay(every int64, factor float64) Schedule {
	return func(step int64) float64 { return math.Pow(factor, float64((step-1)/max(every, 1))) }
}

// Exponential multiplies the rate by factor after each step.
func Exponential(factor float64) Schedule {
	return func(step int64) float64 { return math.Pow(factor, float64(step-1)) }
}

// Cosine goes from 1 to least along half a cosine, over so many steps, and stays there.
func Cosine(steps int64, least float64) Schedule {
	return func(step int64) float64 { return falling(share(step-1, steps), 1, least) }
}

// Linear goes from 1 to least on a straight line, over so many steps, and stays there.
func Linear(steps int64, least float64) Schedule {
	return func(step int64) float64 { return 1 + (least-1)*share(step-1, steps) }
}

// Warmup rises to 1 on a straight line over so many steps, and goes on with another schedule, which begins then.
func Warmup(steps int64, then Schedule) Schedule {
	return func(step int64) float64 {
		if step <= steps {
			return float64(step) / float64(steps)
		}
		return then(step - steps)
	}
}

// OneCycle rises from 1/25 to 1 over the first three tenths of so many steps, and falls to 1/250,000 over the rest, both
// along half a cosine.
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

// share is how much of so many steps is over.
func share(done, steps int64) float64 {
	if done >= steps {
		return 1
	}
	return float64(done) / float64(steps)
}

// falling goes from one value to another along half a cosine.
func falling(at, from, to float64) float64 { return to + (from-to)*(1+math.Cos(math.Pi*at))/2 }

// Plateau lowers the rate when a measure has not fallen for a while. Its rate is part of the trainer, and of checkpoints;
// how long it has waited is not.
type Plateau struct {
	Factor   float64 // that the rate is multiplied by
	Patience int     // how many times the measure may fail to fall
	Least    float64 // the smallest share of the rate
	Margin   float64 // by how much, relatively, it must fall to count

	best  float64
	waits int
	began bool
}

// Observe is told the measure, such as an evaluation's loss. It reports whether it lowered the rate.
func (p *Plateau) Observe(t *Trainer, measure float64) bool {
	if math.IsNaN(measure) {
		// It has not fallen, and is nothing to compare with.
	} else if !p.began || measure < p.best*(1-p.Margin) {
		p.best, p.waits, p.began = measure, 0, true
		return false
	}
	if p.waits++; p.waits <= p.Patience {
		return false
	}
	p.waits = 0
	before := t.Factor()
	t.SetFactor(max(before*p.Factor, p.Least))
	return t.Factor() < before
}

// EarlyStopping ends training when a measure has not fallen for a while.
type EarlyStopping struct {
	Patience int     // how many times the measure may fail to fall
	Margin   float64 // by how much it must fall to count

	best  float64
	waits int
	began bool
}

// Observe is told the measure; it reports whether to stop.
func (e *EarlyStopping) Observe(measure float64) bool {
	if math.IsNaN(measure) {
		// It has not fallen, and is nothing to compare with.
	} else if !e.began || measure < e.best-e.Margin {
		e.best, e.waits, e.began = measure, 0, true
		return false
	}
	e.waits++
	return e.waits > e.Patience
}

// Best is the least measure so far.
func (e *EarlyStopping) Best() float64 { return e.best }
