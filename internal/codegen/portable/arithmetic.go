package portable

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/loop"
)

// arithmetic has the functions of values represented as T: of scalars, and loops over strips for frequent functions.
// Functions without such a loop are called for each lane.
type arithmetic[T number] struct {
	one     map[loop.UnaryOp]func(x T) T
	two     map[loop.BinaryOp]func(x, y T) T
	oneLoop map[loop.UnaryOp]func(to, x []T)
	twoLoop map[loop.BinaryOp]func(to, x, y []T)
	// rightLoop has loops whose right operand is one value for all lanes; leftLoop those whose left operand is.
	rightLoop, leftLoop map[loop.BinaryOp]func(to, x []T, y T)
	compare             map[loop.BinaryOp]func(x, y T) bool
	compareLoop         map[loop.BinaryOp]func(to []uint8, x, y []T)
	test                map[loop.UnaryOp]func(x T) bool
	total               map[loop.BinaryOp]func(first T, x []T) T // all lanes combined with first
}

// common returns the arithmetic that integers and floats share.
func common[T number]() arithmetic[T] {
	return arithmetic[T]{
		one: map[loop.UnaryOp]func(x T) T{
			loop.Neg:  func(x T) T { return -x },
			loop.Abs:  func(x T) T { return max(x, -x) },
			loop.Sign: sign[T],
		},
		two: map[loop.BinaryOp]func(x, y T) T{
			loop.Add: func(x, y T) T { return x + y },
			loop.Sub: func(x, y T) T { return x - y },
			loop.Mul: func(x, y T) T { return x * y },
			loop.Min: func(x, y T) T { return min(x, y) },
			loop.Max: func(x, y T) T { return max(x, y) },
		},
		oneLoop: map[loop.UnaryOp]func(to, x []T){},
		twoLoop: map[loop.BinaryOp]func(to, x, y []T){
			loop.Add: addLoop[T], loop.Sub: subLoop[T], loop.Mul: mulLoop[T], loop.Min: minLoop[T], loop.Max: maxLoop[T],
		},
		rightLoop: map[loop.BinaryOp]func(to, x []T, y T){
			loop.Add: addSide[T], loop.Mul: mulSide[T], loop.Max: maxSide[T], loop.Min: minSide[T],
			loop.Sub: func(to, x []T, y T) {
				for i, v := range x[:len(to)] {
					to[i] = v - y
				}
			},
		},
		leftLoop: map[loop.BinaryOp]func(to, x []T, y T){
			loop.Add: addSide[T], loop.Mul: mulSide[T], loop.Max: maxSide[T], loop.Min: minSide[T],
			loop.Sub: func(to, x []T, y T) {
				for i, v := range x[:len(to)] {
					to[i] = y - v
				}
			},
		},
		compare: map[loop.BinaryOp]func(x, y T) bool{
			loop.Eq: func(x, y T) bool { return x == y }, loop.Ne: func(x, y T) bool { return x != y },
			loop.Lt: func(x, y T) bool { return x < y }, loop.Le: func(x, y T) bool { return x <= y },
			loop.Gt: func(x, y T) bool { return x > y }, loop.Ge: func(x, y T) bool { return x >= y },
		},
		compareLoop: map[loop.BinaryOp]func(to []uint8, x, y []T){
			loop.Eq: equalLoop[T],
			loop.Lt: lessLoop[T], loop.Le: lessEqualLoop[T],
			loop.Gt: func(to []uint8, x, y []T) {
				lessLoop(to, y, x)
			}, loop.Ge: func(to []uint8, x, y []T) { lessEqualLoop(to, y, x) },
		},
		test:  map[loop.UnaryOp]func(x T) bool{},
		total: map[loop.BinaryOp]func(first T, x []T) T{loop.Add: sum[T], loop.Max: largest[T], loop.Min: smallest[T]},
	}
}

// sign returns −1, 0 or 1, or NaN for NaN.
func sign[T number](x T) T {
	switch {
	case x > 0:
		return 1
	case x < 0:
		var zero T
		return zero - 1
	}
	return x + 0 // 0 for −0, NaN
}

// flag returns a bool's element: 0 or 1.
func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// four returns elements i to i+3 of v, of which it only checks the first: the caller knows that they exist.
func four[T number](v []T, i int) *[4]T { return (*[4]T)(unsafe.Pointer(&v[i])) }

