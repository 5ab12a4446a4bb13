package schedule

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// blockKernels are kernels as lowering writes them for machines with blocks of threads. Their dimensions are dynamic.
var blockKernels = func() []struct{ name, source string } {
	product := func(begin, x, y, end string) string {
		return `kernel @k(%x: f32[n, k] read, %y: f32[k, m] read, %b: f32[m] read, %q: i8[k, m] read, %z: f32[n, m] write) dims(n, k, m) {
		  each i < n { each j < m {
		    var %s: f32 = ` + begin + `
		    for d < k { %s add= mul(` + x + `, ` + y + `) }
		    store %z[i, j] = ` + end + `
		  } }
		}`
	}
	attention := func(heads, keys, score string) string {
		return `kernel @k(%q: f32[2, 3, n, 5] read, %y: f32[2, k, 5] read, %v: f16[2, k, 7] read, %m: bool[k, n] read, %z: f32[2, n, ` + heads + `, 7] write) dims(n, k) {
		  each b < 2 { each h < ` + heads + ` { each i < n {
		    local %o: f32[7]
		    each e0 < 7 { store %o[e0] = 0 }
		    var %top: f32 = -inf
		    var %total: f32 = 0
		    for j < ` + keys + ` {
		      var %s: f32 = 0
		      for d < 5 { %s add= mul(load %q[b, h, i, d], load %y[b, j, d]) }
		      let %t = tanh(mul(%s, 0.5))
		      let %score = select(load %m[j, i], ` + score + `, -10000)
		      let %greatest = max(%top, %score)
		      let %least = select(eq(%greatest, -inf), 0, %greatest)
		      let %shrink = exp(sub(%top, %least))
		      let %weight = exp(sub(%score, %least))
		      %total = add(mul(%total, %shrink), %weight)
		      %top = %greatest
		      each e1 < 7 { store %o[e1] = add(mul(load %o[e1], %shrink), mul(%weight, cast(f32, load %v[b, j, e1]))) }
		    }
		    let %r = reciprocal(%total)
		    each e2 < 7 {
		      let %w = mul(load %o[e2], %r)
		      store %z[b, i, h, e2] = max(%w, 0)
		    }
		  } } }
		}`
	}
	return []struct{ name, source string }{
		{"product", product("0", "load %x[i, d]", "load %y[d, j]", "max(add(%s, load %b[j]), 0)")},
		{"product of dequantised", product("1", "load %x[i, d]", "mul(cast(f32, load %q[d, j]), load %b[j])", "%s")},
		{"product of named values", `kernel @k(%x: f32[n, k] read, %y: f32[k, m] read, %b: f32[k] read, %z: f32[n, m] write) dims(n, k, m) {
		  each i < n { each j < m {
		    var %s: f32 = 0
		    for d < k {
		      let %f = load %b[d]
		      let %v = mul(load %y[d, j], %f)
		      %s add= mul(add(load %x[i, d], %f), %v)
		    }
		    store %z[i, j] = %s
		  } }
		}`},
		{"one row", `kernel @k(%x: f32[k] read, %y: f32[k, m] read, %z: f32[m] write) dims(k, m) {
		  each j < m {
		    var %s: f32 = 0
		    for d < k { %s add= mul(load %x[d], load %y[d, j]) }
		    store %z[j] = %s
		  }
		}`},
		{"axes of one", `kernel @k(%x: f32[1, k] read, %y: f32[m, k] read, %z: f32[m, 1, 1] write) dims(k, m) {
		  each j < m { each i < 1 { each l < 1 {
		    var %s: f32 = 0
		    for d < k { %s add= mul(load %x[i, d], load %y[j, d]) }
		    store %z[j, 0, 0] = %s
		  } } }
		}`},
		{"depthwise", `kernel @k(%x: f32[n, m, k] read, %y: f32[m, 3] read, %z: f32[n, m, k] write) dims(n, k, m) {
		  each a < n { each c < m { each i < k {
		    var %s: f32 = 0
		    for d < 3 { %s add= mul(select(and(le(index(0), index(i + d - 1)), lt(index(i + d - 1), index(k))), load %x[a, c, max(0, min(i + d - 1, k - 1))], f32(0)), load %y[c, d]) }
		    store %z[a, c, i] = %s
		  } } }
		}`},
		{"attention", attention("3", "k", "select(le(index(j), index(i + 2)), %t, -inf)")},
		{"causal attention", attention("1", "min(k, i + 3)", "%t")},
		{"integers", `kernel @k(%x: u8[n, k] read, %y: i8[m, k] read, %z: i32[n, m] write) dims(n, k, m) {
		  each i < n { each j < m {
		    var %s: i32 = 0
		    for d < k { %s add= mul(cast(i32, load %x[i, d]), cast(i32, load %y[j, d])) }
		    store %z[i, j] = %s
		  } }
		}`},
		{"softmax", `kernel @k(%x: f32[n, m, k] read, %z: f32[n, m, k] write) dims(n, k, m) {
		  each i < n { each j < m {
		    var %top: f32 = -inf
		    for d1 < k { %top max= load %x[i, j, d1] }
		    var %sum: f32 = 0
		    for d2 < k { %sum add= exp(sub(load %x[i, j, d2], %top)) }
		    each d3 < k { store %z[i, j, d3] = div(exp(sub(load %x[i, j, d3], %top)), %sum) }
		  } }
		}`},
		{"columns", `kernel @k(%x: f32[k, m] read, %z: f32[m] write) dims(k, m) {
		  each j < m {
		    var %s: f32 = 0
		    for d < k { %s add= load %x[d, j] }
		    store %z[j] = %s
		  }
		}`},
		{"means", `kernel @k(%x: f16[n, k, m] read, %b: f32[m] read, %z: f32[n, m] write) dims(n, k, m) {
		  each i < n { each j < m {
		    let %scale = load %b[j]
		    var %s: f32 = 0.5
		    var %top: f32 = -inf
		    for d < k {
		      let %v = mul(cast(f32, load %x[i, d, j]), %scale)
		      %s add= %v
		      %top max= %v
		    }
		    let %r = mul(%s, %scale)
		    when gt(%r, 0) { store %z[i, j] = add(%r, %top) } else { store %z[i, j] = %r }
		  } }
		}`},
		{"transpose", `kernel @k(%x: f32[n, k, m] read, %b: f32[k, m] read, %z: f32[n, m, k] write) dims(n, k, m) {
		  each a < n { each i < m { each j < k {
		    let %v = load %x[a, j, i]
		    store %z[a, i, j] = add(mul(%v, %v), load %b[j, i])
		  } } }
		}`},
		{"guarded transpose", `kernel @k(%x: f32[3, m] read, %z: f32[m, k] update) dims(k, m) {
		  each i < m { each j < k {
		    when lt(index(j), index(3)) { store %z[i, j] = load %x[j, i] }
		  } }
		}`},
		{"recurrence", `kernel @k(%x: f32[n, 1, 40] read, %w: f32[40, 40] read, %z: f32[n, 2, 40] write, %e: f32[2, 40] write) dims(n) {
		  each b < 2 {
		    local %h: f32[1, 40]
		    each j1 < 40 { store %h[0, j1] = f32(1) }
		    for t < n {
		      each once < 1 {
		        local %g: f32[1, 40]
		        each j2 < 40 { store %g[0, j2] = load %x[t, 0, j2] }
		        contract %g[r, c] += %h[r, k] * %w[k, c] for r < 1, c < 40, k < 40
		        each j3 < 40 {
		          let %new = tanh(load %g[0, j3])
		          store %z[t, b, j3] = %new
		          store %h[0, j3] = %new
		        }
		      }
		    }
		    each j4 < 40 { store %e[b, j4] = load %h[0, j4] }
		  }
		}`},
	}
}()

