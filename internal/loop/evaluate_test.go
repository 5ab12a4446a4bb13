package loop

import (
	"math"
	"math/big"
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// integerTypes are the integer types of all widths, unsigned and signed.
var integerTypes = []dtype.DType{dtype.U2, dtype.I2, dtype.U4, dtype.I4, dtype.U8, dtype.I8, dtype.U16, dtype.I16,
	dtype.U32, dtype.I32, dtype.U64, dtype.I64}

// floatTypes are the float types that TestFloatFunctions covers.
var floatTypes = []dtype.DType{dtype.F4E2M1, dtype.F8E4M3FN, dtype.F8E4M3FNUZ, dtype.F8E5M2, dtype.F8E5M2FNUZ,
	dtype.F16, dtype.BF16, dtype.F32, dtype.F64}

// exact returns a value of an integer type as a big integer.
func exact(dt dtype.DType, x uint64) *big.Int {
	v := new(big.Int).SetUint64(x)
	if dt.IsSigned() && x>>(dt.Bits()-1) != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(dt.Bits())))
	}
	return v
}

// wrapped returns the bits of a big integer modulo the type's width.
func wrapped(dt dtype.DType, v *big.Int) uint64 {
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(dt.Bits()))
	return new(big.Int).Mod(v, modulus).Uint64()
}

// samples returns the bits of all values of a type of at most 4 bits; of others, its ends and some numbers between.
func samples(dt dtype.DType) []uint64 {
	var list []uint64
	if dt.Bits() <= 4 {
		for x := uint64(0); x < 1<<dt.Bits(); x++ {
			list = append(list, x)
		}
		return list
	}
	mask := ^uint64(0) >> (64 - dt.Bits())
	for _, x := range []uint64{0, 1, 2, 3, 7, 8, 31, 63, 64, 100, 1 << (dt.Bits() - 1), 1<<(dt.Bits()-1) - 1, mask,
		mask - 1, mask - 6, 0x5A5A5A5A5A5A5A5A} {
		list = append(list, x&mask)
	}
	return list
}

// bigBinary defines the integer functions over integers of any size.
var bigBinary = map[BinaryOp]func(dt dtype.DType, x, y *big.Int) *big.Int{
	Add: func(_ dtype.DType, x, y *big.Int) *big.Int { return new(big.Int).Add(x, y) },
	Sub: func(_ dtype.DType, x, y *big.Int) *big.Int { return new(big.Int).Sub(x, y) },
	Mul: func(_ dtype.DType, x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) },
	Div: func(_ dtype.DType, x, y *big.Int) *big.Int {
		if y.Sign() == 0 {
			return new(big.Int)
		}
		return new(big.Int).Quo(x, y)
	},
	Rem: func(_ dtype.DType, x, y *big.Int) *big.Int {
		if y.Sign() == 0 {
			return new(big.Int)
		}
		return new(big.Int).Rem(x, y)
	},
	FloorMod: func(_ dtype.DType, x, y *big.Int) *big.Int {
		if y.Sign() == 0 {
			return new(big.Int)
		}
		r := new(big.Int).Rem(x, y)
		if r.Sign() != 0 && r.Sign() != y.Sign() {
			r.Add(r, y)
		}
		return r
	},
	Min: func(_ dtype.DType, x, y *big.Int) *big.Int {
		if x.Cmp(y) < 0 {
			return x
		}
		return y
	},
	Max: func(_ dtype.DType, x, y *big.Int) *big.Int {
		if x.Cmp(y) > 0 {
			return x
		}
		return y
	},
	And: func(_ dtype.DType, x, y *big.Int) *big.Int { return new(big.Int).And(x, y) },
	Or:  func(_ dtype.DType, x, y *big.Int) *big.Int { return new(big.Int).Or(x, y) },
	Xor: func(_ dtype.DType, x, y *big.Int) *big.Int { return new(big.Int).Xor(x, y) },
	Shl: func(dt dtype.DType, x, y *big.Int) *big.Int {
		by := wrapped(dt, y)
		if by >= uint64(dt.Bits()) {
			return new(big.Int)
		}
		return new(big.Int).Lsh(x, uint(by))
	},
	Shr: func(dt dtype.DType, x, y *big.Int) *big.Int {
		return new(big.Int).Rsh(x, uint(min(wrapped(dt, y), 64)))
	},
	Pow: func(dt dtype.DType, x, y *big.Int) *big.Int {
		switch {
		case y.Sign() >= 0:
			return new(big.Int).Exp(x, y, new(big.Int).Lsh(big.NewInt(1), uint(dt.Bits())))
		case x.Cmp(big.NewInt(1)) == 0:
			return x
		case x.Cmp(big.NewInt(-1)) == 0:
			return big.NewInt(1 - 2*int64(y.Bit(0)))
		}
		return new(big.Int)
	},
}

