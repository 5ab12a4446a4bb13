package array_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// toldCases are operations with numbers or sizes besides their operands.
var toldCases = map[string]func(s scope, x arr, i int) arr{
	"leaky_relu": func(s scope, x arr, i int) arr { return s.LeakyRelu(x, 0.001*float64(i)) },
	"elu":        func(s scope, x arr, i int) arr { return s.Elu(x, 0.5+0.001*float64(i)) },
	"celu":       func(s scope, x arr, i int) arr { return s.Celu(x, 0.5+0.001*float64(i)) },
	"clip":       func(s scope, x arr, i int) arr { return s.Clip(x, s.Number(-float64(i)), s.Number(0.1)) },
	"layer norm": func(s scope, x arr, i int) arr { return s.LayerNorm(x, nil, nil, 0.001*float64(i+1)) },
	"rms norm":   func(s scope, x arr, i int) arr { return s.RMSNorm(x, nil, 0.001*float64(i+1)) },
	"group norm": func(s scope, x arr, i int) arr { return s.GroupNorm(x, 2, nil, nil, 0.001*float64(i+1)) },
	"batch norm": func(s scope, x arr, i int) arr {
		return s.BatchNorm(x, nil, nil, s.Mean(x, 0, 2, 3), s.Var(x, 0, 2, 3), 0.001*float64(i+1))
	},
	"attention": func(s scope, x arr, i int) arr {
		return s.Attention(x, x, x, nil, array.Heads{Scale: 0.01 * float64(i+1)})
	},
	"norm": func(s scope, x arr, i int) arr { return s.Norm(x, 2.5+0.001*float64(i), 1) },
	"var":  func(s scope, x arr, i int) arr { return s.VarCorrected(x, i%1000, 0, 1) },
	"uniform": func(s scope, x arr, i int) arr {
		return s.Uniform(array.Key(3), x.DType(), float64(-i), 0.3*float64(i+1), 5)
	},
	"normal": func(s scope, x arr, i int) arr {
		return s.Normal(array.Key(3), x.DType(), float64(-i), 0.3*float64(i), 5)
	},
	"truncated normal": func(s scope, x arr, i int) arr {
		return s.TruncatedNormal(array.Key(3), x.DType(), -1, 0.01*float64(i+1), 5)
	},
	"integers": func(s scope, x arr, i int) arr {
		return s.RandInt(array.Key(3), weir.I64, int64(-7*i), 1<<40+int64(i), 5)
	},
	"dropout":        func(s scope, x arr, i int) arr { return s.Dropout(array.Key(3), x, float64(i%99)/100) },
	"uniform, sizes": func(s scope, x arr, i int) arr { return s.Uniform(array.Key(3), x.DType(), -1, 1, 2+i%200) },
	"permutation":    func(s scope, x arr, i int) arr { return s.Permutation(array.Key(3), 2+i%200) },
	"bernoulli":      func(s scope, x arr, i int) arr { return s.Bernoulli(array.Key(3), s.Number(0.3), 2+i%200) },
	"one hot":        func(s scope, x arr, i int) arr { return s.OneHot(s.ArgMax(x, -1), 2+i%200, weir.F32) },
	"topk": func(s scope, x arr, i int) arr {
		values, _ := s.TopK(s.Reshape(x, -1), 2+i%200, 0)
		return values
	},
	"trace": func(s scope, x arr, i int) arr { return s.Trace(x, i%7-3) },
}

// TestTold runs operations with many numbers and sizes: each compiles a few programs, whose results equal those of the
// traced operation, for which the numbers are part of the code.
func TestTold(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, dt := range []weir.DType{weir.F32, weir.F64, weir.BF16} {
		for name, f := range toldCases {
			s := array.NewScope(name)
			x := s.Sub(s.Uniform(array.Key(1), dt, 0, 1, 3, 4, 5, 6), s.Number(0.5))
			turns := 60
			if name == "leaky_relu" && dt == weir.F32 {
				turns = 10000
			}
			before := array.CacheStats()
			flat := int64(0)
			for i := range turns {
				inner := array.NewScope("turn", array.In(s))
				y := f(inner, x, i)
				if i == 30 {
					flat = array.CacheStats().Bytes
				}
				if i < 3 || i == 40 {
					c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
						return []*array.Array{f(s, in[0], i)}
					}, array.Options{Name: name})
					fine(t, err)
					z := c.Call(inner, x)
					fine(t, inner.Err())
					d := differ(y.Tensor(), z[0].Tensor(), weir.Best)
					if dt == weir.BF16 && d != "" { // a product with a number may be rounded before the next operation, or with it
						d = ""
						for i := range int64(y.Tensor().Len()) {
							if a, b := at(y.Tensor(), i), at(z[0].Tensor(), i); math.Abs(a-b) > 0x1p-7*max(0.3, math.Abs(a)) {
								d = fmt.Sprintf("element %d: %v and %v", i, a, b)
							}
						}
					}
					if d != "" || fmt.Sprint(y) != fmt.Sprint(z[0]) {
						t.Errorf("%s of %v, turn %d: %v at once, %v compiled: %s", name, dt, i, y, z[0], d)
					}
					fine(t, c.Close())
				}
				fine(t, inner.Close())
			}
			after := array.CacheStats()
			if n := after.Misses - before.Misses; n > 16 {
				t.Errorf("%s of %v: %d programs for %d turns", name, dt, n, turns)
			}
			if grown := after.Bytes - flat; grown > 64<<10 {
				t.Errorf("%s of %v: the cache grows by %d bytes", name, dt, grown)
			}
			fine(t, s.Close())
		}
	}
}