// TestBlockRecipes schedules kernels for machines with blocks and random limits, from tight to generous. Results must
// be the same, no hard limit may be exceeded, and each listed recipe must apply to the listed kernel at least once.
func TestBlockRecipes(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	taken := map[string]int{}
	for range 60 {
		for _, c := range blockKernels {
			k, err := loop.ParseKernel(c.source)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			limits := target.Limits{Shared: 16 << r.Intn(11), Invocations: 1 << r.Intn(9), Private: 16 << r.Intn(8)}
			var features []string
			if r.Intn(2) == 0 {
				features = []string{target.CachedReads}
			}
			machine := target.Vulkan(limits, features...)
			ranges, dims := sym.NewDims(), map[sym.Name]int64{}
			for _, name := range k.Dims {
				dims[name] = []int64{0, 1, 2, 3 + r.Int63n(9), 40 + r.Int63n(40)}[r.Intn(5)]
				ranges.Set(name, sym.Range{Max: 1 << 20})
			}
			fixed := r.Intn(2) == 0
			if fixed {
				k = withSizes(k, dims)
			}
			want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
			if err := interpret(k, want, dims); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			m := &loop.Module{Kernels: []*loop.Kernel{k.Clone()}, Dims: ranges}
			s := &scheduler{module: m, machine: machine, dims: ranges}
			next := s.kernel(m.Kernels[0])
			for name, recipe := range map[string]func(k *loop.Kernel) *loop.Kernel{"online": s.blockOnline,
				"direct": s.blockDirect, "product": s.blockProduct, "columns": s.blockColumns, "rows": s.blockRows,
				"body": s.blockBody, "transpose": s.blockTranspose} {
				if !neverRuns(k) && recipe(k.Clone()) != nil {
					taken[name+" "+c.name]++
				}
			}
			if _, err := loop.Verify(next, ranges); err != nil {
				t.Fatalf("%s, %+v: %v\n%s", c.name, limits, err, next)
			}
			if over := Fit(next, machine, ranges); slices.ContainsFunc(over, func(e Excess) bool { return e.Hard }) {
				t.Fatalf("%s, %+v: %v\n%s", c.name, limits, over, next)
			}
			if err := interpret(next, got, dims); err != nil {
				t.Fatalf("%s, %v, %+v: %v\n%s", c.name, dims, limits, err, next)
			}
			for i := range want {
				far := 1e-5
				if c.name == "product of dequantised" { // sums of hundreds may cancel
					far = 1e-3
				}
				if err := tensor.Compare(got[i], want[i], 1e-5, far); err != nil {
					t.Fatalf("%s, %v, %+v: %s: %v\n%s", c.name, dims, limits, k.Params[i].Name, err, next)
				}
			}
		}
	}
	for _, name := range []string{"direct product", "product product", "direct product of dequantised",
		"product product of dequantised", "direct one row", "product product of named values",
		"direct product of named values", "direct depthwise", "online attention", "online causal attention",
		"direct integers", "product integers", "rows softmax", "columns columns", "columns one row", "columns means",
		"transpose transpose", "body recurrence"} {
		if taken[name] == 0 {
			t.Errorf("recipe and kernel %q: the recipe never applies: %v", name, taken)
		}
	}
}

