package kerneltest

import (
	"testing"

	"github.com/weirml/weir/internal/loop"
)

// BlockKernel is a kernel for machines that run blocks of threads.
type BlockKernel struct {
	*loop.Kernel
	Dims map[string][]int64 // extents to run it with: the first of all dimensions together, then the second, …
}

// BlockKernels returns kernels written for blocks of threads: with shared memory, with threads' own memory, and with
// statements that all threads of a block run.
func BlockKernels(t testing.TB) (list []BlockKernel) {
	for _, c := range blockKernels {
		k, err := loop.ParseKernel(c.source)
		if err != nil {
			t.Fatalf("%v\n%s", err, c.source)
		}
		list = append(list, BlockKernel{k, c.dims})
	}
	return list
}

var blockKernels = []struct {
	source string
	dims   map[string][]int64
}{
	{`kernel @transposed(%x: f32[n, m] read, %y: f32[m, n] write) dims(n, m) {
	  block a < ceildiv(n, 16) { block b < ceildiv(m, 16) {
	    shared %tile: f32[16, 17]
	    thread i < 16 { thread j < 16 {
	      when and(lt(index(16*a + i), index(n)), lt(index(16*b + j), index(m))) { store %tile[i, j] = load %x[min(16*a + i, n - 1), min(16*b + j, m - 1)] }
	    } }
	    thread i < 16 { thread j < 16 {
	      when and(lt(index(16*b + i), index(m)), lt(index(16*a + j), index(n))) { store %y[min(16*b + i, m - 1), min(16*a + j, n - 1)] = load %tile[j, i] }
	    } }
	  } }
	}`, map[string][]int64{"n": {1, 16, 37, 64, 0}, "m": {1, 33, 16, 100, 5}}},
	{`kernel @product(%x: bf16[n, k] read, %y: f32[k, m] read, %z: f32[n, m] write) dims(n, k, m) {
	  block a < ceildiv(n, 16) { block b < ceildiv(m, 16) {
	    shared %left: bf16[8, 16]
	    shared %right: f32[8, 16]
	    local %sums: f32[64, 2, 2]
	    thread t < 64 { each r < 2 { each c < 2 { store %sums[t, r, c] = 0 } } }
	    for s < ceildiv(k, 8) {
	      thread i < 128 {
	        store %left[i // 16, i % 16] = select(lt(index(8*s + i//16), index(k)), load %x[min(16*a + i % 16, n - 1), min(8*s + i//16, k - 1)], bf16(0))
	      }
	      thread i < 8 { thread j < 16 {
	        store %right[i, j] = select(lt(index(8*s + i), index(k)), load %y[min(8*s + i, k - 1), min(16*b + j, m - 1)], f32(0))
	      } }
	      thread t < 64 {
	        contract %sums[t, r, c] += %left[d, t // 8 + 8*r] * %right[d, t % 8 + 8*c] for r < 2, c < 2, d < 8
	      }
	    }
	    thread t < 64 { each r < 2 { each c < 2 {
	      when and(lt(index(16*a + t//8 + 8*r), index(n)), lt(index(16*b + t % 8 + 8*c), index(m))) {
	        store %z[min(16*a + t // 8 + 8*r, n - 1), min(16*b + t % 8 + 8*c, m - 1)] = mul(load %sums[t, r, c], 0.5)
	      }
	    } } }
	  } }
	}`, map[string][]int64{"n": {1, 16, 37, 0, 5}, "k": {1, 8, 21, 3, 0}, "m": {1, 16, 20, 3, 7}}},
	{`kernel @sums(%x: f32[n, m] read, %y: f32[n] write) dims(n, m) {
	  block i < n {
	    shared %part: f32[32]
	    thread t < 32 {
	      var %s: f32 = 0
	      for k < ceildiv(max(m - t, 0), 32) { %s add= load %x[i, min(32*k + t, m - 1)] }
	      store %part[t] = %s
	    }
	    thread t < 16 { store %part[t] = add(load %part[t], load %part[t + 16]) }
	    thread t < 8 { store %part[t] = add(load %part[t], load %part[t + 8]) }
	    thread t < 4 { store %part[t] = add(load %part[t], load %part[t + 4]) }
	    thread t < 2 { store %part[t] = add(load %part[t], load %part[t + 2]) }
	    store %y[i] = add(load %part[0], load %part[1])
	  }
	}`, map[string][]int64{"n": {1, 5, 0, 2}, "m": {1, 100, 5, 0}}},
	{`kernel @triangle(%x: i64[n, 40] read, %y: i64[n] write) dims(n) {
	  block i < n {
	    shared %a: i64[40]
	    shared %b: i64[40]
	    thread t < 40 { store %a[t] = load %x[i, t] }
	    for e < 39 {
	      thread t < 39 - e { store %b[t] = sub(load %a[t + 1], load %a[t]) }
	      thread t < 39 - e { store %a[t] = load %b[t] }
	    }
	    let %last = load %a[0]
	    thread t < 1 { store %y[i] = %last }
	    thread t < 40 { store %a[t] = 0 }
	  }
	}`, map[string][]int64{"n": {1, 3}}},
	{`kernel @nests(%x: u8[n] read, %w: i16[n] update, %y: i32[n] write) dims(n) {
	  block b < ceildiv(n, 100) {
	    shared %s: u8[100]
	    thread t < 100 { store %s[99 - t] = load %x[min(100*b + t, n - 1)] }
	    thread t < min(100, n - 100*b) { store %w[100*b + t] = add(load %w[100*b + t], cast(i16, load %s[t])) }
	  }
	  block b < ceildiv(n, 7) {
	    shared %t: i16[7]
	    shared %flags: bool[7]
	    thread t < min(7, n - 7*b) { store %t[t] = load %w[n - 1 - 7*b - t] }
	    thread t < min(7, n - 7*b) { store %flags[t] = lt(load %t[min(6 - t, n - 7*b - 1)], i16(20)) }
	    thread t < min(7, n - 7*b) { store %y[7*b + t] = select(load %flags[t], cast(i32, load %t[t]), -1) }
	  }
	}`, map[string][]int64{"n": {1, 99, 100, 101, 1000, 0}}},
	{`kernel @conditions(%x: i32[n, 64] read, %y: i32[n, 64] write) dims(n) {
	  block b < n {
	    shared %s: i32[64]
	    thread t < 64 { store %s[t] = load %x[b, t] }
	    for k < 20 {
	      when lt(load %s[3], load %s[40]) {
	        thread t < 64 { store %s[t] = add(load %s[t], cast(i32, index(t*k))) }
	      } else {
	        thread t < 64 { store %s[t] = sub(load %s[t], cast(i32, index(t*t + k))) }
	      }
	    }
	    check first = load %s[0] in [-2147483648, 2147483647] "the first one"
	    thread t < 64 { store %s[t] = add(load %s[t], 1) }
	    when ge(index(first), index(0)) { thread t < 64 { store %y[b, t] = load %s[63 - t] } } else { thread t < 64 { store %y[b, t] = 7 } }
	  }
	}`, map[string][]int64{"n": {1, 4, 50}}},
	{`kernel @uniform(%x: f32[n, 50] read, %i: i64[n] read, %y: f32[n, 50] update) dims(n) {
	  block b < n {
	    shared %s: f32[50]
	    local %mine: f32[25, 2]
	    let %first = load %x[b, 0]
	    var %total: f32 = %first
	    thread t < 25 { each r < 2 { store %mine[t, r] = mul(load %x[b, t + 25*r], 2) } }
	    when lt(%first, f32(0)) {
	      thread t < 25 { each r < 2 { store %s[49 - t - 25*r] = load %mine[t, r] } }
	    } else {
	      thread t < 50 { store %s[t] = 3 }
	    }
	    for k < 5 { %total add= load %s[k] }
	    for k < b % 3 {
	      thread t < 50 { store %s[t] = add(load %y[b, 49 - t], load %s[t]) }
	      thread t < 50 { store %y[b, t] = add(load %s[49 - t], %total) }
	    }
	    check at = load %i[b] in [0, 49] "an index"
	    thread t < 50 { store %y[b, t] = add(load %y[b, t], load %s[at]) }
	  }
	}`, map[string][]int64{"n": {1, 4, 9, 0}}},
	{`kernel @stages(%x: f32[s, n, 33] read, %w: f32[33, 33] read, %y: f32[s, n, 33] write, %z: f32[n] write) dims(s, n) {
	  local %h: f32[n, 33]
	  local %g: f32[n, 33]
	  each a < n { each i < 33 { store %h[a, i] = 1 } }
	  for t < s {
	    block b < n { block c < 3 {
	      shared %part: f32[11, 4]
	      thread i < 11 { thread j < 4 {
	        var %sum: f32 = 0
	        for k < ceildiv(33 - j, 4) { %sum add= mul(load %h[b, 4*k + j], load %w[11*c + i, 4*k + j]) }
	        store %part[i, j] = %sum
	      } }
	      thread i < 11 {
	        var %all: f32 = load %x[s - 1 - t, b, 11*c + i]
	        for j < 4 { %all add= load %part[i, j] }
	        store %g[b, 11*c + i] = %all
	      }
	    } }
	    parallel d < n { each i < 33 {
	      store %h[d, i] = tanh(load %g[d, 32 - i])
	      store %y[t, d, i] = add(load %g[d, i], cast(f32, index(t)))
	    } }
	  }
	  each e < n { store %z[e] = sub(load %h[e, 0], load %h[e, 32]) }
	}`, map[string][]int64{"s": {1, 0, 4, 3, 100}, "n": {2, 3, 5, 0, 1}}},
}
