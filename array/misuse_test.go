package array_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestMisuse: each wrong use is one error that says what is wrong, with the user's line.
func TestMisuse(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	x := outer.Ones(weir.F32, 2, 3)
	identity := func(_ *array.Scope, in ...*array.Array) []*array.Array { return in }
	total := func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(in[0])} }
	for name, c := range map[string]struct {
		wrong func(s *array.Scope)
		words string // separated by "|"
	}{
		"negative extent": {func(s *array.Scope) { s.Zeros(weir.F32, -1) }, "extent of -1"},
		"overflow":        {func(s *array.Scope) { s.Zeros(weir.F32, math.MaxInt/2, 4) }, "full|elements"},
		"overflow, full":  {func(s *array.Scope) { s.Ones(weir.F32, 1<<30, 1<<30, 1<<30) }, "full|elements"},
		"nil":             {func(s *array.Scope) { s.Add(nil, x) }, "add|nil"},
		"matmul":          {func(s *array.Scope) { s.MatMul(x, x) }, "matmul|f32[2,3], f32[2,3]|3 == 2"},
		"broadcast":       {func(s *array.Scope) { s.Add(x, s.Ones(weir.F32, 4)) }, "add|f32[2,3], f32[4]"},
		"axis":            {func(s *array.Scope) { s.Sum(x, 5) }, "axis 5 of f32[2,3]"},
		"axis twice":      {func(s *array.Scope) { s.Sum(x, 0, 0) }, "sum|twice"},
		"too little data": {func(s *array.Scope) { array.From(s, []float32{1, 2}, 3) }, "from|12 bytes"},
		"no common type": {func(s *array.Scope) {
			s.Add(array.From(s, []uint64{1}), array.From(s, []int8{1}))
		}, "u64 and i8|Cast"},
		"derivative of many": {func(s *array.Scope) { array.Grad(identity)(s, x) },
			"derivative|f32[2,3]|Sum it"},
		"derivative of nothing": {func(s *array.Scope) {
			array.Grad(func(*array.Scope, ...*array.Array) []*array.Array { return nil })(s, x)
		}, "no result"},
		"kept from a trace": {func(s *array.Scope) {
			var kept *array.Array
			array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array { kept = in[0]; return total(s, in...) })(s, x)
			s.Add(kept, x)
		}, "add|was closed at"},
		"outer scope in a trace": {func(s *array.Scope) {
			array.Grad(func(_ *array.Scope, in ...*array.Array) []*array.Array { return total(s, in...) })(s, x)
		}, "another trace"},
		"panic": {func(s *array.Scope) {
			array.Grad(func(*array.Scope, ...*array.Array) []*array.Array { panic("mine") })(s, x)
		}, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := array.NewScope(name, array.In(outer))
			c.wrong(s)
			wants(t, s.Err(), s.Err(), append(strings.Split(c.words, "|"), "misuse_test.go:")...)
			if err := s.Close(); err == nil {
				t.Error("Close returns no error")
			}
		})
	}
	fine(t, outer.Close())
}

// TestPanicsLine: the error of a function that panics while it is traced names the line that panicked, unless that line
// is in these packages.
func TestPanicsLine(t *testing.T) {
	array.AssertNoLeaks(t)
	line := ""
	mark := func() {
		_, file, number, _ := runtime.Caller(1)
		line = fmt.Sprintf("%s:%d", file, number)
	}
	for name, f := range map[string]array.Func{
		"index": func(_ *array.Scope, in ...*array.Array) []*array.Array { mark(); return in[1:2:len(in)] },
		"nil":   func(_ *array.Scope, in ...*array.Array) []*array.Array { mark(); return *(*[]*array.Array)(nil) },
		"own":   func(*array.Scope, ...*array.Array) []*array.Array { mark(); panic("mine") },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := array.Jit(f, array.Options{Name: "f", Inputs: []array.Spec{array.SpecOf("x", weir.F32, 2)}})
			wants(t, err, err, "tracing f, at "+line)
			if c != nil {
				t.Error("it is compiled")
			}
			s := array.NewScope("s")
			array.Grad(f)(s, s.Ones(weir.F32, 2))
			wants(t, s.Close(), weir.ErrInternal, ", at "+line)
		})
	}
}

