package conformancetest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// Arithmetic is a random graph of arithmetic on sizes and small integer tensors, with the results that its elements
// have in two's complement. They are computed element by element while the graph is drawn, by rules of this file alone.
type Arithmetic struct {
	RandomModel
	Want  []*tensor.Tensor // of the outputs
	Sizes map[string]int64 // of the dimensions with names
}

// numbers is a vector or a scalar of integers or bools: the elements as mathematical integers within the type.
type numbers struct {
	name   string
	dt     dtype.DType
	scalar bool
	open   bool // the run decides the length: such a vector is not broadcast, nor does it decide a rank
	list   []*big.Int
}

// sum is a graph of arithmetic under construction.
type sum struct {
	*drawing
	made    []numbers
	hollows []hollow
	sizes   map[string]int64
	inputs  []*tensor.Tensor
}

var (
	integerTypes = []dtype.DType{dtype.I64, dtype.I64, dtype.I64, dtype.I32, dtype.I32, dtype.I16, dtype.I8, dtype.U8,
		dtype.U16, dtype.U32, dtype.U64}
	drawnExtents = []int64{0, 1, 2, 3, 5, 8, 1<<31 - 1, 1<<31 - 1}
)

// mostElements is the largest number of elements of a vector.
const mostElements = 24

// RandomArithmetic draws a graph.
func RandomArithmetic(seed uint64) *Arithmetic {
	d := &drawing{Rand: rand.New(rand.NewPCG(seed, 11)), graph: &wire.GraphProto{Name: "arithmetic"}, count: new(int)}
	s := &sum{drawing: d, sizes: map[string]int64{}}
	s.argument()
	if d.IntN(2) == 0 {
		s.data()
	}
	for range 3 + d.IntN(14) {
		s.step()
	}
	m := &Arithmetic{Sizes: s.sizes}
	m.Seed, m.Inputs = seed, s.inputs
	taken := map[string]bool{}
	for i := range 3 {
		v := s.made[len(s.made)-1]
		if i > 0 {
			v = s.any(nil)
		}
		if taken[v.name] {
			continue
		}
		taken[v.name] = true
		s.output(s.drawn(v))
		m.Want = append(m.Want, v.tensor())
	}
	m.Model = &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: d.graph}
	return m
}

// argument adds an input without elements, whose extents are sizes, and its Shape.
func (s *sum) argument() {
	shape, dims := []int64{}, []*wire.Dimension{}
	names := []string{"n", "m", "k"}
	for range 1 + s.IntN(3) {
		size := drawnExtents[s.IntN(len(drawnExtents))]
		if s.IntN(4) > 0 {
			name := names[s.IntN(len(names))]
			if known, ok := s.sizes[name]; ok {
				size = known
			}
			s.sizes[name] = size
			dims = append(dims, wire.Dim(name))
		} else {
			dims = append(dims, wire.Size(size))
		}
		shape = append(shape, size)
	}
	shape, dims = append(shape, 0), append(dims, wire.Size(0))
	name := s.fresh("x")
	s.graph.Input = append(s.graph.Input, wire.TensorValue(name, wire.DataTypeOf(dtype.I8), dims...))
	s.inputs = append(s.inputs, tensor.Must(tensor.New(dtype.I8, shape...)))
	s.hollows = append(s.hollows, hollow{name, shape})
	s.node("Shape", whole(dtype.I64, shape...), []numbers{{name: name}})
}

// data adds an input with elements.
func (s *sum) data() {
	v := s.literal(integerTypes[s.IntN(len(integerTypes))], 1+s.IntN(3))
	v.name = s.fresh("a")
	s.graph.Input = append(s.graph.Input, wire.TensorValue(v.name, wire.DataTypeOf(v.dt), wire.Size(int64(len(v.list)))))
	s.inputs = append(s.inputs, v.tensor())
	s.made = append(s.made, v)
}

// whole returns a vector of numbers.
func whole(dt dtype.DType, list ...int64) numbers {
	v := numbers{dt: dt}
	for _, x := range list {
		v.list = append(v.list, big.NewInt(x))
	}
	return v
}

