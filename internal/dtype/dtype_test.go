package dtype

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestNames parses and prints the name of every type, also with MarshalText, and refuses other names.
func TestNames(t *testing.T) {
	for _, dt := range All() {
		parsed, ok := Parse(dt.String())
		if !ok || parsed != dt {
			t.Errorf("Parse(%q) = %v, %v", dt.String(), parsed, ok)
		}
		name, err := dt.MarshalText()
		var back DType
		if err != nil || back.UnmarshalText(name) != nil || back != dt {
			t.Errorf("%v does not survive MarshalText", dt)
		}
	}
	for _, name := range []string{"", "invalid", "float", "F32", "dtype(27)"} {
		if dt, ok := Parse(name); ok {
			t.Errorf("Parse(%q) = %v", name, dt)
		}
		var dt DType
		if dt.UnmarshalText([]byte(name)) == nil {
			t.Errorf("UnmarshalText(%q) gave no error", name)
		}
	}
	if got := DType(200).String(); got != "dtype(200)" {
		t.Errorf("an impossible type prints as %q", got)
	}
	if len(All()) != 26 {
		t.Errorf("%d types", len(All()))
	}
}

// TestSizes computes packed sizes, and the ranges of integer types.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		dt   DType
		n    int64
		want int64 // −1: an error
	}{
		{F32, 0, 0}, {F32, 3, 12}, {Bool, 5, 5}, {U2, 1, 1}, {U2, 4, 1}, {U2, 5, 2}, {I4, 3, 2}, {F4E2M1, 2, 1},
		{C128, 2, 32}, {String, 10, 0}, {F32, -1, -1}, {F64, math.MaxInt64, -1}, {F64, math.MaxInt64 / 8, math.MaxInt64 - 7},
		{F64, math.MaxInt64/8 + 1, -1}, {U8, math.MaxInt64, math.MaxInt64}, {U4, math.MaxInt64, math.MaxInt64/2 + 1},
		{C128, 1 << 59, -1}, {C128, 1<<59 - 1, math.MaxInt64 - 15}, {C128, 1 << 60, -1}, {C128, math.MaxInt64, -1},
	} {
		got, err := c.dt.Bytes(c.n)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%v.Bytes(%d) = %d, %v, want %d", c.dt, c.n, got, err, c.want)
		}
	}
	for dt, want := range map[DType][2]int64{Bool: {0, 1}, U2: {0, 3}, I2: {-2, 1}, I4: {-8, 7}, U8: {0, 255},
		I16: {-32768, 32767}, U64: {0, -1}, I64: {math.MinInt64, math.MaxInt64}} {
		if dt.MinInt() != want[0] || int64(dt.MaxInt()) != want[1] {
			t.Errorf("%v: range %d to %d", dt, dt.MinInt(), dt.MaxInt())
		}
	}
}

// TestFamilies shows that every type is in exactly one family.
func TestFamilies(t *testing.T) {
	for _, dt := range All() {
		families := 0
		for _, member := range []bool{dt == Bool, dt.IsSigned(), dt.IsUnsigned(), dt.IsFloat(), dt.IsComplex(),
			dt == String} {
			if member {
				families++
			}
		}
		if families != 1 || dt.IsInt() != (dt.IsSigned() || dt.IsUnsigned()) ||
			dt.IsSubByte() != (dt.Bits() == 2 || dt.Bits() == 4) {
			t.Errorf("%v is in %d families", dt, families)
		}
	}
}

// small returns the float types of at most 16 bits.
func small() (all []DType) {
	for _, dt := range All() {
		if dt.IsFloat() && dt.Bits() <= 16 {
			all = append(all, dt)
		}
	}
	return all
}

