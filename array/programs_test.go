package array_test

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// Each test of this file is a complete program, written over arrays, eager and compiled, and once more as loops over
// Go's slices.

// near fails t unless two lists are equal up to rounding.
func near(t *testing.T, what string, got, want []float64, e float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, not %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= e*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s: number %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}

// ways runs a function eagerly and compiled, each in a scope of its own, and passes the results to check.
func ways(t *testing.T, f array.Func, in func(s *array.Scope) []*array.Array,
	check func(how string, out []*array.Array)) {
	t.Helper()
	array.AssertNoLeaks(t)
	s := array.NewScope("at once")
	check("at once", f(s, in(s)...))
	fine(t, s.Close())
	c, err := array.Jit(f, array.Options{Name: t.Name()})
	fine(t, err)
	s = array.NewScope("compiled")
	check("compiled", c.Call(s, in(s)...))
	fine(t, s.Close())
	fine(t, c.Close())
}

func numbers(t *testing.T, a *array.Array) []float64 {
	t.Helper()
	list, err := array.Copy[float64](a)
	fine(t, err)
	return list
}

// kMeans returns a function that moves centres, [k, d], to the means of their nearest points, [n, d], as often as turns
// says.
func kMeans(turns int) array.Func {
	return func(s *array.Scope, in ...*array.Array) []*array.Array {
		points, centres := in[0], in[1]
		k := centres.Dim(0)
		return s.For(turns, func(s *array.Scope, _ *array.Array, state ...*array.Array) []*array.Array {
			centres := state[0]
			apart := s.Sub(s.ExpandDims(points, 1), centres)
			nearest := s.ArgMin(s.Sum(s.Square(apart), -1), 1)
			member := s.OneHot(nearest, k, weir.F64)
			sizes := s.ExpandDims(s.Sum(member, 0), 1)
			means := s.Div(s.MatMul(s.Transpose(member), points), s.Maximum(sizes, s.Number(1)))
			return []*array.Array{s.Where(s.Greater(sizes, s.Number(0)), means, centres)}
		}, centres)
	}
}

// goKMeans is kMeans over slices.
func goKMeans(points, centres []float64, d, turns int) []float64 {
	centres = slices.Clone(centres)
	for range turns {
		sums, sizes := make([]float64, len(centres)), make([]float64, len(centres)/d)
		for p := 0; p < len(points); p += d {
			best, least := 0, math.Inf(1)
			for c := range sizes {
				sum := 0.0
				for i := range d {
					sum += (points[p+i] - centres[c*d+i]) * (points[p+i] - centres[c*d+i])
				}
				if sum < least {
					best, least = c, sum
				}
			}
			sizes[best]++
			for i := range d {
				sums[best*d+i] += points[p+i]
			}
		}
		for c, n := range sizes {
			for i := range d {
				if n > 0 {
					centres[c*d+i] = sums[c*d+i] / n
				}
			}
		}
	}
	return centres
}

// TestKMeans clusters points, with one centre that has none.
func TestKMeans(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	points := make([]float64, 3*200)
	for i := range points {
		points[i] = float64(i/3%4) + 0.3*r.NormFloat64()
	}
	centres := append(slices.Clone(points[:12]), 90, 90, 90) // the last has no points
	want := goKMeans(points, centres, 3, 12)
	ways(t, kMeans(12), func(s *array.Scope) []*array.Array {
		return []*array.Array{array.From(s, points, 200, 3), array.From(s, centres, 5, 3)}
	}, func(how string, out []*array.Array) { near(t, how, numbers(t, out[0]), want, 1e-9) })
}

// kalman estimates the positions and speeds of a point that moves on a line from measurements of its position, [n].
func kalman(s *array.Scope, in ...*array.Array) []*array.Array {
	move := array.From(s, []float64{1, 0.1, 0, 1}, 2, 2)
	look := array.From(s, []float64{1, 0}, 1, 2)
	drift := array.From(s, []float64{1e-3, 0, 0, 1e-3}, 2, 2)
	_, out := s.Scan(func(s *array.Scope, state, slices []*array.Array) (next, out []*array.Array) {
		x, p, measured := state[0], state[1], slices[0]
		x = s.MatMul(move, x)
		p = s.Add(s.MatMul(s.MatMul(move, p), s.Transpose(move)), drift)
		spread := s.Add(s.MatMul(s.MatMul(look, p), s.Transpose(look)), s.Number(0.25))
		gain := s.Div(s.MatMul(p, s.Transpose(look)), spread)
		x = s.Add(x, s.Mul(gain, s.Sub(measured, s.MatMul(look, x))))
		p = s.MatMul(s.Sub(s.Eye(weir.F64, 2, 2, 0), s.MatMul(gain, look)), p)
		return []*array.Array{x, p}, []*array.Array{s.Reshape(x, 2)}
	}, []*array.Array{s.Zeros(weir.F64, 2, 1), s.Eye(weir.F64, 2, 2, 0)}, in)
	return out
}

