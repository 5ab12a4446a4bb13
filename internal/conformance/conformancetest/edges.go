package conformancetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// Edge is an operator at the limits of its definition. build applies it to v, which is f32 and has at least one axis,
// and returns the result; its extents are not known to the drawing.
type Edge struct {
	Name  string
	build func(d *drawing, v drawn) drawn
}

// axes returns a shape of rank unknown extents.
func axes(rank int) []extent { return make([]extent, rank) }

// unary returns an edge of one operator that keeps the rank, with constants after the operand.
func unary(op string, dt dtype.DType, constants func(d *drawing, v drawn) []drawn, list ...*wire.AttributeProto) Edge {
	return Edge{op, func(d *drawing, v drawn) drawn {
		in := []drawn{v}
		if constants != nil {
			in = append(in, constants(d, v)...)
		}
		return d.add(op, dt, v.shape, 0, in, list...)
	}}
}

// called returns e with a word appended to its name.
func (e Edge) called(name string) Edge { e.Name += " " + name; return e }

// ranks returns e with the rank of its result changed by a number.
func (e Edge) ranks(by int) Edge {
	build := e.build
	e.build = func(d *drawing, v drawn) drawn {
		out := build(d, v)
		out.shape = axes(max(0, len(out.shape)+by))
		return out
	}
	return e
}

// constInts returns a function that makes constants of lists of i64.
func constInts(lists ...[]int64) func(d *drawing, v drawn) []drawn {
	return func(d *drawing, _ drawn) (in []drawn) {
		for _, l := range lists {
			in = append(in, d.constant(tensor.Of(l...)))
		}
		return in
	}
}

// constFloats returns a function that makes scalar constants of f32.
func constFloats(values ...float64) func(d *drawing, v drawn) []drawn {
	return func(d *drawing, _ drawn) (in []drawn) {
		for _, x := range values {
			t := tensor.Must(tensor.New(dtype.F32))
			t.SetFloat(0, x)
			in = append(in, d.constant(t))
		}
		return in
	}
}

// pads returns a function that makes ONNX's pads for v: begin of the first axis and end of the last, and zero
// otherwise.
func pads(begin, end int64) func(d *drawing, v drawn) []drawn {
	return func(d *drawing, v drawn) []drawn {
		list := make([]int64, 2*len(v.shape))
		list[0], list[len(list)-1] = begin, end
		return []drawn{d.ints(list...)}
	}
}

var (
	farthest = []int64{math.MaxInt64}
	keep0    = wire.IntAttribute("keepdims", 0)
	finally  = wire.IntAttribute("axis", -1)
	nan      = math.NaN()
)

// nested returns the body of an If, Loop or Scan.
func (d *drawing) nested(inputs []drawn, make func(b *drawing) []drawn) *wire.AttributeProto {
	b := d.inner()
	for _, v := range inputs {
		b.graph.Input = append(b.graph.Input, &wire.ValueInfoProto{Name: v.name})
	}
	for _, v := range make(b) {
		b.output(v)
	}
	return wire.GraphAttribute("", b.graph)
}

// called returns the attribute with a name.
func called(a *wire.AttributeProto, name string) *wire.AttributeProto { a.Name = name; return a }

// positive returns whether the sum of v, without NaN, is above 0.
func (d *drawing) positive(v drawn) drawn {
	zero := constFloats(0)(d, v)[0]
	some := d.add("Where", dtype.F32, v.shape, 0, []drawn{d.add("Greater", dtype.Bool, v.shape, 0, []drawn{v, zero}),
		constFloats(1)(d, v)[0], zero})
	return d.add("Greater", dtype.Bool, nil, 0,
		[]drawn{d.add("ReduceSum", dtype.F32, nil, 0, []drawn{some}, wire.IntAttribute("keepdims", 0)), zero})
}

// shapeOf returns v's shape as a value.
func (d *drawing) shapeOf(v drawn, list ...*wire.AttributeProto) drawn {
	return d.add("Shape", dtype.I64, axes(1), 0, []drawn{v}, list...)
}

