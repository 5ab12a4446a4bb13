package conformancetest

import (
	"math"
	"math/big"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// hollow is a tensor of i8 without elements: the last extent is 0, the others may be large.
type hollow struct {
	name  string
	shape []int64
}

// mostExtent is the largest extent of a hollow tensor that is computed.
const mostExtent = 1<<31 + 7

// turn adds an operator on a hollow tensor whose arguments are computed, and the Shape of its result.
func (s *sum) turn() {
	x := s.hollows[s.IntN(len(s.hollows))]
	axis := s.IntN(len(x.shape) - 1)
	switch s.IntN(5) {
	case 0:
		s.cut(x, axis)
	case 1:
		s.padded(x, axis)
	case 2:
		s.repeated(x, axis)
	default:
		s.shaped(x)
	}
}

// size returns a vector of one element of i64 that the condition accepts.
func (s *sum) size(ok func(x *big.Int) bool) numbers {
	return s.any(func(v numbers) bool {
		return v.dt == dtype.I64 && !v.scalar && !v.open && len(v.list) == 1 && ok(v.list[0])
	})
}

// extents joins numbers to a vector.
func (s *sum) extents(list ...numbers) numbers {
	v := numbers{dt: dtype.I64}
	for _, x := range list {
		v.list = append(v.list, x.list...)
	}
	return s.node("Concat", v, list, wire.IntAttribute("axis", 0))
}

// hollowed adds a node whose result is a hollow tensor of that shape, and Shape of it.
func (s *sum) hollowed(op string, shape []int64, in []drawn, attributes ...*wire.AttributeProto) {
	x := hollow{s.add(op, dtype.I8, nil, 0, in, attributes...).name, shape}
	s.hollows = append(s.hollows, x)
	s.node("Shape", whole(dtype.I64, shape...), []numbers{{name: x.name}})
}

// cut adds a slice of an axis.
func (s *sum) cut(x hollow, axis int) {
	begin, end := s.bound(), s.bound()
	step := []int64{1, 1, 2, -1, -3, 1 << 31, math.MaxInt64, math.MinInt64}[s.IntN(8)]
	_, count := ends(begin.list[0], end.list[0], x.shape[axis], step)
	shape := slices.Clone(x.shape)
	shape[axis] = count
	s.hollowed("Slice", shape, []drawn{{name: x.name}, {name: begin.name}, {name: end.name}, s.ints(int64(axis)),
		s.ints(step)})
}

// padded adds a padding at both ends of an axis, which may be negative.
func (s *sum) padded(x hollow, axis int) {
	small := func(v *big.Int) bool { return v.IsInt64() && v.Int64() <= mostExtent && v.Int64() >= -mostExtent }
	before, after := s.size(small), s.size(small)
	total := x.shape[axis] + before.list[0].Int64() + after.list[0].Int64()
	if total < 0 || total > mostExtent {
		return
	}
	shape := slices.Clone(x.shape)
	shape[axis] = total
	s.hollowed("Pad", shape, []drawn{{name: x.name}, {name: s.extents(before, after).name}, {}, s.ints(int64(axis))})
}

// repeated adds a Tile.
func (s *sum) repeated(x hollow, axis int) {
	times := s.size(func(v *big.Int) bool {
		total := new(big.Int).Mul(v, big.NewInt(x.shape[axis]))
		return v.Sign() >= 0 && v.IsInt64() && v.Int64() <= mostExtent && total.IsInt64() && total.Int64() <= mostExtent
	})
	list := []numbers{}
	for range x.shape {
		list = append(list, s.fixed(whole(dtype.I64, 1)))
	}
	list[axis] = times
	shape := slices.Clone(x.shape)
	shape[axis] *= times.list[0].Int64()
	s.hollowed("Tile", shape, []drawn{{name: x.name}, {name: s.extents(list...).name}})
}

// shaped adds a tensor of computed extents: ConstantOfShape, Reshape or Expand.
func (s *sum) shaped(x hollow) {
	fits := func(v *big.Int) bool { return v.Sign() >= 0 && v.IsInt64() && v.Int64() <= mostExtent }
	list := []numbers{s.size(fits)}
	if s.IntN(2) == 0 {
		list = append(list, s.size(fits))
	}
	none := s.fixed(whole(dtype.I64, 0))
	shape := []int64{}
	for _, v := range list {
		shape = append(shape, v.list[0].Int64())
	}
	to := s.extents(append(list, none)...)
	shape = append(shape, 0)
	switch s.IntN(3) {
	case 0:
		s.hollowed("Reshape", shape, []drawn{{name: x.name}, {name: to.name}}, wire.IntAttribute("allowzero", 1))
	case 1:
		zero := numbers{dt: dtype.I8, scalar: true, list: []*big.Int{big.NewInt(0)}}
		s.hollowed("Expand", shape, []drawn{{name: s.fixed(zero).name}, {name: to.name}})
	default:
		zero := numbers{dt: dtype.I8, list: []*big.Int{big.NewInt(0)}}
		s.hollowed("ConstantOfShape", shape, []drawn{{name: to.name}},
			wire.TensorAttribute("value", wire.FromTensor("", zero.tensor())))
	}
}
