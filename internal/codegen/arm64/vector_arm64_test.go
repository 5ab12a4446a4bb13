package arm64

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"testing"

	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// operation is an operation on vectors and the same on one lane, given by its bits.
type operation struct {
	name string
	dt   dtype.DType // of the operands
	emit func(b *builder, x, y, z asm.Reg) asm.Reg
	want func(x, y, z uint64) uint64
	as   dtype.DType // of the result, if it is another type
}

// edges are the values of a type at which operations differ.
func edges(dt dtype.DType) (list []uint64) {
	switch dt {
	case dtype.F32:
		for _, x := range []float32{0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 1e-3, 255, 65504, 65520, 1e-7, 6e-5,
			1 << 23, 1<<24 - 1, 1 << 30, 2147483520, 1 << 31, -1 << 31, 1 << 40, math.MaxFloat32, -math.MaxFloat32,
			math.SmallestNonzeroFloat32, 1e-39} {
			list = append(list, uint64(math.Float32bits(x)))
		}
		return append(list, 1<<31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345)
	case dtype.F64:
		for _, x := range []float64{0, 1, -1, 0.5, 1.5, -2.5, 3, 1e-3, 1e300, 1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1 << 52,
			1 << 63, -1 << 63, 1 << 64, 1e-310, math.MaxFloat64, 1 + 0x1p-30} {
			list = append(list, math.Float64bits(x))
		}
		return append(list, 1<<63, 0x7FF<<52, 0xFFF<<52, 0x7FF8<<48)
	case dtype.I64, dtype.U64:
		return []uint64{0, 1, 2, 31, 32, 63, 64, 65, 255, 256, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 62, 1<<63 - 1, 1 << 63,
			1<<64 - 1, 1<<64 - 2, 0x123456789ABCDEF0, 0xFEDCBA9876543210, 1<<53 + 1}
	}
	return []uint64{0, 1, 2, 3, 7, 8, 15, 31, 32, 33, 63, 64, 127, 128, 255, 256, 32767, 32768, 65535, 65536,
		1<<31 - 1, 1 << 31, 1<<32 - 1, 1<<32 - 2, 0x12345678, 0xFEDCBA98}
}

// operandWords are the words of an operand in the frame: there are three, and the result.
const operandWords = 256

// check compares an operation with its model, on all pairs of edges.
func (o operation) check(t *testing.T, i *isa) {
	size := o.dt.Bits() / 8
	lanesAll := operandWords * 8 / size
	if o.as == 0 {
		o.as = o.dt
	}
	list := edges(o.dt)
	var triples [][3]uint64
	for m, x := range list {
		for n, y := range list {
			triples = append(triples, [3]uint64{x, y, list[(m*7+n*3+1)%len(list)]})
		}
	}
	for len(triples) > 0 {
		f, b := aligned(), newBuilder(i)
		part := triples[:min(lanesAll, len(triples))]
		triples = triples[len(part):]
		put := func(at int, v uint64) {
			if size == 8 {
				f[at] = int64(v)
			} else {
				f[at/2] = int64(uint64(f[at/2])&^(0xFFFFFFFF<<(32*(at%2))) | v<<(32*(at%2)))
			}
		}
		get := func(at int) uint64 {
			if size == 8 {
				return uint64(f[at])
			}
			return uint64(f[at/2]) >> (32 * (at % 2)) & 0xFFFFFFFF
		}
		for n := range part {
			for k, v := range part[n] {
				put(k*lanesAll+n, v)
			}
		}
		for at := 0; at*size < 8*operandWords && at < len(part); at += vectorBytes / size {
			var args [3]asm.Reg
			for k := range args {
				args[k] = b.read(asm.Q, word((k*lanesAll+at)*size/8))
			}
			r := o.emit(b, args[0], args[1], args[2])
			b.access(asm.STR, asm.Q, r, word((3*lanesAll+at)*size/8))
		}
		execute(t, b, f)
		for n, v := range part {
			have, want := get(3*lanesAll+n), o.want(v[0], v[1], v[2])
			if have != want && !bothNaN(o.as, have, want) {
				t.Errorf("%s of %s: %#x, %#x, %#x: %#x, want %#x", o.name, o.dt, v[0], v[1], v[2], have, want)
				return
			}
		}
	}
}

