package array_test

import (
	"errors"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestSplitNamed: pieces of known extents along a named axis are a condition on its extent.
func TestSplitNamed(t *testing.T) {
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		h := s.Split(in[0], 0, 4, 4)
		return []*array.Array{s.Add(h[0], h[1])}
	}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n, want := range map[int]error{8: nil, 7: weir.ErrInput, 9: weir.ErrInput} {
		s := array.NewScope("split")
		c.Call(s, s.Ones(weir.F32, n, 1))
		if err := s.Err(); !errors.Is(err, want) {
			t.Errorf("%d rows in two pieces of 4: %v, want %v", n, err, want)
		}
		s.Close()
	}
}