// drawn returns the value as the drawing knows it.
func (s *sum) drawn(v numbers) drawn {
	out := drawn{name: v.name, dt: v.dt}
	if !v.scalar {
		out.shape = []extent{{size: int64(len(v.list))}}
	}
	return out
}

// tensor returns the value as a tensor.
func (v numbers) tensor() *tensor.Tensor {
	shape := []int64{int64(len(v.list))}
	if v.scalar {
		shape = nil
	}
	t := tensor.Must(tensor.New(v.dt, shape...))
	for i, x := range v.list {
		bits := new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64))
		t.SetInt(int64(i), int64(bits.Uint64()))
	}
	return t
}

// wrap returns x in two's complement of a type.
func wrap(dt dtype.DType, x *big.Int) *big.Int {
	if dt == dtype.Bool {
		return big.NewInt(int64(x.Sign() * x.Sign()))
	}
	size := new(big.Int).Lsh(big.NewInt(1), uint(dt.Bits()))
	out := new(big.Int).Mod(x, size)
	if dt.IsSigned() && out.Bit(dt.Bits()-1) == 1 {
		out.Sub(out, size)
	}
	return out
}

// literal draws numbers of a type: small ones, sizes, and the ends of types.
func (s *sum) literal(dt dtype.DType, count int) numbers {
	v := numbers{dt: dt}
	for range count {
		x := big.NewInt(s.Int64N(9) - 3)
		switch s.IntN(6) {
		case 0:
			x = big.NewInt([]int64{math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32, math.MaxUint32, 1 << 31,
				127, -128, 255, 32767, -32768, 65535}[s.IntN(12)])
		case 1:
			x = big.NewInt(int64(s.Uint64() >> s.IntN(64)))
		}
		v.list = append(v.list, wrap(dt, x))
	}
	return v
}

// fixed adds numbers as an initializer.
func (s *sum) fixed(v numbers) numbers {
	v.name = s.constant(v.tensor()).name
	return v
}

// any returns one of the values that the condition accepts, or a new constant.
func (s *sum) any(ok func(numbers) bool) numbers {
	for range 12 {
		v := s.made[len(s.made)-1-int(float64(len(s.made))*s.Float64()*s.Float64())]
		if ok == nil || ok(v) {
			return v
		}
	}
	for range 40 {
		v := s.literal(integerTypes[s.IntN(len(integerTypes))], 1+s.IntN(3))
		switch s.IntN(3) {
		case 0:
			v.list, v.scalar = v.list[:1], true
		case 1:
			v = numbers{dt: dtype.Bool, list: []*big.Int{big.NewInt(s.Int64N(2))}, scalar: s.IntN(2) == 0}
		}
		if ok == nil || ok(v) {
			return s.fixed(v)
		}
	}
	panic(noOperand{})
}

// noOperand is the panic of any if it finds no value; step recovers from it.
type noOperand struct{}

// operand returns a second operand for v: a value or a constant of its type, and of its length or a single element.
func (s *sum) operand(v numbers) numbers {
	fits := func(x numbers) bool {
		return x.dt == v.dt && (!x.open || x.name == v.name) && (!v.open || x.scalar) &&
			(len(x.list) == len(v.list) || len(x.list) == 1 || len(v.list) == 1)
	}
	if s.IntN(2) == 0 {
		for range 12 {
			if x := s.made[s.IntN(len(s.made))]; fits(x) {
				return x
			}
		}
	}
	x := s.literal(v.dt, 1)
	x.scalar = v.open
	return s.fixed(x)
}

// node adds a node; v holds the elements of its result.
func (s *sum) node(op string, v numbers, in []numbers, attributes ...*wire.AttributeProto) numbers {
	operands := make([]drawn, len(in))
	for i, x := range in {
		operands[i] = drawn{name: x.name}
	}
	v.name = s.add(op, v.dt, nil, 0, operands, attributes...).name
	switch op {
	case "Slice", "Range", "ConstantOfShape", "Expand":
		v.open = true
	default:
		v.open = !v.scalar && slices.ContainsFunc(in, func(x numbers) bool { return x.open }) && op != "Gather"
	}
	s.made = append(s.made, v)
	return v
}

