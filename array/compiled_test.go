package array_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// TestCompiled compares every operation of entries, eager and compiled, for the last of its types; TestClasses takes
// the first.
func TestCompiled(t *testing.T) {
	array.AssertNoLeaks(t)
	for n, e := range entries {
		r := rand.New(rand.NewSource(int64(n)))
		types := typeSets[e.types]
		if dt := types[len(types)-1]; !testing.Short() || n%4 == 0 {
			shape := e.shape
			if shape == nil {
				shape = elementwiseShapes[2]
			}
			var in []*tensor.Tensor
			for i := range operands(e, shape) {
				in = append(in, e.operand(r, dt, i, shape[i]))
			}
			if _, err := both(t, fmt.Sprint(e.expr, " of ", dt), e.f, in); err != nil {
				t.Errorf("%s of %v: %v", e.expr, dt, err)
			}
		}
	}
}

// TestWrongUse: wrong use is one error, with the line of the caller.
func TestWrongUse(t *testing.T) {
	array.AssertNoLeaks(t)
	for what, f := range map[string]func(s *array.Scope, x *array.Array){
		"axis 5":            func(s *array.Scope, x *array.Array) { s.Sum(x, 5) },
		"twice":             func(s *array.Scope, x *array.Array) { s.Sum(x, 1, -1) },
		"not a multiple":    func(s *array.Scope, x *array.Array) { s.Reshape(x, 4, -1) },
		"has 6 elements":    func(s *array.Scope, x *array.Array) { s.Reshape(x, 4) },
		"may be −1":         func(s *array.Scope, x *array.Array) { s.Reshape(x, -1, -1) },
		"the order":         func(s *array.Scope, x *array.Array) { s.Permute(x, 0, 0) },
		"not of extent 1":   func(s *array.Scope, x *array.Array) { s.Squeeze(x, 0) },
		"integers":          func(s *array.Scope, x *array.Array) { s.Take(x, x, 0) },
		"no arrays":         func(s *array.Scope, x *array.Array) { s.Concat(0) },
		"is nil":            func(s *array.Scope, x *array.Array) { s.Add(x, nil) },
		"pieces":            func(s *array.Scope, x *array.Array) { s.Split(x, 0, 1, 3) },
		"broadcast":         func(s *array.Scope, x *array.Array) { s.BroadcastTo(x, 4, 3) },
		"a rank from 3 on":  func(s *array.Scope, x *array.Array) { s.Conv(x, x, nil, array.Window{}) },
		"no key":            func(s *array.Scope, x *array.Array) { s.Uniform(nil, weir.F32, 0, 1, 3) },
		"random numbers of": func(s *array.Scope, x *array.Array) { s.Uniform(array.Key(1), weir.I32, 0, 1, 3) },
		"a rate of 1":       func(s *array.Scope, x *array.Array) { s.Dropout(array.Key(1), x, 1) },
		"integers from":     func(s *array.Scope, x *array.Array) { s.RandInt(array.Key(1), weir.U8, 0, 257, 3) },
		"no common type":    func(s *array.Scope, x *array.Array) { s.Add(s.Zeros(weir.U64, 1), s.Zeros(weir.I64, 1)) },
	} {
		s := array.NewScope("wrong")
		f(s, s.Ones(weir.F32, 2, 3))
		err := s.Err()
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "compiled_test.go:") {
			t.Errorf("%s: the error is %v", what, err)
		}
		if e := s.Close(); e == nil {
			t.Errorf("%s: Close returns no error", what)
		}
	}
}
