package nn

import "github.com/weirml/weir/array"

// Activations: layers without parameters.
var (
	// Relu is max(x, 0).
	Relu = named("Relu", func(c *Context, x *array.Array) *array.Array { return c.Scope.Relu(x) })
	// Tanh is the hyperbolic tangent.
	Tanh = named("Tanh", func(c *Context, x *array.Array) *array.Array { return c.Scope.Tanh(x) })
)
