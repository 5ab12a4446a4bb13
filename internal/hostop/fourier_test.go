package hostop

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// transformTest returns the transform of length n of x, and checks that its scratch is bounded and set to zero.
func transformTest(t testing.TB, x *tensor.Tensor, n int64, inverse bool) *tensor.Tensor {
	room := FourierRoom(n)
	if most := FourierRoomMost*n + FourierRoom(0); room > most {
		t.Fatalf("length %d needs %d scratch elements, more than %d", n, room, most)
	}
	attrs := map[string]any{"axis": int64(0), "length": n, "room": room, "inverse": inverse}
	out, err := Apply("fourier", attrs, []*tensor.Tensor{x}, []dtype.DType{dtype.F64, dtype.F64})
	if err != nil {
		t.Fatal(err)
	}
	for i := range out[1].Len() {
		if out[1].Float(i) != 0 {
			t.Fatalf("length %d leaves %v in its scratch", n, out[1].Float(i))
		}
	}
	return out[0]
}

// TestFourier compares with the sum that defines the transform, at every length to 140 and at some larger ones, and
// with the inverse.
func TestFourier(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	lengths := []int64{256, 509, 720, 1021, 1022}
	for n := int64(1); n <= 140; n++ {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		x := tensor.Must(tensor.New(dtype.F64, n, 2))
		for i := range x.Len() {
			x.SetFloat(i, r.NormFloat64())
		}
		y := transformTest(t, x, n, false)
		for k := range n {
			sum := complex128(0)
			for j := range n {
				sum += complex(x.Float(2*j), x.Float(2*j+1)) * cmplx.Rect(1, -2*math.Pi*float64(j*k%n)/float64(n))
			}
			if distance := cmplx.Abs(sum - complex(y.Float(2*k), y.Float(2*k+1))); distance > 1e-11 {
				t.Fatalf("length %d, element %d: off by %v", n, k, distance)
			}
		}
		back := transformTest(t, y, n, true)
		for i := range x.Len() {
			if math.Abs(back.Float(i)-x.Float(i)) > 1e-12 {
				t.Fatalf("length %d, element %d: %v comes back as %v", n, i, x.Float(i), back.Float(i))
			}
		}
	}
}

// TestFourierReal compares the transforms of real numbers, cut and padded, with those of complex numbers whose
// imaginary parts are 0.
func TestFourierReal(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16} {
		for n := int64(1); n <= 100; n++ {
			for _, given := range []int64{n, n - n/3, n + 3, 1} {
				x, z := tensor.Must(tensor.New(dt, 2, given, 3, 1)), tensor.Must(tensor.New(dt, 2, given, 3, 2))
				for i := range x.Len() {
					x.SetFloat(i, r.NormFloat64())
					z.SetFloat(2*i, x.Float(i))
				}
				for _, inverse := range []bool{false, true} {
					for _, onesided := range []bool{false, true} {
						attrs := map[string]any{"axis": int64(1), "length": n, "room": FourierRoom(n), "inverse": inverse,
							"onesided": onesided}
						a, err := Apply("fourier", attrs, []*tensor.Tensor{x}, []dtype.DType{dt, dtype.F64})
						if err != nil {
							t.Fatal(err)
						}
						b, err := Apply("fourier", attrs, []*tensor.Tensor{z}, []dtype.DType{dt, dtype.F64})
						if err != nil {
							t.Fatal(err)
						}
						most := map[dtype.DType]float64{dtype.F32: 1e-5, dtype.F64: 1e-12, dtype.F16: 0.04}[dt]
						for i := range a[0].Len() {
							if math.Abs(a[0].Float(i)-b[0].Float(i)) > most {
								t.Fatalf("%v, %d of %d numbers, %v: element %d is %v of real numbers, and %v of complex ones", dt, given, n,
									attrs, i, a[0].Float(i), b[0].Float(i))
							}
						}
						for i := range a[1].Len() {
							if a[1].Float(i) != 0 {
								t.Fatalf("length %d leaves %v in its scratch", n, a[1].Float(i))
							}
						}
					}
				}
			}
		}
	}
}

// BenchmarkFourier measures the time by the length: powers of two, small factors, and a prime.
func BenchmarkFourier(b *testing.B) {
	for _, n := range []int64{400, 1 << 10, 1 << 14, 1 << 18, 100003} {
		x := tensor.Must(tensor.New(dtype.F64, n, 2))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				transformTest(b, x, n, false)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n)/math.Log2(float64(n)), "ns/(n·log2(n))")
		})
	}
}
