package kerneltest

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Quantisations runs round(x / scale) + zero, clamped to a type's range, for constant scales, on the numbers around
// each step to the next integer, and on special values: results must be equal to the interpreter's to the bit.
func (h Harness) Quantisations(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	scales := []float32{1, 0.25, 3, 1.0 / 3, 1.0 / 127, 1e-3, 0.1, 1e-19, 1e-21, 1e19, 1e21, 1e-40, -0.5, 0,
		float32(math.Inf(1)), math.Nextafter32(1, 0), math.Nextafter32(1, 2)}
	for range 30 {
		scales = append(scales, float32(math.Ldexp(1+r.Float64(), r.Intn(24)-18)))
	}
	for i, scale := range scales {
		for _, form := range []struct{ zero, high float64 }{{0, 255}, {float64(r.Intn(256)), 255}, {255, 255}, {8, 15},
			{300, 255}, {-3, 255}, {0.5, 255}, {100, 65535}} {
			if i > 20 && form.zero < 0 {
				continue
			}
			var values []float32
			for _, v := range specialValues(dtype.F32) {
				values = append(values, float32(v))
			}
			for step := -form.zero - 3; step < math.Min(form.high, 255)-form.zero+3; step++ {
				at := float32((step + 0.5) * float64(scale))
				values = append(values, math.Nextafter32(at, -math.MaxFloat32), at, math.Nextafter32(at, math.MaxFloat32),
					at*float32(r.Float64()))
			}
			b := loop.NewBuilder("quantise")
			n := int64(len(values))
			x, z := b.Param("x", loop.Read, dtype.F32, Fixed(n)), b.Param("z", loop.Write, dtype.U16, Fixed(n))
			b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
				real := func(v float64) loop.Expr { return loop.Number(dtype.F32, v) }
				y := loop.Apply(loop.Round, loop.Apply2(loop.Div, x.Load(i), real(float64(scale))))
				if form.zero != 0 {
					y = loop.Apply2(loop.Add, y, real(form.zero))
				}
				y = loop.Apply2(loop.Max, real(0), loop.Apply2(loop.Min, real(form.high), y))
				b.Store(z, []sym.Expr{i}, loop.Convert(dtype.U16, y))
			})
			k := Finish(b)
			from := tensor.Must(tensor.FromSlice(values, n))
			h.agreeSpecial(t, fmt.Sprintf("scale %g, zero %g, up to %g", scale, form.zero, form.high), k,
				[]*tensor.Tensor{from, Operand(t, k.Params[1], nil)}, true)
		}
	}
}

// FewBits tests floats made of some bits of an integer, unchanged and with constants added, subtracted or multiplied:
// each value of the bits, with random other bits, in full vectors and in a remainder, also if the integer is the same
// for all lanes.
func (h Harness) FewBits(t *testing.T) {
	real := func(v float64) loop.Expr { return loop.Number(dtype.F32, v) }
	forms := map[string]func(x loop.Expr) loop.Expr{
		"unchanged": func(x loop.Expr) loop.Expr { return x },
		"minus 8":   func(x loop.Expr) loop.Expr { return loop.Apply2(loop.Sub, x, real(8)) },
		"scaled": func(x loop.Expr) loop.Expr {
			return loop.Apply2(loop.Mul, loop.Apply2(loop.Add, x, real(-7.5)), real(0.1))
		},
		"not finite": func(x loop.Expr) loop.Expr { return loop.Apply2(loop.Mul, x, real(math.Inf(1))) },
		"divided":    func(x loop.Expr) loop.Expr { return loop.Apply2(loop.Div, x, real(3)) },
		"subtracted": func(x loop.Expr) loop.Expr { return loop.Apply2(loop.Sub, real(8), x) },
	}
	for _, dt := range []dtype.DType{dtype.I32, dtype.U32, dtype.I8, dtype.U8} {
		for _, mask := range []float64{1, 3, 7, 15, 31, 5, 0} {
			for name, form := range forms {
				for _, n := range []int64{1, 53} {
					b := loop.NewBuilder("bits")
					x, z := b.Param("x", loop.Read, dt, Fixed(n)), b.Param("z", loop.Write, dtype.F32, Fixed(3*n))
					shift, number := loop.Number(dt, float64(dt.Bits()/8)), loop.Number(dt, mask)
					b.For(loop.Vector, "i", sym.Const(n), func(i sym.Expr) {
						word := b.Let("word", x.Load(i))
						b.Store(z, []sym.Expr{i}, form(loop.Convert(dtype.F32, loop.Apply2(loop.And, word, number))))
						low := loop.Apply2(loop.And, number, loop.Apply2(loop.Shr, word, shift))
						b.Store(z, []sym.Expr{i.Add(sym.Const(n))}, form(loop.Convert(dtype.F32, low)))
						same := loop.Apply2(loop.And, x.Load(sym.Const(0)), number)
						b.Store(z, []sym.Expr{i.Add(sym.Const(2 * n))}, form(loop.Convert(dtype.F32, same)))
					})
					k := Finish(b)
					what := fmt.Sprintf("%s & %g, %s, %d elements", dt, mask, name, n)
					from := Operand(t, k.Params[0], nil)
					rand.New(rand.NewSource(n)).Read(from.Bytes())
					h.agreeSpecial(t, what, k, []*tensor.Tensor{from, Operand(t, k.Params[1], nil)}, true)
				}
			}
		}
	}
}
