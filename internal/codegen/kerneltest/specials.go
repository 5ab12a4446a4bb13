package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Specials runs every function of floats on special values: NaN, infinities, zeros of both signs, subnormal numbers and
// the ends of a type's range. Each operand is an element, a constant or one element for all lanes, in full vectors, in
// their remainder, and one by one. Results of exact arithmetic, and infinities, zeros and NaN of other functions, must
// be the interpreter's to the bit; other results may differ by a few units in the last place. All NaN are equal.
func (h Harness) Specials(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.F16, dtype.BF16} {
		values := specialValues(dt)
		for op := loop.Neg; op <= loop.IsInf; op++ {
			if op.Accepts(dt) {
				h.special(t, fmt.Sprintf("%s_%s", op, dt), dt, values, resultOf(dt, op.Test()), exactUnary(op),
					func(x, _ loop.Expr) loop.Expr {
						return loop.Apply(op, x)
					}, false)
			}
		}
		for op := loop.Add; op <= loop.Ge; op++ {
			if op.Accepts(dt) {
				h.special(t, fmt.Sprintf("%s_%s", op, dt), dt, values, resultOf(dt, op.Test()), op != loop.Pow && op != loop.Atan2,
					func(x, y loop.Expr) loop.Expr { return loop.Apply2(op, x, y) }, true)
			}
		}
		// A Select by a comparison, as rules of ONNX are written.
		h.special(t, "choose_"+dt.String(), dt, values, dt, true, func(x, y loop.Expr) loop.Expr {
			return loop.Choose(loop.Apply2(loop.Lt, x, y), y, x)
		}, true)
		h.special(t, "clip_"+dt.String(), dt, values, dt, true, func(x, y loop.Expr) loop.Expr {
			return loop.Apply2(loop.Min, loop.Apply2(loop.Max, x, loop.Number(dt, -1)), y)
		}, true)
		h.special(t, "swish_"+dt.String(), dt, values, dt, false, func(x, y loop.Expr) loop.Expr {
			return loop.Apply2(loop.Mul, x, loop.Apply(loop.Sigmoid, y))
		}, true)
		for _, to := range ElementTypes {
			h.special(t, fmt.Sprintf("cast_%s_%s", dt, to), dt, values, to, true, func(x, _ loop.Expr) loop.Expr {
				return loop.Convert(to, x)
			}, false)
		}
		for _, op := range []loop.BinaryOp{loop.Max, loop.Min, loop.Add, loop.Mul} {
			h.specialReduce(t, op, dt, values)
		}
	}
}

// resultOf returns the type of a function's result: Bool for a test, or else the operands' type.
func resultOf(dt dtype.DType, test bool) dtype.DType {
	if test {
		return dtype.Bool
	}
	return dt
}

// exactUnary reports whether IEEE 754 defines a function's result to the bit.
func exactUnary(op loop.UnaryOp) bool {
	return op < loop.Exp || op > loop.Sigmoid
}

// specialValues returns an odd number of values, so that each is in each lane when they are repeated.
func specialValues(dt dtype.DType) []float64 {
	least, normal, most := 0x1p-149, 0x1p-126, math.MaxFloat32
	switch dt {
	case dtype.F64:
		least, normal, most = math.SmallestNonzeroFloat64, 0x1p-1022, math.MaxFloat64
	case dtype.F16:
		least, normal, most = 0x1p-24, 0x1p-14, 65504
	case dtype.BF16:
		least, most = 0x1p-133, 0x1.fep127
	}
	list := []float64{math.NaN()}
	for _, v := range []float64{math.Inf(1), 0, least, normal - least, normal, most, 1, 0.5, 1.5, 2.5, 3} {
		list = append(list, v, -v)
	}
	list[4] = math.Copysign(0, -1) // -v is 0 for v = 0
	if len(list)%2 == 0 {
		list = append(list, 7)
	}
	return list
}

