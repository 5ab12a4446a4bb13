package conformance

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/codegen/amd64/call"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// levelModels are constructed models with the parts of real ones, in sizes that no vector divides.
var levelModels = map[string]string{
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

// TestLevels generates code for constructed models at every level and precision, whatever the processor. A kernel that
// a generator fails at is a panic in tests, and none may be left to portable code.
func TestLevels(t *testing.T) {
	if !call.Supported {
		t.Skip("no machine code is generated for this processor's architecture")
	}
	for name, text := range levelModels {
		for _, level := range target.Levels() {
			if level == target.Native || level == target.PortableName {
				continue
			}
			for _, precision := range []dtype.DType{dtype.F32, dtype.BF16, dtype.I8} {
				for _, size := range []int64{0, 19} { // 0: sizes are not known
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, level, precision, size), func(t *testing.T) {
						generated(t, text, level, precision, size)
					})
				}
			}
		}
	}
}

// generated generates code for a text at a level and precision.
func generated(t *testing.T, text, level string, precision dtype.DType, size int64) {
	machine, err := target.For(level, 2)
	if err != nil {
		t.Fatal(err)
	}
	sizes := "[1, 4096]"
	if size > 0 {
		sizes = fmt.Sprintf("[%d, %d]", size, size)
	}
	head := fmt.Sprintf("weir 1\nir @m {\n  dim n in %s\n  dim s in %s\n", sizes, sizes)
	m, err := ir.Parse(head+text+"\n}", ir.ParseOptions{Data: func(_ string, dt dtype.DType, shape []int64,
		_ int64) (*tensor.Tensor, error) {
		x, err := tensor.New(dt, shape...)
		for i := range x.Len() {
			x.SetFloat(i, float64(i%97-48)/64)
		}
		return x, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiler.Compile(m, compiler.Options{Machine: machine, Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	defer release(c)
	for _, left := range c.Code.Left {
		t.Errorf("%s: %s", left.Kernel, left.Reason)
	}
	for _, fault := range c.Faults {
		t.Error(fault)
	}
}