// isInteger reports whether a value has integers.
func isInteger(v numbers) bool { return v.dt != dtype.Bool }

// single reports whether a value has one element.
func single(v numbers) bool { return len(v.list) == 1 }

// at returns element i; a single element stands for all.
func (v numbers) at(i int) *big.Int {
	if single(v) {
		return v.list[0]
	}
	return v.list[i]
}

// zip applies a function to the elements of operands of which one may repeat.
func zip(dt dtype.DType, f func(x, y *big.Int) *big.Int, a, b numbers) numbers {
	v := numbers{dt: dt, scalar: a.scalar && b.scalar}
	count := len(a.list)
	if count == 1 {
		count = len(b.list)
	}
	for i := range count {
		v.list = append(v.list, wrap(dt, f(a.at(i), b.at(i))))
	}
	return v
}

// step adds an operator; none if the drawn operands are not valid for it.
func (s *sum) step() {
	defer func() {
		if r := recover(); r != nil && r != (noOperand{}) {
			panic(r)
		}
	}()
	steps := []func(){s.cast, s.cast, s.cast, s.arithmetic, s.arithmetic, s.arithmetic, s.arithmetic, s.quotient,
		s.compare, s.one, s.where, s.reduce, s.reduce, s.gather, s.slice, s.concat, s.ranges, s.filled, s.reshape,
		s.branch, s.bits, s.logic, s.shift, s.clip, s.sums, s.turn, s.turn}
	steps[s.IntN(len(steps))]()
}

// cast converts to another integer type.
func (s *sum) cast() {
	v, to := s.any(nil), integerTypes[s.IntN(len(integerTypes))]
	if s.IntN(12) == 0 {
		to = dtype.Bool
	}
	out := numbers{dt: to, scalar: v.scalar}
	for _, x := range v.list {
		out.list = append(out.list, wrap(to, x))
	}
	s.node("Cast", out, []numbers{v}, wire.IntAttribute("to", int64(wire.DataTypeOf(to))))
}

// arithmetic adds a sum, a difference, a product or an extremum.
func (s *sum) arithmetic() {
	type operator struct {
		name string
		f    func(x, y *big.Int) *big.Int
	}
	less := func(x, y *big.Int) bool { return x.Cmp(y) < 0 }
	o := []operator{
		{"Add", func(x, y *big.Int) *big.Int { return new(big.Int).Add(x, y) }},
		{"Sub", func(x, y *big.Int) *big.Int { return new(big.Int).Sub(x, y) }},
		{"Mul", func(x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) }},
		{"Min", func(x, y *big.Int) *big.Int {
			if less(x, y) {
				return x
			}
			return y
		}},
		{"Max", func(x, y *big.Int) *big.Int {
			if less(x, y) {
				return y
			}
			return x
		}},
	}[s.IntN(5)]
	a := s.any(isInteger)
	b := s.operand(a)
	s.node(o.name, zip(a.dt, o.f, a, b), []numbers{a, b})
}

// quotient adds a division, rounded toward zero, or a remainder with the sign of the divisor or of the dividend. Both
// are 0 if the divisor is 0.
func (s *sum) quotient() {
	a := s.any(isInteger)
	b := s.operand(a)
	add := func(op string, f func(x, y *big.Int) *big.Int, attributes ...*wire.AttributeProto) {
		s.node(op, zip(a.dt, func(x, y *big.Int) *big.Int {
			if y.Sign() == 0 {
				return y
			}
			return f(x, y)
		}, a, b), []numbers{a, b}, attributes...)
	}
	switch s.IntN(3) {
	case 0:
		add("Div", func(x, y *big.Int) *big.Int { return new(big.Int).Quo(x, y) })
	case 1:
		add("Mod", func(x, y *big.Int) *big.Int {
			r := new(big.Int).Rem(x, y)
			if r.Sign() != 0 && r.Sign() != y.Sign() {
				r.Add(r, y)
			}
			return r
		})
	default:
		add("Mod", func(x, y *big.Int) *big.Int { return new(big.Int).Rem(x, y) }, wire.IntAttribute("fmod", 1))
	}
}