// TestMisuseOfJit: errors of Jit, and of calls of a compiled function.
func TestMisuseOfJit(t *testing.T) {
	array.AssertNoLeaks(t)
	identity := func(_ *array.Scope, in ...*array.Array) []*array.Array { return in }
	for name, c := range map[string]struct {
		f       array.Func
		options array.Options
		words   string
	}{
		"computed extent": {func(s *array.Scope, in ...*array.Array) []*array.Array {
			return []*array.Array{s.Zeros(weir.F32, in[0].Dim(0)+1)}
		}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n")}}, "cannot be computed with"},
		"no extent": {identity, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n m")}}, "x|n m"},
		"state": {func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(in[0])} },
			array.Options{States: map[int]int{0: 0}, Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n")}},
			"state 0|f32[n]|f32[]"},
		"no such state": {identity, array.Options{States: map[int]int{7: 0},
			Inputs: []array.Spec{array.SpecOf("x", weir.F32, 1)}}, "does not have"},
		"elements": {func(s *array.Scope, in ...*array.Array) []*array.Array {
			if _, err := array.Copy[float32](in[0]); err != nil {
				t.Log(err)
				s.Sum(nil)
			}
			return in
		}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, 1)}}, "nil"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := array.Jit(c.f, c.options)
			wants(t, err, weir.ErrInput, strings.Split(c.words, "|")...)
		})
	}
	c, err := array.Jit(identity, array.Options{Name: "same", Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n", "n")}})
	fine(t, err)
	for _, wrong := range []func(s *array.Scope){
		func(s *array.Scope) { c.Call(s, s.Ones(weir.F64, 3, 3)) },
		func(s *array.Scope) { c.Call(s, s.Ones(weir.F32, 2, 3)) },
		func(s *array.Scope) { c.Call(s, s.Ones(weir.F32, 2)) },
		func(s *array.Scope) { c.Call(s) },
		func(s *array.Scope) { c.Call(s, nil) },
	} {
		s := array.NewScope("s")
		wrong(s)
		wants(t, s.Close(), weir.ErrInput, "same", "misuse_test.go:")
	}
	fine(t, c.Close())
}

// TestNames compiles inputs with equal names, with names that the compiler uses, and with names that no language
// allows.
func TestNames(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, names := range [][2]string{{"x", "x"}, {"y0", "y1"}, {"é %x{} ", "a\nb"}, {"", ""}} {
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
			return []*array.Array{s.Sub(in[0], in[1]), s.Sub(in[1], in[0])}
		}, array.Options{Name: "a b\"c", Inputs: []array.Spec{array.SpecOf(names[0], weir.F32, 2),
			array.SpecOf(names[1], weir.F32, 2)}})
		fine(t, err)
		s := array.NewScope("s")
		out := c.Call(s, array.From(s, []float32{5, 6}), array.From(s, []float32{1, 1}))
		a, err := array.Copy[float32](out[0])
		fine(t, err)
		b, err := array.Copy[float32](out[1])
		fine(t, err)
		if a[0] != 4 || b[1] != -5 {
			t.Errorf("%q: %v %v", names, a, b)
		}
		fine(t, s.Close())
		fine(t, c.Close())
	}
}

// TestResults: a result may be an input, another result, an array of another scope, or a number.
func TestResults(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	w := array.From(outer, []float32{7})
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		y := s.Neg(in[0])
		return []*array.Array{y, y, in[0], w, s.Number(3)}
	}, array.Options{})
	fine(t, err)
	for n := 1; n < 40; n++ { // more shapes than stay compiled
		s := array.NewScope("s")
		for i, a := range c.Call(s, s.Ones(weir.F32, n)) {
			list, err := array.Copy[float32](a)
			if err != nil || list[0] != []float32{-1, -1, 1, 7, 3}[i] {
				t.Fatal(i, list, err)
			}
		}
		fine(t, s.Close())
	}
	fine(t, c.Close())
	fine(t, outer.Close())
}

