package kerneltest

import (
	"errors"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// outsides are kernels with an access that is inside its buffer for the first dimensions and outside for the others,
// each in another position in a statement.
var outsides = []struct {
	text            string
	inside, outside map[string]int64
}{
	{`kernel @load(%x: f32[n] read, %y: f32[m] write) dims(m, n) { parallel i < m { store %y[i] = load %x[i] } }`,
		map[string]int64{"n": 9, "m": 9}, map[string]int64{"n": 9, "m": 4000}},
	{`kernel @below(%x: f32[n] read, %y: f32[m] write) dims(m, n) { vector i < m { store %y[i] = load %x[n - 1 - i] } }`,
		map[string]int64{"n": 50, "m": 50}, map[string]int64{"n": 40, "m": 50}},
	{`kernel @lanes(%x: f32[n] read, %y: f32[m] write) dims(m, n) { parallel t < 2 { vector i < m { store %y[i] = exp(load %x[i + t]) where lt(index(i + t), index(m)) } } }`,
		map[string]int64{"n": 50, "m": 49}, map[string]int64{"n": 40, "m": 49}},
	{`kernel @store(%x: f32[m] read, %y: f32[n] update) dims(m, n) { vector i < m { store %y[i] = load %x[i] } }`,
		map[string]int64{"n": 60, "m": 37}, map[string]int64{"n": 35, "m": 37}},
	{`kernel @rows(%x: f32[n, 8] read, %y: f32[m, 8] write) dims(m, n) { parallel i < m { vector j < 8 { store %y[i, j] = load %x[i, j] } } }`,
		map[string]int64{"n": 6, "m": 6}, map[string]int64{"n": 5, "m": 6}},
	{`kernel @otherwise(%x: f32[n] read, %y: f32[m] write) dims(m, n) { vector i < m { store %y[i] = load %x[i] if lt(index(i), 3) else load %x[i - 3] } }`,
		map[string]int64{"n": 20, "m": 20}, map[string]int64{"n": 20, "m": 24}},
	{`kernel @sum(%x: f32[n] read, %y: f32[1] write) dims(m, n) { var %s: f32 = 0  vector i < m { %s add= load %x[i] } store %y[0] = %s }`,
		map[string]int64{"n": 77, "m": 77}, map[string]int64{"n": 70, "m": 77}},
	{`kernel @checked(%at: i64[m] read, %x: f32[n] read, %y: f32[m] write) dims(m, n, k) { parallel i < m { check j = load %at[i] in [0, k - 1] "an index"  store %y[i] = load %x[j] } }`,
		map[string]int64{"n": 30, "m": 5, "k": 30}, map[string]int64{"n": 30, "m": 5, "k": 31}},
	{`kernel @when(%x: f32[n] read, %y: f32[m] write) dims(m, n) { parallel i < m { when gt(load %x[i], 0) { store %y[i] = 1 } else { store %y[i] = 2 } } }`,
		map[string]int64{"n": 8, "m": 8}, map[string]int64{"n": 7, "m": 8}},
	{`kernel @inner(%x: f32[n] read, %y: f32[m, 3] write) dims(m, n) { vector i < m { each j < 3 { store %y[i, j] = load %x[i + j] } } }`,
		map[string]int64{"n": 39, "m": 37}, map[string]int64{"n": 36, "m": 37}},
	{`kernel @products(%a: f32[n, 4] read, %b: f32[4, 16] read, %c: f32[8, 16] update) dims(m, n) { contract %c[r, c] += %a[r, k] * %b[k, c] for r < m, c < 16, k < 4 }`,
		map[string]int64{"n": 8, "m": 8}, map[string]int64{"n": 6, "m": 8}},
}

// Outside runs kernels with guarded accesses, which are not proved to be inside. If they are inside, results must be
// the interpreter's; if not, the call must return an error, and touch no other memory.
func (h Harness) Outside(t *testing.T) {
	h.Guarded = true
	for _, c := range outsides {
		k := proven(t, c.text)
		if _, guards := k.Checks(); guards == 0 {
			t.Errorf("no access is guarded:\n%s", k)
		}
		run := func(values map[string]int64) error {
			dims := bound(values)
			operands := filled(t, k, dims)
			if k.Params[0].Name == "at" {
				for i := range operands[0].Len() {
					operands[0].SetInt(i, values["k"]-1-i)
				}
			}
			h.Agree(t, k, dims, operands, 1e-6, 0)
			return h.Execute(t, k, operands, dims, 0)
		}
		if err := run(c.inside); err != nil {
			t.Errorf("%v: %v\n%s", c.inside, err, k)
		}
		if err := run(c.outside); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "accesses outside %") {
			t.Errorf("%v: %v, want a check's error\n%s", c.outside, err, k)
		}
	}
}

