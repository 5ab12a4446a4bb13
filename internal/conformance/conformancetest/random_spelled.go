package conformancetest

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// spellings add operators as several nodes, as exporters do, or nearly so.
var spellings = []func(d *drawing, v drawn) drawn{
	(*drawing).spelledSilu, (*drawing).spelledGelu, (*drawing).spelledNorm, (*drawing).spelledSoftmax,
	(*drawing).spelledTransposes, (*drawing).spelledAttention,
}

// spelled adds an operator as several nodes; sometimes another node reads an intermediate value.
func (d *drawing) spelled() {
	v, ok := d.pick(func(v drawn) bool {
		return (v.dt == dtype.F32 || v.dt == dtype.F64) && len(v.shape) > 0 && v.shape[len(v.shape)-1].size > 0 &&
			elements(v.shape) < 5000
	})
	if ok {
		spellings[d.IntN(len(spellings))](d, v)
	}
	if d.IntN(3) == 0 {
		d.same(d.any())
	}
}

// scalarLike returns a constant x of v's type, sometimes another number.
func (d *drawing) scalarLike(v drawn, x float64) drawn {
	if d.IntN(12) == 0 {
		x += 0.25
	}
	t := tensor.Must(tensor.New(v.dt))
	t.SetFloat(0, x)
	return d.constant(t)
}

// like adds an operation of v's type and shape.
func (d *drawing) like(op string, v drawn, in ...drawn) drawn {
	if len(in) == 2 && (op == "Add" || op == "Mul") && d.IntN(2) == 0 {
		in[0], in[1] = in[1], in[0]
	}
	return d.add(op, v.dt, v.shape, rounded(v.dt, in...), in)
}

func (d *drawing) spelledSilu(v drawn) drawn {
	return d.like("Mul", v, v, d.like("Sigmoid", v, v))
}

// spelledGelu adds Gelu by Erf or Tanh.
func (d *drawing) spelledGelu(v drawn) drawn {
	half, one := d.scalarLike(v, 0.5), d.scalarLike(v, 1)
	var inner drawn
	if d.IntN(2) == 0 {
		inner = d.like("Erf", v, d.like("Div", v, v, d.scalarLike(v, math.Sqrt2)))
	} else {
		cube := d.like("Mul", v, d.like("Mul", v, d.like("Mul", v, v, v), v), d.scalarLike(v, 0.044715))
		inner = d.like("Tanh", v, d.like("Mul", v, d.like("Add", v, v, cube), d.scalarLike(v, math.Sqrt(2/math.Pi))))
	}
	return d.like("Mul", v, d.like("Mul", v, v, half), d.like("Add", v, inner, one))
}

// along reduces v along an axis, which is kept.
func (d *drawing) along(op string, v drawn, axis int) drawn {
	shape := d.resized(v, axis, 1)
	shape[axis].name = ""
	return d.add(op, v.dt, shape, rounded(v.dt, v), []drawn{v, d.ints(int64(axis))})
}

// spelledNorm adds a layer normalisation by means.
func (d *drawing) spelledNorm(v drawn) drawn {
	axis := len(v.shape) - 1
	centred := v
	if d.IntN(3) > 0 {
		centred = d.like("Sub", v, v, d.along("ReduceMean", v, axis))
	}
	variance := d.along("ReduceMean", d.like("Mul", v, centred, centred), axis)
	return d.like("Div", v, centred, d.like("Sqrt", variance, d.like("Add", variance, variance, d.scalarLike(v, 0.5))))
}

// spelledSoftmax adds a softmax by Exp and a sum.
func (d *drawing) spelledSoftmax(v drawn) drawn {
	axis := d.IntN(len(v.shape))
	if v.shape[axis].size == 0 {
		return v
	}
	e := d.like("Exp", v, d.like("Sub", v, v, d.along("ReduceMax", v, axis)))
	return d.like("Div", v, e, d.along("ReduceSum", e, axis))
}

// turned returns v with its axes permuted.
func (d *drawing) turned(v drawn, perm []int) drawn {
	shape, axes := make([]extent, len(perm)), make([]int64, len(perm))
	for i, p := range perm {
		shape[i], axes[i] = v.shape[p], int64(p)
	}
	return d.add("Transpose", v.dt, shape, v.eps, []drawn{v}, wire.IntsAttribute("perm", axes...))
}

// spelledTransposes adds a transpose, at most two other operations, and the inverse transpose.
func (d *drawing) spelledTransposes(v drawn) drawn {
	perm := d.Perm(len(v.shape))
	back := make([]int, len(perm))
	for i, p := range perm {
		back[p] = i
	}
	y := d.turned(v, perm)
	for range d.IntN(3) {
		y = d.same(y)
	}
	return d.turned(y, back)
}

// spelledAttention adds attention by two products and a softmax.
func (d *drawing) spelledAttention(v drawn) drawn {
	rank := len(v.shape)
	if rank < 3 || v.shape[rank-2].size == 0 {
		return v
	}
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	perm[rank-2], perm[rank-1] = rank-1, rank-2
	shape := append(slices.Clone(v.shape[:rank-1]), v.shape[rank-2])
	scores := d.add("MatMul", v.dt, shape, rounded(v.dt, v), []drawn{v, d.turned(v, perm)})
	scores = d.like("Mul", scores, scores, d.scalarLike(v, 0.125))
	if d.IntN(2) == 0 {
		scores = d.like("Add", scores, scores, d.constant(d.filled(v.dt, nil, false)))
	}
	weights := d.add("Softmax", v.dt, shape, rounded(v.dt, scores), []drawn{scores}, wire.IntAttribute("axis", -1))
	return d.add("MatMul", v.dt, v.shape, rounded(v.dt, weights, v), []drawn{weights, v})
}