// cast returns an edge that clips to a range in which the cast is defined, and casts.
func cast(to dtype.DType, low, high float64) Edge {
	return Edge{"Cast " + to.String(), func(d *drawing, v drawn) drawn {
		some := d.add("Where", dtype.F32, v.shape, 0, []drawn{d.add("IsNaN", dtype.Bool, v.shape, 0, []drawn{v}),
			constFloats(0)(d, v)[0], v})
		some = d.add("Mul", dtype.F32, v.shape, 0, []drawn{some, constFloats(100)(d, v)[0]})
		some = d.add("Clip", dtype.F32, v.shape, 0, append([]drawn{some}, constFloats(low, high)(d, v)...))
		return d.add("Cast", to, v.shape, 0, []drawn{some}, wire.IntAttribute("to", int64(wire.DataTypeOf(to))))
	}}
}

// Edges are views, reductions, choices, casts and regions at their edges.
var Edges = []Edge{
	unary("Slice", dtype.F32, constInts([]int64{-1}, []int64{math.MinInt64}, []int64{-1}, []int64{-1})).
		called("backwards"),
	unary("Slice", dtype.F32, constInts([]int64{1}, farthest, []int64{0}, []int64{2})).called("every other"),
	unary("Slice", dtype.F32, constInts([]int64{-3}, []int64{-1}, []int64{-1})).called("from the end"),
	unary("Slice", dtype.F32, constInts([]int64{5}, []int64{30}, []int64{0})).called("beyond"),
	unary("Slice", dtype.F32, constInts([]int64{-2}, []int64{-7}, []int64{-1}, []int64{-2})).called("two backwards"),
	unary("Slice", dtype.F32, constInts([]int64{2}, []int64{2}, []int64{0})).called("nothing"),
	unary("Transpose", dtype.F32, nil),
	unary("Reshape", dtype.F32, func(d *drawing, v drawn) []drawn {
		return []drawn{d.add("Concat", dtype.I64, axes(1), 0, []drawn{d.shapeOf(v), d.ints(1)}, wire.IntAttribute("axis", 0))}
	}).ranks(1),
	{"Reshape to a row", func(d *drawing, v drawn) drawn {
		return d.add("Reshape", dtype.F32, axes(1), 0,
			[]drawn{v, d.add("Unsqueeze", dtype.I64, axes(1), 0, []drawn{d.add("Size", dtype.I64, nil, 0, []drawn{v}),
				d.ints(0)})})
	}},
	unary("Unsqueeze", dtype.F32, constInts([]int64{-1, 0})).ranks(2),
	unary("Flatten", dtype.F32, nil, wire.IntAttribute("axis", 0)),
	unary("Flatten", dtype.F32, nil, finally).called("last"),
	{"Expand", func(d *drawing, v drawn) drawn {
		return d.add("Expand", dtype.F32, axes(len(v.shape)+1), 0,
			[]drawn{v, d.ints(append([]int64{3}, ones(len(v.shape))...)...)})
	}},
	{"Tile", func(d *drawing, v drawn) drawn {
		return d.add("Tile", dtype.F32, v.shape, 0, []drawn{v, d.ints(append([]int64{2}, ones(len(v.shape)-1)...)...)})
	}},
	unary("ReduceSum", dtype.F32, constInts([]int64{-1}), keep0).ranks(-1),
	unary("ReduceMean", dtype.F32, constInts([]int64{0})), unary("ReduceMax", dtype.F32, constInts([]int64{-1})),
	unary("ReduceProd", dtype.F32, constInts([]int64{-1}), keep0).ranks(-1),
	unary("ReduceL1", dtype.F32, nil, keep0).ranks(-9), unary("ReduceL2", dtype.F32, nil),
	unary("ReduceLogSumExp", dtype.F32, constInts([]int64{0})),
	unary("ReduceSumSquare", dtype.F32, constInts([]int64{-1}), keep0).ranks(-1),
	unary("ReduceMin", dtype.F32, constInts([]int64{0}), keep0).ranks(-1),
	unary("ReduceSum", dtype.F32, constInts([]int64{}), wire.IntAttribute("noop_with_empty_axes", 1)).called("of no axes"),
	unary("ReduceSum", dtype.F32, constInts([]int64{})).called("of all axes"),
	unary("ArgMax", dtype.I64, nil, finally, keep0).ranks(-1),
	unary("ArgMin", dtype.I64, nil, finally, wire.IntAttribute("select_last_index", 1)),
	unary("ArgMin", dtype.I64, nil, keep0).ranks(-1),
	{"ArgMin put back", func(d *drawing, v drawn) drawn {
		at := d.add("ArgMin", dtype.I64, axes(len(v.shape)-1), 0, []drawn{v}, finally, keep0)
		return d.add("Unsqueeze", dtype.I64, v.shape, 0, []drawn{at, d.ints(-1)})
	}},
	unary("Pad", dtype.F32, pads(-1, 0)).called("less in front"),
	unary("Pad", dtype.F32, pads(2, -1)).called("less behind"), unary("Pad", dtype.F32, pads(1, 3)),
	unary("Pad", dtype.F32, pads(1, 1), wire.StringAttribute("mode", "edge")).called("edge"),
	unary("Pad", dtype.F32, pads(1, 1), wire.StringAttribute("mode", "reflect")).called("reflect"),
	unary("Pad", dtype.F32, pads(1, 2), wire.StringAttribute("mode", "wrap")).called("wrap"),
	unary("Gather", dtype.F32, constInts([]int64{-1, 0, -1}), finally),
	unary("Gather", dtype.F32, constInts([]int64{-2, 1})).called("two"),
	unary("Gather", dtype.F32, constInts([]int64{}), finally).called("nothing"),
	{"GatherElements", func(d *drawing, v drawn) drawn {
		return d.add("GatherElements", dtype.F32, v.shape, 0,
			[]drawn{v, d.add("ArgMax", dtype.I64, v.shape, 0, []drawn{v}, finally)}, finally)
	}},
	{"Concat with nothing", func(d *drawing, v drawn) drawn {
		none := d.add("Slice", dtype.F32, v.shape, 0, []drawn{v, d.ints(0), d.ints(0), d.ints(0)})
		return d.add("Concat", dtype.F32, v.shape, 0, []drawn{none, v, none}, wire.IntAttribute("axis", 0))
	}},
	{"Concat with itself backwards", func(d *drawing, v drawn) drawn {
		return d.add("Concat", dtype.F32, v.shape, 0,
			[]drawn{v, d.add("Slice", dtype.F32, v.shape, 0, []drawn{v, d.ints(-1), d.ints(math.MinInt64), d.ints(-1),
				d.ints(-1)})}, finally)
	}},
	{"Where NaN", func(d *drawing, v drawn) drawn {
		c := constFloats(0, nan)(d, v)
		return d.add("Where", dtype.F32, v.shape, 0, []drawn{d.add("Less", dtype.Bool, v.shape, 0, []drawn{v, c[0]}), v,
			c[1]})
	}},
	unary("Max", dtype.F32, constFloats(nan)).called("NaN"), unary("Min", dtype.F32, constFloats(0.5)),
	unary("Max", dtype.F32, constFloats(-0.0)).called("zero"),
	unary("Clip", dtype.F32, constFloats(-0.5, 0.25)), unary("Clip", dtype.F32, constFloats(0.5, -0.5)).called("crossed"),
	unary("Relu", dtype.F32, nil), unary("Sign", dtype.F32, nil),
	unary("Round", dtype.F32, nil), unary("Floor", dtype.F32, nil), unary("IsInf", dtype.Bool, nil),
	unary("IsNaN", dtype.Bool, nil), unary("Mod", dtype.F32, constFloats(0.75), wire.IntAttribute("fmod", 1)),
	unary("Div", dtype.F32, constFloats(0)).called("by 0"), unary("Pow", dtype.F32, constFloats(2)),
	unary("Sqrt", dtype.F32, nil), unary("Reciprocal", dtype.F32, nil), unary("Neg", dtype.F32, nil),
	cast(dtype.I32, -1e6, 1e6), cast(dtype.U8, 0, 255), cast(dtype.I8, -128, 127), cast(dtype.Bool, -1, 1),
	cast(dtype.F16, -1e6, 1e6), cast(dtype.F64, -1e30, 1e30), cast(dtype.I64, -1e15, 1e15),
	unary("CumSum", dtype.F32, constInt(0), wire.IntAttribute("exclusive", 1), wire.IntAttribute("reverse", 1)),
	unary("CumSum", dtype.F32, constInt(-1)).called("plain"),
	unary("Softmax", dtype.F32, nil, finally), unary("LogSoftmax", dtype.F32, nil, wire.IntAttribute("axis", 0)),
	unary("Hardmax", dtype.F32, nil, finally),
	unary("LpNormalization", dtype.F32, nil, finally), unary("Trilu", dtype.F32, constInt(-1)).called("upper"),
	{"ConstantOfShape", func(d *drawing, v drawn) drawn {
		return d.add("ConstantOfShape", dtype.F32, v.shape, 0, []drawn{d.shapeOf(v)},
			wire.TensorAttribute("value", wire.FromTensor("", tensor.Of(float32(2)))))
	}},
	{"Range", func(d *drawing, v drawn) drawn {
		size := d.add("Size", dtype.I64, nil, 0, []drawn{v})
		return d.add("Range", dtype.I64, axes(1), 0, []drawn{size, constInt(-1)(d, v)[0], constInt(-2)(d, v)[0]})
	}},
	{"Shape", func(d *drawing, v drawn) drawn { return d.shapeOf(v, wire.IntAttribute("start", -1)) }},
	{"NonZero", func(d *drawing, v drawn) drawn { return d.add("NonZero", dtype.I64, axes(2), 0, []drawn{v}) }},
	{"Compress", func(d *drawing, v drawn) drawn {
		flat := d.add("Flatten", dtype.F32, axes(2), 0, []drawn{v}, wire.IntAttribute("axis", 0))
		row := d.add("Squeeze", dtype.F32, axes(1), 0, []drawn{flat, d.ints(0)})
		return d.add("Compress", dtype.F32, axes(1), 0,
			[]drawn{row, d.add("Greater", dtype.Bool, axes(1), 0, []drawn{row, constFloats(0)(d, v)[0]})},
			wire.IntAttribute("axis", 0))
	}},
	{"MatMul with itself", func(d *drawing, v drawn) drawn {
		flat := d.add("Flatten", dtype.F32, axes(2), 0, []drawn{v}, wire.IntAttribute("axis", 1))
		return d.add("MatMul", dtype.F32, axes(2), 1e-6,
			[]drawn{flat, d.add("Transpose", dtype.F32, axes(2), 0, []drawn{flat})})
	}},
	{"mean taken off", func(d *drawing, v drawn) drawn {
		return d.add("Sub", dtype.F32, v.shape, 0,
			[]drawn{v, d.add("ReduceMean", dtype.F32, v.shape, 0, []drawn{v, d.ints(-1)})})
	}},
	{"If with captures", func(d *drawing, v drawn) drawn {
		yes := d.positive(v)
		then := d.nested(nil, func(b *drawing) []drawn { return []drawn{b.add("Neg", dtype.F32, v.shape, 0, []drawn{v})} })
		other := d.nested(nil, func(b *drawing) []drawn {
			return []drawn{b.add("Identity", dtype.F32, v.shape, 0, []drawn{v})}
		})
		return d.add("If", dtype.F32, v.shape, 0, []drawn{yes}, called(then, "then_branch"), called(other, "else_branch"))
	}},
	{"Loop with captures", func(d *drawing, v drawn) drawn {
		i, keep, state := drawn{name: d.fresh("i"), dt: dtype.I64}, drawn{name: d.fresh("keep"), dt: dtype.Bool},
			drawn{name: d.fresh("state"), dt: dtype.F32, shape: v.shape}
		body := d.nested([]drawn{i, keep, state}, func(b *drawing) []drawn {
			return []drawn{b.add("Identity", dtype.Bool, nil, 0, []drawn{keep}),
				b.add("Add", dtype.F32, v.shape, 0, []drawn{state, v})}
		})
		return d.add("Loop", dtype.F32, v.shape, 0, []drawn{constInt(3)(d, v)[0], {}, v}, called(body, "body"))
	}},
	{"Loop of no iterations", func(d *drawing, v drawn) drawn {
		i, keep, state := drawn{name: d.fresh("i"), dt: dtype.I64}, drawn{name: d.fresh("keep"), dt: dtype.Bool},
			drawn{name: d.fresh("state"), dt: dtype.F32, shape: v.shape}
		body := d.nested([]drawn{i, keep, state}, func(b *drawing) []drawn {
			return []drawn{b.add("Identity", dtype.Bool, nil, 0, []drawn{keep}),
				b.add("Add", dtype.F32, v.shape, 0, []drawn{state, v})}
		})
		return d.add("Loop", dtype.F32, v.shape, 0, []drawn{constInt(0)(d, v)[0], {}, v}, called(body, "body"))
	}},
	{"Scan with captures", func(d *drawing, v drawn) drawn {
		row, factor := drawn{name: d.fresh("row"), dt: dtype.F32, shape: axes(len(v.shape) - 1)}, constFloats(2)(d, v)[0]
		body := d.nested([]drawn{row}, func(b *drawing) []drawn {
			return []drawn{b.add("Mul", dtype.F32, row.shape, 0, []drawn{row, factor})}
		})
		return d.add("Scan", dtype.F32, v.shape, 0, []drawn{v}, called(body, "body"), wire.IntAttribute("num_scan_inputs", 1))
	}},
}

