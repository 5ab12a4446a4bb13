package array_test

import (
	"fmt"
	"math"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// drawnProgram is a program of random operations, which are the same in every call with inputs of the same shapes.
// Results stay small, so that comparisons of them are sensitive.
type drawnProgram struct {
	s    scope
	r    *rand.Rand
	pool []arr
	said []string
}

// pick returns one of the values so far, more often a recent one.
func (p *drawnProgram) pick() arr {
	n := len(p.pool)
	return p.pool[max(p.r.Intn(n), p.r.Intn(n))]
}

// ranked returns a value with at least so many axes.
func (p *drawnProgram) ranked(least int) arr {
	for range 8 {
		if x := p.pick(); x.Rank() >= least {
			return x
		}
	}
	x := p.pick()
	for x.Rank() < least {
		x = p.s.ExpandDims(x, p.r.Intn(x.Rank()+1))
	}
	return x
}

// axis returns a random axis of x, counted from either end.
func (p *drawnProgram) axis(x arr) int { return p.r.Intn(2*x.Rank()) - x.Rank() }

// with returns a value that broadcasts with x: it has x's extents, some of its axes, or extents of 1.
func (p *drawnProgram) with(x arr) arr {
	for range 6 {
		if y := p.pick(); broadcastable(x.Shape(), y.Shape()) {
			return y
		}
	}
	y := p.s.Sin(p.s.Mul(x, p.s.Number(1.3)))
	if x.Rank() > 0 && p.r.Intn(2) == 0 {
		y = p.s.MeanKeep(y, p.axis(x))
	}
	return y
}

// broadcastable reports whether one of two shapes broadcasts to the other.
func broadcastable(x, y []int) bool {
	for i := 1; i <= min(len(x), len(y)); i++ {
		if a, b := x[len(x)-i], y[len(y)-i]; a != b && a != 1 && b != 1 {
			return false
		}
	}
	return true
}

// indices returns random indices along an extent.
func (p *drawnProgram) indices(extent int, shape ...int) arr {
	count := 1
	for _, e := range shape {
		count *= e
	}
	list := make([]int64, count)
	for i := range list {
		list[i] = int64(p.r.Intn(2*extent) - extent)
	}
	return array.From(p.s, list, shape...)
}

// drawnSteps are the operations; a nil result means that the operation does not fit.
var drawnSteps = []struct {
	name string
	f    func(p *drawnProgram) arr
}{
	{"add", func(p *drawnProgram) arr { x := p.pick(); return p.s.Add(x, p.with(x)) }},
	{"sub", func(p *drawnProgram) arr { x := p.pick(); return p.s.Sub(p.with(x), x) }},
	{"mul", func(p *drawnProgram) arr { x := p.pick(); return p.s.Mul(x, p.with(x)) }},
	{"div", func(p *drawnProgram) arr {
		x := p.pick()
		return p.s.Div(x, p.s.Add(p.s.Square(p.with(x)), p.s.Number(1)))
	}},
	{"pow", func(p *drawnProgram) arr {
		x := p.pick()
		return p.s.Pow(p.s.Add(p.s.Square(x), p.s.Number(0.5)), p.s.Tanh(p.with(x)))
	}},
	{"max", func(p *drawnProgram) arr { x := p.pick(); return p.s.Maximum(x, p.with(x)) }},
	{"where", func(p *drawnProgram) arr {
		x := p.pick()
		y := p.with(x)
		return p.s.Where(p.s.Less(x, y), p.s.Sin(y), p.s.Square(x))
	}},
	{"hypot", func(p *drawnProgram) arr { x := p.pick(); return p.s.Hypot(x, p.with(x)) }},
	{"logaddexp", func(p *drawnProgram) arr { x := p.pick(); return p.s.LogAddExp(x, p.with(x)) }},
	{"atan2", func(p *drawnProgram) arr {
		x := p.pick()
		return p.s.Atan2(x, p.s.Add(p.s.Square(p.with(x)), p.s.Number(0.5)))
	}},
	{"unary", func(p *drawnProgram) arr {
		list := []func(arr) arr{p.s.Sin, p.s.Tanh, p.s.Sigmoid, p.s.Softplus, p.s.Gelu, p.s.Silu, p.s.Mish, p.s.Erf, p.s.Atan,
			p.s.Asinh, p.s.Expm1, p.s.Softsign, p.s.Cos, p.s.LogSigmoid, p.s.Relu}
		return list[p.r.Intn(len(list))](p.pick())
	}},
	{"told", func(p *drawnProgram) arr {
		x := p.pick()
		switch slope := p.r.Float64() + 0.1; p.r.Intn(4) {
		case 0:
			return p.s.LeakyRelu(x, slope)
		case 1:
			return p.s.Elu(x, slope)
		case 2:
			return p.s.Celu(x, slope)
		}
		return p.s.Clip(x, p.s.Number(-0.4), p.s.Number(0.6))
	}},
	{"sum", func(p *drawnProgram) arr {
		x := p.ranked(1)
		list := []func(arr, ...int) arr{p.s.Sum, p.s.SumKeep, p.s.Mean, p.s.MeanKeep, p.s.Max, p.s.MinKeep, p.s.LogSumExp,
			p.s.Prod, p.s.Std, p.s.VarKeep}
		return list[p.r.Intn(len(list))](x, p.axis(x))
	}},
	{"sum of all", func(p *drawnProgram) arr { return p.s.Mean(p.pick()) }},
	{"norm", func(p *drawnProgram) arr {
		x := p.ranked(1)
		return p.s.NormKeep(p.s.Add(x, p.s.Number(3)), []float64{1, 2, 2.5, 3}[p.r.Intn(4)], p.axis(x))
	}},
	{"cumsum", func(p *drawnProgram) arr { x := p.ranked(1); return p.s.CumSum(x, p.axis(x)) }},
	{"cumprod", func(p *drawnProgram) arr { x := p.ranked(1); return p.s.CumProd(x, p.axis(x)) }},
	{"softmax", func(p *drawnProgram) arr {
		x := p.ranked(1)
		if p.r.Intn(2) == 0 {
			return p.s.LogSoftmax(x, p.axis(x))
		}
		return p.s.Softmax(x, p.axis(x))
	}},
	{"layer norm", func(p *drawnProgram) arr {
		x := p.ranked(1)
		if p.r.Intn(2) == 0 {
			return p.s.RMSNorm(x, nil, 0.1, p.axis(x))
		}
		return p.s.LayerNorm(x, nil, nil, 0.1+p.r.Float64(), p.axis(x))
	}},
	{"matmul", func(p *drawnProgram) arr {
		x := p.ranked(2)
		y := p.ranked(1)
		if y.Dim(-1) == x.Dim(-1) && y.Rank() >= 2 && broadcastable(x.Shape()[:x.Rank()-2], y.Shape()[:y.Rank()-2]) {
			return p.s.MatMul(x, p.s.SwapAxes(y, -1, -2))
		}
		return p.s.MatMul(x, p.s.SwapAxes(p.s.Cos(x), -1, -2))
	}},
	{"einsum", func(p *drawnProgram) arr {
		x := p.s.Flatten(p.ranked(2), 1)
		switch p.r.Intn(3) {
		case 0:
			return p.s.Einsum("ij,kj->ki", x, p.s.Sin(x))
		case 1:
			return p.s.Einsum("ij,ij,ik->jk", x, p.s.Tanh(x), x)
		}
		return p.s.Einsum("ii->i", p.s.MatMul(x, p.s.Transpose(x)))
	}},
	{"outer", func(p *drawnProgram) arr {
		x := p.ranked(1)
		if x.Len() > 12 {
			return nil
		}
		return p.s.Outer(x, p.s.Flatten(x, 0))
	}},
	{"permute", func(p *drawnProgram) arr { x := p.ranked(2); return p.s.Permute(x, p.r.Perm(x.Rank())...) }},
	{"reshape", func(p *drawnProgram) arr {
		x := p.ranked(1)
		if p.r.Intn(2) == 0 {
			return p.s.Reshape(x, -1)
		}
		return p.s.Reshape(x, x.Dim(0), -1)
	}},
	{"expand", func(p *drawnProgram) arr { x := p.pick(); return p.s.ExpandDims(x, p.r.Intn(x.Rank()+1)) }},
	{"broadcast", func(p *drawnProgram) arr {
		x := p.pick()
		return p.s.BroadcastTo(x, append([]int{2}, x.Shape()...)...)
	}},
	{"slice", func(p *drawnProgram) arr {
		x := p.ranked(1)
		at := make([]any, x.Rank())
		for i := range at {
			switch e := x.Dim(i); p.r.Intn(5) {
			case 0:
				at[i] = p.r.Intn(2*e) - e
			case 1:
				at[i] = array.Slice(p.r.Intn(e), array.End)
			case 2:
				at[i] = array.Slice(array.End, array.Begin, -1)
			case 3:
				at[i] = array.Slice(array.Begin, array.End, 2)
			default:
				at[i] = array.All
			}
		}
		return p.s.Index(x, at...)
	}},
	{"index by arrays", func(p *drawnProgram) arr {
		x := p.ranked(2)
		return p.s.Index(x, p.indices(x.Dim(0), 4), p.indices(x.Dim(1), 4))
	}},
	{"take", func(p *drawnProgram) arr {
		x := p.ranked(1)
		axis := p.axis(x)
		return p.s.Take(x, p.indices(x.Dim(axis), 2, 2), axis)
	}},
	{"take along", func(p *drawnProgram) arr {
		x := p.ranked(1)
		axis := p.axis(x)
		return p.s.TakeAlong(x, p.s.ArgSort(p.s.Cos(x), axis), axis)
	}},
	{"add at", func(p *drawnProgram) arr {
		x := p.s.Cos(p.ranked(1)) // it is changed
		before := p.s.Reshape(x, -1)
		at := p.indices(x.Dim(0), 3)
		p.s.AddAt(x, p.s.Sin(p.s.Take(x, at, 0)), at)
		return p.s.Sub(x, p.s.Mul(p.s.Reshape(before, x.Shape()...), p.s.Number(0.4)))
	}},
	{"assign", func(p *drawnProgram) arr {
		x := p.s.Sin(p.ranked(1)) // it is changed
		before := p.s.ExpandDims(x, 0)
		p.s.Assign(x, p.s.Square(p.s.Index(x, 0)), p.r.Intn(x.Dim(0)))
		return p.s.Add(x, p.s.Mul(p.s.Index(before, 0), p.s.Number(0.3)))
	}},
	{"put along", func(p *drawnProgram) arr {
		x := p.ranked(1)
		axis := p.axis(x)
		return p.s.PutAlong(x, p.s.ArgSort(x, axis), p.s.Tanh(x), axis)
	}},
	{"sort", func(p *drawnProgram) arr { x := p.ranked(1); return p.s.SortDescending(x, p.axis(x)) }},
	{"topk", func(p *drawnProgram) arr {
		x := p.ranked(1)
		axis := p.axis(x)
		y, _ := p.s.TopK(x, 1+p.r.Intn(x.Dim(axis)), axis)
		return y
	}},
	{"concat", func(p *drawnProgram) arr {
		x := p.ranked(1)
		return p.s.Concat(p.axis(x), x, p.s.Cos(x))
	}},
	{"stack", func(p *drawnProgram) arr { x := p.pick(); return p.s.Stack(p.r.Intn(x.Rank()+1), x, p.s.Square(x)) }},
	{"split", func(p *drawnProgram) arr {
		x := p.ranked(1)
		axis := p.axis(x)
		first := p.r.Intn(x.Dim(axis) + 1)
		parts := p.s.Split(x, axis, first, x.Dim(axis)-first)
		if first == 0 || p.r.Intn(2) == 0 && first < x.Dim(axis) {
			return parts[1]
		}
		return parts[0]
	}},
	{"pad", func(p *drawnProgram) arr {
		x := p.ranked(1)
		widths := make([][2]int, x.Rank())
		widths[p.r.Intn(x.Rank())] = [2]int{p.r.Intn(2), p.r.Intn(2)}
		return p.s.Pad(x, 0.3, widths...)
	}},
	{"flip", func(p *drawnProgram) arr { x := p.ranked(1); return p.s.Flip(x, p.axis(x)) }},
	{"roll", func(p *drawnProgram) arr { x := p.ranked(1); return p.s.Roll(x, p.r.Intn(5)-2, p.axis(x)) }},
	{"repeat", func(p *drawnProgram) arr { x := p.ranked(1); return p.s.Repeat(x, 2, p.axis(x)) }},
	{"diff", func(p *drawnProgram) arr {
		x := p.ranked(1)
		axis := p.axis(x)
		if x.Dim(axis) < 2 {
			return nil
		}
		return p.s.Diff(x, axis)
	}},
	{"triangle", func(p *drawnProgram) arr { return p.s.Tril(p.ranked(2), p.r.Intn(3)-1) }},
	{"trace", func(p *drawnProgram) arr { return p.s.Trace(p.ranked(2), p.r.Intn(2)) }},
	{"stop", func(p *drawnProgram) arr { x := p.pick(); return p.s.Add(x, p.s.Mul(x, p.s.Sin(x))) }},
	{"solve", func(p *drawnProgram) arr {
		x := p.s.Flatten(p.ranked(2), 1)
		if x.Dim(0) > 6 {
			return nil
		}
		m := p.s.Add(p.s.MatMul(x, p.s.Transpose(p.s.Sin(x))),
			p.s.Mul(p.s.Number(4), p.s.Eye(weir.F64, x.Dim(0), x.Dim(0), 0)))
		switch p.r.Intn(3) {
		case 0:
			return p.s.Inv(m)
		case 1:
			return p.s.Det(p.s.Mul(m, p.s.Number(0.3)))
		}
		return p.s.Solve(m, x)
	}},
	{"conv", func(p *drawnProgram) arr {
		x := p.ranked(1)
		if x.Dim(-1) < 3 {
			return nil
		}
		x = p.s.Reshape(x, 1, -1, x.Dim(-1))
		w := p.s.Sin(p.s.Index(x, array.All, array.All, array.Slice(array.Begin, 3)))
		return p.s.Conv(x, w, nil, array.Window{Padding: [][2]int{{1, p.r.Intn(2)}}})
	}},
	{"pool", func(p *drawnProgram) arr {
		x := p.ranked(1)
		if x.Dim(-1) < 2 {
			return nil
		}
		x = p.s.Reshape(x, 1, -1, x.Dim(-1))
		if p.r.Intn(2) == 0 {
			return p.s.MaxPool(x, []int{2}, array.Window{Strides: []int{1}})
		}
		return p.s.AvgPool(x, []int{2}, array.Window{Strides: []int{1}})
	}},
	{"for", func(p *drawnProgram) arr {
		x, y := p.pick(), p.pick()
		return p.s.For(3, func(s scope, i arr, state ...arr) []arr {
			return []arr{s.Tanh(s.Add(s.Mul(state[0], s.Number(0.7)), s.Mean(s.Sin(y))))}
		}, x)[0]
	}},
	{"scan", func(p *drawnProgram) arr {
		x := p.ranked(1)
		_, y := p.s.Scan(func(s scope, state, x []arr) (next, y []arr) {
			h := s.Tanh(s.Add(s.Mul(state[0], s.Number(0.5)), x[0]))
			return []arr{h}, []arr{s.Square(h)}
		}, []arr{p.s.Index(x, 0)}, []arr{x})
		return y[0]
	}},
	{"cond", func(p *drawnProgram) arr {
		x := p.pick()
		return p.s.Cond(p.s.Greater(p.s.Sum(x), p.s.Number(0.1)),
			func(s scope, in ...arr) []arr { return []arr{s.Sin(in[0])} },
			func(s scope, in ...arr) []arr { return []arr{s.Square(in[0])} }, x)[0]
	}},
}

// mostDrawn is the largest number of elements of a value of a random program.
const mostDrawn = 400

// drawn returns the function of a seed: its first result is a number, the others are intermediate values.
func drawn(seed int64, said *[]string) array.Func {
	return func(s scope, in ...arr) []arr {
		p := &drawnProgram{s: s, r: rand.New(rand.NewSource(seed)), pool: slices.Clone(in)}
		for steps := 3 + p.r.Intn(12); steps > 0; {
			step := drawnSteps[p.r.Intn(len(drawnSteps))]
			y := step.f(p)
			if s.Err() != nil {
				*said = append(p.said, step.name)
				return in
			}
			steps--
			if y == nil || y.Len() > mostDrawn || y.Len() == 0 || y.Rank() > 5 {
				continue
			}
			p.said = append(p.said, fmt.Sprint(step.name, y.Shape()))
			p.pool = append(p.pool, s.Mul(s.Tanh(y), s.Number(1.5)))
		}
		*said = p.said
		total := s.Number(0)
		for i, y := range p.pool[len(in):] {
			total = s.Add(total, s.Mean(s.Mul(y, s.Sin(s.Add(y, s.Number(float64(i)))))))
		}
		if len(p.pool) == len(in) {
			total = s.Mean(in[0])
		}
		return append([]arr{s.Reshape(total)}, p.pool[len(in):]...)
	}
}

// drawnInputs returns two inputs of f64, moved along directions by step.
func drawnInputs(s scope, seed int64, step float64) []arr {
	r := rand.New(rand.NewSource(seed))
	var out []arr
	for range 2 {
		shape := make([]int, 1+r.Intn(3))
		count := 1
		for i := range shape {
			shape[i] = 1 + r.Intn(5)
			count *= shape[i]
		}
		data := make([]float64, count)
		for i := range data {
			data[i] = r.NormFloat64() + step*(0.5+r.Float64())*float64(1-2*r.Intn(2))
		}
		out = append(out, array.From(s, data, shape...))
	}
	return out
}

// tryDrawn compares a random program, compiled, with its eager run, and its derivative along a direction with finite
// differences. It reports whether the function was smooth there.
func tryDrawn(seed int64) (smooth bool, err error) {
	var said []string
	f := drawn(seed, &said)
	fail := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("seed %d, %v: %s", seed, said, fmt.Sprintf(format, args...))
	}
	s := array.NewScope("program")
	defer s.Close()
	in := drawnInputs(s, seed, 0)
	at := f(s, in...)
	if s.Err() != nil {
		return fail("at once: %v", s.Err())
	}
	c, err := array.Jit(f, array.Options{Name: "program"})
	if err != nil {
		return fail("%v", err)
	}
	defer c.Close()
	got := c.Call(s, in...)
	if s.Err() != nil {
		return fail("compiled: %v", s.Err())
	}
	for i := range at {
		if at[i].String() != got[i].String() {
			return fail("value %d: %v at once, %v compiled", i, at[i], got[i])
		}
		for k := range int64(at[i].Len()) {
			if a, b := elementAt(at[i], k), elementAt(got[i], k); !(math.Abs(a-b) <= 1e-9*max(1, math.Abs(a))) {
				return fail("value %d: element %d is %v at once, %v compiled", i, k, a, b)
			}
		}
	}
	g, err := array.Jit(array.Grad(f), array.Options{Name: "gradient"})
	if err != nil {
		return fail("the gradient: %v", err)
	}
	defer g.Close()
	slopes := g.Call(s, in...)
	if s.Err() != nil {
		return fail("the gradient, compiled: %v", s.Err())
	}
	const h = 1e-5
	moved := drawnInputs(s, seed, 1)
	want := 0.0
	for i, d := range slopes {
		for k := range int64(d.Len()) {
			want += elementAt(d, k) * (elementAt(moved[i], k) - elementAt(in[i], k))
		}
	}
	value := func(step float64) float64 {
		inner := array.NewScope("step", array.In(s))
		defer inner.Close()
		return elementAt(c.Call(inner, drawnInputs(inner, seed, step)...)[0], 0)
	}
	left, middle, right := value(-h), value(0), value(h)
	slope, half := (right-left)/(2*h), (value(h/2)-value(-h/2))/h
	bound := 1e-5 * max(1, math.Abs(slope))
	if math.Abs(slope-half) > bound/2 || math.Abs((right-middle)-(middle-left)) > 1e-3*h*max(1, math.Abs(slope)) {
		return false, nil // an edge is near
	}
	if !(math.Abs(want-slope) <= bound) {
		return fail("the derivative is %v, differences say %v", want, slope)
	}
	return true, nil
}

func elementAt(a arr, i int64) float64 { return at(a.Tensor(), i) }

// TestDrawnPrograms tries programs of random operations: eager, compiled, and differentiated. WEIR_PROGRAMS is their
// number, WEIR_FIRST the first seed.
func TestDrawnPrograms(t *testing.T) {
	array.AssertNoLeaks(t)
	count, first := 40, 1
	if n, err := strconv.Atoi(os.Getenv("WEIR_PROGRAMS")); err == nil {
		count = n
	}
	if n, err := strconv.Atoi(os.Getenv("WEIR_FIRST")); err == nil {
		first = n
	}
	smooth := 0
	for seed := first; seed < first+count; seed++ {
		ok, err := tryDrawn(int64(seed))
		if err != nil {
			t.Error(err)
		}
		if ok {
			smooth++
		}
	}
	if t.Logf("%d of %d programs have a derivative that was compared", smooth, count); count > 10 && smooth < count/2 {
		t.Errorf("only %d of %d programs are smooth", smooth, count)
	}
}
