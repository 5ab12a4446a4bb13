package conformancetest

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// growth are the ways to add a node, each with its weight in the draw. A way that finds no operand adds nothing.
var growth = []struct {
	weight int
	draw   func(*drawing)
}{
	{6, func(d *drawing) {
		d.same(d.any())
	}}, {4, (*drawing).transpose}, {4, (*drawing).slice}, {3, (*drawing).reshape}, {2, (*drawing).unsqueeze},
	{3, (*drawing).reduce}, {2, (*drawing).softmax}, {2, (*drawing).product}, {2, (*drawing).convolve},
	{2, (*drawing).pool}, {2, (*drawing).gather},
	{3, (*drawing).concat}, {2, (*drawing).split}, {2, (*drawing).where}, {2, (*drawing).cast}, {2, (*drawing).outer},
	{2, (*drawing).branch}, {2, (*drawing).loop},
	{1, (*drawing).ranks}, {1, (*drawing).growing}, {2, (*drawing).spelled},
}

// grow adds a node in a random way.
func (d *drawing) grow() {
	total := 0
	for _, g := range growth {
		total += g.weight
	}
	at := d.IntN(total)
	for _, g := range growth {
		if at -= g.weight; at < 0 {
			g.draw(d)
			return
		}
	}
}

// same adds an operation that keeps v's type and shape.
func (d *drawing) same(v drawn) drawn {
	unary := map[bool][]string{true: {"Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Erf", "Softplus", "LeakyRelu",
		"HardSigmoid"}, false: {"Abs"}}[v.dt.IsFloat()]
	binary := []string{"Add", "Sub", "Mul", "Max", "Min"}
	if v.dt == dtype.Bool {
		unary, binary = []string{"Not"}, []string{"And", "Or", "Xor"}
	}
	if d.IntN(3) == 0 {
		return d.add(unary[d.IntN(len(unary))], v.dt, v.shape, rounded(v.dt, v), []drawn{v})
	}
	other, ok := d.pick(func(o drawn) bool { return o.dt == v.dt && spreads(o.shape, v.shape) })
	if !ok || d.IntN(4) == 0 {
		var shape []int64
		for i := d.IntN(len(v.shape) + 1); i < len(v.shape); i++ {
			size := int64(1)
			if e := v.shape[i]; e.name == "" && d.IntN(2) == 0 {
				size = e.size
			}
			shape = append(shape, size)
		}
		other = d.constant(d.filled(v.dt, shape, false))
	}
	in := []drawn{v, other}
	d.Shuffle(2, func(i, j int) { in[i], in[j] = in[j], in[i] })
	return d.add(binary[d.IntN(len(binary))], v.dt, v.shape, rounded(v.dt, v, other), in)
}

// spreads reports whether shape a broadcasts to shape b.
func spreads(a, b []extent) bool {
	if len(a) > len(b) {
		return false
	}
	for i, e := range a {
		if e != b[len(b)-len(a)+i] && e != (extent{size: 1}) {
			return false
		}
	}
	return true
}

// outer combines a value with one of a transposed or widened shape, so that both broadcast.
func (d *drawing) outer() {
	v, ok := d.pick(func(v drawn) bool { return len(v.shape) > 0 && len(v.shape) < 4 && v.dt.IsFloat() })
	if !ok || elements(v.shape)*v.shape[len(v.shape)-1].size > 20000 {
		return
	}
	last := v.shape[len(v.shape)-1]
	wide := d.add("Unsqueeze", v.dt, append(slices.Clone(v.shape), extent{size: 1}), v.eps, []drawn{v, d.ints(-1)})
	row, ok := d.pick(func(o drawn) bool {
		return o.dt == v.dt && len(o.shape) > 0 && spreads(o.shape[len(o.shape)-1:], []extent{last}) && len(o.shape) == 1
	})
	if !ok {
		return
	}
	d.add([...]string{"Add", "Mul", "Sub"}[d.IntN(3)], v.dt, append(slices.Clone(v.shape), row.shape[0]),
		rounded(v.dt, v, row), []drawn{wide, row})
}

