package array_test

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// moves are operations that only move elements, for an array of at least two axes, with random numbers.
var moves = map[string]func(r *rand.Rand, shape []int) op{
	"broadcast": func(r *rand.Rand, shape []int) op {
		to := append([]int{r.Intn(3)}, shape...)
		for i, e := range to {
			if e == 1 {
				to[i] = r.Intn(4)
			}
		}
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.BroadcastTo(in[0], to...) }
	},
	"tile": func(r *rand.Rand, shape []int) op {
		var times []int
		for range r.Intn(len(shape) + 2) {
			times = append(times, r.Intn(4))
		}
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Tile(in[0], times...) }
	},
	"repeat": func(r *rand.Rand, shape []int) op {
		times, axis := 1+r.Intn(4), r.Intn(len(shape))
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Repeat(in[0], times, axis) }
	},
	"split": func(r *rand.Rand, shape []int) op {
		axis := r.Intn(len(shape))
		at, which := r.Intn(shape[axis]+1), r.Intn(2)
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Split(in[0], axis, at, -1)[which] }
	},
	"flip": func(r *rand.Rand, shape []int) op {
		axes := r.Perm(len(shape))[:r.Intn(len(shape)+1)]
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Flip(in[0], axes...) }
	},
	"roll": func(r *rand.Rand, shape []int) op {
		axes, shift := r.Perm(len(shape))[:r.Intn(len(shape)+1)], r.Intn(21)-10
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Roll(in[0], shift, axes...) }
	},
	"pad": func(r *rand.Rand, shape []int) op {
		widths := make([][2]int, len(shape))
		for i := range widths {
			widths[i] = [2]int{r.Intn(3), r.Intn(3)}
		}
		number := float64(r.Intn(2))
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Pad(in[0], number, widths...) }
	},
	"diagonal": func(r *rand.Rand, shape []int) op {
		offset := []int{r.Intn(9) - 4, math.MinInt, math.MaxInt}[max(0, r.Intn(9)-6)]
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Diagonal(in[0], offset) }
	},
	"tril": func(r *rand.Rand, shape []int) op {
		k := r.Intn(13) - 6
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Tril(in[0], k) }
	},
	"triu": func(r *rand.Rand, shape []int) op {
		k := r.Intn(13) - 6
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Triu(in[0], k) }
	},
	"index": func(r *rand.Rand, shape []int) op {
		var at []any
		for _, e := range shape {
			switch r.Intn(5) {
			case 0:
				at = append(at, array.NewAxis, array.All)
			case 1:
				at = append(at, array.Slice(r.Intn(9)-4, r.Intn(9)-4, []int{1, 2, -1, -3}[r.Intn(4)]))
			case 2:
				if e > 0 {
					at = append(at, r.Intn(2*e)-e)
					continue
				}
				at = append(at, array.All)
			default:
				at = append(at, array.All)
			}
		}
		return func(s *array.Scope, in ...*array.Array) *array.Array { return s.Index(in[0], at...) }
	},
	"index by arrays": func(r *rand.Rand, shape []int) op {
		var at []any
		arrays := 0
		for _, e := range shape {
			switch {
			case e > 0 && r.Intn(3) == 0:
				at = append(at, r.Intn(2*e)-e)
			case e > 0 && r.Intn(2) == 0:
				list := make([]int64, 3)
				for i := range list {
					list[i] = int64(r.Intn(2*e) - e)
				}
				at, arrays = append(at, list), arrays+1
			default:
				at = append(at, array.Slice(r.Intn(3), r.Intn(9)-4))
			}
		}
		return func(s *array.Scope, in ...*array.Array) *array.Array {
			given := make([]any, len(at))
			for i, p := range at {
				if given[i] = p; arrays > 0 {
					if list, ok := p.([]int64); ok {
						given[i] = array.From(s, list)
					}
				}
			}
			return s.Index(in[0], given...)
		}
	},
}