func bothNaN(dt dtype.DType, x, y uint64) bool {
	switch dt {
	case dtype.F32:
		a, b := f32(x), f32(y)
		return a != a && b != b
	case dtype.F64:
		a, b := f64(x), f64(y)
		return a != a && b != b
	}
	return false
}

func f32(x uint64) float32    { return math.Float32frombits(uint32(x)) }
func f64(x uint64) float64    { return math.Float64frombits(x) }
func of32(x float32) uint64   { return uint64(math.Float32bits(x)) }
func of64(x float64) uint64   { return math.Float64bits(x) }
func low(x int64) uint64      { return uint64(uint32(x)) }
func mask32(is bool) uint64   { return low(-int64(truth(is))) }
func mask64(is bool) uint64   { return -truth(is) }
func signed32(x uint64) int64 { return int64(int32(x)) }
func truth(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// integerModel is an operation on integers of 32 or 64 bits, with the sign of their type.
func integerModel(op loop.BinaryOp, dt dtype.DType, x, y uint64) uint64 {
	n, signed := uint64(dt.Bits()), dt == dtype.I32 || dt == dtype.I64
	if signed && n == 32 {
		x, y = uint64(signed32(x)), uint64(signed32(y))
	}
	less := x < y
	if signed {
		less = int64(x) < int64(y)
	}
	var r uint64
	switch op {
	case loop.Add:
		r = x + y
	case loop.Sub:
		r = x - y
	case loop.Mul:
		r = x * y
	case loop.And:
		r = x & y
	case loop.Or:
		r = x | y
	case loop.Xor:
		r = x ^ y
	case loop.Min:
		if r = y; less {
			r = x
		}
	case loop.Max:
		if r = x; less {
			r = y
		}
	case loop.Shl, loop.Shr:
		count := y
		if n == 32 {
			count = y & 0xFFFFFFFF
		}
		switch {
		case op == loop.Shl && count < n:
			r = x << count
		case op == loop.Shr && signed:
			r = uint64(int64(x) >> min(count, 63))
		case op == loop.Shr && count < n:
			r = x >> count
		}
	default:
		is := map[loop.BinaryOp]bool{loop.Eq: x == y, loop.Ne: x != y, loop.Lt: less, loop.Le: less || x == y,
			loop.Gt: !less && x != y, loop.Ge: !less}[op]
		r = -truth(is)
	}
	if n == 32 {
		return r & 0xFFFFFFFF
	}
	return r
}

// TestIntegerVectors compares operations on integers with Go's.
func TestIntegerVectors(t *testing.T) {
	for _, dt := range []dtype.DType{dtype.I32, dtype.U32, dtype.I64, dtype.U64} {
		for _, op := range []loop.BinaryOp{loop.Add, loop.Sub, loop.Mul, loop.And, loop.Or, loop.Xor, loop.Min, loop.Max,
			loop.Shl, loop.Shr} {
			if !newBuilder(every).Has(op, dt) {
				t.Errorf("no %s of %s", op, dt)
			}
			operation{fmt.Sprint(op), dt, func(b *builder, x, y, _ asm.Reg) asm.Reg { return b.Binary(op, dt, x, y) },
				func(x, y, _ uint64) uint64 { return integerModel(op, dt, x, y) }, 0}.check(t, every)
		}
		for _, op := range []loop.BinaryOp{loop.Eq, loop.Ne, loop.Lt, loop.Le, loop.Gt, loop.Ge} {
			operation{fmt.Sprint(op), dt, func(b *builder, x, y, _ asm.Reg) asm.Reg { return b.Test(op, dt, x, y) },
				func(x, y, _ uint64) uint64 { return integerModel(op, dt, x, y) }, 0}.check(t, every)
			operation{fmt.Sprint("selected by ", op), dt, func(b *builder, x, y, z asm.Reg) asm.Reg {
				return b.Select(dt, b.Test(op, dt, x, y), y, z)
			}, func(x, y, z uint64) uint64 {
				if integerModel(op, dt, x, y) != 0 {
					return y
				}
				return z
			}, 0}.check(t, every)
		}
		for _, n := range []int64{0, 1, 7, 31, int64(dt.Bits()) - 1} {
			for _, op := range []loop.BinaryOp{loop.Shl, loop.Shr} {
				operation{fmt.Sprint(op, n), dt, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.ShiftBy(op, dt, x, n) },
					func(x, _, _ uint64) uint64 { return integerModel(op, dt, x, uint64(n)) }, 0}.check(t, every)
			}
		}
	}
	for _, o := range []operation{
		{"neg", dtype.I32, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.Unary(loop.Neg, dtype.I32, x) },
			func(x, _, _ uint64) uint64 { return low(-int64(x)) }, 0},
		{"neg", dtype.I64, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.Unary(loop.Neg, dtype.I64, x) },
			func(x, _, _ uint64) uint64 { return -x }, 0},
		{"bitnot", dtype.I32, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.Unary(loop.BitNot, dtype.I32, x) },
			func(x, _, _ uint64) uint64 { return low(^int64(x)) }, 0},
		{"andnot", dtype.I64, func(b *builder, x, y, _ asm.Reg) asm.Reg { return b.AndNot(x, y) },
			func(x, y, _ uint64) uint64 { return y &^ x }, 0},
		{"not", dtype.I32, func(b *builder, x, y, _ asm.Reg) asm.Reg {
			return b.Masks(loop.Xor, b.MaskNot(b.Test(loop.Eq, dtype.I32, x, y)), b.MaskOf(true))
		}, func(x, y, _ uint64) uint64 { return mask32(x == y) }, 0},
		{"none", dtype.I32, func(b *builder, x, y, _ asm.Reg) asm.Reg {
			return b.Masks(loop.And, b.Test(loop.Eq, dtype.I32, x, y), b.MaskOf(false))
		}, func(x, y, _ uint64) uint64 { return 0 }, 0},
	} {
		o.check(t, every)
	}
	for _, i := range []*isa{every, {registers: 32, dot: true}, {registers: 32}} {
		if i.dot && skips("dotprod") || i.matrix && skips("i8mm") {
			continue
		}
		operation{"dot", dtype.I32, func(b *builder, x, y, z asm.Reg) asm.Reg {
			r := b.CopyOf(z)
			b.AddDot(r, x, y)
			return r
		}, func(x, y, z uint64) uint64 {
			for n := range 4 {
				z += uint64(int64(uint8(x>>(8*n))) * int64(int8(y>>(8*n))))
			}
			return low(int64(z))
		}, 0}.check(t, i)
	}
}

