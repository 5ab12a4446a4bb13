package weirtest

import (
	"encoding/binary"
	"math"
	"math/rand"
)

// Rough draws elements with which algorithms lose accuracy, by kind.
var Rough = map[string]func(r *rand.Rand) float64{
	"normal":    (*rand.Rand).NormFloat64,
	"large":     func(r *rand.Rand) float64 { return 30 * r.NormFloat64() },
	"wide":      func(r *rand.Rand) float64 { return r.NormFloat64() * math.Exp(5*r.NormFloat64()) },
	"far":       func(r *rand.Rand) float64 { return 1e4 + r.NormFloat64() },
	"subnormal": func(r *rand.Rand) float64 { return 1e-40 * r.NormFloat64() },
	"outliers": func(r *rand.Rand) float64 {
		if r.Intn(40) == 0 {
			return 1e5
		}
		return r.NormFloat64()
	},
}

// Roughly returns n rough elements of a kind, as f32.
func Roughly(r *rand.Rand, kind string, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(Rough[kind](r))
	}
	return x
}

// RawFloats returns elements as the bytes that a model's file stores.
func RawFloats(x []float32) (raw []byte) {
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}