// transpose permutes the axes of a value.
func (d *drawing) transpose() {
	v := d.any()
	perm := d.Perm(len(v.shape))
	shape := make([]extent, len(perm))
	axes := make([]int64, len(perm))
	for i, p := range perm {
		shape[i], axes[i] = v.shape[p], int64(p)
	}
	if len(perm) > 0 {
		d.add("Transpose", v.dt, shape, v.eps, []drawn{v}, wire.IntsAttribute("perm", axes...))
	}
}

// ranked returns a value with at least one axis, and one of its axes.
func (d *drawing) ranked() (v drawn, axis int, ok bool) {
	if v, ok = d.pick(func(v drawn) bool { return len(v.shape) > 0 }); ok {
		axis = d.IntN(len(v.shape))
	}
	return v, axis, ok
}

// resized returns a shape with another size along an axis.
func (d *drawing) resized(v drawn, axis int, size int64) []extent {
	shape := slices.Clone(v.shape)
	if shape[axis].name != "" {
		shape[axis].name = d.fresh("?")
	}
	shape[axis].size = size
	return shape
}

// slice takes a range of an axis, or reverses the axis.
func (d *drawing) slice() {
	v, axis, ok := d.ranked()
	if !ok {
		return
	}
	size := v.shape[axis].size
	begin, end, step := d.Int64N(size+1), d.Int64N(size+2), 1+d.Int64N(3)
	count := max(0, (min(end, size)-begin+step-1)/step)
	if d.IntN(4) == 0 { // the full axis, backwards
		begin, end, step, count = -1, -1<<40, -1, size
	}
	d.add("Slice", v.dt, d.resized(v, axis, count), v.eps, []drawn{v, d.ints(begin), d.ints(end), d.ints(int64(axis)),
		d.ints(step)})
}

// reshape joins or splits axes of a value.
func (d *drawing) reshape() {
	v := d.any()
	n := elements(v.shape)
	fixed := !slices.ContainsFunc(v.shape, func(e extent) bool { return e.name != "" })
	switch {
	case fixed && n > 0:
		var shape []extent
		var sizes []int64
		for rest := n; rest > 1 || len(shape) == 0; {
			f := rest
			for _, p := range []int64{2, 3, 5, 7} {
				if rest%p == 0 && d.IntN(2) == 0 {
					f = p
					break
				}
			}
			shape, sizes, rest = append(shape, extent{size: f}), append(sizes, f), rest/f
		}
		d.add("Reshape", v.dt, shape, v.eps, []drawn{v, d.ints(sizes...)})
	case len(v.shape) > 1 && n > 0: // the last two axes become one
		k := len(v.shape)
		shape := append(slices.Clone(v.shape[:k-2]), extent{v.shape[k-2].size * v.shape[k-1].size, d.fresh("?")})
		d.add("Reshape", v.dt, shape, v.eps, []drawn{v, d.ints(append(make([]int64, k-2), -1)...)})
	}
}

// unsqueeze adds an axis of one element, or removes one.
func (d *drawing) unsqueeze() {
	v := d.any()
	if axis := slices.Index(v.shape, extent{size: 1}); axis >= 0 && d.IntN(2) == 0 {
		d.add("Squeeze", v.dt, slices.Delete(slices.Clone(v.shape), axis, axis+1), v.eps, []drawn{v, d.ints(int64(axis))})
	} else if len(v.shape) < 5 {
		axis := d.IntN(len(v.shape) + 1)
		d.add("Unsqueeze", v.dt, slices.Insert(slices.Clone(v.shape), axis, extent{size: 1}), v.eps,
			[]drawn{v, d.ints(int64(axis))})
	}
}

