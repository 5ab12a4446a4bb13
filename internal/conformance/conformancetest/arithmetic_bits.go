package conformancetest

import (
	"math/big"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// logic adds an operator on bools.
func (s *sum) logic() {
	a := s.any(func(v numbers) bool { return v.dt == dtype.Bool })
	b := s.operand(a)
	name := []string{"And", "Or", "Xor", "Equal"}[s.IntN(4)]
	s.node(name, zip(dtype.Bool, func(x, y *big.Int) *big.Int {
		one := big.NewInt(1)
		switch name {
		case "And":
			return new(big.Int).And(x, y)
		case "Or":
			return new(big.Int).Or(x, y)
		case "Xor":
			return new(big.Int).Xor(x, y)
		}
		return one.Sub(one, new(big.Int).Xor(x, y))
	}, a, b), []numbers{a, b})
}

// shift adds a BitShift by fewer bits than the type has.
func (s *sum) shift() {
	a := s.any(func(v numbers) bool { return isInteger(v) && !v.dt.IsSigned() })
	by := s.fixed(numbers{dt: a.dt, scalar: a.open, list: []*big.Int{big.NewInt(s.Int64N(int64(a.dt.Bits())))}})
	left := s.IntN(2) == 0
	way := "RIGHT"
	if left {
		way = "LEFT"
	}
	s.node("BitShift", zip(a.dt, func(x, y *big.Int) *big.Int {
		if left {
			return new(big.Int).Lsh(x, uint(y.Int64()))
		}
		return new(big.Int).Rsh(x, uint(y.Int64()))
	}, a, by), []numbers{a, by}, wire.StringAttribute("direction", way))
}

// clip adds a Clip between two scalars, of which the lower may be the greater one.
func (s *sum) clip() {
	a := s.any(func(v numbers) bool { return isInteger(v) && v.dt != dtype.I16 && v.dt != dtype.U16 })
	end := func() numbers {
		if s.IntN(2) == 0 {
			for range 12 {
				if v := s.made[s.IntN(len(s.made))]; v.scalar && v.dt == a.dt {
					return v
				}
			}
		}
		v := s.literal(a.dt, 1)
		v.scalar = true
		return s.fixed(v)
	}
	low, high := end(), end()
	s.node("Clip", zip(a.dt, func(x, _ *big.Int) *big.Int {
		if x.Cmp(low.list[0]) < 0 {
			x = low.list[0]
		}
		if x.Cmp(high.list[0]) > 0 {
			x = high.list[0]
		}
		return x
	}, a, a), []numbers{a, low, high})
}

// sums adds a CumSum.
func (s *sum) sums() {
	v := s.any(func(v numbers) bool {
		return !v.scalar && (v.dt == dtype.I64 || v.dt == dtype.I32 || v.dt == dtype.U32 || v.dt == dtype.U64)
	})
	exclusive, reverse := s.Int64N(2), s.Int64N(2)
	out, total := numbers{dt: v.dt, list: make([]*big.Int, len(v.list))}, new(big.Int)
	for i := range v.list {
		at := i
		if reverse == 1 {
			at = len(v.list) - 1 - i
		}
		before := total
		total = new(big.Int).Add(total, v.list[at])
		if exclusive == 1 {
			out.list[at] = wrap(v.dt, before)
		} else {
			out.list[at] = wrap(v.dt, total)
		}
	}
	axis := whole(dtype.I32, 0)
	axis.scalar = true
	s.node("CumSum", out, []numbers{v, s.fixed(axis)}, wire.IntAttribute("exclusive", exclusive),
		wire.IntAttribute("reverse", reverse))
}
