package portable

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// condition compiles an expression of type bool.
func (c *compiler) condition(e loop.Expr) value {
	outer := c.moving
	c.moving = false
	v := c.expr(e, nil)
	c.moving = outer
	return v
}

// both returns the interval of a conjunction, if each side is an interval or the same for all lanes; nil otherwise.
func both(op loop.BinaryOp, x, y value) *interval {
	if op != loop.And || x.dt != dtype.Bool || x.within == nil && !x.uniform || y.within == nil && !y.uniform {
		return nil
	}
	left, right := x.lanesIn(), y.lanesIn()
	result := interval(func(f frame, n int) (int, int) {
		a, b := left(f, n)
		if a >= b {
			return 0, 0
		}
		p, q := right(f, n)
		return max(a, p), max(min(b, q), max(a, p))
	})
	return &result
}

// lanesIn returns the lanes in which a bool that is uniform or has an interval holds.
func (v *value) lanesIn() interval {
	if v.within != nil {
		return *v.within
	}
	test := v.run.(scalar[uint8])
	return func(f frame, n int) (int, int) {
		if test(f) != 0 {
			return 0, n
		}
		return 0, 0
	}
}

// between compiles a comparison of two integers whose difference changes by a fixed step from lane to lane, so that it
// holds in one interval of lanes. ok is false for other comparisons.
func (c *compiler) between(e *loop.Binary, into any) (v value, ok bool) {
	left, ok := e.X.(*loop.Index)
	right, also := e.Y.(*loop.Index)
	if !ok || !also || c.vector == nil || e.Op == loop.Eq || e.Op == loop.Ne {
		return value{}, false
	}
	// The condition is slack ≥ 0, where slack is right − left, minus 1 if equality does not satisfy it.
	less, more, strict := left.X, right.X, int64(0)
	switch e.Op {
	case loop.Lt:
		strict = 1
	case loop.Ge:
		less, more = more, less
	case loop.Gt:
		less, more, strict = more, less, 1
	}
	slack := c.lanes(more.Sub(less))
	if !slack.regular() || slack.uniform() {
		return value{}, false
	}
	within := interval(func(f frame, n int) (int, int) {
		v, step := slack.start.get(f)-strict, slack.step.get(f)
		switch {
		case step > 0 && v >= 0, step == 0 && v >= 0:
			return 0, n
		case step > 0: // from the first lane at which v + lane·step is not negative
			first := int(min((step-1-v)/step, int64(n)))
			return first, n
		case v < 0:
			return 0, 0
		}
		return 0, int(min(v/-step+1, int64(n)))
	})
	out, inPlace := destination[uint8](c, into)
	return value{dt: dtype.Bool, inPlace: inPlace, within: &within, run: lanes[uint8](func(f frame, n int) []uint8 {
		to := out(f, n)
		first, end := within(f, n)
		for i := range to {
			to[i] = flag(i >= first && i < end)
		}
		return to
	})}, true
}