// reduce reduces an axis of a value.
func (d *drawing) reduce() {
	v, axis, ok := d.ranked()
	if !ok || v.dt == dtype.Bool || v.dt == dtype.U8 || v.shape[axis].size == 0 {
		return
	}
	op := [...]string{"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"}[d.IntN(3+btoi(v.dt.IsFloat()))]
	keep := d.IntN(2)
	shape := d.resized(v, axis, 1)
	shape[axis].name = ""
	if keep == 0 {
		shape = slices.Delete(shape, axis, axis+1)
	}
	d.add(op, v.dt, shape, rounded(v.dt, v), []drawn{v, d.ints(int64(axis))}, wire.IntAttribute("keepdims", int64(keep)))
}

// btoi returns 1 for true and 0 for false.
func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// softmax adds a softmax along an axis.
func (d *drawing) softmax() {
	if v, axis, ok := d.ranked(); ok && v.dt.IsFloat() {
		d.add([...]string{"Softmax", "LogSoftmax"}[d.IntN(2)], v.dt, v.shape, rounded(v.dt, v), []drawn{v},
			wire.IntAttribute("axis", int64(axis)))
	}
}

// product multiplies a matrix by weights, or by its own transpose.
func (d *drawing) product() {
	v, ok := d.pick(func(v drawn) bool { return len(v.shape) >= 2 && v.dt.IsFloat() })
	if !ok {
		return
	}
	k := len(v.shape)
	inner := v.shape[k-1]
	if inner.name == "" && d.IntN(3) > 0 {
		w := d.constant(d.filled(v.dt, []int64{inner.size, 1 + d.Int64N(9)}, false))
		d.add("MatMul", v.dt, append(slices.Clone(v.shape[:k-1]), w.shape[1]), rounded(v.dt, v), []drawn{v, w})
		return
	}
	perm := make([]int64, k)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[k-2], perm[k-1] = perm[k-1], perm[k-2]
	shape := slices.Clone(v.shape)
	shape[k-2], shape[k-1] = shape[k-1], shape[k-2]
	turned := d.add("Transpose", v.dt, shape, v.eps, []drawn{v}, wire.IntsAttribute("perm", perm...))
	d.add("MatMul", v.dt, append(slices.Clone(v.shape[:k-1]), v.shape[k-2]), rounded(v.dt, v), []drawn{v, turned})
}

// image returns a float value of three or four axes whose spatial extents are fixed and at least 2.
func (d *drawing) image() (drawn, bool) {
	return d.pick(func(v drawn) bool {
		return (v.dt == dtype.F32 || v.dt == dtype.F64) && (len(v.shape) == 3 || len(v.shape) == 4) &&
			v.shape[1].name == "" && v.shape[1].size > 0 &&
			!slices.ContainsFunc(v.shape[2:], func(e extent) bool { return e.size < 2 || e.name != "" })
	})
}

// convolve convolves an image with random weights.
func (d *drawing) convolve() {
	v, ok := d.image()
	if !ok {
		return
	}
	out := 1 + d.Int64N(5)
	kernel, shape := []int64{out, v.shape[1].size}, []extent{v.shape[0], {size: out}}
	var strides, pads []int64
	for _, e := range v.shape[2:] {
		s, p := 1+d.Int64N(2), d.Int64N(2)
		kernel, strides, pads = append(kernel, 2), append(strides, s), append(pads, p)
		shape = append(shape, extent{size: (e.size+2*p-2)/s + 1})
	}
	d.add("Conv", v.dt, shape, rounded(v.dt, v), []drawn{v, d.constant(d.filled(v.dt, kernel, false)),
		d.constant(d.filled(v.dt, []int64{out}, false))},
		wire.IntsAttribute("strides", strides...), wire.IntsAttribute("pads", append(pads, pads...)...))
}

