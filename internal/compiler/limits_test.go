package compiler

import (
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestSharedMemory compiles models on which compilers fail if they fuse before they know whether the result fits: they
// would keep an entire intermediate tensor, or the row of a reduction, in a block's shared memory of 64 KiB. Every
// kernel keeps within the limit, and the results are right.
func TestSharedMemory(t *testing.T) {
	const limit = 64 << 10
	machine, err := target.For("avx2", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		build func(b *ir.Builder, input func(dt dtype.DType, shape ...int64) *ir.Value) *ir.Value
	}{
		{"a convolution whose filter of 589,824 bytes is dequantised",
			func(b *ir.Builder, input func(dt dtype.DType, shape ...int64) *ir.Value) *ir.Value {
				w := ops.Dequantize(b, input(dtype.I8, 256, 64, 3, 3), scalar(b, 0.02), nil, dtype.F32, ops.Quantization{})
				bias := ops.Dequantize(b, input(dtype.I8, 256), scalar(b, 0.5), nil, dtype.F32, ops.Quantization{})
				return ops.Convolution(b, input(dtype.F32, 1, 64, 4, 4), w, bias,
					ops.Window{Kernel: []int64{3, 3}, Strides: []int64{1, 1}, Dilations: []int64{1, 1},
						Begin: ir.Constants([]int64{1, 1}), End: ir.Constants([]int64{1, 1})}, 1)
			}},
		{"the variance of rows of 262,144", func(b *ir.Builder,
			input func(dt dtype.DType, shape ...int64) *ir.Value) *ir.Value {
			return ops.Normalize(b, input(dtype.F32, 2, 262144), 1e-5, true, 1)
		}},
		{"a softmax of rows of 65,536", func(b *ir.Builder, input func(dt dtype.DType, shape ...int64) *ir.Value) *ir.Value {
			return ops.Softmax(b, input(dtype.F32, 2, 65536), 1)
		}},
		{"a product with rows that are dequantised", func(b *ir.Builder,
			input func(dt dtype.DType, shape ...int64) *ir.Value) *ir.Value {
			w := ops.Dequantize(b, input(dtype.I8, 2048, 256), scalar(b, 0.02), nil, dtype.F32, ops.Quantization{})
			return ops.MatMul(b, input(dtype.F32, 2, 2048), w, false, false)
		}},
		{"a product with a transposed operand, and a softmax of it",
			func(b *ir.Builder, input func(dt dtype.DType, shape ...int64) *ir.Value) *ir.Value {
				return ops.Softmax(b, ops.MatMul(b, input(dtype.F32, 33, 4096), input(dtype.F32, 65, 4096), false, true), 1)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := &ir.Block{}
			m := &ir.Module{Name: "main", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
			m.Funcs = []*ir.Func{m.Main}
			b := ir.NewBuilder(ir.NewInference(m), body)
			r := rand.New(rand.NewSource(1))
			var in []*tensor.Tensor
			body.Results = []*ir.Value{c.build(b, func(dt dtype.DType, shape ...int64) *ir.Value {
				x := tensor.Must(tensor.New(dt, shape...))
				for i := range x.Len() {
					if dt.IsInt() {
						x.SetInt(i, r.Int63n(255)-127)
					} else {
						x.SetFloat(i, r.NormFloat64())
					}
				}
				in = append(in, x)
				return b.Param("x"+string(rune('0'+len(in))), ir.Type{DType: dt, Shape: ir.Constants(shape)})
			})}
			want, err := ir.Evaluate(m, in, nil)
			if err != nil {
				t.Fatal(err)
			}
			machine.Limits.Scratch, machine.Limits.Shared = limit, limit
			compiled, err := Compile(m, Options{Machine: machine})
			if err != nil || len(compiled.Faults) > 0 {
				t.Fatal(err, compiled.Faults)
			}
			if err := schedule.Verify(compiled.Loop, machine); err != nil {
				t.Error(err)
			}
			given := map[string]*tensor.Tensor{}
			for i, x := range in {
				given["x"+string(rune('1'+i))] = x
			}
			got, err := (&loop.Runner{}).Run(compiled.Loop, given)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range got {
				if err := tensor.Compare(result, want[0], 2e-4, 2e-4); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// scalar returns a constant of one f32 element.
func scalar(b *ir.Builder, x float32) *ir.Value {
	return b.Constant("", tensor.Must(tensor.FromSlice([]float32{x})))
}