// TestCodes decodes and encodes every code of every small float: numbers must come back as they were, NaNs as NaNs of
// the same sign.
func TestCodes(t *testing.T) {
	for _, dt := range small() {
		for code := range uint32(1) << dt.Bits() {
			code := uint16(code)
			x := Decode(dt, code)
			for _, saturate := range []bool{true, false} {
				back := Encode(dt, x, saturate)
				switch {
				case math.IsNaN(x):
					if back := Decode(dt, back); !math.IsNaN(back) || math.Signbit(back) != math.Signbit(x) {
						t.Errorf("%v: NaN %#x came back as %v", dt, code, back)
					}
				case math.IsInf(x, 0) && saturate && formats[dt].saturates:
					if back&0x7f != formats[dt].Max {
						t.Errorf("%v: %v saturated to %#x", dt, x, back)
					}
				case back != code:
					t.Errorf("%v: %#x is %v, which encodes as %#x", dt, code, x, back)
				}
			}
		}
	}
}

// nearest finds the code of the finite value nearest to x by trying all codes in unrounded arithmetic; of two, the even
// one. ok is false for a value that exceeds the greatest by half the last step or more.
func nearest(dt DType, x float64) (code uint16, ok bool) {
	f := &formats[dt]
	distance := func(v float64) *big.Float {
		d := new(big.Float).SetPrec(2200).Sub(new(big.Float).SetFloat64(math.Abs(x)), new(big.Float).SetFloat64(v))
		return d.Abs(d)
	}
	best := distance(0)
	for c := uint16(1); c <= f.Max; c++ {
		d := distance(Decode(dt, c))
		if cmp := d.Cmp(best); cmp < 0 || cmp == 0 && c&1 == 0 {
			code, best = c, d
		}
	}
	step := Decode(dt, f.Max) - Decode(dt, f.Max-1)
	cmp := best.Cmp(new(big.Float).SetFloat64(step / 2))
	if code == f.Max && math.Abs(x) > Decode(dt, f.Max) && (cmp > 0 || cmp == 0 && f.Max&1 == 1) {
		return 0, false
	}
	if math.Signbit(x) && !(f.Unsigned && code == 0) {
		code |= 1 << (f.Exponent + f.Mantissa)
	}
	return code, true
}

// TestEncodeNearest compares Encode with exhaustive search, near every value and every midpoint, and at random.
func TestEncodeNearest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, dt := range small() {
		if dt.Bits() > 8 || dt == F8E8M0 {
			continue
		}
		var inputs []float64
		for code := range formats[dt].Max {
			low, high := Decode(dt, code), Decode(dt, code+1)
			for _, x := range []float64{low, (low + high) / 2, high} {
				inputs = append(inputs, x, math.Nextafter(x, 0), math.Nextafter(x, math.Inf(1)), x*(1+0x1p-30), x*(1-0x1p-30))
			}
		}
		greatest := Decode(dt, formats[dt].Max)
		inputs = append(inputs, greatest*1.01, greatest*1.0625, greatest*1.125, greatest*1.25, greatest*2, math.MaxFloat64,
			math.SmallestNonzeroFloat64)
		for range 500 {
			inputs = append(inputs, math.Ldexp(random.Float64(), random.IntN(40)-25))
		}
		for _, x := range inputs {
			for _, x := range []float64{x, -x} {
				want, ok := nearest(dt, x)
				got := Encode(dt, x, false)
				if !ok {
					want = formats[dt].Over
					if math.Signbit(x) && !formats[dt].Unsigned {
						want |= 1 << (dt.Bits() - 1)
					}
				}
				if got != want {
					t.Fatalf("%v: %v encodes as %#x (%v), want %#x (%v)", dt, x, got, Decode(dt, got), want, Decode(dt, want))
				}
			}
		}
	}
}