// TestIntegerFunctions: functions and casts of every integer type equal their definitions over integers of any size,
// wrapped.
func TestIntegerFunctions(t *testing.T) {
	compare := map[BinaryOp]func(int) bool{
		Eq: func(c int) bool { return c == 0 }, Ne: func(c int) bool { return c != 0 }, Lt: func(c int) bool { return c < 0 },
		Le: func(c int) bool { return c <= 0 }, Gt: func(c int) bool { return c > 0 }, Ge: func(c int) bool { return c >= 0 },
	}
	for _, dt := range integerTypes {
		for _, x := range samples(dt) {
			for _, y := range samples(dt) {
				for op, f := range bigBinary {
					got, want := EvalBinary(op, dt, x, y), wrapped(dt, f(dt, exact(dt, x), exact(dt, y)))
					if got != want {
						t.Fatalf("%s %s(%v, %v) = %#x, want %#x", dt, op, exact(dt, x), exact(dt, y), got, want)
					}
				}
				for op, f := range compare {
					if got := EvalBinary(op, dt, x, y); got != boolBits(f(exact(dt, x).Cmp(exact(dt, y)))) {
						t.Fatalf("%s %s(%v, %v) = %d", dt, op, exact(dt, x), exact(dt, y), got)
					}
				}
			}
			v := exact(dt, x)
			for op, want := range map[UnaryOp]*big.Int{Neg: new(big.Int).Neg(v), Abs: new(big.Int).Abs(v),
				Sign: big.NewInt(int64(v.Sign())), BitNot: new(big.Int).Not(v)} {
				if got := EvalUnary(op, dt, x); got != wrapped(dt, want) {
					t.Fatalf("%s %s(%v) = %#x, want %v", dt, op, v, got, want)
				}
			}
			for _, to := range integerTypes {
				if got := EvalCast(to, dt, false, x); got != wrapped(to, v) {
					t.Fatalf("cast(%s, %s %v) = %#x", to, dt, v, got)
				}
			}
		}
	}
}

// TestFloatFunctions: functions of every float type equal Go's, rounded through f32 for types narrower than f64.
func TestFloatFunctions(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2.5, -3.5, 1.75, 6, 1e-3, 300, -700, 1e30, math.Inf(1),
		math.Inf(-1), math.NaN(), 5e-324, math.Pi}
	for _, dt := range floatTypes {
		round := func(x float64) float64 { return ToFloat(dt, FromFloat(dt, x)) }
		single := func(x float64) float64 {
			if dt != dtype.F64 {
				x = float64(float32(x))
			}
			return round(x)
		}
		same := func(what string, got uint64, want float64) {
			t.Helper()
			if g := ToFloat(dt, got); g != want && !(math.IsNaN(g) && math.IsNaN(want)) ||
				g == 0 && math.Signbit(g) != math.Signbit(want) {
				t.Errorf("%s %s = %v, want %v", dt, what, g, want)
			}
		}
		for _, a := range values {
			x := round(a)
			bits := FromFloat(dt, x)
			for op := Neg; op < unaryOps; op++ {
				if !op.Accepts(dt) || op.Test() {
					continue
				}
				same(op.String(), EvalUnary(op, dt, bits), single(floatUnary[op](x)))
			}
			if got := EvalUnary(IsNaN, dt, bits); got != boolBits(math.IsNaN(x)) {
				t.Errorf("%s isnan(%v) = %d", dt, x, got)
			}
			if got := EvalUnary(IsInf, dt, bits); got != boolBits(math.IsInf(x, 0)) {
				t.Errorf("%s isinf(%v) = %d", dt, x, got)
			}
			for _, b := range values {
				y := round(b)
				with := func(op BinaryOp) uint64 { return EvalBinary(op, dt, bits, FromFloat(dt, y)) }
				same("add", with(Add), single(x+y))
				same("sub", with(Sub), single(x-y))
				same("mul", with(Mul), single(x*y))
				same("div", with(Div), single(x/y))
				same("rem", with(Rem), single(math.Mod(x, y)))
				same("pow", with(Pow), single(math.Pow(x, y)))
				least, most := math.Min(x, y), math.Max(x, y)
				if math.IsNaN(x) || math.IsNaN(y) {
					least, most = math.NaN(), math.NaN()
				}
				same("max", with(Max), single(most))
				same("min", with(Min), single(least))
				for op, want := range map[BinaryOp]bool{Eq: x == y, Ne: x != y, Lt: x < y, Le: x <= y, Gt: x > y, Ge: x >= y} {
					if got := with(op); got != boolBits(want) {
						t.Errorf("%s %s(%v, %v) = %d", dt, op, x, y, got)
					}
				}
			}
		}
	}
}

