package hostop

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// drawn returns a tensor of random elements in one of six arrangements: random, with ties, ascending, descending, with
// differences in the low bits only, and of special values.
func drawn(r *rand.Rand, dt dtype.DType, how int, shape ...int64) *tensor.Tensor {
	x := tensor.Must(tensor.New(dt, shape...))
	specials := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(math.NaN(), -1), 1,
		-1, math.MaxFloat32, math.SmallestNonzeroFloat32}
	for i := range x.Len() {
		integer, v := int64(0), 0.0
		switch how {
		case 0:
			integer, v = int64(r.Uint64()), r.NormFloat64()
		case 1: // ties
			integer, v = int64(r.Intn(5))-2, float64(r.Intn(5))-2
		case 2:
			integer, v = i, float64(i)
		case 3:
			integer, v = -i, -float64(i)
		case 4: // differences in the low bits only
			integer, v = math.MinInt64+int64(r.Intn(3)), 1+float64(r.Intn(3))*0x1p-52
		case 5:
			integer, v = []int64{math.MinInt64, math.MaxInt64, 0, -1, 1, math.MinInt32, math.MaxInt32,
				math.MaxUint32}[r.Intn(8)],
				specials[r.Intn(len(specials))]
		}
		switch {
		case dt.IsFloat():
			x.SetFloat(i, v)
		case dt == dtype.Bool:
			x.SetInt(i, integer&1)
		case dt.Bits() < 64: // within the type
			x.SetInt(i, dt.MinInt()+int64(uint64(integer)%uint64(int64(dt.MaxInt())-dt.MinInt()+1)))
		default:
			x.SetInt(i, integer)
		}
	}
	return x
}

var keyed = []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16, dtype.F8E4M3FN, dtype.I64, dtype.U64, dtype.I32,
	dtype.U32, dtype.I16, dtype.U16, dtype.I8, dtype.U8, dtype.I4, dtype.U4, dtype.Bool}

// withoutEntries calls f with all axes treated as too long for entries.
func withoutEntries(f func()) {
	defer func(most int64) { mostEntries = most }(mostEntries)
	mostEntries = -1
	f()
}

// same compares results with those of comparisons.
func same(t *testing.T, what string, got, want []*tensor.Tensor) {
	t.Helper()
	for i := range want {
		if g, w := got[i].Bytes(), want[i].Bytes(); string(g) != string(w) {
			t.Fatalf("%s: result %d is %v, and by comparisons %v", what, i, got[i], want[i])
		}
	}
}

// TestTopKKeys compares with a heap that compares elements: all types, along each axis, from none of the elements to
// all, in arrangements with ties, NaN and zeros of both signs.
func TestTopKKeys(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for _, dt := range keyed {
		for how := range 6 {
			for _, shape := range [][]int64{{0}, {1}, {24}, {25}, {700}, {5, 40, 3}, {2, 30, 37}, {9000}} {
				if shape[0] == 9000 && how%3 != 0 {
					continue
				}
				axis := r.Intn(len(shape))
				n := shape[axis]
				for _, k := range []int64{0, 1, min(3, n), min(16, n), min(17, n), n / 2, max(0, n-1), n} {
					if k > n {
						continue
					}
					x := drawn(r, dt, how, shape...)
					attrs := map[string]any{"axis": int64(axis), "k": k, "largest": r.Intn(2) == 0}
					types := []dtype.DType{dt, dtype.I64, dtype.I64}
					got, err := Apply("topk", attrs, []*tensor.Tensor{x}, types)
					if err != nil {
						t.Fatal(err)
					}
					withoutEntries(func() {
						want, err := Apply("topk", attrs, []*tensor.Tensor{x}, types)
						if err != nil {
							t.Fatal(err)
						}
						same(t, fmt.Sprintf("%v %d of %v, arrangement %d, %v", dt, k, shape, how, attrs), got, want)
					})
				}
			}
		}
	}
}

