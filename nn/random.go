package nn

import (
	"fmt"

	"github.com/weirml/weir/array"
)

// randomness gives out keys in the order in which layers ask for them.
type randomness struct{ key array.Random }

// Key returns a random key that no other call receives, for layers that draw random numbers in training. Keys derive
// from the key that Training was given, in the order of the calls.
func (c *Context) Key() *array.Array {
	r := c.run.random
	if r == nil || r.key == nil {
		c.Failf("give nn.Training a key", "the layer draws random numbers, and there is no key")
		return c.Dead()
	}
	keys := c.SplitKey(r.key, 2)
	r.key = keys[0]
	return keys[1]
}

// Dropout sets elements to 0 with probability rate and divides the others by 1 − rate, in training only.
func Dropout(rate float64) Layer {
	return named(fmt.Sprintf("Dropout(%v)", rate), func(c *Context, x *array.Array) *array.Array {
		return drop(c, x, rate)
	})
}

// drop applies dropout in training, and returns x otherwise.
func drop(c *Context, x *array.Array, rate float64) *array.Array {
	if !c.Training() || rate == 0 {
		return x
	}
	return c.Dropout(c.Key(), x, rate)
}
