package array_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// moments returns the mean, deviation and range of floats.
func moments(t *testing.T, a *array.Array) (mean, deviation, low, high float64) {
	t.Helper()
	list, err := array.Copy[float32](a)
	if err != nil {
		t.Fatal(err)
	}
	low, high = math.Inf(1), math.Inf(-1)
	for _, x := range list {
		mean += float64(x) / float64(len(list))
		low, high = min(low, float64(x)), max(high, float64(x))
	}
	for _, x := range list {
		deviation += (float64(x) - mean) * (float64(x) - mean) / float64(len(list))
	}
	return mean, math.Sqrt(deviation), low, high
}

// TestRandom checks the distributions of random numbers, and that equal keys give equal numbers.
func TestRandom(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("random")
	defer s.Close()
	keys := array.Key(7).Split(8)
	near := func(what string, got, want, by float64) {
		t.Helper()
		if !(math.Abs(got-want) <= by) {
			t.Errorf("%s is %v, not about %v", what, got, want)
		}
	}
	mean, deviation, low, high := moments(t, s.Uniform(keys[0], weir.F32, -2, 6, 40000))
	near("a uniform mean", mean, 2, 0.05)
	near("a uniform deviation", deviation, 8/math.Sqrt(12), 0.05)
	if low < -2 || high >= 6 {
		t.Errorf("uniform numbers from %v to %v", low, high)
	}
	mean, deviation, low, high = moments(t, s.Normal(keys[1], weir.F32, 3, 2, 200, 200))
	near("a normal mean", mean, 3, 0.05)
	near("a normal deviation", deviation, 2, 0.05)
	if low > -3 || high < 9 || math.IsInf(low, 0) || math.IsInf(high, 0) {
		t.Errorf("normal numbers from %v to %v", low, high)
	}
	mean, deviation, low, high = moments(t, s.TruncatedNormal(keys[2], weir.F32, -2, 2, 40000))
	near("a truncated mean", mean, 0, 0.03)
	near("a truncated deviation", deviation, 0.8796, 0.02)
	if low < -2 || high > 2 {
		t.Errorf("truncated numbers from %v to %v", low, high)
	}
	mean, _, _, _ = moments(t, s.Cast(s.Bernoulli(keys[3], s.Number(0.3), 40000), weir.F32))
	near("a probability", mean, 0.3, 0.02)
	mean, _, low, high = moments(t, s.Cast(s.RandInt(keys[4], weir.I8, -3, 4, 40000), weir.F32))
	near("a mean of integers", mean, 0, 0.06)
	if low != -3 || high != 3 {
		t.Errorf("integers from %v to %v", low, high)
	}
	order, err := array.Copy[int64](s.Permutation(keys[5], 100))
	if err != nil {
		t.Fatal(err)
	}
	if slices.IsSorted(order) {
		t.Error("a permutation is in order")
	}
	if slices.Sort(order); order[0] != 0 || order[99] != 99 || len(slices.Compact(order)) != 100 {
		t.Errorf("no permutation: %v", order)
	}
	logits := s.BroadcastTo(array.From(s, []float32{0, float32(math.Log(3)), float32(math.Inf(-1))}), 20000, 3)
	mean, _, _, high = moments(t, s.Cast(s.Categorical(keys[6], logits), weir.F32))
	near("a mean class", mean, 0.75, 0.02)
	if high > 1 {
		t.Error("a class of probability 0 was drawn")
	}
	mean, _, _, high = moments(t, s.Dropout(keys[7], s.Ones(weir.F32, 40000), 0.25))
	near("a mean after dropout", mean, 1, 0.02)
	near("what dropout keeps", high, 1/0.75, 1e-5)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestKeys: arrays of keys are split as keys are, and a compiled step draws new numbers for each key.
func TestKeys(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("keys")
	defer s.Close()
	for i, a := range s.SplitKey(array.Key(1<<63+5), 3) {
		words, err := array.Copy[uint64](a)
		if err != nil {
			t.Fatal(err)
		}
		if want := uint64(array.Key(1<<63 + 5).Split(3)[i]); words[0] != want || words[1] != 0 {
			t.Errorf("key %d is %v, not %d", i, words, want)
		}
	}
	step, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.NextKey(in[0]), s.Normal(in[0], weir.F32, 0, 1, 4)}
	}, array.Options{Name: "draws", Inputs: []array.Spec{array.SpecOf("key", weir.U64, 2)}, States: map[int]int{0: 0}})
	if err != nil {
		t.Fatal(err)
	}
	defer step.Close()
	key := s.Key(3)
	want := s.Normal(array.Key(3), weir.F32, 0, 1, 4)
	first, second := step.Call(s, key), step.Call(s, key)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	a, _ := array.Copy[float32](first[0])
	b, _ := array.Copy[float32](second[0])
	w, _ := array.Copy[float32](want)
	if !slices.Equal(a, w) {
		t.Errorf("a step draws %v, its key gives %v", a, w)
	}
	if slices.Equal(a, b) {
		t.Errorf("two calls draw the same: %v", a)
	}
}