// TestFloatVectors compares operations on floats with the models of package mathematics, and with Go's.
func TestFloatVectors(t *testing.T) {
	var m mathematics.Lane
	var w mathematics.WideLane
	narrow := func(of func(x, y uint32) uint32) func(x, y, _ uint64) uint64 {
		return func(x, y, _ uint64) uint64 { return uint64(of(uint32(x), uint32(y))) }
	}
	wide := func(of func(x, y uint64) uint64) func(x, y, _ uint64) uint64 {
		return func(x, y, _ uint64) uint64 { return of(x, y) }
	}
	for _, dt := range []dtype.DType{dtype.F32, dtype.F64} {
		wanted := func(single func(x, y uint32) uint32, double func(x, y uint64) uint64) func(x, y, _ uint64) uint64 {
			if dt == dtype.F32 {
				return narrow(single)
			}
			return wide(double)
		}
		binary := func(op loop.BinaryOp, want func(x, y, _ uint64) uint64) {
			operation{fmt.Sprint(op), dt, func(b *builder, x, y, _ asm.Reg) asm.Reg { return b.Binary(op, dt, x, y) }, want,
				0}.check(t, every)
		}
		binary(loop.Add, wanted(m.Add, w.Add))
		binary(loop.Sub, wanted(m.Sub, w.Sub))
		binary(loop.Mul, wanted(m.Mul, w.Mul))
		binary(loop.Div, wanted(m.Div, w.Div))
		of := func(do func(x, y float64) float64) func(x, y, _ uint64) uint64 {
			return func(x, y, _ uint64) uint64 {
				if dt == dtype.F32 {
					return of32(float32(do(float64(f32(x)), float64(f32(y)))))
				}
				return of64(do(f64(x), f64(y)))
			}
		}
		binary(loop.Min, of(func(x, y float64) float64 { return min(x, y) }))
		binary(loop.Max, of(func(x, y float64) float64 { return max(x, y) }))
		operation{"lesser", dt, func(b *builder, x, y, _ asm.Reg) asm.Reg { return b.Lesser(dt, x, y) },
			wanted(m.Min, w.Min), 0}.check(t, every)
		operation{"greater", dt, func(b *builder, x, y, _ asm.Reg) asm.Reg { return b.Greater(dt, x, y) },
			wanted(m.Max, w.Max), 0}.check(t, every)
		for op, do := range map[loop.UnaryOp]func(float64) float64{loop.Neg: func(x float64) float64 { return -x },
			loop.Abs: math.Abs, loop.Sqrt: math.Sqrt, loop.Floor: math.Floor, loop.Ceil: math.Ceil, loop.Round: math.RoundToEven,
			loop.Trunc: math.Trunc} {
			want := of(func(x, _ float64) float64 { return do(x) })
			sign := uint64(1) << (dt.Bits() - 1)
			switch op {
			case loop.Neg:
				want = func(x, _, _ uint64) uint64 { return x ^ sign }
			case loop.Abs:
				want = func(x, _, _ uint64) uint64 { return x &^ sign }
			}
			as := dt
			if op == loop.Neg || op == loop.Abs { // also NaN's bits
				as = dtype.I64
			}
			operation{fmt.Sprint(op), dt, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.Unary(op, dt, x) }, want,
				as}.check(t, every)
		}
		for p := mathematics.Equal; p <= mathematics.Greater; p++ {
			operation{fmt.Sprint("predicate ", int(p)), dt, func(b *builder, x, y, _ asm.Reg) asm.Reg {
				return b.Compare(p, dt, x, y)
			}, func(x, y, _ uint64) uint64 {
				if dt == dtype.F32 {
					return mask32(m.Compare(p, uint32(x), uint32(y)))
				}
				return mask64(w.Compare(p, x, y))
			}, dtype.I64}.check(t, every)
		}
		for form, single := range map[lanes.Form]func(x, y, z uint32) uint32{lanes.ProductPlus: m.Fma,
			lanes.MinusProduct: m.Fnma, lanes.ProductMinus: m.Fms} {
			double := map[lanes.Form]func(x, y, z uint64) uint64{lanes.ProductPlus: w.Fma, lanes.MinusProduct: w.Fnma,
				lanes.ProductMinus: w.Fms}[form]
			operation{fmt.Sprint("form ", form), dt, func(b *builder, x, y, z asm.Reg) asm.Reg {
				return b.Fused(form, dt, x, y, z)
			}, func(x, y, z uint64) uint64 {
				if dt == dtype.F32 {
					return uint64(single(uint32(x), uint32(y), uint32(z)))
				}
				return double(x, y, z)
			}, 0}.check(t, every)
		}
		operation{"mul where", dt, func(b *builder, x, y, z asm.Reg) asm.Reg {
			return b.MulWhere(dt, b.Compare(mathematics.Less, dt, z, b.zero()), x, b.Unary(loop.Abs, dt, y))
		}, func(x, y, z uint64) uint64 {
			if dt == dtype.F32 {
				y &^= 1 << 31
				if !(f32(z) < 0) {
					x = 0
				}
				return uint64(m.Mul(uint32(x), uint32(y)))
			}
			y &^= 1 << 63
			if !(f64(z) < 0) {
				x = 0
			}
			return w.Mul(x, y)
		}, 0}.check(t, every)
	}
}