// pool pools windows of an image.
func (d *drawing) pool() {
	v, ok := d.image()
	if !ok {
		return
	}
	shape := slices.Clone(v.shape[:2])
	var kernel []int64
	for _, e := range v.shape[2:] {
		kernel, shape = append(kernel, 2), append(shape, extent{size: e.size - 1})
	}
	d.add([...]string{"MaxPool", "AveragePool"}[d.IntN(2)], v.dt, shape, rounded(v.dt, v), []drawn{v},
		wire.IntsAttribute("kernel_shape", kernel...))
}

// gather gathers random indices of an axis.
func (d *drawing) gather() {
	v, axis, ok := d.ranked()
	if !ok || v.shape[axis].size == 0 {
		return
	}
	n := 1 + d.IntN(5)
	at := make([]int64, n)
	for i := range at {
		at[i] = d.Int64N(2*v.shape[axis].size) - v.shape[axis].size
	}
	shape := slices.Clone(v.shape)
	shape[axis] = extent{size: int64(n)}
	d.add("Gather", v.dt, shape, v.eps, []drawn{v, d.ints(at...)}, wire.IntAttribute("axis", int64(axis)))
}

// concat joins two or more values along an axis.
func (d *drawing) concat() {
	v, axis, ok := d.ranked()
	if !ok || elements(v.shape) > 20000 {
		return
	}
	fits := func(o drawn) bool {
		if o.dt != v.dt || len(o.shape) != len(v.shape) {
			return false
		}
		for i := range o.shape {
			if i != axis && o.shape[i] != v.shape[i] {
				return false
			}
		}
		return true
	}
	in, total, eps, named := []drawn{v}, v.shape[axis].size, v.eps, v.shape[axis].name != ""
	for range 1 + d.IntN(2) {
		o, _ := d.pick(fits)
		in, total, eps, named = append(in, o), total+o.shape[axis].size, max(eps, o.eps), named || o.shape[axis].name != ""
	}
	shape := slices.Clone(v.shape)
	shape[axis] = extent{size: total}
	if named {
		shape[axis].name = d.fresh("?")
	}
	d.add("Concat", v.dt, shape, eps, in, wire.IntAttribute("axis", int64(axis)))
}

// split splits an axis in two.
func (d *drawing) split() {
	v, axis, ok := d.ranked()
	if !ok || v.shape[axis].name != "" {
		return
	}
	cut := d.Int64N(v.shape[axis].size + 1)
	first := d.add("Split", v.dt, d.resized(v, axis, cut), v.eps, []drawn{v, d.ints(cut, v.shape[axis].size-cut)},
		wire.IntAttribute("axis", int64(axis)))
	second := drawn{d.fresh("v"), v.dt, d.resized(v, axis, v.shape[axis].size-cut), v.eps}
	n := d.graph.Node[len(d.graph.Node)-1]
	n.Output = append(n.Output, second.name)
	d.values = append(d.values, second)
	_ = first
}

// where selects elements of two values by a condition.
func (d *drawing) where() {
	v := d.any()
	o, _ := d.pick(func(o drawn) bool { return o.dt == v.dt && spreads(o.shape, v.shape) })
	mask, ok := d.pick(func(o drawn) bool { return o.dt == dtype.Bool && spreads(o.shape, v.shape) })
	if !ok {
		if v.eps != 0 || v.dt == dtype.Bool {
			return
		}
		mask = d.add("Greater", dtype.Bool, v.shape, 0, []drawn{v, d.constant(d.filled(v.dt, nil, false))})
	}
	d.add("Where", v.dt, v.shape, max(v.eps, o.eps), []drawn{mask, v, o})
}

// cast converts a value to another type.
func (d *drawing) cast() {
	v := d.any()
	to := drawnTypes[d.IntN(len(drawnTypes))]
	if v.dt.IsFloat() && !to.IsFloat() {
		return // its rounding would decide the result
	}
	d.add("Cast", to, v.shape, max(v.eps, epsilonOf(to)), []drawn{v}, wire.IntAttribute("to", int64(wire.DataTypeOf(to))))
}

