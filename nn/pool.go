package nn

import (
	"fmt"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// pool implements MaxPool1d to MaxPool3d and AvgPool1d to AvgPool3d.
type pool struct {
	axes    int
	average bool
	settings
}

// newPool makes a pooling over a number of axes; kernel is the window's extent unless an option sets it.
func newPool(kernel, axes int, average bool, options []Option) Layer {
	o := settingsOf(options)
	if o.kernel == nil {
		o.kernel = []int{kernel}
	}
	return &pool{axes, average, o}
}

// MaxPool1d returns the greatest element in each window of x[N, C, d]. Without Stride, windows do not overlap.
func MaxPool1d(kernel int, options ...Option) Layer { return newPool(kernel, 1, false, options) }

// MaxPool2d is MaxPool1d over x[N, C, h, w].
func MaxPool2d(kernel int, options ...Option) Layer { return newPool(kernel, 2, false, options) }

// MaxPool3d is MaxPool1d over x[N, C, d, h, w].
func MaxPool3d(kernel int, options ...Option) Layer { return newPool(kernel, 3, false, options) }

// AvgPool1d returns the mean of each window of x[N, C, d]; the padding counts as zeros. Without Stride, windows do not
// overlap.
func AvgPool1d(kernel int, options ...Option) Layer { return newPool(kernel, 1, true, options) }

// AvgPool2d is AvgPool1d over x[N, C, h, w].
func AvgPool2d(kernel int, options ...Option) Layer { return newPool(kernel, 2, true, options) }

// AvgPool3d is AvgPool1d over x[N, C, d, h, w].
func AvgPool3d(kernel int, options ...Option) Layer { return newPool(kernel, 3, true, options) }

// String returns the constructor's call, for errors.
func (l *pool) String() string {
	name := "MaxPool"
	if l.average {
		name = "AvgPool"
	}
	return fmt.Sprintf("%s%dd(%s)", name, l.axes, brief(l.kernel))
}

// Declare declares no parameters; it fails if the window is invalid.
func (l *pool) Declare(d *Declaration) {
	if _, err := l.window(l.axes); err != nil {
		d.Fail(fmt.Errorf("%v: %w", l, err))
	}
}

// Apply takes x[N, C, d…] and returns the pooled windows in the same layout.
func (l *pool) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	if x[0].Rank() != l.axes+2 {
		return c.Failf("", "the input is %v; the layer takes %d axes: batch, channels and %d more", x[0], l.axes+2, l.axes)
	}
	kernel, err := l.window(l.axes)
	w, wrong := l.geometry(l.axes)
	if err != nil || wrong != nil {
		return c.Failf("", "%v: %v %v", l, err, wrong)
	}
	if l.average {
		return []*array.Array{c.AvgPool(x[0], kernel, w)}
	}
	return []*array.Array{c.MaxPool(x[0], kernel, w)}
}

// spatial returns the axes after batch and channels.
func spatial(x *array.Array) (axes []int) {
	for i := 2; i < x.Rank(); i++ {
		axes = append(axes, i)
	}
	return axes
}

// Poolings without windows: they reduce each channel to one element.
var (
	// GlobalAvgPool is the mean of each channel: [N, C, d…] becomes [N, C].
	GlobalAvgPool = named("GlobalAvgPool", func(c *Context, x *array.Array) *array.Array {
		if x.Rank() < 3 {
			return c.Failf("", "the input is %v; the layer takes batch, channels and more", x)[0]
		}
		return c.Mean(x, spatial(x)...)
	})
	// GlobalMaxPool is the greatest element of each channel: [N, C, d…] becomes [N, C].
	GlobalMaxPool = named("GlobalMaxPool", func(c *Context, x *array.Array) *array.Array {
		if x.Rank() < 3 {
			return c.Failf("", "the input is %v; the layer takes batch, channels and more", x)[0]
		}
		return c.Max(x, spatial(x)...)
	})
)

// AdaptiveAvgPool divides each axis after batch and channels into the given number of cells, and returns the mean of
// each cell. Cells overlap if their number does not divide the extent. An axis with a named extent takes 1 cell only.
func AdaptiveAvgPool(cells ...int) Layer {
	return named(fmt.Sprintf("AdaptiveAvgPool(%s)", brief(cells)), func(c *Context, x *array.Array) *array.Array {
		return adaptive(c, x, cells, func(x *array.Array, axis int) *array.Array { return c.MeanKeep(x, axis) }, averaging)
	})
}

// AdaptiveMaxPool is AdaptiveAvgPool with the greatest element in place of the mean.
func AdaptiveMaxPool(cells ...int) Layer {
	return named(fmt.Sprintf("AdaptiveMaxPool(%s)", brief(cells)), func(c *Context, x *array.Array) *array.Array {
		return adaptive(c, x, cells, func(x *array.Array, axis int) *array.Array { return c.MaxKeep(x, axis) }, nil)
	})
}

// adaptive pools one axis after the other. pooled reduces an axis to one element. If weigh is not nil, overlapping
// cells are a product with the matrix that it returns.
func adaptive(c *Context, x *array.Array, cells []int, pooled func(x *array.Array, axis int) *array.Array,
	weigh func(extent, cells int) []float32) *array.Array {
	if x.Rank() != len(cells)+2 || len(cells) == 0 {
		return c.Failf("", "the input is %v; the layer takes %d axes: batch, channels and %d more", x, len(cells)+2,
			len(cells))[0]
	}
	for i, n := range cells {
		axis, extent := i+2, x.Dim(i+2)
		switch {
		case n == 1:
			x = pooled(x, axis)
		case n < 1 || extent < 1:
			return c.Failf("a named extent can be pooled to 1", "axis %d of %v is pooled to %d", axis, x, n)[0]
		case extent%n == 0:
			shape := x.Shape()
			split := append(append(append([]int{}, shape[:axis]...), n, extent/n), shape[axis+1:]...)
			shape[axis] = n
			x = c.Reshape(pooled(c.Reshape(x, split...), axis+1), shape...)
		case weigh != nil:
			w := array.From(c.Scope, weigh(extent, n), extent, n)
			x = c.MoveAxis(c.MatMul(c.MoveAxis(x, axis, -1), c.Cast(w, x.DType())), -1, axis)
		default:
			var parts []*array.Array
			for k := range n {
				from, to := k*extent/n, ((k+1)*extent+n-1)/n
				pieces := c.Split(x, axis, from, to-from, extent-to)
				parts = append(parts, pooled(pieces[1], axis))
			}
			x = c.Concat(axis, parts...)
		}
	}
	return x
}

// averaging returns the matrix whose product with an axis gives the means of its cells.
func averaging(extent, cells int) []float32 {
	w := make([]float32, extent*cells)
	for k := range cells {
		from, to := k*extent/cells, ((k+1)*extent+cells-1)/cells
		for i := from; i < to; i++ {
			w[i*cells+k] = 1 / float32(to-from)
		}
	}
	return w
}

// Upsample repeats each position of x[N, C, d…] the given number of times along each axis after batch and channels.
func Upsample(times int) Layer {
	return named(fmt.Sprintf("Upsample(%d)", times), func(c *Context, x *array.Array) *array.Array {
		if x.Rank() < 3 {
			return c.Failf("", "the input is %v; the layer takes batch, channels and more", x)[0]
		}
		for _, axis := range spatial(x) {
			x = c.Repeat(x, times, axis)
		}
		return x
	})
}

// f32 is the type of running statistics.
const f32 = weir.F32
