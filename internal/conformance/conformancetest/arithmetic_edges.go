package conformancetest

import (
	"math"
	"math/rand/v2"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// IntegerEdge is a graph of arithmetic at the ends of a type.
type IntegerEdge struct {
	Name string
	*Arithmetic
}

// EdgesOfIntegers returns graphs whose integers leave their type, or lie at its ends.
func EdgesOfIntegers() (list []IntegerEdge) {
	const far = 1<<31 + 5
	edge := func(name string, sizes []int64, want *tensor.Tensor, build func(d *drawing, x, shape string) string) {
		d := &drawing{Rand: rand.New(rand.NewPCG(1, 1)), graph: &wire.GraphProto{Name: "edge"}, count: new(int)}
		m := &Arithmetic{Want: []*tensor.Tensor{want}, Sizes: map[string]int64{}}
		dims := []*wire.Dimension{}
		for i, size := range sizes {
			m.Sizes["nmk"[i:i+1]] = size
			dims = append(dims, wire.Dim("nmk"[i:i+1]))
		}
		d.graph.Input = append(d.graph.Input, wire.TensorValue("x", wire.DataTypeOf(dtype.I8), append(dims, wire.Size(0))...))
		m.Inputs = []*tensor.Tensor{tensor.Must(tensor.New(dtype.I8, append(sizes, 0)...))}
		shape := d.add("Shape", dtype.I64, nil, 0, []drawn{{name: "x"}}, wire.IntAttribute("end", int64(len(sizes))))
		out := build(d, "x", shape.name)
		d.output(drawn{name: out, dt: want.DType(), shape: make([]extent, want.Rank())})
		m.Model = &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: d.graph}
		list = append(list, IntegerEdge{name, m})
	}
	op := func(d *drawing, op string, in []string, attributes ...*wire.AttributeProto) string {
		var operands []drawn
		for _, name := range in {
			operands = append(operands, drawn{name: name})
		}
		return d.add(op, dtype.I64, nil, 0, operands, attributes...).name
	}
	cast := func(d *drawing, x string, dt dtype.DType) string {
		return op(d, "Cast", []string{x}, wire.IntAttribute("to", int64(wire.DataTypeOf(dt))))
	}
	edge("a sum of constants", []int64{1}, tensor.Of(int64(math.MinInt32+1)), func(d *drawing, _, shape string) string {
		c := d.constant(tensor.Of[int32](1<<30, 1<<30)).name
		return op(d, "Add", []string{shape, cast(d, op(d, "ReduceSum", []string{c}), dtype.I64)})
	})
	edge("a sum of 32 bits", []int64{1}, tensor.Of(int64(math.MinInt32)), func(d *drawing, _, shape string) string {
		c := d.constant(tensor.Of[int32](math.MaxInt32)).name
		return cast(d, op(d, "Add", []string{cast(d, shape, dtype.I32), c}), dtype.I64)
	})
	edge("a branch", []int64{1}, tensor.Of(int64(1)), func(d *drawing, _, shape string) string {
		c, zero := d.constant(tensor.Of[int32](math.MaxInt32)).name, d.constant(tensor.Of[int32](0)).name
		less := op(d, "Less", []string{op(d, "Add", []string{cast(d, shape, dtype.I32), c}), zero})
		side := func(name string, x int64) *wire.AttributeProto {
			return called(d.nested(nil, func(b *drawing) []drawn {
				return []drawn{b.add("Identity", dtype.I64, []extent{{size: 1}}, 0, []drawn{b.ints(x)})}
			}), name)
		}
		return op(d, "If", []string{less}, side("then_branch", 1), side("else_branch", 2))
	})
	edge("a product of 64 bits", []int64{math.MaxInt32, math.MaxInt32, math.MaxInt32},
		tensor.Of(wrapped(math.MaxInt32, math.MaxInt32, math.MaxInt32)), func(d *drawing, _, shape string) string {
			return op(d, "ReduceProd", []string{shape})
		})
	edge("a choice of the least integer", []int64{1}, tensor.Of(int64(4), math.MinInt64+1),
		func(d *drawing, _, shape string) string {
			c := d.constant(tensor.Of(true, false)).name
			return op(d, "Add", []string{shape, op(d, "Where", []string{c, d.ints(3).name, d.ints(math.MinInt64).name})})
		})
	edge("a comparison at the end", []int64{0}, tensor.Of(int64(1)), func(d *drawing, _, shape string) string {
		below := op(d, "Add", []string{shape, d.ints(-128).name})
		return cast(d, op(d, "Less", []string{below, d.ints(math.MaxInt64).name}), dtype.I64)
	})
	edge("a slice in the least step", []int64{far}, tensor.Of(int64(1)), func(d *drawing, x, _ string) string {
		at := op(d, "ReduceSum", []string{d.ints(far, -far).name}, wire.IntAttribute("keepdims", 1))
		cut := op(d, "Slice", []string{x, at, d.ints(math.MinInt64).name, d.ints(0).name, d.ints(math.MinInt64).name})
		return op(d, "Shape", []string{cut}, wire.IntAttribute("end", 1))
	})
	for _, c := range []struct {
		name             string
		begin, end, want int64
	}{{"the first 2³¹", 0, 1 << 31, 1 << 31}, {"the rest", 1 << 31, far, 5}, {"to the end", 3, math.MaxInt64, far - 3},
		{"from before the end", 1 - 1<<31, math.MaxInt64, 1<<31 - 1}, {"from the least", math.MinInt64, 7, 7}} {
		edge("a slice of a long axis: "+c.name, []int64{far}, tensor.Of(c.want), func(d *drawing, x, _ string) string {
			cut := op(d, "Slice", []string{x, d.ints(c.begin).name, d.ints(c.end).name})
			return op(d, "Shape", []string{cut}, wire.IntAttribute("end", 1))
		})
	}
	return list
}

// wrapped returns a product in 64 bits.
func wrapped(factors ...int64) int64 {
	product := int64(1)
	for _, f := range factors {
		product *= f
	}
	return product
}
