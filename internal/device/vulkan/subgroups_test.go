//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/codegen/kerneltest"
	"github.com/weirml/weir/internal/codegen/spirv"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// combining returns a kernel whose blocks of threads combine two rows of elements by halves.
func combining(t testing.TB, threads int64, dt, op string) *loop.Kernel {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "kernel @c(%%x: %s[n, %d] read, %%y: %s[n, 2] write) dims(n) { block i < n { shared %%p: %s[%d] "+
		"shared %%q: %s[%d] thread t < %d { store %%p[t] = load %%x[i, t] store %%q[t] = load %%x[i, %d - t] } ", dt, threads,
		dt, dt, threads, dt, threads, threads, threads-1)
	for half := threads / 2; half >= 1; half /= 2 {
		fmt.Fprintf(&b, "thread u < %d { store %%p[u] = %s(load %%p[u], load %%p[u + %d]) "+
			"store %%q[u] = max(load %%q[u], load %%q[u + %d]) } ", half, op, half, half)
	}
	b.WriteString("thread v < 1 { store %y[i, 0] = load %p[0] store %y[i, 1] = load %q[0] } } }")
	k, err := loop.ParseKernel(b.String())
	must(t, err)
	return k
}

// BenchmarkSubgroups measures rows of 256 elements that are combined by halves, with subgroups and without.
func BenchmarkSubgroups(b *testing.B) {
	d := open(b)
	for _, without := range [][]string{nil, {target.Shuffle}} {
		name := "with"
		if without != nil {
			name = "without"
		}
		b.Run(name, func(b *testing.B) {
			k := combining(b, 256, "f32", "add")
			code, err := spirv.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, harness(b, nil, without...).Machine)
			must(b, err)
			const rows = 1024
			loaded, err := d.Load(code.Kernels[0].(target.Blocks))
			must(b, err)
			defer loaded.Close()
			q, err := d.NewQueue()
			must(b, err)
			defer q.Close()
			x, err := d.Allocate("x", rows*256*4)
			must(b, err)
			defer x.Close()
			y, err := d.Allocate("y", rows*2*4)
			must(b, err)
			defer y.Close()
			for range b.N {
				must(b, q.Launch(loaded, []uint64{x.Address(), y.Address()}, []int64{rows}, 0))
				must(b, q.Wait(b.Context()))
			}
		})
	}
}

// TestSubgroups: threads that combine values by halves have the same bits with subgroups as without, for blocks of any
// number of threads; blocks that are no multiple of a subgroup do not use them.
func TestSubgroups(t *testing.T) {
	machine := open(t).Machine()
	if !machine.Has(target.Shuffle) {
		t.Skip("the device does not let threads of a subgroup read one another's values")
	}
	refused, used, r := map[string]int{}, 0, rand.New(rand.NewSource(5))
	for threads := int64(2); threads <= machine.Limits.Invocations; threads *= 2 {
		for _, c := range []struct{ dt, op string }{{"f32", "add"}, {"f32", "mul"}, {"i32", "add"}, {"u32", "min"},
			{"f64", "add"}, {"i64", "add"}} {
			k := combining(t, threads, c.dt, c.op)
			dims := map[sym.Name]int64{sym.User("n"): 5}
			var results [2][]byte
			for i, without := range [][]string{nil, {target.Shuffle}} {
				h := harness(t, refused, without...)
				code, err := spirv.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
				must(t, err)
				entry := code.Kernels[0].(target.Blocks).Binary().Entries[0]
				want := i == 0 && threads >= machine.Limits.Subgroup && threads <= target.ShuffleThreads &&
					strings.HasSuffix(c.dt, "32")
				if (entry.Subgroup > 0) != want {
					t.Errorf("%d threads of %s rely on a subgroup of %d threads", threads, c.dt, entry.Subgroup)
				}
				if entry.Subgroup > 0 {
					used++
				}
				operands := make([]*tensor.Tensor, 2)
				for j, p := range k.Params {
					operands[j] = kerneltest.Operand(t, p, dims)
				}
				r.Seed(threads)
				for j := range operands[0].Len() { // numbers only: the sign of a sum that is NaN is the driver's
					if operands[0].DType().IsFloat() {
						operands[0].SetFloat(j, r.NormFloat64())
					} else {
						operands[0].SetInt(j, int64(r.Uint32()))
					}
				}
				h.Agree(t, k, dims, operands, kerneltest.Tolerance(k.Params[1].DType), 0)
				results[i] = bytes.Clone(operands[1].Bytes())
			}
			if !bytes.Equal(results[0], results[1]) {
				t.Errorf("%d threads: %s of %s has other bits with subgroups", threads, c.op, c.dt)
			}
		}
	}
	if used == 0 || len(refused) > 0 {
		t.Errorf("%d kernels use subgroups, and %v are refused", used, refused)
	}
}
