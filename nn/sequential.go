package nn

import (
	"strconv"

	"github.com/weirml/weir/array"
)

// sequential applies layers one after the other.
type sequential struct{ layers []Layer }

// Sequential applies layers one after the other: each is given the results of the one before. Their parameters are
// called by their place: "0.weight".
func Sequential(layers ...Layer) Layer { return &sequential{layers} }

func (l *sequential) String() string { return "Sequential" }

func (l *sequential) Declare(d *Declaration) {
	for i, inner := range l.layers {
		d.Layer(strconv.Itoa(i), inner)
	}
}

func (l *sequential) Apply(c *Context, x ...*array.Array) []*array.Array {
	for i, inner := range l.layers {
		x = c.Call(strconv.Itoa(i), inner, x...)
	}
	return x
}

// lambda is a Go function as a layer.
type lambda struct {
	name string
	f    func(c *Context, x ...*array.Array) []*array.Array
}

// Lambda is a Go function of one array as a layer without parameters.
func Lambda(f func(c *Context, x *array.Array) *array.Array) Layer { return named("Lambda", f) }

// Lambdas is a Go function of any number of arrays as a layer without parameters.
func Lambdas(f func(c *Context, x ...*array.Array) []*array.Array) Layer {
	return &lambda{"Lambda", f}
}

// named is a function of one array with a name for errors.
func named(name string, f func(c *Context, x *array.Array) *array.Array) Layer {
	return &lambda{name, func(c *Context, x ...*array.Array) []*array.Array {
		if !c.takes(1, x) {
			return c.dead()
		}
		return []*array.Array{f(c, x[0])}
	}}
}

func (l *lambda) String() string { return l.name }

func (l *lambda) Declare(*Declaration) {}

func (l *lambda) Apply(c *Context, x ...*array.Array) []*array.Array { return l.f(c, x...) }

// Flatten makes one axis of those from an axis on: Flatten(1) keeps the batch's.
func Flatten(first int) Layer {
	return named("Flatten", func(c *Context, x *array.Array) *array.Array { return c.Scope.Flatten(x, first) })
}

// Reshape gives the elements another shape, after the first axis, which stays.
func Reshape(shape ...int) Layer {
	return named("Reshape", func(c *Context, x *array.Array) *array.Array {
		return c.Scope.Reshape(x, append([]int{x.Dim(0)}, shape...)...)
	})
}

// Permute orders the axes anew.
func Permute(perm ...int) Layer {
	return named("Permute", func(c *Context, x *array.Array) *array.Array { return c.Scope.Permute(x, perm...) })
}

// residual adds a layer's input to its result.
type residual struct{ inner Layer }

// Residual adds a layer's input to its result. Its parameters are called by "inner".
func Residual(inner Layer) Layer { return &residual{inner} }

func (l *residual) String() string { return "Residual" }

func (l *residual) Declare(d *Declaration) { d.Layer("inner", l.inner) }

func (l *residual) Apply(c *Context, x ...*array.Array) []*array.Array {
	y := c.Call("inner", l.inner, x...)
	if len(x) < len(y) {
		return c.Failf("", "%d inputs for %d results", len(x), len(y))
	}
	sums := make([]*array.Array, len(y)) // y may be x itself, which other layers are given too
	for i := range y {
		sums[i] = c.Add(x[i], y[i])
	}
	return sums
}

// parallel applies layers to the same inputs.
type parallel struct{ layers []Layer }

// Parallel applies layers to the same inputs: its results are theirs, one layer's after the other's. Their parameters
// are called by their place.
func Parallel(layers ...Layer) Layer { return &parallel{layers} }

func (l *parallel) String() string { return "Parallel" }

func (l *parallel) Declare(d *Declaration) {
	for i, inner := range l.layers {
		d.Layer(strconv.Itoa(i), inner)
	}
}

func (l *parallel) Apply(c *Context, x ...*array.Array) (y []*array.Array) {
	for i, inner := range l.layers {
		y = append(y, c.Call(strconv.Itoa(i), inner, x...)...)
	}
	return y
}

// Concat joins its inputs along an axis.
func Concat(axis int) Layer {
	return Lambdas(func(c *Context, x ...*array.Array) []*array.Array {
		return []*array.Array{c.Scope.Concat(axis, x...)}
	})
}

// Sum adds its inputs.
func Sum() Layer {
	return Lambdas(func(c *Context, x ...*array.Array) []*array.Array {
		if len(x) == 0 {
			return c.Failf("", "nothing to add")
		}
		y := x[0]
		for _, a := range x[1:] {
			y = c.Add(y, a)
		}
		return []*array.Array{y}
	})
}