// TestVectorConversions compares conversions with Go's.
func TestVectorConversions(t *testing.T) {
	var m mathematics.Lane
	clamp := func(x, least, most float64) float64 {
		if x != x {
			return 0
		}
		return min(max(math.Trunc(x), least), most)
	}
	toI64 := func(x float64) uint64 {
		switch x = math.Trunc(x); {
		case x != x:
			return 0
		case x >= 1<<63:
			return math.MaxInt64
		case x <= -1<<63:
			return 1 << 63
		}
		return uint64(int64(x))
	}
	half := func(x uint64) uint16 { return dtype.F16FromF32(f32(x)) }
	for _, o := range []operation{
		{"to int", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.ToInt(x) },
			func(x, _, _ uint64) uint64 { return uint64(m.ToInt(uint32(x))) }, dtype.I32},
		{"to float", dtype.I32, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.Convert(dtype.I32, dtype.F32, x) },
			func(x, _, _ uint64) uint64 { return of32(float32(int32(x))) }, 0},
		{"truncated", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.Truncated(dtype.F32, dtype.I32, x) },
			func(x, _, _ uint64) uint64 { return low(int64(clamp(float64(f32(x)), math.MinInt32, math.MaxInt32))) }, dtype.I32},
		{"truncated to i64", dtype.F64, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			return b.Truncated(dtype.F64, dtype.I64, x)
		},
			func(x, _, _ uint64) uint64 { return toI64(f64(x)) }, dtype.I64},
		{"truncated to u64", dtype.F64, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			return b.Truncated(dtype.F64, dtype.U64, x)
		},
			func(x, _, _ uint64) uint64 {
				switch v := f64(x); {
				case v >= 1<<64:
					return math.MaxUint64
				case v > 0:
					return uint64(v)
				default:
					return toI64(v)
				}
			}, dtype.I64},
		{"i64 to double", dtype.I64, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.ToDouble(dtype.I64, x) },
			func(x, _, _ uint64) uint64 { return of64(float64(int64(x))) }, 0},
		{"u64 to double", dtype.I64, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.ToDouble(dtype.U64, x) },
			func(x, _, _ uint64) uint64 { return of64(float64(x)) }, 0},
		{"through two doubles", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			lo, hi := b.Widen(dtype.F32, dtype.F64, x, false), b.Widen(dtype.F32, dtype.F64, x, true)
			return b.Narrow(dtype.F64, dtype.F32, b.Binary(loop.Add, dtype.F64, lo, lo), b.Binary(loop.Add, dtype.F64, hi, hi))
		}, func(x, _, _ uint64) uint64 { return of32(float32(2 * float64(f32(x)))) }, 0},
		{"i32 to double and back", dtype.I32, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			return b.TruncatedHalves(b.Widen(dtype.I32, dtype.F64, x, false), b.Widen(dtype.I32, dtype.F64, x, true))
		}, func(x, _, _ uint64) uint64 { return x }, 0},
		{"halves", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			return b.TruncatedHalves(b.Widen(dtype.F32, dtype.F64, x, false), b.Widen(dtype.F32, dtype.F64, x, true))
		}, func(x, _, _ uint64) uint64 {
			return low(int64(clamp(float64(f32(x)), math.MinInt32, math.MaxInt32)))
		}, dtype.I32},
		{"i32 to long and back", dtype.I32, func(b *builder, x, y, _ asm.Reg) asm.Reg {
			mul := func(high bool) asm.Reg {
				return b.Binary(loop.Mul, dtype.I64, b.Widen(dtype.I32, dtype.I64, x, high), b.Widen(dtype.U32, dtype.I64, y, high))
			}
			lo, hi := mul(false), mul(true)
			return b.Narrow(dtype.I64, dtype.I32, b.ShiftBy(loop.Shr, dtype.I64, lo, 32), b.ShiftBy(loop.Shr, dtype.I64, hi, 32))
		}, func(x, y, _ uint64) uint64 { return low(signed32(x) * int64(y) >> 32) }, 0},
		{"double to i32", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			lo, hi := b.Widen(dtype.F32, dtype.F64, x, false), b.Widen(dtype.F32, dtype.F64, x, true)
			return b.Narrow(dtype.F64, dtype.I32, lo, hi)
		}, func(x, _, _ uint64) uint64 { return uint64(uint32(toI64(float64(f32(x))))) }, dtype.I32},
		{"round f16", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg { return b.RoundF16(x) },
			func(x, _, _ uint64) uint64 { return of32(dtype.F16ToF32(half(x))) }, 0},
		{"to f16 and back", dtype.F32, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			return b.FromF16(b.Binary(loop.Or, dtype.I32, b.ToF16(x), b.repeated32(0xABCD0000)))
		}, func(x, _, _ uint64) uint64 { return of32(dtype.F16ToF32(half(x))) }, 0},
	} {
		o.check(t, every)
	}
	table := make([]uint32, 16)
	for n := range table {
		table[n] = uint32(n+3) * 0x01234567
	}
	for count := 1; count <= 16; count *= 2 {
		operation{fmt.Sprint("lookup in ", count), dtype.I32, func(b *builder, x, _, _ asm.Reg) asm.Reg {
			return b.Lookup(table[:count], x)
		}, func(x, _, _ uint64) uint64 { return uint64(table[x&uint64(count-1)]) }, 0}.check(t, every)
	}
}