// inner returns a drawing of a body, which sees the outer values.
func (d *drawing) inner() *drawing {
	return &drawing{Rand: d.Rand, graph: &wire.GraphProto{Name: d.fresh("body")}, values: slices.Clone(d.values),
		count: d.count}
}

// branch adds an If whose branches change a captured value, each differently, or return it.
func (d *drawing) branch() {
	v := d.any()
	cond := d.add("Greater", dtype.Bool, nil, 0, []drawn{d.number(), d.constant(d.filled(dtype.I64, nil, false))})
	eps := v.eps
	var bodies []*wire.GraphProto
	for range 2 {
		b := d.inner()
		out := v
		for range d.IntN(4) {
			out = b.same(out)
		}
		if out.name == v.name {
			out = b.add("Identity", v.dt, v.shape, v.eps, []drawn{v})
		}
		b.output(out)
		eps = max(eps, out.eps)
		bodies = append(bodies, b.graph)
	}
	d.add("If", v.dt, v.shape, eps, []drawn{cond}, wire.GraphAttribute("then_branch", bodies[0]),
		wire.GraphAttribute("else_branch", bodies[1]))
}

// number returns a scalar that the data decide.
func (d *drawing) number() drawn {
	v, ok := d.pick(func(v drawn) bool { return v.dt == dtype.I64 })
	if !ok {
		return d.ints(d.Int64N(9)).scalar(d)
	}
	return d.add("ReduceSum", dtype.I64, nil, 0, []drawn{v}, wire.IntAttribute("keepdims", 0))
}

func (v drawn) scalar(d *drawing) drawn {
	return d.add("Squeeze", v.dt, nil, v.eps, []drawn{v})
}

// loop adds a Loop with one carried value, captured values, and sometimes a scan output.
func (d *drawing) loop() {
	v, ok := d.pick(func(v drawn) bool { return v.dt != dtype.F16 && elements(v.shape) < 5000 })
	if !ok {
		return
	}
	b := d.inner()
	index, keep, state := drawn{name: b.fresh("i"), dt: dtype.I64}, drawn{name: b.fresh("keep"), dt: dtype.Bool},
		drawn{b.fresh("s"), v.dt, v.shape, rounded(v.dt, v)}
	for _, p := range []drawn{index, keep, state} {
		b.output(p)
	}
	b.graph.Input, b.graph.Output = b.graph.Output, nil
	b.values = append(b.values, state, index)
	out := state
	for range 1 + d.IntN(3) {
		out = b.same(out)
	}
	more := b.add("Identity", dtype.Bool, nil, 0, []drawn{keep})
	b.output(more)
	b.output(out)
	trips := d.Int64N(4)
	result := drawn{d.fresh("v"), v.dt, v.shape, out.eps * 4}
	n := &wire.NodeProto{OpType: "Loop", Name: result.name, Input: []string{d.ints(trips).scalar(d).name, "", v.name},
		Output:    []string{result.name},
		Attribute: []*wire.AttributeProto{wire.GraphAttribute("body", b.graph)}}
	if d.IntN(2) == 0 {
		row := b.same(b.values[len(d.values)+d.IntN(len(b.values)-len(d.values))])
		b.output(row)
		rows := drawn{d.fresh("v"), row.dt, append([]extent{{trips, d.fresh("?")}}, row.shape...), row.eps * 4}
		n.Output = append(n.Output, rows.name)
		d.values = append(d.values, rows)
	}
	d.graph.Node = append(d.graph.Node, n)
	d.values = append(d.values, result)
}

