package conformance

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// arithmeticTargets are the ways in which graphs of arithmetic are compiled: bound says that the dimensions have one
// value, ranges that they have an upper end.
var arithmeticTargets = []struct {
	target        weir.Target
	bound, ranges bool
}{{}, {target: weir.Portable, ranges: true}, {bound: true}, {target: weir.Reference}}

// TestArithmetic compares random graphs of integer arithmetic, mostly on sizes, with results that are computed without
// shapes. WEIR_ARITHMETIC is the number of graphs, WEIR_ARITHMETIC_FIRST the first seed.
func TestArithmetic(t *testing.T) {
	count, first := number(t, "WEIR_ARITHMETIC", 600), number(t, "WEIR_ARITHMETIC_FIRST", 0)
	var refused, wrong atomic.Int64
	seeds := make(chan int)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for seed := range seeds {
				m := conformancetest.RandomArithmetic(uint64(seed))
				err := checkArithmetic(t, m)
				switch {
				case err == nil:
				case errors.Is(err, weir.ErrUnsupported) || errors.Is(err, weir.ErrInput):
					refused.Add(1)
					t.Logf("seed %d is refused: %v", seed, err)
				case wrong.Add(1) <= 20:
					t.Errorf("%v\n%s", err, m.Text())
				}
			}
		})
	}
	for i := range count {
		seeds <- first + i
	}
	close(seeds)
	wait.Wait()
	t.Logf("%d graphs, %d differ, %d are refused", count, wrong.Load(), refused.Load())
	if n := refused.Load(); n*100 > int64(count) {
		t.Errorf("%d of %d graphs are refused", n, count)
	}
}

// checkArithmetic compares a graph's results on each target with those that the graph was drawn with.
func checkArithmetic(t *testing.T, m *conformancetest.Arithmetic) (err error) {
	defer diag.Recover(&err, "comparing arithmetic")
	data := m.Model.Marshal()
	in := weir.Inputs{}
	for i, x := range m.Inputs {
		w, err := values.ToWeir(x)
		if err != nil {
			return err
		}
		defer w.Close()
		in[m.Model.Graph.Input[i].Name] = w
	}
	for _, way := range arithmeticTargets {
		o := weir.Options{Target: way.target, Threads: 1, Dims: map[string]weir.Range{}}
		for name, size := range m.Sizes {
			switch {
			case way.bound:
				o.Dims[name] = weir.Range{Min: size, Max: size}
			case way.ranges:
				o.Dims[name] = weir.Range{Min: 0, Max: max(size, 10)}
			}
		}
		if err := runArithmetic(t, data, o, in, m.Want); err != nil {
			return fmt.Errorf("%+v: %w", way, err)
		}
	}
	return nil
}

// runArithmetic compiles a model, runs it, and compares the results.
func runArithmetic(t *testing.T, data []byte, o weir.Options, in weir.Inputs, want []*tensor.Tensor) error {
	loaded, err := weir.LoadBytes(data)
	if err != nil {
		return err
	}
	defer loaded.Close()
	p, err := weir.Compile(t.Context(), loaded, o)
	if err != nil {
		return err
	}
	defer p.Close()
	r, err := p.Run(t.Context(), in)
	if err != nil {
		return err
	}
	defer r.Close()
	for i := range want {
		got, err := values.FromWeir(r.At(i))
		if err != nil {
			return err
		}
		if err := tensor.Compare(got, want[i], 0, 0); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// TestIntegersOfShapes checks graphs whose integers leave their type, or lie at its ends.
func TestIntegersOfShapes(t *testing.T) {
	for _, c := range conformancetest.EdgesOfIntegers() {
		t.Run(c.Name, func(t *testing.T) {
			if err := checkArithmetic(t, c.Arithmetic); err != nil {
				t.Errorf("%v\n%s", err, c.Text())
			}
		})
	}
}

// TestIntegersOutside runs divisors of 0 and indices that do not count from the end, on each target: an error of the
// run. Div and the remainders alone give 0.
func TestIntegersOutside(t *testing.T) {
	const (
		quotient = "%d: i64[3] = divisor(%y)\n%z: i64[3] = div(%x, %d)"
		indices  = "%d: u64[3] = cast(%y) {to = dtype u64}\n"
		chosen   = indices + "%z: i64[3] = gather(%x, %d) {axis = int 0}"
	)
	least := int64(math.MinInt64)
	said := regexp.MustCompile(`an index|index -?\d+ for an extent of 3|divisor|divided by 0`)
	for name, c := range map[string]struct {
		body string
		y    []int64
		want []int64 // nil: an error
	}{
		"a divisor":          {quotient, []int64{1, -1, least}, []int64{7, 9, 1}},
		"a divisor of 0":     {quotient, []int64{1, 0, 3}, nil},
		"no check":           {"%z: i64[3] = div(%x, %y)", []int64{-2, 0, -1}, []int64{-3, 0, least}},
		"a remainder":        {"%z: i64[3] = floormod(%x, %y)", []int64{-2, 0, -1}, []int64{-1, 0, 0}},
		"an index":           {"%z: i64[3] = gather(%x, %y) {axis = int 0}", []int64{-1, 0, 2}, []int64{least, 7, least}},
		"an unsigned index":  {chosen, []int64{1, 0, 1}, []int64{-9, 7, -9}},
		"an index of 2^64-1": {chosen, []int64{1, 0, -1}, nil},
		"one of each":        {indices + "%z: i64[3] = gather_elements(%x, %d) {axis = int 0}", []int64{1, 0, -3}, nil},
	} {
		text := "weir 1\nir @t {\nmain @main(%x: i64[3], %y: i64[3]) {\n" + c.body + "\nreturn %z\n}\n}\n"
		x, y := tensor.Of(7, -9, least), tensor.Of(c.y...)
		for _, target := range []weir.Target{"", weir.Portable, weir.Reference} {
			err := outside(t, text, target, x, y, c.want)
			told := errors.Is(err, weir.ErrInput) && said.MatchString(fmt.Sprint(err))
			if (err == nil) != (c.want != nil) || err != nil && !told {
				t.Errorf("%s, target %q: %v", name, target, err)
			}
		}
	}
}

// outside runs a text on two vectors, and compares the result if want is not nil.
func outside(t *testing.T, text string, target weir.Target, x, y *tensor.Tensor, want []int64) error {
	in := weir.Inputs{}
	for name, v := range map[string]*tensor.Tensor{"x": x, "y": y} {
		w, err := values.ToWeir(v)
		if err != nil {
			return err
		}
		defer w.Close()
		in[name] = w
	}
	var results []*tensor.Tensor
	if want != nil {
		results = append(results, tensor.Of(want...))
	}
	return runArithmetic(t, []byte(text), weir.Options{Threads: 1, Target: target}, in, results)
}