// special runs one function, of two operands if two, with each form of operand.
func (h Harness) special(t *testing.T, name string, dt dtype.DType, values []float64, result dtype.DType, exact bool,
	apply func(x, y loop.Expr) loop.Expr, two bool) {
	count := int64(len(values))
	// Full vectors of every width, and a remainder, which has special values.
	n := sym.Const(3 * count)
	for _, kind := range []loop.LoopKind{loop.Vector, loop.Serial} {
		kernel := func(form string, build func(b *loop.Builder, x, y, z *loop.Memory)) {
			b := loop.NewBuilder(form)
			x, y := b.Param("x", loop.Read, dt, []sym.Expr{n}), b.Param("y", loop.Read, dt, []sym.Expr{n})
			z := b.Param("z", loop.Update, result, []sym.Expr{sym.Const(count), n})
			build(b, x, y, z)
			k := Finish(b)
			operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil),
				Operand(t, k.Params[2], nil)}
			for i := range operands[0].Len() {
				operands[0].SetFloat(3*count-1-i, values[i%count])
				operands[1].SetFloat(i, values[i%count])
			}
			h.agreeSpecial(t, name+" by "+form, k, operands, exact)
		}
		row := func(b *loop.Builder, z *loop.Memory, c int64, value func(i sym.Expr) loop.Expr) {
			b.For(kind, "i", n, func(i sym.Expr) { b.Store(z, []sym.Expr{sym.Const(c), i}, value(i)) })
		}
		if !two {
			kernel("elements", func(b *loop.Builder, x, _, z *loop.Memory) {
				row(b, z, 0, func(i sym.Expr) loop.Expr { return apply(x.Load(i), x.Load(i)) })
			})
			kernel("constants", func(b *loop.Builder, x, _, z *loop.Memory) {
				for c, v := range values {
					row(b, z, int64(c), func(i sym.Expr) loop.Expr { return apply(loop.Number(dt, v), nil) })
				}
			})
			continue
		}
		kernel("elements", func(b *loop.Builder, x, y, z *loop.Memory) {
			for c := range count {
				row(b, z, c, func(i sym.Expr) loop.Expr { return apply(x.Load(i), y.Load(i.Add(sym.Const(c)).Mod(n))) })
			}
		})
		alone := values // the values of constants, and of elements for all lanes
		if dt == dtype.F16 || dt == dtype.BF16 {
			alone = values[:5] // computed as f32
		}
		kernel("constant left", func(b *loop.Builder, x, _, z *loop.Memory) {
			for c, v := range alone {
				row(b, z, int64(c), func(i sym.Expr) loop.Expr { return apply(loop.Number(dt, v), x.Load(i)) })
			}
		})
		kernel("constant right", func(b *loop.Builder, x, _, z *loop.Memory) {
			for c, v := range alone {
				row(b, z, int64(c), func(i sym.Expr) loop.Expr { return apply(x.Load(i), loop.Number(dt, v)) })
			}
		})
		kernel("one left", func(b *loop.Builder, x, y, z *loop.Memory) {
			for c := range int64(len(alone)) {
				row(b, z, c, func(i sym.Expr) loop.Expr { return apply(y.Load(sym.Const(c)), x.Load(i)) })
			}
		})
		kernel("one right", func(b *loop.Builder, x, y, z *loop.Memory) {
			for c := range int64(len(alone)) {
				row(b, z, c, func(i sym.Expr) loop.Expr { return apply(x.Load(i), y.Load(sym.Const(c))) })
			}
		})
		kernel("two constants", func(b *loop.Builder, x, y, z *loop.Memory) {
			for c, v := range alone[:min(9, len(alone))] {
				for d, w := range alone[:min(9, len(alone))] {
					b.Store(z, []sym.Expr{sym.Const(int64(c)), sym.Const(int64(d))}, apply(loop.Number(dt, v), loop.Number(dt, w)))
				}
			}
		})
	}
}

