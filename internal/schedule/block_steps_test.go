package schedule

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// recurrences are kernels of chains as lowering writes them, over n sequences and s steps.
var recurrences = []struct{ name, source string }{
	{"two products", `kernel @k(%x: f32[s, n, 21] read, %w: f32[21, 7] read, %q: i8[14, 7] read, %z: f32[s, n, 7] write, %e: f32[n, 7] write) dims(s, n) {
	  each b < n {
	    local %h: f32[1, 7]
	    local %gates: f32[1, 21]
	    local %held: f32[1, 7]
	    each j1 < 7 { store %h[0, j1] = load %x[0, b, j1] }
	    for t < s {
	      each once < 1 {
	        local %sums: f32[1, 14]
	        each j2 < 14 { store %sums[0, j2] = 0 }
	        contract %sums[r, c] += %h[r, k] * %q[c, k] for r < 1, c < 14, k < 7
	        each j3 < 14 { store %gates[0, j3] = add(load %x[t, b, j3], mul(load %sums[0, j3], 0.01)) }
	      }
	      each j4 < 7 { store %held[0, j4] = mul(load %h[0, j4], sigmoid(load %gates[0, j4])) }
	      each once2 < 1 {
	        local %sums2: f32[1, 7]
	        each j5 < 7 {
	          let %first = load %x[t, b, j5 + 14]
	          store %sums2[0, j5] = %first
	        }
	        contract %sums2[r, c] += %held[r, k] * %w[c + 14, k] for r < 1, c < 7, k < 7
	        each j6 < 7 { store %gates[0, j6 + 14] = load %sums2[0, j6] }
	      }
	      each j7 < 7 {
	        let %new = add(tanh(load %gates[0, j7 + 14]), mul(0.5, load %h[0, j7]))
	        store %z[s - 1 - t, b, j7] = %new
	        store %h[0, j7] = %new
	      }
	    }
	    each j8 < 7 { store %e[b, j8] = load %h[0, j8] }
	  }
	}`},
	{"two chains", `kernel @k(%x: f32[s, n, 5] read, %w: f32[5, 5] read, %z: f32[s, 2, n, 5] write) dims(s, n) {
	  each b < n {
	    local %h: f32[1, 5]
	    each j1 < 5 { store %h[0, j1] = 1 }
	    for t < s {
	      each once < 1 {
	        local %sums: f32[1, 5]
	        each j2 < 5 { store %sums[0, j2] = load %x[t, b, j2] }
	        contract %sums[r, c] += %h[r, k] * %w[k, c] for r < 1, c < 5, k < 5
	        each j3 < 5 { store %z[t, 0, b, j3] = max(load %sums[0, j3], -3) }
	      }
	      each j4 < 5 { store %h[0, j4] = tanh(load %z[t, 0, b, j4]) }
	    }
	  }
	  each b2 < n {
	    local %g: f32[1, 5]
	    each i1 < 5 { store %g[0, i1] = 0 }
	    for t2 < s {
	      each i2 < 5 { store %z[s - 1 - t2, 1, b2, 4 - i2] = add(load %g[0, i2], load %x[s - 1 - t2, b2, i2]) }
	      each i3 < 5 { store %g[0, i3] = mul(load %z[s - 1 - t2, 1, b2, i3], 0.5) }
	    }
	  }
	}`},
	{"running sums", `kernel @k(%x: f32[s, 2, n] read, %z: f32[s, 2, n] write) dims(s, n) {
	  each a < 2 {
	    local %h: f32[n]
	    each j1 < n { store %h[j1] = 0 }
	    for t < s {
	      each j2 < n {
	        let %v = add(load %h[j2], load %x[t, a, j2])
	        store %h[j2] = %v
	        store %z[t, a, j2] = %v
	      }
	    }
	  }
	}`},
}

// notStages are recurrences that stay whole sequences: elements decide the number of steps, or the sums of products
// cannot be used where they are made.
var notStages = []struct{ name, source string }{
	{"lengths", `kernel @k(%x: f32[s, n, 20] read, %l: i64[n] read, %z: f32[s, n, 20] write) dims(s, n) {
	  each b < n {
	    local %h: f32[1, 20]
	    local %last: i64[1]
	    each j1 < 20 { store %h[0, j1] = 0 }
	    each once < 1 { store %last[0] = load %l[b] }
	    check m = load %last[0] in [0, s] "a length"
	    for t < m {
	      each j2 < 20 { store %z[t, b, j2] = add(load %h[0, 19 - j2], load %x[t, b, j2]) }
	      each j3 < 20 { store %h[0, j3] = load %z[t, b, j3] }
	    }
	  }
	}`},
	{"sums of others", `kernel @k(%w: f32[20, 20] read, %z: f32[s, n, 20] write) dims(s, n) {
	  each b < n {
	    local %h: f32[1, 20]
	    each j1 < 20 { store %h[0, j1] = 1 }
	    for t < s {
	      each once < 1 {
	        local %sums: f32[1, 20]
	        each j2 < 20 { store %sums[0, j2] = 0 }
	        contract %sums[r, c] += %h[r, k] * %w[k, c] for r < 1, c < 20, k < 20
	        each j3 < 20 { store %z[t, b, j3] = load %sums[0, 19 - j3] }
	      }
	      each j4 < 20 { store %h[0, j4] = tanh(load %z[t, b, j4]) }
	    }
	  }
	}`},
	{"stores what it reads", `kernel @k(%w: f32[20, 20] read, %z: f32[s, n, 20] write) dims(s, n) {
	  each b < n {
	    local %h: f32[1, 20]
	    each j1 < 20 { store %h[0, j1] = 1 }
	    for t < s {
	      each once < 1 {
	        local %sums: f32[1, 20]
	        each j2 < 20 { store %sums[0, j2] = 0 }
	        contract %sums[r, c] += %h[r, k] * %w[k, c] for r < 1, c < 20, k < 20
	        each j3 < 20 {
	          let %v = tanh(load %sums[0, j3])
	          store %h[0, j3] = %v
	          store %z[t, b, j3] = %v
	        }
	      }
	    }
	  }
	}`},
}