// goKalman is kalman over slices.
func goKalman(measured []float64) (out []float64) {
	x, v := 0.0, 0.0
	a, b, c, d := 1.0, 0.0, 0.0, 1.0
	for _, z := range measured {
		x += 0.1 * v
		a, b, c, d = a+0.1*c+0.1*(b+0.1*d)+1e-3, b+0.1*d, c+0.1*d, d+1e-3
		g, h := a/(a+0.25), c/(a+0.25)
		x, v = x+g*(z-x), v+h*(z-x)
		a, b, c, d = (1-g)*a, (1-g)*b, c-h*a, d-h*b
		out = append(out, x, v)
	}
	return out
}

// TestKalman tracks a point over noisy measurements.
func TestKalman(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	measured := make([]float64, 60)
	for i := range measured {
		measured[i] = 0.3*float64(i) + 0.5*r.NormFloat64()
	}
	want := goKalman(measured)
	ways(t, kalman, func(s *array.Scope) []*array.Array { return []*array.Array{array.From(s, measured)} },
		func(how string, out []*array.Array) { near(t, how, numbers(t, out[0]), want, 1e-9) })
}

// wave returns a function of the heights of a membrane with fixed edges, now and one step before, that computes so many
// steps by slices of its inside.
func wave(steps int) array.Func {
	return func(s *array.Scope, in ...*array.Array) []*array.Array {
		inside := array.Slice(1, -1)
		return s.For(steps, func(s *array.Scope, _ *array.Array, state ...*array.Array) []*array.Array {
			now, before := state[0], state[1]
			up, down := s.Index(now, array.Slice(0, -2), inside), s.Index(now, array.Slice(2, array.End), inside)
			left, right := s.Index(now, inside, array.Slice(0, -2)), s.Index(now, inside, array.Slice(2, array.End))
			middle := s.Index(now, inside, inside)
			curved := s.Sub(s.Add(s.Add(up, down), s.Add(left, right)), s.Mul(middle, s.Number(4)))
			moved := s.Sub(s.Mul(middle, s.Number(2)), s.Index(before, inside, inside))
			next := s.ZerosLike(now)
			s.Assign(next, s.Add(moved, s.Mul(curved, s.Number(0.2))), inside, inside)
			return []*array.Array{next, now}
		}, in...)
	}
}

// goWave is wave over slices.
func goWave(now, before []float64, n, m, steps int) []float64 {
	for range steps {
		next := make([]float64, len(now))
		for i := 1; i < n-1; i++ {
			for k := 1; k < m-1; k++ {
				at := i*m + k
				curved := now[at-m] + now[at+m] + now[at-1] + now[at+1] - 4*now[at]
				next[at] = 2*now[at] - before[at] + 0.2*curved
			}
		}
		now, before = next, now
	}
	return now
}

// drum returns the heights of a membrane at rest, except for a bump.
func drum(n, m int) []float64 {
	out := make([]float64, n*m)
	for i := 1; i < n-1; i++ {
		for k := 1; k < m-1; k++ {
			out[i*m+k] = math.Exp(-0.1 * float64((i-n/3)*(i-n/3)+(k-m/2)*(k-m/2)))
		}
	}
	return out
}

// TestWave computes the waves of a membrane.
func TestWave(t *testing.T) {
	const n, m, steps = 24, 30, 40
	start := drum(n, m)
	want := goWave(start, start, n, m, steps)
	ways(t, wave(steps), func(s *array.Scope) []*array.Array {
		u := array.From(s, start, n, m)
		return []*array.Array{u, u}
	}, func(how string, out []*array.Array) { near(t, how, numbers(t, out[0]), want, 1e-9) })
}

// BenchmarkPrograms measures the programs and Go's loops.
func BenchmarkPrograms(b *testing.B) {
	points, centres := make([]float64, 3*20_000), make([]float64, 3*16)
	r := rand.New(rand.NewSource(1))
	for i := range points {
		points[i] = r.NormFloat64()
	}
	copy(centres, points)
	measured := make([]float64, 500)
	start := drum(400, 400)
	for _, p := range []struct {
		name string
		f    array.Func
		in   func(s *array.Scope) []*array.Array
		loop func()
	}{
		{"kmeans", kMeans(5), func(s *array.Scope) []*array.Array {
			return []*array.Array{array.From(s, points, 20_000, 3), array.From(s, centres, 16, 3)}
		}, func() { goKMeans(points, centres, 3, 5) }},
		{"kalman", kalman, func(s *array.Scope) []*array.Array {
			return []*array.Array{array.From(s, measured)}
		}, func() { goKalman(measured) }},
		{"wave", wave(20), func(s *array.Scope) []*array.Array {
			return []*array.Array{array.From(s, start, 400, 400), array.From(s, start, 400, 400)}
		}, func() { goWave(start, start, 400, 400, 20) }},
	} {
		s := array.NewScope("bench")
		in := p.in(s)
		run := func(f func(s *array.Scope, in ...*array.Array) []*array.Array) func(b *testing.B) {
			return func(b *testing.B) {
				for b.Loop() {
					inner := array.NewScope("turn", array.In(s))
					f(inner, in...)
					if err := inner.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		c, err := array.Jit(p.f, array.Options{Name: p.name})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(p.name+"/once", run(p.f))
		b.Run(p.name+"/compiled", run(c.Call))
		b.Run(p.name+"/go", func(b *testing.B) {
			for b.Loop() {
				p.loop()
			}
		})
		c.Close()
		s.Close()
	}
}
