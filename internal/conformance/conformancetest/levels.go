package conformancetest

import (
	"fmt"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// LevelModels are constructed models with the parts of real ones, in sizes that no vector divides.
var LevelModels = map[string]string{
	"images": `main @main(%x: f32[n, 3, 37, 45]) {
  const %w1: f32[48, 3, 7, 7] data 28224
  const %b1: f32[48] data 192
  const %w2: f32[48, 48, 3, 3] data 82944
  const %w3: f32[120, 48, 1, 1] data 23040
  const %w4: f32[48, 1, 3, 3] data 1728
  const %w5: f32[120, 10] data 4800
  %v1: f32[n, 48, 19, 23] = convolution(%x, %w1, %b1) {begin = syms [3, 3], dilations = ints [1, 1], end = syms [3, 3], groups = int 1, kernel = ints [7, 7], strides = ints [2, 2]}
  %v2: f32[n, 48, 19, 23] = relu(%v1)
  %v3: f32[n, 48, 19, 23] = convolution(%v2, %w2, %b1) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 1, kernel = ints [3, 3], strides = ints [1, 1]}
  %v4: f32[n, 48, 19, 23] = convolution(%v3, %w4) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 48, kernel = ints [3, 3], strides = ints [1, 1]}
  %v5: f32[n, 48, 19, 23] = add(%v2, %v4)
  %v6: f32[n, 48, 19, 23] = relu(%v5)
  %v7: f32[n, 120, 10, 12] = convolution(%v6, %w3) {begin = syms [0, 0], dilations = ints [1, 1], end = syms [0, 0], groups = int 1, kernel = ints [1, 1], strides = ints [2, 2]}
  %v8: f32[n, 120] = reduce_mean(%v7) {axes = ints [2, 3], keep = bool false}
  %v9: f32[n, 10] = matmul(%v8, %w5)
  return %v9
}`,
	"sequences": `main @main(%x: f32[n, s, 72]) {
  const %q: f32[72, 72] data 20736
  const %k: f32[72, 72] data 20736
  const %v: f32[72, 72] data 20736
  const %up: f32[72, 203] data 58464
  const %down: f32[203, 72] data 58464
  const %b: f32[203] data 812
  %v1: f32[n, s, 72] = matmul(%x, %q)
  %v2: f32[n, s, 72] = matmul(%x, %k)
  %v3: f32[n, s, 72] = matmul(%x, %v)
  %v4: f32[n, s, s] = matmul(%v1, %v2) {transpose_a = bool false, transpose_b = bool true}
  %v5: f32[n, s, s] = softmax(%v4) {axis = int 2}
  %v6: f32[n, s, 72] = matmul(%v5, %v3)
  %v7: f32[n, s, 72] = add(%x, %v6)
  %v8: f32[n, s, 203] = matmul(%v7, %up)
  %v9: f32[n, s, 203] = add(%v8, %b)
  %v10: f32[n, s, 203] = tanh(%v9)
  %v11: f32[n, s, 72] = matmul(%v10, %down)
  %v12: f32[n, s, 72] = add(%v7, %v11)
  return %v12
}`,
}

// LevelModule returns a module of a text, such as LevelModels has. Its dimensions n and s are size, or from 1 to 4096
// if size is 0; its constants have small elements.
func LevelModule(text string, size int64) (*ir.Module, error) {
	sizes := "[1, 4096]"
	if size > 0 {
		sizes = fmt.Sprintf("[%d, %d]", size, size)
	}
	head := fmt.Sprintf("weir 1\nir @m {\n  dim n in %s\n  dim s in %s\n", sizes, sizes)
	return ir.Parse(head+text+"\n}", ir.ParseOptions{Data: func(_ string, dt dtype.DType, shape []int64,
		_ int64) (*tensor.Tensor, error) {
		x, err := tensor.New(dt, shape...)
		for i := range x.Len() {
			x.SetFloat(i, float64(i%97-48)/64)
		}
		return x, err
	}})
}