// TestBlockSlices: few long reductions are cut into slices, with the same results.
func TestBlockSlices(t *testing.T) {
	for _, source := range []string{
		`kernel @k(%x: f32[n, k] read, %b: f32[n] read, %z: f32[n] write) dims(n, k) {
		  each i < n {
		    let %scale = load %b[i]
		    var %s: f32 = 3
		    var %top: f32 = -inf
		    for d < k {
		      let %v = mul(load %x[i, d], %scale)
		      %s add= %v
		      %top max= %v
		    }
		    store %z[i] = add(%s, mul(%top, %scale))
		  }
		}`,
		`kernel @k(%x: i32[n, k] read, %z: i32[] write) dims(n, k) {
		  var %s: i32 = 1
		  for a < n { for d < k { %s add= load %x[a, d] } }
		  store %z[] = %s
		}`,
	} {
		for _, c := range []struct{ n, k, shared, threads int64 }{{2, 70001, 16384, 256}, {1, 65536, 256, 64},
			{3, 90000, 64, 8}} {
			k, err := loop.ParseKernel(source)
			if err != nil {
				t.Fatal(err)
			}
			dims := map[sym.Name]int64{sym.User("n"): c.n, sym.User("k"): c.k}
			k = withSizes(k, dims)
			want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
			if err := interpret(k, want, dims); err != nil {
				t.Fatal(err)
			}
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}},
				machine: target.Vulkan(target.Limits{Shared: c.shared, Invocations: c.threads}), dims: sym.NewDims()}
			next := s.blockSlices(k)
			if next == nil {
				t.Fatalf("%+v: not cut:\n%s", c, k)
			}
			if _, err := loop.Verify(next, s.dims); err != nil {
				t.Fatalf("%v\n%s", err, next)
			}
			if err := interpret(next, got, dims); err != nil {
				t.Fatalf("%v\n%s", err, next)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 1e-3, 1e-2); err != nil {
					t.Fatalf("%+v: %v\n%s", c, err, next)
				}
			}
		}
	}
}

