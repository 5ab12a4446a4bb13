package compiler

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestLines compiles convolutions along one axis of a named extent, fused with a function. The work is divided among
// several threads, and no worker holds an entire line. The results equal the definition's, also for lengths near a
// block's.
func TestLines(t *testing.T) {
	machine, err := Machine("avx2", 2, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                                               string
		filters, groups, kernel, stride, pad, end, dilated int64
	}{
		{"without padding", 64, 1, 3, 2, 0, 0, 1},
		{"padded", 64, 1, 3, 1, 1, 1, 1},
		{"padded at the end, strided", 128, 1, 4, 3, 0, 5, 1},
		{"dilated", 64, 1, 3, 1, 2, 2, 2},
		{"depthwise", 64, 64, 3, 1, 1, 1, 1},
		{"depthwise, strided", 64, 64, 5, 2, 4, 0, 1},
		{"a window below its stride", 64, 1, 2, 5, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewSource(3))
			reach := (c.kernel-1)*c.dilated + 1
			list := ""
			for range c.filters * (64 / c.groups) * c.kernel {
				list += fmt.Sprintf(", %g", float32(r.NormFloat64()))
			}
			text := fmt.Sprintf(`weir 1
ir @line {
dim n in [%d, inf]
main @main(%%x: f32[1, 64, n]) {
  const %%w: f32[%d, %d, %d] = [%s]
  %%r: f32[1, 64, n] = relu(%%x)
  %%c: f32[1, %d, (n + %d)//%d + 1] = convolution(%%r, %%w) {begin = syms [%d], dilations = ints [%d], end = syms [%d],
    groups = int %d, kernel = ints [%d], strides = ints [%d]}
  %%y: f32[1, %d, (n + %d)//%d + 1] = tanh(%%c)
  return %%y
}
}`, reach, c.filters, 64/c.groups, c.kernel, list[2:], c.filters, c.pad+c.end-reach, c.stride, c.pad, c.dilated, c.end,
				c.groups, c.kernel, c.stride, c.filters, c.pad+c.end-reach, c.stride)
			read := func() *ir.Module {
				m, err := ir.Parse(text, ir.ParseOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			compiled, err := Compile(read(), Options{Machine: machine, Portable: true})
			if err != nil || len(compiled.Faults) > 0 {
				t.Fatal(err, compiled.Faults)
			}
			if err := schedule.Verify(compiled.Loop, machine); err != nil {
				t.Error(err)
			}
			long := func(sym.Name) (int64, bool) { return 3000, true }
			for _, k := range compiled.Loop.Kernels {
				if n := tilesOf(t, k, long); n < 2 {
					t.Errorf("%d tiles\n%s", n, k)
				}
			}
			if compiled.Guards > 0 {
				t.Errorf("%d accesses are guarded", compiled.Guards)
			}
			if held, err := compiled.Scratch.Eval(long); err != nil || held > 2*32*3050*4 {
				t.Errorf("a worker needs %d bytes: %v", held, err)
			}
			for _, n := range []int64{reach, 169} {
				x := tensor.Must(tensor.New(dtype.F32, 1, 64, n))
				for i := range x.Len() {
					x.SetFloat(i, r.NormFloat64())
				}
				want, err := ir.Evaluate(read(), []*tensor.Tensor{x}, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := (&loop.Runner{}).Run(compiled.Loop, map[string]*tensor.Tensor{"x": x})
				if err != nil {
					t.Fatal(err)
				}
				for _, result := range got {
					if err := tensor.Compare(result, want[0], 1e-4, 1e-4); err != nil {
						t.Errorf("%d: %v", n, err)
					}
				}
			}
		})
	}
}

// tilesOf returns the number of parallel tiles of the nest of a kernel that has the fewest.
func tilesOf(t *testing.T, k *loop.Kernel, dims func(sym.Name) (int64, bool)) int64 {
	least := int64(1 << 40)
	for _, stmt := range k.Body {
		tiles := int64(1)
		for body := []loop.Stmt{stmt}; len(body) == 1; {
			f, ok := body[0].(*loop.For)
			if !ok || f.Kind != loop.Parallel {
				break
			}
			n, err := f.Extent.Eval(dims)
			if err != nil {
				t.Fatal(err)
			}
			tiles, body = tiles*n, f.Body
		}
		least = min(least, tiles)
	}
	return least
}
