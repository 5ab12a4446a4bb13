package nn

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/array"
)

// Stride is a window's step, one number for all axes or one for each.
func Stride(n ...int) Option { return func(o *settings) { o.strides = n } }

// Padding is how many positions are added before and after each axis, one number for all axes or one for each.
func Padding(n ...int) Option { return func(o *settings) { o.padding = n } }

// Dilation is the distance between a window's elements, one number for all axes or one for each.
func Dilation(n ...int) Option { return func(o *settings) { o.dilations = n } }

// Window is the window's extents, one for each axis, instead of the one number for all of them.
func Window(n ...int) Option { return func(o *settings) { o.kernel = n } }

// Groups cuts a convolution's channels into groups, which have filters of their own.
func Groups(n int) Option { return func(o *settings) { o.groups = n } }

// OutputPadding makes the result of a transposed convolution longer, one number for all axes or one for each.
func OutputPadding(n ...int) Option { return func(o *settings) { o.output = n } }

// Ceil lets a pooling's last window hang over the end.
func Ceil(o *settings) { o.ceil = true }

// NoPadCount has an average not count the padding.
func NoPadCount(o *settings) { o.unpadded = true }

// convolution is Conv1d to Conv3d and ConvTranspose1d to ConvTranspose3d.
type convolution struct {
	in, out    int
	axes       int
	transposed bool
	settings
}

// Conv1d is a convolution over x[N, in, d] by windows of kernel positions: "weight", [out, in / groups, kernel], and
// "bias".
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

// ConvTranspose1d spreads each position of x[N, in, d] over a window: "weight", [in, out / groups, kernel], and "bias".
// It is what the derivative of Conv1d does.
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

func newConv(in, out, kernel, axes int, transposed bool, options []Option) Layer {
	o := settingsOf(options)
	if o.kernel == nil {
		o.kernel = []int{kernel}
	}
	return &convolution{in, out, axes, transposed, o}
}

func (l *convolution) String() string {
	name := "Conv"
	if l.transposed {
		name = "ConvTranspose"
	}
	return fmt.Sprintf("%s%dd(%d, %d, %s)", name, l.axes, l.in, l.out, brief(l.kernel))
}

// brief is a list of numbers, or the one number of a list that has one.
func brief(list []int) string {
	if len(list) == 1 {
		return fmt.Sprint(list[0])
	}
	return fmt.Sprint(list)
}

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

// each is a setting for each axis: one number is that of all of them.
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

// window is the kernel's extents.
func (o *settings) window(axes int) ([]int, error) {
	kernel, err := eachAxis("window", o.kernel, axes)
	for _, k := range kernel {
		if k < 1 && err == nil {
			err = fmt.Errorf("a window of %d", k)
		}
	}
	return kernel, err
}

// geometry is the window as arrays' operations take it.
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
