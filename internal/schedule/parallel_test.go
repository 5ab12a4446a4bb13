package schedule

import (
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
)

// TestNamedTiles: rows whose number and length only a run knows are cut along both for several workers; each element is
// computed once, and one long row is more than one tile.
func TestNamedTiles(t *testing.T) {
	source := `dim b in [0, 10000]
dim p in [0, 100000]
kernel @rows(%x: f32[b, 3, p] read, %y: f32[b, p, 3] write) dims(b, p) {
  each i < b {
    each c < 3 {
      vector j < p { store %y[i, j, c] = neg(load %x[i, c, j]) }
    }
  }
}`
	m := parsedCase(t, "rows", source)
	two, err := target.Assumed("avx2", 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(m, two); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewSource(1))
	for _, size := range [][2]int64{{0, 5}, {2, 0}, {1, 20000}, {3, 4097}, {2, 8192}, {5000, 2}, {1300, 3}} {
		x := tensor.Must(tensor.New(dtype.F32, size[0], 3, size[1]))
		for i := range x.Len() {
			x.SetFloat(i, random.NormFloat64())
		}
		got, err := (&loop.Runner{}).Run(m, map[string]*tensor.Tensor{"x": x})
		if err != nil {
			t.Fatal(err)
		}
		y := got["y"]
		for i := range size[0] {
			for c := range int64(3) {
				for j := range size[1] {
					from, to := (i*3+c)*size[1]+j, (i*size[1]+j)*3+c
					if y.Float(to) != -x.Float(from) {
						t.Fatalf("%d rows of %d: element (%d, %d, %d) is %v, not %v", size[0], size[1], i, j, c, y.Float(to),
							-x.Float(from))
					}
				}
			}
		}
		tiles := int64(1)
		for f, only := loop.Only(m.Kernels[0].Body); only && f.Kind == loop.Parallel; f, only = loop.Only(f.Body) {
			n, err := f.Extent.Eval(func(name sym.Name) (int64, bool) {
				return map[sym.Name]int64{sym.User("b"): size[0], sym.User("p"): size[1]}[name], true
			})
			if err != nil {
				t.Fatal(err)
			}
			tiles *= n
		}
		if work := size[0] * size[1]; tiles < work/5000 || tiles > 2+work/1000 {
			t.Errorf("%d rows of %d have %d tiles", size[0], size[1], tiles)
		}
	}
}