// ranks adds an If whose branches give results of different ranks, and a Reshape that makes their rank the same again.
func (d *drawing) ranks() {
	v, ok := d.pick(func(v drawn) bool { return len(v.shape) != 1 && v.dt != dtype.Bool })
	if !ok {
		return
	}
	cond := d.add("Greater", dtype.Bool, nil, 0, []drawn{d.number(), d.constant(d.filled(dtype.I64, nil, false))})
	row := d.ints(-1)
	var bodies [2]*wire.GraphProto
	for i, of := range d.Perm(2) {
		b := d.inner()
		if of == 0 {
			b.output(b.add("Reshape", v.dt, nil, v.eps, []drawn{v, row}))
		} else {
			b.output(b.add("Identity", v.dt, v.shape, v.eps, []drawn{v}))
		}
		bodies[i] = b.graph
	}
	choice := drawn{d.fresh("v"), v.dt, nil, v.eps}
	changed := drawn{d.fresh("v"), v.dt, nil, v.eps}
	d.graph.Node = append(d.graph.Node, &wire.NodeProto{OpType: "If", Name: choice.name, Input: []string{cond.name},
		Output: []string{choice.name},
		Attribute: []*wire.AttributeProto{wire.GraphAttribute("then_branch", bodies[0]),
			wire.GraphAttribute("else_branch", bodies[1])}},
		&wire.NodeProto{OpType: "Abs", Name: changed.name, Input: []string{choice.name}, Output: []string{changed.name}})
	count := extent{size: elements(v.shape)}
	for _, e := range v.shape {
		if e.name != "" {
			count.name = d.fresh("?")
		}
	}
	d.add("Reshape", v.dt, []extent{count}, v.eps, []drawn{changed, row})
}

// growing adds a Loop whose carried value becomes longer with every trip. The number of trips is a constant, or seems
// to depend on data.
func (d *drawing) growing() {
	v, axis, ok := d.ranked()
	if !ok || v.dt == dtype.F16 || elements(v.shape) > 2000 {
		return
	}
	more := min(1+d.Int64N(2), v.shape[axis].size)
	piece := drawn{d.fresh("v"), v.dt, d.resized(v, axis, more), v.eps}
	d.graph.Node = append(d.graph.Node, &wire.NodeProto{OpType: "Slice", Name: piece.name, Output: []string{piece.name},
		Input: []string{v.name, d.ints(0).name, d.ints(more).name, d.ints(int64(axis)).name}})
	trips := d.Int64N(4)
	if v.shape[axis].size+trips*more == 1 {
		trips++ // an extent that a run finds to be 1 is not broadcast
	}
	count := d.ints(trips).scalar(d)
	if d.IntN(2) == 0 {
		nothing := d.add("Mul", dtype.I64, nil, 0, []drawn{d.number(), d.ints(0).scalar(d)})
		count = d.add("Add", dtype.I64, nil, 0, []drawn{nothing, count})
	}
	b := d.inner()
	index, keep, state := drawn{name: b.fresh("i"), dt: dtype.I64}, drawn{name: b.fresh("keep"), dt: dtype.Bool},
		drawn{b.fresh("s"), v.dt, v.shape, v.eps}
	for _, p := range []drawn{index, keep, state} {
		b.output(p)
	}
	b.graph.Input, b.graph.Output = b.graph.Output, nil
	parts := []drawn{state, piece}
	if d.IntN(2) == 0 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	out := b.add("Concat", v.dt, v.shape, v.eps, parts, wire.IntAttribute("axis", int64(axis)))
	b.output(b.add("Identity", dtype.Bool, nil, 0, []drawn{keep}))
	b.output(out)
	result := drawn{d.fresh("v"), v.dt, d.resized(v, axis, v.shape[axis].size+trips*more), v.eps}
	d.graph.Node = append(d.graph.Node, &wire.NodeProto{OpType: "Loop", Name: result.name,
		Input: []string{count.name, "", v.name}, Output: []string{result.name},
		Attribute: []*wire.AttributeProto{wire.GraphAttribute("body", b.graph)}})
	d.values = append(d.values, result)
}