// TestUniqueKeys compares with a sort that compares elements.
func TestUniqueKeys(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for _, dt := range keyed {
		for how := range 6 {
			for _, shape := range [][]int64{{0}, {1}, {2}, {24}, {25}, {800}, {5000}, {300, 2}, {2, 300}, {2, 200, 3},
				{4, 300, 4}, {100, 17}, {0, 3}, {3, 0}, {3, 40, 0}} {
				axis, n := r.Intn(len(shape)), shape
				x := drawn(r, dt, how, shape...)
				attrs := map[string]any{"axis": int64(axis), "sorted": r.Intn(2) == 0}
				types := []dtype.DType{dt, dtype.I64, dtype.I64, dtype.I64, dtype.I64}
				got, err := Apply("unique", attrs, []*tensor.Tensor{x}, types)
				if err != nil {
					t.Fatal(err)
				}
				withoutEntries(func() {
					want, err := Apply("unique", attrs, []*tensor.Tensor{x}, types)
					if err != nil {
						t.Fatal(err)
					}
					same(t, fmt.Sprintf("%v of %v, arrangement %d, %v", dt, n, how, attrs), got, want)
				})
			}
		}
	}
}

// TestNonzero compares with isZero of each element.
func TestNonzero(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	for _, dt := range keyed {
		for _, shape := range [][]int64{{}, {0}, {1}, {1500}, {3, 0, 2}, {7, 1}, {1, 9}, {5, 4, 3, 50}} {
			x := drawn(r, dt, []int{1, 5}[r.Intn(2)], shape...)
			out, err := Apply("nonzero", nil, []*tensor.Tensor{x}, []dtype.DType{dtype.I64})
			if err != nil {
				t.Fatal(err)
			}
			axes := shape
			if len(axes) == 0 {
				axes = []int64{1}
			}
			count := out[0].Shape()[1]
			column, flat := int64(0), int64(0)
			tensor.Each(axes, func(at []int64) {
				if !isZero(x, flat) {
					for axis, i := range at {
						if column >= count || out[0].Int(int64(axis)*count+column) != i {
							t.Fatalf("%v of %v: column %d, axis %d is not %d", dt, shape, column, axis, i)
						}
					}
					column++
				}
				flat++
			})
			if column != count || out[0].Shape()[0] != int64(len(axes)) {
				t.Fatalf("%v of %v: %v, and %d are not zero", dt, shape, out[0].Shape(), column)
			}
		}
	}
}

// TestSplit divides the work of trees among goroutines, and compares the results with those of an undivided call.
func TestSplit(t *testing.T) {
	in := stump()
	r := rand.New(rand.NewSource(8))
	in[0] = drawn(r, dtype.F32, 1, 1000, 2)
	in[1] = tensor.Must(tensor.New(dtype.I32, 900))
	attrs := map[string]any{"targets": int64(3), "aggregate": "average"}
	want, err := Apply("trees", attrs, in, []dtype.DType{dtype.F32})
	if err != nil {
		t.Fatal(err)
	}
	for _, ends := range []error{nil, fmt.Errorf("enough")} {
		var out *tensor.Tensor
		pieces := 0
		call := &Call{Attrs: attrs, In: in, Types: []dtype.DType{dtype.F32},
			Result: func(_ int, shape ...int64) (*tensor.Tensor, error) {
				out = tensor.Must(tensor.New(dtype.F32, shape...))
				return out, nil
			}}
		call.Split = func(count int64, f func(c *Call, from, to int64) error) error {
			errs := make(chan error)
			for from := int64(0); from < count; from += 3 {
				pieces++
				go func() { errs <- f(&Call{Ask: func() error { return ends }}, from, min(from+3, count)) }()
			}
			var first error
			for range pieces {
				if err := <-errs; err != nil {
					first = err
				}
			}
			return first
		}
		f, err := Lookup("trees")
		if err != nil {
			t.Fatal(err)
		}
		if err := f(call); err != ends || pieces < 2 {
			t.Fatalf("%d pieces end with %v, want %v", pieces, err, ends)
		}
		if ends == nil && !out.Equal(want[0]) {
			t.Error("the results differ from those of an undivided call")
		}
	}
}