// TestOneRounding shows that f64 and i64 round once: through f32 these values would be ties and go to the even
// neighbour.
func TestOneRounding(t *testing.T) {
	for _, c := range []struct {
		dt   DType
		x    float64
		want float64
	}{
		{F16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10},
		{BF16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
		{F8E4M3FN, 1 + 0x1p-4 + 0x1p-40, 1.125},
		{F8E5M2, 1 + 0x1p-3 + 0x1p-40, 1.25},
		{F4E2M1, 1.25 + 0x1p-40, 1.5},
	} {
		if got := Decode(c.dt, Encode(c.dt, c.x, true)); got != c.want {
			t.Errorf("%v: %v became %v, want %v", c.dt, c.x, got, c.want)
		}
	}
	x := int64(1)<<62 + 1<<54 + 1
	data := make([]byte, 2)
	for sign, want := range map[int64]float64{1: 0x1p62 + 0x1p55, -1: -0x1p62 - 0x1p55} {
		StoreInt(BF16, data, 0, sign*x)
		if got := LoadFloat(BF16, data, 0); got != want {
			t.Errorf("bf16 of %d is %v, want %v", sign*x, got, want)
		}
	}
}

// TestF16Fast compares the f32 routes of f16 and bf16 with Encode around every f16 and at random.
func TestF16Fast(t *testing.T) {
	check := func(x float32) {
		if got, want := F16FromF32(x), Encode(F16, float64(x), false); got != want {
			t.Fatalf("f16 of %v (%#x): %#x, want %#x", x, math.Float32bits(x), got, want)
		}
		if got, want := BF16FromF32(x), Encode(BF16, float64(x), false); got != want {
			t.Fatalf("bf16 of %v (%#x): %#x, want %#x", x, math.Float32bits(x), got, want)
		}
	}
	for code := range uint32(1 << 16) {
		for _, word := range []uint32{math.Float32bits(F16ToF32(uint16(code))), code << 16} {
			for _, step := range []uint32{0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, math.MaxUint32} {
				check(math.Float32frombits(word + step))
			}
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 1 << 20 {
		check(math.Float32frombits(random.Uint32()))
	}
}

// TestE8M0 encodes F8E8M0 in every rounding mode, with and without saturation.
func TestE8M0(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		x        float64
		round    Round
		saturate bool
		want     uint8
	}{
		// These are listed in the operator's documentation.
		{0, Up, true, 0}, {0, Nearest, false, 0xff}, {nan, Up, true, 0xff}, {nan, Nearest, false, 0xff},
		{inf, Up, true, 0xfe}, {inf, Nearest, false, 0xff}, {0x1.8p127, Up, true, 0xfe}, {0x1.8p127, Nearest, false, 0xff},
		{0x1p-140, Up, true, 0}, {0x1p-140, Nearest, false, 0xff},
		// Rounding.
		{1, Up, true, 127}, {1.1, Up, true, 128}, {1.9, Down, true, 127}, {1.49, Nearest, true, 127},
		{1.5, Nearest, true, 128},
		{1.5, Down, false, 127}, {0x1p-127, Up, false, 0}, {0x1p-127, Down, false, 0}, {0x1.1p-127, Up, false, 1},
		{0x1.1p-127, Nearest, false, 0},
		{0x1.1p-128, Up, false, 0}, {0x1.8p-128, Nearest, false, 0}, {0x1.8p-128, Down, false, 0xff},
		{0x1p127, Up, false, 0xfe}, {0x1.1p127, Up, false, 0xff}, {0x1.1p127, Down, false, 0xfe},
		{0x1.4p127, Nearest, false, 0xfe},
		// These are left open by the documentation.
		{-1, Up, true, 0}, {-1, Up, false, 0xff}, {-inf, Up, true, 0}, {-inf, Up, false, 0xff},
	} {
		if got := EncodeE8M0(c.x, c.saturate, c.round); got != c.want {
			t.Errorf("%v, round %d, saturate %v: %#x, want %#x", c.x, c.round, c.saturate, got, c.want)
		}
	}
}

// TestOutOfRange pins the package's definition of float to integer.
func TestOutOfRange(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		dt   DType
		x    float64
		want int64
	}{
		{I32, 2.9, 2}, {I32, -2.9, -2}, {I32, math.NaN(), 0}, {I32, 3e9, math.MaxInt32}, {I32, -3e9, math.MinInt32},
		{I32, inf, math.MaxInt32},
		{I32, -2147483648.5, math.MinInt32}, {I32, 2147483647.5, math.MaxInt32},
		{U8, -1, 255}, {U8, 300, 44}, {U8, 3e9, 255}, {U8, -inf, 0}, {I8, 200, -56}, {I16, 40000, -25536}, {U16, -1, 65535},
		{I4, 9, -7}, {U4, -1, 15}, {I2, 2, -2}, {U2, 5, 1},
		{U32, -1, math.MaxUint32}, {U32, 3e9, 3e9}, {U32, 1e10, 1410065408}, {U32, inf, math.MaxUint32},
		{I64, 1e19, math.MaxInt64}, {I64, -1e19, math.MinInt64}, {I64, -0x1p63, math.MinInt64}, {I64, math.NaN(), 0},
		{U64, 1e19, -8446744073709551616}, {U64, 1e20, -1}, {U64, -1, -1}, {U64, -inf, math.MinInt64}, {U64, math.NaN(), 0},
		{Bool, 0.1, 1}, {Bool, math.Copysign(0, -1), 0}, {Bool, math.NaN(), 1},
	} {
		data := make([]byte, 8)
		StoreFloat(c.dt, data, 0, c.x)
		if got := LoadInt(c.dt, data, 0); got != c.want {
			t.Errorf("%v as %v is %d, want %d", c.x, c.dt, got, c.want)
		}
	}
}

// TestPacking stores every element of packed data in random order and checks that its neighbours stay the same.
func TestPacking(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, dt := range All() {
		if !dt.IsSubByte() || !dt.IsInt() {
			continue
		}
		const n = 23
		size, _ := dt.Bytes(n)
		data := bytes.Repeat([]byte{0xff}, int(size))
		want := make([]int64, n)
		for _, i := range random.Perm(n) {
			want[i] = dt.MinInt() + random.Int64N(int64(dt.MaxInt())-dt.MinInt()+1)
			StoreInt(dt, data, int64(i), want[i])
		}
		for i := range want {
			if got := LoadInt(dt, data, int64(i)); got != want[i] {
				t.Errorf("%v: element %d is %d, want %d", dt, i, got, want[i])
			}
		}
	}
	data := []byte{0}
	StoreInt(U4, data, 0, 1)
	StoreInt(U4, data, 1, 2)
	if data[0] != 0x21 {
		t.Errorf("u4 1, 2 are packed as %#x", data[0])
	}
}

// samples returns n packed elements: random bits, and among them values that conversions often get wrong.
func samples(random *rand.Rand, dt DType, n int64) []byte {
	size, _ := dt.Bytes(n)
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	edges := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 127, 128, -129, 255, 256, 65504, 65520, 448, 480, 57344, 61440,
		2147483647, 2147483648,
		-2147483649, 4294967296, 9.3e18, -9.3e18, 1.9e19, 1e30, 1e-30, math.Inf(1), math.Inf(-1), math.NaN()}
	for i := range n {
		switch random.IntN(4) {
		case 0:
			StoreFloat(dt, data, i, edges[random.IntN(len(edges))])
		case 1:
			StoreFloat(dt, data, i, random.NormFloat64()*math.Ldexp(1, random.IntN(80)-20))
		}
	}
	// a signalling NaN becomes quiet when a conversion touches it, on some routes only
	if dt == F64 || dt == F32 || dt == BF16 {
		for i := range n {
			if x := LoadFloat(dt, data, i); x != x {
				StoreFloat(dt, data, i, x)
			}
		}
	}
	return data
}