// TestMoves compares operations that only move elements, eager, with the compiled operations.
func TestMoves(t *testing.T) {
	array.AssertNoLeaks(t)
	types := []weir.DType{weir.F32, weir.F64, weir.F16, weir.U8, weir.I16, weir.I64, weir.Bool, weir.BF16}
	turns := times(300)
	for name, make := range moves {
		r := rand.New(rand.NewSource(int64(len(name))))
		for turn := range max(turns/10, 3) {
			shape := []int{r.Intn(5), r.Intn(4), 1 + r.Intn(4)}[r.Intn(2):]
			in := []*tensor.Tensor{sample(r, types[r.Intn(len(types))], -4, 4, false, shape...)}
			if _, err := both(t, fmt.Sprint(name, turn, " of ", in[0].DType(), shape), make(r, shape), in); err != nil {
				t.Errorf("%s of %v: %v", name, shape, err)
			}
		}
	}
}

// TestNumbersVary: a hundred different numbers, positions or widths compile at most three programs.
func TestNumbersVary(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("numbers")
	defer s.Close()
	x := s.Reshape(s.Iota(weir.F32, 6*200), 6, 200)
	rows := array.From(s, []int64{0, 2, 5})
	for name, f := range map[string]func(s *array.Scope, i int){
		"full":      func(s *array.Scope, i int) { s.Full(float64(i)+0.5, weir.F32, 7, 3) },
		"ones":      func(s *array.Scope, i int) { s.Ones(weir.I32, i+1, 3) },
		"broadcast": func(s *array.Scope, i int) { s.BroadcastTo(x, i+1, 6, 200) },
		"tile":      func(s *array.Scope, i int) { s.Tile(x, 1, i) },
		"repeat":    func(s *array.Scope, i int) { s.Repeat(x, i+1, 0) },
		"split":     func(s *array.Scope, i int) { s.Split(x, 1, i, -1) },
		"unstack":   func(s *array.Scope, i int) { s.Unstack(s.Index(x, array.All, array.Slice(i, i+2)), 1) },
		"flip":      func(s *array.Scope, i int) { s.Flip(s.Index(x, array.All, array.Slice(i, array.End)), 1) },
		"roll":      func(s *array.Scope, i int) { s.Roll(x, i, 1) },
		"pad":       func(s *array.Scope, i int) { s.Pad(x, float64(i), [2]int{i, 0}, [2]int{0, i}) },
		"diagonal":  func(s *array.Scope, i int) { s.Diagonal(x, i) },
		"tril":      func(s *array.Scope, i int) { s.Tril(x, i-50) },
		"triu":      func(s *array.Scope, i int) { s.Triu(x, i-50) },
		"index":     func(s *array.Scope, i int) { s.Index(x, i%6, array.Slice(i, array.End, 3)) },
		"by arrays": func(s *array.Scope, i int) { s.Index(x, rows, i) },
		"assign": func(s *array.Scope, i int) {
			s.Assign(s.Reshape(x, 6, 200), s.Number(float64(i)), i%6, array.Slice(i, array.End))
		},
		"arange":   func(s *array.Scope, i int) { s.Arange(weir.F32, 0, float64(i), 1) },
		"iota":     func(s *array.Scope, i int) { s.Iota(weir.I32, i) },
		"linspace": func(s *array.Scope, i int) { s.Linspace(weir.F32, 0, float64(i), i+1) },
		"eye":      func(s *array.Scope, i int) { s.Eye(weir.F32, i, 5, i-3) },
		"number":   func(s *array.Scope, i int) { s.Mul(x, s.Number(float64(i)+0.25)) },
		"power":    func(s *array.Scope, i int) { s.Pow(x, s.Number(float64(i)/10)) },
		"clip":     func(s *array.Scope, i int) { s.Clip(x, s.Number(-float64(i)), s.Number(float64(i)/3)) },
		"normal":   func(s *array.Scope, i int) { s.Normal(array.Key(i), weir.F32, float64(i), float64(2*i+1), 5) },
		"dropout":  func(s *array.Scope, i int) { s.Dropout(array.Key(i), x, float64(i)/200) },
	} {
		before := array.CacheStats().Misses
		for i := range 100 {
			inner := array.NewScope("turn", array.In(s))
			f(inner, i)
			if err := inner.Close(); err != nil {
				t.Fatal(name, err)
			}
		}
		if n := array.CacheStats().Misses - before; n > 3 {
			t.Errorf("%s compiles %d programs for 100 numbers", name, n)
		}
	}
}