// TestMoves compares moves of lanes with loops.
func TestMoves(t *testing.T) {
	f, b := aligned(), newBuilder(every)
	var rows [4]asm.Reg
	lane := func(row, n int) *uint32 { return wordOf(f, 4*row+n) }
	for row := range rows {
		for n := range 4 {
			*lane(row, n) = math.Float32bits(float32(10*row + n + 1))
		}
		rows[row] = b.read(asm.Q, word(2*row))
	}
	at := 64
	var want [][4]float32
	store := func(r regalloc.Reg, lanes [4]float32) {
		b.access(asm.STR, asm.Q, r, word(at/2))
		at += 4
		want = append(want, lanes)
	}
	value := func(row, n int) float32 { return float32(10*row + n + 1) }
	for n, r := range b.Transposed(rows[:]) {
		store(r, [4]float32{value(0, n), value(1, n), value(2, n), value(3, n)})
	}
	sum := func(row int) (s float32) {
		for n := range 4 {
			s += value(row, n)
		}
		return s
	}
	store(b.QuartersAcross([]regalloc.Reg{b.FourAcross(rows)}), [4]float32{sum(0), sum(1), sum(2), sum(3)})
	store(b.Exchanged(rows[1], 1), [4]float32{value(1, 1), value(1, 0), value(1, 3), value(1, 2)})
	store(b.Exchanged(rows[1], 2), [4]float32{value(1, 2), value(1, 3), value(1, 0), value(1, 1)})
	var bytes []byte
	for _, n := range []uint32{3, 6, 0xFFFFFFF8, 5} {
		bytes = binary.LittleEndian.AppendUint32(bytes, n)
	}
	index := b.Vector(bytes)
	store(b.TakeLanes(index, rows[2]), [4]float32{value(2, 3), value(2, 2), value(2, 0), value(2, 1)})
	to := b.NewVector()
	b.TakeLanesOfTwo(to, index, rows[0], rows[3])
	store(to, [4]float32{value(0, 3), value(3, 2), value(0, 0), value(3, 1)})
	store(b.BroadcastFirst(dtype.I32, rows[3]), [4]float32{value(3, 0), value(3, 0), value(3, 0), value(3, 0)})
	store(b.Broadcast(dtype.I32, b.LaneNumber(dtype.I32, rows[3], 2)), [4]float32{value(3, 2), value(3, 2), value(3, 2),
		value(3, 2)})
	wide := b.Vector([]byte{1, 2, 3, 4, 5, 6, 7, 0x88, 9, 10, 11, 12, 13, 14, 15, 0x96})
	for n, r := range []asm.Reg{b.LaneNumber(dtype.I64, wide, 1), b.FirstLane(dtype.I64, wide),
		b.FirstLane(dtype.U32, wide), b.LaneNumber(dtype.I32, wide, 3), b.LaneNumber(dtype.U32, wide, 3)} {
		b.StoreWord(word(500+n), r)
	}
	if got := b.Bytes(wide); len(got) != 16 || b.Bytes(rows[0]) != nil {
		t.Errorf("the bytes of a constant are %x", got)
	}
	execute(t, b, f)
	for i, lanes := range want {
		for n, v := range lanes {
			if have := math.Float32frombits(*wordOf(f, 64+4*i+n)); have != v {
				t.Errorf("result %d, lane %d: %g, want %g", i, n, have, v)
			}
		}
	}
	for n, v := range []uint64{0x960F0E0D0C0B0A09, 0x8807060504030201, 0x04030201, 0xFFFFFFFF960F0E0D, 0x960F0E0D} {
		if f[500+n] != int64(v) {
			t.Errorf("lane %d: %#x, want %#x", n, f[500+n], v)
		}
	}
}