// TestConvertSlice compares every pair's fast conversion with conversion element by element, also for odd sizes and
// unaligned data.
func TestConvertSlice(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, src := range All() {
		for _, dst := range All() {
			if src == String || dst == String {
				continue
			}
			for _, n := range []int64{0, 1, 2, 3, 5, 255, 256, 257, 1003} {
				in := samples(random, src, n)
				size, _ := dst.Bytes(n)
				for _, saturate := range []bool{true, false} {
					round := Round(random.IntN(3))
					want := make([]byte, size)
					convertElements(dst, want, src, in, n, saturate, round)
					if dst == src && dst != Bool {
						copy(want, in)
						clearTail(dst, want, n)
					}
					for _, shift := range []int{0, 1} {
						got := bytes.Repeat([]byte{0xaa}, int(size)+shift)[shift:]
						ConvertSliceRound(dst, got, src, append(make([]byte, shift, len(in)+shift), in...)[shift:], n, saturate, round)
						if !bytes.Equal(got, want) {
							i := firstDifference(dst, got, want, n)
							t.Fatalf("%v to %v, n %d, saturate %v: element %d (%v) is %v, want %v", src, dst, n, saturate, i,
								LoadComplex(src, in, i), LoadComplex(dst, got, i), LoadComplex(dst, want, i))
						}
					}
				}
			}
		}
	}
}