// addLoop sets each lane of to to x + y.
func addLoop[T number](to, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v, w := four(to, i), four(x, i), four(y, i)
		r[0], r[1], r[2], r[3] = v[0]+w[0], v[1]+w[1], v[2]+w[2], v[3]+w[3]
	}
	for ; i < len(to); i++ {
		to[i] = x[i] + y[i]
	}
}

// subLoop sets each lane of to to x − y.
func subLoop[T number](to, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v, w := four(to, i), four(x, i), four(y, i)
		r[0], r[1], r[2], r[3] = v[0]-w[0], v[1]-w[1], v[2]-w[2], v[3]-w[3]
	}
	for ; i < len(to); i++ {
		to[i] = x[i] - y[i]
	}
}

// mulLoop sets each lane of to to x·y.
func mulLoop[T number](to, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v, w := four(to, i), four(x, i), four(y, i)
		r[0], r[1], r[2], r[3] = v[0]*w[0], v[1]*w[1], v[2]*w[2], v[3]*w[3]
	}
	for ; i < len(to); i++ {
		to[i] = x[i] * y[i]
	}
}

// minLoop sets each lane of to to the lesser of x and y.
func minLoop[T number](to, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	for i := range to {
		to[i] = min(x[i], y[i])
	}
}

// maxLoop sets each lane of to to the greater of x and y.
func maxLoop[T number](to, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	for i := range to {
		to[i] = max(x[i], y[i])
	}
}

// addSide sets each lane of to to x + y, with one y for all lanes.
func addSide[T number](to, x []T, y T) {
	x = x[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v := four(to, i), four(x, i)
		r[0], r[1], r[2], r[3] = v[0]+y, v[1]+y, v[2]+y, v[3]+y
	}
	for ; i < len(to); i++ {
		to[i] = x[i] + y
	}
}

// mulSide sets each lane of to to x·y, with one y for all lanes.
func mulSide[T number](to, x []T, y T) {
	x = x[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v := four(to, i), four(x, i)
		r[0], r[1], r[2], r[3] = v[0]*y, v[1]*y, v[2]*y, v[3]*y
	}
	for ; i < len(to); i++ {
		to[i] = x[i] * y
	}
}

// maxSide sets each lane of to to the greater of x and y, with one y for all lanes.
func maxSide[T number](to, x []T, y T) {
	for i, v := range x[:len(to)] {
		to[i] = max(v, y)
	}
}

// minSide sets each lane of to to the lesser of x and y, with one y for all lanes.
func minSide[T number](to, x []T, y T) {
	for i, v := range x[:len(to)] {
		to[i] = min(v, y)
	}
}

// equalLoop sets each flag of to to whether x = y.
func equalLoop[T number](to []uint8, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	for i := range to {
		to[i] = flag(x[i] == y[i])
	}
}

// lessLoop sets each flag of to to whether x < y.
func lessLoop[T number](to []uint8, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	for i := range to {
		to[i] = flag(x[i] < y[i])
	}
}

// lessEqualLoop sets each flag of to to whether x ≤ y.
func lessEqualLoop[T number](to []uint8, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	for i := range to {
		to[i] = flag(x[i] <= y[i])
	}
}

// addProducts adds x·y to to. Each product is rounded before it is added, also on machines that could fuse both.
func addProducts[T number](to, x, y []T) {
	x, y = x[:len(to)], y[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v, w := four(to, i), four(x, i), four(y, i)
		r[0] += T(v[0] * w[0])
		r[1] += T(v[1] * w[1])
		r[2] += T(v[2] * w[2])
		r[3] += T(v[3] * w[3])
	}
	for ; i < len(to); i++ {
		to[i] += T(x[i] * y[i])
	}
}

// addScaled adds x·y to to, with one y for all lanes.
func addScaled[T number](to, x []T, y T) {
	x = x[:len(to)]
	i := 0
	for ; i+4 <= len(to); i += 4 {
		r, v := four(to, i), four(x, i)
		r[0] += T(v[0] * y)
		r[1] += T(v[1] * y)
		r[2] += T(v[2] * y)
		r[3] += T(v[3] * y)
	}
	for ; i < len(to); i++ {
		to[i] += T(x[i] * y)
	}
}