// bound returns a binding by the names of dimensions in a kernel's source.
func bound(values map[string]int64) map[sym.Name]int64 {
	dims := map[sym.Name]int64{}
	for name, v := range values {
		dims[sym.User(name)] = v
	}
	return dims
}

// filled returns a kernel's operands, with random elements from the parameter's index as the seed.
func filled(t testing.TB, k *loop.Kernel, dims map[sym.Name]int64) []*tensor.Tensor {
	var operands []*tensor.Tensor
	for i, p := range k.Params {
		x := Operand(t, p, dims)
		Fill(rand.New(rand.NewSource(int64(i))), x)
		operands = append(operands, x)
	}
	return operands
}

// proven parses a kernel and adds guards, after which every access must be proved.
func proven(t *testing.T, text string) *loop.Kernel {
	t.Helper()
	k, err := loop.ParseKernel(text)
	if err != nil {
		t.Fatal(err, text)
	}
	m := &loop.Module{Name: "main", Dims: sym.NewDims(), Kernels: []*loop.Kernel{k}}
	for _, name := range k.Dims {
		m.Dims.Set(name, sym.Range{Min: 0, Max: sym.NoMax})
	}
	if _, err := loop.Prove(m); err != nil {
		t.Fatal(err, text)
	}
	if unproved, err := loop.Verify(k, m.Dims); err != nil || unproved != nil {
		t.Fatalf("%v, %v:\n%s", unproved, err, k)
	}
	return k
}

// earlies are kernels with loads that are inside only after a check, or only in a loop that runs, or that read memory
// that a branch writes: a generator must not move these loads to an earlier point.
var earlies = []struct {
	text string
	dims map[string]int64
}{
	{`kernel @never(%x: i64[n] read, %y: i64[4] update) dims(n) { for i < 4 { check c = load %y[i] in [3000, 0] "a value"  let %v = load %x[-1]  store %y[i] = %v } }`,
		map[string]int64{"n": 3}},
	{`kernel @after(%x: i64[n] read, %y: i64[4] update) dims(n) {
		parallel i < 4 { check c = and(load %y[i], 0) in [0, n - 1] "a place"  for k < 3 { store %y[i] = add(load %y[i], load %x[n - 1]) } }
	}`, map[string]int64{"n": 0}},
	{`kernel @loop(%x: i32[min(n, 11)] read, %y: i32[m, m] update) dims(m, n) {
		each i < m { vector j < m {
			var %w: i64 = 1
			for k < n - 4 { %w = select(ne(index(k%2), index(i)), %w, cast(i64, load %x[min(i, min(n, 11) - 1)])) }
			store %y[j, i] = cast(i32, %w)
		} }
	}`, map[string]int64{"n": 0, "m": 2}},
	{`kernel @branch(%x: f32[12, 1] read, %w: f32[1, 4] read, %y: f64[12, 4] update) dims(n) {
		each b < 4 { when lt(load %x[0, 0], 1000) {
			local %acc: f32[12, 1]
			vector z < 12 { store %acc[z, 0] = 0 }
			contract %acc[r, c] += %x[r, k] * %w[k, b + c] for r < 12, c < 1, k < 1
			vector o < 12 { store %y[o, b] = cast(f64, load %acc[o, 0]) }
		} }
	}`, map[string]int64{"n": 0}},
}

