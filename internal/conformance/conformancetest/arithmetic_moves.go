package conformancetest

import (
	"math"
	"math/big"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// gather adds a selection of elements, which may count from the end.
func (s *sum) gather() {
	v := s.any(func(v numbers) bool { return !v.scalar && len(v.list) > 0 })
	at := whole(dtype.I64)
	out := numbers{dt: v.dt}
	for range 1 + s.IntN(3) {
		i := s.IntN(len(v.list))
		out.list = append(out.list, v.list[i])
		at.list = append(at.list, big.NewInt(int64(i-s.IntN(2)*len(v.list))))
	}
	if s.IntN(2) == 0 {
		at.scalar, at.list, out.scalar, out.list = true, at.list[:1], true, out.list[:1]
	}
	if index := s.index(at); index != nil {
		at = *index
	} else {
		at = s.fixed(at)
	}
	s.node("Gather", out, []numbers{v, at})
}

// index returns a value that was computed and has the same elements as a constant, if there is one.
func (s *sum) index(want numbers) *numbers {
	for _, v := range s.made {
		if v.dt == want.dt && v.scalar == want.scalar && slices.EqualFunc(v.list, want.list, func(x, y *big.Int) bool {
			return x.Cmp(y) == 0
		}) {
			return &v
		}
	}
	return nil
}

// bound returns a position for a slice: a computed one, or a constant.
func (s *sum) bound() numbers {
	wide := func(v numbers) bool { return v.dt == dtype.I64 && !v.scalar && !v.open && len(v.list) == 1 }
	if s.IntN(2) == 0 {
		return s.any(wide)
	}
	return s.fixed(s.literal(dtype.I64, 1))
}

// ends returns the first index of a slice of an axis, and its number of elements.
func ends(begin, end *big.Int, extent, step int64) (first, count int64) {
	clamp := func(x *big.Int, low, high int64) int64 {
		if x.Sign() < 0 {
			x = new(big.Int).Add(x, big.NewInt(extent))
		}
		switch {
		case x.Cmp(big.NewInt(low)) < 0:
			return low
		case x.Cmp(big.NewInt(high)) > 0:
			return high
		}
		return x.Int64()
	}
	if extent == 0 {
		return 0, 0
	}
	low, high := int64(0), extent
	if step < 0 {
		low, high = -1, extent-1
	}
	first = clamp(begin, 0, high)
	way, by := big.NewInt(clamp(end, low, high)-first), big.NewInt(step)
	if way.Sign() != by.Sign() {
		return first, 0
	}
	count = new(big.Int).Quo(way.Abs(way).Sub(way, big.NewInt(1)), by.Abs(by)).Int64() + 1
	return first, count
}

// slice adds a slice.
func (s *sum) slice() {
	v := s.any(func(v numbers) bool { return !v.scalar })
	begin, end := s.bound(), s.bound()
	step := []int64{1, 1, 1, 2, 3, -1, -2, math.MaxInt64, math.MinInt64}[s.IntN(9)]
	at, count := ends(begin.list[0], end.list[0], int64(len(v.list)), step)
	out := numbers{dt: v.dt}
	for range count {
		out.list = append(out.list, v.list[at])
		at += step
	}
	s.node("Slice", out, []numbers{v, begin, end, s.fixed(whole(dtype.I64, 0)), s.fixed(whole(dtype.I64, step))})
}

// concat adds a concatenation.
func (s *sum) concat() {
	a := s.any(func(v numbers) bool { return !v.scalar })
	b := s.any(func(v numbers) bool { return !v.scalar && v.dt == a.dt })
	if len(a.list)+len(b.list) > mostElements {
		return
	}
	s.node("Concat", numbers{dt: a.dt, list: slices.Concat(a.list, b.list)}, []numbers{a, b}, wire.IntAttribute("axis", 0))
}

// ranges adds a range between computed ends.
func (s *sum) ranges() {
	dt := []dtype.DType{dtype.I64, dtype.I64, dtype.I32, dtype.I16}[s.IntN(4)]
	scalar := func(v numbers) bool { return v.scalar && v.dt == dt }
	end := func() numbers {
		if s.IntN(2) == 0 {
			for range 12 {
				if v := s.made[s.IntN(len(s.made))]; scalar(v) {
					return v
				}
			}
		}
		v := s.literal(dt, 1)
		v.scalar = true
		return s.fixed(v)
	}
	start, limit, delta := end(), end(), end()
	by := delta.list[0]
	if by.Sign() == 0 {
		return
	}
	out := numbers{dt: dt}
	for at := start.list[0]; at.Cmp(limit.list[0])*by.Sign() < 0; at = new(big.Int).Add(at, by) {
		if len(out.list) == mostElements {
			return
		}
		out.list = append(out.list, at)
	}
	s.node("Range", out, []numbers{start, limit, delta})
}

// filled adds ConstantOfShape, or Expand of a scalar, to a computed extent.
func (s *sum) filled() {
	size := s.any(func(v numbers) bool { return v.dt == dtype.I64 && !v.scalar && !v.open && len(v.list) == 1 })
	count := size.list[0]
	if count.Sign() < 0 || count.Cmp(big.NewInt(mostElements)) > 0 {
		return
	}
	if s.IntN(2) == 0 {
		x := s.literal(integerTypes[s.IntN(len(integerTypes))], 1)
		s.node("ConstantOfShape", numbers{dt: x.dt, list: slices.Repeat(x.list, int(count.Int64()))}, []numbers{size},
			wire.TensorAttribute("value", wire.FromTensor("", x.tensor())))
		return
	}
	x := s.any(func(v numbers) bool { return v.scalar })
	s.node("Expand", numbers{dt: x.dt, list: slices.Repeat(x.list, int(count.Int64()))}, []numbers{x, size})
}

// reshape adds Reshape, Squeeze or Unsqueeze.
func (s *sum) reshape() {
	v := s.any(nil)
	out := v
	switch {
	case v.scalar:
		out.scalar = false
		s.node("Unsqueeze", out, []numbers{v, s.fixed(whole(dtype.I64, -1))})
	case single(v) && !v.open && s.IntN(2) == 0:
		out.scalar = true
		s.node("Squeeze", out, []numbers{v, s.fixed(whole(dtype.I64, 0))})
	default:
		s.node("Reshape", out, []numbers{v, s.fixed(whole(dtype.I64, -1))})
	}
}

// branch adds an If whose branches return two values of the graph.
func (s *sum) branch() {
	cond := s.any(func(v numbers) bool { return v.dt == dtype.Bool && single(v) && !v.open })
	a := s.any(isInteger)
	b := s.any(func(v numbers) bool {
		return v.dt == a.dt && v.scalar == a.scalar && len(v.list) == len(a.list) && !v.open && !a.open
	})
	if a.name == b.name {
		return
	}
	side := func(name string, v numbers) *wire.AttributeProto {
		return called(s.nested(nil, func(d *drawing) []drawn {
			return []drawn{d.add("Identity", v.dt, s.drawn(v).shape, 0, []drawn{{name: v.name}})}
		}), name)
	}
	out := b
	if cond.list[0].Sign() != 0 {
		out = a
	}
	s.node("If", numbers{dt: a.dt, scalar: a.scalar, list: out.list}, []numbers{cond}, side("then_branch", a),
		side("else_branch", b))
}