// blockScheduler returns a parsed kernel and a scheduler for a machine with blocks.
func blockScheduler(t *testing.T, source string, machine target.Machine) (*loop.Kernel, *scheduler) {
	t.Helper()
	k, err := loop.ParseKernel(source)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	dims := sym.NewDims()
	for _, name := range k.Dims {
		dims.Set(name, sym.Range{Max: 1 << 20})
	}
	m := &loop.Module{Kernels: []*loop.Kernel{k}, Dims: dims}
	return k, &scheduler{module: m, machine: machine, dims: dims, free: k.Dims}
}

// TestStages writes recurrences as stages, for machines with random limits and with named or fixed extents, and
// compares them with the loops as they were.
func TestStages(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	blocks := 0
	for range 40 {
		for _, c := range recurrences {
			limits := target.Limits{Shared: 64 << r.Intn(9), Invocations: 1 << r.Intn(9), Private: 16 << r.Intn(8)}
			machine := target.Vulkan(limits, [][]string{nil, {target.CachedReads}}[r.Intn(2)]...)
			k, s := blockScheduler(t, c.source, machine)
			dims := map[sym.Name]int64{}
			for _, name := range k.Dims {
				dims[name] = int64(1 + r.Intn(5))
			}
			if c.name != "two products" && r.Intn(3) == 0 { // which reads the first step
				dims[k.Dims[r.Intn(2)]] = 0
			}
			if r.Intn(2) == 0 {
				if k = withSizes(k, dims); neverRuns(k) {
					continue
				}
				s.free = nil
			}
			next, _ := s.inStages(k)
			if next == nil {
				t.Fatalf("%s: no stages\n%s", c.name, k)
			}
			if _, err := loop.Verify(next, s.dims); err != nil {
				t.Fatalf("%s: %v\n%s", c.name, err, next)
			}
			if strings.Contains(next.String(), "block ") {
				blocks++
			}
			want, got := operands(t, k, dims, 1), operands(t, k, dims, 1)
			if err := interpret(k, want, dims); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if err := interpret(next, got, dims); err != nil {
				t.Fatalf("%s, %v: %v\n%s", c.name, dims, err, next)
			}
			for i := range want {
				if err := tensor.Compare(got[i], want[i], 1e-5, 1e-5); err != nil {
					t.Fatalf("%s, %v: %s: %v\n%s", c.name, dims, k.Params[i].Name, err, next)
				}
			}
		}
	}
	if blocks == 0 {
		t.Error("no recipe applies to a stage")
	}
}

// TestWholeSequences: some recurrences are not stages, and for others these do not pay; the reason is told.
func TestWholeSequences(t *testing.T) {
	card, processor := target.Vulkan(target.Limits{Shared: 32 << 10, Invocations: 1024}),
		target.Vulkan(target.Limits{Shared: 32 << 10, Invocations: 1024}, target.CachedReads)
	for i, c := range notStages {
		k, s := blockScheduler(t, c.source, processor)
		if next, _ := s.inStages(k); next != nil {
			t.Errorf("%s: stages\n%s", c.name, next)
		}
		next := s.kernel(k)
		want := ": a step has too little work for blocks of its own"
		if i == 0 {
			want = ": elements decide the number of steps"
		}
		if got := WholeSequences(next, processor, s.dims); !strings.HasSuffix(got, want) {
			t.Errorf("%s: the reason is %q\n%s", c.name, got, next)
		}
	}
	for _, c := range []struct {
		units, sequences string
		machine          target.Machine
		stages           bool
	}{
		{"32", "1", processor, false}, {"256", "1", processor, true}, {"256", "32", processor, true},
		{"256", "n", processor, true}, {"48", "n", processor, false},
		{"128", "1", card, false}, {"512", "1", card, true}, {"512", "n", card, true}, {"128", "16", card, false},
	} {
		source := strings.NewReplacer("UNITS", c.units, "SEQUENCES", c.sequences).Replace(`kernel @k(%x: f32[s, SEQUENCES, UNITS] read, %w: f32[UNITS, UNITS] read, %z: f32[s, SEQUENCES, UNITS] write) dims(DIMS) {
		  each b < SEQUENCES {
		    local %h: f32[1, UNITS]
		    local %g: f32[1, UNITS]
		    each j1 < UNITS { store %h[0, j1] = 0 }
		    for t < s {
		      each once < 1 {
		        local %sums: f32[1, UNITS]
		        each j2 < UNITS { store %sums[0, j2] = load %x[t, b, j2] }
		        contract %sums[r, c] += %h[r, k] * %w[c, k] for r < 1, c < UNITS, k < UNITS
		        each j3 < UNITS { store %g[0, j3] = load %sums[0, j3] }
		      }
		      each j4 < UNITS {
		        store %h[0, j4] = tanh(load %g[0, j4])
		        store %z[t, b, j4] = load %g[0, j4]
		      }
		    }
		  }
		}`)
		dims := "s"
		if c.sequences == "n" {
			dims = "s, n"
		}
		k, s := blockScheduler(t, strings.Replace(source, "DIMS", dims, 1), c.machine)
		next := s.kernel(k)
		if whole := WholeSequences(next, c.machine, s.dims); (whole == "") != c.stages {
			t.Errorf("%s sequences of %s units, %v: %q\n%s", c.sequences, c.units, c.machine.Features, whole, next)
		}
	}
}
