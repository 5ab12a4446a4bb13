package mathematics

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestMathematics: the errors of the functions of one argument are at most those that their comments give.
func TestMathematics(t *testing.T) {
	for _, s := range Samples() {
		t.Run(s.Name, func(t *testing.T) {
			worst, at := 0.0, float32(0)
			Arguments(func(x uint32) {
				want := s.Reference(float64(single(x)))
				if e := Ulps(single(s.Function(model{Lane{}}, x)), want); e > worst {
					worst, at = e, single(x)
				}
			})
			if worst > s.Ulp {
				t.Errorf("%s(%g) = %g, want %g", s.Name, at, single(s.Function(model{Lane{}}, word(at))), s.Reference(float64(at)))
			}
			t.Logf("%.3f ulp at %g", worst, at)
		})
	}
}

// power returns x to the power y with an error far below f32's unit: math.Pow, which squares once for each bit of the
// exponent, has a larger one.
func power(x, y float64) float64 {
	p := math.Pow(x, y)
	if a := math.Abs(x); a > 0 && !math.IsInf(a, 0) && !math.IsInf(y, 0) && y == y && p == p {
		l := math.Log(a)
		if a > 0.9 && a < 1.1 {
			l = math.Log1p(a - 1)
		}
		p = math.Copysign(math.Exp(y*l), p)
	}
	return p
}

// TestMathematics2: the same for the functions of two arguments, on special values and random ones.
func TestMathematics2(t *testing.T) {
	var special []float32
	for _, v := range []float64{0, math.SmallestNonzeroFloat32, 1e-40, 0.3, 0.5, 1, 1.5, 2, 3, 4, 1 << 23, 1<<24 - 1,
		1 << 24, 1e30, math.MaxFloat32, math.Inf(1)} {
		special = append(special, float32(v), float32(-v))
	}
	special = append(special, float32(math.NaN()))
	r := rand.New(rand.NewPCG(5, 6))
	for _, test := range []struct {
		name      string
		function  func(m model, x, y uint32) uint32
		reference func(x, y float64) float64
		near      func(x float32) float32 // a second argument for which the result neither overflows nor underflows
		ulp       float64
	}{
		{"atan2", model.Atan2, math.Atan2, func(y float32) float32 { return y * float32(math.Exp(r.NormFloat64()*4)) }, 1.75},
		{"pow", model.Pow, power, func(x float32) float32 {
			return float32((r.Float64()*240 - 120) / math.Log2(math.Abs(float64(x))))
		}, 0.97},
	} {
		t.Run(test.name, func(t *testing.T) {
			worst, worstX, worstY := 0.0, float32(0), float32(0)
			try := func(x, y float32) {
				if e := Ulps(single(test.function(model{Lane{}}, word(x), word(y))),
					test.reference(float64(x), float64(y))); e > worst {
					worst, worstX, worstY = e, x, y
				}
			}
			for _, x := range special {
				for _, y := range special {
					try(x, y)
				}
			}
			for range 50000 {
				x := single(r.Uint32())
				try(x, test.near(x))
				try(x, single(r.Uint32()))
				x = 1 + float32(r.NormFloat64())/float32(int(1)<<r.IntN(24))
				try(x, test.near(x))
				try(x, float32(r.IntN(41)-20))
			}
			if worst > test.ulp {
				got := single(test.function(model{Lane{}}, word(worstX), word(worstY)))
				t.Errorf("%s(%g, %g) = %g, want %g", test.name, worstX, worstY, got,
					test.reference(float64(worstX), float64(worstY)))
			}
			t.Logf("%.3f ulp at %g, %g", worst, worstX, worstY)
		})
	}
}

// TestFusedModel: the model's fused multiplication rounds as big.Float does.
func TestFusedModel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(near int) float32 { return single(r.Uint32()&0x807fffff | uint32(near+r.IntN(30))<<23) }
	for range 200000 {
		x, y, z := random(100), random(100), random(80)
		if r.IntN(4) == 0 {
			x, y, z = random(50), random(40), random(0)
		}
		exact := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		exact.Add(exact, big.NewFloat(float64(z)))
		if want, _ := exact.Float32(); word(want) != word(fusedSingle(x, y, z)) && want != 0 {
			t.Fatalf("%g·%g + %g = %g, want %g", x, y, z, fusedSingle(x, y, z), want)
		}
	}
}

// TestGated: the error of x·sigmoid(y) is at most 3 ulp if e⁻ʸ does not overflow, and the result 0 if it does.
func TestGated(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	m := model{Lane{}}
	for range 200_000 {
		x, y := float32(r.NormFloat64()*10), float32(r.Float64()*176-88)
		got := math.Float32frombits(m.Gated(math.Float32bits(x), math.Float32bits(y)))
		want := float64(x) / (1 + math.Exp(-float64(y)))
		if e := Ulps(got, want); e > 3 && math.Abs(want) > 1e-37 {
			t.Fatalf("%v gated by %v is %v, %.2f ulp from %v", x, y, got, e, want)
		}
	}
	for _, y := range []float32{-100, float32(math.Inf(-1))} {
		if got := math.Float32frombits(m.Gated(math.Float32bits(3), math.Float32bits(y))); got != 0 {
			t.Errorf("3 gated by %v is %v", y, got)
		}
	}
}

// watched is a model of a lane that counts products that underflow: products of numbers other than 0 that are not
// normal numbers, which take processors a hundred times as long.
type watched struct {
	Lane
	count *int
}

func (w watched) Mul(x, y uint32) uint32 {
	z := w.Lane.Mul(x, y)
	if x<<1 != 0 && y<<1 != 0 && z<<1 < 2<<23 {
		*w.count++
	}
	return z
}

func (w watched) MulWhere(above bool, x, y uint32) uint32 {
	if !above {
		return 0
	}
	return w.Mul(x, y)
}

// TestUnderflow: no product underflows for arguments whose exponential underflows in f32, such as those of masked
// scores, so that they cost no more than others.
func TestUnderflow(t *testing.T) {
	count := 0
	m := model{watched{count: &count}}
	for _, test := range []struct {
		name     string
		function func(x uint32) uint32
		least    float32 // no product underflows for arguments up to this one
	}{
		{"exp", m.Exp, ExpLow},
		{"exp of shares", func(x uint32) uint32 { return m.ExpFrom(x, expNormal) }, 0},
		{"sigmoid", m.Sigmoid, ExpLow},
		{"gated", func(x uint32) uint32 { return m.Gated(word(1), x) }, 0},
	} {
		for _, x := range []float32{-1, -20, -87, expNormal, -87.34, -90, -100, -104, -104.6, -120, -150, -1e4, -1e9,
			-math.MaxFloat32, float32(math.Inf(-1))} {
			if x > test.least {
				continue
			}
			count = 0
			if y := single(test.function(word(x))); count > 0 {
				t.Errorf("%s(%g) = %g: %d products underflow", test.name, x, y, count)
			}
		}
	}
	if count = 0; m.Exp(word(-90)) == 0 || count == 0 {
		t.Error("exp(-90) is no subnormal number, or its product is not counted")
	}
}
