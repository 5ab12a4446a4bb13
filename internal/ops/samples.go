package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// The element types that samples of numeric operators go through.
var (
	floatTypes   = []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16}
	integerTypes = []dtype.DType{dtype.I8, dtype.U8, dtype.I16, dtype.U16, dtype.I32, dtype.U32, dtype.I64, dtype.U64}
)

// sampleNormal returns normally distributed floats, all of them finite.
func sampleNormal(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := int64(0); i < t.Len(); i++ {
		t.SetFloat(i, r.NormFloat64())
	}
	return t
}

// sampleFloats is sampleNormal with about a quarter of the elements replaced by infinities, NaN, zeros of both signs,
// large and small numbers.
func sampleFloats(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := sampleNormal(r, dt, shape...)
	odd := []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1), 60, -60, 1e-6}
	for i := int64(0); i < t.Len(); i++ {
		if r.Intn(4) == 0 {
			t.SetFloat(i, odd[r.Intn(len(odd))])
		}
	}
	return t
}

// sampleIntegers returns small integers; those of a signed type may be negative.
func sampleIntegers(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := int64(0); i < t.Len(); i++ {
		x := int64(r.Intn(13))
		if dt.IsSigned() {
			x -= 6
		}
		t.SetInt(i, x)
	}
	return t
}

// sampleOf returns a tensor of any numeric type or Bool: small integers, or finite floats.
func sampleOf(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	switch {
	case dt.IsFloat():
		return sampleNormal(r, dt, shape...)
	case dt == dtype.Bool:
		t := tensor.Must(tensor.New(dt, shape...))
		for i := int64(0); i < t.Len(); i++ {
			t.SetInt(i, int64(r.Intn(2)))
		}
		return t
	}
	return sampleIntegers(r, dt, shape...)
}
