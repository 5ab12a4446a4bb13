package ops

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/hostop"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator fourier.
func init() {
	define(&Def{Op: "fourier", apart: apartFourier, Grad: fourierGrad, Shape: fourierShape, Mean: fourierMean,
		Host:    "fourier",
		Samples: fourierSamples})
}

// Fourier returns the discrete Fourier transform of x along an axis: the sum over j of x[j]·e^(−2πi jk/length). The
// last axis of x holds the real component, or the real and the imaginary component, of a number. The axis is cut, or
// filled with zeros, to the length. The inverse has the other sign and divides by the length. If onesided, a forward
// transform returns the first length/2 + 1 results; an inverse takes as many, and its result is real.
func Fourier(b *ir.Builder, x *ir.Value, axis int64, length sym.Expr, inverse, onesided bool) *ir.Value {
	return b.Node("fourier", ir.Attrs{"axis": axis, "length": length, "inverse": inverse, "onesided": onesided}, x).
		Outputs[0]
}

// fourierShape checks the axes and the length and infers the transform and a workspace.
func fourierShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	last := len(x.Shape) - 1
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	if !x.DType.IsFloat() || axis == last {
		return fault(n, "a transform of %s along axis %d; the last axis holds one component of a number, or two", x, axis)
	}
	components := x.Shape[last]
	for _, cond := range []sym.Cond{{A: one, Rel: sym.LE, B: components}, {A: components, Rel: sym.LE, B: sym.Const(2)}} {
		if err := c.Require(n, cond, "the last axis holds one component of a number, or two"); err != nil {
			return err
		}
	}
	length, _ := n.Attrs["length"].(sym.Expr)
	length = c.Dims().Simplify(length)
	for _, cond := range []sym.Cond{{A: one, Rel: sym.LE, B: length}, {A: length, Rel: sym.LE, B: sym.Const(1 << 31)}} {
		if err := c.Require(n, cond, "the length of a transform"); err != nil {
			return err
		}
	}
	n.Attrs["axis"], n.Attrs["length"] = int64(axis), length
	shape := append([]sym.Expr{}, x.Shape...)
	shape[axis], shape[last] = length, sym.Const(2)
	switch {
	case n.Attrs.Bool("onesided") && n.Attrs.Bool("inverse"):
		shape[last] = one
	case n.Attrs.Bool("onesided"):
		shape[axis] = c.Dims().Simplify(length.FloorDiv(sym.Const(2)).Add(one))
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	room := length.Mul(sym.Const(hostop.FourierRoomMost)).Add(sym.Const(hostop.FourierRoom(0)))
	if known, ok := length.Const(); ok {
		room = sym.Const(hostop.FourierRoom(known))
	}
	n.Attrs["room"] = room
	// As in NumPy: forward in f64, inverse in f32 unless x is f64, so that rounding errors are those of NumPy.
	precision := dtype.F64
	if n.Attrs.Bool("inverse") && x.DType != dtype.F64 {
		precision = dtype.F32
	}
	n.Result(1, ir.Type{DType: precision, Shape: []sym.Expr{room}}) // scratch memory, which is zero after the call
	return nil
}

// fourierMean is the reference: it sums every product. An onesided inverse ignores the imaginary parts of the first and
// the middle number.
func fourierMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	room, err := result(e, n, 1)
	if err != nil {
		return nil, err
	}
	x, axis, last := in[0], n.Attrs.Int("axis", 0), in[0].Rank()-1
	length, err := e.Int(n.Attrs["length"].(sym.Expr))
	if err != nil {
		return nil, err
	}
	matrix := fourierTable(length, n.Attrs.Bool("inverse"), n.Attrs.Bool("onesided"))
	from, to := tensor.Strides(x.Shape()), tensor.Strides(out.Shape())
	rows := append([]int64{}, out.Shape()...)
	rows[axis], rows[last] = 1, 1
	tensor.Each(rows, func(at []int64) {
		tensor.Each([]int64{out.Shape()[axis], out.Shape()[last]}, func(k []int64) {
			sum := 0.0
			tensor.Each([]int64{min(x.Shape()[axis], length), x.Shape()[last]}, func(j []int64) {
				sum += x.Float(tensor.Offset(from, at)+j[0]*from[axis]+j[1]) * matrix(j, k)
			})
			out.SetFloat(tensor.Offset(to, at)+k[0]*to[axis]+k[1], sum)
		})
	})
	return []*tensor.Tensor{out, room}, nil
}

