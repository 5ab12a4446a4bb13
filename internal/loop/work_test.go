package loop

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/sym"
)

// TestDoneBy: DoneBy counts the operations of kernels with ragged loops, and with branches on loop variables or on
// elements, within 1%.
func TestDoneBy(t *testing.T) {
	for _, c := range []struct {
		body        string
		n           int64
		done, slots func(n int64) int64
	}{
		{"each i < n { store %y[i] = add(load %x[i], 1) }", 7, func(n int64) int64 { return n }, nil},
		{"each i < n { store %y[i] = select(lt(load %x[i], 1), cast(f32, cast(f64, load %x[i])), 2) }", 7, func(int64) int64 {
			return 0
		}, nil},
		{"each i < n { for k < i { store %y[i] = exp(load %x[k]) } }", 9, func(n int64) int64 {
			return n * (n - 1) / 2
		}, nil},
		{"each i < n { when lt(index(i), 3) { store %y[i] = exp(load %x[i]) } else { store %y[i] = exp(exp(load %x[i])) } }",
			9,
			func(n int64) int64 { return 2*n - 3 }, nil},
		{"each i < n { when and(le(2, index(i)), lt(index(i), 5)) { store %y[i] = exp(load %x[i]) } }", 9, func(int64) int64 {
			return 3
		}, nil},
		{"each i < n { when lt(load %x[i], 3) { store %y[i] = exp(exp(load %x[i])) } else { store %y[i] = exp(load %x[i]) " +
			"} }", 9,
			func(n int64) int64 { return n }, nil},
		{"each i < n { var %s: f32 = 0 %s add= load %x[i] when eq(%s, 0) { store %y[i] = exp(load %x[i]) } else { for k < " +
			"99 { store %y[i] = exp(load %x[i]) } } }", 9,
			func(n int64) int64 { return 2 * n }, nil},
		{"each t < (n + 3) // 4 { for i < min(4, n - 4*t) { store %y[4*t + i] = neg(load %x[4*t + i]) } }", 9,
			func(n int64) int64 {
				return n
			}, nil},
		{"each i < n { for k < i % 2 { store %y[i] = exp(load %x[i]) } }", 1 << 20, func(n int64) int64 {
			return n / 2
		}, nil},
	} {
		k, err := ParseKernel(fmt.Sprintf("kernel @k(%%x: f32[n] read, %%y: f32[n] write) dims(n) { %s }", c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		done, err := DoneBy(k, func(name sym.Name) (int64, bool) { return c.n, name.String() == "n" }, Widths{})
		want := c.done(c.n)
		if err != nil || done.Operations < want-want/100 || done.Operations > want+want/100 || done.Slots != done.Operations {
			t.Errorf("%s: %+v, %v; not %d", c.body, done, err, want)
		}
	}
}