// TestBlockSplit: the steps of few sums of products are split among blocks, with the same results; those of a dynamic
// number of sums are not split.
func TestBlockSplit(t *testing.T) {
	for _, source := range []string{
		`kernel @k(%x: f32[2, n, k] read, %y: f32[k, m] read, %b: f32[m] read, %z: f32[2, n, m] write) dims(n, k, m) {
		  each a < 2 { each i < n { each j < m {
		    let %f = load %b[j]
		    var %s: f32 = 1
		    for d < k { %s add= mul(load %x[a, i, d], load %y[d, j]) }
		    store %z[a, i, j] = max(mul(%s, %f), 0)
		  } } }
		}`,
		`kernel @k(%x: f16[n, 1, k] read, %y: i8[m, k] read, %z: f32[m, n] write) dims(n, k, m) {
		  each j < m { each i < n {
		    var %s: f32 = 0
		    for c < 1 { for d < k { %s add= mul(cast(f32, load %x[i, c, d]), cast(f32, load %y[j, d])) } }
		    store %z[j, i] = %s
		  } }
		}`,
	} {
		for _, c := range []struct{ n, m, k, shared, threads int64 }{{3, 5, 2000, 16384, 256}, {64, 40, 1111, 32768, 1024},
			{17, 9, 700, 256, 64}, {2, 130, 513, 64, 16}} {
			k, err := loop.ParseKernel(source)
			if err != nil {
				t.Fatal(err)
			}
			dims := map[sym.Name]int64{sym.User("n"): c.n, sym.User("k"): c.k, sym.User("m"): c.m}
			s := &scheduler{module: &loop.Module{Kernels: []*loop.Kernel{k}},
				machine: target.Vulkan(target.Limits{Shared: c.shared, Invocations: c.threads, Private: 512}), dims: sym.NewDims()}
			if next := s.blockProduct(k.Clone()); next == nil || !strings.Contains(next.String(), "%tile_a") ||
				strings.Contains(next.String(), "%partial") {
				t.Fatalf("%+v: a dynamic number of sums is split:\n%s", c, next)
			}
			k = withSizes(k, dims)
			want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
			if err := interpret(k, want, dims); err != nil {
				t.Fatal(err)
			}
			next := s.blockProduct(k)
			if next == nil || !strings.Contains(next.String(), "%partial") {
				t.Fatalf("%+v: not split:\n%s", c, next)
			}
			if _, err := loop.Verify(next, s.dims); err != nil {
				t.Fatalf("%v\n%s", err, next)
			}
			if err := interpret(next, got, dims); err != nil {
				t.Fatalf("%v\n%s", err, next)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 1e-3, 1e-3); err != nil {
					t.Fatalf("%+v: %v\n%s", c, err, next)
				}
			}
		}
	}
}

// withSizes returns a kernel with its dimensions replaced by sizes.
func withSizes(k *loop.Kernel, dims map[sym.Name]int64) *loop.Kernel {
	k = k.Clone()
	number := func(e sym.Expr) sym.Expr {
		return e.Subst(func(name sym.Name) (sym.Expr, bool) { v, ok := dims[name]; return sym.Const(v), ok })
	}
	for _, p := range k.Params {
		for i := range p.Shape {
			p.Shape[i] = number(p.Shape[i])
		}
	}
	k.Body = (&loop.Rewrite{Integer: number}).Body(k.Body)
	k.Dims = nil
	return k
}
