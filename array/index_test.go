package array_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestAssignInPlace: Assign changes the elements in place, and leaks nothing.
func TestAssignInPlace(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("assign")
	defer s.Close()
	x := array.From(s, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	before, _ := array.View[float32](x)
	count := s.Count()
	s.Assign(x, s.Number(9), array.All, 1)
	s.AddAt(x, s.Number(1), 0)
	s.Assign(x, x, array.Slice(array.End, array.Begin, -1)) // overlaps: the old elements are read
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if want := []float32{4, 9, 6, 2, 10, 4}; !slices.Equal(before, want) {
		t.Errorf("%v, not %v", before, want)
	}
	if now := s.Count(); now != count {
		t.Errorf("%d arrays, before %d", now, count)
	}
}

// TestIndexMixed indexes by a number and arrays of several integer types.
func TestIndexMixed(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("index")
	defer s.Close()
	x := array.From(s, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 2, 2)
	narrow, wide := array.From(s, []int32{1, 0}), array.From(s, []int64{0, 1})
	for _, c := range []struct {
		at   []any
		want []float32
	}{
		{[]any{0, narrow}, []float32{3, 4, 1, 2}},
		{[]any{narrow, wide}, []float32{5, 6, 3, 4}},
		{[]any{1, narrow, wide}, []float32{7, 6}},
	} {
		got, err := array.Copy[float32](s.Index(x, c.at...))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, not %v: %v", c.at, got, c.want, err)
		}
	}
}

// TestAssignTraced assigns in compiled functions: to an input that is a state, and in a derivative.
func TestAssignTraced(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("assign")
	defer s.Close()
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		s.AddAt(in[0], s.Ones(weir.F32, 2, 3), in[1])
		s.Assign(in[0], s.Number(7), 0, array.Slice(1, array.End))
		return []*array.Array{in[0]}
	}, array.Options{Name: "step", Inputs: []array.Spec{array.SpecOf("table", weir.F32, "rows", 3),
		array.SpecOf("ids", weir.I64, 2)}, States: map[int]int{0: 0}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	table := s.Zeros(weir.F32, 3, 3)
	c.Call(s, table, array.From(s, []int64{2, 2}))
	got, _ := array.Copy[float32](table)
	if want := []float32{0, 7, 7, 0, 0, 0, 2, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	same(t, "a derivative", twice(t, array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		y := s.Mul(in[0], in[0])
		s.Assign(y, s.Number(5), 1)
		s.Assign(in[0], s.Number(0), 0)
		return []*array.Array{s.Sum(s.Mul(y, in[0]))}
	}), ones), 0, 5, 27)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestIndexWrong: wrong indices are errors.
func TestIndexWrong(t *testing.T) {
	array.AssertNoLeaks(t)
	for what, f := range map[string]func(s *array.Scope, x *array.Array){
		"index 2 of axis 0":    func(s *array.Scope, x *array.Array) { s.Index(x, 2) },
		"index of 3 axes":      func(s *array.Scope, x *array.Array) { s.Index(x, 0, 0, 0) },
		"two ellipses":         func(s *array.Scope, x *array.Array) { s.Index(x, array.Ellipsis, array.Ellipsis) },
		"index of type string": func(s *array.Scope, x *array.Array) { s.Index(x, "a") },
		"in steps of 0":        func(s *array.Scope, x *array.Array) { s.Index(x, array.Slice(0, 1, 0)) },
		"integers or bools":    func(s *array.Scope, x *array.Array) { s.Index(x, x) },
		"a mask bool[3]":       func(s *array.Scope, x *array.Array) { s.Index(x, s.Zeros(weir.Bool, 3)) },
		"index 7 of axis 1": func(s *array.Scope, x *array.Array) {
			s.Assign(x, x, array.All, array.From(s, []int64{7}))
		},
		"for a part of shape [2]": func(s *array.Scope, x *array.Array) { s.Assign(x, s.Zeros(weir.F32, 3), array.All, 1) },
		"scope outside": func(s *array.Scope, x *array.Array) {
			c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
				return []*array.Array{s.Assign(x, in[0])}
			}, array.Options{})
			if err == nil {
				c.Call(s, x)
				c.Close()
			}
		},
	} {
		s := array.NewScope("wrong")
		f(s, s.Ones(weir.F32, 2, 3))
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "index_test.go:") {
			t.Errorf("%s: the error is %v", what, err)
		}
		s.Close()
	}
}