// firstDifference returns the index of the first element that differs.
func firstDifference(dt DType, a, b []byte, n int64) int64 {
	for i := range n {
		if x, y := LoadComplex(dt, a, i), LoadComplex(dt, b, i); x != y && (x == x || y == y) {
			return i
		}
	}
	return 0
}

// TestIntegerRules checks integers against big integers: wrapping, and a single rounding to floats.
func TestIntegerRules(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for round := range 20000 {
		word := random.Uint64() >> random.IntN(64)
		if round == 0 {
			word = 170897439928968
		}
		var signedData, unsignedData [8]byte
		storeBits(I64, signedData[:], 0, word)
		storeBits(U64, unsignedData[:], 0, word)
		for _, c := range []struct {
			src  DType
			data []byte
			x    *big.Int
		}{
			{I64, signedData[:], big.NewInt(int64(word))},
			{U64, unsignedData[:], new(big.Int).SetUint64(word)},
		} {
			var out [8]byte
			ConvertSlice(F32, out[:], c.src, c.data, 1, true)
			want, _ := new(big.Float).SetInt(c.x).Float32()
			if got := LoadFloat(F32, out[:], 0); got != float64(want) {
				t.Fatalf("%v %v as f32: %v, want %v", c.src, c.x, got, want)
			}
			ConvertSlice(BF16, out[:], c.src, c.data, 1, true)
			wantBF16, _ := new(big.Float).SetPrec(8).SetInt(c.x).Float64()
			if got := LoadFloat(BF16, out[:], 0); got != wantBF16 {
				t.Fatalf("%v %v as bf16: %v, want %v", c.src, c.x, got, wantBF16)
			}
			ConvertSlice(I8, out[:], c.src, c.data, 1, true)
			if got := LoadInt(I8, out[:], 0); got != int64(int8(word)) {
				t.Fatalf("%v %v as i8: %v", c.src, c.x, got)
			}
		}
	}
}

// TestPanics shows that misuse is found, and nothing is read past the end.
func TestPanics(t *testing.T) {
	for name, f := range map[string]func(){
		"string element":  func() { LoadFloat(String, nil, 0) },
		"string convert":  func() { ConvertSlice(String, nil, F32, make([]byte, 4), 1, true) },
		"short source":    func() { ConvertSlice(F32, make([]byte, 8), F32, make([]byte, 4), 2, true) },
		"short result":    func() { ConvertSlice(F64, make([]byte, 8), F32, make([]byte, 8), 2, true) },
		"negative count":  func() { ConvertSlice(F32, nil, F32, nil, -1, true) },
		"huge index":      func() { LoadInt(U8, make([]byte, 4), 1<<32) },
		"range of floats": func() { F32.MaxInt() },
		"encode of f32":   func() { Encode(F32, 1, true) },
		"decode of i8":    func() { Decode(I8, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// BenchmarkConvert converts between the types that models use most.
func BenchmarkConvert(b *testing.B) {
	const n = 1 << 14
	for _, pair := range [][2]DType{{F16, F32}, {F32, F16}, {BF16, F32}, {F32, BF16}, {F32, I64}, {I64, F32},
		{F32, F8E4M3FN}, {F8E4M3FN, F32}, {I4, F32}, {F16, I8}} {
		src, dst := pair[0], pair[1]
		in := samples(rand.New(rand.NewPCG(11, 12)), src, n)
		out := make([]byte, n*8)
		b.Run(src.String()+"-"+dst.String(), func(b *testing.B) {
			b.SetBytes(n)
			b.ReportAllocs()
			for b.Loop() {
				ConvertSlice(dst, out, src, in, n, true)
			}
		})
	}
}
