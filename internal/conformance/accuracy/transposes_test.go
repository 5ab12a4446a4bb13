package accuracy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestTurned transposes tensors of each size of elements, with arithmetic on the way, of known and named extents: fewer
// than a vector's lanes, as many, and more that are no multiple of them. Channels become last, and first again; a
// result on the way is also an output.
func TestTurned(t *testing.T) {
	turned[float32](t, "f32")
	turned[float64](t, "f64")
	turned[int64](t, "i64")
	turned[int32](t, "i32")
	turned[uint8](t, "u8")
	turned[int8](t, "i8")
	turned[int16](t, "i16")
}

// turned transposes tensors of one element type.
func turned[T weir.Element](t *testing.T, dt string) {
	sizes := [][4]int{{1, 16, 4, 4}, {2, 17, 5, 7}, {1, 24, 20, 21}, {1, 3, 33, 5}, {1, 100, 13, 31}, {3, 15, 1, 15},
		{1, 40, 120, 1}}
	for i, size := range append(sizes, [4]int{}) {
		extents, dims, list := []string{"n", "c", "h", "w"},
			"dim n in [0, inf]\ndim c in [0, inf]\ndim h in [0, inf]\ndim w in [0, inf]\n", sizes
		if i < len(sizes) {
			for j, extent := range size {
				extents[j] = fmt.Sprint(extent)
			}
			dims, list = "", sizes[i:i+1]
		}
		first, last := strings.Join(extents, ", "), strings.Join([]string{extents[0], extents[2], extents[3], extents[1]},
			", ")
		source := fmt.Sprintf(`weir 1
ir @turned {
%smain @main(%%x: %[2]s[%[3]s], %%z: %[2]s[%[4]s]) {
  %%a: %[2]s[%[3]s] = add(%%x, %%x)
  %%y: %[2]s[%[4]s] = transpose(%%a) {perm = ints [0, 2, 3, 1]}
  %%b: %[2]s[%[3]s] = transpose(%%z) {perm = ints [0, 3, 1, 2]}
  %%c: %[2]s[%[4]s] = transpose(%%x) {perm = ints [0, 2, 3, 1]}
  return %%a, %%y, %%b, %%c
}
}
`, dims, dt, first, last)
		for _, cpu := range []string{"avx2", "avx512", "portable"} {
			t.Run(fmt.Sprintf("%s %v %s", dt, extents, cpu), func(t *testing.T) {
				m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
				defer m.Close()
				p, err := weir.Compile(t.Context(), m, weir.Options{CPU: cpu})
				if errors.Is(err, weir.ErrUnsupported) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				for _, size := range list {
					checkTurned[T](t, p, size)
				}
			})
		}
	}
}

func checkTurned[T weir.Element](t *testing.T, p *weir.Program, size [4]int) {
	t.Helper()
	n, c, area := size[0], size[1], size[2]*size[3]
	x := make([]T, n*c*area)
	for i := range x {
		x[i] = number[T](i*7919%251 - 120)
	}
	first := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, n, c, size[2], size[3]))
	last := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, n, size[2], size[3], c))
	defer first.Close()
	defer last.Close()
	results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": first, "z": last}))
	defer results.Close()
	got := map[string][]T{}
	for _, name := range []string{"a", "y", "b", "c"} {
		got[name] = weirtest.Copy[T](t, results.Get(name))
	}
	for i := range x {
		image, channel, place := i/area/c, i/area%c, i%area
		j := (image*area+place)*c + channel
		twice := number[T](2 * (i*7919%251 - 120))
		for name, pair := range map[string][2]T{"a": {got["a"][i], twice}, "y": {got["y"][j], twice},
			"b": {got["b"][i], x[j]}, "c": {got["c"][j], x[i]}} {
			if pair[0] != pair[1] {
				t.Fatalf("%v: %s at %d is %v, not %v", size, name, i, pair[0], pair[1])
			}
		}
	}
}

// number is an integer as an element, of which small types keep the lowest bits.
func number[T weir.Element](v int) T {
	var zero T
	switch any(zero).(type) {
	case float32:
		return any(float32(v)).(T)
	case float64:
		return any(float64(v)).(T)
	case int64:
		return any(int64(v)).(T)
	case int32:
		return any(int32(v)).(T)
	case uint8:
		return any(uint8(v)).(T)
	case int8:
		return any(int8(v)).(T)
	}
	return any(int16(v)).(T)
}