// ones returns n ones.
func ones(n int) []int64 {
	list := make([]int64, max(0, n))
	for i := range list {
		list[i] = 1
	}
	return list
}

// constInt returns a function that makes a scalar constant of i64.
func constInt(x int64) func(d *drawing, v drawn) []drawn {
	return func(d *drawing, _ drawn) []drawn {
		t := tensor.Must(tensor.New(dtype.I64))
		t.SetInt(0, x)
		return []drawn{d.constant(t)}
	}
}

// PairOfEdges returns a model of two edges in sequence, over an input with extents that are named or fixed, 0, 1, 2 or
// prime. Its outputs are the second's and, sometimes, the first's, the input, a constant, and the second's again.
func PairOfEdges(first, second Edge) *RandomModel {
	seed := Hash(first.Name+">"+second.Name) % (1 << 31)
	d := &drawing{Rand: rand.New(rand.NewPCG(seed, 17)), graph: &wire.GraphProto{Name: first.Name + " > " + second.Name},
		count: new(int)}
	sizes := []int64{0, 1, 2, 3, 3, 5, 7, 13}
	x := drawn{name: "x", dt: dtype.F32, shape: axes(1 + d.IntN(3))}
	var shape []int64
	var dims []*wire.Dimension
	for axis := range x.shape {
		size := sizes[d.IntN(len(sizes))]
		if axis > 0 && d.IntN(4) == 0 {
			size = shape[0]
		}
		shape = append(shape, size)
		if d.IntN(3) > 0 {
			dims = append(dims, wire.Dim(fmt.Sprint("n", size)))
		} else {
			dims = append(dims, wire.Size(size))
		}
	}
	d.graph.Input = append(d.graph.Input, wire.TensorValue("x", wire.DataTypeOf(dtype.F32), dims...))
	m := &RandomModel{Seed: seed, Inputs: []*tensor.Tensor{d.filled(dtype.F32, shape, d.IntN(3) == 0)}}
	between := first.build(d, x)
	v := between
	if v.dt != dtype.F32 {
		v = d.add("Cast", dtype.F32, v.shape, 0, []drawn{v}, wire.IntAttribute("to", int64(wire.DataTypeOf(dtype.F32))))
	}
	if len(v.shape) == 0 {
		v = d.add("Unsqueeze", dtype.F32, axes(1), 0, []drawn{v, d.ints(0)})
	}
	out := second.build(d, v)
	d.output(out)
	if d.IntN(4) == 0 {
		d.output(between)
	}
	if d.IntN(8) == 0 {
		d.output(d.add("Identity", dtype.F32, x.shape, 0, []drawn{x}))
	}
	if d.IntN(8) == 0 {
		d.output(d.add("Identity", dtype.F32, axes(1), 0, []drawn{d.constant(tensor.Of(float32(1), 2, 3))}))
	}
	if d.IntN(8) == 0 {
		d.output(d.add("Identity", out.dt, out.shape, 0, []drawn{out}))
	}
	m.Model = &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: d.graph}
	return m
}
