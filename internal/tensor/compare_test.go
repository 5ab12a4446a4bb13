package tensor

import (
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// TestCompareAmong shows that the relative tolerance uses the mean magnitude on a line, of finite elements only; that
// integers, NaNs and infinities have no such tolerance; and that an outlier excuses nothing off its lines.
func TestCompareAmong(t *testing.T) {
	square := func(at int64, v float64) *Tensor {
		x := Must(New(dtype.F32, 1, 4, 4))
		for i := range x.Len() {
			x.SetFloat(i, 10)
		}
		x.SetFloat(0, 1e6)
		x.SetFloat(9, math.Inf(1))
		x.SetFloat(10, 1e-4)
		x.SetFloat(at, v)
		return x
	}
	for _, c := range []struct {
		what  string
		got   *Tensor
		want  *Tensor
		alone string // the error of Compare
		among string // the error of CompareAmong
	}{
		{"the rounding of its neighbours", square(10, 5e-3), square(10, 1e-4), "[0,2,2]", ""},
		{"a hundredth of its neighbours", square(10, 0.1), square(10, 1e-4), "[0,2,2]", "[0,2,2]"},
		{"off an outlier's lines", square(5, 10.1), square(5, 10), "[0,1,1]", "[0,1,1]"},
		{"on an outlier's line", square(1, 10.1), square(1, 10), "[0,0,1]", ""},
		{"an infinity", square(9, 10), square(9, math.Inf(1)), "[0,2,1]", "[0,2,1]"},
		{"a NaN", square(9, math.NaN()), square(9, math.Inf(1)), "[0,2,1]", "[0,2,1]"},
		{"a single element", Of(float32(0.1)), Of(float32(0.2)), "element", "element"},
		{"integers", Of[int64](1, 1e6), Of[int64](2, 1e6), "[0]", "[0]"},
	} {
		for _, by := range []struct {
			compare func(got, want *Tensor, rtol, atol float64) error
			say     string
		}{{Compare, c.alone}, {CompareAmong, c.among}} {
			if err := by.compare(c.got, c.want, 1e-3, 1e-7); (err == nil) != (by.say == "") || err != nil &&
				!strings.Contains(err.Error(), by.say) {
				t.Errorf("%s: %v, not %q", c.what, err, by.say)
			}
		}
	}
}