// sum adds lanes in eight chains, then the chains pairwise, then first. The order depends only on the number of lanes.
func sum[T number](first T, x []T) T {
	var s [8]T
	for len(x) >= 8 {
		v := x[:8]
		s[0] += v[0]
		s[1] += v[1]
		s[2] += v[2]
		s[3] += v[3]
		s[4] += v[4]
		s[5] += v[5]
		s[6] += v[6]
		s[7] += v[7]
		x = x[8:]
	}
	for i, v := range x {
		s[i] += v
	}
	return first + (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])))
}

// sumProducts adds the lanes' products as sum does.
func sumProducts[T number](first T, x, y []T) T {
	var s [8]T
	chainProducts(&s, x, y)
	return first + inPairs(&s)
}

// inPairs returns the sum of eight chains.
func inPairs[T number](s *[8]T) T {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// chainProducts adds products to eight chains.
func chainProducts[T number](s *[8]T, x, y []T) {
	y = y[:len(x)]
	for len(x) >= 8 && len(y) >= 8 {
		v, w := x[:8], y[:8]
		s[0] += T(v[0] * w[0])
		s[1] += T(v[1] * w[1])
		s[2] += T(v[2] * w[2])
		s[3] += T(v[3] * w[3])
		s[4] += T(v[4] * w[4])
		s[5] += T(v[5] * w[5])
		s[6] += T(v[6] * w[6])
		s[7] += T(v[7] * w[7])
		x, y = x[8:], y[8:]
	}
	for i, v := range x {
		s[i] += T(v * y[i])
	}
}

// largest returns the greatest of first and all lanes.
func largest[T number](first T, x []T) T {
	a, b, c, d := first, first, first, first
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(a, b, c, d)
}

// smallest returns the least of first and all lanes.
func smallest[T number](first T, x []T) T {
	a, b, c, d := first, first, first, first
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = min(a, x[0]), min(b, x[1]), min(c, x[2]), min(d, x[3])
	}
	for _, v := range x {
		a = min(a, v)
	}
	return min(a, b, c, d)
}

// integralArithmetic returns the arithmetic of integers: it wraps, and division by zero gives 0.
func integralArithmetic[T integral]() arithmetic[T] {
	a := common[T]()
	var zero T
	signed := zero-1 < 0
	bits := uint64(unsafe.Sizeof(zero)) * 8
	if !signed {
		a.one[loop.Abs] = func(x T) T { return x }
		a.two[loop.Pow] = unsignedPower[T]
	} else {
		a.two[loop.Pow] = power[T]
	}
	a.one[loop.BitNot] = func(x T) T { return ^x }
	a.one[loop.Not] = func(x T) T { return x ^ 1 }
	a.two[loop.Div] = func(x, y T) T {
		if y == 0 {
			return 0
		}
		return x / y
	}
	a.two[loop.Rem] = func(x, y T) T {
		if y == 0 {
			return 0
		}
		return x % y
	}
	a.two[loop.FloorMod] = func(x, y T) T {
		if y == 0 {
			return 0
		}
		r := x % y
		if r != 0 && r^y < 0 {
			r += y
		}
		return r
	}
	a.two[loop.And] = func(x, y T) T { return x & y }
	a.two[loop.Or] = func(x, y T) T { return x | y }
	a.two[loop.Xor] = func(x, y T) T { return x ^ y }
	distance := func(y T) uint64 { return uint64(y) << (64 - bits) >> (64 - bits) }
	a.two[loop.Dot] = func(x, y T) T { return T(loop.DotBytes(int32(x), int32(y))) }
	a.two[loop.Shl] = func(x, y T) T { return x << distance(y) }
	a.two[loop.Shr] = func(x, y T) T { return x >> distance(y) }
	a.twoLoop[loop.And] = func(to, x, y []T) {
		x, y = x[:len(to)], y[:len(to)]
		for i := range to {
			to[i] = x[i] & y[i]
		}
	}
	a.twoLoop[loop.Or] = func(to, x, y []T) {
		x, y = x[:len(to)], y[:len(to)]
		for i := range to {
			to[i] = x[i] | y[i]
		}
	}
	return a
}