// TestMaskWords compares what is found of masks with loops.
func TestMaskWords(t *testing.T) {
	for set := range 16 {
		f, b := aligned(), newBuilder(every)
		for n := range 4 {
			*wordOf(f, n) = -uint32(set >> n & 1)
		}
		mask := b.read(asm.Q, word(0))
		lo, hi := b.HalfMasks(mask)
		b.access(asm.STR, asm.Q, b.JoinMasks(lo, hi), word(2))
		b.access(asm.STR, asm.Q, lo, word(4))
		b.access(asm.STR, asm.Q, hi, word(6))
		found := b.LaneWord(dtype.I32, mask)
		b.StoreWord(word(8), found)
		b.StoreWord(word(9), b.FirstSet(found))
		half := b.LaneWord(dtype.I64, hi)
		b.StoreWord(word(10), b.FirstSet(half))
		b.StoreWord(word(11), half)
		for n := range 4 {
			r, past := b.Number(1), b.Label()
			b.JumpOnSet(found, n, true, past)
			b.SetNumber(r, 0)
			b.Bind(past)
			b.StoreWord(word(12+n), r)
		}
		r, past := b.Number(1), b.Label()
		b.JumpIfNone(mask, past)
		b.SetNumber(r, 0)
		b.Bind(past)
		b.StoreWord(word(16), r)
		count := b.Number(int64(set) - 3)
		b.access(asm.STR, asm.Q, b.FirstLanes(count), word(18))
		execute(t, b, f)
		bit := func(n int) int64 { return int64(set >> n & 1) }
		for n := range 4 {
			if *wordOf(f, 4+n) != *wordOf(f, n) || f[4+n] != -bit(n) || f[12+n] != bit(n) ||
				*wordOf(f, 36+n) != uint32(mask32(n < set-3)) {
				t.Errorf("%04b: %x", set, f[:20])
			}
		}
		if (f[8] == -1) != (set == 15) || (f[8] == 0) != (set == 0) || f[8]&1 != bit(0) || (f[16] == 1) != (set == 0) ||
			set != 0 && f[9] != int64(bits.TrailingZeros(uint(set))) ||
			set>>2 != 0 && f[10] != int64(bits.TrailingZeros(uint(set>>2))) ||
			(f[11] == 0) != (set>>2 == 0) || f[11]&1 != bit(2) {
			t.Errorf("%04b: %x", set, f[:20])
		}
	}
}