// specialReduce reduces rows, in each of which one or two elements are special: the result is the same in any order.
func (h Harness) specialReduce(t *testing.T, op loop.BinaryOp, dt dtype.DType, values []float64) {
	const extent = 37
	first := map[loop.BinaryOp]float64{loop.Max: math.Inf(-1), loop.Min: math.Inf(1), loop.Add: 0, loop.Mul: 1}[op]
	base := map[loop.BinaryOp]float64{loop.Max: math.Copysign(0, -1), loop.Min: 0, loop.Add: 0, loop.Mul: 1}[op]
	count := int64(len(values))
	for _, kind := range []loop.LoopKind{loop.Vector, loop.Serial} {
		b := loop.NewBuilder("reduce")
		x := b.Param("x", loop.Read, dt, Fixed(count*extent, extent))
		z := b.Param("z", loop.Write, dt, Fixed(count*extent))
		b.Serial("r", sym.Const(count*extent), func(r sym.Expr) {
			v := b.Var("v", loop.Number(dt, first))
			b.For(kind, "i", sym.Const(extent), func(i sym.Expr) { b.Reduce(v, op, x.Load(r, i)) })
			b.Store(z, []sym.Expr{r}, v)
		})
		k := Finish(b)
		operands := []*tensor.Tensor{Operand(t, k.Params[0], nil), Operand(t, k.Params[1], nil)}
		for row := range count * extent {
			for i := range int64(extent) {
				operands[0].SetFloat(row*extent+i, base)
			}
			operands[0].SetFloat(row*extent+row%extent, values[row/extent])
			if op == loop.Max || op == loop.Min { // also zeros of both signs and several NaN, in any order
				operands[0].SetFloat(row*extent+(row*7+3)%extent, values[(row*5)%count])
			}
		}
		h.agreeSpecial(t, fmt.Sprintf("%s of rows of %s", op, dt), k, operands, true)
	}
}

// agreeSpecial compares a kernel's last operand with the interpreter's, to the bit if exact, as sameFloat otherwise.
func (h Harness) agreeSpecial(t *testing.T, name string, k *loop.Kernel, operands []*tensor.Tensor, exact bool) {
	t.Helper()
	if h.Take != nil && !h.Take() {
		return
	}
	want := make([]*tensor.Tensor, len(operands))
	data := make([]loop.Data, len(operands))
	for i, x := range operands {
		want[i] = x.Clone()
		data[i] = loop.Data{DType: x.DType(), Bytes: want[i].Bytes()}
	}
	if err := loop.Interpret(k, data, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Execute(t, k, operands, nil, 0); err != nil {
		t.Fatal(err)
	}
	z := len(operands) - 1
	dt, differ := operands[z].DType(), 0
	for i := range operands[z].Len() {
		if dt.IsFloat() && !sameFloat(dt, operands[z].Float(i), want[z].Float(i), exact) || !dt.IsFloat() &&
			operands[z].Int(i) != want[z].Int(i) {
			if differ++; differ <= 3 {
				index := make([]int64, len(operands[z].Shape()))
				tensor.Unravel(i, operands[z].Shape(), index)
				beside := []string{operands[0].Format(index[len(index)-1])}
				if len(operands) > 2 {
					beside = append(beside, operands[1].Format(index[0]))
				}
				t.Errorf("%s: element %d is %s, not %s; operands %v", name, index, operands[z].Format(i), want[z].Format(i), beside)
			}
		}
	}
	if differ > 3 {
		t.Errorf("%s: %d of %d elements differ", name, differ, operands[z].Len())
	}
}

// sameFloat reports whether a result is the expected one: to the bit if exact, or if the expected one is a zero, an
// infinity or NaN; otherwise within a function's error.
func sameFloat(dt dtype.DType, got, want float64, exact bool) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	if exact || want == 0 || math.IsInf(want, 0) {
		return math.Float64bits(got) == math.Float64bits(want)
	}
	unit := map[dtype.DType]float64{dtype.F64: 0x1p-50, dtype.F32: 0x1p-21, dtype.F16: 0x1p-10, dtype.BF16: 0x1p-7}[dt]
	least := specialValues(dt)[5]
	return math.Abs(got-want) <= unit*math.Abs(want)+2*least && math.Signbit(got) == math.Signbit(want)
}