// power returns x to the power y, which wraps. For a negative exponent it is the reciprocal, truncated, with 1/0 = 0.
func power[T integral](x, y T) T {
	if y >= 0 {
		return unsignedPower(x, y)
	}
	switch {
	case x == 1 || x+1 == 0 && y&1 == 0:
		return 1
	case x+1 == 0:
		return x
	}
	return 0
}

// unsignedPower returns x to the power y ≥ 0, which wraps.
func unsignedPower[T integral](x, y T) T {
	r := T(1)
	for ; y > 0; y >>= 1 {
		if y&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

// realArithmetic returns the arithmetic of floats.
func realArithmetic[T real]() arithmetic[T] {
	a := common[T]()
	for op, f := range map[loop.UnaryOp]func(float64) float64{
		loop.Abs: math.Abs, loop.Floor: math.Floor, loop.Ceil: math.Ceil, loop.Round: math.RoundToEven,
		loop.Trunc: math.Trunc, loop.Sqrt: math.Sqrt,
		loop.Exp: math.Exp, loop.Log: loop.Logarithm, loop.Log1p: math.Log1p, loop.Expm1: math.Expm1,
		loop.Sin: math.Sin, loop.Cos: math.Cos, loop.Tan: math.Tan, loop.Asin: math.Asin, loop.Acos: math.Acos,
		loop.Atan: math.Atan,
		loop.Sinh: math.Sinh, loop.Cosh: math.Cosh, loop.Tanh: math.Tanh, loop.Asinh: math.Asinh, loop.Acosh: math.Acosh,
		loop.Atanh: math.Atanh,
		loop.Erf:   math.Erf, loop.Sigmoid: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	} {
		a.one[op] = func(x T) T { return T(f(float64(x))) }
	}
	a.one[loop.Reciprocal] = func(x T) T { return 1 / x }
	a.oneLoop[loop.Neg] = func(to, x []T) {
		for i, v := range x[:len(to)] {
			to[i] = -v
		}
	}
	a.oneLoop[loop.Abs] = func(to, x []T) {
		for i, v := range x[:len(to)] {
			to[i] = T(math.Abs(float64(v)))
		}
	}
	a.oneLoop[loop.Sqrt] = func(to, x []T) {
		for i, v := range x[:len(to)] {
			to[i] = T(math.Sqrt(float64(v)))
		}
	}
	a.two[loop.Div] = func(x, y T) T { return x / y }
	a.two[loop.FloorMod] = func(x, y T) T { return T(floorMod(float64(x), float64(y))) }
	a.two[loop.Rem] = func(x, y T) T { return T(math.Mod(float64(x), float64(y))) }
	a.two[loop.Pow] = func(x, y T) T { return T(math.Pow(float64(x), float64(y))) }
	a.two[loop.Atan2] = func(x, y T) T { return T(math.Atan2(float64(x), float64(y))) }
	a.rightLoop[loop.Pow] = func(to, x []T, y T) {
		x = x[:len(to)]
		switch y {
		case 2:
			for i, v := range x {
				to[i] = v * v
			}
		case 3:
			for i, v := range x {
				to[i] = T(float64(v) * float64(v) * float64(v))
			}
		default:
			for i, v := range x {
				to[i] = T(math.Pow(float64(v), float64(y)))
			}
		}
	}
	a.twoLoop[loop.Div] = func(to, x, y []T) {
		x, y = x[:len(to)], y[:len(to)]
		for i := range to {
			to[i] = x[i] / y[i]
		}
	}
	a.rightLoop[loop.Div] = func(to, x []T, y T) {
		for i, v := range x[:len(to)] {
			to[i] = v / y
		}
	}
	a.leftLoop[loop.Div] = func(to, x []T, y T) {
		for i, v := range x[:len(to)] {
			to[i] = y / v
		}
	}
	a.test[loop.IsNaN] = func(x T) bool { return x != x }
	a.test[loop.IsInf] = func(x T) bool { return math.IsInf(float64(x), 0) }
	return a
}

// floorMod returns the remainder with the divisor's sign, as Python's % does; a zero has that sign too.
func floorMod(x, y float64) float64 {
	r := math.Mod(x, y)
	if r == 0 {
		return math.Copysign(0, y)
	}
	if r < 0 != (y < 0) {
		r += y
	}
	return r
}