// Early runs kernels whose loads would fault if they were moved to the beginning.
func (h Harness) Early(t *testing.T) {
	h.Guarded = true
	for _, c := range earlies {
		k, err := loop.ParseKernel(c.text)
		if err != nil {
			t.Fatal(err, c.text)
		}
		if unproved, err := loop.Verify(k, nil); err != nil || unproved != nil {
			t.Fatalf("%v, %v:\n%s", unproved, err, k)
		}
		dims := bound(c.dims)
		operands := filled(t, k, dims)
		h.Agree(t, k, dims, operands, 0, 0)
	}
}

// wides are kernels that are proved over the integers, but whose 64-bit integers overflow if the dimension is n.
var wides = []struct {
	text string
	n    int64
}{
	{`kernel @min(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[min(i*n*n*n, 3)] } }`, 1 << 21},
	{`kernel @max(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[max(3 - i*n*n*n, 0)] } }`, 1<<21 + 1},
	{`kernel @quotient(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[(i*n*n + i*n)//(n*n + n + 1)] } }`, 3037000500},
	{`kernel @remainder(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[(i*n*n + 3*i)%4] } }`, 3037000500},
	{`kernel @mask(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[i*n*n*n] if lt(index(i*n*n*n), 4) else 0 } }`, 1 << 21},
	{`kernel @coefficient(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[min(i*4611686018427387904, 3)] } }`, 1},
	{`kernel @extent(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { for j < n*n*n - n*n*n*i { store %y[i] = load %x[min(j, 3)] } } }`, 1 << 22},
}

// Wide checks that Tiles returns an error for dimensions for which a kernel's integers do not fit 64 bits, and none for
// others.
func (h Harness) Wide(t *testing.T) {
	for _, c := range wides {
		k, err := loop.ParseKernel(c.text)
		if err != nil {
			t.Fatal(err, c.text)
		}
		code, err := h.Compile(&loop.Module{Kernels: []*loop.Kernel{k}}, h.Machine)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := code.Kernels[0].Tiles([]int64{c.n}); !errors.Is(err, diag.ErrInput) {
			t.Errorf("%d tiles for n = %d: %v\n%s", n, c.n, err, k)
		}
		if n, err := code.Kernels[0].Tiles([]int64{3}); (err == nil) != (c.n > 1) {
			t.Errorf("%d tiles for n = 3: %v\n%s", n, err, k)
		}
	}
}

// chosen are kernels with the minimum of a small number and a dimension, which may be any number of 64 bits.
var chosen = []string{
	`kernel @least(%x: f32[4] read, %y: f32[4] write) dims(n) { parallel i < 4 { store %y[i] = load %x[max(min(n, 3), 0)] } }`,
	`kernel @mask(%x: f32[4] read, %y: f32[4] write) dims(n) { vector i < 4 { store %y[i] = load %x[i] if lt(index(i), index(min(n, 3))) else 7 } }`,
	`kernel @extent(%x: f32[4] read, %y: f32[4] update) dims(n) { for i < max(min(n, 4), 0) { store %y[i] = load %x[i] } }`,
}

// Chosen runs kernels for dimensions up to the greatest of 64 bits, of which they compute only a minimum.
func (h Harness) Chosen(t *testing.T) {
	h.Guarded = true
	for _, text := range chosen {
		k := proven(t, text)
		for _, n := range []int64{0, 2, 1 << 61, math.MaxInt64} {
			dims := map[sym.Name]int64{sym.User("n"): n}
			operands := filled(t, k, dims)
			h.Agree(t, k, dims, operands, 0, 0)
		}
	}
}
