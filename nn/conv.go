package nn

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/array"
)

// Stride sets a window's step: one number for all axes, or one for each.
func Stride(n ...int) Option { return func(o *settings) { o.strides = n } }

// Padding sets the number of positions added before and after each axis: one number for all axes, or one for each.
func Padding(n ...int) Option { return func(o *settings) { o.padding = n } }

// Dilation sets the distance between a window's elements: one number for all axes, or one for each.
func Dilation(n ...int) Option { return func(o *settings) { o.dilations = n } }

// Window sets the window's extent for each axis, in place of the single number for all axes.
func Window(n ...int) Option { return func(o *settings) { o.kernel = n } }

// Groups divides a convolution's channels into n groups with filters of their own.
func Groups(n int) Option { return func(o *settings) { o.groups = n } }

// OutputPadding lengthens the result of a transposed convolution: one number for all axes, or one for each.
func OutputPadding(n ...int) Option { return func(o *settings) { o.output = n } }

// Ceil lets a pooling's last window extend beyond the end of an axis.
func Ceil(o *settings) { o.ceil = true }

// NoPadCount excludes the padding from an average.
func NoPadCount(o *settings) { o.unpadded = true }

// convolution implements Conv1d to Conv3d and ConvTranspose1d to ConvTranspose3d.
type convolution struct {
	in, out    int
	axes       int
	transposed bool
	settings
}

// Conv1d is a convolution over x[N, in, d] with windows of kernel positions. Parameters: "weight", [out, in / groups,
// kernel], and "bias", [out].
func Conv1d(in, out, kernel int, options ...Option) Layer {
	return newConv(in, out, kernel, 1, false, options)
}

// Conv2d is Conv1d over x[N, in, h, w].
func Conv2d(in, out, kernel int, options ...Option) Layer {
	return newConv(in, out, kernel, 2, false, options)
}

// Conv3d is Conv1d over x[N, in, d, h, w].
func Conv3d(in, out, kernel int, options ...Option) Layer {
	return newConv(in, out, kernel, 3, false, options)
}

// ConvTranspose1d is a transposed convolution: it adds each position of x[N, in, d] to a window of the result, as the
// derivative of Conv1d does. Parameters: "weight", [in, out / groups, kernel], and "bias", [out].
func ConvTranspose1d(in, out, kernel int, options ...Option) Layer {
	return newConv(in, out, kernel, 1, true, options)
}

// ConvTranspose2d is ConvTranspose1d over x[N, in, h, w].
func ConvTranspose2d(in, out, kernel int, options ...Option) Layer {
	return newConv(in, out, kernel, 2, true, options)
}

// ConvTranspose3d is ConvTranspose1d over x[N, in, d, h, w].
func ConvTranspose3d(in, out, kernel int, options ...Option) Layer {
	return newConv(in, out, kernel, 3, true, options)
}

// newConv makes a convolution over a number of axes; kernel is the window's extent unless an option sets it.
func newConv(in, out, kernel, axes int, transposed bool, options []Option) Layer {
	o := settingsOf(options)
	if o.kernel == nil {
		o.kernel = []int{kernel}
	}
	return &convolution{in, out, axes, transposed, o}
}

// String returns the constructor's call, for errors.
func (l *convolution) String() string {
	name := "Conv"
	if l.transposed {
		name = "ConvTranspose"
	}
	return fmt.Sprintf("%s%dd(%d, %d, %s)", name, l.axes, l.in, l.out, brief(l.kernel))
}

// brief formats a list of numbers; a list of one number as that number.
func brief(list []int) string {
	if len(list) == 1 {
		return fmt.Sprint(list[0])
	}
	return fmt.Sprint(list)
}

// Declare declares the weight and the bias; it fails if the groups do not divide the channels.
func (l *convolution) Declare(d *Declaration) {
	groups := max(l.groups, 1)
	window, err := l.window(l.axes)
	if err == nil && (l.in < 1 || l.out < 1 || l.in%groups != 0 || l.out%groups != 0) {
		err = fmt.Errorf("%d channels in and %d out are no multiples of %d groups", l.in, l.out, groups)
	}
	if err != nil {
		d.Fail(fmt.Errorf("%v: %w", l, err))
		return
	}
	shape := append([]int{l.out, l.in / groups}, window...)
	if l.transposed {
		shape = append([]int{l.in, l.out / groups}, window...)
	}
	d.Param("weight", l.dtype, l.initial(byFan()), shape...)
	if l.bias {
		fan, _ := fans(shape)
		d.Param("bias", l.dtype, l.initialBias(within(fan)), l.out)
	}
}

// Apply takes x[N, in, d…] and returns [N, out, d…].
func (l *convolution) Apply(c *Context, x ...*array.Array) []*array.Array {
	if !c.takes(1, x) {
		return c.dead()
	}
	if x[0].Rank() != l.axes+2 || x[0].Dim(1) != l.in {
		return c.Failf("the channels are axis 1; Permute moves them there",
			"the input is %v; the layer takes %d axes, %d channels in axis 1",
			x[0], l.axes+2, l.in)
	}
	w, err := l.geometry(l.axes)
	if err != nil {
		return c.Failf("", "%v", err)
	}
	var bias *array.Array
	if l.bias {
		bias = c.Param("bias")
	}
	if l.transposed {
		return []*array.Array{c.ConvTranspose(x[0], c.Param("weight"), bias, w)}
	}
	return []*array.Array{c.Conv(x[0], c.Param("weight"), bias, w)}
}

// eachAxis returns a setting's numbers for each axis: a single number is repeated. what names the setting in errors.
func eachAxis(what string, list []int, axes int) ([]int, error) {
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		return slices.Repeat(list, axes), nil
	case axes:
		return list, nil
	}
	return nil, fmt.Errorf("%d numbers for the %s of %d axes", len(list), what, axes)
}

// window returns the kernel's extent for each axis.
func (o *settings) window(axes int) ([]int, error) {
	kernel, err := eachAxis("window", o.kernel, axes)
	for _, k := range kernel {
		if k < 1 && err == nil {
			err = fmt.Errorf("a window of %d", k)
		}
	}
	return kernel, err
}

// geometry returns the settings of the window as package array's operations take them.
func (o *settings) geometry(axes int) (w array.Window, err error) {
	if w.Strides, err = eachAxis("stride", o.strides, axes); err != nil {
		return w, err
	}
	if w.Dilations, err = eachAxis("dilation", o.dilations, axes); err != nil {
		return w, err
	}
	if w.Output, err = eachAxis("output padding", o.output, axes); err != nil {
		return w, err
	}
	padding, err := eachAxis("padding", o.padding, axes)
	for _, p := range padding {
		w.Padding = append(w.Padding, [2]int{p, p})
	}
	w.Groups, w.Ceil, w.Padded = max(o.groups, 1), o.ceil, !o.unpadded
	return w, err
}
