package nn

import (
	"strconv"

	"github.com/weirml/weir/array"
)

// sequential applies layers one after the other.
type sequential struct{ layers []Layer }

// Sequential applies layers one after the other: each is given the results of the one before. Their parameters are called
// by their place: "0.weight".
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
