package schedule

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// together returns the Contracts of a kernel that stand outside Thread loops.
func together(body []loop.Stmt) (list []*loop.Contract) {
	loop.Walk(body, func(s loop.Stmt) bool {
		if c, is := s.(*loop.Contract); is {
			list = append(list, c)
		}
		f, is := s.(*loop.For)
		return !is || f.Kind != loop.Thread
	})
	return list
}

// TestMatrixTiles: products of narrow elements have tiles of cooperative matrices on a machine that has matrices of the
// type, within its shared memory, and compute the same as the plain loops: for whole, ragged and empty operands, with
// infinities and NaN. Wide or mixed elements, processors and machines without these matrices have none.
func TestMatrixTiles(t *testing.T) {
	source := `kernel @k(%x: A[2, n, k] read, %y: B[k, m] read, %b: f32[m] read, %z: f32[2, n, m] write) dims(n, k, m) {
	  each a < 2 { each i < n { each j < m {
	    var %s: SUM = 0
	    for d < k { %s add= mul(cast(SUM, load %x[a, i, d]), cast(SUM, load %y[d, j])) }
	    store %z[a, i, j] = add(cast(f32, %s), load %b[j])
	  } } }
	}`
	transposed := `kernel @k(%x: A[2, k, n] read, %y: B[m, k] read, %b: f32[m] read, %z: f32[2, m, n] write) dims(n, k, m) {
	  each a < 2 { each j < m { each i < n {
	    var %s: SUM = 0
	    for d < k { %s add= mul(cast(SUM, load %x[a, d, i]), cast(SUM, load %y[j, d])) }
	    store %z[a, j, i] = add(cast(f32, %s), load %b[j])
	  } } }
	}`
	used, pairs := 0, 0
	for _, c := range []struct {
		a, b, sum, limits string
		matrices          bool
	}{
		{"f16", "f16", "f32", "desktop,shuffle,matrix-f16-16x16x16", true},
		{"f16", "f16", "f32", "desktop,shuffle,subgroup=8,matrix-f16-8x8x8,matrix-f16-8x4x8", true},
		{"bf16", "bf16", "f32", "gfx942,shuffle,matrix-bf16-8x16x16", true},
		{"i8", "i8", "i32", "desktop,shuffle,matrix-i8-16x16x32", true},
		{"f16", "f16", "f32", "desktop,shuffle,shared=4096,matrix-f16-16x16x16", true},
		{"f16", "f16", "f32", "desktop,shuffle,shared=2048,matrix-f16-16x16x16", false},
		{"f16", "f16", "f32", "desktop,shuffle,invocations=16,matrix-f16-16x16x16,subgroup=16", true},
		{"f16", "f16", "f32", "desktop,shuffle,-int16,matrix-f16-16x16x16", false},
		{"f16", "f16", "f32", "desktop,shuffle,cached-reads,matrix-f16-16x16x16", false},
		{"f16", "bf16", "f32", "desktop,shuffle,matrix-f16-16x16x16,matrix-bf16-16x16x16", false},
		{"bf16", "bf16", "f32", "desktop,shuffle,matrix-f16-16x16x16", false},
		{"f32", "f32", "f32", "desktop,shuffle,matrix-f16-16x16x16,matrix-bf16-16x16x16,matrix-i8-16x16x16", false},
		{"f16", "f32", "f32", "desktop,shuffle,matrix-f16-16x16x16", false},
		{"u8", "u8", "i32", "desktop,shuffle,matrix-i8-16x16x16", false},
		{"i8", "i8", "f32", "desktop,shuffle,matrix-i8-16x16x16", false},
	} {
		machine, err := target.ParseLimits(c.limits)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range [][3]int64{{64, 64, 64}, {33, 50, 70}, {40, 9, 140}, {17, 40, 0}, {0, 20, 5}} {
			text := strings.NewReplacer("A[", c.a+"[", "B[", c.b+"[", "SUM", c.sum).Replace([]string{source, transposed}[i%2])
			k, err := loop.ParseKernel(text)
			if err != nil {
				t.Fatal(err)
			}
			dims := map[sym.Name]int64{sym.User("n"): size[0], sym.User("m"): size[1], sym.User("k"): size[2]}
			for _, fixed := range []bool{false, true} {
				if fixed {
					k = withSizes(k, dims)
				}
				s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}}, machine: machine, dims: sym.NewDims()}
				for name := range dims {
					s.dims.Set(name, sym.Range{Max: 4096})
				}
				next := s.blockProduct(k.Clone())
				if next == nil {
					t.Fatalf("%+v, %v: no product", c, size)
				}
				products := together(next.Body)
				if large := !fixed || size == [3]int64{64, 64, 64}; len(products) > 0 != c.matrices && (large || !c.matrices) {
					t.Errorf("%+v, %v: %d contractions of blocks\n%s", c, size, len(products), next)
				}
				if need := NeedOf(next, machine, s.dims); need.Shared > machine.Limits.Shared {
					t.Errorf("%+v: %d shared bytes", c, need.Shared)
				}
				if len(products) == 0 {
					continue
				}
				if used++; len(products) > 1 {
					pairs++
				}
				if _, err := loop.Verify(next, s.dims); err != nil {
					t.Fatalf("%+v, %v: %v\n%s", c, size, err, next)
				}
				sameMatrices(t, fmt.Sprintf("%+v, %v", c, size), k, next, dims)
			}
		}
	}
	if used < 30 || pairs == 0 {
		t.Errorf("%d kernels have matrices, and %d of them two pairs of tiles", used, pairs)
	}
}

// sameMatrices compares two kernels in the interpreter. Elements have few bits, so that sums are exact in any order;
// some are NaN or infinite.
func sameMatrices(t *testing.T, what string, k, next *loop.Kernel, dims map[sym.Name]int64) {
	t.Helper()
	for _, odd := range []bool{false, true} {
		want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
		r := rand.New(rand.NewSource(2))
		for i, x := range want[:3] {
			for j := range x.Len() {
				v := float64(r.Intn(33)-16) / 8
				if odd && r.Intn(60) == 0 {
					v = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.Intn(3)]
				}
				if x.DType().IsInt() {
					v = float64(r.Intn(256) - 128)
				}
				if x.DType() == dtype.I8 {
					x.SetInt(j, int64(v))
					got[i].SetInt(j, int64(v))
					continue
				}
				x.SetFloat(j, v)
				got[i].SetFloat(j, v)
			}
		}
		for i, run := range []error{interpret(k, want, dims), interpret(next, got, dims)} {
			if run != nil {
				t.Fatalf("%s: kernel %d: %v\n%s", what, i, run, next)
			}
		}
		if err := tensor.Compare(got[3], want[3], 0, 0); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, next)
		}
	}
}