// fourierTable returns the factor from component j[1] of input j[0] to component k[1] of output k[0].
func fourierTable(length int64, inverse, onesided bool) func(j, k []int64) float64 {
	sign, scale := -1.0, 1.0
	if inverse {
		sign, scale = 1, 1/float64(length)
	}
	half := inverse && onesided
	return func(j, k []int64) float64 {
		weight := scale
		switch {
		case j[0] >= length || half && j[0] > length/2:
			return 0
		case half && j[0] > 0 && 2*j[0] != length:
			weight *= 2 // its mirror image counts as well
		}
		sin, cos := math.Sincos(2 * math.Pi * float64(j[0]*k[0]%length) / float64(length))
		sin *= sign
		switch {
		case j[1] == k[1]:
			return weight * cos
		case j[1] == 0:
			return weight * sin
		case half && (j[0] == 0 || 2*j[0] == length):
			return 0
		}
		return -weight * sin
	}
}

// fourierSamples returns transforms of several shapes, lengths and directions.
func fourierSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, c := range []struct {
		shape        []int64
		axis, length int64
	}{
		{[]int64{4, 1}, 0, 4}, {[]int64{1, 1}, 0, 1}, {[]int64{2, 7, 3, 2}, 1, 7}, {[]int64{3, 2, 6, 2}, -2, 5},
		{[]int64{5, 3, 1}, 0, 8},
		{[]int64{2, 16, 2}, 1, 16}, {[]int64{1, 37, 1}, 1, 37}, {[]int64{0, 5, 1}, 1, 5}, {[]int64{2, 9, 2}, 1, 2},
		{[]int64{2, 3, 1}, 1, 12},
		{[]int64{1, 600, 2}, 1, 600}, {[]int64{1, 512, 2}, 1, 1024}, {[]int64{2, 67, 2}, 1, 67}, {[]int64{1, 134, 1}, 1, 134},
		{[]int64{1, 45, 2}, 1, 45},
	} {
		for way := range 4 {
			if c.length > 512 && way != i%4 {
				continue
			}
			dt := floatTypes[(i+way)%len(floatTypes)]
			out = append(out, Sample{
				Attrs:  ir.Attrs{"axis": c.axis, "length": sym.Const(c.length), "inverse": way&1 != 0, "onesided": way&2 != 0},
				Inputs: []*tensor.Tensor{sampleNormal(r, dt, c.shape...)},
			})
		}
	}
	return out
}

// fourierGrad is the transform in the other direction: a Fourier transform is linear, and its matrix is symmetric.
func fourierGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	if up[0] == nil {
		return []*ir.Value{nil}
	}
	b, x, u := g.Builder, n.Inputs[0], up[0]
	axis, last := int(n.Attrs.Int("axis", 0)), len(x.Type.Shape)-1
	length, _ := n.Attrs["length"].(sym.Expr)
	inverse, onesided := n.Attrs.Bool("inverse"), n.Attrs.Bool("onesided")
	switch {
	case inverse:
		u = Fourier(b, u, int64(axis), length, false, onesided)
		if u = g.div(u, g.count(u, length)); onesided {
			u = g.mul(u, g.mirrored(u, axis, length))
		}
	default:
		u = g.mul(Fourier(b, u, int64(axis), length, true, false), g.count(u, length))
	}
	// Elements that were cut off have the derivative 0; derivatives by filled zeros are dropped.
	u = g.fitted(u, axis, x.Type.Shape[axis])
	if components, fixed := x.Type.Shape[last].Const(); !fixed || components == 1 {
		u = g.fitted(u, last, x.Type.Shape[last])
	}
	return []*ir.Value{u}
}

// mirrored multiplies u by the number of times that each number of a onesided transform occurs in the full one: twice,
// but once for the first and the middle one.
func (g *Gradients) mirrored(u *ir.Value, axis int, length sym.Expr) *ir.Value {
	b, line := g.Builder, slices.Repeat([]sym.Expr{one}, len(u.Type.Shape))
	line[axis] = u.Type.Shape[axis]
	at := Reshape(b, Counting(b, dtype.I64, line[axis]), line...)
	once := Binary(b, loop.Or, g.op(loop.Eq, at, g.integer(sym.Const(0))),
		g.op(loop.Eq, g.scaled(at, 2), g.integer(length)))
	return g.choose(once, g.number(u, 1), g.number(u, 2))
}

// fitted returns x cut, or filled with zeros, to an extent along an axis.
func (g *Gradients) fitted(x *ir.Value, axis int, extent sym.Expr) *ir.Value {
	rank := len(x.Type.Shape)
	return Pad(g.Builder, x, nil, "constant", zeros(rank), unit(rank, axis, extent.Sub(x.Type.Shape[axis])))
}