// TestAssignments compares assignments at indices of arrays, numbers and slices with the compiled operation.
func TestAssignments(t *testing.T) {
	array.AssertNoLeaks(t)
	types := []weir.DType{weir.F32, weir.F64, weir.F16, weir.U8, weir.I16, weir.I64, weir.U32}
	r := rand.New(rand.NewSource(5))
	for turn := range max(times(60), 7) {
		dt := types[turn%len(types)]
		shape := []int{2 + r.Intn(4), 1 + r.Intn(4), 2 + r.Intn(3)}
		add := r.Intn(2) == 0
		axis := r.Intn(3)
		rows := array.Slice(r.Intn(2), r.Intn(6))
		number := r.Intn(2 * shape[0])
		places := make([]int64, 2)
		for i, at := range r.Perm(shape[axis])[:min(2, shape[axis])] {
			places[i] = int64(at)
		}
		if shape[axis] == 1 {
			places = places[:1]
		}
		f := func(s *array.Scope, in ...*array.Array) *array.Array {
			x := s.Add(in[0], s.Zeros(dt, 1))
			var at []any
			switch list := array.From(s, places); axis {
			case 0:
				at = []any{list, array.All, rows}
			case 1:
				at = []any{number - shape[0], list}
			default:
				at = []any{rows, array.Ellipsis, list}
			}
			value := s.Sub(s.Ones(dt, 1), s.Index(in[0], at...))
			if add {
				return s.AddAt(x, value, at...)
			}
			return s.Assign(x, value, at...)
		}
		in := []*tensor.Tensor{sample(r, dt, -4, 4, false, shape...)}
		if _, err := both(t, fmt.Sprint("assignment ", turn, " of ", dt, shape, axis, add), f, in); err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkRows measures the assignment of a thousand rows to a table, and their addition.
func BenchmarkRows(b *testing.B) {
	s := array.NewScope("bench")
	defer s.Close()
	table := s.Zeros(weir.F32, 100_000, 64)
	ids := s.RandInt(array.Key(1), weir.I64, 0, 100_000, 1024)
	rows := s.Ones(weir.F32, 1024, 64)
	for name, f := range map[string]func(){
		"assign": func() { s.Assign(table, rows, ids) },
		"add":    func() { s.AddAt(table, rows, ids) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
	if err := s.Err(); err != nil {
		b.Fatal(err)
	}
}

// TestBoxes compares assignments and additions to boxes, small and large, with the compiled operation.
func TestBoxes(t *testing.T) {
	array.AssertNoLeaks(t)
	types := []weir.DType{weir.F32, weir.F16, weir.U8, weir.I64, weir.Bool}
	r := rand.New(rand.NewSource(6))
	for turn := range max(times(80), 8) {
		dt := types[turn%len(types)]
		shape := []int{1 + r.Intn(5), 1 + r.Intn(4), 1 + r.Intn(6)}
		add := dt != weir.Bool && r.Intn(2) == 0
		var at []any
		for _, e := range shape {
			switch r.Intn(4) {
			case 0:
				at = append(at, array.All)
			case 1:
				at = append(at, r.Intn(2*e)-e)
			case 2:
				at = append(at, array.NewAxis, array.Slice(r.Intn(2), r.Intn(9)-2))
			default:
				at = append(at, array.Slice(1, -1))
			}
		}
		f := func(s *array.Scope, in ...*array.Array) *array.Array {
			x := s.Where(s.Zeros(weir.Bool), in[0], in[0])
			value := s.Flip(s.Index(in[0], at...))
			if add {
				return s.AddAt(x, value, at...)
			}
			return s.Assign(x, value, at...)
		}
		in := []*tensor.Tensor{sample(r, dt, -4, 4, true, shape...)}
		if _, err := both(t, fmt.Sprint("box ", turn, " of ", dt, shape, at, add), f, in); err != nil {
			t.Error(err)
		}
	}
}
