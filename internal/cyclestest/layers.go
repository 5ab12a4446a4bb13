package main

import (
	"fmt"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// layer is a part of a network, as a text of ir. Its weights and inputs are quantised, if its input is bytes.
type layer struct {
	name, text string
	quantised  bool
}

// layers returns the layers that the table is about: those of ResNet-50, MobileNetV2, BERT and GPT-2 whose shapes
// differ, and quantised ones.
func layers() (list []layer) {
	add := func(name string, x value, result func(w *writer, x value) value) {
		w := &writer{}
		y := result(w, x)
		list = append(list, layer{name, w.module(x, y), x.dt == dtype.U8})
	}
	add("resnet50/stem", f32(1, 3, 224, 224), func(w *writer, x value) value {
		return w.pool(w.relu(w.convolution(x, 64, 7, 2, 1)))
	})
	for _, b := range []struct{ size, channels int }{{56, 256}, {28, 512}, {14, 1024}, {7, 2048}} {
		c, s := b.channels, b.size
		add(fmt.Sprintf("resnet50/block at %d", s), f32(1, c, s, s), func(w *writer, x value) value {
			return w.relu(w.add(w.convolution(w.relu(w.convolution(w.relu(w.convolution(x, c/4, 1, 1, 1)), c/4, 3, 1, 1)), c,
				1, 1, 1), x))
		})
	}
	add("resnet50/stride to 28", f32(1, 256, 56, 56), func(w *writer, x value) value {
		return w.add(w.convolution(w.relu(w.convolution(x, 128, 3, 2, 1)), 512, 1, 1, 1), w.convolution(x, 512, 1, 2, 1))
	})
	add("resnet50/head", f32(1, 2048, 7, 7), func(w *writer, x value) value {
		return w.softmax(w.linear(w.mean(x), 1000))
	})
	add("mobilenet_v2/stem", f32(1, 3, 224, 224), func(w *writer, x value) value {
		return w.relu(w.convolution(x, 32, 3, 2, 1))
	})
	for _, b := range []struct{ size, channels, stride int }{{56, 24, 1}, {56, 24, 2}, {14, 96, 1}, {14, 96, 2},
		{7, 160, 1}} {
		add(fmt.Sprintf("mobilenet_v2/block at %d, stride %d", b.size, b.stride), f32(1, b.channels, b.size, b.size),
			func(w *writer, x value) value {
				wide := 6 * b.channels
				y := w.relu(w.convolution(w.relu(w.convolution(x, wide, 1, 1, 1)), wide, 3, b.stride, wide))
				return w.convolution(y, b.channels, 1, 1, 1)
			})
	}
	add("mobilenet_v2/head", f32(1, 320, 7, 7), func(w *writer, x value) value {
		return w.linear(w.mean(w.relu(w.convolution(x, 1280, 1, 1, 1))), 1000)
	})
	add("bert/layer of 128 tokens", f32(1, 128, 768), func(w *writer, x value) value {
		return w.transformer(x, "gelu", true)
	})
	add("gpt2/layer of 128 tokens", f32(1, 128, 768), func(w *writer, x value) value {
		return w.transformer(x, "gelu_tanh", false)
	})
	add("gpt2/layer of 1 token", f32(1, 1, 768), func(w *writer, x value) value { return w.step(x, 128) })
	add("gpt2/head of 1 token", f32(1, 1, 768), func(w *writer, x value) value { return w.linear(w.normalised(x), 8192) })
	add("resnet50 int8/block at 14", u8(1, 1024, 14, 14), func(w *writer, x value) value {
		y := w.quantised(x, func(x value) value { return w.relu(w.convolution(x, 256, 1, 1, 1)) })
		return w.quantised(y, func(x value) value { return w.relu(w.convolution(x, 256, 3, 1, 1)) })
	})
	add("bert int8/product of 128 tokens", u8(128, 768), func(w *writer, x value) value {
		return w.quantised(x, func(x value) value { return w.linear(x, 3072) })
	})
	return list
}

// value is a tensor of a text.
type value struct {
	name  string
	dt    dtype.DType
	shape []int
}

// f32 returns an input of f32.
func f32(shape ...int) value { return value{"%x", dtype.F32, shape} }

// u8 returns an input of bytes.
func u8(shape ...int) value { return value{"%x", dtype.U8, shape} }

// ofType returns the value's type, as a text has it.
func (v value) ofType() string {
	return fmt.Sprintf("%s%s", v.dt, strings.ReplaceAll(fmt.Sprint(v.shape), " ", ", "))
}

// writer writes a text.
type writer struct {
	constants, nodes strings.Builder
	count            int
	bytes            bool // weights are bytes with a scale
}

// module returns the text of a module.
func (w *writer) module(x, y value) string {
	return fmt.Sprintf("weir 1\nir @m {\nmain @main(%s: %s) {\n%s%sreturn %s\n}\n}\n", x.name, x.ofType(), &w.constants,
		&w.nodes, y.name)
}

// fresh returns a value without a meaning.
func (w *writer) fresh(dt dtype.DType, shape []int) value {
	w.count++
	return value{fmt.Sprintf("%%v%d", w.count), dt, shape}
}

// weight returns a constant.
func (w *writer) weight(shape ...int) value {
	if w.bytes && len(shape) > 1 {
		return w.dequantised(w.constant(dtype.I8, shape...), w.scalar(dtype.F32, "0.01"))
	}
	return w.constant(dtype.F32, shape...)
}

// constant returns a constant of a type.
func (w *writer) constant(dt dtype.DType, shape ...int) value {
	v, bytes := w.fresh(dt, shape), dt.Bits()/8
	for _, n := range shape {
		bytes *= n
	}
	fmt.Fprintf(&w.constants, "const %s: %s data %d\n", v.name, v.ofType(), bytes)
	return v
}

// scalar returns a constant number.
func (w *writer) scalar(dt dtype.DType, x string) value {
	v := w.fresh(dt, nil)
	fmt.Fprintf(&w.constants, "const %s: %s = [%s]\n", v.name, v.ofType(), x)
	return v
}

// node returns the result of an operator; its first operand has the result's type.
func (w *writer) node(op string, shape []int, attributes string, operands ...value) value {
	return w.typed(op, operands[0].dt, shape, attributes, operands...)
}

// typed returns the result of an operator, of a type.
func (w *writer) typed(op string, dt dtype.DType, shape []int, attributes string, operands ...value) value {
	v := w.fresh(dt, shape)
	var names []string
	for _, x := range operands {
		names = append(names, x.name)
	}
	if attributes != "" {
		attributes = " {" + attributes + "}"
	}
	fmt.Fprintf(&w.nodes, "%s: %s = %s(%s)%s\n", v.name, v.ofType(), op, strings.Join(names, ", "), attributes)
	return v
}

// convolution returns a convolution of squares whose results have the size of x, divided by the stride.
func (w *writer) convolution(x value, filters, kernel, stride, groups int) value {
	n, end := (x.shape[2]+stride-1)/stride, kernel/2
	return w.node("convolution", []int{1, filters, n, n}, fmt.Sprintf("begin = syms [%d, %[1]d], dilations = ints [1, "+
		"1], end = syms [%d, %[2]d], groups = int %d, kernel = ints [%d, %[4]d], strides = ints [%d, %[5]d]", kernel/2, end,
		groups, kernel, stride), x, w.weight(filters, x.shape[1]/groups, kernel, kernel), w.constant(dtype.F32, filters))
}

// pool returns the maxima of squares of 3 at a stride of 2.
func (w *writer) pool(x value) value {
	n := (x.shape[2] + 1) / 2
	return w.node("max_pool", []int{1, x.shape[1], n, n}, "begin = syms [1, 1], ceil = bool false, dilations = ints [1, "+
		"1], end = syms [1, 1], kernel = ints [3, 3], strides = ints [2, 2]", x)
}

// mean returns the means of the channels.
func (w *writer) mean(x value) value {
	return w.node("reduce_mean", x.shape[:2], "axes = ints [2, 3], keep = bool false", x)
}

// relu returns the elements that are not negative, and 0 for the others.
func (w *writer) relu(x value) value { return w.node("relu", x.shape, "", x) }

// add returns the sum.
func (w *writer) add(x, y value) value { return w.node("add", x.shape, "", x, y) }

// softmax returns the shares of the last axis.
func (w *writer) softmax(x value) value {
	return w.node("softmax", x.shape, fmt.Sprintf("axis = int %d", len(x.shape)-1), x)
}

// matmul returns the product with a weight, without a bias.
func (w *writer) matmul(x, y value) value {
	last := len(x.shape) - 1
	shape := append(append([]int{}, x.shape[:last]...), y.shape[len(y.shape)-1])
	return w.node("matmul", shape, "transpose_a = bool false, transpose_b = bool false", x, y)
}

// linear returns the product with a weight, and adds a bias.
func (w *writer) linear(x value, columns int) value {
	return w.add(w.matmul(x, w.weight(x.shape[len(x.shape)-1], columns)), w.constant(dtype.F32, columns))
}

// normalised returns the rows with a mean of 0 and a variance of 1, times a weight, plus a bias.
func (w *writer) normalised(x value) value {
	axis := len(x.shape) - 1
	attributes := fmt.Sprintf("axes = ints [%d], centered = bool true, epsilon = float 1e-12", axis)
	y := w.node("normalize", x.shape, attributes, x)
	y = w.node("mul", x.shape, "", y, w.constant(dtype.F32, x.shape[axis]))
	return w.add(y, w.constant(dtype.F32, x.shape[axis]))
}

// Heads of attention, and the elements of each.
const (
	heads = 12
	part  = 64
)

// split returns x by heads.
func (w *writer) split(x value) value {
	n := x.shape[1]
	y := w.node("reshape", []int{1, n, heads, part}, fmt.Sprintf("shape = syms [1, %d, %d, %d]", n, heads, part), x)
	return w.node("transpose", []int{1, heads, n, part}, "perm = ints [0, 2, 1, 3]", y)
}

// attend returns the values that the queries attend to.
func (w *writer) attend(q, k, v value) value {
	n, keys := q.shape[2], k.shape[2]
	k = w.node("transpose", []int{1, heads, part, keys}, "perm = ints [0, 1, 3, 2]", k)
	scores := w.node("mul", []int{1, heads, n, keys}, "", w.matmul(q, k), w.scalar(dtype.F32, "0.125"))
	y := w.node("transpose", []int{1, n, heads, part}, "perm = ints [0, 2, 1, 3]", w.matmul(w.softmax(scores), v))
	return w.node("reshape", []int{1, n, heads * part}, fmt.Sprintf("shape = syms [1, %d, %d]", n, heads*part), y)
}

// feed returns the two products after attention.
func (w *writer) feed(x value, activation string) value {
	y := w.linear(x, 4*heads*part)
	return w.linear(w.node(activation, y.shape, "alpha = float 0, beta = float 0", y), heads*part)
}

// transformer returns a layer, whose sums are normalised after the additions or before the products.
func (w *writer) transformer(x value, activation string, after bool) value {
	before := func(x value) value {
		if after {
			return x
		}
		return w.normalised(x)
	}
	next := func(x value) value {
		if after {
			return w.normalised(x)
		}
		return x
	}
	in := before(x)
	attended := w.attend(w.split(w.linear(in, 768)), w.split(w.linear(in, 768)), w.split(w.linear(in, 768)))
	y := next(w.add(w.linear(attended, 768), x))
	return next(w.add(w.feed(before(y), activation), y))
}

// step returns a layer of one token that attends to earlier ones.
func (w *writer) step(x value, keys int) value {
	q := w.split(w.linear(w.normalised(x), 768))
	past := func() value { return w.constant(dtype.F32, 1, heads, keys, part) }
	y := w.add(w.linear(w.attend(q, past(), past()), 768), x)
	return w.add(w.feed(w.normalised(y), "gelu_tanh"), y)
}

// dequantised returns the numbers that bytes stand for.
func (w *writer) dequantised(x value, scale ...value) value {
	return w.typed("dequantize", dtype.F32, x.shape, "axis = int 1, block = int 0, to = dtype f32",
		append([]value{x}, scale...)...)
}

// quantised returns a function of bytes as bytes.
func (w *writer) quantised(x value, f func(x value) value) value {
	w.bytes = true
	scale, zero := w.scalar(dtype.F32, "0.02"), w.scalar(dtype.U8, "128")
	y := f(w.dequantised(x, scale, zero))
	w.bytes = false
	return w.typed("quantize", dtype.U8, y.shape, "axis = int 1, block = int 0, precision = dtype invalid, "+
		"to = dtype u8, wrap = bool false", y, w.scalar(dtype.F32, "0.02"), zero)
}

// parsed returns the module of a text. Its constants have small elements.
func parsed(text string) (*ir.Module, error) {
	return ir.Parse(text, ir.ParseOptions{Data: func(_ string, dt dtype.DType, shape []int64, _ int64) (*tensor.Tensor,
		error) {
		x, err := tensor.New(dt, shape...)
		if err != nil {
			return nil, err
		}
		scale := 64.0
		if dt.IsInt() {
			scale = 1
		}
		for i := range x.Len() {
			x.SetFloat(i, float64(i%97-48)/scale)
		}
		return x, nil
	}})
}
