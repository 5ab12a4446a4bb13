package nn

import (
	"strconv"

	"github.com/weirml/weir/array"
)

// sequential implements Sequential.
type sequential struct{ layers []Layer }

// Sequential applies layers one after the other: each layer's results are the next layer's inputs. A layer's index is
// the prefix of its parameters' names: "0.weight".
func Sequential(layers ...Layer) Layer { return &sequential{layers} }

func (l *sequential) String() string { return "Sequential" }

// Declare declares the layers under their indices.
func (l *sequential) Declare(d *Declaration) {
	for i, inner := range l.layers {
		d.Layer(strconv.Itoa(i), inner)
	}
}

// Apply applies the layers one after the other.
func (l *sequential) Apply(c *Context, x ...*array.Array) []*array.Array {
	for i, inner := range l.layers {
		x = c.Call(strconv.Itoa(i), inner, x...)
	}
	return x
}

// lambda implements Lambda, Lambdas and the layers without parameters.
type lambda struct {
	name string
	f    func(c *Context, x ...*array.Array) []*array.Array
}

// Lambda makes a layer without parameters of a Go function of one array.
func Lambda(f func(c *Context, x *array.Array) *array.Array) Layer { return named("Lambda", f) }

// Lambdas makes a layer without parameters of a Go function of any number of arrays.
func Lambdas(f func(c *Context, x ...*array.Array) []*array.Array) Layer {
	return &lambda{"Lambda", f}
}

// named returns a layer that applies a function to one array. The name appears in errors.
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

// Flatten joins the axes from first on into one: Flatten(1) keeps the batch's axis.
func Flatten(first int) Layer {
	return named("Flatten", func(c *Context, x *array.Array) *array.Array { return c.Scope.Flatten(x, first) })
}

// Reshape changes the shape of the axes after the first; the first axis stays.
func Reshape(shape ...int) Layer {
	return named("Reshape", func(c *Context, x *array.Array) *array.Array {
		return c.Scope.Reshape(x, append([]int{x.Dim(0)}, shape...)...)
	})
}

// Permute reorders the axes: axis i of the result is axis perm[i] of the input.
func Permute(perm ...int) Layer {
	return named("Permute", func(c *Context, x *array.Array) *array.Array { return c.Scope.Permute(x, perm...) })
}

// residual implements Residual.
type residual struct{ inner Layer }

// Residual adds a layer's inputs to its results. The layer is named "inner".
func Residual(inner Layer) Layer { return &residual{inner} }

func (l *residual) String() string { return "Residual" }

func (l *residual) Declare(d *Declaration) { d.Layer("inner", l.inner) }

// Apply returns the inner layer's results, each plus the input of the same index.
func (l *residual) Apply(c *Context, x ...*array.Array) []*array.Array {
	y := c.Call("inner", l.inner, x...)
	if len(x) < len(y) {
		return c.Failf("", "%d inputs for %d results", len(x), len(y))
	}
	sums := make([]*array.Array, len(y)) // y may be x itself, which other layers also receive
	for i := range y {
		sums[i] = c.Add(x[i], y[i])
	}
	return sums
}

// parallel implements Parallel.
type parallel struct{ layers []Layer }

// Parallel applies layers to the same inputs and returns the results of all layers in order. A layer's index is the
// prefix of its parameters' names.
func Parallel(layers ...Layer) Layer { return &parallel{layers} }

func (l *parallel) String() string { return "Parallel" }

// Declare declares the layers under their indices.
func (l *parallel) Declare(d *Declaration) {
	for i, inner := range l.layers {
		d.Layer(strconv.Itoa(i), inner)
	}
}

// Apply applies each layer to the inputs.
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