// compare adds a comparison.
func (s *sum) compare() {
	name := []string{"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}[s.IntN(5)]
	a := s.any(isInteger)
	b := s.operand(a)
	s.node(name, zip(dtype.Bool, func(x, y *big.Int) *big.Int {
		c := x.Cmp(y)
		holds := map[string]bool{"Equal": c == 0, "Less": c < 0, "LessOrEqual": c <= 0, "Greater": c > 0,
			"GreaterOrEqual": c >= 0}[name]
		if holds {
			return big.NewInt(1)
		}
		return big.NewInt(0)
	}, a, b), []numbers{a, b})
}

// one adds an operator of one operand.
func (s *sum) one() {
	v := s.any(nil)
	if v.dt == dtype.Bool {
		not := func(x, _ *big.Int) *big.Int { return new(big.Int).Sub(big.NewInt(1), x) }
		s.node("Not", zip(v.dt, not, v, v), []numbers{v})
		return
	}
	names := []string{"Abs", "Sign", "BitwiseNot", "Neg"}
	if !v.dt.IsSigned() {
		names = names[:3]
	}
	name := names[s.IntN(len(names))]
	s.node(name, zip(v.dt, func(x, _ *big.Int) *big.Int {
		switch name {
		case "Abs":
			return new(big.Int).Abs(x)
		case "Sign":
			return big.NewInt(int64(x.Sign()))
		case "Neg":
			return new(big.Int).Neg(x)
		}
		return new(big.Int).Not(x)
	}, v, v), []numbers{v})
}

// bits adds an operator on bits.
func (s *sum) bits() {
	a := s.any(isInteger)
	b := s.operand(a)
	name := []string{"BitwiseAnd", "BitwiseOr", "BitwiseXor"}[s.IntN(3)]
	s.node(name, zip(a.dt, func(x, y *big.Int) *big.Int {
		out := new(big.Int)
		return map[string]func(x, y *big.Int) *big.Int{"BitwiseAnd": out.And, "BitwiseOr": out.Or,
			"BitwiseXor": out.Xor}[name](x, y)
	}, a, b), []numbers{a, b})
}

// where adds a choice.
func (s *sum) where() {
	a := s.any(isInteger)
	b := s.operand(a)
	sides := zip(a.dt, func(x, _ *big.Int) *big.Int { return x }, a, b)
	cond := s.any(func(v numbers) bool {
		return v.dt == dtype.Bool && !v.open && (len(v.list) == len(sides.list) || single(v)) &&
			(!a.open && !b.open || v.scalar)
	})
	out := numbers{dt: a.dt, scalar: sides.scalar && cond.scalar}
	for i := range sides.list {
		x := b.at(i)
		if cond.at(i).Sign() != 0 {
			x = a.at(i)
		}
		out.list = append(out.list, x)
	}
	s.node("Where", out, []numbers{cond, a, b})
}

// reduce adds a reduction to one element.
func (s *sum) reduce() {
	v := s.any(func(v numbers) bool {
		return !v.scalar && !v.open && len(v.list) > 0 && (v.dt == dtype.I64 || v.dt == dtype.I32 || v.dt == dtype.U32 ||
			v.dt == dtype.U64)
	})
	name := []string{"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"}[s.IntN(4)]
	total := new(big.Int).Set(v.list[0])
	for _, x := range v.list[1:] {
		switch {
		case name == "ReduceSum":
			total.Add(total, x)
		case name == "ReduceProd":
			total.Mul(total, x)
		case (name == "ReduceMax") == (x.Cmp(total) > 0):
			total.Set(x)
		}
	}
	keep := s.Int64N(2)
	s.node(name, numbers{dt: v.dt, scalar: keep == 0, list: []*big.Int{wrap(v.dt, total)}}, []numbers{v},
		wire.IntAttribute("keepdims", keep))
}