// TestFloatFloorMod: a floored remainder has the sign of the divisor, as in Python.
func TestFloatFloorMod(t *testing.T) {
	for _, c := range [][3]float64{{5, 3, 2}, {-5, 3, 1}, {5, -3, -1}, {-5, -3, -2}, {6, -3, math.Copysign(0, -1)},
		{-6, 3, 0}, {-1, math.Inf(1), math.Inf(1)}, {1, 0, math.NaN()}} {
		got := ToFloat(dtype.F64, EvalBinary(FloorMod, dtype.F64, FromFloat(dtype.F64, c[0]), FromFloat(dtype.F64, c[1])))
		if math.Float64bits(got) != math.Float64bits(c[2]) && !(math.IsNaN(got) && math.IsNaN(c[2])) {
			t.Errorf("floormod(%v, %v) = %v, want %v", c[0], c[1], got, c[2])
		}
	}
}

// TestSigmoidAccuracy: for arguments from −700 to 700, sigmoid has a relative error of at most 1e-15 and is never 0.
func TestSigmoidAccuracy(t *testing.T) {
	for _, x := range []float64{-700, -40, -1, 0, 1, 40, 700} {
		want := math.Exp(x) / (1 + math.Exp(x))
		if x > 0 {
			want = 1 / (1 + math.Exp(-x))
		}
		if got := sigmoid(x); math.Abs(got-want) > 1e-15*want || got == 0 {
			t.Errorf("sigmoid(%v) = %v, want %v", x, got, want)
		}
	}
}

// TestBoolFunctions: seven functions of two bools, and not, equal their definitions for all arguments.
func TestBoolFunctions(t *testing.T) {
	for x := uint64(0); x < 2; x++ {
		for y := uint64(0); y < 2; y++ {
			for op, want := range map[BinaryOp]uint64{And: x & y, Or: x | y, Xor: x ^ y, Min: x & y, Max: x | y, Lt: (x ^ 1) & y,
				Eq: x ^ y ^ 1} {
				if got := EvalBinary(op, dtype.Bool, x, y); got != want {
					t.Errorf("%s(%d, %d) = %d", op, x, y, got)
				}
			}
		}
		if EvalUnary(Not, dtype.Bool, x) != x^1 {
			t.Errorf("not(%d)", x)
		}
	}
}

// TestPackedElements: elements of 2 to 64 bits, stored side by side, load as they were stored.
func TestPackedElements(t *testing.T) {
	for _, width := range []int{2, 4, 8, 16, 32, 64} {
		data := make([]byte, 64)
		n := int64(len(data) * 8 / width)
		for i := range n {
			storeBits(width, data, i, uint64(i)*0x9E3779B97F4A7C15)
		}
		for i := range n {
			want := uint64(i) * 0x9E3779B97F4A7C15 & (^uint64(0) >> (64 - width))
			if got := loadBits(width, data, i); got != want {
				t.Fatalf("width %d element %d = %#x, want %#x", width, i, got, want)
			}
		}
	}
}

// TestInvalidFunctionsPanic: evaluating a function for a type that it does not accept panics.
func TestInvalidFunctionsPanic(t *testing.T) {
	for _, f := range []func(){
		func() { EvalUnary(Exp, dtype.I32, 0) }, func() { EvalUnary(Not, dtype.F32, 0) },
		func() {
			EvalBinary(And, dtype.F32, 0, 0)
		}, func() { EvalBinary(Add, dtype.Bool, 0, 0) }, func() { EvalBinary(Lt, dtype.C64, 0, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a function of a type that it does not accept was evaluated")
				}
			}()
			f()
		}()
	}
}

// TestLogarithm: the logarithms of powers of 2, some of them subnormal, equal the exponent times the logarithm of 2,
// within a relative error of 1e-15.
func TestLogarithm(t *testing.T) {
	for _, power := range []int{-1074, -1060, -1023, -1022, -1021, -149, 1023} {
		got, want := Logarithm(math.Ldexp(1, power)), float64(power)*math.Ln2
		if math.Abs(got-want) > 1e-15*math.Abs(want) {
			t.Errorf("the logarithm of 2 to the %d is %v, not %v", power, got, want)
		}
	}
}