// TestNil: methods of a nil array return zero values, so that functions can report a nil argument.
func TestNil(t *testing.T) {
	var a *array.Array
	if a.DType() != weir.InvalidDType || a.Rank() != 0 || a.Len() != 0 || a.Dim(0) != 0 || a.Dim(-1) != 0 ||
		len(a.Shape()) != 0 || a.Scope() != nil ||
		a.Tensor() != nil || a.String() != "no array" || a.Close() != nil {
		t.Error("nil is taken for an array")
	}
}

// TestHostileSizes: sizes that are too large are refused before memory is taken, eager and traced; an absent operand is
// like nil.
func TestHostileSizes(t *testing.T) {
	array.AssertNoLeaks(t)
	const huge = math.MaxInt / 4
	for _, test := range []struct {
		name string
		f    func(s *array.Scope) *array.Array
		kind error
	}{
		{"eye", func(s *array.Scope) *array.Array { return s.Eye(weir.F32, 1, 1<<31-1, 3) }, weir.ErrMemory},
		{"eye of nothing", func(s *array.Scope) *array.Array { return s.Eye(weir.F32, 0, huge, 1) }, nil},
		{"arange", func(s *array.Scope) *array.Array { return s.Arange(weir.F64, 0, 1<<30, 1) }, weir.ErrMemory},
		{"linspace", func(s *array.Scope) *array.Array { return s.Linspace(weir.F32, 0, 1, 1<<31-1) }, weir.ErrMemory},
		{"keys", func(s *array.Scope) *array.Array { return s.SplitKey(array.Key(1), huge)[0] }, weir.ErrInput},
		{"ranks", func(s *array.Scope) *array.Array {
			return s.Stack(2, s.Ones(weir.F32, 2, 3, 4), s.Ones(weir.F32, 3))
		}, weir.ErrInput},
	} {
		s := array.NewScope("small", array.Limit(1<<20))
		test.f(s)
		if err := s.Close(); test.kind != nil && !errors.Is(err, test.kind) {
			t.Errorf("%s: the error is %v", test.name, err)
		} else if test.kind == nil && errors.Is(err, weir.ErrInternal) {
			t.Errorf("%s: the error is %v", test.name, err)
		}
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
			return []*array.Array{s.Sum(s.Cast(test.f(s), weir.F32))}
		}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32)}})
		if err == nil {
			t.Errorf("%s is traced", test.name)
			c.Close()
		} else if e := new(weir.Error); !errors.As(err, &e) || errors.Is(err, weir.ErrInternal) {
			t.Errorf("%s in a trace: the error is %v", test.name, err)
		}
	}
	s := array.NewScope("same")
	defer s.Close()
	x := s.Reshape(s.Iota(weir.F32, 8), 1, 1, 8)
	empty := array.Window{Strides: []int{}, Dilations: []int{}, Padding: [][2]int{}, Output: []int{}}
	same := s.All(s.Equal(s.AvgPool(x, []int{2}, array.Window{}), s.AvgPool(x, []int{2}, empty)))
	if ok, err := array.Item[bool](same); err != nil || !ok {
		t.Errorf("settings without elements are not as those that are nil: %v", err)
	}
	// UniqueAll of a number: data decide the sizes of its results, too.
	values, indices, inverse, counts := s.UniqueAll(s.Number(3))
	if s.Err() != nil || values.Len() != 1 || indices.Len() != 1 || inverse.Rank() != 0 || counts.Len() != 1 {
		t.Errorf("the different elements of a number: %v %v %v %v, %v", values, indices, inverse, counts, s.Err())
	}
}
