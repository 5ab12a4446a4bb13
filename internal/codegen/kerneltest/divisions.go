package kerneltest

import (
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// divisions are kernels that divide by integers over dimensions, which are at least 1 whenever the division runs. Each
// runs for several values of n, m and s, some of which make the divisor 0 or less, and give the loops around the
// division no iterations.
var divisions = []struct {
	text  string
	given []sym.Cond // conditions on the dimensions; only values that satisfy them are tried
}{
	{text: `kernel @rows(%x: f32[n*m] read, %y: f32[n, m] write) dims(m, n) {
		parallel t < (n*m + 2)//3 { each i < min(n*m - 3*t, 3) { store %y[(i + 3*t)//m, (i + 3*t)%m] = load %x[i + 3*t] } }
	}`},
	{text: `kernel @lanes(%x: f32[n*m] read, %y: f32[m, n] write) dims(m, n) {
		parallel t < (n*m + 36)//37 { vector i < min(n*m - 37*t, 37) { store %y[(i + 37*t)%m, (i + 37*t)//m] = load %x[i + 37*t] } }
	}`},
	{text: `kernel @window(%x: f32[max(s - 2, 0)] read, %y: f32[max(s - 2, 0)] write) dims(s) {
		parallel t < (s + 1)//4 { each i < min(s - 2 - 4*t, 4) { store %y[(i + 4*t)%(s - 2)] = load %x[i + 4*t] } }
	}`},
	{text: `kernel @stride(%x: f32[2, max(s//3 - 1, 0)] read, %y: f32[2, max(s//3 - 1, 0)] write) dims(s) {
		parallel t < (2*(s//3) - 2 + 4)//5 {
			each i < min(2*(s//3) - 2 - 5*t, 5) {
				store %y[min((i + 5*t)//(s//3 - 1), 1), (i + 5*t)%(s//3 - 1)] = load %x[min((i + 5*t)//(s//3 - 1), 1), (i + 5*t)%(s//3 - 1)]
			}
		}
	}`},
	{text: `kernel @plane(%x: f32[max(n - 1, 0)*max(m - 2, 0)] read, %y: f32[max(n - 1, 0), max(m - 2, 0)] write) dims(m, n) {
		parallel t < ((n - 1)*(m - 2) + 15)//16 { each i < min((n - 1)*(m - 2) - 16*t, 16) {
			store %y[min((i + 16*t)//(m - 2), n - 2), (i + 16*t)%(m - 2)] = load %x[min(i + 16*t, max(n - 1, 0)*max(m - 2, 0) - 1)]
		} }
	}`, given: []sym.Cond{{A: sym.Const(1), Rel: sym.LE, B: dim("n")}, {A: sym.Const(2), Rel: sym.LE, B: dim("m")}}},
	{text: `kernel @apart(%x: f32[max(n - m, 0)] read, %y: f32[max(n - m, 0)] write) dims(m, n) {
		for j < 2 { parallel t < n - m { store %y[(t + j)%(n - m)] = add(load %x[t], cast(f32, index(j))) } }
	}`},
	{text: `kernel @nested(%x: f32[8] read, %y: f32[8] update) dims(m, n) {
		for i < n//m { for j < min(m//n, 8) { vector k < 8 { store %y[k] = add(load %y[k], load %x[(k + i + j)%min(m, 8)]) } } }
	}`, given: []sym.Cond{{A: sym.Const(1), Rel: sym.LE, B: dim("m")}, {A: sym.Const(1), Rel: sym.LE, B: dim("n")}}},
	{text: `kernel @inside(%x: f32[8] read, %y: f32[8] update) dims(m, n) {
		each i < min(m, 8) { for j < n//m { for k < 8 { store %y[i] = add(load %y[i], load %x[((k + j)//m + (n*i)//m)%8]) } } }
	}`},
	{text: `kernel @checked(%x: i64[4] read, %y: f32[4] update) dims(n) {
		for i < 4 { check c = and(load %x[i], 0) in [0, n - 1] "a place"  store %y[i] = add(load %y[i], cast(f32, index((i + c)//n))) }
	}`},
	{text: `kernel @masked(%x: f32[n] read, %y: f32[5] write) dims(m, n) {
		each i < 5 { store %y[i] = load %x[min(i//m, n - 1)] if and(gt(index(m), 0), gt(index(n), 0)) else 7 }
	}`},
	{text: `kernel @when(%x: f32[n] read, %y: f32[6] update) dims(m, n) {
		for i < 6 { when gt(index(n*m), 0) { store %y[i] = load %x[(i*m)%n] } else { store %y[i] = 3 } }
	}`},
	{text: `kernel @up(%x: f32[n] read, %y: i64[n] update) dims(m, n) {
		for j < m { vector i < n { store %y[i] = index(ceildiv(i, m) + (i - j)//m - (j - i)%m) } }
	}`},
}

// Divisions compiles kernels that divide by integers over dimensions, none of which may be left to another generator,
// and compares them with the interpreter.
func (h Harness) Divisions(t *testing.T) {
	h.Guarded = true
	compile := h.Compile
	for _, c := range divisions {
		k, err := loop.ParseKernel(c.text)
		if err != nil {
			t.Fatal(err, c.text)
		}
		t.Run(k.Name, func(t *testing.T) {
			h.Compile = func(m *loop.Module, machine target.Machine) (*target.Code, error) {
				for _, g := range c.given {
					m.Requires = append(m.Requires, loop.Require{Cond: g})
				}
				code, err := compile(m, machine)
				if err == nil && len(code.Left) > 0 {
					t.Errorf("left to another generator: %s\n%s", code.Left[0].Reason, k)
				}
				return code, err
			}
			for at := range 6 * 6 {
				values := map[string]int64{"m": int64(at % 6), "n": int64(at / 6), "s": int64(at)}
				dims := map[sym.Name]int64{}
				for _, name := range k.Dims {
					dims[name] = values[name.Text()]
				}
				if k.Dims[0].Text() != "s" || at < 24 {
					h.division(t, k, dims, c.given)
				}
			}
		})
	}
}

// division runs a kernel for dimensions that satisfy the given conditions.
func (h Harness) division(t *testing.T, k *loop.Kernel, dims map[sym.Name]int64, given []sym.Cond) {
	for _, g := range given {
		if holds, err := g.Eval(func(name sym.Name) (int64, bool) {
			v, ok := dims[name]
			return v, ok
		}); err != nil || !holds {
			return
		}
	}
	h.Agree(t, k, dims, filled(t, k, dims), 0, 0)
}
